"""The results of steps, read where they are kept, for references and expressions of other steps. They are exact: what a
step gave, not what is shown of it. One that was left out gave nothing, and neither did one whose output is not kept
whole."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Mapping
from functools import cached_property, partial
from typing import Any

from msgspec.structs import replace

from ordain.core.plan import refs
from ordain.core.plan.action import CallTool
from ordain.core.plan.canonical import step_key
from ordain.core.plan.command import payload, with_payload
from ordain.core.plan.expr import named
from ordain.core.plan.model import Plan, Step, all_steps, item_name, nested_plan_of
from ordain.core.plan.tool import ToolDefinition
from ordain.core.plan.value import StepId
from ordain.core.run.attempt import is_whole
from ordain.core.run.result import Missing, Unfit, decoded, fitted, items_in, part_of, referred_to
from ordain.core.run.run_state import StepRecord
from ordain.core.run.step_event import GroupKind, Outcome, StepState
from ordain.engine.journal import Journal
from ordain.records.removal import removed_seals
from ordain.records.sink import Sink

_NEVER_RUN = StepRecord()
"""What is known of a fallback that nobody fell back on."""


class Results:
    """What the steps of one run gave so far."""

    def __init__(self, journal: Journal, sink: Sink, tools: Mapping[str, ToolDefinition]) -> None:
        self._state, self._journal, self._sink, self._tools = journal.state, journal, sink, tools
        self._items: dict[str, list[Any]] = {}
        self._seen_outputs: dict[StepId, tuple[Outcome, dict[str, Any]]] = {}
        """What expressions asked about, by the outcome that it is of: thousands of items may ask the same."""
        self._begun_with: dict[StepId, dict[str, StepId]] = {}
        """Of steps that have begun and refer to stored data: which step had stored each key by then."""
        self._keys: dict[StepId, str] = {}
        self._refers: dict[StepId, bool] = {}

    def output(self, step_id: StepId) -> Any:
        """The result of a step. Raises Missing."""
        record = self._state.steps.get(step_id)
        if record is None:
            raise Missing("was not run")  # a fallback that nobody fell back on
        outcome = record.outcome
        if outcome is None or record.state is not StepState.PASSED:
            raise Missing(f"was {record.state.value} and gave nothing")
        if not outcome.output_bytes:
            return None if outcome.output_json else ""
        data = self._bytes(step_id, outcome.output_seal, outcome.output_bytes)
        return decoded(outcome, data, self._state.step(step_id).action)

    def _bytes(self, step_id: StepId, seal: str, size: int) -> bytes:
        if is_whole(seal):
            parts = self._journal.artifact(seal)
            data = b"".join(parts) if parts is not None else None
        else:
            data = self._journal.kept(seal)
        if data is None:
            raise Missing(f"gave a result that {self._why_not_kept(step_id, seal)}")
        if len(data) != size:
            raise Missing(f"gave {size:,} bytes, of which only the end is kept")
        return data

    def _why_not_kept(self, step_id: StepId, seal: str) -> str:
        removed = removed_seals(self._journal.ledger).get(seal)
        if removed is None:
            return "is not kept in this ledger"
        while (member := self._state.members.get(step_id)) is not None:
            step_id = member.parent
        return f"was {removed}; to produce it again: ordain rerun {self._state.run_id} --from {step_id}"

    def step(self, step_id: StepId) -> Step:
        """A step with the values that its action refers to. Raises Missing, and Unfit where one cannot stand there."""
        step = self._state.step(step_id)
        if not self.refers(step_id):
            return step
        item = self._item_name(step_id)
        try:
            values = partial(refs.resolved, resolve=lambda one, whole: self._value(step_id, one), item=item)
            return replace(step, action=fitted(step.action, with_payload(step.action, values), self._tools, item))
        except refs.Unwritable as error:
            raise Unfit(str(error)) from error

    def call(self, step_id: StepId) -> tuple[str, Mapping[str, Any]] | None:
        """The tool that a step calls and its arguments; None where it calls none, or refers to what is not there."""
        with contextlib.suppress(Missing):
            if isinstance(self._state.step(step_id).action, CallTool):
                action = self.step(step_id).action
                assert isinstance(action, CallTool)
                return action.tool, refs.literal(action.args)
        return None

    def refers(self, step_id: StepId) -> bool:
        """Whether what a step does depends on what others gave."""
        if step_id not in self._refers:  # it is asked several times before each attempt, and the plan stays as it is
            values = payload(self._state.step(step_id).action)
            self._refers[step_id] = bool(values) and any(
                True for _ in refs.references(values, self._item_name(step_id))
            )
        return self._refers[step_id]

    @cached_property
    def referred(self) -> frozenset[str]:
        """The names of steps whose results others refer to, in whichever plan."""
        plans = (self._state.plan, *(nested_plan_of(step) for step in all_steps(self._state.plan)))
        return frozenset().union(*(referred_to(plan) for plan in plans if plan is not None))

    def key(self, step_id: StepId) -> str:
        """The step key of the attempt under way; nothing where there is none."""
        return self._keys.get(step_id, "")

    def new_key(self, step_id: StepId) -> str:
        """The idempotency key of what an attempt is about to do; with another value it is another thing to do."""
        state, seal = self._state, ""
        if self.refers(step_id):
            self._begun(step_id)
            with contextlib.suppress(Missing):  # the attempt says so
                values = payload(self.step(step_id).action)
                seal = self._sink.seal(json.dumps(values, sort_keys=True).encode())
        action = state.step(step_id).action
        self._keys[step_id] = step_key(state.workspace_identity.id, state.first_run, step_id, action, seal)
        return self._keys[step_id]

    def looked_at(self, step_id: StepId) -> None:
        """A step may begin: what it refers to is what is there now."""
        self._begun_with.pop(step_id, None)

    def _begun(self, step_id: StepId) -> None:
        """A step begins with what was looked at and allowed, whatever is stored under the same keys from here on."""
        item, state = self._item_name(step_id), self._state
        found = (refs.parse(text, item) for text in refs.references(payload(state.step(step_id).action), item))
        sources = [one.source for one in found if isinstance(one, refs.Reference)]
        keys = [source.key for source in sources if isinstance(source, refs.StoredData)]
        if keys:
            stored = state.stored(step_id)
            self._begun_with[step_id] = {key: stored[key] for key in keys if key in stored}

    def listed(self, step_id: StepId) -> list[Any]:
        """The items for which a step is to be repeated, in batches where it says so. Raises Missing."""
        each = self._state.step(step_id).for_each
        assert each is not None
        reference = refs.parse(each.source)
        assert isinstance(reference, refs.Reference)
        value = self._value(step_id, reference)
        try:
            items = items_in(value)
        except Missing as missing:
            raise Missing(f"`{each.source}` {missing}") from None
        if each.batch is not None:
            items = [items[at : at + each.batch] for at in range(0, len(items), each.batch)]
        if len(items) > each.max:
            raise Missing(f"`{each.source}` gave {len(items):,} items, and at most {each.max:,} are allowed")
        return items

    def _item_name(self, step_id: StepId) -> str:
        owner = self._repeated(step_id)
        return item_name(self._state.step(owner)) if owner is not None else "item"

    def _repeated(self, step_id: StepId) -> StepId | None:
        member = self._state.members.get(step_id)
        return member.parent if member is not None and member.kind is GroupKind.ITEMS else None

    def _value(self, step_id: StepId, reference: refs.Reference) -> Any:
        try:
            return self._found(step_id, reference)
        except Missing as missing:
            if reference.default is not None:
                return reference.default.value
            raise Missing(f"`{refs.spelt(reference)}` {missing}") from None

    def _found(self, step_id: StepId, reference: refs.Reference) -> Any:
        state = self._state
        match reference.source:
            case refs.StepOutput(step=name, path=path):
                return part_of(self.output(state.named(step_id, name)), path)
            case refs.StepExitCode(step=name):
                other = state.steps.get(state.named(step_id, name))
                outcome = other.outcome if other is not None else None
                if outcome is None or outcome.exit_code is None:
                    raise Missing("has no exit status")
                return outcome.exit_code
            case refs.StepAnsweredBy(step=name):
                other = state.steps.get(state.named(step_id, name))
                if other is None or other.decided_by is None:
                    raise Missing("was answered by nobody")
                return other.decided_by
            case refs.StoredData(key=key, path=path):
                stored = self._begun_with.get(step_id, state.stored(step_id))
                if key not in stored:
                    raise Missing("was not stored")
                return part_of(self.output(stored[key]), path)
            case refs.ParamValue(name=name):
                parameter = state.plan_around(step_id).params.get(name)
                if parameter is None or parameter.default is None:
                    raise Missing("was not given")
                return parameter.default
            case refs.Item(path=path):
                return part_of(self._item(step_id), path)
            case refs.Index():
                return state.members[step_id].index

    def own_item(self, step_id: StepId) -> tuple[str, str, Any] | None:
        """The step's item: its name in the plan, which one it is, itself; None where it is none. Raises Missing."""
        parent = self._repeated(step_id)
        if parent is None:
            return None
        number, count = self._state.members[step_id].index + 1, len(self._state.groups[parent].members)
        return self._item_name(step_id), f"item {number:,} of {count:,}", self._item(step_id)

    def _item(self, step_id: StepId) -> Any:
        parent = self._repeated(step_id)
        if parent is None:
            raise Missing("is not repeated")
        seal = self._state.groups[parent].items_seal  # of the items as they were when the step unfolded
        if seal not in self._items:
            data = self._journal.kept(seal)
            if data is None:
                raise Missing("is not kept in this ledger")
            self._items[seal] = json.loads(data)
        return self._items[seal][self._state.members[step_id].index]

    def variables(
        self, step_id: StepId, expression: str, *, own_end: bool = False, of: Plan | None = None
    ) -> dict[str, Any]:
        """What an expression of a step, or of the plan nested in it, may ask about, as the harness saw it: the steps
        and data that it names, the parameters, its item; with `own_end`, how the step itself ended."""
        state, used = self._state, named(expression)
        params = (of or state.plan_around(step_id)).params
        stored = state.stored(step_id) if of is None else {}
        variables: dict[str, Any] = {
            "steps": {name: self._seen(state.named(step_id, name)) for name in used.steps},
            "data": {key: self._seen(stored[key]).get("output") for key in used.data if key in stored},
            "params": {name: params[name].default for name in used.params if name in params},
        }
        if self._repeated(step_id) is not None:
            variables["index"] = state.members[step_id].index
            with contextlib.suppress(Missing):  # then there is nothing of that name to ask about
                variables[self._item_name(step_id)] = self._item(step_id)
        if own_end:
            variables |= {name: value for name, value in self._seen(step_id).items() if name != "status"}
        return variables

    def _seen(self, step_id: StepId) -> dict[str, Any]:
        """What is known of a step. An output that is not kept whole is not there to be asked about."""
        record = self._state.steps.get(step_id, _NEVER_RUN)
        outcome, status = record.outcome, record.state.value
        if outcome is None:
            return {"exit_code": None, "status": status}
        known = self._seen_outputs.get(step_id)
        if known is None or known[0] is not outcome:  # of another attempt
            known = self._seen_outputs[step_id] = outcome, self._seen_output(step_id, outcome)
        return {"exit_code": outcome.exit_code, "status": status, **known[1]}

    def _seen_output(self, step_id: StepId, outcome: Outcome) -> dict[str, Any]:
        kept = self._journal.kept(outcome.output_seal) or b""
        if outcome.output_bytes == len(kept):
            readable = kept.decode("utf-8", "replace").encode()
            with contextlib.suppress(Missing):  # then there is nothing to ask about
                return {"output": decoded(outcome, readable, self._state.step(step_id).action)}
        return {}
