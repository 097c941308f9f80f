"""The steps of a plan as a picture: which waits for which, and the state of each when there is a run. Larger plans are
summed up in waves of steps that could begin together; what does not fit is cut with a mark."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from types import MappingProxyType

import msgspec

from ordain.core.lint.survey import Needs, fallbacks_for, last_policy, waits_for, waves
from ordain.core.plan.action import Ask, CallTool, Task
from ordain.core.plan.canonical import plan_id
from ordain.core.plan.command import command_text
from ordain.core.plan.failure import Fallback
from ordain.core.plan.model import NestedPlan, Plan, Step
from ordain.core.plan.tool import action_kind
from ordain.core.plan.value import PlanId, RunId, StepId
from ordain.core.report.report import RunReport
from ordain.core.run.step_event import StepState
from ordain.interfaces.view.run import MARKS, painted
from ordain.interfaces.view.style import Style
from ordain.interfaces.view.text import fitted, visible

STEPS_DRAWN_MAX = 30
_WIDTH = 100
_ID_WIDTH = 32
_AFTER_WIDTH = 24
_WAVES_MAX = 60
_UNVERIFIED = "≈"
"""In place of the mark of a step that passed, where nothing but somebody's word says so."""

States = Mapping[StepId, StepState]
Agents = Mapping[str, str]
"""Who performs the tasks, by the names of their steps."""
NOBODY: Agents = MappingProxyType({})


def picture_lines(plan: Plan, run: RunReport | None, style: Style, agents: Agents = NOBODY) -> Iterator[str]:
    """The picture of a plan, or of a run of it."""
    needs, states = waits_for(plan), states_of(run)
    yield f"{style.bold('Plan:')} {visible(plan.title)}"
    if run is not None:
        yield f"{style.bold('Run:')}  {run.run_id}, {run.status}"
    yield ""
    whole = len(plan.steps) <= STEPS_DRAWN_MAX
    listed = _step_lines(plan, needs, states, unverified_of(run), agents, style)
    lines = list(listed if whole else _wave_lines(needs, states, style))
    lines += _fallback_lines(plan, agents)
    yield from lines
    if not whole:
        yield ""
        yield "The whole picture: ordain show --graph -o FILE.mmd …"
    elif any("…" in line for line in lines):
        yield ""
        yield "… where there is more to a step; without --graph every word is shown."


def states_of(run: RunReport | None) -> States:
    """How each step stands; empty without a run."""
    return {report.id: report.state for report in run.steps} if run is not None else {}


def unverified_of(run: RunReport | None) -> frozenset[StepId]:
    """The steps that passed by somebody's word alone."""
    return frozenset(report.id for report in run.steps if report.unverified) if run is not None else frozenset()


def for_all(plan: Plan) -> tuple[StepId, ...]:
    """The fallbacks that the plan's own policy names, for every step that has none."""
    policy = last_policy(plan.on_failure)
    return policy.steps if isinstance(policy, Fallback) else ()


class DrawnStep(msgspec.Struct, frozen=True, kw_only=True):
    """A step in the picture. One of no wave waits for itself; without a run there is no state."""

    number: int
    id: StepId
    waits_for: tuple[StepId, ...]
    wave: int | None
    state: StepState | None


class DrawnFallback(msgspec.Struct, frozen=True, kw_only=True, rename={"used_by": "for"}):
    """A fallback, the steps that name it, and whether the plan's own policy does."""

    id: StepId
    used_by: tuple[StepId, ...]
    for_all: bool


class PictureResult(msgspec.Struct, frozen=True, kw_only=True):
    """Which step waits for which."""

    plan_id: PlanId
    written: str | None
    """The file that the picture was written to, as a Mermaid flowchart."""
    title: str
    run_id: RunId | None
    waves: tuple[tuple[StepId, ...], ...]
    steps: tuple[DrawnStep, ...]
    fallbacks: tuple[DrawnFallback, ...]
    mermaid: str | msgspec.UnsetType = msgspec.UNSET
    """The picture as a Mermaid flowchart, where that was to be printed."""


def picture_result(
    plan: Plan,
    run: RunReport | None,
    written: str | None = None,
    mermaid: str | msgspec.UnsetType = msgspec.UNSET,
) -> PictureResult:
    needs, states = waits_for(plan), states_of(run)
    found = waves(needs)
    wave_of = {step: number for number, wave in enumerate(found, start=1) for step in wave}
    return PictureResult(
        plan_id=plan_id(plan),
        written=written,
        title=plan.title,
        run_id=run.run_id if run is not None else None,
        waves=tuple(map(tuple, found)),
        steps=tuple(
            DrawnStep(
                number=number,
                id=step.id,
                waits_for=tuple(needs[step.id]),
                wave=wave_of.get(step.id),
                state=states.get(step.id),
            )
            for number, step in enumerate(plan.steps, start=1)
        ),
        fallbacks=tuple(
            DrawnFallback(id=name, used_by=tuple(users), for_all=name in for_all(plan))
            for name, users in fallbacks_for(plan).items()
        ),
        mermaid=mermaid,
    )


