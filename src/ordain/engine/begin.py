"""Whether a step whose turn has come begins: its condition, what must hold before it, a person's yes, its items. All is
looked at in that order, right before the intent is recorded, and nothing is begun by looking: the answer is one
event."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any, assert_never

import msgspec

from ordain.core.approval.approval import Approval
from ordain.core.plan.action import Task
from ordain.core.plan.condition import (
    ApprovalScope,
    ApprovalValid,
    CustomCondition,
    LockAvailable,
    LockHeld,
    PaneExists,
    PaneState,
    PatternMatched,
    PatternNotMatched,
    Precondition,
    StepCompleted,
)
from ordain.core.plan.expr import ExpressionError
from ordain.core.plan.model import Plan, nested_plan_of
from ordain.core.plan.refs import as_text
from ordain.core.plan.value import Instant, RunId, StepId
from ordain.core.policy.effect import effects_of
from ordain.core.run.budget import may_begin
from ordain.core.run.event import BudgetReached, RunEvent
from ordain.core.run.result import Missing
from ordain.core.run.schedule import not_held
from ordain.core.run.step_event import (
    AttemptEnded,
    AttemptStarted,
    ConditionFalse,
    ContractBroken,
    ContractInconclusive,
    GroupKind,
    StepApprovalAsked,
    StepState,
    StepUnfolded,
)
from ordain.core.text.limit import OUTPUT_BYTES_MAX, STEPS_OF_RUN_MAX
from ordain.engine.context import RunContext
from ordain.ports.ports import Ports

# --- Conditions: only looks, and what cannot be told does not hold ---------------------------------------------------


def covers(approval: Approval | None, scope: ApprovalScope) -> str | None:
    """Why this run's approval does not cover a kind of action, as the end of a sentence; None where it does."""
    if approval is None:
        return "is missing: this run needed none and has none"
    if scope.action_kind not in approval.action_kinds:
        return f"does not cover the action kind `{scope.action_kind}`"
    if scope.workspace_id not in (None, approval.workspace.id):
        return f"is for another workspace than `{scope.workspace_id}`"
    if scope.pane_id is not None and str(scope.pane_id) not in approval.panes:
        return f"does not cover the pane {scope.pane_id}"
    return None


class Conditions(msgspec.Struct, frozen=True, kw_only=True):
    """What holds here and now, for one run, which holds nothing before it begins. `passed` says why a step has not
    passed, None where it has; `variables` is what an expression may ask about."""

    ports: Ports
    run_id: RunId | None
    lock_holder: Callable[[str], RunId | None]
    approval: Approval | None
    passed: Callable[[str], str | None]
    variables: Callable[[str], Mapping[str, Any]]

    def fault(self, condition: Precondition) -> str | None:
        """Why a condition does not hold, in words; None where it does."""
        match condition:
            case LockHeld(lock_name=name):
                holder = self.lock_holder(name)
                whose = f"{holder} holds it" if holder is not None else "nobody holds it"
                held = holder is not None and holder == self.run_id
                return None if held else f"this run does not hold the lock `{name}`; {whose}"
            case LockAvailable(lock_name=name):
                holder = self.lock_holder(name)
                return None if holder in (None, self.run_id) else f"the lock `{name}` is held by {holder}"
            case ApprovalValid(scope=scope):
                why = covers(self.approval, scope)
                return f"the approval {why}" if why is not None else None
            case StepCompleted(step_id=name):
                return self.passed(name)
            case CustomCondition(name=name, expression=expression):
                return self.false(f"`{name}`", expression)
            case PaneExists() | PaneState() | PatternMatched() | PatternNotMatched():
                if self.ports.panes is None:
                    return "no panes can be looked at here"
                return self.ports.panes.fault(condition)
            case _:
                assert_never(condition)

    def false(self, what: str, expression: str) -> str | None:
        """Why an expression is not true, in words; None where it is."""
        try:
            held = self.ports.expressions().evaluate(expression, self.variables(expression))
        except ExpressionError as error:
            return f"{what} gave no answer: {error}"
        return None if held else f"{what} is false: {expression}"


