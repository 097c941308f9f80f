"""What the tools of the server answer to a model: what went wrong, what a person must do, and what comes next."""

from __future__ import annotations

import itertools
import json
import signal
import subprocess
import threading
from typing import Any

import pytest

from ordain.interfaces.mcp.tools import _List
from tests.interfaces.json_rpc import RpcClient
from tests.interfaces.terminal import ORDAIN
from tests.interfaces.workspace import ASKS, FAILS, SMALL, Workspace
from tests.patience import PATIENCE_S
from tests.words import Stage, next_call, schema_of, to_text

INTERRUPTED = 130
CLAIMS = {
    "description": "Claim",
    "run": "echo I did it",
    "contract": "cat nothing.txt",
}


def answer_of(result: dict[str, Any]) -> dict[str, Any]:
    envelope: dict[str, Any] = result["structuredContent"]
    assert json.loads(result["content"][0]["text"]) == envelope
    assert result.get("isError", False) is not envelope["ok"]
    return envelope


def proposed(client: RpcClient, **proposal: Any) -> dict[str, Any]:
    data: dict[str, Any] = answer_of(client.call("plan_propose", **proposal))["data"]
    return data


def test_a_run_that_failed_is_an_error_with_all_that_is_known(workspace: Workspace) -> None:
    with RpcClient(workspace.path, extensions=()) as client:
        plan = proposed(client, title="Claim", steps=[CLAIMS])["plan"]
        workspace.approve(plan)
        answer = answer_of(client.call("plan_commit", plan=plan, wait_s=30))
        assert (answer["ok"], answer["error"]["code"]) == (False, "F_CONTRACT_BROKEN")
        (step,) = answer["data"]["steps"]
        assert (answer["data"]["status"], step["own_output_tail"]) == ("failed", "I did it\n")
        assert "nothing.txt" in step["output_tail"]
        # Looking at it is no failure.
        assert answer_of(client.call("plan_status", what=plan))["data"]["run"]["status"] == "failed"


def test_an_agent_proposes_tasks_for_agents_and_a_person_approves_them(workspace: Workspace) -> None:
    workspace.trust(
        '[run]\nagent_for = { review = "critic" }\n'
        '[agents.coder]\ncommand = ["bash", "-c", "cat > told.txt; echo new > code.txt; echo done"]\n'
        'description = "Edits code."\n'
        '[agents.critic]\ncommand = ["bash", "-c", "cat > /dev/null; echo read > review.txt"]\n',
    )
    fix = {"description": "Fix it", "id": "fix", "agent": "coder", "contract": "grep -x new code.txt"}
    review = {"description": "Review it", "id": "review", "contract": "grep -x read review.txt"}
    with RpcClient(workspace.path, extensions=()) as client:
        inventory = answer_of(client.call("tools_list"))["data"]
        assert inventory["agents"][0].endswith(": Edits code.")
        assert "does review where a task names nobody" in inventory["agents"][1]
        plan = proposed(client, title="Fix and review", steps=[fix, review])["plan"]
        shown = client.call("plan_get", plan=plan)["structuredContent"]["data"]["preview"]
        assert "Agent:      coder, because the step names it" in shown
        assert "Agent:      critic, because the rule for the kind review names it" in shown
        workspace.approve(plan)
        answer = answer_of(client.call("plan_commit", plan=plan, wait_s=30))
        assert (answer["ok"], answer["data"]["status"]) == (True, "success")
    assert "Fix it" in (workspace.path / "told.txt").read_text()


def test_risks_are_shown_to_whoever_approves_and_are_part_of_what_is_approved(workspace: Workspace) -> None:
    step = {"description": "Write", "run": "echo one >> effects"}
    with RpcClient(workspace.path, extensions=()) as client:
        calm = proposed(client, title="Write", steps=[step], risks=["None to speak of."])
        wild = proposed(client, title="Write", steps=[step], context="For kim.", risks=["Overwrites the database."])
    assert calm["plan"] != wild["plan"]
    assert "Overwrites the database." in wild["preview"] and "For kim." in wild["preview"]
    assert "Overwrites the database." in workspace.ordain("show", wild["plan"]).out


