"""The action `store_data`: a value that later steps refer to by its key."""

from __future__ import annotations

from operator import attrgetter
from typing import Annotated, Any, ClassVar

from ordain.core.plan.role import About, DataKey, EffectClass, Payload
from ordain.core.plan.value import Value


class StoreData(Value, frozen=True, tag_field="type", tag="store_data"):
    key: Annotated[str, DataKey("key")]
    value: Annotated[Any, Payload()]

    about: ClassVar[About] = About(
        effect=EffectClass.REPEATABLE, target=attrgetter("key"), ledger_only=True, did="stored `{0.key}`"
    )
