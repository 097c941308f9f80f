"""The files that commands read, compared once more before each step with what the run was started on."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from contextlib import suppress

from msgspec.structs import replace

from ordain.core.plan.tool import ToolDefinition
from ordain.core.plan.value import StepId
from ordain.core.policy.bound_file import Scripts, Writes, named_files
from ordain.core.policy.path_use import ABSENT, changed
from ordain.core.run.run_state import RunState
from ordain.core.text.problem import Refused


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
        """`shown` is how `bound` spells a path, `real` where it leads, and `contents` what is at paths and
        patterns now, in the same form."""
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
        """What a step reads that is not what was bound, in words; None where it may begin. Raises
        Refused where nobody can look: that is no change, and the run can go on once it can be looked at."""
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
