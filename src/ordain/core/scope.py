"""What an agent may use inside a step: exactly the tools that the step lists, else those that the plan does, else those
that only work on files of the workspace. Commands are never among them unless they are listed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ordain.core.action import Task
from ordain.core.model import Plan
from ordain.core.tool import COMMANDS, ToolDefinition

__all__ = ["offered", "scope_of"]


def scope_of(task: Task, plans: Sequence[Plan]) -> tuple[str, ...] | None:
    """The tools that a task lists, or the innermost plan around it that lists any; None where none does."""
    if task.tools is not None:
        return task.tools
    return next((plan.tools for plan in plans if plan.tools is not None), None)


def offered(task: Task, plans: Sequence[Plan], tools: Mapping[str, ToolDefinition]) -> tuple[str, ...]:
    """The names among these tools that a task may use; of a tool with operations that is listed whole, all of them."""
    listed = scope_of(task, plans)
    if listed is None:
        return tuple(name for name, tool in tools.items() if _works_on_files(tool))
    return tuple(name for name in tools if name in listed or name.partition(":")[0] in listed)


def _works_on_files(tool: ToolDefinition) -> bool:
    return tool.name not in COMMANDS and any(parameter.path for parameter in tool.parameters)
