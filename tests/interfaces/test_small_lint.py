"""What lint says, and where, about what is easily written wrong: at the command line and over MCP."""

from __future__ import annotations

import asyncio
import json
import sys
from typing import Any

import pytest

from tests.interfaces.json_rpc import RpcClient
from tests.interfaces.test_mcp_tools import answer_of
from tests.interfaces.workspace import Workspace
from tests.words import ShellText, open_at_terminal

FINE, REFUSED = 0, 2
MAKE = {"type": "run", "command": "make"}


def problems(workspace: Workspace, document: Any, name: str = "x.plan") -> list[dict[str, Any]]:
    """What `ordain lint --json` says of a document."""
    workspace.write(name, document if isinstance(document, str) else json.dumps(document, indent=1))
    found: list[dict[str, Any]] = json.loads(workspace.ordain("lint", name, "--json").out)["problems"]
    return found


def codes(workspace: Workspace, document: Any) -> list[str]:
    return [problem["code"] for problem in problems(workspace, document)]


def plan(*steps: dict[str, Any], **fields: Any) -> dict[str, Any]:
    return {"title": "T", **fields, "steps": [{"action": MAKE, **step} for step in steps]}


# --- Commands and contracts ----------------------------------------------------------------------------------------


def test_commands_whose_syntax_nobody_checked_are_named(workspace: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.modules[ShellText.__module__], "ASKED_MAX", 2)
    commands = [f"for i in {n}; do echo $i; done" for n in range(4)]
    document = plan(*({"id": f"s{n}", "action": {"type": "run", "command": one}} for n, one in enumerate(commands)))
    app = open_at_terminal(workspace.path)
    (left,) = app.plans.lint(json.dumps(document).encode()).problems
    assert left.code == "W_SYNTAX_UNCHECKED" and left.where is not None and left.where.step == "s2"
    assert "2 commands and contracts" in left.detail
    # The next look begins anew, whatever was looked at before in this process.
    wrong = plan({"action": {"type": "run", "command": "for i in; do"}})
    assert [one.code for one in app.plans.lint(json.dumps(wrong).encode()).problems] == ["E_COMMAND_SYNTAX"]
    asyncio.run(app.close())


def test_contracts_of_builtins_are_judged_and_do_not_end_the_program(workspace: Workspace) -> None:
    for contract in ("set | grep -F HOME", "shopt compat31"):
        document = f"# T\n\n## Steps\n\n### 1. A\n\n**run:** make\n**contract:** {contract}\n"
        workspace.write("x.plan.md", document)
        assert workspace.ordain("lint", "x.plan.md").status == FINE


# --- What is read --------------------------------------------------------------------------------------------------

READS = """\
# T

**Agent:** coder
**Budget:** max 20k tokens

## Steps

### 1. Think

**task:** {task}
**verify:** none

### 2. Read

**tool:** read_file
**args:**
```yaml
path: docs/found.md
```
"""
CODER = '[agents.coder]\ncommand = ["cat"]\n'


def test_a_file_that_only_an_agent_could_make_is_one_that_it_is_asked_for(workspace: Workspace) -> None:
    workspace.trust(CODER)
    (told,) = problems(workspace, READS.format(task="Think."), "x.plan.md")
    assert (told["code"], told["where"]["step"]) == ("W_READS_UNNAMED", "read")
    assert problems(workspace, READS.format(task="Write docs/found.md."), "x.plan.md") == []


def test_a_file_that_a_later_step_names_says_which(workspace: Workspace) -> None:
    workspace.trust(CODER)
    later = (
        READS.format(task="Think.")
        .replace("**tool:**", "**needs:** none\n**tool:**")
        .replace("**task:** Think.", "**task:** Write docs/found.md.")
    )
    (told,) = problems(workspace, later, "x.plan.md")
    assert (told["code"], told["hints"]) == (
        "E_READS_MISSING",
        ["`think` names it: if that makes it, add it to `needs`."],
    )


