"""The action `task`: work for an agent."""

from __future__ import annotations

from typing import Annotated, ClassVar

from ordain.core.plan.role import About, EffectClass, Handed, Name, Prose, ToolScope
from ordain.core.plan.value import Value


class Task(Value, frozen=True, tag_field="type", tag="task"):
    """Have an agent do something; what it says about it is kept and never believed."""

    task: Annotated[str, Prose("task")]
    agent: Annotated[str | None, Name("agent name", "agent")] = None
    instructions: Annotated[str | None, Prose("task")] = None
    criteria: Annotated[tuple[str, ...], Prose("task")] = ()
    reads: Annotated[tuple[str, ...], Handed()] = ()
    tools: Annotated[tuple[str, ...] | None, ToolScope()] = None
    """The tools the agent may use; a tool and its operation are written `tool:operation`."""

    about: ClassVar[About] = About(effect=EffectClass.OPAQUE, kind="agent", did="gave an agent a task")
