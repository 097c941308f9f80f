"""What the verbs about hosts of agents answer: guard hook, guard install."""

from __future__ import annotations

from typing import Literal

import msgspec


class HookResult(msgspec.Struct, frozen=True, kw_only=True):
    """What the hook of a host is answered."""

    decision: Literal["none", "deny"]
    """Nothing, and the host's own rules decide; or no."""
    reason: str


class SettingsFile(msgspec.Struct, frozen=True, kw_only=True):
    path: str
    text: str | None
    """What would stand in it; null where it would be deleted."""


class InstallResult(msgspec.Struct, frozen=True, kw_only=True):
    """What would be written into the settings of a host; nothing was."""

    files: tuple[SettingsFile, ...]
    notes: tuple[str, ...]
    command: str | None
    """What the host has to be told by its own command, if anything."""
