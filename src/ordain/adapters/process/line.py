"""Command lines: what reads them, loaded when one is to be read. Every call of a hook passes here, few need it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from ordain.core.policy.fact import LineFacts
from ordain.core.policy.settings import Settings


def understanding(workspace: Path, settings: Settings) -> Callable[[str], LineFacts]:
    """What reads command lines for a workspace. Nothing is loaded before it is asked: few verbs judge one."""
    stricter = tuple((name, tuple(facts)) for name, facts in sorted(settings.commands.items()))

    def read(text: str) -> LineFacts:
        try:
            from ordain.adapters.process.command_reader import line_reader

            return line_reader(workspace, stricter, settings.control)(text)
        except (OSError, ImportError):  # no file can be opened: nothing is known, which lets nothing through
            return LineFacts()

    return read
