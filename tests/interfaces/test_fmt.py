"""`ordain fmt` and `ordain schema`: what is printed, which lines of a file change, and what is never touched."""

from __future__ import annotations

import json
import os
import stat
from pathlib import Path

import jsonschema
import pytest

from tests.interfaces.workspace import Workspace
from tests.words import plan_id, read

FINE, REFUSED = 0, 2

ODD = """\
---
owner: kim   # the boss
---
#  Tidy up  ##

**context:**  Why not.

A note  \n\
of two lines.

##  Steps

###  1.  List it
**RUN:**   ls   -l
**on_failure:** skip

### 2. Look
**target:** coder
**task:**
  Look  at it.  \n\

```text
**RUN:**  no field  \n\
```

##  Risks  ##

-  None.  \n\
"""
CHANGED = {
    4: "# Tidy up",
    6: "**Context:** Why not.",
    11: "## Steps",
    13: "### 1. List it",
    14: "**run:** ls   -l",
    15: "**on_fail:** skip",
    18: "**agent:** coder",
}
YAML = """\
# Why it is done.
title: Tidy up   # short
steps:
  # First look,
  - action: {type: run, command: ls}   \n\
    description: |-  # one line
      List it
  - action: {type: run, command: "rm \\
      x"}
"""


def id_of(data: bytes) -> str:
    plan = read(data).plan
    assert plan is not None
    return plan_id(plan)


def lines_changed(before: bytes, after: bytes) -> dict[int, str]:
    old, new = before.decode().split("\n"), after.decode().split("\n")
    assert len(old) == len(new)
    return {number: now for number, (was, now) in enumerate(zip(old, new, strict=True), 1) if was != now}


# --- Printing --------------------------------------------------------------------------------------------------------


def test_prints_in_form_and_leaves_the_file(workspace: Workspace):
    file = workspace.write("odd.plan.md", ODD)
    done = workspace.ordain("fmt", "odd.plan.md")
    assert (done.status, done.err) == (FINE, "")
    assert lines_changed(ODD.encode(), done.out.encode()) == CHANGED
    assert file.read_text() == ODD


@pytest.mark.slow
def test_to_every_notation_and_back(workspace: Workspace):
    workspace.write("odd.plan.md", ODD)
    name, texts = "odd.plan.md", {}
    for notation in ("yaml", "json", "markdown", "yaml", "json"):
        done = workspace.ordain("fmt", name, "--to", notation)
        assert (done.status, done.err) == (FINE, "")
        name = f"plan.{notation}"
        workspace.write(name, done.out)
        document = read(done.out.encode())
        assert (document.notation, id_of(done.out.encode())) == (notation, id_of(ODD.encode()))
        assert document.record == {"": {"owner": "kim"}}
        assert document.notes == (("", "A note  \nof two lines."), ("Risks", "-  None.  "))
        assert texts.setdefault(notation, done.out) == done.out


def test_comments_of_yaml_stay_or_become_notes(workspace: Workspace):
    file = workspace.write("plan.yaml", YAML)
    comments = "Why it is done.\nshort\nFirst look,\none line"
    markdown = workspace.ordain("fmt", "plan.yaml", "--to", "markdown").out
    assert read(markdown.encode()).notes == (("", comments),)
    done = workspace.ordain("fmt", "-i", "plan.yaml")
    assert (done.status, done.out) == (FINE, "plan.yaml: 1 line changed: 5\n")
    assert lines_changed(YAML.encode(), file.read_bytes()) == {5: "  - action: {type: run, command: ls}"}
    assert read(file.read_bytes()).notes == (("", comments),)


def test_standard_input(workspace: Workspace):
    done = workspace.ordain("fmt", "-", stdin=b"#  T\n\n1. `ls`")
    assert (done.status, done.out, done.err) == (FINE, "# T\n\n1. `ls`\n", "")
    done = workspace.ordain("fmt", "-", "--to", "json", stdin=b"#  T\n\n1. `ls`")
    assert json.loads(done.out)["steps"][0]["action"] == {"type": "run", "command": "ls"}
    done = workspace.ordain("fmt", "-i", "-", stdin=b"# T\n\n1. `ls`")
    assert (done.status, done.out) == (REFUSED, "")
    done = workspace.ordain("fmt", "-", stdin=b"# T\n")
    assert (done.status, done.out) == (REFUSED, "")
    assert "standard input:1:1" in done.err


def test_warnings_go_to_the_other_stream(workspace: Workspace):
    workspace.write("warned.plan.md", "# T\n\n**Contxt:** why\n\n1. `ls`\n")
    done = workspace.ordain("fmt", "warned.plan.md")
    assert (done.status, done.out) == (FINE, "# T\n\n**Contxt:** why\n\n1. `ls`\n")
    assert "W_FIELD_UNKNOWN" in done.err
    assert "warned.plan.md:3:1" in done.err


def test_what_a_notation_can_not_hold_is_refused(workspace: Workspace):
    tree = {"title": "T", "agent": "not a name", "steps": [{"action": {"type": "run", "command": "a"}}]}
    workspace.write("plan.json", json.dumps(tree))
    done = workspace.ordain("fmt", "plan.json", "--to", "markdown")
    assert (done.status, done.out) == (REFUSED, "")
    assert "E_NAME" in done.err
    assert "It can not be written as markdown." in done.err


