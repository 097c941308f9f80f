"""What can happen to a step of a run, and what such an event holds: states, outcomes, evidence."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum

import msgspec

from ordain.core.approval.approval import Principal
from ordain.core.approval.signature import Signature
from ordain.core.plan.value import Instant, RunId, StepId
from ordain.core.task.work_item import Lease, WorkItem


class StepState(StrEnum):
    """Where a step is. *Ready* and *blocked* are questions about these, never stored."""

    __hash__ = str.__hash__  # the hash of other enums is Python code, and each event is looked up in several sets

    PENDING = "pending"
    RUNNING = "running"
    WAITING = "waiting"
    VERIFYING = "verifying"
    PASSED = "passed"
    FAILED = "failed"
    IN_DOUBT = "in_doubt"
    ESCALATED = "escalated"
    SKIPPED = "skipped"
    CANCELLED = "cancelled"


class Verdict(StrEnum):
    """What running a contract showed."""

    HELD = "held"
    BROKEN = "broken"
    INCONCLUSIVE = "inconclusive"


class Settlement(StrEnum):
    """How a step in doubt can be settled."""

    AGAIN = "again"
    """Running it again does no harm."""
    CONTRACT = "contract"
    """Its contract can tell."""
    CHECK = "check"
    """A check that the tool or the step declares is asked first."""
    PERSON = "person"
    """Only a person can say."""


class GroupKind(StrEnum):
    """What the steps are that a step became or that stand in for it."""

    ITEMS = "items"
    """One for each item of a list."""
    NESTED = "nested"
    """Those of a nested plan."""
    FALLBACK = "fallback"
    """Fallback steps, after it failed."""


class Fact(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag_field="type"):
    """Base of all events."""


class StepFact(Fact, frozen=True):
    """Base of the events of one attempt at a step."""

    step: StepId
    attempt: int


class Usage(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What something says that it has used. Nobody measured it."""

    tokens: int | None = None
    cost_usd: float | None = None


