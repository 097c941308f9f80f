"""A proposal as agents send it (a text in any notation, or a title and steps), and the document that it is: so there is
one reader and one lint. Pure. What each field means is said in `data/mcp.toml`."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

import msgspec

from ordain.app.retention import ANNOUNCED
from ordain.core.plan.canonical import short_id
from ordain.core.plan.model import Budget
from ordain.core.plan.words import read_budget, read_failure
from ordain.core.text.limit import DOCUMENT_BYTES_MAX
from ordain.core.text.problem import Problem, Refused, refuse
from ordain.documents.tree_writer import slug
from ordain.interfaces.mcp.results import ProposedAnswer, proposed_answer
from ordain.interfaces.mcp.surface import Answer, ClientCall
from ordain.interfaces.view.planned import PlannedStatus, PlanningProgress, planned_status
from ordain.planner.brief import Answered
from ordain.planner.outcome import Planned, PlanRequest, notices_of, problems_of
from ordain.planner.planner import Planner


class StepProposal(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """One step: `run` or `tool` with `args` does the work; else it is a task, for `agent` or whoever the settings name,
    who may use only `tool`, where that is given."""

    description: str
    id: str | None = None
    run: str | None = None
    env: dict[str, str] = {}
    tool: str | None = None
    operation: str | None = None
    args: dict[str, Any] | None = None
    target: str | None = None
    agent: str | None = None
    needs: list[str | int] | None = None
    contract: str | None = None
    on_fail: str | None = None


class Proposal(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A plan to be proposed: either `document`, or `title` and `steps`."""

    document: str | None = None
    title: str | None = None
    steps: list[StepProposal] | None = None
    context: str | None = None
    risks: list[str] = []
    params: dict[str, str] = {}


def document_of(proposal: Proposal) -> bytes:
    """The document that a proposal is; raises Refused where it is none, or two."""
    if proposal.document is not None:
        beside = [name for name in ("title", "steps", "context", "risks") if getattr(proposal, name)]
        if beside:
            detail = f"`document` is the whole plan; {_listed(beside)} cannot be beside it."
            raise refuse("E_CALL_ARGUMENTS", detail, "Write it into the document, or leave `document` out.")
        data = proposal.document.encode("utf-8", "surrogatepass")
    else:
        missing = [name for name in ("title", "steps") if not getattr(proposal, name)]
        if missing:
            detail = f"A plan is a `document`, or a `title` with `steps`; there is no {_listed(missing)}."
            raise refuse("E_CALL_ARGUMENTS", detail)
        data = json.dumps(_tree(proposal), ensure_ascii=False).encode("utf-8", "surrogatepass")
    # One byte more than may be read is enough to be refused by the reader.
    return data[: DOCUMENT_BYTES_MAX + 1]


def _tree(proposal: Proposal) -> dict[str, Any]:
    steps = [_step(number, step) for number, step in enumerate(proposal.steps or (), start=1)]
    # A note beside the plan would be shown to nobody who approves it; what is in it, is.
    risks = "\n".join(("Risks:", *(f"- {risk}" for risk in proposal.risks))) if proposal.risks else None
    context = "\n\n".join(part for part in (proposal.context, risks) if part)
    return {"title": proposal.title, "steps": steps, **({"context": context} if context else {})}


def _step(number: int, step: StepProposal) -> dict[str, Any]:
    contract = {"strategy": {"type": "contract", "command": step.contract}}
    title = step.description if step.target is None else f"{step.description} (target: {step.target})"
    value = {
        "description": title,
        "action": _action(number, step, title),
        # Others name the step by what it does.
        "id": slug(step.description, number) if step.id is None and step.target is not None else step.id,
        "needs": step.needs,
        "verification": contract if step.contract is not None else None,
        "on_failure": _policy(number, step.on_fail) if step.on_fail is not None else None,
    }
    return {name: one for name, one in value.items() if one is not None}


def _policy(number: int, words: str) -> Any:
    policy = read_failure(words)
    if isinstance(policy, Problem):
        detail = f"`on_fail` of step {number}: {policy.detail}"
        raise Refused([Problem(code=policy.code, detail=detail, hints=policy.hints)])
    return msgspec.to_builtins(policy)


def _action(number: int, step: StepProposal, title: str) -> Mapping[str, Any]:
    given = [name for name in ("run", "tool", "agent") if getattr(step, name) is not None]
    problems = []
    called = step.tool is not None and (step.args is not None or (step.operation is None and step.agent is None))
    if len(given) > 1 and (called or step.run is not None):
        problems.append(f"Step {number} has {_listed(given)}; exactly one of them does the work.")
    problems += [
        f"Step {number} has `{name}`, which goes with `tool`."
        for name in ("operation", "args")
        if getattr(step, name) and step.tool is None
    ]
    if step.env and step.run is None:
        problems.append(f"Step {number} has `env`, which goes with `run`.")
    if problems:
        raise Refused([Problem(code="E_CALL_ARGUMENTS", detail=detail) for detail in problems])
    if step.run is not None:
        return {"type": "run", "command": step.run, "env": step.env}
    if called:
        operation = {"operation": step.operation} if step.operation is not None else {}
        return {"type": "tool", "tool": step.tool, **operation, "args": step.args or {}}
    agent = {"agent": step.agent} if step.agent is not None else {}
    # No arguments were given that a person could approve: an agent finds them, and may call nothing else.
    scope = {"tools": [":".join(filter(None, (step.tool, step.operation)))]} if step.tool is not None else {}
    return {"type": "task", "task": title, **agent, **scope}


def _listed(names: Sequence[str]) -> str:
    return " and ".join(f"`{name}`" for name in names)


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
        announced = (one for one in prepared.review.notices if one.code in ANNOUNCED)
        problems = (*planned.left, *notices_of(planned), *announced)
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
