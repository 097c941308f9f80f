"""What is asked of a planner, and what came of it, as one value for every interface."""

from __future__ import annotations

import shlex

import msgspec

from ordain.core.plan.model import Budget
from ordain.core.plan.value import StepId
from ordain.core.report.report import Prepared
from ordain.core.text.problem import Problem, Severity
from ordain.planner.brief import Answered
from ordain.planner.loop import Drafted, DraftEnd
from ordain.planner.rounds import JudgedDraft, RoundsEnd, is_wrong
from ordain.ports.model import ModelUsage


class PlanRequest(msgspec.Struct, frozen=True, kw_only=True):
    """What is asked of a planner."""

    goal: str = ""
    """May be empty where a plan is revised."""
    constraints: tuple[str, ...] = ()
    budget: Budget | None = None
    revise: str | None = None
    """The plan to be revised, by any of its names."""
    answers: tuple[Answered, ...] = ()
    """To what was asked in a planning before this one."""
    used: ModelUsage = ModelUsage()
    """What that one used, where it counts against the same budget."""
    unenforced: bool = False
    """Whether an agent may plan without a sandbox around it."""


class Planned(msgspec.Struct, frozen=True, kw_only=True):
    """What came of it. Nothing of it is stored before `prepared` is."""

    request: PlanRequest
    planner: str
    drafted: Drafted
    unenforced: bool = False
    """Whether an agent wrote it that nothing kept from writing."""
    document: str = ""
    """What it handed in last, or the best of it; empty where it handed in nothing."""
    judged: JudgedDraft | None = None
    """What was found in that."""
    rounds: int = 0
    first_wrong: int = 0
    """How many problems the first document had."""
    stopped: RoundsEnd | None = None
    """Why no more documents were wanted."""
    unverified: tuple[StepId, ...] = ()
    """Steps that change something and that no contract proves."""
    usage: ModelUsage = ModelUsage()
    """What was used, also by the planning that asked."""
    unpriced: bool = False
    """Whether money was to be limited and nobody knows the price."""
    prepared: Prepared | None = None

    @property
    def errors(self) -> tuple[Problem, ...]:
        """What keeps its document from being proposed."""
        found = self.judged.problems if self.judged is not None else ()
        return tuple(one for one in found if one.severity is not Severity.WARNING)

    @property
    def good(self) -> bool:
        """Whether there is a document that can be proposed."""
        return self.judged is not None and self.judged.plan is not None and not self.errors

    @property
    def left(self) -> tuple[Problem, ...]:
        """What the planner should have mended, and did not."""
        return tuple(one for one in self.judged.problems if is_wrong(one)) if self.judged is not None else ()


_WHY = {
    DraftEnd.NOTHING: "it ended without handing in a plan, asking or giving up",
    DraftEnd.CALLS: "it called tools again and again, and handed in no plan that could be used",
    DraftEnd.TOKENS: "the budget of tokens is used up",
    DraftEnd.COST: "the budget of money is used up",
    DraftEnd.TIME: "the time is over",
    DraftEnd.TRUNCATED: "its answers were cut off: they became too long",
    DraftEnd.REFUSED: "the model, or its provider, refuses to answer",
}
_STOPPED = {
    RoundsEnd.REPEATED: "it handed in the same problems again",
    RoundsEnd.ENOUGH: "it was sent back as often as it may be",
}


def problems_of(planned: Planned, *, kept: str | None = None) -> tuple[Problem, ...]:
    """Why there is no proposal; nothing where there is one, or can be. `kept` is where the unfinished document is."""
    drafted, who = planned.drafted, planned.planner
    if planned.good:
        return ()
    if drafted.end is DraftEnd.QUESTIONS:
        answers = " ".join(f"--answer {shlex.quote(question)} ANSWER" for question in drafted.questions)
        goal = shlex.quote(planned.request.goal) if planned.request.goal else ""
        revising = f"--revise {planned.request.revise}" if planned.request.revise is not None else ""
        command = " ".join(filter(None, ("ordain plan", goal, revising, answers)))
        detail = f"{who} asks before it plans: {' '.join(drafted.questions)}"
        return (Problem(code="E_PLANNER_ASKS", detail=detail, command=command),)
    if planned.document and drafted.end is not DraftEnd.GAVE_UP:
        why = _STOPPED.get(planned.stopped) if planned.stopped is not None else None
        why = why or _WHY.get(drafted.end, "its plan could not be mended")
        count = len(planned.left)
        detail = f"{who} did not get a plan right: {why}, and {count} problem{'s are' if count != 1 else ' is'} left."
        hints: tuple[str, ...] = ("Mend it by hand, or say more in the goal or with --constraint.",)
        if kept is not None:
            hints = (f"What it wrote last is in {kept}.", *hints)
        head = Problem(code="E_PLANNER_UNFINISHED", detail=detail, hints=hints)
        return (head, *planned.left)
    if drafted.end is DraftEnd.GAVE_UP:
        said = " ".join(drafted.reason.split()) or "no reason"
        return (Problem(code="E_PLANNER_GAVE_UP", detail=f"{who} gave up: {said}"),)
    why = _WHY.get(drafted.end, "it handed in nothing")
    said = f"It said: {' '.join(drafted.reason.split())[:500]}"
    hints = (said,) if drafted.reason.strip() else ()
    if drafted.end in (DraftEnd.TOKENS, DraftEnd.COST, DraftEnd.TIME):
        hints = ("Give it more with --budget.", *hints)
    return (Problem(code="E_PLANNER_NO_PLAN", detail=f"{who} made no plan: {why}.", hints=hints),)


def notices_of(planned: Planned) -> list[Problem]:
    """What else is worth knowing of a planning."""
    found = []
    if planned.unpriced:
        detail = f"Nobody says what {planned.planner} costs, so the budget of money limited nothing."
        found.append(Problem(code="W_PLANNER_PRICE", detail=detail, hints=("Limit tokens: --budget '200k tokens'.",)))
    if planned.unenforced:
        detail = f"{planned.planner} was started without a sandbox: nothing kept it from writing."
        hint = "Look what changed in the workspace before you approve its plan."
        found.append(Problem(code="W_PLANNER_UNENFORCED", detail=detail, hints=(hint,), command="git status"))
    return found
