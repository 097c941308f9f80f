"""The commands about a run that somebody else may be carrying out: watch, pause, signal, rerun, stop."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import click
import msgspec

from ordain.assemble.workspace import every_workspace
from ordain.core.policy.stop import LIFT
from ordain.core.text.problem import Problem, Refused, refuse
from ordain.interfaces.cli.decision import ask_approval
from ordain.interfaces.cli.execution import (
    approve_and_start,
    ask_elsewhere,
    carry_out,
    look_on,
    no_wait,
    waiting,
    watcher,
)
from ordain.interfaces.cli.session import FAILED, FINE, REFUSED, Session, command, in_utf8, read_to_store
from ordain.interfaces.view.run import instant, run_lines
from ordain.interfaces.view.text import visible
from ordain.records.records import names_run


@command(example="ordain watch RUN-Q5ZK…")
@click.argument("run_ref", metavar="[RUN]", required=False)
def watch(session: Session, run_ref: str | None) -> int:
    """Watch a run until it ends or nobody carries it out. Watching changes nothing; leave at any time. By default the
    only run that has not ended."""
    return look_on(session, session.app.runs.watch(run_ref, watcher(session, events=True, as_result=True)))


@command(example='ordain pause RUN-Q5ZK… -m "The database is being moved."')
@click.argument("run_ref", metavar="[RUN]", required=False)
@click.option("-m", "--message", "reason", callback=in_utf8, default="", help="Why.")
def pause(session: Session, run_ref: str | None, reason: str) -> int:
    """Pause a run: it starts no further step; steps in progress end and are recorded. `ordain resume` continues it.
    By default the only run that has not ended."""
    report = session.run(session.app.runs.pause(run_ref, session.by, reason))
    pausing = report.status == "pausing"
    following = f"ordain watch {report.run_id}" if pausing else f"ordain resume {report.run_id}"
    told = ("It is paused when what is under way has ended.", f"  → {session.style.bold(following)}")
    asked = [question.asking for question in report.questions]
    commands = asked if report.status == "waiting" else [following]
    return session.show(report, told if pausing else run_lines(report, session.style), next_=commands)


@command(example='ordain signal build-done --value \'{"version": "1.4.2"}\'')
@click.argument("key")
@click.option("--value", "json_text", metavar="JSON", help="A value to go with it: the result of the steps that wait.")
@click.option("-m", "--message", "text", callback=in_utf8, metavar="TEXT", help="The same, as text.")
def signal(session: Session, key: str, json_text: str | None, text: str | None) -> int:
    """Send a signal that runs wait for (`wait_for` an `external` condition). It permits nothing, so robots may send one
    too. A run receives signals sent since it started."""
    if json_text is not None and text is not None:
        raise refuse("E_SIGNAL_VALUE", "A signal has one value: `--value` or `-m`, not both.")
    try:
        value = text if json_text is None else msgspec.json.decode(json_text)
    except (msgspec.DecodeError, RecursionError) as error:
        raise refuse("E_SIGNAL_VALUE", f"The value is not JSON: {error}.", "Text goes with `-m`.") from error
    report = session.run(session.app.signals.give(key, session.by, value))
    idle = [one for one in report.awaited_by if not one.executing]
    following = list(dict.fromkeys(f"ordain resume {one.run_id}" for one in idle))
    told = "Given. No run that is open waits for it, and one that is started later does not count it."
    if report.heard_by:
        told = f"Given; it counts in {', '.join(report.heard_by)}."
    return session.show(report, [told, *(f"  → {session.style.bold(one)}" for one in following)], next_=following)


_APPROVED_AGAIN = (
    "E_PLAN_APPROVAL_MISSING",
    "E_APPROVAL_SPENT",
    "E_APPROVAL_EXPIRED",
    "E_APPROVAL_REVOKED",
    "E_APPROVAL_UNSEALED",
    "E_PLAN_STALE_BASE",
)
"""Why a rerun cannot start that a new approval helps: at a terminal it is asked for at once."""


@command(example="ordain rerun RUN-Q5ZK… --from deploy")
@click.argument("what", metavar="[RUN|PLAN]", required=False)
@click.option("--from", "again_from", metavar="STEP", help="Run this step and all that depends on it again.")
@click.option("--with", "document", metavar="DOCUMENT", help="Go on with the run by this plan instead.")
@click.option("-m", "--message", "reason", callback=in_utf8, default="", help="With --with: why.")
@no_wait
@click.option("--as", "whose", metavar="NAME", help="Whose key signs the approval.")
def rerun(
    session: Session,
    what: str | None,
    again_from: str | None,
    document: str | None,
    reason: str,
    no_waiting: bool,
    whose: str | None,
) -> int:
    """Run a plan again, on a new approval. A passed step is kept if its contract holds now; every other step runs
    again. With `--from`, steps that passed before that one are kept without a contract too. With `--with`, another plan
    goes on with the run: unchanged steps that passed are kept."""
    if document is not None:
        return _go_on_with(session, what, document, again_from, reason, no_waiting=no_waiting, whose=whose)
    if reason:
        raise click.UsageError("-m goes with --with.")
    ref = session.plan_named(what) if what is not None else session.app.runs.ended_run()

    def again(**approval: Any) -> int:
        waits, events = waiting(session, no_waiting), watcher(session)
        work = session.app.runs.rerun(ref, session.by, events, again_from=again_from, waiting=waits, **approval)
        return carry_out(session, work)

    try:
        return again()
    except Refused as refused:
        if session.json or not session.terminal or refused.problems[0].code not in _APPROVED_AGAIN:
            raise
    plan = session.app.runs.run(ref).plan_id if names_run(ref) else ref
    approved = ask_approval(session, session.app.plans.review(plan), whose)
    if approved is None:
        session.say(["Not approved; nothing was run."])
        return REFUSED
    return again(shown=approved[0], credential=approved[1])


def _go_on_with(
    session: Session,
    what: str | None,
    document: str,
    again_from: str | None,
    reason: str,
    *,
    no_waiting: bool,
    whose: str | None,
) -> int:
    """Propose to go on with a run by a document's plan and, at a terminal, approve and start that."""
    data, name = read_to_store(session, document)
    run_id = what if what is not None and names_run(what) else session.app.runs.newest_run(what)
    work = session.app.plans.succeed(run_id, session.by, data, name, again_from=again_from, reason=reason)
    prepared = session.run(work)
    if prepared.approval_command is None:
        waits = waiting(session, no_waiting)
        plan = prepared.review.plan_id
        return carry_out(session, session.app.runs.commit(plan, session.by, watcher(session), waiting=waits))
    if session.json or not session.terminal:
        return ask_elsewhere(
            session, prepared, f"The new version is proposed; a person's approval lets it go on with {run_id}."
        )
    approved = ask_approval(session, prepared.review, whose)
    if approved is None:
        session.say([f"Not approved; {run_id} stays as it is. To approve it: {prepared.approval_command}"])
        return REFUSED
    return approve_and_start(session, approved)


