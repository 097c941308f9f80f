"""Settings at a terminal: the template of ordain.toml, the question whether it may count, and changes of files."""

from __future__ import annotations

import difflib
import errno
import json
import os
import stat
from collections.abc import Sequence
from pathlib import Path
from textwrap import TextWrapper
from typing import NamedTuple

from ordain.assemble.workspace import make_state
from ordain.core.lint.settings import remarks
from ordain.core.policy.settings import SECRET_NAMES, Settings
from ordain.core.text.control import CONFIGURATION_FILE
from ordain.core.text.problem import Problem, Refused, refuse
from ordain.documents.settings import read_settings
from ordain.interfaces.cli.decision import credential, signer_named
from ordain.interfaces.cli.output_file import write_shared
from ordain.interfaces.cli.session import FINE, REFUSED, Session
from ordain.interfaces.view.problem import data_text
from ordain.interfaces.view.report import InstallResult, SettingsFile
from ordain.interfaces.view.text import visible


def settings_template() -> str:
    """The text of an `ordain.toml` with every setting at its default."""
    return data_text("settings.toml").replace("SECRET_NAMES", json.dumps(SECRET_NAMES))


def ask_trust(session: Session, name: str | None = None) -> int:
    """Show the configuration as it stands, and let it count if a person says so."""
    data, digest = session.app.approvals.configuration()
    signing = None
    if not session.json:
        make_state(session.app.workspace.workspace_path)
        state = session.app.workspace.workspace_state()
        signer = signer_named(session, name) if state.approvers else None
        text = data.decode("utf-8", "replace")
        shown = [f"{CONFIGURATION_FILE}:", *(f"  │ {visible(line)}" for line in text.split("\n")), ""]
        if state.trusted is not None:
            lines = list(difflib.unified_diff(state.trusted.text.split("\n"), text.split("\n"), n=0, lineterm=""))[2:]
            changed = [f"  {visible(line)}" for line in lines if not line.startswith("@@")]
            head = "Changed since one was trusted last:" if changed else "It is the configuration that counts already."
            shown += [head, *changed, ""]
        before = _settings(state.trusted.text) if state.trusted is not None else None
        if notes := [*session.app.approvals.configuration_notes(), *remarks(before, _settings(text))]:
            wrapper = TextWrapper(98, subsequent_indent="  ", break_long_words=False, break_on_hyphens=False)
            wrapped = (line for note in notes for line in wrapper.wrap(f"- {visible(note)}"))
            shown += ["Note:", *(f"  {line}" for line in wrapped), ""]
        if not session.page(shown) or not session.ask_word("Let this configuration count?"):
            session.say(["Not trusted; what counted before still does."])
            return REFUSED
        if signer is not None:
            signing = credential(session, signer)
    session.run(session.app.approvals.trust(digest, session.by, signing))  # refused in JSON: robots can only ask
    session.say([f"Trusted as {digest}. Any change to the file needs trusting again."])
    return FINE


def _settings(text: str) -> Settings:
    return read_settings(text.encode())[0]


SETTINGS_MAX = 4 << 20


class FileChange(NamedTuple):
    """A file as it is and as it will be; None where there is none."""

    path: Path
    before: str | None
    after: str | None


def need_person(session: Session, verb: str, purpose: str, pasted: str) -> None:
    """Refuse, and record, that somebody else than a person at a terminal would change files of settings."""
    session.needs_person(purpose, pasted)
    if session.json:
        detail = f"Only a person at a terminal can {purpose}."
        hint = "What would be written is shown to everybody: --show --json."
        problem = Problem(code="E_APPROVAL_CHANNEL", detail=detail, hints=(hint,), command=pasted)
        session.run(session.app.refusals.record(verb, pasted, session.by, [problem]))
        raise Refused([problem])


def answer_changes(
    session: Session, changes: Sequence[FileChange], notes: Sequence[str], pasted: str, command: str | None = None
) -> int:
    """Tell a robot what would be written, and nothing was."""
    files = tuple(SettingsFile(path=str(one.path), text=one.after) for one in changes)
    session.answer(InstallResult(files=files, notes=tuple(notes), command=command), next_=[pasted])
    return FINE


def shown_change(change: FileChange) -> list[str]:
    before, after = ((text or "").split("\n") for text in (change.before, change.after))
    made = " (new)" if change.before is None else " (deleted)" if change.after is None else ""
    changed = list(difflib.unified_diff(before, after, n=3, lineterm=""))[2:]
    return [f"{change.path}{made}:", *(f"  │ {visible(line)}" for line in changed), ""]


def write_change(change: FileChange, pasted: str) -> None:
    if text_of(change.path) != change.before:
        raise refuse("E_HOST_SETTINGS", f"{change.path} has changed meanwhile; it was left as it is.", command=pasted)
    if change.after is None:
        change.path.unlink()
        return
    write_shared(str(change.path), change.after.encode(), replace=True)


def text_of(path: Path) -> str | None:
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
        if isinstance(error, OSError) and error.errno == errno.ELOOP:
            raise refuse("E_HOST_SETTINGS", f"{path} is a link; nothing is written through it.") from error
        raise refuse("E_HOST_SETTINGS", f"{path} cannot be read ({error}); it was left as it is.") from error
