"""What every command shares: opening the workspace, showing a result in one of two forms, and the exit status.

Exit status: 0 fine · 1 failed after something ran · 2 refused, nothing done · 3 waiting for a person · 70 our bug ·
130 interrupted (resume works).
"""

from __future__ import annotations

import contextlib
import errno
import functools
import inspect
import json
import os
import pwd
import re
import shlex
import sys
import time
from collections.abc import Callable, Coroutine, Iterable, Sequence
from pathlib import Path
from typing import Any, TypeVar

import click
import msgspec

from ordain.app.app import App
from ordain.assemble.workspace import open_at_terminal, open_workspace
from ordain.core.approval.approval import Channel, Principal
from ordain.core.plan.canonical import short_id
from ordain.core.plan.value import RunId
from ordain.core.plan.words import read_duration
from ordain.core.text.limit import DOCUMENT_BYTES_MAX
from ordain.core.text.problem import Problem, Refused, Severity, refuse
from ordain.core.text.redaction import Redactor
from ordain.interfaces.cli.signals import INTERRUPTED, ends_us, heed_signals
from ordain.interfaces.cli.terminal import Terminal
from ordain.interfaces.robot import envelope as robot
from ordain.interfaces.view.lint import problem_lines
from ordain.interfaces.view.next_command import after_line
from ordain.interfaces.view.text import visible

FINE, FAILED, REFUSED, WAITING, BUG = 0, 1, 2, 3, 70

_WAITS_FOR_A_PERSON = ("E_APPROVAL_CHANNEL", "E_PLANNER_ASKS", "E_PLAN_APPROVAL_MISSING")

_DOCUMENT_ENDINGS = (".md", ".markdown", ".yaml", ".yml", ".json")
_STORED = re.compile(r"(plan:|sha256:)?[0-9a-fA-F]{8,64}|[Pp][Ll][Aa][Nn]-[A-Za-z2-7]+")
"""What names a stored plan, whatever files there are."""

T = TypeVar("T")


