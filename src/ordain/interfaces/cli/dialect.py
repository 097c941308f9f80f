"""Telling plans and runs in a dialect: what `--json` would say, looked up and given to `interfaces.dialects`."""

from __future__ import annotations

from typing import Any

import msgspec

from ordain.app.app import App
from ordain.core.plan.model import Plan
from ordain.core.plan.value import RunId
from ordain.core.report.report import PlanLine, Told
from ordain.interfaces.cli.session import Session
from ordain.interfaces.robot.dialect.document import in_list, plan_value
from ordain.interfaces.robot.dialect.state import DialectState, OutputDialect
from ordain.interfaces.robot.dialect.stream import Begun, DialectStream
from ordain.ports.ports import Observer

_OF_A_RUN = ("completed", "failed", "cancelled")
"""What a plan is when its last run has come to its end and nothing happened to it since."""


def in_dialect(app: App, dialect: OutputDialect, data: Any) -> Any:
    """The data of a verb, which is a run, a plan or a list of plans, in the form of a seed."""
    match msgspec.to_builtins(data):
        case {"plans": plans, "count": count}:
            lines = [msgspec.convert(plan, PlanLine) for plan in plans]
            return {"plans": [in_list(_of_line(app, line), dialect) for line in lines], "count": count}
        case {"run_id": run_id, "plan_id": plan_id, "steps": _}:
            return plan_value(_of_run(app, run_id, app.plan_line(plan_id)), dialect)
        case {"plan": plan, "plan_id": plan_id, "status": status, "lineage": lineage}:
            if lineage is not None and (line := app.plan_line(lineage)).plan_id == plan_id:
                return plan_value(_of_line(app, line), dialect)
            del plan["plan_id"]
            standing = DialectState(plan_id=plan_id, plan=msgspec.convert(plan, Plan), status=status)
            return plan_value(standing, dialect)
        case other:
            raise AssertionError(f"nothing that a dialect has a form for: {other}")


def _of_line(app: App, line: PlanLine) -> DialectState:
    run_id = line.run.run_id if line.run is not None else line.last_run if line.status in _OF_A_RUN else None
    if run_id is not None and (found := _of_run(app, run_id, line)).plan_id == line.plan_id:
        return found
    plan = app.stored(line.plan_id).plan
    return DialectState(plan_id=line.plan_id, plan=plan, status=line.status, line=line)


def _of_run(app: App, run_id: RunId, line: PlanLine) -> DialectState:
    report, state = app.run(run_id), app.run_state(run_id)
    return DialectState(
        plan_id=report.plan_id,
        plan=state.plan,
        status=report.status,
        line=line,
        state=state,
        report=report,
    )


def dialect_stream(app: App, dialect: OutputDialect) -> DialectStream:
    """What turns what is told of a run into the lines of a dialect."""

    def begun(run_id: RunId) -> Begun:
        plan_id = app.run(run_id).plan_id
        return Begun(plan_id, app.stored(plan_id).plan, app.plan_line(plan_id), app.log(run_id))

    return DialectStream(dialect, begun)


def teller(session: Session, dialect: OutputDialect) -> Observer:
    """An observer that prints what the dialect says of a run, a line at a time."""
    stream = session.stream = dialect_stream(session.app, dialect)

    def tell(told: Told) -> None:
        for line in stream.lines(told):
            session.tell_robot(line)

    return tell


def said_at_last(session: Session) -> None:
    """Print what the dialect says of a run only once nobody tells any more, before its result."""
    for line in session.stream.close() if session.stream is not None else ():
        session.tell_robot(line)
