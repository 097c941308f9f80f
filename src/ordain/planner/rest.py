"""The rest of a plan, as a planner hands it in or advises it, put together with what the plan has done already, which
stays word for word. Lines of the rest are found again in the whole, so that whoever wrote it is told of its own
lines."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from typing import Any

import msgspec
from msgspec.structs import replace

from ordain.core.plan.action import CallTool, RunCommand, Task
from ordain.core.plan.condition import NoCheck
from ordain.core.plan.model import Action, Plan, Step, all_steps
from ordain.core.plan.value import StepId
from ordain.core.text.problem import Place, Problem
from ordain.documents.markdown.scan import Heading, scan
from ordain.documents.markdown.writer import write_markdown
from ordain.documents.reading import read

_NUMBER = re.compile(r"( {0,3}###[ \t]+)[0-9]{1,9}(?=\.)")


class WholePlan(msgspec.Struct, frozen=True, kw_only=True):
    """A plan put together of what is kept and a rest."""

    text: str
    first: int
    """The line of the rest at which its steps begin; and the same in the whole."""
    at: int
    lines: int
    """How many lines of the rest stand in it."""

    def placed(self, problem: Problem) -> Problem:
        """A problem of the whole with the line that it has in the rest; none where it is in what is kept."""
        where = problem.where
        if where is None or where.line is None:
            return problem
        line = where.line - self.at
        inside = 0 <= line < self.lines
        placed = replace(where, line=line + self.first, file=None) if inside else Place(step=where.step)
        return replace(problem, where=placed)


def put_together(plan: Plan, kept: Collection[StepId], rest: str) -> WholePlan | Problem:
    """The document of a plan whose steps are the kept ones of this plan, and then those of a rest."""
    lines = rest.replace("\r\n", "\n").split("\n")
    found = _steps(lines)
    if isinstance(found, Problem):
        return found
    first, end = found
    frozen = replace(plan, steps=tuple(step for step in plan.steps if step.id in kept))
    before = write_markdown(replace(frozen, fallbacks=()), lists=False)
    after = write_markdown(frozen, lists=False).removeprefix(before.removesuffix("\n"))
    own = [*_numbered(lines[first:end], len(frozen.steps))]
    while own and not own[-1].strip():
        own.pop()
    text = f"{before}\n" + "\n".join(own) + (f"\n{after}" if plan.fallbacks else "\n")
    return WholePlan(text=text, first=first + 1, at=before.count("\n") + 2, lines=len(own))


def _steps(lines: list[str]) -> tuple[int, int] | Problem:
    headings = [block for block in scan(lines) if isinstance(block, Heading)]
    steps = [one for one in headings if one.level == 3]
    if not steps:
        hint = "Write `## Steps`, and below it a heading `### 1. Title` for each step that is left."
        return Problem(code="E_REPLAN_REST", detail="This has no steps under headings.", hints=(hint,))
    first = steps[0].line
    after = [one for one in headings if one.level < 3 and one.line > first]
    if after:
        detail = f"`{after[0].text.strip()[:60]}` is below the steps, and only steps can be written here."
        hint = "What the plan says beside its steps stays as it is; leave it out."
        return Problem(code="E_REPLAN_REST", detail=detail, where=Place(line=after[0].line), hints=(hint,))
    return first - 1, len(lines)


def _numbered(lines: list[str], before: int) -> Iterator[str]:
    """The lines of steps whose headings go on counting after this many."""
    at = {block.line - 1 for block in scan(lines) if isinstance(block, Heading) and block.level == 3}
    number = before
    for place, line in enumerate(lines):
        if place in at:
            number += 1
            line = _NUMBER.sub(rf"\g<1>{number}", line, count=1)
        yield line


def weaker_steps(old: Plan, new: Plan, kept: Collection[StepId], unverified: Collection[StepId]) -> Iterator[Problem]:
    """What a rest proves less well than the plan did: a step that lost its check, and one that changes something and
    has none although it is not the plan's own. `unverified` are the steps of the new plan that nothing proves."""
    known = {step.id: step for step in all_steps(old)}
    for step in new.steps:
        before = known.get(step.id)
        if step.id in kept or step == before:
            continue
        if before is not None and _is_checked(before) and not _is_checked(step):
            detail = f"`{step.id}` had a check, and has none now."
        elif step.id in unverified:
            detail = f"Nothing proves that `{step.id}` is done."
        else:
            continue
        hint = "Give it a contract that fails before it and holds after it."
        yield Problem(code="E_REPLAN_UNVERIFIED", detail=detail, where=Place(step=step.id), hints=(hint,))


def _is_checked(step: Step) -> bool:
    return step.verification is not None and not isinstance(step.verification.strategy, NoCheck)


# --- Advice ----------------------------------------------------------------------------------------------------------
# About one step that did not get through: a closed set of ways to go on, each of which becomes a plan. Only what is
# named in it changes: what passed, the other steps and the step's own check stay word for word.


class StepAdvice(msgspec.Struct, frozen=True, kw_only=True, tag_field="advice", forbid_unknown_fields=True):
    """What all advice has."""

    reason: str


