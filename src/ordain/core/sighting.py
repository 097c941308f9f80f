"""A guarded call that somebody was seen to make, or would have made: what reports are made of.

Sightings are notes for people who tune rules, and no evidence: they are kept beside the ledger and not in its chain.
What was refused is in the ledger as well (`request_refused`).
"""

from __future__ import annotations

import msgspec

from ordain.core.guard import Standing
from ordain.core.value import Instant

__all__ = ["ABOUT_MAX", "Sighting"]

ABOUT_MAX = 200


class Sighting(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One call."""

    at: Instant
    agent: str
    """Who made it, as far as anybody can tell: a client's own word, unless it had a token of its own."""
    through: str
    """Where it was seen: `gateway`, or the host whose hook asked."""
    tool: str
    standing: Standing
    refused: bool
    """Whether it was, or would only have been."""
    code: str
    session: str = ""
    """What tells one session of the agent from another, where the host says."""
    effect: str = ""
    """The effect class that the tool had; empty where nobody knew the tool."""
    destructive: bool = False
    about: str = ""
    """Its arguments, shortened and without secrets."""
