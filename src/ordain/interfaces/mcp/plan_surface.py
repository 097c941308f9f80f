"""Everything that `ordain mcp` offers, and serving it: on standard input and output, or over streams in memory."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, suppress
from typing import Any

import anyio
from mcp.server.stdio import stdio_server
from mcp.shared.message import SessionMessage
from mcp_types import jsonrpc_message_adapter

from ordain import __version__
from ordain.app.app import App
from ordain.core.approval.approval import Principal
from ordain.core.report.report import PlanLine
from ordain.documents.skill import skill_text
from ordain.interfaces.mcp.follow import RunTasks
from ordain.interfaces.mcp.prompts import PLAN_PROMPTS
from ordain.interfaces.mcp.results import preview
from ordain.interfaces.mcp.server import OrdainServer
from ordain.interfaces.mcp.surface import ClientCall, Content, ListedResource, ResourceTemplate, Surface, Workspaces
from ordain.interfaces.mcp.texts import mcp_texts
from ordain.interfaces.mcp.tools import PLAN_TOOLS
from ordain.interfaces.robot import envelope as robot
from ordain.interfaces.view.diff import comparison_result
from ordain.interfaces.view.report import log_result, review_result

# --- What can be read by address: plans and runs, `ordain://plan/…` and `ordain://run/…`, and the skill --------------

Reader = Callable[[ClientCall, Mapping[str, str]], Awaitable[Content]]
LISTED = 30
OUTPUT_MAX = 1 << 20


async def listed_plans(call: ClientCall) -> Sequence[ListedResource]:
    """The skill, and the newest plans of the caller with their newest runs."""
    async with call.app() as app:
        lines = tuple(app.plans.lines(app.plans.owned(call.by)[-LISTED:]))
    skill = ListedResource(*(getattr(PLAN_RESOURCES[0], name) for name in ListedResource._fields))
    return [skill, *(one for line in reversed(lines) for one in _listed(line))]


def new_plans(app: App, by: Principal, seen: int | None) -> tuple[int, bool]:
    """How many plans there are, and whether one of those after the first `seen` is the caller's."""
    count = app.plans.plan_count()
    return count, seen is not None and count > seen and bool(app.plans.owned(by, newest=count - seen))


def _listed(line: PlanLine) -> Iterator[ListedResource]:
    yield ListedResource(f"ordain://plan/{line.lineage}", line.lineage, f"{line.title} ({line.status})")
    if line.last_run is not None:
        yield ListedResource(f"ordain://run/{line.last_run}", line.last_run, f"The newest run of {line.title}")


def _json(value: Any) -> Content:
    return Content(robot.to_json(value).decode())


def _difference(app: App, names: Mapping[str, str]) -> Content:
    return _json(comparison_result(app.plans.diff(app.plans.stored(names["from"]), app.plans.stored(names["id"]))))


def _output(app: App, names: Mapping[str, str]) -> Content:
    found, parts = app.runs.output(names["id"], names["step"])
    data = b"".join(parts)
    whole = found.kept_bytes == found.output_bytes and len(data) <= OUTPUT_MAX
    return Content(app.workspace.redactor().tail(data, OUTPUT_MAX, whole=whole), "text/plain")


async def _read_skill(call: ClientCall, names: Mapping[str, str]) -> Content:
    return Content(skill_text(), "text/markdown")


def _reader(read: Callable[[App, Mapping[str, str]], Content]) -> Reader:
    """Reads what the caller may see: every plan and run that the address names must be theirs."""

    async def read_owned(call: ClientCall, names: Mapping[str, str]) -> Content:
        async with call.app() as app, AsyncExitStack() as stack:
            for name in ("id", "from"):
                if name in names:
                    await stack.enter_async_context(app.refusals.asked_for("resource", names[name], call.by))
            return read(app, names)

    return read_owned


_READERS: dict[str, Reader] = {
    "skill": _read_skill,
    "plan": _reader(lambda app, names: _json(review_result(app.plans.review(names["id"])))),
    "plan-preview": _reader(
        lambda app, names: Content(preview(app.plans.review(names["id"]), "verbose"), "text/plain")
    ),
    "plan-diff": _reader(_difference),
    "run": _reader(lambda app, names: _json(app.runs.run(names["id"]))),
    "run-log": _reader(lambda app, names: _json(log_result(app.plans.log(names["id"])))),
    "step-output": _reader(_output),
}
"""Who reads each kind. What is said of it is in `data/mcp.toml`."""
_GROWING = ("plan", "run")

PLAN_RESOURCES = tuple(
    ResourceTemplate(
        name=name,
        read=read,
        size=(lambda app, names: app.plans.recorded(names["id"])) if name in _GROWING else None,
        **mcp_texts()["resources"][name],
    )
    for name, read in _READERS.items()
)

# --- The surface, and serving it -------------------------------------------------------------------------------------

PLAN_SURFACE = Surface(
    name="ordain",
    title="Ordain",
    version=__version__,
    instructions=mcp_texts()["instructions"],
    tools=PLAN_TOOLS,
    resources=listed_plans,
    news=new_plans,
    templates=PLAN_RESOURCES,
    prompts=PLAN_PROMPTS,
    tasks=RunTasks(),
)


def serve_stdio(workspaces: Workspaces, user: str) -> None:
    """Serve one client, which started this process and is the user it runs as, until it closes the stream."""
    server = OrdainServer(PLAN_SURFACE, workspaces, lambda context: user).lowlevel

    async def serve() -> None:
        async with stdio_server() as (reading, writing):
            await server.run(reading, writing, server.create_initialization_options())

    anyio.run(serve)


class OwnServer:
    """ports.Upstream with a server in this process, which the gateway has behind it."""

    noise = ""

    def __init__(self, workspaces: Workspaces, caller: str) -> None:
        server = OrdainServer(PLAN_SURFACE, workspaces, lambda context: caller).lowlevel
        self._in, reading = anyio.create_memory_object_stream[Any](float("inf"))
        writing, self._out = anyio.create_memory_object_stream[Any](0)
        options = server.create_initialization_options()
        self._task = asyncio.create_task(server.run(reading, writing, options))

    def send(self, message: Mapping[str, Any]) -> None:
        with suppress(ValueError):  # what is no message to the SDK it would not take either
            self._in.send_nowait(SessionMessage(jsonrpc_message_adapter.validate_python(message)))

    async def messages(self) -> AsyncIterator[dict[str, Any]]:
        async for one in self._out:
            yield one.message.model_dump(by_alias=True, mode="json", exclude_unset=True)

    async def close(self) -> None:
        self._in.close()
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)
        self._out.close()
