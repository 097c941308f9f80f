"""A corpus of bad plans, each handed in by a planner that mends it only where our feedback names its code and a line.

It knows nothing else of what is wrong: were a code or a line left out of what we send back, it would hand in the same
plan again, and be stopped. So each row shows that the feedback tells enough.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.planner.planners import BY, SETTINGS, Asking, codes, submits
from tests.twins.model import ScriptedModel, calls, says
from tests.words import DraftEnd, ModelTurn, Planned, PlanRequest, StopReason, ToolUse

GOOD = """\
# Raise the version

## Steps

### 1. Raise the version

**id:** raise
**tool:** edit_file
**args:**
```yaml
path: VERSION
old: "1.0.0"
new: "1.1.0"
```
**contract:** grep -Fx 1.1.0 VERSION

### 2. Build the archive

**id:** build
**run:** tar -czf all.tar.gz VERSION
**contract:** tar -tzf all.tar.gz | grep -Fx VERSION
"""
ARGS = 'path: VERSION\nold: "1.0.0"\nnew: "1.1.0"\n'
CALL = f"**tool:** edit_file\n**args:**\n```yaml\n{ARGS}```\n"
RUN, CHECK = "tar -czf all.tar.gz VERSION", "tar -tzf all.tar.gz | grep -Fx VERSION"
JSON = '{"title": "T", "steps": [{"id": "a", "description": "A", "action": {"type": "run", "command": "touch a"}}]}'


def but(old: str, new: str) -> str:
    assert GOOD.count(old) == 1, old
    return GOOD.replace(old, new)


def needing(**needs: str) -> str:
    """The good plan with these needs."""
    text = GOOD
    for step, names in needs.items():
        text = text.replace(f"**id:** {step}\n", f"**id:** {step}\n**needs:** {names}\n")
    return text


def running(command: str) -> str:
    return but(RUN, command)


def proved(contract: str) -> str:
    return but(CHECK, contract)


def task(extra: str = "") -> str:
    return but(f"**run:** {RUN}\n", f"**task:** Build it.\n{extra}")


CORPUS: dict[str, tuple[str, str]] = {
    # unknown tools, operations, arguments
    "tool misspelt": ("E_TOOL_UNKNOWN", but("edit_file", "edit_fil")),
    "tool of another program": ("E_TOOL_UNKNOWN", but("edit_file", "str_replace_editor")),
    "tool named as a call": ("E_TOOL_UNKNOWN", but("edit_file", "functions.edit_file")),
    "operation of a tool without": (
        "E_TOOL_OPERATION",
        but("**tool:** edit_file", "**tool:** edit_file\n**operation:** replace"),
    ),
    "argument missing": ("E_TOOL_ARGS", but('new: "1.1.0"\n', "")),
    "argument unknown": ("E_TOOL_ARGS", but('new: "1.1.0"\n', 'new: "1.1.0"\nregex: true\n')),
    "argument of another kind": ("E_TOOL_ARGS", but('old: "1.0.0"', "old: [1]")),
    "arguments left out": ("E_TOOL_ARGS", but(f"**args:**\n```yaml\n{ARGS}```\n", "")),
    "arguments that are no mapping": ("E_TOOL_ARGS", but(ARGS, "- VERSION\n")),
    "arguments that are no yaml": ("E_DOC_SYNTAX", but(ARGS, "path: [VERSION\n")),
    # order
    "need unknown": ("E_STEP_UNKNOWN_NEED", needing(build="rise")),
    "need of itself": ("E_STEP_CYCLE", needing(build="build")),
    "cycle of two": ("E_STEP_CYCLE", needing(**{"raise": "build", "build": "raise"})),
    "need a step that is not written yet": ("E_STEP_UNKNOWN_NEED", needing(build="raise, publish")),
    "id twice": ("E_STEP_ID", but("**id:** build", "**id:** raise")),
    "id that is no name": ("E_STEP_ID", but("**id:** build", "**id:** build it now!")),
    # contracts
    "contract true": ("E_CONTRACT_VACUOUS", proved("true")),
    "contract colon": ("E_CONTRACT_VACUOUS", proved(":")),
    "contract echo": ("E_CONTRACT_VACUOUS", proved('echo "archive built"')),
    "contract or true": ("E_CONTRACT_VACUOUS", proved(f"{CHECK} || true")),
    "contract exit 0": ("E_CONTRACT_VACUOUS", proved("exit 0")),
    "contract both ways": ("E_CONTRACT_VACUOUS", proved("if test -f all.tar.gz; then echo yes; else echo no; fi")),
    "contract test of a word": ("E_CONTRACT_VACUOUS", proved("test ok")),
    "contract of a constant": ("E_CONTRACT_VACUOUS", proved("test 1 = 1")),
    "contract that is no bash": ("E_CONTRACT_SYNTAX", proved('test "$(wc -l < VERSION')),
    "contract of a missing program": ("W_CONTRACT_PROGRAM", proved("verify-archive-please all.tar.gz")),
    # commands
    "command that is no bash": ("E_COMMAND_SYNTAX", running("for f in *; do tar -cf a.tar $f")),
    "program that is not installed": ("W_PROGRAM_MISSING", running("build-archive-please VERSION")),
    "secret in a command": (
        "E_PLAN_SECRET",
        running("curl -H 'Authorization: token ghp_abcdefghijklmnopqrstuvwxyz0123456789' x"),
    ),
    "reference in a command": ("E_REF_PLACE", running("echo ${raise.output} > all.tar.gz")),
    # paths
    "path above": ("E_PATH", but("path: VERSION", "path: ../VERSION")),
    "path absolute": ("E_PATH", but("path: VERSION", "path: /etc/passwd")),
    "path at home": ("E_PATH", but("path: VERSION", "path: ~/.bashrc")),
    "path of git": ("E_PATH", but("path: VERSION", "path: .git/hooks/pre-commit")),
    "path of ours": ("E_PATH", but("path: VERSION", "path: .ordain/plans/x.md")),
    "path of settings": ("E_PATH", but("path: VERSION", "path: ordain.toml")),
    "reads in another form": ("E_FIELD_VALUE", task("**agent:** coder\n**reads:** notes/missing.md\n")),
    "path invented in a command": ("W_PATH_UNKNOWN", running("cat src/invented/module.py > all.txt")),
    "path invented in a contract": (
        "W_PATH_UNKNOWN",
        but("grep -Fx 1.1.0 VERSION", "grep -Fx 1.1.0 notes/invented.txt"),
    ),
    # agents
    "task for nobody": ("E_STEP_AGENT", task()),
    "agent unknown": ("E_AGENT_UNKNOWN", task("**agent:** gpt\n")),
    "agent on a command": ("E_STEP_ACTION", but("**id:** build\n", "**id:** build\n**agent:** nobody\n")),
    # policy and what is not carried out
    "denied by policy": ("E_POLICY_DENIED", but(CALL, "**tool:** delete\n**args:**\n```yaml\npath: VERSION\n```\n")),
    # fields and values
    "two things at once": ("E_STEP_ACTION", but(f"**run:** {RUN}\n", f"**run:** {RUN}\n**tool:** read_file\n")),
    "nothing to do": ("E_STEP_ACTION", but(f"**run:** {RUN}\n", "")),
    "field unknown": ("E_DOC_SYNTAX", but("**id:** build\n", "**id:** build\n**command:** make\n")),
    "failure policy unknown": ("E_FIELD_VALUE", but("**id:** build\n", "**id:** build\n**on_fail:** try harder\n")),
    "timeout that is none": ("E_FIELD_VALUE", but("**id:** build\n", "**id:** build\n**timeout:** soon\n")),
    "budget that is none": ("E_PLAN_UNKNOWN_FIELD", f"---\nbudget: a lot\n---\n{GOOD}"),
    "front matter unknown": ("E_PLAN_UNKNOWN_FIELD", f"---\nverison: 2\n---\n{GOOD}"),
    "front matter that is no yaml": ("E_DOC_SYNTAX", f"---\nx: [\n---\n{GOOD}"),
    "version of tomorrow": ("E_PLAN_VERSION", f"---\nplan_version: 99\n---\n{GOOD}"),
    "parameter without a value": (
        "E_PLAN_TYPE",
        f"---\nparams:\n  name: {{}}\n---\n{GOOD}".replace("VERSION\nold", "${params.name}\nold"),
    ),
    # documents that are none
    "empty": ("E_DOC_EMPTY", ""),
    "blank": ("E_DOC_EMPTY", " \n \n"),
    "title alone": ("E_PLAN_NO_STEPS", "# Raise the version\n"),
    "prose alone": ("E_DOC_SYNTAX", "I will first raise the version, and then build the archive.\n"),
    "prose around a plan of json": ("E_DOC_SYNTAX", f"Here is the plan:\n\n{JSON}\n\nLet me know!\n"),
    "json in a fence": ("E_DOC_SYNTAX", f"```json\n{JSON}\n```\n"),
    "json cut off": ("E_DOC_SYNTAX", JSON[:-20]),
    "json with a comma too many": ("E_DOC_SYNTAX", JSON.replace("}]}", "},]}")),
    "json of another shape": ("E_PLAN_NO_STEPS", '{"plan": {"tasks": []}}'),
    "json with steps as texts": ("E_PLAN_TYPE", '{"title": "T", "steps": ["raise", "build"]}'),
    "json with an unknown action": ("E_STEP_ACTION", JSON.replace('"run"', '"bash"')),
    "yaml with a tab": ("E_DOC_SYNTAX", "title: T\nsteps:\n\t- run: touch a\n"),
    "characters that hide": ("E_DOC_BIDI", but("Build the archive", "Build \u202ethe archive")),
    "NUL": ("E_DOC_CONTROL_CHARACTER", but("Build the archive", "Build\0the archive")),
    "forty-one steps": ("E_PLANNER_SIZE", "# Many\n\n" + "".join(f"{n}. `echo {n} >> out`\n" for n in range(1, 42))),
    "ten thousand steps": (
        "E_PLANNER_SIZE",
        "# Endless\n\n" + "".join(f"{n}. `echo {n} >> out`\n" for n in range(1, 10_001)),
    ),
}


@pytest.fixture
def asking(tmp_path: Path) -> Asking:
    return Asking(tmp_path, f'{SETTINGS}[policy]\ndeny = ["delete"]\n')


def drafted(asking: Asking, moves: Any) -> Planned:
    asking.model = ScriptedModel(moves)
    return asking.run(lambda planner: planner.draft(PlanRequest(goal="raise the version"), BY))


def mends(bad: str, code: str) -> Callable[[Any], ModelTurn]:
    """A planner that hands in the good plan only once it is told this code with a line."""

    place = r"line \d+.*" if bad.strip() else "the plan"  # where nothing is, there is no line

    def move(request: Any) -> ModelTurn:
        last = request.messages[-1]
        told = last.answers[0].text if hasattr(last, "answers") else ""
        named = re.search(rf"^{place}: {code}: ", told, re.MULTILINE)
        return submits(GOOD if named else bad)

    return move


@pytest.mark.parametrize("name", CORPUS)
def test_a_bad_plan_is_mended_from_what_is_sent_back(asking: Asking, name: str) -> None:
    code, bad = CORPUS[name]
    planned = drafted(asking, [mends(bad, code)] * 6)
    assert planned.good and planned.document == GOOD, codes(planned.left)
    assert (planned.rounds, planned.left) == (2, ())


def test_the_corpus_is_large_enough() -> None:
    assert len(CORPUS) >= 60


@pytest.mark.parametrize("name", list(CORPUS)[::8])
def test_a_planner_that_heeds_nothing_is_stopped_and_what_is_left_is_named(asking: Asking, name: str) -> None:
    code, bad = CORPUS[name]
    planned = drafted(asking, [submits(bad)] * 6)
    assert planned.rounds == 2 and code in codes(planned.left)


# --- Answers that hand in no document --------------------------------------------------------------------------------


def garbled(**use: Any) -> ModelTurn:
    asked = ToolUse(**{"id": "use-1", "name": "submit_plan", **use})
    return ModelTurn(text="", uses=(asked,), stop=StopReason.TOOLS)


ANSWERS: dict[str, tuple[str, ModelTurn]] = {
    "arguments that are no json": ("cannot be read", garbled(fault="Expecting value")),
    "no document": ("should have `document`", calls(("submit_plan", {}))),
    "document as an object": ("should be a text", calls(("submit_plan", {"document": {"title": "T"}}))),
    "document under another name": ("do not fit", calls(("submit_plan", {"plan": GOOD}))),
    "one argument too many": ("do not fit", calls(("submit_plan", {"document": GOOD, "approve": True}))),
    "call misspelt": ("no tool `submit_plans`", calls(("submit_plans", {"document": GOOD}))),
    "call of a host": ("no tool `Write`", calls(("Write", {"file_path": "plan.md", "content": GOOD}))),
    "no questions": ("do not fit", calls(("ask", {"questions": []}))),
    "questions as a text": ("do not fit", calls(("ask", {"questions": "Which?"}))),
    "prose": ("That was no call", says(GOOD)),
    "prose around json": ("That was no call", says(f"Here is the plan: {JSON}")),
    "nothing": ("That was no call", says("")),
    "cut off": ("was cut off", submits(GOOD[:200], stop=StopReason.TRUNCATED)),
}


@pytest.mark.parametrize("name", ANSWERS)
def test_an_answer_that_hands_in_nothing_is_told_what_is_wanted(asking: Asking, name: str) -> None:
    words, turn = ANSWERS[name]
    planned = drafted(asking, [turn, submits(GOOD)])
    assert planned.good and planned.rounds == 1
    assert words in asking.told(1), asking.told(1)


@pytest.mark.parametrize("name", ANSWERS)
def test_who_goes_on_like_that_gets_no_plan_made_up(asking: Asking, name: str) -> None:
    planned = drafted(asking, [ANSWERS[name][1]] * 70)
    assert planned.document == "" and not planned.good
    assert planned.drafted.end in (DraftEnd.NOTHING, DraftEnd.CALLS, DraftEnd.TRUNCATED)
