"""Whatever lets a plan do more, check less or ask less is called out, and nothing that only tightens is."""

from __future__ import annotations

from typing import Any, get_args

import pytest
from msgspec.structs import replace

from ordain.core.approval.diff.concern import Concern, concerns
from ordain.core.plan.action import Ask, RunCommand, SendText, Task
from ordain.core.plan.condition import Contract, LockHeld, NoCheck, PatternMatch, Verification
from ordain.core.plan.failure import Abort, Continue, Escalate, FailurePolicy, Retry, Skip
from ordain.core.plan.model import Action, Budget, ForEach, NestedPlan, Plan, Step
from ordain.core.plan.role import ConcernKind, EffectClass
from ordain.core.plan.tool import BUILT_IN, ToolDefinition, ToolParameter
from ordain.core.policy.settings import Settings
from tests.build import plan, step
from tests.core.test_difference import READ_FIRST
from tests.rows import each

TOOLS = {
    **BUILT_IN,
    "drop": ToolDefinition(name="drop", description="", effect=EffectClass.CHECKABLE, destructive=True),
    "mail": ToolDefinition(name="mail", description="", effect=EffectClass.OPAQUE),
    "look": ToolDefinition(
        name="look",
        description="",
        effect=EffectClass.READS,
        parameters=(ToolParameter(name="path", kind="string", path=True),),
    ),
}


def one(**fields: Any) -> Plan:
    """A plan of one step with these fields."""
    return plan(replace(step("a", run="x"), **fields))


def doing(action: Action) -> Plan:
    return one(action=action)


def checked(command: str = "t", **fields: Any) -> Plan:
    return one(verification=Verification(strategy=Contract(command=command, **fields)))


def calling(tool: str, **args: Any) -> Plan:
    return plan(step("a", tool=tool, args=args))


def failing(policy: FailurePolicy | None, of_plan: FailurePolicy | None = None) -> Plan:
    return plan(step("a", on_failure=policy), on_failure=of_plan)


def task(**fields: Any) -> Plan:
    return doing(Task(task="do it", **fields))


def first(**fields: Any) -> Plan:
    return plan(step("a"), **fields)


def write(path: str) -> Step:
    return step(path, tool="write_file", args={"path": path, "content": ""}, needs=())


PATTERN = Verification(strategy=PatternMatch(rule_id="ok"))
BOTH = (step("a", needs=()), step("b", needs=("a",)))
APART = (step("a", needs=()), step("b", needs=()))

