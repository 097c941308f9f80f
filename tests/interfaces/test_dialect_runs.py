"""Documents in the forms of the five earlier formats, at the command line: carried out as their readers expect, or
refused in words that somebody understands who knows that format alone."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.interfaces.workspace import Workspace

FIXTURES = Path(__file__).parent.parent / "dialects"
FINE, FAILED, WAITING = 0, 1, 3
AGENT = "import re, sys; [open(name, 'w').write('x') for name in re.findall(r'make (\\S+\\.txt)', sys.stdin.read())]"
AGENTS = "".join(
    f"[agents.{name}]\ncommand = {json.dumps([sys.executable, '-c', AGENT])}\n"
    for name in ("planner", "developer", "tester", "reviewer", "coder")
)
SETTINGS = f"""\
[policy]
allow = ["reads", "shell", "task", "destructive", "repeatable", "checkable", "opaque"]
[tools.tickets]
python = "tests.tool_functions:TICKETS"
{AGENTS}"""


def fixture(name: str) -> str:
    return (FIXTURES / name).read_text(encoding="utf-8")


def s0(*steps: dict[str, Any], **fields: Any) -> str:
    made = [{"step_number": n, "step_id": f"step:{n:016x}", **one} for n, one in enumerate(steps, 1)]
    return json.dumps({"plan_version": 1, "title": "Recover", "steps": made, **fields})


def s1(*steps: dict[str, Any], **fields: Any) -> str:
    made = [{"index": n, "suggestedAgent": "developer", **one} for n, one in enumerate(steps)]
    return json.dumps({"task": "Add a login", "version": 1, "steps": made, **fields})


def s2(*steps: dict[str, Any], **fields: Any) -> str:
    made = [{"id": f"step_{n}", "tool": "list_files", "args": {}, **one} for n, one in enumerate(steps, 1)]
    return json.dumps({"taskId": "task-1", "steps": made, **fields})


def write(path: str, content: str) -> dict[str, Any]:
    return {"tool": "write_file", "args": {"path": path, "content": content}}


def s3(*items: str, tools: str = "[tickets]") -> str:
    head = (
        f"---\nid: PLAN-a1b2c3d4\ntitle: Close it\nstatus: approved\ntools_required: {tools}\nplanner_model: big\n---\n"
    )
    return head + "## Steps\n" + "".join(f"{n}. {item}\n" for n, item in enumerate(items, 1))


def s4(*steps: str, **fields: str) -> str:
    return "---\ntype: plan\nstatus: draft\nowner: orchestrator\n---\n\n# Mend it\n\n## Steps\n\n" + "\n".join(steps)


def briefing(number: int, task: str, contract: str, on_fail: str = "", extra: str = "") -> str:
    failure = f"**on_fail:** {on_fail}\n" if on_fail else ""
    return (
        f"### {number}. Part {number}\n\n**target:** coder\n{extra}\n**task:**\n{task}\n\n"
        f"**contract:**\n```shell\n{contract}\n```\nexit_code == 0\n{failure}"
    )


LOCK = {"type": "acquire_lock", "lock_name": "pane-0"}
KEEP = {"type": "store_data", "key": "state", "value": "busy"}
SEND = {"type": "send_text", "pane_id": 0, "text": "/compact"}

CARRIED_OUT: dict[str, tuple[str, int, str]] = {
    # name: (document, exit status, what the report says)
    "s0: a lock, data, and the lock given back": (
        s0(
            {"action": LOCK, "description": "Take it"},
            {
                "action": KEEP,
                "description": "Remember",
                "preconditions": [{"type": "step_completed", "step_id": f"step:{1:016x}"}],
            },
            {"action": {"type": "release_lock", "lock_name": "pane-0"}, "description": "Give it back"},
        ),
        FINE,
        "3 of 3 steps passed",
    ),
    "s0: a policy for the plan and one of a step": (
        s0(
            {"action": {"type": "wait_for_file", "path": "never", "timeout_ms": 1}, "on_failure": {"strategy": "skip"}},
            {"action": KEEP, "idempotent": True},
            on_failure={"strategy": "abort"},
        ),
        FINE,
        "1 of 2 steps passed; failed and skipped",
    ),
    "s1: the example": (fixture("s1-auth.yaml"), FINE, "5 of 5 steps passed; by an agent's word only"),
    "s1: two that wait for none": (
        s1({"description": "a"}, {"description": "b", "dependsOn": []}, {"description": "c", "dependsOn": [0, 1]}),
        FINE,
        "3 of 3 steps passed",
    ),
    "s1: a claim that it is done": (
        s1({"description": "please make a.txt", "status": "complete", "output": "I did it"}),
        FINE,
        "1 of 1 steps passed",
    ),
    "s2: the example with a reference": (fixture("s2-reference.json"), FINE, "2 of 2 steps passed"),
    "s2: a failure that is not critical": (
        s2({"tool": "move", "args": {"path": "data.json", "to": "no/such/x"}, "critical": False}, write("b", "b")),
        FAILED,
        "0 of 2 steps passed",
    ),
    "s2: what does not need it goes on": (
        s2(
            {"tool": "move", "args": {"path": "data.json", "to": "no/such/x"}, "critical": False},
            {**write("b", "b"), "dependsOn": []},
        ),
        FAILED,
        "1 of 2 steps passed",
    ),
    "s2: a text with a dollar": (s2(write("price.txt", "$5.00 for $it")), FINE, "1 of 1 steps passed"),
    "s3: a tool that there is": (
        s3("Look around", "Close ticket 7 (tickets: close)").replace("Look around", "Look (tickets: drop)"),
        FINE,
        "2 of 2",
    ),
    "s4: an agent that does its work": (
        s4(briefing(1, "make a.txt", "test -s a.txt"), briefing(2, "make b.txt", "cmp a.txt b.txt")),
        FINE,
        "2 of 2 steps passed",
    ),
    "s4: one that claims, and does nothing": (
        s4(briefing(1, "Do nothing", "test -s a.txt", "retry(2), then escalate")),
        WAITING,
        "A person must decide:",
    ),
    "s4: a mark is no progress": (
        s4(briefing(1, "make a.txt", "test -s a.txt").replace("### 1. ", "### 1. ✅ ")),
        FINE,
        "1 of 1 steps passed",
    ),
}

REFUSED_ROWS: dict[str, tuple[str, str, str]] = {
    # name: (document, code, what it says)
    "s0: the example": (fixture("s0-recover.json"), "W_NOT_YET", "send_text"),
    "s0: the example is of another workspace": (fixture("s0-recover.json"), "E_PLAN_WORKSPACE", "/project"),
    "s1: a step that names no agent": (fixture("s1-replanned.json"), "E_STEP_AGENT", "[run] agent"),
    "s0: a newer version": (s0({"action": KEEP}, plan_version=2), "E_PLAN_VERSION", "2"),
    "s0: a step that nobody knows": (
        s0({"action": KEEP, "preconditions": [{"type": "step_completed", "step_id": "step:ffffffffffffffff"}]}),
        "E_REF",
        "step:ffffffffffffffff",
    ),
    "s0: a handler that is not there": (
        s0({"action": {"type": "custom", "action_type": "page_somebody", "payload": {}}}),
        "E_ACTION_UNKNOWN",
        "page_somebody",
    ),
    "s0: send a text": (s0({"action": SEND}), "E_NOT_YET", "send_text"),
    "s1: an index that is not there": (s1({"description": "a", "dependsOn": [7]}), "E_STEP_UNKNOWN_NEED", "7"),
    "s1: itself": (s1({"description": "a", "dependsOn": [0]}), "E_STEP_CYCLE", "itself"),
    "s1: an agent that is not there": (
        s1({"description": "a", "suggestedAgent": "wizard"}),
        "E_AGENT_UNKNOWN",
        "wizard",
    ),
    "s2: a name of no step": (s2(write("a", "$nope")), "E_REF", "`$nope` names no step of the plan."),
    "s2: skipped by somebody": (s2({"status": "skipped"}), "E_STEP_SKIPPED", "status"),
    "s2: a tool that is not there": (s2({"tool": "send_email", "args": {"to": "a"}}), "E_TOOL_UNKNOWN", "send_email"),
    "s2: a dependency that is not there": (s2({"dependsOn": ["step_9"]}), "E_STEP_UNKNOWN_NEED", "step_9"),
    "s2: twice the same id": (s2({"id": "x"}, {"id": "x"}), "E_STEP_ID", "already"),
    "s3: the example": (fixture("s3-invoice.md"), "E_TOOL_UNKNOWN", "odoo-toolbox"),
    "s3: an operation that is not there": (s3("Burn it (tickets: burn)"), "E_TOOL_OPERATION", "burn"),
    "s3: no steps": (s3().replace("## Steps\n", "## Context\nNothing.\n"), "E_PLAN_NO_STEPS", "step"),
    "s4: steps not known yet": (s4("### N+1. More\n\n**target:** coder\n**task:** More\n"), "E_MD_HEADING", "N+1"),
    "s4: a number left out": (
        s4(briefing(1, "make a.txt", "test -s a.txt"), briefing(3, "make b.txt", "test -s b.txt")),
        "E_MD_HEADING",
        "3",
    ),
    "s4: a contract that proves nothing": (
        s4(briefing(1, "make a.txt", "true")),
        "E_CONTRACT_VACUOUS",
        "holds whatever happens",
    ),
    "s4: a policy that there is not": (
        s4(briefing(1, "make a.txt", "test -s a.txt", "call_me")),
        "E_FIELD_VALUE",
        "call_me",
    ),
}


def test_there_are_enough_of_them() -> None:
    assert len(CARRIED_OUT) + len(REFUSED_ROWS) >= 25


@pytest.mark.part(of=4)
@pytest.mark.parametrize("name", CARRIED_OUT)
def test_it_is_carried_out_as_its_format_says(workspace: Workspace, name: str) -> None:
    document, status, says = CARRIED_OUT[name]
    workspace.trust(f'{SETTINGS}[run]\nagent = "coder"\n')
    workspace.write("data.json", "[1, 2]")
    workspace.write("doc.plan", document)
    _, done = workspace.started("doc.plan")
    assert (done.status, says in done.out) == (status, True), done
    if "reference" in name:
        assert (workspace.path / "processed.json").read_text() == "[1, 2]"


@pytest.mark.part(of=2)
@pytest.mark.parametrize("name", REFUSED_ROWS)
def test_it_is_refused_in_words_of_its_format(workspace: Workspace, name: str) -> None:
    document, code, says = REFUSED_ROWS[name]
    workspace.trust(SETTINGS)
    workspace.write("doc.plan", document)
    refused = json.loads(workspace.ordain("prepare", "doc.plan", "--json").out)
    told = [one for one in refused["problems"] if one["code"] == code]
    assert told, refused["problems"]
    assert any(says in " ".join([one["detail"], *one["hints"]]) for one in told), told