class Session(Terminal):
    """One command: its workspace, who calls, and how it answers."""

    def __init__(self, workspace: str | None, *, as_json: bool, as_toon: bool = False) -> None:
        super().__init__()
        self.json = as_json or as_toon
        """Whether a robot asks: everything it is told stands in one document."""
        self.toon = as_toon
        """Whether it wants what went well as a table."""
        self._workspace = workspace
        self._started = time.monotonic()
        self._wrote = False
        self.carries_out: RunId | None = None
        """The run that is, or was, under way when somebody interrupted it."""
        self.interrupted = False
        self.answered = False
        """Whether its one document is written."""

    @functools.cached_property
    def app(self) -> App:
        """Ordain over the workspace; opened when first asked for, so that a refusal is told like any other."""
        opened = open_at_terminal if self.by.person else open_workspace
        return opened(self._workspace or ".", exact=self._workspace is not None, alone=True)

    @property
    def by(self) -> Principal:
        """Who calls, and how. JSON is the robots' channel, whoever typed it; without a terminal it is a script's."""
        # By the system's word, not by a variable's: names decide who may approve.
        try:
            name = pwd.getpwuid(os.getuid()).pw_name
        except KeyError:
            name = f"uid {os.getuid()}"
        channel = Channel.ROBOT if self.json else Channel.TERMINAL if self.terminal else Channel.SCRIPT
        return Principal(name=name, channel=channel)

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Carry out a verb that writes. The first Ctrl-C lets what is under way end and be recorded; the second ends it
        at once, and leaves it in doubt until `ordain resume` has looked at it."""
        import asyncio  # most commands only look, and start faster without it

        async def whole() -> T:
            task = asyncio.current_task()
            assert task is not None
            loop = asyncio.get_running_loop()
            asked = False

            def interrupt() -> None:
                nonlocal asked
                first, asked = not asked, True
                self.interrupted = True
                self.carries_out = self.carries_out or self.app.runs.carries_out
                if not first or not self.app.runs.stop():
                    task.cancel()
                    return
                with contextlib.suppress(OSError, ValueError):  # nobody may be left to read it
                    self.tell("stopping when what is under way has ended; once more ends it now and leaves it in doubt")

            for number in ends_us():
                loop.add_signal_handler(number, interrupt)
            try:
                return await work
            except asyncio.CancelledError:
                raise KeyboardInterrupt from None

        self._wrote = True
        try:
            return asyncio.run(whole())
        finally:
            heed_signals()  # which the loop, as it ended, has forgotten

    def close(self) -> None:
        """Let go of the ledger; a command that only looked has nothing to let go of."""
        if self._wrote:
            import asyncio

            asyncio.run(self.app.close())

    @functools.cached_property
    def redactor(self) -> Redactor:
        try:
            return self.app.redactor()
        except (Refused, OSError):  # no workspace that could be looked at: the refusal itself is shown
            return Redactor({})

    def plan_named(self, what: str) -> str:
        """How a plan is known here that a person named: a document by its path from the workspace's root."""
        if _STORED.fullmatch(what) is not None or not is_there(what):
            return what
        name = document_name(self, what)
        if what.endswith(_DOCUMENT_ENDINGS) and not self.app.plans.was_prepared(name):
            command_line = f"ordain prepare {shlex.quote(what)}"
            raise refuse("E_PLAN_NOT_FOUND", f"No plan was prepared from {name} yet.", command=command_line)
        return name

    def only_plan(self, verb: str) -> str:
        """The one plan that waits for a verb, where nobody said which."""
        lines = self.app.plans.all(open_only=True)
        open_lines = [line for line in lines if line.run is None or line.continues is not None]
        found = [line for line in open_lines if (after_line(line) or "").startswith(f"ordain {verb} ")]
        if not found:
            raise refuse("E_PLAN_NOT_FOUND", f"No plan waits for `ordain {verb}` here.", command="ordain status")
        return _the_one(verb, [(short_id(line.plan_id), line.title) for line in found])

    def only_thing(self) -> str:
        """The one run or plan that is open, where nobody said which; else the only plan there ever was."""
        found = self.app.plans.all(open_only=True) or self.app.plans.all(newest=_NAMED_MAX + 1)
        named = [(line.last_run if line.last_run else short_id(line.plan_id), line.title) for line in found]
        if not named:
            hint = "Name a document: `ordain show DOCUMENT`."
            raise refuse("E_PLAN_NOT_FOUND", "There is no plan in this workspace yet.", hint)
        return _the_one("show", named)

    def expire_overdue(self, app: App | None = None) -> None:
        """Record which proposals ran out of time, if there are any: looking is when somebody notices."""
        app = app or self.app
        if app.plans.has_overdue():
            self.run(app.plans.expire_overdue())

    def show(
        self,
        data: Any,
        lines: Iterable[str],
        *,
        notices: Sequence[Problem] = (),
        problems: Sequence[Problem] = (),
        next_: Sequence[str] = (),
        exactly: bool = False,
    ) -> int:
        """`data` as the one JSON document, or `lines` for a person, which tell of `problems`, but not of notices."""
        if self.json:
            self.answer(data, problems=(*problems, *notices), next_=next_)
        else:
            self.notices(notices)
            self.say(lines, exactly=exactly)
        return FINE

    def give(self, text: str, data: Any, *, problems: Sequence[Problem] = (), next_: Sequence[str] = ()) -> int:
        """A text as it is, which programs read too, or `data` as the one JSON document."""
        if self.json:
            self.answer(data, problems=problems, next_=next_)
        else:
            click.echo(text, nl=False)
        return FINE

    def refused(self, problems: Sequence[Problem], data: Any = None, *, next_: Sequence[str] = ()) -> None:
        """A refusal, in whichever form the caller wants; what helps comes before what else comes next."""
        if self.json:
            commands = tuple(dict.fromkeys([*robot.remedies(problems), *next_]))
            self.answer(data, problems=problems, next_=commands, error=robot.cause(problems))
        else:
            self.notices(problems)

    def notices(self, problems: Sequence[Problem]) -> None:
        """Warnings beside a result; in JSON they are in the document."""
        if not self.json:
            for line in problem_lines(problems, self.error_style):
                click.echo(self.clean(line), err=True)

    def refuse_table(self, what: str) -> None:
        """Refuse the form in which only plans and runs as a whole can be told."""
        if self.toon:
            raise click.UsageError(f"--format toon has no table for {what}; --json alone has all of it.")

    def needs_person(self, verb: str, command_line: str) -> None:
        """Refuse to ask where nobody can answer: no prompt without a terminal."""
        if not self.json and not self.terminal:
            detail = f"Only a person at a terminal can {verb}, and this is not one."
            problem = Problem(code="E_APPROVAL_CHANNEL", detail=detail, command=command_line)
            with contextlib.suppress(Refused):  # whether it can be recorded or not, the answer is no
                self.run(self.app.refusals.record(verb, command_line, self.by, [problem]))
            raise Refused([problem])

    def answer(
        self, data: Any, *, problems: Sequence[Problem] = (), next_: Sequence[str] = (), error: Problem | None = None
    ) -> None:
        """The one JSON document; without an `error` that of a verb that went well."""
        if self.toon and error is None:
            table = robot.table_value(msgspec.to_builtins(data), problems, next_)
            click.echo(robot.toon_text(self.redactor.value(json.loads(robot.to_json(table)))))
        else:
            elapsed = round((time.monotonic() - self._started) * 1000)
            self._echo(robot.envelope(data, problems=problems, error=error, next_=next_, elapsed_ms=elapsed))
        self.answered = True

    def tell_robot(self, value: Any) -> None:
        """One line of JSON before the document: something that happened meanwhile."""
        self._echo(robot.to_json(value))

    def _echo(self, line: bytes) -> None:
        text = line.decode()
        if self.clean(text) != text:
            # Text by text: something hidden across the borders of two could take what stands between along.
            text = robot.to_json(self.redactor.value(json.loads(text))).decode()
        click.echo(text)


