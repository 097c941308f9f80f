"""What the protocols of models have in common: how a request is written and how the events of an answer are read."""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Mapping
from typing import Any, NamedTuple, Protocol

from ordain.core.policy.agent import ModelAccess, address_of
from ordain.ports.model import ModelRequest, ModelTurn, ToolAnswer, ToolUse

ARGUMENTS_DEPTH_MAX = 64
_TEXTS = re.compile(r'"(?:[^"\\]|\\.)*"')
_BRACKETS = re.compile(r"[\[\]{}]")


class Broken(Exception):
    """What arrived is no answer, in words. `again`: whether it makes sense to ask once more."""

    def __init__(self, detail: str, *, again: bool = True) -> None:
        super().__init__(detail)
        self.again = again


class ProviderError(NamedTuple):
    """An error by its provider's own account; `param` is what of the request it is about."""

    kind: str
    message: str
    param: str


class AnswerReader(Protocol):
    """One answer, as it arrives; `complete` once its end has come."""

    complete: bool

    def take(self, event: Mapping[str, Any]) -> str:
        """Read an event; the text in it that is part of the answer. Raises Broken."""

    def turn(self) -> ModelTurn:
        """The answer, once it is complete. Raises Broken where it is none."""


class WireProtocol(Protocol):
    """How one kind of server is asked."""

    path: str = ""
    headers: Mapping[str, str] = {}

    def url(self, access: ModelAccess) -> str:
        return address_of(access.base_url, self.path)

    def body(self, access: ModelAccess, request: ModelRequest) -> dict[str, Any]: ...

    def reader(self) -> AnswerReader: ...

    def mended(self, body: Mapping[str, Any], error: ProviderError) -> dict[str, Any] | None:
        """The same request as a server takes it that has said what it does not know; None where nothing helps."""
        return None


def tool_use(use_id: str, name: str, written: str) -> ToolUse:
    """A call whose arguments were written so."""
    try:
        arguments = json.loads(written or "{}", object_pairs_hook=_without_duplicates, parse_constant=_no_constant)
        if not isinstance(arguments, dict):
            raise ValueError("they are no object")
        if _depth(written) > ARGUMENTS_DEPTH_MAX:
            raise ValueError(f"they are nested deeper than {ARGUMENTS_DEPTH_MAX} levels")
        if not is_unicode(arguments):
            raise ValueError("they hold what is no character")
    except (ValueError, RecursionError) as error:
        return ToolUse(id=use_id, name=name, fault=str(error)[:200])
    return ToolUse(id=use_id, name=name, arguments=arguments)


def is_unicode(value: Any) -> bool:
    """Whether a value of JSON holds no half of a character, which nothing could write down."""
    with contextlib.suppress(ValueError, RecursionError):
        json.dumps(value, ensure_ascii=False).encode()
        return True
    return False


def _depth(written: str) -> int:
    """How many objects and lists stand inside one another; those in texts do not count."""
    deepest = depth = 0
    for mark in _BRACKETS.findall(_TEXTS.sub("", written)):
        depth += 1 if mark in "[{" else -1
        deepest = max(deepest, depth)
    return deepest


def _without_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a name is in an object twice")
    return found


def _no_constant(word: str) -> Any:
    raise ValueError(f"{word} is no number of JSON")


def plain_answer(answer: ToolAnswer) -> str:
    """An answer for a protocol that has no word for errors."""
    return f"Error: {answer.text}" if answer.is_error else answer.text


def count(value: Any) -> int:
    """A number of tokens; what cannot be one counts as none."""
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 1 << 53 else 0


def mapping(value: Any) -> Mapping[str, Any]:
    """A part of an event that should be an object; an empty one where it is something else."""
    return value if isinstance(value, Mapping) else {}


def words(value: Any) -> str:
    """A part of an event that should be a text."""
    return value if isinstance(value, str) else ""


def provider_error(value: Any) -> ProviderError | None:
    """The error that a body or an event tells of."""
    error = mapping(value).get("error")
    if isinstance(error, str):
        return ProviderError("", error, "")
    if isinstance(error, Mapping):
        kind = words(error.get("type")) or words(error.get("code"))
        return ProviderError(kind, words(error.get("message")) or kind, words(error.get("param")))
    return None


PASSING = frozenset({
    "overloaded_error", "rate_limit_error", "api_error", "timeout_error", "server_error", "rate_limit_exceeded",
})  # fmt: skip
"""Kinds of errors in the middle of an answer that are over a moment later."""


def error_in_stream(error: ProviderError) -> Broken:
    return Broken(f"{error.kind or 'error'}: {error.message}", again=error.kind in PASSING)
