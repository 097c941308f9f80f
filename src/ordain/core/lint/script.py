"""A shell text taken apart, as a value, and what can be said of it: which programs it starts and whether its exit
status says anything.

Who takes texts apart is not known here; texts of plain words are so simple that it is done here. Commands and contracts
run under `bash -eo pipefail`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from itertools import dropwhile
from operator import eq, ge, gt, le, lt, ne

import msgspec

__all__ = [
    "AndOr",
    "Background",
    "Condition",
    "Group",
    "Negated",
    "Opaque",
    "Pipeline",
    "Script",
    "Simple",
    "Statement",
    "constant_status",
    "existence_only",
    "ignores_failures",
    "plain_script",
    "programs",
    "stops_reading",
    "top_level",
    "unwrapped",
]


class Simple(msgspec.Struct, frozen=True):
    """One command. A word that is only known when it runs is None."""

    words: tuple[str | None, ...]


class Negated(msgspec.Struct, frozen=True):
    statement: Statement


class AndOr(msgspec.Struct, frozen=True):
    """`first`, then each further one after its `&&` or `||`."""

    first: Statement
    rest: tuple[tuple[str, Statement], ...]


class Pipeline(msgspec.Struct, frozen=True):
    stages: tuple[Statement, ...]


class Group(msgspec.Struct, frozen=True):
    """`{ … }` or `( … )`."""

    statements: tuple[Statement, ...]


class Background(msgspec.Struct, frozen=True):
    """`… &`: nobody waits for it."""

    statement: Statement


class Condition(msgspec.Struct, frozen=True):
    """`if`, of which one branch runs, an empty one where there is no `else`; or a loop, whose body may not run."""

    branches: tuple[tuple[Statement, ...], ...]


class Opaque(msgspec.Struct, frozen=True):
    """A `case`, an arithmetic … of which nothing is said here."""


Statement = Simple | Negated | AndOr | Pipeline | Group | Background | Condition | Opaque


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


def plain_script(text: str) -> Script | None:
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
    return Script((Simple(command),), (command,)) if command else Script((Simple((":",)),), ())


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
_STARTERS = _OWN_PROGRAMS.union(_WITH_VALUE)

Words = tuple[str | None, ...]


def unwrapped(words: Words) -> Words:
    """The command that is started in the end, past `env`, `timeout`, `xargs`, `nice`, `sudo`, `uv run` …"""
    while words and words[0] in _STARTERS and (inner := _inner(words)) is not None:
        words = inner
    return words


def _inner(words: Words) -> Words | None:
    wrapper, rest = words[0] if words else None, words[1:]
    if wrapper in _OWN_PROGRAMS and rest[:1] == ("run",):
        wrapper, rest = "run", rest[1:]
    if wrapper is None or wrapper not in _WITH_VALUE or words[0] == "run":
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


def programs(script: Script) -> Iterator[str]:
    """Every program a script starts by a name that can be known, those that start another one included. What `uv run`
    and its like start is not among them, for it need not be installed here."""
    for words in script.commands:
        current: Words | None = words
        while current and (name := current[0]) is not None:
            if name not in BUILTINS and name not in RESERVED and name not in script.functions:
                yield name
            current = None if name in _OWN_PROGRAMS else _inner(current)


# --- What an exit status says --------------------------------------------------------------------------------------

_ALWAYS = {
    "true": 0, ":": 0, "/bin/true": 0, "/usr/bin/true": 0, "false": 1, "/bin/false": 1, "/usr/bin/false": 1, "echo": 0,
    "set": 0, "shopt": 0, "export": 0, "declare": 0, "typeset": 0, "readonly": 0, "local": 0, "unset": 0, "umask": 0,
}  # fmt: skip
"""Commands that have one exit status whatever they are given: nobody writes one of them to find something out."""
_TRIVIAL = ("true", ":", "/bin/true", "/usr/bin/true", "exit")
_EXISTENCE = frozenset(["-e", "-f", "-d", "-a", "-h", "-L"])


def constant_status(script: Script) -> int | None:
    """The exit status of a script that has the same one whatever happens; None when it depends on something.

    A script that ends in `true` counts as one, although bash may leave it earlier: such an end hides at least some
    failures, and says nothing that its absence would not say.
    """
    return _ending(script.statements)


def _ending(statements: Sequence[Statement]) -> int | None:
    if not statements:
        return 0
    last = statements[-1]
    if isinstance(last, Group) and (status := _ending(last.statements)) is not None:
        return status
    if isinstance(last, Simple):
        words = unwrapped(last.words)
        if len(statements) == 1 or (words and words[0] in _TRIVIAL):
            return 0 if len(statements) == 1 and words == ("exit",) else _simple_status(words)
    for statement in statements:
        if isinstance(statement, Simple) and statement.words[:1] == ("exit",):
            return _status(statement)
    return _in_order(statements)


def _in_order(statements: Sequence[Statement]) -> int | None:
    status: int | None = 0
    for statement in statements:
        status = _status(statement)
        if status != 0:
            return status
    return status


def _status(statement: Statement) -> int | None:
    match statement:
        case Simple():
            return _simple_status(unwrapped(statement.words))
        case Negated(statement=inner):
            status = _status(inner)
            return None if status is None else int(status == 0)
        case AndOr(first=first, rest=rest):
            status = _status(first)
            for operator, further in rest:
                status = _joined(status, operator, _status(further))
            return status
        case Pipeline(stages=stages):
            found = [_status(stage) for stage in stages]
            return None if None in found else next((status for status in reversed(found) if status), 0)
        case Group(statements=inner_statements):
            return _in_order(inner_statements)
        case Background():
            return 0
        case Condition(branches=branches):
            statuses = {_in_order(branch) for branch in branches}
            return 0 if statuses == {0} else None
        case Opaque():
            return None


def _simple_status(words: Words) -> int | None:
    name = words[0] if words else None
    match name:
        case "exit":
            given = words[1] if len(words) > 1 else None
            return int(given) % 256 if given is not None and given.isdigit() and len(given) < 9 else None
        case "printf":
            # With a number to write, it fails when it is given none.
            shape = words[1] if len(words) > 1 else None
            return 0 if shape is not None and not re.search(r"%[^sbq%]", shape) else None
        case "test":
            return _tested(words[1:])
        case "[" | "[[" if words[-1] in ("]", "]]"):
            return _tested(words[1:-1])
        case _:
            return _ALWAYS.get(name) if name is not None else None


def _tested(words: Words) -> int | None:
    """The exit status of `test` with these words, where all of them are known beforehand and none names a file."""
    if len(words) == 2 and words[0] not in ("-n", "-z", "!"):
        return None
    literals = [word for word in words if word is not None and not _DEPENDS.search(word)]
    return None if len(literals) < len(words) or len(words) > _WORDS_MAX else _truth(literals)


_WORDS_MAX = 16
_DEPENDS = re.compile(r"[*?\[\]{}~$`\\]")
"""What bash may replace in a word, unless it is quoted."""
_STRINGS: dict[str, Callable[[str, str], bool]] = {
    "=": eq, "==": eq, "!=": ne, "<": lt, ">": gt,
}  # fmt: skip
_NUMBERS: dict[str, Callable[[int, int], bool]] = {
    "-eq": eq, "-ne": ne, "-lt": lt, "-le": le, "-gt": gt, "-ge": ge,
}  # fmt: skip


def _truth(words: list[str]) -> int | None:
    match words:
        case []:
            return 1
        case [word]:
            return int(not word)
        case ["-n" | "-z" as operator, word]:
            return int(bool(word) == (operator == "-z"))
        case [left, operator, right] if operator in _STRINGS:
            return int(not _STRINGS[operator](left, right))
        case [left, operator, right] if operator in _NUMBERS:
            numeric = re.fullmatch(r"-?[0-9]{1,18}", left) and re.fullmatch(r"-?[0-9]{1,18}", right)
            return int(not _NUMBERS[operator](int(left), int(right))) if numeric else 2
        case ["!", *rest]:
            status = _truth(rest)
            return status if status is None or status > 1 else 1 - status
    for operator, joined in (("-o", min), ("||", min), ("-a", max), ("&&", max)):
        if operator in words[1:-1]:
            at = words.index(operator, 1)
            first, second = _truth(words[:at]), _truth(words[at + 1 :])
            return None if first is None or second is None else joined(first, second)
    return None


def _joined(status: int | None, operator: str, further: int | None) -> int | None:
    if status is None:
        return 0 if operator == "||" and further == 0 else None
    return further if (status == 0) == (operator == "&&") else status


_FAIL_OPTIONS = frozenset(["pipefail", "errexit"])


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


def ignores_failures(script: Script) -> str | None:
    """The words that switch off what makes a failure in the middle count, such as `set +o pipefail`."""
    for words in script.commands:
        given = [word or "" for word in words[1:]]
        if (words[:1] == ("set",) and _unset(given)) or (words[:1] == ("shopt",) and _shopt_unset(given)):
            return " ".join([words[0] or "", *given])
    return None


def _unset(given: list[str]) -> bool:
    """Whether `set` switches one of the two off; in `set +e`, `+eo pipefail`, `+o errexit` …"""
    return any(
        word.startswith("+") and ("e" in word or ("o" in word and named in _FAIL_OPTIONS))
        for word, named in zip(given, [*given[1:], ""], strict=True)
    )


def _shopt_unset(given: list[str]) -> bool:
    options = "".join(word for word in given if word.startswith("-"))
    return "u" in options and "o" in options and not _FAIL_OPTIONS.isdisjoint(given)


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
