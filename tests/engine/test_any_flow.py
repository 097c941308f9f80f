"""Any plan comes to its end, with every step accounted for, and the report is what the ledger adds up to.

Plans are drawn as in the simulator, and nobody dies here, so that a failure is told by the shortest story there is:
with every failure policy, conditions, repeats, nested plans, fallback steps, locks, references and questions. People
answer whatever they are asked.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from pathlib import Path
from random import Random
from typing import Any

import pytest
from msgspec.structs import replace

from tests.history import replay
from tests.reference import standing
from tests.simulation.fate import draw_plan
from tests.simulation.life import Failed, Life
from tests.words import (
    AcquireLock,
    App,
    Ask,
    CallTool,
    Channel,
    Instant,
    NestedPlan,
    Plan,
    Principal,
    ReleaseLock,
    Retry,
    RunCommand,
    RunEvent,
    RunId,
    RunReport,
    Step,
    open_at_terminal,
)

CHUNK = 30
QUICK, LONG = 240, 6000
REAL = 6
KIM = Principal(name="kim", channel=Channel.TERMINAL)


def calm(seed: int) -> Counter[str]:
    """A life in which nothing happens but what the plan says, its commands do and people answer."""
    life = Life(seed)
    life.troubles, life.again, life.gone_on = 0, True, True
    try:
        life.live()
        (stream,) = life.ledger.streams("run/")
        run_id = RunId(stream.removeprefix("run/"))
        accounted_for(life.plan, life.new_app().runs.run(run_id), life.history())  # folded anew, from the ledger alone
    except Exception as error:
        life.abandon()
        raise Failed("\n".join([f"{type(error).__name__}: {error}", *life.world.trace, f"seed {seed}"])) from error
    return life.counted


def accounted_for(plan: Plan, report: RunReport, history: list[tuple[Instant, RunEvent]]) -> None:
    """Hold a report against the events: folded, and gone through slowly with nothing in common with the fold."""
    slow, state = standing(plan, history), replay(plan, history)
    told = {one.id: one.state.value for one in report.steps}
    assert told == {name: one.state for name, one in slow.steps.items()}
    assert told == {name: record.state.value for name, record in state.steps.items()}
    assert set(told.values()) <= {"passed", "skipped", "failed", "cancelled"}, "every step has come to an end"
    assert {one.id: one.attempts for one in report.steps} == {name: one.attempts for name, one in slow.steps.items()}
    assert not report.questions and report.status == slow.status == state.status
    assert all(one.evidence or one.state.value in ("cancelled", "skipped") for one in report.steps), "and says why"


@pytest.mark.part(of=8)
@pytest.mark.parametrize("first", range(0, QUICK, CHUNK))
def test_any_plan_ends_with_every_step_accounted_for(first: int):
    for seed in range(first, first + CHUNK):
        calm(seed)


@pytest.mark.sweep
@pytest.mark.parametrize("first", range(QUICK, LONG, CHUNK))
def test_sweep(first: int):
    print(dict(sum((calm(seed) for seed in range(first, first + CHUNK)), Counter())))


# --- With a real shell and a real ledger ---------------------------------------------------------------------------


def for_bash(plan: Plan, random: Random) -> Plan:
    """The plan with commands that bash can run, some of which fail; nobody waits long for anything."""
    return replace(
        plan,
        protect=(),
        steps=tuple(_for_bash(one, random) for one in plan.steps),
        fallbacks=tuple(_for_bash(one, random) for one in plan.fallbacks),
        on_failure=_quickly(plan.on_failure),
    )


def _for_bash(step: Step, random: Random) -> Step:
    action: Any = step.action
    env = action.env if isinstance(action, RunCommand) else {}
    command = f"echo {step.id} >> effects.log; echo '[1, 2]'; exit {random.choice([0, 0, 0, 1])}"
    if isinstance(action, NestedPlan):
        action = NestedPlan(plan=for_bash(action.plan, random))
    elif isinstance(action, RunCommand | CallTool | Ask | AcquireLock | ReleaseLock):
        action = RunCommand(command=command, env=env)
    verification, strategy = step.verification, getattr(step.verification, "strategy", None)
    if verification is not None and strategy is not None:
        held = replace(strategy, command=f"grep -q {step.id} effects.log")
        verification = replace(verification, strategy=held)
    policy = _quickly(step.on_failure)
    return replace(step, action=action, verification=verification, protect=(), on_failure=policy, idempotent=None)


def _quickly(policy: Any) -> Any:
    return replace(policy, initial_delay_ms=1, increment_ms=1) if isinstance(policy, Retry) else policy


@pytest.mark.part(of=3)
@pytest.mark.parametrize("seed", range(REAL))
def test_any_plan_with_real_commands_and_a_real_ledger(tmp_path: Path, seed: int):
    random = Random(seed)
    plan = for_bash(draw_plan(random), random)
    (tmp_path / "effects.log").touch()
    asyncio.run(asyncio.wait_for(_carried_out(tmp_path, plan, random), 60))
    again = open_at_terminal(tmp_path, exact=True)  # a reader of its own, who has only the ledger
    try:
        run_id, history = _history(again)
        accounted_for(plan, again.runs.run(run_id), history)
    finally:
        asyncio.run(again.close())


async def _carried_out(folder: Path, plan: Plan, random: Random) -> None:
    app = open_at_terminal(folder, exact=True)
    try:
        prepared = await app.plans.prepare_plan(plan, KIM)
        await app.approvals.approve(prepared.review.plan_id, KIM)
        report = await app.runs.commit(prepared.review.plan_id, KIM)
        for _ in range(50):
            if report.status in ("completed", "failed", "cancelled"):
                break
            for question in report.questions[:1]:
                words = [choice.word for choice in question.choices if choice.word != "retry"]
                await app.answers.answer(question.item, random.choice(words), KIM)
            report = await app.runs.resume(report.run_id)
        run_id, history = _history(app)
        accounted_for(plan, report, history)
        assert report == app.runs.run(run_id), "what was returned is what the ledger says"
    finally:
        await app.close()


def _history(app: App) -> tuple[RunId, list[tuple[Instant, RunEvent]]]:
    ledger = app.ports.ledger.open()
    (stream,) = ledger.streams("run/")
    return RunId(stream.removeprefix("run/")), [(one.at, one.event) for one in ledger.read(stream)]  # type: ignore[misc]
