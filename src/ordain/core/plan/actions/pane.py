"""The action `send_text`: text for a pane."""

from __future__ import annotations

from typing import Annotated, ClassVar

from ordain.core.plan.role import About, EffectClass, PaneName, Picked, Prose
from ordain.core.plan.value import Value


class SendText(Value, frozen=True, tag_field="type", tag="send_text"):
    text: Annotated[str, Prose("text", machine=True)]
    pane_id: Annotated[int | None, PaneName()] = None
    pane: Annotated[str | None, PaneName()] = None
    keys: Annotated[tuple[str, ...], Picked()] = ()
    paste_mode: Annotated[bool | None, Picked()] = None

    about: ClassVar[About] = About(
        effect=EffectClass.OPAQUE,
        kind="pane",
        target=lambda action: action.pane or f"pane {action.pane_id}",
        did="sent text to a pane",
        unsupported=True,
    )
