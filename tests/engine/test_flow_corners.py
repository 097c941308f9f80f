"""The corners of the flow: groups that end early, begin anew, fall back, are in doubt, or wait for others.

What is said of a single feature is in `test_flow`; here is what happens where two of them meet.
"""

from __future__ import annotations

import asyncio
from typing import Any
from unittest.mock import patch

import pytest
from msgspec.structs import replace

from tests.build import plan, step
from tests.scenario import KIM, Scenario
from tests.words import (
    Abort,
    AcquireLock,
    Append,
    AttemptStarted,
    Command,
    Continue,
    CustomCondition,
    Escalate,
    Fallback,
    FilesProtected,
    Finished,
    ForEach,
    GroupKind,
    Instant,
    Kind,
    LockHeld,
    LockTaken,
    Missing,
    NestedPlan,
    Outcome,
    Parameter,
    Refused,
    Retry,
    RunCommand,
    RunId,
    Skip,
    Step,
    StepId,
    StepUnfolded,
    StoreData,
    Verification,
    decoded,
)


def gives(text: str, exit_code: int = 0) -> Finished:
    return Finished(duration_ms=1, exit_code=exit_code, output=text.encode(), output_bytes=len(text.encode()))


def nested(name: str, *steps: Step, needs: tuple[str, ...] = (), own: Any = None, **fields: Any) -> Step:
    return step(name, action=NestedPlan(plan=plan(*steps, **fields)), needs=needs, on_failure=own)


def repeats(name: str, source: str = "${list.output}", needs: tuple[str, ...] = (), **fields: Any) -> Step:
    each = ForEach(source=source, max=10, concurrency=fields.pop("concurrency", None))
    made = step(name, action=RunCommand(command=f"do {name}", env={"X": "${item}"}), needs=needs)
    return replace(made, for_each=each, **fields)


def on(*names: str) -> Fallback:
    return Fallback(steps=tuple(StepId(name) for name in names))


def one_by_one(*codes: int) -> Any:
    """A command that ends with these, one after the other."""
    left = iter(codes)

    async def ends(command: Command) -> Finished:
        return gives("", next(left))

    return ends


def begun(life: Scenario) -> list[str]:
    return [event.step for _, event in life.history() if isinstance(event, AttemptStarted)]


NEVER = replace(step("x"), preconditions=(LockHeld(lock_name="never"),)).preconditions


# --- What ends early ---------------------------------------------------------------------------------------------


def test_a_nested_plan_that_failed_falls_back_as_any_other_step():
    life = Scenario(
        step("a", action=nested("n", step("bad")).action, contract="check undo", on_failure=on("undo")),
        fallbacks=(step("undo", needs=()),),
    )
    life.script(bad=1).approve().run()
    life.expect(**{"a/bad": "failed", "a+undo": "passed", "a": "passed"})
    assert life.world.effects == ["undo"]


def test_what_must_hold_before_a_step_does_not_and_nothing_more_begins():
    """In one turn two steps come to begin; the first ends the run."""
    first = replace(step("a", needs=(), on_failure=Abort()), preconditions=NEVER)
    life = Scenario(first, step("b", needs=()), concurrency=4).approve().run()
    life.expect(a="failed", b="cancelled")
    assert life.status() == "failed" and not begun(life)


def test_what_must_hold_before_a_step_of_a_nested_plan_does_not_and_that_plan_ends():
    first = replace(step("a", needs=(), on_failure=Abort()), preconditions=NEVER)
    life = Scenario(nested("n", first, step("b", needs=()), own=Continue()), step("c", needs=()), concurrency=4)
    life.approve().run().expect(**{"n/a": "failed", "n/b": "cancelled", "n": "failed", "c": "passed"})
    assert life.world.effects == ["c"]


