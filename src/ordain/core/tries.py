"""What was tried of a step: each attempt with how it ended, so that whoever is asked about it sees all of it."""

from __future__ import annotations

import msgspec

from ordain.core.event import Evidence, Outcome
from ordain.core.value import Instant

__all__ = ["TRIES_MAX", "Try", "with_try"]

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
