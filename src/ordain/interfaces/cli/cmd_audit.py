"""The commands about the ledger as a whole: audit verify, export, backup, restore, rebuild."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from pathlib import Path

import click
import msgspec

from ordain.core.approval.signature import PublicKey, fingerprint
from ordain.core.ledger.audit import Audit
from ordain.core.ledger.link import Tip
from ordain.core.policy.settings import USER_FILE
from ordain.core.text.problem import Problem, refuse
from ordain.interfaces.cli.output_file import write_whole
from ordain.interfaces.cli.session import FAILED, FINE, REFUSED, Session, command, is_there, is_utf8
from ordain.interfaces.robot.results.ledger import RebuiltResult, audit_result, copied_result
from ordain.interfaces.view import run as render

_FINGERPRINT = re.compile(r"ed25519:[0-9a-f]{64}")
_CANNOT_TELL = (
    "Not to be told from the ledger alone: whether its end was cut off after the last checkpoint that somebody kept,",
    "and who wrote what no signature vouches for: whoever can write the file can write events that fit.",
)


@click.group()
def audit() -> None:
    """The ledger as a whole: verify it, export or back it up, restore a copy, make its tables anew.

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
    """Look at every event of the ledger: chains, plans, approvals, signatures, and whether all runs are as recorded.

    Exit status 0: all of it fits; 1: something does not. tools/verify_ledger.py does the same without ordain.
    Example: ordain audit verify --key ed25519:35de91…
    """
    found = session.app.auditing.verify(keys, checkpoint)
    if not session.json:
        session.say(_lines(found, session, keys))
    elif found.good:
        session.answer(audit_result(found))
    else:
        session.refused([_problem(found)], audit_result(found))
    return FINE if found.good else FAILED


def _problem(found: Audit) -> Problem:
    first, stale = found.findings[0], all(finding.kind == "table" for finding in found.findings)
    return Problem(
        code="F_AUDIT_FINDINGS",
        detail=f"{len(found.findings)} things do not fit; the first: {first.sentence}",
        command="ordain audit rebuild" if stale else None,
    )


def _lines(found: Audit, session: Session, keys: frozenset[str]) -> list[str]:
    """The report for people: what does not fit first, then what was looked at, then what to keep."""
    style, lines = session.style, []
    for finding in found.findings:
        where = f"{finding.stream or 'the whole ledger'}{f', event {finding.seq}' if finding.seq else ''}"
        lines += [f"{style.bad(finding.kind)}  {render.visible(where)}", f"    {render.visible(finding.sentence)}"]
    if any(finding.kind == "table" for finding in found.findings):
        lines.append(f"  → {style.bold('ordain audit rebuild')}")
    verdict = style.bad("Not all of it fits.") if found.findings else style.good("All of it fits.")
    lines += [f"{verdict} {found.events} events, {found.streams} streams, {found.plans} plans, {len(found.runs)} runs."]
    for one in found.approvers:
        counts = "revoked" if one.revoked_at is not None else "counts"
        given = f", {'among' if fingerprint(one.key) in keys else 'not among'} the keys given" if keys else ""
        lines.append(f"  Key of {render.visible(one.name)}: {fingerprint(one.key)} ({counts}{given})")
    for run in found.runs:
        by = f" by {render.visible(run.by or '')} ({run.key})" if run.key is not None else ""
        approval = f"{run.approval.value}{by}"
        answers = f"; {run.answers_signed} of {run.answers} answers signed" if run.answers else ""
        unknown = f"; policy {run.policy}" if run.policy == "cannot be re-checked" else ""
        status = render.visible(run.status or "open")
        lines.append(f"  {render.visible(run.run_id)}: {approval}, {status}{answers}{unknown}")
    lines += [f"  {render.visible(sentence)} No run was started of it." for sentence in found.unreadable]
    outputs = found.outputs
    lines.append(f"Chain: {'intact' if found.chain_intact else style.bad('broken')}.")
    broken = style.bad(f"{outputs.changed} changed") if outputs.changed else "0 changed"
    lines.append(f"Kept outputs: {outputs.intact} intact, {broken}, {outputs.left_out} not kept here.")
    signed = f"Signatures vouch for the first {found.signed_events} of {found.events} events."
    lines += [signed, "Checkpoint, to be kept where no agent can write:", f"  {found.events}:{found.head}"]
    return [*lines, *_CANNOT_TELL]