@pytest.mark.part(of=4)
@pytest.mark.parametrize("claims", [True, False])
@pytest.mark.parametrize("own", [Continue(), Abort()])
def test_a_step_in_doubt_whose_plan_was_ended_is_not_begun_again(claims: bool, own: Any):
    """A crash while a nested plan is being ended, or the whole run: what was under way in it is done with."""

    async def hangs(command: Command) -> Finished:
        await asyncio.sleep(1000)
        raise AssertionError

    async def fails(command: Command) -> Finished:
        for _ in range(10):
            await asyncio.sleep(0)
        return gives("", 1)

    plan_in = nested("n", step("bad", needs=()), step("slow", needs=(), idempotent=claims), own=own, on_failure=Abort())
    for boundary in range(4, 20):
        life = Scenario(plan_in, step("beside", needs=()), concurrency=4).script(bad=fails, slow=hangs).approve()
        life.crash_at(boundary).run()
        if not life.crashed or life.states().get("n/bad") != "failed" or life.states()["n/slow"] != "running":
            continue
        before = begun(life).count("n/slow")
        life.script(slow=0).resume()
        if not claims and life.status() == "waiting":
            life.answer("n/slow", "did-not").resume()
        assert begun(life).count("n/slow") == before
        life.expect(**{"n/slow": "cancelled", "n": "failed"})
        assert life.status() == "failed"
        return
    raise AssertionError("it never stood so")


def test_a_step_that_waited_in_vain_falls_back_as_any_other():
    """For a lock that another run holds."""
    take = step(
        "take", action=AcquireLock(lock_name="db", timeout_ms=1000), on_failure=on("undo"), contract="check undo"
    )
    life = Scenario(take, fallbacks=(step("undo", needs=()),)).approve()
    stranger = LockTaken(lock="db", run_id=RunId("RUN-STRANGER"), step=StepId("s"))
    asyncio.run(life.ledger.append(life.clock.now(), Append(stream="lock/db", expected=0, events=(stranger,))))
    life.run().expect(**{"take+undo": "passed", "take": "passed"})


def test_an_item_of_a_fallback_that_fails_does_not_fall_back_itself():
    """The plan's own policy is what it is part of; else there would be no end."""
    life = Scenario(
        step("list", needs=()),
        step("a", needs=("list",), contract="check a"),
        fallbacks=(repeats("undo", "${list.output ?? []}"),),
        on_failure=on("undo"),
    )
    life.script(list=gives("[1]"), a=1, undo=1).approve().run()
    life.expect(**{"a+undo[0]": "failed", "a+undo": "failed", "a": "failed"})


def test_a_fallback_does_not_stand_in_for_the_proof_that_a_contract_can_be_broken():
    proving = step("a", contract="check undo", proof="red-then-green", on_failure=on("undo"))
    life = Scenario(replace(proving, preconditions=NEVER), fallbacks=(step("undo", needs=()),)).approve().run()
    life.expect(**{"a+undo": "passed", "a": "failed"})
    assert life.report is not None and "never seen broken" in life.report.steps[0].evidence


# --- What begins anew --------------------------------------------------------------------------------------------


def test_a_fallback_that_is_used_again_does_all_of_it_again():
    life = Scenario(
        step("a", contract="check never", on_failure=on("undo")),
        fallbacks=(nested("undo", step("clean")),),
        on_failure=Escalate(),
    )
    life.script(a=1).approve().run().expect(a="escalated", **{"a+undo/clean": "passed"})
    life.answer("a", "retry").resume().expect(a="escalated", **{"a+undo/clean": "passed"})
    assert life.world.effects.count("clean") == 2


