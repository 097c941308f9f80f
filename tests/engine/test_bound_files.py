"""Files that commands read, between the attempts of one step and after a crash."""

from typing import Any

import pytest

from tests.build import step
from tests.scenario import Scenario
from tests.words import Finished, Retry

DEPLOY = step("deploy", run="sh deploy.sh", on_failure=Retry(max_attempts=3, initial_delay_ms=1000))


def failing(life: Scenario, **writes: bytes) -> Scenario:
    """Let the script fail, after it wrote these files itself."""

    async def run(_: Any) -> Finished:
        life.workspace.documents.update({name.replace("_", "."): content for name, content in writes.items()})
        return Finished(duration_ms=1, exit_code=1)

    life.workspace.documents["deploy.sh"] = b"good"
    life.shell.script["sh deploy.sh"] = run
    return life


def edited_meanwhile(life: Scenario) -> Scenario:
    """Let somebody edit the script while it is waited for the next attempt."""
    wait = life.clock.sleep_until

    async def sleep_until(at: Any) -> None:
        life.workspace.documents["deploy.sh"] = b"evil"
        await wait(at)

    life.clock.sleep_until = sleep_until  # type: ignore[method-assign]
    return life


@pytest.mark.parametrize("writes", [{}, {"deploy_sh": b"better"}])
def test_nobody_edits_a_script_before_it_is_tried_again(writes: dict[str, bytes]) -> None:
    life = edited_meanwhile(failing(Scenario(DEPLOY), **writes)).prepare().approve().run()
    assert life.report is not None
    (report,) = life.report.steps
    assert report.error == "F_INPUT_CHANGED" and "`deploy.sh` has changed" in report.evidence
    assert len(life.shell.calls) == 1


@pytest.mark.parametrize("writes", [{}, {"deploy_sh": b"better"}, {"other_txt": b"new"}])
def test_a_script_that_writes_what_it_names_is_tried_again(writes: dict[str, bytes]) -> None:
    life = failing(Scenario(DEPLOY), **writes).prepare().approve().run()
    assert life.status() == "failed" and len(life.shell.calls) == 3


def test_what_changed_while_nobody_carried_out_the_run_is_noticed_when_it_goes_on() -> None:
    noticed = 0
    for boundary in range(1, 20):
        life = Scenario(step("wait", run="sleep 1"), step("deploy", run="sh deploy.sh", needs=("wait",)))
        life.workspace.documents["deploy.sh"] = b"good"
        life.prepare().approve().crash_at(boundary).run()
        begun = [command.text for command in life.shell.calls]
        if not life.crashed or life.run_id() is None or "sh deploy.sh" in begun:
            continue
        noticed += 1
        life.workspace.documents["deploy.sh"] = b"evil"
        life.resume()
        assert "sh deploy.sh" not in [command.text for command in life.shell.calls]
    assert noticed
