"""A run that others stop, take over, watch and do again, in memory."""

import asyncio
from typing import Any

import pytest

from tests.build import plan as build_plan
from tests.build import step
from tests.rows import each
from tests.scenario import KIM, ROBOT, Scenario
from tests.words import (
    AttemptStarted,
    ExecutorStarted,
    Finished,
    Holder,
    Records,
    Refused,
    RunCancelled,
    RunPaused,
    StepKept,
    StopAsked,
)

MINUTE = 60_000


def busy(life: Scenario, name: str, meanwhile: Any) -> None:
    """While `do NAME` is at work, somebody else does `meanwhile`; it ends when that has been done."""

    async def at_work(command: Any) -> Finished:
        run_id = life.run_id()
        assert run_id is not None
        life.lock.others[run_id] = Holder(name=run_id, pid=7)  # to everybody else we are another process
        await meanwhile(run_id)
        for _ in range(50):
            await asyncio.sleep(0)
        life.world.effects.append(name)
        return Finished(duration_ms=5, exit_code=0)

    life.shell.script[f"do {name}"] = at_work


def events(life: Scenario) -> list[str]:
    return [type(event).__name__ for _, event in life.history()]


def code(refused: Any) -> str:
    return str(refused.value.problems[0].code)


# --- Pausing ---------------------------------------------------------------------------------------------------------


def test_what_is_under_way_ends_and_is_judged_before_the_run_is_paused():
    life = Scenario(step("a", contract="check a"), step("b")).approve()
    seen: list[str] = []

    async def pause(run_id):
        seen.append((await life.app.runs.pause(run_id, ROBOT, "hold on")).status)

    busy(life, "a", pause)
    life.run()
    life.lock.others.clear()
    assert seen == ["pausing"]
    assert (life.app.runs.run(str(life.run_id())).status, life.world.effects) == ("paused", ["a"])
    assert life.expect(a="passed", b="pending").history()[-1][1] == RunPaused(by=ROBOT, reason="hold on")
    report = life.app.runs.run(str(life.run_id()))
    assert report.reason == "hold on" and "paused by robot" in (report.steps[1].waiting or "needs")
    assert life.resume().status() == "completed"
    assert life.world.effects == ["a", "b"]


def test_a_run_that_nobody_carries_out_is_paused_at_once_and_twice_is_once():
    life = Scenario(step("a"), step("b")).approve().crash_at(6).run()
    for _ in range(2):
        report = asyncio.run(life.app.runs.pause(None, KIM, ""))
        assert report.status == "paused"
    assert events(life).count("RunPaused") == 1
    assert life.shell.swept[-1].endswith(f"/{life.run_id()}/"), "what the dead executor left is ended first"


def test_a_pause_that_was_asked_of_an_executor_that_died_does_not_stop_the_next():
    life = Scenario(step("a"), step("b")).approve()

    async def pause(run_id):
        await life.app.runs.pause(run_id, KIM)
        life.world.dead = True  # before it can heed it

    busy(life, "a", pause)
    life.run()
    assert life.crashed
    life.lock.others.clear()
    life.script(a=0).resume().answer("a", "happened")
    assert life.resume().status() == "completed"


# --- Cancelling ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("status", ["cancelled", "failed"])
def test_an_executor_is_asked_to_end_its_run_and_does(status):
    life = Scenario(step("a"), step("b"), step("c", needs=())).approve()

    async def cancel(run_id):
        await life.ask_to_stop(run_id, status, ROBOT, "enough")
        await asyncio.sleep(3600)  # and goes on, unless it is ended

    busy(life, "a", cancel)
    life.run()
    assert life.status() == status
    assert life.report is not None and life.report.reason == "enough"
    assert life.history()[-1][1] == RunCancelled(by=ROBOT, reason="enough", status=status)
    assert life.expect(a="cancelled", b="cancelled", c="passed").world.effects == ["c"]
    assert life.app.plans.review(str(life.plan_id)).status == status