def test_items_are_those_of_the_time_at_which_a_step_is_repeated():
    """A nested plan is tried again, and the data has changed meanwhile."""
    seen: list[str] = []
    life = Scenario(
        nested(
            "n",
            step("first", action=StoreData(key="k", value=["one"]), needs=()),
            repeats("each", "${data.k}", needs=("first",), on_failure=Continue()),
            step("slow", needs=("first",)),
            step("second", action=StoreData(key="k", value=["two", "three"]), needs=("slow",)),
            own=Retry(max_attempts=2, initial_delay_ms=10_000),
        ),
        concurrency=4,
    )

    async def each(command: Command) -> Finished:
        seen.append(command.env["X"])
        return gives("", int(len(seen) == 1))

    async def slow(command: Command) -> Finished:
        await life.clock.sleep_until(Instant(life.clock.now() + 5000))
        return gives("")

    life.script(each=each, slow=slow).approve().run().expect(n="passed")
    assert seen == ["one", "two", "three"]


def test_every_plan_has_stored_data_of_its_own():
    """Of two nested plans that go on side by side, of their items and fallbacks, and of the plan around them."""

    def store(name: str, value: str, *needs: str) -> Step:
        return step(name, action=StoreData(key="k", value=value), needs=needs)

    def reads(name: str, *needs: str) -> Step:
        return step(name, action=RunCommand(command=f"do {name}", env={"X": '${data.k ?? "nothing"}'}), needs=needs)

    def inner(name: str) -> Step:
        bad = step("bad", needs=("put",), on_failure=on("undo"), contract="check undo")
        each = replace(reads("each", "put"), for_each=ForEach(source="${list.output}", max=1))
        return nested(
            name,
            step("list", needs=()),
            store("put", name),
            each,
            bad,
            replace(reads("asked", "put"), when=f'data.k == "{name}"'),
            fallbacks=(reads("undo"),),
        )

    seen: dict[str, list[str]] = {}

    async def tell(command: Command) -> Finished:
        seen.setdefault(command.env["ORDAIN_STEP"], []).append(command.env["X"])
        life.world.effects.append("undo")
        return gives("")

    life = Scenario(
        store("put", "outer"),
        nested("n0", replace(store("put", "n0"), when="false"), reads("use", "put"), needs=("put",)),
        inner("n1"),
        inner("n2"),
        reads("after", "n1", "n2"),
        concurrency=8,
    )
    life.script(list=gives("i"), bad=1, each=tell, undo=tell, asked=tell, use=tell, after=tell)
    life.approve().run()
    assert life.status() == "completed"
    assert seen == {
        **{f"{name}/{one}": [name] for name in ("n1", "n2") for one in ("each[0]", "bad+undo", "asked")},
        "n0/use": ["nothing"],
        "after": ["outer"],
    }


# --- What a nested plan says of its steps ------------------------------------------------------------------------


def test_what_is_protected_around_a_nested_plan_is_protected_in_it():
    """By the nested plan, by the step that holds it, for its items and for its fallback steps."""
    life = Scenario(
        replace(
            nested(
                "n",
                step("list", needs=()),
                repeats("each"),
                step("bad", on_failure=on("undo"), contract="check undo", needs=()),
                nested("deep", step("in", needs=())),
                protect=("plan.txt",),
                fallbacks=(step("undo", needs=()),),
            ),
            protect=("step.txt",),
        )
    )
    life.workspace.documents |= {"plan.txt": b"p", "step.txt": b"s"}
    life.script(list=gives("[1]"), bad=1).approve().run().expect(n="passed")
    kept = {event.step: set(event.of_step) for _, event in life.history() if isinstance(event, FilesProtected)}
    both = {"plan.txt", "step.txt"}
    assert kept == dict.fromkeys(("n/list", "n/each[0]", "n/bad", "n/bad+undo", "n/deep/in"), both)


def test_a_nested_plan_has_the_time_that_it_says_for_items_and_fallback_steps_too():
    life = Scenario(
        nested(
            "n",
            step("list", needs=()),
            repeats("each"),
            step("bad", on_failure=on("undo"), contract="check undo", needs=()),
            timeout_ms=7000,
            fallbacks=(step("undo", needs=()),),
        )
    )
    life.script(list=gives("[1]"), bad=1).approve().run().expect(n="passed")
    assert {call.timeout_ms for call in life.shell.calls if call.text.startswith("do")} == {7000}


