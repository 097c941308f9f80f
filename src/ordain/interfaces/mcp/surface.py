"""What a server offers, as values that know nothing of the protocol: tools, resources, prompts, and the call in which
one of them is used. A tool is a function from a call and its typed arguments to an answer; it raises `Refused`."""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from enum import Enum
from functools import cache
from typing import Any, NamedTuple, Protocol
from urllib.parse import unquote

import msgspec

from ordain.app.app import App
from ordain.core.approval.approval import Principal
from ordain.core.plan.value import Instant
from ordain.core.text.problem import Problem

AGENT_MAX = 80

Progress = Callable[[float, float | None, str], Awaitable[None]]
"""Told how far something has come: so much, of so much where that is known, and in words."""


def claimed_name(name: str, version: str) -> str:
    """What a client calls itself, as far as it is kept. It decides nothing."""
    agent = f"{name} {version}".strip()[:AGENT_MAX]
    return agent.encode("utf-8", "replace").decode()  # else nothing that it asks for could be recorded


Workspaces = Callable[[], App]
"""Opens the workspace anew for every call: what one call saw is never what another believes."""


@asynccontextmanager
async def opened(workspaces: Workspaces) -> AsyncIterator[App]:
    """Ordain over the workspace, for as long as this takes."""
    app = workspaces()
    try:
        yield app
    finally:
        await app.close()


class ClientCall:
    """One request of one client."""

    def __init__(self, by: Principal, workspaces: Workspaces, progress: Progress, *, takes_tasks: bool = False) -> None:
        self.by, self._workspaces, self.progress = by, workspaces, progress
        self.takes_tasks = takes_tasks

    def app(self) -> AbstractAsyncContextManager[App]:
        return opened(self._workspaces)


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    """What a tool answers: a value of its result type, what was noticed, and what comes next, in words."""

    data: Any
    problems: tuple[Problem, ...] = ()
    next: tuple[str, ...] = ()
    failure: Problem | None = None
    """What went wrong with what was to be done, where nothing was refused and there is data all the same."""


class TaskStatus(Enum):
    """How a task stands; the last three are ends."""

    WORKING = "working"
    INPUT_REQUIRED = "input_required"
    COMPLETED = "completed"
    FAILED = "failed"
    CANCELLED = "cancelled"

    @property
    def ended(self) -> bool:
        return self in (TaskStatus.COMPLETED, TaskStatus.FAILED, TaskStatus.CANCELLED)


class ProtocolTask(msgspec.Struct, frozen=True, kw_only=True):
    """A call whose answer comes later, as its client sees it: the protocol's task, and not a plan's."""

    task_id: str
    status: TaskStatus
    message: str
    created_at: Instant
    updated_at: Instant
    poll_ms: int
    ttl_ms: int | None = None
    """How long it is kept; None: for ever."""
    answer: Answer | None = None
    """What the tool answers in the end, where it is completed."""
    fault: str | None = None
    """Why there will be no answer, where it failed; a tool that would not or could not has completed."""
    inputs: Mapping[str, Mapping[str, Any]] = {}
    """What the client is asked for, by keys that are never used twice."""


class Tasks(Protocol):
    """The tasks of a server, each for its own client only."""

    async def get(self, call: ClientCall, task_id: str) -> ProtocolTask | None:
        """The task as it stands; None where this caller has none of that name."""

    async def update(self, call: ClientCall, task_id: str, given: Mapping[str, Any]) -> None:
        """Take what the client was asked for, by key; raises Refused where it is not the client's to give."""

    async def cancel(self, call: ClientCall, task_id: str) -> None:
        """Ask that it be ended, if it has not come to its end."""

    def changes(self, call: ClientCall, task_id: str) -> AsyncGenerator[ProtocolTask, None]:
        """The task as it stands, and again whenever that is another, until it has ended."""


class Tool(msgspec.Struct, frozen=True, kw_only=True):
    """One tool. The four booleans are what its annotations say, and must be true."""

    name: str
    title: str
    description: str
    arguments: type[msgspec.Struct]
    words: tuple[tuple[str, str], ...] = ()
    results: tuple[Any, ...]
    call: Callable[[ClientCall, Any], Awaitable[Answer | ProtocolTask]]
    """Answers with a task only where the call takes one, and only once that task can be asked about."""
    read_only: bool = False
    destructive: bool = False
    idempotent: bool = False
    open_world: bool = False


class Content(NamedTuple):
    """What a resource holds."""

    text: str
    media_type: str = "application/json"


class ListedResource(NamedTuple):
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
    read: Callable[[ClientCall, Mapping[str, str]], Awaitable[Content]]
    media_type: str = "application/json"
    size: Callable[[App, Mapping[str, str]], int] | None = None
    """How much there is of it, which changes when it does; None where nobody can subscribe to it."""


class Argument(NamedTuple):
    """One argument of a prompt."""

    name: str
    description: str
    required: bool = True
    complete: Callable[[ClientCall, str], Awaitable[Sequence[str]]] | None = None
    """The values there are that begin so, where they can be told."""


class Prompt(msgspec.Struct, frozen=True, kw_only=True):
    """A text for a model, made from arguments."""

    name: str
    title: str
    description: str
    write: Callable[[ClientCall, Mapping[str, str]], Awaitable[str]]
    arguments: tuple[Argument, ...] = ()


class Surface(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that a server offers."""

    name: str
    title: str
    version: str
    instructions: str
    tools: tuple[Tool, ...] = ()
    resources: Callable[[ClientCall], Awaitable[Sequence[ListedResource]]] | None = None
    news: Callable[[App, Principal, int | None], tuple[int, bool]] | None = None
    """How many there are now for everybody, and whether one that came after so many is this caller's to list."""
    templates: tuple[ResourceTemplate, ...] = ()
    prompts: tuple[Prompt, ...] = ()
    tasks: Tasks | None = None

    def resource(self, uri: str) -> tuple[ResourceTemplate, Mapping[str, str]] | None:
        """The kind of resource that is at an address, with the names in that."""
        found = ((one, match_address(one.uri, uri)) for one in self.templates)
        return next(((one, names) for one, names in found if names is not None), None)


_PLACE = re.compile(r"\{(\w+)\}")


def match_address(template: str, uri: str) -> Mapping[str, str] | None:
    """The names in an address that fit the places of a template, none over a stroke; None for another address."""
    found = _pattern(template).fullmatch(uri)
    return {name: unquote(text) for name, text in found.groupdict().items()} if found is not None else None


@cache
def _pattern(template: str) -> re.Pattern[str]:
    parts = _PLACE.split(template)
    written = [rf"(?P<{part}>[^/?#]+)" if index % 2 else re.escape(part) for index, part in enumerate(parts)]
    return re.compile("".join(written))
