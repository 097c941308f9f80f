"""Python functions as tools: what is read from them, what they are called with, and what becomes of it."""

import asyncio
import dataclasses
import threading
import time
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
import pytest

import ordain
from tests import tool_functions
from tests.build import plan, step
from tests.scenario import Scenario
from tests.words import (
    App,
    CallTool,
    EffectClass,
    PythonTools,
    Refused,
    Style,
    ToolResult,
    ToolSource,
    ToolSources,
    argument_faults,
    open_at_terminal,
    review_lines,
)

KIM = ordain.Principal(name="kim", channel=ordain.Channel.TERMINAL)


@dataclasses.dataclass
class Place:
    town: str
    floor: int = 0


class Guest(msgspec.Struct):
    name: str


@ordain.tool(effect="repeatable", destructive=True, atomic=True)
def invite(
    guests: list[Guest],
    place: Place,
    kind: Literal["tea", "dinner"] = "tea",
    note: str | None = None,
    seats: Annotated[int, msgspec.Meta(ge=1, description="How many.")] = 4,
    more: dict[str, float] | None = None,
) -> Any:
    """Invite people.

    Nothing is sent twice."""
    return {"names": [guest.name for guest in guests], "floor": place.floor, "kind": kind, "seats": seats}


def call(tools: PythonTools, name: str, **args: Any) -> ToolResult:
    return asyncio.run(tools.call(tools.registered()[name], args, "key-1"))


def test_what_a_function_declares_is_read_from_it():
    definition = PythonTools([invite]).registered()["invite"]
    assert (definition.effect, definition.destructive, definition.atomic) == (EffectClass.REPEATABLE, True, True)
    assert definition.description.startswith("Invite people.")
    assert definition.schema is not None
    assert definition.schema["required"] == ["guests", "place"]
    assert definition.schema["additionalProperties"] is False
    assert definition.schema["properties"]["seats"] == {"type": "integer", "minimum": 1, "description": "How many."}
    assert definition.schema["properties"]["kind"] == {"enum": ["dinner", "tea"]}


def test_a_plain_function_is_opaque():
    def plain(a, b=1):
        return [a, b]

    assert PythonTools([plain]).registered()["plain"].effect is EffectClass.OPAQUE
    assert call(PythonTools([plain]), "plain", a={"x": None}).value == [{"x": None}, 1]


def test_arguments_come_as_the_types_of_the_signature():
    result = call(PythonTools([invite]), "invite", guests=[{"name": "Ann"}], place={"town": "Ulm", "floor": 2})
    assert result.value == {"names": ["Ann"], "floor": 2, "kind": "tea", "seats": 4}


def test_every_fault_of_the_arguments_names_its_argument():
    definition = PythonTools([invite]).registered()["invite"]
    args = {"guests": [{"name": 5}], "kind": "lunch", "seats": 0, "sets": 1}
    assert [sentence for sentence, _ in argument_faults(definition, args)] == [
        "`invite` takes no argument `sets`.",
        "`invite` needs the argument `place`.",
        "`invite`: `name` of item 1 of `guests` should be a text.",
        "`invite`: `kind` should be one of dinner, tea.",
        "`invite`: `seats` should be at least 1.",
    ]
    result = call(PythonTools([invite]), "invite", **args)
    assert result.error == "F_STEP_FAILED" and "do not fit" in result.detail


def test_one_that_wants_the_step_key_gets_it_and_it_is_no_argument():
    def send(text: str, step_key: str) -> list[str]:
        return [text, step_key]

    tools = PythonTools([send])
    assert tools.registered()["send"].schema == {
        "type": "object",
        "properties": {"text": {"type": "string"}},
        "required": ["text"],
        "additionalProperties": False,
    }
    assert call(tools, "send", text="x").value == ["x", "key-1"]


def test_coroutine_functions_and_what_goes_wrong():
    async def slowly(a: int) -> int:
        await asyncio.sleep(0)
        return a

    def raises() -> None:
        raise TimeoutError("the others do not answer")

    def odd() -> Any:
        return object()

    tools = PythonTools([slowly, raises, odd])
    assert call(tools, "slowly", a=3).value == 3
    assert call(tools, "raises").detail == "it raised TimeoutError('the others do not answer')"
    assert "JSON cannot say" in call(tools, "odd").detail


def test_a_call_that_is_cancelled_is_finished():
    begun, ended = threading.Event(), threading.Event()

    def slow() -> str:
        begun.set()
        time.sleep(0.05)
        ended.set()
        return "done"

    async def cancelled() -> ToolResult:
        tools = PythonTools([slow])
        task = asyncio.create_task(tools.call(tools.registered()["slow"], {}, "k"))
        await asyncio.to_thread(begun.wait)
        task.cancel()
        return await task

    assert asyncio.run(cancelled()).value == "done" and ended.is_set()


