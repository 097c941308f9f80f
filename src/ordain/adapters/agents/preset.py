"""Presets: command-line agents whose command line we know, and how each is made ready in its room.

Each is a pure function from what is asked of it to how it is started, with the files that it finds in its room. One
rule holds for all: of the user's settings only who serves the model, and the login there, is taken; whatever else the
program would read, run or remember is left out as far as it can be told to. Without tools of its own it is started in
an empty directory, so that nothing in the workspace is a setting, a memory or a plug-in to it.
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

    def model_words(self) -> tuple[str, ...]:
        return ("--model", self.item.model) if self.item.model else ()


class PresetStart(msgspec.Struct, frozen=True):
    """How a preset is started."""

    words: tuple[str, ...]
    """After the program."""
    env: Mapping[str, str]
    files: Mapping[str, str]
    """What it finds in its room, by name."""


class Preset(msgspec.Struct, frozen=True):
    """One of them. It may change the directory of its room that has its name."""

    program: str
    package: str
    """What it is called at npm."""
    start: Callable[[PresetRequest], PresetStart]
    """Raises ValueError where something is missing that only a person can say."""
    read: Callable[[Finished], Said]
    logins: Mapping[str, str]
    """Files of the home directory, by name, that it finds under another name in its room."""
    settings: str = ""
    """The file of the home directory of which it takes who serves the model."""


def preset_invocation(
    agent: Agent, item: WorkItem, room: str, server: StepServer | None, home: Path, *, sandboxed: bool
) -> Invocation:
    """How to start a preset, once its files are in the room, for it alone to read; `home` has the user's. Raises
    ValueError where only a person can say how."""
    assert agent.preset is not None
    preset, place, settings = PRESETS[agent.preset], Path(room), b""
    if preset.settings:
        with contextlib.suppress(OSError), (home / preset.settings).open("rb") as opened:
            settings = opened.read(SETTINGS_MAX)
    start = preset.start(PresetRequest(agent=agent, item=item, room=room, server=server, settings=settings))
    for name in (preset.program, *(() if agent.own_tools else (ELSEWHERE,))):
        (place / name).mkdir(mode=0o700, exist_ok=True)
    for name, text in start.files.items():
        file = place / name
        file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        file.touch(mode=0o600, exist_ok=False)
        file.write_text(text, encoding="utf-8")
    logins = {name: source for name, source in preset.logins.items() if (home / source).is_file()}
    for name, source in logins.items():
        # A link: what is renewed while it runs is renewed for the user too. In the sandbox it is to a copy.
        (place / name).parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        (place / name).symlink_to(Path(HOME if sandboxed else home, source))
    return Invocation(
        argv=(*(agent.command or (preset.program,)), *start.words),
        stdin=item.prompt.encode("utf-8", "replace"),
        env=start.env,
        read=preset.read,
        directory="" if agent.own_tools else f"{room}/{ELSEWHERE}",
        changes=(f"{room}/{preset.program}",),
        home=(*(f"~/{source}" for source in logins.values()), *agent.files),
    )


def _in_json(value: object) -> str:
    return json.dumps(value, indent=2, ensure_ascii=False) + "\n"


# --- Claude Code -----------------------------------------------------------------------------------------------------

_CLAUDE_TOOLS = "Bash,Edit,Glob,Grep,NotebookEdit,Read,Skill,Task,TodoWrite,WebFetch,WebSearch,Write"


def _claude(asked: PresetRequest) -> PresetStart:
    own_tools, room = asked.agent.own_tools, asked.room
    allowed = [f"mcp__{SERVER}"] * (asked.server is not None) + [_CLAUDE_TOOLS] * own_tools
    # Tools are hidden until the model searches for them, unless a server says that it always wants to be shown.
    server = {SERVER: {**asked.told(), "alwaysLoad": True}} if asked.server is not None else {}
    words = (
        *("--print", "--output-format", "json", "--no-session-persistence"),
        # Neither the user's settings, hooks and memories, nor those of a project, nor servers of either.
        *("--setting-sources", "", "--strict-mcp-config", "--mcp-config", f"{room}/mcp.json"),
        # Whatever is not allowed here is refused: there is nobody to be asked.
        *("--permission-mode", "dontAsk"),
        *(("--allowedTools", ",".join(allowed)) if allowed else ()),
        *(() if own_tools else ("--tools", "")),
        *asked.model_words(),
    )
    env = {
        # For the hook of managed settings, which is asked about its own tools too: the door says what may be.
        **(asked.server.env if asked.server is not None else {}),
        "CLAUDE_CONFIG_DIR": f"{room}/claude",
        "XDG_CACHE_HOME": f"{room}/claude/cache",
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        "DISABLE_AUTOUPDATER": "1",
    }
    return PresetStart(words, env, {"mcp.json": _in_json({"mcpServers": server})})


# --- Codex -----------------------------------------------------------------------------------------------------------
# Which tools it has depends on what it knows about the model: with some, a tool that edits files or one that runs
# programs stays whatever the settings say, and the tools of servers are hidden behind a search. So it is told about the
# model that is to be used as if it were one that nobody knows anything about.

_CODEX_SETTINGS = ".codex/config.toml"
_CODEX_TAKEN = (
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


def _codex(asked: PresetRequest) -> PresetStart:
    theirs = _read(asked.settings, tomllib.loads)
    model = asked.item.model or theirs.get("model")
    if not isinstance(model, str) or not model:
        raise ValueError(f"codex must be told which model to use: in `model`, or in ~/{_CODEX_SETTINGS}")
    own_tools, home = asked.agent.own_tools, f"{asked.room}/codex"
    settings: dict[str, Any] = {
        **{name: theirs[name] for name in _CODEX_TAKEN if name in theirs},
        "check_for_update_on_startup": False,
        "project_doc_max_bytes": 0,
        "analytics": {"enabled": False},
        "features": dict.fromkeys((*_REACHING, *(() if own_tools else _ACTING)), False),
        "skills": {"include_instructions": False, "bundled": {"enabled": False}},
    }
    files = {}
    if not own_tools:
        settings |= {"web_search": "disabled", "model_catalog_json": f"{home}/models.json"}
        files["codex/models.json"] = _in_json({"models": [_unknown(model)]})
    if asked.server is not None:
        # Without `required` it may begin before the server is there, and then without its tools.
        told = {**asked.told(), "default_tools_approval_mode": "approve", "required": True}
        settings["mcp_servers"] = {SERVER: told}
    files["codex/config.toml"] = "".join(_toml(settings))
    # Its own sandbox works neither in ours nor from a home that is below `/tmp`.
    held = "danger-full-access" if own_tools else "read-only"
    words = ("exec", "--json", "--skip-git-repo-check", "--strict-config", "--ephemeral", "--ignore-rules")
    return PresetStart((*words, "--sandbox", held, "--model", model, "-"), {"CODEX_HOME": home}, files)


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


# --- Gemini CLI ------------------------------------------------------------------------------------------------------

_GEMINI_SETTINGS = ".gemini/settings.json"
_GEMINI_POLICY = f"""\
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


