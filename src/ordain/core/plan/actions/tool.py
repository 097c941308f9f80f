"""The action `tool`: a call of a registered tool."""

from __future__ import annotations

from collections.abc import Mapping
from operator import attrgetter
from typing import Annotated, Any, ClassVar

from ordain.core.plan.role import About, EffectClass, Name, Payload
from ordain.core.plan.value import Value


class CallTool(Value, frozen=True, tag_field="type", tag="tool"):
    """Call a registered tool with exactly these arguments."""

    tool: Annotated[str, Name("tool name", "tool")]
    operation: Annotated[str | None, Name("operation", "operation")] = None
    args: Annotated[Mapping[str, Any], Payload()] = {}

    about: ClassVar[About] = About(
        effect=EffectClass.OPAQUE, kind="call", target=attrgetter("tool"), did="called `{0.tool}`"
    )
