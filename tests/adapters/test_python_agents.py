"""Agents that are Python functions: in a fresh process each, or registered by the program that uses us."""

from __future__ import annotations

import asyncio
import json
import os
import re
import sqlite3
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest

import ordain
from tests import agent_functions
from tests.agent_functions import THIS
from tests.build import work_item
from tests.programs import need
from tests.task_runs import carried_out, task
from tests.words import (
    Agent,
    BashShell,
    Command,
    Finished,
    LocalAgents,
    Outcome,
    Read,
    StepServer,
    Usage,
    Work,
    read_settings,
)

PATH = "/usr/local/bin:/usr/bin:/bin"
ITEM = work_item(reads=(Read(ref="file:a", size=1),), prompt="All of it.", task="Do it.")


@pytest.fixture
def workspace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("ORDAIN_HOME", str(tmp_path / "state"))
    (tmp_path / "ws").mkdir()
    return tmp_path / "ws"


def configured(name: str, more: str = "") -> str:
    return f'[agents.coder]\npython = "{THIS}:{name}"\n{more}'


def outcome(workspace: Path, name: str, more: str = "", **fields: Any) -> Outcome:
    return carried_out(workspace, configured(name, more), task(**fields)).outcomes[0]


def registered(workspace: Path, function: Any, *, tier: int = 0) -> Outcome:
    """What the configuration says of the same name is not what is asked."""
    return carried_out(workspace, configured("raises"), task(), tier=tier, agents={"coder": function}).outcomes[0]


def test_a_prompt_that_is_too_long_for_an_argument_is_told_of_with_the_way(workspace: Path) -> None:
    (workspace / "long.txt").write_text("x" * 79 + "\n" + ("y" * 79 + "\n") * 2000)
    asked = task()
    asked["action"]["reads"] = ["file:long.txt"]
    settings = '[agents.coder]\ncommand = ["cat", "{prompt}"]\n'
    seen = carried_out(workspace, settings, asked).outcomes[0]
    assert "a word of a command 131,071 at most" in seen.detail and "standard input" in seen.detail
    seen = carried_out(workspace, settings.replace(', "{prompt}"', ""), asked).outcomes[0]
    assert seen.exit_code == 0


# --- In a fresh process ----------------------------------------------------------------------------------------------


def test_a_function_performs_a_task_and_the_contract_judges_it(workspace: Path) -> None:
    carried = carried_out(workspace, configured("writes", 'model = "m"'), task(contract="grep 's1 1' done"))
    assert carried.report.status == "completed"
    (seen,) = carried.outcomes
    assert (seen.error, seen.output_tail) == (None, "coder did 'Do it.' with m\non the side\n")
    assert seen.output_bytes == len("coder did 'Do it.' with m"), "what it prints is no part of what it gives"


def test_what_it_says_counts_for_nothing(workspace: Path) -> None:
    assert carried_out(workspace, configured("writes"), task(contract="test -e nothing")).report.status == "failed"


def test_it_may_be_a_coroutine_function_and_give_what_json_can_say(workspace: Path) -> None:
    seen = outcome(workspace, "slowly")
    assert json.loads(seen.output_tail) == {"step": "s1", "attempt": 1, "reads": []}
    assert seen.output_json, "later steps refer to its parts, wherever the function was called"


def test_what_it_raises_is_a_failure(workspace: Path) -> None:
    seen = outcome(workspace, "raises")
    assert (seen.error, seen.detail) == ("F_STEP_FAILED", "exit status 1")
    assert "ValueError: no such thing" in seen.output_tail
    assert "is not JSON serializable" in outcome(workspace, "odd").output_tail


def test_it_can_say_that_the_contract_cannot_be_satisfied(workspace: Path) -> None:
    seen = outcome(workspace, "gives_up")
    assert seen.error == "F_AGENT_CANNOT"
    assert seen.detail == "`coder` says that it cannot be done: the test asserts that 1 is 2"


def test_what_it_uses_is_counted(workspace: Path) -> None:
    assert outcome(workspace, "counts").used == Usage(tokens=750, cost_usd=0.25)


def test_a_function_that_is_not_there_is_a_failure(workspace: Path) -> None:
    assert "AttributeError" in outcome(workspace, "nobody").output_tail
    agents = LocalAgents(workspace)
    assert agents.fault(Agent(python="no_such_module.deep:f")) == "there is no module no_such_module.deep"
    assert agents.fault(Agent(python=f"{THIS}:writes")) is None


