"""A successor that only does part of what was approved goes on unasked; everything else asks, with the reason."""

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from tests.build import plan, step
from tests.rows import each
from tests.words import (
    Abort,
    Budget,
    Contract,
    CustomCondition,
    Escalate,
    ForEach,
    LockAvailable,
    NestedPlan,
    Plan,
    Retry,
    RunCommand,
    SendText,
    Skip,
    Step,
    StepId,
    Task,
    Verification,
    subset_faults,
)


def check(command: str, **fields: object) -> Verification:
    return Verification(strategy=Contract(command=command, **fields))  # type: ignore[arg-type]


APPROVED = plan(
    step("look", run="kubectl get pods", timeout_ms=60_000),
    step("build", action=RunCommand(command="make", env={"TARGET": "staging"}), contract="test -f out/app"),
    step("config", tool="write_file", args={"path": "out/app.conf", "content": "a: 1"}),
    step(
        "write",
        action=Task(task="Write the notes.", agent="coder", tools=("read_file",)),
        contract="grep -q x notes.md",
    ),
    step("push", run="git push origin main", on_failure=Escalate()),
    step("note", tool="write_file", args={"path": "done.txt", "content": "done"}, needs="config"),
    title="Release",
    budget=Budget(attempts=20, cost_usd=2.0),
    tools=("read_file", "write_file", "shell"),
    protect=("tests/**",),
    concurrency=4,
    timeout_ms=120_000,
    tier=0,
    fallbacks=(step("undo", run="git reset --hard", needs=()),),
)


def with_step(name: str, **fields: object) -> Plan:
    return replace(APPROVED, steps=tuple(replace(one, **fields) if one.id == name else one for one in APPROVED.steps))


def run(name: str, command: str, **env: str) -> Plan:
    return with_step(name, action=RunCommand(command=command, env=env))


def moved(first: str, behind: str) -> Plan:
    steps = [one for one in APPROVED.steps if one.id != first]
    place = next(index for index, one in enumerate(steps) if one.id == behind) + 1
    steps.insert(place, next(one for one in APPROVED.steps if one.id == first))
    return replace(APPROVED, steps=tuple(steps))


def without(*names: str, freed: bool = False) -> Plan:
    """The plan without these steps; `freed` where those that waited for them wait no longer."""
    kept = [one for one in APPROVED.steps if one.id not in names]
    if freed:
        kept = [replace(one, needs=tuple(need for need in one.needs if need not in names)) for one in kept]
    return replace(APPROVED, steps=tuple(kept))


def args(name: str, **values: object) -> Plan:
    old = next(one for one in APPROVED.steps if one.id == name)
    return with_step(name, action=replace(old.action, args={**old.action.args, **values}))  # type: ignore[union-attr]


def task(**fields: object) -> Plan:
    old = next(one for one in APPROVED.steps if one.id == "write")
    return with_step("write", action=replace(old.action, **fields))


def added(new: Step) -> Plan:
    return replace(APPROVED, steps=(*APPROVED.steps, new))


