"""What `ordain agents` answers."""

from __future__ import annotations

import msgspec

from ordain.core.roster import RosterLine

__all__ = ["AgentsResult"]


class AgentsResult(msgspec.Struct, frozen=True, kw_only=True):
    """Everybody who can be given tasks."""

    agents: tuple[RosterLine, ...]
