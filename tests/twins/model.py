"""Twin of the language models: it says what its script says, and keeps what it was asked."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping
from typing import Any

from ordain.core.policy.agent import ModelAccess
from ordain.ports.model import ModelNews, ModelRequest, ModelTurn, ModelUsage, StopReason, Tell, TextCame, ToolUse

Move = ModelTurn | BaseException | Callable[[ModelRequest], "ModelTurn"]
"""A turn, what is raised in its place, or what makes it of the request."""
USED = ModelUsage(input=100, output=10)


class ScriptedModel:
    """ports.ModelClient that makes one move after the other. A script that is at its end is an error of the test."""

    def __init__(self, moves: Iterable[Move]) -> None:
        self._moves: Iterator[Move] = iter(moves)
        self.asked: list[ModelRequest] = []
        self.news: list[ModelNews] = []
        """Told before the next answer."""

    async def respond(self, request: ModelRequest, tell: Tell) -> ModelTurn:
        self.asked.append(request)
        move = next(self._moves)
        turn = move(request) if callable(move) else move
        for one in self.news:
            tell(one)
        self.news.clear()
        if isinstance(turn, BaseException):
            raise turn
        if turn.text:
            tell(TextCame(turn.text))
        return turn


class ScriptedModels:
    """ports.Models over such models, by `PROVIDER:NAME`. `keys` has the key that each was asked for with."""

    def __init__(self, clients: Mapping[str, ScriptedModel], faults: Mapping[str, str] | None = None) -> None:
        self.clients, self.faults = dict(clients), dict(faults or {})
        self.keys: list[tuple[str, str]] = []

    def fault(self, access: ModelAccess) -> str | None:
        return self.faults.get(str(access))

    @contextlib.asynccontextmanager
    async def client(self, access: ModelAccess, key: str) -> AsyncIterator[ScriptedModel]:
        self.keys.append((str(access), key))
        yield self.clients[str(access)]


def says(text: str, **more: Any) -> ModelTurn:
    """A turn with which a model ends."""
    return ModelTurn(**{"text": text, "usage": USED, "raw": {"said": text}, **more})


def calls(*uses: tuple[str, Mapping[str, Any]], text: str = "", **more: Any) -> ModelTurn:
    """A turn in which a model asks for tools."""
    asked = tuple(ToolUse(id=f"use-{number}", name=name, arguments=args) for number, (name, args) in enumerate(uses, 1))
    return ModelTurn(**{"text": text, "uses": asked, "stop": StopReason.TOOLS, "usage": USED, **more})
