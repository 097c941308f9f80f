"""The commands about the hosts of other agents: guard hook, guard install, and what is told before settings change."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Literal

import click

import ordain
from ordain.assemble.quick_guard import state_places
from ordain.assemble.workspace import make_state
from ordain.core.guard.call import Mode
from ordain.core.guard.host_tool import mangled
from ordain.core.plan.tool import ToolSource
from ordain.core.policy.settings import Settings
from ordain.core.text.control import CONFIGURATION_FILE
from ordain.core.text.problem import Problem, refuse
from ordain.interfaces.cli.configuration import (
    FileChange,
    answer_changes,
    need_person,
    shown_change,
    text_of,
    write_change,
)
from ordain.interfaces.cli.session import FINE, REFUSED, Session, command
from ordain.interfaces.hook.claude import STDIN_MAX, Options, answer_hook, denied_reason
from ordain.interfaces.hook.settings import with_hook, with_server, without_hook, without_server
from ordain.interfaces.view.report import HookResult

SERVER = "ordain"
Place = Literal["user", "project", "managed"]
_START = "import sys; sys.path.insert(0, sys.argv.pop(1)); from ordain.__main__ import main; main()"
"""Starts the very code that this process runs, wherever the host stands and whatever its environment says."""
_MANAGED = {
    "darwin": "/Library/Application Support/ClaudeCode/managed-settings.json",
    "linux": "/etc/claude-code/managed-settings.json",
}


class _Host(click.Choice[str]):
    """A host whose hook can be answered; of another, what guards it instead."""

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> str:
        if value not in self.choices:
            self.fail(
                f"{value!r} has no hook that is answered here; `ordain mcp --gateway` guards any agent.", param, ctx
            )
        return super().convert(value, param, ctx)


_host = click.argument("host", type=_Host(["claude-code"]))


@command(name="hook")
@_host
@click.option("--workspace", metavar="DIR", help="The workspace; default: the one that the host works in.")
@click.option("--gateway", "own", metavar="NAME", multiple=True, help="A server of ours in the host's settings.")
@click.option("--state", metavar="DIR", help="Where Ordain keeps what it knows.")
def hook(session: Session, host: str, workspace: str | None, own: tuple[str, ...], state: str | None) -> int:
    """Answer the hook of an agent's host, which asks before every tool call on standard input. An open call gets no
    answer; a guarded one, where rules are enforced, is refused with the way to a plan.

    For hosts, by `ordain guard install`. Example: ordain guard hook claude-code
    """
    root = click.get_current_context().find_root().obj
    options = Options(workspace=workspace or root, own=(SERVER, *own), state=state)
    answer = answer_hook(sys.stdin.buffer.read(STDIN_MAX + 1), options)
    reason = denied_reason(answer)
    session.give(answer.text, HookResult(decision="deny" if reason is not None else "none", reason=reason or ""))
    if answer.then is not None:
        answer.then()
    return FINE


@command(name="install", example="ordain guard install claude-code")
@_host
@click.option("--user", is_flag=True, help="For every project of this user.")
@click.option("--project", is_flag=True, help="For this workspace. The default.")
@click.option("--managed", is_flag=True, help="For everybody on this machine.")
@click.option("--gateway", is_flag=True, help="The MCP server `ordain mcp --gateway`, too.")
@click.option("--remove", is_flag=True, help="Take back what was written, and nothing else.")
@click.option("--show", is_flag=True, help="Show what would be written, and write nothing.")
def install(
    session: Session, host: str, user: bool, project: bool, managed: bool, gateway: bool, remove: bool, show: bool
) -> int:
    """Install the hook that makes an agent's host ask Ordain before every tool call: show the settings, ask, write.

    Only a person at a terminal can, but --show is for everybody."""
    if user + project + managed > 1:
        raise click.UsageError("--user, --project and --managed are three places: name one.")
    place: Place = "user" if user else "managed" if managed else "project"
    words = [f"--{place}", *(["--gateway"] if gateway else []), *(["--remove"] if remove else [])]
    pasted = f"ordain guard install {host} {shlex.join(words)}"
    if not show:
        need_person(session, "install", "change the settings of an agent's host", pasted)
    root = Path(session.app.workspace.workspace_path)
    changes = _changes(root, place, gateway=gateway, remove=remove)
    notes = _notes(session, root, place, changes, gateway=gateway, remove=remove)
    by_hand = _by_hand(remove=remove) if gateway and place != "project" else None
    if session.json:
        return answer_changes(session, changes, notes, pasted, by_hand)
    if not remove and not show and place != "managed":  # the hook names it, and refuses where it is not there
        make_state(str(root) if place == "project" else None)
    if not changes:
        nothing = "There is nothing of ours to take back." if remove else "Everything is written already."
        session.say([nothing, *(notes if not remove else ())])
    else:
        seen = session.page([*(line for change in changes for line in shown_change(change)), *notes, ""])
        if not show and (not seen or not session.ask_word("Write this?")):
            session.say(["Nothing was written."])
            return REFUSED
        if not show:
            for change in changes:
                write_change(change, pasted)
            session.say([f"{'Wrote' if one.after is not None else 'Deleted'} {one.path}." for one in changes])
    if by_hand is not None:
        purpose = "To have it forget ours" if remove else "To add ours"
        session.say([f"Claude Code keeps a user's servers itself. {purpose}, run:"])
        click.echo(by_hand)  # as one line, however long: it is there to be copied
    if changes and not remove and not show:
        session.say([f"To take it back: {pasted} --remove"])
    return FINE


def _changes(root: Path, place: Place, *, gateway: bool, remove: bool) -> list[FileChange]:
    settings, servers = _settings_file(place, root), root / ".mcp.json"
    before = text_of(settings)
    if remove:
        after = without_hook(before, str(settings))
    else:
        words = ["--workspace", str(root)] if place == "project" else []
        words += [word for state in _states(place) for word in ("--state", state)]
        after = with_hook(before, _ordain("guard", "hook", "claude-code", *words), str(settings))
    changes = [FileChange(settings, before, after)] if after is not None else []
    if gateway and place == "project":
        before = text_of(servers)
        if remove:
            after = without_server(before, SERVER, str(servers))
        else:
            env = _state_variable()
            after = with_server(before, SERVER, _ordain("-C", str(root), "mcp", "--gateway"), env, str(servers))
        changes += [FileChange(servers, before, after)] if after is not None else []
    if remove:  # a file that says nothing any more was most likely made by us
        changes = [one._replace(after=None) if (one.after or "").strip() == "{}" else one for one in changes]
    return [change for change in changes if change.before != change.after]


def _states(place: Place) -> tuple[str, ...]:
    """Where the hook finds the record. For everybody: each in their own home, wherever the administrator's is."""
    if place != "managed":
        return state_places()
    return ("~/Library/Application Support/ordain" if sys.platform == "darwin" else "~/.local/state/ordain",)


