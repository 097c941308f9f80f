"""How an artifact is named: an output that is too long for one place, kept or only committed to as a whole.

The name is a seal over the digest and the length of all of it, so it can be made while the bytes go by. It is told
from the seal of plain bytes by its first word: no output can be made to look like a name.
"""

from __future__ import annotations

from collections.abc import Callable

__all__ = ["is_whole", "whole_seal"]

_PLAIN, _WHOLE = "hmac-sha256:", "hmac-sha256-whole:"


def whole_seal(seal: Callable[[bytes], str], sha256: bytes, size: int) -> str:
    """What commits to this many bytes with this digest, without giving either away."""
    return _WHOLE + seal(b"ordain-whole-v1\0" + size.to_bytes(8) + sha256).removeprefix(_PLAIN)


def is_whole(seal: str) -> bool:
    """Whether a seal is the name of an artifact."""
    return seal.startswith(_WHOLE)
