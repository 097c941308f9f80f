"""Which lines of a Markdown document are fields: `**name:** value` at the start of a line, with a name of the format.

Knows the names, not what their values mean. Text that looks like a misspelt field is never silently taken for prose.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

import msgspec

from ordain.core.problem import closest
from ordain.documents.document import ProblemList
from ordain.documents.scan import Block, Text

__all__ = ["PLAN_FIELDS", "STEP_FIELDS", "Field", "FieldLine", "FieldNames", "Vocabulary"]


class Vocabulary(msgspec.Struct, frozen=True, kw_only=True):
    """The field names that mean something in one place; an alias is another name of a field."""

    names: frozenset[str]
    aliases: dict[str, str] = {}


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


PLAN_FIELDS = Vocabulary(
    names=_words("task context budget priority on_failure preconditions agent model timeout concurrency tier params")
)
STEP_FIELDS = Vocabulary(
    names=_words(
        "id agent task instructions criteria reads writes tools tool operation args run env action needs when for_each "
        "preconditions contract verify proof protect on_fail timeout approval budget model network worktree pool "
        "idempotent"
    ),
    aliases={"target": "agent", "subscriptions": "reads", "depends_on": "needs", "on_failure": "on_fail"},
)

_BOLD = re.compile(r" {0,3}\*\*(?P<name>[^*:]{1,40})(?P<end>:\*\*|\*\*:)[ \t]*(?P<value>.*)", re.DOTALL)
_STATUS = re.compile(r" {0,3}\*\*status:(?:\*\*.*|[^*]*\*\*[ \t]*)", re.IGNORECASE | re.DOTALL)
_LOOKUPS_MAX = 500
"""Looking for the nearest name is slow; a hostile document could ask for it a million times."""


class Field(msgspec.Struct, frozen=True, kw_only=True):
    """A field as written: its name in the format's spelling, what follows on its line, and the blocks below.

    The name is empty for text that belongs to no field.
    """

    name: str
    line: int
    inline: str = ""
    body: Sequence[Block] = ()


class FieldLine(msgspec.Struct, frozen=True, gc=False):
    """What a line is as a field line: `name` is empty for a mark of progress, which says nothing to a plan."""

    name: str
    value: str = ""


class FieldNames:
    """Tells the field lines of one document from its text, and warns of near misses."""

    def __init__(self) -> None:
        self._lookups = _LOOKUPS_MAX
        self._hints: dict[tuple[str, bool], tuple[str, ...]] = {}

    def split(self, blocks: Sequence[Block], vocabulary: Vocabulary, problems: ProblemList) -> list[Field]:
        """Fields with all that stands below each, up to the next; text before the first comes as a nameless one."""
        starts: list[tuple[int, FieldLine]] = [(-1, FieldLine(""))]
        for at, block in enumerate(blocks):
            found = self.line(block, vocabulary, problems)
            if found is not None:
                starts.append((at, found))
        ends = [at for at, _ in starts[1:]] + [len(blocks)]
        return [
            Field(
                name=found.name,
                line=blocks[max(at, 0)].line if blocks else 0,
                inline=found.value,
                body=blocks[at + 1 : end],
            )
            for (at, found), end in zip(starts, ends, strict=True)
        ]

    def line(self, block: Block, vocabulary: Vocabulary, problems: ProblemList) -> FieldLine | None:
        """The field that starts on this line, or None for text; a near miss is text with a warning."""
        if not isinstance(block, Text) or "**" not in block.text:
            return None
        if _STATUS.fullmatch(block.text):
            return FieldLine("")
        found = _BOLD.fullmatch(block.text)
        if found is None:
            return None
        name = found["name"].strip().lower().replace(" ", "_")
        name = vocabulary.aliases.get(name, name)
        if name in vocabulary.names and found["end"] == ":**":
            return FieldLine(name, found["value"].strip())
        hints = self._near(name, vocabulary)
        if name in vocabulary.names:
            hints = (f"Write `**{found['name']}:**`, with the colon inside.",)
        if hints:
            detail = f"`**{found['name']}**` is no field; the line is taken for text."
            problems.add("W_FIELD_UNKNOWN", detail, *hints, line=block.line)
        return None

    def _near(self, name: str, vocabulary: Vocabulary) -> tuple[str, ...]:
        key = (name, vocabulary is STEP_FIELDS)
        if key not in self._hints:
            if not self._lookups:
                return ()
            self._lookups -= 1
            self._hints[key] = closest(name, sorted(vocabulary.names | vocabulary.aliases.keys()))
        return self._hints[key]
