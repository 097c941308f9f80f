"""What one event of a run says to somebody who watches: one line, and whether it should stay in sight."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import Any, NamedTuple

import msgspec

from ordain.core.approval.approval import Principal
from ordain.core.run import step_event
from ordain.core.run.budget import amount_said
from ordain.core.run.event import BudgetReached, ProtectedChanged, Recorded, RunCancelled, RunPaused
from ordain.interfaces.view import run as render
from ordain.interfaces.view.style import Style
from ordain.interfaces.view.text import visible

_LOGGED = (
    *("approval_id", "plan_id", "run_id", "step", "attempt", "to", "status", "choice", "name", "key", "feedback"),
    *("reason", "verb", "code", "subject", "tool", "args"),
)


class Weight(Enum):
    """How much a change matters to somebody who sees how things stand anyway."""

    PASSING = "passing"
    """It is seen from what is under way or waits."""
    SETTLED = "settled"
    """A step is done, as it should be."""
    NOTABLE = "notable"
    """Something went otherwise than planned."""


class Change(NamedTuple):
    text: str
    weight: Weight


def change_of(recorded: Recorded, style: Style) -> Change | None:
    """The line about an event; None for those that say nothing to a person."""
    event = recorded.event
    fine, wrong, again, asks = style.good("✓"), style.bad("✗"), style.warn("↻"), style.warn("?")
    match event:
        case RunPaused():
            return _notable(f"{style.warn('‖')} paused by {visible(event.by.name)}{_why(event.reason)}")
        case RunCancelled():
            return _notable(f"{wrong} {event.status}, by {visible(event.by.name)}{_why(event.reason)}")
        case step_event.StepKept():
            how = "contract holds" if event.evidence is not None else "not looked at again"
            return _settled(f"{fine} {event.step}: kept from the run before, {how}")
        case step_event.StepNotKept():
            seen = f"contract {event.evidence.verdict.value}, {visible(event.evidence.detail)}"
            return _notable(f"{again} {event.step}: {seen}; it is run again")
        case step_event.ConditionFalse():
            return _settled(f"{style.dim('–')} {event.step}: skipped, its condition is false")
        case step_event.PreconditionBroken():
            return _notable(f"{wrong} {event.step}: not started: {visible(event.detail)}{_then(recorded, event)}")
        case step_event.StepApprovalAsked():
            return _notable(f"{asks} {event.step}: may it be done? {visible(event.reason)}")
        case BudgetReached():
            limit = amount_said(event.what, event.limit)
            return _notable(f"{asks} {event.step}: {limit} is the limit; nothing more that it pays for begins")
        case step_event.StepUnfolded():
            what = "items" if event.kind is step_event.GroupKind.ITEMS else "steps of its plan"
            return Change(f"▸ {event.step}: {event.count:,} {what}", Weight.PASSING)
        case step_event.FallbackEnded():
            return _notable(f"{again} {event.step}: {visible(event.reason)} → {event.to.value}")
        case step_event.DecisionGiven():
            words = event.outcome.output_tail if event.outcome is not None else event.choice
            said = f"{visible(' '.join(words.split())[:80])} → {event.to.value}"
            return _notable(f"{style.warn('◆')} {event.step}: {visible(event.by.name)} said {said}")
        case step_event.AttemptStarted():
            attempt = f" (attempt {event.attempt})" if event.attempt > 1 else ""
            by = f", by {visible(event.agent)}: {event.why}" if event.agent else ""
            return Change(f"▸ {event.step}{attempt}{by}", Weight.PASSING)
        case step_event.WorkOffered(item=item) if item.arbiter:
            return Change(f"▸ {event.step}: {visible(item.agent)}, because {visible(item.why)}", Weight.PASSING)
        case step_event.AttemptWaiting():
            return Change(f"◌ {event.step}: waits for {visible(event.reason)}", Weight.PASSING)
        case step_event.AttemptEnded() if event.outcome.error is not None:
            return _notable(f"{wrong} {event.step}: {visible(event.outcome.detail)}{_then(recorded, event)}")
        case step_event.AttemptEnded() if event.to.value == "passed":
            return _settled(f"{fine} {event.step} ({render.duration(event.outcome.duration_ms)})")
        case step_event.ContractHeld():
            return _settled(f"{fine} {event.step}: {_check(event.evidence)} held")
        case step_event.ContractBroken() | step_event.ContractInconclusive():
            verdict = f"{_check(event.evidence)} {event.evidence.verdict.value}, {visible(event.evidence.detail)}"
            return _notable(f"{wrong} {event.step}: {verdict}{_then(recorded, event)}")
        case ProtectedChanged():
            return _notable(f"{style.warn('!')} protected: {visible(', '.join(event.files))}; put back")
        case step_event.DoubtFound() if event.settle.value == "person":
            return _notable(f"{asks} {event.step} is in doubt: {event.reason}")
        case step_event.DoubtChecked() if event.to.value == "in_doubt":
            return _notable(f"{asks} {event.step} is in doubt: {visible(event.reason)}")
        case step_event.DoubtSettled() | step_event.DoubtChecked():
            return _notable(f"{again} {event.step}: {event.reason}")
        case _:
            return None


def _check(evidence: step_event.Evidence) -> str:
    """What was looked at: an expression is no contract, and gets no environment."""
    return "verification" if evidence.command_sha256 and not evidence.env_seal else "contract"


def _settled(text: str) -> Change:
    return Change(text, Weight.SETTLED)


def _notable(text: str) -> Change:
    return Change(text, Weight.NOTABLE)


def _why(reason: str) -> str:
    return f": {visible(reason)}" if reason else ""


def _then(
    recorded: Recorded,
    event: step_event.AttemptEnded
    | step_event.ContractBroken
    | step_event.ContractInconclusive
    | step_event.PreconditionBroken,
) -> str:
    if event.fallback:
        return f"; falls back on {', '.join(event.fallback)}"
    if event.to.value == "pending" and event.not_before is not None:
        wait = event.not_before - recorded.at
        return f"; again in {render.duration(wait)}" if wait else "; again"
    return f" → {event.to.value}"


def log_line(recorded: Recorded, wire: Mapping[str, Any]) -> str:
    """One event of the ledger; `wire` is the object that robots get of it."""
    approval = wire.get("approval", {})
    by = wire.get("by") or approval.get("approver")
    shown = {"by": render.who(msgspec.convert(by, Principal))} if by else {}
    facts = {**wire, **approval}
    shown |= {key: facts[key] for key in _LOGGED if isinstance(facts.get(key), str | int)}
    words = "  ".join(f"{key}={visible(str(value))}" for key, value in shown.items())
    place = f"{recorded.stream.partition('/')[0]} {recorded.seq}"
    line = f"{render.instant(recorded.at)}  {recorded.head[:12]}  {place:<12} {wire['type']:<21}  {words}"
    return line.rstrip()
