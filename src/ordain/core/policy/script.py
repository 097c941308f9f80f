"""A shell text taken apart: its statements, for what its exit status says, and its commands, for what they name. Texts
of plain words are read here, all others by tree-sitter (`adapters/process/shell_text.py`)."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from posixpath import normpath

import msgspec

from ordain.core.policy.program import ASSIGNMENT, Words, handed_text, started_programs, unwrapped


class Simple(msgspec.Struct, frozen=True):
    """One command; a word that is only known when it runs is None. `inner` is the text that it hands to a shell."""

    words: tuple[str | None, ...]
    inner: tuple[Statement, ...] | None = None


class Negated(msgspec.Struct, frozen=True):
    statement: Statement


class AndOr(msgspec.Struct, frozen=True):
    """`first`, then each further one after its `&&` or `||`."""

    first: Statement
    rest: tuple[tuple[str, Statement], ...]


class Pipeline(msgspec.Struct, frozen=True):
    stages: tuple[Statement, ...]


class CommandGroup(msgspec.Struct, frozen=True):
    """`{ … }` or `( … )`; what leaves the second leaves nothing else."""

    statements: tuple[Statement, ...]
    subshell: bool = False


class Background(msgspec.Struct, frozen=True):
    """`… &`: nobody waits for it."""

    statement: Statement


class Condition(msgspec.Struct, frozen=True):
    """`if` or `case`, where one branch runs, an empty one where there is no `else`; or a loop, whose body may not
    run. `tests` decide which."""

    branches: tuple[tuple[Statement, ...], ...]
    tests: tuple[Statement, ...] = ()


class Function(msgspec.Struct, frozen=True):
    """A function that is only defined here."""

    name: str
    statements: tuple[Statement, ...]


class Opaque(msgspec.Struct, frozen=True):
    """A statement whose status is not known."""


Statement = Simple | Negated | AndOr | Pipeline | CommandGroup | Background | Condition | Function | Opaque


class SimpleCommand(msgspec.Struct, frozen=True):
    """A simple command with all that it names. What assigns variables and starts nothing has no words: `export a=1`."""

    words: Words
    assignments: tuple[tuple[str, str | None], ...] = ()
    """Each variable with its value; one that gets several, as an array or in a loop, several times."""
    inputs: Words = ()
    """The files behind `<` and `<>`."""
    outputs: Words = ()
    """The files behind `>`, `>>`, `>|`, `&>` and `<>`, of any descriptor."""
    directory: str | None = ""
    """Where relative paths begin, beneath the workspace or absolute; None where a `cd` before it leaves that open."""
    handed: bool = False
    """Whether it is part of a text that is handed to a shell: `bash -c '…'`."""

    @property
    def program(self) -> str | None:
        return self.words[0] if self.words else None


class Script(msgspec.Struct, frozen=True):
    """`commands` is every simple command in it, also in `$(…)`, functions and texts that are handed to a shell;
    `functions` are the names it defines."""

    statements: tuple[Statement, ...]
    commands: tuple[SimpleCommand, ...]
    functions: frozenset[str] = frozenset()

    @property
    def own_words(self) -> Iterator[Words]:
        """The words of every command that the script itself runs, and not a shell that it hands a text to."""
        return (one.words for one in self.commands if one.words and not one.handed)


_PLAIN = re.compile(r"[A-Za-z0-9_./,:=@%+ -]*")
RESERVED = frozenset(
    [
        "if", "then", "else", "elif", "fi", "for", "while", "until", "do", "done", "case", "esac", "select",
        "function", "in", "time", "{", "}", "[[", "]]", "coproc", "!",
    ]
)  # fmt: skip
BUILTINS = frozenset(
    [
        "[", "[[", "test", ":", ".", "source", "true", "false", "echo", "printf", "cd", "pwd", "read", "exit",
        "export", "set", "unset", "shift", "eval", "exec", "command", "type", "let", "local", "declare", "typeset",
        "readonly", "return", "trap", "wait", "kill", "ulimit", "umask", "getopts", "hash", "builtin", "mapfile",
        "readarray", "alias", "unalias", "bg", "fg", "jobs", "disown", "dirs", "pushd", "popd", "shopt", "times",
        "break", "continue", "compgen", "complete", "enable", "help", "history", "logout", "suspend", "caller",
    ]
)  # fmt: skip


HANDED_MAX = 4
"""How many texts inside one another are taken apart: `bash -c 'bash -c …'`."""


def plain_script(text: str, depth: int = 0) -> Script | None:
    """The script of a text that is plain words, which needs no parser; None where one is needed."""
    if not _PLAIN.fullmatch(text):
        return None
    words = text.split()
    if not words:
        return Script((), ())
    # With nothing but words, only the first can be one of the shell's own.
    if words[0] in RESERVED:
        return None
    first = 0
    while first < len(words) and "=" in words[first] and ASSIGNMENT.match(words[first]):
        first += 1
    pairs = (word.split("=", 1) for word in words[:first])
    assigned = tuple((name.removesuffix("+"), value) for name, value in pairs)
    command = tuple(words[first:])
    if not command:  # assignments alone always succeed
        return Script((Simple((":",)),), (SimpleCommand((), assignments=assigned),))
    handed = handed_text(command) if depth < HANDED_MAX else None
    inner = plain_script(handed, depth + 1) if handed is not None else None
    commands = (SimpleCommand(command, assigned, handed=depth > 0), *(inner.commands if inner is not None else ()))
    return Script((Simple(command, inner.statements if inner is not None else None),), commands)


def argument_script(argv: Sequence[str | None], read: Callable[[str], Script | None]) -> Script | None:
    """The script of a program with its arguments, which no shell expands. None where a text that it hands to a shell
    cannot be `read`."""
    words = tuple(argv)
    text = handed_text(words)
    inner = read(text) if text is not None else Script((), ())
    return Script((Simple(words),), (SimpleCommand(words), *inner.commands)) if inner is not None else None


def programs(script: Script) -> Iterator[str]:
    """Every program that a script itself starts by a name that can be known, a path as it is from the workspace."""
    for command in script.commands:
        if not command.words or command.handed:
            continue
        for name in started_programs(command.words):
            if name in BUILTINS or name in RESERVED or name in script.functions:
                continue
            if command.directory == "" or "/" not in name or name.startswith("/"):
                yield name
            elif command.directory is not None:
                yield normpath(f"{command.directory}/{name}")


# --- What else can be said of it --------------------------------------------------------------------------------

_EXISTENCE = frozenset(["-e", "-f", "-d", "-a", "-h", "-L"])


def everywhere(statements: Sequence[Statement], kinds: tuple[type, ...] = (object,)) -> Iterator[Statement]:
    """Every statement and those in it, in order, or only those in statements of these kinds."""
    todo = list(reversed(statements))
    while todo:
        statement = todo.pop()
        yield statement
        match statement if isinstance(statement, kinds) else None:
            case Negated(statement=one) | Background(statement=one):
                todo.append(one)
            case AndOr(first=first, rest=rest):
                todo += [*(further for _, further in reversed(rest)), first]
            case Pipeline(stages=inner) | CommandGroup(statements=inner) | Function(statements=inner):
                todo += reversed(inner)
            case Condition(branches=branches, tests=tests):
                todo += [*(one for branch in reversed(branches) for one in reversed(branch)), *reversed(tests)]


def top_level(script: Script) -> Iterator[Statement]:
    """The statements whose success or failure is the script's, `&&`, `||` and groups taken apart."""
    return everywhere(script.statements, (AndOr, CommandGroup))


