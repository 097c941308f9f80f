"""The commands about agents that we did not write: check, hook, init, install, report."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path

import click

from ordain.assemble.workspace import confirm_user_rules, user_rules_confirmed, user_rules_file
from ordain.core.guard.sighting import DAYS_KEPT
from ordain.core.policy.fact import CheckedCommand, CheckedCommands
from ordain.core.text.control import CONFIGURATION_FILE
from ordain.core.text.limit import DAY_MS
from ordain.core.text.problem import Refused, refuse
from ordain.documents.guard_rules import CannotEdit, entries_of, with_rules, without_rules
from ordain.interfaces.cli.configuration import (
    FileChange,
    answer_changes,
    ask_trust,
    need_person,
    settings_template,
    shown_change,
    text_of,
    write_change,
)
from ordain.interfaces.cli.main import LazyCommands
from ordain.interfaces.cli.session import FINE, REFUSED, Session, command, duration_option
from ordain.interfaces.view.guard import others_lines, watch_lines
from ordain.interfaces.view.problem import data_text
from ordain.interfaces.view.text import visible

_COMMANDS = {
    "check": ("cmd_guard", "Say what a command does, and what the guard answers."),
    "hook": ("cmd_guard_host", "Answer the hook of an agent's host."),
    "init": ("cmd_guard", "Open what coding agents do all day."),
    "install": ("cmd_guard_host", "Have an agent's host ask before every call."),
    "report": ("cmd_guard", "Tell what was called, and what could be open."),
}


@click.group(cls=LazyCommands, sections={"Commands": _COMMANDS})
def guard() -> None:
    """Guard what agents do outside of plans: observe it, or refuse what needs a plan.

    Example: ordain guard report
    """


LINES_MAX = 100_000


@command(context_settings={"ignore_unknown_options": True}, example="ordain guard check 'git push --force origin main'")
@click.argument("words", metavar="COMMAND…", nargs=-1, required=True, type=click.UNPROCESSED)
def check(session: Session, words: tuple[str, ...]) -> int:
    """Check how Ordain reads a command: what it does, its risk, and what the guard would answer an agent that
    calls it. Nothing is run. `-` reads one command per line from standard input."""
    if words == ("-",):
        lines = [line.rstrip("\n") for line in sys.stdin if line.strip()][:LINES_MAX]
    else:
        lines = [words[0] if len(words) == 1 else shlex.join(words)]
    found = CheckedCommands(commands=tuple(session.app.guard.check(line) for line in lines))
    return session.show(found, [line for one in found.commands for line in _lines(one, alone=len(lines) == 1)])


def _lines(one: CheckedCommand, *, alone: bool) -> list[str]:
    facts = "; ".join(f"{fact} {', '.join(about)}".rstrip() for fact, about in one.facts.items()) or "nothing is known"
    if not alone:
        return [f"{one.risk:9} {one.verdict:8} {visible(one.command)}", f"{'':18} {visible(facts)}"]
    return [
        f"{one.risk}: {visible(one.command)}",
        "",
        *(f"  {fact:16} {visible(', '.join(about))}".rstrip() for fact, about in one.facts.items()),
        *(["  nothing is known of it"] if not one.facts else []),
        "",
        f"An agent's call {visible(one.rule)}.",
    ]


@command(example="ordain guard report --since 30d")
@click.option(
    "--since",
    "within_ms",
    metavar="7d",
    default="7d",
    callback=duration_option,
    help=f"How far to look back; {DAYS_KEPT} days are kept.",
)
@click.option("--agent", metavar="NAME", help="Only of the agent that goes by this name.")
@click.option("--tool", metavar="NAME", help="Only of this tool, or of this server.")
def report(session: Session, within_ms: int, agent: str | None, tool: str | None) -> int:
    """Report guarded calls that agents made without a plan: what was refused, or would be if rules were enforced, by
    tool, agent and day; rules that would open what is harmless; and tools that plans should have."""
    if within_ms > DAYS_KEPT * DAY_MS:
        raise click.BadParameter(f"Only {DAYS_KEPT} days are kept; write `--since {DAYS_KEPT}d`, or less.")
    found = session.app.guard.report(within_ms, agent=agent, tool=tool)
    every = session.app.guard.report(within_ms) if not found.calls and (agent or tool) else found
    lines = watch_lines(found, session.style, session.width)
    return session.show(found, others_lines(every, session.width) if every.calls and not found.calls else lines)


RULES = "guard_rules.toml"


@command(name="init", example="ordain guard init")
@click.option("--user", is_flag=True, help="In your own configuration, for every workspace, instead of ordain.toml.")
@click.option("--remove", is_flag=True, help="Take back what was written, and nothing else.")
@click.option("--show", is_flag=True, help="Show what would be written, and write nothing.")
def init(session: Session, user: bool, remove: bool, show: bool) -> int:
    """Put a ready set of rules for coding agents into ordain.toml, or into your own configuration (--user): reading,
    building, testing and local git work are open, everything else needs a plan. Show the difference, ask, write it,
    and ask for trust.

    Only a person at a terminal can, but --show is for everybody."""
    pasted = " ".join(["ordain guard init", *(["--user"] if user else []), *(["--remove"] if remove else [])])
    if not show:
        need_person(session, "guard init", "change the rules of the guard", pasted)
    path = user_rules_file() if user else Path(session.app.workspace.workspace_path) / CONFIGURATION_FILE
    if path is None or not path.is_absolute():
        hint = "Set HOME, or XDG_CONFIG_HOME."
        raise refuse("E_CONFIG_USER", "Nobody says where your own configuration is.", hint)
    change = _change(path, remove=remove, new="" if user else settings_template())
    if session.json:
        changes = [change] if change.before != change.after else []
        return answer_changes(session, changes, _notes(remove=remove, user=user), pasted)
    confirmed = not user or change.after is None or user_rules_confirmed(change.after.encode())
    if change.before == change.after and (remove or confirmed):
        session.say(["There is nothing of ours to take back." if remove else "Everything is written already."])
        return FINE
    shown = shown_change(change)
    if change.before == change.after:  # it was edited by hand: what it opens counts once a person has read it
        shown = [f"{change.path}:", *(f"  │ {visible(line)}" for line in (change.after or "").split("\n")), ""]
    seen = session.page([*shown, *_notes(remove=remove, user=user), ""])
    if show:
        return FINE
    if not seen or not session.ask_word("Write this?"):
        session.say(["Nothing was written."])
        return REFUSED
    write_change(change, pasted)
    session.say([f"Wrote {change.path}." if change.after is not None else f"Deleted {change.path}."])
    if not user:
        return ask_trust(session)
    if change.after is not None:
        confirm_user_rules(change.after.encode())
    session.say(["It counts from the next call on, in every workspace of yours."])
    return FINE


def _change(path: Path, *, remove: bool, new: str) -> FileChange:
    before, rules = text_of(path), data_text(RULES)
    taken_out = f"ordain guard init {'' if new else '--user '}--remove"
    if remove:
        after = without_rules(before) if before is not None else None
        return FileChange(path, before, None if new == "" and after is not None and not after.strip() else after)
    try:
        return FileChange(path, before, with_rules(before if before is not None else new, rules, taken_out))
    except CannotEdit as error:
        raise _by_hand(path, str(error), rules) from error


def _by_hand(path: Path, why: str, rules: str) -> Refused:
    entries = ", ".join(f'"{entry}"' for entry in entries_of(rules))
    hint = f"To do it by hand: add to `open` in [guard] {entries}; and paste the rules."
    return refuse("E_CONFIG", f"{path} {why}; it was left as it is.", hint, f"The rules:\n{rules}")


def _notes(*, remove: bool, user: bool) -> tuple[str, ...]:
    if remove:
        return ("Every command that no other entry opens needs a plan again, where the rules are enforced.",)
    return (
        "What runs code of the workspace, such as tests, is open then, and not contained at tier 0.",
        'Rules only watch until [guard] has mode = "enforce".',
        *(("A workspace can guard more than these rules, and never less.",) if user else ()),
    )
