"""Port of language models: one request, one answer, whoever serves the model and in whichever protocol.

An answer holds what we read in it and, unchanged, what its provider sent: models that think sign or encrypt parts of
what they say, and want exactly that back.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from enum import StrEnum
from typing import Any, Protocol

import msgspec

from ordain.core.policy.agent import ModelAccess

# --- What is said ----------------------------------------------------------------------------------------------------


class ToolSpec(msgspec.Struct, frozen=True, kw_only=True):
    """A tool as a model is offered it."""

    name: str
    description: str
    schema: Mapping[str, Any]


class ToolUse(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    id: str
    name: str
    arguments: Mapping[str, Any] = {}
    fault: str = ""
    """Why the arguments cannot be read, in words; empty where they can."""


class ToolAnswer(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a model is answered that asked for a tool."""

    use_id: str
    text: str
    is_error: bool = False


class ModelUsage(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What one or more answers used, by their provider's count. The same in every protocol."""

    input: int = 0
    """Tokens that were sent, those that were cached among them."""
    output: int = 0
    """Tokens that came back, thinking among them."""
    cached: int = 0
    """Those of `input` that the provider read from a cache."""
    cost_usd: float | None = None
    """None where no price is known."""

    @property
    def tokens(self) -> int:
        return self.input + self.output

    def plus(self, other: ModelUsage) -> ModelUsage:
        costs = [one for one in (self.cost_usd, other.cost_usd) if one is not None]
        return ModelUsage(
            input=self.input + other.input,
            output=self.output + other.output,
            cached=self.cached + other.cached,
            cost_usd=sum(costs) if costs else None,
        )


class StopReason(StrEnum):
    """Why a model stopped."""

    ENDED = "ended"
    """It has said what it wanted to say."""
    TOOLS = "tools"
    """It waits for the answers of the tools that it asked for."""
    TRUNCATED = "truncated"
    """Its answer was cut off where it became too long: nothing in it is complete."""
    REFUSED = "refused"
    """It, or its provider, does not want to answer."""


class UserText(msgspec.Struct, frozen=True, kw_only=True, tag="user"):
    text: str


class ModelTurn(msgspec.Struct, frozen=True, kw_only=True, tag="model"):
    """What a model said, once."""

    text: str
    uses: tuple[ToolUse, ...] = ()
    stop: StopReason = StopReason.ENDED
    usage: ModelUsage = ModelUsage()
    raw: Any = None
    """What its provider sent, as it wants it back: only the client that made it may look inside."""
    model: str = ""
    """Which model answered, by its provider's word."""


class ToolAnswers(msgspec.Struct, frozen=True, kw_only=True, tag="tools"):
    """What a model is answered: one answer for each tool that its turn before asked for, in that order."""

    answers: tuple[ToolAnswer, ...]
    text: str = ""


Message = UserText | ModelTurn | ToolAnswers


class ModelRequest(msgspec.Struct, frozen=True, kw_only=True):
    system: str
    messages: Sequence[Message]
    """From the first to the last; the last is never the model's."""
    tools: Sequence[ToolSpec] = ()
    output_tokens_max: int = 16_000


# --- What is seen while it answers -----------------------------------------------------------------------------------


class TextCame(msgspec.Struct, frozen=True):
    """A piece of an answer arrived. It is raw: whoever shows it redacts and escapes it."""

    text: str


class RequestFailed(msgspec.Struct, frozen=True, kw_only=True):
    """One try of a request failed. Each is told of, also where another follows."""

    attempt: int
    detail: str
    """In words, without secrets."""
    status: int | None = None
    """Of HTTP; None where there was no answer."""
    wait_ms: int | None = None
    """After which time it is tried again; None where it is not."""


ModelNews = TextCame | RequestFailed
Tell = Callable[[ModelNews], None]


class ModelFailed(Exception):
    """No answer of a model could be had, in words that hold no secret. `code` is a problem code."""

    def __init__(self, code: str, detail: str) -> None:
        super().__init__(detail)
        self.code, self.detail = code, detail


# --- The port --------------------------------------------------------------------------------------------------------


class ModelClient(Protocol):
    """One model, at one address, with one key."""

    async def respond(self, request: ModelRequest, tell: Tell) -> ModelTurn:
        """Ask for one answer. Raises ModelFailed where none can be had, after as many tries as make sense. When
        cancelled, the connection is closed, and nothing goes on."""


class Models(Protocol):
    """Where models are to be had."""

    def fault(self, access: ModelAccess) -> str | None:
        """Why no client can be made here, in words; None where one can. Nobody is asked over the network."""

    def client(self, access: ModelAccess, key: str) -> AbstractAsyncContextManager[ModelClient]:
        """A client, whose connections are closed in the end. The key is sent to that address and nowhere else."""
