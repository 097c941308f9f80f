"""The command that tells what was seen of agents outside of plans: guard report."""

from __future__ import annotations

import click

from ordain.core.guard.sighting import DAYS_KEPT
from ordain.core.text.limit import DAY_MS
from ordain.interfaces.cli.session import Session, command, duration_option
from ordain.interfaces.view.guard import others_lines, watch_lines


@command()
@click.option(
    "--since",
    "within_ms",
    metavar="7d",
    default="7d",
    callback=duration_option,
    help=f"How far to look back; {DAYS_KEPT} days are kept.",
)
@click.option("--agent", metavar="NAME", help="Only of the agent that goes by this name.")
@click.option("--tool", metavar="NAME", help="Only of this tool, or of this server.")
def report(session: Session, within_ms: int, agent: str | None, tool: str | None) -> int:
    """Report guarded calls that agents made without a plan: what was refused, or would be if rules were enforced, by
    tool, agent and day; rules that would open what is harmless; and tools that plans should have.

    Example: ordain guard report --since 30d
    """
    if within_ms > DAYS_KEPT * DAY_MS:
        raise click.BadParameter(f"Only {DAYS_KEPT} days are kept; write `--since {DAYS_KEPT}d`, or less.")
    found = session.app.guard.report(within_ms, agent=agent, tool=tool)
    every = session.app.guard.report(within_ms) if not found.calls and (agent or tool) else found
    lines = watch_lines(found, session.style, session.width)
    return session.show(found, others_lines(every, session.width) if every.calls and not found.calls else lines)
