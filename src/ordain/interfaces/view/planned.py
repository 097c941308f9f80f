"""What a planner came to, for people and robots, and what is shown while it works."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Literal, assert_never

import msgspec

from ordain.core.plan.value import StepId
from ordain.core.text.problem import Problem
from ordain.interfaces.view.picked import picked
from ordain.interfaces.view.report import PreparedResult, prepared_result
from ordain.interfaces.view.review import rounds_words
from ordain.interfaces.view.text import visible
from ordain.planner.loop import AgentBegun, DraftEnd, LookedAt, PlannerNews, SentBack
from ordain.planner.outcome import Planned
from ordain.ports.model import RequestFailed, TextCame

NAMED_MAX = 10
PlannedStatus = Literal["proposed", "asked", "gave_up", "unfinished", "no_plan"]


class PlannedResult(msgspec.Struct, frozen=True, kw_only=True):
    """What came of a planning. Tokens and cost are as the model's provider counts them; the cost is null where no price
    is known."""

    status: PlannedStatus
    planner: str
    plan: PreparedResult | None
    """What was proposed; null where nothing was."""
    document: str | None
    """Where the document is, where it was written to a file."""
    draft: str | None
    """What the planner wrote last, where it was not proposed."""
    problems_left: tuple[Problem, ...]
    """What it was told to mend, and did not."""
    questions: tuple[str, ...]
    reason: str
    """Why it gave up, or its last words."""
    rounds: int
    """How many documents it handed in."""
    problems_first: int
    """How many problems the first of them had."""
    unverified: tuple[StepId, ...]
    """Steps that change something and that no contract proves."""
    requests: int
    calls: int
    tokens: int
    cost_usd: float | None


def planned_status(planned: Planned) -> PlannedStatus:
    """What came of it, in one word."""
    if planned.prepared is not None:
        return "proposed"
    ended: dict[DraftEnd, PlannedStatus] = {DraftEnd.QUESTIONS: "asked", DraftEnd.GAVE_UP: "gave_up"}
    return ended.get(planned.drafted.end, "unfinished" if planned.document else "no_plan")


def planned_result(planned: Planned, *, document: str | None = None) -> PlannedResult:
    drafted = planned.drafted
    proposed = planned.prepared is not None
    return picked(
        PlannedResult,
        drafted,
        status=planned_status(planned),
        planner=planned.planner,
        plan=prepared_result(planned.prepared) if planned.prepared is not None else None,
        document=document,
        draft=planned.document if planned.document and not proposed else None,
        problems_left=planned.left,
        reason=drafted.reason if not proposed else "",
        rounds=planned.rounds,
        problems_first=planned.first_wrong,
        unverified=planned.unverified,
        tokens=planned.usage.tokens,
        cost_usd=planned.usage.cost_usd,
    )


def planned_lines(planned: Planned) -> Iterator[str]:
    """What is said beside the proposal of a planner."""
    cost = f", ${planned.usage.cost_usd:.2f}" if planned.usage.cost_usd is not None else ""
    rounds = rounds_words(planned.rounds, planned.first_wrong)
    yield f"{rounds[0].upper()}{rounds[1:]}; {planned.usage.tokens:,} tokens{cost}."
    if planned.unverified:
        count = len(planned.unverified)
        named = ", ".join(map(visible, planned.unverified[:NAMED_MAX])) + (" …" if count > NAMED_MAX else "")
        steps = "1 step changes" if count == 1 else f"{count} steps change"
        yield f"{steps} something, and no contract proves it: {named}."


class PlanningProgress:
    """What is shown of a planning while it goes on, line by line: a line is shown when it is whole, so that no secret
    can hide by coming in pieces."""

    LINE_MAX = 2_000

    def __init__(self, show: Callable[[str], None], clean: Callable[[str], str]) -> None:
        self._show, self._clean, self._line = show, clean, ""

    def tell(self, news: PlannerNews) -> None:
        if isinstance(news, TextCame):
            *whole, self._line = (self._line + news.text).split("\n")
            for line in whole:
                self._said(line)
            if len(self._line) > self.LINE_MAX:
                self.end()
            return
        self.end()
        match news:
            case RequestFailed():
                again = f"; again in {news.wait_ms / 1000:g} s" if news.wait_ms is not None else ""
                self._show(f"! no answer: {visible(news.detail)}{again}")
            case LookedAt():
                refused = " (refused)" if news.refused else ""
                self._show(f"→ {visible(self._clean(f'{news.tool} {news.subject}'.strip()))}{refused}")
            case AgentBegun():
                held = "reads only, in the sandbox" if news.held else "with nothing that keeps it from writing"
                again = f", start {news.number}" if news.number > 1 else ""
                self._show(f"→ {visible(news.name)} plans{again}: {held}")
            case SentBack():
                wrong = f"{news.wrong} problem{'s' * (news.wrong != 1)}"
                after = "good" if not news.wrong else wrong if news.ends else f"{wrong}, sent back"
                self._show(f"→ plan {news.number}: {after}")
            case _:
                assert_never(news)

    def end(self) -> None:
        """Show what has begun and will not go on."""
        if self._line:
            self._said(self._line)
        self._line = ""

    def _said(self, line: str) -> None:
        if line.strip():
            self._show(f"  {visible(self._clean(line))}")
