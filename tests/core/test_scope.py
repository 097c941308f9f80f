"""What an agent may use inside a step, and what a call of it may do."""

from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from ordain.core.lint.survey import Facts, Survey
from ordain.core.lint.tool import known, operations
from ordain.core.plan.action import Task
from ordain.core.plan.model import NestedPlan
from ordain.core.plan.role import EffectClass
from ordain.core.plan.tool import ARGUMENTS_MAX, BUILT_IN, DEPTH_MAX, ToolDefinition
from ordain.core.policy.scope import (
    call_problem,
    listed_in,
    offered,
    offered_in,
    out_of_scope,
    unforeseen,
)
from ordain.core.task.offer import NAME_MAX, door_names, offer_of
from tests.build import plan, step
from tests.rows import each

SCHEMA = {"type": "object", "properties": {"text": {"type": "string"}}}
OTHERS = {
    name: ToolDefinition(name=name, description=name, effect=EffectClass.OPAQUE, schema=SCHEMA)
    for name in ("web:get", "web:put", "post", "custom:deploy")
}
TOOLS = {**BUILT_IN, **OTHERS}
FILES = ("read_file", "list_files", "search", "write_file", "make_dir", "edit_file", "move", "delete")
STEP = step("s", action=Task(task="Do it"))


def task(*tools: str) -> Task:
    return Task(task="Do it", tools=tools)


ANY = Task(task="Do it")
BARE = plan(STEP)


@each(
    "given_task, plans, has",
    [
        (ANY, [BARE], FILES),
        (task(), [BARE], ()),
        (task("shell", "read_file"), [BARE], ("shell", "read_file")),
        (task("web"), [BARE], ("web:get", "web:put")),
        (task("web:get"), [BARE], ("web:get",)),
        (task("custom:deploy", "custom"), [BARE], ()),
        (ANY, [replace(BARE, tools=("read_file", "shell", "exec", "post"))], ("read_file", "post")),
        (ANY, [BARE, replace(BARE, tools=("delete",))], ("delete",)),
        (ANY, [replace(BARE, tools=()), replace(BARE, tools=("delete",))], ()),
        (task("exec"), [replace(BARE, tools=("exec", "delete"))], ("exec",)),
    ],
)
def test_a_step_has_the_tools_that_are_listed_nearest_to_it(
    given_task: Task, plans: list[Any], has: tuple[str]
) -> None:
    assert set(offered(given_task, plans, TOOLS)) == set(has)


def test_what_an_approval_is_bound_to_holds_the_tools_of_every_task() -> None:
    inner = replace(plan(step("i", action=ANY)), tools=("web:get",))
    whole = plan(step("a", action=task("post")), step("b", action=NestedPlan(plan=inner)), step("c", run="true"))
    assert [(one.id, names) for one, names in offered_in(whole, TOOLS)] == [("a", ("post",)), ("i", ("web:get",))]
    assert list(listed_in(whole)) == ["post", "web"]


def test_an_approver_is_told_which_of_them_can_do_anything() -> None:
    harmless = ToolDefinition(name="look", description="", effect=EffectClass.READS, schema=SCHEMA)
    drops = ToolDefinition(name="drop", description="", effect=EffectClass.CHECKABLE, schema=SCHEMA, destructive=True)
    tools = {**TOOLS, "look": harmless, "drop": drops}
    named = ("shell", "exec", "post", "drop", "look", *FILES)
    assert unforeseen(named, tools) == ("shell", "exec", "post", "drop")


@pytest.mark.parametrize(
    ("listed", "codes"),
    [
        ("read_file", []),
        ("web", []),
        ("web:get", []),
        ("raed_file", ["E_TOOL_UNKNOWN"]),
        ("web:take", ["E_TOOL_OPERATION"]),
        ("read_file:slowly", ["E_TOOL_OPERATION"]),
    ],
)
def test_a_task_that_lists_what_is_not_there_is_told_so(listed: str, codes: list[str]) -> None:
    survey, facts = Survey(plan(step("a", action=task(listed)))), Facts(tools=TOOLS)
    assert [one.code for rule in (known, operations) for one in rule(survey, facts)] == codes


# --- Bounds --------------------------------------------------------------------------------------------------------


def problem(tool: str, writes: tuple[str, ...] = (), protect: tuple[str, ...] = (), **args: Any) -> str | None:
    found = call_problem(TOOLS[tool], args, replace(STEP, writes=writes), protect)
    return found.code if found is not None else None


@each(
    "path, fine",
    [
        ("src/a.py", True),
        ("./src//a.py", True),
        ("src/deep/er/a.py", True),
        ("README.md", True),
        ("src", False),
        ("srcs/a.py", False),
        ("SRC/a.py", False),
        ("README.md/x", False),
        ("docs/a.md", False),
        ("src/../docs/a.md", False),
    ],
)
def test_writing_is_held_to_what_the_step_may_write(path: str, fine: bool) -> None:
    expected = None if fine else "E_CALL_BOUNDS"
    writes = ("src/**", "README.md")
    assert problem("write_file", writes, path=path, content="") == expected
    assert problem("delete", writes, path=path) == expected
    assert problem("move", writes, path=path, to="src/new") == expected
    assert problem("move", writes, path="src/old", to=path) == expected


