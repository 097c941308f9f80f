"""A model as the runner of tasks, against a server that speaks the real protocols: what it is told and offered, what
its calls do, and that nothing but the contract says that a step is done."""

from __future__ import annotations

import asyncio
import json
import os
import re
import subprocess
import sys
import threading
import urllib.parse
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.interfaces import terminal
from tests.model_wire import EVENTS, Answer, Asked, WireServer, answering
from tests.patience import PATIENCE_S, eventually, eventually_in_loop, hang_guard
from tests.programs import need
from tests.task_runs import KIM, Carried, carried_out, task, trusting
from tests.words import AttemptOutput, Refused, Style, mark_of, open_at_terminal, review_lines

KEY = "sk-of-a-test-0123456789"
PROVIDERS = ("anthropic", "openai", "openai-chat")
DONE = "It is done."


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    (tmp_path / "ws").mkdir()
    return tmp_path / "ws"


@pytest.fixture(autouse=True)
def key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MY_MODEL", KEY)


def settings(server: WireServer, provider: str = "openai-chat", more: str = "") -> str:
    return f'[agents.coder]\nmodel = "{provider}:a-model"\nbase_url = "{server.url}"\nkey_env = "MY_MODEL"\n{more}'


class Turns:
    """The turns of a model in one protocol."""

    def __init__(self, provider: str = "openai-chat") -> None:
        self.provider = provider

    def says(self, text: str = DONE, **more: Any) -> Answer:
        return Answer(EVENTS[self.provider](text, **more))

    def calls(self, *uses: tuple[str, dict[str, Any] | str], **more: Any) -> Answer:
        written = [(name, args if isinstance(args, str) else json.dumps(args)) for name, args in uses]
        return Answer(EVENTS[self.provider]("", written, **more))


CHAT = Turns()


def answers_of(asked: Asked) -> list[str]:
    """What the last request answers to calls of tools, in whichever protocol."""
    body = asked.body
    if "input" in body:
        return [one["output"] for one in body["input"] if one.get("type") == "function_call_output"]
    said = [message for message in body["messages"] if message["role"] in ("user", "tool")]
    if any(message["role"] == "tool" for message in said):
        return [message["content"] for message in said if message["role"] == "tool"]
    parts = [part for message in said if isinstance(message["content"], list) for part in message["content"]]
    return [part["content"] for part in parts if part["type"] == "tool_result"]


def run(workspace: Path, *answers: Any, steps: tuple[Any, ...] = (), more: str = "", **given: Any) -> Any:
    with answering(*answers) as server:
        config = settings(server, more=more)
        return carried_out(workspace, config, *(steps or (task(**given),))), server.asked


# --- It does a plan --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("provider", PROVIDERS)
def test_a_plan_of_two_steps_is_done_by_a_model_over_each_protocol(workspace: Path, provider: str) -> None:
    turns = Turns(provider)
    code = "def add(a, b):\n    return a + b\n"
    script = [
        turns.calls(("list_files", {"path": "."}), thinking="Look first."),
        turns.calls(("write_file", {"path": "add.py", "content": code})),
        turns.says("I wrote add.py."),
        turns.calls(("read_file", {"path": "add.py"})),
        turns.calls(("write_file", {"path": "test_add.py", "content": "from add import add\nassert add(1, 2) == 3\n"})),
        turns.says(),
    ]
    with answering(*script) as server:
        went = carried_out(
            workspace,
            settings(server, provider),
            task("Write add.py.", contract="test -s add.py"),
            task("Write a test.", contract="python3 test_add.py", needs=["s1"]),
        )
    assert went.report.status == "completed", [one.evidence for one in went.report.steps]
    assert [one.evidence for one in went.report.steps] == ["contract held (exit status 0)"] * 2
    assert (workspace / "add.py").read_text() == code
    first, *_, last = server.asked
    assert "Write add.py." in json.dumps(first.body) and "list_files" in json.dumps(first.body)
    assert answers_of(last)[0] == code, "what a tool gave is what it is told"
    assert [one.used.tokens for one in went.outcomes] == [67 * 3] * 2
    assert [one.calls for one in went.report.steps] == [2, 2]


