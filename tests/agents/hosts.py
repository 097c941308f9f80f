"""The same programs as agents that carry out steps: where each is, and how its user has it find the scripted model.

What is said here is what a user of the program has in their own settings and variables. How it is started for a step is
none of that: Ordain knows (`adapters/agents`).
"""

from __future__ import annotations

import dataclasses
import json
import sys
from collections.abc import Mapping
from pathlib import Path

from tests.agents.clients import NODE, PACKAGES

_PROXY = ("HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy")
_KEY = "LOCAL_KEY"
_CHAT = [{"id": "scripted", "cost": {"input": 1_000_000, "output": 2_000_000, "cacheRead": 0, "cacheWrite": 0}}]


@dataclasses.dataclass(frozen=True)
class Host:
    """A program that Ordain has a preset for."""

    preset: str
    package: str
    """The npm package, in which its version stands."""
    program: tuple[str, ...]
    """In its package, after node where it needs that."""
    model: str
    variables: tuple[tuple[str, str], ...]
    """What its user sets; @URL@ stands for the model's server."""
    shell: tuple[str, str] = ("bash", "command")
    """The tool of its own that runs a command, and what takes that."""
    settings: str = ""
    """The file in the home directory that says who serves the model, where one does."""
    served: str = ""
    """What stands in it."""

    @property
    def version(self) -> str:
        file = PACKAGES / self.package / "package.json"
        assert file.exists(), f"{self.package} is not installed: run `make test-agents`"
        return str(json.loads(file.read_text())["version"])

    @property
    def command(self) -> list[str]:
        *before, program = self.program
        return [*(str(NODE / word) for word in before), str(PACKAGES / self.package / program)]

    def at_home(self, home: Path, url: str) -> None:
        if self.settings:
            (home / self.settings).parent.mkdir(parents=True, exist_ok=True)
            (home / self.settings).write_text(self.served.replace("@URL@", url))

    def environment(self, url: str) -> Mapping[str, str]:
        """The variables of its user. Whatever it tries to reach besides is refused and noted by the model's server."""
        own = {name: value.replace("@URL@", url) for name, value in self.variables}
        return {**dict.fromkeys(_PROXY, url), "NO_PROXY": "127.0.0.1", "no_proxy": "127.0.0.1", **own}

    def configuration(self, tier: int, **more: object) -> str:
        """An `ordain.toml` in which it is the only agent. Strings and lists of them are written alike in JSON."""
        agent = {
            "preset": self.preset,
            "command": self.command,
            "model": self.model,
            "env": list(self.environment("")),
            "network": True,
            **more,
        }
        seen = [str(NODE.parent), str(PACKAGES.resolve()), str(PACKAGES), sys.prefix, sys.base_prefix]
        lines = [f'[run]\ntier = {tier}\nagent = "coder"\n\n[sandbox]\nread = {json.dumps(seen)}\n\n[agents.coder]']
        return "\n".join([*lines, *(f"{key} = {json.dumps(value)}" for key, value in agent.items())]) + "\n"


HOSTS = (
    Host(
        preset="claude",
        package="@anthropic-ai/claude-code",
        program=("node", "cli-wrapper.cjs"),
        model="claude-sonnet-4-5",
        variables=(("ANTHROPIC_BASE_URL", "@URL@"), ("ANTHROPIC_API_KEY", "none")),
        shell=("Bash", "command"),
    ),
    Host(
        preset="codex",
        package="@openai/codex",
        program=("node", "bin/codex.js"),
        # One that it knows, and has tools of its own for that its settings do not switch off.
        model="gpt-6.1-sol",
        variables=((_KEY, "none"),),
        shell=("exec_command", "cmd"),
        settings=".codex/config.toml",
        served=f"""\
model_provider = "local"

[model_providers.local]
name = "local"
base_url = "@URL@/v1"
wire_api = "responses"
env_key = "{_KEY}"
""",
    ),
    Host(
        preset="gemini",
        package="@google/gemini-cli",
        program=("node", "bundle/gemini.js"),
        model="gemini-2.5-flash",
        variables=(("GEMINI_API_KEY", "none"), ("GOOGLE_GEMINI_BASE_URL", "@URL@")),
        shell=("run_shell_command", "command"),
    ),
    Host(
        preset="opencode",
        package="opencode-linux-x64-baseline",
        program=("bin/opencode",),
        model="local/scripted",
        variables=((_KEY, "none"),),
        settings=".config/opencode/opencode.json",
        served=json.dumps(
            {
                "provider": {
                    "local": {
                        "npm": "@ai-sdk/openai-compatible",
                        "options": {"baseURL": "@URL@/v1", "apiKey": f"{{env:{_KEY}}}"},
                        "models": {"scripted": {"cost": {"input": 1_000_000, "output": 2_000_000}}},
                    }
                }
            }
        ),
    ),
    Host(
        preset="pi",
        package="@earendil-works/pi-coding-agent",
        program=("node", "dist/cli.js"),
        model="local/scripted",
        variables=((_KEY, "none"),),
        settings=".pi/agent/models.json",
        served=json.dumps(
            {
                "providers": {
                    "local": {
                        "baseUrl": "@URL@/v1",
                        "api": "openai-completions",
                        "apiKey": f"${_KEY}",
                        "models": _CHAT,
                    }
                }
            }
        ),
    ),
)