@command(name="export")
@click.option("-o", "--output", metavar="FILE", help="Where to; default: standard output.")
def export(session: Session, output: str | None) -> int:
    """Write all events as lines of JSON, for others to verify. What is kept beside them stays here.

    Example: ordain audit export -o ledger.jsonl
    """
    if output is None:
        if session.json:
            raise click.UsageError("The export is JSON itself; to get one document about it, say where to with -o.")
        for line in session.app.auditing.export():
            click.echo(line, nl=False)
        return FINE
    lines = list(session.app.auditing.export())
    write_whole(output, b"".join(lines))
    said = msgspec.json.decode(lines[0])
    return _copied(session, "exported", output, Tip(said["size"], bytes.fromhex(said["head"])))


@command(name="backup")
@click.argument("file")
def backup(session: Session, file: str) -> int:
    """Copy the ledger to a new file that only you can read: for a person at a terminal with everything kept beside it.
    A robot or a script gets the events without the exact outputs, unless your own config.toml says otherwise.

    Example: ordain audit backup ledger-2026-11-15.db
    """
    if not is_utf8(file):
        raise refuse("E_OUTPUT", f"{file} cannot be written: its name is not UTF-8.", "Give another name.")
    if not Path(file).absolute().parent.is_dir():
        raise refuse("E_OUTPUT", f"There is no directory {Path(file).absolute().parent}.")
    tip, outputs = session.app.auditing.backup(Path(file), session.by)
    return _copied(session, "backed up", file, tip, outputs=outputs, notices=[] if outputs else [_LEFT_OUT])


def _copied(
    session: Session, how: str, file: str, tip: Tip, *, outputs: bool = False, notices: Sequence[Problem] = ()
) -> int:
    result = copied_result(file, tip, outputs=outputs)
    if session.json:
        session.answer(result, problems=notices, next_=[f"ordain audit verify --checkpoint {result.checkpoint}"])
    else:
        session.notices(notices)
        session.say([f"{tip.size} events {how} to {render.visible(file)}. Checkpoint:", f"  {result.checkpoint}"])
    return FINE


@command(name="restore")
@click.argument("file")
def restore(session: Session, file: str) -> int:
    """Make the ledger of this workspace, which must have none, from a backup or an export. Only a person can.

    Approvals in it that were not used end: the copy cannot know what they were used for since.
    Example: ordain audit restore ledger-2026-11-15.db
    """
    session.needs_person("restore a ledger", f"ordain audit restore {shlex.quote(file)}")
    session.app.auditing.refuse_restoring()
    if not is_there(file) or not Path(file).is_file():
        raise refuse("E_DOC_NOT_FOUND", f"There is no file {file}.")
    if not session.json:  # refused there: the robots' channel can only ask
        session.say(
            [
                f"Who may approve, which settings hold and what was done: all will be as {render.visible(file)} says.",
                "Verify it first, if it was out of your hands: python3 tools/verify_ledger.py FILE",
            ]
        )
        if (session.ask("Restore it? Type yes") or "").lower() != "yes":
            session.say(["Not restored; there is no ledger here as before."])
            return REFUSED
    tip, ended = session.run(session.app.auditing.restore(Path(file), session.by))
    session.say([f"{tip.size} events restored. Checkpoint of the copy:", f"  {tip.size}:{tip.head.hex()}"])
    if ended:
        session.say([f"Ended, because the copy cannot know what became of them: {', '.join(ended)}."])
    return FINE


@command(name="rebuild")
def rebuild(session: Session) -> int:
    """Make the tables beside the events anew from them, and our copies of proposals under .ordain/plans.

    Example: ordain audit rebuild
    """
    events, copies = session.app.auditing.rebuild()
    if session.json:
        session.answer(RebuiltResult(events=events, copies=copies), next_=["ordain audit verify"])
    else:
        session.say([f"Made the tables anew from {events} events, and {copies} copies of proposals."])
    return FINE


for _subcommand in (verify, export, backup, restore, rebuild):
    audit.add_command(_subcommand)
