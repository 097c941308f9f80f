"""Which lines of a Markdown document are fields, `**name:** value` at the start of a line, and their typed values. Text
that looks like a misspelt field is never silently taken for prose."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import msgspec

from ordain.core.plan.model import ForEach
from ordain.core.plan.name import name_fault, scope_faults
from ordain.core.plan.words import read_duration
from ordain.core.text.limit import DAY_MS, DEPTH_MAX, string_fault
from ordain.core.text.problem import Problem, closest
from ordain.documents.document import ProblemList, ReadValue
from ordain.documents.markdown.front_matter import fenced_value, shaped
from ordain.documents.markdown.scan import Block, Fence, Text, trimmed
from ordain.documents.shape import shape
from ordain.documents.yaml import read_yaml

# --- Field line ------------------------------------------------------------------------------------------------------


class Vocabulary:
    """The field names that mean something in one place, with aliases and usual spellings (`heads`); `elsewhere` has
    names that mean something in another place only, and where that is."""

    def __init__(
        self,
        names: Iterable[str],
        aliases: dict[str, str] | None = None,
        *,
        elsewhere: dict[str, str] | None = None,
        capital: bool = False,
    ) -> None:
        self.names, self.aliases = frozenset(names), aliases or {}
        self.elsewhere, self._capital = elsewhere or {}, capital
        every = {**{name: name for name in self.names}, **self.aliases}
        self.heads = {f"**{written}": name for written, name in every.items()}
        self.heads |= {f"**{self.shown(name)}": name for name in self.names}

    def shown(self, name: str) -> str:
        """The name as a writer spells it: `on_fail` in a step, `On failure` in a plan."""
        return name.replace("_", " ").capitalize() if self._capital else name


_BOLD = re.compile(r" {0,3}\*\*(?P<name>[^*:]{1,40})(?P<end>:\*\*|\*\*:)[ \t]*(?P<value>.*)", re.DOTALL)
_STATUS = re.compile(r" {0,3}\*\*status:(?:\*\*.*|[^*]*\*\*[ \t]*)", re.IGNORECASE | re.DOTALL)
_LOOKUPS_MAX = 500
"""Looking for the nearest name is slow; a hostile document could ask for it a million times."""


class Field(msgspec.Struct, frozen=True, gc=False):
    """A field as written: its name, empty for text that belongs to none, the rest of its line, and the blocks below."""

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
        self._hints: dict[tuple[str, Vocabulary], tuple[str, ...]] = {}

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
        key = (name, vocabulary)
        if key not in self._hints:
            if not self._lookups:
                return ()
            self._lookups -= 1
            self._hints[key] = closest(name, sorted(vocabulary.names | vocabulary.aliases.keys()))
        return self._hints[key]


# --- Fields ----------------------------------------------------------------------------------------------------------
# What stands beside and below a field's name. What can not be read is noted and given as None.

_BRACKETS = re.compile(r"\[([^][]*)\]")
_QUOTED = re.compile(r"""\A(["'])(.*)\1\Z""", re.DOTALL)
LIST_ITEM = re.compile(r" {0,3}[-*][ \t]+(.*)", re.DOTALL)
_GOES_ON = re.compile(r"(?:[ ]{2,}|\t)[ \t]*(\S.*)", re.DOTALL)


def belongs_to_no_field(blocks: Sequence[Block], problems: ProblemList) -> None:
    """Say that this text would be lost; of a line that was taken for text, only which field may be meant."""
    line = blocks[0].line
    misspelt = problems.withdraw("W_FIELD_UNKNOWN", line)
    if misspelt is not None:
        problems.add("E_DOC_SYNTAX", f"{misspelt.detail.partition(';')[0]}.", *misspelt.hints, line=line)
        return
    hint = "Put text for readers into a section of its own, such as `## Notes`; a value of several lines into a fence."
    problems.add("E_DOC_SYNTAX", "This text belongs to no field.", hint, line=line)


def only_fence(field: Field, problems: ProblemList) -> Fence | None:
    """The fence below the name of a field that has nothing beside it; text after the fence would be lost."""
    if field.inline or not field.body:
        return None
    body = trimmed(field.body)
    if not body or type(body[0]) is not Fence:
        return None
    if len(body) > 1:
        belongs_to_no_field(trimmed(body[1:]), problems)
    return body[0]


# --- Text --------------------------------------------------------------------------------------------------------


def one_line(field: Field, problems: ProblemList) -> str | None:
    """The value of a field that is one line, beside its name or below it."""
    value = field.inline
    if not field.body and value:
        return value
    rest = trimmed(field.body)
    if not value and rest and isinstance(rest[0], Text):
        value, rest = rest[0].text.strip(), trimmed(rest[1:])
    if rest and not value:
        hint = f"Write `**{field.name}:** value`."
        problems.add("E_FIELD_VALUE", f"`{field.name}` takes one line of text.", hint, line=rest[0].line)
        return None
    if not value:
        problems.add("E_FIELD_VALUE", f"`{field.name}` has no value.", line=field.line)
        return None
    if rest:
        belongs_to_no_field(rest, problems)
    return value


def text_line(field: Field, problems: ProblemList) -> str | None:
    """One line of text, or exactly the content of a `text` fence."""
    fence = only_fence(field, problems)
    value = fence.content if fence and fence.language == "text" else one_line(field, problems)
    return _sound(field, value, problems)


def title_line(field: Field, problems: ProblemList) -> str:
    """A title that its heading can not show as it is: one line of text, kept exactly."""
    title = text_line(field, problems)
    if title is not None and ("\n" in title or not title.strip()):
        wrong = "has more than one line" if title.strip() else "is empty"
        problems.add("E_FIELD_VALUE", f"The title {wrong}.", "Write one line of text.", line=field.line)
    return title or ""


def prose(field: Field, lines: Sequence[str], problems: ProblemList) -> str | None:
    """The value of a field of free text: paragraphs, or exactly the content of one `text` fence."""
    body = trimmed(field.body)
    if not field.inline and len(body) == 1 and isinstance(body[0], Fence) and body[0].language == "text":
        return _sound(field, body[0].content, problems)
    below = "\n".join(lines[body[0].line - 1 : body[-1].end]) if body else ""
    value = f"{field.inline}\n{below}".strip()
    if not value:
        problems.add("E_FIELD_VALUE", f"`{field.name}` has no value.", line=field.line)
        return None
    return _sound(field, value, problems)


def _sound(field: Field, value: str | None, problems: ProblemList) -> str | None:
    fault = string_fault(value) if value is not None else None
    if fault:
        problems.add(*fault, line=field.line)
        return None
    return value


# --- Words and numbers -------------------------------------------------------------------------------------------


def one_of(field: Field, words: Sequence[str], problems: ProblemList) -> str | None:
    """A value that is one of a few words."""
    text = one_line(field, problems)
    if text is None or text in words:
        return text
    hint = f"Write {' or '.join(f'`{word}`' for word in words)}."
    problems.add("E_FIELD_VALUE", f"`{field.name}` is `{text[:60]}`.", hint, line=field.line)
    return None


def truth_value(field: Field, problems: ProblemList) -> bool | None:
    """`true` or `false`."""
    word = one_of(field, ("true", "false"), problems)
    return None if word is None else word == "true"


def timeout_value(field: Field, problems: ProblemList) -> int | None:
    """Milliseconds of a `timeout` field."""
    text = one_line(field, problems)
    if text is None:
        return None
    timeout_ms = read_duration(text)
    if timeout_ms is None:
        hint = "Write a whole number and a unit: `250ms`, `30s`, `10m`, `2h`, `1d`."
        detail = f"The timeout `{text[:60]}` is not a duration."
        problems.add("E_FIELD_VALUE", detail, hint, line=field.line)
    elif not 0 < timeout_ms <= DAY_MS:
        detail = f"A timeout of {text} is not between 1ms and 1d."
        problems.add("E_STEP_LIMIT", detail, line=field.line)
        return None
    return timeout_ms


def number_value(field: Field, low: int, high: int, code: str, problems: ProblemList) -> int | None:
    """A whole number of a plan field; `code` is the problem of one outside its limits."""
    text = one_line(field, problems)
    if text is None:
        return None
    if not re.fullmatch(r"-?[0-9]{1,18}", text):
        detail = f"`{text[:60]}` is not a whole number."
        problems.add("E_FIELD_VALUE", detail, f"Write a number from {low} to {high}.", line=field.line)
        return None
    if not low <= int(text) <= high:
        problems.add(code, f"`{field.name}` is {text}; {low} to {high} are allowed.", line=field.line)
        return None
    return int(text)


# --- Values with a grammar of their own, or as a fence -------------------------------------------------------------


Read = Callable[[Field, ProblemList], Any]
"""Reads the value of a field; what is wrong with it is noted."""


def in_fence(into: Any, hint: str, absent: Any) -> Read:
    """A value of one of the plan's own types, in a fence and nowhere else."""

    def read(field: Field, problems: ProblemList) -> Any:
        fence = only_fence(field, problems)
        if fence is None:
            wants_fence(field, hint, problems)
            return absent
        return shaped(field.name, fence, into, problems) or absent

    return read


def words_or_fence(into: Any, read_words: Callable[[str], Any]) -> Read:
    """A value in words, or a fence with the value as JSON has it."""

    def read(field: Field, problems: ProblemList) -> Any:
        fence = only_fence(field, problems)
        if fence is not None:
            return shaped(field.name, fence, into, problems)
        text = one_line(field, problems)
        value = read_words(text) if text is not None else None
        if isinstance(value, Problem):
            problems.add(value.code, value.detail, *value.hints, line=field.line)
            return None
        return value

    return read


def only_value(field: Field, hint: str, problems: ProblemList, depth_max: int = DEPTH_MAX) -> ReadValue | None:
    """What the fence below the name of a field holds that can be written in no other way."""
    fence = only_fence(field, problems)
    if fence is None:
        wants_fence(field, hint, problems)
        return None
    return fenced_value(field.name, fence, problems, depth_max=depth_max)


def wants_fence(field: Field, hint: str, problems: ProblemList) -> None:
    """Say that a value is written where only a fence can hold it."""
    problems.add("E_FIELD_VALUE", f"`{field.name}` is not written in a fence.", hint, line=field.line)


def agent_value(field: Field, problems: ProblemList) -> str | None:
    """The name of an agent."""
    agent = one_line(field, problems)
    fault = name_fault("agent", agent) if agent else None
    if fault:
        problems.add(*fault, line=field.line)
    return agent


def list_value(field: Field, problems: ProblemList, *, commas: bool = True) -> tuple[str, ...] | None:
    """A list of texts: list items below the name, which indented lines go on with, texts with commas between them
    beside it, or a fence with a list. Without `commas` what stands beside the name is one text."""
    fence = only_fence(field, problems)
    if fence is not None:
        return _fenced_list(field, fence, problems)
    items: list[list[str]] = []
    if field.inline:
        listed = _BRACKETS.fullmatch(field.inline) if commas else None
        words = (listed[1] if listed else field.inline).split(",") if commas else [field.inline]
        items = [[_QUOTED.sub(r"\2", word.strip()) if listed else word.strip()] for word in words]
    for block in trimmed(field.body):
        text = block.text if type(block) is Text else ""
        item, more = LIST_ITEM.fullmatch(text), _GOES_ON.fullmatch(text)
        if field.inline or type(block) is not Text:
            belongs_to_no_field([block], problems)
            return None
        if item:
            items.append([item[1].strip()])
        elif more and items:
            items[-1].append(more[1].rstrip())
        elif not block.blank:
            belongs_to_no_field([block], problems)
            return None
    found = ["\n".join(item) for item in items]
    if any(_sound(field, text, problems) is None for text in found):
        return None
    if not found or not all(found):
        hint = "Write list items below the name: `- one`."
        detail = f"`{field.name}` has an empty place." if found else f"`{field.name}` names nothing."
        problems.add("E_FIELD_VALUE", detail, hint, line=field.line)
        return None
    return tuple(found)


def _fenced_list(field: Field, fence: Fence, problems: ProblemList) -> tuple[str, ...] | None:
    read = fenced_value(field.name, fence, problems)
    if read is None:
        return None
    if not isinstance(read.value, list) or not all(isinstance(item, str) for item in read.value):
        hint = "Write `- text` lines, and quote what could be a number."
        problems.add("E_PLAN_TYPE", f"`{field.name}` is not a list of texts.", hint, line=fence.line)
        return None
    return tuple(read.value)


def tools_value(field: Field, problems: ProblemList) -> tuple[str, ...] | None:
    """Names of tools; `none` alone allows none."""
    names = () if field.inline == "none" and not trimmed(field.body) else list_value(field, problems)
    for fault in scope_faults(names or ()):
        problems.add(*fault, line=field.line)
    return names


def for_each_value(field: Field, problems: ProblemList) -> ForEach | None:
    """What to repeat the step for: a fence with a mapping, or the mapping in braces on one line."""
    fence = only_fence(field, problems)
    if fence is not None:
        in_fence: ForEach | None = shaped("for_each", fence, ForEach, problems)
        return in_fence
    text = one_line(field, problems)
    if text is None:
        return None
    if not text.startswith("{"):
        hint = 'Write `{in: "${list.output}", max: 50}`.'
        problems.add("E_FIELD_VALUE", "`for_each` is not a mapping in braces.", hint, line=field.line)
        return None
    read = read_yaml(text, first_line=field.line)
    for problem in read.problems:
        # Its column would be counted from the start of the value.
        problems.add(problem.code, problem.detail, *problem.hints, line=field.line)
    if read.problems:
        return None
    value: ForEach | None = shape(read.value, ForEach, locate=lambda _: (field.line, None), problems=problems)
    return value
