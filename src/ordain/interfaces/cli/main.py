"""The command line: a table of commands, each loaded only when it is used, so that `ordain --version` is instant."""

from __future__ import annotations

import importlib
import itertools
import os
import sys
from collections.abc import Sequence
from typing import Any

import click

from ordain import __version__
from ordain.interfaces.cli.ending import (
    INTERRUPTED,
    heeding,
    let_go_of_output,
    open_what_is_closed,
    while_somebody_reads,
)

__all__ = ["LazyGroup", "main", "wants_json"]

_GROUPS: dict[str, dict[str, tuple[str, str]]] = {
    "Every day": {
        "run": ("running", "Check, preview, approve, carry out and watch a document, in one command."),
        "lint": ("planning", "Everything wrong with documents, with the lines."),
        "show": ("planning", "What a document, plan or run means and how it stands."),
        "prepare": ("planning", "Check a document and store its plan, to be approved and started."),
        "approve": ("approving", "Permit one run of exactly this plan. For people at a terminal."),
        "commit": ("running", "Start the approved run."),
        "status": ("running", "What runs, what waits for whom."),
        "inbox": ("proposing", "What waits for you, with the command that decides it."),
        "answer": ("running", "Decide what a run asks a person. For people at a terminal."),
        "resume": ("running", "Go on with what stopped."),
    },
    "Plans": {
        "list": ("proposing", "The plans of this workspace."),
        "revise": ("proposing", "Replace a plan by a revision of it."),
        "reject": ("proposing", "Say no to a plan, and what should change."),
        "cancel": ("proposing", "Take a proposal back, or end a run."),
        "archive": ("proposing", "Put away a plan that has come to its end."),
        "diff": ("looking", "What changed between two plans; weaker checks and new effects first."),
        "simulate": ("simulating", "How a run would go, without carrying anything out."),
        "fmt": ("formatting", "Print a document in form or in another notation, or put the file into form."),
        "schema": ("formatting", "The JSON Schema of plan documents, or of what a verb answers."),
    },
    "Runs": {
        "watch": ("steering", "What a run does, as it does it, whoever carries it out."),
        "pause": ("steering", "Have a run stop when what is under way has ended."),
        "signal": ("steering", "Say that something has happened that a run waits for."),
        "rerun": ("steering", "Run a plan again, keeping what passed and still holds."),
        "stats": ("measuring", "How plans and runs went: where time went, what failed and why."),
        "log": ("running", "The ledger's events about a plan, a run or the workspace."),
    },
    "Around": {
        "init": ("around", "Make this directory a workspace with its own settings."),
        "config": ("around", "The settings in force, and where each value came from."),
        "tools": ("around", "Everything that steps can call, with effects and where it comes from."),
        "agents": ("around", "Who can be given tasks, what each is, and whether it could be started here."),
        "topic": ("topics", "Notes for agents: list them, read them, leave one."),
        "trust": ("approving", "Let ordain.toml count as it stands. For people at a terminal."),
        "revoke": ("approving", "End an approval that no run has used."),
        "approver": ("approving", "Keys that can sign approvals: enroll, list, revoke. For people at a terminal."),
        "audit": ("auditing", "The ledger as a whole: verify, export, backup, restore, rebuild."),
        "explain": ("around", "The page about a problem's code."),
    },
    "Machines": {
        "robot": ("robots", "Any verb for programs: one JSON document. Alone it lists the verbs."),
        "mcp": ("machines", "Serve agents over MCP: they propose, start and watch plans, and never approve."),
        "guard": ("guarding", "What agents do outside of any plan: watch it, or refuse what needs one."),
        "skill": ("machines", "What models that work with Ordain should know; written as a skill with -o."),
    },
}


