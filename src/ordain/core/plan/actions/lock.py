"""The actions `acquire_lock` and `release_lock`: they happen in the ledger's own transaction."""

from __future__ import annotations

from operator import attrgetter
from typing import Annotated, ClassVar

from ordain.core.plan.role import About, Duration, EffectClass, Name
from ordain.core.plan.value import Value


class AcquireLock(Value, frozen=True, tag_field="type", tag="acquire_lock"):
    """Have a named lock that no other run has, waiting for it where one does."""

    lock_name: Annotated[str, Name("lock name", "lock")]
    timeout_ms: Annotated[int | None, Duration("timeout of the lock")] = None
    """How long to wait for it; absent, as long as the step may take."""

    about: ClassVar[About] = About(
        effect=EffectClass.REPEATABLE,
        target=attrgetter("lock_name"),
        waits="outside",
        recorded=True,
        ledger_only=True,
        held=True,
        did="took the lock `{0.lock_name}`",
        changed=("lock_changed", "takes another lock, or waits for it for another time"),
    )


class ReleaseLock(Value, frozen=True, tag_field="type", tag="release_lock"):
    """Give a named lock back before the run ends, which does it too."""

    lock_name: Annotated[str, Name("lock name", "lock")]

    about: ClassVar[About] = About(
        effect=EffectClass.REPEATABLE,
        target=attrgetter("lock_name"),
        waits="outside",
        recorded=True,
        ledger_only=True,
        held=True,
        did="released the lock `{0.lock_name}`",
    )


def lock_taken(action: object) -> str | None:
    """The lock that an action takes, if it takes one."""
    return action.lock_name if isinstance(action, AcquireLock) else None


def lock_released(action: object) -> str | None:
    """The lock that an action gives back, if it gives one back."""
    return action.lock_name if isinstance(action, ReleaseLock) else None
