"""What the verbs about the ledger as a whole answer: audit verify, export, backup, rebuild."""

from __future__ import annotations

import msgspec

from ordain.core.audit import Audit, AuditedRun, Finding
from ordain.core.chain import Tip
from ordain.interfaces.results.people import EnrolledApprover, enrolled

__all__ = ["AuditResult", "CopiedResult", "RebuiltResult", "audit_result", "copied_result"]


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
    good: bool
    checkpoint: str
    """SIZE:HEAD, to be kept where no agent can write."""


def audit_result(found: Audit) -> AuditResult:
    facts = msgspec.structs.asdict(found) | {"approvers": enrolled(found.approvers)}
    return AuditResult(**facts, good=found.good, checkpoint=f"{found.events}:{found.head}")


class CopiedResult(msgspec.Struct, frozen=True, kw_only=True):
    """A copy of the ledger, and the checkpoint to compare it with later."""

    written: str
    events: int
    checkpoint: str


def copied_result(file: str, tip: Tip) -> CopiedResult:
    return CopiedResult(written=file, events=tip.size, checkpoint=f"{tip.size}:{tip.head.hex()}")


class RebuiltResult(msgspec.Struct, frozen=True, kw_only=True):
    """From how many events the tables were made anew, and how many copies of proposals were written."""

    events: int
    copies: int
