"""Runs that wait for a file: it is found whoever looks by then, and a crash while nobody does causes no doubt."""

import asyncio
from typing import Any

import pytest

from tests.build import plan, step
from tests.scenario import KIM, Scenario, crashes
from tests.words import (
    AttemptEnded,
    AttemptWaiting,
    DoubtFound,
    Facts,
    Step,
    WaitForFile,
    concerns,
    lint,
    operand_paths,
    planned_effects,
)

MINUTE = 60_000


def wait(path: str = "out/report", timeout_ms: int | None = MINUTE, **fields: Any) -> Step:
    return step("wait", action=WaitForFile(path=path, timeout_ms=timeout_ms), **fields)


def events(life: Scenario, kind: type) -> list[Any]:
    return [event for _, event in life.history() if isinstance(event, kind)]


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


def test_a_file_that_is_there_is_not_waited_for():
    life = Scenario(wait(), step("after"))
    life.workspace.documents["out/report"] = b""
    life.approve().run().expect(wait="passed", after="passed")
    assert events(life, AttemptWaiting) == []


def test_it_goes_on_when_the_file_is_there():
    life = Scenario(wait(), step("after")).approve()

    def observe(recorded: Any) -> None:
        if isinstance(recorded.event, AttemptWaiting):
            life.workspace.documents["out/report"] = b"done"

    report = asyncio.run(asyncio.wait_for(life.app.runs.commit(str(life.plan_id), KIM, observe), 20))
    assert (report.status, life.world.effects) == ("completed", ["after"])
    assert [one.reason for one in events(life, AttemptWaiting)] == ["the file `out/report`"]
    assert life.app.audits.verify().findings == ()


def test_what_came_while_nobody_carried_the_run_out_is_found():
    life = stopped_waiting(Scenario(wait(), step("after")).approve())
    life.workspace.documents["out/report"] = b""
    life.resume().expect(wait="passed", after="passed")
    assert events(life, DoubtFound) == []


def test_after_its_time_it_fails_and_a_restart_gives_it_no_more():
    life = stopped_waiting(Scenario(wait()).approve())
    life.clock.advance(MINUTE + 1)
    life.resume().expect(wait="failed")
    (ended,) = events(life, AttemptEnded)
    assert (ended.outcome.error, ended.outcome.detail) == ("F_STEP_TIMEOUT", "waited in vain for the file `out/report`")


@pytest.mark.parametrize("idempotent", [None, False])
def test_a_crash_anywhere_sends_nobody_to_a_person(idempotent: bool | None):
    resumed = 0
    for life in crashes(lambda: Scenario(wait(idempotent=idempotent), step("after")).approve()):
        if life.run_id() is not None and life.states()["wait"] == "failed":
            continue  # its time was over before the crash
        life.workspace.documents["out/report"] = b""
        (life.run() if life.run_id() is None else life.resume()).expect(wait="passed")
        assert not [one for one in events(life, DoubtFound) if one.step == "wait" and one.settle == "person"]
        resumed += 1
    assert resumed >= 7


# --- What everybody else knows of it, by its declaration -------------------------------------------------------------


def codes(action: WaitForFile, **fields: Any) -> list[str]:
    return [problem.code for problem in lint(plan(step("wait", action=action, **fields)), Facts())]


@pytest.mark.parametrize("path", ["../x", "/etc/passwd", "../../${params.x}", "${build.output}", ".git/config"])
def test_lint_looks_at_its_path(path: str):
    assert {"E_PATH", "E_REF_PLACE"} & set(codes(WaitForFile(path=path)))


@pytest.mark.parametrize("path", ["${build.output}", "out/${params.x}"])
def test_no_reference_decides_its_path(path: str):
    assert "E_REF_PLACE" in codes(WaitForFile(path=path))


def test_a_diff_has_words_for_it():
    before = plan(wait(), step("after"))
    (changed,) = concerns(before, plan(wait("other"), step("after")), {})
    assert (changed.kind, changed.detail) == (
        "wait_changed",
        "`wait` waits for another file or for another time; read it.",
    )
    (gone,) = concerns(before, plan(step("after")), {})
    assert (gone.kind, gone.detail) == ("step_removed", "`wait` waited for `out/report`, and is gone.")


def test_lint_looks_at_its_timeout():
    assert codes(WaitForFile(path="x", timeout_ms=0)) == ["E_STEP_LIMIT"]
    assert codes(WaitForFile(path="x")) == []


def test_an_approver_sees_the_path_and_is_bound_to_nothing_in_it():
    waiting = plan(wait())
    (effect,) = planned_effects(waiting, {})
    assert (effect.kind, effect.target, effect.effect, effect.destructive) == ("read", "out/report", "reads", False)
    assert operand_paths(waiting, {}) == ()
