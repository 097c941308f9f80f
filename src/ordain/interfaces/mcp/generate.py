"""The tool that has the configured planner write a plan: the client is the proposer, and says what it may cost."""

from __future__ import annotations

import asyncio
from contextlib import suppress

import msgspec

from ordain.core.plan.canonical import short_id
from ordain.core.plan.model import Budget
from ordain.core.plan.words import read_budget
from ordain.core.text.problem import Problem, Refused
from ordain.interfaces.mcp.results import ProposedAnswer, proposed_answer
from ordain.interfaces.mcp.surface import Answer, ClientCall
from ordain.interfaces.view.planned import PlannedStatus, PlanningProgress, planned_status
from ordain.planner.brief import Answered
from ordain.planner.outcome import Planned, PlanRequest, notices_of, problems_of
from ordain.planner.planner import Planner

TOKENS_MAX = 200_000
"""What a planning for a client may use that names no budget: it spends somebody's money."""


class GenerateCall(msgspec.Struct, frozen=True, kw_only=True):
    """What is wanted of the planner."""

    goal: str = ""
    constraints: list[str] = []
    budget: str | None = None
    revise: str | None = None
    answers: dict[str, str] = {}


class GeneratedAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """What the planner came to."""

    status: PlannedStatus
    planner: str
    plan: ProposedAnswer | None
    questions: tuple[str, ...]
    reason: str
    draft: str | None
    """What it wrote last, where that could not be proposed."""
    unverified: tuple[str, ...]
    rounds: int
    tokens: int
    cost_usd: float | None


async def generate(call: ClientCall, asked: GenerateCall) -> Answer:
    request = PlanRequest(
        goal=asked.goal,
        constraints=tuple(asked.constraints),
        budget=_budget(asked.budget),
        revise=asked.revise,
        answers=tuple(Answered(question=question, answer=answer) for question, answer in asked.answers.items()),
    )
    async with call.app() as app:
        told = asyncio.Queue[str]()
        progress = PlanningProgress(told.put_nowait, app.workspace.redactor(trusted=True).text)
        passing_on = asyncio.create_task(_pass_on(call, told))
        try:
            planned = await Planner(app).plan(request, call.by, tell=progress.tell)
        finally:
            passing_on.cancel()
            with suppress(asyncio.CancelledError):
                await passing_on
    return _answer(planned)


async def _pass_on(call: ClientCall, told: asyncio.Queue[str]) -> None:
    count = 0
    while True:
        line = await told.get()
        count += 1
        await call.progress(count, None, line.strip())


def _budget(words: str | None) -> Budget:
    found = read_budget(words) if words is not None else Budget(tokens=TOKENS_MAX)
    if isinstance(found, Problem):
        raise Refused([msgspec.structs.replace(found, code="E_CALL_ARGUMENTS")])
    return found if found.tokens is not None else msgspec.structs.replace(found, tokens=TOKENS_MAX)


def _answer(planned: Planned) -> Answer:
    prepared, problems = planned.prepared, problems_of(planned)
    status = planned_status(planned)
    proposed = None
    if prepared is not None:
        proposed = proposed_answer(prepared)
        following: tuple[str, ...] = (f"Call plan_commit with plan={short_id(prepared.review.plan_id)}.",)
        if prepared.approval_command is not None:
            following = (
                f"A person approves it at a terminal with: {prepared.approval_command}",
                f"Ask them to, then call plan_commit with plan={short_id(prepared.review.plan_id)}.",
            )
        problems = (*planned.left, *notices_of(planned))
    elif status == "asked":
        following = ("Ask a person, then call plan_generate again with the same goal and `answers` by question.",)
    else:
        following = ("Say more in the goal or its constraints, or write the plan yourself with plan_propose.",)
    data = GeneratedAnswer(
        status=status,
        planner=planned.planner,
        plan=proposed,
        questions=planned.drafted.questions,
        reason=planned.drafted.reason if prepared is None else "",
        draft=planned.document if planned.document and prepared is None else None,
        unverified=planned.unverified,
        rounds=planned.rounds,
        tokens=planned.usage.tokens,
        cost_usd=planned.usage.cost_usd,
    )
    failed = prepared is None and status != "asked"
    return Answer(data=data, problems=problems, next=following, failure=problems[0] if failed and problems else None)
