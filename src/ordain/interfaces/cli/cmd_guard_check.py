"""The command that says what Ordain understands of command lines: guard check."""

from __future__ import annotations

import shlex
import sys

import click

from ordain.core.policy.fact import CheckedCommand, CheckedCommands
from ordain.interfaces.cli.session import Session, command
from ordain.interfaces.view.text import visible

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
