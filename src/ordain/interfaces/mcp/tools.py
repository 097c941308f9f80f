"""The tools about plans. Each is a thin call of the app's verb with the client as its principal. None of them approves,
answers or trusts, and no argument of theirs could: only a person's own channel can."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Iterator
from contextlib import contextmanager
from itertools import islice
from typing import Annotated, Any

import msgspec

from ordain.app.app import App
from ordain.core.plan.canonical import short_id
from ordain.core.plan.value import StepId
from ordain.core.policy.assignment import inventory_lines
from ordain.core.report.report import PlanLine, PlanStanding, Prepared, RunReport
from ordain.core.text.problem import Place, Problem, Refused, refuse
from ordain.interfaces.mcp.follow import OPEN, begin, follow, how_it_stands, run_task, time_to_wait, wait_for_person
from ordain.interfaces.mcp.proposal import GenerateCall, GeneratedAnswer, Proposal, document_of, generate
from ordain.interfaces.mcp.results import (
    ApprovalAsked,
    Inventory,
    PlanAnswer,
    PlanBrief,
    PlansAnswer,
    ProposedAnswer,
    QueuedAnswer,
    RunAnswer,
    StatusAnswer,
    plan_answer,
    plan_brief,
    proposed_answer,
)
from ordain.interfaces.mcp.surface import Answer, ClientCall, ProtocolTask, Tool
from ordain.interfaces.mcp.texts import mcp_texts
from ordain.interfaces.view.lint import LintResult, lint_result
from ordain.interfaces.view.picked import picked
from ordain.interfaces.view.report import earlier_run, failure
from ordain.interfaces.view.tool import tools_result
from ordain.records.records import names_run

WAIT_MAX_S = 600
LISTED = 30

_Wait = Annotated[float, msgspec.Meta(ge=0, le=WAIT_MAX_S)]


# --- Proposing -----------------------------------------------------------------------------------------------------


async def _propose(call: ClientCall, proposal: Proposal) -> Answer:
    async with call.app() as app:
        with _told_in_place(proposal):
            prepared = await app.plans.prepare(document_of(proposal), None, call.by, list(proposal.params.items()))
        return _stored(prepared, proposal)


def _stored(prepared: Prepared, proposal: Proposal | None = None) -> Answer:
    short = short_id(prepared.review.plan_id)
    named = f"plan={short} and preparation={prepared.preparation}"
    following: tuple[str, ...] = (f"Nobody needs to approve it. Call plan_commit with {named}.",)
    if prepared.approval_command is not None:
        following = (
            f"A person approves it at a terminal with: {prepared.approval_command}",
            f"Ask them to, then call plan_commit with plan={short}. Until then it is refused.",
        )
    notices = prepared.review.notices if proposal is None else _placed(prepared.review.notices, proposal)
    return Answer(data=proposed_answer(prepared), problems=tuple(notices), next=following)


async def _lint(call: ClientCall, proposal: Proposal) -> Answer:
    async with call.app() as app:
        report = app.plans.lint(document_of(proposal), None, list(proposal.params.items()))
    if not report.good:
        raise Refused(_placed(report.problems, proposal))
    following = "It can be proposed as it is with plan_propose."
    if report.problems:
        following = "It can be proposed with plan_propose. Mend what it is warned of first, unless you know better."
    return Answer(data=lint_result(report), problems=_placed(report.problems, proposal), next=(following,))


def _placed(problems: Iterable[Problem], proposal: Proposal) -> tuple[Problem, ...]:
    """Problems with the places that a client knows: in a document that it wrote, or by steps alone."""
    if proposal.document is not None:
        return tuple(problems)
    return tuple(
        msgspec.structs.replace(one, where=Place(step=one.where.step) if one.where and one.where.step else None)
        for one in problems
    )


@contextmanager
def _told_in_place(proposal: Proposal) -> Iterator[None]:
    """Around what reads a proposal: its refusals have such places."""
    try:
        yield
    except Refused as refused:
        told = Refused(_placed(refused.problems, proposal))
        told.recorded = refused.recorded
        raise told from refused


class _Revise(Proposal, frozen=True, kw_only=True):
    """A revision of a plan: either `document`, or `title` and `steps`."""

    plan: str
    reason: str = ""


async def _revise(call: ClientCall, revision: _Revise) -> Answer:
    async with call.app() as app:
        with _told_in_place(revision):
            data, params = document_of(revision), list(revision.params.items())
            prepared = await app.plans.revise(revision.plan, call.by, data, None, params, reason=revision.reason)
        return _stored(prepared, revision)


class _ThePlan(msgspec.Struct, frozen=True, kw_only=True):
    """One plan."""

    plan: str


async def _prepare(call: ClientCall, asked: _ThePlan) -> Answer:
    async with call.app() as app, app.refusals.asked_for("plan_prepare", asked.plan, call.by):
        return _stored(await app.plans.prepare_plan(app.plans.stored(asked.plan).plan, call.by))


class _Reject(_ThePlan, frozen=True, kw_only=True):
    """A no, and what should change."""

    feedback: str = ""
    comments: dict[str, str] = {}


async def _reject(call: ClientCall, asked: _Reject) -> Answer:
    comments = {StepId(step): text for step, text in asked.comments.items()}
    async with call.app() as app:
        line = await app.plans.reject(asked.plan, call.by, asked.feedback, comments)
    following = (f"Call plan_revise with plan={short_id(line.plan_id)} and a plan that takes up what was said.",)
    return Answer(data=plan_brief(line), next=following)


# --- Looking -------------------------------------------------------------------------------------------------------


class _List(msgspec.Struct, frozen=True, kw_only=True):
    """Which plans."""

    status: PlanStanding | None = None
    limit: Annotated[int, msgspec.Meta(ge=1, le=1_000)] = LISTED


async def _list(call: ClientCall, asked: _List) -> Answer:
    async with call.app() as app:
        owned = app.plans.owned(call.by)
        lines = app.plans.lines(reversed(owned))
        if asked.status is None:
            shown, count = list(islice(lines, asked.limit)), len(owned)
        else:
            fitting = [line for line in lines if line.status == asked.status]
            shown, count = fitting[: asked.limit], len(fitting)
        return Answer(data=PlansAnswer(plans=tuple(map(plan_brief, reversed(shown))), count=count))


async def _get(call: ClientCall, asked: _ThePlan) -> Answer:
    async with call.app() as app, app.refusals.asked_for("plan_get", asked.plan, call.by):
        review = app.plans.review(asked.plan)
    return Answer(data=plan_answer(review), problems=tuple(review.notices))


class _Nothing(msgspec.Struct, frozen=True, kw_only=True):
    """No arguments."""


async def _tools(call: ClientCall, _: _Nothing) -> Answer:
    async with call.app() as app:
        tools, agents = app.workspace.tools()[0], tuple(inventory_lines(app.workspace.agents()))
    following = (
        "A step calls `a:b` with `tool: a`, `operation: b` and `args`; a command is simply `run`. What wants "
        "thinking is a task for an `agent`, with a contract.",
    )
    return Answer(data=Inventory(tools=tools_result(tools.values()).tools, agents=agents), next=following)


# --- Carrying out --------------------------------------------------------------------------------------------------


class _Commit(_ThePlan, frozen=True, kw_only=True):
    """Which plan, and how long to wait for its run."""

    preparation: str | None = None
    wait_s: _Wait = 0
    full: bool = False


async def _commit(call: ClientCall, asked: _Commit) -> Answer | ProtocolTask:
    async with call.app() as app, app.refusals.asked_for("plan_commit", asked.plan, call.by):
        earlier = app.runs.begun(asked.plan, asked.preparation)
        run_id = await begin(call, app, asked.plan, asked.preparation)
        if run_id is None:
            return _queued(asked.plan, busy=app.runs.is_busy(asked.plan))
        if call.takes_tasks and asked.wait_s == 0:
            return run_task(app.runs.run(run_id))
        with time_to_wait(call, asked.wait_s) as wait_s:
            report = await follow(call, app, run_id, wait_s)
    stands = how_it_stands(report, full=asked.full)
    problems = (*stands.problems, earlier_run(report)) if earlier == run_id else stands.problems
    return msgspec.structs.replace(stands, failure=failure(report), problems=problems)


def _queued(plan: str, *, busy: bool) -> Answer:
    why = "Another run is at work here. This one begins by itself when that has ended, whether or not you wait."
    if not busy:
        why = "It is being started, and takes its time: a tool server may be slow to answer. It begins by itself."
    following = (why, f"Call plan_status with what={plan} later.")
    return Answer(data=QueuedAnswer(plan=plan, status="waiting_for_place" if busy else "starting"), next=following)


class _Status(msgspec.Struct, frozen=True, kw_only=True):
    """Which plan or run, and how long to wait."""

    what: str
    wait_s: _Wait = 0
    full: bool = False


async def _status(call: ClientCall, asked: _Status) -> Answer:
    async with call.app() as app, app.refusals.asked_for("plan_status", asked.what, call.by):
        with time_to_wait(call, asked.wait_s) as wait_s:
            line, run = await _stand(call, app, asked.what, wait_s)
    brief = plan_brief(line)
    if run is None:
        return Answer(data=StatusAnswer(plan=brief, run=None), next=_of_plan(brief))
    stands = how_it_stands(run, full=asked.full)
    following = stands.next or _of_plan(brief)
    return Answer(data=StatusAnswer(plan=brief, run=stands.data), problems=stands.problems, next=following)


async def _stand(call: ClientCall, app: App, what: str, wait_s: float) -> tuple[PlanLine, RunReport | None]:
    """How a plan and its run stand, once there is something to do about them or the time is over."""
    loop = asyncio.get_running_loop()
    until = loop.time() + wait_s

    def look() -> tuple[PlanLine, RunReport | None]:
        if names_run(what):
            run = app.runs.run(app.runs.find_run(what))
            return app.plans.plan_line(run.plan_id), run
        line = app.plans.plan_line(what)
        return line, app.runs.run(line.last_run) if line.last_run is not None else None

    def standing(line: PlanLine, run: RunReport | None) -> tuple[object, ...]:
        return line.plan_id, line.status, run.status if run is not None else None

    while True:
        line, run = look()
        left = until - loop.time()
        if left <= 0:
            return line, run
        if run is not None and run.status in OPEN:
            await follow(call, app, run.run_id, left)
        elif _persons_turn(line, run):
            await wait_for_person(call, lambda: standing(*look()), "It waits for a person.", left)
        else:
            return line, run


def _persons_turn(line: PlanLine, run: RunReport | None) -> bool:
    if run is not None and run.status in ("waiting", "paused"):
        return True
    return line.run is None and line.status == "proposed" and line.requires_approval


def _of_plan(brief: Any) -> tuple[str, ...]:
    match brief.status:
        case "proposed" if brief.requires_approval:
            return (f"A person approves it at a terminal with: ordain approve {brief.plan}",)
        case "proposed" | "approved":
            return (f"Call plan_commit with plan={brief.plan}.",)
        case "rejected":
            return (f"It was rejected. Call plan_revise with plan={brief.plan} and take up what was said.",)
        case "needs_review":
            return ("It was rejected too often: the next revision must be a person's.",)
        case _:
            return ()


class _Cancel(msgspec.Struct, frozen=True, kw_only=True):
    """Which plan or run, and why."""

    what: str
    reason: str = ""


async def _cancel(call: ClientCall, asked: _Cancel) -> Answer:
    async with call.app() as app:
        open_run = None if names_run(asked.what) else app.plans.plan_line(asked.what).run
        if names_run(asked.what) or open_run is not None:
            run_id = open_run.run_id if open_run is not None else asked.what
            await app.runs.cancel_run(run_id, call.by, asked.reason)
            line = app.plans.plan_line(app.runs.run(run_id).plan_id)
        else:
            line = await app.plans.cancel(asked.what, call.by, asked.reason)
    return Answer(data=plan_brief(line))


async def _approve(call: ClientCall, asked: _ThePlan) -> Answer:
    async with call.app() as app, app.refusals.asked_for("plan_approve", asked.plan, call.by):
        line = app.plans.plan_line(asked.plan)
    short = short_id(line.plan_id)
    asking = line.status == "proposed" and line.requires_approval
    asking = asking or line.status in ("completed", "failed")  # for one run more
    if not asking and line.status not in ("proposed", "approved"):
        detail = f"{short} is {line.status}, so there is nothing to approve."
        raise refuse("E_PLAN_STAGE", detail, command=f"ordain show {short}")
    command = f"ordain approve {short}" if asking else None
    following: tuple[str, ...] = (f"Call plan_commit with plan={short}.",)
    if asking:
        following = (
            f"You cannot approve it, and no tool can. Ask a person to type at a terminal: {command}",
            f"When they have, call plan_commit with plan={short}.",
        )
    expires_at, approved = line.expires_at if asking else None, line.status == "approved"
    data = picked(ApprovalAsked, line, plan=short, approved=approved, command=command, expires_at=expires_at)
    return Answer(data=data, next=following)


_TOOLS: dict[str, tuple[Callable[[ClientCall, Any], Awaitable[Answer | ProtocolTask]], type, tuple[Any, ...]]] = {
    "plan_propose": (_propose, Proposal, (ProposedAnswer,)),
    "plan_lint": (_lint, Proposal, (LintResult,)),
    "plan_list": (_list, _List, (PlansAnswer,)),
    "plan_get": (_get, _ThePlan, (PlanAnswer,)),
    "plan_revise": (_revise, _Revise, (ProposedAnswer,)),
    "plan_prepare": (_prepare, _ThePlan, (ProposedAnswer,)),
    "plan_approve": (_approve, _ThePlan, (ApprovalAsked,)),
    "plan_commit": (_commit, _Commit, (RunAnswer, QueuedAnswer)),
    "plan_status": (_status, _Status, (StatusAnswer,)),
    "plan_cancel": (_cancel, _Cancel, (PlanBrief,)),
    "plan_reject": (_reject, _Reject, (PlanBrief,)),
    "plan_generate": (generate, GenerateCall, (GeneratedAnswer,)),
    "tools_list": (_tools, _Nothing, (Inventory,)),
}
"""Who answers each tool, its arguments, and the forms of its answer. What is said of all that is in `data/mcp.toml`."""

PLAN_TOOLS = tuple(
    Tool(
        name=name,
        call=call,
        arguments=arguments,
        results=results,
        words=tuple(mcp_texts()["arguments"].items()),
        **mcp_texts()["tools"][name],
    )
    for name, (call, arguments, results) in _TOOLS.items()
)