def existence_only(script: Script) -> str | None:
    """A command of a script that asks nothing but whether files are there; None when it asks anything else."""
    shown = None
    for statement in top_level(script):
        if isinstance(statement, Simple) and _asks_existence(statement.words):
            shown = shown or " ".join(word or "…" for word in statement.words)
        elif not isinstance(statement, AndOr | CommandGroup):
            return None
    return shown


def _asks_existence(words: Words) -> bool:
    match words[0]:
        case "test":
            return len(words) == 3 and words[1] in _EXISTENCE
        case "[" | "[[":
            return len(words) == 4 and words[1] in _EXISTENCE
        case name:
            return name in ("ls", "stat")


def stops_reading(script: Script) -> str | None:
    """A command in a pipe that may end before it has read everything, so that its writer dies of SIGPIPE."""
    for statement in top_level(script):
        pipeline = statement.statement if isinstance(statement, Negated) else statement
        if isinstance(pipeline, Pipeline):
            for stage in pipeline.stages[1:]:
                if isinstance(stage, Simple) and _stops(unwrapped(stage.words)):
                    return " ".join(word or "…" for word in stage.words[:2])
    return None


def _stops(words: Words) -> bool:
    name, options = words[0] if words else None, [word for word in words[1:] if word and word.startswith("-")]
    if name in ("grep", "egrep", "fgrep", "rg"):
        return any(option in ("--quiet", "--silent") or re.match(r"-[A-Za-z]*[qm]", option) for option in options)
    return name in ("head", "true", ":")