def test_steps_in_a_circle_are_told_of_the_circle_alone(workspace: Workspace) -> None:
    read = {"type": "tool", "tool": "read_file", "args": {"path": "q"}}
    write = {"type": "tool", "tool": "write_file", "args": {"path": "q", "content": "x"}}
    circle = plan({"id": "a", "needs": ["b"], "action": read}, {"id": "b", "needs": ["a"], "action": write})
    assert codes(workspace, circle) == ["E_STEP_CYCLE"]


# --- What is said, and of which line -------------------------------------------------------------------------------


def test_a_failure_policy_out_of_bounds_is_told_which_bound(workspace: Workspace) -> None:
    def said(**policy: Any) -> list[str]:
        return [one["detail"] for one in problems(workspace, plan({"id": "a", "on_failure": policy}))]

    assert said(strategy="retry", max_attempts=0) == ["`a`: the attempts must be between 1 and 101."]
    assert said(strategy="retry", max_attempts=500) == ["`a`: the failure policy may retry at most 100 times."]
    assert said(strategy="fallback", steps=[]) == ["`a` falls back on no step: the list is empty."]


def test_a_fallback_cannot_change_how_the_failed_attempt_ended(workspace: Workspace) -> None:
    verification = {"strategy": {"type": "custom", "name": "x", "expression": "exit_code == 0"}}
    step = {"id": "a", "on_failure": {"strategy": "fallback", "steps": ["f"]}, "verification": verification}
    (told,) = problems(workspace, plan(step, fallbacks=[{"id": "f", "action": MAKE}]))
    assert told["code"] == "W_FALLBACK_UNPROVED" and "its own attempt ended" in told["detail"]
    looks = {**verification["strategy"], "expression": 'steps["f"].status == "passed"'}
    looking = {**step, "verification": {"strategy": looks}}
    assert "W_FALLBACK_UNPROVED" not in codes(workspace, plan(looking, fallbacks=[{"id": "f", "action": MAKE}]))


def test_yaml_that_cannot_be_read_gets_a_hint(workspace: Workspace) -> None:
    def hint(document: str) -> str:
        (told,) = problems(workspace, document, "x.plan.md")
        assert told["code"] == "E_DOC_SYNTAX"
        return str(*told["hints"])

    step = "# T\n\n## Steps\n\n### 1. A\n\n**tool:** read_file\n**args:**\n```yaml\n{}\n```\n"
    for tabbed in ("title: T\nsteps:\n\t- run: ls\n", step.format("path:\n\tx: 1"), step.format("path:\n  - a\n\t- b")):
        assert hint(tabbed) == "A tab is used for indentation, which YAML does not allow: use spaces."
    front = "---\nowner: me\n{}\n---\n# T\n\n1. `ls`\n"
    comma = "or write the comma that is missing."
    assert hint(front.format("tags: [a, b\nstatus: x")) == f"Close the `[` on line 3 with `]`, {comma}"
    assert hint(front.format("tags: {a: b")) == f"Close the `{{` on line 3 with `}}`, {comma}"
    assert hint(front.format("tags: [")).startswith("Close the last `[` or `{` before line 4,")
    assert hint(front.format('status: "x')) == "Close the quotation mark on line 3."


def test_an_unknown_need_is_told_where_it_stands_also_beside_other_problems(workspace: Workspace) -> None:
    def told(fields: str) -> list[tuple[str, int, int]]:
        document = f"# T\n\n## Steps\n\n### 1. A\n\n**run:** make\n{fields}\n"
        found = ((one["code"], one["where"]) for one in problems(workspace, document, "x.plan.md"))
        return [(code, where["line"], where["column"]) for code, where in found]

    assert told("**needs:** zz") == [("E_STEP_UNKNOWN_NEED", 8, 12)]
    assert told("**needs:**\n- zz\n- yy") == [("E_STEP_UNKNOWN_NEED", 9, 3), ("E_STEP_UNKNOWN_NEED", 10, 3)][::-1]
    both = told("**needs:** zz\n**timeout:** soon")
    assert both == [("E_STEP_UNKNOWN_NEED", 8, 12), ("E_FIELD_VALUE", 9, 14)]


