"""The command for programs: `robot VERB …` is `VERB … --json`, and what goes wrong is one enveloped document too."""

from __future__ import annotations

from collections.abc import Iterator

import click
import msgspec

from ordain.core.text.problem import Problem
from ordain.interfaces.cli.main import LazyGroup
from ordain.interfaces.cli.session import FINE, REFUSED, Session, interruption, tell_bug
from ordain.interfaces.cli.signals import INTERRUPTED, while_somebody_reads
from ordain.interfaces.robot.schema import RESULTS, schema_name
from ordain.interfaces.view.report import Verb, VerbsResult

_WORKSPACE = ("-C", "--workspace")


class _Verbatim(click.Command):
    """Takes every word as it is: they are for the verb."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        ctx.args = [*args]
        return []

    def collect_usage_pieces(self, ctx: click.Context) -> list[str]:
        return ["[VERB …]"]


@click.command(cls=_Verbatim, add_help_option=False)
@click.pass_context
def robot(ctx: click.Context) -> None:
    """Run VERB and answer with exactly one JSON document, also on failure; `run` and `watch` print events
    first, one a line. Without VERB, list every verb there is.

    Example: ordain robot lint fix.plan.md
    """
    root = ctx.find_root()
    words = _at_the_verb(root, ctx.args)
    session = Session(root.obj, as_json=True)
    if words[:1] in (["-h"], ["--help"]):
        _answer_about(session, click.Context(robot, info_name="robot", parent=root))
        ctx.exit(FINE)
    place = root
    while isinstance(place.command, click.Group):
        if not words or words[0] in ("-h", "--help") or words == ["help"]:
            session.answer(VerbsResult(verbs=tuple(map(_about, verbs_in(place)))), next_=["ordain schema --list"])
            ctx.exit(FINE)
        name, found, words = place.command.resolve_command(place, words)
        assert name is not None and found is not None, "what is not there was refused"
        place = click.Context(found, info_name=name, parent=place)
    if _asks_for_help(place, words):
        _answer_about(session, place)
        ctx.exit(FINE)
    with place.command.make_context(place.info_name, ["--json", *words], parent=place.parent) as verb:
        place.command.invoke(verb)


def _at_the_verb(root: click.Context, words: list[str]) -> list[str]:
    """The words from the verb on. A workspace that is named here counts as it does before `robot`."""
    while words and (words[0] in ("--json", "robot") or words[0].startswith(_WORKSPACE)):
        size = 1
        if words[0].startswith(_WORKSPACE):
            size = 2 if words[0] in _WORKSPACE else 1
            root.obj = root.command.make_context(root.info_name, words[:size]).params["workspace"]
        words = words[size:]
    return words


def _answer_about(session: Session, verb: click.Context) -> None:
    about = _about(verb, whole=True)
    session.answer(about, next_=[f"ordain schema {about.schema}"])


def verbs_in(group: click.Context) -> Iterator[click.Context]:
    """Every verb of a group and of the groups in it."""
    assert isinstance(group.command, click.Group)
    for name in group.command.list_commands(group):
        found = group.command.get_command(group, name)
        assert found is not None, name
        inside = click.Context(found, info_name=name, parent=group)
        if isinstance(found, click.Group):
            yield from verbs_in(inside)
        else:
            yield inside


def _about(verb: click.Context, *, whole: bool = False) -> Verb:
    parent = verb.parent
    assert parent is not None and verb.info_name is not None
    name = verb.info_name if parent.parent is None else f"{parent.info_name} {verb.info_name}"
    group = parent.command
    line = group.table[name][1] if isinstance(group, LazyGroup) else verb.command.get_short_help_str(limit=200)
    return Verb(
        name=name,
        line=line,
        usage=_usage(verb),
        person=not RESULTS[name],
        schema=schema_name(name),
        help=verb.get_help() if whole else msgspec.UNSET,
    )


def _asks_for_help(verb: click.Context, words: list[str]) -> bool:
    """Whether the words of a verb ask for help; where they cannot be read, that is told when it is tried."""
    option = verb.command.get_help_option(verb)
    try:
        given, _, _ = verb.command.make_parser(verb).parse_args([*words])
    except click.UsageError:
        return False
    return option is not None and bool(given.get(option.name))


def _usage(verb: click.Context) -> str:
    return " ".join(verb.get_usage().split()).removeprefix("Usage: ")


def told_as_json(error: BaseException) -> int:
    """Tell a program why there was no command to tell it anything; the exit status that says the same."""
    session = Session(None, as_json=True)
    with while_somebody_reads():
        if isinstance(error, click.ClickException):
            context = error.ctx if isinstance(error, click.UsageError) else None
            hints = (f"Usage: {_usage(context)}",) if context is not None else ()
            command_line = f"{context.command_path} --help" if context is not None else None
            detail = error.format_message()
            session.refused([Problem(code="E_USAGE", detail=detail, hints=hints, command=command_line)])
            return REFUSED
        if isinstance(error, click.Abort | KeyboardInterrupt):
            session.refused([interruption(None)])
            return INTERRUPTED
        return tell_bug(session, error)
