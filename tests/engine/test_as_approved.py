"""What is done is what was looked at and allowed, and what it was done with cannot be guessed from the record."""

from __future__ import annotations

from ordain.core.action import RunCommand
from ordain.core.canonical import step_key
from ordain.core.event import AttemptStarted
from ordain.core.model import Step
from ordain.core.value import RunId, StepId
from ordain.ports import Finished
from tests.build import step
from tests.scenario import Scenario


def gives(text: str, exit_code: int = 0) -> Finished:
    return Finished(duration_ms=1, exit_code=exit_code, output=text.encode(), output_bytes=len(text.encode()))


def using(name: str, needs: tuple[str, ...] = (), **env: str) -> Step:
    return step(name, action=RunCommand(command=f"do {name}", env=env), needs=needs)


def keys(life: Scenario, name: str) -> list[str]:
    return [event.key for _, event in life.history() if isinstance(event, AttemptStarted) and event.step == name]


def test_the_step_key_does_not_let_a_value_be_guessed_from_the_record():
    """A code of six digits: whoever reads the ledger knows everything else that the key is made of."""
    life = Scenario(step("a"), using("b", X="${a.output}")).script(a=gives("123456")).approve().run()
    action = life.plan.steps[1].action
    workspace, run_id = life.ledger.read("workspace")[0].event.workspace.id, life.run_id()  # type: ignore[union-attr]
    body = '{"X": "123456"}'
    assert keys(life, "b") != [step_key(workspace, RunId(str(run_id)), StepId("b"), action, body)]
    seal = life.ledger.seal(body.encode())
    assert keys(life, "b") == [step_key(workspace, RunId(str(run_id)), StepId("b"), action, seal)]
