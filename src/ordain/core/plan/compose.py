"""Several plans as one: every step under a name of its own, one plan after the other or beside it.

What a plan says about all of its steps stays where all plans say the same, and is said of each step otherwise; what
cannot be said of a step, and is not the same everywhere, is a conflict for a person to decide.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

import msgspec
from msgspec.structs import replace

from ordain.core.plan.action import Task
from ordain.core.plan.command import with_payload
from ordain.core.plan.expr import renamed
from ordain.core.plan.failure import Fallback, LastPolicy, Retry
from ordain.core.plan.graph import stores_of
from ordain.core.plan.model import Plan, Step, item_name, nested_plan_of
from ordain.core.plan.refs import KEPT, Reference, StepExitCode, StepOutput, WrittenReference, resolved, spelt
from ordain.core.plan.role import Expression, Handed, StepName, changed
from ordain.core.plan.value import StepId
from ordain.core.text.limit import ID_LENGTH_MAX, STEPS_MAX
from ordain.core.text.problem import Place, Problem

S = TypeVar("S", bound=msgspec.Struct)
Rename = Callable[[str], str]
_OTHERS = re.compile(r"[^A-Za-z0-9]+")
_SAME = ("tools", "protect", "budget", "tier", "concurrency", "workspace_id", "plan_version")
"""What a plan says of itself and no step can say for it."""
_NEEDS_MAX = 20 * STEPS_MAX


def namespace_of(name: str) -> str:
    """What ids get in front that come from a document of this name."""
    stem = name.rpartition("/")[2].partition(".")[0]
    return _OTHERS.sub("-", stem).strip("-").lower()


# --- Renaming --------------------------------------------------------------------------------------------------------


def with_names(plan: Plan, rename: Rename) -> Plan:
    """The same plan whose steps have other ids, wherever they are named. A plan inside of it has ids of its own."""
    known: dict[str, StepId] = {step.id: StepId(rename(step.id)) for step in (*plan.steps, *plan.fallbacks)}
    names = _Names(known)
    return replace(
        plan,
        steps=tuple(map(names.step, plan.steps)),
        fallbacks=tuple(map(names.step, plan.fallbacks)),
        preconditions=tuple(map(names.value, plan.preconditions)),
        on_failure=names.value(plan.on_failure) if plan.on_failure is not None else None,
    )


class _Names:
    def __init__(self, known: Mapping[str, StepId]) -> None:
        self._known = known

    def step(self, step: Step) -> Step:
        policy, checked, each = step.on_failure, step.verification, step.for_each
        action = with_payload(step.action, lambda value: resolved(value, self._reference, item_name(step)))
        return replace(
            step,
            id=self._known[step.id],
            action=self.value(action),
            needs=tuple(sorted(self._known.get(need, need) for need in step.needs)),
            when=renamed(step.when, self._known) if step.when is not None else None,
            for_each=replace(each, source=resolved(each.source, self._reference)) if each is not None else None,
            preconditions=tuple(map(self.value, step.preconditions)),
            verification=replace(checked, strategy=self.value(checked.strategy)) if checked is not None else None,
            on_failure=self.value(policy) if policy is not None else None,
        )

    def value(self, value: S) -> S:
        """A condition, failure policy or action with the names in it changed."""
        return changed(value, self._text)

    def _text(self, role: Any, text: str) -> str:
        match role:
            case StepName():
                return self._known.get(text, text)
            case Handed() if text.startswith("step:"):
                name = text.removeprefix("step:")
                return f"step:{self._known.get(name, name)}"
            case Expression():
                return renamed(text, self._known)
            case _:
                return text

    def _reference(self, reference: Reference, whole: bool) -> Any:
        match reference.source:
            case StepOutput(step=name) | StepExitCode(step=name) if name in self._known:
                source = replace(reference.source, step=self._known[name])
                return WrittenReference(spelt(replace(reference, source=source)))
            case _:
                return KEPT


# --- Composing -------------------------------------------------------------------------------------------------------


def compose(
    parts: Sequence[tuple[str, Plan]], title: str | None = None, *, parallel: bool = False
) -> Plan | tuple[Problem, ...]:
    """One plan of several, each under a name: its steps come after all of the one before unless they are `parallel`."""
    if conflicts := tuple(_conflicts(parts)):
        return conflicts
    plans = [with_names(plan, lambda name, space=space: f"{space}-{name}") for space, plan in parts]  # type: ignore[misc]
    common = {
        name: None if _differs(plans, name) else getattr(plans[0], name)
        for name in ("agent", "model", "timeout_ms", "on_failure", "preconditions")
    }
    steps: list[Step] = []
    ends: tuple[StepId, ...] = ()
    for plan in plans:
        made = [_with_own(step, plan, common) for step in plan.steps]
        first = {step.id for step in plan.steps if not step.needs}
        if ends and not parallel:
            made = [replace(step, needs=tuple(sorted(ends))) if step.id in first else step for step in made]
        if plan.preconditions and common["preconditions"] is None:
            own = plan.preconditions
            made = [
                replace(step, preconditions=(*own, *step.preconditions)) if step.id in first else step for step in made
            ]
        steps += made
        needed = {need for step in plan.steps for need in step.needs}
        ends = tuple(step.id for step in plan.steps if step.id not in needed)
    if sum(len(step.needs) for step in steps) > _NEEDS_MAX:
        return (Problem(code="E_STEP_LIMIT", detail=f"The steps would have more than {_NEEDS_MAX:,} needs."),)
    texts = {name: [one for plan in plans if (one := getattr(plan, name)) is not None] for name in ("task", "context")}
    return replace(
        plans[0],
        title=title or (" and " if parallel else ", then ").join(plan.title for plan in plans),
        steps=tuple(steps),
        fallbacks=tuple(_with_own(step, plan, common) for plan in plans for step in plan.fallbacks),
        params={name: one for plan in plans for name, one in plan.params.items()},
        **{name: () if value is None and name == "preconditions" else value for name, value in common.items()},
        **{name: "\n\n".join(dict.fromkeys(said)) or None for name, said in texts.items()},
    )


def _with_own(step: Step, plan: Plan, common: Mapping[str, Any]) -> Step:
    """A step that says itself what its plan said for it, where the plans do not say the same."""
    made: dict[str, Any] = {}
    if isinstance(step.action, Task):
        if common["agent"] is None and step.action.agent is None and plan.agent is not None:
            made["action"] = replace(step.action, agent=plan.agent)
        if common["model"] is None and step.model is None:
            made["model"] = plan.model
    if common["timeout_ms"] is None and step.timeout_ms is None and nested_plan_of(step) is None:
        made["timeout_ms"] = plan.timeout_ms
    if common["on_failure"] is None and plan.on_failure is not None:
        policy = step.on_failure
        made["on_failure"] = policy or plan.on_failure
        if isinstance(policy, Retry) and policy.then is None:
            made["on_failure"] = replace(policy, then=_last(plan))
    return replace(step, **made) if made else step


def _last(plan: Plan) -> LastPolicy | None:
    return plan.on_failure.then if isinstance(plan.on_failure, Retry) else plan.on_failure


def _conflicts(parts: Sequence[tuple[str, Plan]]) -> Iterator[Problem]:
    names, plans = [name for name, _ in parts], [plan for _, plan in parts]
    for name in dict.fromkeys(name for name in names if names.count(name) > 1):
        hint = "Give each a name of its own: `ordain compose one=a/plan.md two=b/plan.md`."
        yield _conflict(f"Two documents would put `{name}-` in front of their ids.", hint)
    for name in _SAME:
        if _differs(plans, name):
            hint = "Say the same in each, or `include` them: then each keeps its own."
            yield _conflict(f"The plans say different things in `{name}`, which holds for a plan as a whole.", hint)
    if _differs(plans, "on_failure"):
        for space, plan in parts:
            if isinstance(_last(plan), Fallback) or (plan.on_failure is not None and plan.fallbacks):
                detail = f"The plans differ in `on_failure`, and that of `{space}` cannot be said of each of its steps."
                yield _conflict(detail, "Say it in the steps of that document, or `include` it.")
    seen: dict[str, tuple[str, Any]] = {}
    stored: dict[str, str] = {}
    for space, plan in parts:
        for name, parameter in plan.params.items():
            if seen.setdefault(name, (space, parameter))[1] != parameter:
                detail = f"`{seen[name][0]}` and `{space}` declare the parameter `{name}` differently."
                yield _conflict(detail, "Declare it alike in both, or call it otherwise in one.")
        for key in stores_of(plan):
            if stored.setdefault(key, space) != space:
                detail = f"`{stored[key]}` and `{space}` both store the data `{key}`."
                yield _conflict(detail, "Store it under another key in one of them.")
        for step in (*plan.steps, *plan.fallbacks):
            if len(f"{space}-{step.id}") > ID_LENGTH_MAX:
                detail = f"`{space}-{step.id}` is longer than {ID_LENGTH_MAX} characters, and ids are not."
                yield _conflict(detail, "Give the document a shorter name: `ordain compose a=FILE …`.", step=step.id)
    for name, what in (("steps", "steps"), ("fallbacks", "fallback steps")):
        if sum(len(getattr(plan, name)) for plan in plans) > STEPS_MAX:
            yield Problem(code="E_PLAN_TOO_MANY_STEPS", detail=f"Together they have more than {STEPS_MAX:,} {what}.")


def _differs(plans: Sequence[Plan], name: str) -> bool:
    return any(getattr(plan, name) != getattr(plans[0], name) for plan in plans)


def _conflict(detail: str, *hints: str, step: str | None = None) -> Problem:
    return Problem(code="E_COMPOSE", detail=detail, hints=hints, where=Place(step=step) if step is not None else None)