# --- Beginning -------------------------------------------------------------------------------------------------------

LABELLED_MAX = 1000
LABEL_LENGTH = 60

Beginning = tuple[RunEvent, tuple[bytes, ...]]
"""The event that says how a step begins, or why it does not; and the bytes to be kept with it."""


class Beginnings:
    """The first look at the steps of one run."""

    def __init__(self, run: RunContext) -> None:
        self._run, self._state, self._results, self._sink = run, run.state, run.results, run.sink
        self._bound = run.opened.bound

    def look(self, step_id: StepId, now: Instant) -> Beginning | None:
        """How a step begins whose turn has come; None where it waits until there is enough of a budget again."""
        found = self._look(step_id, now)
        if self._state.budgeted and isinstance(found[0], AttemptStarted | StepUnfolded):
            kept = may_begin(self._state, step_id, now)
            if kept is not None:
                return (kept, ()) if isinstance(kept, BudgetReached) else None
        if self._bound is not None and isinstance(found[0], AttemptStarted):
            self._bound.began(step_id)
        return found

    def folded(self, event: RunEvent) -> None:
        """Where an attempt has ended that may be tried again, what it reads must stay as it is."""
        if self._bound is None or not isinstance(event, AttemptEnded | ContractBroken | ContractInconclusive):
            return
        if self._state.steps[event.step].state not in (StepState.PASSED, StepState.VERIFYING):
            self._bound.ended(event.step)

    def _look(self, step_id: StepId, now: Instant) -> Beginning:
        self._results.looked_at(step_id)
        step, record = self._state.step(step_id), self._state.steps[step_id]
        if step.when is not None and not record.attempts and record.broken is None:
            try:
                true = self._run.ports.expressions().evaluate(step.when, self._results.variables(step_id, step.when))
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
        if not self._results.refers(step_id) and (denied := self._run.authority.denied(step)) is not None:
            return self._fault(step_id, denied.detail, now, "F_POLICY_DENIED")
        why = self._bound.fault(step_id) if self._bound is not None else None
        if why is not None:
            return self._fault(step_id, why, now, "F_INPUT_CHANGED")
        agent = self._state.choice(step_id) if isinstance(step.action, Task) else None
        return AttemptStarted(
            step=step_id,
            attempt=record.attempts + 1,
            key=self._results.new_key(step_id),
            agent=agent.agent if agent is not None else "",
            why=agent.why if agent is not None else "",
        ), ()

    def _broken(self, step_id: StepId, conditions: Sequence[Precondition], of: Plan | None = None) -> str | None:
        """What of these conditions of a step, or `of` the plan nested in it, does not hold first, in words."""
        here = Conditions(
            ports=self._run.ports,
            run_id=self._state.run_id,
            lock_holder=lambda name: self._run.records.lock(name).holder,
            approval=self._run.opened.approval,
            passed=lambda name: self._not_passed(step_id, name),
            variables=lambda expression: self._results.variables(step_id, expression, of=of),
        )
        return next((why for one in conditions if (why := here.fault(one)) is not None), None)

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
        words = " ".join(self._sink.text(as_text(item)).split())
        return words if len(words) <= LABEL_LENGTH else f"{words[: LABEL_LENGTH - 1]}…"

    def _decided(self, step_id: StepId, now: Instant) -> RunEvent | None:
        """What keeps a step from beginning now that its values are known: policy, or a person who has to say yes."""
        step, record = self._state.step(step_id), self._state.steps[step_id]
        try:
            known = self._results.step(step_id)
        except Missing:
            return None  # the attempt says so
        denied = self._run.authority.denied(known, True)
        if denied is not None:
            return not_held(self._state, step_id, "F_POLICY_DENIED", self._sink.text(denied.detail), now)
        if step.approval is not None:
            reason = "the plan wants a person's yes before it"
        elif any(effect.destructive for effect in effects_of(known, self._run.tools)):
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