def test_a_yes_is_asked_before_a_nested_plan_begins():
    life = Scenario(replace(nested("n", step("a")), approval="ask")).approve().run()
    life.expect(n="escalated")
    assert life.status() == "waiting" and not life.world.effects


def test_a_nested_plan_asks_about_its_own_parameters():
    inner = plan(
        step("a"),
        params={"go": Parameter(type="boolean", default=True)},
        preconditions=(CustomCondition(name="go", expression="params.go == true"),),
    )
    life = Scenario(step("n", action=NestedPlan(plan=inner))).approve().run()
    life.expect(**{"n/a": "passed"})


# --- What is named and not there ---------------------------------------------------------------------------------


def test_what_a_fallback_gave_that_was_never_run_is_the_default():
    uses = step("b", action=RunCommand(command="do b", env={"X": '${undo.output ?? "none"}'}), needs=("a",))
    life = Scenario(step("a", on_failure=on("undo")), uses, fallbacks=(step("undo", needs=()),)).approve().run()
    life.expect(b="passed")
    assert [call.env["X"] for call in life.shell.calls if call.text == "do b"] == ["none"]


def test_a_condition_may_ask_about_a_fallback_that_was_never_run():
    asks = replace(step("b", needs=("a",)), when='steps["undo"].status == "passed"')
    life = Scenario(step("a", on_failure=on("undo")), asks, fallbacks=(step("undo", needs=()),)).approve().run()
    life.expect(b="skipped")


def test_a_fallback_waits_for_what_it_needs():
    """A fallback step needs a step of the plan: whoever may fall back on it waits for that."""
    life = Scenario(
        step("a", needs=(), on_failure=on("undo"), contract="check undo"),
        step("x", needs=()),
        fallbacks=(step("undo", needs=("x",)),),
        concurrency=1,
    )
    life.script(a=1).approve().run().expect(**{"a+undo": "passed", "a": "passed", "x": "passed"})


# --- Running again -----------------------------------------------------------------------------------------------


def rerun(life: Scenario, again_from: str | None = None) -> Scenario:
    life.approve()
    return life.execute(lambda: life.app.runs.rerun(str(life.run_id()), KIM, again_from=again_from))


def test_data_that_a_kept_step_stored_is_still_there():
    life = Scenario(
        step("a", action=StoreData(key="k", value=["v"]), needs=()),
        step("b", action=RunCommand(command="do b", env={"X": "${data.k[0]}"}), needs=("a",)),
    )
    rerun(life.approve().run(), "b").expect(a="passed", b="passed")
    assert [call.env["X"] for call in life.shell.calls if call.text == "do b"] == ["v", "v"]


def test_what_a_kept_step_gave_is_still_there():
    life = Scenario(
        step("a", needs=(), contract="check a"),
        step("b", action=RunCommand(command="do b", env={"X": "${a.output}"}), needs=("a",)),
    )

    async def a(command: Command) -> Finished:
        life.world.effects.append("a")
        return gives("given")

    rerun(life.script(a=a).approve().run()).expect(a="passed", b="passed")
    assert life.world.effects.count("a") == 1
    assert [call.env["X"] for call in life.shell.calls if call.text == "do b"] == ["given", "given"]


def test_what_comes_after_a_step_that_a_condition_leaves_out_this_time_is_run_again():
    """What it was made from has changed: its contract still holds, and yet it is another result that it would give."""
    gave = iter(["go", "stop"])

    async def first(command: Command) -> Finished:
        return gives(next(gave))

    life = Scenario(
        step("first", needs=()),
        replace(step("maybe", needs=("first",)), when='steps["first"].output == "go"'),
        step("last", needs=("maybe",), contract="check last"),
    )
    rerun(life.script(first=first).approve().run()).expect(maybe="skipped", last="passed")
    assert life.world.effects.count("last") == 2


