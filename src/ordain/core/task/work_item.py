"""Work items: a step's task as it is handed to whoever performs it.

An item is offered, claimed once, with a lease, and then completed or timed out, whichever is recorded first. That ends
the attempt: what its worker says later is about one that is over, and another try is another item.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from ordain.core.plan.action import Task
from ordain.core.plan.condition import Contract
from ordain.core.plan.model import Step, check_of
from ordain.core.plan.value import Instant, PlanId, RunId, StepId

# --- Work ------------------------------------------------------------------------------------------------------------


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
    arbiter: str = ""
    """Who was asked to choose the agent, where that was left to one."""
    why: str = ""
    """Why it is that agent, where an arbiter was asked."""
    prompt_seal: str = ""
    prompt_bytes: int = 0


class Lease(msgspec.Struct, frozen=True, kw_only=True):
    """Who has claimed an item, and when its time is over: the executor ends the attempt then."""

    worker: str
    until: Instant


# --- Form ------------------------------------------------------------------------------------------------------------
# The form of a person's task: what they are shown of it, and what is kept of that as what they were told.


class Form(msgspec.Struct, frozen=True, kw_only=True):
    """A task as the person must see it who is to do it."""

    agent: str
    """The role that they have in the plan."""
    task: str
    instructions: str = ""
    criteria: tuple[str, ...] = ()
    contract: str = ""
    """What decides whether it is done; where it is empty, their word does, and is called unverified."""
    reads: tuple[str, ...] = ()
    """What the plan would have them read, as it names it."""
    writes: tuple[str, ...] = ()


def form_of(step: Step, agent: str) -> Form:
    task, check = step.action, check_of(step)
    assert isinstance(task, Task)
    return Form(
        agent=agent,
        task=task.task,
        instructions=task.instructions or "",
        criteria=task.criteria,
        contract=check.command if isinstance(check, Contract) else check.expression if check is not None else "",
        reads=task.reads,
        writes=step.writes,
    )


def form_lines(form: Form) -> Iterator[str]:
    """A task for whoever is to do it: what is to be done, what there is to read, and what decides whether it is."""
    parts = (
        ("Task", form.task.splitlines()),
        ("How", form.instructions.splitlines()),
        ("Good when", form.criteria),
        ("Reads", form.reads),
        ("Writes", form.writes),
        ("Contract", form.contract.splitlines() or ["none: your word alone passes it, and is called unverified"]),
        ("As", [form.agent]),
    )
    for label, texts in parts:
        for number, text in enumerate(texts):
            yield f"{label + ':' if not number else '':<10} {text}".rstrip()


def form_text(step: Step, agent: str) -> str:
    return "".join(f"{line}\n" for line in form_lines(form_of(step, agent)))
