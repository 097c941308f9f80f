"""The words with which each seed says how far a plan or a step is: a claim of one dialect in the words of another.

A claim is never believed; it is only translated. A word that is nobody's has no translation.
"""

from __future__ import annotations

from typing import Literal

__all__ = ["status_word"]

_RUNNING = ("running", "waiting", "verifying")
_FAILED = ("failed", "in_doubt", "escalated")
_SKIPPED = ("skipped", "cancelled")

_STEP_MEANINGS = {
    **{word: word for word in ("pending", "blocked", "ready", *_RUNNING, "passed", *_FAILED, *_SKIPPED)},
    **dict.fromkeys(("in_progress", "in-progress"), "running"),
    **dict.fromkeys(("complete", "completed", "success", "done"), "passed"),
}
_STEP_WORDS = {
    "s1": {
        **dict.fromkeys(("pending", "blocked", "ready"), "pending"),
        **dict.fromkeys(_RUNNING, "in_progress"),
        "passed": "complete",
        **dict.fromkeys(_FAILED, "failed"),
        **dict.fromkeys(_SKIPPED, "skipped"),
    },
    "s2": {
        **{word: word for word in ("pending", "blocked", "ready")},
        **dict.fromkeys(_RUNNING, "running"),
        "passed": "completed",
        **dict.fromkeys(_FAILED, "failed"),
        **dict.fromkeys(_SKIPPED, "skipped"),
    },
    "s4": {**dict.fromkeys(_RUNNING, "in-progress"), "passed": "done", "failed": "failed", "escalated": "blocked"},
}

_UNDER_WAY = ("executing", "paused", "stalled", "replanning")
_DROPPED = ("rejected", "needs_review", "cancelled", "expired")
_PLAN_MEANINGS = {
    **{word: word for word in ("draft", "proposed", "approved", *_UNDER_WAY, "completed", "failed", *_DROPPED)},
    "verified": "proposed",
    **dict.fromkeys(("in_progress", "in-progress"), "executing"),
    **dict.fromkeys(("complete", "done"), "completed"),
}
_PLAN_WORDS = {
    "s1": {
        **dict.fromkeys(("draft", "proposed", "approved"), "draft"),
        **dict.fromkeys(_UNDER_WAY, "in_progress"),
        "replanning": "replanning",
        "completed": "complete",
        "failed": "failed",
    },
    "s3": {
        **{word: word for word in ("proposed", "approved", "stalled", "completed", "failed")},
        **dict.fromkeys(("executing", "paused", "replanning"), "executing"),
        **{word: word for word in ("rejected", "needs_review", "cancelled")},
        "expired": "cancelled",
    },
    "s4": {
        "draft": "draft",
        "proposed": "verified",
        "approved": "approved",
        **dict.fromkeys(_UNDER_WAY, "in-progress"),
        "completed": "done",
        "failed": "failed",
        **dict.fromkeys(_DROPPED, "draft"),
    },
}


def status_word(said: str, of: Literal["plan", "step"], dialect: str) -> str | None:
    """What a dialect calls the status that this word of any seed, or of ours, means; None where it has no word."""
    meanings, words = (_PLAN_MEANINGS, _PLAN_WORDS) if of == "plan" else (_STEP_MEANINGS, _STEP_WORDS)
    own = words.get(dialect, {})
    return said if said in own.values() else own.get(meanings.get(said, ""))