def wants_json(words: Sequence[str]) -> bool:
    """Whether a program asks, which can be told before the words are understood; also when they never are."""
    options = words[: words.index("--")] if "--" in words else words
    forms = {("--format", "json"), ("--format", "toon")}
    if "--json" in options or not {"=".join(form) for form in forms}.isdisjoint(options):
        return True
    if not forms.isdisjoint(itertools.pairwise(options)):
        return True
    named = [word for before, word in itertools.pairwise(["", *words]) if before not in ("-C", "--workspace")]
    return next((word for word in named if not word.startswith("-")), None) == "robot"


class LazyGroup(click.Group):
    """Knows every command's name and one line about it; imports its module when it is called."""

    def main(
        self,
        args: Sequence[str] | None = None,
        prog_name: str | None = None,
        complete_var: str | None = None,
        standalone_mode: bool = True,
        **extra: Any,
    ) -> Any:
        """Whatever goes wrong before a command has begun is told as it would tell it: as JSON where that was asked
        for."""
        if not standalone_mode:
            return super().main(args, prog_name, complete_var, standalone_mode=False, **extra)
        words = list(sys.argv[1:] if args is None else args)
        open_what_is_closed()
        with heeding():
            try:
                status = super().main(words, prog_name, complete_var, standalone_mode=False, **extra)
            except (KeyboardInterrupt, Exception) as error:
                if wants_json(words):
                    from ordain.interfaces.cli.robots import told_as_json

                    status = told_as_json(error)
                elif isinstance(error, click.ClickException):
                    error.show()
                    status = error.exit_code
                elif isinstance(error, click.Abort | KeyboardInterrupt):
                    click.echo("interrupted", err=True)
                    status = INTERRUPTED
                else:
                    raise
            finally:
                let_go_of_output()
        sys.exit(status if isinstance(status, int) else 0)

    def make_context(self, *args: Any, **settings: Any) -> click.Context:
        with while_somebody_reads():
            return super().make_context(*args, **settings)

    def invoke(self, ctx: click.Context) -> Any:
        with while_somebody_reads():
            return super().invoke(ctx)

    def list_commands(self, ctx: click.Context) -> list[str]:
        return [name for group in _GROUPS.values() for name in group]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        for group in _GROUPS.values():
            if cmd_name in group:
                module = importlib.import_module(f"ordain.interfaces.cli.{group[cmd_name][0]}")
                # A name of Python's own gets a stroke behind it.
                command: click.Command = getattr(module, f"{cmd_name}_", None) or getattr(module, cmd_name)
                return command
        return None

    def line_about(self, cmd_name: str) -> str:
        """The one line about a command."""
        return next(group[cmd_name][1] for group in _GROUPS.values() if cmd_name in group)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        for title, group in _GROUPS.items():
            with formatter.section(title):
                formatter.write_dl([(name, line) for name, (_, line) in group.items()])

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args and self.get_command(ctx, args[0]) is None:
            from ordain.core.problem import closest

            hint = " ".join(closest(args[0], self.list_commands(ctx)))
            ctx.fail(f"There is no command `{args[0]}`. {hint}".rstrip())
        return super().resolve_command(ctx, args)


@click.command(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110})
@click.version_option(__version__, prog_name="ordain", message="%(prog)s %(version)s")
@click.option(
    "-C",
    "--workspace",
    metavar="DIR",
    type=click.Path(exists=True, file_okay=False),
    help="The workspace; default: found from the current directory.",
)
@click.pass_context
def main(ctx: click.Context, workspace: str | None) -> None:
    """Plan/apply for AI agents: see exactly what will happen, approve exactly that, and let only evidence say it is
    done.

    Start with: ordain run DOCUMENT
    """
    _speak_utf8()
    ctx.obj = workspace


def _speak_utf8() -> None:
    """Begin again in UTF-8 where the locale is another: a command or path must be the bytes that were approved, and
    whatever is shown must be showable, wherever it runs."""
    if sys.getfilesystemencoding() != "utf-8" and not sys.flags.utf8_mode:
        sys.stdout.flush()
        os.execv(sys.executable, [sys.executable, "-P", "-X", "utf8", "-m", "ordain", *sys.argv[1:]])
