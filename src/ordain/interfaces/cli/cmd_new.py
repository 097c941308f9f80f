"""The commands that make documents and put them in form: new, compose, fmt."""

from __future__ import annotations

import json
import os
import re
import shlex
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import click
from msgspec.structs import replace

from ordain.core.plan.canonical import plan_id
from ordain.core.plan.compose import namespace_of
from ordain.core.report.template import NewDocument, TemplateList, TemplateParameter
from ordain.core.text.problem import Place, Problem, Refused, Severity, refuse
from ordain.documents.document import Notation
from ordain.documents.format import changed_lines, formatted
from ordain.documents.reading import read
from ordain.interfaces.cli.output_file import put, write_shared
from ordain.interfaces.cli.session import REFUSED, Session, command, in_utf8, read_document, with_params
from ordain.interfaces.view.report import FormResult
from ordain.interfaces.view.style import Style
from ordain.interfaces.view.text import visible

_NAMED = re.compile(r"[A-Za-z][A-Za-z0-9_-]*=")


def with_output(body: Callable[..., int]) -> Callable[..., int]:
    """The options that say where a document goes, and in which notation."""
    for option in (
        click.option("--force", is_flag=True, help="With -o: replace the file if it is there."),
        click.option("--to", type=click.Choice(["markdown", "yaml", "json"]), help="Write it in this notation."),
        click.option("-o", "--output", metavar="FILE", callback=in_utf8, help="Write a new file, not to stdout."),
    ):
        body = option(body)
    return body


@command(example='ordain new fix-bug --param bug="It counts twice" --param test=tests/test_count.py -o fix.plan.md')
@click.argument("name", metavar="[NAME]", required=False)
@with_params
@with_output
def new(
    session: Session,
    name: str | None,
    params: list[tuple[str, str]],
    output: str | None,
    to: Notation | None,
    force: bool,
) -> int:
    """Make a document of a template and values. Without a name, list the templates and what they take.

    Templates are looked for in plans/templates of the workspace ([plans] templates), in ordain/templates of your
    configuration directory, and among those that come with Ordain. Nothing is stored or run."""
    if name is None:
        if params or output or to or force:
            raise click.UsageError("Name the template: `ordain new NAME …`; `ordain new` alone lists them.")
        found = session.app.templates.all()
        return session.show(found, template_lines(found, session.style))
    made, problems = session.app.templates.new(name, params, to)
    return give(session, made, problems, output, force=force)


@command(example="ordain compose checks.plan.md publish.plan.md -o release.plan.md")
@click.argument("documents", metavar="[NAME=]DOCUMENT…", nargs=-1, required=True)
@click.option("--parallel", is_flag=True, help="Let them run beside one another, not one after the other.")
@click.option("--title", metavar="TEXT", callback=in_utf8, help="The title of the new document.")
@with_output
def compose(
    session: Session,
    documents: tuple[str, ...],
    parallel: bool,
    title: str | None,
    output: str | None,
    to: Notation | None,
    force: bool,
) -> int:
    """Make one document of several. The steps of each come after all of the one before.

    Ids begin with the name of their document, or with what stands before `=`.
    What the documents cannot both say is told as a conflict, and nothing is written. Nothing is stored or run."""
    if len(documents) < 2:
        raise click.UsageError("Name at least two documents.")
    sources = []
    for document in documents:
        name, _, path = document.partition("=") if _NAMED.match(document) else ("", "", document)
        data, file = read_document(session, path)
        sources.append((name or namespace_of(path) or "plan", data, file))
    made, problems = session.app.templates.compose(sources, title=title, parallel=parallel, to=to)
    return give(session, made, problems, output, force=force)


def give(session: Session, made: NewDocument, problems: Sequence[Problem], output: str | None, *, force: bool) -> int:
    """Write a document that was made to a file, or print it, with what lint says of it."""
    if output is not None:
        write_shared(output, made.text.encode(), replace=force, instead="Give a new name, or --force to replace it.")
        made = replace(made, written=output)
    named = [replace(one, where=replace(one.where or Place(), file=output or "the document")) for one in problems]
    session.notices(named)
    if output is None:
        return session.give(made.text, made, problems=named)
    verb = "lint" if any(one.severity is Severity.ERROR for one in problems) else "run"
    following = f"ordain {verb} {shlex.quote(output)}"
    steps = f"{made.steps} step{'' if made.steps == 1 else 's'}"
    wrote = visible(f"Wrote {output}: {steps}, from {', '.join(made.sources)}. Next: {following}")
    return session.show(made, [wrote], problems=named, next_=[following])


