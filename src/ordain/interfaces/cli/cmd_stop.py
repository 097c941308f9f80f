"""The command that stops everything: stop."""

from __future__ import annotations

from contextlib import suppress

import click

from ordain.core.policy.stop import LIFT
from ordain.core.text.problem import Problem, Refused
from ordain.interfaces.cli.session import FAILED, FINE, REFUSED, Session, command, in_utf8
from ordain.interfaces.view.run import instant
from ordain.interfaces.view.text import visible


@command()
@click.option("--all", "everywhere", is_flag=True, help="In every workspace of this user.")
@click.option("--lift", is_flag=True, help="Let work go on. For people at a terminal.")
@click.option("-m", "--message", "reason", callback=in_utf8, default="", help="Why.")
def stop(session: Session, everywhere: bool, lift: bool, reason: str) -> int:
    """Stop all work now: runs end as by kill -9, and no run starts and no call of an agent passes until a person
    lifts it. Anybody may stop. Afterwards `ordain resume` settles what was under way.

    Example: ordain stop --all -m "Something is wrong."
    """
    if lift:
        return _lift(session)
    report = session.run(session.app.stopping.stop(session.by, reason, everywhere=everywhere))
    for app in session.every_app() if everywhere else ():
        if app.workspace_path != session.app.workspace_path:
            with suppress(Refused, OSError):  # it is stopped all the same
                session.run(app.stopping.note(session.by, reason))
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
    found = session.app.stopping.in_force()
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
    session.run(session.app.stopping.lift(session.by))  # refused in JSON: robots can stop, and never lift
    session.say(["Lifted. Runs that were ended go on with: ordain resume"])
    return FINE
