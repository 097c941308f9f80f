"""A coding agent's day, written without sight of the rules: what `guard init` opens and what not."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import msgspec

from tests.rows import each
from tests.words import (
    DEFINITIONS,
    SHELL,
    Call,
    CallStanding,
    Guard,
    data_text,
    list_problems,
    read_settings,
    understanding,
    with_rules,
)

DAY = [json.loads(line) for line in (Path(__file__).parent / "day.jsonl").read_text().splitlines()]
SETTINGS = read_settings(with_rules("", data_text("guard_rules.toml")).encode())[0]
SETTINGS = msgspec.structs.replace(SETTINGS, understand=understanding(Path("/home/dev/orderdesk"), SETTINGS))
GUARD = Guard(SETTINGS)

STILL_GUARDED = {
    "here-documents": 11,
    "code in the line": 6,
    "substitutions and `$?`": 5,
    "patterns that the shell expands": 4,
    "groups, loops, background": 4,
    "SQL": 3,
    "other": 6,
}
"""How many lines that should pass no strict reading opens. The numbers only become smaller."""


def kind(command: str) -> str:
    """Why a line has no strict reading."""
    tests = {
        "substitutions and `$?`": ("$(", "$?"),
        "here-documents": ("<<",),
        "code in the line": (" -c ", "timeit", "perl "),
        "SQL": ("psql",),
        "groups, loops, background": ("(cd ", "(uv ", "(npm ", "for "),
        "patterns that the shell expands": ("/*", "=*."),
    }
    if "psql" in command:
        return "SQL"
    return next((name for name, marks in tests.items() if any(mark in command for mark in marks)), "other")


def is_open(command: str) -> bool:
    call = Call(tool=SHELL.name, args={"command": command}, definition=SHELL)
    return GUARD.judge(call).standing is CallStanding.OPEN


def test_nothing_dangerous_is_open():
    assert [each["command"] for each in DAY if each["expect"] == "refuse" and is_open(each["command"])] == []


def test_what_should_pass_is_open_but_for_what_no_strict_reading_opens():
    guarded = [each["command"] for each in DAY if each["expect"] == "pass" and not is_open(each["command"])]
    assert Counter(map(kind, guarded)) == STILL_GUARDED, guarded


def test_the_rules_do_what_their_examples_say():
    assert list_problems(SETTINGS, DEFINITIONS) == ()


@each(
    "command",
    [
        "pytest --junitxml=/home/dev/.bashrc",
        "cp evil.py .git/hooks/pre-commit",
        "sed -i 's/observe/enforce/' ordain.toml",
        "sed -i s/a/b/ .claude/settings.json",
        "git fetch --upload-pack=./x origin",
        "git -c core.pager=./x log",
        "git restore --staged --worktree a.py",
        "git checkout -- Makefile",
        "git rebase --exec ./x main",
        "npm run ship",
        "npm install left-pad",
        "make SHELL=./x test",
        "curl -s https://example.com",
        "curl -T a http://localhost",
        "python3",
        "echo x | python3",
        "cat a | python3 -m pytest > /etc/x",
        "rm -rf build ../other",
        "LD_PRELOAD=./x.so pytest",
        "NODE_OPTIONS=--require=./x npm test",
        "uv run --with evil pytest",
        "npx -y pytest",
        "docker compose -f /home/dev/other.yml up",
        "cd .. && pytest",
        "cd /etc && make test",
        "bash -c 'pytest'",
        "pytest &",
        "terraform plan",
        "kubectl get secrets",
        "curl -x http://example.com http://localhost",
        "curl -G -d a http://localhost",
        "git apply --unsafe-paths a.patch",
        "pre-commit install",
        "git -C /home/dev/other commit -m x",
        "git --git-dir=../x/.git add a",
        "npm --prefix ../other test",
        "uv run --directory /home/dev/other pytest",
        "gh api -X patch repos/a/b",
    ],
)
def test_what_only_looks_like_a_day_of_work_is_guarded(command):
    assert not is_open(command)
