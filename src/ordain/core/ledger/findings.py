"""What the audit of a ledger says: its findings, and whose word each run was started on."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum

import msgspec

from ordain.core.lineage.workspace import Approver
from ordain.core.plan.model import Plan
from ordain.core.plan.tool import ToolDefinition
from ordain.core.plan.value import PlanId, RunId
from ordain.core.run.event import ConfigTrusted


class Kind(StrEnum):
    """What is wrong, in a word."""

    MISSING = "missing"
    """The order of arrival has a gap, or goes back."""
    CHAIN = "chain"
    """An event is not what was recorded, or not where."""
    UNREADABLE = "unreadable"
    """Bytes that fit their chain and say nothing this version understands."""
    STRAY = "stray"
    """An event in a stream where its kind does not belong."""
    PLAN = "plan"
    """A plan's bytes do not have the digest they are called by."""
    COMMITMENT = "commitment"
    """A plan and a run of it do not say the same about each other."""
    APPROVAL = "approval"
    """A run that its approval does not permit."""
    DECISION = "decision"
    """An answer that is of nobody who may answer, that does not do what its word says, or that was given elsewhere in a
    run than where it stands."""
    SIGNATURE = "signature"
    """A signature that is needed is missing, or one that is there does not count."""
    CHECKPOINT = "checkpoint"
    """The ledger is not the one that somebody saw."""
    FORM = "form"
    """A plan's bytes are not the one spelling that could have been prepared."""
    ACTIONS = "actions"
    """An approval names other kinds of action than its plan has."""
    HISTORY = "history"
    """Something that cannot happen is recorded."""
    OUTPUT = "output"
    """What is kept beside the events is not what was sealed in them."""
    TABLE = "table"
    """A table beside the events says something else than they do. It was never believed, and can be made anew."""


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that does not fit, and at which event; `seq` is 0 where it is about a whole stream or ledger."""

    kind: Kind
    stream: str
    seq: int
    sentence: str


class Signed(StrEnum):
    """Whose word a run was started on."""

    SIGNED = "signed"
    """A person's, who signed it with a key that counts."""
    UNSIGNED = "unsigned"
    """Somebody's at a terminal: nothing proves it."""
    NOT_NEEDED = "claims no approval"
    """Nobody's: the run says that policy asked for no approval."""


class AuditedRun(msgspec.Struct, frozen=True, kw_only=True):
    """One run, and whose word it was started on."""

    run_id: RunId
    plan_id: PlanId
    lineage: str
    status: str | None
    """How it ended; None while it is open."""
    approval: Signed
    by: str | None = None
    key: str | None = None
    """The fingerprint of the key that signed."""
    policy: str = ""
    """`allowed` where policy let it run unasked, by what was recorded with it; `cannot be re-checked` where an older
    version recorded too little, which is neither good nor bad."""
    answers: int = 0
    answers_signed: int = 0
    """How many of a person's answers the run went by, and how many of them are proved to be somebody's."""


class Outputs(msgspec.Struct, frozen=True, kw_only=True):
    """What is kept beside the events, compared with the seals in them."""

    intact: int = 0
    changed: int = 0
    removed: int = 0
    """Removed by `[retention]`, as an event says."""
    left_out: int = 0
    """Sealed, and not here: never kept, or left out of a copy. Neither good nor bad."""


class Audit(msgspec.Struct, frozen=True, kw_only=True):
    """What the audit of a whole ledger showed."""

    events: int
    streams: int
    plans: int
    head: str
    """With `events` the checkpoint: whoever keeps both can tell later that nothing before it was changed or cut off."""
    findings: tuple[Finding, ...]
    runs: tuple[AuditedRun, ...]
    approvers: tuple[Approver, ...]
    """Everybody who was enrolled, also those whose key was revoked."""
    signed_events: int
    """How many events, from the first on, a good signature vouches for: none of them can be rewritten."""
    outputs: Outputs = Outputs()
    unreadable: tuple[str, ...] = ()
    """The plans that this version cannot read and that no run was started of, with the reason. Neither good nor bad."""

    @property
    def good(self) -> bool:
        return not self.findings

    @property
    def chain_intact(self) -> bool:
        """Whether every event is what was recorded, where it was recorded."""
        return not any(one.kind in (Kind.MISSING, Kind.CHAIN, Kind.CHECKPOINT) for one in self.findings)


class Rules:
    """What a trusted configuration means; as it stands it forbids nothing."""

    def unasked(
        self, plan: Plan, trusted: ConfigTrusted | None, tools: Mapping[str, ToolDefinition] | None
    ) -> bool | None:
        """Whether a plan could run without anybody's approval, by these definitions; None where nobody can tell."""
        return True

    def signatures(self, trusted: ConfigTrusted | None) -> bool:
        """Whether every approval and every answer had to be signed."""
        return False

    def approvers(self, trusted: ConfigTrusted | None) -> tuple[str, ...]:
        """Who alone could approve and answer, by name; empty where anybody could."""
        return ()

    def removes_outputs(self, trusted: ConfigTrusted | None) -> bool:
        """Whether what is kept could be removed at all."""
        return True
