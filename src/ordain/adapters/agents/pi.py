"""pi: lines of JSON. It knows no tool servers, so it is given an extension that brings the tools of the step's in."""

from __future__ import annotations

from importlib import resources

import msgspec

from ordain.adapters.agents.output import NOTHING, in_words, last_line, lines, used
from ordain.adapters.agents.preset import SERVER, Preset, PresetRequest, PresetStart, in_json
from ordain.ports.ports import Finished, Said


def _start(asked: PresetRequest) -> PresetStart:
    room, model = asked.room, asked.item.model
    files = {}
    if asked.server is not None:
        files = {"server.json": in_json({"name": SERVER, **asked.told()}), "bridge.mjs": _bridge()}
    return PresetStart(
        words=(
            *("--mode", "json", "--no-session", "--offline", "--no-approve"),
            *("--no-extensions", "--no-skills", "--no-prompt-templates", "--no-themes", "--no-context-files"),
            *(("--extension", f"{room}/bridge.mjs") if asked.server is not None else ()),
            *(() if asked.agent.own_tools else ("--no-builtin-tools",)),
            *(("--model", model) if model else ()),
        ),
        env={
            "PI_CODING_AGENT_DIR": f"{room}/pi",
            "PI_TELEMETRY": "0",
            "PI_SKIP_VERSION_CHECK": "1",
            **({"ORDAIN_STEP_SERVER": f"{room}/server.json"} if asked.server is not None else {}),
        },
        files=files,
        own=("pi",),
        logins={f"pi/{name}": f".pi/agent/{name}" for name in ("auth.json", "models.json")},
        read=_said,
    )


def _bridge() -> str:
    return (resources.files(__package__) / "pi_bridge.mjs").read_text("utf-8")


class _Cost(msgspec.Struct, frozen=True):
    total: float = 0


class _Used(msgspec.Struct, frozen=True):
    tokens: float = msgspec.field(name="totalTokens", default=0)
    cost: _Cost = _Cost()


class _Content(msgspec.Struct, frozen=True):
    type: str = ""
    text: str = ""


class _Message(msgspec.Struct, frozen=True):
    role: str = ""
    content: list[_Content] = []
    usage: _Used = _Used()
    stopped: str = msgspec.field(name="stopReason", default="")
    error: str = msgspec.field(name="errorMessage", default="")


class _PiLine(msgspec.Struct, frozen=True):
    type: str = ""
    message: _Message | None = None


def _said(finished: Finished) -> Said:
    text, tokens, costs = "", list[float](), list[float]()
    wrong: str | None = last_line(finished.errors) or NOTHING
    for line in lines(finished, _PiLine):
        if line.type != "turn_end" or line.message is None:
            continue
        message = line.message
        text = "\n".join(part.text for part in message.content if part.type == "text")
        # It ends with status 0 all the same, and may have tried again since.
        wrong = None if message.stopped not in ("error", "aborted") else in_words(message.error) or NOTHING
        tokens.append(message.usage.tokens)
        costs.append(message.usage.cost.total)
    return Said(text=text.encode("utf-8", "replace"), used=used(tokens, costs), error=wrong)


PI = Preset(program="pi", package="@earendil-works/pi-coding-agent", start=_start)
