"""Public keys and signatures as values, and the exact bytes that an enrolled approver signs.

Whether a signature is good is asked of a `Verifier`. A key or signature that exists is well formed, in one spelling.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable
from typing import Any

import msgspec

from ordain.core.plan.canonical import canonical_bytes, framed

ALGORITHM = "ed25519"
KEY_BYTES = 32
SIGNATURE_BYTES = 64
_FINGERPRINT = re.compile(r"ed25519:[0-9a-f]{64}")
_PRIME = 2**255 - 19
_EIGHTH = 2707385501144840649318225287225658788936804267575313519463743609750303402022
_WEAK = frozenset((0, 1, _PRIME - 1, _PRIME, _PRIME + 1, _EIGHTH, _PRIME - _EIGHTH))
"""The y of every point of small order, in every spelling: for such a key anybody finds signatures, without a seed."""


class PublicKey(msgspec.Struct, frozen=True, kw_only=True):
    """The half of a key pair that everybody may see; raises ValueError where it is none, or one that binds nobody."""

    algorithm: str = ALGORITHM
    key: str
    """Base64 of the 32 raw bytes."""

    def __post_init__(self) -> None:
        if self.algorithm != ALGORITHM:
            raise ValueError(f"the key's algorithm is {self.algorithm[:32]!a}, not {ALGORITHM}")
        if int.from_bytes(raw_key(self), "little") % 2**255 in _WEAK:
            raise ValueError("the key is weak: anybody could sign in its name")


class Signature(msgspec.Struct, frozen=True, kw_only=True):
    """What one key says about one statement; raises ValueError where it can be none. Being one says nothing of good."""

    key: str
    """The fingerprint of the key that signed."""
    value: str
    """Base64 of the 64 raw bytes."""

    def __post_init__(self) -> None:
        if not _FINGERPRINT.fullmatch(self.key):
            raise ValueError("the signature does not name a key by its fingerprint")
        raw_signature(self)


Verifier = Callable[[PublicKey, Signature, bytes], bool]
"""Says whether a signature was made by this key over these bytes; never raises."""


def raw_key(key: PublicKey) -> bytes:
    return _raw("key", key.key, KEY_BYTES)


def raw_signature(signature: Signature) -> bytes:
    return _raw("signature", signature.value, SIGNATURE_BYTES)


def fingerprint(key: PublicKey) -> str:
    """What names a key: `ed25519:` and the whole SHA-256 of its raw bytes; shortened only when shown."""
    return f"{ALGORITHM}:{hashlib.sha256(raw_key(key)).hexdigest()}"


def statement(kind: str, value: Any) -> bytes:
    """The bytes that are signed, as DSSE's pre-authentication encoding: a value and its kind of word (`approval`,
    `trust` …), so that what was signed as one kind cannot be passed off as another."""
    return framed(f"application/vnd.ordain.{kind}.v1+json", canonical_bytes(value))


def _raw(what: str, text: str, length: int) -> bytes:
    """Strict base64: of the many spellings that decoders let pass, only the one that an encoder writes."""
    try:
        raw = msgspec.convert(text, bytes)
    except msgspec.ValidationError:
        raise ValueError(f"the {what} is not base64") from None
    if msgspec.to_builtins(raw) != text:
        raise ValueError(f"the {what} is not spelt as base64 is written")
    if len(raw) != length:
        raise ValueError(f"the {what} has {len(raw)} bytes, not {length}")
    return raw
