"""What changed, as people read it, compared with the texts in tests/golden/render/difference."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterable
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from msgspec.structs import replace

from ordain.interfaces.view.diff import _compared
from tests.build import plan, step
from tests.interfaces.golden import RENDER, check_golden
from tests.plans import plans
from tests.words import (
    DEFINITIONS,
    Budget,
    Comparison,
    Fallback,
    NestedPlan,
    Parameter,
    Plan,
    RunCommand,
    Side,
    Skip,
    Style,
    Task,
    difference,
    difference_lines,
    plan_id,
)

PLAIN, COLOUR = Style(False), Style(True)
TEXT = "".join(f"line {number}\n" for number in range(1, 31))

OLD = plan(
    step("settings", tool="read_file", args={"path": "config.json"}, needs=()),
    step(
        "write",
        tool="write_file",
        args={"path": "config.new.json", "content": TEXT, "deep": {"a b": [1, None]}},
        contract="cmp config.json config.new.json",
    ),
    step("suite", run="pytest -q tests/auth", timeout_ms=600_000),
    step("notes", run="cat notes", needs=("settings",)),
    step("mail", run="send-mail --to ops"),
    title="Fix the timeout",
    context="Logins time out.\nSee the ticket.",
    tools=("read_file", "write_file", "shell"),
    protect=("tests/**",),
    fallbacks=(step("undo", needs=(), run="git checkout ."),),
)
NEW = plan(
    OLD.steps[0],
    step(
        "write",
        tool="write_file",
        args={
            "path": "config.new.json",
            "content": TEXT.replace("line 15\n", "line fifteen\nline more \n"),
            "deep": {"a b": [1, None, "x" * 80]},
        },
        on_failure=Fallback(steps=("undo",)),
    ),
    step("deploy", run="set -x\ncurl -X POST https://example.com/hook \\\n  -d @config.new.json", idempotent=True),
    step("mail", run="send-mail --to everybody", needs=("deploy",), on_failure=Skip()),
    replace(step("tests", run="pytest -q tests/auth", timeout_ms=600_000), needs=("write",)),
    step("notes", run="cat notes", needs=("settings",)),
    title="Fix the timeout",
    context="Logins time out.\nSee the ticket.\nAnd the other one.",
    budget=Budget(tokens=1000),
    params={"who": Parameter(type="string", default="ops")},
    fallbacks=(step("undo", needs=(), run="git reset --hard"),),
)
HOSTILE = plan(
    replace(
        step("a", needs=()),
        description="evil\u202egnp.sh\x1b[2J",
        action=RunCommand(command="true\n\x1b]0;x\x07 + added line   \n\u200bhidden\n│ - removed"),
    ),
    title="\x1b[31mred\u2066",
)
INSIDE = plan(
    replace(step("out"), action=NestedPlan(plan=plan(step("one", run="a"), step("two", run="b"), title="Inside")))
)
INSIDE_NEW = plan(
    replace(
        step("out"),
        action=NestedPlan(plan=plan(step("one", run="a\nb"), step("two", run="b", contract="t"), title="Within")),
    )
)


def compared(old: Plan, new: Plan, style: Style = PLAIN, **sides: Any) -> Iterable[str]:
    before = Side(plan_id=plan_id(old), plan=old, lineage="PLAN-H7TBAAAAAAAAAAAA", document="fix.plan.md")
    after = Side(plan_id=plan_id(new), plan=new, document="evil\u202egnp.md")
    return difference_lines(Comparison(old=before, new=after, difference=difference(old, new, DEFINITIONS)), style)


SHOWN: dict[str, Callable[[], Iterable[str]]] = {
    "everything": lambda: compared(OLD, NEW),
    "everything-colour": lambda: compared(OLD, NEW, COLOUR),
    "back": lambda: compared(NEW, OLD),
    "same": lambda: compared(OLD, OLD),
    "hostile": lambda: compared(plan(replace(step("a"), action=Task(task="x"))), HOSTILE),
    "hostile-text": lambda: compared(plan(step("a", needs=(), run="true\nplain")), HOSTILE),
    "nested": lambda: compared(INSIDE, INSIDE_NEW),
}


@pytest.mark.parametrize("name", SHOWN)
def test_golden(name: str):
    check_golden(f"difference/{name}.txt", SHOWN[name]())


def test_no_golden_text_is_left_over():
    assert {file.stem for file in (RENDER / "difference").glob("*.txt")} == set(SHOWN)


def test_colour_adds_nothing_but_colour():
    coloured = [re.sub(r"\x1b\[[0-9]+m", "", line).rstrip() for line in compared(OLD, NEW, COLOUR)]
    assert coloured == list(compared(OLD, NEW))


@pytest.mark.slow
@given(plans(), plans())
@settings(deadline=None, suppress_health_check=list(HealthCheck), max_examples=20)
def test_whatever_two_plans_say_nothing_steers_the_terminal(old: Plan, new: Plan):
    for line in compared(old, new):
        left = {one for one in line if unicodedata.category(one) in ("Cc", "Cf", "Cs", "Zl", "Zp")}
        assert left <= {"\u200c", "\u200d"}
        line.encode()


@pytest.mark.parametrize(
    ("old", "new", "lines"),
    [
        ("a", "b", ["- a", "+ b"]),
        ("a b c d", "a b x c d", ["  a", "  b", "+ x", "  c", "  d"]),
        ("1 2 3 4 5 6 x", "1 2 3 4 5 6 y", ["… 3 lines are the same", "  4", "  5", "  6", "- x", "+ y"]),
        ("", "a", ["- ", "+ a"]),
    ],
)
def test_texts_are_compared_line_by_line(old: str, new: str, lines: list[str]):
    assert [f"{mark} {line}" for mark, line in _compared(old.split(" "), new.split(" "))] == lines


def test_long_texts_are_compared_in_time_and_whole():
    old, new = [f"a{number}" for number in range(30_000)], [f"b{number}" for number in range(30_000)]
    assert [line for mark, line in _compared(old, new) if mark == "+"] == new
    assert len(list(_compared(["x", *old, "y"], ["x", *new, "y"]))) == 60_002


def test_every_value_that_changed_is_shown():
    shown = "\n".join(compared(OLD, NEW))
    for text in ("send-mail --to everybody", "git reset --hard", "line fifteen", "line more‹U+20›", "x" * 80, "ops"):
        assert text in shown
    assert msgspec.json.encode(1000).decode() in shown


def test_letters_that_pass_for_others_are_escaped_in_commands_and_paths():
    passing = "\u0441\u043e\u0440\u0443 a b"  # Cyrillic, looks like `copy a b`
    old = plan(step("a", run="copy a b", contract="cmp a b"), context="copy a b")
    new = plan(
        step("a", run=passing, contract=f"{passing} c"),
        replace(step("more", run=f"true\n{passing}"), writes=("\u0430.py",)),
        context=passing,
    )
    lines = list(compared(old, new))
    assert len([line for line in lines if "‹U+441›‹U+43E›" in line]) == 3
    assert [line for line in lines if passing in line] == [f'  context: "copy a b" → "{passing}"']  # prose
    assert any("‹U+430›.py" in line for line in lines)


def test_changes_that_are_the_same_are_told_once_with_the_steps_they_are_about() -> None:
    names = [f"s{number}" for number in range(1, 2001)]
    old = plan(*(step(name, run=f"work {name}", timeout_ms=30_000, needs=()) for name in names))
    odd = {"s7": {"run": "work other"}}
    new = plan(
        *(step(name, **{"run": f"work {name}", **odd.get(name, {})}, timeout_ms=60_000, needs=()) for name in names)
    )
    found = difference(old, new, DEFINITIONS)
    sides = [Side(plan_id=plan_id(one), plan=one) for one in (old, new)]
    lines = list(difference_lines(Comparison(old=sides[0], new=sides[1], difference=found), PLAIN))
    assert "  ~ 1,999 steps (1-6, 8-2000): timeout: 30s → 1m" in lines
    assert any("7. s7" in line for line in lines) and any("work other" in line for line in lines)
    assert len(lines) < 20, "what is the same 1,999 times takes one line"
    assert len(found.steps.changed) == 2000, "as data every step stands there"
