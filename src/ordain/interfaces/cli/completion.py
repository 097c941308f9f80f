"""What a shell offers for the word that is being typed: commands, options, documents, plans, runs and steps.

It opens no workspace, and loads modules of commands only for options and subcommands, since that takes longest.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import click

from ordain.assemble.quick_names import QuickNames
from ordain.interfaces.cli.main import SYNONYMS, main

TAKES = {
    **dict.fromkeys(("run", "lint", "prepare", "fmt", "compose"), ("document",)),
    **dict.fromkeys(("show",), ("document", "plan", "run", "item")),
    **dict.fromkeys(("diff", "simulate", "revise"), ("document", "plan")),
    **dict.fromkeys(("approve", "commit", "reject", "archive", "revoke"), ("plan",)),
    **dict.fromkeys(("log", "cancel", "stats"), ("plan", "run")),
    **dict.fromkeys(("resume", "watch", "pause", "replan"), ("run",)),
    **dict.fromkeys(("rerun",), ("run", "plan")),
    **dict.fromkeys(("answer",), ("item",)),
}
"""By command: what its words name."""
SHELLS = ("bash", "zsh", "fish")
"""What `data/completion` has a script for, which asks `ordain __complete`."""
_ENDINGS = (".md", ".markdown", ".yaml", ".yml", ".json")
_WORKSPACE = ("-C", "--workspace")


def complete(words: Sequence[str]) -> None:
    """Print what could stand where the last of the words of a command line stands, one to a line."""
    found = dict.fromkeys(one for one in _offers(words) if one.startswith(words[-1] if words else ""))
    # A name is offered only where a shell takes it as it is: what was proposed must never be more than a word.
    plain = (one for one in found if one.isprintable() and not set(one) & set(" \t\n\"'`$\\;&|<>(){}*?!#~[]"))
    sys.stdout.write("".join(f"{one}\n" for one in plain))


def _offers(words: Sequence[str]) -> Iterator[str]:
    *before, word = words or [""]
    place, exact = ".", False
    while before and before[0].startswith(_WORKSPACE):
        name, equals, value = before.pop(0).partition("=")
        if not equals and not before:
            return  # the shell completes directories itself
        place, exact = (value if equals else before.pop(0)), True
    if before[:1] in (["robot"], ["help"]):
        before = before[1:]
    context = click.Context(main, info_name="ordain")
    if not before:
        yield from main.list_names(context) if not word.startswith("-") else _options(main, context)
        return
    name = SYNONYMS.get(before[0], before[0])
    takes = TAKES.get(name, ())
    if word.startswith("-") or not takes:
        command: click.Command | None = main
        for one in (name, *before[1:]):
            if isinstance(command, click.Group) and not one.startswith("-"):
                command = command.get_command(context, one)
        if word.startswith("-"):
            yield from _options(command, context) if command is not None else ()
        elif isinstance(command, click.Group):
            yield from command.list_commands(context)
        elif name == "completion":
            yield from SHELLS
        elif name == "explain":
            from ordain.interfaces.view.problem import glossary_words, problem_pages

            yield from (*problem_pages(), *glossary_words()) if word else ()
        return
    if "document" in takes:
        yield from _documents(word)
    if not set(takes) & {"plan", "run", "item"}:
        return
    names = QuickNames(place, exact=exact)
    run, slash, _ = word.partition("/")
    if "item" in takes and slash:
        yield from names.items(run)
        return
    if "plan" in takes:
        yield from names.plans()
    if "run" in takes:
        yield from names.runs()
    elif "item" in takes:
        yield from (f"{one}/" for one in names.runs())


def _documents(word: str) -> Iterator[str]:
    """The documents and directories whose path begins with a word."""
    above, slash, _ = word.rpartition("/")
    with os.scandir(Path(above + slash or ".").expanduser()) as entries:
        for entry in sorted(entries, key=lambda entry: entry.name):
            if not entry.name.startswith(".") and (entry.is_dir() or entry.name.endswith(_ENDINGS)):
                yield f"{above}{slash}{entry.name}{'/' * entry.is_dir()}"


def _options(command: click.Command, context: click.Context) -> Iterator[str]:
    for option in command.get_params(context):
        if isinstance(option, click.Option) and not option.hidden:
            yield from (name for name in option.opts if name.startswith("--"))