WORSE: list[tuple[ConcernKind, Plan, Plan]] = [
    ("destructive_effect", calling("look", path="a"), calling("drop")),
    ("destructive_effect", calling("drop", what="a"), calling("drop", what="b")),
    ("destructive_effect", calling("look", path="a"), calling("unheard_of")),
    ("destructive_effect", calling("look", path="a"), calling("delete", path="a")),
    ("destructive_effect", calling("delete", path="a"), calling("delete", path="a", recursive=True)),
    ("contract_removed", checked(), one()),
    ("contract_removed", checked(), one(verification=Verification(strategy=NoCheck()))),
    ("contract_removed", one(verification=PATTERN), one()),
    ("contract_removed", plan(step("a"), step("b", contract="t", needs=())), plan(step("a"))),
    ("contract_weakened", checked(), checked(exit_code=1)),
    ("contract_weakened", checked(stdout="ok"), checked()),
    ("contract_weakened", checked(), one(verification=PATTERN)),
    ("proof_removed", one(proof="red-then-green"), one()),
    ("protect_narrowed", one(protect=("tests/**",)), one()),
    ("protect_narrowed", first(protect=("tests/**",)), first(protect=("tests/a/**",))),
    ("tools_widened", first(tools=("shell",)), first()),
    ("tools_widened", first(tools=("shell",)), first(tools=("shell", "mail"))),
    ("tools_widened", first(tools=("fs:read",)), first(tools=("fs",))),
    ("tools_widened", task(tools=("look",)), task()),
    ("tools_widened", task(tools=()), task(tools=("look",))),
    ("writes_widened", one(writes=("a/**",)), one(writes=("a/**", "b"))),
    ("writes_widened", one(writes=("a/**",)), one()),
    ("network_allowed", one(), one(network=True)),
    ("network_allowed", one(network=False), one()),
    ("tier_lowered", first(tier=2), first(tier=1)),
    ("tier_lowered", first(tier=2), first()),
    ("approval_dropped", one(approval="ask"), one()),
    ("ask_removed", plan(replace(step("q"), action=Ask(question="Go?")), step("a", needs=())), plan(step("a"))),
    ("condition_removed", one(preconditions=(LockHeld(lock_name="l"),)), one()),
    ("condition_removed", first(preconditions=(LockHeld(lock_name="l"),)), first()),
    ("condition_removed", one(when="x"), one()),
    ("repeatable_claimed", one(), one(idempotent=True)),
    ("failure_softened", failing(None), failing(Skip())),
    ("failure_softened", failing(Escalate()), failing(Continue())),
    ("failure_softened", failing(Continue()), failing(Skip())),
    ("failure_softened", failing(Abort(), Skip()), failing(None, Skip())),
    ("failure_softened", failing(None, Retry(max_attempts=2)), failing(None, Retry(max_attempts=2, then=Skip()))),
    ("worktree_dropped", one(worktree=True), one()),
    ("worktree_dropped", one(), one(worktree=False)),
    ("budget_raised", one(budget=Budget(tokens=1)), one(budget=Budget(tokens=2))),
    ("budget_raised", first(budget=Budget(tokens=1, cost_usd=1.5)), first(budget=Budget(tokens=1))),
    ("budget_raised", first(budget=Budget(wall_clock_ms=1)), first()),
    ("repetitions_raised", one(), one(for_each=ForEach(source="${a.output}", max=2))),
    ("command_new", plan(step("a")), plan(step("a"), step("b", needs=()))),
    ("command_new", calling("look", path="a"), doing(RunCommand(command="x"))),
    ("path_written", calling("write_file", path="a", content=""), plan(*(write(path) for path in "ab"))),
    ("command_new", calling("look", path="a"), calling("exec", argv=["x"])),
    ("command_new", calling("look", path="a"), calling("shell", command="x")),
    ("command_changed", calling("exec", argv=["x"]), calling("exec", argv=["x", "y"])),
    ("command_changed", calling("shell", command="x"), calling("shell", command="y")),
    ("effect_new", calling("look", path="a"), calling("move", path="a", to="b")),
    ("destructive_effect", calling("move", path="a", to="b"), calling("move", path="a", to="b", overwrite=True)),
    ("effect_new", calling("look", path="a"), calling("http_request", url="http://h/")),
    ("effect_changed", calling("http_request", url="http://h/"), calling("http_request", url="http://h/x")),
    ("path_written", calling("look", path="a"), calling("write_file", path="a", content="")),
    ("effect_new", calling("look", path="a"), calling("mail")),
    ("effect_new", plan(step("a")), plan(step("a"), replace(step("b", needs=()), action=SendText(text="y", pane="p")))),
    ("command_changed", one(), doing(RunCommand(command="y"))),
    ("command_changed", one(), doing(RunCommand(command="x", env={"A": "1"}))),
    ("effect_changed", calling("mail", to="a"), calling("mail", to="b")),
    ("effect_changed", doing(Task(task="a")), doing(Task(task="b"))),
    ("condition_changed", one(when="x"), one(when="y")),
    ("contract_new", one(), checked()),
    ("contract_changed", checked(), checked("u")),
    ("contract_changed", checked(stdout="a"), checked(stdout="b")),
    ("contract_changed", checked(exit_code=1), checked()),
    ("needs_removed", plan(*BOTH), plan(*APART)),
    ("agent_changed", task(agent="a"), task(agent="b")),
    ("agent_changed", first(agent="a"), first(agent="b")),
    ("model_changed", one(model="a"), one(model="b")),
    ("model_changed", first(model="a"), first()),
    ("pool_changed", one(pool="a"), one(pool="b")),
]

