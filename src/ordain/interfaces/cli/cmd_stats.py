"""The command that counts: stats."""

from __future__ import annotations

import shutil
import sys

import click

from ordain.core.plan.words import read_duration
from ordain.interfaces.cli.session import FINE, Session, command
from ordain.interfaces.view.statistics import statistics_lines
from ordain.records.records import names_run

WIDTH = 80
"""Where there is no terminal that has one."""
WIDTH_MAX = 110


def duration_option(context: click.Context, option: click.Parameter, given: str | None) -> int | None:
    """A duration that was given, in milliseconds."""
    if given is None:
        return None
    found = read_duration(given)
    if found is None:
        raise click.BadParameter(f"`{given}` is not a duration; write `30d`, `12h` or `90m`.")
    return found


@command()
@click.argument("what", metavar="[PLAN|RUN]", required=False)
@click.option(
    "--since", "within_ms", metavar="30d", callback=duration_option, help="Only what began in this long until now."
)
def stats(session: Session, what: str | None, within_ms: int | None) -> int:
    """Count how plans and runs went: how they ended, where time went, what failed and why, what was missing.

    Everything is counted from the ledger: all plans of this workspace, one plan with its runs, or one run.

    Example: ordain stats --since 30d
    """
    ref = what if what is None or names_run(what) else session.plan_named(what)
    found = session.app.statistics(ref, within_ms)
    if session.json:
        session.answer(found)
    else:
        columns = shutil.get_terminal_size().columns if sys.stdout.isatty() else WIDTH
        session.say(statistics_lines(found, session.style, min(columns, WIDTH_MAX)))
    return FINE