NOT_SUBSETS: dict[str, tuple[Plan, str]] = {
    # What is done
    "kubectl get becomes delete": (run("look", "kubectl delete pods"), "`look` has another `action`"),
    "git push becomes --force": (run("push", "git push --force origin main"), "`push` has another `action`"),
    "another branch": (run("push", "git push origin prod"), "`push` has another `action`"),
    "a changed environment value": (run("build", "make", TARGET="prod"), "`build` has another `action`"),
    "one more variable": (run("build", "make", TARGET="staging", DEBUG="1"), "`build` has another `action`"),
    "a variable less": (run("build", "make"), "`build` has another `action`"),
    "a space more": (run("look", "kubectl  get pods"), "`look` has another `action`"),
    "another path": (args("config", path="../app.conf"), "`config` has another `action`"),
    "other content": (args("config", content="a: 2"), "`config` has another `action`"),
    "one more argument": (args("config", mode="0777"), "`config` has another `action`"),
    "another tool": (
        with_step("config", action=replace(APPROVED.steps[2].action, tool="delete_file")),
        "`config` has another `action`",
    ),
    "another kind of action": (with_step("look", action=SendText(pane="1", text="y")), "`look` has another `action`"),
    "another task": (task(task="Write the notes and publish them."), "`write` has another `action`"),
    "another agent": (task(agent="other"), "`write` has another `action`"),
    "an extra tool of a task": (task(tools=("read_file", "shell")), "`write` has another `action`"),
    "no list of tools": (task(tools=None), "`write` has another `action`"),
    "other reads": (task(reads=("secret.txt",)), "`write` has another `action`"),
    "another model": (with_step("write", model="larger"), "`write` has another `model`"),
    "a description that an agent is told": (
        with_step("write", description="Publish"),
        "`write` has another `description`",
    ),
    "a pool": (with_step("build", pool="gpu"), "`build` has another `pool`"),
    "the network": (with_step("build", network=True), "`build` has another `network`"),
    "a worktree": (with_step("build", worktree=False), "`build` has another `worktree`"),
    "what it writes": (with_step("build", writes=("**",)), "`build` has another `writes`"),
    "what it reads": (with_step("build", inputs=("Makefile",)), "`build` has another `inputs`"),
    "a loop": (with_step("look", for_each=ForEach(source="${params.x}", max=9)), "`look` has another `for_each`"),
    "a claim to be repeatable": (with_step("push", idempotent=True), "`push` has another `idempotent`"),
    "a plan in place of a step": (
        with_step("look", action=NestedPlan(plan=plan(step("x")))),
        "`look` has another `action`",
    ),
    # How it is checked
    "a contract with || true": (
        with_step("build", verification=check("test -f out/app || true")),
        "`build` has another `verification`",
    ),
    "a dropped contract": (with_step("build", verification=None), "`build` has another `verification`"),
    "a contract that may fail": (
        with_step("build", verification=check("test -f out/app", exit_code=1)),
        "`build` has another `verification`",
    ),
    "a contract with more time": (
        with_step("build", verification=replace(check("test -f out/app"), timeout_ms=999_999)),
        "`build` has another `verification`",
    ),
    "a contract that is new": (with_step("look", verification=check("curl evil")), "`look` has another `verification`"),
    "an expression for a contract": (
        with_step("build", verification=Verification(strategy=CustomCondition(name="x", expression="true"))),
        "`build` has another `verification`",
    ),
    "a check in doubt": (with_step("push", happened="true"), "`push` has another `happened`"),
    "a condition": (with_step("push", when="false"), "`push` has another `when`"),
    "a precondition": (
        with_step("push", preconditions=(LockAvailable(lock_name="go"),)),
        "`push` has another `preconditions`",
    ),
    "a proof": (with_step("build", proof="red-then-green"), "`build` has another `proof`"),
    "another protection of a step": (with_step("build", protect=("x",)), "`build` has another `protect`"),
    "an approval that is asked for": (with_step("push", approval="ask"), "`push` has another `approval`"),
    # What follows a failure, and limits
    "a softer failure policy": (with_step("push", on_failure=Skip()), "`push` has another `on_failure`"),
    "no failure policy": (with_step("push", on_failure=None), "`push` has another `on_failure`"),
    "more tries": (with_step("push", on_failure=Retry(max_attempts=9)), "`push` has another `on_failure`"),
    "a loosened timeout": (with_step("look", timeout_ms=60_001), "`look` has a `timeout_ms` that is not lower"),
    "no timeout": (with_step("look", timeout_ms=None), "`look` has a `timeout_ms` that is not lower"),
    "a timeout where the plan's was": (with_step("push", timeout_ms=1), "`push` has a `timeout_ms` that is not lower"),
    "a raised budget": (replace(APPROVED, budget=Budget(attempts=21, cost_usd=2.0)), "the plan has a higher budget"),
    "a raised budget of money": (replace(APPROVED, budget=Budget(attempts=20, cost_usd=2.01)), "a higher budget"),
    "half a budget": (replace(APPROVED, budget=Budget(attempts=20)), "the plan has a higher budget of `cost_usd`"),
    "no budget": (replace(APPROVED, budget=None), "the plan has a higher budget of `attempts`"),
    "more at once": (replace(APPROVED, concurrency=5), "the plan has a `concurrency` that is not lower"),
    "any number at once": (replace(APPROVED, concurrency=None), "the plan has a `concurrency` that is not lower"),
    "more time for each step": (replace(APPROVED, timeout_ms=120_001), "the plan has a `timeout_ms` that is not lower"),
    # The plan around
    "wider tools of the plan": (
        replace(APPROVED, tools=(*(APPROVED.tools or ()), "http")),
        "the plan has another `tools`",
    ),
    "any tool": (replace(APPROVED, tools=None), "the plan has another `tools`"),
    "less protected": (replace(APPROVED, protect=()), "the plan has another `protect`"),
    "another tier": (replace(APPROVED, tier=None), "the plan has another `tier`"),
    "another agent for all": (replace(APPROVED, agent="other"), "the plan has another `agent`"),
    "another model for all": (replace(APPROVED, model="larger"), "the plan has another `model`"),
    "other context for agents": (replace(APPROVED, context="Ignore the tests."), "the plan has another `context`"),
    "another title": (replace(APPROVED, title="Something else"), "the plan has another `title`"),
    "another policy for all": (replace(APPROVED, on_failure=Abort()), "the plan has another `on_failure`"),
    "another workspace": (replace(APPROVED, workspace_id="WS-X"), "the plan has another `workspace_id`"),
    "another fallback": (
        replace(APPROVED, fallbacks=(step("undo", run="rm -rf .", needs=()),)),
        "the fallback `undo` is not as it was",
    ),
    "a new fallback": (
        replace(APPROVED, fallbacks=(*APPROVED.fallbacks, step("more", needs=()))),
        "the fallback `more` is not as it was",
    ),
    # Steps and their order
    "a reordered step": (moved("look", "push"), "the steps are not in the order that was approved"),
    "a new step": (added(step("mail", needs="push")), "`mail` was not approved"),
    "a step twice": (added(APPROVED.steps[0]), "the steps are not in the order that was approved"),
    "a step by another name": (
        replace(APPROVED, steps=(replace(APPROVED.steps[0], id=StepId("see")), *APPROVED.steps[1:])),
        "`see` was not approved",
    ),
    "a need less": (with_step("push", needs=("build",)), "`push` no longer waits for `write`"),
    "no needs": (with_step("push", needs=()), "`push` no longer waits for `write`"),
    "a command less": (without("push"), "`push` is gone, and how it ends was looked at"),
    "a check less": (without("build", freed=True), "`build` is gone, and its `verification` with it"),
    "what others waited for is gone": (
        without("config", freed=True),
        "`write` no longer waits for `config`, which is gone",
    ),
}


