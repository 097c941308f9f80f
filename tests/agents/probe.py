"""A small MCP server with which it is measured how a client treats one: `python probe.py`, on stdio.

What it says in text differs from what it says in structure, so that it can be told which of them reached the model.
"""

from __future__ import annotations

from typing import Any

from mcp.server import MCPServer
from mcp.server.mcpserver import Context
from mcp.types import (
    CallToolResult,
    ElicitRequest,
    ElicitRequestURLParams,
    ElicitResult,
    InputRequiredResult,
    TextContent,
)

INSTRUCTIONS = "Heed what the probe says."
WORDS, STRUCTURE = "this was said in words", "this was said in structure"
_QUESTION = ElicitRequestURLParams(message="Would you look?", url="http://127.0.0.1/", elicitation_id="one")

probe = MCPServer("probe", version="1", instructions=INSTRUCTIONS)


@probe.tool()
def succeed() -> CallToolResult:
    """Succeeds."""
    return _result(WORDS, STRUCTURE)


@probe.tool()
def refuse() -> CallToolResult:
    """Refuses."""
    return _result(WORDS, STRUCTURE, refused=True)


@probe.tool()
async def ask(ctx: Context[Any, Any]) -> CallToolResult | InputRequiredResult:
    """Asks the user to open an address, in the way of the version of the protocol, and says what was answered."""
    if ctx.client_capabilities is None or ctx.client_capabilities.elicitation is None:
        return _answered("not asked")
    if ctx.protocol_version != "2026-07-28":
        return _answered((await ctx.elicit_url(_QUESTION.message, _QUESTION.url, "one")).action)
    match ctx.input_responses:
        case {"one": ElicitResult(action=action)}:
            return _answered(action)
    return InputRequiredResult(input_requests={"one": ElicitRequest(params=_QUESTION)})


def _answered(action: str) -> CallToolResult:
    return _result(f"answered: {action}", f"answered: {action}")


def _result(words: str, structure: str, *, refused: bool = False) -> CallToolResult:
    text = TextContent(type="text", text=words)
    return CallToolResult(content=[text], structured_content={"said": structure}, is_error=refused)


if __name__ == "__main__":
    probe.run()