def test_a_run_whose_last_step_passes_while_it_is_being_cancelled_is_completed():
    life = Scenario(step("a"), step("b")).approve()

    async def at_work(command: Any) -> Finished:
        run_id = life.run_id()
        assert run_id is not None
        life.lock.others[run_id] = Holder(name=run_id, pid=7)
        await life.ask_to_stop(run_id, "cancelled", ROBOT, "enough")
        return Finished(duration_ms=5, exit_code=0)  # at once, before anybody has heard of that

    life.shell.script["do b"] = at_work
    life.run().expect(a="passed", b="passed")
    assert life.status() == "completed", "never: cancelled, with all of its steps passed"


def test_a_cancellation_that_an_executor_did_not_live_to_heed_is_heeded_by_the_next():
    life = Scenario(step("a"), step("b")).approve()

    async def cancel(run_id):
        await life.ask_to_stop(run_id, "cancelled")
        life.world.dead = True

    busy(life, "a", cancel)
    life.run()
    assert life.crashed
    life.lock.others.clear()
    assert life.resume().status() == "cancelled"
    assert "b" not in life.world.effects, "nothing more was begun"


def test_a_later_pause_does_not_undo_a_cancellation():
    life = Scenario(step("a"), step("b")).approve().crash_at(6).run()
    for to in ("failed", "paused"):
        asyncio.run(life.ask_to_stop(life.run_id(), to, reason=to))
    life.resume()
    assert (life.status(), life.report is not None and life.report.reason) == ("failed", "failed")


def test_nobody_is_killed_who_was_only_asked(monkeypatch):
    monkeypatch.setattr("ordain.app.run_end.ANSWERING_S", 0)
    life = Scenario(step("a"), step("b")).approve().crash_at(6).run()
    run_id = str(life.run_id())
    life.lock.others[run_id] = Holder(name=run_id, pid=7)
    with pytest.raises(Refused) as refused:
        asyncio.run(life.app.runs.cancel_run(run_id, KIM))
    problem = refused.value.problems[0]
    assert (problem.code, problem.command, life.lock.ended) == ("E_RUN_BUSY", f"ordain cancel {run_id} --take-over", [])
    report = asyncio.run(life.app.runs.cancel_run(run_id, KIM, take_over=True))
    assert (report.status, life.lock.ended) == ("cancelled", [run_id])


# --- Taking over -----------------------------------------------------------------------------------------------------


def frozen(silent_ms: int = 0) -> Scenario:
    life = Scenario(step("a"), step("b")).approve().crash_at(6).run()
    assert life.crashed
    run_id = str(life.run_id())
    life.lock.others[run_id] = Holder(name=run_id, pid=7, silent_ms=silent_ms)
    return life


def test_a_run_that_somebody_carries_out_is_not_taken_over_unasked():
    life = frozen(29 * MINUTE)
    with pytest.raises(Refused) as refused:
        life.resume()
    assert (code(refused), life.lock.ended) == ("E_RUN_BUSY", [])
    assert life.app.runs.run(str(life.run_id())).status == "executing"


def test_one_that_gave_no_sign_of_life_is_stalled_and_taken_over():
    life = frozen(31 * MINUTE)
    run_id = str(life.run_id())
    assert life.app.runs.run(run_id).status == "stalled"
    (item,) = life.app.plans.inbox()
    assert (item.kind, item.commands) == ("stalled", (f"ordain resume {run_id}",))
    assert f"ordain cancel {run_id} --failed" in item.detail
    life.resume()
    assert life.lock.ended == [run_id]


def test_one_is_taken_over_when_a_person_says_so():
    life = frozen()
    asyncio.run(life.app.runs.resume(None, take_over=True))
    assert life.lock.ended == [str(life.run_id())]
    assert events(life).count("ExecutorStarted") == 2


