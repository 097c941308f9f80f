"""The commands that make documents: new, compose."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Sequence

import click
from msgspec.structs import replace

from ordain.core.plan.compose import namespace_of
from ordain.core.report.template import NewDocument
from ordain.core.text.problem import Place, Problem, Severity
from ordain.documents.document import Notation
from ordain.interfaces.cli.output_file import NEW_MODE, make_parents, write_new, write_whole
from ordain.interfaces.cli.session import FINE, Session, command, in_utf8, read_document, with_params
from ordain.interfaces.view.template import template_lines
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


@command()
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
    configuration directory, and among those that come with Ordain. Nothing is stored or run.

    Example: ordain new fix-bug --param bug="It counts twice" --param test=tests/test_count.py -o fix.plan.md
    """
    if name is None:
        if params or output or to or force:
            raise click.UsageError("Name the template: `ordain new NAME …`; `ordain new` alone lists them.")
        found = session.app.templates.all()
        return session.show(found, template_lines(found, session.style))
    made, problems = session.app.templates.new(name, params, to)
    return give(session, made, problems, output, force=force)


@command()
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
    What the documents cannot both say is told as a conflict, and nothing is written. Nothing is stored or run.

    Example: ordain compose checks.plan.md publish.plan.md -o release.plan.md
    """
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
        make_parents(output)
        data = made.text.encode()
        if force:
            write_whole(output, data)
        else:
            write_new(output, [data], mode=NEW_MODE, instead="Give a new name, or --force to replace it.")
        made = replace(made, written=output)
    named = [replace(one, where=replace(one.where or Place(), file=output or "the document")) for one in problems]
    following = _following(output, problems)
    if session.json:
        session.answer(made, problems=named, next_=following)
        return FINE
    session.notices(named)
    if output is None:
        click.echo(made.text, nl=False)
    else:
        session.say(
            [visible(f"Wrote {output}: {_counted(made.steps)}, from {', '.join(made.sources)}. Next: {following[0]}")]
        )
    return FINE


def _counted(steps: int) -> str:
    return f"{steps} step{'' if steps == 1 else 's'}"


def _following(output: str | None, problems: Sequence[Problem]) -> list[str]:
    if output is None:
        return []
    named = shlex.quote(output)
    verb = "lint" if any(one.severity is Severity.ERROR for one in problems) else "run"
    return [f"ordain {verb} {named}"]