@command(example='ordain stop --all -m "Something is wrong."')
@click.option("--all", "everywhere", is_flag=True, help="In every workspace of this user.")
@click.option("--lift", is_flag=True, help="Let work go on. For people at a terminal.")
@click.option("-m", "--message", "reason", callback=in_utf8, default="", help="Why.")
def stop(session: Session, everywhere: bool, lift: bool, reason: str) -> int:
    """Stop all work now: runs end as by kill -9, no run starts, and no agent call passes until a person lifts it.
    Anybody may stop. Afterwards `ordain resume` settles what was in progress."""
    if lift:
        return _lift(session)
    report = session.run(session.app.stops.stop(session.by, reason, everywhere=everywhere))
    for app in every_workspace(terminal=session.by.person) if everywhere else ():
        if app.workspace.workspace_path != session.app.workspace.workspace_path:
            with suppress(Refused, OSError):  # it is stopped all the same
                session.run(app.stops.note(session.by, reason))
    following = [LIFT, *(f"ordain show {run_id}" for run_id in report.ended)]
    if report.not_ended:
        names = ", ".join(report.not_ended)
        left = Problem(
            code="E_RUN_BUSY",
            detail=f"Work is stopped, but the process that carries out {names} cannot be killed from here.",
            hints=("It begins no further step. It runs as another user or on another machine; end it there.",),
        )
        session.refused([left], report, next_=following)
        return FAILED
    lines = [f"{found.words}." for found in report.stopped]
    lines += [f"  killed: {run_id}" for run_id in report.ended]
    lines += [] if report.recorded else ["  The ledger has no event about it; the stop counts all the same."]
    return session.show(report, [*lines, f"  → {session.style.bold(LIFT)}"], next_=following)


def _lift(session: Session) -> int:
    session.needs_person("lift a stop", LIFT)
    found = session.app.stops.in_force()
    if not session.json:
        if not found:
            session.say(["Nothing is stopped here."])
            return FINE
        for one in found:
            since = f" since {instant(one.at)}" if one.at is not None else ""
            session.say([f"{visible(one.words)}{since}."])
        if not session.ask_word("Let work go on?", "lift"):
            session.say(["Not lifted."])
            return REFUSED
    session.run(session.app.stops.lift(session.by))  # refused in JSON: robots can stop, and never lift
    session.say(["Lifted. Runs that were ended go on with: ordain resume"])
    return FINE