def test_what_its_provider_sent_goes_back_unchanged(workspace: Path) -> None:
    turns = Turns("anthropic")
    script = [turns.calls(("list_files", {"path": "."}), thinking="Hm."), turns.says()]
    with answering(*script) as server:
        carried_out(workspace, settings(server, "anthropic"), task())
    content = server.asked[1].body["messages"][1]["content"]
    assert content[0] == {"type": "thinking", "thinking": "Hm.", "signature": "c2lnbmVk"}


def test_it_is_offered_exactly_the_tools_of_its_step(workspace: Path) -> None:
    given = {"action": {"type": "task", "agent": "coder", "task": "Look.", "tools": ["read_file"]}}
    _, asked = run(workspace, CHAT.says(), steps=({**task(), **given},))
    assert [one["function"]["name"] for one in asked[0].body["tools"]] == ["read_file", "cannot"]
    (told,) = asked[0].body["messages"]
    assert told["role"] == "user" and "The tools of this step are `read_file`." in told["content"]
    assert "server `ordain`" not in told["content"]


# --- Nobody believes it ----------------------------------------------------------------------------------------------


def test_one_that_lies_is_caught_by_the_contract_and_told_so_in_the_next_attempt(workspace: Path) -> None:
    script = [
        CHAT.says("All tests pass."),
        CHAT.calls(("write_file", {"path": "done.txt", "content": "yes\n"})),
        CHAT.says(),
    ]
    went, asked = run(
        workspace, *script, contract="grep yes done.txt", on_failure={"strategy": "retry", "max_attempts": 2}
    )
    assert went.report.status == "completed"
    assert [one.verdict for one in went.evidence] == ["broken", "held"]
    again = asked[1].body["messages"][0]["content"]
    assert "attempt 2" in again and "All tests pass." in again and "the check was broken (`exit status 2" in again
    assert len(asked[1].body["messages"]) == 1, "a fresh dialogue"


def test_what_it_may_not_do_is_refused_and_recorded_and_it_goes_on(workspace: Path) -> None:
    writes = {"path": "src/a.py", "content": "x\n"}
    script = [
        CHAT.calls(("write_file", {"path": "elsewhere.py", "content": "x\n"})),
        CHAT.calls(("shell", {"command": "touch ran"})),
        CHAT.calls(("upload_keys", {})),
        CHAT.calls(("write_file", {"path": "src/a.py"})),
        CHAT.calls(("write_file", '{"path": "src/a.py", ')),
        CHAT.calls(("write_file", writes), ("read_file", {"path": ".env"})),
        CHAT.says(),
    ]
    (workspace / ".env").write_text("A=b\n")
    (workspace / "src").mkdir()
    went, asked = run(workspace, *script, contract="test -s src/a.py", writes=["src/**"])
    assert went.report.status == "completed"
    said = [answers_of(one)[-1] for one in asked[1:]]
    codes = ["E_CALL_BOUNDS", "E_CALL_SCOPE", "E_CALL_SCOPE", "E_CALL_ARGUMENTS", "cannot be read", "E_CALL_BOUNDS"]
    for words, code in zip(said, codes, strict=True):
        assert words.startswith("Error: ") and code in words, (words, code)
    assert not (workspace / "elsewhere.py").exists() and not (workspace / "ran").exists()
    assert went.outcomes[0].refused == 5 and went.report.steps[0].calls == 1


@pytest.mark.parametrize(
    "answer",
    [
        CHAT.calls(("cannot", {"reason": "There is no table refunds."})),
        CHAT.says("I looked.\n\nORDAIN CANNOT: There is no table refunds."),
    ],
    ids=["by its tool", "in its last words"],
)
def test_it_can_say_that_it_cannot_be_done_and_then_a_person_decides(workspace: Path, answer: Answer) -> None:
    went, asked = run(workspace, answer, contract="false", on_failure={"strategy": "retry", "max_attempts": 3})
    assert went.outcomes[-1].error == "F_AGENT_CANNOT" and "no table refunds" in went.outcomes[-1].detail
    assert len(asked) == 1, "it is not tried again"
    assert went.report.status == "waiting" and went.report.questions[0].step == "s1"


