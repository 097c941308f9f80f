"""The rules, each by the plan that breaks it; and that a good plan breaks none."""

import pytest

from ordain.adapters.file_tools import DEFINITIONS
from ordain.core.failure import Retry
from ordain.core.lint.facts import Facts
from ordain.core.lint.rules import lint
from tests.build import plan, step

FACTS = Facts(tools=DEFINITIONS, tier=0, workspace_id="WS-1")


def codes(made, facts=FACTS):
    return [problem.code for problem in lint(made, facts)]


def write(path="a.txt", **args):
    return step("w", tool="write_file", args={"path": path, "content": "x", **args})


def test_a_good_plan_has_no_problems():
    good = plan(
        step("a", contract="test -s a.txt"),
        write(),
        step("c", needs=("a", "w"), on_failure=Retry(max_attempts=3)),
        tools=("shell", "write_file"),
        workspace_id="WS-1",
    )
    assert codes(good) == []


@pytest.mark.parametrize(
    ("made", "code"),
    [
        (plan(), "E_PLAN_NO_STEPS"),
        (plan(*(step(f"s{i}") for i in range(201))), "W_PLAN_LARGE"),
        (plan(step("a"), step("a", needs=())), "E_STEP_ID"),
        (plan(step("none")), "E_STEP_ID"),
        (plan(step("7")), "E_STEP_ID"),
        (plan(step("x" * 65)), "E_STEP_ID"),
        (plan(step("a b")), "E_STEP_ID"),
        (plan(step("оdoo")), "E_NAME"),
        (plan(step("a", needs="b")), "E_STEP_UNKNOWN_NEED"),
        (plan(step("a", needs="a")), "E_STEP_CYCLE"),
        (plan(step("a", needs="b"), step("b", needs="a")), "E_STEP_CYCLE"),
        (plan(step("a", timeout_ms=0)), "E_STEP_LIMIT"),
        (plan(step("a", timeout_ms=86_400_001)), "E_STEP_LIMIT"),
        (plan(step("a", on_failure=Retry(max_attempts=10**9))), "E_STEP_LIMIT"),
        (plan(step("a"), concurrency=0), "E_STEP_LIMIT"),
        (plan(step("a"), timeout_ms=0), "E_STEP_LIMIT"),
        (plan(step("a"), tier=1), "E_TIER"),
        (plan(step("a"), workspace_id="WS-2"), "E_PLAN_WORKSPACE"),
        (plan(step("a", tool="write_fil", args={})), "E_TOOL_UNKNOWN"),
        (plan(step("a", tool="odоo_read", args={})), "E_NAME"),
        (plan(step("a"), tools=()), "E_TOOL_OUT_OF_SCOPE"),
        (plan(step("a"), tools=("write_file",)), "E_TOOL_OUT_OF_SCOPE"),
        (plan(write(mode="x")), "E_TOOL_ARGS"),
        (plan(write(content=7)), "E_TOOL_ARGS"),
        (plan(step("a", tool="write_file", args={"path": "x"})), "E_TOOL_ARGS"),
        (plan(write("../x")), "E_PATH"),
        (plan(write("/etc/passwd")), "E_PATH"),
        (plan(write("a/../../x")), "E_PATH"),
        (plan(write("")), "E_PATH"),
        (plan(write("a\0b")), "E_PATH"),
        (plan(write("~/x")), "E_PATH"),
        (plan(write(".git/hooks/pre-commit")), "E_PATH"),
        (plan(write(".GIT/Hooks/pre-commit")), "E_PATH"),
        (plan(write("./.ordain/plans/x")), "E_PATH"),
        (plan(write(content="${a.output}")), "W_NOT_YET"),
        (plan(step("a", tool="write_file", args={"path": "x", "content": float("nan")})), "E_DOC_NUMBER"),
        (plan(step("a", tool="write_file", args={"path": "x", "content": 2**53})), "E_DOC_NUMBER"),
        (plan(step("a", tool="write_file", args={"path": "x", "content": "\ud800"})), "E_DOC_CONTROL_CHARACTER"),
        (plan(step("a", tool="write_file", args={"path": "x", "content": {1, 2}})), "E_TOOL_ARGS"),
        (plan(step("a", run=" ")), "E_COMMAND_SYNTAX"),
        (plan(step("a", run="x" * 130_000)), "E_STEP_LIMIT"),
        (plan(step("a", contract="x" * 130_000)), "E_STEP_LIMIT"),
        (plan(step("a", contract=" ")), "E_CONTRACT_SYNTAX"),
        *(
            (plan(step("a", contract=text)), "E_CONTRACT_VACUOUS")
            for text in ("true", ":", "exit 0", "pytest || true", "pytest; true", "pytest ||:", "pytest\ntrue\n")
        ),
        (plan(step("a", contract="gh pr view | grep -q OPEN")), "W_CONTRACT_SIGPIPE"),
    ],
)
def test_each_wrong_has_its_code(made, code):
    assert code in codes(made)


def test_facts_speak_of_commands_and_contracts():
    facts = Facts(
        tools=DEFINITIONS,
        shell_faults={"do a": "line 1: unexpected end", "check (": "line 1: x"},
        missing_programs={"pytst -q": "pytst"},
    )
    made = plan(step("a", contract="check ("), step("b", contract="pytst -q"))
    assert codes(made, facts) == ["E_COMMAND_SYNTAX", "E_CONTRACT_SYNTAX", "W_CONTRACT_PROGRAM"]


def test_all_problems_come_at_once_each_with_its_step():
    made = plan(step("a", tool="nope"), step("b", needs="zz"), step("c", contract="true"))
    problems = lint(made, FACTS)
    assert [(problem.code, problem.where.step) for problem in problems] == [
        ("E_STEP_UNKNOWN_NEED", "b"),
        ("E_TOOL_UNKNOWN", "a"),
        ("E_CONTRACT_VACUOUS", "c"),
    ]


def test_near_misses_get_a_hint():
    hints = [problem.hints for problem in lint(plan(step("a", tool="write_fil")), FACTS)]
    assert hints == [("Did you mean `write_file`?",)]


def test_deep_arguments_are_refused_without_a_recursion_error():
    value: object = "x"
    for _ in range(5000):
        value = [value]
    assert "E_DOC_DEPTH" in codes(plan(step("a", tool="write_file", args={"path": "x", "content": value})))
