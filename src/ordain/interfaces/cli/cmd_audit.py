"""The commands about the ledger as a whole: audit verify, export, backup, restore, rebuild; stats."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from pathlib import Path

import click
import msgspec

from ordain.core.approval.signature import PublicKey, fingerprint
from ordain.core.ledger.link import Tip
from ordain.core.policy.settings import USER_FILE
from ordain.core.text.problem import Problem, refuse
from ordain.interfaces.cli.main import Commands
from ordain.interfaces.cli.output_file import write_whole
from ordain.interfaces.cli.session import FAILED, FINE, REFUSED, Session, command, duration_option, is_there, is_utf8
from ordain.interfaces.view.audit import CopiedResult, RebuiltResult, audit_lines, audit_result
from ordain.interfaces.view.statistics import statistics_lines
from ordain.interfaces.view.text import visible
from ordain.records.records import names_run

_FINGERPRINT = re.compile(r"ed25519:[0-9a-f]{64}")


@click.group(cls=Commands)
def audit() -> None:
    """Verify, export, back up, restore or rebuild the ledger.

    Example: ordain audit verify
    """


def _checkpoint(context: click.Context, option: click.Parameter, text: str | None) -> Tip | None:
    if text is None:
        return None
    if not re.fullmatch(r"[0-9]{1,18}:[0-9a-f]{64}", text):
        raise click.BadParameter("A checkpoint is written SIZE:HEAD, as `ordain audit verify` prints it.")
    size, _, head = text.partition(":")
    return Tip(int(size), bytes.fromhex(head))


def _keys(context: click.Context, option: click.Parameter, given: tuple[str, ...]) -> frozenset[str]:
    """Fingerprints: given as such, or in files whose lines begin with one, or with a key in base64."""
    found: set[str] = set()
    for text in given:
        if _FINGERPRINT.fullmatch(text):
            found.add(text)
            continue
        try:
            lines = Path(text).read_text(encoding="utf-8").splitlines()
            words = [line.split()[0] for line in lines if line.strip() and not line.startswith("#")]
            found |= {word if _FINGERPRINT.fullmatch(word) else fingerprint(PublicKey(key=word)) for word in words}
        except (OSError, ValueError) as error:
            raise click.BadParameter(f"`{text}` is neither a fingerprint nor a file of keys: {error}.") from None
    return frozenset(found)


_LEFT_OUT = Problem(
    code="W_OUTPUTS_LEFT_OUT",
    detail="The backup has every event, and not what is kept beside them: exact outputs, prompts, protected files.",
    hints=(f"`[audit] robot_backup_outputs = true` in ~/.config/ordain/{USER_FILE} puts them into scheduled backups.",),
    command="ordain audit backup FILE",
)


@command(name="verify")
@click.option("--checkpoint", metavar="SIZE:HEAD", callback=_checkpoint, help="One that you kept from an earlier look.")
@click.option("--key", "keys", metavar="FINGERPRINT|FILE", multiple=True, callback=_keys, help="Only these keys count.")
def verify(session: Session, checkpoint: Tip | None, keys: frozenset[str]) -> int:
    """Verify every event of the ledger: chains, plans, approvals, signatures, and that every run replays as recorded.

    Exit status 0: verified; 1: something does not match. tools/verify_ledger.py does the same without ordain.
    Example: ordain audit verify --key ed25519:35de91…
    """
    found = session.app.audits.verify(keys, checkpoint)
    if session.json and not found.good:
        stale = all(finding.kind == "table" for finding in found.findings)
        detail = f"{len(found.findings)} findings; the first: {found.findings[0].sentence}"
        command_line = "ordain audit rebuild" if stale else None
        session.refused([Problem(code="F_AUDIT_FINDINGS", detail=detail, command=command_line)], audit_result(found))
    else:
        session.show(audit_result(found), audit_lines(found, keys, session.style))
    return FINE if found.good else FAILED


@command(name="export", example="ordain audit export -o ledger.jsonl")
@click.option("-o", "--output", metavar="FILE", help="Where to; default: standard output.")
def export(session: Session, output: str | None) -> int:
    """Export all events as lines of JSON, for others to verify. Kept outputs stay here."""
    if output is None:
        if session.json:
            raise click.UsageError("The export is JSON itself; to get one document about it, say where to with -o.")
        for line in session.app.audits.export():
            click.echo(line, nl=False)
        return FINE
    lines = list(session.app.audits.export())
    write_whole(output, b"".join(lines))
    said = msgspec.json.decode(lines[0])
    return _copied(session, "exported", output, Tip(said["size"], bytes.fromhex(said["head"])))


@command(name="backup", example="ordain audit backup ledger-2026-11-15.db")
@click.argument("file")
def backup(session: Session, file: str) -> int:
    """Back up the ledger to a new file that only you can read: for a person at a terminal, with all kept outputs.
    A robot or a script gets the events without the exact outputs, unless your own config.toml says otherwise."""
    if not is_utf8(file):
        raise refuse("E_OUTPUT", f"{file} cannot be written: its name is not UTF-8.", "Give another name.")
    if not Path(file).absolute().parent.is_dir():
        raise refuse("E_OUTPUT", f"There is no directory {Path(file).absolute().parent}.")
    tip, outputs = session.app.audits.backup(Path(file), session.by)
    return _copied(session, "backed up", file, tip, outputs=outputs, notices=[] if outputs else [_LEFT_OUT])


def _copied(
    session: Session, how: str, file: str, tip: Tip, *, outputs: bool = False, notices: Sequence[Problem] = ()
) -> int:
    checkpoint = f"{tip.size}:{tip.head.hex()}"
    result = CopiedResult(written=file, events=tip.size, checkpoint=checkpoint, outputs_left_out=not outputs)
    lines = [f"{tip.size} events {how} to {visible(file)}. Checkpoint:", f"  {checkpoint}"]
    following = [f"ordain audit verify --checkpoint {checkpoint}"]
    return session.show(result, lines, notices=notices, next_=following)


@command(name="restore")
@click.argument("file")
def restore(session: Session, file: str) -> int:
    """Restore the ledger of this workspace, which must have none, from a backup or an export. Only a person can.

    Approvals in it that were not used end: the copy cannot know what they were used for since.
    Example: ordain audit restore ledger-2026-11-15.db
    """
    session.needs_person("restore a ledger", f"ordain audit restore {shlex.quote(file)}")
    session.app.audits.refuse_restoring()
    if not is_there(file) or not Path(file).is_file():
        raise refuse("E_DOC_NOT_FOUND", f"There is no file {file}.")
    if not session.json:  # refused there: the robots' channel can only ask
        session.say(
            [
                f"Who may approve, which settings hold and what was done: all will be as {visible(file)} says.",
                "Verify it first, if it was out of your hands: python3 tools/verify_ledger.py FILE",
            ]
        )
        if not session.ask_word("Restore it?"):
            session.say(["Not restored; there is no ledger here as before."])
            return REFUSED
    tip, ended = session.run(session.app.audits.restore(Path(file), session.by))
    session.say([f"{tip.size} events restored. Checkpoint of the copy:", f"  {tip.size}:{tip.head.hex()}"])
    if ended:
        session.say([f"Ended, because the copy cannot know what became of them: {', '.join(ended)}."])
    return FINE


@command(name="rebuild", example="ordain audit rebuild")
def rebuild(session: Session) -> int:
    """Rebuild the tables derived from the events, and the copies of proposals under .ordain/plans."""
    events, copies = session.app.audits.rebuild()
    lines = [f"Rebuilt the tables from {events} events, and {copies} copies of proposals."]
    return session.show(RebuiltResult(events=events, copies=copies), lines, next_=["ordain audit verify"])


for _subcommand in (verify, export, backup, restore, rebuild):
    audit.add_command(_subcommand)


@command(example="ordain stats --since 30d")
@click.argument("what", metavar="[PLAN|RUN]", required=False)
@click.option(
    "--since", "within_ms", metavar="30d", callback=duration_option, help="Only what began in this long until now."
)
def stats(session: Session, what: str | None, within_ms: int | None) -> int:
    """Count how plans and runs went: how they ended, where time went, what failed and why, what was missing.

    Everything is counted from the ledger: all plans of this workspace, one plan with its runs, or one run."""
    ref = what if what is None or names_run(what) else session.plan_named(what)
    found = session.app.audits.statistics(ref, within_ms)
    return session.show(found, statistics_lines(found, session.style, session.width))
