"""The ledger as a whole: what an audit showed, what a copy holds, and whose keys count."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from ordain.core.approval.signature import fingerprint
from ordain.core.ledger.findings import Audit, AuditedRun, Finding, Outputs
from ordain.core.lineage.workspace import Approver
from ordain.interfaces.view.picked import picked
from ordain.interfaces.view.run import instant
from ordain.interfaces.view.style import Style
from ordain.interfaces.view.text import counted, visible

_CANNOT_TELL = (
    "Not to be told from the ledger alone: whether its end was cut off after the last checkpoint that somebody kept,",
    "and who wrote what no signature vouches for: anyone who can write the file can write events that fit.",
)


class EnrolledApprover(Approver, frozen=True, kw_only=True):
    """A person whose key counts here, or did, with the mark that others know the key by."""

    fingerprint: str


def enrolled(found: Iterable[Approver]) -> tuple[EnrolledApprover, ...]:
    return tuple(picked(EnrolledApprover, one, fingerprint=fingerprint(one.key)) for one in found)


class ApproversResult(msgspec.Struct, frozen=True, kw_only=True):
    approvers: tuple[EnrolledApprover, ...]


class AuditResult(msgspec.Struct, frozen=True, kw_only=True):
    """What the audit of a whole ledger showed; `good` where nothing was found that does not fit."""

    events: int
    streams: int
    plans: int
    head: str
    findings: tuple[Finding, ...]
    runs: tuple[AuditedRun, ...]
    approvers: tuple[EnrolledApprover, ...]
    """Everybody who was enrolled, also those whose key was revoked."""
    signed_events: int
    """How many events, from the first on, a good signature vouches for."""
    outputs: Outputs
    """What is kept beside the events, compared with the seals in them."""
    unreadable: tuple[str, ...]
    """The plans that this version cannot read and that no run was started of. Neither good nor bad."""
    chain_intact: bool
    """Whether every event is what was recorded, where it was recorded."""
    good: bool
    checkpoint: str
    """SIZE:HEAD, to be kept where no agent can write."""


def audit_result(found: Audit) -> AuditResult:
    checkpoint = f"{found.events}:{found.head}"
    return picked(AuditResult, found, approvers=enrolled(found.approvers), checkpoint=checkpoint)


class CopiedResult(msgspec.Struct, frozen=True, kw_only=True):
    """A copy of the ledger, and the checkpoint to compare it with later."""

    written: str
    events: int
    checkpoint: str
    outputs_left_out: bool
    """Whether it is without what is kept beside the events, as every export is."""


class RebuiltResult(msgspec.Struct, frozen=True, kw_only=True):
    """From how many events the tables were made anew, and how many copies of proposals were written."""

    events: int
    copies: int


def audit_lines(found: Audit, keys: frozenset[str], style: Style) -> list[str]:
    """The report for people: what does not fit first, then what was looked at, then what to keep."""
    lines: list[str] = []
    for finding in found.findings:
        where = f"{finding.stream or 'the whole ledger'}{f', event {finding.seq}' if finding.seq else ''}"
        lines += [f"{style.bad(finding.kind)}  {visible(where)}", f"    {visible(finding.sentence)}"]
    if any(finding.kind == "table" for finding in found.findings):
        lines.append(f"  → {style.bold('ordain audit rebuild')}")
    verdict = style.bad("Ledger does not verify.") if found.findings else style.good("Ledger verified.")
    numbers = {"event": found.events, "stream": found.streams, "plan": found.plans, "run": len(found.runs)}
    lines += [f"{verdict} {', '.join(counted(number, noun) for noun, number in numbers.items())}."]
    for one in found.approvers:
        counts = "revoked" if one.revoked_at is not None else "counts"
        given = f", {'among' if fingerprint(one.key) in keys else 'not among'} the keys given" if keys else ""
        lines.append(f"  Key of {visible(one.name)}: {fingerprint(one.key)} ({counts}{given})")
    for run in found.runs:
        by = f" by {visible(run.by or '')} ({run.key})" if run.key is not None else ""
        approval = f"{run.approval.value}{by}"
        answers = f"; {run.answers_signed} of {run.answers} answers signed" if run.answers else ""
        unknown = f"; policy {run.policy}" if run.policy == "cannot be re-checked" else ""
        status = visible(run.status or "open")
        lines.append(f"  {visible(run.run_id)}: {approval}, {status}{answers}{unknown}")
    lines += [f"  {visible(sentence)} No run was started of it." for sentence in found.unreadable]
    outputs = found.outputs
    lines.append(f"Chain: {'intact' if found.chain_intact else style.bad('broken')}.")
    broken = style.bad(f"{outputs.changed} changed") if outputs.changed else "0 changed"
    gone = f"{outputs.removed} removed by retention, " if outputs.removed else ""
    never = " (what contracts write never is)" if outputs.left_out else ""
    lines.append(f"Kept outputs: {outputs.intact} intact, {broken}, {gone}{outputs.left_out} not kept here{never}.")
    signed = f"Signatures vouch for the first {found.signed_events} of {found.events} events."
    lines += [signed, "Checkpoint, to be kept where no agent can write:", f"  {found.events}:{found.head}"]
    return [*lines, *_CANNOT_TELL]


def approver_line(one: Approver) -> str:
    """Whose key counts, or did, and since when."""
    ended = f", revoked {instant(one.revoked_at)}" if one.revoked_at is not None else ""
    return f"{visible(one.name):<20} {fingerprint(one.key)}  since {instant(one.enrolled_at)}{ended}"
