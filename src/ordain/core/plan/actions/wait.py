"""The action `wait_for`: until a condition holds."""

from __future__ import annotations

from typing import Annotated, ClassVar

from ordain.core.plan.condition import WaitCondition
from ordain.core.plan.role import About, Duration, EffectClass, Inner, PaneName
from ordain.core.plan.value import Value


class WaitFor(Value, frozen=True, tag_field="type", tag="wait_for"):
    condition: Annotated[WaitCondition, Inner()]
    timeout_ms: Annotated[int, Duration("timeout of the wait")]
    pane_id: Annotated[int | None, PaneName()] = None

    about: ClassVar[About] = About(
        effect=EffectClass.REPEATABLE,
        waits="outside",
        recorded=True,
        ledger_only=True,
        did="waited for something",
        changed=("wait_changed", "waits for something else or for another time; read it"),
    )
