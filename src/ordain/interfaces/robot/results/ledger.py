"""What the verbs about the ledger as a whole answer: audit verify, export, backup, rebuild."""

from __future__ import annotations

import msgspec

from ordain.core.ledger.findings import Audit, AuditedRun, Finding, Outputs
from ordain.core.ledger.link import Tip
from ordain.interfaces.robot.results.people import EnrolledApprover, enrolled


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
    facts = msgspec.structs.asdict(found) | {"approvers": enrolled(found.approvers)}
    return AuditResult(
        **facts, chain_intact=found.chain_intact, good=found.good, checkpoint=f"{found.events}:{found.head}"
    )


class CopiedResult(msgspec.Struct, frozen=True, kw_only=True):
    """A copy of the ledger, and the checkpoint to compare it with later."""

    written: str
    events: int
    checkpoint: str
    outputs_left_out: bool
    """Whether it is without what is kept beside the events, as every export is."""


def copied_result(file: str, tip: Tip, *, outputs: bool) -> CopiedResult:
    checkpoint = f"{tip.size}:{tip.head.hex()}"
    return CopiedResult(written=file, events=tip.size, checkpoint=checkpoint, outputs_left_out=not outputs)


class RebuiltResult(msgspec.Struct, frozen=True, kw_only=True):
    """From how many events the tables were made anew, and how many copies of proposals were written."""

    events: int
    copies: int
