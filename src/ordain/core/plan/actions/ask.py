"""The action `ask`: a question to a person."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar

from ordain.core.plan.role import About, EffectClass, Picked, Prose, Schema
from ordain.core.plan.value import Value


class Ask(Value, frozen=True, tag_field="type", tag="ask"):
    """Ask a person; the answer is the step's result."""

    question: Annotated[str, Prose("question")]
    choices: Annotated[tuple[str, ...], Picked()] = ()
    schema: Annotated[Mapping[str, Any], Schema()] = {}

    about: ClassVar[About] = About(
        effect=EffectClass.REPEATABLE,
        waits="person",
        recorded=True,
        ledger_only=True,
        asks=True,
        did="asked a person",
        changed=("question_changed", "asks a person something else; read it"),
    )
