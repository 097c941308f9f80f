"""Steps of a Markdown document, as headings or as a list, before they are read: where each starts, its title, id and
fields. A step may name any other, so every step has its id here before any step is read."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

import msgspec

from ordain.core.plan.action import RunCommand, Task
from ordain.core.plan.name import id_fault
from ordain.core.plan.value import StepId
from ordain.core.text.limit import STEPS_MAX
from ordain.documents.document import ProblemList
from ordain.documents.markdown.field import Field, FieldNames, belongs_to_no_field, one_line, title_line
from ordain.documents.markdown.outline import numbered, title_text
from ordain.documents.markdown.scan import Block, Heading, blank, code_span, hides_text, scan, trimmed
from ordain.documents.markdown.table import STEP_FIELDS
from ordain.documents.tree_writer import distinct_slugs, slug

_STEP_HEADING = re.compile(r"([1-9][0-9]{0,8})\.(?:[ \t]+(.*))?", re.DOTALL)
_TEMPLATE_HEADING = re.compile(
    r"(?:[0-9]{1,9}|[A-Za-z])[ \t]*"
    r"(?:(?P<last>[–—-][ \t]*(?:[0-9]{1,9}|[A-Za-z]))|\+[ \t]*[0-9]{1,9})?\.[ \t]+(?P<title>.*)",
    re.DOTALL,
)
"""`3–N. Title`, `N+1. Title`: a step, or several, of which the author did not know the number."""
_FALLBACK_HEADING = re.compile(r"([^ \t.]+)\.(?:[ \t]+(.*))?", re.DOTALL)
_SCOPED = re.compile(
    r"(?P<task>.*\S)[ \t]*\((?P<tool>[A-Za-z0-9_.-]+):[ \t]*(?P<operation>[A-Za-z0-9_.-]+(?:[ \t]+[A-Za-z0-9_.-]+)*)\)"
)


class Draft(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A step before it is read; a fallback step has the number 0, for no other step comes before it."""

    number: int
    line: int
    title: str
    id: StepId
    fields: Mapping[str, Field] = {}
    action: RunCommand | Task | None = None


def is_step_heading(block: Block) -> bool:
    """Whether the block would start a step if it stood under `## Steps`."""
    return isinstance(block, Heading) and block.level == 3 and _STEP_HEADING.fullmatch(block.text) is not None


def title_of_heading(line: str) -> str | None:
    """The title that a heading line of a plan or a step gives, or None where it would be refused."""
    heading = scan([line])[0]
    if not isinstance(heading, Heading) or "\n" in line or hides_text(heading.text):
        return None
    found = _FALLBACK_HEADING.fullmatch(heading.text) if heading.level == 3 else None
    return title_text((found[2] or "") if found else heading.text, 1, ProblemList())


# --- The full form -----------------------------------------------------------------------------------------------


def drafts_of_headings(blocks: Sequence[Block], names: FieldNames, problems: ProblemList) -> list[Draft]:
    """The steps of `### N. Title` headings and what stands below each; one more than allowed at most."""
    drafts: list[Draft] = []
    expected = 1
    for heading, body in _parts(blocks, problems):
        found = _STEP_HEADING.fullmatch(heading.text)
        given = int(found[1]) if found else expected
        fields = names.split(body, STEP_FIELDS, problems)
        title = title_text((found[2] or "") if found else heading.text, heading.line, problems)
        if not found or given != expected or not (title or _has_title(fields)):
            _wrong_heading(heading, expected, title, found is not None, problems)
        expected = given + 1
        drafts.append(_draft(len(drafts) + 1, heading.line, title, None, fields, problems))
    return drafts


def drafts_of_fallbacks(blocks: Sequence[Block], names: FieldNames, problems: ProblemList) -> list[Draft]:
    """The steps of `### id. Title` headings and what stands below each; one more than allowed at most."""
    drafts: list[Draft] = []
    for heading, body in _parts(blocks, problems):
        found = _FALLBACK_HEADING.fullmatch(heading.text)
        fault = id_fault(found[1]) if found else None
        fields = names.split(body, STEP_FIELDS, problems)
        title = title_text((found[2] or "") if found else heading.text, heading.line, problems)
        if not found or not (title or _has_title(fields)):
            detail = f"The heading `### {_shown(heading.text)}` is not that of a fallback step."
            problems.add("E_MD_HEADING", detail, "Write `### id. Title`.", line=heading.line)
        if fault:
            problems.add(*fault, "A fallback step's heading is `### id. Title`.", line=heading.line)
        step = StepId(found[1]) if found and not fault else slug(title, len(drafts) + 1)
        drafts.append(_draft(0, heading.line, title, step, fields, problems))
    return drafts


def _parts(blocks: Sequence[Block], problems: ProblemList) -> Iterator[tuple[Heading, Sequence[Block]]]:
    """The level-3 headings and what stands below each; what stands before the first belongs nowhere."""
    headings = [at for at, block in enumerate(blocks) if type(block) is Heading and block.level == 3]
    before = trimmed(blocks[: headings[0] if headings else len(blocks)])
    if before:
        hint = "A step starts with a heading, `### 1. Title`; text for readers goes into a section of its own."
        problems.add("E_DOC_SYNTAX", "This text belongs to no step.", hint, line=before[0].line)
    for start, end in zip(headings[: STEPS_MAX + 1], [*headings[1:], len(blocks)], strict=False):
        heading = blocks[start]
        assert isinstance(heading, Heading)
        yield heading, blocks[start + 1 : end]


