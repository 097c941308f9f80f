"""Conditions in words, with every value that they hold; whoever reads them has read the condition."""

from __future__ import annotations

import json
from typing import assert_never

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
from ordain.core.model import ForEach
from ordain.documents.duration import write_duration

__all__ = ["condition_words", "repeat_words"]


def condition_words(condition: Precondition) -> str:
    """A condition as a sentence without its full stop."""
    match condition:
        case PaneExists(pane_id=pane):
            return f"pane {pane} exists"
        case PaneState(pane_id=pane, expected_agent=agent, expected_domain=domain):
            both = (("agent", agent), ("domain", domain))
            wanted = [f"{word} {json.dumps(value, ensure_ascii=False)}" for word, value in both if value is not None]
            return f"pane {pane} has {' and '.join(wanted)}" if wanted else f"pane {pane} is in its state"
        case PatternMatched(rule_id=rule, pane_id=pane, within_ms=within):
            time = f" within {write_duration(within)}" if within is not None else ""
            return f"the pattern {rule} was seen{_in_pane(pane)}{time}"
        case PatternNotMatched(rule_id=rule, pane_id=pane):
            return f"the pattern {rule} is not seen{_in_pane(pane)}"
        case LockHeld(lock_name=name):
            return f"the lock {name} is held"
        case LockAvailable(lock_name=name):
            return f"the lock {name} is free"
        case ApprovalValid(scope=scope):
            return f"an approval covers {_scope_words(scope)}"
        case StepCompleted(step_id=step):
            return f"the step {step} is completed"
        case CustomCondition(name=name, expression=expression):
            return f"{json.dumps(name, ensure_ascii=False)}: {expression}"
        case _ as never:
            assert_never(never)


def repeat_words(each: ForEach) -> str:
    """For what a step is repeated, with every bound that there is."""
    name = each.name or "item"
    what = f"{name} of {each.source}" if each.batch is None else f"{each.batch} of {each.source}, together as {name}"
    at_once = f", {each.concurrency} at once" if each.concurrency is not None else ""
    return f"{what}, at most {each.max:,}{at_once}"


def _in_pane(pane: int | None) -> str:
    return f" in pane {pane}" if pane is not None else ""


def _scope_words(scope: ApprovalScope) -> str:
    workspace = f" in workspace {scope.workspace_id}" if scope.workspace_id is not None else ""
    return f"{scope.action_kind}{_in_pane(scope.pane_id)}{workspace}"
