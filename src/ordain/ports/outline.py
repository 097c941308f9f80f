"""Port of what a planner is shown of a workspace before it asks: bounded, without secrets, and never an instruction."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import msgspec

from ordain.core.text.redaction import Redactor


class OutlineBlock(msgspec.Struct, frozen=True, kw_only=True):
    """One part of it, under its name: files, state of git, instruction files, build and test commands …"""

    name: str
    """In our words, such as `files` or `README.md`: never the content's."""
    text: str
    """Without secrets, and not fenced in: who shows it does that."""


class Outlines(Protocol):
    """What looks at one workspace."""

    async def outline(
        self, goal: str, redactor: Redactor, secret_files: Sequence[str] = ()
    ) -> tuple[OutlineBlock, ...]:
        """What may help to plan for this goal, the most useful first: at most 24,000 characters, and nothing of
        files that are named like secrets, protected, or in `secret_files`. Starts no program but git and always
        answers."""

    async def changes(self, redactor: Redactor, secret_files: Sequence[str] = ()) -> str:
        """How the files differ from what is committed, as unified diffs, without secrets and at most 16,000 characters;
        empty where nobody knows. Starts no program but git."""