def test_a_step_says_what_follows_a_failure_and_what_its_command_gets(workspace: Workspace) -> None:
    document = """\
# Try

## Steps

### 1. Say

**id:** say
**run:** echo hello

### 2. Try

**run:** echo "$WORD" >> effects
**env:**
```yaml
WORD: ${say.output}
```
**on_fail:** retry(1), then escalate
"""
    steps = [
        {"description": "Say", "id": "say", "run": "echo hello"},
        {
            "description": "Try",
            "run": 'echo "$WORD" >> effects',
            "env": {"WORD": "${say.output}"},
            "on_fail": "retry(1), then escalate",
        },
    ]
    with RpcClient(workspace.path, extensions=()) as client:
        by_steps = answer_of(client.call("plan_lint", title="Try", steps=steps))["data"]["plan_id"]
        assert by_steps == answer_of(client.call("plan_lint", document=document))["data"]["plan_id"]
        for wrong in ({"on_fail": "perhaps"}, {"env": {"A": "b"}, "run": None, "tool": "read_file"}, {"timeout": 3}):
            refused = answer_of(client.call("plan_lint", title="Try", steps=[steps[0] | wrong]))
            assert not refused["ok"] and refused["error"]["message"]
        assert "`document` can" in refused["error"]["remediation"]


def test_no_plan_that_policy_denies_is_said_to_be_good(workspace: Workspace) -> None:
    workspace.trust('[policy]\ndeny = ["shell"]\n')
    with RpcClient(workspace.path, extensions=()) as client:
        steps = [{"description": "Say", "run": "echo hello", "contract": "test -e hello"}]
        refused = answer_of(client.call("plan_lint", title="Try", steps=steps))
        assert (refused["error"]["code"], refused["problems"][0]["where"]["step"]) == ("E_POLICY_DENIED", "say")


def test_a_problem_of_a_step_names_the_step_and_no_line_that_nobody_wrote(workspace: Workspace) -> None:
    with RpcClient(workspace.path, extensions=()) as client:
        vacuous = {"description": "Claim", "run": "echo one", "contract": "true"}
        refused = answer_of(client.call("plan_propose", title="Claim", steps=[vacuous]))
        assert refused["problems"][0]["where"] == {"file": None, "line": None, "column": None, "step": "claim"}
        document = "# Claim\n\n## Steps\n\n### 1. Claim\n\n**run:** echo one\n**contract:** true\n"
        refused = answer_of(client.call("plan_propose", document=document))
        assert refused["problems"][0]["where"]["line"] is not None


@pytest.mark.slow
def test_plans_are_found_by_every_word_for_how_they_stand(workspace: Workspace) -> None:
    words = schema_of(_List)["properties"]["status"]["anyOf"][0]["enum"]
    assert set(Stage) <= set(words)
    with RpcClient(workspace.path, extensions=()) as client:
        asks = proposed(client, document=ASKS)["plan"]
        proposed(client, document=SMALL)
        workspace.approve(asks)
        assert answer_of(client.call("plan_commit", plan=asks, wait_s=30))["data"]["status"] == "waiting"
        for word, titles in (("waiting", ["Ask when it fails"]), ("proposed", ["Make two lines"]), ("expired", [])):
            found = answer_of(client.call("plan_list", status=word))["data"]
            assert ([one["title"] for one in found["plans"]], found["count"]) == (titles, len(titles))


@pytest.mark.slow
def test_a_client_can_wait_for_a_person(workspace: Workspace) -> None:
    with RpcClient(workspace.path, extensions=()) as client:
        plan = proposed(client, document=ASKS)["plan"]
        approving = threading.Timer(0.7, lambda: workspace.approve(plan))
        approving.start()
        status = answer_of(client.call("plan_status", what=plan, wait_s=60))
        approving.join()
        assert status["data"]["plan"]["status"] == "approved"
        assert status["next"] == [f"Call plan_commit with plan={plan}."]
        run = answer_of(client.call("plan_commit", plan=plan, wait_s=30))
        item = run["data"]["questions"][0]["item"]
        assert run["next"][0] == f"A person decides at a terminal with: ordain -C {workspace.path} answer {item}"
        answering = threading.Timer(0.7, lambda: workspace.at_terminal("answer", item, "skip"))
        answering.start()
        status = answer_of(client.call("plan_status", what=plan, wait_s=60))
        answering.join()
        assert status["data"]["run"]["status"] == "stopped"
        assert status["next"] == [f"Nobody carries it out. Call plan_commit with plan={plan} to go on."]
        (listed,) = answer_of(client.call("plan_list", status="stopped"))["data"]["plans"]  # as a killed one is
        assert (listed["plan"], listed["run_id"]) == (plan, run["data"]["run_id"])
        assert answer_of(client.call("plan_commit", plan=plan, wait_s=30))["data"]["status"] == "success"


