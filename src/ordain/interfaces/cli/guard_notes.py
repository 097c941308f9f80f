"""What a person is told before the settings of an agent's host are changed: what that is worth, what is in force, what
still goes around it, and what should not be shared. Nothing here changes anything."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Literal

from ordain.core.guard.call import Mode
from ordain.core.guard.host_tool import mangled
from ordain.core.plan.tool import ToolSource
from ordain.core.policy.settings import Settings
from ordain.core.text.control import CONFIGURATION_FILE
from ordain.core.text.problem import Problem

Place = Literal["user", "project", "managed"]

_BLOCKING_SINCE = (2, 1, 295)
"""The version of Claude Code from which a hook that fails refuses the call."""
_WORTH: Mapping[Place, str] = {
    "user": "A hook of a user is help for honest agents and no boundary: a project's settings can switch it off, "
    "and so can an agent that may write the user's files.",
    "project": "A hook of a project is help for honest agents and no boundary: whoever can write the project's "
    "settings can take it out, and so can flags of the host.",
    "managed": "A managed hook cannot be switched off by users, projects or flags, as far as was tried; whoever "
    "administers this machine can.",
}


def worth_notes(place: Place) -> list[str]:
    """What a hook there is worth, said before anybody relies on it."""
    return [
        _WORTH[place],
        "What a guarded tool needs to work (its credentials) should be where only `ordain mcp --gateway` has it: that "
        "is the boundary.",
    ]


def in_force_notes(place: Place, root: Path, settings: Settings, notices: tuple[Problem, ...]) -> list[str]:
    """Whether anything will be refused: by the rules of this workspace, or of whichever the agent stands in."""
    if place != "project":
        return [f'Calls are refused in workspaces whose trusted {CONFIGURATION_FILE} says `[guard] mode = "enforce"`.']
    told = [f"{one.detail} {' '.join(one.hints)} → {one.command}" for one in notices if one.command is not None]
    if settings.guard_mode == Mode.ENFORCE:
        return [*told, "The rules are enforced here: what is guarded is refused from the next call on."]
    if told:
        return told
    if not (root / CONFIGURATION_FILE).exists():
        here = f"There is no {CONFIGURATION_FILE} in {root}, so the defaults are in force"
        return [f"{here}: calls are only watched. → ordain init"]
    return [f'Until {CONFIGURATION_FILE} says `[guard] mode = "enforce"` and is trusted, calls are only watched.']


def direct_notes(root: Path, settings: Settings, ours: str) -> list[str]:
    """The servers behind the gateway that the host also reaches by itself, and so without it."""
    sources = {name: source for name, source in settings.sources.items() if source.mcp or source.url is not None}
    return [
        f"{where} has `{name}`, which is the server of [tools.{source}]: the agent reaches it without the gateway as "
        f"long as it stands there. → claude mcp remove {name}"
        for where, name, server in _host_servers(root)
        for source, said in sources.items()
        if name != ours and (mangled(name) == mangled(source) or _same(server, said))
    ]


def _same(server: Mapping[str, Any], source: ToolSource) -> bool:
    words = server.get("args")
    command = (server.get("command"), *(words if isinstance(words, list) else ()))
    return command == source.mcp or (source.url is not None and server.get("url") == source.url)


def _host_servers(root: Path) -> Iterator[tuple[Path, str, Mapping[str, Any]]]:
    """The MCP servers that Claude Code is told of for this directory, as far as its files can be read, and where."""
    users = Path(os.environ.get("CLAUDE_CONFIG_DIR") or Path.home()) / ".claude.json"
    for path, keys in ((root / ".mcp.json", ()), (users, ()), (users, ("projects", str(root)))):
        try:
            tree: Any = json.loads(path.read_bytes())
        except (OSError, ValueError, RecursionError):
            continue
        for key in (*keys, "mcpServers"):
            tree = tree.get(key) if isinstance(tree, dict) else None
        for name, server in tree.items() if isinstance(tree, dict) else ():
            if isinstance(server, dict):
                yield path, name, server


def sharing_notes(root: Path, written: list[str]) -> list[str]:
    """A word on files that lie in a repository and name paths of one machine."""
    if not written or not (root / ".git").exists():
        return []
    names = " and ".join(written)
    shared = " Others expect to share .mcp.json: where yours is in git already, undo it before you commit."
    return [
        f"What is written names paths of this machine: keep {names} out of what you share (.gitignore)."
        + shared * (".mcp.json" in written)
    ]


def version_notes() -> list[str]:
    """Whether a hook that fails refuses the call, by the version of the host."""
    found = shutil.which("claude")
    if found is None:
        return ["`claude` is not on the path, so nobody knows whether its version heeds `onFailure`."]
    try:
        done = subprocess.run([found, "--version"], capture_output=True, text=True, timeout=15, check=False)
        version = re.search(r"(\d+)\.(\d+)\.(\d+)", done.stdout)
    except (OSError, subprocess.TimeoutExpired):
        version = None
    if version is None:
        return ["`claude --version` does not say which it is, so nobody knows whether it heeds `onFailure`."]
    if tuple(map(int, version.groups())) < _BLOCKING_SINCE:
        since = ".".join(map(str, _BLOCKING_SINCE))
        return [f"Claude Code {version[0]} is older than {since}: there a hook that fails lets the call through."]
    return []
