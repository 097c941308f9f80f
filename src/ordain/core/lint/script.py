"""A shell text taken apart, as a value, and what can be said of it: which programs it starts, what it asks. Whether its
exit status says anything is judged in `status`.

Who takes texts apart is not known here; texts of plain words are so simple that it is done here. Commands and contracts
run under `bash -eo pipefail`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from itertools import dropwhile

import msgspec

__all__ = [
    "STARTERS",
    "AndOr",
    "Background",
    "Condition",
    "Function",
    "Group",
    "Negated",
    "Opaque",
    "Pipeline",
    "Script",
    "Simple",
    "Statement",
    "bare",
    "everywhere",
    "existence_only",
    "handed_text",
    "plain_script",
    "programs",
    "stops_reading",
    "top_level",
    "unwrapped",
]


class Simple(msgspec.Struct, frozen=True):
    """One command. A word that is only known when it runs is None. `inner` is the text that it hands to a shell, taken
    apart: that of `bash -c '…'`, `eval …` and `trap '…' EXIT`."""

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


class Group(msgspec.Struct, frozen=True):
    """`{ … }` or `( … )`; what leaves the second leaves nothing else."""

    statements: tuple[Statement, ...]
    subshell: bool = False


class Background(msgspec.Struct, frozen=True):
    """`… &`: nobody waits for it."""

    statement: Statement


class Condition(msgspec.Struct, frozen=True):
    """`if` or `case`, of which one branch runs, an empty one where there is no `else`; or a loop, whose body may not
    run. `tests` decide which."""

    branches: tuple[tuple[Statement, ...], ...]
    tests: tuple[Statement, ...] = ()


class Function(msgspec.Struct, frozen=True):
    """A function that is only defined here."""

    name: str
    statements: tuple[Statement, ...]


class Opaque(msgspec.Struct, frozen=True):
    """Of which nothing is said here."""


Statement = Simple | Negated | AndOr | Pipeline | Group | Background | Condition | Function | Opaque


class Script(msgspec.Struct, frozen=True):
    """`statements` in order; `commands` are the words of every command anywhere in it, also in `$(…)`; `functions` the
    names it defines."""

    statements: tuple[Statement, ...]
    commands: tuple[tuple[str | None, ...], ...]
    functions: frozenset[str] = frozenset()


_PLAIN = re.compile(r"[A-Za-z0-9_./,:=@%+ -]*")
_ASSIGNMENT = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\+?=")

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
    if "=" in words[0]:
        words = list(dropwhile(_ASSIGNMENT.match, words))  # assignments alone always succeed
    command = tuple(words)
    if not command:
        return Script((Simple((":",)),), ())
    handed = handed_text(command) if depth < HANDED_MAX else None
    inner = plain_script(handed, depth + 1) if handed is not None else None
    return Script((Simple(command, inner.statements if inner is not None else None),), (command,))


# --- Programs ------------------------------------------------------------------------------------------------------

_WITH_VALUE = {
    "env": ("-u", "-C", "-S", "--unset", "--chdir"),
    "timeout": ("-k", "-s", "--kill-after", "--signal"),
    "xargs": ("-I", "-n", "-P", "-d", "-L", "-a", "-s", "-E", "--max-args", "--max-procs", "--delimiter"),
    "nice": ("-n", "--adjustment"),
    "ionice": ("-c", "-n", "-p"),
    "sudo": ("-u", "-g", "-h", "-C", "-D", "-p", "-R", "-T", "-U", "--user", "--group"),
    "stdbuf": ("-i", "-o", "-e"),
    "run": ("--with", "--extra", "--group", "--python", "-p", "--project", "--directory", "--env-file", "--package"),
    "exec": ("-a",),
    "nohup": (),
    "setsid": (),
    "time": ("-f", "-o"),
    "command": (),
    "builtin": (),
}
"""Programs that start another one, and those of their options whose value is a word of its own."""
_OWN_PROGRAMS = frozenset(["uv", "poetry", "pipenv", "pdm", "rye", "hatch"])
"""`uv run …` starts what its project has installed, wherever that is."""
STARTERS = _OWN_PROGRAMS.union(_WITH_VALUE)

Words = tuple[str | None, ...]


def bare(word: str | None) -> str:
    """The name of a program in one of the usual directories; nothing for a word that is not known."""
    if word is None or word[:1] != "/":
        return word or ""
    return re.sub(r"^(?:/usr(?:/local)?)?/bin/", "", word)


def unwrapped(words: Words) -> Words:
    """The command that is started in the end, past `env`, `timeout`, `xargs`, `nice`, `sudo`, `uv run` …"""
    while words and bare(words[0]) in STARTERS and (inner := _inner(words)) is not None:
        words = inner
    return words


def _inner(words: Words) -> Words | None:
    wrapper, rest = bare(words[0]), words[1:]
    if wrapper in _OWN_PROGRAMS and rest[:1] == ("run",):
        wrapper, rest = "run", rest[1:]
    if wrapper not in _WITH_VALUE or words[0] == "run":
        return None
    at = 0
    while at < len(rest) and (word := rest[at]) is not None and word.startswith("-"):
        at += 2 if word in _WITH_VALUE[wrapper] else 1
    if wrapper in ("env", "sudo"):
        while at < len(rest) and (word := rest[at]) is not None and _ASSIGNMENT.match(word):
            at += 1
    if wrapper == "timeout":
        at += 1
    return rest[at:] or None


_SHELLS = frozenset(["sh", "bash", "dash", "ash", "ksh", "zsh"])


def handed_text(words: Words) -> str | None:
    """The text that a command hands to a shell, where all of it is known: `bash -c TEXT`, `eval TEXT`, `trap TEXT`."""
    words = unwrapped(words)
    if words[0] == "eval":
        known = [word for word in words[1:] if word is not None]
        return " ".join(known) if len(known) == len(words) - 1 else None
    if words[0] == "trap":
        return words[1] if len(words) > 2 else None
    wanted = skipped = False
    for word in words[1:] if bare(words[0]) in _SHELLS else ():
        if skipped:
            skipped = False
        elif word is None or word[:1] not in ("-", "+"):
            return word if wanted else None
        elif not word.startswith("--"):
            wanted = wanted or (word[0] == "-" and "c" in word)
            skipped = word[-1] in "oO"
        else:
            skipped = word in ("--rcfile", "--init-file")
    return None


def programs(script: Script) -> Iterator[str]:
    """Every program a script starts by a name that can be known, those that start another one included. What `uv run`
    and its like start is not among them, for it need not be installed here."""
    for words in script.commands:
        current: Words | None = words
        while current and (name := current[0]) is not None:
            if name not in BUILTINS and name not in RESERVED and name not in script.functions:
                yield name
            current = None if name in _OWN_PROGRAMS else _inner(current)


# --- What else can be said of it --------------------------------------------------------------------------------

_EXISTENCE = frozenset(["-e", "-f", "-d", "-a", "-h", "-L"])


def everywhere(statements: Iterable[Statement]) -> Iterator[Statement]:
    """Every statement and those in it, in order; not those of texts that are handed to a shell."""
    todo = list(statements)[::-1]
    while todo:
        statement = todo.pop()
        yield statement
        match statement:
            case Negated(statement=one) | Background(statement=one):
                todo.append(one)
            case AndOr(first=first, rest=rest):
                todo += [*(further for _, further in reversed(rest)), first]
            case Pipeline(stages=inner) | Group(statements=inner) | Function(statements=inner):
                todo += reversed(inner)
            case Condition(branches=branches, tests=tests):
                todo += [*(one for branch in reversed(branches) for one in reversed(branch)), *reversed(tests)]


def top_level(script: Script) -> Iterator[Statement]:
    """The statements whose success or failure is the script's, `&&`, `||` and groups taken apart."""
    todo = list(reversed(script.statements))
    while todo:
        statement = todo.pop()
        yield statement
        match statement:
            case AndOr(first=first, rest=rest):
                todo += [*(further for _, further in reversed(rest)), first]
            case Group(statements=inner):
                todo += reversed(inner)


def existence_only(script: Script) -> str | None:
    """A command of a script that asks nothing but whether files are there; None when it asks anything else."""
    if len(script.statements) == 1 and isinstance(script.statements[0], Simple):
        words = script.statements[0].words
        return " ".join(word or "…" for word in words) if _asks_existence(words) else None
    shown = None
    for statement in top_level(script):
        match statement:
            case Simple(words=words) if _asks_existence(words):
                shown = shown or " ".join(word or "…" for word in words)
            case AndOr() | Group():
                continue
            case _:
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
