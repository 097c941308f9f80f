"""The action `custom`: whatever a registered handler does."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar

from ordain.core.plan.role import About, EffectClass, HandlerName, Payload
from ordain.core.plan.value import Value


class Custom(Value, frozen=True, tag_field="type", tag="custom"):
    """An action carried out by a handler registered under this type."""

    action_type: Annotated[str, HandlerName("action type")]
    payload: Annotated[Any, Payload()] = None

    about: ClassVar[About] = About(effect=EffectClass.OPAQUE, did="did `{0.action_type}`")