_NAMED_MAX = 5


def _the_one(verb: str, named: Sequence[tuple[str, str]]) -> str:
    """The only one of these names; else a refusal with the commands to choose from."""
    if len(named) == 1:
        return named[0][0]
    commands = [f"ordain {verb} {name}  # {title}" for name, title in named[:_NAMED_MAX]]
    more = () if len(named) <= _NAMED_MAX else ("All of them: ordain list",)
    detail = f"`ordain {verb}` needs to know which: {len(named)} plans fit."
    raise refuse("E_PLAN_AMBIGUOUS", detail, *commands, *more)


def command(example: str | None = None, **settings: Any) -> Callable[[Callable[..., int]], click.Command]:
    """A click command whose body gets a Session and returns an exit status; refusals and bugs are handled here. Its
    help ends with the `example`."""

    def wrap(body: Callable[..., int]) -> click.Command:
        name: str = settings.get("name", body.__name__)
        if example is not None:
            settings["help"] = f"{inspect.cleandoc(body.__doc__ or '')}\n\nExample: {example}"

        @functools.wraps(body)
        def whole(*args: Any, as_json: bool, output_format: str | None, **options: Any) -> None:
            context = click.get_current_context()
            as_toon = output_format == "toon"  # the table alone, also where a robot asks
            as_json = output_format == "json" or (as_json and not as_toon)
            if as_toon and name not in robot.TABLES:
                raise click.UsageError(f"{name} has no table; --format toon is for {', '.join(robot.TABLES)}.")
            session = Session(context.find_root().obj, as_json=as_json, as_toon=as_toon)
            raise SystemExit(_guarded(session, body, *args, **options))

        whole = click.option("--json", "as_json", is_flag=True, help="One JSON document on stdout.")(whole)
        forms = click.Choice(["text", "json", "toon"])
        has_table = name in robot.TABLES
        form_help = "With `toon`, one table as TOON on stdout." if has_table else None
        form = click.option("--format", "output_format", type=forms, hidden=not has_table, help=form_help)
        made: click.Command = click.command(**settings)(form(whole))
        return made

    return wrap


def is_there(path: str) -> bool:
    """Whether there is a file by this name; nothing has a name that no file could have."""
    try:
        return Path(path).exists()
    except OSError:
        return False


def is_document(what: str, params: Sequence[tuple[str, str]] = ()) -> bool:
    """Whether a person means a file, and not a plan that is stored; values for parameters are for files only."""
    # A file must not be able to stand in for a stored plan by bearing its name: `./NAME` says that the file is meant.
    if _STORED.fullmatch(what) is None and (what == "-" or is_there(what)):
        return True
    if what.endswith(_DOCUMENT_ENDINGS):
        raise refuse("E_DOC_NOT_FOUND", f"There is no document {what}.")
    if params:
        raise click.UsageError("--param is for documents; a stored plan has all its values.")
    return False


def _split(context: click.Context, option: click.Parameter, given: tuple[str, ...]) -> list[tuple[str, str]]:
    for text in given:
        if "=" not in text:
            raise click.BadParameter(f"`{text}` is not written NAME=VALUE.")
    return [(name.strip(), value) for name, _, value in (text.partition("=") for text in given)]


_PARAM_HELP = "A value for the plan's parameter."
with_params = click.option("--param", "params", multiple=True, metavar="NAME=VALUE", callback=_split, help=_PARAM_HELP)
"""The option that gives a template's parameters their values, as a list of names and texts in `params`."""