# --- Its limits ------------------------------------------------------------------------------------------------------


def test_it_makes_fifty_calls_and_no_more(workspace: Path) -> None:
    look = CHAT.calls(*[("list_files", {"path": "."})] * 20)
    went, asked = run(workspace, look, look, look)
    (seen,) = went.outcomes
    assert (seen.error, went.report.steps[0].calls) == ("F_AGENT_LIMIT", 50)
    assert "50 calls" in seen.detail and len(asked) == 3


def test_no_request_begins_once_its_tokens_are_used_up(workspace: Path) -> None:
    look = CHAT.calls(("list_files", {"path": "."}))
    went, asked = run(workspace, look, look, look, budget={"tokens": 100})
    (seen,) = went.outcomes
    assert (seen.error, len(asked), seen.used.tokens) == ("F_AGENT_LIMIT", 2, 134)
    assert asked[0].body["max_tokens"] == 100 and asked[1].body["max_tokens"] == 33


@hang_guard
def test_its_time_is_the_steps(workspace: Path) -> None:
    held = threading.Event()
    try:
        went, _ = run(workspace, Answer(held_before=held), timeout_ms=300)
    finally:
        held.set()
    assert went.outcomes[0].error == "F_STEP_TIMEOUT"


def test_a_server_that_refuses_the_key_is_a_failed_attempt(workspace: Path) -> None:
    body = json.dumps({"error": {"message": f"invalid key {KEY}"}}).encode()
    went, asked = run(workspace, Answer(status=401, body=body))
    (seen,) = went.outcomes
    assert (seen.error, len(asked)) == ("F_MODEL_UNREACHED", 1)
    assert "HTTP 401: invalid key [redacted key]" in seen.detail


@pytest.mark.slow("it waits 7 s between its tries")
def test_a_server_that_is_not_there_is_a_failed_attempt(workspace: Path) -> None:
    with answering() as server:
        config = settings(server)
    went = carried_out(workspace, config, task(timeout_ms=60_000))
    assert went.outcomes[0].error == "F_MODEL_UNREACHED" and "cannot be reached" in went.outcomes[0].detail


def test_a_server_that_wants_a_pause_gets_it_and_the_transcript_tells_of_it(workspace: Path) -> None:
    busy = Answer(
        status=429, headers={"retry-after-ms": "10"}, body=json.dumps({"error": {"message": f"slow {KEY}"}}).encode()
    )
    went, asked = run(workspace, busy, CHAT.says())
    assert went.report.status == "completed" and len(asked) == 2
    found = transcript(workspace, went)
    assert [(one["status"], one["wait_ms"]) for one in found.failed_requests] == [(429, 10)]
    assert KEY not in msgspec.json.encode(found).decode()


# --- While it works --------------------------------------------------------------------------------------------------


@pytest.mark.slow("a second passes before anybody looks what was said")
def test_what_it_says_and_which_requests_failed_is_told_while_it_works(workspace: Path) -> None:
    held = threading.Event()
    busy = Answer(status=503, headers={"retry-after-ms": "1"}, body=b'{"error": {"message": "busy"}}')
    said = CHAT.calls(("list_files", {"path": "."}))
    script = [busy, said, Answer(EVENTS["openai-chat"](f"I see {KEY} there.")[:-3], held_after=held), CHAT.says()]
    told: list[str] = []

    def observe(one: Any) -> None:
        if isinstance(one, AttemptOutput):
            told.append(one.tail)
            if "there." in one.tail:
                held.set()

    async def life(server: WireServer) -> None:
        plan_id = await approved(workspace, settings(server), {"id": "s1", **task()})
        app = open_at_terminal(workspace, exact=True)
        await app.runs.commit(plan_id, KIM, observe)
        await app.close()

    with answering(*script) as server:
        asyncio.run(life(server))
    last = told[-1]
    assert "[The request failed: HTTP 503: busy; it is tried again after 0.001 s]" in last
    assert "→ list_files" in last and "I see [redacted MY_MODEL] there." in last
    assert KEY not in "".join(told)


