"""The rules, each by the plan that breaks it; and that a good plan breaks none. Grow the tables; never shrink them."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import force_setattr, replace

from ordain.adapters.process.shell_text import ShellText
from ordain.adapters.tools.cel import Cel
from ordain.core.lint.rules import RULES, WANT_ALL, lint
from ordain.core.lint.survey import Facts, Survey, written
from ordain.core.plan.action import (
    AcquireLock,
    Ask,
    CallTool,
    Custom,
    ReleaseLock,
    RunCommand,
    RunWorkflow,
    SendText,
    StoreData,
    Task,
    WaitFor,
)
from ordain.core.plan.condition import (
    Contract,
    CustomCondition,
    External,
    LockAvailable,
    LockHeld,
    NoCheck,
    PaneExists,
    PaneIdle,
    PatternAbsent,
    Precondition,
    StableTail,
    StepCompleted,
    Verification,
)
from ordain.core.plan.failure import AskApproval, Continue, Escalate, Fallback, Recover, Replan, Retry, Skip
from ordain.core.plan.model import Budget, ForEach, NestedPlan, Parameter, Plan
from ordain.core.plan.role import EffectClass
from ordain.core.plan.tool import BUILT_IN, ToolDefinition, ToolSource
from ordain.core.policy.agent import Agent
from ordain.core.policy.settings import Settings
from tests.build import plan, step
from tests.plans import plans
from tests.rows import each

OPERATIONS = ("odoo:search", "odoo:write")
AGENTS = {"coder": Agent(preset="codex"), "reviewer": Agent(human=True)}
SETTINGS = Settings(
    agents=AGENTS,
    sources={"odoo": ToolSource(mcp=("odoo-mcp",), effects={"search": EffectClass.READS})},
)
FACTS = Facts(
    tools={
        **BUILT_IN,
        "custom:x": ToolDefinition(name="custom:x", description="", effect=EffectClass.OPAQUE),
        **{name: ToolDefinition(name=name, description="", effect=EffectClass.READS, schema={}) for name in OPERATIONS},
    },
    settings=SETTINGS,
    agents=AGENTS,
    workflows=frozenset(["deploy"]),
    tier=0,
    workspace_id="WS-1",
)
SHELL_TEXT, CEL = ShellText(), Cel()


def looked_at(made, facts=FACTS):
    """The facts with what a probe would find out about the plan's texts and expressions."""
    survey = Survey(made)
    texts = [one.command for _, one in (*survey.contracts, *survey.commands)]
    read = {text: SHELL_TEXT.read(text) for text in texts}
    faults = {(one.expression, one.names): CEL.check(one.expression, one.names) for one in survey.asked}
    return replace(
        facts,
        scripts={**facts.scripts, **{text: script for text, (script, _) in read.items() if script is not None}},
        unread=frozenset(text for text, found in read.items() if found == (None, None)),
        expression_faults={key: fault for key, fault in faults.items() if fault is not None},
    )


def problems(made, facts=FACTS):
    beside = ("W_NOT_YET", "W_FALLBACK_UNPROVED")
    return [problem for problem in lint(made, looked_at(made, facts)) if problem.code not in beside]


def codes(made, facts=FACTS):
    return [problem.code for problem in problems(made, facts)]


def write(path="a.txt", name="w", needs=None, **args):
    return step(name, tool="write_file", needs=needs, args={"path": path, "content": "x", **args})


def move(path, to, name="m", needs=None):
    return step(name, tool="move", needs=needs, args={"path": path, "to": to})


def delete(path, name="d", needs=None, **args):
    return step(name, tool="delete", needs=needs, args={"path": path, **args})


def act(name, action, **fields):
    return replace(step(name, needs=fields.pop("needs", ())), action=action, **fields)


def task(name="t", **fields):
    own = {key: fields.pop(key) for key in ("agent", "reads", "tools", "instructions", "criteria") if key in fields}
    made = act(name, Task(task=fields.pop("text", "Think."), **{"agent": "coder", **own}), **fields)
    return made if made.verification is not None else replace(made, verification=Verification(strategy=NoCheck()))


def with_fields(made, **fields):
    return replace(made, **fields)


def when(expression, name="b", **fields):
    return replace(step(name, **fields), when=expression)


def env(**variables):
    return act("a", RunCommand(command="make", env=variables))


BUDGET = Budget(tokens=200_000)
THOUGHTS = {"budget": BUDGET}
EACH = ForEach(source="${a.output}", max=50)


def store(name, needs=None):
    return act(name, StoreData(key="k", value=1), needs=needs)


def test_a_good_plan_has_no_problems():
    good = plan(
        step("a", contract="test -s a.txt"),
        write(),
        step("c", needs=("a", "w"), on_failure=Retry(max_attempts=3)),
        tools=("shell", "write_file"),
        workspace_id="WS-1",
    )
    assert lint(good, looked_at(good)) == ()


def test_a_good_plan_of_everything_has_no_problems_but_what_is_not_carried_out_yet():
    good = plan(
        act("settings", RunCommand(command="cat config.json", env={"LANG": "C"})),
        write(name="w", needs=(), content="${settings.output.items[0].id ?? 7} of ${params.target} at $HOME, $5.00"),
        replace(
            write("out/${page.name}", name="each", needs=(), content="${index}: ${page.text}"),
            for_each=ForEach(source="${settings.output}", max=50, name="page", concurrency=4),
        ),
        act("store", StoreData(key="count", value="${settings.exit_code}"), needs=("settings",)),
        when('steps["settings"].exit_code == 0 && data.count == "0" && params.target != ""', "maybe", needs="store"),
        step("use", tool="write_file", needs=(), args={"path": "u", "content": '${maybe.output ?? "none"}'}),
        task(
            "think", reads=("file:w.txt", "topic:auth", "step:settings"), tools=("read_file", "odoo:search"), needs=()
        ),
        act("look", CallTool(tool="odoo", operation="search"), needs=()),
        act("deploy", RunWorkflow(workflow_id="deploy", params={"version": "${settings.output}"})),
        act("lock", AcquireLock(lock_name="main", timeout_ms=1000)),
        act("undone", RunCommand(command="make"), on_failure=Retry(max_attempts=2, then=Fallback(steps=("undo",)))),
        act("inner", NestedPlan(plan=plan(step("settings")))),
        fallbacks=(replace(step("undo", needs=()), when='steps["settings"].status == "passed"'),),
        tools=("shell", "read_file", "write_file", "odoo"),
        protect=("tests/**",),
        params={"target": Parameter(type="string", default="dev"), "n": Parameter(type="number", default=3)},
        agent="reviewer",
        budget=BUDGET,
    )
    assert codes(good) == []