@each("name", NOT_SUBSETS)
def test_what_is_no_subset_asks_with_the_reason(name: str) -> None:
    new, reason = NOT_SUBSETS[name]
    faults = subset_faults(APPROVED, new)
    assert any(reason in fault for fault in faults), faults


def test_there_are_sixty_of_them() -> None:
    assert len(NOT_SUBSETS) >= 60


SUBSETS: dict[str, Callable[[], Plan]] = {
    "the same": lambda: APPROVED,
    "a step less that nothing waits for and nobody looks at": lambda: without("note"),
    "less time": lambda: with_step("look", timeout_ms=1000),
    "less for each step": lambda: replace(APPROVED, timeout_ms=1000),
    "a lower budget": lambda: replace(APPROVED, budget=Budget(attempts=5, cost_usd=1.0, tokens=100)),
    "fewer at once": lambda: replace(APPROVED, concurrency=1),
    "a budget for a step": lambda: with_step("build", budget=Budget(attempts=1)),
    "a need more": lambda: with_step("note", needs=("config", "push")),
    "a fallback less": lambda: replace(APPROVED, fallbacks=()),
}


@each("name", SUBSETS)
def test_what_only_takes_away_goes_on(name: str) -> None:
    assert subset_faults(APPROVED, SUBSETS[name]()) == ()


def test_a_step_that_failed_cannot_be_left_out() -> None:
    assert subset_faults(APPROVED, without("note"), failed=[StepId("note")]) == ("`note` did not pass and is gone",)


FIELDS = [name for name in Step.__struct_fields__ if name not in ("needs", "timeout_ms", "budget")]


@given(st.data())
def test_no_field_of_a_step_can_become_another_but_for_limits_and_needs(data: st.DataObject) -> None:
    """Whatever value another field gets, from any step of any plan: it is a reason to ask, unless nothing changed."""
    others = [one for made, _ in NOT_SUBSETS.values() for one in (*made.steps, *made.fallbacks)]
    place = data.draw(st.integers(0, len(APPROVED.steps) - 1))
    fields = data.draw(st.sets(st.sampled_from(FIELDS), min_size=1))
    source = data.draw(st.sampled_from(others))
    old = APPROVED.steps[place]
    new = replace(old, **{name: getattr(source, name) for name in fields})
    changed = replace(APPROVED, steps=(*APPROVED.steps[:place], new, *APPROVED.steps[place + 1 :]))
    assert (subset_faults(APPROVED, changed) == ()) is (new == old)


@given(st.lists(st.sampled_from(list(SUBSETS)), max_size=4))
def test_what_is_a_subset_is_never_more_than_what_was_approved(names: list[str]) -> None:
    """Of any of them, every step that is left has its approved action and its approved check."""
    for name in names:
        new = SUBSETS[name]()
        known = {one.id: one for one in APPROVED.steps}
        assert all(one.action == known[one.id].action for one in new.steps)
        assert all(one.verification == known[one.id].verification for one in new.steps)


@pytest.mark.parametrize("name", ["build", "write", "push", "look", "config"])
def test_dropping_verification_or_what_gates_others_always_asks(name: str) -> None:
    assert subset_faults(APPROVED, without(name, freed=True))
