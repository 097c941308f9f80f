"""Presets: command-line agents that we know (`data/presets.toml`), and how each is made ready in its room.

Of the user's settings only who serves the model, and the login there, is taken. Without tools of its own it is started
in an empty directory: nothing in the workspace is a setting, a memory or a plug-in to it.
"""

from __future__ import annotations

import contextlib
import json
import re
import tomllib
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec

import ordain
from ordain.adapters.agents import output
from ordain.adapters.sandbox.sandbox import HOME
from ordain.core.policy.agent import Agent
from ordain.core.task.work_item import WorkItem
from ordain.ports.agent import Invocation, Said, StepServer
from ordain.ports.process import Finished

SERVER = "ordain"
"""What the step's own tool server is called in every host."""
ELSEWHERE = "empty"
"""The directory of a room in which a preset is started that has no tools of its own."""
SETTINGS_MAX = 1 << 20


class PresetRequest(msgspec.Struct, frozen=True, kw_only=True):
    """What a preset is asked for."""

    agent: Agent
    item: WorkItem
    room: str
    """The private directory of the attempt."""
    server: StepServer | None = None
    """The tools of the step; None where there is no way to them."""
    settings: bytes = b""
    """What the user's own settings of the program say."""

    def told(self) -> dict[str, Any]:
        """How most hosts are told of the step's server: the command, its arguments, its variables."""
        assert self.server is not None
        command, *words = self.server.argv
        return {"command": command, "args": words, "env": dict(self.server.env)}


class Preset(msgspec.Struct, frozen=True, kw_only=True):
    """One of them, as `data/presets.toml` has it. It may change the directory of its room that has its name."""

    package: str
    words: tuple[str, ...]
    served: tuple[str, ...] = ()
    own: tuple[str, ...] = ()
    held: tuple[str, ...] = ()
    last: tuple[str, ...] = ()
    env: dict[str, str]
    logins: dict[str, str]
    settings: str = ""
    taken: tuple[str, ...] = ()
    written: dict[str, Any] = {}
    files: dict[str, str] = {}
    acting: tuple[str, ...] = ()
    model: dict[str, Any] = {}

    def settings_with(self, theirs: Mapping[str, Any], **more: Any) -> dict[str, Any]:
        """What its settings say: who serves the model, as the user has it, and ours."""
        return {**{name: theirs[name] for name in self.taken if name in theirs}, **self.written, **more}


PRESETS = msgspec.convert(
    tomllib.loads(Path(ordain.__file__).with_name("data").joinpath("presets.toml").read_text("utf-8")),
    dict[str, Preset],
)


class PresetStart(msgspec.Struct, frozen=True):
    """What only a request tells about how a preset is started."""

    words: tuple[str, ...] = ()
    env: Mapping[str, str] = {}
    files: Mapping[str, str] = {}
    model: str | None = None


def preset_invocation(
    agent: Agent, item: WorkItem, room: str, server: StepServer | None, home: Path, *, sandboxed: bool
) -> Invocation:
    """How to start a preset, once its files are in the room; `home` has the user's. Raises ValueError as the port."""
    assert agent.preset is not None
    program, preset, place, settings = agent.preset, PRESETS[agent.preset], Path(room), b""
    if preset.settings:
        with contextlib.suppress(OSError), (home / preset.settings).open("rb") as opened:
            settings = opened.read(SETTINGS_MAX)
    start, read = _STARTS[program]
    made = start(PresetRequest(agent=agent, item=item, room=room, server=server, settings=settings), preset)
    for name in (program, *(() if agent.own_tools else (ELSEWHERE,))):
        (place / name).mkdir(mode=0o700, exist_ok=True)
    for name, text in {**preset.files, **made.files}.items():
        file = place / name
        file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        file.touch(mode=0o600, exist_ok=False)
        file.write_text(text, encoding="utf-8")
    logins = {name: source for name, source in preset.logins.items() if (home / source).is_file()}
    for name, source in logins.items():
        # A link: what is renewed while it runs is renewed for the user too. In the sandbox it is to a copy.
        (place / name).parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        (place / name).symlink_to(Path(HOME if sandboxed else home, source))
    model = made.model or item.model
    tools = (*(preset.served if server is not None else ()), *(preset.own if agent.own_tools else preset.held))
    words = [word.replace("{room}", room) for word in (*preset.words, *made.words, *tools)]
    words += [*(("--model", model) if model else ()), *preset.last]
    return Invocation(
        argv=(*(agent.command or (program,)), *words),
        stdin=item.prompt.encode("utf-8", "replace"),
        env={**made.env, **{name: value.replace("{room}", room) for name, value in preset.env.items()}},
        read=read,
        directory="" if agent.own_tools else f"{room}/{ELSEWHERE}",
        changes=(f"{room}/{program}",),
        home=(*(f"~/{source}" for source in logins.values()), *agent.files),
    )


def _in_json(value: object) -> str:
    return json.dumps(value, indent=2, ensure_ascii=False) + "\n"


_CLAUDE_TOOLS = "Bash,Edit,Glob,Grep,NotebookEdit,Read,Skill,Task,TodoWrite,WebFetch,WebSearch,Write"


