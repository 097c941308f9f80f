"""Who performs a task: one rule, foreseeable by anybody who reads the title and the settings."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ordain.core.plan.action import Task
from ordain.core.plan.model import NestedPlan, Step
from ordain.core.plan.role import EffectClass
from ordain.core.plan.tool import ToolDefinition, ToolParameter
from ordain.core.plan.value import StepId
from ordain.core.policy.agent import (
    KINDS,
    VERBS,
    Agent,
    agent_digest,
    agents_of,
    choose,
    has_network,
    kind_of,
    model_of,
)
from ordain.core.policy.assignment import Assignment, assignments
from ordain.core.policy.settings import Settings
from tests.build import plan
from tests.rows import each


def given_task(name="t", title="Fix it", agent=None, **fields):
    own = {key: fields.pop(key) for key in ("tools", "reads") if key in fields}
    return Step(id=StepId(name), description=title, needs=(), action=Task(task="…", agent=agent, **own), **fields)


RULES = ({"review": "critic"}, "coder")


@pytest.mark.parametrize(
    ("step", "plans", "agent", "why"),
    [
        (given_task(agent="own"), (plan(agent="inner"),), "own", "the step names it"),
        (given_task(), (plan(agent="inner"), plan(agent="outer")), "inner", "the plan names it"),
        (given_task(), (plan(), plan(agent="outer")), "outer", "a plan around its plan names it"),
        (given_task(title="Review it"), (plan(agent="inner"),), "inner", "the plan names it"),
        (given_task(title="Review it"), (plan(),), "critic", "the rule for the kind review names it"),
        (given_task(title="Fix it"), (plan(),), "coder", "the settings name it for all others"),
    ],
)
def test_the_step_goes_before_the_plan_and_the_plan_before_the_rules(step, plans, agent, why):
    choice = choose(step, plans, *RULES)
    assert (choice.agent, choice.why) == (agent, why)


def test_nobody_is_named():
    assert choose(given_task(), (plan(),), {"review": "critic"}, "") is None


def test_everybody_of_a_plan_with_nested_plans_and_fallbacks():
    inner = plan(given_task("a", "Audit it"), fallbacks=(given_task("f", agent="fixer"),))
    made = plan(
        given_task("b"),
        Step(id=StepId("n"), description="n", needs=(), action=NestedPlan(plan=inner)),
        fallbacks=(given_task("g"),),
    )
    assert list(agents_of(made, *RULES)) == ["coder", "critic", "fixer", "coder"]


@given(st.text())
def test_every_title_has_exactly_one_kind(title):
    assert kind_of(given_task(title=title)) in KINDS


def test_a_title_is_of_the_kind_of_its_first_word():
    words = [(verb, kind) for kind, verbs in VERBS.items() for verb in verbs]
    assert len({verb for verb, _ in words}) == len(words), "no word means two kinds"
    for verb, kind in words:
        for title in (f"{verb} the parser", f"{verb.upper()}: it", f"3. {verb.capitalize()}", f"`{verb}`"):
            assert kind_of(given_task(title=title)) == kind
        assert kind_of(given_task(title=f"Then {verb} it")) == "code"
        assert kind_of(given_task(title=f"{verb}x it")) == "code"
    assert kind_of(given_task(title="éreview it")) == "code"
    assert {*VERBS, "code"} == set(KINDS)


def test_the_model_is_the_step_s_else_the_plan_s_else_the_agent_s():
    agent = Agent(preset="pi", model="small")
    around = (plan(), plan(model="outer"))
    assert model_of(given_task(model="own"), around, agent) == "own"
    assert model_of(given_task(), around, agent) == "outer"
    assert model_of(given_task(), (plan(),), agent) == "small"
    assert model_of(given_task(), (plan(),), Agent(preset="pi")) is None


def test_the_step_s_word_about_the_network_goes_first():
    assert has_network(given_task(network=True), Agent(preset="pi"))
    assert not has_network(given_task(network=False), Agent(preset="pi", network=True))
    assert has_network(given_task(), Agent(preset="pi", network=True))
    assert not has_network(given_task(), Agent(preset="pi"))


TOOLS = {
    "read_file": ToolDefinition(
        name="read_file",
        description="",
        effect=EffectClass.READS,
        parameters=(ToolParameter(name="path", kind="string", description="", path=True),),
    ),
    "odoo": ToolDefinition(name="odoo", description="", effect=EffectClass.OPAQUE, schema={}),
}
SETTINGS = Settings(
    agent="coder",
    agent_for={"review": "me", "docs": "gone"},
    agents={
        "coder": Agent(preset="claude", model="sonnet", network=True, own_tools=True, env=("KEY",)),
        "me": Agent(human=True),
    },
    prompt="{{task}}",
)


def test_what_an_approver_is_told_of_each_task():
    inner = plan(given_task("look", "Review it"))
    made = plan(
        given_task("fix", model="opus"),
        given_task("ask", tools=("odoo",), agent="coder"),
        Step(id=StepId("n"), description="n", needs=(), action=NestedPlan(plan=inner)),
        given_task("write", "Document it"),
    )
    rule = "the settings name it for all others"
    coder = {"agent": "coder", "runner": "claude", "own_tools": True, "network": True, "env": ("KEY",), "login": True}
    assert list(assignments(made, SETTINGS, SETTINGS.agents, TOOLS)) == [
        Assignment(step="fix", kind="code", why=rule, model="opus", tools=("read_file",), prompt="settings", **coder),
        Assignment(
            step="ask",
            kind="code",
            why="the step names it",
            model="sonnet",
            tools=("odoo",),
            unforeseen=("odoo",),
            prompt="settings",
            **coder,
        ),
        Assignment(
            step="n/look",
            kind="review",
            agent="me",
            why="the rule for the kind review names it",
            runner="a person",
            human=True,
        ),
        Assignment(
            step="write",
            kind="docs",
            agent="gone",
            why="the rule for the kind docs names it",
            tools=("read_file",),
            prompt="settings",
        ),
    ]


@each("name", Agent.__struct_fields__)
def test_every_part_of_a_definition_is_in_its_digest(name):
    one = Agent(preset="claude")
    other = {str: "x", bool: True, tuple: ("x",), type(None): "x"}
    changed = msgspec.structs.replace(one, **{name: other[type(getattr(Agent(), name))]})
    assert agent_digest(changed) != agent_digest(one)