# --- In place --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mark", ["", "\ufeff"])
@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_in_place_changes_only_the_lines_it_must(workspace: Workspace, mark: str, end: str):
    text = (mark + ODD.replace("\n", end)).encode()
    file = workspace.path / "odd.plan.md"
    file.write_bytes(text)
    done = workspace.ordain("fmt", "-i", "odd.plan.md")
    assert (done.status, done.out) == (FINE, "odd.plan.md: 7 lines changed: 4, 6, 11, 13, 14, 15, 18\n")
    after = file.read_bytes()
    assert lines_changed(text, after) == {number: line + end[:-1] for number, line in CHANGED.items()}
    assert id_of(after) == id_of(text)


def test_in_place_adds_the_end_of_the_last_line(workspace: Workspace):
    file = workspace.write("plan.md", "# T\n\n1. `ls`")
    assert workspace.ordain("fmt", "-i", "plan.md").out == "plan.md: 1 line changed: 3\n"
    assert file.read_text() == "# T\n\n1. `ls`\n"


def test_what_is_in_form_is_not_touched(workspace: Workspace):
    file = workspace.path / "small.plan.md"
    os.utime(file, ns=(1, 1))
    before = file.stat()
    done = workspace.ordain("fmt", "-i", "small.plan.md")
    assert (done.status, done.out) == (FINE, "small.plan.md: in form\n")
    after = file.stat()
    assert (after.st_mtime_ns, after.st_ino) == (before.st_mtime_ns, before.st_ino)


@pytest.mark.part(of=4)
@pytest.mark.parametrize(
    "text",
    ["#  T\n\n1.  `ls`\n\nstray\n", "title: T  \nsteps: [*a]\n", '{"title": "T",  \n "steps": []}', "#  T\xff\n"],
)
def test_a_document_with_an_error_is_left_alone(workspace: Workspace, text: str):
    file = workspace.path / "bad.plan.md"
    file.write_bytes(text.encode("latin-1"))
    os.utime(file, ns=(1, 1))
    for arguments in (["-i"], ["--check"], ["--to", "yaml"], []):
        done = workspace.ordain("fmt", "bad.plan.md", *arguments)
        assert (done.status, done.out) == (REFUSED, "")
        assert "bad.plan.md:" in done.err
    assert (file.read_bytes(), file.stat().st_mtime_ns) == (text.encode("latin-1"), 1)


def test_mode_and_link_stay(workspace: Workspace):
    file = workspace.write("odd.plan.md", ODD)
    file.chmod(0o640)
    link = workspace.path / "link.plan.md"
    link.symlink_to("odd.plan.md")
    assert workspace.ordain("fmt", "-i", "link.plan.md").status == FINE
    assert link.readlink() == Path("odd.plan.md")
    assert lines_changed(ODD.encode(), file.read_bytes()) == CHANGED
    assert stat.S_IMODE(file.stat().st_mode) == 0o640
    left = {path.name for path in workspace.path.iterdir() if path.name.startswith(".")}
    assert left <= {".ordain"}


# --- Checking --------------------------------------------------------------------------------------------------------


def test_check(workspace: Workspace):
    file = workspace.write("odd.plan.md", ODD)
    done = workspace.ordain("fmt", "--check", "odd.plan.md")
    assert (done.status, done.out) == (REFUSED, "")
    assert "E_DOC_FORM odd.plan.md is not in form: 7 lines would change: 4, 6, 11, 13, 14, 15, 18." in done.err
    assert "ordain fmt -i odd.plan.md" in done.err
    assert file.read_text() == ODD
    done = workspace.ordain("fmt", "--check", "small.plan.md")
    assert (done.status, done.out) == (FINE, "small.plan.md: in form\n")


@pytest.mark.parametrize(
    "arguments", [["--to", "yaml", "-i"], ["--to", "yaml", "--check"], ["-i", "--check"], ["--to", "toml"]]
)
def test_what_does_not_go_together(workspace: Workspace, arguments: list[str]):
    done = workspace.ordain("fmt", "small.plan.md", *arguments)
    assert (done.status, done.out) == (REFUSED, "")
    assert "Usage: ordain fmt" in done.err


# --- Places of problems --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "text", "places"),
    [
        (
            "bad.plan.md",
            "# T\n\n**Timeout:** soon\n\n## Steps\n\n### 1. A\n\n**tool:** t\n**args:**\n```yaml\na:  no\n```\n",
            ["bad.plan.md:3:14: E_FIELD_VALUE", "bad.plan.md:12:5: E_YAML_AMBIGUOUS"],
        ),
        ("bad.yaml", "title: T\nsteps:\n  - action: {type: aks}\n", ["bad.yaml:3:14: E_STEP_ACTION"]),
        ("bad.json", '{"title": "T",\n "steps": [{"action": {"type": "aks"}}]}', ["bad.json:2:24: E_STEP_ACTION"]),
    ],
)
def test_lint_prints_line_and_column(workspace: Workspace, name: str, text: str, places: list[str]):
    workspace.write(name, text)
    done = workspace.ordain("lint", name)
    assert done.status == REFUSED
    assert [place for place in places if place not in done.out] == []


# --- Schemas ---------------------------------------------------------------------------------------------------------


def test_schema(workspace: Workspace):
    done = workspace.ordain("schema", "plan")
    assert (done.status, done.err) == (FINE, "")
    written = workspace.ordain("fmt", "small.plan.md", "--to", "json").out
    jsonschema.Draft202012Validator(json.loads(done.out)).validate(json.loads(written))
    done = workspace.ordain("schema", "plam")
    assert (done.status, done.out) == (REFUSED, "")
