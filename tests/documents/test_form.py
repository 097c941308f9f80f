"""A document in form: which lines change, and that nothing else does."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ordain.core.plan.canonical import plan_id
from ordain.core.plan.model import Plan
from ordain.documents.document import Document
from ordain.documents.format import changed_lines, formatted
from ordain.documents.markdown.writer import write_markdown
from ordain.documents.reading import read
from ordain.documents.tree_writer import write_json, write_yaml
from tests.documents.test_reading_anything import PIECES
from tests.plans import LINES, TEXTS, plans


def form(text: str) -> str:
    data = text.encode()
    document = read(data)
    assert document.plan is not None, document.problems
    made = formatted(data, document)
    assert isinstance(made, str)
    return made


def changes(text: str) -> dict[int, tuple[str, str]]:
    """The lines that formatting changes, by number, before and after."""
    made = form(text)
    old, new = text.split("\n"), made.split("\n")
    assert len(new) - len(old) in (0, 1)
    changed = {number: (was, now) for number, (was, now) in enumerate(zip(old, new, strict=False), 1) if was != now}
    assert set(changed) <= set(changed_lines(text, made))
    assert form(made) == made
    return changed


ODD = """\
---
owner: kim   # the boss  \n\
tools:   [shell]
---

#  Fix it   ##

**context:**   Why not,  \n\
says Kim.  \n\
**ON_FAILURE:**  abort
**Priority:** high

A note.  \n\
*   with items

##   Steps  ##

###  1.  First   \n\

**ID:**  one
**run:**    make   all
 **contract:**  test -f x
exit_code==2
   \n\

### 2. Second ###
**depends_on:** one
**target:** coder
**Task:**
  Look at  it  \n\

  **bold:** text  \n\

**criteria:**
- a   \n\
- b

**on_failure:** retry( 2 )

##  Fallbacks

### undo.   Undo
**run:**
```shell
  make clean  \n\
```

##  Risks  ##

