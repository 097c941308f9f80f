"""Several toolboxes as one, and everything that is built in.

Each call's arguments are compared with the tool's parameters here, once for all: what a plan writes out lint has
compared, but a value may have been decided since.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from ordain.adapters import file_tools, http_tools
from ordain.core.tool import COMMANDS, ToolDefinition, argument_faults
from ordain.ports import Toolbox, ToolResult

__all__ = ["BUILT_IN", "JoinedToolbox", "built_in_tools"]

BUILT_IN: Mapping[str, ToolDefinition] = {**COMMANDS, **file_tools.DEFINITIONS, **http_tools.DEFINITIONS}
"""The definitions of all tools that are built in."""


class JoinedToolbox:
    """ports.Toolbox over the tools of others, found by name, and over the definitions of commands. No two may share a
    name, and nobody may take that of a command: what is approved under a name is what runs."""

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

    async def call(self, tool: str, args: Mapping[str, Any], key: str) -> ToolResult:
        definition = self._definitions.get(tool)
        faults = argument_faults(definition, args) if definition is not None else []
        if faults:
            return ToolResult(error="F_STEP_FAILED", detail=faults[0][0])
        box = self._boxes.get(tool)
        if box is None:
            return ToolResult(error="F_STEP_FAILED", detail=f"there is no tool {tool!r} to call")
        return await box.call(tool, args, key)

    async def operand(self, tool: str, args: Mapping[str, Any]) -> str | None:
        box = self._boxes.get(tool)
        return await box.operand(tool, args) if box is not None else None


def built_in_tools(workspace: Path, room: Callable[[], Path] | None = None) -> JoinedToolbox:
    """The tools that are built in, rooted in one directory; `room` is where there is some for long results."""
    return JoinedToolbox(file_tools.FileTools(workspace), http_tools.HttpTools(room))