# --- What is kept ----------------------------------------------------------------------------------------------------


def transcript(workspace: Path, went: Carried) -> Any:
    app = open_at_terminal(workspace, exact=True)
    return app.runs.transcript(went.report.run_id, "s1")


def test_what_was_said_is_kept_without_what_only_its_provider_reads(workspace: Path) -> None:
    turns = Turns("openai")
    script = [turns.calls(("list_files", {"path": "."}), thinking="Hm."), turns.says()]
    with answering(*script) as server:
        went = carried_out(workspace, settings(server, "openai"), task())
        assert server.asked[1].body["input"][1]["encrypted_content"] == "ZW5jcnlwdGVk"
    found = transcript(workspace, went)
    assert [one["type"] for one in found.messages] == ["user", "model", "tools", "model"]
    assert found.messages[1]["uses"][0]["name"] == "list_files" and found.messages[3]["text"] == DONE
    assert "ZW5jcnlwdGVk" not in msgspec.json.encode(found).decode()
    assert (found.model, found.address) == ("openai:a-model", server.url)


def test_its_key_is_sent_to_its_server_and_stands_nowhere_else(workspace: Path) -> None:
    (workspace / "note.txt").write_text(f"the key is {KEY}\n")
    given = {"action": {"type": "task", "agent": "coder", "task": "Look.", "tools": ["read_file", "shell"]}}
    script = [
        CHAT.calls(("read_file", {"path": "note.txt"})),
        CHAT.calls(("shell", {"command": "env; cat note.txt"})),
        CHAT.says(f"It is {KEY}."),
    ]
    went, asked = run(workspace, *script, steps=({**task(), **given},))
    assert {one.headers["authorization"] for one in asked} == {f"Bearer {KEY}"}
    # What the model itself has said is sent back as it was; nothing of ours has it.
    for one in asked:
        assert KEY not in json.dumps(one.body)
    assert "MY_MODEL" not in answers_of(asked[-1])[-1].replace("[redacted MY_MODEL]", "")
    home = Path(os.environ["ORDAIN_HOME"])
    for path in (*home.rglob("*"), *(workspace / ".ordain").rglob("*")):
        if path.is_file():
            assert KEY.encode() not in path.read_bytes(), path
    assert went.report.status == "completed"


QUERY_KEY = "q7-of+an/address%21"


def test_a_key_in_the_query_of_an_address_is_shown_nowhere(workspace: Path) -> None:
    in_query = f"?api-version=2024-10-21&code={urllib.parse.quote(QUERY_KEY, safe='')}"

    def refused(asked: Asked) -> Answer:
        return Answer(status=400, body=json.dumps({"error": {"message": f"bad {QUERY_KEY} at {asked.path}"}}).encode())

    with answering(refused) as server:
        config = settings(server).replace(server.url, f"{server.url}{in_query}")
        planner = f'[planner]\nmodel = "openai-chat:a-model"\nbase_url = "{server.url}{in_query}"\n'
        far = f'[tools.far]\nurl = "http://127.0.0.1:9/mcp{in_query}"\n'
        went = carried_out(workspace, config + planner + far, task(description="As of 2024-10-21."))
    hidden, decoded = (f"[redacted agents.coder.base_url:{number}]" for number in (1, 2))
    assert f"bad {decoded} at /v1/chat/completions?api-version=2024-10-21&code={hidden}" in went.outcomes[0].detail
    run, plan = went.report.run_id, went.report.plan_id
    verbs = [
        "config",
        "robot config",
        "tools",
        "robot tools",
        "agents",
        "log",
        "robot log",
        f"watch {run}",
        "plan Goal",
    ]
    verbs += [f"{robot}show {one}" for robot in ("", "robot ") for one in (run, plan, f"{run} --transcript s1")]
    ended = [terminal.without_terminal(*words.split(), cwd=workspace) for words in verbs]
    shown = "\n".join(f"{one.out}{one.err}" for one in ended)
    for path in (workspace / ".ordain").rglob("*.md"):
        shown += path.read_text()
    for form in (QUERY_KEY, urllib.parse.quote(QUERY_KEY, safe="")):
        assert form not in shown
    assert "It is at http://127.0.0.1:9/mcp?…." in shown and hidden in shown and "As of 2024-10-21" in shown