STRUCTURE = [
    (plan(), "E_PLAN_NO_STEPS"),
    (plan(act("a", NestedPlan(plan=plan()))), "E_PLAN_NO_STEPS"),
    (plan(*(step(f"s{i}") for i in range(201))), "W_PLAN_LARGE"),
    (with_fields(plan(step("a")), title="T" * 201), "W_PLAN_LARGE"),
    (plan(act("a", NestedPlan(plan=with_fields(plan(step("b")), title="T" * 201)))), "W_PLAN_LARGE"),
    (plan(*(step(f"s{i}", needs=()) for i in range(20_001))), "E_PLAN_TOO_MANY_STEPS"),
    (plan(step("a"), fallbacks=tuple(step(f"s{i}", needs=()) for i in range(20_000))), "E_PLAN_TOO_MANY_STEPS"),
    (with_fields(plan(step("a")), plan_version=2), "E_PLAN_VERSION"),
    (plan(act("a", NestedPlan(plan=with_fields(plan(step("b")), plan_version=2)))), "E_PLAN_VERSION"),
    (plan(step("a"), step("a", needs=())), "E_STEP_ID"),
    (plan(step("a"), fallbacks=(step("a", needs=()),)), "E_STEP_ID"),
    (plan(step("a"), fallbacks=(step("f", needs=()), step("f", needs=()))), "E_STEP_ID"),
    (plan(act("a", NestedPlan(plan=plan(step("b"), step("b", needs=()))))), "E_STEP_ID"),
    (plan(step("none")), "E_STEP_ID"),
    (plan(step("7")), "E_STEP_ID"),
    (plan(step("x" * 65)), "E_STEP_ID"),
    (plan(step("a b")), "E_STEP_ID"),
    (plan(step("оdoo")), "E_NAME"),
    (plan(step("a"), fallbacks=(step("оdoo", needs=()),)), "E_NAME"),
    (plan(step("a", needs="b")), "E_STEP_UNKNOWN_NEED"),
    (plan(step("a"), fallbacks=(step("f", needs="b"),)), "E_STEP_UNKNOWN_NEED"),
    (plan(step("a", needs="f"), fallbacks=(step("f", needs=()),)), "E_STEP_UNKNOWN_NEED"),
    (plan(step("a", on_failure=Fallback(steps=("undo",)))), "E_STEP_UNKNOWN_NEED"),
    (plan(step("a", on_failure=Retry(max_attempts=2, then=Fallback(steps=("undo",))))), "E_STEP_UNKNOWN_NEED"),
    (plan(step("a"), on_failure=Fallback(steps=("undo",))), "E_STEP_UNKNOWN_NEED"),
    (plan(step("a"), step("b", on_failure=Fallback(steps=("a",)))), "E_STEP_UNKNOWN_NEED"),
    (plan(act("a", NestedPlan(plan=plan(step("b", needs="a"))))), "E_STEP_UNKNOWN_NEED"),
    (plan(step("a", needs="a")), "E_STEP_CYCLE"),
    (plan(step("a", needs="b"), step("b", needs="a")), "E_STEP_CYCLE"),
    (plan(act("x", NestedPlan(plan=plan(step("a", needs="b"), step("b", needs="a"))))), "E_STEP_CYCLE"),
    (plan(step("a"), fallbacks=(step("f", needs=(), on_failure=Fallback(steps=("f",))),)), "E_STEP_CYCLE"),
    (plan(step("a"), fallbacks=(step("f", needs="g"), step("g", needs="f"))), "E_STEP_CYCLE"),
    (plan(step("a", timeout_ms=0)), "E_STEP_LIMIT"),
    (plan(step("a", timeout_ms=86_400_001)), "E_STEP_LIMIT"),
    (plan(step("a"), fallbacks=(step("f", needs=(), timeout_ms=0),)), "E_STEP_LIMIT"),
    (plan(act("a", NestedPlan(plan=plan(step("b", timeout_ms=0))))), "E_STEP_LIMIT"),
    (plan(step("a", on_failure=Retry(max_attempts=10**9))), "E_STEP_LIMIT"),
    (plan(step("a", on_failure=Retry(max_attempts=0))), "E_STEP_LIMIT"),
    (plan(step("a", on_failure=Retry(max_attempts=2, initial_delay_ms=-1))), "E_STEP_LIMIT"),
    (plan(step("a", on_failure=Retry(max_attempts=2, max_delay_ms=10**10))), "E_STEP_LIMIT"),
    (plan(step("a", on_failure=Retry(max_attempts=2, backoff_multiplier=0.5))), "E_STEP_LIMIT"),
    (plan(step("a", on_failure=Retry(max_attempts=2, backoff_multiplier=float("nan")))), "E_STEP_LIMIT"),
    (plan(step("a"), on_failure=Retry(max_attempts=10**9)), "E_STEP_LIMIT"),
    (plan(step("a"), concurrency=0), "E_STEP_LIMIT"),
    (plan(step("a"), concurrency=65), "E_STEP_LIMIT"),
    (plan(step("a"), timeout_ms=0), "E_STEP_LIMIT"),
    (plan(step("a"), replace(step("b"), for_each=replace(EACH, max=0))), "E_STEP_LIMIT"),
    (plan(step("a"), replace(step("b"), for_each=replace(EACH, max=10_001))), "E_STEP_LIMIT"),
    (plan(step("a"), replace(step("b"), for_each=replace(EACH, concurrency=0))), "E_STEP_LIMIT"),
    (plan(step("a"), replace(step("b"), for_each=replace(EACH, batch=0))), "E_STEP_LIMIT"),
    (plan(step("a"), params={"p": Parameter(type="list", files="../*.py")}), "E_PATH"),
    (plan(step("a"), params={"p": Parameter(type="list", files="/etc/*")}), "E_PATH"),
    (plan(step("a"), params={"p": Parameter(type="string", files="*.py")}), "E_PARAM"),
    (plan(step("a"), params={"p": Parameter(type="list", files="*.py", required=True)}), "E_PARAM"),
    (plan(step("a"), budget=Budget(tokens=0)), "E_STEP_LIMIT"),
    (plan(step("a"), budget=Budget(cost_usd=-1.0)), "E_STEP_LIMIT"),
    (plan(step("a"), budget=Budget(wall_clock_ms=0)), "E_STEP_LIMIT"),
    (plan(replace(step("a"), budget=Budget(tokens=-5))), "E_STEP_LIMIT"),
    (plan(step("a"), budget=Budget(attempts=0)), "E_STEP_LIMIT"),
    (plan(act("a", AcquireLock(lock_name="l", timeout_ms=0))), "E_STEP_LIMIT"),
    (plan(act("a", AcquireLock(lock_name="staging")), act("b", ReleaseLock(lock_name="stagin"))), "W_LOCK_NOT_TAKEN"),
    (plan(step("a"), act("n", NestedPlan(plan=plan(act("b", ReleaseLock(lock_name="l")))))), "W_LOCK_NOT_TAKEN"),
    (plan(step("a", on_failure=Fallback(steps=()))), "E_FIELD_VALUE"),
    (plan(step("a"), on_failure=Retry(max_attempts=2, then=Fallback(steps=()))), "E_FIELD_VALUE"),
    (plan(step("a"), budget=Budget(cost_usd=4e-10)), "E_STEP_LIMIT"),
    (plan(replace(step("a"), budget=Budget(cost_usd=1e-300))), "E_STEP_LIMIT"),
    (plan(act("a", WaitFor(condition=PaneIdle(idle_threshold_ms=1), timeout_ms=0))), "E_STEP_LIMIT"),
    (plan(act("a", WaitFor(condition=StableTail(stable_for_ms=-1), timeout_ms=9))), "E_STEP_LIMIT"),
    (
        plan(replace(step("a"), verification=Verification(strategy=PatternAbsent(rule_id="x", wait_ms=-1)))),
        "E_STEP_LIMIT",
    ),
    (
        plan(replace(step("a"), verification=Verification(strategy=Contract(command="test -s x"), timeout_ms=0))),
        "E_STEP_LIMIT",
    ),
    (plan(step("a", run="x" * 130_000)), "E_STEP_LIMIT"),
    (plan(step("a", contract="x" * 130_000)), "E_STEP_LIMIT"),
    (plan(step("a", run="ü" * 61_000)), "E_STEP_LIMIT"),
    (plan(step("a"), tier=1), "E_TIER"),
    (plan(step("a"), workspace_id="WS-2"), "E_PLAN_WORKSPACE"),
    (plan(act("a", AcquireLock(lock_name="lоck"))), "E_NAME"),
    (plan(act("a", ReleaseLock(lock_name=""))), "E_NAME"),
    (plan(replace(step("a"), preconditions=(LockHeld(lock_name="lоck"),))), "E_NAME"),
    (plan(replace(step("a"), preconditions=(LockAvailable(lock_name="a b"),))), "E_NAME"),
    (plan(task(agent="cоder"), **THOUGHTS), "E_NAME"),
    (plan(task(tools=("оdoo",)), **THOUGHTS), "E_NAME"),
    (plan(step("a"), agent="cоder"), "E_NAME"),
    (plan(step("a"), tools=("shell", "оdoo")), "E_NAME"),
    (plan(step("a", tool="odоo_read", args={})), "E_NAME"),
    (plan(replace(step("a"), pool="pоol")), "E_NAME"),
    (plan(step("a"), replace(step("b"), for_each=replace(EACH, name="іtem"))), "E_NAME"),
    (plan(step("a"), replace(step("b"), for_each=replace(EACH, name="index"))), "E_FIELD_VALUE"),
    (plan(step("a"), params={"pаram": Parameter(type="string")}), "E_NAME"),
    (plan(step("a"), params={"1st": Parameter(type="string")}), "E_PARAM"),
    (plan(step("a"), params={"n": Parameter(type="integer", default="7")}), "E_PARAM"),
    (plan(step("a"), params={"n": Parameter(type="integer", default=True)}), "E_PARAM"),
    (plan(step("a"), params={"n": Parameter(type="number", default=False)}), "E_PARAM"),
    (plan(step("a"), params={"n": Parameter(type="string", default=1)}), "E_PARAM"),
    (plan(step("a"), params={"n": Parameter(type="boolean", default="yes")}), "E_PARAM"),
    (plan(step("a"), params={"n": Parameter(type="list", default="yes")}), "E_PARAM"),
    (plan(step("a"), params={"n": Parameter(type="string", default="x", required=True)}), "E_PARAM"),
]


def refers(text, *others, name="b", **fields):
    """A plan with a step that refers, after one it can refer to."""
    return plan(step("a"), write(name=name, needs=fields.pop("needs", ()), content=text), *others, **fields)


def nested(depth):
    made = plan(step("a"))
    for _ in range(depth):
        made = plan(act("n", NestedPlan(plan=made)))
    return made


STRUCTURE += [(nested(4), "E_PLAN_NESTING"), (nested(9), "E_PLAN_NESTING")]

