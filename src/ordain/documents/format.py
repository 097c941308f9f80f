"""A document in form, or in another notation, with the proof that it still says the same."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from itertools import pairwise

from ordain.core.plan.canonical import plan_id
from ordain.core.text.problem import Problem
from ordain.documents.document import Document, Notation, ProblemList
from ordain.documents.include import Fetch
from ordain.documents.markdown.field import FieldNames
from ordain.documents.markdown.front_matter import read_front_matter
from ordain.documents.markdown.outline import item_start, numbered, outline_of
from ordain.documents.markdown.scan import Block, Heading, Text, scan, trimmed
from ordain.documents.markdown.table import PLAN_FIELDS, STEP_FIELDS
from ordain.documents.markdown.writer import write_markdown
from ordain.documents.reading import read
from ordain.documents.tree_writer import write_json, write_yaml
from ordain.documents.yaml import open_lines

# --- Edit ------------------------------------------------------------------------------------------------------------
# A document is put into form by editing the spelling of single lines: names of fields, white space at the end of lines
# and around names, closing marks of headings. Text inside a task, a fence or a note is never touched.

_Edit = tuple[int, str]
"""A line number, from one, and the line that is to stand there."""
_PROSE = ("task", "instructions", "title")
_EXPECTED = re.compile(r"(exit_code|stdout)[ \t]*(==|=~)[ \t]*(.*)", re.DOTALL)


def in_form(text: str, notation: Notation) -> str:
    """The text of a document that reads without errors, in form; line ends and a byte order mark stay as they are."""
    mark = "\ufeff" if text.startswith("\ufeff") else ""
    whole = text.removeprefix("\ufeff").split("\n")
    lines = [line.removesuffix("\r") for line in whole]
    ends = [line[len(bare) :] for line, bare in zip(whole, lines, strict=True)]
    for number, line in _EDITS[notation](lines):
        lines[number - 1] = line
    if lines[-1] and not (notation == "yaml" and len(lines) in open_lines("\n".join(lines))):
        lines, ends[-1:] = [*lines, ""], [ends[0], ""]
    return mark + "\n".join(map(str.__add__, lines, ends))


def _markdown(lines: Sequence[str]) -> Iterator[_Edit]:
    problems = ProblemList()
    front = read_front_matter(lines, problems)
    outline = outline_of(scan(lines, front.end if front else 0), problems)
    if outline.title:
        yield from _heading(outline.title, outline.title.text)
    top: Sequence[Block] = outline.top
    if not outline.named("Steps"):
        start = item_start(top)
        if start is not None:
            yield from _items(top[start:])
            top = top[:start]
    yield from _plan_fields(top)
    for section in outline.sections:
        if section.heading.text in ("Steps", "Fallbacks"):
            yield from _heading(section.heading, section.heading.text)
            first = trimmed(section.blocks)[:1]
            is_list = bool(first) and numbered(first[0]) is not None
            yield from _items(section.blocks) if is_list else _steps(section.blocks)


def _heading(heading: Heading, text: str) -> Iterator[_Edit]:
    line = f"{'#' * heading.level} {text}"
    again = scan([line])[0]
    if isinstance(again, Heading) and again.text == text:
        yield heading.line, line


def _plan_fields(blocks: Sequence[Block]) -> Iterator[_Edit]:
    names, problems = FieldNames(), ProblemList()
    for block in blocks:
        found = names.line(block, PLAN_FIELDS, problems)
        if found is not None and found.name:
            yield block.line, f"**{PLAN_FIELDS.shown(found.name)}:** {found.value}".rstrip()


def _items(blocks: Sequence[Block]) -> Iterator[_Edit]:
    for block in blocks:
        item = numbered(block)
        if item is not None:
            yield block.line, f"{item[0]}. {item[1]}"
        elif isinstance(block, Text) and block.blank:
            yield block.line, ""


def _steps(blocks: Sequence[Block]) -> Iterator[_Edit]:
    names, problems = FieldNames(), ProblemList()
    starts = [at for at, block in enumerate(blocks) if isinstance(block, Heading) and block.level == 3]
    yield from _blank_lines(blocks[: starts[0]] if starts else blocks)
    for start, end in pairwise([*starts, len(blocks)]):
        heading = blocks[start]
        if isinstance(heading, Heading):
            number, _, title = heading.text.partition(".")
            yield from _heading(heading, f"{number}. {title.strip()}")
        for field in names.split(blocks[start + 1 : end], STEP_FIELDS, problems):
            if field.name:
                yield field.line, f"**{field.name}:** {field.inline}".rstrip()
            if field.name not in _PROSE:
                yield from _body(field.name, field.body)
            else:
                text = trimmed(field.body)
                last = text[-1].line if text else 0
                yield from _blank_lines([block for block in field.body if block.line > last])


def _body(name: str, blocks: Sequence[Block]) -> Iterator[_Edit]:
    """The lines below a field whose value is no prose: lists, blank lines, what a contract expects."""
    for block in blocks:
        if isinstance(block, Text):
            line = block.text.rstrip()
            expected = _EXPECTED.fullmatch(line.strip()) if name == "contract" else None
            if expected:
                line = f"{expected[1]} {expected[2]} {expected[3]}"
            yield block.line, line


def _blank_lines(blocks: Sequence[Block]) -> Iterator[_Edit]:
    for block in blocks:
        if isinstance(block, Text) and block.blank:
            yield block.line, ""


def _without_ends(lines: Sequence[str], left: Collection[int] = ()) -> Iterator[_Edit]:
    return ((number, line.rstrip(" \t")) for number, line in enumerate(lines, 1) if number not in left)


_EDITS: Mapping[Notation, Callable[[Sequence[str]], Iterator[_Edit]]] = {
    "markdown": _markdown,
    "json": _without_ends,  # no text of JSON goes over the end of a line
    "yaml": lambda lines: _without_ends(lines, open_lines("\n".join(lines))),
}


# --- Form ------------------------------------------------------------------------------------------------------------

_WRITERS = {"markdown": write_markdown, "yaml": write_yaml, "json": write_json}


def formatted(
    data: bytes, document: Document, to: Notation | None = None, fetch: Fetch | None = None
) -> str | tuple[Problem, ...]:
    """The text of a document in form, in its own notation, where only lines that are not in form change, or in another
    one, where what it includes stands in it; `document` is what was read from `data`. Problems are given where the plan
    can not be written in that notation. What reads back as another plan than it was is never given out."""
    if document.plan is None:
        raise ValueError("a document that could not be read is never written")
    # What is in a dialect is in none of the notations; being told one, it is turned into it.
    same = to is None or (to == document.notation and document.dialect is None)
    text = in_form(data.decode(), document.notation) if same else _WRITERS[to or document.notation](document)
    again = read(text.encode(), fetch=fetch)
    if again.plan is None:
        return again.problems
    if plan_id(again.plan) != plan_id(document.plan):
        raise RuntimeError("the formatted document says something else than the document")
    if again.record != document.record or (same and again.notes != document.notes):
        raise RuntimeError("the formatted document lost something that is beside the plan")
    return text


def written(document: Document, notation: Notation) -> str | tuple[Problem, ...]:
    """The text of a document that nobody wrote yet, with the proof that it says its plan; problems where it can not."""
    text = _WRITERS[notation](document)
    again = read(text.encode())
    if again.plan is None or document.plan is None:
        return again.problems
    if plan_id(again.plan) != plan_id(document.plan):
        raise RuntimeError("the document as it was written says something else than its plan")
    return text


def changed_lines(before: str, after: str) -> tuple[int, ...]:
    """The numbers of the lines that formatting in the same notation changed; a line end added at the end is one."""
    old, new = before.split("\n"), after.split("\n")
    pairs = enumerate(zip(old, new, strict=False), 1)
    changed = [number for number, (was, now) in pairs if was != now]
    return tuple(changed if len(old) == len(new) else sorted({*changed, len(old)}))