OPEN_BOTH_WAYS = {
    *("destructive_effect", "command_changed", "effect_changed", "condition_changed", "contract_changed"),
    *("agent_changed", "model_changed", "pool_changed"),
}
"""Changes that nobody can tell the direction of: they are called out both ways."""

BETTER = [
    (checked(), checked(stdout="ok")),
    (checked(), one(verification=Verification(strategy=Contract(command="t"), timeout_ms=99))),
    (one(), one(proof="red-then-green", protect=("a",), approval="ask", worktree=True)),
    (first(), first(tools=("shell",), protect=("a/**",), tier=2, budget=Budget(tokens=1))),
    (first(tools=("fs",)), first(tools=("fs:read",))),
    (one(protect=("tests/a/b",)), one(protect=("tests/a/**",))),
    (one(protect=("tests/",)), replace(one(), protect=("tests/",))),
    (task(tools=("look",)), task(tools=())),
    (one(writes=("a/**",)), one(writes=("a/b",))),
    (one(), one(writes=("a/**",))),
    (one(network=True), one(network=False)),
    (one(idempotent=True), one(idempotent=False)),
    (failing(Skip()), failing(Escalate())),
    (failing(Abort()), failing(Escalate())),
    (plan(*APART), plan(*BOTH)),
    (plan(step("a")), plan(step("a"), step("b", tool="look", args={"path": "x"}, needs=()))),
    (first(title="x"), first(title="y", timeout_ms=1)),
]


@pytest.mark.parametrize(
    ("old", "new", "more"),
    [
        (task(), task(tools=("shell",)), "`shell`"),
        (task(), task(tools=("web:search", "read_file")), "`web:search`"),
        (task(), replace(task(), tools=("web", "shell")), "`web`"),
        (task(tools=("read_file",)), task(), "`write_file`"),
    ],
)
def test_a_task_that_lists_no_tools_may_use_those_on_files_and_no_others(old: Plan, new: Plan, more: str):
    tools = BUILT_IN
    (found,) = concerns(old, new, tools)
    assert found.kind == "tools_widened" and found.detail.startswith("`a` may also use") and more in found.detail
    assert ("`shell`" in found.detail) is (more == "`shell`"), "a plan's `shell` is for its contracts"
    assert concerns(task(), task(tools=("read_file", "edit_file")), tools) == ()


@each("kind, old, new", WORSE)
def test_what_got_worse_is_called_out(kind: ConcernKind, old: Plan, new: Plan):
    assert kind in [concern.kind for concern in concerns(old, new, TOOLS)]


@each("kind, old, new", [row for row in WORSE if row[0] not in OPEN_BOTH_WAYS])
def test_the_other_way_it_is_no_concern(kind: ConcernKind, old: Plan, new: Plan):
    assert kind not in [concern.kind for concern in concerns(new, old, TOOLS)]


@each("old, new", BETTER)
def test_what_only_tightens_or_does_not_matter_is_no_concern(old: Plan, new: Plan):
    assert concerns(old, new, TOOLS) == ()


def test_every_kind_is_in_a_table():
    assert {row[0] for row in WORSE} | {row[1] for row in READ_FIRST} == set(get_args(ConcernKind))


def test_the_most_dangerous_comes_first():
    old = plan(step("a", contract="t", needs=()), step("b"), tools=("shell",))
    new = plan(step("b", run="other"), step("a", needs=()), step("c", tool="drop", needs=()))
    assert [(concern.kind, concern.step) for concern in concerns(old, new, TOOLS)] == [
        ("destructive_effect", "c"),
        ("contract_removed", "a"),
        ("tools_widened", None),
        ("command_changed", "b"),
        ("needs_removed", "b"),
    ]


