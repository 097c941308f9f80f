"""Gemini CLI (`gemini`): one object of JSON when it ends, on standard error where it ends badly."""

from __future__ import annotations

from typing import Any

import msgspec

from ordain.adapters.agents.output import in_words, object_in, objects, text_of, unread, used
from ordain.adapters.agents.preset import SERVER, Preset, PresetRequest, PresetStart, in_json
from ordain.ports.ports import Finished, Said

_SETTINGS = ".gemini/settings.json"
_KEY = "GEMINI_API_KEY"
_POLICY = f"""\
[[rule]]
toolName = "*"
decision = "deny"
priority = 900

[[rule]]
mcpName = "{SERVER}"
toolName = "*"
decision = "allow"
priority = 990
"""
"""What the model is offered, and what is refused when it is called all the same."""


def _start(asked: PresetRequest) -> PresetStart:
    own_tools, room, model = asked.agent.own_tools, asked.room, asked.item.model
    settings: dict[str, Any] = {
        "privacy": {"usageStatisticsEnabled": False},
        "telemetry": {"enabled": False},
        "general": {"enableAutoUpdate": False, "enableAutoUpdateNotification": False},
        "skills": {"enabled": False},
        "hooksConfig": {"enabled": False},
        "experimental": {"enableAgents": False},
        # What it asks a server of before every call, it asks nobody.
        "mcpServers": {SERVER: {**asked.told(), "trust": True}} if asked.server is not None else {},
    }
    if not own_tools:
        # They are not even there then. One that is there and denied takes a tool of a server with its name along.
        settings["tools"] = {"core": ["none"]}
    signing_in = _signing_in(asked.settings.get(_SETTINGS, b""))
    if signing_in is None and _KEY in asked.agent.env:
        signing_in = "gemini-api-key"  # it guesses, and wrongly where it is told of another server besides
    if signing_in is not None:
        settings["security"] = {"auth": {"selectedType": signing_in}}
    return PresetStart(
        words=(
            *("--output-format", "json", "--allowed-mcp-server-names", SERVER, "--extensions", "none"),
            *(("--approval-mode", "yolo") if own_tools else ("--admin-policy", f"{room}/policy.toml")),
            *(("--model", model) if model else ()),
        ),
        env={
            "GEMINI_CLI_HOME": f"{room}/gemini",
            "GEMINI_CLI_TRUST_WORKSPACE": "true",
            # It starts itself a second time otherwise, and the first does not end when it is told to.
            "GEMINI_CLI_NO_RELAUNCH": "true",
            "TMPDIR": f"{room}/gemini/tmp",
        },
        files={f"gemini/{_SETTINGS}": in_json(settings), "policy.toml": _POLICY, "gemini/tmp/.keep": ""},
        own=("gemini",),
        logins={f"gemini/.gemini/{name}": f".gemini/{name}" for name in ("oauth_creds.json", "google_accounts.json")},
        read=_said,
    )


class _Auth(msgspec.Struct, frozen=True):
    selected: str | None = msgspec.field(name="selectedType", default=None)


class _Security(msgspec.Struct, frozen=True):
    auth: _Auth = _Auth()


class _Settings(msgspec.Struct, frozen=True):
    security: _Security = _Security()


def _signing_in(settings: bytes) -> str | None:
    """How the user has it sign in; where they do not say, it looks at the variables that it has."""
    try:
        return msgspec.json.decode(settings, type=_Settings).security.auth.selected
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return None


class _GeminiTokens(msgspec.Struct, frozen=True):
    total: float = 0


class _Model(msgspec.Struct, frozen=True):
    tokens: _GeminiTokens = _GeminiTokens()


class _Stats(msgspec.Struct, frozen=True):
    models: dict[str, _Model] = {}


class _Ended(msgspec.Struct, frozen=True):
    response: str | None = None
    stats: _Stats = _Stats()
    error: Any = None


def _said(finished: Finished) -> Said:
    told = next((one["error"] for one in objects(finished.errors) if "error" in one), None)
    ended = object_in(finished, _Ended)
    if ended is None and told is None:
        return unread(finished)
    ended = ended if ended is not None else _Ended()
    fault = ended.error or (told if ended.response is None else None)
    error = None
    if fault is not None:
        message = fault.get("message") if isinstance(fault, dict) else fault
        error = in_words(message if isinstance(message, str) else text_of(fault).decode())
    tokens = [model.tokens.total for model in ended.stats.models.values()]
    return Said(text=text_of(ended.response), used=used(tokens), error=error)


GEMINI = Preset(program="gemini", package="@google/gemini-cli", start=_start, settings=(_SETTINGS,))
