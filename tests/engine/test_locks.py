"""Runs that want the same named lock, in memory: of many one has it, whoever waits is in no doubt, and no end of a run
leaves a lock behind."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from ordain.app.audits import _end_what_is_open
from tests.build import plan, step
from tests.rows import each
from tests.scenario import KIM, Scenario
from tests.twins.ledger import MemoryLedger
from tests.words import (
    AcquireLock,
    App,
    AttemptEnded,
    AttemptStarted,
    AttemptWaiting,
    Command,
    DoubtFound,
    Escalate,
    Finished,
    Holder,
    LockReleased,
    LockTaken,
    Plan,
    Recorded,
    Records,
    ReleaseLock,
    Retry,
    RunId,
    RunPaused,
    RunReport,
    Step,
    StepKept,
)

MINUTE = 60_000


def take(name: str = "take", lock: str = "db", timeout_ms: int | None = None, **fields: Any) -> Step:
    return step(name, action=AcquireLock(lock_name=lock, timeout_ms=timeout_ms), **fields)


def give(name: str = "give", lock: str = "db", **fields: Any) -> Step:
    return step(name, action=ReleaseLock(lock_name=lock), **fields)


def several(life: Scenario) -> Scenario:
    """Let many runs be at work in this workspace at once."""
    life.workspace.configuration_text = b"[run]\nwriters = 9\n"
    _, digest = life.app.approvals.configuration()
    asyncio.run(life.app.approvals.trust(digest, KIM))
    return life


async def approved(life: Scenario, made: Plan) -> str:
    prepared = await life.app.plans.prepare_plan(made, KIM)
    await life.app.approvals.approve(prepared.review.plan_id, KIM)
    return str(prepared.review.plan_id)


def lock_events(life: Scenario, lock: str = "db") -> list[tuple[str, str]]:
    kinds = {LockTaken: "taken", LockReleased: "released"}
    return [(kinds[type(one.event)], one.event.run_id) for one in life.ledger.read(f"lock/{lock}")]  # type: ignore[index, union-attr]


def events(life: Scenario, run_id: str, kind: type) -> list[Any]:
    return [one.event for one in life.ledger.read(f"run/{run_id}") if isinstance(one.event, kind)]


def holder(life: Scenario, lock: str = "db") -> str | None:
    return Records(life.ledger).lock(lock).holder


def sound(life: Scenario) -> None:
    assert life.app.audits.verify().findings == ()


def held_by_another() -> tuple[Scenario, str]:
    """A life in which another run holds `db` and waits for a person."""
    life = several(Scenario(step("unused")))
    life.script(fails=1)

    async def another() -> RunReport:
        return await life.app.runs.commit(
            await approved(life, plan(take(), step("fails", on_failure=Escalate()), title="Other")), KIM
        )

    report = asyncio.run(another())
    assert report.status == "waiting" and holder(life) == report.run_id
    return life, str(report.run_id)


def let_go(life: Scenario, run_id: str) -> None:
    asyncio.run(life.app.runs.cancel_run(run_id, KIM))


def stopping(app: App, at: type) -> Callable[[Recorded], None]:
    """An observer that has the run stop when this is recorded."""

    def observe(recorded: Recorded) -> None:
        if isinstance(recorded.event, at):
            app.runs.stop()

    return observe


def waiting(life: Scenario, made: Plan) -> str:
    """A run of this plan that was stopped while it waited."""

    async def until_it_waits() -> RunReport:
        app = life.new_app()
        return await app.runs.commit(await approved(life, made), KIM, stopping(app, AttemptWaiting))

    report = asyncio.run(until_it_waits())
    assert (report.status, [one.state for one in report.steps if one.id == "take"]) == ("stopped", ["waiting"])
    return str(report.run_id)


# --- Contending ------------------------------------------------------------------------------------------------------


class SlowLedger(MemoryLedger):
    """Between looking and recording, others have their turn."""

    async def append(self, at: Any, *appends: Any) -> tuple[Recorded, ...]:
        await asyncio.sleep(0)
        return await super().append(at, *appends)


@pytest.mark.parametrize("slow", [False, True])
@pytest.mark.parametrize("gives_back", [False, True])
def test_of_many_runs_one_at_a_time_has_the_lock(slow: bool, gives_back: bool):
    life = Scenario(step("unused"))
    if slow:
        life.ledger = SlowLedger()  # type: ignore[assignment]
        life.app = life.new_app()
    several(life)
    inside: list[str] = []
    overlaps: list[list[str]] = []

    async def critical(command: Command) -> Finished:
        inside.append(command.text)
        await life.clock.sleep_until(life.clock.now() + 5000)  # type: ignore[arg-type]
        overlaps.append(list(inside))
        inside.remove(command.text)
        return Finished(duration_ms=5000, exit_code=0)

    async def all_of_them() -> list[RunReport]:
        names = [f"w{number}" for number in range(5)]
        life.shell.script |= {f"do {name}": critical for name in names}
        end = [give()] if gives_back else []
        ids = [await approved(life, plan(take(timeout_ms=MINUTE), step(name), *end, title=name)) for name in names]
        return await asyncio.gather(*(life.new_app().runs.commit(one, KIM) for one in ids))

    reports = asyncio.run(all_of_them())
    assert [report.status for report in reports] == ["completed"] * 5
    assert len(overlaps) == 5 and all(len(one) == 1 for one in overlaps)
    told = lock_events(life)
    assert [what for what, _ in told] == ["taken", "released"] * 5
    assert all(told[i][1] == told[i + 1][1] for i in range(0, 10, 2)) and len({run for _, run in told}) == 5
    waits = {report.run_id: events(life, report.run_id, AttemptWaiting) for report in reports}
    assert sorted(bool(found) for found in waits.values()) == [False, True, True, True, True]
    for report in reports:
        assert not events(life, report.run_id, DoubtFound)
    sound(life)


def test_whoever_waits_says_for_whom_and_says_it_anew_when_that_changes():
    life, other = held_by_another()
    run_id = waiting(life, plan(take(), title="Mine"))
    first = life.app.runs.run(run_id).steps[0]
    assert first.waiting == f"waits for the lock `db`, which {other} holds"
    let_go(life, other)

    async def third() -> str:
        made = plan(take(), step("fails", on_failure=Escalate()), title="Third")
        return str((await life.new_app().runs.commit(await approved(life, made), KIM)).run_id)

    newer = asyncio.run(third())
    app = life.new_app()
    asyncio.run(app.runs.resume(run_id, stopping(app, AttemptWaiting)))
    assert life.app.runs.run(run_id).steps[0].waiting == f"waits for the lock `db`, which {newer} holds"
    untils = {event.until for event in events(life, run_id, AttemptWaiting)}
    assert len(untils) == 1, "whoever holds it, its time is over at the same time"
    let_go(life, newer)
    assert asyncio.run(life.new_app().runs.resume(run_id)).status == "completed"
    assert len(events(life, run_id, AttemptStarted)) == 1, "it went on waiting, and did not begin anew"
    sound(life)


def test_a_step_that_waits_takes_no_place():
    life, other = held_by_another()

    async def release(command: Command) -> Finished:
        await life.new_app().runs.cancel_run(other, KIM)
        return Finished(duration_ms=1, exit_code=0)

    life.shell.script["do beside"] = release

    async def go() -> RunReport:
        made = plan(take(timeout_ms=MINUTE), step("beside", needs=()), concurrency=1, title="Mine")
        return await life.new_app().runs.commit(await approved(life, made), KIM)

    assert asyncio.run(go()).status == "completed"
    sound(life)


def test_within_a_run_a_lock_keeps_nobody_out():
    life = Scenario(take("one"), take("two"), give("g1"), give("g2", on_failure=None)).approve().run()
    assert life.status() == "failed"
    life.expect(one="passed", two="passed", g1="passed", g2="failed")
    assert [what for what, _ in lock_events(life)] == ["taken", "released"]
    assert life.report is not None and "nobody does" in life.report.steps[3].evidence


def test_nobody_gives_back_what_another_run_holds():
    life, other = held_by_another()

    async def go() -> RunReport:
        return await life.new_app().runs.commit(await approved(life, plan(give(), title="Mine")), KIM)

    report = asyncio.run(go())
    assert (report.status, report.steps[0].error) == ("failed", "F_STEP_FAILED")
    assert other in report.steps[0].evidence and holder(life) == other


def test_a_lock_can_have_a_contract_and_protected_files():
    life = Scenario(take(contract="check it"), give(), protect=("tests/**",))
    life.world.effects.append("it")
    life.workspace.documents["tests/a.py"] = b"a"
    life.approve().run().expect(take="passed", give="passed")
    assert life.status() == "completed" and holder(life) is None


# --- Time ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("made", "limit"),
    [
        (take(timeout_ms=MINUTE), MINUTE),
        (take(timeout_ms=2 * MINUTE, idempotent=False), 2 * MINUTE),
        (step("take", action=AcquireLock(lock_name="db"), timeout_ms=3 * MINUTE), 3 * MINUTE),
        (take(), 10 * MINUTE),
    ],
)
def test_a_timeout_is_one_instant_whatever_happens_in_between(made: Step, limit: int):
    life, _ = held_by_another()
    before = life.clock.now()
    run_id = waiting(life, plan(made, title="Mine"))
    life.clock.advance(30_000)
    report = asyncio.run(life.new_app().runs.resume(run_id))
    (ended,) = events(life, run_id, AttemptEnded)
    assert (report.status, report.steps[0].error) == ("failed", "F_STEP_TIMEOUT")
    assert ended.outcome.duration_ms == limit == life.clock.now() - before
    assert len(events(life, run_id, AttemptStarted)) == 1


def test_time_that_was_over_while_nobody_was_there_is_over():
    life, other = held_by_another()
    run_id = waiting(life, plan(take(timeout_ms=MINUTE), title="Mine"))
    life.clock.advance(MINUTE + 1)
    assert asyncio.run(life.new_app().runs.resume(run_id)).steps[0].error == "F_STEP_TIMEOUT"
    run_id = waiting(life, plan(take(timeout_ms=MINUTE), title="Again"))
    life.clock.advance(MINUTE + 1)
    let_go(life, other)
    assert asyncio.run(life.new_app().runs.resume(run_id)).status == "completed", "it is free; nobody is kept from it"


def test_the_failure_policy_says_what_follows_a_timeout():
    life, _ = held_by_another()

    async def go() -> RunReport:
        made = plan(take(timeout_ms=1000, on_failure=Retry(max_attempts=3, initial_delay_ms=500)), title="Mine")
        return await life.new_app().runs.commit(await approved(life, made), KIM)

    report = asyncio.run(go())
    assert (report.status, report.steps[0].attempts) == ("failed", 3)
    assert [event.attempt for event in events(life, report.run_id, AttemptWaiting)] == [1, 2, 3]


def test_two_runs_that_wait_for_each_other_are_parted_by_time():
    life = several(Scenario(step("unused")))

    def crosswise(one: str, other: str, timeout_ms: int) -> Plan:
        takes = take("first", one), step(f"pause-{one}"), take("second", other, timeout_ms)
        return plan(*takes, step(f"last-{one}"), title=one)

    async def pause(command: Command) -> Finished:
        await life.clock.sleep_until(life.clock.now() + 1000)  # type: ignore[arg-type]
        return Finished(duration_ms=1000, exit_code=0)

    life.shell.script |= {"do pause-x": pause, "do pause-y": pause}

    async def both() -> list[RunReport]:
        ids = [await approved(life, made) for made in (crosswise("x", "y", MINUTE), crosswise("y", "x", 2 * MINUTE))]
        return await asyncio.gather(*(life.new_app().runs.commit(one, KIM) for one in ids))

    hasty, patient = asyncio.run(both())
    assert (hasty.status, hasty.steps[2].error) == ("failed", "F_STEP_TIMEOUT")
    assert patient.status == "completed"
    assert holder(life, "x") is holder(life, "y") is None
    sound(life)


# --- Stopping --------------------------------------------------------------------------------------------------------


def asking(life: Scenario, to: str) -> Callable[[Recorded], None]:
    """An observer that asks for the run to be stopped as soon as it waits."""
    tasks = []

    def observe(recorded: Recorded) -> None:
        if isinstance(recorded.event, AttemptWaiting):
            run_id = RunId(recorded.stream.removeprefix("run/"))
            tasks.append(asyncio.create_task(life.ask_to_stop(run_id, to, reason="enough")))

    return observe


@pytest.mark.parametrize(("to", "state"), [("paused", "waiting"), ("cancelled", "cancelled"), ("failed", "cancelled")])
def test_a_run_that_only_waits_is_stopped_at_once(to: str, state: str):
    life, other = held_by_another()
    before = life.clock.now()

    async def go() -> RunReport:
        made = plan(take(), step("after"), title="Mine")
        return await life.new_app().runs.commit(await approved(life, made), KIM, asking(life, to))

    report = asyncio.run(go())
    assert (report.status, report.steps[0].state) == (to, state)
    assert life.clock.now() == before, "nobody waited for the timeout"
    if to == "paused":
        assert len(events(life, report.run_id, RunPaused)) == 1
        let_go(life, other)
        assert asyncio.run(life.new_app().runs.resume(report.run_id)).status == "completed"
    else:
        assert "waited for the lock `db`" in report.steps[0].evidence
        assert holder(life) == other
    sound(life)


@pytest.mark.parametrize("answered", [False, True])
def test_a_run_that_aborts_waits_no_longer(answered: bool):
    life, other = held_by_another()
    life.script(bad=1)
    policy = Escalate() if answered else None
    made = plan(take(), step("bad", needs=(), on_failure=policy), title="Mine")
    before = life.clock.now()

    async def go() -> RunReport:
        app = life.new_app()
        observers = (stopping(app, AttemptWaiting),) if answered else ()
        report = await app.runs.commit(await approved(life, made), KIM, *observers)
        if answered:  # the next executor finds a run that is to be aborted and a step that waits
            assert [one.state.value for one in report.steps] == ["waiting", "escalated"]
            await life.app.answers.answer(report.questions[0].item, "abort", KIM)
            report = await life.new_app().runs.resume(report.run_id)
        return report

    report = asyncio.run(go())
    assert report.status == "failed"
    assert {one.id: one.state.value for one in report.steps} == {"take": "cancelled", "bad": "failed"}
    assert (life.clock.now(), holder(life)) == (before, other)
    sound(life)


# --- Ends ------------------------------------------------------------------------------------------------------------


def test_every_end_of_a_run_gives_its_locks_back():
    def life(*steps: Step) -> Scenario:
        return Scenario(take(), take("other", lock="files"), *steps).approve()

    ended = {
        "completed": life(step("a")).run(),
        "failed": life(step("a")).script(a=1).run(),
        "given up": life(step("a", on_failure=Escalate())).script(a=1).run().answer("a", "abort").resume(),
    }
    nobody = ended["cancelled by somebody, with nobody at work"] = life(step("a", on_failure=Escalate())).script(a=1)
    nobody.run()
    assert holder(nobody) == holder(nobody, "files") == nobody.run_id(), "a run that waits for a person keeps its locks"
    asyncio.run(nobody.app.runs.cancel_run(str(nobody.run_id()), KIM))
    restored = ended["ended, because a copy was restored"] = life(step("a", on_failure=Escalate())).script(a=1).run()
    asyncio.run(_end_what_is_open(restored.ledger, KIM, restored.clock.now()))
    for how, one in ended.items():
        for lock in ("db", "files"):
            told = one.ledger.read(f"lock/{lock}")
            assert [type(entry.event) for entry in told] == [LockTaken, LockReleased], how
            last = one.ledger.read(f"run/{one.run_id()}")[-1]
            assert told[-1].at == last.at, "in the append that ends the run"
        sound(one)


def test_an_executor_that_is_asked_to_end_its_run_gives_its_locks_back():
    life = Scenario(take(), step("a")).approve()

    async def cancelled(command: Command) -> Finished:
        await life.ask_to_stop(life.run_id(), "cancelled")
        await asyncio.sleep(3600)
        raise AssertionError

    life.script(a=cancelled).run()
    assert (life.status(), holder(life)) == ("cancelled", None)
    sound(life)


def test_a_paused_or_stopped_run_keeps_its_locks():
    life = Scenario(take(), step("a"), step("b")).approve().crash_at(12).run()
    assert life.crashed and holder(life) == life.run_id()
    asyncio.run(life.app.runs.pause(None, KIM))
    assert holder(life) == life.run_id()


def test_a_rerun_takes_its_locks_anew_and_keeps_what_it_can():
    life = Scenario(take(), step("a", contract="check a"), step("b"), give()).approve().script(b=1).run()
    assert (life.status(), holder(life)) == ("failed", None)
    life.shell.script.clear()
    asyncio.run(life.app.approvals.approve(str(life.plan_id), KIM))
    former = life.run_id()
    life.execute(lambda: life.app.runs.rerun(str(former), KIM, again_from="b"))
    assert (life.status(), life.world.effects) == ("completed", ["a", "b"])
    assert [event.step for _, event in life.history() if isinstance(event, StepKept)] == ["a"]
    assert [what for what, _ in lock_events(life)] == ["taken", "released"] * 2
    sound(life)


# --- Crashes ---------------------------------------------------------------------------------------------------------


@each("boundary", range(1, 28))
def test_a_crash_at_any_boundary_loses_no_lock_and_takes_none_twice(boundary: int):
    life = Scenario(take(idempotent=False), step("a", idempotent=True), give(idempotent=False), step("b")).approve()
    life.crash_at(boundary).run()
    if life.run_id() is None:
        life.run()
    while (report := life.app.runs.run(str(life.run_id()))).status not in ("completed", "failed"):
        assert {question.step for question in report.questions} <= {"b"}, "there is never a doubt about a lock"
        if report.questions:
            life.answer("b", "happened" if "b" in life.world.effects else "did-not")
        life.resume()
    assert report.status == "completed"
    assert [what for what, _ in lock_events(life)] == ["taken", "released"]
    sound(life)


@each("boundary", range(1, 24))
def test_a_crash_while_it_waits_is_no_doubt(boundary: int):
    """It dies once on the way to waiting and once when the lock is free; whenever that is, it goes on."""
    life, other = held_by_another()
    life.plan = plan(take(), title="Mine")
    life.approve()

    def go(dies_at: int | None, *observers: Callable[[Recorded], None]) -> None:
        mine = life.run_id()
        if mine is not None and life.app.runs.run(mine).status == "completed":
            return
        life.world.new_executor()
        life.world.dies_at = dies_at
        if mine is None:
            life.execute(lambda: life.app.runs.commit(str(life.plan_id), KIM, *observers))
        else:
            life.execute(lambda: life.app.runs.resume(mine, *observers))

    go(boundary, stopping(life.app, AttemptWaiting))
    if life.run_id() is None:
        go(None, stopping(life.app, AttemptWaiting))
    let_go(life, other)
    go(boundary)
    go(None)
    run_id = str(life.run_id())
    assert life.app.runs.run(run_id).status == "completed"
    assert [run for what, run in lock_events(life) if what == "taken"] == [other, run_id]
    assert all(found.settle == "again" for found in events(life, run_id, DoubtFound))
    sound(life)


def test_a_run_that_waits_for_a_place_is_told_that_its_own_lock_is_what_holds_the_other_up() -> None:
    life, first = held_by_another()
    second = waiting(life, plan(take()))
    life.lock.others = {second: Holder(name="other", pid=7), **{f"x{n}": Holder(name="x") for n in range(8)}}
    asyncio.run(life.app.answers.answer(f"{first}/fails", "retry", KIM))
    life.script(fails=0)
    told: list[str] = []

    def hear(words: str) -> None:
        told.append(words)
        if len(told) == 2:
            life.lock.others.clear()

    assert asyncio.run(life.app.runs.resume(first, waiting=hear)).status == "completed"
    assert told[1].startswith(f"{second} waits for the lock `db`, which {first} itself holds")
    assert told[1].endswith(f"ordain pause {second}")