def _claude(asked: PresetRequest, preset: Preset) -> PresetStart:
    allowed = [f"mcp__{SERVER}"] * (asked.server is not None) + [_CLAUDE_TOOLS] * asked.agent.own_tools
    # Tools are hidden until the model searches for them, unless a server says that it always wants to be shown.
    server = {SERVER: {**asked.told(), "alwaysLoad": True}} if asked.server is not None else {}
    # The variables are for the hook of managed settings, which is asked about its own tools too.
    return PresetStart(
        ("--allowedTools", ",".join(allowed)) if allowed else (),
        asked.server.env if asked.server is not None else {},
        {"mcp.json": _in_json({"mcpServers": server})},
    )


def _codex(asked: PresetRequest, preset: Preset) -> PresetStart:
    """Which tools it has depends on what it knows about the model: with some, a tool that edits files or one that runs
    programs stays whatever the settings say, and the tools of servers are hidden behind a search. So it is told about
    the model that is to be used as if it were one that nobody knows anything about."""
    theirs = _read(asked.settings, tomllib.loads)
    model = asked.item.model or theirs.get("model")
    if not isinstance(model, str) or not model:
        raise ValueError(f"codex must be told which model to use: in `model`, or in ~/{preset.settings}")
    settings, files = preset.settings_with(theirs), {}
    if not asked.agent.own_tools:
        settings["features"] = settings["features"] | dict.fromkeys(preset.acting, False)
        settings |= {"web_search": "disabled", "model_catalog_json": f"{asked.room}/codex/models.json"}
        told = {name: model if value == "{model}" else value for name, value in preset.model.items()}
        told["supports_reasoning_summaries"] = model.startswith("gpt-")
        files["codex/models.json"] = _in_json({"models": [told]})
    if asked.server is not None:
        # Without `required` it may begin before the server is there, and then without its tools.
        server = {**asked.told(), "default_tools_approval_mode": "approve", "required": True}
        settings["mcp_servers"] = {SERVER: server}
    return PresetStart(files=files | {"codex/config.toml": "".join(_toml(settings))}, model=model)


_BARE = re.compile(r"[A-Za-z0-9_-]+")


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


def _gemini(asked: PresetRequest, preset: Preset) -> PresetStart:
    # What it asks a server of before every call, it asks nobody.
    servers = {SERVER: {**asked.told(), "trust": True}} if asked.server is not None else {}
    settings = preset.settings_with({}, mcpServers=servers)
    if not asked.agent.own_tools:
        # They are not even there then. One that is there and denied takes a tool of a server with its name along.
        settings["tools"] = {"core": ["none"]}
    # Where nothing is said it looks at the variables that it has.
    theirs = _read(asked.settings, msgspec.json.Decoder(dict[str, Any]).decode)
    signing_in = output.at(theirs, "security", "auth", "selectedType")
    if not isinstance(signing_in, str) and "GEMINI_API_KEY" in asked.agent.env:
        signing_in = "gemini-api-key"  # it guesses, and wrongly where it is told of another server besides
    if isinstance(signing_in, str):
        settings["security"] = {"auth": {"selectedType": signing_in}}
    return PresetStart(files={f"gemini/{preset.settings}": _in_json(settings)})


def _opencode(asked: PresetRequest, preset: Preset) -> PresetStart:
    own_tools, server = asked.agent.own_tools, asked.server
    told = {"type": "local", "command": list(server.argv), "environment": dict(server.env)} if server else {}
    settings = preset.settings_with(
        _read(asked.settings, msgspec.json.Decoder(dict[str, Any]).decode),
        # Of what is denied the model is not told, and it is refused when it is called all the same.
        permission={"*": "allow"} if own_tools else {"*": "deny", f"{SERVER}_*": "allow"},
        mcp={SERVER: told} if server is not None else {},
    )
    return PresetStart(files={"opencode/settings.json": _in_json(settings)})


def _read(settings: bytes, decode: Callable[[str], dict[str, Any]]) -> dict[str, Any]:
    """Settings of the user's; none where the program would not start with these itself."""
    with contextlib.suppress(msgspec.MsgspecError, ValueError, RecursionError):
        return decode(settings.decode())
    return {}


def _pi(asked: PresetRequest, preset: Preset) -> PresetStart:
    """It knows no tool servers, so it is given an extension that brings the tools of the step's in."""
    if asked.server is None:
        return PresetStart()
    bridge = Path(__file__).with_name("pi_bridge.mjs").read_text("utf-8")
    files = {"server.json": _in_json({"name": SERVER, **asked.told()}), "bridge.mjs": bridge}
    return PresetStart(env={**preset.env, "ORDAIN_STEP_SERVER": f"{asked.room}/server.json"}, files=files)


_STARTS: Mapping[str, tuple[Callable[[PresetRequest, Preset], PresetStart], Callable[[Finished], Said]]] = {
    "claude": (_claude, output.read_object),
    "codex": (_codex, output.read_codex),
    "gemini": (_gemini, output.read_gemini),
    "opencode": (_opencode, output.read_opencode),
    "pi": (_pi, output.read_pi),
}
"""What each is made of a request by, which raises ValueError where something is missing that only a person can say; and
what its output is read by."""
