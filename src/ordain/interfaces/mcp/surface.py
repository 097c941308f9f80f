"""What a server offers, as values: tools, resources, prompts, and the call in which one of them is used.

Nothing here knows the protocol. A tool is a function from a call and its typed arguments to an answer; it raises
`Refused` where it would not.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any, NamedTuple, Protocol

import msgspec

from ordain.app import App
from ordain.core.approval import Principal
from ordain.core.problem import Problem

__all__ = ["Answer", "Argument", "Call", "Content", "Prompt", "ResourceTemplate", "Surface", "Tool"]

Progress = Callable[[float, float | None, str], Awaitable[None]]
"""Told how far something has come: so much, of so much where that is known, and in words."""


class Workspaces(Protocol):
    """Opens the workspace anew for every call: what one call saw is never what another believes."""

    def __call__(self) -> App: ...


class Call:
    """One request of one client."""

    def __init__(self, by: Principal, workspaces: Workspaces, progress: Progress) -> None:
        self.by, self._workspaces, self.progress = by, workspaces, progress

    @asynccontextmanager
    async def app(self) -> AsyncIterator[App]:
        """Ordain over the workspace, for as long as this takes."""
        app = self._workspaces()
        try:
            yield app
        finally:
            await app.close()


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    """What a tool answers: a value of its result type, what was noticed, and what comes next, in words."""

    data: Any
    problems: tuple[Problem, ...] = ()
    next: tuple[str, ...] = ()


class Tool(msgspec.Struct, frozen=True, kw_only=True):
    """One tool. The four booleans are what its annotations say, and must be true."""

    name: str
    title: str
    description: str
    arguments: type[msgspec.Struct]
    result: Any
    call: Callable[[Call, Any], Awaitable[Answer]]
    read_only: bool = False
    destructive: bool = False
    idempotent: bool = False
    open_world: bool = False


class Content(NamedTuple):
    """What a resource holds."""

    text: str
    media_type: str = "application/json"


class Listed(NamedTuple):
    """A resource that is there now."""

    uri: str
    name: str
    title: str
    media_type: str = "application/json"


class ResourceTemplate(msgspec.Struct, frozen=True, kw_only=True):
    """A kind of resource: its address with places for names, and who reads it given those."""

    uri: str
    name: str
    title: str
    description: str
    read: Callable[[Call, Mapping[str, str]], Awaitable[Content]]
    media_type: str = "application/json"


class Argument(NamedTuple):
    """One argument of a prompt."""

    name: str
    description: str
    required: bool = True
    complete: Callable[[Call, str], Awaitable[Sequence[str]]] | None = None
    """The values there are that begin so, where they can be told."""


class Prompt(msgspec.Struct, frozen=True, kw_only=True):
    """A text for a model, made from arguments."""

    name: str
    title: str
    description: str
    write: Callable[[Call, Mapping[str, str]], Awaitable[str]]
    arguments: tuple[Argument, ...] = ()


class Surface(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that a server offers."""

    name: str
    title: str
    version: str
    instructions: str
    tools: tuple[Tool, ...] = ()
    resources: Callable[[Call], Awaitable[Sequence[Listed]]] | None = None
    """The resources that are worth listing."""
    templates: tuple[ResourceTemplate, ...] = ()
    prompts: tuple[Prompt, ...] = ()
