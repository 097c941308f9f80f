"""The rest of a plan, as a planner hands it in, put together with what the plan has done already, which stays word for
word. Lines of the rest are found again in the whole, so that whoever wrote it is told of its own lines."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator

import msgspec
from msgspec.structs import replace

from ordain.core.plan.condition import NoCheck
from ordain.core.plan.model import Plan, Step, all_steps
from ordain.core.plan.value import StepId
from ordain.core.text.problem import Place, Problem
from ordain.documents.markdown.scan import Heading, scan
from ordain.documents.markdown.writer import write_markdown

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
        detail = f"`{after[0].text.strip()[:60]}` stands below the steps, and only steps can be written here."
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
