"""Custom actions, in memory: their handlers are called with what was approved, their results can be referred to, and
after a crash they count as what they were registered as."""

import asyncio
from typing import Any

import pytest

from tests.build import step
from tests.scenario import KIM, Scenario
from tests.words import Command, Custom, DoubtFound, EffectClass, Finished, Refused, Retry, RunCommand, Step, ToolResult

ANNOUNCE = b"""\
[actions.announce]
command = ["announce", "--to", "ops"]
"""


def custom(name: str = "tell", kind: str = "announce", payload: Any = None, **fields: Any) -> Step:
    return step(name, action=Custom(action_type=kind, payload=payload), **fields)


def configured(*steps: Step, text: bytes = ANNOUNCE) -> Scenario:
    life = Scenario(*steps)
    trust(life, text)
    return life


def trust(life: Scenario, text: bytes) -> None:
    life.workspace.configuration_text = text
    _, digest = life.app.approvals.configuration()
    asyncio.run(life.app.approvals.trust(digest, KIM))


def registered(*steps: Step, effect: EffectClass = EffectClass.OPAQUE, **fields: Any) -> Scenario:
    life = Scenario(*steps)
    life.handlers.register("announce", effect, **fields)
    return life


def codes(life: Scenario) -> list[str]:
    with pytest.raises(Refused) as refused:
        life.prepare()
    return [problem.code for problem in refused.value.problems]


# --- Commands --------------------------------------------------------------------------------------------------------


def written(output: bytes, exit_code: int = 0) -> Any:
    async def run(command: Command) -> Finished:
        return Finished(duration_ms=1, exit_code=exit_code, output=output, output_bytes=len(output))

    return run


def test_a_command_gets_the_payload_as_json_and_its_output_is_the_result():
    show = step("show", action=RunCommand(command="do show", env={"ID": "${tell.output.id}"}))
    life = configured(step("first"), custom(payload={"text": "${first.exit_code}", "plain": "$${x}"}), show)
    life.shell.script["announce --to ops"] = written(b'{"id": "m-7"}\n')
    life.approve().run()
    assert life.status() == "completed"
    told = next(call for call in life.shell.calls if call.argv)
    assert (told.argv, told.stdin) == (("announce", "--to", "ops"), b'{"plain": "${x}", "text": 0}')
    assert told.errors_apart and told.env["ORDAIN_STEP"] == "tell" and told.env["ORDAIN_STEP_KEY"]
    assert life.shell.calls[-1].env["ID"] == "m-7"


def test_what_is_no_json_object_or_list_is_text_without_the_last_line_end():
    show = step("show", action=RunCommand(command="do show", env={"SAID": "${tell.output}"}))
    life = configured(custom(), show)
    life.shell.script["announce --to ops"] = written(b"17\n")
    life.approve().run()
    assert life.shell.calls[-1].env["SAID"] == "17"


def test_a_command_that_fails_fails_its_step_by_its_policy():
    life = configured(custom(on_failure=Retry(max_attempts=2)))
    life.shell.script["announce --to ops"] = written(b"no", 3)
    life.approve().run().expect(tell="failed")
    assert len([call for call in life.shell.calls if call.argv]) == 2
    assert life.report is not None and life.report.steps[0].evidence == "exit status 3"


def test_a_handler_that_was_changed_since_voids_the_approval():
    life = configured(custom()).approve()
    trust(life, ANNOUNCE.replace(b"ops", b"everybody"))
    with pytest.raises(Refused) as refused:
        asyncio.run(life.app.runs.commit(str(life.plan_id), KIM))
    problem = refused.value.problems[0]
    assert problem.code == "E_PLAN_STALE_BASE" and "`custom:announce`" in problem.detail


def test_a_program_of_the_workspace_that_was_changed_since_voids_the_approval():
    text = b'[actions.announce]\ncommand = ["python3", "tools/announce.py", "--fast"]\n'
    life = configured(custom(), text=text)
    life.workspace.documents["tools/announce.py"] = b"print()"
    life.approve()
    life.workspace.documents["tools/announce.py"] = b"steal()"
    with pytest.raises(Refused) as refused:
        asyncio.run(life.app.runs.commit(str(life.plan_id), KIM))
    assert "`tools/announce.py` has changed" in refused.value.problems[0].detail


def test_a_run_goes_on_with_the_handler_it_was_started_with():
    life = configured(step("first"), custom(), step("after")).approve()
    app = life.app
    life.report = asyncio.run(app.runs.commit(str(life.plan_id), KIM, lambda recorded: app.runs.stop() and None))
    life.app = life.new_app()
    trust(life, ANNOUNCE.replace(b"ops", b"everybody"))
    life.resume()
    assert life.status() == "completed"
    assert [call.argv for call in life.shell.calls if call.argv] == [("announce", "--to", "ops")]


# --- Policy and preview ----------------------------------------------------------------------------------------------


def test_an_unknown_type_is_refused_with_the_nearest_and_how_to_register_one():
    life = configured(custom(kind="anounce"))
    with pytest.raises(Refused) as refused:
        life.prepare()
    (problem,) = refused.value.problems
    assert problem.code == "E_ACTION_UNKNOWN"
    assert "announce" in problem.hints[0] and "[actions.NAME]" in problem.hints[1]


def test_a_configuration_that_nobody_trusted_registers_nothing():
    life = Scenario(custom())
    life.workspace.configuration_text = ANNOUNCE
    assert codes(life) == ["E_ACTION_UNKNOWN"]


