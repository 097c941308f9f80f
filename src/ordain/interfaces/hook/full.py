"""What a hook needs more than the quick guard for: an App over the workspace, or the door of a step. A plan with which
the host would leave its plan mode becomes a proposal of ours; where rules are enforced, that is what a person
approves."""

from __future__ import annotations

import asyncio
import os
import pwd
import re
from collections.abc import Coroutine, Sequence
from contextlib import suppress
from typing import Any, TypeVar

from ordain.app.app import App
from ordain.app.guard import Seen
from ordain.app.retention import ANNOUNCED
from ordain.assemble.workspace import open_door, open_workspace
from ordain.core.approval.approval import Channel, Principal
from ordain.core.guard.call import Call, CallStanding, Mode
from ordain.core.guard.host_tool import CLAUDE_CODE, PLAN_EXIT, strictest
from ordain.core.lineage.lineage import Stage
from ordain.core.plan.canonical import short_id
from ordain.core.text.problem import Problem, Refused, Severity
from ordain.interfaces.hook import claude
from ordain.interfaces.view.problem import data_text

T = TypeVar("T")

SHOWN_MAX = 12
_UNVERIFIED = "W_TASK_UNVERIFIED"
_WAITING = (Stage.PROPOSED, Stage.APPROVED, Stage.EXECUTING)

_WRITTEN = re.compile(
    r"^\s*(?:\*\*(?:contract|run|task|tool|call)\b|\d+[.)]\s*`[^`]+`\s*$)|\A\s*(?:---|[{]|[a-z_]+:)", re.M | re.I
)
"""What a text has that is meant as a plan of ours: a field of a step, a step that is a command, or another notation."""
NOTED = (
    "Ordain keeps this plan as a note in its inbox, where your user finds it. It is in prose, so nothing of it was "
    "proposed, and calls that need a plan are refused until a person has approved one. To propose one, call "
    "`plan_propose` of the server `ordain`, with a `contract` for each step: a command that exits 0 only if the step "
    "is done. Or write the plan like this, and leave plan mode again:\n\n"
)

EXAMPLE = data_text("prompts/example.plan.md")


def answer_by_app(asked: claude.HookRequest, options: claude.Options, start: str) -> claude.HookAnswer:
    """What a host is answered by the rules of a workspace that is opened whole."""
    app = open_workspace(start, exact=options.workspace is not None, alone=True)
    guard = app.guard.for_call().guard
    try:
        return _judged(app, asked, options)
    except Exception:
        if guard.mode is Mode.OBSERVE:
            return claude.NOTHING
        raise


def _judged(app: App, asked: claude.HookRequest, options: claude.Options) -> claude.HookAnswer:
    if asked.tool_name == PLAN_EXIT:
        return asyncio.run(_closing(app, leave_plan_mode(app, asked, host_principal())))
    calls = claude.calls_of(asked, options, app.workspace.settings()[0], app.workspace.workspace_path)
    if not calls:
        return claude.NOTHING
    call, judged = strictest(app.guard.in_force().guard, calls)
    if judged.standing is CallStanding.OPEN:
        return claude.NOTHING
    seen = Seen(by=host_principal(), agent=CLAUDE_CODE, through=CLAUDE_CODE, session=asked.session_id)
    met = asyncio.run(_closing(app, app.guard.meet(call, seen)))
    return claude.denial(claude.denied_words(met, call)) if met.refused else claude.NOTHING


async def _closing(app: App, work: Coroutine[Any, Any, T]) -> T:
    try:
        return await work
    finally:
        await app.close()


def record_refusal(workspace: str, subject: str, problem: Problem | None) -> None:
    """Have a refusal in the ledger."""
    app = open_workspace(workspace, exact=True, alone=True)
    problems = [problem] if problem is not None else []
    asyncio.run(_closing(app, app.refusals.record("call", subject, host_principal(), problems)))


def ask_door(calls: Sequence[Call]) -> Problem | None:
    """What whoever carries out the step of this agent has against the first of its calls that may not be."""

    async def ask() -> Problem | None:
        door = open_door()
        answers = [await door.may(call.tool, call.args) for call in calls]
        return next((answer.problem for answer in answers if answer.problem is not None), None)

    return asyncio.run(ask())


def host_principal() -> Principal:
    """Who calls through the host: the user it runs as, by its hook."""
    try:
        name = pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        name = f"uid {os.getuid()}"
    return Principal(name=name, channel=Channel.HOOK, agent=CLAUDE_CODE)


async def leave_plan_mode(app: App, asked: claude.HookRequest, by: Principal) -> claude.HookAnswer:
    """Propose the plan that the host would leave its plan mode with, or say what it lacks."""
    enforced = app.guard.in_force().guard.mode is Mode.ENFORCE
    text = asked.tool_input.get("plan")
    written = text if isinstance(text, str) and text.strip() else ""
    if written and _WRITTEN.search(written) is None:
        await app.guard.keep_note(written, by)
        return claude.remark(f"{NOTED}{EXAMPLE}") if enforced else claude.NOTHING
    try:
        said = await _proposed(app, written.encode(), by) if written else _unfinished([])
    except Refused as refused:
        said = "\n".join(map(claude.refused_words, refused.problems[:SHOWN_MAX]))
    return claude.denial(said) if enforced else claude.NOTHING


async def _proposed(app: App, data: bytes, by: Principal) -> str:
    report = app.plans.lint(data)
    lacking = [one for one in report.problems if one.severity is Severity.ERROR or one.code == _UNVERIFIED]
    if lacking or report.plan_id is None:
        return _unfinished(lacking)
    waits, also = False, ""
    with suppress(Refused):
        waits = app.plans.plan_line(report.plan_id).status in _WAITING
    if not waits:
        notices = (await app.plans.prepare(data, None, by)).review.notices
        also = "".join(f"\n{one.code}: {one.detail}" for one in notices if one.code in ANNOUNCED)
    line, short = app.plans.plan_line(report.plan_id), short_id(report.plan_id)
    return (
        f"This plan is proposed to Ordain as {line.lineage} ({short}), and is {line.status}. Nothing of it was done.\n"
        f"A person approves it: ordain approve {short}\n"
        "Then Ordain carries it out, step by step, and each contract says whether its step is done; `plan_status` "
        "tells its state. You need not leave plan mode, and must not do its steps yourself. Tell your user that it "
        "waits for them, and end your turn. To change it, edit the plan file and leave plan mode again."
        f"{also}"
    )


def _unfinished(problems: Sequence[Problem]) -> str:
    steps = [one.where.step for one in problems if one.code == _UNVERIFIED and one.where is not None and one.where.step]
    said = ["This is not a plan yet that Ordain can have approved and carry out, so it was not proposed."]
    if steps:
        named = ", ".join(f"`{step}`" for step in steps[:SHOWN_MAX])
        said += [f"Without a contract: {named}. A contract is a command that exits 0 if and only if the step is done."]
    wrong = [one for one in problems if one.code != _UNVERIFIED]
    for one in wrong[:SHOWN_MAX]:
        line = f"line {one.where.line}: " if one.where is not None and one.where.line is not None else ""
        said.append(" ".join([f"{line}{one.code}: {one.detail}", *one.hints]))
    if len(wrong) > SHOWN_MAX:
        said.append(f"And {len(wrong) - SHOWN_MAX} more.")
    said += ["Edit the plan file and leave plan mode again. This is how a plan is written:", "", EXAMPLE]
    said += ["What only an agent can do has `**task:**` and `**agent:**` in place of `**run:**`."]
    said += ["Where this goes on and on, end your turn: your user can leave plan mode without you."]
    return "\n".join(said)
