"""What the work of a step is counted under, and what is told of programs that were missing."""

from __future__ import annotations

import pytest

from ordain.core.plan.action import AcquireLock, CallTool, RunCommand, Task
from ordain.core.plan.model import Action
from ordain.core.report.tally import could_not_start, kind_of, missing_program
from tests.rows import each


@each(
    "command, kind",
    [
        ("pytest -q", "pytest"),
        ("  /usr/bin/make -j4 && true", "make"),
        ("LANG=C CI=1 cargo build", "cargo"),
        ("cd web && npm test", "npm"),
        ("set -x; cd a\n./build.sh", "build.sh"),
        ("test -f x", "test"),
        ("echo; ls", "echo"),
        ("for f in *; do cat $f; done", "shell"),
        ("$TOOL --fast", "shell"),
        ("(cd a; make)", "shell"),
        ('"my program" x', "shell"),
        ("X=$(date) make", "shell"),
        ("", "shell"),
    ],
)
def test_a_command_counts_under_its_first_program(command: str, kind: str):
    assert kind_of(RunCommand(command=command)) == kind
    if command:
        assert kind_of(CallTool(tool="shell", args={"command": command})) == kind


@pytest.mark.parametrize(
    ("action", "kind"),
    [
        (CallTool(tool="exec", args={"argv": ["/opt/bin/gh", "pr"]}), "gh"),
        (CallTool(tool="write_file", args={"path": "a", "content": ""}), "write_file"),
        (AcquireLock(lock_name="deploy"), "acquire_lock"),
        (Task(task="Fix it."), "task"),
    ],
)
def test_everything_else_counts_under_its_tool_or_kind(action: Action, kind: str):
    assert kind_of(action) == kind


@each(
    "output, program",
    [
        ("bash: line 1: jq: command not found\n", "jq"),
        ("some words\nbash: line 12: ./run.sh: Permission denied", "./run.sh"),
        ("env: ‘node’: No such file or directory\n", "node"),
        ("/bin/sh: 1: foo: not found\n", "foo"),
        ("./old: cannot execute: required file not found", "./old"),
        ("bash: line 1: a: command not found\nbash: line 2: b: command not found\n", "b"),
        ("it just failed\n", None),
        ("", None),
    ],
)
def test_the_missing_program_is_the_one_that_was_written_about_last(output: str, program: str | None):
    assert missing_program(output, None) == program
    assert missing_program(output, RunCommand(command="make")) == program


def test_a_program_that_is_run_without_a_shell_names_itself():
    assert missing_program("", CallTool(tool="exec", args={"argv": ["gh", "pr"]})) == "gh"
    assert could_not_start("could not be started: [Errno 2] No such file or directory: 'gh'")
    assert not could_not_start("could not be started: bash is not installed")
    assert not could_not_start("exit status 1")
