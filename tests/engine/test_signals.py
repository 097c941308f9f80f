"""Runs that wait for a signal from outside, in memory: what is given once is heard by every step of a run that was
opened before, whoever carries it out by then; and nothing is waited for twice or for ever."""

import asyncio
import contextlib
from typing import Any

import pytest
from msgspec.structs import replace

from tests.build import plan, step
from tests.patience import PATIENCE_S
from tests.scenario import KIM, ROBOT, Scenario
from tests.words import (
    AttemptEnded,
    AttemptStarted,
    AttemptWaiting,
    Continue,
    DoubtFound,
    Escalate,
    External,
    Refused,
    Retry,
    RunCommand,
    RunReport,
    SignalGiven,
    Skip,
    Step,
    WaitFor,
)

MINUTE = 60_000


def wait(name: str = "wait", key: str = "go", timeout_ms: int = MINUTE, **fields: Any) -> Step:
    return step(name, action=WaitFor(condition=External(key=key), timeout_ms=timeout_ms), **fields)


def shows(name: str, text: str) -> Step:
    """A step whose command gets this as a variable."""
    return step(name, action=RunCommand(command=f"do {name}", env={"GIVEN": text}))


def give(life: Scenario, key: str = "go", value: Any = None, by: Any = ROBOT) -> None:
    asyncio.run(life.app.signals.give(key, by, value))


def stopped_waiting(life: Scenario) -> Scenario:
    """A run that was stopped while it waited."""
    app = life.app

    def observe(recorded: Any) -> None:
        if isinstance(recorded.event, AttemptWaiting):
            app.runs.stop()

    life.report = asyncio.run(app.runs.commit(str(life.plan_id), KIM, observe))
    life.app = life.new_app()
    assert life.report.status == "stopped"
    return life


def events(life: Scenario, kind: type) -> list[Any]:
    return [event for _, event in life.history() if isinstance(event, kind)]


def sound(life: Scenario) -> None:
    assert life.app.audits.verify().findings == ()


def given_while_waiting(life: Scenario, **signal: Any) -> RunReport:
    """Carry a run out and give the signal once it waits."""

    async def both() -> RunReport:
        waits = asyncio.Event()

        def observe(recorded: Any) -> None:
            if isinstance(recorded.event, AttemptWaiting):
                waits.set()

        run = asyncio.create_task(life.app.runs.commit(str(life.plan_id), KIM, observe))
        await waits.wait()
        await life.new_app().signals.give(signal.get("key", "go"), ROBOT, signal.get("value"))
        return await asyncio.wait_for(run, PATIENCE_S)

    life.report = asyncio.run(both())
    return life.report


def test_a_step_that_waits_goes_on_when_the_signal_is_given():
    life = Scenario(wait(), step("after")).approve()
    assert given_while_waiting(life).status == "completed"
    assert life.world.effects == ["after"]
    assert [one.reason for one in events(life, AttemptWaiting)] == ["the signal `go` (ordain signal go)"]
    sound(life)


@pytest.mark.parametrize(
    ("value", "seen"),
    [("1.4.2", "1.4.2"), ({"version": "1.4.2"}, '{"version": "1.4.2"}'), (None, "null"), ("", "")],
)
def test_its_value_is_the_result_of_the_step(value: Any, seen: str):
    life = Scenario(wait(), shows("show", "${wait.output}")).approve()
    given_while_waiting(life, value=value)
    assert [call.env["GIVEN"] for call in life.shell.calls] == [seen]


def test_a_part_of_its_value_can_be_referred_to():
    life = Scenario(wait(), shows("show", "${wait.output.version}")).approve()
    given_while_waiting(life, value={"version": "1.4.2"})
    assert [call.env["GIVEN"] for call in life.shell.calls] == ["1.4.2"]


def test_once_given_it_is_there_for_every_step_and_the_newest_value_counts():
    life = Scenario(step("first"), wait(), wait("again"), shows("show", "${again.output}")).approve()

    async def meanwhile(command: Any) -> Any:
        for value in ("old", "new"):
            await life.new_app().signals.give("go", ROBOT, value)
        return None

    async def first(command: Any) -> Any:
        from tests.words import Finished

        await meanwhile(command)
        return Finished(duration_ms=1, exit_code=0)

    life.shell.script["do first"] = first
    life.run()
    assert life.status() == "completed"
    assert events(life, AttemptWaiting) == []
    assert life.shell.calls[-1].env["GIVEN"] == "new"


