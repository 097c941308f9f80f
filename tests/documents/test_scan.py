"""The scanner agrees with CommonMark about headings and fences.

Compared with markdown-it-py on documents made of lines of our kind. Left out, because a line scanner differs there by
design: lists and quotes (their lines are text here), HTML blocks and underlined headings (refused among steps).
Indented code is in: an indented line is text here and code there, and never a heading or a fence for either.
"""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from ordain.documents.markdown.scan import Fence, Heading, Text, hides_text, opens_comment, scan, underlines
from tests.rows import each


def lines_of(text: str) -> list[str]:
    return text.split("\n")


@each(
    "line, level, text",
    [
        ("# Title", 1, "Title"),
        ("   ###### deep  ", 6, "deep"),
        ("##\ttab", 2, "tab"),
        ("# closed ##", 1, "closed"),
        ("# C#", 1, "C#"),
        ("#", 1, ""),
        ("### ###", 3, ""),
        ("# a # b #", 1, "a # b"),
        ("# escaped \\#", 1, "escaped \\#"),
    ],
)
def test_headings(line: str, level: int, text: str) -> None:
    assert scan([line]) == [Heading(1, 1, level, text)]


@pytest.mark.parametrize("line", ["#Title", "####### seven", "    # code", "\t# code", "\\# no", "a # b", ""])
def test_not_headings(line: str) -> None:
    assert scan([line]) == [Text(1, 1, line)]


def test_a_fence_swallows_structure() -> None:
    blocks = scan(lines_of("a\n```yaml title\n### 2. no\n~~~\n```` \n# yes"))
    assert blocks == [
        Text(1, 1, "a"),
        Fence(2, 5, "yaml title", ("### 2. no", "~~~"), True),
        Heading(6, 6, 1, "yes"),
    ]
    assert isinstance(blocks[1], Fence)
    assert blocks[1].language == "yaml"


def test_an_open_fence_reaches_the_end() -> None:
    assert scan(lines_of("~~~\n# a\n```\n")) == [Fence(1, 4, "", ("# a", "```", ""), False)]


def test_a_fence_is_dedented_by_its_own_indent() -> None:
    assert scan(lines_of("  ```\n    a\n b\n  ```")) == [Fence(1, 4, "", ("  a", "b"), True, 2)]


@pytest.mark.parametrize("line", ["``", "``` a`b", "    ```", "\t~~~"])
def test_not_fences(line: str) -> None:
    assert scan([line]) == [Text(1, 1, line)]


def test_start_leaves_lines_out_and_counts_them() -> None:
    assert scan(["---", "---", "# T"], 2) == [Heading(3, 3, 1, "T")]


def test_what_hides_text() -> None:
    assert hides_text("a <!-- b --> c")
    assert hides_text("  <script>")
    assert hides_text("<?php")
    assert hides_text("<![CDATA[")
    assert not hides_text("<b>bold</b> a < b")
    assert opens_comment("<!-- a --> <!-- b")
    assert not opens_comment("<!-- a -->")
    assert underlines("---  ")
    assert underlines(" =")
    assert not underlines("--- a")


indent = st.integers(0, 5).map(lambda count: " " * count)
words = st.text("ab #*`~\\:.", max_size=12)
line = st.one_of(
    st.just(""),
    st.builds("{}{}{}{}".format, indent, st.integers(1, 7).map("#".__mul__), st.sampled_from(["", " ", "\t"]), words),
    st.builds(
        "{}{}{}".format, indent, st.integers(2, 5).map("`".__mul__), st.sampled_from(["", " ", "yaml", "a`b", " a b "])
    ),
    st.builds(
        "{}{}{}".format, indent, st.integers(2, 5).map("~".__mul__), st.sampled_from(["", " ", "yaml", "a~b", " a b "])
    ),
    st.builds("{}**{}:** {}".format, indent, st.sampled_from(["run", "contract", "Note"]), words),
    st.builds("{}t{}".format, indent, words),
)


@given(st.lists(line, max_size=12))
def test_agrees_with_commonmark(lines: list[str]) -> None:
    tokens = MarkdownIt("commonmark").parse("".join(f"{text}\n" for text in lines))
    expected: list[tuple[int, object, object]] = []
    for at, token in enumerate(tokens):
        assert token.map is not None or token.nesting == -1
        if token.type == "heading_open" and token.map:
            expected.append((token.map[0] + 1, int(token.tag[1:]), tokens[at + 1].content))
        elif token.type == "fence" and token.map:
            expected.append((token.map[0] + 1, token.info.strip(), token.content))
    found: list[tuple[int, object, object]] = []
    for block in scan(lines):
        if isinstance(block, Heading):
            found.append((block.line, block.level, block.text))
        elif isinstance(block, Fence):
            found.append((block.line, block.info, "".join(f"{text}\n" for text in block.lines)))
    assert found == expected


@given(st.lists(st.text(st.characters(exclude_characters="\n"))))
def test_every_line_is_in_exactly_one_block(lines: list[str]) -> None:
    covered = [number for block in scan(lines) for number in range(block.line, block.end + 1)]
    assert covered == list(range(1, len(lines) + 1))
