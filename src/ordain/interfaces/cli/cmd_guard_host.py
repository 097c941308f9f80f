"""The commands about the hosts of agents that we did not write: guard hook, guard install."""

from __future__ import annotations

import os
import shlex
import sys
from pathlib import Path

import click

import ordain
from ordain.assemble.quick_guard import state_places
from ordain.assemble.workspace import make_state
from ordain.core.text.problem import Problem, refuse
from ordain.interfaces.cli.file_change import FileChange, shown_change, text_of, write_change
from ordain.interfaces.cli.guard_notes import (
    Place,
    direct_notes,
    in_force_notes,
    sharing_notes,
    version_notes,
    worth_notes,
)
from ordain.interfaces.cli.session import FINE, REFUSED, WAITING, Session, command
from ordain.interfaces.hook.claude import STDIN_MAX, Options, answer_hook, denied_reason
from ordain.interfaces.hook.settings import with_hook, with_server, without_hook, without_server
from ordain.interfaces.view.result import HookResult, InstallResult, SettingsFile

SERVER = "ordain"
"""What our server is called in the settings of a host."""
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
    if session.json:
        reason = denied_reason(answer)
        session.answer(HookResult(decision="deny" if reason is not None else "none", reason=reason or ""))
    else:
        click.echo(answer.text, nl=False)
    if answer.then is not None:
        answer.then()
    return FINE


@command(name="install")
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

    Only a person at a terminal can, but --show is for everybody.

    Example: ordain guard install claude-code
    """
    if user + project + managed > 1:
        raise click.UsageError("--user, --project and --managed are three places: name one.")
    place: Place = "user" if user else "managed" if managed else "project"
    words = [f"--{place}", *(["--gateway"] if gateway else []), *(["--remove"] if remove else [])]
    pasted = f"ordain guard install {host} {shlex.join(words)}"
    if not show:
        session.needs_person("change the settings of an agent's host", pasted)
        if session.json:
            detail = "Only a person at a terminal can change the settings of an agent's host."
            hint = "What would be written is shown to everybody: --show --json."
            problem = Problem(code="E_APPROVAL_CHANNEL", detail=detail, hints=(hint,), command=pasted)
            session.run(session.app.refusals.record("install", pasted, session.by, [problem]))
            session.refused([problem])
            return WAITING
    root = Path(session.app.workspace.workspace_path)
    changes = _changes(root, place, gateway=gateway, remove=remove)
    notes = _notes(session, root, place, changes, gateway=gateway, remove=remove)
    by_hand = _by_hand(remove=remove) if gateway and place != "project" else None
    if session.json:
        files = tuple(SettingsFile(path=str(one.path), text=one.after) for one in changes)
        session.answer(InstallResult(files=files, notes=tuple(notes), command=by_hand), next_=[pasted])
        return FINE
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
        *worth_notes(place),
        *in_force_notes(place, root, settings, notices),
        *(direct_notes(root, settings, SERVER) if gateway else ()),
        *sharing_notes(root, inside),
        *version_notes(),
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
