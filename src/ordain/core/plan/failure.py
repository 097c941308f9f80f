"""Failure policy: what follows a broken contract or a failed attempt."""

from __future__ import annotations

from typing import Annotated

import msgspec

from ordain.core.plan.role import Count, Duration, Inner, Picked, Prose, StepName
from ordain.core.plan.value import StepId, Value
from ordain.core.text.limit import ATTEMPTS_MAX, FACTOR_MAX


class Abort(Value, frozen=True, tag_field="strategy", tag="abort"):
    """The step fails and the run ends."""

    message: Annotated[str | None, Prose("failure policy")] = None


class Skip(Value, frozen=True, tag_field="strategy", tag="skip"):
    """The step counts as skipped; steps that need it go on."""

    warn: Annotated[bool | None, Picked()] = None


class Continue(Value, frozen=True, tag_field="strategy", tag="continue"):
    """The step fails, steps that need it stay blocked, the rest goes on."""


class Escalate(Value, frozen=True, tag_field="strategy", tag="escalate"):
    """A person decides."""


class AskApproval(Value, frozen=True, tag_field="strategy", tag="require_approval"):
    """A person is asked whether to go on, with this summary."""

    summary: Annotated[str, Prose("failure policy")]


class Replan(Value, frozen=True, tag_field="strategy", tag="replan"):
    """A planner proposes another plan."""


class Recover(Value, frozen=True, tag_field="strategy", tag="recover"):
    """A planner proposes how to recover this step."""


AfterFallback = Abort | Skip | Continue | Escalate | AskApproval | Replan | Recover
"""What can follow when fallback steps did not help."""


class Fallback(Value, frozen=True, tag_field="strategy", tag="fallback"):
    """These fallback steps of the plan are run, then the contract is tried again. Where that does not help, `then`
    follows; without it, the plan's own policy."""

    steps: Annotated[tuple[StepId, ...], StepName()]
    then: Annotated[AfterFallback | None, Inner()] = None


LastPolicy = Abort | Skip | Continue | Escalate | AskApproval | Fallback | Replan | Recover
"""What can follow when tries have run out."""


_DELAY = Duration("delays between attempts", zero=True)
_TOO_OFTEN = f"failure policy may retry at most {ATTEMPTS_MAX - 1} times"


class Retry(Value, frozen=True, tag_field="strategy", tag="retry"):
    """Try again, then do as `then` says.

    `max_attempts` counts all attempts. The delay before further attempt n (from zero) is
    `initial_delay_ms * backoff_multiplier ** n + increment_ms * n`, at most `max_delay_ms`.
    Without `then` the plan's own policy follows, less its retries.
    """

    max_attempts: Annotated[int, Count("attempts", ATTEMPTS_MAX, said=_TOO_OFTEN)]
    initial_delay_ms: Annotated[int, _DELAY] = 0
    increment_ms: Annotated[int, _DELAY] = 0
    backoff_multiplier: Annotated[float, Count("factor by which delays grow", FACTOR_MAX)] = 1
    max_delay_ms: Annotated[int | None, _DELAY] = None
    then: Annotated[LastPolicy | None, Inner()] = None

    def __post_init__(self) -> None:
        # A default is left out of the canonical form only when it is the very same object, and 1.0 is not 1.
        if self.backoff_multiplier == 1:
            msgspec.structs.force_setattr(self, "backoff_multiplier", 1)


FailurePolicy = LastPolicy | Retry