def _shown(text: str) -> str:
    return text if len(text) <= 60 else text[:57] + "…"


def _has_title(fields: Sequence[Field]) -> bool:
    return any(field.name == "title" for field in fields)


def _wrong_heading(heading: Heading, expected: int, title: str, is_step: bool, problems: ProblemList) -> None:
    detail = f"The heading `### {_shown(heading.text)}` is not that of step {expected}."
    template = None if is_step else _TEMPLATE_HEADING.fullmatch(heading.text)
    title = template["title"] if template else title
    hints = [f"Write `### {expected}. {title[:60] or 'Title'}`; steps are numbered 1, 2, 3 … in order."]
    if template:
        several = template["last"] is not None
        hints.append(
            f"A heading is one step: write each out from `### {expected}. …` on, or one with `for_each` and `batch`."
            if several
            else "The number is that of the step's place, counted when all steps before it are written out."
        )
    elif not is_step:
        hints.append("Each step has its own heading; a heading inside a step's text has four `#` or more.")
    problems.add("E_MD_HEADING", detail, *hints, line=heading.line)


def _draft(
    number: int, line: int, title: str, step: StepId | None, split: Sequence[Field], problems: ProblemList
) -> Draft:
    """One step with its fields told apart and its id known; `step` is the id of a fallback, which its heading says."""
    fields: dict[str, Field] = {}
    strays: list[Block] = []
    again: list[Field] = []
    for field in split:
        if not field.name:
            strays += trimmed(field.body)[:1]
        elif field.name in fields:
            again.append(field)
        else:
            fields[field.name] = field
    if "title" in fields:
        title = title_line(fields["title"], problems)
    if step is None:
        step = _id(fields.get("id"), number, title, problems)
    elif "id" in fields:
        detail = f"The step's id is given twice: its heading says `{step}`."
        problems.add("E_DOC_DUPLICATE", detail, line=fields["id"].line)
    if strays or again:
        problems = problems.about(step, line)
        for block in strays:
            belongs_to_no_field([block], problems)
        for field in again:
            problems.add("E_DOC_DUPLICATE", f"`{field.name}` is given twice.", line=field.line)
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
    """The steps of a numbered list, each a command in a code span or a task; one more than allowed at most."""
    items: list[tuple[int, str, RunCommand | Task]] = []
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
        items.append((block.line, *_item(block.line, item[1], problems)))
        if len(items) > STEPS_MAX:
            break
    drafts: list[Draft] = []
    ids = distinct_slugs([title for _, title, _ in items])
    for number, (step, (line, title, action)) in enumerate(zip(ids, items, strict=True), 1):
        if not title.strip():
            problems.about(step, line).add("E_FIELD_VALUE", "The item says nothing to do.")
        drafts.append(Draft(number=number, line=line, title=title, id=step, action=action))
    return drafts


def names_work(block: Block) -> bool:
    """Whether a numbered item can only be meant as a step: a command, or a task scoped to a tool."""
    item = numbered(block)
    text = title_text(item[1], block.line, ProblemList()) if item else ""
    return code_span(text) is not None or _scoped(text) is not None


def _item(line: int, text: str, problems: ProblemList) -> tuple[str, RunCommand | Task]:
    text = title_text(text, line, problems)
    command = code_span(text)
    if command is not None:
        return command, RunCommand(command=command)
    scoped = _scoped(text)
    if scoped is None:
        return text, Task(task=text)
    tool = f"{scoped['tool']}:{' '.join(scoped['operation'].split())}"
    return scoped["task"], Task(task=scoped["task"], tools=(tool,))


def _scoped(text: str) -> re.Match[str] | None:
    return _SCOPED.fullmatch(text) if text.endswith(")") else None


def _refuse_in_list(block: Block, problems: ProblemList) -> None:
    if isinstance(block, Heading) and block.level == 3:
        hint = "Write all steps as a list, or all as `### 1. Title` headings under `## Steps`."
        problems.add("E_MD_HEADING", "There is a heading among the items of a list.", hint, line=block.line)
        return
    hints = (
        "Plan fields come before the list; a step with fields is written as `### 1. Title` under `## Steps`.",
        "Text for readers goes into a section of its own, such as `## Notes`.",
    )
    problems.add("E_DOC_SYNTAX", "This is neither an item of the list nor a section.", *hints, line=block.line)


def refuse_equal_ids(drafts: Sequence[Draft], problems: ProblemList) -> None:
    """Two steps can not have one id, whether it was given or made from a title."""
    lines: dict[StepId, int] = {}
    for draft in drafts:
        if draft.id in lines:
            detail = f"The id `{draft.id}` is already that of the step on line {lines[draft.id]}."
            hint = "Give this step an id of its own: `**id:** another-word`."
            if draft.action is not None:
                hint = "Write the steps as `### 1. Title` under `## Steps`, where each can have an `**id:**`."
            line = draft.fields["id"].line if "id" in draft.fields else draft.line
            problems.about(draft.id, line).add("E_STEP_ID", detail, hint)
        lines.setdefault(draft.id, draft.line)
