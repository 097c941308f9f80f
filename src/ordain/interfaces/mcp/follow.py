"""Starting a run for a client and telling it how the run goes on, also as a task of the protocol. The run belongs to no
connection: a client that stops waiting changes nothing about it."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections import Counter
from collections.abc import AsyncGenerator, Callable, Iterator, Mapping, Sequence
from typing import Any

import msgspec
from msgspec.structs import replace

from ordain.app.app import App
from ordain.core.lineage.decision import persons_only
from ordain.core.plan.canonical import short_id
from ordain.core.plan.value import Instant, RunId
from ordain.core.report.report import RunReport
from ordain.core.run.run_state import SETTLED
from ordain.core.run.step_event import StepState
from ordain.core.text.problem import Problem, Refused, refuse
from ordain.interfaces.background import BEGINNING_S, LOOKING_S, BackgroundProcess
from ordain.interfaces.mcp.results import run_answer
from ordain.interfaces.mcp.surface import Answer, ClientCall, ProtocolTask, TaskStatus
from ordain.interfaces.view.next_command import after_run
from ordain.interfaces.view.report import failure, warnings
from ordain.records.records import names_run

OPEN = ("executing", "pausing", "cancelling")
_AT_WORK = (StepState.RUNNING, StepState.VERIFYING)
TELLING_S = 0.2
BEAT_S = 5.0
"""How often a client is told at least: some give up on a call that says nothing for a minute."""
PERSON_S = 0.5
_LOOKS_A_BEAT = round(BEAT_S / PERSON_S)
WAITING_MAX = 32
"""How many calls of one client wait at a time: each holds the ledger open, and no client may use up what all need."""
_begun: dict[tuple[str, ...], BackgroundProcess] = {}
"""The processes that were begun and may still be at work, by what they do with which plan or run. Those that have ended
are let go of when the next one is begun."""

_waiting: Counter[str] = Counter()


async def begin(call: ClientCall, app: App, ref: str, preparation: str | None = None) -> RunId | None:
    """Have the approved run of a plan carried out in the background, or go on with an interrupted one; which run it is,
    or None where it has to wait. Raises Refused as `commit` does. A preparation has one run, however often asked."""
    earlier, line = app.runs.begun(ref, preparation), app.plans.plan_line(ref)
    open_run = line.run if line.continues is None else None  # what it goes on with is another plan's
    if preparation is not None and open_run is not None and open_run.run_id != earlier:
        open_run = None  # somebody else's
    if earlier is not None and open_run is None:
        return earlier
    if open_run is not None and open_run.status not in ("stopped", "stalled"):
        return open_run.run_id  # under way already, or a person's turn: nothing is begun twice
    if open_run is not None:
        words, before = ["resume", open_run.run_id], open_run.executors
    else:
        await app.runs.check_startable(ref, call.by, preparation)
        words = ["commit", app.plans.stored(ref).plan_id]
        words += ["--preparation", preparation] if preparation is not None else []
        words += ["--on-behalf", msgspec.json.encode(call.by).decode()]
        before = 0
    background = _in_background(app, words)
    loop = asyncio.get_running_loop()
    until = loop.time() + BEGINNING_S
    while loop.time() < until:
        ended = background.ended()
        if open_run is None:
            run_id = app.runs.executing(ref)
        else:
            run_id = open_run.run_id if app.runs.run(open_run.run_id).executors > before else None
        if run_id is not None:
            return run_id
        if ended is not None:
            return _ended(*ended)
        await asyncio.sleep(LOOKING_S)
    return None


def _in_background(app: App, words: Sequence[str]) -> BackgroundProcess:
    """The process that does this; one that was begun before, if it still waits for its place."""
    for key, one in list(_begun.items()):
        if one.ended() is not None:
            one.close()
            del _begun[key]
    key = (app.workspace.workspace_path, *(words[: words.index("--on-behalf")] if "--on-behalf" in words else words))
    if key not in _begun:
        _begun[key] = BackgroundProcess(app.workspace.workspace_path, words, as_json=True)
    return _begun[key]


def _ended(status: int, output: bytes) -> RunId:
    """What a command that was over at once said: which run it carried out, or why it did not."""
    try:
        document = json.loads(output)
        data, problems = document["data"], document["problems"]
    except (ValueError, KeyError, TypeError) as error:
        raise refuse("E_BACKGROUND", f"The process that was to carry it out ended with status {status}.") from error
    if data is not None and data.get("run_id"):
        return RunId(data["run_id"])
    raise Refused(msgspec.convert(one, Problem) for one in problems)


@contextlib.contextmanager
def time_to_wait(call: ClientCall, wait_s: float) -> Iterator[float]:
    """How long a call may wait: not at all where too many of this client wait already."""
    if wait_s <= 0 or _waiting[call.by.name] >= WAITING_MAX:
        yield 0.0
        return
    _waiting[call.by.name] += 1
    try:
        yield wait_s
    finally:
        _waiting[call.by.name] -= 1


async def wait_for_person(call: ClientCall, look: Callable[[], tuple[object, ...]], words: str, wait_s: float) -> None:
    """Wait until what is looked at is otherwise, which takes somebody to do something, or the time is over."""
    loop = asyncio.get_running_loop()
    before, until, beats = look(), loop.time() + wait_s, 0
    while loop.time() < until and look() == before:
        if beats % _LOOKS_A_BEAT == 0:
            await call.progress(0, None, words)
        beats += 1
        await asyncio.sleep(min(PERSON_S, max(until - loop.time(), 0)))


async def follow(call: ClientCall, app: App, run_id: RunId, wait_s: float) -> RunReport:
    """The run as it stands once it has ended or needs a person, or when the time is over."""
    report = app.runs.run(run_id)
    if wait_s <= 0 or report.status not in OPEN:
        return report
    with contextlib.suppress(TimeoutError):
        await asyncio.wait_for(_watch(call, app, run_id), wait_s)
    return app.runs.run(run_id)


async def _watch(call: ClientCall, app: App, run_id: RunId) -> None:
    changed = asyncio.Event()
    watching = asyncio.ensure_future(app.runs.watch(run_id, lambda told: changed.set()))
    watching.add_done_callback(lambda ended: changed.set())
    try:
        while not watching.done():
            changed.clear()
            report = app.runs.run(run_id)
            await call.progress(_settled(report), len(report.steps), how_far(report))
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(changed.wait(), BEAT_S)
                await asyncio.sleep(TELLING_S)
        watching.result()
    finally:
        watching.cancel()
        await asyncio.wait([watching])


def how_far(report: RunReport) -> str:
    """How far a run has come, in words."""
    at_work = ", ".join(step.id for step in report.steps if step.state in _AT_WORK)
    words = f"{_settled(report)} of {len(report.steps)} steps settled"
    return words + (f"; at work: {at_work}" if at_work and report.status in OPEN else "")


def _settled(report: RunReport) -> int:
    return sum(step.state in SETTLED for step in report.steps)


def how_it_stands(report: RunReport, *, full: bool) -> Answer:
    """What a client is told of a run, and what it can do."""
    following = who_acts(report)
    if report.status in OPEN:
        following += (f"Call plan_status with what={report.run_id} and wait_s to see how it ends.",)
    elif report.status == "failed":
        following += ("Read evidence and output tails of what failed, then propose another plan. Claim nothing more.",)
    data = run_answer(report, tuple(after_run(report)), full=full)
    return Answer(data=data, problems=warnings(report), next=following)


def who_acts(report: RunReport) -> tuple[str, ...]:
    """Who must do what for a run to go on that does not do so by itself."""
    words = tuple(
        f"A person {'does this, and says so' if one.kind == 'task' else 'decides'} at a terminal with: {one.asking}"
        for one in report.questions
    )
    if report.status in ("stopped", "stalled"):
        words += (f"Nobody carries it out. Call plan_commit with plan={short_id(report.plan_id)} to go on.",)
    elif report.status == "paused":
        words += (f"A person paused it, and goes on with: ordain resume {report.run_id}",)
    elif report.status == "waiting":
        words += (f"When they have, call plan_commit with plan={short_id(report.plan_id)} to go on.",)
    return words


# --- Runs as tasks of the protocol -----------------------------------------------------------------------------------
# A task is a run, by its id, and stands as the ledger says: nothing is kept here. A run that waits for a person is
# `working` and never `input_required`: the client cannot give what is asked.

TASK_LOOKING_S = 0.5
_POLL_MS = 1_000
_POLL_PERSON_MS = 10_000
"""Where it goes on only when somebody does something."""
_ENDS = {"completed": TaskStatus.COMPLETED, "failed": TaskStatus.COMPLETED, "cancelled": TaskStatus.CANCELLED}
_ENDS |= {"replaced": TaskStatus.COMPLETED}
"""A run that failed is a tool that was called and whose work went wrong; `failed` is said of calls themselves."""
_NONE_OF_YOURS = frozenset(("E_RUN_NOT_FOUND", "E_RUN_AMBIGUOUS", "E_PLAN_NOT_YOURS"))
_ASKED = frozenset(("E_RUN_ENDED", "E_RUN_BUSY"))
"""Refusals of cancelling that leave nothing to do: it has ended, or its executor was asked and has yet to answer."""


def run_task(report: RunReport) -> ProtocolTask:
    """A run as a task."""
    status = _ENDS.get(report.status, TaskStatus.WORKING)
    answer = None
    if status is TaskStatus.COMPLETED:
        answer = replace(how_it_stands(report, full=False), failure=failure(report))
    by_itself = report.status in OPEN and not report.questions
    return ProtocolTask(
        task_id=report.run_id,
        status=status,
        message=". ".join((how_far(report), *who_acts(report), *((report.reason,) if report.reason else ()))),
        created_at=Instant(report.changed_at - report.took_ms),
        updated_at=report.changed_at,
        poll_ms=_POLL_MS if by_itself or status.ended else _POLL_PERSON_MS,
        answer=answer,
    )


class RunTasks:
    """The runs of a workspace, each for whoever prepared its plan."""

    async def get(self, call: ClientCall, task_id: str) -> ProtocolTask | None:
        async with call.app() as app:
            report = await _report(call, app, task_id)
            return run_task(report) if report is not None else None

    async def update(self, call: ClientCall, task_id: str, given: Mapping[str, Any]) -> None:
        if not given:
            return
        async with call.app() as app:
            questions = app.runs.run(task_id).questions
            command = questions[0].asking if questions else f"ordain show {task_id}"
            try:
                persons_only("answer what a run asks", call.by, command)
            except Refused as refused:
                await app.refusals.record("tasks/update", task_id, call.by, refused.problems)
                raise

    async def cancel(self, call: ClientCall, task_id: str) -> None:
        async with call.app() as app:
            try:
                await app.runs.cancel_run(task_id, call.by)
            except Refused as refused:
                if refused.problems[0].code not in _ASKED:
                    raise

    async def changes(self, call: ClientCall, task_id: str) -> AsyncGenerator[ProtocolTask, None]:
        told: tuple[TaskStatus, str] | None = None
        while True:
            async with call.app() as app:  # each time anew: somebody may want to be told for hours
                task = run_task(app.runs.run(task_id))
            if (task.status, task.message) != told:
                told = (task.status, task.message)
                yield task
            if task.status.ended:
                return
            await asyncio.sleep(TASK_LOOKING_S)


async def _report(call: ClientCall, app: App, task_id: str) -> RunReport | None:
    """The caller's run of exactly this name. Whether somebody else has one is not told."""
    if not names_run(task_id):
        return None
    try:
        async with app.refusals.asked_for("tasks/get", task_id, call.by):
            return app.runs.run(task_id) if app.runs.find_run(task_id) == task_id else None
    except Refused as refused:
        if refused.problems[0].code in _NONE_OF_YOURS:
            return None
        raise
