"""Whether what must hold before a plan or a step holds now: locks, approval, other steps, panes, expressions.

Only looks. What cannot be told does not hold.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, assert_never

from ordain.core.approval import Approval
from ordain.core.condition import (
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
from ordain.core.expr import ExpressionError, Expressions
from ordain.core.value import RunId
from ordain.ports import Panes

__all__ = ["Conditions", "covers"]


def covers(approval: Approval | None, scope: ApprovalScope) -> str | None:
    """Why this run's approval does not cover a kind of action, in words that follow on "the approval"; None where it
    does. A run that needed no approval has none that could cover anything."""
    if approval is None:
        return "is missing: this run needed none and has none"
    if scope.action_kind not in approval.action_kinds:
        return f"does not cover the action kind `{scope.action_kind}`"
    if scope.workspace_id not in (None, approval.workspace.id):
        return f"is for another workspace than `{scope.workspace_id}`"
    if scope.pane_id is not None and str(scope.pane_id) not in approval.panes:
        return f"does not cover the pane {scope.pane_id}"
    return None


class Conditions:
    """What holds here and now, for one run."""

    def __init__(
        self,
        *,
        run_id: RunId | None,
        lock_holder: Callable[[str], RunId | None],
        approval: Approval | None,
        passed: Callable[[str], str | None],
        variables: Callable[[str], Mapping[str, Any]],
        expressions: Callable[[], Expressions],
        panes: Panes | None,
    ) -> None:
        """`run_id` is absent before the run begins, which then holds nothing; `passed` says why a step has not passed,
        None where it has; `variables` is what an expression may ask about."""
        self._run_id, self._lock_holder, self._approval = run_id, lock_holder, approval
        self._passed, self._variables, self._expressions, self._panes = passed, variables, expressions, panes

    def fault(self, condition: Precondition) -> str | None:
        """Why a condition does not hold, in words; None where it does."""
        match condition:
            case LockHeld(lock_name=name):
                holder = self._lock_holder(name)
                whose = f"{holder} holds it" if holder is not None else "nobody holds it"
                held = holder is not None and holder == self._run_id
                return None if held else f"this run does not hold the lock `{name}`; {whose}"
            case LockAvailable(lock_name=name):
                holder = self._lock_holder(name)
                return None if holder in (None, self._run_id) else f"the lock `{name}` is held by {holder}"
            case ApprovalValid(scope=scope):
                why = covers(self._approval, scope)
                return f"the approval {why}" if why is not None else None
            case StepCompleted(step_id=name):
                return self._passed(name)
            case CustomCondition(name=name, expression=expression):
                return self.false(f"`{name}`", expression)
            case PaneExists() | PaneState() | PatternMatched() | PatternNotMatched():
                if self._panes is None:
                    return "no panes can be looked at here"
                return self._panes.fault(condition)
            case _:
                assert_never(condition)

    def false(self, what: str, expression: str) -> str | None:
        """Why an expression is not true, in words; None where it is."""
        try:
            held = self._expressions().evaluate(expression, self._variables(expression))
        except ExpressionError as error:
            return f"{what} gave no answer: {error}"
        return None if held else f"{what} is false: {expression}"
