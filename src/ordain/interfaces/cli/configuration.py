"""The configuration of a workspace at a terminal: its template, and the question whether it may count."""

from __future__ import annotations

import difflib
import json
from textwrap import TextWrapper

from ordain.assemble.workspace import make_state
from ordain.core.lint.settings import remarks
from ordain.core.policy.settings import SECRET_NAMES, Settings
from ordain.core.text.control import CONFIGURATION_FILE
from ordain.documents.settings import read_settings
from ordain.interfaces.cli.approval import credential, signer_named
from ordain.interfaces.cli.session import FINE, REFUSED, Session
from ordain.interfaces.view.problem import data_text
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
            shown += [*_changes(state.trusted.text, text), ""]
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


def _changes(before: str, now: str) -> list[str]:
    lines = list(difflib.unified_diff(before.split("\n"), now.split("\n"), n=0, lineterm=""))[2:]  # two are a head
    changed = [line for line in lines if not line.startswith("@@")]
    if not changed:
        return ["It is the configuration that counts already."]
    return ["Changed since one was trusted last:", *(f"  {visible(line)}" for line in changed)]
