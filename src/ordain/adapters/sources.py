"""The tools that are not built in, whatever they are made of. Each source is asked once for what it has; that is kept
as long as the workspace is open."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ordain.adapters.python_tools import PythonTools
from ordain.core.problem import refuse
from ordain.core.secret_reference import Secret
from ordain.core.tool import ToolDefinition, ToolSource
from ordain.ports import ToolResult

__all__ = ["ToolSources"]


class ToolSources:
    """ports.Sources over Python functions."""

    def __init__(self, functions: Sequence[Callable[..., Any]] = ()) -> None:
        self._python = PythonTools(functions)
        self._asked: list[tuple[tuple[str, ToolSource], Mapping[str, ToolDefinition]]] = []

    def registered(self) -> Mapping[str, ToolDefinition]:
        return self._python.registered()

    def definitions(self, name: str, source: ToolSource, secret: Secret) -> Mapping[str, ToolDefinition]:
        for asked, found in self._asked:
            if asked == (name, source):
                return found
        found = self._ask(name, source)
        self._asked.append(((name, source), found))
        return found

    def _ask(self, name: str, source: ToolSource) -> Mapping[str, ToolDefinition]:
        if source.python is None:
            raise refuse("E_TOOL_SOURCE", f"The tool `{name}` cannot be had: this version asks no servers and plugins.")
        return self._python.definitions(name, source.python)

    async def call(self, tool: ToolDefinition, args: Mapping[str, Any], key: str, secret: Secret) -> ToolResult:
        return await self._python.call(tool, args, key)
