"""opencode (`opencode run`): lines of JSON, with directories of its own for everything it keeps."""

from __future__ import annotations

from typing import Any

import msgspec

from ordain.adapters.agents.output import NOTHING, in_words, last_line, lines, used
from ordain.adapters.agents.preset import SERVER, Preset, PresetRequest, PresetStart, in_json
from ordain.ports.ports import Finished, Said

_SETTINGS = ".config/opencode/opencode.json"
_TAKEN = ("provider", "model", "small_model", "enabled_providers", "disabled_providers")
"""Who serves the model, and which it is where nobody says."""
_OFF = (
    *("AUTOUPDATE", "DEFAULT_PLUGINS", "LSP_DOWNLOAD", "MODELS_FETCH"),
    *("PROJECT_CONFIG", "CLAUDE_CODE", "EXTERNAL_SKILLS"),
)
_PLACES = ("config", "data", "state", "cache")


def _start(asked: PresetRequest) -> PresetStart:
    room, model = f"{asked.room}/opencode", asked.item.model
    theirs = _read(asked.settings.get(_SETTINGS, b""))
    settings: dict[str, Any] = {
        **{name: theirs[name] for name in _TAKEN if name in theirs},
        "autoupdate": False,
        "share": "disabled",
        # Of what is denied the model is not told, and it is refused when it is called all the same.
        "permission": {"*": "allow"} if asked.agent.own_tools else {"*": "deny", f"{SERVER}_*": "allow"},
        "mcp": {},
    }
    if asked.server is not None:
        told = {"type": "local", "command": list(asked.server.argv), "environment": dict(asked.server.env)}
        settings["mcp"] = {SERVER: told}
    # A package for writing plug-ins with is installed, unless it looks installed.
    lock = {"packages": {"": {"dependencies": {"@opencode-ai/plugin": "*"}}}}
    return PresetStart(
        # With a title, no model is asked for one.
        words=("run", "--format", "json", "--pure", "--title", "ordain", *(("--model", model) if model else ())),
        env={
            "OPENCODE_CONFIG": f"{room}/settings.json",
            **{f"XDG_{name.upper()}_HOME": f"{room}/{name}" for name in _PLACES},
            **{f"OPENCODE_DISABLE_{name}": "1" for name in _OFF},
        },
        files={
            "opencode/settings.json": in_json(settings),
            "opencode/config/opencode/package-lock.json": in_json(lock),
            "opencode/config/opencode/node_modules/.keep": "",
        },
        own=("opencode",),
        logins={"opencode/data/opencode/auth.json": ".local/share/opencode/auth.json"},
        read=_said,
    )


def _read(settings: bytes) -> dict[str, Any]:
    try:
        return msgspec.json.decode(settings, type=dict[str, Any])
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return {}


class _Tokens(msgspec.Struct, frozen=True):
    total: float = 0


class _Part(msgspec.Struct, frozen=True):
    text: str = ""
    message: str = msgspec.field(name="messageID", default="")
    tokens: _Tokens = _Tokens()
    cost: float = 0


class _Data(msgspec.Struct, frozen=True):
    message: str = ""
    status: int | None = msgspec.field(name="statusCode", default=None)


class _Error(msgspec.Struct, frozen=True):
    name: str = ""
    data: _Data = _Data()


class _OpencodeLine(msgspec.Struct, frozen=True):
    type: str = ""
    part: _Part = _Part()
    error: _Error | None = None


def _said(finished: Finished) -> Said:
    texts, last, error, ended = list[str](), "", None, False
    tokens, costs = list[float](), list[float]()
    for line in lines(finished, _OpencodeLine):
        if line.type == "text":
            texts = [*(texts if line.part.message == last else ()), line.part.text]
            last = line.part.message
        elif line.type == "step_finish":
            ended = True
            tokens.append(line.part.tokens.total)
            costs.append(line.part.cost)
        elif line.type == "error" and line.error is not None:
            status = f"{line.error.data.status} " if line.error.data.status is not None else ""
            error = in_words(f"{status}{line.error.data.message or line.error.name}") or NOTHING
    if not ended and error is None:
        error = last_line(finished.errors) or NOTHING
    return Said(text="\n".join(texts).encode("utf-8", "replace"), used=used(tokens, costs), error=error)


OPENCODE = Preset(program="opencode", package="opencode-ai", start=_start, settings=(_SETTINGS,))