def test_a_misspelt_field_is_one_problem_that_says_which_is_meant(workspace: Workspace) -> None:
    def told(fields: str) -> list[tuple[str, int, str]]:
        found = problems(workspace, f"# T\n\n## Steps\n\n### 1. A\n\n{fields}\n", "x.plan.md")
        return [(one["code"], one["where"]["line"], one["hints"][0]) for one in found]

    meant = "Did you mean `run`?"
    assert told("**runs:** ls") == [("E_DOC_SYNTAX", 7, meant)]
    assert told("**needs:** none\n**runs:** ls") == [("E_DOC_SYNTAX", 8, meant)]
    assert told("**Run**: ls") == [("E_DOC_SYNTAX", 7, "Write `**Run:**`, with the colon inside.")]
    both = [code for code, *_ in told("**contrat:** ls")]
    assert both == ["E_STEP_ACTION", "E_DOC_SYNTAX"]  # it has nothing to do, however that line is spelt


IN_MARKDOWN = """\
---
tools: [shell]
tier: 2
---
# T

**Protect:** nothing/**

**On failure:** fallback(x)

**Preconditions:**
```yaml
- {type: step_completed, step_id: a}
```

**Agent:** nobody

## Steps

### 1. A

**run:** make
"""


def test_what_is_wrong_with_the_plan_itself_is_where_it_stands(workspace: Workspace) -> None:
    lines = IN_MARKDOWN.split("\n")
    shown = {one["code"]: lines[one["where"]["line"] - 1] for one in problems(workspace, IN_MARKDOWN, "x.plan.md")}
    assert shown == {
        "W_PROTECT_NOTHING": "**Protect:** nothing/**",
        "E_STEP_UNKNOWN_NEED": "**On failure:** fallback(x)",
        "E_REF": "**Preconditions:**",
        "E_AGENT_UNKNOWN": "**Agent:** nobody",
        "W_AGENT_UNUSED": "**Agent:** nobody",
        "E_TIER": "tier: 2",
        "W_FALLBACK_UNPROVED": "### 1. A",
    }


def test_in_a_tree_it_is_so_too(workspace: Workspace) -> None:
    document = plan({}, protect=["nothing/**"], timeout_ms=10**12, budget={"tokens": -1}, workspace_id="else")
    lines = json.dumps(document, indent=1).split("\n")
    found = [lines[one["where"]["line"] - 1].strip().partition(":")[0] for one in problems(workspace, document)]
    assert found == ['"timeout_ms"', '"budget"', '"workspace_id"', '"protect"']


# --- A configuration that does not count ---------------------------------------------------------------------------


def test_lint_and_tools_say_that_the_configuration_does_not_count_where_it_matters(workspace: Workspace) -> None:
    workspace.write("ordain.toml", CODER + '[tools.add]\npython = "tests.tool_functions:add"\n')
    asked = READS.format(task="Write docs/found.md.")
    told = problems(workspace, asked, "x.plan.md")
    assert [(one["code"], one.get("command")) for one in told if one["code"] == "W_CONFIG_UNTRUSTED"] == [
        ("W_CONFIG_UNTRUSTED", "ordain trust")
    ]
    call = {"type": "tool", "tool": "add", "args": {}}
    assert codes(workspace, plan({"action": call})) == ["E_TOOL_UNKNOWN", "W_CONFIG_UNTRUSTED"]
    assert codes(workspace, plan({})) == []
    listed = workspace.ordain("tools")
    assert (listed.status, "W_CONFIG_UNTRUSTED" in listed.err) == (FINE, True)
    workspace.write("ordain.toml", "[run]\nconcurrency = 2\n")
    assert "W_CONFIG_UNTRUSTED" not in workspace.ordain("tools").err


# --- The third seed ------------------------------------------------------------------------------------------------


def calls(*steps: dict[str, Any]) -> dict[str, Any]:
    known = ({"id": f"step_{n}", "tool": "list_files", "args": {}, **one} for n, one in enumerate(steps, 1))
    return {"taskId": "t", "steps": list(known)}


