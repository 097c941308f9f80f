"""The commands about a run that somebody else may be carrying out: watch, pause, signal, rerun."""

from __future__ import annotations

from typing import Any

import click
import msgspec

from ordain.core.text.problem import refuse
from ordain.interfaces.cli.execution import carry_out, look_on, no_wait, waiting, watcher
from ordain.interfaces.cli.session import Session, command, in_utf8
from ordain.interfaces.view.run import run_lines


@command()
@click.argument("run_ref", metavar="[RUN]", required=False)
def watch(session: Session, run_ref: str | None) -> int:
    """Show what a run has done and what it does, as it is recorded, until it ends or nobody carries it out. Only
    looks, and can be left at any time. By default the only run that has not ended.

    Example: ordain watch RUN-Q5ZK…
    """
    return look_on(session, session.app.watch(run_ref, watcher(session, events=True, as_result=True)))


@command()
@click.argument("run_ref", metavar="[RUN]", required=False)
@click.option("-m", "--message", "reason", callback=in_utf8, default="", help="Why.")
def pause(session: Session, run_ref: str | None, reason: str) -> int:
    """Have a run begin nothing more. What is under way comes to its end and is recorded; `ordain resume` goes on. By
    default the only run that has not ended.

    Example: ordain pause RUN-Q5ZK… -m "The database is being moved."
    """
    report = session.run(session.app.pause(run_ref, session.by, reason))
    pausing = report.status == "pausing"
    following = f"ordain watch {report.run_id}" if pausing else f"ordain resume {report.run_id}"
    told = ("It is paused when what is under way has ended.", f"  → {session.style.bold(following)}")
    asked = [question.asking for question in report.questions]
    commands = asked if report.status == "waiting" else [following]
    return session.show(report, told if pausing else run_lines(report, session.style), next_=commands)


@command()
@click.argument("key")
@click.option("--value", "json_text", metavar="JSON", help="A value to go with it: the result of the steps that wait.")
@click.option("-m", "--message", "text", callback=in_utf8, metavar="TEXT", help="The same, as text.")
def signal(session: Session, key: str, json_text: str | None, text: str | None) -> int:
    """Say that something has happened that runs wait for (`wait_for` an `external` condition). It permits nothing, so
    robots may too. A run hears what was given since it was started.

    Example: ordain signal build-done --value '{"version": "1.4.2"}'
    """
    if json_text is not None and text is not None:
        raise refuse("E_SIGNAL_VALUE", "A signal has one value: `--value` or `-m`, not both.")
    value = text if json_text is None else _read_value(json_text)
    report = session.run(session.app.signal(key, session.by, value))
    idle = [one for one in report.awaited_by if not one.executing]
    following = list(dict.fromkeys(f"ordain resume {one.run_id}" for one in idle))
    told = "Given. No run that is open waits for it, and one that is started later does not count it."
    if report.heard_by:
        told = f"Given; it counts in {', '.join(report.heard_by)}."
    return session.show(report, [told, *(f"  → {session.style.bold(one)}" for one in following)], next_=following)


def _read_value(text: str) -> Any:
    try:
        return msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError) as error:
        hint = "Text goes with `-m`."
        raise refuse("E_SIGNAL_VALUE", f"The value is not JSON: {error}.", hint) from error


@command()
@click.argument("what", metavar="RUN|PLAN")
@click.option("--from", "again_from", metavar="STEP", help="Run this step and all that depends on it again.")
@no_wait
def rerun(session: Session, what: str, again_from: str | None, no_waiting: bool) -> int:
    """Run a plan again that has run before, on a new approval. A step that passed is kept if its contract holds now;
    every other one is run again. With `--from`, steps that passed before that one are kept without a contract too.

    Example: ordain rerun RUN-Q5ZK… --from deploy
    """
    work = session.app.rerun(
        session.plan_named(what),
        session.by,
        watcher(session),
        again_from=again_from,
        waiting=waiting(session, no_waiting),
    )
    return carry_out(session, work)
