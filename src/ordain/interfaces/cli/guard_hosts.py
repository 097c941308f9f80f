"""The commands about the hosts of agents that we did not write: guard hook, guard install."""

from __future__ import annotations

import difflib
import os
import re
import shlex
import shutil
import stat
import subprocess
import sys
from pathlib import Path
from typing import Literal, NamedTuple

import click

import ordain
from ordain.core.problem import Problem, refuse
from ordain.interfaces import render
from ordain.interfaces.claude_hook import STDIN_MAX, Options, answer_hook, denied_reason
from ordain.interfaces.cli.shell import FINE, REFUSED, WAITING, Session, command
from ordain.interfaces.cli.writing import make_parents, write_whole
from ordain.interfaces.host_settings import with_hook, with_server, without_hook, without_server
from ordain.interfaces.results.guard_hosts import HookResult
from ordain.quick import state_places

__all__ = ["hook", "install"]

SERVER = "ordain"
"""What our server is called in the settings of a host."""
SETTINGS_MAX = 4 << 20
_BLOCKING_SINCE = (2, 1, 295)
"""The version of Claude Code from which a hook that fails refuses the call."""
_START = "import sys; sys.path.insert(0, sys.argv.pop(1)); from ordain.__main__ import main; main()"
"""Starts the very code that this process runs, wherever the host stands and whatever its environment says."""
_MANAGED = {
    "darwin": "/Library/Application Support/ClaudeCode/managed-settings.json",
    "linux": "/etc/claude-code/managed-settings.json",
}
Place = Literal["user", "project", "managed"]

_host = click.argument("host", type=click.Choice(["claude-code"]))


@command(name="hook")
@_host
@click.option("--workspace", metavar="DIR", help="The workspace; default: the one that the host works in.")
@click.option("--gateway", "own", metavar="NAME", multiple=True, help="A server of ours in the host's settings.")
@click.option("--state", metavar="DIR", help="Where Ordain keeps what it knows.")
def hook(session: Session, host: str, workspace: str | None, own: tuple[str, ...], state: str | None) -> int:
    """Answer the hook of an agent's host, which asks before every call of a tool: what it says is read from standard
    input. What is open gets no answer; what is not, and is enforced, is refused with the way to a plan.

    For hosts, by `ordain guard install`. Example: ordain guard hook claude-code
    """
    root = click.get_current_context().find_root().obj
    options = Options(workspace=workspace or root, own=(SERVER, *own), state=state)
    answer = answer_hook(sys.stdin.buffer.read(STDIN_MAX + 1), options)
    if session.json:
        reason = denied_reason(answer)
        session.answer(HookResult(decision="deny" if reason is not None else "none", reason=reason or ""))
    else:
        click.echo(answer.text, nl=False)
    if answer.then is not None:
        answer.then()
    return FINE


class _Change(NamedTuple):
    """A file as it is and as it will be."""

    path: Path
    before: str | None
    after: str


@command(name="install")
@_host
@click.option("--user", "place", flag_value="user", help="For every project of this user.")
@click.option("--project", "place", flag_value="project", default="project", help="For this workspace. The default.")
@click.option("--managed", "place", flag_value="managed", help="For everybody on this machine.")
@click.option("--gateway", is_flag=True, help="The MCP server `ordain mcp --gateway`, too.")
@click.option("--remove", is_flag=True, help="Take back what was written, and nothing else.")
def install(session: Session, host: str, place: Place, gateway: bool, remove: bool) -> int:
    """Have an agent's host ask Ordain before every call of a tool: show the settings, ask, and write them.

    Only a person at a terminal can. Example: ordain guard install claude-code
    """
    words = [f"--{place}", *(["--gateway"] if gateway else []), *(["--remove"] if remove else [])]
    pasted = f"ordain guard install {host} {shlex.join(words)}"
    session.needs_person("change the settings of an agent's host", pasted)
    if session.json:
        detail = "Only a person at a terminal can change the settings of an agent's host."
        problem = Problem(code="E_APPROVAL_CHANNEL", detail=detail, command=pasted)
        session.run(session.app.record_refusal("install", pasted, session.by, [problem]))
        session.refused([problem])
        return WAITING
    changes = _changes(session, place, gateway=gateway, remove=remove)
    if not changes:
        session.say(["There is nothing of ours to take back." if remove else "Everything is written already."])
        return FINE
    lines = [line for change in changes for line in _shown(change)]
    notes = _removal_notes() if remove else [*_notes(place), *_version_notes()]
    seen = session.page([*lines, *notes, ""])
    if not seen or (session.ask("Write this? Type yes") or "").lower() != "yes":
        session.say(["Nothing was written."])
        return REFUSED
    for change in changes:
        if _text(change.path) != change.before:
            raise refuse(
                "E_HOST_SETTINGS", f"{change.path} has changed meanwhile; it was left as it is.", command=pasted
            )
        make_parents(str(change.path))
        write_whole(str(change.path), change.after.encode())
    session.say([f"Wrote {change.path}." for change in changes])
    if gateway and not remove and place != "project":
        line = shlex.join(["claude", "mcp", "add", "--scope", "user", SERVER, "--", *_ordain("mcp", "--gateway")])
        session.say(["The server is added by Claude Code itself:", f"  → {session.style.bold(line)}"])
    if not remove:
        session.say([f"To take it back: {pasted} --remove"])
    return FINE