def test_reading_is_not_held_to_it() -> None:
    assert problem("read_file", ("src/**",), path="docs/a.md") is None
    assert problem("list_files", ("src/**",)) is None
    assert problem("read_file", path="../a") == problem("read_file", path=".ordain/x") == "E_CALL_BOUNDS"


@pytest.mark.parametrize("path", [".env", "sub/.ENV.local", "./.netrc", "keys/id_ed25519", ".git/config", ".git"])
def test_what_is_there_to_hold_secrets_or_is_gits_is_not_read_under_any_name(path: str) -> None:
    assert problem("read_file", path=path) == problem("delete", path=path) == "E_CALL_BOUNDS"
    assert problem("move", path=path, to="plain.txt") == problem("write_file", path=path, content="") == "E_CALL_BOUNDS"
    assert problem("read_file", path=".env.example") is None
    assert problem("list_files", path=path) == "E_CALL_BOUNDS"


def test_whoever_may_write_all_that_is_in_a_directory_may_make_it() -> None:
    assert problem("make_dir", ("out/**",), path="out") is None
    assert (
        problem("make_dir", ("out/x",), path="out") == problem("make_dir", ("out/**",), path="other") == "E_CALL_BOUNDS"
    )


def test_what_is_deleted_with_all_that_is_in_it_may_all_be_written() -> None:
    assert problem("delete", ("src/**",), path="src/a", recursive=True) is None
    assert problem("delete", ("src/*",), path="src/a", recursive=True) == "E_CALL_BOUNDS"
    assert problem("delete", ("src/*",), path="src/a") is None


@pytest.mark.parametrize("path", ["tests/a", "Tests/A", "./tests/b/c", "tests"])
def test_what_is_protected_is_not_written_in_any_spelling(path: str) -> None:
    assert problem("delete", (), ("tests/**",), path=path) == "E_CALL_BOUNDS"
    assert problem("delete", (), ("tests/**",), path="src") is None


def test_arguments_fit_and_hold_neither_secrets_nor_dangerous_variables() -> None:
    assert problem("write_file", path="a") == problem("write_file", path="a", content=1) == "E_CALL_ARGUMENTS"
    assert problem("post", text="secret:TOKEN") == "E_CALL_BOUNDS"
    assert problem("write_file", path="a", content="secret:TOKEN") is None  # it is handed none, so it is only text
    assert problem("shell", command="true", env={"LD_PRELOAD": "x"}) == "E_CALL_BOUNDS"
    assert problem("shell", command="true", env={"FINE": "x"}) is None


def deep(levels: int) -> Any:
    value: Any = "x"
    for _ in range(levels):
        value = [value]
    return value


def test_arguments_that_nobody_can_mean_are_refused_before_anybody_looks_at_them() -> None:
    assert problem("post", **{f"a{number}": 1 for number in range(ARGUMENTS_MAX + 1)}) == "E_CALL_ARGUMENTS"
    assert problem("post", **{"n" * 1000: 1}) == problem("post", more=deep(DEPTH_MAX + 1)) == "E_CALL_ARGUMENTS"
    assert problem("post", more=deep(DEPTH_MAX - 1)) is None
    assert problem("read_file", path="a/" * 4000) == "E_CALL_ARGUMENTS"
    assert problem("write_file", path="a", content="x" * 900_000) is None


def test_what_is_not_there_is_refused_with_what_is_and_the_way() -> None:
    said = out_of_scope("write_fil", STEP, ("read_file", "write_file"), "ordain revise X DOCUMENT")
    assert "write_fil" in said.detail and any("`write_file`" in hint for hint in said.hints)
    assert said.command == "ordain revise X DOCUMENT" and "cannot" in " ".join(said.hints)


# --- Names ---------------------------------------------------------------------------------------------------------


@given(st.lists(st.text(min_size=1, max_size=80), unique=True, max_size=8))
def test_names_behind_a_door_are_plain_short_and_no_two_the_same(tools: list[str]) -> None:
    names = list(door_names([*tools, "cannot"]).values())
    assert len(set(names)) == len(names) and "cannot" not in names
    assert all(re.fullmatch(rf"[A-Za-z0-9_-]{{1,{NAME_MAX}}}", name) for name in names)


def test_plain_names_stay_as_they_are() -> None:
    assert door_names(["write_file", "web:get"]) == {"write_file": "write_file", "web:get": "web__get"}


@each("name", [name for name in TOOLS if name != "custom:deploy"])
def test_what_is_said_of_a_tool_is_what_the_registry_says(name: str) -> None:
    tool, offer = TOOLS[name], offer_of(TOOLS[name], name)
    assert offer.reads is (tool.effect is EffectClass.READS)
    assert not (offer.reads and offer.destructive) and offer.schema["type"] == "object"
    assert offer.destructive or not tool.destructive
    assert offer.outside is (name not in FILES)
