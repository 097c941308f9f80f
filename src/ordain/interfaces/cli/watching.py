"""The command that tells what was seen of agents outside of plans: guard report."""

from __future__ import annotations

import shutil
import sys

import click

from ordain.interfaces.cli.measuring import WIDTH, WIDTH_MAX, duration_option
from ordain.interfaces.cli.shell import FINE, Session, command
from ordain.interfaces.watch_view import watch_lines

__all__ = ["report"]


@command()
@click.option(
    "--since",
    "within_ms",
    metavar="7d",
    default="7d",
    callback=duration_option,
    help="How far to look back; 90 days are kept.",
)
@click.option("--agent", metavar="NAME", help="Only of the agent that goes by this name.")
@click.option("--tool", metavar="NAME", help="Only of this tool, or of this server.")
def report(session: Session, within_ms: int, agent: str | None, tool: str | None) -> int:
    """Tell which guarded calls agents made without a plan: what was refused, or would be if rules were enforced, by
    tool, agent and day; rules that would open what is harmless; and tools that plans should have.

    Example: ordain guard report --since 30d
    """
    found = session.app.guarding.report(within_ms, agent=agent, tool=tool)
    if session.json:
        session.answer(found)
    else:
        columns = shutil.get_terminal_size().columns if sys.stdout.isatty() else WIDTH
        session.say(watch_lines(found, session.style, min(columns, WIDTH_MAX)))
    return FINE
