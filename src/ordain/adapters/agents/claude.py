"""Claude Code (`claude`): one object of JSON when it ends."""

from __future__ import annotations

from typing import Any

import msgspec

from ordain.adapters.agents.output import in_words, object_in, text_of, unread, used
from ordain.adapters.agents.preset import SERVER, Preset, PresetRequest, PresetStart, in_json
from ordain.ports.ports import Finished, Said

_OWN_TOOLS = "Bash,Edit,Glob,Grep,NotebookEdit,Read,Skill,Task,TodoWrite,WebFetch,WebSearch,Write"
_TOKENS = ("inputTokens", "outputTokens", "cacheReadInputTokens", "cacheCreationInputTokens")
_USAGE = ("input_tokens", "output_tokens", "cache_read_input_tokens", "cache_creation_input_tokens", "tokens")


def _start(asked: PresetRequest) -> PresetStart:
    own_tools, room, model = asked.agent.own_tools, asked.room, asked.item.model
    allowed = [f"mcp__{SERVER}"] * (asked.server is not None) + [_OWN_TOOLS] * own_tools
    # Tools are hidden until the model searches for them, unless a server says that it always wants to be shown.
    server = {SERVER: {**asked.told(), "alwaysLoad": True}} if asked.server is not None else {}
    return PresetStart(
        words=(
            *("--print", "--output-format", "json", "--no-session-persistence"),
            # Neither the user's settings, hooks and memories, nor those of a project, nor servers of either.
            *("--setting-sources", "", "--strict-mcp-config", "--mcp-config", f"{room}/mcp.json"),
            # Whatever is not allowed here is refused: there is nobody to be asked.
            *("--permission-mode", "dontAsk"),
            *(("--allowedTools", ",".join(allowed)) if allowed else ()),
            *(() if own_tools else ("--tools", "")),
            *(("--model", model) if model else ()),
        ),
        env={
            # For the hook of managed settings, which is asked about its own tools too: the door says what may be.
            **(asked.server.env if asked.server is not None else {}),
            "CLAUDE_CONFIG_DIR": f"{room}/claude",
            "XDG_CACHE_HOME": f"{room}/claude/cache",
            "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
            "DISABLE_AUTOUPDATER": "1",
        },
        files={"mcp.json": in_json({"mcpServers": server})},
        own=("claude",),
        logins={"claude/.credentials.json": ".claude/.credentials.json"},
        read=read_object,
    )


class _Result(msgspec.Struct, frozen=True):
    result: Any = None
    is_error: bool = False
    subtype: str = ""
    errors: list[str] = []
    total_cost_usd: float | None = None
    usage: dict[str, Any] | None = None
    by_model: dict[str, dict[str, Any]] = msgspec.field(name="modelUsage", default_factory=dict)
    """With all that it asked models beside the conversation."""


def read_object(finished: Finished) -> Said:
    """One object: `result` is what it says, `usage` and `total_cost_usd` what it used; `is_error` decides, for the
    `subtype` of an answer that a server did not give is `success`."""
    said = object_in(finished, _Result)
    if said is None:
        return unread(finished)
    counts = [counted.get(name) for counted in said.by_model.values() for name in _TOKENS]
    if not counts:
        counts = [(said.usage or {}).get(name) for name in _USAGE]
    error = None
    if said.is_error:
        error = in_words("; ".join(said.errors) or text_of(said.result).decode() or said.subtype or "it says no more")
    tokens = [one for one in counts if isinstance(one, int | float) and not isinstance(one, bool)]
    cost = () if said.total_cost_usd is None else (said.total_cost_usd,)
    return Said(text=text_of(said.result), used=used(tokens, cost), error=error)


CLAUDE = Preset(program="claude", package="@anthropic-ai/claude-code", start=_start)
