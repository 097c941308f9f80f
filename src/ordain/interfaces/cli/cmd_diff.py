"""The command that compares plans: diff."""

from __future__ import annotations

import shlex

import click

from ordain.core.approval.diff.difference import Comparison, Side
from ordain.core.plan.canonical import short_id
from ordain.interfaces.cli.session import Session, command, is_document, read_document, with_params
from ordain.interfaces.view.diff import comparison_result, difference_lines


@command()
@click.argument("old", metavar="OLD")
@click.argument("new", metavar="[NEW]", required=False)
@with_params
def diff(session: Session, old: str, new: str | None, params: list[tuple[str, str]]) -> int:
    """Show what changed from one plan to another; weaker checks, wider scope and new effects come first.

    Each is a document, a stored plan, or `-` for standard input. A document alone is compared with the plan that was
    prepared from it last.

    Example: ordain diff fix.plan.md
    """
    documents = [is_document(one) for one in (old, new) if one is not None]
    if old == new == "-":
        raise click.UsageError("Standard input can be read only once.")
    if params and not any(documents):
        raise click.UsageError("--param is for documents; a stored plan has all its values.")
    # Two templates are compared as they stand; a stored plan is compared with what a template becomes.
    values = params if params or not all(documents) or new is None else None
    if new is None:
        if not documents[0] or old == "-":
            raise click.UsageError("One argument is a document that was prepared before; give two to compare others.")
        data, name = read_document(session, old)
        after = session.app.in_document(data, name, values)
        before = session.app.last_prepared(name)
    else:
        before, after = (_side(session, one, values) for one in (old, new))
    found = session.app.diff(before, after)
    # Only what is stored is known to hold no secret.
    stored = found.old.lineage is not None and found.new.lineage is not None
    lines = difference_lines(found, session.style)
    return session.show(comparison_result(found), lines, next_=_following(found, new or old), exactly=stored)


def _following(found: Comparison, document: str) -> list[str]:
    if found.old.lineage is None or found.new.lineage is not None or found.difference.empty or document == "-":
        return []
    return [f"ordain revise {short_id(found.old.plan_id)} {shlex.quote(document)}"]


def _side(session: Session, what: str, params: list[tuple[str, str]] | None) -> Side:
    if not is_document(what):
        return session.app.stored(what)
    data, name = read_document(session, what)
    return session.app.in_document(data, name, params)
