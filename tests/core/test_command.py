"""Commands however they are given: a `run` step is a call of `shell` in other words, and `exec` has no shell."""

import shlex

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from ordain.core.lint.rules import lint
from ordain.core.lint.survey import Facts
from ordain.core.plan.action import CallTool, Custom, RunCommand, StoreData
from ordain.core.plan.command import (
    Program,
    command_of,
    command_text,
    decided_later,
    payload,
    program_of,
    shared_variables,
    typed,
)
from ordain.core.plan.model import ForEach
from ordain.core.plan.model import Parameter as PlanParameter
from ordain.core.plan.template import Filled, fill
from ordain.core.plan.tool import BUILT_IN
from ordain.core.policy.effect import planned_effects
from ordain.core.policy.ruling import rule
from ordain.core.policy.settings import Settings
from ordain.interfaces.view.preview import PlanView, action_lines
from ordain.interfaces.view.style import Style
from tests.build import plan, step
from tests.rows import each

FACTS = Facts(tools=BUILT_IN, settings=Settings())


def shell(command, **more):
    return CallTool(tool="shell", args={"command": command, **more})


def acting(action, name="a", **fields):
    return replace(step(name), action=action, **fields)


def codes(*steps, **fields):
    return sorted({problem.code for problem in lint(plan(*steps, **fields), FACTS)})


@given(st.text(min_size=1), st.dictionaries(st.text(), st.text()))
def test_a_call_of_the_shell_is_a_run_step(command, env):
    assert command_of(shell(command, env=env)) == RunCommand(command=command, env=env)


@each(
    "action",
    [
        CallTool(tool="shell"),
        CallTool(tool="shell", args={"command": 1}),
        CallTool(tool="shell", args={"command": "x", "cwd": "/"}),
        CallTool(tool="shell", args={"command": "x", "env": {"A": 1}}),
        CallTool(tool="shell", operation="x", args={"command": "x"}),
        CallTool(tool="exec"),
        CallTool(tool="exec", args={"argv": []}),
        CallTool(tool="exec", args={"argv": [""]}),
        CallTool(tool="exec", args={"argv": "ls -l"}),
        CallTool(tool="exec", args={"argv": ["ls", 1]}),
        CallTool(tool="exec", args={"argv": {"0": "ls"}}),
        CallTool(tool="exec", args={"argv": "${a.output}"}),
        CallTool(tool="other", args={"command": "x"}),
    ],
)
def test_what_does_not_fit_is_no_command_and_lint_says_so(action):
    assert (command_of(action), program_of(action), command_text(action)) == (None, None, None)
    assert codes(acting(action))


@given(st.lists(st.text(st.characters(exclude_categories=["Cs"])), min_size=1))
def test_words_are_typed_so_that_a_shell_reads_them_back(argv):
    assert shlex.split(typed(argv)) == argv


def test_a_program_keeps_its_words():
    action = CallTool(tool="exec", args={"argv": ["grep", "a b", "$X"], "env": {"X": "1"}})
    assert program_of(action) == Program(argv=("grep", "a b", "$X"), env={"X": "1"})
    assert command_text(action) == "grep 'a b' '$X'"


SAME = [
    ("echo hi", {}, {}),
    ("if", {}, {}),
    ("", {}, {}),
    ("x" * 130_000, {}, {}),
    ('echo "$X"', {"X": "${b.output}"}, {}),
    ("echo ${b.output}", {}, {}),
    ("echo ${params.x}", {}, {}),
    ("true", {"PATH": "/tmp"}, {}),
    ("true", {"LD_PRELOAD": "x"}, {}),
    ("make", {}, {"tools": ("read_file",)}),
]


@each("command, env, fields", SAME)
def test_lint_and_policy_say_the_same_of_both(command, env, fields):
    facts = replace(FACTS, shell_faults={"if": "unexpected end of file"})
    other = step("b", needs=())
    actions = (RunCommand(command=command, env=env), shell(command, **({"env": env} if env else {})))
    said = [lint(plan(other, acting(action), **fields), facts) for action in actions]
    assert said[0] == said[1]
    plans = [plan(acting(action)) for action in actions]
    assert planned_effects(plans[0], BUILT_IN) == planned_effects(plans[1], BUILT_IN)
    for lists in ({}, {"allow": ("shell",)}, {"deny": ("shell",)}, {"ask": ("opaque",)}, {"deny": ("exec",)}):
        assert rule(plans[0], BUILT_IN, Settings(**lists)) == rule(plans[1], BUILT_IN, Settings(**lists))


def test_no_value_gets_into_the_text_of_a_command_that_is_called():
    action = shell("echo ${params.x} ${item}", env={"X": "${params.x}", "N": "${params.n}"})
    assert payload(action) == {"X": "${params.x}", "N": "${params.n}"}
    template = plan(acting(action), params={"x": PlanParameter(type="string"), "n": PlanParameter(type="integer")})
    filled = fill(template, {"x": "; rm -rf /", "n": 3}, {})
    assert isinstance(filled, Filled)
    assert filled.plan.steps[0].action == shell("echo ${params.x} ${item}", env={"X": "; rm -rf /", "N": "3"})
    assert "E_REF_PLACE" in codes(acting(action), params=template.params)