class RetryAdvice(StepAdvice, frozen=True, kw_only=True, tag="retry"):
    """Try it with other arguments, or with another command."""

    args: Mapping[str, Any] | None = None
    command: str | None = None


class AssignAdvice(StepAdvice, frozen=True, kw_only=True, tag="assign"):
    """Give the task to another agent or model."""

    agent: str | None = None
    model: str | None = None


class InsertAdvice(StepAdvice, frozen=True, kw_only=True, tag="insert"):
    """Do these steps before it."""

    steps: str


class SkipAdvice(StepAdvice, frozen=True, kw_only=True, tag="skip"):
    """Leave it out."""


Advice = RetryAdvice | AssignAdvice | InsertAdvice | SkipAdvice


def read_advice(text: str) -> Advice | Problem:
    """What a planner handed in, as advice."""
    try:
        advice: Advice = msgspec.json.decode(text.encode("utf-8", "replace"), type=Advice)
    except (msgspec.DecodeError, RecursionError) as error:
        return _fault(f"This is no advice: {error}.", "Hand in one JSON object of those that are listed, alone.")
    return advice


def advised(plan: Plan, step_id: StepId, kept: Collection[StepId], advice: Advice) -> WholePlan | Problem:
    """The document of a plan that goes on as advised."""
    try:
        return _advised(plan, step_id, kept, advice)
    except (ValueError, RecursionError):  # arguments too deep, or numbers too large for any document
        return _fault("What is advised cannot be written in a document.", "Give flat arguments and small numbers.")


def _advised(plan: Plan, step_id: StepId, kept: Collection[StepId], advice: Advice) -> WholePlan | Problem:
    step = next(one for one in plan.steps if one.id == step_id)
    match advice:
        case RetryAdvice():
            made = _retried(step, advice)
        case AssignAdvice():
            made = _assigned(step, advice)
        case SkipAdvice():
            left = []
            for one in plan.steps:
                # In the place of a step that is gone comes what that waited for, so that no order is lost.
                needs = dict.fromkeys(new for need in one.needs for new in (step.needs if need == step_id else (need,)))
                left += [replace(one, needs=tuple(needs))] if one.id != step_id else []
            return _whole(replace(plan, steps=tuple(left)))
        case InsertAdvice():
            return _inserted(plan, step_id, kept, advice.steps)
    if isinstance(made, Problem):
        return made
    return _whole(replace(plan, steps=tuple(made if one.id == step_id else one for one in plan.steps)))


def _retried(step: Step, advice: RetryAdvice) -> Step | Problem:
    action: Action | None = None
    match step.action:
        case CallTool() if advice.args is not None and advice.command is None:
            action = replace(step.action, args=advice.args)
        case RunCommand() if advice.command is not None and advice.args is None:
            action = replace(step.action, command=advice.command)
    if action is None:
        wanted = {"CallTool": "`args`", "RunCommand": "`command`"}.get(type(step.action).__name__)
        hint = f"Give {wanted} and nothing else." if wanted else "Choose other advice, or give up."
        return _fault(f"`{step.id}` cannot be tried again with that.", hint)
    if action == step.action:
        return _fault(f"`{step.id}` would be tried with what it was tried with.", "Change it, or choose other advice.")
    return replace(step, action=action)


def _assigned(step: Step, advice: AssignAdvice) -> Step | Problem:
    if not isinstance(step.action, Task):
        return _fault(f"`{step.id}` is no task of an agent.", "Choose other advice, or give up.")
    made = replace(
        step,
        action=replace(step.action, agent=advice.agent or step.action.agent),
        model=advice.model or step.model,
    )
    if made == step:
        return _fault(f"`{step.id}` has that agent and model already.", "Name another, or choose other advice.")
    return made


def _inserted(plan: Plan, step_id: StepId, kept: Collection[StepId], steps: str) -> WholePlan | Problem:
    """The steps are read where they will stand, so that they may need what passed."""
    frozen = replace(plan, fallbacks=())
    whole = put_together(frozen, kept, steps)
    if isinstance(whole, Problem):
        return whole
    document = read(whole.text.encode("utf-8", "surrogatepass"))
    if document.plan is None:
        problem = whole.placed(document.problems[0])
        where = f" (line {problem.where.line} of `steps`)" if problem.where and problem.where.line else ""
        return replace(problem, detail=f"{problem.detail}{where}", where=None)
    before = [one for one in plan.steps if one.id in kept]
    added = document.plan.steps[len(before) :]
    known = {one.id for one in plan.steps}
    if again := next((one.id for one in added if one.id in known), None):
        return _fault(f"The plan has a step `{again}` already.", "Give what is inserted ids of its own.")
    rest = []
    for one in plan.steps:
        if one.id in kept:
            continue
        if one.id == step_id:
            rest += [*added, replace(one, needs=(*one.needs, *(new.id for new in added)))]
        else:
            rest.append(one)
    return _whole(replace(plan, steps=(*before, *rest)))


def _whole(plan: Plan) -> WholePlan:
    return WholePlan(text=write_markdown(plan, lists=False), first=0, at=0, lines=0)


def _fault(detail: str, hint: str) -> Problem:
    return Problem(code="E_REPLAN_ADVICE", detail=detail, hints=(hint,))