REFERENCES = [
    (refers("${nobody.output}"), "E_REF"),
    (refers("see ${nobody.exit_code} there"), "E_REF"),
    (refers("${аa.output}"), "E_REF"),
    (refers("${a.output"), "E_REF"),
    (refers("${a.output ?? nothing}"), "E_REF"),
    (refers("${a.exit_code.x}"), "E_REF"),
    (refers("${a.outptu}"), "E_REF"),
    (refers("${b.output}"), "E_REF"),
    (refers("${c.output}", step("c", needs="b")), "E_REF"),
    (refers("${c.output}", step("c", needs="d"), step("d", needs="b")), "E_REF"),
    (plan(write(name="a", needs=(), content="${b.output}"), write("b", name="b", content="${a.output}")), "E_REF"),
    (plan(write(name="a"), write("b", name="b", content="${a.exit_code}")), "E_REF"),
    (refers("${params.nothing}"), "E_REF"),
    (refers("${data.nothing}"), "E_REF"),
    (plan(store("s"), act("n", NestedPlan(plan=plan(write(content="${data.k}"))))), "E_REF"),
    (plan(act("n", NestedPlan(plan=plan(store("s")))), write(content="${data.k}")), "E_REF"),
    (plan(act("n", NestedPlan(plan=plan(store("s")))), when("data.k == 1")), "E_EXPR"),
    (plan(store("s"), preconditions=(CustomCondition(name="x", expression="data.k == 1"),)), "E_EXPR"),
    (plan(store("s"), store("t"), write(needs="s", content="${data.k}")), "W_DATA_ORDER"),
    (plan(store("s", needs=()), store("t", needs=()), write(needs="s", content="${data.k}")), "W_DATA_ORDER"),
    (plan(store("s", needs=()), store("t", needs=()), write(needs=("s", "t"), content="${data.k}")), "W_DATA_ORDER"),
    (plan(store("s", needs=()), store("t", needs=()), when("data.k == 1", needs="t")), "W_DATA_ORDER"),
    (
        plan(
            store("s", needs=()),
            step("a", needs=(), on_failure=Fallback(steps=("f",))),
            write(needs="s", content="${data.k}"),
            fallbacks=(store("f", needs=()),),
        ),
        "W_DATA_ORDER",
    ),
    (refers("${item}"), "E_REF"),
    (refers("${index}"), "E_REF"),
    (plan(step("a"), replace(step("b"), for_each=replace(EACH, source="${item}"))), "E_REF"),
    (plan(step("a"), replace(step("b"), for_each=replace(EACH, source="a list"))), "E_REF"),
    (plan(step("a"), replace(write(content="${item}"), for_each=replace(EACH, name="page"))), "E_REF"),
    (plan(act("a", RunCommand(command="make", env={"A": "${nobody.output}"}))), "E_REF"),
    (plan(act("a", StoreData(key="k", value={"deep": ["${nobody.output}"]}))), "E_REF"),
    (plan(act("a", Custom(action_type="x", payload="${nobody.output}"))), "E_REF"),
    (plan(act("a", RunWorkflow(workflow_id="deploy", params={"a": "${nobody.output}"}))), "E_REF"),
    (plan(task(reads=("step:nobody",)), **THOUGHTS), "E_REF"),
    (plan(task(reads=("step:b",)), step("b", needs="t"), **THOUGHTS), "E_REF"),
    (plan(step("a"), act("n", NestedPlan(plan=plan(write(content="${a.output}"))))), "E_REF"),
    (plan(step("a"), fallbacks=(write(name="f", needs=(), content="${nobody.output}"),)), "E_REF"),
    (
        plan(
            step("a", on_failure=Fallback(steps=("f",))),
            step("b"),
            fallbacks=(write(name="f", needs=(), content="${b.output}"),),
        ),
        "E_REF",
    ),
    (plan(step("a"), step("b", run="echo ${a.output}")), "E_REF_PLACE"),
    (plan(step("a"), step("b", run="${a.output} --version")), "E_REF_PLACE"),
    (plan(step("a"), step("b", run="echo ${data.key}")), "E_REF_PLACE"),
    (plan(step("a"), step("b", run="echo ${params.name}")), "E_REF_PLACE"),
    (plan(step("a", contract="test ${a.exit_code} = 0")), "E_REF_PLACE"),
    (plan(step("a"), step("b", tool="${a.output}")), "E_REF_PLACE"),
    (plan(step("a"), step("b", tool="shell", args={"command": "true", "env": "${a.output}"})), "E_REF_PLACE"),
    (plan(step("a"), step("b", tool="exec", args={"argv": ["true"], "env": "${a.output}"})), "E_REF_PLACE"),
    (plan(step("a"), act("b", CallTool(tool="odoo", operation="${a.output}"))), "E_REF_PLACE"),
    (plan(step("a"), task(text="Look at ${a.output}."), **THOUGHTS), "E_REF_PLACE"),
    (plan(step("a"), task(instructions="Look at ${a.output}."), **THOUGHTS), "E_REF_PLACE"),
    (plan(step("a"), task(criteria=("${a.output} is good",)), **THOUGHTS), "E_REF_PLACE"),
    (plan(step("a"), task(agent="${a.output}"), **THOUGHTS), "E_REF_PLACE"),
    (plan(step("a"), act("b", SendText(text="${a.output}", pane="x"))), "E_REF_PLACE"),
    (plan(step("a"), act("b", Ask(question="Is ${a.output} good?"))), "E_REF_PLACE"),
    (plan(step("a"), act("b", AcquireLock(lock_name="${a.output}"))), "E_REF_PLACE"),
    (plan(step("a"), act("b", RunWorkflow(workflow_id="${a.output}"))), "E_REF_PLACE"),
    (plan(step("a"), context="As in ${a.output}."), "E_REF_PLACE"),
    (plan(step("a"), task="As in ${a.output}."), "E_REF_PLACE"),
    (plan(when("true", "a"), write(content="${a.output}")), "E_REF_MAY_BE_MISSING"),
    (plan(step("a", on_failure=Skip()), write(content="${a.exit_code}")), "E_REF_MAY_BE_MISSING"),
    (
        plan(step("a", on_failure=Retry(max_attempts=2, then=Skip())), write(content="${a.output}")),
        "E_REF_MAY_BE_MISSING",
    ),
    (
        plan(step("a", on_failure=Retry(max_attempts=2)), write(content="${a.output}"), on_failure=Skip()),
        "E_REF_MAY_BE_MISSING",
    ),
    (
        plan(
            step("a", on_failure=Fallback(steps=("f",))),
            write(content="${f.output}"),
            fallbacks=(step("f", needs=()),),
        ),
        "E_REF_MAY_BE_MISSING",
    ),
    (
        plan(
            step("a", on_failure=Fallback(steps=("f",))),
            fallbacks=(write(name="f", needs=(), content="${a.output}"),),
        ),
        "E_REF_MAY_BE_MISSING",
    ),
]

TEN = "[1,2,3,4,5,6,7,8,9,10]"
MILLION = "".join(f"{TEN}.all({name}, " for name in "abcdef") + "true" + ")" * 6
EXPRESSIONS = [
    "data",
    "1 + 1",
    "'yes'",
    'steps["a"].output',
    'steps["a"].exit_code',
    "true &&",
    "",
    "nothing == 1",
    'stps["a"].exit_code == 0',
    'steps["nobody"].exit_code == 0',
    "steps.nobody.exit_code == 0",
    'steps["a"].exti_code == 0',
    "steps[data.k].exit_code == 0",
    "size(steps) == 1",
    "params.nothing == 1",
    'data["nothing"] == 1',
    "item == 1",
    "index == 1",
    MILLION,
    "true || " * 600 + "true",
    "(" * 100 + "true" + ")" * 100,
    "${a.output} == 1",
    "nosuch(1)",
    'steps["b"].exit_code == 0',
    'steps["c"].exit_code == 0',
]
REFERENCES += [(plan(step("a"), when(text), step("c")), "E_EXPR") for text in EXPRESSIONS]
REFERENCES += [
    (plan(replace(step("a"), preconditions=(StepCompleted(step_id="nobody"),))), "E_REF"),
    (plan(step("a"), preconditions=(StepCompleted(step_id="a"),)), "E_REF"),
    (plan(replace(step("a"), preconditions=(CustomCondition(name="x", expression="1"),))), "E_EXPR"),
    (plan(replace(step("a"), verification=Verification(strategy=CustomCondition(name="x", expression="1")))), "E_EXPR"),
    (plan(step("a"), preconditions=(CustomCondition(name="x", expression='steps["a"].exit_code == 0'),)), "E_EXPR"),
    (plan(step("a"), fallbacks=(when("1", "f", needs=()),)), "E_EXPR"),
    (plan(step("a"), act("n", NestedPlan(plan=plan(when('steps["a"].exit_code == 0', needs=()))))), "E_EXPR"),
]