def in_utf8(
    context: click.Context, option: click.Parameter, given: str | tuple[str, ...] | None
) -> str | tuple[str, ...] | None:
    """For options whose text is recorded: what is not UTF-8 has no place in the ledger."""
    for text in (given,) if isinstance(given, str) else given or ():
        if not is_utf8(text):
            raise click.BadParameter("The text is not UTF-8.")
    return given


def duration_option(context: click.Context, option: click.Parameter, given: str | None) -> int | None:
    """A duration that was given, in milliseconds."""
    found = read_duration(given) if given is not None else None
    if given is not None and found is None:
        raise click.BadParameter(f"`{given}` is not a duration; write `30d`, `12h` or `90m`.")
    return found


def _guarded(session: Session, body: Callable[..., int], *args: Any, **options: Any) -> int:
    try:
        if session.toon:
            robot.toon_writer()  # before anything is done whose result could not be told
        return body(session, *args, **options)
    except Refused as refused:
        session.refused(refused.problems)
        if any(problem.severity is Severity.FAILURE for problem in refused.problems):
            return FAILED
        return WAITING if all(problem.code in _WAITS_FOR_A_PERSON for problem in refused.problems) else REFUSED
    except KeyboardInterrupt:
        with contextlib.suppress(OSError, ValueError):  # nobody may be left to read it
            _tell_interrupted(session)
        return INTERRUPTED
    except (click.exceptions.Exit, click.ClickException, SystemExit, BrokenPipeError):
        raise
    except Exception as error:
        gone = isinstance(error, OSError) and error.errno == errno.EIO and not sys.stdout.isatty()
        if gone and (session.terminal or session.interrupted):
            return INTERRUPTED  # the terminal is gone, and with it whoever could be told
        return tell_bug(session, error)
    finally:
        session.close()


def tell_bug(session: Session, error: BaseException) -> int:
    """Say what happened that cannot, with all that helps to find out why."""
    import traceback

    for line in "".join(traceback.format_exception(error)).rstrip().split("\n"):
        click.echo(visible(line), err=True)
    session.refused([robot.bug(error)])
    return BUG


def _tell_interrupted(session: Session) -> None:
    run_id = session.carries_out
    following = f"ordain resume {run_id}" if run_id is not None else None
    if session.json:
        if not session.answered:
            session.refused([interruption(following)])
    else:
        under_way = f"; what was under way is looked at by: {following}" if following is not None else ""
        click.echo(f"interrupted{under_way}", err=True)


def interruption(command_line: str | None) -> Problem:
    """What a command that was told to end says to a robot."""
    detail = "The command was interrupted before it was done."
    return Problem(code="E_INTERRUPTED", detail=detail, command=command_line)


def read_document(session: Session, path: str) -> tuple[bytes, str]:
    """The bytes of a document, and the name it is known by: relative to the workspace where it lies in it."""
    if is_there(path) and Path(path).resolve().is_fifo():  # nobody may ever write into it; one without a name is good
        hint = "Write it into a file, or hand it over on standard input and name it `-`."
        raise refuse("E_DOC_NOT_FOUND", f"{path} cannot be read: it is not a regular file.", hint)
    try:
        # One byte more than may be read is enough to refuse it.
        with contextlib.nullcontext(sys.stdin.buffer) if path == "-" else Path(path).open("rb") as file:
            data = file.read(DOCUMENT_BYTES_MAX + 1)
    except OSError as error:
        reason = os.strerror(error.errno or 0).lower()
        raise refuse("E_DOC_NOT_FOUND", f"{path} cannot be read: {reason}.") from error
    if not is_utf8(path):
        raise refuse("E_DOC_NOT_FOUND", f"{path} cannot be named in the ledger: its name is not UTF-8.", "Rename it.")
    return data, "standard input" if path == "-" else document_name(session, path)


def is_utf8(path: str) -> bool:
    """Whether a name can stand in a text."""
    return not any("\ud800" <= character <= "\udfff" for character in path)


def document_name(session: Session, path: str) -> str:
    """The name a document is known by: relative to the workspace where it lies in it."""
    real = os.path.realpath(path)
    root = session.app.ports.workspace.identity()[0]
    return os.path.relpath(real, root) if real.startswith(root.rstrip("/") + "/") else real


def read_to_store(session: Session, path: str) -> tuple[bytes, str | None]:
    """The same for a plan that is to be stored: what came without a file has no name."""
    data, name = read_document(session, path)
    return data, None if path == "-" else name