def _gemini(asked: PresetRequest) -> PresetStart:
    own_tools, room = asked.agent.own_tools, asked.room
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
    try:
        signing_in = msgspec.json.decode(asked.settings, type=_GeminiSettings).security.auth.selected
    except (msgspec.MsgspecError, ValueError, RecursionError):  # then it looks at the variables that it has
        signing_in = None
    if signing_in is None and "GEMINI_API_KEY" in asked.agent.env:
        signing_in = "gemini-api-key"  # it guesses, and wrongly where it is told of another server besides
    if signing_in is not None:
        settings["security"] = {"auth": {"selectedType": signing_in}}
    words = (
        *("--output-format", "json", "--allowed-mcp-server-names", SERVER, "--extensions", "none"),
        *(("--approval-mode", "yolo") if own_tools else ("--admin-policy", f"{room}/policy.toml")),
        *asked.model_words(),
    )
    env = {
        "GEMINI_CLI_HOME": f"{room}/gemini",
        "GEMINI_CLI_TRUST_WORKSPACE": "true",
        # It starts itself a second time otherwise, and the first does not end when it is told to.
        "GEMINI_CLI_NO_RELAUNCH": "true",
        "TMPDIR": f"{room}/gemini/tmp",
    }
    files = {f"gemini/{_GEMINI_SETTINGS}": _in_json(settings), "policy.toml": _GEMINI_POLICY, "gemini/tmp/.keep": ""}
    return PresetStart(words, env, files)


class _Auth(msgspec.Struct, frozen=True):
    selected: str | None = msgspec.field(name="selectedType", default=None)


class _Security(msgspec.Struct, frozen=True):
    auth: _Auth = _Auth()


class _GeminiSettings(msgspec.Struct, frozen=True):
    """How the user has it sign in."""

    security: _Security = _Security()


