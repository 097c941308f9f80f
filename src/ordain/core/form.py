"""The form of a person's task: what they are shown of it, and what is kept of that as what they were told.

Pure. A model's prompt says things that are not for people, such as how to end; one place has the words for both who
shows a form and who keeps it, so that they cannot differ.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from ordain.core.action import Task
from ordain.core.condition import Contract
from ordain.core.model import Step, check_of

__all__ = ["Form", "form_lines", "form_of", "form_text"]


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
    """The form of a step whose task is a person's."""
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
    """The same as one text."""
    return "".join(f"{line}\n" for line in form_lines(form_of(step, agent)))
