"""Which files a step has changed: what can be seen is named, and of the rest it is said that it is not known."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.model_wire import EVENTS, Answer, answering
from tests.task_runs import carried_out, task
from tests.words import DEFINITIONS, SHELL, Style, run_lines, touches


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    (tmp_path / "ws").mkdir()
    return tmp_path / "ws"


def agent(script: str) -> str:
    return f"[agents.coder]\ncommand = ['bash', '-c', '''cat > /dev/null; {script}''']\n"


def affected(workspace: Path, settings: str, *steps: dict[str, Any]) -> list[Any]:
    report = carried_out(workspace, settings, *steps).report
    assert report.status == "completed", [one.evidence for one in report.steps]
    return [one.affected_files for one in report.steps]


CHANGES = "echo new > new.py; echo more >> old.py; rm gone.py; mkdir -p out; echo x > out/ignored; echo A=b > .env"


@pytest.mark.parametrize("git", [False, True])
def test_what_an_agent_that_is_a_process_changes_is_seen_by_looking_before_and_after(
    workspace: Path, git: bool
) -> None:
    for name in ("old.py", "gone.py", "same.py"):
        (workspace / name).write_text("1\n")
    if git:
        (workspace / ".gitignore").write_text("out/\n")
        subprocess.run(["git", "init", "-q"], cwd=workspace, check=True)
    (files,) = affected(workspace, agent(CHANGES), task())
    assert files == (("gone.py", "new.py", "old.py") if git else ("gone.py", "new.py", "old.py", "out/ignored"))


def test_what_a_file_tool_touches_is_known_and_what_a_command_does_is_not(workspace: Path) -> None:
    def tool(name: str, **args: str) -> dict[str, Any]:
        return {"action": {"type": "tool", "tool": name, "args": args}}

    steps = (
        tool("write_file", path="a.txt", content="x"),
        {**tool("move", path="a.txt", to="b.txt"), "needs": ["s1"]},
        {**tool("read_file", path="b.txt"), "needs": ["s2"]},
        {"action": {"type": "run", "command": "echo y > c.txt"}, "needs": ["s3"]},
    )
    assert affected(workspace, agent(":"), *steps) == [("a.txt",), ("a.txt", "b.txt"), (), None]


def test_where_others_are_at_work_meanwhile_it_is_not_known(workspace: Path) -> None:
    waits = "for i in $(seq 200); do [ -e begun ] && exit 0; sleep 0.05; done; exit 1"
    other = {"action": {"type": "run", "command": "touch begun; sleep 0.2"}, "needs": []}
    report = carried_out(workspace, agent(waits), {**task(), "needs": []}, other).report
    assert report.status == "completed" and report.steps[0].affected_files is None
    lines = "\n".join(run_lines(report, Style(False), verbose=True, quiet=False))
    assert "Files:    not known which it changed" in lines


def test_what_a_model_changes_is_known_by_its_calls_also_beside_others(workspace: Path) -> None:
    events = EVENTS["openai-chat"]
    writes = (json.dumps({"path": name, "content": "x"}) for name in ("a.py", "b.py"))
    script = [
        Answer(events("", [("write_file", one) for one in writes])),
        Answer(events("", [("read_file", '{"path": "a.py"}')])),
        Answer(events("Done.")),
        Answer(events("Nothing to do.")),
    ]
    with answering(*script) as server:
        settings = f'[agents.coder]\nmodel = "openai-chat:m"\nbase_url = "{server.url}"\n'
        report = carried_out(workspace, settings, task(), {**task(), "needs": ["s1"]}).report
    assert [one.affected_files for one in report.steps] == [("a.py", "b.py"), ()]
    assert "Files:    a.py, b.py" in "\n".join(run_lines(report, Style(False), verbose=False, quiet=False))
    told = server.asked[3].body["messages"][0]["content"]
    assert "It changed `a.py`, `b.py`." in told, "who needs it is told"


def test_a_tool_touches_what_its_operands_say_and_a_command_anything() -> None:
    assert touches(DEFINITIONS["write_file"], {"path": "a", "content": ""}) == ("a",)
    assert touches(DEFINITIONS["read_file"], {"path": "a"}) == ()
    assert touches(SHELL, {"command": "true"}) is None
