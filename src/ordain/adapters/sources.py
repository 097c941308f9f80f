"""The tools that are not built in, whatever they are made of. Each source is asked once for what it has; that is kept
as long as the workspace is open."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ordain.adapters.python_tools import PythonTools
from ordain.core.problem import closest, refuse
from ordain.core.secret_reference import Secret
from ordain.core.tool import ToolDefinition, ToolSource
from ordain.ports import ToolResult

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

    from ordain.adapters.mcp_tools import McpTools

__all__ = ["PLUGINS", "ToolSources"]

PLUGINS = "ordain.tools"
"""The group of entry points that name tools. One counts only where the configuration names it."""


class ToolSources:
    """ports.Sources over Python functions, plugins, and MCP servers, which are started in the workspace."""

    def __init__(self, workspace: Path, functions: Sequence[Callable[..., Any]] = ()) -> None:
        self._workspace = workspace
        self._python = PythonTools(functions)
        self._asked: list[tuple[tuple[str, ToolSource], Mapping[str, ToolDefinition]]] = []

    def registered(self) -> Mapping[str, ToolDefinition]:
        return self._python.registered()

    def definitions(self, name: str, source: ToolSource, secret: Secret) -> Mapping[str, ToolDefinition]:
        for asked, known in self._asked:
            if asked == (name, source):
                return known
        found = self._ask(name, source, secret)
        self._asked.append(((name, source), found))
        return found

    def _ask(self, name: str, source: ToolSource, secret: Secret) -> Mapping[str, ToolDefinition]:
        if source.python is not None:
            return self._python.definitions(name, source.python)
        if source.plugin is not None:
            return self._python.definitions(name, _plugin(name, source.plugin).value)
        return self._servers.definitions(name, source, secret)

    async def call(self, tool: ToolDefinition, args: Mapping[str, Any], key: str, secret: Secret) -> ToolResult:
        if tool.source is not None:
            return await self._servers.call(tool, args, key, secret)
        return await self._python.call(tool, args, key)

    def said(self, key: str) -> str:
        return self._servers.said(key) if "_servers" in self.__dict__ else ""

    @cached_property
    def _servers(self) -> McpTools:
        from ordain.adapters.mcp_tools import McpTools  # few workspaces have servers

        return McpTools(self._workspace)

    def close(self) -> None:
        if "_servers" in self.__dict__:
            self._servers.close()
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
