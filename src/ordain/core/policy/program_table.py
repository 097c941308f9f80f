"""The table of programs: what each one does, by its subcommand, options and operands.

Data, not code: `data/programs/*.toml` has a section for each program and subcommand, read when a command names it.
A user adds or corrects entries in their own configuration directory; a workspace only makes an entry stricter.

    ["git push"]
    does = "network publishes"
    options = "-fnuqv --force --force-with-lease? --repo="
    when = { "-f --force +*" = "force irreversible" }
    operands = "text*"

- A title is a program and the words of a subcommand; `|` separates alternatives, `*` in a word stands for anything.
- `does`: the facts that always hold.
- `options`: those that are known. `-abc` are three flags, `-ab:` two with a value, `-#` is a number (`-20`),
  `--name` is a flag, `--name=` has a value, `--name?` has one only behind `=`. `-m>` takes all that follows as a
  command (`python -m`), `-exec!` takes one up to `;` or `+`. With `style = "words"` each option is a
  whole word (`-name:`), as `find` and `java` have them. `any` stands for all others; so does `every`, which says that
  each of them is as harmless as the program.
- `operands`: a role for each, in order; one with `*` stands for the rest: `text reads*`, `reads* writes`.
- Roles of words that act: `verb` is searched for verbs that change something elsewhere (`create`, `delete`), `task`
  only for those that delete, publish or disrupt (`db:drop`, `release`). `elsewhere`: another machine, or a path.
- `when`: for options, and for operands by pattern, further facts. `writes@` is about the value of the option; `!` takes
  back what `does` and operands raise (`status`), `!!` every alarm (`--dry-run`); `in_place` says that operands which
  are read are written (`sed -i`), and `none` is a call without operands, `alone` one without options as well.
- `transparent`: starts another program and changes nothing else about it. `runner`: finds that program in the project.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any, NamedTuple

import msgspec

from ordain.core.policy.command_guess import guesses_of_sql
from ordain.core.policy.fact import CommandFact, FactNote
from ordain.core.policy.program import Words

ROLES = frozenset(
    ["reads", "place", "writes", "deletes", "permissions", "host", "text", "script", "code", "filter", "sql", "command",
     "shell", "remote", "env", "verb", "task", "elsewhere"]
)  # fmt: skip


class ProgramEntry(msgspec.Struct, frozen=True, kw_only=True):
    """What is known of a program, or of one of its subcommands."""

    does: tuple[CommandFact, ...] = ()
    options: Mapping[str, str] = {}
    """By name with its dashes, how its value is given: the sign that `options` has behind it."""
    any_option: bool = False
    every_option: bool = False
    words: bool = False
    operands: tuple[str, ...] = ()
    by_option: Mapping[str, Sequence[tuple[re.Pattern[str] | None, tuple[str, ...]]]] = {}
    """What holds where an option is given, or given with a value that fits."""
    by_operand: Mapping[str, tuple[str, ...]] = {}
    """What holds where one of these is an operand."""
    by_operand_pattern: Sequence[tuple[re.Pattern[str], tuple[str, ...]]] = ()
    without_operands: tuple[str, ...] = ()
    when_alone: tuple[str, ...] = ()
    runner: bool = False
    transparent: bool = False
    downloads: bool = False
    """Starts what it downloads, unless the table knows the program."""
    permuted: bool = True
    """Whether options may follow operands."""


class ProgramTable:
    """The entries, each parsed when it is first asked for. What a later one of the `texts` says of a program replaces
    what earlier ones say of it; `stricter` adds facts to a program, `verbs` is the text of the verbs."""

    def __init__(self, texts: Iterable[str], verbs: str, stricter: Mapping[str, Sequence[str]] | None = None) -> None:
        self.verbs = Verbs(verbs)
        self._stricter = {name: facts(" ".join(said)) for name, said in (stricter or {}).items()}
        self._sections: dict[str, list[str]] = {}
        for text in texts:
            found: dict[str, list[str]] = {}
            for section in _SECTIONS.split(text)[1:]:
                for name in _program(section).split("|"):
                    found.setdefault(name, []).append(section)
            self._sections |= found
        self._entries: dict[str, _KnownProgram] = {}
        self._patterns = [name for name in self._sections if "*" in name]

    def __contains__(self, program: str) -> bool:
        return self._title(program) is not None

    def _title(self, program: str) -> str | None:
        """The name that the table has a program under: `mkfs.*` for `mkfs.ext4`."""
        if program in self._sections:
            return program
        return next((name for name in self._patterns if fnmatchcase(program, name)), None)

    def programs(self) -> Iterable[str]:
        return self._sections.keys()

    def added(self, program: str) -> tuple[CommandFact, ...]:
        """What a workspace adds to a program."""
        return self._stricter.get(program, ())

    def find(self, program: str, operands: Sequence[str | None]) -> tuple[ProgramEntry, int] | None:
        """The entry of the subcommand that these operands begin with, and how many of them that takes. The longest
        title counts, then the one with the fewest stars."""
        known = self._of(program)
        first = operands[0] if operands else None
        best: tuple[tuple[int, int, int], ProgramEntry] | None = None
        for words, entry in (*known.by_word.get(first or "", ()), *known.starred):
            if len(words) <= len(operands) and all(map(_fits, words, operands)):
                score = len(words), sum("*" not in word for word in words), sum(map(len, words))
                if best is None or score >= best[0]:
                    best = score, entry
        return (best[1], best[0][0]) if best is not None else None

    def base(self, program: str) -> ProgramEntry | None:
        """What holds for a program whatever is called of it: its options before the subcommand."""
        return self._of(program).base

    def has_subcommands(self, program: str) -> bool:
        known = self._of(program)
        return bool(known.by_word or known.starred)

    def _of(self, program: str) -> _KnownProgram:
        if program not in self._entries:
            base: ProgramEntry | None = None
            by_word: dict[str, list[tuple[tuple[str, ...], ProgramEntry]]] = {}
            starred: list[tuple[tuple[str, ...], ProgramEntry]] = []
            for section in self._sections.get(self._title(program) or "", ()):
                (title, said), *_ = tomllib.loads(section).items()
                entry = parse_entry(said)
                for words in _spread(title.split(" ")[1:]):
                    if not words:
                        base = entry
                    elif "*" in words[0]:
                        starred.append((words, entry))
                    else:
                        by_word.setdefault(words[0], []).append((words, entry))
            self._entries[program] = _KnownProgram(base, by_word, starred)
        return self._entries[program]


class _KnownProgram(NamedTuple):
    base: ProgramEntry | None
    by_word: Mapping[str, Sequence[tuple[tuple[str, ...], ProgramEntry]]]
    starred: Sequence[tuple[tuple[str, ...], ProgramEntry]]


_SECTIONS = re.compile(r"^(?=\[)", re.MULTILINE)


def _program(section: str) -> str:
    """The program in the title of a section: `[ls]`, `["git push"]`."""
    return section[1 : section.index("]\n") if "]\n" in section else None].strip('"').partition(" ")[0]


def _spread(words: Sequence[str]) -> Iterable[tuple[str, ...]]:
    if not words:
        return [()]
    return [(first, *rest) for first in words[0].split("|") for rest in _spread(words[1:])]


def _fits(word: str, said: str | None) -> bool:
    return said is not None and (word == said or ("*" in word and fnmatchcase(said, word)))


def facts(text: str) -> tuple[CommandFact, ...]:
    return tuple(CommandFact(word) for word in text.split())


_KEYS = frozenset(
    ["does", "options", "operands", "when", "style", "examples", "transparent", "permuted", "downloads", "runner"]
)
CALMING = ("!", "!!", "in_place")
_EFFECTS = frozenset([*CommandFact, *CALMING])


def parse_entry(said: Mapping[str, Any]) -> ProgramEntry:
    """An entry from its section; raises ValueError where it says what it cannot mean."""
    unknown = said.keys() - _KEYS
    if unknown:
        raise ValueError(f"no key `{min(unknown)}` is known here")
    words = said.get("style", "") == "words"
    options: dict[str, str] = {}
    listed = said.get("options", "").split()
    for word in listed:
        _take_option(word, options, words)
    operands = tuple(said.get("operands", "").split())
    if strange := [role for role in operands if role.rstrip("*") not in ROLES]:
        raise ValueError(f"`{strange[0]}` is no role of an operand")
    by_option: dict[str, list[tuple[re.Pattern[str] | None, tuple[str, ...]]]] = {}
    by_operand: dict[str, tuple[str, ...]] = {}
    patterns: list[tuple[re.Pattern[str], tuple[str, ...]]] = []
    without: tuple[str, ...] = ()
    alone: tuple[str, ...] = ()
    for names, more in ((names.split(), tuple(more.split())) for names, more in said.get("when", {}).items()):
        for one in names:
            name, equals, value = one.partition("=")
            if one == "none":
                without = more
            elif one == "alone":
                alone = more
            elif one.startswith("-"):
                by_option.setdefault(name, []).append((_pattern(value) if equals else None, more))
                if name not in options:
                    _take_option(name + ":" * bool(equals), options, words)
            elif "*" in one:
                patterns.append((_pattern(one), more))
            else:
                by_operand[one] = more
        for token in more:
            known = ROLES if token.endswith("@") else _EFFECTS
            if token.removesuffix("@") not in known:
                raise ValueError(f"`{token}` is no fact")
            if token.endswith("@"):
                named = (one.partition("=")[0] for one in names if one.startswith("-"))
                options |= {one: ":" for one in named if not options.get(one)}
    return ProgramEntry(
        does=facts(said.get("does", "")),
        options=options,
        any_option="any" in listed or "every" in listed,
        every_option="every" in listed,
        words=words,
        operands=operands,
        by_option=by_option,
        by_operand=by_operand,
        by_operand_pattern=patterns,
        without_operands=without,
        when_alone=alone,
        **{flag: said[flag] for flag in ("runner", "transparent", "permuted", "downloads") if flag in said},
    )


def _pattern(text: str) -> re.Pattern[str]:
    return re.compile(".*".join(map(re.escape, text.split("*"))), re.DOTALL)


def _take_option(word: str, into: dict[str, str], words: bool) -> None:
    if word in ("any", "every"):
        return
    name = word.rstrip(":=?!>")
    kind = word[len(name) :].replace("=", ":")
    if words or word.startswith("--") or word == "-#":
        into[name] = kind
    else:
        into.update((f"-{letter}", kind) for letter in name[1:])


# --- Verbs -----------------------------------------------------------------------------------------------------------
# What words of subcommands, tasks and scripts suggest is done. A guess, so it only raises. A verb of looking that comes
# first ends the search: `get deploy`, `lint:release`.

_PART = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")
_NO_VERB = re.compile(r"\A[-=]|://| |.{61}")


class Verbs:
    """The verbs of `data/verbs.toml`, ready to be looked for."""

    def __init__(self, text: str) -> None:
        said = tomllib.loads(text)
        self._looking = frozenset(said["looking"].split())
        self._anywhere, self._elsewhere = (
            {word: CommandFact(fact) for fact, words in said[group].items() for word in words.split()}
            for group in ("anywhere", "elsewhere")
        )

    def deeds(self, words: Iterable[str | None], *, wide: bool) -> Iterator[FactNote]:
        """What the first verb among these words suggests: `flywayClean`, `db:drop`. `wide`: `create` and `set` too."""
        found: FactNote | None = None
        for word in words:
            if word is None or _NO_VERB.search(word) or (not wide and "/" in word):
                continue
            parts = [part.lower() for part in _PART.findall(word)]
            if parts and parts[0] in self._looking:
                return
            fact = next((self._anywhere[part] for part in parts if part in self._anywhere), None)
            if fact is not None:
                found = FactNote(fact, word)
                break
            if wide and found is None:
                acting = (self._elsewhere[part] for part in parts if part in self._elsewhere)
                found = next((FactNote(one, word) for one in acting), None)
            if not self._looking.isdisjoint(parts):
                return
        if found is not None:
            yield found
            if wide and found.fact is CommandFact.DELETES:
                yield FactNote(CommandFact.IRREVERSIBLE, found.about)

    def of_script(self, script: str, rest: Words) -> Iterator[FactNote]:
        """What the name of a script, or of an unknown program, and the words behind it suggest."""
        name = script.rpartition("/")[2]
        stem = name.rpartition(".")[0] or name
        yield from self.deeds((stem, *rest[:3]), wide=False)
        if stem in ("install", "uninstall"):
            yield FactNote(CommandFact.OUTSIDE, script)
        for word in rest:
            if word is not None and " " in word:
                yield from guesses_of_sql(word)