def test_a_stopped_run_that_nobody_resumes_is_stalled_after_a_while():
    life = Scenario(step("a"), step("b")).approve().crash_at(6).run()
    run_id = str(life.run_id())
    assert life.app.runs.run(run_id).status == "stopped"
    assert [item.kind for item in life.app.plans.inbox()] == ["stopped"]
    life.clock.advance(30 * MINUTE + 1)
    assert (life.app.runs.run(run_id).status, [item.kind for item in life.app.plans.inbox()]) == (
        "stalled",
        ["stalled"],
    )
    report = asyncio.run(life.app.runs.cancel_run(run_id, KIM, "nobody cares", status="failed"))
    assert (report.status, life.app.plans.inbox()) == ("failed", ())


def test_neither_a_paused_run_nor_one_that_waits_for_a_person_is_stalled():
    life = Scenario(step("a"), step("b")).approve().crash_at(6).run()
    asyncio.run(life.app.runs.pause(None, KIM))
    life.clock.advance(30 * MINUTE + 1)
    assert life.app.runs.run(str(life.run_id())).status == "paused"


def test_an_executor_that_was_only_frozen_can_record_nothing_any_more():
    """The one that takes over raises the epoch; the other one is told E_FENCED at its next append."""
    life = Scenario(step("a"), step("b")).approve()

    async def meanwhile(run_id):
        life.lock.lose_sight()
        await life.new_app().runs.resume(run_id)  # somebody else, who has lost sight of us

    busy(life, "a", meanwhile)
    with pytest.raises(Refused) as refused:
        life.run()
    assert code(refused) == "E_FENCED" and "b" not in life.world.effects
    life.expect(a="in_doubt", b="pending")


# --- Waiting for a place ---------------------------------------------------------------------------------------------


def test_a_run_waits_for_its_place_and_says_so():
    life = Scenario(step("a")).approve()
    life.lock.others["RUN-OTHER"] = Holder(name="RUN-OTHER", pid=7)
    told: list[str] = []

    def waiting(words: str) -> None:
        told.append(words)

    async def commit():
        work = asyncio.create_task(life.app.runs.commit(str(life.plan_id), KIM, waiting=waiting))
        before = life.clock.now()
        while life.clock.now() < before + 10_000:
            await asyncio.sleep(0)
        assert not work.done() and life.run_id() is None, "an approval is spent when the run can begin"
        life.lock.others.clear()
        return await work

    assert asyncio.run(commit()).status == "completed"
    assert len(told) == 1 and "RUN-OTHER" in told[0]


def test_as_many_runs_as_are_allowed_are_at_work_at_once():
    life = Scenario(step("a"))
    life.workspace.configuration_text = b"[run]\nwriters = 2\n"
    _, digest = life.app.approvals.configuration()
    asyncio.run(life.app.approvals.trust(digest, KIM))
    life.approve()
    life.lock.others["RUN-OTHER"] = Holder(name="RUN-OTHER", pid=7)
    assert life.run().status() == "completed"
    assert life.shell.swept == [f"WS-0001/{life.run_id()}/"], "and nobody ends another's commands"


def test_what_a_dead_executor_of_another_run_left_is_ended_first_and_what_a_living_one_has_is_not():
    life = Scenario(step("a"), step("b")).approve().crash_at(6).run()
    dead = str(life.run_id())
    life.plan, life.plan_id = build_plan(step("c"), title="Another"), None
    life.approve().run()
    assert f"WS-0001/{dead}/" in life.shell.swept
    life.shell.swept.clear()
    life.lock.others[dead] = Holder(name=dead, pid=7)
    life.workspace.configuration_text = b"[run]\nwriters = 2\n"
    asyncio.run(life.app.approvals.trust(life.app.approvals.configuration()[1], KIM))
    life.approve().run()
    assert f"WS-0001/{dead}/" not in life.shell.swept


def test_a_pause_while_a_resume_waits_for_its_place_counts():
    life = Scenario(step("a"), step("b")).approve().crash_at(6).run()
    life.lock.others["RUN-OTHER"] = Holder(name="RUN-OTHER", pid=7)

    async def resume():
        work = asyncio.create_task(life.app.runs.resume(None, waiting=lambda words: None))
        before = life.clock.now()
        while life.clock.now() < before + 1_000:
            await asyncio.sleep(0)
        await life.new_app().runs.pause(None, ROBOT)
        life.lock.others.clear()
        return await work

    assert asyncio.run(resume()).status == "paused"
    assert events(life)[-1] == "RunPaused"


