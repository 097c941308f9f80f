"""Starting a run for a client and telling it how the run goes on. The run belongs to no connection.

It is carried out by a process of its own. A client that waits is told progress; one that stops waiting, or whose
request is cancelled, changes nothing about the run: ending it has a tool of its own.
"""

from __future__ import annotations

import asyncio
import json

import msgspec

from ordain.app import App
from ordain.core.problem import Place, Problem, Refused, refuse
from ordain.core.report import RunReport
from ordain.core.run_state import AT_WORK, SETTLED
from ordain.core.value import RunId
from ordain.interfaces.background import BEGINNING_S, LOOKING_S, Background
from ordain.interfaces.mcp.surface import Call

__all__ = ["begin", "follow"]

_OPEN = ("executing", "pausing", "cancelling")
TELLING_S = 0.2
"""How long it is waited at least until a client is told again."""
_begun: list[Background] = []
"""Processes that nobody has waited for yet: they are looked at when the next one is begun, so none is left over."""


async def begin(call: Call, app: App, ref: str) -> RunId:
    """Have the approved run of a plan carried out in the background, or go on with one that was interrupted; which run
    it is. Raises Refused as `commit` does."""
    open_run = app.plan_line(ref).run
    if open_run is not None and open_run.status not in ("stopped", "stalled"):
        app.startable(ref)  # refused, with what helps
    if open_run is not None:
        words = ["resume", open_run.run_id]
    else:
        identity = app.stored(ref).plan_id
        words = ["commit", identity, "--on-behalf", msgspec.json.encode(call.by).decode()]
    before = open_run.executors if open_run is not None else 0
    background = Background(app.workspace_path, words, as_json=True)
    _begun[:] = [one for one in _begun if one.ended() is None]
    _begun.append(background)
    loop = asyncio.get_running_loop()
    until = loop.time() + BEGINNING_S
    while loop.time() < until:
        ended = background.ended()
        run_id = app.executing(ref) if open_run is None else _executing(app, open_run.run_id, before)
        if run_id is not None:
            return run_id
        if ended is not None:
            return _ended(*ended)
        await asyncio.sleep(LOOKING_S)
    raise refuse(
        "E_WORKSPACE_BUSY",
        "Another run is at work here. This one begins by itself when there is a place for it.",
        "Call plan_status later.",
        command="ordain status",
    )


def _executing(app: App, run_id: RunId, before: int) -> RunId | None:
    return run_id if app.run(run_id).executors > before else None


def _ended(status: int, output: bytes) -> RunId:
    """What a command that was over at once said: which run it carried out, or why it did not."""
    try:
        document = json.loads(output)
        data, problems = document["data"], document["problems"]
    except (ValueError, KeyError, TypeError) as error:
        raise refuse("E_EXECUTOR", f"The process that was to carry it out ended with status {status}.") from error
    if data is not None and data.get("run_id"):
        return RunId(data["run_id"])
    raise Refused(
        Problem(
            code=one["code"],
            detail=one["detail"],
            where=msgspec.convert(one["where"], Place) if one["where"] is not None else None,
            hints=tuple(one["hints"]),
            command=one["command"],
        )
        for one in problems
    )


async def follow(call: Call, app: App, run_id: RunId, wait_s: float) -> RunReport:
    """The run as it stands once it has ended or needs a person, or when the time is over."""
    report = app.run(run_id)
    if wait_s <= 0 or report.status not in _OPEN:
        return report
    watching = asyncio.ensure_future(_watch(call, app, run_id))
    try:
        await asyncio.wait([watching], timeout=wait_s)
        if watching.done():
            watching.result()
    finally:
        watching.cancel()
        await asyncio.wait([watching])
    return app.run(run_id)


async def _watch(call: Call, app: App, run_id: RunId) -> None:
    """Tell the client how many steps have settled, as they do, until nobody carries out the run any more."""
    changed = asyncio.Event()
    watching = asyncio.ensure_future(app.watch(run_id, lambda told: changed.set()))
    watching.add_done_callback(lambda ended: changed.set())
    told = -1
    try:
        while not watching.done():
            changed.clear()
            steps = app.run(run_id).steps
            settled = sum(step.state in SETTLED for step in steps)
            if settled > told:  # the protocol wants it to grow each time
                told = settled
                at_work = ", ".join(step.id for step in steps if step.state in AT_WORK)
                words = f"{settled} of {len(steps)} steps settled" + (f"; at work: {at_work}" if at_work else "")
                await call.progress(settled, len(steps), words)
            await changed.wait()
            await asyncio.sleep(TELLING_S)
        watching.result()
    finally:
        watching.cancel()
        await asyncio.wait([watching])