LONG = "x" * ((1 << 20) + 1)
SURROUNDINGS = [
    (plan(step("a", tool="write_fil", args={})), "E_TOOL_UNKNOWN"),
    (plan(step("a", tool="shel", args={})), "E_TOOL_UNKNOWN"),
    (plan(step("a", tool="shell", args={})), "E_TOOL_ARGS"),
    (plan(move("a", to=7)), "E_TOOL_ARGS"),
    (plan(step("a", tool="move", args={"path": "x"})), "E_TOOL_ARGS"),
    (plan(delete("a", recursive="yes")), "E_TOOL_ARGS"),
    (plan(move("a" * 300, "b")), "E_TOOL_ARGS"),
    (plan(move("a", "b/" * 3000)), "E_TOOL_ARGS"),
    *(
        (plan(delete(path)), "E_PATH")
        for path in (".", "./", "", "..", "/x", "~", ".git", "a/.GIT", ".ordain", ".ordain/x")
    ),
    *((plan(move("a", path)), "E_PATH") for path in (".", "../a", "/x", ".git", ".Git/hooks/x", "a/.git", ".ordain")),
    *((plan(move(path, "b")), "E_PATH") for path in (".", "../a", "/x", ".git", ".git/config", ".ordain")),
    *(
        (plan(one, protect=("tests/unit/**", "conf.py")), "E_PATH")
        for one in (delete("tests"), delete("tests/unit"), delete("TESTS/unit/x.py"), delete("conf.py"))
    ),
    (plan(move("tests", "old"), protect=("tests/*.py",)), "E_PATH"),
    (plan(move("new", "tests"), protect=("tests/*.py",)), "E_PATH"),
    (plan(write("out/a/b", needs=()), delete("out", needs=())), "E_WRITES_CONFLICT"),
    (plan(delete("out", needs=()), write("out/a", needs=())), "E_WRITES_CONFLICT"),
    (plan(move("a", "out", needs=()), write("out/a", needs=())), "E_WRITES_CONFLICT"),
    (plan(move("out", "b", needs=()), write("Out/a", needs=())), "E_WRITES_CONFLICT"),
    (plan(move("a", "b", needs=()), move("a", "c", name="n", needs=())), "E_WRITES_CONFLICT"),
    (plan(step("a"), fallbacks=(step("f", tool="nope", needs=()),)), "E_TOOL_UNKNOWN"),
    (plan(act("n", NestedPlan(plan=plan(step("f", tool="nope"))))), "E_TOOL_UNKNOWN"),
    (plan(act("a", CallTool(tool="write_file", operation="append", args={"path": "a"}))), "E_TOOL_OPERATION"),
    (plan(act("a", CallTool(tool="odoo"))), "E_TOOL_OPERATION"),
    (plan(task(agent="codr"), **THOUGHTS), "E_AGENT_UNKNOWN"),
    (plan(step("a"), agent="codr"), "E_AGENT_UNKNOWN"),
    (plan(act("a", RunWorkflow(workflow_id="deplyo"))), "E_WORKFLOW_UNKNOWN"),
    (plan(task(agent=None), **THOUGHTS), "E_STEP_AGENT"),
    (plan(step("a"), agent="coder"), "W_AGENT_UNUSED"),
    (plan(step("a"), model="large"), "W_AGENT_UNUSED"),
    (plan(replace(step("a"), model="large")), "W_AGENT_UNUSED"),
    (
        plan(task(agent=None), act("n", NestedPlan(plan=plan(step("f"), model="x"))), agent="coder", **THOUGHTS),
        "W_AGENT_UNUSED",
    ),
    (plan(write(mode="x")), "E_TOOL_ARGS"),
    (plan(write(content=7)), "E_TOOL_ARGS"),
    (plan(write(content=None)), "E_TOOL_ARGS"),
    (plan(step("a"), write(content=["${a.output}"])), "E_TOOL_ARGS"),
    (plan(step("a", tool="write_file", args={"path": "x"})), "E_TOOL_ARGS"),
    (plan(step("a", tool="write_file", args={"path": "x", "content": {1, 2}})), "E_TOOL_ARGS"),
    (plan(write(content=LONG)), "E_TOOL_ARGS"),
    (plan(act("a", StoreData(key="k", value=["ü" * (1 << 19) + "x"]))), "E_TOOL_ARGS"),
    (plan(write(content=float("nan"))), "E_DOC_NUMBER"),
    (plan(write(content=2**53)), "E_DOC_NUMBER"),
    (plan(act("a", StoreData(key="k", value=float("inf")))), "E_DOC_NUMBER"),
    (plan(write(content="\ud800")), "E_DOC_CONTROL_CHARACTER"),
    (plan(act("a", Custom(action_type="x", payload={"k": "\ud800"}))), "E_DOC_CONTROL_CHARACTER"),
    *(
        (plan(write(path)), "E_PATH")
        for path in (
            "../x",
            "a/../../x",
            "..",
            "/etc/passwd",
            "/home/me/.local/state/ordain/ledger.db",
            "../ws-evil/x",
            "",
            "a\0b",
            "~/x",
            ".git/hooks/pre-commit",
            ".GIT/Hooks/pre-commit",
            ".git//hooks/./x",
            "sub/.git/hooks/x",
            ".git/config",
            ".g\u200cit/hooks/x",
            ".ordain",
            "./.ordain/plans/x",
            ".Ordain/plans/x",
            ".ordaın/../../x",
            "../${a.output}",
            ".git",
            ".git/",
            "sub/.git",
            ".git/index",
            ".git/modules/sub/hooks/post-checkout",
            ".git/modules/sub/config",
            ".git/worktrees/a/config",
            ".git/objects/info/alternates",
            "a/.GIT/x",
        )
    ),
    (plan(step("a"), fallbacks=(write("../x", needs=()),)), "E_PATH"),
    (plan(task(reads=("file:../../.ssh/id_rsa",)), **THOUGHTS), "E_PATH"),
    (plan(task(reads=("file:/etc/passwd",)), **THOUGHTS), "E_PATH"),
    (plan(replace(step("a"), writes=("../x",))), "E_PATH"),
    (plan(replace(step("a"), writes=(".git/index",))), "E_PATH"),
    (plan(step("a", tool="make_dir", args={"path": "x/.git"})), "E_PATH"),
    (plan(step("a", tool="read_file", args={"path": ".git/config"})), "E_PATH"),
    (plan(step("a"), protect=("x" * 4096,)), "E_PATH"),
    (plan(step("a"), params={"p": Parameter(type="list", files="*" * 4096)}), "E_PATH"),
    (plan(step("a"), protect=("../**",)), "E_PATH"),
    (plan(replace(step("a"), protect=("/etc/*",))), "E_PATH"),
    *(
        (plan(write(path), protect=("tests/**", "caf\u00e9/*.txt")), "E_PATH")
        for path in ("tests/a/test_x.py", "TESTS/x", "./tests//x", "cafe\u0301/a.txt", "CAFÉ/A.TXT")
    ),
    (plan(replace(write("conf.py"), protect=("conf*.py",))), "E_PATH"),
    (plan(replace(step("a"), writes=("tests/x",)), protect=("tests/",)), "E_PATH"),
    (plan(task(reads=("src/auth.py",)), **THOUGHTS), "E_FIELD_VALUE"),
    (plan(task(reads=("url:https://x",)), **THOUGHTS), "E_FIELD_VALUE"),
    (plan(task(reads=("file:",)), **THOUGHTS), "E_FIELD_VALUE"),
    (
        plan(
            replace(
                step("a", contract="test -s x"),
                verification=Verification(strategy=Contract(command="test -s x", exit_code=256)),
            )
        ),
        "E_FIELD_VALUE",
    ),
    (plan(write(name="a", needs=()), write(name="b", needs=())), "E_WRITES_CONFLICT"),
    (plan(write(name="a", needs=()), write("./A.txt", name="b", needs=())), "E_WRITES_CONFLICT"),
    (plan(write(name="a", needs=()), replace(step("b", needs=()), writes=("a.txt",))), "E_WRITES_CONFLICT"),
    (
        plan(step("r"), write(name="a", needs="r"), write(name="b", needs="r"), write(name="c", needs=("a", "b"))),
        "E_WRITES_CONFLICT",
    ),
    (plan(step("a"), tools=()), "E_TOOL_OUT_OF_SCOPE"),
    (plan(step("a"), tools=("write_file",)), "E_TOOL_OUT_OF_SCOPE"),
    (plan(write(), fallbacks=(step("f", needs=()),), tools=("write_file",)), "E_TOOL_OUT_OF_SCOPE"),
    (
        plan(step("a", tool="write_file", args={"path": "a", "content": ""}, contract="cat b"), tools=("write_file",)),
        "E_TOOL_OUT_OF_SCOPE",
    ),
    (plan(act("n", NestedPlan(plan=plan(step("f")))), tools=("write_file",)), "E_TOOL_OUT_OF_SCOPE"),
    (plan(act("n", NestedPlan(plan=plan(step("f"), tools=())))), "E_TOOL_OUT_OF_SCOPE"),
    (plan(task(tools=("shell",)), tools=("read_file",), **THOUGHTS), "E_TOOL_OUT_OF_SCOPE"),
    (plan(task(tools=("odoo:write",)), tools=("odoo:search",), **THOUGHTS), "E_TOOL_OUT_OF_SCOPE"),
    (plan(act("a", CallTool(tool="odoo", operation="write")), tools=("odoo:search",)), "E_TOOL_OUT_OF_SCOPE"),
    (plan(with_fields(task(), verification=None), budget=BUDGET), "W_TASK_UNVERIFIED"),
    (
        plan(
            with_fields(
                task(), verification=Verification(strategy=CustomCondition(name="x", expression="output != ''"))
            ),
            budget=BUDGET,
        ),
        "W_TASK_UNVERIFIED",
    ),
    (plan(task()), "W_BUDGET"),
    (plan(task(), budget=Budget(tokens=999)), "W_BUDGET"),
    (plan(task("t"), task("u"), budget=Budget(tokens=1999)), "W_BUDGET"),
    (plan(task(budget=Budget(tokens=10)), budget=BUDGET), "W_BUDGET"),
    (plan(task(budget=Budget(tokens=9000)), budget=Budget(tokens=5000)), "W_BUDGET"),
    *(
        (plan(replace(step("a"), budget=Budget(**{kind: 3})), budget=Budget(**{kind: 2})), "W_BUDGET")
        for kind in Budget.__struct_fields__
    ),
    *(
        (plan(env(**{name: "x"})), "E_ENV_NAME")
        for name in (
            "LD_PRELOAD",
            "LD_LIBRARY_PATH",
            "DYLD_INSERT_LIBRARIES",
            "PYTHONPATH",
            "BASH_ENV",
            "GIT_SSH_COMMAND",
            "GIT_CONFIG_COUNT",
            "BASH_FUNC_ls%%",
            "ORDAIN_MARK",
            "IFS",
            "NODE_OPTIONS",
            "A=B",
            "1A",
            "",
        )
    ),
    *(
        (plan(step("a", run=f"curl -H 'x: {secret}' example.org")), "E_PLAN_SECRET")
        for secret in (
            "AKIA" + "IOSFODNN7EXAMPLE",
            "ghp_" + "a" * 36,
            "gho_" + "1" * 36,
            "github_pat_" + "A" * 30,
            "glpat-" + "x" * 20,
            "sk-" + "a1B2" * 12,
            "sk-ant-api03-" + "x" * 40,
            "xoxb-" + "123456789012-abc",
            "-----BEGIN RSA PRIVATE KEY-----",
            "-----BEGIN PRIVATE KEY-----",
            "AIza" + "x" * 35,
            "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0." + "x" * 43,
        )
    ),
    (plan(step("a"), context="Use\nsk-" + "a" * 48), "E_PLAN_SECRET"),
    (plan(write(content="ghp_" + "a" * 36)), "E_PLAN_SECRET"),
    (plan(env(TOKEN="ghp_" + "a" * 36)), "E_PLAN_SECRET"),
    (plan(step("a"), fallbacks=(write(needs=(), content="ghp_" + "a" * 36),)), "E_PLAN_SECRET"),
    (plan(act("n", NestedPlan(plan=plan(write(content="ghp_" + "a" * 36))))), "E_PLAN_SECRET"),
    (plan(step("a"), params={"n": Parameter(type="string", default="ghp_" + "a" * 36)}), "E_PLAN_SECRET"),
]

