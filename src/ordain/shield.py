"""Keeps protected files as they were: kept before an effect, compared after it, put back before anything goes on.

What the plan protects is compared whenever any step comes to an end, and counts against every step that was at work;
what a step itself protects is its own affair. A change is recorded first and put back then, so that after a crash in
between it is found again. Nothing here judges: a step that was at work while files changed is failed by `core`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Coroutine, Mapping
from typing import Any

from ordain.core.event import FilesProtected, ProtectedChanged, ProtectedFile, RunEvent, Settlement, StepState
from ordain.core.problem import refuse
from ordain.core.run_state import RunState
from ordain.core.value import StepId
from ordain.ports import Ledger, Protection, Saved

__all__ = ["Shield"]

Record = Callable[[RunEvent, tuple[bytes, ...]], Coroutine[Any, Any, None]]
"""Make an event durable, with these bytes kept beside it."""


class Shield:
    """Protects the files of one run."""

    def __init__(self, state: RunState, protection: Protection, ledger: Ledger) -> None:
        self._state, self._protection, self._ledger = state, protection, ledger
        self._one_at_a_time = asyncio.Lock()
        self._at_work: dict[StepId, None] = {}
        """The steps whose effect or contract is under way."""

    async def before(self, step_id: StepId, record: Record) -> None:
        """Keep what must not change before an attempt does anything. Raises Refused with E_PROTECT where that cannot be
        done; then nothing may be done."""
        if not self._state.protects(step_id):
            return
        async with self._one_at_a_time:
            state, one = self._state, self._state.steps[step_id]
            of_plan: Mapping[str, Saved] = {}
            of_step: Mapping[str, Saved] = {}
            # New files that this very step made in an earlier attempt stay its own, and so does what others are making.
            if state.protected is None or (one.protected is None and not self._at_work):
                of_plan = await self._protection.save(state.plan.protect, state.protected or ())
            if one.protected is None:
                of_step = await self._protection.save(state.step(step_id).protect, ())
            event = FilesProtected(
                step=step_id, attempt=one.attempts, of_plan=self._sealed(of_plan), of_step=self._sealed(of_step)
            )
            await record(event, tuple({saved.content for saved in (*of_plan.values(), *of_step.values())}))
            self._at_work[step_id] = None

    def verifying(self, step_id: StepId) -> None:
        """A step's contract is about to run, which is work as well."""
        if self._state.protects(step_id):
            self._at_work[step_id] = None

    async def look(self, step_id: StepId, record: Record) -> None:
        """Compare, record what changed and put it back, whether the step is at work or not. Raises Refused with
        E_PROTECT where something cannot be put back; the run must not go on then."""
        if self._state.protects(step_id):
            async with self._one_at_a_time:
                await self._compare(step_id, record)

    async def after(self, step_id: StepId, record: Record) -> None:
        """The same when a step's effect or contract has come to its end."""
        await self.look(step_id, record)
        self._at_work.pop(step_id, None)

    async def take_over(self, record: Record) -> None:
        """After a crash: whatever was begun then, a step or its contract, may have changed something."""
        state = self._state
        for step_id in (*state.active, *state.doubtful):
            one = state.steps[step_id]
            contract = one.state is StepState.VERIFYING or one.settle is Settlement.CONTRACT
            if state.protects(step_id) and (contract or (one.state is StepState.RUNNING and one.protected_now)):
                self._at_work[step_id] = None
        for step_id in tuple(self._at_work):
            await self.look(step_id, record)
        self._at_work.clear()

    async def _compare(self, step_id: StepId, record: Record) -> None:
        state = self._state
        of_step, protected = state.steps[step_id].protected or {}, state.protected or {}
        of_plan = await self._protection.changed(protected, self._ledger.seal)
        own = await self._protection.changed(of_step, self._ledger.seal)
        if not of_plan and not own:
            return
        suspects = [step for step in self._at_work if of_plan or step == step_id]
        became = {**own, **of_plan}
        words = tuple(f"`{path}` {what}" for path, what in sorted(became.items()))
        await record(ProtectedChanged(files=words, steps=tuple(suspects)), ())
        await self._protection.restore(self._kept({**of_step, **protected}, became))

    def _sealed(self, files: Mapping[str, Saved]) -> dict[str, ProtectedFile]:
        return {
            path: ProtectedFile(seal=self._ledger.seal(saved.content), size=len(saved.content), mode=saved.mode)
            for path, saved in files.items()
        }

    def _kept(self, files: Mapping[str, ProtectedFile], changed: Collection[str]) -> dict[str, Saved]:
        found = {}
        for path in changed:
            content = self._ledger.kept(files[path].seal)
            if content is None:
                raise refuse(
                    "E_PROTECT",
                    f"The protected file `{path}` was changed, and what it was is not kept in this ledger.",
                    "A ledger that was made from an export has events only; put the file back yourself.",
                )
            found[path] = Saved(content=content, mode=files[path].mode)
        return found
