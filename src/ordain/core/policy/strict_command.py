"""The strict reading of a command line: a small grammar in which nothing can be hidden, and which bash reads in the
same way. Literal words, joined by `|`, `&&`, `||` and `;`; quotes in which the shell expands nothing; redirections that
write nowhere; and before a command, variables that change nothing but what a program shows (`HARMLESS`)."""

from __future__ import annotations

import re
from typing import NamedTuple

from ordain.core.policy.program import ASSIGNMENT, Words
from ordain.core.policy.script import RESERVED, SimpleCommand

_TOKEN = re.compile(
    r"""[ \t]*(?:
      (?P<void>[012]?>(?:&[12](?=[\s|&;]|\Z)|[ ]?/dev/null(?=[\s|&;]|\Z)))
    | (?P<join>\|\||&&|;|\|(?!&))
    | (?P<word>(?:@\{[0-9]+\}|[A-Za-z0-9_./,:=@%+^~-]|'[^'\x00-\x08\x0b-\x1f\x7f]*'
        |"(?:[^"$`\\!\x00-\x08\x0b-\x1f\x7f]|\\(?![$`"\\!\n]))*")+)
    )""",
    re.VERBOSE,
)
HARMLESS = frozenset(
    ["CI", "COLUMNS", "FORCE_COLOR", "LANG", "LC_ALL", "NO_COLOR", "NODE_ENV", "PYTHONDONTWRITEBYTECODE",
     "PYTHONUNBUFFERED", "RUST_BACKTRACE", "TERM", "TZ"]
)  # fmt: skip
"""Variables that may be set before a command: they decide nothing that a program loads, starts, reads or writes."""
_HARMLESS = re.compile(rf"({'|'.join(sorted(HARMLESS))})=([A-Za-z0-9_.,:@%+-]*)")
_TILDE = re.compile(r"(?<![A-Za-z0-9_^/.-])~")
"""A home; behind a letter or a digit it is a sign like any other: `HEAD~1`."""
_QUOTED = re.compile(r"'([^']*)'|\"([^\"]*)\"")


class StrictLine(NamedTuple):
    """A line by its strict reading."""

    commands: tuple[SimpleCommand, ...]
    pipelines: tuple[tuple[Words, ...], ...]


def read_strictly(text: str) -> StrictLine | None:
    """A line of literal commands; None where it has no strict reading."""
    commands: list[SimpleCommand] = []
    pipelines: list[list[Words]] = [[]]
    words: list[str] = []
    set_here: list[tuple[str, str | None]] = []
    at, text, wanted = 0, text.strip(" \t\n"), True
    directory: str | None = ""
    while at < len(text):
        found = _TOKEN.match(text, at)
        if found is None or found.end() == at:
            return None
        at = found.end()
        if (word := found["word"]) is not None:
            if word.isdigit() and text[at : at + 1] == ">":  # it names what is redirected: `3>&1`
                return None
            if not words and (assigned := _HARMLESS.fullmatch(word)) is not None:
                set_here.append((assigned[1], assigned[2]))
                wanted = True
                continue
            if "'" in word or '"' in word:
                if not words or _TILDE.search(_QUOTED.sub("''", word)):
                    return None
                word = _QUOTED.sub(lambda one: one[1] if one[1] is not None else one[2], word)
            elif _TILDE.search(word) or (not words and (word in RESERVED or ("=" in word and ASSIGNMENT.match(word)))):
                return None
            words.append(word)
            wanted = False
        elif found["join"] is not None:
            if not words:
                return None
            commands.append(SimpleCommand(tuple(words), tuple(set_here), directory=directory))
            pipelines[-1].append(tuple(words))
            set_here = []
            if found["join"] != "|":
                pipelines.append([])
            directory = _moved(words, directory, found["join"])
            words, wanted = [], found["join"] != ";"
        elif not words:
            return None
    if words:
        commands.append(SimpleCommand(tuple(words), tuple(set_here), directory=directory))
        pipelines[-1].append(tuple(words))
    if not commands or wanted or (set_here and not words):
        return None
    return StrictLine(tuple(commands), tuple(tuple(each) for each in pipelines if len(each) > 1))


def _moved(words: list[str], directory: str | None, join: str) -> str | None:
    """The directory of the next command. What follows `cd DIRECTORY &&` is in it. Behind `;` and `||` nobody knows how
    far a line came: it is judged from where it began, if no `cd` led out of that."""
    if words[0] not in ("cd", "pushd", "popd"):
        if not directory or join in ("&&", "|"):
            return directory
        return None if directory.startswith("/") or ".." in directory.split("/") else ""
    if words[0] != "cd" or join != "&&" or len(words) != 2 or words[1].startswith("-") or directory is None:
        return None
    return words[1] if words[1].startswith("/") or not directory else f"{directory}/{words[1]}"
