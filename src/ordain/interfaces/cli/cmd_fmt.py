"""The command about the form of documents: fmt."""

from __future__ import annotations

import os
import shlex
from pathlib import Path

import click
import msgspec

from ordain.core.plan.canonical import plan_id
from ordain.core.text.problem import Problem, Refused, refuse
from ordain.documents.document import Notation
from ordain.documents.format import changed_lines, formatted
from ordain.documents.reading import read
from ordain.interfaces.cli.output_file import put
from ordain.interfaces.cli.session import FINE, REFUSED, Session, command, read_document
from ordain.interfaces.view.report import FormResult

_LINES_SHOWN = 10


@command()
@click.argument("document", metavar="DOCUMENT")
@click.option("--to", type=click.Choice(["markdown", "yaml", "json"]), help="Print it in this notation.")
@click.option("-i", "--in-place", is_flag=True, help="Rewrite the file; lines that are formatted already stay.")
@click.option("--check", is_flag=True, help="Print nothing; exit with 2 if it is not formatted.")
def fmt(session: Session, document: str, to: Notation | None, in_place: bool, check: bool) -> int:
    """Format a document, or convert it to another notation. The plan id stays the same.

    Example: ordain fmt fix.plan.md --to yaml
    """
    if to and (in_place or check):
        raise click.UsageError("--to prints the document; it goes with neither --in-place nor --check.")
    if in_place and (check or document == "-"):
        raise click.UsageError("--in-place rewrites a file; it goes with neither --check nor standard input.")
    data, name = read_document(session, document)
    source = read(data, name, session.app.plans.fetch)
    if source.plan is None:
        raise Refused(source.problems)
    made = formatted(data, source, to, session.app.plans.fetch)
    if not isinstance(made, str):
        raise Refused(_unwritable(made, to or source.notation))
    lines = () if to and (source.dialect or to != source.notation) else changed_lines(data.decode(), made)
    if in_place and lines:
        _replace(document, made.encode())
    result = FormResult(notation=to or source.notation, plan_id=plan_id(source.plan), changed_lines=lines)
    if check and lines:
        detail = f"{name} is not in form: {_told(lines, 'would change')}."
        command_line = None if document == "-" else f"ordain fmt -i {shlex.quote(document)}"
        session.refused([Problem(code="E_DOC_FORM", detail=detail, command=command_line)], result)
        return REFUSED
    if session.json:
        if not (in_place or check):
            result = msgspec.structs.replace(result, text=made)
        in_form = not lines or in_place or document == "-"
        following = [] if in_form else [f"ordain fmt -i {shlex.quote(document)}"]
        session.answer(result, problems=source.problems, next_=following)
    else:
        session.notices(source.problems)
        if in_place or check:
            session.say([f"{name}: {_told(lines, 'changed')}"])
        else:
            click.echo(made, nl=False)
    return FINE


def _told(lines: tuple[int, ...], verb: str) -> str:
    if not lines:
        return "in form"
    shown = ", ".join(map(str, lines[:_LINES_SHOWN])) + (" …" if len(lines) > _LINES_SHOWN else "")
    return f"{len(lines)} line{'' if len(lines) == 1 else 's'} {verb}: {shown}"


def _unwritable(problems: tuple[Problem, ...], notation: str) -> list[Problem]:
    """Problems of the document that was to be written; their lines are those of a text that nobody has seen."""
    return [
        msgspec.structs.replace(
            problem,
            detail=f"{problem.detail} It can not be written as {notation}.",
            where=msgspec.structs.replace(problem.where, line=None, column=None) if problem.where else None,
        )
        for problem in problems
        if not problem.code.startswith("W_")
    ]


def _replace(path: str, data: bytes) -> None:
    """Put these bytes in a file's place at once, with its owner and mode; a link is followed and stays a link."""
    target = Path(os.path.realpath(path))
    try:
        put(target, data, target.stat())
    except OSError as error:
        reason = os.strerror(error.errno or 0).lower()
        raise refuse("E_DOC_NOT_FOUND", f"{path} cannot be rewritten: {reason}.") from error