def _changes(session: Session, place: Place, *, gateway: bool, remove: bool) -> list[_Change]:
    root = Path(session.app.workspace_path)
    settings, servers = _settings_file(place, root), root / ".mcp.json"
    before = _text(settings)
    if remove:
        after = without_hook(before, str(settings))
    else:
        words = ["--workspace", str(root)] if place == "project" else []
        words += [word for state in state_places() for word in ("--state", state)]
        after = with_hook(before, _ordain("guard", "hook", "claude-code", *words), str(settings))
    changes = [_Change(settings, before, after)] if after is not None else []
    if gateway and place == "project":
        before = _text(servers)
        if remove:
            after = without_server(before, SERVER, str(servers))
        else:
            after = with_server(before, SERVER, _ordain("-C", str(root), "mcp", "--gateway"), str(servers))
        changes += [_Change(servers, before, after)] if after is not None else []
    return [change for change in changes if change.before != change.after]


def _settings_file(place: Place, root: Path) -> Path:
    if place == "managed":
        if sys.platform not in _MANAGED:
            raise refuse("E_HOST_SETTINGS", "It is not known where managed settings are on this system.")
        return Path(_MANAGED[sys.platform])
    if place == "user":
        return Path(os.environ.get("CLAUDE_CONFIG_DIR") or Path.home() / ".claude") / "settings.json"
    if (root / ".claude").is_symlink():
        raise refuse("E_HOST_SETTINGS", f"{root / '.claude'} is a link; nothing is written through it.")
    return root / ".claude" / "settings.local.json"  # it names paths of this machine, which nobody should share


def _text(path: Path) -> str | None:
    """What a file of settings says; None where there is none."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        with os.fdopen(descriptor, "rb") as file:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                raise OSError("it is no regular file")
            data = file.read(SETTINGS_MAX + 1)
            if len(data) > SETTINGS_MAX:
                raise OSError("it is too long")
            return data.decode()
    except FileNotFoundError:
        return None
    except (OSError, UnicodeDecodeError) as error:
        raise refuse("E_HOST_SETTINGS", f"{path} cannot be read ({error}); it was left as it is.") from error


def _ordain(*words: str) -> list[str]:
    """The command that starts us with these words, whoever starts it: no variable of theirs changes what is loaded."""
    return [sys.executable, "-I", "-c", _START, str(Path(ordain.__file__).parents[1]), *words]


def _shown(change: _Change) -> list[str]:
    before, after = (change.before or "").split("\n"), change.after.split("\n")
    made = "" if change.before is not None else " (new)"
    changed = list(difflib.unified_diff(before, after, n=3, lineterm=""))[2:]
    return [f"{change.path}{made}:", *(f"  │ {render.visible(line)}" for line in changed), ""]


def _notes(place: Place) -> list[str]:
    """What this is worth, said before anybody relies on it."""
    firm = {
        "user": "A hook of a user is help for honest agents and no boundary: a project's settings can switch it off, "
        "and so can an agent that may write the user's files.",
        "project": "A hook of a project is help for honest agents and no boundary: whoever can write the project's "
        "settings can take it out, and so can flags of the host.",
        "managed": "A managed hook cannot be switched off by users, projects or flags, as far as was tried; whoever "
        "administers this machine can.",
    }
    return [
        firm[place],
        "What a guarded tool needs to work (its credentials) should be where only `ordain mcp --gateway` has it: that "
        'is the boundary. Until ordain.toml says `[guard] mode = "enforce"`, calls are only watched.',
    ]


def _removal_notes() -> list[str]:
    return ["Claude Code asks nobody about its calls any more, then, where no other settings say so."]


def _version_notes() -> list[str]:
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
