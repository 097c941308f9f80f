"""What is known of a plan before anybody approves it."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from tests.interfaces.workspace import Workspace
from tests.programs import need
from tests.words import FINE, REFUSED, Channel, Principal, open_at_terminal

EDIT = """\
# Edit

## Steps

### 1. Change it

**id:** change
**tool:** edit_file
**args:**
```yaml
path: notes.txt
old: "{old}"
new: x
```
"""
BEFORE = """\

### 1. Write it

**id:** make
**run:** make notes
"""


def warned(workspace: Workspace, text: str) -> list[str]:
    """The warnings of a document about what it edits, at both doors."""
    workspace.write("edit.plan.md", text)
    problems = json.loads(workspace.ordain("robot", "lint", "edit.plan.md").out)["problems"]
    found = [one["detail"] for one in problems if one["code"] == "W_EDIT_TEXT"]
    shown = workspace.ordain("lint", "edit.plan.md")
    assert (shown.status, shown.out.count("W_EDIT_TEXT")) == (FINE, len(found))
    return found


def test_the_text_that_an_edit_replaces_is_looked_for_beforehand(workspace: Workspace) -> None:
    workspace.write("notes.txt", "one\ntwo\ntwo\n")
    for old, times in (("one", None), ("two", 2), ("three", 0)):
        found = warned(workspace, EDIT.replace("{old}", old))
        wanted = f"`change` replaces a text that occurs {times} times in `notes.txt`, not once: the edit would fail."
        assert found == ([wanted] if times is not None else []), old
    assert "W_EDIT_TEXT" in workspace.ordain("prepare", "edit.plan.md").out


def test_where_a_step_before_may_change_the_file_it_is_not_known_yet(workspace: Workspace) -> None:
    workspace.write("notes.txt", "one\n")
    text = EDIT.replace("{old}", "three").replace("### 1. Change", "### 2. Change")
    write = "**tool:** write_file\n**args:**\n```yaml\npath: FILE\ncontent: three\n```"
    for step, known in (
        ("**run:** make notes", False),
        (write.replace("FILE", "notes.txt"), False),
        (write.replace("FILE", "other.txt"), True),
    ):
        before = BEFORE.replace("**run:** make notes", step)
        assert bool(warned(workspace, text.replace("## Steps\n", f"## Steps\n{before}"))) == known, step


def test_nothing_is_said_of_what_stands_in_files_that_hold_secrets(workspace: Workspace) -> None:
    for name in (".env", ".git/config"):
        file = Path(workspace.path, name)
        file.parent.mkdir(exist_ok=True)
        file.write_text("TOKEN=hunter2hunter2\n")
        for old in ("hunter2", "nothing"):
            text = EDIT.replace("{old}", old).replace("notes.txt", name)
            workspace.write("edit.plan.md", text)
            assert "W_EDIT_TEXT" not in workspace.ordain("lint", "edit.plan.md").out


# --- Preconditions and contracts -------------------------------------------------------------------------------------

BEFOREHAND = """\
# Known beforehand

**preconditions:**
```yaml
- {type: lock_available, lock_name: deploy}
```

## Steps

### 1. Write it

**id:** write
**run:** echo hello > out.txt
**contract:** grep -x hello out.txt

### 2. Look at what is there

**id:** there
**run:** cat README.md
**contract:** grep -x there README.md >/dev/null

### 3. Ask for much

