"""Files that must stay as they are: what a plan protects is put back, and what commands read is compared. Of protected
files a change is recorded first and put back then, so that after a crash in between it is found again. Nothing here
judges."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from contextlib import suppress

from msgspec.structs import replace

from ordain.core.plan.tool import ToolDefinition
from ordain.core.plan.value import StepId
from ordain.core.policy.bound_file import Scripts, Writes, named_files
from ordain.core.policy.loading import is_named_by, is_runner_file, may_write
from ordain.core.policy.path_use import ABSENT, changed
from ordain.core.run.event import ProtectedChanged
from ordain.core.run.run_state import RunState
from ordain.core.run.step_event import FilesProtected, ProtectedFile, Settlement, StepState
from ordain.core.text.problem import Refused, refuse
from ordain.engine.journal import Journal
from ordain.ports.workspace import Protection, Saved

_NOTHING: tuple[Mapping[str, Saved], tuple[str, ...] | None] = ({}, None)


class Shield:
    """Protects the files of one run."""

    def __init__(self, journal: Journal, protection: Protection) -> None:
        self._journal, self._protection = journal, protection
        self._state, self._ledger = journal.state, journal.ledger
        self._one_at_a_time = asyncio.Lock()
        self._at_work: dict[StepId, None] = {}

    async def before(self, step_id: StepId) -> None:
        """Keep what must not change before an attempt. Raises Refused with E_PROTECT where that cannot be done."""
        if not self._state.protects(step_id):
            return
        async with self._one_at_a_time:
            state, one = self._state, self._state.steps[step_id]
            (of_plan, beside_plan), (of_step, beside_step) = _NOTHING, _NOTHING
            # New files that this very step made in an earlier attempt stay its own, and so does what others are making.
            if state.protected is None or (one.protected is None and not self._at_work):
                of_plan, beside_plan = await self._keep(state.plan.protect, state.protected or (), state.beside or ())
            if one.protected is None:
                of_step, beside_step = await self._keep(state.step(step_id).protect, (), ())
            event = FilesProtected(
                step=step_id,
                attempt=one.attempts,
                of_plan=self._sealed(of_plan),
                of_step=self._sealed(of_step),
                beside_plan=beside_plan,
                beside_step=beside_step,
            )
            contents = {saved.content for saved in (*of_plan.values(), *of_step.values())}
            await self._journal.record(event, keeps=tuple(contents))
            self._at_work[step_id] = None

    async def _keep(
        self, patterns: Sequence[str], known: Collection[str], beside: Collection[str]
    ) -> tuple[Mapping[str, Saved], tuple[str, ...] | None]:
        """What these patterns protect, files that say how it is run among them, and what else is there now."""
        if not patterns:
            return _NOTHING
        saved = dict(await self._protection.save(patterns, known))
        found = await self._protection.beside(patterns, (*known, *saved))
        every = [may_write(step) for step in self._state.defined.values()]
        protected = {*known, *saved}
        runner = [path for path in {*found} - protected if is_runner_file(path)]
        runner = [path for path in runner if not any(is_named_by(path, writes, protected) for writes in every)]
        saved.update(await self._protection.save(runner, protected) if runner else {})
        return saved, tuple(sorted({*found} - {*known, *saved, *beside}))

    async def verifying(self, step_id: StepId) -> None:
        """A step's contract is about to run, which is work as well. It runs nothing that the step has compiled."""
        state = self._state
        if state.protects(step_id):
            self._at_work[step_id] = None
            await self._protection.drop_caches({**(state.protected or {}), **(state.steps[step_id].protected or {})})

    async def look(self, step_id: StepId) -> None:
        """Compare, record what changed and put it back. Raises Refused with E_PROTECT where that cannot be done."""
        if self._state.protects(step_id):
            async with self._one_at_a_time:
                await self._compare(step_id, self._journal.record)

    async def after(self, step_id: StepId) -> None:
        """The same when a step's effect or contract has come to its end."""
        await self.look(step_id)
        self._at_work.pop(step_id, None)

    async def take_over(self) -> None:
        """After a crash: whatever was begun then, a step or its contract, may have changed something."""
        state = self._state
        for step_id in (*state.active, *state.doubtful):
            one = state.steps[step_id]
            contract = one.state is StepState.VERIFYING or one.settle is Settlement.CONTRACT
            if state.protects(step_id) and (contract or (one.state is StepState.RUNNING and one.protected_now)):
                self._at_work[step_id] = None
        for step_id in tuple(self._at_work):
            await self._compare(step_id, self._journal.write)
        self._at_work.clear()

    async def _compare(self, step_id: StepId, record: Callable[[ProtectedChanged], Awaitable[None]]) -> None:
        state = self._state
        of_step, protected = state.steps[step_id].protected or {}, state.protected or {}
        of_plan = await self._protection.changed(protected, self._ledger.seal)
        own = await self._protection.changed(of_step, self._ledger.seal)
        new_of_plan = await self._new(state.plan.protect, protected, state.beside)
        new_own = await self._new(state.step(step_id).protect, of_step, state.steps[step_id].beside)
        if not (of_plan or own or new_of_plan or new_own):
            return
        suspects = [step for step in self._at_work if of_plan or new_of_plan or step == step_id]
        became = {**own, **of_plan}
        new = dict.fromkeys((*new_own, *new_of_plan), "is new")
        words = tuple(f"`{path}` {what}" for path, what in sorted({**became, **new}.items()))
        await record(ProtectedChanged(files=words, steps=tuple(suspects)))
        if new:  # first, for a link may stand where a protected file was
            await self._protection.set_aside(new)
        await self._protection.restore(self._kept({**of_step, **protected}, became))

    async def _new(
        self, patterns: Sequence[str], protected: Collection[str], beside: Collection[str] | None
    ) -> list[str]:
        """New files that a pattern means or that change how protected ones load, which no begun step may write."""
        if beside is None or not patterns:
            return []
        state = self._state
        writes = [may_write(state.step(name)) for name, one in state.steps.items() if one.attempts]
        found = {*await self._protection.beside(patterns, protected)} - {*protected, *beside}
        return sorted(path for path in found if not any(is_named_by(path, one, protected) for one in writes))

    def _sealed(self, files: Mapping[str, Saved]) -> dict[str, ProtectedFile]:
        return {
            path: ProtectedFile(seal=self._ledger.seal(saved.content), size=len(saved.content), mode=saved.mode)
            for path, saved in files.items()
        }

    def _kept(self, files: Mapping[str, ProtectedFile], became: Collection[str]) -> dict[str, Saved]:
        found = {}
        for path in became:
            content = self._ledger.kept(files[path].seal)
            if content is None:
                raise refuse(
                    "E_PROTECT",
                    f"The protected file `{path}` was changed, and what it was is not kept in this ledger.",
                    "A ledger that was made from an export has events only; put the file back yourself.",
                )
            found[path] = Saved(content=content, mode=files[path].mode)
        return found