CONTRACTS = [
    (plan(step("a", run=" ")), "E_COMMAND_SYNTAX"),
    (plan(step("a", contract=" ")), "E_CONTRACT_SYNTAX"),
    (plan(step("a"), fallbacks=(step("f", needs=(), contract=" "),)), "E_CONTRACT_SYNTAX"),
    *(
        (plan(step("a", contract=text)), "E_CONTRACT_VACUOUS")
        for text in (
            "true",
            ":",
            "exit 0",
            "/bin/true",
            "# later",
            "pytest || true",
            "pytest || :",
            "pytest ||:",
            "pytest || exit 0",
            "pytest || echo failed",
            "pytest; true",
            "pytest\ntrue\n",
            "pytest; exit 0",
            "(pytest && mypy) || true",
            "timeout 5 true",
            "env A=b true",
            "echo done",
            "true && echo done",
            "! false",
            "pytest &",
            "if pytest; then echo good; fi",
            "true | true",
            "echo ok",
            "printf x",
            "test 1 = 1",
            "[ -n x ]",
            '[ -n "x" ]',
            "[[ 1 == 1 ]]",
            "pytest || true # ok",
            "pytest || (true)",
            "true; # ok",
            "(true)",
            "(pytest; true)",
            "if pytest; then :; fi",
            "if pytest; then true; else echo bad; fi",
            "X=1",
            "export X=$(pytest)",
            "echo $(pytest)",
            "check() { pytest; }",
            "for i in a b; do echo $i; done",
            "set +o pipefail",
            "pytest || true #" + "x" * 4200,
            "trap 'exit 0' EXIT; pytest",
            "set -u; trap 'exit 0' ERR; pytest",
            "pytest & wait",
            "make; pytest & wait",
            "bash -c true",
            "sh -c ':'",
            "bash -c 'pytest || true'",
            "pytest; sh -c true",
            "(( 1 ))",
            "pytest; eval true",
            "eval 'pytest || true'",
            "/usr/bin/env true",
            "command true",
            "builtin true",
            "\\true",
            "exec true",
            "exec true; pytest",
            "check() { true; }; check",
            "pytest || exit 0; exit 0",
            "exit 0; pytest",
        )
    ),
    *(
        (plan(step("a", contract=text)), "W_CONTRACT_PIPE")
        for text in ("pytest || true #" + "x" * 20_000, "make; trap 'exit 0' EXIT; pytest", 'trap "$x" EXIT; pytest')
    ),
    *(
        (plan(step("a", contract=text)), "W_CONTRACT_NEGATED")
        for text in ("! grep -r TODO src", "test -d src && ! grep -r TODO src", "! cat log | grep ERROR")
    ),
    *(
        (plan(step("a", contract=text)), "W_CONTRACT_PIPE")
        for text in (
            "set +o pipefail; a | b",
            "set +e\na\nb",
            "set +eo pipefail; a",
            "(set +o errexit; a; b)",
            "shopt -uo pipefail; a | b",
        )
    ),
    *(
        (plan(step("a", contract=text)), "W_CONTRACT_EXISTENCE")
        for text in (
            "test -f x",
            "test -e x",
            "test -d out",
            "[ -f x ]",
            "[[ -e x ]]",
            "ls out",
            "test -f x && test -f y",
            "test -f x; ls y >/dev/null",
        )
    ),
    *(
        (plan(step("a", contract=text)), "W_CONTRACT_SIGPIPE")
        for text in (
            "gh pr view | grep -q OPEN",
            "a | grep -iq x",
            "a | egrep --quiet x",
            "a | head -1",
            "a | b | head -n 3",
            "test -d x && a | grep -q x",
            "a | grep -m1 x",
            "a | true",
        )
    ),
]


def shown(value):
    return value if isinstance(value, str) else ""


@each("made, code", STRUCTURE, ids=shown)
def test_structure(made, code):
    assert code in codes(made)


@each("made, code", REFERENCES, ids=shown)
def test_references_and_expressions(made, code):
    told = {"W_CONFUSABLE"} if not written(made).isascii() else set()
    assert set(codes(made)) == {code} | told


@each(
    "text",
    [
        "if grep -q TODO f; then exit 1; fi; exit 0",
        "grep -q x f || exit 1; exit 0",
        "grep -q x f || { echo bad; exit 1; }\necho ok",
        "for i in a b; do test -s $i || exit 1; done; exit 0",
        "case $(uname) in Linux) exit 1;; esac; exit 0",
        "trap 'rm -f x' EXIT; pytest",
        "bash -c pytest",
        "bash -c 'pytest -q && mypy'",
        "pytest & wait $!",
        "(( $(wc -l < f) > 3 ))",
        "check() { pytest || exit 1; }; check; exit 0",
    ],
)
def test_sound_contracts_are_not_refused(text):
    assert codes(plan(step("a", contract=text))) == []


def test_half_a_character_in_an_expression_is_told_as_both():
    made = plan(step("a"), when('"\ud800" == ""'))
    assert sorted(codes(made)) == ["E_DOC_CONTROL_CHARACTER", "E_EXPR"]


@pytest.mark.parametrize(
    "made",
    [
        plan(write(".gitignore")),
        plan(write(".github/workflows/x.yml")),
        plan(write("git/hooks/x")),
        plan(write("x.git/y")),
        plan(step("a", tool="read_file", args={"path": ".git/HEAD"})),
        plan(step("a", tool="list_files", args={"path": ".git"})),
    ],
)
def test_paths_that_are_not_gits_or_are_only_read(made):
    assert codes(made) == []


@each("made, code", SURROUNDINGS, ids=shown)
def test_surroundings(made, code):
    assert code in codes(made)


@each("made, code", CONTRACTS, ids=shown)
def test_contracts(made, code):
    found = problems(made)
    assert code in [problem.code for problem in found]
    assert all(problem.hints for problem in found if problem.code.startswith("W_"))


