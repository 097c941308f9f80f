"""The outline of a Markdown document: its title, what stands under it, and its sections. From the title to the last
step a Markdown view must show what is read, so comments, raw HTML and underlined headings are refused where they could
hide a step."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import pairwise

import msgspec

from ordain.core.text.limit import STRING_BYTES_MAX, string_fault
from ordain.documents.document import ProblemList
from ordain.documents.markdown.scan import Block, Fence, Heading, Text, hides_text, opens_comment, trimmed, underlines

_ITEM = re.compile(r" {0,3}([0-9]{1,9})\.(?:[ \t]+(.*))?", re.DOTALL)
_MARK_STARTS = ("\\", "✅", "[")
_MARK = re.compile(r"(?P<kept>\\*)(?P<mark>✅\ufe0f?|\[[ xX]\](?=[ \t]|$))[ \t]*")


class Section(msgspec.Struct, frozen=True, kw_only=True):
    """A level-2 heading and everything up to the next one."""

    heading: Heading
    blocks: Sequence[Block]


class Outline(msgspec.Struct, frozen=True, kw_only=True):
    """A document in its parts; `before` holds what stands above the title, `top` what stands below it."""

    title: Heading | None
    before: Sequence[Block]
    top: Sequence[Block]
    sections: tuple[Section, ...]

    def named(self, name: str) -> tuple[Section, ...]:
        return tuple(section for section in self.sections if section.heading.text == name)


def outline_of(blocks: Sequence[Block], problems: ProblemList) -> Outline:
    """The outline of these blocks; a missing title, a second one and an open fence are problems."""
    high = [at for at, block in enumerate(blocks) if type(block) is Heading and block.level <= 2]
    title_at = next((at for at in high if _level(blocks[at]) == 1), None)
    last = blocks[-1] if blocks else None
    if isinstance(last, Fence) and not last.closed:
        hint = "Close it with a line of the same marks; everything below is inside it now."
        problems.add("E_MD_FENCE", "The fence that starts here is never closed.", hint, line=last.line)
    starts = [at for at in high if _level(blocks[at]) == 2 and at > (-1 if title_at is None else title_at)]
    if title_at is None:
        problems.add("E_DOC_SYNTAX", "The document has no title.", "Start with `# What is to be done`.", line=1)
    for at in high:
        if at != title_at and _level(blocks[at]) == 1:
            hint = "Use `##` for sections; a plan has one title."
            problems.add("E_MD_HEADING", "This is a second title.", hint, line=blocks[at].line)
    top_at = 0 if title_at is None else title_at + 1
    sections = []
    for start, end in pairwise([*starts, len(blocks)]):
        heading = blocks[start]
        if isinstance(heading, Heading):
            sections.append(Section(heading=heading, blocks=blocks[start + 1 : end]))
    title = None if title_at is None else blocks[title_at]
    return Outline(
        title=title if isinstance(title, Heading) else None,
        before=trimmed(blocks[: title_at or 0]),
        top=blocks[top_at : starts[0] if starts else len(blocks)],
        sections=tuple(sections),
    )


def title_text(text: str, line: int, problems: ProblemList) -> str:
    """A title without its mark of progress; a backslash before a mark keeps it."""
    found = _MARK.match(text) if text[:1] in _MARK_STARTS else None
    if found:
        text = text[1:] if found["kept"] else text[found.end() :]
    # The document's own text has no forbidden characters; only its length is to be looked at.
    fault = string_fault(text) if len(text) > STRING_BYTES_MAX // 4 else None
    if fault:
        problems.add(*fault, line=line)
    return text.strip()


def escaped_title(title: str) -> str:
    """A title as a heading has it: a backslash keeps what would be taken for a mark of progress."""
    return f"\\{title}" if _MARK.match(title) else title


def item_start(blocks: Sequence[Block]) -> int | None:
    """Where a numbered list starts, or None; only `1.` may follow a line of text directly."""
    in_paragraph = False
    for at, block in enumerate(blocks):
        if isinstance(block, Text):
            item = numbered(block)
            if item is not None and (item[0] == "1" or not in_paragraph):
                return at
            in_paragraph = not block.blank
        else:
            in_paragraph = False
    return None


def numbered(block: Block) -> tuple[str, str] | None:
    """Number and text of a list item that starts on this line."""
    found = _ITEM.fullmatch(block.text) if isinstance(block, Text) else None
    return (found[1], (found[2] or "").strip()) if found else None


def refuse_hidden(blocks: Sequence[Block], problems: ProblemList) -> None:
    """In titles and inside Steps: refuse what a Markdown view would hide or show as something else."""
    before: Block | None = None
    for block in blocks:
        if not isinstance(block, Fence) and hides_text(block.text):
            _hidden("There is an HTML comment or raw HTML here", block.line, problems)
        elif isinstance(block, Text) and isinstance(before, Text) and not before.blank and underlines(block.text):
            _hidden("A line of `-` or `=` makes a heading of the line above it", block.line, problems)
        before = block


def refuse_hiding(blocks: Sequence[Block], problems: ProblemList) -> None:
    """Before Steps: refuse only what would hide the lines after it; a comment on one line is harmless here."""
    for block in blocks:
        if isinstance(block, Text) and opens_comment(block.text):
            _hidden("What starts here would hide the lines after it", block.line, problems)


def _hidden(detail: str, line: int, problems: ProblemList) -> None:
    hint = "Delete it; text that must stay as it is goes into a fence."
    problems.add("E_MD_HIDDEN", f"{detail}: a Markdown view would not show what is read.", hint, line=line)


def _level(block: Block) -> int:
    return block.level if isinstance(block, Heading) else 0
