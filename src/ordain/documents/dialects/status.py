"""The words with which each seed says how far a plan or a step is: ours in theirs, and one seed's in another's.

The two tables have every status that we know; None stands where a seed has no word for it. What a document claims is
never believed; it is only translated. A word that is nobody's has no translation.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

_Words = Mapping[str, Mapping[str, str | None]]

_BEFORE = ("pending", "blocked", "ready")
_RUNNING = ("running", "waiting", "verifying")
_FAILED = ("failed", "in_doubt", "escalated")
_SKIPPED = ("skipped", "cancelled")

_STEP_MEANINGS = {
    **{word: word for word in (*_BEFORE, *_RUNNING, "passed", *_FAILED, *_SKIPPED)},
    **dict.fromkeys(("in_progress", "in-progress"), "running"),
    **dict.fromkeys(("complete", "completed", "success", "done"), "passed"),
}
STEP_WORDS: _Words = {
    "s1": {
        **dict.fromkeys(_BEFORE, "pending"),
        **dict.fromkeys(_RUNNING, "in_progress"),
        "passed": "complete",
        **dict.fromkeys(_FAILED, "failed"),
        **dict.fromkeys(_SKIPPED, "skipped"),
    },
    "s2": {
        **{word: word for word in _BEFORE},
        **dict.fromkeys(_RUNNING, "running"),
        "passed": "completed",
        **dict.fromkeys(_FAILED, "failed"),
        **dict.fromkeys(_SKIPPED, "skipped"),
    },
    "s3": {
        **dict.fromkeys((*_BEFORE, *_RUNNING), None),
        "passed": "success",
        **dict.fromkeys(_FAILED, "failed"),
        **dict.fromkeys(_SKIPPED, None),
    },
    "s4": {
        **dict.fromkeys(_BEFORE, None),
        **dict.fromkeys(_RUNNING, "in-progress"),
        "passed": "done",
        "failed": "failed",
        **dict.fromkeys(("in_doubt", "escalated"), "blocked"),
        **dict.fromkeys(_SKIPPED, None),
    },
}
"""A step's state → each seed's word. `blocked` and `ready` are what a pending step of a run is."""

_NEW = ("draft", "template")
_UNDER_WAY = ("executing", "pausing", "cancelling", "waiting", "paused", "stopped", "stalled", "replanning")
_DROPPED = ("rejected", "needs_review", "cancelled", "expired")
_PLAN_MEANINGS = {
    **{word: word for word in ("draft", "proposed", "approved", *_UNDER_WAY, "completed", "failed", *_DROPPED)},
    "verified": "proposed",
    **dict.fromkeys(("in_progress", "in-progress"), "executing"),
    **dict.fromkeys(("complete", "done"), "completed"),
}
PLAN_WORDS: _Words = {
    "s1": {
        **dict.fromkeys((*_NEW, "proposed", "approved"), "draft"),
        **dict.fromkeys(_UNDER_WAY, "in_progress"),
        "replanning": "replanning",
        "completed": "complete",
        "failed": "failed",
        **dict.fromkeys((*_DROPPED, "archived"), None),
    },
    "s2": dict.fromkeys((*_NEW, "proposed", "approved", *_UNDER_WAY, "completed", "failed", *_DROPPED, "archived")),
    "s3": {
        **dict.fromkeys(_NEW, None),
        **{word: word for word in ("proposed", "approved", "completed", "failed")},
        **dict.fromkeys(_UNDER_WAY, "executing"),
        "stalled": "stalled",
        **{word: word for word in ("rejected", "needs_review", "cancelled")},
        "expired": "cancelled",
        "archived": None,
    },
    "s4": {
        **dict.fromkeys(_NEW, "draft"),
        "proposed": "verified",
        "approved": "approved",
        **dict.fromkeys(_UNDER_WAY, "in-progress"),
        "completed": "done",
        "failed": "failed",
        **dict.fromkeys(_DROPPED, "draft"),
        "archived": None,
    },
}
"""The status of a plan or of its run → each seed's word."""


def status_word(said: str, of: Literal["plan", "step"], dialect: str) -> str | None:
    """What a dialect calls the status that this word of any seed, or of ours, means; None where it has no word."""
    meanings, words = (_PLAN_MEANINGS, PLAN_WORDS) if of == "plan" else (_STEP_MEANINGS, STEP_WORDS)
    own = words.get(dialect, {})
    return said if said in own.values() else own.get(meanings.get(said, ""))
