"""Several toolboxes as one, and everything that is built in.

Each call's arguments are compared with the tool's parameters here: a value may have been decided since lint.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ordain.adapters.process.outside import digest_of, lost_words, sealed, started
from ordain.adapters.tools import file as file_tools
from ordain.adapters.tools import http as http_tools
from ordain.adapters.tools.python import PythonTools, module_in
from ordain.core.plan.tool import COMMANDS, ToolDefinition, ToolSource, argument_faults
from ordain.core.policy.program import WORKSPACE_WORD, sealed_modules
from ordain.core.policy.sealing import RunEnvironment
from ordain.core.text.problem import Refused, closest, refuse
from ordain.core.text.secret import Secret
from ordain.ports.tool import Patterns, Toolbox, ToolResult

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

    from ordain.adapters.tools.mcp import McpTools


# --- Toolbox ---------------------------------------------------------------------------------------------------------


class JoinedToolbox:
    """ports.Toolbox over the tools of others and the definitions of commands. No two may share a name: what is
    approved under a name is what runs."""

    def __init__(self, *boxes: Toolbox) -> None:
        self._boxes: dict[str, Toolbox] = {}
        self._definitions: dict[str, ToolDefinition] = dict(COMMANDS)
        for box in boxes:
            for name, tool in box.definitions().items():
                if name in self._definitions:
                    raise ValueError(f"two tools are called {name}")
                self._boxes[name], self._definitions[name] = box, tool

    def definitions(self) -> Mapping[str, ToolDefinition]:
        return self._definitions

    async def call(
        self, tool: str, args: Mapping[str, Any], key: str, *, control: Patterns = (), secret_files: Patterns = ()
    ) -> ToolResult:
        definition = self._definitions.get(tool)
        faults = argument_faults(definition, args) if definition is not None else []
        if faults:
            return ToolResult(error="F_STEP_FAILED", detail=faults[0][0])
        if (box := self._boxes.get(tool)) is None:
            return ToolResult(error="F_STEP_FAILED", detail=f"there is no tool {tool!r} to call")
        return await box.call(tool, args, key, control=control, secret_files=secret_files)

    async def operand(self, tool: str, args: Mapping[str, Any]) -> str | None:
        box = self._boxes.get(tool)
        return await box.operand(tool, args) if box is not None else None


def built_in_tools(workspace: Path, room: Callable[[], Path] | None = None) -> JoinedToolbox:
    """The tools that are built in, rooted in one directory; `room` is where there is some for long results."""
    return JoinedToolbox(file_tools.FileTools(workspace), http_tools.HttpTools(room))


# --- Sources ---------------------------------------------------------------------------------------------------------
# The tools that are not built in. Each source is asked once for what it has, which is kept as long as we are open.

PLUGINS = "ordain.tools"
"""The group of entry points that name tools. One counts only where the configuration names it."""


class ToolSources:
    """ports.Sources over Python functions, plugins, and MCP servers. `alone` says that this process is ours: then
    nothing else in it is loaded from the workspace either."""

    def __init__(self, workspace: Path, functions: Sequence[Callable[..., Any]] = (), *, alone: bool = False) -> None:
        self._workspace = workspace
        self._python = PythonTools(functions, workspace, alone=alone)
        self._given: RunEnvironment | None = None
        self._servers: list[McpTools] = []
        """The one adapter of servers, once it is needed. All that are sealed share it: closing one closes all."""
        self._asked: dict[str, tuple[ToolSource, Mapping[str, ToolDefinition] | Refused]] = {}

    def sealed(self, given: RunEnvironment) -> ToolSources:
        sources = copy.copy(self)
        sources._given = given
        return sources

    def registered(self) -> Mapping[str, ToolDefinition]:
        return self._python.registered()

    def definitions(self, name: str, source: ToolSource, secret: Secret) -> Mapping[str, ToolDefinition]:
        asked, said = self._asked.get(name, (None, {}))
        if asked != source:
            said = self._ask(name, source, secret, None)
            self._asked[name] = source, said
        if isinstance(said, Refused):
            raise Refused(said.problems)
        return said

    @contextmanager
    def asked(self, sources: Mapping[str, ToolSource], secret: Secret, given: RunEnvironment | None) -> Iterator[None]:
        for name, source in sources.items():
            try:
                self._asked[name] = source, self._ask(name, source, secret, given)
            except Refused as refused:
                self._asked[name] = source, refused
        try:
            yield
        finally:
            self._asked = {name: one for name, one in self._asked.items() if not isinstance(one[1], Refused)}

    def _ask(
        self, name: str, source: ToolSource, secret: Secret, given: RunEnvironment | None
    ) -> Mapping[str, ToolDefinition]:
        if source.python is not None:
            return self._python.definitions(name, source.python, source.files)
        if source.plugin is not None:
            return self._python.definitions(name, _plugin(name, source.plugin).value)
        return self._mcp().definitions(name, source, secret, given)

    async def call(self, tool: ToolDefinition, args: Mapping[str, Any], key: str, secret: Secret) -> ToolResult:
        if tool.source is not None:
            return await self._mcp().call(tool, args, key, secret, self._given)
        return await self._python.call(tool, args, key)

    def code_fault(self, source: ToolSource) -> tuple[str, ...]:
        module, files = (source.python or "").partition(":")[0], [*source.files]
        try:
            if source.mcp:
                named = [word.partition(WORKSPACE_WORD)[2].strip("/") or word for word in source.mcp[1:]]
                files += [one for one in named if (self._workspace / one).is_file() and not Path(one).is_absolute()]
                with suppress(FileNotFoundError):  # what is not there yet can be had later
                    started(source.mcp, source.files, self._workspace, None)
            elif source.files:
                sealed_modules(module, sealed(source.files, self._workspace))
            elif module and (found := module_in(module, self._workspace)):
                files += found
                raise ValueError(f"`{module}` would be loaded from the workspace, where any step can change it")
            return ()
        except ValueError as error:
            fault = str(error)
        digests = []
        for file in dict.fromkeys(files):
            with suppress(ValueError):
                digests.append(f'"{file}" = "{digest_of(file, self._workspace)[0]}"')
        if not digests:
            return fault, "Install it outside the workspace, and name it there."
        how = f"Or, to run just what is there now, add: files = {{ {', '.join(digests)} }}"
        place = f"Write {WORKSPACE_WORD}/FILE where the command names one of them." if source.mcp else ""
        return fault, "Install it outside the workspace, and name it there.", how, *filter(None, [place])

    def lost_words(self, argv: Sequence[str]) -> Sequence[str]:
        return lost_words(argv, self._workspace)

    def said(self, key: str) -> str:
        return "".join(one.said(key) for one in self._servers)

    def _mcp(self) -> McpTools:
        from ordain.adapters.tools.mcp import McpTools  # few workspaces have servers

        if not self._servers:
            self._servers.append(McpTools(self._workspace))
        return self._servers[0]

    def close(self) -> None:
        for one in self._servers:
            one.close()
        self._asked.clear()


def _plugin(name: str, wanted: str) -> EntryPoint:
    """The entry point of this name, or the only one of the package of this name."""
    from importlib.metadata import entry_points  # few workspaces have plugins

    every = entry_points(group=PLUGINS)
    found = [one for one in every if one.name == wanted]
    found = found or [one for one in every if one.dist is not None and one.dist.name == wanted]
    if len(found) == 1:
        return found[0]
    why = "several plugins are called so" if found else "there is no such plugin here"
    raise refuse(
        "E_TOOL_SOURCE",
        f"The tool `{name}` cannot be had: `{wanted}` names no one plugin; {why}.",
        *closest(wanted, [one.name for one in every]),
    )
