"""What a probe found out about the surroundings, so that linting itself stays pure."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from ordain.core.tool import ToolDefinition

__all__ = ["Facts"]


class Facts(msgspec.Struct, frozen=True, kw_only=True):
    """The surroundings of a plan. What a mapping does not mention was not looked at."""

    tools: Mapping[str, ToolDefinition] = {}
    shell_faults: Mapping[str, str] = {}
    """Command text → what bash says is wrong with its syntax."""
    missing_programs: Mapping[str, str] = {}
    """Contract text → the program it begins with, when that is not installed."""
    tier: int = 0
    """The strongest trust tier that can be had here."""
    workspace_id: str | None = None