class Carried(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What runs before have spent from one budget, and what people added to it then; both as they are counted."""

    spent: Mapping[str, int] = {}
    extended: Mapping[str, int] = {}


class Outcome(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What an attempt was seen to do. `error` is absent when it went well."""

    duration_ms: int
    exit_code: int | None = None
    error: str | None = None
    """A problem code, with `detail` saying what happened."""
    detail: str = ""
    output_tail: str = ""
    output_bytes: int = 0
    output_sha256: str = ""
    """Only in ledgers of the first format: a plain hash would let a secret be guessed."""
    output_seal: str = ""
    """Commits to the exact output, which is kept beside the chain under this name; to its end where there is more."""
    whole_seal: str = ""
    """Commits to all of an output of which only the end is kept, by its digest and length."""
    hidden: tuple[tuple[int, int, str], ...] | None = None
    """Where secrets are in the exact output that is kept, and by what names: as whoever recorded it knew them. None
    where nobody looked, as in 0.1."""
    leftovers: int = 0
    """Processes the attempt left behind, killed by us."""
    output_json: bool = False
    """Whether the output is the JSON of a value, and not text."""
    used: Usage | None = None
    """What the attempt itself reported; we did not measure it."""
    refused: int = 0
    """How many calls its agent was refused."""
    transcript_seal: str = ""
    """Of a task whose agent is a model: commits to what was said, which is kept beside the chain under this name."""
    transcript_bytes: int = 0
    affected_files: tuple[str, ...] | None = None
    """What it changed, by path and without secrets; None where that is not known. No evidence."""
    affected_more: int = 0
    """How many more there were than are named."""


class Evidence(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What the harness saw when it looked whether a step is done."""

    verdict: Verdict
    duration_ms: int
    exit_code: int | None = None
    error: str | None = None
    """A problem code, where the verdict alone does not say what is wrong."""
    detail: str = ""
    output_tail: str = ""
    output_bytes: int = 0
    output_sha256: str = ""
    output_seal: str = ""
    command_sha256: str = ""
    """Of the contract's own text, or of the expression: what was judged, whatever the document says by now."""
    env_names: tuple[str, ...] = ()
    """The variables that the contract was given."""
    env_seal: str = ""
    """Commits to their names and values: the same where it was given the same."""
    git_head: str = ""
    """The commit that was checked out, where there is one and it can be told."""


class ProtectedFile(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A protected file as it was found: its exact content, or where a link leads, is kept beside the chain."""

    seal: str
    size: int
    mode: int | None = None
    """Absent for a link, which has none of its own."""


class StepKept(Fact, frozen=True, tag="step_kept"):
    """A step that passed in the run before was not run again."""

    step: StepId
    attempt: int = 0
    outcome: Outcome | None = None
    """What was seen of it then; later steps may ask about it."""
    evidence: Evidence | None = None
    """What its contract showed now; absent for a step without one. Of an expression, what it showed then."""
    run_id: RunId | None = None
    """Of a successor: the run in which it was carried out."""
    word: str = ""
    """By whose word alone it passed there, where nothing was seen."""


class StepNotKept(Fact, frozen=True, tag="step_not_kept"):
    """The contract of a step that passed in the run before does not hold any more: it is run again."""

    step: StepId
    evidence: Evidence
    attempt: int = 0


class ConditionFalse(Fact, frozen=True, tag="condition_false"):
    """A step's `when` was false when its turn came: it is not run."""

    step: StepId
    attempt: int = 0


class PreconditionBroken(StepFact, frozen=True, tag="precondition_broken"):
    """What must hold before a step did not, so nothing was begun; the failure policy says what follows."""

    error: str
    """A problem code, with `detail` saying what did not hold."""
    detail: str
    to: StepState
    not_before: Instant | None = None
    aborts: bool = False
    fallback: tuple[StepId, ...] = ()


class StepApprovalAsked(StepFact, frozen=True, tag="step_approval_asked"):
    """A person is asked whether this step may be done, with its arguments as they are now known."""

    reason: str
    shown: str
    """What would be done, redacted."""
    seal: str
    """Commits to exactly what would be done: only that is allowed by a yes."""


class StepUnfolded(StepFact, frozen=True, tag="step_unfolded"):
    """A step became steps of its own, and waits for them: one for each item, or those of its nested plan."""

    kind: GroupKind
    count: int
    items_seal: str = ""
    """Commits to the items, which are kept beside the chain under this name."""
    labels: tuple[str, ...] = ()
    """What tells each item from the others where it is shown, redacted and cut; of very many items there are none."""


class AttemptStarted(StepFact, frozen=True, tag="attempt_started"):
    """The intent, durable before the effect."""

    key: str
    agent: str = ""
    """Of a task: who performs it."""
    why: str = ""
    """Why it is that agent."""


class WorkOffered(StepFact, frozen=True, tag="work_offered"):
    """A work item was made of a step's task; its prompt is kept beside the chain."""

    item: WorkItem


class WorkClaimed(StepFact, frozen=True, tag="work_claimed"):
    """Somebody took the item. Nobody else can; when its time is over the attempt is."""

    lease: Lease


class AgentCalled(StepFact, frozen=True, tag="agent_called"):
    """The agent of a step calls a tool through the step's door; durable before the call is performed."""

    call: int
    """Which one of the attempt, from one."""
    tool: str
    args: str
    """The beginning of its arguments, redacted."""
    seal: str
    """Commits to all of them."""


class AgentCallFailed(StepFact, frozen=True, tag="agent_call_failed"):
    """What was seen of a call that did not go well. Where nothing is recorded of one, it did, or was cut short."""

    call: int
    error: str
    detail: str = ""


class FilesProtected(StepFact, frozen=True, tag="files_protected"):
    """What must not change was kept, durable before the effect. A step's own files are kept once, before its first
    attempt; the plan's are those that were not known yet."""

    of_plan: Mapping[str, ProtectedFile] = {}
    of_step: Mapping[str, ProtectedFile] = {}
    beside_plan: tuple[str, ...] | None = None
    """What was there and would be tampering if it were new (`LoadingRules`), besides what is kept; None where nobody
    looked, as before 0.2."""
    beside_step: tuple[str, ...] | None = None


class ContractSeen(StepFact, frozen=True, tag="contract_seen"):
    """A step's contract was run before its effect: a checkable step's, with a look at what it would change, so that
    doubt can be settled later; or because the plan wants proof that it was broken."""

    evidence: Evidence
    operand: str | None = None
    """A digest of what the tool is about to change, as it is before the effect."""


class AttemptWaiting(StepFact, frozen=True, tag="attempt_waiting"):
    """A step that has begun can do nothing until something outside of its run happens: a lock is given back, a person
    answers. Recorded again when it waits for somebody else. It is not at work, so no crash puts it in doubt."""

    reason: str
    """What it waits for, in words that follow on "waits for"."""
    until: Instant | None = None
    """When it waits no longer; an instant, so that restarts do not make it wait anew."""


class AttemptEnded(StepFact, frozen=True, tag="attempt_ended"):
    """The outcome. `to` is where it took the step; `aborts` says that the failure policy ends the run."""

    outcome: Outcome
    to: StepState
    not_before: Instant | None = None
    aborts: bool = False
    fallback: tuple[StepId, ...] = ()


class ContractHeld(StepFact, frozen=True, tag="contract_held"):
    evidence: Evidence


class ContractBroken(StepFact, frozen=True, tag="contract_broken"):
    evidence: Evidence
    to: StepState
    not_before: Instant | None = None
    aborts: bool = False
    fallback: tuple[StepId, ...] = ()


class ContractInconclusive(StepFact, frozen=True, tag="contract_inconclusive"):
    evidence: Evidence
    to: StepState
    not_before: Instant | None = None
    aborts: bool = False
    fallback: tuple[StepId, ...] = ()


class FallbackEnded(StepFact, frozen=True, tag="fallback_ended"):
    """The fallback steps of a step have ended; its contract is tried again where it has one."""

    reason: str
    to: StepState
    not_before: Instant | None = None
    aborts: bool = False


class DoubtFound(StepFact, frozen=True, tag="doubt_found"):
    """An executor died between intent and outcome; `settle` is what the table of doubt says."""

    settle: Settlement
    reason: str


class DoubtSettled(StepFact, frozen=True, tag="doubt_settled"):
    """Doubt settled without a person: by rule, or by the contract."""

    to: StepState
    reason: str
    evidence: Evidence | None = None


class DoubtReferred(StepFact, frozen=True, tag="doubt_referred"):
    """The contract could not settle it; a check or a person is asked."""

    reason: str
    evidence: Evidence
    settle: Settlement = Settlement.PERSON


class DoubtChecked(StepFact, frozen=True, tag="doubt_checked"):
    """A check was asked whether the effect of a step in doubt happened. Where its answer settles nothing the step
    stays in doubt, and a person is asked, who sees it."""

    evidence: Evidence
    """`held`: it happened; `broken`: it did not; `inconclusive`: the check does not know."""
    to: StepState
    reason: str
    tool: str = ""
    """The tool whose registration declares the check; empty for the step's own."""
    final: bool = False
    """Whether that registration says that "did not" is final."""
    read_only: bool = False
    """Whether a sandbox kept it from changing the workspace. If not, its answer settles nothing."""


class DecisionGiven(Fact, frozen=True, tag="decision_given"):
    """What a person answered about an escalated step, a doubt, a budget or a question of the plan, and what it was an
    answer to.

    The later half is missing in decisions of before answers were bound; `core.decision` says what is signed.
    """

    step: StepId
    choice: str
    by: Principal
    to: StepState
    aborts: bool = False
    attempt: int = 0
    """The attempt that was asked about."""
    about: str = ""
    """`doubt`, `escalation`, `ask`, `task`, `step_approval` or `budget`."""
    asked_sha256: str = ""
    """Digest of the question as it was put: its words, what was seen of the step, the choices and what each does."""
    head: str = ""
    """The run's chain as it was when the person was asked. Between that and this event nothing of the step is
    recorded; of other steps there may be something, where they went on meanwhile."""
    outcome: Outcome | None = None
    """For a question of the plan: the answer, which is the step's result, by its seal and its redacted end. For a task
    that was theirs: what it gave, or that it cannot be done."""
    said: str = ""
    """What they said with it, redacted; whoever tries again is told."""
    key: str | None = None
    """The fingerprint of the key that signs this decision."""
    signature: Signature | None = None


StepEvent = (
    StepKept
    | StepNotKept
    | ConditionFalse
    | PreconditionBroken
    | StepApprovalAsked
    | StepUnfolded
    | AttemptStarted
    | WorkOffered
    | WorkClaimed
    | AgentCalled
    | AgentCallFailed
    | FilesProtected
    | ContractSeen
    | AttemptWaiting
    | AttemptEnded
    | ContractHeld
    | ContractBroken
    | ContractInconclusive
    | FallbackEnded
    | DoubtFound
    | DoubtSettled
    | DoubtReferred
    | DoubtChecked
    | DecisionGiven
)