GOOD = [
    plan(step("a"), params={"n": Parameter(type="list", default=["a"])}),
    plan(step("a"), write(content="$HOME $5.00 $$ ${HOME} ${x $${a.output} $${item}")),
    plan(step("a", run="echo ${HOME} ${nobody.output} $${a.output} ${a}")),
    plan(write(content="${b.output}", name="a", needs=()), step("b", needs=())),
    plan(step("a", on_failure=Skip()), write(content='${a.output ?? ""}')),
    plan(step("a", on_failure=Continue()), write(content="${a.output}")),
    plan(step("a", on_failure=Escalate()), write(content="${a.output}"), on_failure=Skip()),
    plan(step("a"), step("b", tool="write_file", args={"path": "${a.output}", "content": "${a.exit_code}"})),
    plan(step("a"), when('steps["a"].output.matches("(a+)+$")')),
    plan(when("[1, 2, 3].all(x, x > 0)", needs=())),
    plan(when("true || false", needs=())),
    plan(
        replace(
            step("a"),
            verification=Verification(strategy=CustomCondition(name="x", expression='steps["a"].exit_code == 0')),
        )
    ),
    plan(act("s", StoreData(key="k", value=1)), write(needs=(), content="${data.k}")),
    plan(act("a", AcquireLock(lock_name="l")), act("n", NestedPlan(plan=plan(act("b", ReleaseLock(lock_name="l")))))),
    plan(step("a"), budget=Budget(cost_usd=1e-9)),
    plan(store("s"), write(content="${data.k}"), store("t"), write(name="v", needs="t", content="${data.k}")),
    plan(
        store("s", needs=()),
        replace(store("t", needs="s"), when="true"),
        replace(store("u", needs="s"), when="false"),
        write(needs=("t", "u"), content="${data.k}"),
    ),
    plan(store("s"), act("n", NestedPlan(plan=plan(store("s"), write(content="${data.k}"))))),
    plan(
        act("s", StoreData(key="k", value="${a.output}"), needs=(), on_failure=Fallback(steps=("f",))),
        step("a", needs=()),
        write(needs="s", content="${data.k}"),
        fallbacks=(store("f", needs=()),),
    ),
    plan(
        step("a", on_failure=Fallback(steps=("f",))),
        fallbacks=(write(name="f", needs=(), content='${a.output ?? "x"}'),),
    ),
    plan(
        step("a"),
        step("b", on_failure=Fallback(steps=("f",))),
        fallbacks=(write(name="f", needs=(), content="${a.output}"),),
    ),
    plan(write(name="a"), write(name="b")),
    plan(write(name="a", needs=()), write(name="b", needs=(), content="${c.output}"), step("c", needs="a")),
    plan(write(name="a", needs=()), replace(write(name="b", needs=()), worktree=True)),
    plan(*(step(name, tool="make_dir", needs=(), args={"path": "out"}) for name in "ab")),
    plan(write("out/a"), delete("out")),
    plan(write("outer/a", needs=()), delete("out", needs=()), move("a", "b", needs=())),
    plan(write("out", needs=()), delete("out/x", needs=())),
    plan(delete("test"), move("a", "tests.py"), protect=("tests/**",)),
    plan(write("src/git/hooks.py"), write("a..b/c", name="b"), write(".github/workflows/x", name="c")),
    plan(write("src/tests.py"), protect=("tests/**",)),
    plan(step("a", tool="read_file", args={"path": "tests/x"}), protect=("tests/**",)),
    plan(step("risk-assessment-of-the-whole-building"), step("task-with-a-very-long-name-indeed")),
    plan(step("a", run="grep -- '-----BEGIN CERTIFICATE-----' x; echo AKIA sk- ghp_ eyJ")),
    plan(task(agent=None), agent="coder", **THOUGHTS),
    plan(task(tools=("odoo:search",)), tools=("odoo",), **THOUGHTS),
    plan(task(budget=BUDGET)),
    nested(3),
    *(
        plan(step("a", contract=text))
        for text in (
            "test -s x",
            "pytest -q",
            "pytest; echo done",
            "pytest && echo done",
            "test -f x && grep x x >/dev/null",
            "grep -q x file",
            "a | grep x >/dev/null",
            "if pytest; then mypy; else exit 1; fi",
            "test -f x || exit 1",
            'x=$(a); test -n "$x"',
            "false",
            "[ -s x ]",
            "for i in a b; do test -s $i; done",
        )
    ),
    plan(replace(step("a"), verification=Verification(strategy=Contract(command="cat x || true", stdout="ok")))),
    plan(replace(step("a"), verification=Verification(strategy=Contract(command="echo a", exit_code=1)))),
]


@each("made", GOOD)
def test_good(made):
    assert codes(made) == []


def test_nobody_named_in_the_plan_may_be_named_in_the_settings():
    made = plan(task(agent=None), **THOUGHTS)
    assert codes(made, replace(FACTS, settings=replace(SETTINGS, agent="coder"))) == []


def test_who_a_rule_names_must_be_there():
    made = plan(replace(task(agent=None), description="Review it"), **THOUGHTS)
    settings = replace(SETTINGS, agent="coder", agent_for={"review": "critic"})
    (problem,) = problems(made, replace(FACTS, settings=settings))
    assert problem.code == "E_AGENT_UNKNOWN"
    assert problem.detail == "There is no agent `critic`; the rule for the kind review names it for this task."
    assert codes(made, replace(FACTS, settings=settings, agents={**AGENTS, "critic": Agent(human=True)})) == []


def test_what_a_program_registered_is_known():
    facts = replace(FACTS, agents={"bot": Agent(python="a:b", registered=True)})
    assert codes(plan(task(agent="bot"), **THOUGHTS), facts) == []


def test_an_agent_that_cannot_be_started_is_a_warning():
    facts = replace(FACTS, agent_faults={"coder": "there is no program codex"})
    (problem,) = problems(plan(task(), task(agent="reviewer", name="u"), **THOUGHTS), facts)
    assert (problem.code, problem.detail) == (
        "W_AGENT_START",
        "The agent `coder` cannot be started here: there is no program codex.",
    )
    assert problem.command == "ordain agents"


def test_a_step_may_be_skipped_by_the_settings():
    made = plan(step("a"), write(content="${a.output}"))
    assert codes(made, replace(FACTS, settings=replace(SETTINGS, on_failure=Skip()))) == ["E_REF_MAY_BE_MISSING"]


def read(path="in.txt", **fields):
    return step("r", tool="read_file", args={"path": path}, **fields)


@each(
    "made, code",
    [
        (plan(read()), "E_READS_MISSING"),
        (plan(task(reads=("file:in.txt",)), **THOUGHTS), "E_READS_MISSING"),
        (plan(write("in.txt", needs=()), read(needs=())), "E_READS_MISSING"),
        (plan(read(needs=()), write("in.txt")), "E_READS_MISSING"),
        (plan(write("other.txt"), read()), "E_READS_MISSING"),
        (plan(replace(step("a"), writes=("other.txt",)), read()), "E_READS_MISSING"),
        (plan(move("a", "b"), read()), "E_READS_MISSING"),
        (plan(move("a", "in.txt"), read()), None),
        (plan(move("a", "new"), read("new/in.txt")), None),
        (plan(write("new"), read("new/in.txt")), "E_READS_MISSING"),
        (plan(step("a", tool="exec", args={"argv": ["make"]}), read()), None),
        (plan(step("a", tool="shell", args={"command": "make"}), read()), None),
        (plan(step("a", tool="http_request", args={"url": "http://h/"}), read()), "E_READS_MISSING"),
        (plan(write("in.txt"), read()), None),
        (plan(replace(step("a"), writes=("./in.txt",)), read()), None),
        (plan(step("a"), read()), None),
        (plan(write("in.txt"), write("b", name="b"), read()), None),
        (plan(read("there.txt")), None),
        (plan(step("a", tool="list_files")), None),
    ],
    ids=shown,
)
def test_what_is_read_is_there_or_made_before(made, code):
    facts = replace(FACTS, missing_files=frozenset(["in.txt", "new/in.txt"]))
    assert codes(made, facts) == ([code] if code else [])


@each(
    "read, code",
    [
        *(
            (f"file:{path}", "E_PATH")
            for path in (".env", "a/.ENV.local", ".git/HEAD", "sub/.git/x", ".netrc", "id_rsa")
        ),
        *((f"file:{path}", None) for path in (".env.example", "env", "src/**", ".e*", "ordain.toml", "a/id_rsa.pub")),
        ("topic:auth", None),
        ("topic:silent", "W_TOPIC_EMPTY"),
        ("topic:\u0430uth", "E_NAME"),
        ("topic:a b", "E_NAME"),
        ("topic:../x", "E_NAME"),
        ("topic:-x", "E_NAME"),
        ("topic:", "E_FIELD_VALUE"),
    ],
)
def test_what_a_task_reads_can_be_handed_on(read, code):
    made = plan(task(reads=(read,)), **THOUGHTS)
    assert codes(made, replace(FACTS, empty_topics=frozenset(["silent"]))) == ([code] if code else [])


@each(
    "made, warned",
    [
        (plan(step("a", contract="pytst -q")), True),
        (plan(step("a", contract="cat x | pytst")), True),
        (plan(step("a", contract='test "$(pytst)" = x')), True),
        (plan(step("a", contract="timeout 5 pytst")), True),
        (plan(step("a", contract="./made.sh")), False),
        (plan(write(), step("a", tool="read_file", args={"path": "x"}, contract="./made.sh")), True),
        (plan(write("made.sh"), step("a", tool="read_file", args={"path": "x"}, contract="./made.sh")), False),
        (plan(step("a", run="pip install -r requirements.txt", contract="pytst")), False),
        (plan(step("a", tool="exec", args={"argv": ["pip", "install", "x"]}, contract="pytst")), False),
        (plan(step("a", tool="shell", args={"command": "cp x bin/pytst"}, contract="pytst")), False),
        (plan(move("a", "bin/made.sh"), step("a", tool="read_file", args={"path": "x"}, contract="./made.sh")), False),
        (plan(step("a", run="ln -s /opt/x bin/pytst"), step("b", contract="pytst")), False),
        (plan(step("a", contract="pytst"), step("b", run="pip install pytst")), True),
        (plan(step("a", contract="uv run pytst")), False),
        (plan(step("a", contract="pytst() { true; }; pytst")), False),
        (plan(task(text="Install pytst.", needs=()), step("b", contract="pytst"), **THOUGHTS), False),
    ],
)
def test_a_contract_needs_programs_that_are_there_or_brought(made, warned):
    facts = replace(FACTS, missing_programs=frozenset(["pytst", "./made.sh"]))
    assert ("W_CONTRACT_PROGRAM" in codes(made, facts)) == warned