@pytest.mark.parametrize(
    ("effect", "policy", "approval"),
    [
        ("opaque", "", True),
        ("reads", "", False),
        ("opaque", '[policy]\nallow = ["custom:announce"]\n', False),
        ("opaque", '[policy]\nallow = ["custom"]\n', False),
        ("opaque", '[policy]\nallow = ["custom"]\nask = ["custom:announce"]\n', True),
        ("repeatable", '[policy]\nallow = ["repeatable"]\n', False),
        ('repeatable"\ndestructive = true\n#', '[policy]\nallow = ["repeatable"]\n', True),
    ],
)
def test_policy_goes_by_its_name_and_its_class(effect: str, policy: str, approval: bool):
    text = f'[actions.announce]\ncommand = ["announce"]\neffect = "{effect}"\n'.replace('#"', "") + policy
    life = configured(custom(), text=text.encode()).prepare()
    assert life.app.plans.review(str(life.plan_id)).requires_approval is approval


def test_policy_can_deny_it():
    life = configured(custom(), text=ANNOUNCE + b'[policy]\ndeny = ["custom:announce"]\n')
    assert codes(life) == ["E_POLICY_DENIED"]


def test_no_tool_can_be_called_by_the_name_of_a_handler():
    life = configured(step("call", tool="custom:announce", args={}))
    assert "E_TOOL_UNKNOWN" in codes(life)


def test_the_preview_shows_what_is_run():
    from tests.words import Style, review_lines

    life = configured(custom(payload={"text": "hello"})).prepare()
    shown = "\n".join(review_lines(life.app.plans.review(str(life.plan_id)), Style(colour=False)))
    assert "custom:announce runs: announce --to ops (step tell)" in shown
    assert "Runs 1 shell command " in shown and "hello" in shown
    life = registered(custom(), destructive=True).prepare()
    shown = "\n".join(review_lines(life.app.plans.review(str(life.plan_id)), Style(colour=False)))
    assert "custom:announce calls script:announce (step tell)" in shown and "destructive tool 1 (1)" in shown


# --- Python ----------------------------------------------------------------------------------------------------------


def test_a_registered_handler_is_called_once_with_the_payload_and_the_step_key():
    show = step("show", action=RunCommand(command="do show", env={"ID": "${tell.output.id}"}))
    life = registered(custom(payload={"text": "hello"}), show)
    life.handlers.script["announce"] = ToolResult(value={"id": 7})
    life.approve().run()
    assert life.status() == "completed"
    ((name, payload, key),) = life.handlers.calls
    assert (name, payload, bool(key)) == ("announce", {"text": "hello"}, True)
    assert life.shell.calls[-1].env["ID"] == "7"


def test_a_program_that_does_not_have_it_cannot_go_on_with_the_run():
    life = registered(step("first"), custom()).approve()
    app = life.app
    life.report = asyncio.run(app.runs.commit(str(life.plan_id), KIM, lambda recorded: app.runs.stop() and None))
    life.handlers.definitions.clear()
    life.app = life.new_app()
    with pytest.raises(Refused) as refused:
        asyncio.run(life.app.runs.resume(None))
    assert refused.value.problems[0].code == "E_ACTION_UNKNOWN"
    life.handlers.register("announce")
    life.resume()
    assert life.status() == "completed"


def test_one_that_takes_too_long_is_ended():
    life = registered(custom(timeout_ms=20))

    async def slow(payload: Any) -> ToolResult:
        await asyncio.sleep(30)
        return ToolResult()

    life.handlers.script["announce"] = slow
    life.approve().run().expect(tell="failed")
    assert life.report is not None and life.report.steps[0].error == "F_STEP_TIMEOUT"


# --- Doubt -----------------------------------------------------------------------------------------------------------


def crashed_in_the_call(effect: EffectClass, **fields: Any) -> Scenario:
    """A run whose executor died right after the effect."""
    for boundary in range(1, 40):
        life = registered(custom(**fields), step("after"), effect=effect).approve()
        life.crash_at(boundary).run()
        if life.world.effects == ["custom:announce"] and life.crashed and life.states()["tell"] == "running":
            return life
    raise AssertionError("it never died there")


@pytest.mark.parametrize("effect", [EffectClass.READS, EffectClass.REPEATABLE])
def test_what_may_be_done_again_is(effect: EffectClass):
    life = crashed_in_the_call(effect).resume()
    assert life.status() == "completed"
    assert life.world.effects == ["custom:announce"] * 2 + ["after"]
    assert len({key for _, _, key in life.handlers.calls}) == 1


@pytest.mark.parametrize("effect", [EffectClass.OPAQUE, EffectClass.CHECKABLE])
def test_of_what_nobody_can_tell_a_person_is_asked(effect: EffectClass):
    life = crashed_in_the_call(effect).resume().expect(tell="in_doubt")
    assert life.status() == "waiting"
    life.answer("tell", "happened").resume()
    assert life.world.effects == ["custom:announce", "after"]


def test_a_contract_settles_what_is_checkable():
    life = crashed_in_the_call(EffectClass.CHECKABLE, contract="check custom:announce").resume()
    assert life.status() == "completed"
    assert life.world.effects == ["custom:announce", "after"]
    assert [event.settle for _, event in life.history() if isinstance(event, DoubtFound)] == ["contract"]
