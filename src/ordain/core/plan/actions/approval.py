"""The action `validate_approval`: go on only if the approval of the run covers something."""

from __future__ import annotations

from typing import Annotated, ClassVar

from ordain.core.plan.condition import ApprovalScope
from ordain.core.plan.role import About, EffectClass, Inner
from ordain.core.plan.value import Value


class ValidateApproval(Value, frozen=True, tag_field="type", tag="validate_approval"):
    scope: Annotated[ApprovalScope, Inner()]

    about: ClassVar[About] = About(
        effect=EffectClass.READS,
        asks=True,
        did="asked a person",
        changed=("approval_scope_changed", "wants an approval of something else; read it"),
    )