@each(
    "made, warned",
    [
        (plan(step("a", run="pytst -q")), True),
        (plan(step("a", run="FOO=1 timeout 5 pytst")), True),
        (plan(step("a", run="cat x | pytst")), True),
        (plan(step("a", tool="exec", args={"argv": ["pytst", "-q"]})), True),
        (plan(step("a", tool="shell", args={"command": "pytst"})), True),
        (plan(step("b"), fallbacks=(step("f", run="pytst", needs=()),)), True),
        (plan(step("a", run="./made.sh")), True),
        (plan(step("a", run="make && ./made.sh")), False),
        (plan(step("a", run="make"), step("b", run="./made.sh")), False),
        (plan(step("a", run="uv run pytst")), False),
        (plan(step("a", run="pip install pytst && pytst")), False),
        (plan(step("a", run="pip install -r x"), step("b", run="pytst")), False),
        (plan(step("a", run="command -v pytst && pytst")), False),
        (plan(step("a", run="if which pytst; then pytst; fi")), False),
        (plan(step("a", run=". venv/bin/activate; pytst")), False),
        (plan(step("a", run="PATH=bin:$PATH pytst")), False),
        (plan(step("a", tool="exec", args={"argv": ["pytst"], "env": {"PATH": "bin"}})), False),
        (plan(step("a", run="pytst() { true; }; pytst")), False),
        (plan(write("bin/pytst"), step("b", run="pytst")), False),
        (plan(task(text="Install pytst.", needs=()), step("b", run="pytst"), **THOUGHTS), False),
    ],
)
def test_a_command_needs_programs_that_are_there_or_brought(made, warned):
    facts = looked_at(made, replace(FACTS, missing_programs=frozenset(["pytst", "./made.sh"])))
    assert ("W_PROGRAM_MISSING" in codes(made, facts)) == warned


def test_a_program_that_many_steps_want_is_told_of_once():
    made = plan(*(step(name, run="pytst -q") for name in "abc"), step("d", run="nose"))
    facts = replace(FACTS, missing_programs=frozenset(["pytst", "nose"]))
    assert [(one.where.step, one.detail) for one in lint(made, facts)] == [
        ("a", "`a` and 2 more starts `pytst`, which is not installed: it would fail."),
        ("d", "`d` starts `nose`, which is not installed: it would fail."),
    ]


def test_facts_speak_of_commands_and_contracts():
    facts = Facts(
        tools=BUILT_IN,
        shell_faults={"do a": "line 1: unexpected end", "check (": "line 1: x"},
        missing_programs=frozenset(["pytst"]),
    )
    made = plan(step("a", contract="check ("), step("b", contract="pytst -q"))
    assert [problem.code for problem in lint(made, facts)] == [
        "E_COMMAND_SYNTAX",
        "E_CONTRACT_SYNTAX",
        "W_CONTRACT_PROGRAM",
    ]


def test_all_problems_come_at_once_each_with_its_step():
    made = plan(step("a", tool="nope"), step("b", needs="zz"), step("c", contract="true"))
    assert [(problem.code, problem.where.step) for problem in lint(made, FACTS)] == [
        ("E_STEP_UNKNOWN_NEED", "b"),
        ("E_TOOL_UNKNOWN", "a"),
        ("E_CONTRACT_VACUOUS", "c"),
    ]


@each(
    "made, hint",
    [
        (plan(step("a", tool="write_fil")), "Did you mean `write_file`?"),
        (plan(step("a", tool="odo")), "Did you mean `odoo`?"),
        (plan(task(agent="codr"), **THOUGHTS), "Did you mean `coder`?"),
        (plan(act("a", RunWorkflow(workflow_id="deplyo"))), "Did you mean `deploy`?"),
        (plan(step("settings"), write(content="${setings.output}")), "Did you mean `settings`?"),
        (plan(step("settings"), write(content="${settings.outptu}")), "Did you mean `output`?"),
        (plan(step("settings"), when('steps["setings"].exit_code == 0')), "Did you mean `settings`?"),
        (
            plan(step("undo"), step("b", on_failure=Fallback(steps=("undo",)))),
            "`undo` is an ordinary step; move it under `## Fallbacks`.",
        ),
        (plan(read(needs=()), write("in.txt")), "`w` writes it: add that to `needs`."),
    ],
)
def test_near_misses_get_a_hint(made, hint):
    found = problems(made, replace(FACTS, missing_files=frozenset(["in.txt"])))
    assert [problem.hints for problem in found] == [(hint,)]


def test_a_secret_is_not_shown_in_its_problem():
    secret = "ghp_" + "a1b2" * 9
    (problem,) = problems(plan(write(content=f"token={secret}")))
    assert "`ghp_…`" in problem.detail
    assert "a1b2" not in msgspec.json.encode(problem).decode()


def test_the_value_of_a_variable_that_holds_a_secret_stands_in_no_plan():
    facts = replace(FACTS, secrets={"DEPLOY_TOKEN": 'correct "horse" \n battery'})
    (problem,) = problems(plan(write(content='x correct "horse" \n battery y')), facts)
    assert (problem.code, problem.where.step) == ("E_PLAN_SECRET", "w")
    assert "$DEPLOY_TOKEN" in problem.detail
    assert "horse" not in problem.detail
    assert codes(plan(write(content="correct horse battery")), facts) == []


def test_deep_arguments_are_refused_without_a_recursion_error():
    value: object = "x"
    for _ in range(5000):
        value = [value]
    assert "E_DOC_DEPTH" in codes(plan(step("a", tool="write_file", args={"path": "x", "content": value})))


def test_a_plan_that_holds_itself_is_refused():
    made = plan(step("a"), act("self", NestedPlan(plan=plan(step("b")))))
    force_setattr(made.steps[1].action, "plan", made)
    assert "E_PLAN_NESTING" in [problem.code for problem in lint(made, FACTS)]


def test_references_are_needs_and_a_circle_of_both_names_the_reference():
    made = plan(step("a", needs="b"), write(name="b", needs=(), content="${a.output}"))
    (problem,) = problems(made)
    assert (problem.code, problem.where.step) == ("E_REF", "b")
    assert "`a` comes after `b`" in problem.detail


def test_a_tool_of_a_plugin_is_checked_like_a_built_in_one():
    tools = {**BUILT_IN, "nothing": ToolDefinition(name="nothing", description="", effect=EffectClass.READS)}
    assert codes(plan(step("a", tool="nothing")), replace(FACTS, tools=tools)) == []


# --- Plans made by code --------------------------------------------------------------------------------------------

FORBIDDEN_TEXTS = (
    ("a\x1b[2Jb", "E_DOC_CONTROL_CHARACTER"),
    ("a\x00", "E_DOC_CONTROL_CHARACTER"),
    ("a\rb", "E_DOC_CONTROL_CHARACTER"),
    ("a\x08", "E_DOC_CONTROL_CHARACTER"),
    ("a\x7f", "E_DOC_CONTROL_CHARACTER"),
    ("a\x9b2J", "E_DOC_CONTROL_CHARACTER"),
    ("a\ud800", "E_DOC_CONTROL_CHARACTER"),
    ("a\u202e", "E_DOC_BIDI"),
    ("a\u2066", "E_DOC_BIDI"),
    ("x" * ((1 << 20) + 1), "E_DOC_TOO_LARGE"),
)


def told_everywhere(text):
    """Plans that hold a text, each somewhere else."""
    return (
        plan(step("a"), title=text),
        plan(step("a"), context=text),
        plan(replace(step("a"), description=text)),
        plan(task(text=text), **THOUGHTS),
        plan(task(criteria=("good", text)), **THOUGHTS),
        plan(act("a", RunCommand(command="make", env={"A": text}))),
        plan(step("a"), fallbacks=(replace(step("f", needs=()), description=text),)),
        plan(act("n", NestedPlan(plan=plan(replace(step("b"), description=text))))),
        plan(act("n", NestedPlan(plan=plan(step("b"), title=text)))),
        plan(replace(step("a"), preconditions=(CustomCondition(name=text, expression="true"),))),
        plan(act("a", Ask(question="Which?", choices=("this", text)))),
    )


DEEP = [[[[[[[[[[[[[[[[[1]]]]]]]]]]]]]]]]]


@each(
    "made, code",
    [
        *((made, code) for text, code in FORBIDDEN_TEXTS for made in told_everywhere(text)),
        (plan(act("a", SendText(text="x", pane_id=2**53))), "E_DOC_NUMBER"),
        (plan(replace(step("a"), preconditions=(PaneExists(pane_id=2**60),))), "E_DOC_NUMBER"),
        (plan(act("a", Ask(question="Which?", schema={"maximum": 2**70}))), "E_DOC_NUMBER"),
        (plan(act("a", Custom(action_type="x", payload=10**5000))), "E_DOC_NUMBER"),
        (plan(act("a", Custom(action_type="x", payload=1e17))), "E_DOC_NUMBER"),
        (plan(step("a"), params={"n": Parameter(type="number", default=float("inf"))}), "E_DOC_NUMBER"),
        (plan(act("a", Ask(question="Which?", schema={"a": DEEP}))), "E_DOC_DEPTH"),
        (plan(act("a", Custom(action_type="x", payload=DEEP))), "E_DOC_DEPTH"),
        (plan(step("a"), budget=Budget(tokens=2**53)), "E_STEP_LIMIT"),
        (plan(step("a"), budget=Budget(cost_usd=float("nan"))), "E_STEP_LIMIT"),
        (plan(step("-5")), "E_STEP_ID"),
        (plan(write("x" * 256)), "E_TOOL_ARGS"),
        (plan(write("x/" * 2048)), "E_TOOL_ARGS"),
    ],
    ids=shown,
)
def test_plans_made_by_code_are_held_to_what_documents_are(made, code):
    assert set(codes(made)) == {code}


def test_an_argument_that_holds_itself_is_refused():
    value = ["x"]
    value += [value, value]
    assert "E_DOC_DEPTH" in codes(plan(write(content=value)))


