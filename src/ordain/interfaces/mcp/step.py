"""The tools of one step as an MCP server, for the agent that carries it out. It decides nothing: it hands each call on
to the executor of the run, also one of a tool that there is not, and tells what that answers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import anyio
import mcp_types as types
from mcp.server.lowlevel import Server
from mcp.server.stdio import stdio_server
from mcp.shared.exceptions import MCPError

from ordain import __version__
from ordain.core.task.offer import CallAnswer, Offer, answer_texts
from ordain.core.text.problem import Refused
from ordain.interfaces.mcp.subscription import Context
from ordain.interfaces.mcp.tasks import refusal_words
from ordain.interfaces.mcp.texts import mcp_texts
from ordain.ports.agent import StepDoor


def serve_step(enter: Callable[[], StepDoor]) -> None:
    """Serve on standard input and output until the client closes them; raises Refused where there is no door."""

    async def serve() -> None:
        tools = enter()

        async def listed(context: Context, params: object) -> types.ListToolsResult:
            try:
                return types.ListToolsResult(tools=[_tool(one) for one in await tools.offers()])
            except Refused as refused:
                raise MCPError(types.INTERNAL_ERROR, refusal_words(refused.problems)) from refused

        async def called(context: Context, params: types.CallToolRequestParams) -> types.CallToolResult:
            try:
                return _result(await tools.call(params.name, params.arguments or {}))
            except Refused as refused:
                return _result(CallAnswer(problem=refused.problems[0]))

        server: Server[Any] = Server(
            "ordain",
            version=__version__,
            title="The tools of this step",
            instructions=mcp_texts()["step"],
            on_list_tools=listed,
            on_call_tool=called,
        )
        async with stdio_server() as (reading, writing):
            await server.run(reading, writing, server.create_initialization_options())

    anyio.run(serve)


def _tool(offer: Offer) -> types.Tool:
    return types.Tool(
        name=offer.name,
        title=offer.title,
        description=offer.description,
        input_schema=dict(offer.schema),
        annotations=types.ToolAnnotations(
            title=offer.title,
            read_only_hint=offer.reads,
            destructive_hint=offer.destructive,
            idempotent_hint=offer.repeatable,
            open_world_hint=offer.outside,
        ),
    )


def _result(answer: CallAnswer) -> types.CallToolResult:
    return types.CallToolResult(
        content=[types.TextContent(type="text", text=one) for one in answer_texts(answer)],
        structured_content=dict(answer.value) if answer.value is not None else None,
        is_error=answer.problem is not None,
    )
