"""Lists and rules about commands: what opens one, what forbids one, and that nothing else does."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.rows import each
from tests.words import (
    DEFINITIONS,
    SHELL,
    Call,
    CallRule,
    CallStanding,
    Guard,
    Settings,
    read,
    read_settings,
    rule,
    understanding,
)

READ = understanding(Path("/home/kim/project"), Settings())


def plan_of(command: str, contract: str = "test -f README.md"):
    text = f"# Look\n\n## Steps\n\n### 1. Look\n\n**run:** {command}\n**contract:** {contract}\n"
    document = read(text.encode(), "look.plan.md")
    assert document.plan is not None, document.problems
    return document.plan


def asks(command: str, contract: str = "test -f README.md", **settings: object) -> bool:
    return rule(plan_of(command, contract), DEFINITIONS, Settings(understand=READ, **settings)).requires_approval


def test_a_command_that_only_reads_is_allowed_by_that_word_and_no_other():
    assert asks("git status")
    assert asks("git status", allow=("reads", "repeatable", "checkable"))
    assert not asks("git status", allow=("shell:reads",))


@pytest.mark.parametrize("command", ["rm notes.txt", "git push", "git status > x", "npm test", "cat .env", "made-up"])
def test_no_other_command_is(command):
    assert asks(command, allow=("reads", "shell:reads"))


def test_the_contract_counts_as_the_command_does():
    assert asks("git status", "npm test", allow=("shell:reads",))


def test_what_only_reads_can_be_denied_and_asked_about():
    denied = rule(plan_of("git status"), DEFINITIONS, Settings(understand=READ, deny=("shell:reads",))).denied
    assert [problem.code for problem in denied] == ["E_POLICY_DENIED"]
    assert asks("git status", allow=("shell:reads",), ask=("shell:reads",))


def test_without_a_reader_nothing_is_known_to_read():
    settings = Settings(allow=("shell:reads",))
    assert rule(plan_of("git status"), DEFINITIONS, settings).requires_approval


def test_variables_of_a_step_make_another_command_of_it():
    fields = "**run:** git status\n**env:**\n```yaml\nGIT_DIR: /x\n```\n**contract:** test -f a\n"
    text = f"# Look\n\n## Steps\n\n### 1. Look\n\n{fields}"
    plan = read(text.encode(), "look.plan.md").plan
    assert plan is not None
    assert rule(plan, DEFINITIONS, Settings(understand=READ, allow=("shell:reads",))).requires_approval


def standing(command: str, **settings: object) -> CallStanding:
    guard = Guard(Settings(understand=READ, **settings))
    return guard.judge(Call(tool=SHELL.name, args={"command": command}, definition=SHELL)).standing


def test_the_guard_opens_what_only_reads_where_it_is_told_so():
    assert standing("git status") is CallStanding.GUARDED
    assert standing("git log | head", open_calls=("shell:reads",)) is CallStanding.OPEN
    assert standing("git log | sh", open_calls=("shell:reads",)) is CallStanding.GUARDED


def rules(**where: object) -> dict[str, object]:
    return {"rules": {"x": CallRule(tools=("shell",), where=where)}}


TESTS = rules(program=("pytest", "make"), arguments=("-q", "tests", "test"))


@each(
    "command, opened",
    [
        ("pytest -q tests", True),
        ("make test", True),
        ("make test && git status", False),
        ("make deploy", False),
        ("pytest -q tests; rm x", False),
        ("pytest -q tests > out", False),
        ("pytest -q $X", False),
        ("sudo make test", False),
        ("make test -f Other", False),
    ],
)
def test_a_rule_opens_what_it_names_by_a_strict_reading_only(command, opened):
    found = standing(command, open_calls=("rule:x",), **TESTS)
    assert (found is CallStanding.OPEN) is opened


def test_a_call_without_arguments_has_none_that_does_not_fit():
    assert standing("make", open_calls=("rule:x",), **TESTS) is CallStanding.OPEN
    assert standing("make", open_calls=("rule:x",), **rules(program="make", subcommand="x")) is CallStanding.GUARDED


@pytest.mark.parametrize(
    "line", ["uv run pytest -q", "npx pytest -q", "python -m pytest -q", "timeout 9 uv run pytest -q"]
)
def test_what_finds_a_program_in_the_project_is_opened_only_where_a_rule_names_that(line):
    unnamed, named = CallRule(tools=("shell",), where={"program": "pytest"}), ("through",)
    assert standing(line, open_calls=("rule:x",), rules={"x": unnamed}) is CallStanding.GUARDED
    opening = CallRule(tools=("shell",), where={"program": "pytest"}, besides=named)
    assert standing(line, open_calls=("rule:x",), rules={"x": opening}) is CallStanding.OPEN


@pytest.mark.parametrize(
    "line",
    [
        "ruff format ../other",
        "ruff format /home/kim/other",
        "ruff check --output-file=/home/kim/.bashrc",
        "ruff check -o/home/kim/.bashrc",
        "ruff format ~/x",
        "sudo ruff check",
        "ruff check $X",
    ],
)
def test_what_runs_code_or_writes_is_opened_only_with_words_that_stay_in_the_workspace(line):
    opening = rules(program="ruff")
    assert (
        standing("ruff format src/a.py /home/kim/project/b.py", open_calls=("rule:x",), **opening) is CallStanding.OPEN
    )
    assert standing(line, open_calls=("rule:x",), **opening) is CallStanding.GUARDED


def test_what_is_not_known_must_be_named_to_be_opened():
    line, fetch = "git fetch --upload-pack=x origin", {"program": "git", "subcommand": "fetch"}
    assert standing(line, open_calls=("rule:x",), **rules(**fetch)) is CallStanding.GUARDED
    assert standing(line, open_calls=("rule:x",), **rules(**fetch, unknown=True)) is CallStanding.OPEN


def test_an_option_of_a_subcommand_is_none_of_the_program():
    assert standing("git switch -c a", open_calls=("rule:x",), **rules(program="git", subcommand="switch")) is (
        CallStanding.OPEN
    )
    line = "git -c core.pager=./x switch a"
    assert standing(line, open_calls=("rule:x",), **rules(program="git", subcommand="switch")) is CallStanding.GUARDED


def test_a_rule_that_forbids_an_interpreter_means_its_modules_too():
    for program in ("python", "pytest"):
        found = standing("python -m pytest", deny=("rule:x",), guarded=(), **rules(program=program))
        assert found is CallStanding.DENIED


def test_several_entries_open_a_line_together():
    assert standing("make test && git status", open_calls=("rule:x", "shell:reads"), **TESTS) is CallStanding.OPEN


def test_an_alarm_must_be_named_to_be_opened():
    clean = rules(program="rm", arguments=("-rf", "build", "dist"))
    named = rules(program="rm", arguments=("-rf", "build", "dist"), deletes=True, force=True, irreversible=True)
    assert standing("rm -rf build", open_calls=("rule:x",), **clean) is CallStanding.GUARDED
    assert standing("rm -rf build", open_calls=("rule:x",), **named) is CallStanding.OPEN
    assert standing("rm -rf src", open_calls=("rule:x",), **named) is CallStanding.GUARDED


FORCED = rules(program="git", subcommand="push", force=True)


@pytest.mark.parametrize(
    ("command", "found"),
    [
        ("git push --force", CallStanding.DENIED),
        ("cd a && sudo git -C b push origin +main", CallStanding.DENIED),
        ("bash -c 'git push -f'", CallStanding.DENIED),
        ("git push origin main", CallStanding.OPEN),
        ("ls", CallStanding.OPEN),
        ("$GIT push -f", CallStanding.GUARDED),
        ("x" * 20_000, CallStanding.GUARDED),
    ],
)
def test_a_rule_forbids_what_it_means_wherever_it_is_found(command, found):
    assert standing(command, deny=("rule:x",), guarded=(), **FORCED) is found


def test_what_runs_code_of_the_workspace_is_labelled():
    guard = Guard(Settings(understand=READ, open_calls=("rule:x",), **TESTS))
    judged = guard.judge(Call(tool=SHELL.name, args={"command": "make test"}, definition=SHELL))
    assert judged.why == "is open by `rule:x` (runs code from the workspace, not contained at tier 0)"


def test_a_workspace_makes_programs_stricter_and_says_so_in_known_facts():
    settings, problems = read_settings(b'[commands]\nls = ["publishes"]\n')
    assert (settings.commands, problems) == ({"ls": ("publishes",)}, ())
    for wrong in ('ls = ["reads"]', "ls = []", 'ls = "publishes"', 'ls = ["publish"]'):
        assert [one.code for one in read_settings(f"[commands]\n{wrong}\n".encode())[1]] == ["E_CONFIG"]