@pytest.mark.parametrize("back_ms", [0, 3_600_000])
def test_what_was_given_before_the_run_began_does_not_count_whatever_the_clock_says(back_ms: int):
    life = Scenario(wait())
    give(life, value="of another day")
    life.clock.advance(-back_ms)
    life.approve().run()
    assert (life.status(), life.report.steps[0].error) == ("failed", "F_STEP_TIMEOUT")  # type: ignore[union-attr]


@pytest.mark.parametrize("back_ms", [0, 3_600_000])
def test_what_is_given_after_that_counts_whatever_the_clock_says(back_ms: int):
    life = Scenario(wait(), step("after")).approve()
    give(life, value="of another day")
    stopped_waiting(life)
    life.clock.advance(-back_ms)
    give(life)
    life.resume().expect(wait="passed", after="passed")


def test_a_rerun_waits_for_a_signal_of_its_own():
    life = Scenario(wait(), step("fails")).script(fails=1).approve()
    given_while_waiting(life)
    life.expect(wait="passed", fails="failed")
    life.approve()
    report = asyncio.run(life.app.runs.rerun(str(life.plan_id), KIM))
    assert [one.state for one in report.steps] == ["failed", "cancelled"]
    assert report.steps[0].error == "F_STEP_TIMEOUT"


def test_nothing_is_lost_while_nobody_carries_the_run_out():
    life = stopped_waiting(Scenario(wait(), step("after")).approve())
    give(life, value="meanwhile")
    life.resume()
    assert life.status() == "completed"
    assert life.world.effects == ["after"]
    assert events(life, DoubtFound) == []
    sound(life)


def test_after_its_time_it_fails_by_its_policy_and_a_restart_gives_it_no_more():
    life = stopped_waiting(Scenario(wait(timeout_ms=MINUTE)).approve())
    life.clock.advance(MINUTE + 1)
    life.resume().expect(wait="failed")
    (ended,) = events(life, AttemptEnded)
    assert (ended.outcome.error, ended.outcome.detail) == (
        "F_STEP_TIMEOUT",
        "waited in vain for the signal `go` (ordain signal go)",
    )


def test_it_waits_no_longer_than_its_own_time():
    life = Scenario(wait(timeout_ms=MINUTE)).approve().run()
    started, ended = (
        next(at for at, event in life.history() if isinstance(event, kind)) for kind in (AttemptStarted, AttemptEnded)
    )
    assert MINUTE <= ended - started < MINUTE + 1000


@pytest.mark.parametrize(
    ("policy", "state", "attempts"),
    [
        (Skip(), "skipped", 1),
        (Continue(), "failed", 1),
        (Escalate(), "escalated", 1),
        (Retry(max_attempts=3), "failed", 3),
    ],
)
def test_each_policy_goes_by_the_time_that_is_over(policy: Any, state: str, attempts: int):
    life = Scenario(wait(on_failure=policy)).approve().run()
    life.expect(wait=state)
    assert len(events(life, AttemptStarted)) == attempts


def test_while_one_waits_others_go_on():
    life = Scenario(wait(), step("other", needs=()), concurrency=1).approve()
    assert given_while_waiting(life).status == "completed"
    assert life.world.effects == ["other"]


def test_where_the_run_aborts_nobody_waits_any_more():
    life = Scenario(wait(timeout_ms=MINUTE), step("fails", needs=())).script(fails=1).approve().run()
    assert life.status() == "failed"
    life.expect(wait="cancelled", fails="failed")


@pytest.mark.part(of=2)
@pytest.mark.parametrize("idempotent", [None, True, False])
def test_a_crash_at_any_boundary_leaves_no_doubt_about_a_wait(idempotent: bool | None):
    for boundary in range(1, 40):
        life = Scenario(wait(idempotent=idempotent), step("after")).approve()
        life.crash_at(boundary)
        asyncio.run(_signalled_at_once(life))
        life.world.new_executor()
        life.app = life.new_app()
        if life.run_id() is None:
            continue  # it died before there was a run
        if life.app.runs.run(str(life.run_id())).status != "completed":
            give(life)
            life.resume()
        if "after" in [event.step for event in events(life, DoubtFound)]:
            life.answer("after", "did-not" if not life.world.effects else "happened").resume()
        assert "wait" not in [event.step for event in events(life, DoubtFound) if event.settle != "again"]
        life.expect(wait="passed", after="passed")
        assert life.world.effects == ["after"]


