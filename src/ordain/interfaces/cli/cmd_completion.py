"""The command that teaches a shell to complete our words: completion."""

from __future__ import annotations

import sys

import click

from ordain.interfaces.cli.completion import SCRIPTS, WHERE
from ordain.interfaces.cli.session import FINE, Session, command
from ordain.interfaces.view.result import CompletionResult


@command()
@click.argument("shell", type=click.Choice(list(SCRIPTS)))
def completion(session: Session, shell: str) -> int:
    """Print what a shell reads to complete commands, options, documents, plans, runs and steps.

    Example: ordain completion bash
    """
    if session.json:
        session.answer(CompletionResult(shell=shell, script=SCRIPTS[shell]))
        return FINE
    if sys.stdout.isatty():  # who only looks is told where it goes
        click.echo(f"# Put this line into {WHERE[shell]}", err=True)
    click.echo(SCRIPTS[shell], nl=False)
    return FINE
