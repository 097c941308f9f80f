"""Steps of a Markdown document before they are read: where each starts, its number, title, id and fields.

Knows the two ways to write steps, as headings and as a list; knows nothing of what a field means, `id` excepted. A
step may name any other, so every step has its id here before any step is read.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

import msgspec

from ordain.core.value import StepId
from ordain.documents.document import ProblemList
from ordain.documents.field_line import STEP_FIELDS, Field, FieldNames
from ordain.documents.fields import belongs_to_no_field, one_line
from ordain.documents.outline import numbered, title_text
from ordain.documents.scan import Block, Heading, blank, trimmed
from ordain.documents.slug import id_fault, slug

__all__ = ["STEPS_MAX", "Draft", "code_span", "drafts_of_headings", "drafts_of_list", "is_step_heading"]

STEPS_MAX = 20_000

_STEP_HEADING = re.compile(r"([1-9][0-9]{0,8})\.(?:[ \t]+(.*))?", re.DOTALL)
_BACKTICKS = re.compile("`+")


class Draft(msgspec.Struct, frozen=True, kw_only=True):
    """A step before it is read: its place, title and id, and either its fields or the command of its list item."""

    number: int
    line: int
    title: str
    id: StepId
    fields: Mapping[str, Field] = {}
    command: str | None = None


def is_step_heading(block: Block) -> bool:
    """Whether the block would start a step if it stood under `## Steps`."""
    return isinstance(block, Heading) and block.level == 3 and _STEP_HEADING.fullmatch(block.text) is not None


def code_span(text: str) -> str | None:
    """The content of a text that is exactly one code span, or None."""
    marks = "`" * (len(text) - len(text.lstrip("`")))
    content = text[len(marks) : -len(marks)] if marks else ""
    if not content or not text.endswith(marks) or content[-1] == "`" or marks in _BACKTICKS.findall(content):
        return None
    if content.startswith(" ") and content.endswith(" ") and content.strip(" "):
        content = content[1:-1]
    return content


# --- The full form -----------------------------------------------------------------------------------------------


def drafts_of_headings(blocks: Sequence[Block], names: FieldNames, problems: ProblemList) -> list[Draft]:
    """The steps of `### N. Title` headings and what stands below each; one more than allowed at most."""
    headings = [(at, block) for at, block in enumerate(blocks) if isinstance(block, Heading) and block.level == 3]
    before = trimmed(blocks[: headings[0][0] if headings else len(blocks)])
    if before:
        hint = "A step starts with `### 1. Title`; text for readers goes before `## Steps`."
        problems.add("E_DOC_SYNTAX", "This text belongs to no step.", hint, line=before[0].line)
    drafts: list[Draft] = []
    ends = [*(at for at, _ in headings[1:]), len(blocks)]
    expected = 1
    for (start, heading), end in zip(headings[: STEPS_MAX + 1], ends, strict=False):
        found = _STEP_HEADING.fullmatch(heading.text)
        given = int(found[1]) if found else expected
        title = title_text(found[2] or "", heading.line, problems) if found else heading.text
        if not found or given != expected or not title:
            _wrong_heading(heading, expected, title, found is not None, problems)
        expected = given + 1
        drafts.append(_draft(len(drafts) + 1, heading.line, title, blocks[start + 1 : end], names, problems))
    _refuse_equal_ids(drafts, problems)
    return drafts


def _wrong_heading(heading: Heading, expected: int, title: str, is_step: bool, problems: ProblemList) -> None:
    shown = heading.text if len(heading.text) <= 60 else heading.text[:57] + "…"
    detail = f"The heading `### {shown}` is not that of step {expected}."
    hints = [f"Write `### {expected}. {title[:60] or 'Title'}`; steps are numbered 1, 2, 3 … in order."]
    if not is_step:
        hints.append("Each step has its own heading; a heading inside a step's text has four `#` or more.")
    problems.add("E_MD_HEADING", detail, *hints, line=heading.line)


def _draft(
    number: int, line: int, title: str, blocks: Sequence[Block], names: FieldNames, problems: ProblemList
) -> Draft:
    """One step with its fields told apart and its id known."""
    split = names.split(blocks, STEP_FIELDS, problems)
    step = _id(next((field for field in split if field.name == "id"), None), number, title, problems)
    problems = problems.about(step, line)
    fields: dict[str, Field] = {}
    for field in split:
        stray = trimmed(field.body) if not field.name else ()
        if stray:
            belongs_to_no_field(stray, problems)
        if field.name and field.name in fields:
            problems.add("E_DOC_DUPLICATE", f"`{field.name}` is given twice.", line=field.line)
        elif field.name:
            fields[field.name] = field
    return Draft(number=number, line=line, title=title, id=step, fields=fields)


def _id(field: Field | None, number: int, title: str, problems: ProblemList) -> StepId:
    given = one_line(field, problems) if field else None
    fault = id_fault(given) if given else None
    if field and fault:
        hint = "Ids are ASCII letters, digits, `_` and `-`, at most 64, not a number and not `none`."
        problems.add(*fault, hint, line=field.line)
    return slug(title, number) if given is None or fault else StepId(given)


# --- The short form ----------------------------------------------------------------------------------------------


def drafts_of_list(blocks: Sequence[Block], problems: ProblemList) -> list[Draft]:
    """The steps of a numbered list, one command in a code span each; one more than allowed at most."""
    drafts: list[Draft] = []
    expected = 1
    in_stray = False
    for block in blocks:
        if blank(block):
            continue
        item = numbered(block)
        if item is None:
            if not in_stray:
                _refuse_in_list(block, problems)
            in_stray = True
            continue
        in_stray = False
        if item[0] != str(expected):
            detail = f"The item has the number {item[0]}; {expected} comes here."
            problems.add("E_MD_HEADING", detail, f"Write `{expected}. …`.", line=block.line)
        expected = int(item[0]) + 1
        drafts.append(_item(len(drafts) + 1, block.line, item[1], problems))
        if len(drafts) > STEPS_MAX:
            break
    _refuse_equal_ids(drafts, problems)
    return drafts


def _item(number: int, line: int, text: str, problems: ProblemList) -> Draft:
    text = title_text(text, line, problems)
    command = code_span(text)
    step = slug(text if command is None else command, number)
    problems = problems.about(step, line)
    if command is None:
        detail = "This item is prose, a task for an agent; this version does not carry out agent tasks."
        problems.add("E_NOT_YET", detail, f"Write a command as one code span: {number}. `command`")
    elif not command.strip():
        problems.add("E_FIELD_VALUE", "The command is empty.")
    return Draft(number=number, line=line, title=command or text, id=step, command=command or "")


def _refuse_in_list(block: Block, problems: ProblemList) -> None:
    if isinstance(block, Heading) and block.level == 3:
        hint = "Write all steps as a list, or all as `### 1. Title` headings under `## Steps`."
        problems.add("E_MD_HEADING", "A heading stands among the items of a list.", hint, line=block.line)
        return
    hints = (
        "Plan fields stand before the list; a step with fields is written as `### 1. Title` under `## Steps`.",
        "Text for readers goes into a section of its own, such as `## Notes`.",
    )
    problems.add("E_DOC_SYNTAX", "This is neither an item of the list nor a section.", *hints, line=block.line)


def _refuse_equal_ids(drafts: Sequence[Draft], problems: ProblemList) -> None:
    lines: dict[StepId, int] = {}
    for draft in drafts:
        if draft.id in lines:
            detail = f"The id `{draft.id}` is already that of the step on line {lines[draft.id]}."
            hint = "Give this step an id of its own: `**id:** another-word`."
            if draft.command is not None:
                hint = "Write the steps as `### 1. Title` under `## Steps`, where each can have an `**id:**`."
            line = draft.fields["id"].line if "id" in draft.fields else draft.line
            problems.about(draft.id, line).add("E_STEP_ID", detail, hint)
        lines.setdefault(draft.id, draft.line)