**id:** much
**run:** echo much
**contract:** test -s much
**preconditions:**
```yaml
- {type: custom, name: odd, expression: 1 == 2}
- {type: custom, name: later, expression: 'steps["write"].exit_code == 0'}
```
"""


NO = [("Type yes", "no"), ("Withdraw it", "")]


@pytest.mark.parametrize("verb", ["run", "approve"])
def test_a_person_sees_what_holds_before_they_decide(workspace: Workspace, verb: str) -> None:
    need("bwrap")
    workspace.write("README.md", "there\n")
    workspace.write("known.plan.md", BEFOREHAND)
    assert workspace.ordain("prepare", "known.plan.md").status == FINE
    seen = workspace.at_terminal(verb, "known.plan.md", answers=NO[: 1 + (verb == "run")], env={"NO_COLOR": "1"})
    assert seen.status == REFUSED and not (workspace.path / "out.txt").exists()
    shown = " ".join(seen.out.split())
    for words in (
        "preconditions: 1 FAIL, 1 PASS, 1 not known yet",
        'FAIL "odd": 1 == 2: step 3 would fail now',
        "contracts: 1 holds already (2) and would prove nothing, 2 do not hold yet",
    ):
        assert words in shown, seen.out


@pytest.mark.slow("it takes as long as a person is kept waiting")
def test_nobody_waits_long_for_what_is_known(workspace: Workspace) -> None:
    need("bwrap")
    workspace.write("known.plan.md", BEFOREHAND.replace("test -s much", "sleep 987.25"))
    seen = workspace.at_terminal("run", "known.plan.md", answers=NO, env={"NO_COLOR": "1"})
    assert "2 do not hold yet, 1 not known yet it took over 3 s" in " ".join(seen.out.split())
    assert not any(b"987.25" in one.read_bytes() for one in Path("/proc").glob("[0-9]*/cmdline") if one.exists())


def test_for_robots_and_scripts_nothing_of_a_plan_is_executed(workspace: Workspace) -> None:
    touched = BEFOREHAND.replace("grep -x hello out.txt", "echo seen > /tmp/ordain-known-$$; test -s x")
    before = set(Path("/tmp").glob("ordain-known-*"))
    workspace.write("known.plan.md", touched)
    for words in (("robot", "prepare", "known.plan.md"), ("robot", "show", "known.plan.md")):
        data = json.loads(workspace.ordain(*words).out)["data"]
        known = data.get("review", data)["known"]
        assert [one["answer"] for one in known["preconditions"]] == ["not_known_yet"] * 3
        assert (known["unknown"], known.get("holding"), known.get("looked")) == (3, None, None)
    assert "Known now" not in workspace.ordain("show", "known.plan.md").out
    assert set(Path("/tmp").glob("ordain-known-*")) == before


def test_the_verb_itself_looks_for_a_person_only(workspace: Workspace) -> None:
    app = open_at_terminal(workspace.path)
    review = app.plans.review_document(BEFOREHAND.encode())
    for channel in Channel:
        known = asyncio.run(app.plans.known(review, Principal(name="kim", channel=channel))).known
        answers = [one.answer.value for one in known.preconditions]
        person = channel is Channel.TERMINAL
        assert answers == (["pass", "fail", "not_known_yet"] if person else ["not_known_yet"] * 3), channel
        assert known.looked is person
    asyncio.run(app.close())


def test_a_plan_that_could_not_start_says_so(workspace: Workspace) -> None:
    workspace.write("held.plan.md", BEFOREHAND.replace("lock_available, lock_name", "lock_held, lock_name"))
    seen = workspace.at_terminal("run", "held.plan.md", answers=NO, env={"NO_COLOR": "1"})
    assert "FAIL the lock deploy is held: the plan could not start now" in " ".join(seen.out.split())


def test_what_policy_denies_is_not_looked_at(workspace: Workspace) -> None:
    need("bwrap")
    workspace.write("README.md", "there\n")
    workspace.write("known.plan.md", BEFOREHAND)
    workspace.trust('[policy]\nask = ["shell"]\ndeny = ["rule:looks"]\n\n[rules.looks]\ntools = ["shell"]\n'
                    'where = { program = "grep" }\nmatches = ["$ grep a b"]\n')  # fmt: skip
    refused = workspace.at_terminal("run", "known.plan.md", env={"NO_COLOR": "1"})
    assert refused.status == REFUSED and "Known now" not in refused.out