@pytest.mark.slow
def test_progress_grows_each_time_whatever_is_waited_for(workspace: Workspace) -> None:
    slow = ASKS.replace("echo tried", "until test -f go; do sleep 0.02; done; echo tried")
    with RpcClient(workspace.path, extensions=(), legacy=True) as client:
        plan = proposed(client, document=slow)["plan"]
        workspace.approve(plan)
        item = f"{answer_of(client.call('plan_commit', plan=plan))['data']['run_id']}/fetch"
        waiting = {"name": "plan_status", "arguments": {"what": plan, "wait_s": 60}, "_meta": {"progressToken": 7}}
        asked = client.ask("tools/call", waiting)
        told = [client.told("notifications/progress")]  # while a step is at work
        (workspace.path / "go").touch()
        while "waits for a person" not in told[-1]["message"]:
            told.append(client.told("notifications/progress"))
        assert workspace.at_terminal("answer", item, "skip").status == 0
        assert answer_of(client.answer(asked))["data"]["run"]["status"] == "stopped"
    told += [one["params"] for one in client.notifications if one["method"] == "notifications/progress"]
    assert "at work: fetch" in told[0]["message"] and {one["progressToken"] for one in told} == {7}
    amounts = [one["progress"] for one in told]
    assert len(amounts) > 1 and all(before < after for before, after in itertools.pairwise(amounts)), amounts


@pytest.mark.slow
def test_a_plan_that_has_ended_can_be_approved_for_one_run_more(workspace: Workspace) -> None:
    with RpcClient(workspace.path, extensions=()) as client:
        plan = proposed(client, document=FAILS)["plan"]
        workspace.approve(plan)
        client.call("plan_commit", plan=plan, wait_s=30)
        first = answer_of(client.call("plan_commit", plan=plan))
        assert first["data"]["status"] == "failed" and first["problems"][0]["code"] == "W_RUN_EARLIER"
        client.call("plan_prepare", plan=plan)
        spent = answer_of(client.call("plan_commit", plan=plan))
        assert spent["error"]["code"] == "E_APPROVAL_SPENT"
        asked = answer_of(client.call("plan_approve", plan=plan))["data"]
        assert asked["command"] == spent["error"]["command"] == f"ordain -C {workspace.path} approve {plan}"


def test_what_is_refused_says_which_tool_helps(workspace: Workspace) -> None:
    with RpcClient(workspace.path, extensions=()) as client:
        plan = proposed(client, document=SMALL)["plan"]
        client.call("plan_reject", plan=plan, feedback="Say why.")
        refused = answer_of(client.call("plan_commit", plan=plan))
        assert refused["next"] == [f"Call plan_revise with plan={plan} and the changed plan."]
        assert answer_of(client.call("plan_get", plan="00000000"))["next"] == ["Call plan_list."]


@pytest.mark.parametrize(
    ("command", "told"),
    [
        ("ordain show 4f2a9c01b7de", "Call plan_get with plan=4f2a9c01b7de."),
        ("ordain show RUN-ABC --output 'a b'", "Call plan_status with what=RUN-ABC."),
        ("ordain approve 4f2a9c01b7de --start", "A person types at a terminal: ordain approve 4f2a9c01b7de --start"),
        ("ordain resume", "A person types at a terminal: ordain resume"),
    ],
)
def test_commands_as_calls(command: str, told: str) -> None:
    assert next_call(command) == told


def test_slips_in_values_are_told_and_not_held_against_anybody(workspace: Workspace) -> None:
    with RpcClient(workspace.path, extensions=()) as client:
        proposed(client, document=SMALL)
        for arguments in ({"status": "nonsense"}, {"limit": 0}):
            assert answer_of(client.call("plan_list", **arguments))["error"]["code"] == "E_CALL_ARGUMENTS"
    assert workspace.ordain("log", "--refused").out == ""


def test_letters_of_all_languages_are_told_as_they_are_and_what_cannot_be_seen_is_not() -> None:
    assert to_text({"a": "Größe 尺 😀"}) == '{"a":"Größe 尺 😀"}'
    hidden = to_text("x\u202ey\u200b\x9b\x7f\U000e0041z")
    assert hidden.isascii() and json.loads(hidden) == "x\u202ey\u200b\x9b\x7f\U000e0041z"


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_ends_the_server_although_its_input_is_open(workspace: Workspace, number: signal.Signals) -> None:
    server = subprocess.Popen([*ORDAIN, "mcp"], cwd=workspace.path, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert server.stdin is not None and server.stdout is not None
    server.stdin.write(b'{"jsonrpc":"2.0","id":1,"method":"ping"}\n')
    server.stdin.flush()
    assert server.stdout.readline()
    server.send_signal(number)
    assert server.wait(PATIENCE_S) == INTERRUPTED
    server.stdin.close()
    server.stdout.close()
