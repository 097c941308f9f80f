"""The Markdown notation to a plan: puts the parts together that the other modules read. A part that belongs nowhere is
a problem or a note, never dropped."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from msgspec.structs import replace

from ordain.core.plan.model import PLAN_VERSION, Plan, nested_plan_of
from ordain.core.text.limit import STEPS_MAX
from ordain.core.text.problem import Place, Problem, closest
from ordain.documents.document import Document, ProblemList, plan_unless_wrong
from ordain.documents.include import Beside, Includes
from ordain.documents.markdown.draft import (
    Draft,
    drafts_of_fallbacks,
    drafts_of_headings,
    drafts_of_list,
    is_step_heading,
    names_work,
    refuse_equal_ids,
)
from ordain.documents.markdown.field import Field, FieldNames, prose, title_line
from ordain.documents.markdown.front_matter import FrontMatter, read_front_matter
from ordain.documents.markdown.outline import (
    Outline,
    Section,
    item_start,
    numbered,
    outline_of,
    refuse_hidden,
    refuse_hiding,
    title_text,
)
from ordain.documents.markdown.scan import Block, Fence, Text, blank, may_hide, scan, trimmed
from ordain.documents.markdown.step import StepReader
from ordain.documents.markdown.step_action import sound_prose
from ordain.documents.markdown.table import PLAN_FIELDS, PLAN_PROSE, PLAN_TABLE

# --- Markdown place --------------------------------------------------------------------------------------------------
# Where on its line a problem stands: looked for only where there is one, and where no reader of values has said it.

_ABOUT_LINES = frozenset(
    [
        *("E_DOC_DUPLICATE", "E_DOC_SYNTAX", "E_MD_FENCE", "E_MD_HEADING", "E_MD_HIDDEN", "E_PLAN_NO_STEPS"),
        *("E_STEP_ACTION", "W_FIELD_UNKNOWN"),
    ]
)
"""Problems of a whole line or of a field's name; the others are those of its value."""
_HEAD = re.compile(r" {0,3}(?:\*\*[^*:]{1,40}:\*\*[ \t]*|(?:[-*]|[0-9]{1,9}\.)[ \t]+)(?=\S)")


def with_columns(problems: Iterable[Problem], lines: Sequence[str]) -> tuple[Problem, ...]:
    """The same problems, with the column of the value beside a field's name or in an item, else of the line's text."""

    def placed(problem: Problem) -> Problem:
        where = problem.where
        if where is None or where.line is None or where.column is not None or where.file is not None:
            return problem
        line = lines[where.line - 1]
        head = None if problem.code in _ABOUT_LINES else _HEAD.match(line)
        column = head.end() + 1 if head else len(line) - len(line.lstrip()) + 1
        return replace(problem, where=replace(where, column=column if line.strip() else 1))

    return tuple(map(placed, problems))


# --- Markdown --------------------------------------------------------------------------------------------------------


def read_markdown(text: str, includes: Includes | None = None) -> Document:
    """The document that this text is; every problem is noted, with its line."""
    problems = ProblemList()
    lines = text.split("\n")
    front = read_front_matter(lines, problems)
    if front is None:
        return Document(problems=with_columns(problems.in_order(), lines))
    return read_parts(lines, front, outline_of(scan(lines, front.end), problems), problems, includes)


def read_parts(
    lines: Sequence[str], front: FrontMatter, outline: Outline, problems: ProblemList, includes: Includes | None = None
) -> Document:
    """The document of these lines, whose parts are known already, with the problems met on the way."""
    return _Reader(lines, front, outline, problems, includes).read()


