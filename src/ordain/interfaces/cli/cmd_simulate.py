"""The command about runs that do not happen: simulate."""

from __future__ import annotations

import click

from ordain.interfaces.cli.session import Session, command, is_document, read_document, with_params
from ordain.interfaces.view.next_command import after_document, after_review
from ordain.interfaces.view.simulation import simulation_lines


@command()
@click.argument("what", metavar="DOCUMENT|PLAN")
@with_params
def simulate(session: Session, what: str, params: list[tuple[str, str]]) -> int:
    """Show how a run would go: waves, waiting, what is decided at run time, which contracts hold already.

    Contracts run for a person at a terminal only, in the sandbox of tier 1, where they write nothing and see no more
    than the workspace. With --json, in scripts, and where there is no sandbox, nothing runs.

    Example: ordain simulate fix.plan.md
    """
    if is_document(what, params):
        data, name = read_document(session, what)
        simulated = session.run(session.app.simulate_document(data, name, params, session.by))
        following = after_document(what, params)
    else:
        simulated = session.run(session.app.simulate(what, session.by))
        following = after_review(session.app.review(what))
    return session.show(simulated, simulation_lines(simulated, session.style), next_=following)