class BoundFiles:
    """What the steps of one run read, as it was bound. Steps that began may have changed it: what they write is passed
    over, and once one began that may write anything, nothing is compared any more."""

    def __init__(
        self,
        state: RunState,
        bound: Mapping[str, str],
        *,
        tools: Mapping[str, ToolDefinition],
        scripts: Scripts,
        contents: Callable[[Collection[str], Collection[str]], Mapping[str, str]],
        shown: Callable[[str], str],
        real: Callable[[str], str],
    ) -> None:
        """`shown` is how `bound` spells a path, `real` where it leads; `contents` is what is there now."""
        self._state, self._bound, self._contents, self._shown = state, bound, contents, shown
        self._scripts = scripts
        self._writes = Writes(tools, scripts, state.limits_in_force.tier, real)
        self._begun = 0
        self._left: dict[StepId, tuple[int, Mapping[str, str]]] = {}
        """What steps that are tried again had left of their files, and how many attempts had begun by then."""
        for step_id, record in state.steps.items():
            if record.attempts:
                self._writes.add(state.step(step_id))

    def began(self, step_id: StepId) -> None:
        """An attempt begins, and may write from now on."""
        self._begun += 1
        if not self._writes.anything:
            self._writes.add(self._state.step(step_id))

    def ended(self, step_id: StepId) -> None:
        """An attempt has failed, or its contract: until it is tried again nobody may change what it reads."""
        if self._alone(step_id):
            named = named_files(self._state.step(step_id), self._scripts)
            with suppress(Refused):
                self._left[step_id] = self._begun, self._contents(named.paths, named.patterns)

    def _alone(self, step_id: StepId) -> bool:
        return all(other == step_id for other in self._state.active)

    def fault(self, step_id: StepId) -> str | None:
        """What a step reads that is not what was bound, in words. Raises Refused where nobody can look."""
        count, left = self._left.get(step_id, (-1, {}))
        again = count == self._begun and self._alone(step_id)
        if self._writes.anything and not again:
            return None
        named = named_files(self._state.step(step_id), self._scripts)
        if not named.paths and not named.patterns:
            return None
        now = self._contents(named.paths, named.patterns)
        record = self._state.steps[step_id]
        if record.decisions and not record.failures:  # a person had it tried again, now that a missing file is there
            there = left if again else self._bound
            now = {path: what for path, what in now.items() if there.get(path, ABSENT) != ABSENT}
        if again:
            found = changed(left, now)
            return f"what it reads has changed since its last attempt: {', '.join(found)}" if found else None
        before = replace(named, paths=frozenset(map(self._shown, named.paths))).of(self._bound)
        kept = [path for path in before.keys() | now.keys() if not self._writes.may_change(path)]
        found = changed(*({path: look[path] for path in kept if path in look} for look in (before, now)))
        return f"what it reads is not what was bound when the run was permitted: {', '.join(found)}" if found else None
