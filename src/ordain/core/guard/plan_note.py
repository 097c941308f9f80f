"""A plan in prose that an agent left its host's plan mode with: a note for the inbox, and no proposal."""

from __future__ import annotations

import hashlib

import msgspec

from ordain.core.plan.value import Instant

NOTE_MAX = 32 << 10
"""How many characters of a text are kept."""
NOTES_MAX = 20
"""How many notes are kept; the oldest goes first."""
_TITLE_MAX = 80


class PlanNote(msgspec.Struct, frozen=True, kw_only=True):
    """What an agent planned in words that Ordain cannot carry out."""

    note_id: str
    at: Instant
    agent: str
    title: str
    """The first line that says something."""
    text: str


def plan_note(text: str, agent: str, at: Instant) -> PlanNote:
    """A note of a text; the same text is the same note."""
    lines = (line.strip("#*- \t") for line in text.splitlines())
    return PlanNote(
        note_id=f"n-{hashlib.sha256(text.encode('utf-8', 'replace')).hexdigest()[:8]}",
        at=at,
        agent=agent,
        title=next(filter(None, lines), "A plan")[:_TITLE_MAX],
        text=text[:NOTE_MAX],
    )
