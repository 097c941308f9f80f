"""What is done is what was looked at and allowed, and what it was done with cannot be guessed from the record."""

from __future__ import annotations

from msgspec.structs import replace

from tests.build import step
from tests.patience import eventually_in_loop
from tests.scenario import Scenario
from tests.words import AttemptStarted, Command, Finished, RunCommand, RunId, Step, StepId, StoreData, step_key


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


def test_a_step_is_given_what_was_allowed_although_something_else_was_stored_meanwhile():
    """Between intent and effect its contract is run, which takes a while; another step stores under the same key."""
    use = step("use", action=RunCommand(command="do use", env={"X": "${data.k}"}), needs=("put",), contract="check it")
    life = Scenario(
        step("put", action=StoreData(key="k", value="allowed"), needs=()),
        replace(use, approval="ask", proof="red-then-green"),
        replace(step("wait", needs=("put",)), approval="ask"),
        step("other", action=StoreData(key="k", value="another"), needs=("wait",)),
        concurrency=4,
    )

    async def check(command: Command) -> Finished:
        await eventually_in_loop(lambda: life.states()["other"] == "passed", "the other step", every_s=0)
        return gives("", 0 if "use" in life.world.effects else 1)

    life.shell.script["check it"] = check
    life.approve().run().expect(use="escalated", wait="escalated")
    life.answer("use", "allow").answer("wait", "allow").resume().expect(use="passed", other="passed")
    (call,) = (call for call in life.shell.calls if call.text == "do use")
    assert call.env["X"] == "allowed"