def test_a_run_is_not_done_again_from_a_step_that_only_came_to_be():
    life = Scenario(step("list", needs=()), repeats("each")).script(list=gives("[1]")).approve().run()
    with pytest.raises(Refused) as refused:
        rerun(life, "each[0]")
    assert refused.value.problems[0].code == "E_RUN_STEP"


def test_an_item_has_the_key_of_what_is_done_for_it():
    """A tool that takes our key and has seen it does nothing: another item must not have the same one."""
    gave = iter(['["a"]', '["b"]'])

    async def lists(command: Command) -> Finished:
        return gives(next(gave))

    life = Scenario(step("list", needs=()), repeats("each")).script(list=lists).approve().run()
    keys = [event.key for _, event in life.history() if isinstance(event, AttemptStarted) and event.step == "each[0]"]
    rerun(life).expect(each="passed")
    keys += [event.key for _, event in life.history() if isinstance(event, AttemptStarted) and event.step == "each[0]"]
    assert len(set(keys)) == 2


def test_skipped_steps_in_a_nested_plan_that_is_tried_again_stay_skipped():
    life = Scenario(
        nested(
            "n",
            step("odd", on_failure=Skip()),
            step("bad"),
            own=Retry(max_attempts=2),
        )
    )
    life.script(odd=1, bad=one_by_one(1, 0)).approve().run().expect(**{"n/odd": "skipped", "n": "passed"})
    assert begun(life) == ["n/odd", "n/bad", "n/bad"]


# --- What a command writes is not ours to trust ------------------------------------------------------------------


@pytest.mark.parametrize(
    "output",
    ["NaN", "1e999", f"{10**30}", '"\\ud800"', "[" * 900 + "]" * 900, "[" * 100_000 + "]" * 100_000, '"\\u0000"'],
    ids=["no number", "infinite", "large", "half a character", "deep", "too deep to read", "nothing"],
)
def test_no_output_can_break_what_refers_to_it(output: str):
    """Whatever it is, the step that refers to it is done or fails; nothing breaks that carries it out."""
    uses = step("b", action=RunCommand(command="do b", env={"X": "${a.output.x}"}), needs=("a",), on_failure=Continue())
    asked = replace(step("c", action=uses.action, needs=("a",), on_failure=Continue()), approval="ask")
    each = repeats("each", "${a.output.list}", on_failure=Continue())
    life = Scenario(step("a", needs=()), uses, asked, each)
    life.script(a=gives(f'{{"x": {output}, "list": [{output}]}}')).approve().run()
    assert life.status() in ("completed", "failed", "waiting")
    assert {life.states()[name] for name in ("b", "each")} <= {"passed", "failed"}


@pytest.mark.slow
def test_fallback_steps_may_need_one_another_as_deep_as_a_plan_is_long():
    many = 2000
    fallbacks = tuple(step(f"f{one}", needs=(f"f{one + 1}",) if one + 1 < many else ()) for one in range(many))
    life = Scenario(step("a", on_failure=on("f0"), contract="check f0"), fallbacks=fallbacks)
    life.script(a=1).approve().run().expect(a="passed")
    assert life.world.effects == [f"f{one}" for one in reversed(range(many))]


@pytest.mark.parametrize("last", ["inner", "fallback"])
def test_repeats_inside_of_repeats_end_where_a_run_has_all_the_steps_it_can_have(
    last: str, monkeypatch: pytest.MonkeyPatch
):
    """No event makes more steps than anybody can hold, in a run or in a ledger that somebody looks at."""
    monkeypatch.setattr("ordain.core.run.run_state.STEPS_OF_RUN_MAX", 12 if last == "inner" else 5)
    inner = plan(step("list", needs=()), repeats("r", needs=("list",)))
    each = ForEach(source="${list.output}", max=10)
    outer = replace(step("o", action=NestedPlan(plan=inner), on_failure=Continue()), for_each=each)
    if last == "fallback":
        outer = step("o", on_failure=on("x"), contract="check x")
    life = Scenario(step("list"), outer, fallbacks=tuple(step(name, needs=()) for name in "xyzw"))
    life.script(list=gives('["a", "b", "c"]'), o=1).approve().run()
    assert life.status() == "failed" and len(life.states()) <= 12
    life.expect(o="failed")