class _Reader:
    def __init__(
        self,
        lines: Sequence[str],
        front: FrontMatter,
        outline: Outline,
        problems: ProblemList,
        includes: Includes | None,
    ) -> None:
        self.lines, self.front, self.outline = lines, front, outline
        self.problems, self.includes, self.names = problems, includes, FieldNames()
        self.may_hide = may_hide("\n".join(lines[front.end :]))
        self.notes: list[tuple[str, str]] = []
        self.record = {owner: dict(said) for owner, said in front.record.items()}

    def read(self) -> Document:
        title = self._title()
        steps_sections = self.outline.named("Steps")
        top, items = self.outline.top, None
        if not steps_sections:
            start = item_start(top)
            if start is not None:
                top, items = top[:start], top[start:]
        refuse_hiding([*self.outline.before, *top], self.problems)
        fields = self._plan_fields(top)
        if steps_sections:
            self._refuse_outside(top, fields)
        drafts, fallbacks = self._sections(steps_sections)
        if items is not None:
            self._refuse_hidden(items)
            drafts = drafts_of_list(items, self.problems)
        if max(len(drafts), len(fallbacks)) > STEPS_MAX:
            detail = f"The plan has more than {STEPS_MAX:,} steps."
            line = max(drafts, fallbacks, key=len)[STEPS_MAX].line
            self.problems.add("E_PLAN_TOO_MANY_STEPS", detail, "Split it into several plans.", line=line)
            return Document(problems=with_columns(self.problems.in_order(), self.lines), notes=tuple(self.notes))
        refuse_equal_ids([*drafts, *fallbacks], self.problems)
        values = {"plan_version": PLAN_VERSION, **self.front.values, "title": title}
        values |= self._plan_values(fields, {draft.id for draft in (*drafts, *fallbacks)})
        if self.outline.title and not values["title"] and "title" not in fields:
            line = self.outline.title.line
            self.problems.add("E_DOC_SYNTAX", "The title is empty.", "Say what is to be done.", line=line)
        beside = Beside(self.includes)
        reader = StepReader(drafts, fallbacks, self.lines, beside)
        steps = reader.read(drafts, self.problems)
        plan = Plan(steps=steps, fallbacks=reader.read(fallbacks, self.problems), **values)
        self._take_records(beside.record)
        if plan_unless_wrong(plan, self.problems.in_order()):
            self._refuse_strange_records(plan)
        if plan_unless_wrong(plan, self.problems.in_order()) is None:
            self.problems.extend(reader.unknown.in_order())
        problems = with_columns(self.problems.in_order(), self.lines)
        places: dict[str, Place] = {
            draft.id: Place(line=draft.line, column=1, step=draft.id) for draft in reversed((*drafts, *fallbacks))
        }
        if self.outline.title:
            places[""] = Place(line=self.outline.title.line, column=1)
        found = {name: self.front.locate((name,)) for name in self.front.values}
        of_fields = {name: Place(line=at[0], column=at[1]) for name, at in found.items() if at[0] is not None}
        for name, field in fields.items():
            of_fields[PLAN_TABLE[name].attribute if name in PLAN_TABLE else name] = Place(line=field.line, column=1)
        whole = plan_unless_wrong(plan, problems)
        return Document(
            plan=whole,
            partial=plan if whole is None else None,
            problems=problems,
            places=places,
            fields=of_fields,
            unknown=with_columns(reader.unknown.in_order(), self.lines),
            inner=beside.inner,
            notes=tuple(self.notes),
            record=self.record,
        )

    def _title(self) -> str:
        before, heading = self.outline.before, self.outline.title
        if heading is None:
            return ""
        comments = all(blank(block) or (isinstance(block, Text) and _is_comment(block.text)) for block in before)
        if before and not comments:
            hint = "Start with `# What is to be done`; text for readers goes below it."
            self.problems.add("E_DOC_SYNTAX", "There is something before the title.", hint, line=before[0].line)
        self._note("", before)
        refuse_hidden([heading], self.problems)
        return title_text(heading.text, heading.line, self.problems)

    def _refuse_hidden(self, blocks: Sequence[Block]) -> None:
        if self.may_hide:
            refuse_hidden(blocks, self.problems)

    def _note(self, heading: str, blocks: Sequence[Block]) -> None:
        kept = trimmed(blocks)
        text = "\n".join(self.lines[kept[0].line - 1 : kept[-1].end]) if kept else ""
        if text or heading:
            self.notes.append((heading, text))

    # --- Plan fields ---

    def _plan_fields(self, blocks: Sequence[Block]) -> dict[str, Field]:
        """The fields between title and steps; paragraphs that belong to none become notes."""
        fields: dict[str, Field] = {}
        at = note_from = 0
        while at < len(blocks):
            block = blocks[at]
            if is_step_heading(block):
                hint = "Write the heading `## Steps` before the first step."
                self.problems.add("E_MD_HEADING", "A step stands outside of `## Steps`.", hint, line=block.line)
            found = self.names.line(block, PLAN_FIELDS, self.problems)
            if found is None:
                at += 1
                continue
            self._note("", blocks[note_from:at])
            end = at + 1
            if found.name:
                end = self._end_of_value(blocks, at + 1, found.name, found.value)
                field = Field(found.name, block.line, found.value, blocks[at + 1 : end])
                if found.name in fields:
                    self.problems.add("E_DOC_DUPLICATE", f"`{found.name}` is given twice.", line=block.line)
                fields.setdefault(found.name, field)
            at = note_from = end
        self._note("", blocks[note_from:])
        return fields

    def _refuse_outside(self, blocks: Sequence[Block], fields: Mapping[str, Field]) -> None:
        """Refuse numbered commands and tool tasks before `## Steps`: people would take them for steps that run."""
        inside = {block.line for field in fields.values() for block in field.body}
        notes = [block for block in blocks if block.line not in inside]
        start = item_start(notes)
        work = next((block for block in notes[start:] if names_work(block)), None) if start is not None else None
        if work is not None:
            hints = (
                "Write them below the heading `## Steps`.",
                "Put what is only for readers in a section of its own, or as `-` items.",
            )
            detail = "A numbered item that reads as a step is before `## Steps`, where nothing is run."
            self.problems.add("E_DOC_SYNTAX", detail, *hints, line=work.line)

    def _end_of_value(self, blocks: Sequence[Block], at: int, name: str, inline: str) -> int:
        """Where a plan field's value ends: a paragraph, below its name also a fence, and there for `Task` and `Context`
        all paragraphs up to the next field."""
        several = name in PLAN_PROSE and not inline
        while not inline and at < len(blocks) and blank(blocks[at]):
            at += 1
        if not inline and at < len(blocks) and isinstance(blocks[at], Fence):
            fence = blocks[at]
            if not several or (isinstance(fence, Fence) and fence.language == "text"):
                return at + 1
        while at < len(blocks):
            block = blocks[at]
            if not several and (blank(block) or not isinstance(block, Text)):
                break
            if self.names.line(block, PLAN_FIELDS, self.problems) is not None:
                break
            at += 1
        return at

    def _plan_values(self, fields: Mapping[str, Field], steps: set[Any]) -> dict[str, Any]:
        problems = self.problems
        values: dict[str, Any] = {}
        for name, field in fields.items():
            if name in self.front.values:
                detail = f"`{name}` is given here and in the front matter (line {self.front.locate((name,))[0]})."
                problems.add("E_DOC_DUPLICATE", detail, line=field.line)
            if name in PLAN_PROSE:
                values[name] = prose(field, self.lines, problems)
                sound_prose(name.capitalize(), values[name], field.line, steps, problems)
            elif name == "title":
                values[name] = title_line(field, problems)
            elif name == "priority":
                self._take_records({"": {name: PLAN_TABLE[name].read(field, problems)}})
            else:
                values[PLAN_TABLE[name].attribute] = PLAN_TABLE[name].read(field, problems)
        return values

    # --- Beside the plan ---

    def _take_records(self, beside: Mapping[str, Mapping[str, Any]]) -> None:
        """Keep what is said beside the plan outside of the front matter, which may not have said the same."""
        for owner, said in beside.items():
            record = self.record.setdefault(owner, {})
            for name, value in said.items():
                if name in record:
                    line, column = self.front.locate(("record", owner, name))
                    detail = f"`{name}` is given here and below."
                    self.problems.add("E_DOC_DUPLICATE", detail, line=line, column=column)
                record[name] = value

    def _refuse_strange_records(self, plan: Plan) -> None:
        """What the front matter says beside steps that are not there would be lost in other notations."""
        strangers = self.record.keys() - set(_owners(plan, "")) if self.record.keys() - {""} else ()
        for owner in sorted(strangers):
            line, column = self.front.locate(("record", owner))
            detail = f"`record` speaks of `{owner[:64]}`, and the plan has no such step."
            self.problems.add("E_PLAN_UNKNOWN_FIELD", detail, line=line, column=column)

    # --- Sections and steps ---

    def _sections(self, steps_sections: Sequence[Section]) -> tuple[list[Draft], list[Draft]]:
        """The steps under `## Steps` and under `## Fallbacks`; other sections become notes."""
        drafts: list[Draft] = []
        fallbacks: list[Draft] = []
        seen: set[str] = set()
        ahead = sum(section.heading.text in ("Steps", "Fallbacks") for section in self.outline.sections)
        for section in self.outline.sections:
            heading = section.heading
            if heading.text in ("Steps", "Fallbacks"):
                ahead -= 1
                if heading.text in seen:
                    detail = f"This is a second `## {heading.text}`."
                    self.problems.add("E_DOC_DUPLICATE", detail, line=heading.line)
                elif heading.text == "Steps":
                    drafts = self._steps(section)
                else:
                    self._refuse_hidden(section.blocks)
                    fallbacks = drafts_of_fallbacks(section.blocks, self.names, self.problems)
                seen.add(heading.text)
            else:
                proper = {"steps": "Steps", "fallbacks": "Fallbacks"}.get(heading.text.casefold())
                if proper:
                    detail = f"The heading `## {heading.text}` is not spelt as the format has it."
                    self.problems.add("E_MD_HEADING", detail, f"Write `## {proper}`.", line=heading.line)
                if ahead:
                    refuse_hiding(section.blocks, self.problems)
                self._note(heading.text, section.blocks)
        if not steps_sections and item_start(self.outline.top) is None:
            near = (closest(section.heading.text, ["Steps"]) for section in self.outline.sections[:50])
            usual = ("Write a numbered list of commands, or `### 1. Title` under `## Steps`.",)
            hints = next(filter(None, near), usual)
            line = self.outline.title.line if self.outline.title else 1
            self.problems.add("E_PLAN_NO_STEPS", "The document has no steps.", *hints, line=line)
        return drafts, fallbacks

    def _steps(self, section: Section) -> list[Draft]:
        self._refuse_hidden(section.blocks)
        first = next((block for block in section.blocks if not blank(block)), None)
        if first is None:
            detail = "`## Steps` holds no steps."
            self.problems.add("E_PLAN_NO_STEPS", detail, "Write `### 1. Title` below it.", line=section.heading.line)
            return []
        if numbered(first) is not None:
            return drafts_of_list(section.blocks, self.problems)
        return drafts_of_headings(section.blocks, self.names, self.problems)


def _owners(plan: Plan, prefix: str) -> Iterator[str]:
    """The keys of a record: the plan, its steps, and the same for the plans nested in them."""
    yield prefix
    for step in (*plan.steps, *plan.fallbacks):
        yield prefix + step.id
        if (inner := nested_plan_of(step)) is not None:
            yield from _owners(inner, f"{prefix}{step.id}/")


def _is_comment(text: str) -> bool:
    bare = text.strip()
    return bare.startswith("<!--") and bare.endswith("-->")