# --- opencode --------------------------------------------------------------------------------------------------------

_OPENCODE_SETTINGS = ".config/opencode/opencode.json"
_OPENCODE_TAKEN = ("provider", "model", "small_model", "enabled_providers", "disabled_providers")
"""Who serves the model, and which it is where nobody says."""
_OPENCODE_OFF = (
    *("AUTOUPDATE", "DEFAULT_PLUGINS", "LSP_DOWNLOAD", "MODELS_FETCH"),
    *("PROJECT_CONFIG", "CLAUDE_CODE", "EXTERNAL_SKILLS"),
)
_OPENCODE_DECODER = msgspec.json.Decoder(dict[str, Any])
_OPENCODE_PLACES = ("config", "data", "state", "cache")


def _opencode(asked: PresetRequest) -> PresetStart:
    room = f"{asked.room}/opencode"
    theirs = _read(asked.settings, _OPENCODE_DECODER.decode)
    settings: dict[str, Any] = {
        **{name: theirs[name] for name in _OPENCODE_TAKEN if name in theirs},
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
    env = {
        "OPENCODE_CONFIG": f"{room}/settings.json",
        **{f"XDG_{name.upper()}_HOME": f"{room}/{name}" for name in _OPENCODE_PLACES},
        **{f"OPENCODE_DISABLE_{name}": "1" for name in _OPENCODE_OFF},
    }
    files = {
        "opencode/settings.json": _in_json(settings),
        "opencode/config/opencode/package-lock.json": _in_json(lock),
        "opencode/config/opencode/node_modules/.keep": "",
    }
    # With a title, no model is asked for one.
    return PresetStart(("run", "--format", "json", "--pure", "--title", "ordain", *asked.model_words()), env, files)


def _read(settings: bytes, decode: Callable[[str], dict[str, Any]]) -> dict[str, Any]:
    """Settings of the user's; none where the program would not start with these itself."""
    with contextlib.suppress(msgspec.MsgspecError, ValueError, RecursionError):
        return decode(settings.decode())
    return {}


# --- pi --------------------------------------------------------------------------------------------------------------


def _pi(asked: PresetRequest) -> PresetStart:
    """It knows no tool servers, so it is given an extension that brings the tools of the step's in."""
    room, files, served = asked.room, {}, asked.server is not None
    if served:
        from importlib import resources  # it takes a while to load

        bridge = (resources.files(__package__) / "pi_bridge.mjs").read_text("utf-8")
        files = {"server.json": _in_json({"name": SERVER, **asked.told()}), "bridge.mjs": bridge}
    words = (
        *("--mode", "json", "--no-session", "--offline", "--no-approve"),
        *("--no-extensions", "--no-skills", "--no-prompt-templates", "--no-themes", "--no-context-files"),
        *(("--extension", f"{room}/bridge.mjs") if served else ()),
        *(() if asked.agent.own_tools else ("--no-builtin-tools",)),
        *asked.model_words(),
    )
    env = {"PI_CODING_AGENT_DIR": f"{room}/pi", "PI_TELEMETRY": "0", "PI_SKIP_VERSION_CHECK": "1"}
    return PresetStart(words, env | ({"ORDAIN_STEP_SERVER": f"{room}/server.json"} if served else {}), files)


PRESETS = {
    one.program: one
    for one in (
        Preset(
            *("claude", "@anthropic-ai/claude-code", _claude, output.read_object),
            {"claude/.credentials.json": ".claude/.credentials.json"},
        ),
        Preset(
            *("codex", "@openai/codex", _codex, output.read_codex),
            *({"codex/auth.json": ".codex/auth.json"}, _CODEX_SETTINGS),
        ),
        Preset(
            *("gemini", "@google/gemini-cli", _gemini, output.read_gemini),
            {f"gemini/.gemini/{name}": f".gemini/{name}" for name in ("oauth_creds.json", "google_accounts.json")},
            _GEMINI_SETTINGS,
        ),
        Preset(
            *("opencode", "opencode-ai", _opencode, output.read_opencode),
            *({"opencode/data/opencode/auth.json": ".local/share/opencode/auth.json"}, _OPENCODE_SETTINGS),
        ),
        Preset(
            *("pi", "@earendil-works/pi-coding-agent", _pi, output.read_pi),
            {f"pi/{name}": f".pi/agent/{name}" for name in ("auth.json", "models.json")},
        ),
    )
}