# --- What a person approves ------------------------------------------------------------------------------------------


async def preparing(workspace: Path, config: str) -> Any:
    """The review of a task, by a configuration that a person trusted; and what opens the workspace again."""
    await trusting(workspace, config)
    app = open_at_terminal(workspace, exact=True)
    plan = {"title": "T", "steps": [{"id": "s1", **task()}]}
    return app, (await app.plans.prepare(msgspec.json.encode(plan), None, KIM)).review


def test_an_approver_sees_where_it_is_and_is_bound_to_that(workspace: Path) -> None:
    async def life() -> None:
        with answering() as server:
            config = settings(server)
            app, review = await preparing(workspace, config)
            (task,) = review.tasks
            assert (task.address, task.key_env, task.model) == (server.url, "MY_MODEL", "openai-chat:a-model")
            lines = "\n".join(review_lines(review, Style(False)))
            assert f"It is:      a model at {server.url}, model openai-chat:a-model" in lines
            assert f"{server.url} is told the task, what it reads and what its tools answer" in lines
            assert "the key in MY_MODEL is sent there and nowhere else" in lines
            await app.approvals.approve(review.plan_id, KIM)
            await trusting(workspace, config.replace("127.0.0.1", "localhost"))
            with pytest.raises(Refused) as refused:
                await app.runs.commit(review.plan_id, KIM)
            assert refused.value.problems[0].code == "E_PLAN_STALE_BASE" and "coder" in str(refused.value)
            await app.close()

    asyncio.run(life())