def _step_lines(
    plan: Plan, needs: Needs, states: States, told: frozenset[StepId], agents: Agents, style: Style
) -> Iterator[str]:
    numbers = {step.id: number for number, step in enumerate(plan.steps, start=1)}
    after = {name: ", ".join(map(str, sorted(map(numbers.__getitem__, wanted)))) for name, wanted in needs.items()}
    after = {name: fitted(f"after {wanted}", _AFTER_WIDTH) + "  " if wanted else "" for name, wanted in after.items()}
    width = min(max((len(name) for name in numbers), default=0), _ID_WIDTH)
    after_width = max(map(len, after.values()), default=0)
    for step in plan.steps:
        state = states.get(step.id, StepState.PENDING)
        word = f"{'unverified' if step.id in told else state.value:<10}" if states else ""
        mark = _UNVERIFIED if step.id in told else MARKS[state][0]
        label = f"  {numbers[step.id]:>2}. {visible(step.id):<{width}}  {after[step.id]:<{after_width}}"
        room = _WIDTH - 3 - len(label) - len(word)
        if states:
            mark, word = painted(mark, state, style), painted(word, state, style)
        yield f"  {mark}{label}{word}{style.dim(fitted(_short(step, agents), room))}".rstrip()


def _short(step: Step, agents: Agents) -> str:
    if step.for_each is not None:
        return f"for each {visible(step.for_each.source)}: {_done(step, agents)}"
    return f"only when {visible(step.when)}: {_done(step, agents)}" if step.when is not None else _done(step, agents)


def _done(step: Step, agents: Agents) -> str:
    command = command_text(step.action)
    if command is not None:
        return _first(command)
    match step.action:
        case CallTool(tool=tool, args=args):
            said = (args[name] for name in ("method", "url", "path", "to") if isinstance(args.get(name), str))
            return " ".join([visible(tool), *map(_first, said)])
        case Task(task=task, agent=agent):
            return f"{visible(agents.get(step.id) or agent or 'task')}: {_first(task)}"
        case Ask(question=question):
            return f"ask: {_first(question)}"
        case NestedPlan(plan=plan):
            return f"plan of {len(plan.steps)} steps: {visible(plan.title)}"
        case action:
            return f"{action_kind(action)}: {visible(step.description)}"


def _first(text: str) -> str:
    line, more, _ = text.strip("\n").partition("\n")
    return visible(line) + (" …" if more else "")


def _wave_lines(needs: Needs, states: States, style: Style) -> Iterator[str]:
    """Each wave with its size and its first steps; waves of one step each that follow each other are one line."""
    found = waves(needs)
    rows = list(wave_rows(found))
    yield f"  {len(needs)} steps in {len(found)} waves; the steps of a wave can begin together."
    yield ""
    shown = rows if len(rows) <= _WAVES_MAX else [*rows[: _WAVES_MAX - 5], None, *rows[-5:]]
    for row in shown:
        if row is None:
            left_out = rows[_WAVES_MAX - 5 : -5]
            yield f"  … waves {left_out[0][0]} to {left_out[-1][1]}: {sum(len(row[2]) for row in left_out)} steps"
            continue
        first, last, steps = row
        wave = f"wave {first}" if first == last else f"waves {first}–{last}"
        size = f"{len(steps)} step{'s' * (len(steps) != 1)}" + ("" if first == last else ", one by one")
        head = f"  {wave:<14} {size:<24} "
        yield head + step_names(steps, _WIDTH - len(head))
        if states:
            counts = Counter(states.get(step, StepState.PENDING) for step in steps)
            told = (painted(f"{counts[state]} {state.value}", state, style) for state in StepState if counts[state])
            yield " " * 17 + ", ".join(told)


def wave_rows(found: Sequence[Sequence[StepId]]) -> Iterator[tuple[int, int, Sequence[StepId]]]:
    """The waves by their first and last number; those of one step each that follow each other are one row."""
    for alone, group in groupby(enumerate(found, start=1), key=lambda wave: len(wave[1]) == 1):
        if not alone:
            yield from ((number, number, steps) for number, steps in group)
            continue
        numbers, waves_of_one = zip(*group, strict=True)
        yield numbers[0], numbers[-1], [step for (step,) in waves_of_one]


def step_names(steps: Sequence[StepId], room: int) -> str:
    """As many names as fit, and how many there are besides; at least one."""
    shown = visible(steps[0])
    for count, step in enumerate(steps[1:], start=1):
        more = f"{shown}, {visible(step)}"
        left = len(steps) - count - 1
        if len(more) + (len(f" and {left} more") if left else 0) > room:
            return f"{shown} and {len(steps) - count} more"
        shown = more
    return shown


def _fallback_lines(plan: Plan, agents: Agents) -> Iterator[str]:
    if not plan.fallbacks:
        return
    yield ""
    yield "  Fallbacks, run only where a failure policy names them:"
    steps = {step.id: step for step in plan.fallbacks}
    for name, users in fallbacks_for(plan).items():
        whom = [visible(user) for user in users]
        whom += ["every step without a policy of its own"] if name in for_all(plan) else []
        head = f"    {visible(name)}, for {', '.join(whom) or 'nobody'}: "
        yield head + fitted(_short(steps[name], agents), max(_WIDTH - len(head), 20))
