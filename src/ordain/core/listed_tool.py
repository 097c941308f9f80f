"""What a server lists of itself, and the definition that is made of it: the same for plans and for the gateway.

Nothing that a server says about effects is believed unless the configuration says so, and what the configuration says
of an operation wins over everything.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from ordain.core.scalar import FORBIDDEN
from ordain.core.schema import understood
from ordain.core.tool import EffectClass, ToolDefinition, ToolSource, operation_name

__all__ = ["callable_name", "listed_definition"]

_NAME = re.compile(r"[A-Za-z0-9_./-]{1,128}")


def callable_name(name: str) -> bool:
    """Whether plans can name an operation that is called so."""
    return _NAME.fullmatch(name) is not None


def listed_definition(server: str, source: ToolSource, said: Mapping[str, Any]) -> ToolDefinition:
    """The definition of an operation, from what its server lists of it."""
    name = said["name"]
    effect, destructive = _effect(source, name, said.get("annotations"))
    described = next((one for one in (said.get("description"), said.get("title")) if one and isinstance(one, str)), "")
    schema = understood(said.get("inputSchema"))
    return ToolDefinition(
        name=operation_name(server, name),
        description=FORBIDDEN.sub("\ufffd", described or f"The operation {name}."),
        effect=effect,
        destructive=destructive,
        schema=schema if isinstance(schema, Mapping) else {},
    )


def _effect(source: ToolSource, name: str, annotations: Any) -> tuple[EffectClass, bool]:
    """What an operation counts as: what the configuration says, else the hints where they are trusted. A missing hint
    is the worst."""
    hints = annotations if source.trust_annotations and isinstance(annotations, Mapping) else {}
    reads = hints.get("readOnlyHint") is True
    destructive = not reads and hints.get("destructiveHint") is not False
    effect = EffectClass.OPAQUE
    if reads:
        effect = EffectClass.READS
    elif hints.get("idempotentHint") is True:
        effect = EffectClass.REPEATABLE
    if name in source.effects:
        effect = source.effects[name]
    return effect, destructive and effect is not EffectClass.READS
