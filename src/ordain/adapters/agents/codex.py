"""Codex (`codex exec`): lines of JSON, in a home of its own.

Which tools it has depends on what it knows about the model: with some, a tool that edits files or one that runs
programs stays whatever the settings say, and the tools of servers are hidden behind a search. So it is told about the
model that is to be used as if it were one that nobody knows anything about.
"""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from ordain.adapters.agents.output import NOTHING, in_words, last_line, lines, used
from ordain.adapters.agents.preset import SERVER, Preset, PresetRequest, PresetStart, in_json
from ordain.ports.ports import Finished, Said

_SETTINGS = ".codex/config.toml"
_TAKEN = (
    *("model_provider", "model_providers", "openai_base_url", "chatgpt_base_url"),
    *("model_reasoning_effort", "model_reasoning_summary", "model_supports_reasoning_summaries", "model_verbosity"),
)
"""Who serves the model, and how it is to think."""
_REACHING = ("apps", "plugins", "hooks", "memories", "skill_search", "tool_suggest")
"""Features that bring in what somebody else wrote."""
_ACTING = (
    *("shell_tool", "unified_exec", "multi_agent", "goals", "image_generation", "sleep_tool", "view_image"),
    *("browser_use", "computer_use", "in_app_browser", "code_mode_host"),
)
"""Features that are tools of its own."""
_BARE = re.compile(r"[A-Za-z0-9_-]+")
_INSTRUCTIONS = "You are a careful software engineer. You work through the tools that you are given, and nothing else."


def _start(asked: PresetRequest) -> PresetStart:
    theirs = _read(asked.settings.get(_SETTINGS, b""))
    model = asked.item.model or theirs.get("model")
    if not isinstance(model, str) or not model:
        raise ValueError(f"codex must be told which model to use: in `model`, or in ~/{_SETTINGS}")
    own_tools, home = asked.agent.own_tools, f"{asked.room}/codex"
    settings: dict[str, Any] = {
        **{name: theirs[name] for name in _TAKEN if name in theirs},
        "check_for_update_on_startup": False,
        "project_doc_max_bytes": 0,
        "analytics": {"enabled": False},
        "features": dict.fromkeys((*_REACHING, *(() if own_tools else _ACTING)), False),
        "skills": {"include_instructions": False, "bundled": {"enabled": False}},
    }
    files = {}
    if not own_tools:
        settings |= {"web_search": "disabled", "model_catalog_json": f"{home}/models.json"}
        files["codex/models.json"] = in_json({"models": [_unknown(model)]})
    if asked.server is not None:
        # Without `required` it may begin before the server is there, and then without its tools.
        told = {**asked.told(), "default_tools_approval_mode": "approve", "required": True}
        settings["mcp_servers"] = {SERVER: told}
    files["codex/config.toml"] = "".join(_toml(settings))
    # Its own sandbox works neither in ours nor from a home that is below `/tmp`.
    held = "danger-full-access" if own_tools else "read-only"
    words = ("exec", "--json", "--skip-git-repo-check", "--strict-config", "--ephemeral", "--ignore-rules")
    return PresetStart(
        words=(*words, "--sandbox", held, "--model", model, "-"),
        env={"CODEX_HOME": home},
        files=files,
        own=("codex",),
        logins={"codex/auth.json": ".codex/auth.json"},
        read=_said,
    )


def _unknown(model: str) -> dict[str, Any]:
    """What is said of a model: what must be said, and nothing that brings a tool along."""
    return {
        "slug": model,
        "display_name": model,
        "base_instructions": _INSTRUCTIONS,
        "supported_reasoning_levels": [],
        # Else it is not asked to think aloud, and does not have what it thought in its next turn.
        "supports_reasoning_summaries": model.startswith("gpt-"),
        "supports_parallel_tool_calls": False,
        "support_verbosity": False,
        "experimental_supported_tools": [],
        "shell_type": "default",
        "truncation_policy": {"mode": "tokens", "limit": 10_000},
        "visibility": "list",
        "supported_in_api": True,
        "priority": 0,
    }


def _read(settings: bytes) -> dict[str, Any]:
    try:
        return tomllib.loads(settings.decode())
    except (ValueError, RecursionError):  # it would not start with these itself
        return {}


def _toml(table: Mapping[str, Any], *path: str) -> Iterator[str]:
    """A table with the tables in it. Strings and lists of strings are written alike in TOML and JSON."""
    inner = {name: value for name, value in table.items() if isinstance(value, dict)}
    if path:
        yield f"\n[{'.'.join(map(_key, path))}]\n"
    for name, value in table.items():
        if name not in inner:
            yield f"{_key(name)} = {_inline(value)}\n"
    for name, value in inner.items():
        yield from _toml(value, *path, name)


def _inline(value: Any) -> str:
    if isinstance(value, dict):
        return "{" + ", ".join(f"{_key(name)} = {_inline(one)}" for name, one in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(_inline, value)) + "]"
    if isinstance(value, str | bool | int | float):
        return _quoted(value)
    return f"{value}"  # a date or a time


def _key(name: str) -> str:
    return name if _BARE.fullmatch(name) else _quoted(name)


def _quoted(value: str | float) -> str:
    """As JSON has it, but for a character that only TOML wants escaped."""
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")


class _Item(msgspec.Struct, frozen=True):
    type: str = ""
    text: str = ""


class _CodexUsage(msgspec.Struct, frozen=True):
    input_tokens: float = 0
    output_tokens: float = 0


class _CodexError(msgspec.Struct, frozen=True):
    message: str = ""


class _CodexLine(msgspec.Struct, frozen=True):
    type: str = ""
    item: _Item | None = None
    usage: _CodexUsage | None = None
    error: _CodexError | None = None


def _said(finished: Finished) -> Said:
    text, error, ended, tokens = "", None, False, list[float]()
    for line in lines(finished, _CodexLine):
        if line.type == "item.completed" and line.item is not None and line.item.type == "agent_message":
            text = line.item.text
        elif line.type == "turn.completed":
            ended, error = True, None
            tokens += [line.usage.input_tokens, line.usage.output_tokens] if line.usage is not None else []
        elif line.type == "turn.failed":
            ended, error = True, in_words(line.error.message if line.error is not None else "") or NOTHING
    if not ended:
        error = last_line(finished.errors) or NOTHING
    return Said(text=text.encode("utf-8", "replace"), used=used(tokens), error=error)


CODEX = Preset(program="codex", package="@openai/codex", start=_start, settings=(_SETTINGS,))
