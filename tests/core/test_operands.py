"""Operands: which files a plan names, and what is said of two looks at them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from ordain.core.plan.action import Task
from ordain.core.plan.model import ForEach, NestedPlan
from ordain.core.plan.role import EffectClass
from ordain.core.plan.tool import ToolDefinition, ToolParameter
from ordain.core.policy.agent import Agent
from ordain.core.policy.path_use import changed, operand_paths, operand_patterns, spelt_path
from tests.build import plan, step
from tests.plans import plans

COPY = ToolDefinition(
    name="copy",
    description="Copy a file.",
    effect=EffectClass.REPEATABLE,
    parameters=(
        ToolParameter(name="from", kind="string", required=True, path=True),
        ToolParameter(name="to", kind="string", required=True, path=True),
        ToolParameter(name="note", kind="string"),
    ),
)
TOOLS = {"copy": COPY}


def paths(*steps, **fields):
    return operand_paths(plan(*steps, **fields), TOOLS)


def copy(name, **args):
    return step(name, tool="copy", args=args)


def reading(name, *reads):
    return replace(step(name), action=Task(task="Look at it", reads=reads))


def test_the_path_arguments_of_tools_are_named():
    call = copy("a", **{"from": "b/../x", "to": "./a//b.txt", "note": "not/a/path", "unknown": "neither"})
    assert paths(call) == ("a/b.txt", "b/../x")
    assert paths(step("a", tool="not-registered", args={"path": "a.txt"})) == ()
    assert paths(copy("a", **{"from": 3, "to": ["a.txt"]})) == ()


def test_what_is_decided_at_run_time_is_not_named():
    decided = copy("a", **{"from": "${b.output}/x", "to": "${params.place}"})
    assert paths(decided) == ()
    assert paths(copy("a", **{"from": "$${b.output}/x", "to": "${HOME}/y"})) == ("${HOME}/y", "${b.output}/x")
    repeated = copy("a", **{"from": "${file}", "to": "${item}.bak"})
    assert paths(replace(repeated, for_each=ForEach(source="${b.output}", max=3, name="file"))) == ()
    assert paths(repeated) == ("${file}",)


def test_reads_and_plain_writes_are_named_and_no_commands():
    assert paths(reading("a", "file:src/a.py", "topic:b", "step:c", "file:", "src/d.py")) == ("src/a.py",)
    assert paths(replace(step("a", run="cat secret.txt > out.txt"), writes=("out.txt", "build/**", "logs/?.txt"))) == (
        "out.txt",
    )


def test_a_star_is_a_pattern_where_patterns_are_written_and_a_character_where_a_tool_gets_it():
    made = plan(reading("a", "file:src/*.py", "file:[a].py"), copy("b", **{"from": "a*", "to": "src/"}))
    assert operand_paths(made, TOOLS) == ("[a].py", "a*", "src")
    assert operand_patterns(made) == ("src/*.py",)


def test_fallbacks_and_nested_plans_count_in():
    inner = plan(
        replace(copy("c", **{"from": "c", "to": "d"}), protect=("inner-step/",)),
        fallbacks=(copy("e", **{"from": "e", "to": "b"}),),
        protect=("inner/**",),
    )
    made = plan(
        replace(step("a"), action=NestedPlan(plan=inner), protect=("step",)),
        fallbacks=(replace(reading("b", "file:b", "file:b/*"), protect=("fallback",)),),
        protect=("tests/**", "fallback"),
    )
    assert operand_paths(made, TOOLS) == ("b", "c", "d", "e")
    assert operand_patterns(made) == ("b/*", "fallback", "inner-step/", "inner/**", "step", "tests/**")


def test_the_workspace_itself_is_no_operand():
    assert paths(copy("a", **{"from": ".", "to": "./"})) == ()


@pytest.mark.parametrize(
    ("path", "spelt"), [("a", "a"), ("./a//b/.", "a/b"), (".", ""), ("/a", "/a"), ("a/..", "a/..")]
)
def test_paths_have_one_spelling(path, spelt):
    assert spelt_path(path) == spelt


@given(made=plans())
def test_any_plan_names_its_operands_once_sorted_and_in_one_spelling(made):
    named = operand_paths(made, TOOLS)
    assert list(named) == sorted(set(named))
    assert all(path and spelt_path(path) == path for path in named)
    assert set(made.protect) <= set(operand_patterns(made))


def test_what_changed_is_said_by_path():
    before = {"a.txt": "sha256:1", "b.txt": "sha256:2", "c.txt": "absent", "d.txt": "sha256:4", "g": "absent"}
    now = {"a.txt": "sha256:9", "b.txt": "absent", "c.txt": "sha256:3", "e.txt": "link:5", "f": "absent"}
    assert changed(before, now) == (
        "`a.txt` has changed",
        "`b.txt` is gone",
        "`c.txt` is new",
        "`d.txt` is gone",
        "`e.txt` is new",
    )


LOOKS = st.dictionaries(
    st.sampled_from("abcd"), st.sampled_from(["absent", "directory", "other", "sha256:1", "link:1"])
)


@given(before=LOOKS, now=LOOKS)
def test_nothing_changed_only_where_both_looks_saw_the_same(before, now):
    def seen(look):
        return {path: what for path, what in look.items() if what != "absent"}

    assert (changed(before, now) == ()) == (seen(before) == seen(now))
    assert changed(now, now) == ()
    turned = {"has changed": "has changed", "is gone": "is new", "is new": "is gone"}
    there = [line.split("` ") for line in changed(before, now)]
    assert [f"{path}` {turned[what]}" for path, what in there] == list(changed(now, before))


def test_the_files_that_the_command_of_an_agent_names_are_operands():
    agent = Agent(command=("./tools/agent.sh", "{prompt}", "--fast", "conf/agent.toml", "/usr/bin/x", "../y"))
    made = plan(step("a", action=Task(task="Do it", agent="coder")))
    assert operand_paths(made, TOOLS, (agent,)) == ("conf/agent.toml", "tools/agent.sh")
