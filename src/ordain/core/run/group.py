"""Steps that come to be while a run goes on, made of the approved plan and nothing else.

`build[3]` is the fourth item of `build`, `deploy/stop` the step `stop` of the plan nested in `deploy`, `build+undo` the
fallback `undo` used for `build`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import msgspec
from msgspec.structs import replace

from ordain.core.plan.expr import named
from ordain.core.plan.graph import needs_of
from ordain.core.plan.model import Plan, Step
from ordain.core.plan.value import StepId
from ordain.core.run.step_event import GroupKind


class Member(msgspec.Struct, frozen=True):
    """A step of a group, and where it belongs."""

    parent: StepId
    kind: GroupKind
    name: StepId
    """What the plan calls it: references and failure policies use that."""
    index: int = 0
    """Of its item."""
    label: str = ""
    """What tells its item from the others."""


class Group(msgspec.Struct):
    """The steps that a step waits for. Owned by its RunState."""

    kind: GroupKind
    members: tuple[StepId, ...]
    limit: int | None = None
    """How many of the members may have begun and not settled."""
    begun: dict[StepId, None] = msgspec.field(default_factory=dict)
    """Where there is a limit: those that have, or may."""
    held: dict[StepId, None] = msgspec.field(default_factory=dict)
    """Those that could begin, were there room; the first first."""
    live: int = 0
    """Members at work, waiting, with a person, or ready. Where it is zero the group has come to its end."""
    aborted_by: StepId | None = None
    items_seal: str = ""


Made = tuple[tuple[Step, tuple[StepId, ...]], ...]
"""Steps of a group with what each waits for."""


def asks_about_item(step: Step) -> bool:
    """Whether the condition of a repeated step is about each item, and not about the whole."""
    if step.when is None or step.for_each is None:
        return False
    return bool({step.for_each.name or "item", "item", "index"}.intersection(named(step.when).others))


def repeated(step: Step) -> Step:
    """A repeated step as the one that waits for its items: what is about each of them is not about it."""
    return replace(
        step,
        when=None if asks_about_item(step) else step.when,
        preconditions=(),
        verification=None,
        proof=None,
        protect=(),
        approval=None,
    )


def item_members(step: Step, original: Step, count: int, labels: Sequence[str] = ()) -> Made:
    """One step for each item; `original` is the step as the plan has it, whose budget stays with the repeated step."""
    kept = original.when if asks_about_item(original) else None
    one = replace(original, needs=(), when=kept, for_each=None, budget=None)
    titles = [f"{original.description}: {label}" for label in labels] or [original.description] * count
    ids = (StepId(f"{step.id}[{index}]") for index in range(count))
    return tuple((replace(one, id=name, description=title), ()) for name, title in zip(ids, titles, strict=True))


def within(step: Step, plan: Plan, around: Step) -> Step:
    """A step of a nested plan with what that plan, and the step that holds it, say of all steps in it."""
    protect = tuple(dict.fromkeys((*step.protect, *plan.protect, *around.protect)))
    return replace(step, protect=protect, timeout_ms=step.timeout_ms or plan.timeout_ms)


def nested_members(around: Step, plan: Plan) -> Made:
    known = needs_of(plan)
    return tuple(
        (
            replace(within(step, plan, around), id=StepId(f"{around.id}/{step.id}"), needs=()),
            tuple(StepId(f"{around.id}/{need}") for need in known[step.id]),
        )
        for step in plan.steps
    )


def fallback_members(
    step_id: StepId, fallbacks: Iterable[Step], names: Sequence[StepId], outside: Callable[[StepId], StepId]
) -> Made:
    """The fallback steps that a policy names, each after those it needs; `outside` finds a step that is no fallback."""
    known = {step.id: step for step in fallbacks}
    inner = {name: StepId(f"{step_id}+{name}") for name in known}
    made: dict[StepId, tuple[Step, tuple[StepId, ...]]] = {}
    begun: set[StepId] = set()
    before: tuple[StepId, ...] = ()
    for first in names:
        todo = [first]  # no recursion: as many may need one another as a plan has steps
        while todo:
            name = todo[-1]
            if name not in begun:
                begun.add(name)
                todo += [need for need in reversed(known[name].needs) if need in known and need not in begun]
                continue
            todo.pop()
            if name not in made:
                needs = tuple(inner.get(need) or outside(need) for need in known[name].needs)
                made[name] = (replace(known[name], id=inner[name], needs=()), tuple(dict.fromkeys((*before, *needs))))
        before = (inner[first],)
    return tuple(made.values())