def test_no_run_begins_without_its_key(workspace: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def life() -> None:
        with answering() as server:
            app, review = await preparing(workspace, settings(server))
            await app.approvals.approve(review.plan_id, KIM)
            monkeypatch.delenv("MY_MODEL")
            with pytest.raises(Refused) as refused:
                await app.runs.commit(review.plan_id, KIM)
            assert not server.asked
            await app.close()
        assert {one.code for one in refused.value.problems} <= {
            "E_AGENT_START",
            "E_PLAN_STALE_BASE",
            "E_APPROVAL_ENVIRONMENT",
        }

    asyncio.run(life())


# --- Cut short -------------------------------------------------------------------------------------------------------

SLOW = "echo begun > begun; sleep 300; echo ended > ended"


def slow_task() -> dict[str, Any]:
    given = {"type": "task", "agent": "coder", "task": "Wait.", "tools": ["shell"]}
    return {"id": "s1", **task(contract="test -e ended", timeout_ms=600_000), "action": given}


async def approved(workspace: Path, config: str, step: dict[str, Any] | None = None) -> str:
    await trusting(workspace, config)
    app = open_at_terminal(workspace, exact=True)
    plan = {"title": "T", "steps": [step or slow_task()]}
    review = (await app.plans.prepare(msgspec.json.encode(plan), None, KIM)).review
    await app.approvals.approve(review.plan_id, KIM)
    await app.close()
    return str(review.plan_id)


@pytest.mark.slow("processes of their own")
def test_a_kill_in_the_middle_of_a_call_leaves_doubt_that_a_person_settles_and_nothing_running(workspace: Path) -> None:
    with answering(CHAT.calls(("shell", {"command": SLOW}))) as server:
        plan_id = asyncio.run(approved(workspace, settings(server)))
        ordain = [sys.executable, "-m", "ordain", "-C", str(workspace)]
        executor = subprocess.Popen([*ordain, "commit", plan_id], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        eventually(lambda: (workspace / "begun").exists() or executor.poll() is not None, "the call")
        executor.kill()
        assert executor.wait() == -9, "it did not die as intended"
        resumed = subprocess.run([*ordain, "resume"], capture_output=True, text=True, check=False)
        assert resumed.returncode == 3 and "in doubt" in resumed.stdout, resumed
        assert len(server.asked) == 1, "nobody asks the model again by itself"
    assert not (workspace / "ended").exists()
    marks = [mark_of(int(path.name)) for path in Path("/proc").iterdir() if path.name.isdigit()]
    (run,) = re.findall(r"RUN-\w+", resumed.stdout)[:1]
    assert not [mark for mark in marks if mark is not None and f"/{run}/" in mark]


@pytest.mark.parametrize("in_call", [True, False], ids=["in a call", "while it answers"])
def test_a_run_that_is_cancelled_lets_go_of_the_model_and_of_what_it_called(workspace: Path, in_call: bool) -> None:
    held = threading.Event()
    answer = (
        CHAT.calls(("shell", {"command": SLOW}))
        if in_call
        else Answer(EVENTS["openai-chat"](DONE)[:2], held_after=held)
    )

    async def life(server: WireServer) -> None:
        plan_id = await approved(workspace, settings(server))
        app, other = (open_at_terminal(workspace, exact=True) for _ in range(2))
        under_way = asyncio.create_task(app.runs.commit(plan_id, KIM))
        await eventually_in_loop(lambda: (workspace / "begun").exists() if in_call else bool(server.asked), "the call")
        run_id = next(line.last_run for line in other.plans.all())
        await other.runs.cancel_run(str(run_id), KIM)
        report = await under_way
        assert report.status == "cancelled"
        await app.close()
        await other.close()

    with answering(answer) as server:
        asyncio.run(life(server))
        held.set()
        if not in_call:
            assert server.broken.wait(PATIENCE_S), "the connection is closed"
    assert not (workspace / "ended").exists()


# --- At tier 1 -------------------------------------------------------------------------------------------------------


@pytest.mark.programs
def test_what_it_runs_is_in_the_sandbox_at_tier_1(workspace: Path) -> None:
    need("bwrap")
    given = {"type": "task", "agent": "coder", "task": "Look.", "tools": ["shell"]}
    script = [CHAT.calls(("shell", {"command": "touch out/in; touch elsewhere; ls -A ~; env"})), CHAT.says()]
    (workspace / "out").mkdir()
    with answering(*script) as server:
        step = {**task(contract="test -e out/in", writes=["out/**"]), "action": given}
        went = carried_out(workspace, settings(server), step, tier=1)
    assert went.report.status == "completed" and not (workspace / "elsewhere").exists()
    assert "MY_MODEL" not in answers_of(server.asked[-1])[-1]


@pytest.mark.parametrize(
    "args",
    [
        '{"path": "\\ud800"}',
        '{"\\ud800": 1}',
        '{"path": ' + '{"k": ' * 900 + "1" + "}" * 901,
        '{"path": 1' + "0" * 400 + "}",
    ],
    ids=["surrogate", "name", "deep", "huge"],
)
def test_arguments_made_to_break_are_answered_and_the_run_goes_on(workspace: Path, args: str) -> None:
    _, asked = run(workspace, CHAT.calls(("write_file", args)), CHAT.calls(("nope", args)), CHAT.says())
    assert len(asked) == 3 and all(one.startswith("Error") for one in answers_of(asked[1]))


def test_a_model_that_says_half_a_character_is_one_that_answers_badly(workspace: Path) -> None:
    went, _ = run(workspace, CHAT.calls(("\ud800", "{}")))
    assert went.outcomes[0].error == "F_MODEL_UNREACHED"
