"""Handlers of custom actions that are Python callables."""

import asyncio
import threading
import time
from typing import Any

import pytest

import ordain
from tests.build import plan, step
from tests.words import Custom, EffectClass, Handler, PythonHandlers, ToolDefinition, ToolResult, open_at_terminal

KIM = ordain.Principal(name="kim", channel=ordain.Channel.TERMINAL)


def call(handlers: PythonHandlers, name: str, payload: Any = None) -> ToolResult:
    return asyncio.run(handlers.call(handlers.registered()[f"custom:{name}"], payload, "key-1"))


def named(python: str) -> ToolDefinition:
    return ToolDefinition(name="custom:x", description="", effect=EffectClass.OPAQUE, python=python)


def both(payload: Any, key: str) -> Any:
    """What the configuration names in a test below."""
    return [payload, key]


async def slowly(payload: Any, key: str) -> Any:
    await asyncio.sleep(0)
    return {"got": payload, "key": key}


def raises(payload: Any, key: str) -> Any:
    raise TimeoutError("the others do not answer")


def test_functions_and_coroutine_functions_get_payload_and_key():
    handlers = PythonHandlers({"plain": both, "async": slowly})
    assert call(handlers, "plain", {"a": 1}).value == [{"a": 1}, "key-1"]
    assert call(handlers, "async", 2).value == {"got": 2, "key": "key-1"}


def test_what_it_raises_is_a_failure_and_so_is_what_json_cannot_say():
    handlers = PythonHandlers({"raises": raises, "odd": lambda payload, key: object()})
    assert call(handlers, "raises").detail == "it raised TimeoutError('the others do not answer')"
    result = call(handlers, "odd")
    assert result.error == "F_STEP_FAILED" and "JSON cannot say" in result.detail


def test_one_that_the_configuration_names_is_imported():
    result = asyncio.run(PythonHandlers().call(named("tests.adapters.test_handlers:both"), 1, "k"))
    assert result.value == [1, "k"]
    for wrong in ("tests.nowhere:both", "tests.adapters.test_handlers:nobody"):
        result = asyncio.run(PythonHandlers().call(named(wrong), 1, "k"))
        assert result.error == "F_STEP_FAILED" and "cannot be imported" in result.detail


def test_one_of_another_program_is_not_called():
    theirs = PythonHandlers({"x": both}).registered()["custom:x"]
    assert "not registered" in asyncio.run(PythonHandlers().call(theirs, 1, "k")).detail


def test_a_call_that_is_cancelled_is_finished():
    begun, ended = threading.Event(), threading.Event()

    def slow(payload: Any, key: str) -> str:
        begun.set()
        time.sleep(0.05)
        ended.set()
        return "done"

    async def cancelled() -> ToolResult:
        handlers = PythonHandlers({"slow": slow})
        task = asyncio.create_task(handlers.call(handlers.registered()["custom:slow"], None, "k"))
        await asyncio.to_thread(begun.wait)
        task.cancel()
        return await task

    assert asyncio.run(cancelled()).value == "done" and ended.is_set()


@pytest.mark.parametrize(("effect", "atomic"), [("opaque", False), ("checkable", True), ("reads", False)])
def test_what_is_registered_says_what_it_is(effect: str, atomic: bool):
    handlers = PythonHandlers({"tell": Handler(both, effect=effect, destructive=True, description="Tells.")})
    assert handlers.registered()["custom:tell"] == ToolDefinition(
        name="custom:tell",
        description="Tells.",
        effect=EffectClass(effect),
        atomic=atomic,
        destructive=True,
        python="tests.adapters.test_handlers:both",
        registered=True,
    )


def test_a_program_that_uses_us_registers_its_own(tmp_path):
    told: list[Any] = []
    handlers = {"announce": Handler(lambda payload, key: told.append(payload), effect="repeatable")}
    made = plan(step("tell", action=Custom(action_type="announce", payload={"text": "hello"})))

    async def life() -> Any:
        app = open_at_terminal(tmp_path, exact=True, handlers=handlers)
        prepared = await app.plans.prepare_plan(made, KIM)
        await app.approvals.approve(prepared.review.plan_id, KIM)
        report = await app.runs.commit(prepared.review.plan_id, KIM)
        await app.close()
        return report

    assert asyncio.run(life()).status == "completed"
    assert told == [{"text": "hello"}]