def texts_in(tree, path=()):
    """The ways to all texts in a tree that are not names of variants."""
    if isinstance(tree, dict):
        for key, value in tree.items():
            if key not in ("type", "strategy", "proof", "approval") or isinstance(value, dict):
                yield from texts_in(value, (*path, key))
    elif isinstance(tree, list):
        for index, value in enumerate(tree):
            yield from texts_in(value, (*path, index))
    elif isinstance(tree, str):
        yield path


@given(st.data())
def test_a_forbidden_character_is_found_in_any_text_of_any_plan(data):
    tree = msgspec.json.decode(msgspec.json.encode(data.draw(plans())))
    *way, last = data.draw(st.sampled_from(list(texts_in(tree))))
    text, code = data.draw(st.sampled_from(FORBIDDEN_TEXTS[:-1]))
    inner = tree
    for key in way:
        inner = inner[key]
    inner[last] += text
    made = msgspec.convert(tree, Plan)
    assert code in [problem.code for problem in lint(made, FACTS)]


@given(plans())
def test_sound_plans_have_no_fault_of_content(made):
    content = {"E_DOC_CONTROL_CHARACTER", "E_DOC_BIDI", "E_DOC_TOO_LARGE", "E_DOC_NUMBER", "E_DOC_DEPTH"}
    assert content.isdisjoint(problem.code for problem in lint(made, FACTS))


@pytest.mark.slow
def test_what_cannot_be_compared_with_all_patterns_is_refused():
    made = HOSTILE["many patterns and many paths"]
    found = [problem for problem in lint(made, FACTS) if problem.code == "E_PATH"]
    assert found
    assert all("too much of it" in problem.detail for problem in found)


HOSTILE = {
    "one path written by all": plan(*(write(name=f"s{i}", needs=()) for i in range(5000))),
    "one path in a chain": plan(*(write(name=f"s{i}") for i in range(5000))),
    "references in a circle": plan(
        *(write(f"f{i}", name=f"s{i}", needs=(), content=f"${{s{(i + 1) % 5000}.output}}") for i in range(5000))
    ),
    "all read what is not there": plan(
        *(step(f"s{i}", tool="read_file", args={"path": "in.txt"}) for i in range(5000))
    ),
    "many unknown tools": plan(*(step(f"s{i}", tool="write_fil") for i in range(5000))),
    "many unknown needs": plan(*(step(f"step-{i}", needs=f"stop-{i}") for i in range(5000))),
    "many circles": plan(
        *(write(f"f{i}", name=f"s{i}", needs=(), content=f"${{s{i ^ 1}.output}}") for i in range(5000))
    ),
    "programs that are not there": plan(*(step(f"s{i}", contract=f"nope{i}") for i in range(5000))),
    "patterns through directories": plan(write("a/" * 60 + "b"), protect=("**/" * 8 + "x", "**/" * 8 + "x*")),
    "patterns of stars": plan(write("a" * 200 + "b"), protect=("*a" * 8 + "x", "*a" * 8 + "x*")),
    "many patterns and many paths": plan(
        *(write(f"{'a' * 200}/{i}", name=f"s{i}", needs=()) for i in range(2000)),
        protect=tuple(f"*{'a*' * 100}x{i}*" for i in range(2000)),
    ),
    "many plain patterns and many paths": plan(
        *(write(f"f{i}", name=f"s{i}", needs=()) for i in range(5000)), protect=tuple(f"p{i}" for i in range(50_000))
    ),
    "long patterns": plan(write(), protect=tuple(f"{'*a' * 2000}{i}" for i in range(3000))),
    "endless patterns": plan(write(), protect=("*a" * 500_000,)),
    "dollars": plan(write(content="${a.output" * 90_000)),
    "braces": plan(step("a", run="${" * 50_000)),
}


@pytest.mark.part(of=8)
@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_plans_take_bounded_time(name):
    made = HOSTILE[name]
    facts = replace(
        FACTS,
        missing_files=frozenset(["in.txt"]),
        missing_programs=frozenset(f"nope{i}" for i in range(5000)),
    )
    lint(made, facts)


def test_only_rules_are_left_out_of_partial_plans():
    assert set(RULES) > WANT_ALL


def test_every_rule_is_told_in_a_sentence():
    for rule in RULES:
        assert (rule.__doc__ or "").endswith("."), rule


@pytest.mark.parametrize(("contract", "found"), [(None, ["W_FALLBACK_UNPROVED"]), ("grep -c x y", [])])
def test_a_fallback_wants_a_contract_that_can_pass_its_step(contract, found):
    undone = step("a", contract=contract, on_failure=Retry(max_attempts=2, then=Fallback(steps=("f",))))
    made = plan(undone, fallbacks=(step("f", needs=()),))
    assert [problem.code for problem in lint(made, looked_at(made, FACTS))] == found


def test_a_fallback_of_the_whole_plan_wants_contracts_and_says_so_once():
    def found(*steps):
        made = plan(*steps, fallbacks=(step("f", needs=()),), on_failure=Retry(max_attempts=2, then=on_f))
        return [problem.detail for problem in lint(made, looked_at(made, FACTS))]

    on_f = Fallback(steps=("f",))
    told = "The plan falls back on f, and for {} there is no contract that could pass it afterwards."
    checked, own = step("c", contract="grep -c x y"), step("o", on_failure=Skip())
    assert found(checked, own) == []
    assert found(checked, own, step("a")) == [told.format("`a`")]
    assert found(step("a"), step("b", on_failure=Retry(max_attempts=2))) == [told.format("`a` and 1 more")]


@pytest.mark.parametrize(
    "asked",
    [
        Ask(question=" "),
        Ask(question="Which?", choices=("a", "a")),
        Ask(question="Which?", choices=("a", " ")),
        Ask(question="Which?", choices=("a",), schema={"type": "string"}),
        Ask(question="Which?", schema={"$ref": "#/x"}),
        Ask(question="Which?", schema={"type": "text"}),
    ],
)
def test_a_question_that_nobody_could_answer_is_refused(asked):
    assert codes(plan(act("a", asked))) == ["E_ASK"]


@pytest.mark.parametrize("policy", [Replan(), Recover(), AskApproval(summary="Go on?")])
def test_what_people_are_asked_is_carried_out(policy):
    assert codes(plan(act("a", Ask(question="Which?", choices=("a", "b"))), step("b", on_failure=policy))) == []


@pytest.mark.parametrize("name", ["--yolo", "-c", "gpt 5", "gpt\n5", "", "gpt-\u0435", "x" * 257])
def test_no_model_is_called_like_an_option_of_a_command_line(name: str) -> None:
    by_step = plan(replace(task(), model=name), **THOUGHTS)
    assert "E_NAME" in codes(by_step) and "E_NAME" in codes(plan(task(), **{**THOUGHTS, "model": name}))


@pytest.mark.parametrize("name", ["sonnet", "gpt-5.5", "anthropic/claude-sonnet-4-5", "us.a.b-v2:0", "c@2024"])
def test_models_are_called_what_their_servers_call_them(name: str) -> None:
    assert "E_NAME" not in codes(plan(replace(task(), model=name), **THOUGHTS))


@pytest.mark.parametrize("key", ["${params.x}", "done-${build.output}"])
def test_no_reference_decides_the_key_of_a_signal(key: str) -> None:
    """Nothing would put the value in: the run would wait for a signal of that very name."""
    waiting = WaitFor(condition=External(key=key), timeout_ms=1000)
    assert "E_REF_PLACE" in [problem.code for problem in lint(plan(step("wait", action=waiting)), Facts())]


@pytest.mark.parametrize("condition", [LockHeld(lock_name="a-${x.output}"), LockAvailable(lock_name="${params.x}")])
def test_no_reference_decides_the_lock_of_a_condition(condition: Precondition) -> None:
    """Nothing would put the value in: a lock of that very name would be looked at."""
    by_step = plan(step("a"), replace(step("b"), preconditions=(condition,)))
    by_plan = plan(step("a"), preconditions=(condition,))
    assert [[(one.code, one.where and one.where.step, one.detail) for one in lint(made, Facts())]
            for made in (by_step, by_plan)] == [
        [("E_REF_PLACE", "b", "The lock name of `b` cannot be decided by a reference.")],
        [("E_REF_PLACE", None, "The plan's lock name cannot be decided by a reference.")],
    ]  # fmt: skip


def test_a_limit_in_dollars_limits_no_model_that_is_spoken_to():
    model = Agent(model="anthropic:m", base_url="https://x.example")
    facts = replace(FACTS, settings=replace(SETTINGS, agents={"coder": model}), agents={"coder": model})
    made = task(agent="coder")
    assert codes(plan(made, budget=Budget(cost_usd=2.0)), facts) == ["W_BUDGET"]
    assert codes(plan(made, budget=Budget(cost_usd=2.0, tokens=99_000)), facts) == []
    assert codes(plan(made, budget=Budget(cost_usd=2.0)), replace(facts, settings=SETTINGS)) == []


def test_a_plan_names_no_model_of_another_provider():
    model = Agent(model="anthropic:m", base_url="https://x.example")
    facts = replace(FACTS, settings=replace(SETTINGS, agents={"coder": model}), agents={"coder": model})
    named = [
        (name, codes(plan(replace(task(agent="coder"), model=name), **THOUGHTS), facts))
        for name in ("haiku", "anthropic:haiku", "llama:8b", "openai:gpt")
    ]
    assert named == [("haiku", []), ("anthropic:haiku", []), ("llama:8b", []), ("openai:gpt", ["E_FIELD_VALUE"])]
