"""The action `run`: a command for bash."""

from __future__ import annotations

from collections.abc import Mapping
from operator import attrgetter
from typing import Annotated, ClassVar

from ordain.core.plan.role import About, CommandText, EffectClass, Payload
from ordain.core.plan.value import Value


class RunCommand(Value, frozen=True, tag_field="type", tag="run"):
    """Run a command with bash in the workspace; its exit status is observed by the harness.

    Values of earlier steps come in through `env`, which no value can break out of.
    """

    command: Annotated[str, CommandText("command")]
    env: Annotated[Mapping[str, str], Payload()] = {}

    about: ClassVar[About] = About(
        effect=EffectClass.OPAQUE, kind="command", target=attrgetter("command"), did="ran a command"
    )
