"""The command that puts the ready set of rules for coding agents into ordain.toml: guard init."""

from __future__ import annotations

from pathlib import Path

import click

from ordain.core.text.control import CONFIGURATION_FILE
from ordain.core.text.problem import Problem, Refused, refuse
from ordain.documents.guard_rules import CannotEdit, entries_of, with_rules, without_rules
from ordain.interfaces.cli.configuration import ask_trust, settings_template
from ordain.interfaces.cli.file_change import FileChange, shown_change, text_of, write_change
from ordain.interfaces.cli.session import FINE, REFUSED, WAITING, Session, command
from ordain.interfaces.view.problem import data_text
from ordain.interfaces.view.result import InstallResult, SettingsFile

RULES = "guard_rules.toml"


@command(name="init")
@click.option("--remove", is_flag=True, help="Take back what was written, and nothing else.")
@click.option("--show", is_flag=True, help="Show what would be written, and write nothing.")
def init(session: Session, remove: bool, show: bool) -> int:
    """Put a ready set of rules for coding agents into ordain.toml: reading, building, testing and local git work are
    open, everything else needs a plan. Show the difference, ask, write it, and ask for trust.

    Only a person at a terminal can, but --show is for everybody.

    Example: ordain guard init
    """
    pasted = "ordain guard init --remove" if remove else "ordain guard init"
    if not show:
        session.needs_person("change the rules of the guard", pasted)
        if session.json:
            detail = "Only a person at a terminal can change the rules of the guard."
            hint = "What would be written is shown to everybody: --show --json."
            problem = Problem(code="E_APPROVAL_CHANNEL", detail=detail, hints=(hint,), command=pasted)
            session.run(session.app.refusals.record("guard init", pasted, session.by, [problem]))
            session.refused([problem])
            return WAITING
    change = _change(Path(session.app.workspace.workspace_path) / CONFIGURATION_FILE, remove=remove)
    if session.json:
        files = (SettingsFile(path=str(change.path), text=change.after),) if change.before != change.after else ()
        session.answer(InstallResult(files=files, notes=_notes(remove=remove), command=None), next_=[pasted])
        return FINE
    if change.before == change.after:
        session.say(["There is nothing of ours to take back." if remove else "Everything is written already."])
        return FINE
    seen = session.page([*shown_change(change), *_notes(remove=remove), ""])
    if show:
        return FINE
    if not seen or not session.ask_word("Write this?"):
        session.say(["Nothing was written."])
        return REFUSED
    write_change(change, pasted)
    session.say([f"Wrote {change.path}."])
    return ask_trust(session)


def _change(path: Path, *, remove: bool) -> FileChange:
    before, rules = text_of(path), data_text(RULES)
    if remove:
        return FileChange(path, before, without_rules(before) if before is not None else None)
    try:
        return FileChange(path, before, with_rules(before if before is not None else settings_template(), rules))
    except CannotEdit as error:
        raise _by_hand(path, str(error), rules) from error


def _by_hand(path: Path, why: str, rules: str) -> Refused:
    entries = ", ".join(f'"{entry}"' for entry in entries_of(rules))
    hint = f"To do it by hand: add to `open` in [guard] {entries}; and paste the rules."
    return refuse("E_CONFIG", f"{path} {why}; it was left as it is.", hint, f"The rules:\n{rules}")


def _notes(*, remove: bool) -> tuple[str, ...]:
    if remove:
        return ("Every command that no other entry opens needs a plan again, where the rules are enforced.",)
    return (
        "What runs code of the workspace, such as tests, is open then, and not contained at tier 0.",
        'Rules only watch until [guard] has mode = "enforce".',
    )
