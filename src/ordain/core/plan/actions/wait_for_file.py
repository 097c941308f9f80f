"""The action `wait_for_file`: until a file is there."""

from __future__ import annotations

from operator import attrgetter
from typing import Annotated, ClassVar

from ordain.core.plan.role import About, Duration, EffectClass, PathRead
from ordain.core.plan.value import Value


class WaitForFile(Value, frozen=True, tag_field="type", tag="wait_for_file"):
    """Wait until a file is in the workspace; what is in it is not looked at."""

    path: Annotated[str, PathRead(expected=False)]
    timeout_ms: Annotated[int | None, Duration("timeout of the wait")] = None
    """How long to wait for it; absent, as long as the step may take."""

    about: ClassVar[About] = About(
        effect=EffectClass.READS,
        kind="read",
        target=attrgetter("path"),
        waits="outside",
        did="waited for `{0.path}`",
        changed=("wait_changed", "waits for another file or for another time; read it"),
    )
