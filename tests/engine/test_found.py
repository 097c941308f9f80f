"""What the simulator found, each as a life of its own."""

from __future__ import annotations

import asyncio

from tests.build import step
from tests.scenario import KIM, ROBOT, Scenario
from tests.words import Abort, Append, Finished, RunFinished, StepKept, StopAsked


def test_a_rerun_that_aborts_while_it_looks_what_can_be_kept_just_ends():
    """Seed 511: the look came to its end after the run had, which broke the loop."""
    life = Scenario(step("kept", needs=(), contract="check kept"), step("bad", needs=(), on_failure=Abort()))
    life.approve().run()
    assert life.status() == "completed"
    looks: list[str] = []

    async def slow_look(command):
        looks.append("begun")
        try:
            await asyncio.Event().wait()
        finally:
            looks.append("ended")
        raise AssertionError

    life.shell.script["check kept"] = slow_look
    life.script(bad=1).approve()
    life.execute(lambda: life.app.runs.rerun(str(life.plan_id), KIM))
    assert (life.status(), looks) == ("failed", ["begun", "ended"])
    life.expect(kept="cancelled", bad="failed")


def test_a_rerun_that_ends_before_a_look_has_even_begun_just_ends():
    """Seed 8486: what was ended before it began was waited for, for ever."""
    first, last = step("bad", needs=(), on_failure=Abort()), step("kept", needs="first", contract="check kept")
    life = Scenario(first, step("first", needs=(), contract="check first"), last).approve().run()
    assert life.status() == "completed"
    append, recording = life.ledger.append, asyncio.Event()

    async def bad(command):
        await recording.wait()
        return Finished(duration_ms=1, exit_code=1)

    async def slow(at, *appends):
        if any(isinstance(event, StepKept) for one in appends for event in one.events):
            recording.set()
            for _ in range(5):
                await asyncio.sleep(0)  # so that the failure has arrived when the next look is to begin
        return await append(at, *appends)

    life.script(bad=bad).approve()
    life.ledger.append = slow
    life.execute(lambda: life.app.runs.rerun(str(life.plan_id), KIM))
    assert life.status() == "failed"


def test_what_a_contract_did_to_protected_files_is_put_back_when_the_run_is_cancelled_after_a_crash():
    """Seed 7141: only steps that were under way were thought of, not their contracts."""
    life = Scenario(step("a", contract="look"), protect=("tests/**",))
    life.workspace.documents["tests/a"] = b"assert a"

    async def spoils_and_dies(command):
        life.workspace.documents["tests/a"] = b"assert True"
        life.world.dead = True
        life.world.boundary()

    life.shell.script["look"] = spoils_and_dies
    life.approve().run()
    assert life.crashed and life.states() == {"a": "verifying"}
    asyncio.run(life.app.runs.cancel_run(str(life.run_id()), KIM))
    assert life.workspace.documents["tests/a"] == b"assert a"


def test_cancelling_at_the_very_end_comes_too_late_and_breaks_nothing():
    """Somebody asks for it while the end is being recorded: the run has ended as it did."""
    life = Scenario(step("a")).approve()
    append = life.ledger.append

    async def meanwhile(at, *appends):
        run_id, last = life.run_id(), appends[0].events[-1] if appends[0].events else None
        if isinstance(last, RunFinished) and run_id is not None:
            lineage = appends[1].stream
            asked = StopAsked(run_id=run_id, to="cancelled", by=ROBOT)
            if life.ledger.size(lineage) == appends[1].expected and not asks:
                asks.append(asked)
                await append(at, Append(stream=lineage, expected=appends[1].expected, events=(asked,)))
            for _ in range(5):
                await asyncio.sleep(0)  # whoever carries it out has heard of it by then
        return await append(at, *appends)

    asks: list[StopAsked] = []
    life.ledger.append = meanwhile
    life.run()
    assert (life.status(), len(asks)) == ("completed", 1)


def test_more_doubts_than_places_are_verified_in_turn():
    """People may say of more steps that they happened than may be verified at once."""
    names = "abc"
    life = Scenario(*(step(name, needs=(), contract=f"check {name}") for name in names), concurrency=1).approve()

    async def dies(command):
        life.world.effects.append(command.text.removeprefix("do "))
        life.world.dead = True
        life.world.boundary()

    life.script(**dict.fromkeys(names, dies)).run()
    for _ in names:
        life.resume()
    life.expect(a="in_doubt", b="in_doubt", c="in_doubt")
    most = now = 0

    async def look(command):
        nonlocal most, now
        now += 1
        most = max(most, now)
        await asyncio.sleep(0)
        now -= 1
        return Finished(duration_ms=1, exit_code=0)

    life.shell.script |= {f"check {name}": look for name in names}
    for name in names:
        life.answer(name, "happened")
    life.resume()
    assert (life.status(), most) == ("completed", 1)