async def _signalled_at_once(life: Scenario) -> None:
    from tests.scenario import Crash

    def observe(recorded: Any) -> None:
        if isinstance(recorded.event, AttemptWaiting) and not given:
            given.append(asyncio.ensure_future(life.new_app().signals.give("go", ROBOT)))

    given: list[Any] = []
    with contextlib.suppress(Crash):
        await asyncio.wait_for(life.app.runs.commit(str(life.plan_id), KIM, observe), PATIENCE_S)
    await asyncio.gather(*given, return_exceptions=True)


# --- Giving ----------------------------------------------------------------------------------------------------------


def test_whoever_gives_it_is_told_who_hears_it():
    life = Scenario(wait(), wait("other", key="other", needs=())).approve()
    report = asyncio.run(life.app.signals.give("go", ROBOT))
    assert (report.count, report.heard_by, report.awaited_by) == (1, (), ())
    stopped_waiting(life)
    report = asyncio.run(life.app.signals.give("go", ROBOT))
    assert report.count == 2
    assert report.heard_by == (life.run_id(),)
    assert [(one.signal, one.step, one.executing) for one in report.awaited_by] == [("go", "wait", False)]
    assert {one.signal for one in life.app.signals.awaited()} == {"go", "other"}


def test_what_is_secret_in_a_value_is_kept_and_not_shown():
    life = Scenario(wait(), shows("show", "${wait.output}")).approve()
    life.secrets.values["API_TOKEN"] = "hunter2hunter2"
    life.app = life.new_app()
    given_while_waiting(life, value="the token is hunter2hunter2")
    assert life.shell.calls[-1].env["GIVEN"] == "the token is hunter2hunter2"
    assert b"hunter2" not in b"".join(bytes(row.body) for row in life.ledger.everything())


@pytest.mark.parametrize("key", ["", "a b", "größe", "x" * 257, "a\nb"])
def test_a_key_that_is_no_name_is_refused(key: str):
    life = Scenario(wait())
    with pytest.raises(Refused) as refused:
        give(life, key)
    assert refused.value.problems[0].code == "E_NAME"
    assert list(life.ledger.streams("signal/")) == []


def test_a_value_that_is_too_long_is_refused():
    life = Scenario(wait())
    with pytest.raises(Refused) as refused:
        give(life, value="x" * ((1 << 20) + 1))
    assert refused.value.problems[0].code == "E_SIGNAL_VALUE"


def test_two_who_give_it_at_once_are_both_heard():
    life = Scenario(wait()).approve()

    async def both() -> None:
        await asyncio.gather(life.new_app().signals.give("go", ROBOT, "a"), life.new_app().signals.give("go", KIM, "b"))

    asyncio.run(both())
    given = [one.event for one in life.ledger.read("signal/go")]
    assert all(isinstance(one, SignalGiven) for one in given) and len(given) == 2


def test_a_step_that_went_on_without_its_signal_is_found():
    """Where somebody takes a signal out of the ledger, the run that it let go on tells."""
    from tests.test_verifiers import Forger, both
    from tests.words import Kind

    life = Scenario(wait(), step("after")).approve()
    given_while_waiting(life)
    import json

    rows = [json.loads(row.body) for row in life.ledger.everything()]
    forger = Forger()
    forger.events = [(row["stream"], row["at"], row["event"]) for row in rows if row["stream"] != "signal/go"]
    assert Kind.HISTORY in both(forger.rows()).kinds


def test_a_step_that_went_on_with_a_value_that_its_signal_never_had_is_found():
    from tests.core.test_audit import edited, look
    from tests.words import Kind

    life = Scenario(wait(), step("after")).approve()
    given_while_waiting(life)

    def change(value: dict[str, Any]) -> None:
        event = value["event"]
        if event["type"] == "attempt_ended" and "exit_code" not in event["outcome"]:
            event["outcome"]["output_seal"] = "hmac-sha256:" + "0" * 64

    assert Kind.HISTORY in {finding.kind for finding in look(edited(life.ledger.everything(), change)).findings}


def test_a_wait_inside_a_nested_plan_hears_it_too():
    from tests.words import NestedPlan

    inner = plan(wait("inner"), title="Inner")
    life = Scenario(step("first"), step("nest", action=NestedPlan(plan=inner))).approve()
    give(life, value="before")  # which does not count
    life.report = given_while_waiting(life)
    assert life.report.status == "completed"


def test_a_wait_that_a_contract_follows_is_judged():
    life = Scenario(replace(wait(contract="check nothing"), description="judged")).approve()
    assert given_while_waiting(life).status == "failed"
    assert life.report is not None and life.report.steps[0].error == "F_CONTRACT_BROKEN"
