"""What the verbs about hosts of agents answer: guard hook."""

from __future__ import annotations

from typing import Literal

import msgspec

__all__ = ["HookResult"]


class HookResult(msgspec.Struct, frozen=True, kw_only=True):
    """What the hook of a host is answered."""

    decision: Literal["none", "deny"]
    """Nothing, and the host's own rules decide; or no."""
    reason: str