def test_operations_of_one_tool():
    @ordain.tool(name="mail", operation="send")
    def send_mail(to: str) -> str:
        """Send it."""
        return f"sent to {to}"

    assert call(PythonTools([send_mail]), "mail:send", to="ann").value == "sent to ann"
    listed = PythonTools().definitions("tickets", "tests.tool_functions:TICKETS")
    assert {name: one.destructive for name, one in listed.items()} == {"tickets:close": False, "tickets:drop": True}
    result = asyncio.run(PythonTools().call(listed["tickets:close"], {"number": 7}, "k"))
    assert result.value == "7 is closed: done"


@pytest.mark.parametrize("python", ["tests.nowhere:x", "tests.tool_functions:nobody", "tests.tool_functions:__name__"])
def test_what_cannot_be_imported_or_called_is_refused(python: str):
    with pytest.raises(Refused) as refused:
        PythonTools().definitions("x", python)
    assert refused.value.problems[0].code == "E_TOOL_SOURCE" and python in refused.value.problems[0].detail


def test_what_cannot_be_a_tool_is_said_when_it_is_declared():
    with pytest.raises(TypeError, match="by their names"):

        @ordain.tool
        def several(*names: str) -> None: ...

    for name in ("shell", "custom", "reads", "a b"):

        @ordain.tool(name=name)
        def function() -> None: ...

        with pytest.raises(ValueError, match="can"):
            PythonTools([function])
    with pytest.raises(ValueError, match="two tools are called close"):
        PythonTools([tool_functions.close, tool_functions.close])
    with pytest.raises(ValueError, match="two tools are called read_file"):
        open_at_terminal(".", tools=[ordain.tool(name="read_file")(lambda path: path)])


def test_a_changed_function_is_not_called():
    definition = PythonTools([tool_functions.add]).registered()["add"]

    def add(left: int) -> int:
        return left

    assert "not here as it was" in asyncio.run(PythonTools([add]).call(definition, {"left": 1}, "k")).detail


# --- In a workspace --------------------------------------------------------------------------------------------------


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("TICKETS_TOKEN", "a-very-secret-value")
    (tmp_path / "here").mkdir()
    return tmp_path / "here"


def carried_out(app: App, *steps: Any) -> Any:
    async def run() -> Any:
        prepared = await app.plans.prepare_plan(plan(*steps), KIM)
        plan_id = prepared.review.plan_id
        if prepared.review.requires_approval:
            await app.approvals.approve(plan_id, KIM)
        report = await app.runs.commit(plan_id, KIM)
        await app.close()
        return report

    return asyncio.run(run())


def using(tool: str, operation: str | None = None, name: str = "use", **args: Any) -> Any:
    return step(name, action=CallTool(tool=tool, operation=operation, args=args))


def test_a_tool_that_only_reads_needs_no_approval_and_its_result_can_be_referred_to(place: Path):
    app = open_at_terminal(place, exact=True, tools=[tool_functions.add])
    later = using("add", name="more", left="${use.output.sum}", right=1)
    report = carried_out(app, using("add", left=20, right=1), later)
    assert report.status == "completed"
    assert '"sum": 22' in report.steps[1].output_tail


def test_a_secret_reaches_the_call_and_nothing_else(place: Path, tmp_path: Path):
    seen: list[str] = []

    @ordain.tool(effect="reads")
    def look(token: str, other: str) -> list[str]:
        """Look it up."""
        seen.extend([token, other])
        return [token]

    app = open_at_terminal(place, exact=True, tools=[look, tool_functions.add])
    # What a step gave is never a reference to a secret, whatever it looks like.
    giving = step("give", action=ordain.RunCommand(command="printf 'secret:TICKETS_TOKEN'"))
    both = using("look", token="secret:TICKETS_TOKEN", other="${give.output}")
    report = carried_out(app, giving, both)
    assert report.status == "completed"
    assert seen == ["a-very-secret-value", "secret:TICKETS_TOKEN"]
    written = b"".join(file.read_bytes() for file in tmp_path.rglob("*") if file.is_file())
    assert b"a-very-secret-value" not in written and b"secret:TICKETS_TOKEN" in written


def test_a_secret_that_is_not_set_fails_the_step_before_it_begins(place: Path):
    app = open_at_terminal(place, exact=True, tools=[tool_functions.add])
    report = carried_out(app, using("add", left=1, token="secret:NOBODYS_TOKEN"))
    assert report.status == "failed" and "NOBODYS_TOKEN is not set" in report.steps[0].evidence