# --- Watching --------------------------------------------------------------------------------------------------------


def test_a_run_is_watched_to_its_end_by_somebody_else():
    life = Scenario(step("a"), step("b")).approve()
    seen: list[str] = []
    watching: list[asyncio.Task[Any]] = []

    async def watch(run_id):
        observer = life.new_app().runs.watch(run_id, lambda recorded: seen.append(type(recorded.event).__name__))
        watching.append(asyncio.create_task(observer))
        await asyncio.sleep(0)

    busy(life, "a", watch)

    async def both():
        await life.app.runs.commit(str(life.plan_id), KIM)
        return await watching[0]

    report = asyncio.run(both())
    assert (report.status, seen) == ("completed", events(life))


def test_watching_a_run_that_nobody_carries_out_ends_at_once():
    life = Scenario(step("a"), step("b")).approve().crash_at(6).run()
    assert asyncio.run(life.app.runs.watch(None)).status == "stopped"


# --- Running again ---------------------------------------------------------------------------------------------------


def again(life: Scenario, again_from: str | None = None) -> Scenario:
    asyncio.run(life.app.approvals.approve(str(life.plan_id), KIM))
    return life.execute(lambda: life.app.runs.rerun(str(life.plan_id), KIM, again_from=again_from))


def graph() -> Scenario:
    """a → b → c, and d by itself; a and c have contracts, b and d have none."""
    return Scenario(
        step("a", contract="check a"),
        step("b"),
        step("c", contract="check c"),
        step("d", needs=(), contract="check d"),
    ).approve()


def begun(life: Scenario) -> list[str]:
    return [event.step for _, event in life.history() if isinstance(event, AttemptStarted)]


def kept(life: Scenario) -> list[str]:
    return sorted(event.step for _, event in life.history() if isinstance(event, StepKept))


def test_what_passed_and_still_holds_is_kept_and_what_follows_from_the_rest_is_run_again():
    life = graph().run()
    first = life.run_id()
    again(life)
    assert (life.status(), kept(life), begun(life)) == ("completed", ["a", "d"], ["b", "c"])
    assert life.report is not None and life.report.rerun_of == first
    assert "kept from the earlier run: contract held" in life.report.steps[0].evidence


def test_what_holds_no_longer_is_run_again():
    life = graph().run()
    life.world.effects.remove("a")
    again(life)
    assert (life.status(), kept(life), begun(life)) == ("completed", ["d"], ["a", "b", "c"])
    assert "StepNotKept" in events(life)


def test_from_a_step_on_everything_is_run_again_and_what_passed_before_is_kept():
    life = graph().run()
    again(life, "c")
    assert (life.status(), kept(life), begun(life)) == ("completed", ["a", "b", "d"], ["c"])
    assert life.report is not None
    assert life.report.steps[1].evidence == "kept from the earlier run, where it passed; not checked again"


def test_a_run_that_failed_goes_on_from_where_it_failed_and_keys_stay_the_same():
    life = graph().script(c=1).run()
    assert life.status() == "failed"
    keys = {event.step: event.key for _, event in life.history() if isinstance(event, AttemptStarted)}
    life.shell.script.clear()
    again(life, "c")
    assert (life.status(), begun(life)) == ("completed", ["c"])
    assert [event.key for _, event in life.history() if isinstance(event, AttemptStarted)] == [keys["c"]]
    again(life, "c")  # and through a chain of them
    assert [event.key for _, event in life.history() if isinstance(event, AttemptStarted)] == [keys["c"]]


def test_a_rerun_wants_an_approval_of_its_own():
    life = graph().run()
    with pytest.raises(Refused) as refused:
        asyncio.run(life.app.runs.rerun(str(life.run_id()), KIM))
    assert code(refused) == "E_APPROVAL_SPENT"


