"""Verbs among the words of subcommands, tasks and scripts: what they suggest is done. A guess, so it only raises. A
verb of looking that comes first ends the search: `get deploy`, `lint:release`."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Iterator

from ordain.core.policy.command_guess import guesses_of_sql
from ordain.core.policy.fact import CommandFact, FactNote
from ordain.core.policy.program import Words

_PART = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")
_NO_VERB = re.compile(r"\A[-=]|://| |.{61}")


class Verbs:
    """The verbs of `data/verbs.toml`, ready to be looked for."""

    def __init__(self, text: str = "") -> None:
        said = tomllib.loads(text)
        self._looking = frozenset(said.get("looking", "").split())
        self._anywhere, self._elsewhere = (
            {word: CommandFact(fact) for fact, words in said.get(group, {}).items() for word in words.split()}
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