def _state_variable() -> dict[str, str]:
    """The same for the gateway, which then answers from the record that the hook answers from."""
    return dict(zip(["ORDAIN_HOME"], state_places(), strict=False))


def _by_hand(*, remove: bool) -> str:
    """What has Claude Code keep our server for all projects of a user, or forget it."""
    if remove:
        return shlex.join(["claude", "mcp", "remove", "--scope", "user", SERVER])
    env = [word for name, state in _state_variable().items() for word in ("-e", f"{name}={state}")]
    return shlex.join(["claude", "mcp", "add", "--scope", "user", SERVER, *env, "--", *_ordain("mcp", "--gateway")])


def _notes(
    session: Session, root: Path, place: Place, changes: list[FileChange], *, gateway: bool, remove: bool
) -> list[str]:
    if remove:
        notes = ["Claude Code asks nobody about its calls any more, then, where no other settings say so."]
        left = root / ".mcp.json"
        if place == "project" and not gateway and without_server(text_of(left), SERVER, str(left)) is not None:
            notes.append(f"The server `{SERVER}` stays in {left}; --gateway --remove takes it out.")
        return notes
    settings, _, notices = session.app.workspace.settings()
    inside = [str(one.path.relative_to(root)) for one in changes if place == "project"]
    return [
        _WORTH[place],
        "What a guarded tool needs to work (its credentials) should be where only `ordain mcp --gateway` has it: that "
        "is the boundary.",
        *_in_force(place, root, settings, notices),
        *(_direct(root, settings, SERVER) if gateway else ()),
        *_sharing(root, inside),
        *_version(),
    ]


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


def _ordain(*words: str) -> list[str]:
    """The command that starts us with these words, whoever starts it: no variable of theirs changes what is loaded."""
    return [sys.executable, "-I", "-c", _START, str(Path(ordain.__file__).parents[1]), *words]


# --- What a person is told -------------------------------------------------------------------------------------------

_BLOCKING_SINCE = (2, 1, 295)
_WORTH: Mapping[Place, str] = {
    "user": "A hook of a user is help for honest agents and no boundary: a project's settings can switch it off, "
    "and so can an agent that may write the user's files.",
    "project": "A hook of a project is help for honest agents and no boundary: anyone who can write the project's "
    "settings can take it out, and so can flags of the host.",
    "managed": "A managed hook cannot be switched off by users, projects or flags, as far as was tried; an "
    "administrator of this machine can.",
}


def _in_force(place: Place, root: Path, settings: Settings, notices: tuple[Problem, ...]) -> list[str]:
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


def _direct(root: Path, settings: Settings, ours: str) -> list[str]:
    """The servers behind the gateway that the host also reaches by itself, and so without it."""
    sources = {name: source for name, source in settings.sources.items() if source.mcp or source.url is not None}
    return [
        f"{where} has `{name}`, which is the server of [tools.{source}]: the agent reaches it without the gateway as "
        f"long as it is there. → claude mcp remove {name}"
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


def _sharing(root: Path, written: list[str]) -> list[str]:
    """A word on files that lie in a repository and name paths of one machine."""
    if not written or not (root / ".git").exists():
        return []
    names = " and ".join(written)
    shared = " Others expect to share .mcp.json: where yours is in git already, undo it before you commit."
    return [
        f"What is written names paths of this machine: keep {names} out of what you share (.gitignore)."
        + shared * (".mcp.json" in written)
    ]


def _version() -> list[str]:
    """Whether a hook that fails refuses the call, by the version of the host."""
    found = shutil.which("claude")
    if found is None:
        return ["`claude` is not on the path, so nobody knows whether its version obeys `onFailure`."]
    try:
        done = subprocess.run([found, "--version"], capture_output=True, text=True, timeout=15, check=False)
        version = re.search(r"(\d+)\.(\d+)\.(\d+)", done.stdout)
    except (OSError, subprocess.TimeoutExpired):
        version = None
    if version is None:
        return ["`claude --version` does not say which it is, so nobody knows whether it obeys `onFailure`."]
    if tuple(map(int, version.groups())) < _BLOCKING_SINCE:
        since = ".".join(map(str, _BLOCKING_SINCE))
        return [f"Claude Code {version[0]} is older than {since}: there a hook that fails lets the call through."]
    return []