def test_a_contract_sees_the_variables_of_a_call_that_it_names():
    one = replace(step("a", contract='test "$X" = 1'), action=shell("true", env={"X": "1", "Y": "2"}))
    assert shared_variables(one) == {"X": "1"}
    assert decided_later(acting(shell("true", env={"X": "${b.output}"}))) == {"X": ("${b.output}",)}


def test_a_payload_that_is_one_value_is_told_by_the_name_of_its_field():
    assert decided_later(acting(StoreData(key="k", value="${b.output}"))) == {"value": ("${b.output}",)}
    assert decided_later(acting(Custom(action_type="c", payload="${b.output}"))) == {"payload": ("${b.output}",)}


@pytest.mark.parametrize("argv", [["${b.output}", "x"], "${b.output}", ["${params.p}"]])
def test_a_program_cannot_be_decided_by_a_reference(argv):
    made = acting(CallTool(tool="exec", args={"argv": argv}))
    assert "E_REF_PLACE" in codes(step("b", needs=()), made, params={"p": PlanParameter(type="string")})


def test_its_arguments_can():
    made = acting(CallTool(tool="exec", args={"argv": ["echo", "${b.output}", "${b.exit_code}"]}))
    assert codes(step("b", needs=()), made) == ["W_REF_OPTION"]
    each = replace(made, for_each=ForEach(source="${params.l}", max=3))
    each = replace(each, action=CallTool(tool="exec", args={"argv": ["echo", "${item}"]}))
    assert codes(each, params={"l": PlanParameter(type="list")}) == ["W_REF_OPTION"]
    for argv in (["echo", "--", "${b.output}"], ["echo", "--x=${b.output}", "./${b.output}", "$${b.output}"]):
        assert codes(step("b", needs=()), acting(CallTool(tool="exec", args={"argv": argv}))) == []


@pytest.mark.parametrize(
    ("args", "code"),
    [
        ({"argv": ["true"], "env": {"LD_PRELOAD": "x"}}, "E_ENV_NAME"),
        ({"argv": ["true"], "env": {"PATH": "x"}}, "E_ENV_NAME"),
        ({"argv": ["true"], "env": {"a b": "x"}}, "E_ENV_NAME"),
        ({"argv": ["true", "x" * 130_000]}, "E_STEP_LIMIT"),
        ({"argv": ["true", "a\0b"]}, "E_DOC_CONTROL_CHARACTER"),
        ({"argv": ["true"], "cwd": "x"}, "E_TOOL_ARGS"),
    ],
)
def test_what_is_wrong_with_a_program_is_told(args, code):
    assert codes(acting(CallTool(tool="exec", args=args))) == [code]


def test_the_exit_status_of_every_command_can_be_referred_to():
    asks = step("z", tool="write_file", args={"path": "x", "content": "${a.exit_code}"})
    for action in (shell("true"), CallTool(tool="exec", args={"argv": ["true"]})):
        assert codes(acting(action), asks) == []
    assert "E_REF" in codes(step("a", tool="make_dir", args={"path": "d"}), asks)


EXEC = acting(CallTool(tool="exec", args={"argv": ["rm", "-rf", "a b"]}))


def test_a_program_is_a_command_to_whoever_looks():
    (effect,) = planned_effects(plan(EXEC), BUILT_IN)
    assert (effect.kind, effect.target, effect.tool, effect.effect) == ("command", "rm -rf 'a b'", "exec", "opaque")


@pytest.mark.parametrize(
    ("lists", "asks", "denied"),
    [
        ({}, True, 0),
        ({"allow": ("exec",)}, False, 0),
        ({"allow": ("shell",)}, True, 0),
        ({"allow": ("exec",), "deny": ("shell",)}, False, 1),
        ({"allow": ("exec",), "ask": ("shell",)}, True, 0),
        ({"deny": ("exec",), "allow": ("opaque",)}, False, 1),
    ],
)
def test_whoever_denies_commands_denies_programs_and_nobody_allows_them_unawares(lists, asks, denied):
    ruling = rule(plan(EXEC), BUILT_IN, Settings(**lists))
    assert (ruling.requires_approval and not ruling.denied, len(ruling.denied)) == (asks, denied)


def test_a_command_is_shown_as_bash_gets_it():
    command = shell("echo $${x}", env={"Y": "$${y}"})
    shown = "\n".join(action_lines(command, PlanView(Style(colour=False), {}), "a"))
    assert "echo $${x}" in shown and '{"Y": "${y}"}' in shown


@each(
    "argv, refused",
    [
        (["sh", "-c", "${a.output}"], True),
        (["/bin/bash", "-e", "-c", "echo ${a.output}"], True),
        (["python3", "${a.output}"], True),
        (["env", "${a.output}"], True),
        (["env", "X=1", "sh", "-c", "${a.output}"], True),
        (["timeout", "5", "${a.output}"], True),
        (["sh", "-c", 'echo "$1" $${HOME}', "_", "${a.output}"], False),
        (["python3", "-m", "tool", "${a.output}"], False),
        (["env", "X=${a.output}", "echo"], True),
        (["timeout", "5", "curl", "${a.output}"], False),
        (["echo", "${a.output}"], False),
    ],
)
def test_no_value_decides_what_a_program_runs_that_runs_others(argv: list[str], refused: bool) -> None:
    found = codes(step("a", needs=()), step("b", tool="exec", args={"argv": argv}))
    assert ("E_REF_PLACE" in found) is refused