-   None.  \n\
"""


def test_markdown_changes_in_spelling_only() -> None:
    assert changes(ODD) == {
        6: ("#  Fix it   ##", "# Fix it"),
        8: ("**context:**   Why not,  ", "**Context:** Why not,"),
        10: ("**ON_FAILURE:**  abort", "**On failure:** abort"),
        16: ("##   Steps  ##", "## Steps"),
        18: ("###  1.  First   ", "### 1. First"),
        20: ("**ID:**  one", "**id:** one"),
        21: ("**run:**    make   all", "**run:** make   all"),
        22: (" **contract:**  test -f x", "**contract:** test -f x"),
        23: ("exit_code==2", "exit_code == 2"),
        24: ("   ", ""),
        26: ("### 2. Second ###", "### 2. Second"),
        27: ("**depends_on:** one", "**needs:** one"),
        28: ("**target:** coder", "**agent:** coder"),
        29: ("**Task:**", "**task:**"),
        35: ("- a   ", "- a"),
        38: ("**on_failure:** retry( 2 )", "**on_fail:** retry( 2 )"),
        40: ("##  Fallbacks", "## Fallbacks"),
        42: ("### undo.   Undo", "### undo. Undo"),
    }


@pytest.mark.parametrize("mark", ["", "\ufeff"])
@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_line_ends_and_byte_order_mark_stay(mark: str, end: str) -> None:
    text = f"{mark}#  T{end}{end}1.  `a`{end}2. `b`"
    assert form(text) == f"{mark}# T{end}{end}1. `a`{end}2. `b`{end}"
    assert changed_lines(text, form(text)) == (1, 3, 4)
    yaml = f"{mark}title: T  {end}# why{end}steps:{end}- action: {{type: run, command: a}}  "
    assert form(yaml) == f"{mark}title: T{end}# why{end}steps:{end}- action: {{type: run, command: a}}{end}"


YAML = """\
# A plan.  \n\
title: T   # the title \t
steps:
  - action:   {type: run, command: "a
      b  "}  \n\
    description: 'one  \n\
      two'
  - action:
      type: run
      command: |+   # kept  \n\
        make  \n\
      \n\
    when: >-
      a  \n\
      b
"""


def test_yaml_loses_white_space_at_the_end_of_lines_only() -> None:
    assert changes(YAML) == {
        1: ("# A plan.  ", "# A plan."),
        2: ("title: T   # the title \t", "title: T   # the title"),
        5: ('      b  "}  ', '      b  "}'),
        10: ("      command: |+   # kept  ", "      command: |+   # kept"),
    }


def test_a_text_that_ends_with_the_document_stays() -> None:
    text = "title: T\nsteps:\n- action:\n    type: run\n    command: |\n      make"
    assert form(text) == text
    assert form(text + "\n") == text + "\n"


def test_json() -> None:
    text = '{"title": "T",  \n "steps": [\n\n{"action": {"type": "run", "command": "a  "}}]}\t'
    assert form(text) == '{"title": "T",\n "steps": [\n\n{"action": {"type": "run", "command": "a  "}}]}\n'


def test_comments_of_yaml_become_notes_of_markdown() -> None:
    text = "# Why  \n# and how\ntitle: T # short\nsteps:\n# First:\n# 1. `make`\n- action: {type: run, command: a}\n"
    data = text.encode()
    made = formatted(data, read(data), "markdown")
    assert isinstance(made, str)
    assert read(made.encode()).notes == (("", "```text\nWhy\nand how\nshort\nFirst:\n1. `make`\n```"),)
    assert formatted(made.encode(), read(made.encode()), "markdown") == made


def test_what_markdown_can_not_hold_is_a_problem() -> None:
    data = b'{"title": "T", "agent": "not a name", "steps": [{"action": {"type": "run", "command": "a"}}]}'
    made = formatted(data, read(data), "markdown")
    assert isinstance(made, tuple)
    assert [problem.code for problem in made] == ["E_NAME"]


def test_a_document_with_an_error_is_never_formatted() -> None:
    with pytest.raises(ValueError, match="never written"):
        formatted(b"# T\n", read(b"# T\n"))


# --- Whatever the document -------------------------------------------------------------------------------------------


def holds(text: str) -> None:
    """Formatting keeps plan, notes and record, changes no line twice, and adds no line but the last one's end."""
    data = text.encode("utf-8", "surrogatepass")
    document = read(data)
    if document.plan is None:
        return
    made = formatted(data, document)
    assert isinstance(made, str)
    again = read(made.encode())
    assert again.plan is not None
    assert plan_id(again.plan) == plan_id(document.plan)
    assert (again.notes, again.record) == (document.notes, document.record)
    assert made.count("\n") - text.count("\n") in (0, 1)
    assert formatted(made.encode(), again) == made


@given(st.lists(st.sampled_from(PIECES) | LINES.map("{}\n".format) | st.text(" \t\n*:#", max_size=6), max_size=20))
def test_any_pieces_of_markdown(pieces: list[str]) -> None:
    text = "".join(pieces)
    holds(f"# T\n\n1. `a`\n{text}")
    holds(f"# T\n\n{text}\n## Steps\n\n### 1. A\n\n**run:** a\n")
    holds(f"# T\n\n## Steps\n\n### 1. A\n\n**task:** a\n{text}")


@given(plans(), st.lists(st.tuples(LINES, TEXTS), max_size=2))
def test_what_is_written_is_in_form(plan: Plan, notes: list[tuple[str, str]]) -> None:
    for write in (write_markdown, write_yaml, write_json):
        text = write(Document(plan=plan, notes=tuple(notes)))
        assert form(text) == text


@given(plans(), st.lists(st.integers(0, 200), max_size=5), st.sampled_from([" ", "\t", "  # c ", ""]))
def test_white_space_and_comments_in_trees(plan: Plan, places: list[int], odd: str) -> None:
    for write in (write_yaml, write_json):
        lines = write(plan).split("\n")
        for place in places:
            lines[place % len(lines)] += odd
        holds("\n".join(lines))