_LINES_SHOWN = 10


@command(example="ordain fmt fix.plan.md --to yaml")
@click.argument("document", metavar="DOCUMENT")
@click.option("--to", type=click.Choice(["markdown", "yaml", "json"]), help="Print it in this notation.")
@click.option("-i", "--in-place", is_flag=True, help="Rewrite the file; lines that are formatted already stay.")
@click.option("--check", is_flag=True, help="Print nothing; exit with 2 if it is not formatted.")
def fmt(session: Session, document: str, to: Notation | None, in_place: bool, check: bool) -> int:
    """Format a document, or convert it to another notation. The plan id stays the same."""
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
        # Their lines are those of a text that nobody has seen.
        raise Refused(
            replace(
                problem,
                detail=f"{problem.detail} It can not be written as {to or source.notation}.",
                where=replace(problem.where, line=None, column=None) if problem.where else None,
            )
            for problem in made
            if not problem.code.startswith("W_")
        )
    lines = () if to and (source.dialect or to != source.notation) else changed_lines(data.decode(), made)
    if in_place and lines:
        target = Path(os.path.realpath(document))  # a link is followed and stays a link
        try:
            put(target, made.encode(), target.stat())
        except OSError as error:
            reason = os.strerror(error.errno or 0).lower()
            raise refuse("E_DOC_NOT_FOUND", f"{document} cannot be rewritten: {reason}.") from error
    result = FormResult(notation=to or source.notation, plan_id=plan_id(source.plan), changed_lines=lines)
    if check and lines:
        detail = f"{name} is not in form: {_told(lines, 'would change')}."
        command_line = None if document == "-" else f"ordain fmt -i {shlex.quote(document)}"
        session.refused([Problem(code="E_DOC_FORM", detail=detail, command=command_line)], result)
        return REFUSED
    in_form = not lines or in_place or document == "-"
    following = [] if in_form else [f"ordain fmt -i {shlex.quote(document)}"]
    session.notices(source.problems)
    if in_place or check:
        told = [f"{name}: {_told(lines, 'changed')}"]
        return session.show(result, told, problems=source.problems, next_=following)
    return session.give(made, replace(result, text=made), problems=source.problems, next_=following)


def _told(lines: tuple[int, ...], verb: str) -> str:
    if not lines:
        return "in form"
    shown = ", ".join(map(str, lines[:_LINES_SHOWN])) + (" …" if len(lines) > _LINES_SHOWN else "")
    return f"{len(lines)} line{'' if len(lines) == 1 else 's'} {verb}: {shown}"


def template_lines(found: TemplateList, style: Style) -> Iterator[str]:
    """Every template with what it makes and the values it takes, those first that it wants."""
    for line in found.templates:
        title, where = line.about or line.title, line.source if line.source == "built-in" else visible(line.file)
        hidden = "; hidden by the one above of the same name" if line.hidden else ""
        yield f"{style.bold(visible(line.name))}  {style.dim(f'{where}{hidden}')}"
        if title is not None:
            yield f"  {visible(title)}"
        if line.problems:
            first = line.problems[0]
            yield f"  {style.warn('cannot be used')}: {first.code}: {visible(first.detail)}"
        for parameter in line.parameters:
            yield f"  {visible(_parameter(parameter))}"
    yield ""
    yield "Make a document of one: ordain new NAME --param KEY=VALUE -o FILE"


def _parameter(one: TemplateParameter) -> str:
    said = [] if one.type == "string" else [one.type]
    if one.wanted:
        said.append("wanted")
    elif one.default is not None:
        said.append(f"default {json.dumps(one.default, ensure_ascii=False)}")
    elif one.files is not None:
        said.append(f"default: the files that match {one.files}")
    kind = f" ({', '.join(said)})" if said else ""
    about = f": {one.description}" if one.description else ""
    return f"--param {one.name}={kind}{about}"
