"""Secrets by reference: an argument `secret:NAME` stands for a secret that only the call itself gets.

It is a reference only where the plan has it written, as a whole text. What another step gave is never one, or whoever
writes a result could ask for any secret. The value is put in last, and stands in nothing that is kept or shown.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from ordain.core.scalar import strings

__all__ = ["Secret", "SecretMissing", "filled_secrets", "may_name", "named_secrets", "with_secrets"]

Secret = Callable[[str], str | None]
"""The value of a secret by its name; None where there is none that may be handed over."""

_REFERENCE = re.compile(r"secret:([A-Za-z_][A-Za-z0-9_]*)")


class SecretMissing(Exception):
    """A secret that is named and cannot be had, in words."""


def named_secrets(value: Any) -> Iterator[str]:
    """The names of the secrets that a value refers to, however deep."""
    for text in strings(value):
        if found := _REFERENCE.fullmatch(text):
            yield found[1]


def may_name(name: str, patterns: Sequence[str]) -> bool:
    """Whether the settings let a plan refer to the variable of this name."""
    written = (re.escape(pattern).replace(r"\*", ".*").replace(r"\?", ".") for pattern in patterns)
    return any(re.fullmatch(one, name) for one in written)


def filled_secrets(text: str, secret: Secret) -> str:
    """A text of the configuration with every `secret:NAME` in it replaced; raises SecretMissing."""
    return _REFERENCE.sub(lambda found: _had(found[1], secret), text)


def _had(name: str, secret: Secret) -> str:
    known = secret(name)
    if known is None:
        raise SecretMissing(f"the secret {name} is not set here, or too short to be hidden")
    return known


def with_secrets(written: Any, value: Any, secret: Secret) -> Any:
    """A value as it is handed over: a secret wherever `written`, what the plan says in that place, refers to one.
    Raises SecretMissing."""
    match written:
        case str() if found := _REFERENCE.fullmatch(written):
            return _had(found[1], secret)
        case Mapping() if isinstance(value, Mapping):
            return {key: with_secrets(written.get(key), one, secret) for key, one in value.items()}
        case list() | tuple() if isinstance(value, list | tuple) and len(value) == len(written):
            return [with_secrets(*pair, secret) for pair in zip(written, value, strict=True)]
        case _:
            return value
