"""The commands about agents that we did not write: check, hook, init, install, report."""

from __future__ import annotations

import shlex
import sys

import click

from ordain.core.guard.sighting import DAYS_KEPT
from ordain.core.policy.fact import CheckedCommand, CheckedCommands
from ordain.core.text.limit import DAY_MS
from ordain.interfaces.cli.main import LazyCommands
from ordain.interfaces.cli.session import Session, command, duration_option
from ordain.interfaces.view.guard import others_lines, watch_lines
from ordain.interfaces.view.text import visible

_COMMANDS = {
    "check": ("cmd_guard", "Say what a command does, and what the guard answers."),
    "hook": ("cmd_guard_host", "Answer the hook of an agent's host."),
    "init": ("cmd_guard_init", "Open what coding agents do all day."),
    "install": ("cmd_guard_host", "Have an agent's host ask before every call."),
    "report": ("cmd_guard", "Tell what was called, and what could be open."),
}


@click.group(cls=LazyCommands, sections={"Commands": _COMMANDS})
def guard() -> None:
    """Guard what agents do outside of plans: observe it, or refuse what needs a plan.

    Example: ordain guard report
    """


LINES_MAX = 100_000


@command(context_settings={"ignore_unknown_options": True})
@click.argument("words", metavar="COMMAND…", nargs=-1, required=True, type=click.UNPROCESSED)
def check(session: Session, words: tuple[str, ...]) -> int:
    """Check how Ordain reads a command: what it does, its risk, and what the guard would answer an agent that
    calls it. Nothing is run. `-` reads one command per line from standard input.

    Example: ordain guard check 'git push --force origin main'
    """
    if words == ("-",):
        lines = [line.rstrip("\n") for line in sys.stdin if line.strip()][:LINES_MAX]
    else:
        lines = [words[0] if len(words) == 1 else shlex.join(words)]
    found = CheckedCommands(commands=tuple(session.app.guard.check(line) for line in lines))
    return session.show(found, [line for one in found.commands for line in _lines(one, alone=len(lines) == 1)])


def _lines(one: CheckedCommand, *, alone: bool) -> list[str]:
    facts = "; ".join(f"{fact} {', '.join(about)}".rstrip() for fact, about in one.facts.items()) or "nothing is known"
    if not alone:
        return [f"{one.risk:9} {one.verdict:8} {visible(one.command)}", f"{'':18} {visible(facts)}"]
    return [
        f"{one.risk}: {visible(one.command)}",
        "",
        *(f"  {fact:16} {visible(', '.join(about))}".rstrip() for fact, about in one.facts.items()),
        *(["  nothing is known of it"] if not one.facts else []),
        "",
        f"An agent's call {visible(one.rule)}.",
    ]


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
