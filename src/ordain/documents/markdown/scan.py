"""Lines of Markdown to headings, fences and text, as CommonMark tells them apart at the top level of a document. Lists,
quotes, indented code and HTML stay the text lines they are made of: the reader refuses them where they could hide
something."""

from __future__ import annotations

import re
from collections.abc import Sequence

import msgspec


class Heading(msgspec.Struct, frozen=True, gc=False):
    """`## text`; the line is given as it stands in the document."""

    line: int
    end: int
    level: int
    text: str


class Fence(msgspec.Struct, frozen=True, gc=False):
    """A fenced block; `info` follows the opening marks, `indent` was taken from the lines inside as well."""

    line: int
    end: int
    info: str
    lines: tuple[str, ...]
    closed: bool
    indent: int = 0

    @property
    def content(self) -> str:
        return "\n".join(self.lines)

    @property
    def language(self) -> str:
        """The first word of the info string, which names the notation of the content."""
        return self.info.split()[0].lower() if self.info.strip() else ""


class Text(msgspec.Struct, frozen=True, gc=False):
    """One line that is neither heading nor fence; blank lines too."""

    line: int
    end: int
    text: str

    @property
    def blank(self) -> bool:
        return not self.text or self.text.isspace()


Block = Heading | Fence | Text

_FENCE = re.compile(r"( {0,3})(`{3,}|~{3,})(.*)", re.DOTALL)
_HEADING = re.compile(r" {0,3}(#{1,6})(?![^ \t])(.*)", re.DOTALL)
_SPANS = re.compile("`+")
_UNDERLINE = re.compile(r" {0,3}(?:=+|-+)[ \t]*")
_UNDERLINES = re.compile(r"^ {0,3}(?:=+|-+)[ \t]*$", re.MULTILINE)
_HIDING_HTML = re.compile(
    r" {0,3}<(?:\?|![A-Za-z]|!\[CDATA\[|(?:script|pre|style|textarea)(?:[ \t>]|$))", re.IGNORECASE
)


def scan(lines: Sequence[str], start: int = 0) -> list[Block]:
    """The blocks from line index `start` on; line numbers count from one over all of `lines`."""
    blocks: list[Block] = []
    append = blocks.append
    at, count = start, len(lines)
    while at < count:
        line = lines[at]
        at += 1
        first = line[:1]
        if first == " ":
            first = line.lstrip(" ")[:1]
        block: Block | None = None
        if first == "#":
            block = _heading(line, at - 1)
        elif first == "`" or first == "~":
            block = _fence(lines, at - 1)
            at = block.end if block else at
        append(block or Text(at, at, line))
    return blocks


def blank(block: Block) -> bool:
    """Whether the block is an empty line."""
    return isinstance(block, Text) and block.blank


def trimmed(blocks: Sequence[Block]) -> Sequence[Block]:
    """The blocks without the blank lines around them."""
    first, last = 0, len(blocks)
    while first < last and blank(blocks[first]):
        first += 1
    while last > first and blank(blocks[last - 1]):
        last -= 1
    return blocks[first:last]


def underlines(line: str) -> bool:
    """Whether the line would make the paragraph above it a heading."""
    return _UNDERLINE.fullmatch(line) is not None


def may_hide(text: str) -> bool:
    """Whether some line of a text may hide others or make a heading of another; most texts are done with by this."""
    return "<" in text or _UNDERLINES.search(text) is not None


def hides_text(line: str) -> bool:
    """Whether a Markdown view would not show from here on what this reader sees: comments and raw HTML."""
    return "<" in line and ("<!--" in line or _HIDING_HTML.match(line) is not None)


def opens_comment(line: str) -> bool:
    """Whether the line hides what follows it: raw HTML, or a comment that does not end on its line."""
    _, mark, after = line.rpartition("<!--")
    return _HIDING_HTML.match(line) is not None or (mark != "" and "-->" not in after)


def code_span(text: str) -> str | None:
    """The content of a text that is exactly one code span, or None."""
    if not text.startswith("`"):
        return None
    marks = "`" * (len(text) - len(text.lstrip("`")))
    content = text[len(marks) : -len(marks)] if marks else ""
    if not content or not text.endswith(marks) or content[-1] == "`" or marks in _SPANS.findall(content):
        return None
    if content.startswith(" ") and content.endswith(" ") and content.strip(" "):
        content = content[1:-1]
    return content


def _heading(line: str, at: int) -> Heading | None:
    found = _HEADING.fullmatch(line)
    if found is None:
        return None
    text = found[2].strip(" \t")
    without_marks = text.rstrip("#")
    if not without_marks or without_marks[-1] in " \t":
        text = without_marks.rstrip(" \t")
    return Heading(at + 1, at + 1, len(found[1]), text)


def _fence(lines: Sequence[str], at: int) -> Fence | None:
    found = _FENCE.fullmatch(lines[at])
    if found is None or (found[2][0] == "`" and "`" in found[3]):
        return None
    indent, mark = len(found[1]), found[2]
    content: list[str] = []
    for below in range(at + 1, len(lines)):
        line = lines[below]
        if _closes(line, mark):
            return Fence(at + 1, below + 1, found[3].strip(" \t"), tuple(content), True, indent)
        spaces = len(line) - len(line.lstrip(" "))
        content.append(line[min(indent, spaces) :])
    return Fence(at + 1, len(lines), found[3].strip(" \t"), tuple(content), False, indent)


def _closes(line: str, mark: str) -> bool:
    bare = line.strip(" \t")
    if len(bare) < len(mark) or bare.strip(mark[0]):
        return False
    # Indented by four or more (or by a tab) the marks are content.
    return len(line) - len(line.lstrip(" ")) <= 3 and not line.lstrip(" ").startswith("\t")
