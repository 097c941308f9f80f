"""Ports of agents: starting them, and letting them reach the tools of their step."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AbstractContextManager
from typing import Any, Protocol

import msgspec

from ordain.core.plan.condition import PaneExists, PaneState, PatternMatched, PatternNotMatched
from ordain.core.policy.agent import Agent
from ordain.core.run.step_event import Usage
from ordain.core.task.offer import CallAnswer, Offer
from ordain.core.task.work_item import WorkItem
from ordain.ports.process import Command, Finished, Sealable
from ordain.ports.tool import ToolResult


class StepServer(msgspec.Struct, frozen=True, kw_only=True):
    """How an agent reaches the tools of its step: a command that speaks MCP, and what that must be given."""

    argv: tuple[str, ...]
    env: Mapping[str, str]
    sees: tuple[str, ...] = ()
    """What it must be able to read."""


class Behind(Protocol):
    """What is behind a door."""

    def listed(self) -> Sequence[Offer]:
        """The tools there are."""

    async def serve(self, tool: str, args: Mapping[str, Any]) -> CallAnswer:
        """Answer a call of a tool, whether or not there is such a one. When cancelled, nothing goes on afterwards."""

    async def may(self, tool: str, args: Mapping[str, Any]) -> CallAnswer:
        """Answer whether the agent may make a call itself, with a tool of its own host; nothing is performed. There
        is no problem in the answer where it may."""

    async def stranger(self) -> CallAnswer:
        """Answer somebody who knocks with another token than this door's."""


class Doors(Protocol):
    """Ways for the agent of one attempt, and nobody else, to the tools of its step. Who opens one answers the calls."""

    def fault(self) -> str | None:
        """Why no door can be opened here; None where one can."""

    def open(self, room: str, behind: Behind) -> AbstractAsyncContextManager[StepServer]:
        """A door with a token of its own, in this private directory; what is under way when the attempt is over is
        ended."""


class StepDoor(Protocol):
    """A door from its agent's side. Whatever is asked once the attempt is over raises `Refused` with E_DOOR."""

    async def offers(self) -> Sequence[Offer]:
        """The tools there are."""

    async def call(self, tool: str, args: Mapping[str, Any]) -> CallAnswer:
        """What a call of a tool is answered. When cancelled, it is taken back."""

    async def may(self, tool: str, args: Mapping[str, Any]) -> CallAnswer:
        """Whether the agent may make a call itself; there is no problem in the answer where it may."""


class Said(msgspec.Struct, frozen=True, kw_only=True):
    """What an agent that has come to its end is understood to have said. Nothing of it is believed."""

    text: bytes = b""
    used: Usage | None = None
    error: str | None = None
    """What went wrong by its own account, whatever its exit status is."""
    as_value: bool = False
    """Whether its last words are a value, and not text, where they are the JSON of one."""


class Invocation(msgspec.Struct, frozen=True, kw_only=True):
    """How an agent is started for one work item."""

    argv: tuple[str, ...]
    read: Callable[[Finished], Said]
    """What its output says."""
    stdin: bytes = b""
    env: Mapping[str, str] = {}
    """Variables besides those that it is allowed to see."""
    sees: tuple[str, ...] = ()
    """What it must be able to read at tier 1."""
    home: tuple[str, ...] = ()
    """Files of the home directory that it must have a copy of at tier 1."""
    changes: tuple[str, ...] = ()
    """Directories of its room that it must be able to change at tier 1."""
    directory: str = ""
    """Where it is started, where that is not the workspace."""

    def command(self, room: str, server: StepServer | None = None, **given: Any) -> Command:
        """The process that this starts, in a room and behind a door; `given` are its other fields."""
        own = {name: getattr(self, name) for name in ("argv", "stdin", "home", "changes", "directory")}
        sees = (room, *self.sees, *(server.sees if server is not None else ()))
        own |= {"text": " ".join(self.argv[:1]), "sees": sees}
        return Command(reports=True, errors_apart=True, found_outside=True, **own, **given)


class Agents(Sealable, Protocol):
    """What performs tasks."""

    def registered(self) -> Mapping[str, Agent]:
        """The agents that the program which uses us has handed over, by their names."""

    def fault(self, agent: Agent) -> str | None:
        """Why an agent cannot be started here; None where it can, as far as can be told."""

    def room(self) -> AbstractContextManager[str]:
        """A private directory for one attempt, gone after it."""

    def invocation(
        self, agent: Agent, item: WorkItem, room: str, server: StepServer | None, *, sandboxed: bool = False
    ) -> Invocation:
        """How to start an agent for an item, whose files are put into the room; raises ValueError, in words, where
        something is missing that only a person can say."""

    async def call(self, agent: Agent, item: WorkItem) -> ToolResult:
        """Have a registered callable do it. Whatever goes wrong is a result."""


class Panes(Protocol):
    """The terminals that agents live in, as far as conditions look at them."""

    def fault(self, condition: PaneExists | PaneState | PatternMatched | PatternNotMatched) -> str | None:
        """Why a condition about a pane does not hold, in words; None where it does."""
