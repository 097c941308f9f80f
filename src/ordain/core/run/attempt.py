"""What each answer of ours leads to: one table for whoever asks, records, folds or audits an answer."""

from __future__ import annotations

import re
from collections.abc import Callable

import msgspec

from ordain.core.plan.value import Instant
from ordain.core.run.step_event import DecisionGiven, Evidence, Outcome, StepState

# --- Choice ----------------------------------------------------------------------------------------------------------

ABORT = "abort"
"""Ends the run as failed, whatever is asked; unless a plan has this very word among its own choices."""
SKIP = "skip"
"""Goes on without a step that did not succeed."""
CHECK = "check"
"""Runs a step's contract once more: it passes where that holds, else a person is asked again."""
DONE, CANNOT = "done", "cannot"
"""What a person says of a task that was theirs; the second with a reason, and a person decides then."""

_LEADS_TO = {
    "doubt": {"happened": StepState.PASSED, "did-not": StepState.PENDING, CHECK: StepState.IN_DOUBT},
    "escalation": {
        "retry": StepState.PENDING,
        CHECK: StepState.VERIFYING,
        SKIP: StepState.SKIPPED,
        "pass": StepState.PASSED,
    },
    "step_approval": {"allow": StepState.PENDING, "deny": StepState.SKIPPED},
    "budget": {"extend": StepState.PENDING, "unlimited": StepState.PENDING},
    "ask": {},
    "task": {},
}
"""For each kind of question, our own words and where they take the step; an answer that has an outcome goes by that."""


def leads_to(kind: str, choice: str, *, checked: bool) -> StepState | None:
    """Where one of our own words takes a step; no word stands in for a contract that can be run (`checked`)."""
    if choice == ABORT:
        return StepState.FAILED
    if checked and (kind, choice) == ("doubt", "happened"):
        return StepState.VERIFYING
    return _LEADS_TO[kind].get(choice)


def fits(decision: DecisionGiven) -> bool:
    """Whether a decision takes its step where its choice can lead, whatever the step is."""
    if decision.outcome is not None:
        if decision.outcome.error is not None:
            said = (decision.about, decision.choice) == ("task", CANNOT)
            return said and decision.to is StepState.ESCALATED and not decision.aborts
        return decision.to in (StepState.VERIFYING, StepState.PASSED) and not decision.aborts
    if decision.about and decision.about not in _LEADS_TO:
        return False
    kinds = (decision.about,) if decision.about else tuple(_LEADS_TO)  # none: of before answers were bound
    led = {leads_to(kind, decision.choice, checked=checked) for kind in kinds for checked in (True, False)}
    return decision.to in led and decision.aborts is (decision.choice == ABORT)


# --- Tries -----------------------------------------------------------------------------------------------------------
# What was tried of a step: each attempt with how it ended, so that whoever is asked about it sees all of it.

TRIES_MAX = 20
"""How many attempts of a step are remembered, the last one among them; of more, the newest."""


class Try(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One attempt of a step: what was seen of it, and what became of it then."""

    attempt: int
    started_at: Instant | None = None
    ended_at: Instant | None = None
    """Absent where nobody saw the end."""
    outcome: Outcome | None = None
    evidence: Evidence | None = None
    how: str = ""
    """What is said of it besides, in a few words: why it was in doubt, or what a person decided."""
    decided_by: str | None = None
    said: str = ""
    """What they said with it."""
    agent: str = ""
    """Of a task: who performed it."""


def with_try(tries: tuple[Try, ...], newest: Try) -> tuple[Try, ...]:
    """These attempts and one more, with room for the one that begins now."""
    return (*tries[-(TRIES_MAX - 2) :], newest)


# --- Artifact --------------------------------------------------------------------------------------------------------
# How an output is named that is too long for one place: by a seal over the digest and the length of all of it, which is
# told from the seal of plain bytes by its first word.

_PLAIN, _WHOLE = "hmac-sha256:", "hmac-sha256-whole:"


def whole_seal(seal: Callable[[bytes], str], sha256: bytes, size: int) -> str:
    """What commits to this many bytes with this digest, without giving either away."""
    return _WHOLE + seal(b"ordain-whole-v1\0" + size.to_bytes(8) + sha256).removeprefix(_PLAIN)


def is_whole(seal: str) -> bool:
    """Whether a seal is the name of an artifact."""
    return seal.startswith(_WHOLE)


_SEAL = re.compile(rb"hmac-sha256(?:-whole)?:[0-9a-f]{64}")


def seals_in(body: bytes) -> set[str]:
    """Every seal that stands anywhere in an event: perhaps more than it names, never fewer."""
    return {found.decode() for found in _SEAL.findall(body)}