def test_the_preview_says_which_secrets_a_call_is_handed(place: Path):
    app = open_at_terminal(place, exact=True, tools=[tool_functions.add])

    async def shown() -> list[str]:
        prepared = await app.plans.prepare_plan(plan(using("add", left=1, token="secret:TICKETS_TOKEN")), KIM)
        await app.close()
        return list(review_lines(prepared.review, Style(colour=False)))

    assert "    hands secret TICKETS_TOKEN to add (step use)" in asyncio.run(shown())


# --- Named by the configuration --------------------------------------------------------------------------------------


def configured(text: str, *steps: Any) -> Scenario:
    life = Scenario(*steps)
    life.workspace.configuration_text = text.encode()
    asyncio.run(life.app.approvals.trust(life.app.approvals.configuration()[1], KIM))
    return life


TICKETS = '[tools.tickets]\npython = "tests.tool_functions:TICKETS"\n[policy]\nallow = ["reads", "tickets:close"]\n'


def test_one_that_the_configuration_names_is_called_and_policy_knows_its_operations():
    life = configured(TICKETS, using("tickets", "close", number=3)).prepare()
    assert not life.app.plans.review(str(life.plan_id)).requires_approval
    assert life.run().status() == "completed"
    life = configured(TICKETS, using("tickets", "drop", number=3)).prepare()
    assert life.app.plans.review(str(life.plan_id)).requires_approval


def test_a_definition_that_changed_since_voids_the_approval(monkeypatch: pytest.MonkeyPatch):
    life = configured(TICKETS, using("tickets", "drop", number=3)).approve()

    @ordain.tool(destructive=True)
    def drop(number: int) -> None:
        """Forget a ticket, and whoever wrote it."""

    monkeypatch.setattr(tool_functions, "TICKETS", [drop])
    life.app = life.new_app()
    with pytest.raises(Refused) as refused:
        asyncio.run(life.app.runs.commit(str(life.plan_id), KIM))
    problem = refused.value.problems[0]
    assert problem.code == "E_PLAN_STALE_BASE" and "`tickets:drop`" in problem.detail


def test_a_run_keeps_what_it_was_started_with_and_calls_nothing_else(monkeypatch: pytest.MonkeyPatch):
    life = configured(TICKETS, step("first"), using("tickets", "close", number=3)).approve()
    app = life.app
    life.report = asyncio.run(app.runs.commit(str(life.plan_id), KIM, lambda recorded: app.runs.stop() and None))

    @ordain.tool(effect="repeatable")
    def close(number: int) -> str:
        """Close all tickets."""
        raise AssertionError("called")

    monkeypatch.setattr(tool_functions, "TICKETS", [close])
    life.app = life.new_app()
    life.resume().expect(use="failed")
    assert life.report is not None and "not here as it was" in (life.report.steps[1].evidence or "")


def test_no_tool_takes_the_name_of_one_that_is_built_in():
    with pytest.raises(Refused) as refused:
        configured('[tools.write_file]\npython = "tests.tool_functions:add"\n')
    assert refused.value.problems[0].code == "E_CONFIG" and "write_file" in refused.value.problems[0].detail


# --- Plugins ---------------------------------------------------------------------------------------------------------


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A package with two plugins, installed where Python finds it."""
    info = tmp_path / "our_tools-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: our-tools\nVersion: 1.0\n")
    named = "desk = tests.tool_functions:TICKETS\nbroken = tests.nowhere:x\n"
    (info / "entry_points.txt").write_text(f"[ordain.tools]\n{named}")
    monkeypatch.syspath_prepend(str(tmp_path))


def test_a_plugin_counts_where_the_configuration_names_it(installed: None):
    sources = ToolSources(Path("/nowhere"))
    found = sources.definitions("tickets", ToolSource(plugin="desk"), lambda name: None)
    assert list(found) == ["tickets:close", "tickets:drop"] and not sources.registered()
    result = asyncio.run(sources.call(found["tickets:close"], {"number": 1}, "k", lambda name: None))
    assert result.value == "1 is closed: done"


@pytest.mark.parametrize(
    ("plugin", "why"),
    [("dsk", "there is no such plugin"), ("our-tools", "several plugins"), ("broken", "tests.nowhere")],
)
def test_a_plugin_that_cannot_be_had_is_refused(installed: None, plugin: str, why: str):
    with pytest.raises(Refused) as refused:
        ToolSources(Path("/nowhere")).definitions("tickets", ToolSource(plugin=plugin), lambda name: None)
    problem = refused.value.problems[0]
    assert problem.code == "E_TOOL_SOURCE" and why in problem.detail