def test_each_attempt_is_a_process_of_its_own_with_variables_from_the_list(
    workspace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SECRET_OF_OURS", "x")
    monkeypatch.setenv("AGENT_KEY", "y")
    settings = configured("where", 'env = ["AGENT_KEY"]')
    one, two = (json.loads(seen.output_tail) for seen in carried_out(workspace, settings, task(), task()).outcomes)
    assert os.getpid() != one["pid"] != two["pid"] != os.getpid()
    assert one["session"] is True
    assert "SECRET_OF_OURS" not in one["variables"] and "PYTHONPATH" not in one["variables"]
    assert {"AGENT_KEY", "ORDAIN_STEP", "ORDAIN_USAGE"} <= set(one["variables"])


def test_nothing_in_the_workspace_takes_the_place_of_a_module(workspace: Path) -> None:
    for name in ("json", "ordain", "asyncio", "tests"):
        (workspace / f"{name}.py").write_text("raise SystemExit('planted')\n")
    assert outcome(workspace, "slowly").error is None


# --- The tools of its step -------------------------------------------------------------------------------------------


def performed(directory: Path, name: str, server: StepServer | None) -> Finished:
    invocation = LocalAgents(directory).invocation(Agent(python=f"{THIS}:{name}"), ITEM, "/room", server)
    command = Command(
        text="", argv=invocation.argv, env={"PATH": PATH}, stdin=invocation.stdin, timeout_ms=20_000, mark="m/1"
    )
    return asyncio.run(BashShell(directory).run(msgspec.structs.replace(command, errors_apart=True)))


def test_it_calls_the_tools_of_its_step(tmp_path: Path) -> None:
    program = str(Path(__file__).parent.parent / "tool_server.py")
    server = StepServer(argv=(sys.executable, program, "well"), env={})
    seen = performed(tmp_path, "calls", server)
    assert json.loads(seen.output) == [{"said": "through the door"}, "the printer\nis on fire"]
    assert seen.leftovers == 0


def test_without_a_door_there_are_none(tmp_path: Path) -> None:
    seen = performed(tmp_path, "calls", None)
    assert seen.exit_code == 1 and b"no tools of the step can be reached" in seen.errors


# --- Registered ------------------------------------------------------------------------------------------------------


def test_a_registered_function_performs_it_in_our_own_process(workspace: Path) -> None:
    seen = registered(workspace, agent_functions.where)
    assert json.loads(seen.output_tail)["pid"] == os.getpid()


def test_a_registered_coroutine_function_too(workspace: Path) -> None:
    seen = registered(workspace, agent_functions.slowly)
    assert json.loads(seen.output_tail)["step"] == "s1" and seen.output_json


def test_a_registered_one_fails_gives_up_and_reports_alike(workspace: Path) -> None:
    assert registered(workspace, agent_functions.raises).detail == "it raised ValueError('no such thing')"
    assert registered(workspace, agent_functions.counts).used == Usage(tokens=750, cost_usd=0.25)
    assert registered(workspace, agent_functions.calls).detail.startswith("it raised RuntimeError('no tools")
    # Last, for its run waits for a person.
    assert registered(workspace, agent_functions.gives_up).error == "F_AGENT_CANNOT"


def test_a_run_does_not_go_on_in_a_program_that_has_it_not(workspace: Path) -> None:
    waits = task(on_failure={"strategy": "escalate"})
    agents = {"coder": agent_functions.raises}
    report = carried_out(workspace, configured("writes"), waits, agents=agents).report
    assert report.status == "waiting"

    async def resumed(**opening: Any) -> None:
        app = ordain.open_workspace(workspace, exact=True, **opening)
        try:
            await app.runs.resume(report.run_id)
        finally:
            await app.close()

    for other in ({}, {"agents": {"coder": agent_functions.writes}}):
        with pytest.raises(ordain.Refused) as caught:
            asyncio.run(resumed(**other))
        assert [problem.code for problem in caught.value.problems] == ["E_AGENT_UNKNOWN"]
    asyncio.run(resumed(agents=agents))


def test_it_is_missing_in_another_program(workspace: Path) -> None:
    definition = LocalAgents(workspace, {"coder": agent_functions.writes}).registered()["coder"]
    result = asyncio.run(LocalAgents(workspace).call(definition, ITEM))
    assert (result.error, result.detail) == ("F_STEP_FAILED", "the agent `coder` is not registered in this program")


def test_what_it_gives_is_kept_without_secrets(workspace: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ITS_TOKEN", "a'quoted\"secret")
    monkeypatch.setenv("PIN_TOKEN", "1234567890")
    for given in ("it is a'quoted\"secret", {"it": ["a'quoted\"secret"]}, {"it": 1234567890}):
        registered(workspace, lambda work, given=given: given)
    (file,) = workspace.parent.rglob("ledger.db")
    kept = [body for (body,) in sqlite3.connect(file).execute("SELECT body FROM kept")]
    assert [body for body in kept if b"quoted" in body or b"1234567890" in body] == []
    assert sum(b"[redacted I" in body or b"[redacted P" in body for body in kept) == 3


def test_nothing_could_hold_it_to_tier_1_so_it_is_refused_there(workspace: Path) -> None:
    need("bwrap")
    with pytest.raises(ordain.Refused) as caught:
        registered(workspace, agent_functions.writes, tier=1)
    (problem,) = caught.value.problems
    assert problem.code == "E_TIER" and "`coder`" in problem.detail
    assert not (workspace / "done").exists()


def test_what_the_page_shows_is_good() -> None:
    page = (Path(__file__).parent.parent.parent / "docs/agents.md").read_text()
    settings = re.findall(r"^```toml\n(.*?)^```$", page, re.DOTALL | re.MULTILINE)
    assert settings and [read_settings(one.encode())[1] for one in settings] == [()] * len(settings)
    for program in re.findall(r"^```python\n(.*?)^```$", page, re.DOTALL | re.MULTILINE):
        compile(program, "docs/agents.md", "exec")
    attributes = set(vars(Work(msgspec.to_builtins(ITEM), call=None, report=print))) | set(dir(Work))
    table = re.search(r"^\| `Work` \|.*?\n\n", page, re.DOTALL | re.MULTILINE)
    assert table is not None
    named = {name for line in table.group().splitlines()[2:] for name in re.findall(r"`(\w+)", line)}
    public = {name for name in attributes if not name.startswith("_")}
    assert public <= named, "an attribute is not described"


def test_work_says_what_it_is() -> None:
    work = Work(msgspec.to_builtins(ITEM), call=None, report=print)
    assert (work.prompt, work.task, work.step, work.attempt, work.model) == ("All of it.", "Do it.", "s1", 1, None)
    assert (work.reads, work.tools, work.key, work.kind) == (("file:a",), (), "key-1", "code")