def test_a_reference_to_nothing_is_refused_and_not_taken_as_text(workspace: Workspace) -> None:
    write = {"tool": "write_file", "args": {"path": "a", "content": "$nope"}, "critical": False}
    (told,) = problems(workspace, calls({"critical": False}, write))
    assert (told["code"], told["detail"]) == ("E_REF", "`$nope` names no step of the plan.")
    assert problems(workspace, calls({"critical": False}, {**write, "args": {"path": "a", "content": "$5.00"}})) == []


def test_a_step_that_somebody_skipped_is_not_run_behind_their_back(workspace: Workspace) -> None:
    workspace.write("x.plan", json.dumps(calls({"status": "completed"}, {"status": "skipped"})))
    done = workspace.ordain("run", "x.plan")
    assert done.status == REFUSED and "E_STEP_SKIPPED" in done.err
    assert "take its `status` away" in done.err


def test_what_follows_a_failure_is_mentioned_where_it_differs(workspace: Workspace) -> None:
    assert codes(workspace, calls({}, {})) == ["W_DIALECT_FAILURE"]
    assert codes(workspace, calls({"critical": False}, {"critical": False})) == []
    prepared = workspace.ordain("prepare", "x.plan")
    workspace.write("x.plan", json.dumps(calls({}, {})))
    assert "W_DIALECT_FAILURE" not in prepared.out and "W_DIALECT_FAILURE" in workspace.ordain("prepare", "x.plan").out


def test_of_two_steps_with_one_seed_id_nobody_guesses_which_is_meant(workspace: Workspace) -> None:
    same = {"step_id": "step:00000000000000aa"}
    (told,) = [
        one for one in problems(workspace, plan({"id": "a", **same}, {"id": "b", **same})) if one["code"][0] == "E"
    ]
    assert told["code"] == "E_STEP_ID" and "`a` and `b` have the same `step_id`" in told["detail"]


def test_an_expression_that_asks_nothing_or_of_what_has_no_exit_status_is_told(workspace: Workspace) -> None:
    def by(expression: str, **step: Any) -> dict[str, Any]:
        return plan({**step, "verification": {"strategy": {"type": "custom", "name": "n", "expression": expression}}})

    assert codes(workspace, by("1 == 1")) == ["E_CONTRACT_VACUOUS"]
    assert codes(workspace, by("exit_code == 0", action={"type": "acquire_lock", "lock_name": "l"})) == ["E_EXPR"]
    assert codes(workspace, by("exit_code == 0", action={"type": "nested_plan", "plan": plan({})})) == ["E_EXPR"]


# --- What a model proposes -----------------------------------------------------------------------------------------


def test_a_proposal_without_arguments_is_a_task_and_its_target_is_shown(workspace: Workspace) -> None:
    workspace.trust('[run]\nagent = "coder"\n' + CODER + '[tools.tickets]\npython = "tests.tool_functions:TICKETS"\n')
    step = {"description": "Close a ticket", "tool": "tickets", "operation": "close", "target": "the mail client"}
    with RpcClient(workspace.path, extensions=()) as client:
        answer = answer_of(client.call("plan_propose", title="Tell them", steps=[step]))
        assert answer["ok"], answer
        shown = answer["data"]["preview"]
    assert "Close a ticket (target: the mail client)" in shown
    assert "tickets:close" in shown and "Agent:" in shown


def test_the_target_of_a_command_is_shown_and_part_of_the_plan(workspace: Workspace) -> None:
    step = {"description": "Publish", "run": "echo one >> effects"}
    after = {"description": "Look", "run": "cat effects", "needs": ["publish"]}
    with RpcClient(workspace.path, extensions=()) as client:
        plain = answer_of(client.call("plan_propose", title="Publish", steps=[step, after]))["data"]
        aimed = answer_of(client.call("plan_propose", title="Publish", steps=[{**step, "target": "pypi"}, after]))[
            "data"
        ]
    assert plain["plan"] != aimed["plan"] and "Publish (target: pypi)" in aimed["preview"]
