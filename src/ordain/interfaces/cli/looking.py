"""The command that compares plans: diff."""

from __future__ import annotations

from typing import Any

import click
import msgspec

from ordain.core.canonical import plan_hash
from ordain.core.difference import Comparison
from ordain.core.report import Side
from ordain.interfaces.cli.shell import FINE, Session, command, is_document, read_document, with_params
from ordain.interfaces.difference_view import difference_lines

__all__ = ["diff"]


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
    if session.json:
        session.answer(comparison_value(found))
    else:
        # Only what is stored is known to hold no secret.
        stored = found.old.lineage is not None and found.new.lineage is not None
        session.say(difference_lines(found, session.style), exactly=stored)
    return FINE


def _side(session: Session, what: str, params: list[tuple[str, str]] | None) -> Side:
    if not is_document(what):
        return session.app.stored(what)
    data, name = read_document(session, what)
    return session.app.in_document(data, name, params)


def comparison_value(found: Comparison) -> dict[str, Any]:
    """A comparison as robots get it: both sides by name, then what to read first, then everything."""
    changes: dict[str, Any] = msgspec.to_builtins(found.difference)
    return {
        "old": _side_value(found.old),
        "new": _side_value(found.new),
        "same": found.difference.empty,
        "concerns": changes.pop("concerns"),
        **changes,
    }


def _side_value(side: Side) -> dict[str, Any]:
    return {
        "plan_id": side.plan_id,
        "plan_hash": plan_hash(side.plan_id),
        "title": side.plan.title,
        "lineage": side.lineage,
        "document": side.document,
    }
