"""The command that counts: stats."""

from __future__ import annotations

import click

from ordain.interfaces.cli.session import Session, command, duration_option
from ordain.interfaces.view.statistics import statistics_lines
from ordain.records.records import names_run


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
    found = session.app.audits.statistics(ref, within_ms)
    return session.show(found, statistics_lines(found, session.style, session.width))
