"""Work items: a step's task as it is handed to whoever performs it.

An item says everything that a worker needs and names the step that it comes from; it is the same whether the worker is
a process on this machine or one that takes it from a queue. It is offered, claimed once, with a lease, and then it is
completed or timed out, whichever is recorded first. That ends the attempt: what its worker says later is about one that
is over, and another try is another item.
"""

from __future__ import annotations

import msgspec

from ordain.core.value import Instant, PlanId, RunId, StepId

__all__ = ["Lease", "Read", "WorkItem"]


class Read(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What was put before an agent: a file, a topic, the result of an earlier step, or the item of a repeated one."""

    ref: str
    """As the plan has it: `file:PATH`, `topic:NAME`, `step:ID`; of what a step is repeated for, its name."""
    size: int
    """Of all of it, in bytes."""
    seal: str = ""
    """Commits to what was put into the prompt."""
    cut: bool = False
    """Whether only its beginning was."""
    hidden: int = 0
    """How many secrets were taken out of it."""


class WorkItem(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One attempt at a task."""

    agent: str
    kind: str
    """What kind of work it is (`core.kind`)."""
    plan_id: PlanId
    run_id: RunId
    step: StepId
    attempt: int
    key: str
    """The step key: the same for every attempt at the same thing."""
    timeout_ms: int
    reads: tuple[Read, ...] = ()
    tools: tuple[str, ...] = ()
    """What it may use through the step's own door."""
    model: str | None = None
    task: str = ""
    """Empty where the item is recorded: the plan has it."""
    prompt: str = ""
    """Empty where the item is recorded: it is kept beside the chain under its seal."""
    prompt_seal: str = ""
    prompt_bytes: int = 0


class Lease(msgspec.Struct, frozen=True, kw_only=True):
    """Who has claimed an item, and when its time is over: whoever carries out the run ends the attempt then."""

    worker: str
    until: Instant