def test_a_repeat_for_no_items_says_that_nothing_was_done():
    """Its contract was not run either: it is one of each item."""
    each = replace(repeats("each"), verification=step("x", contract="check each").verification)
    life = Scenario(step("list"), each).script(list=gives("\n")).approve().run()
    assert life.status() == "completed" and life.report is not None
    assert life.report.steps[1].evidence == "no items, nothing was done"
    assert [call.text for call in life.shell.calls] == ["do list"]


def test_what_items_ask_about_is_read_once():
    each = replace(repeats("each"), when='steps["facts"].output.contains(item)')
    life = Scenario(step("facts"), step("list"), each).script(facts=gives("a, c"), list=gives("a\nb\nc"))
    with patch("ordain.engine.result.decoded", wraps=decoded) as reading:
        life.approve().run().expect(**{"each[0]": "passed", "each[1]": "skipped", "each[2]": "passed"})
    assert [call.args[1] for call in reading.call_args_list].count(b"a, c") == 1


def test_what_a_step_gave_in_another_attempt_is_asked_about_anew():
    outputs = iter(["no", "yes"])

    async def tries(command: Command) -> Finished:
        return gives(next(outputs))

    good = Verification(strategy=CustomCondition(name="good", expression='output == "yes"'))
    life = Scenario(replace(step("a", on_failure=Retry(max_attempts=2)), verification=good)).script(a=tries)
    life.approve().run().expect(a="passed")


def test_a_value_that_is_nested_too_deep_to_be_read_is_not_there():
    deep = Outcome(duration_ms=1, output_json=True)
    with pytest.raises(Missing, match="too deep"):
        decoded(deep, b"[" * 100_000 + b"]" * 100_000, StoreData(key="k", value=1))


# --- What an audit says of it ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kept", "sealed", "found"),
    [
        (b'["a", "b"]', b'["a", "b"]', []),
        (b'["a"]', b'["a"]', ["`each` was repeated 2 times at event 8, for 1 items."]),
        (b'["a", "b", "c"]', b'["a", "b", "c"]', ["`each` was repeated 2 times at event 8, for 3 items."]),
        (b"{}", b"{}", ["The items that `each` was repeated for at event 8 are not what was kept then."]),
        (b"[]", b"of an export", []),
    ],
)
def test_a_repeat_for_more_or_fewer_items_than_there_were_is_found_while_the_run_is_open(
    kept: bytes, sealed: bytes, found: list[str]
):
    life = Scenario(step("list"), step("hold", on_failure=Escalate()), repeats("each", needs=("hold",)))
    life.script(list=gives("a\nb"), hold=1).approve().run().answer("hold", "skip")
    size = len(life.history())
    event = StepUnfolded(
        step=StepId("each"), attempt=1, kind=GroupKind.ITEMS, count=2, items_seal=life.ledger.seal(sealed)
    )
    forged = Append(stream=f"run/{life.run_id()}", expected=size, events=(event,), keeps=(kept,))
    asyncio.run(life.ledger.append(life.clock.now(), forged))
    findings = life.app.audits.verify().findings
    assert [one.sentence for one in findings] == found
    assert {(one.kind, one.seq) for one in findings} <= {(Kind.HISTORY, size + 1)}


def test_a_run_with_repeats_is_good_as_it_was_recorded():
    life = Scenario(step("list"), repeats("each")).script(list=gives("a\nb")).approve().run()
    assert life.status() == "completed" and life.app.audits.verify().good
