"""The command about runs that do not happen: simulate."""

from __future__ import annotations

import click

from ordain.interfaces.cli.shell import FINE, Session, command, is_document, read_document, with_params
from ordain.interfaces.next_commands import after_document, after_review
from ordain.interfaces.simulation_view import simulation_lines

__all__ = ["simulate"]


@command()
@click.argument("what", metavar="DOCUMENT|PLAN")
@with_params
def simulate(session: Session, what: str, params: list[tuple[str, str]]) -> int:
    """Show how a run would go: waves, waiting, what is decided at run time, which contracts hold already.

    Contracts are looked at in a read-only sandbox without network (bubblewrap), and not at all where there is none.

    Example: ordain simulate fix.plan.md
    """
    if is_document(what, params):
        data, name = read_document(session, what)
        simulated = session.run(session.app.simulate_document(data, name, params))
        following = after_document(what, params)
    else:
        simulated = session.run(session.app.simulate(what))
        following = after_review(session.app.review(what))
    if session.json:
        session.answer(simulated, next_=following)
    else:
        session.say(simulation_lines(simulated, session.style))
    return FINE
