"""The rounds of a plan that a planner hands in: judged by lint and policy, sent back with what is wrong, and stopped in
time. A planner never judges its own plan, and a plan is never mended for it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from enum import StrEnum

import msgspec

from ordain.core.plan.condition import NoCheck
from ordain.core.plan.model import Plan, all_steps, nested_plan_of
from ordain.core.plan.role import EffectClass, about
from ordain.core.plan.tool import ToolDefinition
from ordain.core.plan.value import StepId
from ordain.core.run.schedule import effect_class
from ordain.core.text.problem import Place, Problem, Severity

COUNTED = frozenset({"W_CONTRACT_PROGRAM", "W_PATH_UNKNOWN", "W_PROGRAM_MISSING"})
"""The warnings that count as errors in a planner's plan: it can look, so it has no reason to guess."""
ROUNDS_MAX = 3
"""How often a plan is sent back, unless the settings say otherwise; once more where it could not be read at all."""
SHOWN_MAX = 40
"""How many problems are sent back at once."""
STEPS_MANY, STEPS_MAX = 12, 40
"""More steps than these are worth a warning; more than these nobody reviews with care."""


class JudgedDraft(msgspec.Struct, frozen=True, kw_only=True):
    """What a judge found in a document."""

    problems: tuple[Problem, ...]
    plan: Plan | None = None
    """None where it cannot be read to its end, which hides some of its other problems."""

    @property
    def wrong(self) -> tuple[Problem, ...]:
        """What has to be mended."""
        return tuple(one for one in self.problems if is_wrong(one))


Judge = Callable[[str], JudgedDraft]


def is_wrong(problem: Problem) -> bool:
    """Whether a planner has to mend this."""
    return problem.severity is not Severity.WARNING or problem.code in COUNTED


def size_problems(plan: Plan, places: Mapping[str, Place]) -> tuple[Problem, ...]:
    """What is wrong with the number of a plan's steps, where a planner wrote it; `places` says where they stand."""
    count = len(plan.steps)
    if count <= STEPS_MANY:
        return ()
    code = "E_PLANNER_SIZE" if count > STEPS_MAX else "W_PLANNER_SIZE"
    detail = f"The plan has {count} steps; a plan that people read has at most {STEPS_MANY}, and none over {STEPS_MAX}."
    hint = "Do what belongs together in one step, and everything of the same shape in one."
    where = places.get(plan.steps[min(count, STEPS_MAX) - 1].id)
    return (Problem(code=code, detail=detail, where=where, hints=(hint,)),)


class RoundsEnd(StrEnum):
    """Why no more is wanted."""

    GOOD = "good"
    REPEATED = "repeated"
    """The same problems came again."""
    ENOUGH = "enough"
    """It was sent back as often as it may be."""


class Heard(msgspec.Struct, frozen=True, kw_only=True):
    """What becomes of a plan that was handed in."""

    text: str
    """What its planner is told."""
    ends: bool
    """Whether nothing more is wanted of it."""


class Rounds:
    """The plans that a planner hands in, one after the other."""

    def __init__(self, judge: Judge, most: int = ROUNDS_MAX) -> None:
        self._judge, self._most = judge, most
        self._seen: set[frozenset[tuple[str, str, str]]] = set()
        self._unreadable = False
        self.count = 0
        """How many plans were handed in."""
        self.first_wrong = 0
        """How many problems the first of them had."""
        self.last: JudgedDraft | None = None
        """What was found in the last one."""
        self.end: RoundsEnd | None = None
        self.document = ""
        """The best of them: what could be read before what could not, then what had the fewest problems."""
        self.judged: JudgedDraft | None = None
        """What was found in that."""

    def submit(self, document: str) -> Heard:
        """Judge a plan, and say whether it goes back."""
        found = self.last = self._judge(document)
        wrong = found.wrong
        self.count += 1
        if self.count == 1:
            self.first_wrong = len(wrong)
        if self.judged is None or _badness(found) <= _badness(self.judged):
            self.document, self.judged = document, found
        if not wrong:
            return self._ended(RoundsEnd.GOOD, "The plan is good. Nothing more is wanted.")
        kind = frozenset((one.code, (one.where or Place()).step or "", one.detail) for one in wrong)
        if kind in self._seen:
            return self._ended(RoundsEnd.REPEATED, "These are the same problems as before. Nothing more is wanted.")
        self._seen.add(kind)
        self._unreadable = self._unreadable or found.plan is None
        left = self._most + self._unreadable - self.count + 1
        if left <= 0:
            return self._ended(RoundsEnd.ENOUGH, "It was sent back often enough. Nothing more is wanted.")
        return Heard(text=feedback(found, left), ends=False)

    def _ended(self, end: RoundsEnd, text: str) -> Heard:
        self.end = end
        return Heard(text=text, ends=True)


def _badness(found: JudgedDraft) -> tuple[bool, int]:
    return found.plan is None, len(found.wrong)


def feedback(found: JudgedDraft, left: int) -> str:
    """What a planner is told of a plan that goes back."""
    wrong = found.wrong
    many = f"{len(wrong)} problems" if len(wrong) > 1 else "one problem"
    times = f"{left} more times" if left > 1 else "once more"
    head = f"The plan has {many}. Mend each, leave everything else as it is, and hand in the whole document again. "
    head += f"You can do so {times}."
    if found.plan is None:
        head += " It could not be read to its end, so there may be other problems."
    lines = [head, "", *map(problem_line, wrong[:SHOWN_MAX])]
    if len(wrong) > SHOWN_MAX:
        lines.append(f"… and {len(wrong) - SHOWN_MAX} more.")
    worth = [one for one in found.problems if not is_wrong(one)][:SHOWN_MAX]
    if worth:
        lines += ["", "Worth a look, if you did not mean it so:", *map(problem_line, worth)]
    return "\n".join(lines)


def problem_line(problem: Problem) -> str:
    """A problem on one line: where it is, its code, what it is, what helps."""
    where = problem.where or Place()
    at = [f"line {where.line}"] if where.line is not None else []
    at += [f"step `{where.step}`"] if where.step is not None else []
    hints = [f"Hint: {hint}" for hint in problem.hints]
    said = " ".join(" ".join((problem.detail, *hints)).split())
    return f"{', '.join(at) or 'the plan'}: {problem.code}: {said}"


def unverified_steps(plan: Plan, tools: Mapping[str, ToolDefinition]) -> Iterator[StepId]:
    """The steps that change something, proved by no more than an exit status, a tool's result or an agent's word."""
    for step in all_steps(plan):
        checked = step.verification is not None and not isinstance(step.verification.strategy, NoCheck)
        looks = effect_class(step, tools) is EffectClass.READS or about(step.action).recorded
        if not checked and not looks and nested_plan_of(step) is None:
            yield step.id
