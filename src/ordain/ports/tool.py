"""Ports of tools: those that are built in, those that others bring, and the servers that have them."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, Protocol

import msgspec

from ordain.core.plan.tool import ToolDefinition, ToolSource
from ordain.core.policy.sealing import RunEnvironment
from ordain.core.run.step_event import Usage
from ordain.core.text.secret import Secret
from ordain.ports.process import Sealable, Whole


class ToolResult(msgspec.Struct, frozen=True, kw_only=True):
    """What a tool gave back: a value or bytes, or a problem's code and detail."""

    value: Any = None
    error: str | None = None
    detail: str = ""
    output: bytes | None = None
    """In place of a value: the end of the bytes that came, exactly, also where it went badly."""
    output_bytes: int = 0
    whole: Whole | None = None
    """All of them, where `output` is only their end."""
    used: Usage | None = None
    """What the tool reports that it used; nobody measures that."""


Patterns = Sequence[str]
"""Patterns of paths, as settings name them."""


class Toolbox(Protocol):
    """The registered tools. Those that are commands are among them, but the shell runs them (`core.command`)."""

    def definitions(self) -> Mapping[str, ToolDefinition]: ...

    async def call(
        self, tool: str, args: Mapping[str, Any], key: str, *, control: Patterns = (), secret_files: Patterns = ()
    ) -> ToolResult:
        """Call a tool with its step key. A failure is a result; an exception is a bug. `control` are the patterns of
        control files that the settings add, `secret_files` the files with secrets that they name.

        When cancelled, either nothing goes on afterwards, or the call is finished and its result returned.
        """

    async def operand(self, tool: str, args: Mapping[str, Any]) -> str | None:
        """A digest of what this call would change, as it is now; None where that cannot be told."""


class Handlers(Protocol):
    """Custom actions that are Python callables. Those that are commands the shell runs."""

    def registered(self) -> Mapping[str, ToolDefinition]:
        """The handlers that the program which uses us has registered, by their names among the tools."""

    async def call(self, handler: ToolDefinition, payload: Any, key: str) -> ToolResult:
        """Call a handler with the step key. Whatever goes wrong is a result.

        When cancelled, either nothing goes on afterwards, or the call is finished and its result returned.
        """


class Lost(Exception):
    """Nobody can tell any more whether a call happened: what was to answer it is gone. In words, why."""


class Sources(Sealable, Protocol):
    """Tools that are not built in: what the program which uses us hands over, and what the configuration names."""

    def registered(self) -> Mapping[str, ToolDefinition]:
        """The tools that the program which uses us has handed over, by their names."""

    def definitions(self, name: str, source: ToolSource, secret: Secret) -> Mapping[str, ToolDefinition]:
        """The tool that a source is, or its operations, by their names; asked for once and kept. Raises `Refused`
        with E_TOOL_SOURCE where they cannot be had."""

    def asked(
        self, sources: Mapping[str, ToolSource], secret: Secret, given: RunEnvironment | None
    ) -> AbstractContextManager[None]:
        """Ask these now, with the variables that were sealed for a run, or our own. Until the end of this
        `definitions` repeats what they said, also where they cannot be had."""

    def code_fault(self, source: ToolSource) -> tuple[str, ...]:
        """Why what a source runs is not what a person could trust, then what helps: it would be found in the
        workspace, or is not what `files` says. Nothing is started or imported."""

    def lost_words(self, argv: Sequence[str]) -> Sequence[str]:
        """The words of a command that name something in the workspace, where it is not started."""

    async def call(self, tool: ToolDefinition, args: Mapping[str, Any], key: str, secret: Secret) -> ToolResult:
        """Call a tool with the step key, where it still is what this definition says. Whatever goes wrong is a result;
        raises `Lost` where who was asked is gone.

        When cancelled, either nothing goes on afterwards here, or the call is finished and its result returned.
        """

    def said(self, key: str) -> str:
        """How far the call with this step key says that it has come, in words; nothing where it says nothing."""

    def close(self) -> None:
        """End whatever was started to ask or to call."""


class Unreached(Exception):
    """A server cannot be started or reached. In words, why, as the end of a sentence."""


class Upstream(Protocol):
    """One session with a server of tools, in its own words: messages of the protocol go and come as they stand."""

    noise: str
    """The beginning of the first line that it wrote and that is no message; empty where there was none."""

    def send(self, message: Mapping[str, Any]) -> None:
        """Hand over a message without waiting. What cannot be delivered is lost; `messages` ends then, or soon."""

    def messages(self) -> AsyncIterator[dict[str, Any]]:
        """What the server says, until it will say nothing more. Taken by one reader, once."""

    async def close(self) -> None:
        """End the session, and a server that was started for it with everything it started."""


class Upstreams(Protocol):
    """Sessions with the servers that the configuration names."""

    async def open(self, source: ToolSource, secret: Secret) -> Upstream:
        """Begin a session with the server of a source, which must be one; raises Unreached."""

    def known(self, source: ToolSource) -> Mapping[str, Any]:
        """What was kept of the server of a source last; nothing where nothing was."""

    def keep(self, source: ToolSource, said: Mapping[str, Any]) -> None:
        """Keep what a server said of itself, to be told before it is there the next time. Believed by nobody."""
