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
from ordain.interfaces.cli.signals import (
    INTERRUPTED,
    heeding,
    let_go_of_output,
    open_what_is_closed,
    while_somebody_reads,
)

Sections = dict[str, dict[str, tuple[str, str]]]
"""Commands by title and name: the module that has each, and one line about it."""
_GROUPS: Sections = {
    "Start here": {
        "run": ("cmd_run", "Check, review, approve, run and report on a document, in one command."),
        "lint": ("cmd_lint", "Check documents: report every problem with its line and fix."),
        "show": ("cmd_show", "Show what a document, plan or run does and its state."),
        "prepare": ("cmd_proposal", "Check a document and store its plan for approval."),
        "approve": ("cmd_approve", "Approve one run of exactly this plan (a person at a terminal)."),
        "commit": ("cmd_run", "Start the approved run of a plan."),
        "status": ("cmd_run", "Show what is running, what waits, and the next command."),
        "inbox": ("cmd_proposal", "List what waits for you, with the command that decides each."),
        "answer": ("cmd_run", "Answer what a run asks a person (at a terminal)."),
        "resume": ("cmd_run", "Resume an interrupted or paused run."),
    },
    "Plans": {
        "new": ("cmd_new", "Make a document of a template. Alone, list the templates."),
        "replan": ("cmd_plan", "Replan a run: have the planner propose how a run goes on that failed or waits."),
        "plan": ("cmd_plan", "Plan for a goal: have the configured planner write a plan, and propose it."),
        "compose": ("cmd_new", "Make one document of several, one after the other."),
        "list": ("cmd_proposal", "List the plans of this workspace."),
        "revise": ("cmd_proposal", "Replace a plan with a new version of it."),
        "reject": ("cmd_proposal", "Reject a plan and say what should change."),
        "cancel": ("cmd_proposal", "Withdraw a proposal, or end a run."),
        "archive": ("cmd_proposal", "Archive a finished plan. Nothing is deleted."),
        "diff": ("cmd_show", "Compare two plans; weaker checks and new effects first."),
        "simulate": ("cmd_show", "Show how a run would go, without carrying anything out."),
        "fmt": ("cmd_new", "Format a document, or convert it to another notation."),
        "schema": ("cmd_schema", "Print the JSON Schema of plan documents, or of a verb's answer."),
    },
    "Runs": {
        "watch": ("cmd_watch", "Watch a run from any terminal."),
        "stop": ("cmd_watch", "Stop all work now, here or everywhere, until a person lifts it."),
        "pause": ("cmd_watch", "Pause a run once the steps in progress have ended."),
        "signal": ("cmd_watch", "Send a signal that a run waits for."),
        "rerun": ("cmd_watch", "Run a plan again, keeping what passed and still holds."),
        "stats": ("cmd_audit", "Count how plans and runs went: time spent, failures and causes."),
        "log": ("cmd_run", "Show the ledger's events about a plan, a run or the workspace."),
    },
    "Set up and look": {
        "init": ("cmd_workspace", "Create ordain.toml, with every setting and its default."),
        "config": ("cmd_workspace", "Show the settings in force and where each value came from."),
        "tools": ("cmd_workspace", "List what steps can call, with effects and origin."),
        "agents": ("cmd_workspace", "List who can be given tasks, and whether each can start here."),
        "topic": ("cmd_workspace", "List, read or add notes for agents."),
        "trust": ("cmd_approve", "Trust ordain.toml as it is now (a person at a terminal)."),
        "revoke": ("cmd_approve", "Revoke an approval that no run has used."),
        "approver": ("cmd_approve", "Manage keys that sign approvals: enroll, list, revoke."),
        "audit": ("cmd_audit", "Verify, export, back up, restore or rebuild the ledger."),
        "explain": ("cmd_workspace", "Explain a problem code, or a word of Ordain's."),
        "completion": ("cmd_schema", "Print what completes commands, plans, runs and steps in bash, zsh or fish."),
    },
    "For programs and agents": {
        "robot": ("cmd_robot", "Run any verb for a program: one JSON document. Alone, list the verbs."),
        "mcp": ("cmd_mcp", "Serve agents over MCP: they propose, start and watch plans, never approve."),
        "guard": ("cmd_guard", "Guard what agents do outside of plans: observe it, or refuse it."),
        "skill": ("cmd_workspace", "Print what models should know about Ordain, or write it as a skill (-o)."),
    },
}
SYNONYMS = {"apply": "run", "validate": "lint"}
"""Other names of commands, for people who come from other programs."""


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


class Commands(click.Group):
    """Commands; one that is misspelt is refused with the one that was most likely meant."""

    def list_names(self, ctx: click.Context) -> list[str]:
        """Every word that stands for a command."""
        return self.list_commands(ctx)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args and self.get_command(ctx, args[0]) is None:
            import tomllib

            from ordain.core.text.problem import closest
            from ordain.interfaces.view.problem import data_text

            guesses = tomllib.loads(data_text("guesses.toml")) if ctx.parent is None else {}
            meant = next((name for name, words in guesses.items() if args[0].lower() in words), None)
            hints = (f"Did you mean `{meant}`?",) if meant is not None else closest(args[0], self.list_names(ctx))
            where = f" in `{ctx.command_path}`" if ctx.parent is not None else ""
            ctx.fail(f"There is no command `{args[0]}`{where}. {' '.join(hints)}".rstrip())
        return super().resolve_command(ctx, args)


class LazyCommands(Commands):
    """Commands by name, with a line about each; the module of one is imported when it is called."""

    def __init__(self, *args: Any, sections: Sections, **settings: Any) -> None:
        super().__init__(*args, **settings)
        self._sections = sections
        self.table = {name: about for section in sections.values() for name, about in section.items()}

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self.table)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in self.table:
            return None
        module = importlib.import_module(f"ordain.interfaces.cli.{self.table[cmd_name][0]}")
        # A name of Python's own gets a stroke behind it.
        command: click.Command = getattr(module, f"{cmd_name}_", None) or getattr(module, cmd_name)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        for title, section in self._sections.items():
            with formatter.section(title):
                formatter.write_dl([(name, line) for name, (_, line) in section.items()])


class LazyGroup(LazyCommands):
    """All commands, with the other names that some of them have."""

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
                    from ordain.interfaces.cli.cmd_robot import told_as_json

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

    def list_names(self, ctx: click.Context) -> list[str]:
        return [*self.list_commands(ctx), *SYNONYMS, "help"]

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args[:1] == ["help"]:
            if args[1:2] in ([], ["help"], ["--help"], ["-h"]):
                click.echo(ctx.get_help(), color=ctx.color)
                ctx.exit()
            args = [*args[1:], "--help"]
        return super().resolve_command(ctx, [SYNONYMS.get(args[0], args[0]), *args[1:]] if args else args)

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        formatter.write_paragraph()
        also = ", ".join(f"`{name}` is `{command}`" for name, command in SYNONYMS.items())
        formatter.write_text(f"{also}, and `help COMMAND` is `COMMAND --help`. `explain WORD` says what a word means.")


@click.command(
    cls=LazyGroup,
    sections=_GROUPS,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110},
)
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
    if sys.getfilesystemencoding() != "utf-8" and not sys.flags.utf8_mode:
        # Begin again in UTF-8 where the locale is another: a command or path must be the bytes that were approved, and
        # whatever is shown must be showable, wherever it runs.
        sys.stdout.flush()
        os.execv(sys.executable, [sys.executable, "-P", "-X", "utf8", "-m", "ordain", *sys.argv[1:]])
    ctx.obj = workspace