def test_only_the_newest_run_is_done_again_and_only_a_person_skips_what_nobody_can_look_at():
    life = graph().run()
    old = life.run_id()
    again(life)
    life.approve()
    with pytest.raises(Refused) as refused:
        asyncio.run(life.app.runs.rerun(str(old), KIM, again_from="c"))
    assert code(refused) == "E_RUN_OLD"
    life.execute(lambda: life.app.runs.rerun(str(life.plan_id), ROBOT, again_from="c"))
    assert (kept(life), begun(life)) == (["a", "d"], ["b", "c"])


@pytest.mark.parametrize("where", ["plan", "step"])
def test_where_files_are_protected_everything_is_run_again(where):
    protect = {"protect": ("tests/**",)}
    life = (
        Scenario(
            step("a", contract="check a", **(protect if where == "step" else {})),
            **(protect if where == "plan" else {}),
        )
        .approve()
        .run()
    )
    again(life)
    assert (kept(life), begun(life)) == ([], ["a"])


def test_a_rerun_of_what_has_not_ended_or_of_a_step_that_is_not_there_is_refused():
    life = Scenario(step("a"), step("b")).approve().crash_at(6).run()
    for ref, again_from, wanted in ((life.run_id(), None, "E_RUN_OPEN"),):
        with pytest.raises(Refused) as refused:
            asyncio.run(life.app.runs.rerun(str(ref), KIM, again_from=again_from))
        assert code(refused) == wanted
    life = graph().run()
    with pytest.raises(Refused) as refused:
        asyncio.run(life.app.runs.rerun(str(life.plan_id), KIM, again_from="bb"))
    assert code(refused) == "E_RUN_STEP"
    life = Scenario(step("a")).approve()
    with pytest.raises(Refused) as refused:
        asyncio.run(life.app.runs.rerun(str(life.plan_id), KIM))
    assert code(refused) == "E_RUN_NOT_FOUND"


@each("boundary", range(1, 30))
def test_a_rerun_survives_a_crash_at_every_boundary(boundary):
    life = graph().run()
    asyncio.run(life.app.approvals.approve(str(life.plan_id), KIM))
    former = life.run_id()
    life.crash_at(boundary)
    life.execute(lambda: life.app.runs.rerun(str(former), KIM))
    if life.run_id() == former:
        life.execute(lambda: life.app.runs.rerun(str(former), KIM))
    while (report := life.app.runs.run(str(life.run_id()))).status != "completed":
        for question in report.questions:
            life.answer(question.step, "happened" if life.world.effects.count(question.step) > 1 else "did-not")
        life.resume()
    assert life.world.effects.count("a") == life.world.effects.count("d") == 1
    assert life.world.effects.count("b") == 2
    assert kept(life) == ["a", "d"]


def test_only_what_the_beginning_names_can_be_kept():
    from tests.words import IllegalTransition, RunState, apply

    life = graph().run()
    again(life)
    opened = life.history()[0]
    state = RunState(life.plan)
    apply(state, opened[1], opened[0])
    apply(state, ExecutorStarted(epoch=1, pid=1, boot_id="boot"), opened[0])
    for name in ("b", "c"):  # never a candidate; and one whose need is not there yet
        with pytest.raises(IllegalTransition):
            apply(state, StepKept(step=life.plan.steps["abcd".index(name)].id), opened[0])
    with pytest.raises(IllegalTransition):  # one with a contract, on nobody's evidence
        apply(state, StepKept(step=life.plan.steps[0].id), opened[0])


def test_nothing_can_be_asked_of_a_run_that_has_ended():
    life = Scenario(step("a")).approve().run()
    state, _, _ = Records(life.ledger).run(life.run_id())  # type: ignore[arg-type]
    with pytest.raises(Refused) as refused:
        asyncio.run(life.ask_to_stop(state.run_id, "paused"))
    assert code(refused) == "E_RUN_ENDED"
    assert not any(isinstance(one.event, StopAsked) for one in life.ledger.read(state.lineage))