def test_a_step_that_waits_in_another_way_has_not_lost_anything():
    through = plan(step("a", needs=()), step("b", needs=("a",)), step("c", needs=("b",)))
    both = plan(step("a", needs=()), step("b", needs=("a",)), step("c", needs=("a", "b")))
    assert concerns(both, through, TOOLS) == ()


def test_what_a_removed_step_waited_for_is_still_waited_for():
    old = plan(step("a", needs=()), step("b", needs=("a",)), step("c", needs=("b",)))
    gone = Concern(kind="step_removed", step="b", detail="`b` ran a command, and is gone.")
    assert concerns(old, plan(step("a", needs=()), step("c", needs=("a",))), TOOLS) == (gone,)
    first, lost = concerns(old, plan(step("a", needs=()), step("c", needs=())), TOOLS)
    assert first == gone
    assert lost == Concern(kind="needs_removed", step="c", detail="`c` no longer waits for `a`.")


def test_a_contract_that_goes_over_to_another_step_is_neither_gone_nor_new():
    old = plan(step("a", run="x", contract="t"))
    new = plan(step("b", run="y", contract="t"))
    assert [concern.kind for concern in concerns(old, new, TOOLS)] == ["step_removed", "command_new"]


def test_steps_of_nested_plans_and_fallbacks_are_looked_at_too():
    def around(*inner: Step, **fields: Any) -> Plan:
        return plan(replace(step("out"), action=NestedPlan(plan=plan(*inner, **fields))))

    found = concerns(around(step("in", contract="t"), tools=("shell",)), around(step("in")), TOOLS)
    assert [(concern.kind, concern.step, concern.detail) for concern in found] == [
        ("contract_removed", "out/in", "`out/in` has no contract any more."),
        ("tools_widened", "out", "The plan in `out` may use any tool."),
    ]
    found = concerns(plan(step("a")), plan(step("a"), *around(step("in")).steps), TOOLS)
    assert [(concern.kind, concern.step) for concern in found] == [("command_new", "out/in")]
    found = concerns(
        plan(step("a"), fallbacks=(step("f", needs=(), run="x"),)),
        plan(step("a"), fallbacks=(step("f", needs=(), run="y"),)),
        TOOLS,
    )
    assert [(concern.kind, concern.step) for concern in found] == [("command_changed", "f")]


RULES = Settings(agent="coder", agent_for={"review": "critic"})


def said(old: Plan, new: Plan) -> list[str]:
    return [concern.detail for concern in concerns(old, new, TOOLS, RULES)]


def test_another_title_can_make_another_agent_do_it() -> None:
    old, new = (plan(replace(task().steps[0], description=title)) for title in ("Fix it", "Review it"))
    assert said(old, new) == ["`a` is given to the agent `critic`, because the rule for the kind review names it."]
    assert concerns(old, new, TOOLS) == (), "no rule, no difference"


def test_the_same_agent_said_in_another_way_is_no_concern() -> None:
    assert said(task(), task(agent="coder")) == []
    assert said(task(agent="coder"), task()) == []
    assert said(task(agent="critic"), task()) == [
        "`a` is given to the agent `coder`, because the settings name it for all others."
    ]


def test_who_the_outer_plan_names_counts_in_the_inner_one() -> None:
    old = plan(around_task(None), agent="x")
    assert said(old, plan(around_task("x"), agent="x")) == []
    assert said(old, plan(around_task("y"), agent="x")) == ["`n/a` is given to the agent `y`."]


def around_task(agent: str | None) -> Step:
    return replace(step("n"), action=NestedPlan(plan=task(agent=agent)))


def test_a_field_that_nobody_knows_the_direction_of_must_be_read():
    new = replace(one(), plan_version=2)
    assert [(each.kind, each.detail) for each in concerns(one(), new, TOOLS)] == [
        ("field_changed", "The plan has another `plan_version`; read it.")
    ]
