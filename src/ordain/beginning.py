"""Whether a step whose turn has come begins: its condition, what must hold before it, a person's yes, its items.

Everything is looked at in that order, right before the intent is recorded, and nothing is begun by looking. The answer
is one event: the step begins, becomes steps of its own, is skipped, waits for a person, or goes where its failure
policy says.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence

import msgspec

from ordain.conditions import Conditions
from ordain.core.action import Task
from ordain.core.approval import Approval
from ordain.core.bound import OUTPUT_BYTES_MAX, STEPS_OF_RUN_MAX
from ordain.core.budget import may_begin
from ordain.core.condition import Precondition
from ordain.core.effect import effects_of
from ordain.core.event import (
    AttemptStarted,
    BudgetReached,
    ConditionFalse,
    GroupKind,
    RunEvent,
    StepApprovalAsked,
    StepState,
    StepUnfolded,
)
from ordain.core.expr import ExpressionError, Expressions
from ordain.core.group import nested_plan_of
from ordain.core.model import Plan, Step
from ordain.core.problem import Problem
from ordain.core.resolve import as_text
from ordain.core.result import Missing
from ordain.core.run_state import RunState
from ordain.core.schedule import not_held
from ordain.core.tool import ToolDefinition
from ordain.core.value import Instant, RunId, StepId
from ordain.ports import Panes
from ordain.results import Results
from ordain.sink import Sink

__all__ = ["Beginning", "Beginnings"]

LABELLED_MAX = 1000
LABEL_LENGTH = 60

Beginning = tuple[RunEvent, tuple[bytes, ...]]
"""The event that says how a step begins, or why it does not; and the bytes to be kept with it."""
BEGINS = (AttemptStarted, StepUnfolded)
"""The events with which a step begins."""


class Beginnings:
    """The first look at the steps of one run."""

    def __init__(
        self,
        state: RunState,
        *,
        results: Results,
        sink: Sink,
        tools: Mapping[str, ToolDefinition],
        expressions: Callable[[], Expressions],
        lock_holder: Callable[[str], RunId | None],
        approval: Approval | None,
        denied: Callable[[Step], Problem | None],
        panes: Panes | None,
        key: Callable[[StepId], str],
    ) -> None:
        """`denied` says what policy denies of a step whose values are known."""
        self._state, self._results, self._sink, self._tools = state, results, sink, tools
        self._expressions, self._lock_holder, self._panes = expressions, lock_holder, panes
        self._approval, self._denied, self._key = approval, denied, key

    def look(self, step_id: StepId, now: Instant) -> Beginning | None:
        """How a step begins whose turn has come; None where it waits until there is enough of a budget again."""
        found = self._look(step_id, now)
        if not self._state.budgeted or not isinstance(found[0], BEGINS):
            return found
        kept = may_begin(self._state, step_id, now)
        if isinstance(kept, BudgetReached):
            return kept, ()
        return found if kept is None else None

    def _look(self, step_id: StepId, now: Instant) -> Beginning:
        self._results.looked_at(step_id)
        step, record = self._state.step(step_id), self._state.steps[step_id]
        if step.when is not None and not record.attempts and record.broken is None:
            try:
                true = self._expressions().evaluate(step.when, self._results.variables(step_id, step.when))
            except ExpressionError as error:
                return self._fault(step_id, f"`when` gave no answer: {error}", now)
            if not true:
                return ConditionFalse(step=step_id, attempt=record.attempts), ()
        why = self._broken(step_id, step.preconditions)
        if why is not None:
            return self._fault(step_id, why, now)
        if step.for_each is not None:
            return self._items(step_id, now)
        nested = nested_plan_of(step)
        why = self._broken(step_id, nested.preconditions, nested) if nested is not None else None
        if why is not None:
            return self._fault(step_id, f"of its plan: {why}", now)
        if step.approval is not None or self._results.refers(step_id):
            stopped = self._decided(step_id, now)
            if stopped is not None:
                return stopped, ()
        if nested is not None:
            attempt, count = record.attempts + 1, len(nested.steps)
            if not self._state.has_room(count):
                return self._full(step_id, count, now)
            return StepUnfolded(step=step_id, attempt=attempt, kind=GroupKind.NESTED, count=count), ()
        agent = self._state.choice(step_id) if isinstance(step.action, Task) else None
        return AttemptStarted(
            step=step_id,
            attempt=record.attempts + 1,
            key=self._key(step_id),
            agent=agent.agent if agent is not None else "",
            why=agent.why if agent is not None else "",
        ), ()

    def _broken(self, step_id: StepId, conditions: Sequence[Precondition], of: Plan | None = None) -> str | None:
        """What of these does not hold first, in words."""
        if not conditions:
            return None
        here = self._conditions(step_id, of)
        return next((why for one in conditions if (why := here.fault(one)) is not None), None)

    def _conditions(self, step_id: StepId, of: Plan | None = None) -> Conditions:
        """Those of a step, or of the plan nested in it."""
        return Conditions(
            run_id=self._state.run_id,
            lock_holder=self._lock_holder,
            approval=self._approval,
            passed=lambda name: self._not_passed(step_id, name),
            variables=lambda expression: self._results.variables(step_id, expression, of=of),
            expressions=self._expressions,
            panes=self._panes,
        )

    def _not_passed(self, step_id: StepId, name: str) -> str | None:
        other = self._state.steps.get(self._state.named(step_id, name))
        if other is None:
            return f"there is no step `{name}`"
        return None if other.state is StepState.PASSED else f"`{name}` has not passed: it is {other.state.value}"

    def _fault(self, step_id: StepId, why: str, now: Instant, error: str = "F_PRECONDITION") -> Beginning:
        return not_held(self._state, step_id, error, self._sink.text(why), now), ()

    def _full(self, step_id: StepId, count: int, now: Instant) -> Beginning:
        why = f"with the {count:,} steps that it becomes the run would have more than {STEPS_OF_RUN_MAX:,}"
        return self._fault(step_id, why, now)

    def _items(self, step_id: StepId, now: Instant) -> Beginning:
        try:
            items = self._results.listed(step_id)
        except Missing as missing:
            return self._fault(step_id, f"it cannot be repeated: {missing}", now)
        if not self._state.has_room(len(items)):
            return self._full(step_id, len(items), now)
        data = json.dumps(items, ensure_ascii=False).encode()
        if len(data) > OUTPUT_BYTES_MAX:
            return self._fault(step_id, f"its items take {len(data):,} bytes, which is too much", now)
        event = StepUnfolded(
            step=step_id,
            attempt=self._state.steps[step_id].attempts + 1,
            kind=GroupKind.ITEMS,
            count=len(items),
            items_seal=self._sink.seal(data),
            labels=tuple(self._label(item) for item in items) if len(items) <= LABELLED_MAX else (),
        )
        return event, (data,)

    def _label(self, item: object) -> str:
        """An item in so few words that it can stand on a line."""
        words = " ".join(self._sink.text(as_text(item)).split())
        return words if len(words) <= LABEL_LENGTH else f"{words[: LABEL_LENGTH - 1]}…"

    def _decided(self, step_id: StepId, now: Instant) -> RunEvent | None:
        """What keeps a step from beginning now that its values are known: policy denies it, or a person has to say yes
        to exactly that."""
        step, record = self._state.step(step_id), self._state.steps[step_id]
        try:
            known = self._results.step(step_id)
        except Missing:
            return None  # the attempt says so
        denied = self._denied(known)
        if denied is not None:
            return not_held(self._state, step_id, "F_POLICY_DENIED", self._sink.text(denied.detail), now)
        if step.approval is not None:
            reason = "the plan wants a person's yes before it"
        elif any(effect.destructive for effect in effects_of(known, self._tools)):
            reason = "it destroys what was not known yet when the plan was approved"
        else:
            return None
        # Results of steps may be any JSON, which is more than can stand in a plan.
        body = json.dumps(msgspec.to_builtins(known.action), ensure_ascii=False, sort_keys=True).encode()
        seal = self._sink.seal(body)
        if record.allowed == seal:
            return None
        shown = self._sink.text(body.decode())
        return StepApprovalAsked(step=step_id, attempt=record.attempts, reason=reason, shown=shown, seal=seal)
