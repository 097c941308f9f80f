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


class Vocabulary:
    """The field names that mean something in one place; an alias is another name of a field.

    `heads` has what stands before `:**` on a line in the usual spellings, so that most lines need no second look.
    `elsewhere` has names that mean something in another place only, and where that is.
    """

    def __init__(
        self,
        names: str,
        aliases: dict[str, str] | None = None,
        *,
        elsewhere: dict[str, str] | None = None,
        capital: bool = False,
    ) -> None:
        self.names = frozenset(names.split())
        self.aliases = aliases or {}
        self.elsewhere = elsewhere or {}
        self._capital = capital
        every = {**{name: name for name in self.names}, **self.aliases}
        self.heads = {f"**{written}": name for written, name in every.items()}
        self.heads |= {f"**{self.shown(name)}": name for name in self.names}

    def shown(self, name: str) -> str:
        """The name as a writer spells it: `on_fail` in a step, `On failure` in a plan."""
        return name.replace("_", " ").capitalize() if self._capital else name


_PLAN_NAMES = (
    "title task context budget priority on_failure preconditions agent model timeout concurrency tier tools protect "
    "params"
)
_STEP_NAMES = (
    "title id agent task instructions criteria reads writes tools tool operation args run env action needs when "
    "for_each preconditions contract verify proof protect on_fail timeout approval budget model network worktree pool "
    "idempotent"
)
_STEP_ALIASES = {"target": "agent", "subscriptions": "reads", "depends_on": "needs", "on_failure": "on_fail"}
_SANDBOX = {"sandbox": "The sandbox is demanded of the whole plan, below its title: `**Tier:** 1`."}
_TO_STEP = "It is a field of steps: write it below the heading of each step that it is for."
_TO_PLAN = "It is a field of the plan: write it below the title, before the steps."
_TO_FRONT_MATTER = "Write it in the front matter, between two `---` lines at the very top."

PLAN_FIELDS = Vocabulary(
    _PLAN_NAMES,
    elsewhere={
        **dict.fromkeys((*_STEP_NAMES.split(), *_STEP_ALIASES), _TO_STEP),
        **dict.fromkeys(("plan_version", "workspace_id"), _TO_FRONT_MATTER),
        **_SANDBOX,
    },
    capital=True,
)
STEP_FIELDS = Vocabulary(
    _STEP_NAMES,
    _STEP_ALIASES,
    elsewhere={
        # `context` and `priority` limit nothing, and in a task such a line is read by whoever does it.
        **dict.fromkeys(("concurrency", "tier", "params"), _TO_PLAN),
        **dict.fromkeys(("plan_version", "workspace_id"), _TO_FRONT_MATTER),
        **_SANDBOX,
        "verification": "Write `**contract:** COMMAND`; or `**verify:**`, with a fence below it or `none` beside it.",
    },
)

_BOLD = re.compile(r" {0,3}\*\*(?P<name>[^*:]{1,40})(?P<end>:\*\*|\*\*:)[ \t]*(?P<value>.*)", re.DOTALL)
_STATUS = re.compile(r" {0,3}\*\*status:(?:\*\*.*|[^*]*\*\*[ \t]*)", re.IGNORECASE | re.DOTALL)
_LOOKUPS_MAX = 500
"""Looking for the nearest name is slow; a hostile document could ask for it a million times."""


class Field(msgspec.Struct, frozen=True, gc=False):
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
        fields: list[Field] = []
        heads = vocabulary.heads
        name, line, inline, start = "", blocks[0].line if blocks else 0, "", 0
        for at, block in enumerate(blocks):
            if type(block) is not Text or "**" not in block.text:
                continue
            head, mark, value = block.text.partition(":**")
            known = heads.get(head) if mark else None
            if known is None:
                found = self._odd_line(block, vocabulary, problems)
                if found is None:
                    continue
                known, value = found.name, found.value
            if name or start < at:
                fields.append(Field(name, line, inline, blocks[start:at] if start < at else ()))
            name, line, inline, start = known, block.line, value.strip(), at + 1
        if name or start < len(blocks):
            fields.append(Field(name, line, inline, blocks[start:]))
        return fields

    def line(self, block: Block, vocabulary: Vocabulary, problems: ProblemList) -> FieldLine | None:
        """The field that starts on this line, or None for text; a near miss is text with a warning."""
        if not isinstance(block, Text) or "**" not in block.text:
            return None
        head, mark, value = block.text.partition(":**")
        name = vocabulary.heads.get(head) if mark else None
        return FieldLine(name, value.strip()) if name else self._odd_line(block, vocabulary, problems)

    def _odd_line(self, block: Text, vocabulary: Vocabulary, problems: ProblemList) -> FieldLine | None:
        """The same for a line that is not in the usual spelling."""
        if _STATUS.fullmatch(block.text):
            return FieldLine("")
        found = _BOLD.fullmatch(block.text)
        if found is None:
            return None
        name = found["name"].strip().lower().replace(" ", "_")
        name = vocabulary.aliases.get(name, name)
        if name in vocabulary.names and found["end"] == ":**":
            return FieldLine(name, found["value"].strip())
        if name in vocabulary.names:
            hints: tuple[str, ...] = (f"Write `**{found['name']}:**`, with the colon inside.",)
        elif name in vocabulary.elsewhere:
            hints = (vocabulary.elsewhere[name],)
        else:
            hints = self._near(name, vocabulary)
        if hints:
            detail = f"`**{found['name']}**` is no field here; the line is taken for text."
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
