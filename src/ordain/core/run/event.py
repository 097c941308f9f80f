"""Every fact that can happen to a workspace, a plan or a run: past tense, built with every value passed in.

An event that moves a step says where the step went (`to`), so that a history explains itself and replays the same
under any later version of the rules. No event reads a clock or makes an id.

A stream is one hash-chained sequence of events: `workspace`, `lineage/PLAN-…` (one plan through its revisions),
`run/RUN-…` (one run), `lock/NAME` (one named lock), `signal/KEY` (one signal from outside) or `topic/NAME` (one topic).
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Any

import msgspec

from ordain.core.approval.approval import Approval, Principal, WorkspaceIdentity
from ordain.core.approval.signature import PublicKey, Signature
from ordain.core.plan.tool import ToolDefinition
from ordain.core.plan.value import Instant, PlanId, RunId, StepId
from ordain.core.policy.sealing import SealedEnvironment
from ordain.core.policy.settings import Limits
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


class _Fact(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag_field="type"):
    """Base of all events."""


class Usage(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What something says that it has used. Nobody measured it."""

    tokens: int | None = None
    cost_usd: float | None = None


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


# --- Workspace stream --------------------------------------------------------------------------------------------


class WorkspaceOpened(_Fact, frozen=True, tag="workspace_opened"):
    """An id was minted for a directory."""

    workspace: WorkspaceIdentity


class ConfigTrusted(_Fact, frozen=True, tag="config_trusted"):
    """A person trusted this configuration. It stays in force, whatever becomes of the file, until another one is."""

    digest: str
    text: str
    by: Principal
    signature: Signature | None = None
    """An approver's, once one is enrolled."""


class ApproverEnrolled(_Fact, frozen=True, tag="approver_enrolled"):
    """A person's public key counts here from now on. The first one is believed; every later one is vouched for."""

    name: str
    key: PublicKey
    by: Principal
    proof: Signature
    """By the new key itself: whoever enrolled it could use it."""
    signature: Signature | None = None
    """By an approver who was enrolled already."""


class ApproverRevoked(_Fact, frozen=True, tag="approver_revoked"):
    """A key no longer counts, nor does any approval by it that was not used yet."""

    key: str
    by: Principal
    reason: str
    signature: Signature


class SignatureRefused(_Fact, frozen=True, tag="signature_refused"):
    """Somebody gave a wrong passphrase for an approver's key."""

    name: str
    by: Principal


class WorkStopped(_Fact, frozen=True, tag="work_stopped"):
    """Somebody stopped all work here, or everywhere. What stops is the switch in the state directory; this tells."""

    by: Principal
    reason: str = ""
    everywhere: bool = False


class StopLifted(_Fact, frozen=True, tag="stop_lifted"):
    """A person let work go on."""

    by: Principal


# --- Lineage stream ----------------------------------------------------------------------------------------------


class PlanPrepared(_Fact, frozen=True, tag="plan_prepared"):
    """A plan's bytes were stored and shown: it is proposed. Preparing the same plan again renews its expiry and revives
    no approval."""

    plan_id: PlanId
    plan: msgspec.Raw
    """The canonical bytes that were hashed; what runs is decoded from these."""
    document: str | None
    document_sha256: str | None
    by: Principal
    expires_at: Instant
    revises: PlanId | None = None
    """The plan of this lineage that it replaces."""
    environment: SealedEnvironment | None = None
    """What a run gets that needs no approval."""
    preparation: str = ""
    """The id of this preparation, which starts one run; versions before 0.2 wrote none."""


class PlanRejected(_Fact, frozen=True, tag="plan_rejected"):
    """Somebody said no, and why. Every approval of the plan that was not used ends with it."""

    plan_id: PlanId
    by: Principal
    feedback: str
    comments: Mapping[StepId, str] = {}
    needs_review: bool = False
    """It was rejected too often: the next revision must be a person's."""


class PlanCancelled(_Fact, frozen=True, tag="plan_cancelled"):
    """Somebody took the proposal back."""

    by: Principal
    reason: str = ""


class PlanExpired(_Fact, frozen=True, tag="plan_expired"):
    """Nobody decided in time; recorded once it was seen, so that no clock can make it good again."""

    plan_id: PlanId


class PlanArchived(_Fact, frozen=True, tag="plan_archived"):
    """A plan that has come to its end was put away."""

    by: Principal


class ApprovalGiven(_Fact, frozen=True, tag="approval_given"):
    approval: Approval
    signature: Signature | None = None


class ApprovalRevoked(_Fact, frozen=True, tag="approval_revoked"):
    approval_id: str
    by: Principal
    reason: str = ""


class ApprovalExpired(_Fact, frozen=True, tag="approval_expired"):
    """Its time was seen to be over; recorded, so that no clock can make it good again."""

    approval_id: str


class RunStarted(_Fact, frozen=True, tag="run_started"):
    """The lineage commits to a run and spends its approval; written in the transaction that opens the run."""

    run_id: RunId
    plan_id: PlanId
    approval_id: str | None
    by: Principal
    preparation: str = ""
    """What it was started for; a rerun is started for none."""
    tools: Mapping[str, ToolDefinition] | None = None
    """Where no approval was needed: the definitions that policy judged it by, so that this can be judged again."""


class StopAsked(_Fact, frozen=True, tag="stop_asked"):
    """Somebody asked whoever carries out a run to stop: to pause it, or to end it as it stands."""

    run_id: RunId
    to: str
    """`paused`, `cancelled` or `failed`."""
    by: Principal
    reason: str = ""


class RunEnded(_Fact, frozen=True, tag="run_ended"):
    """The lineage commits to the head of the finished run's chain."""

    run_id: RunId
    status: str
    head: str


# --- Run stream --------------------------------------------------------------------------------------------------


class RunOpened(_Fact, frozen=True, tag="run_opened"):
    run_id: RunId
    plan_id: PlanId
    lineage: str
    workspace: WorkspaceIdentity
    """The directory the run was approved for; it goes on in no other."""
    limits: Limits
    rerun_of: RunId | None = None
    """The run of the same plan that this one does again."""
    first_run: RunId | None = None
    """The first of that chain of runs, where this is not it: step keys stay the same through all of them."""
    may_keep: tuple[StepId, ...] = ()
    """Steps that passed in the run before and are not run again if their contract holds now. One without a contract
    stands here only where somebody said from which step on everything is to be run again."""
    operands: Mapping[str, str] | None = None
    """What each file was that the plan names, where no approval says it."""
    signals: Mapping[str, int] = {}
    """How often each signal that the plan waits for had been given by then; what is absent, never. Only what was given
    after that counts in this run, whatever clocks say."""
    environment: SealedEnvironment | None = None
    """The variables and programs that it gets, where no approval says it; absent in runs that older versions began."""


class ExecutorStarted(_Fact, frozen=True, tag="executor_started"):
    """An executor took the run; appends with an older epoch are refused from here on."""

    epoch: int
    pid: int
    boot_id: str


class StepKept(_Fact, frozen=True, tag="step_kept"):
    """A step that passed in the run before was not run again."""

    step: StepId
    attempt: int = 0
    outcome: Outcome | None = None
    """What was seen of it then; later steps may ask about it."""
    evidence: Evidence | None = None
    """What its contract showed now; absent for a step without one."""


class StepNotKept(_Fact, frozen=True, tag="step_not_kept"):
    """The contract of a step that passed in the run before does not hold any more: it is run again."""

    step: StepId
    evidence: Evidence
    attempt: int = 0


class ConditionFalse(_Fact, frozen=True, tag="condition_false"):
    """A step's `when` was false when its turn came: it is not run."""

    step: StepId
    attempt: int = 0


class PreconditionBroken(_Fact, frozen=True, tag="precondition_broken"):
    """What must hold before a step did not, so nothing was begun; the failure policy says what follows."""

    step: StepId
    attempt: int
    error: str
    """A problem code, with `detail` saying what did not hold."""
    detail: str
    to: StepState
    not_before: Instant | None = None
    aborts: bool = False
    fallback: tuple[StepId, ...] = ()


class StepApprovalAsked(_Fact, frozen=True, tag="step_approval_asked"):
    """A person is asked whether this step may be done, with its arguments as they are now known."""

    step: StepId
    attempt: int
    reason: str
    shown: str
    """What would be done, redacted."""
    seal: str
    """Commits to exactly what would be done: only that is allowed by a yes."""


class StepUnfolded(_Fact, frozen=True, tag="step_unfolded"):
    """A step became steps of its own, and waits for them: one for each item, or those of its nested plan."""

    step: StepId
    attempt: int
    kind: GroupKind
    count: int
    items_seal: str = ""
    """Commits to the items, which are kept beside the chain under this name."""
    labels: tuple[str, ...] = ()
    """What tells each item from the others where it is shown, redacted and cut; of very many items there are none."""


class AttemptStarted(_Fact, frozen=True, tag="attempt_started"):
    """The intent, durable before the effect."""

    step: StepId
    attempt: int
    key: str
    agent: str = ""
    """Of a task: who performs it."""
    why: str = ""
    """Why it is that agent."""


class WorkOffered(_Fact, frozen=True, tag="work_offered"):
    """A work item was made of a step's task; its prompt is kept beside the chain."""

    step: StepId
    attempt: int
    item: WorkItem


class WorkClaimed(_Fact, frozen=True, tag="work_claimed"):
    """Somebody took the item. Nobody else can; when its time is over the attempt is."""

    step: StepId
    attempt: int
    lease: Lease


class AgentCalled(_Fact, frozen=True, tag="agent_called"):
    """The agent of a step calls a tool through the step's door; durable before the call is performed."""

    step: StepId
    attempt: int
    call: int
    """Which one of the attempt, from one."""
    tool: str
    args: str
    """The beginning of its arguments, redacted."""
    seal: str
    """Commits to all of them."""


class AgentCallFailed(_Fact, frozen=True, tag="agent_call_failed"):
    """What was seen of a call that did not go well. Where nothing is recorded of one, it did, or was cut short."""

    step: StepId
    attempt: int
    call: int
    error: str
    detail: str = ""


class FilesProtected(_Fact, frozen=True, tag="files_protected"):
    """What must not change was kept, durable before the effect. A step's own files are kept once, before its first
    attempt; the plan's are those that were not known yet."""

    step: StepId
    attempt: int
    of_plan: Mapping[str, ProtectedFile] = {}
    of_step: Mapping[str, ProtectedFile] = {}
    beside_plan: tuple[str, ...] | None = None
    """What was there and would be tampering if it were new (`core.loading`), besides what is kept; None where nobody
    looked, as before 0.2."""
    beside_step: tuple[str, ...] | None = None


class ProtectedChanged(_Fact, frozen=True, tag="protected_changed"):
    """Protected files were found changed, or new ones beside them; recorded before they are put back, or set aside. Any
    of `steps` may have done it: they were at work. Where there are none, somebody else did."""

    files: tuple[str, ...]
    """Each file and what became of it, in words."""
    steps: tuple[StepId, ...] = ()


class ContractSeen(_Fact, frozen=True, tag="contract_seen"):
    """A step's contract was run before its effect: a checkable step's, with a look at what it would change, so that
    doubt can be settled later; or because the plan wants proof that it was broken."""

    step: StepId
    attempt: int
    evidence: Evidence
    operand: str | None = None
    """A digest of what the tool is about to change, as it is before the effect."""


class AttemptWaiting(_Fact, frozen=True, tag="attempt_waiting"):
    """A step that has begun can do nothing until something outside of its run happens: a lock is given back, a person
    answers. Recorded again when it waits for somebody else. It is not at work, so no crash puts it in doubt."""

    step: StepId
    attempt: int
    reason: str
    """What it waits for, in words that follow on "waits for"."""
    until: Instant | None = None
    """When it waits no longer; an instant, so that restarts do not make it wait anew."""


class AttemptEnded(_Fact, frozen=True, tag="attempt_ended"):
    """The outcome. `to` is where it took the step; `aborts` says that the failure policy ends the run."""

    step: StepId
    attempt: int
    outcome: Outcome
    to: StepState
    not_before: Instant | None = None
    aborts: bool = False
    fallback: tuple[StepId, ...] = ()


class ContractHeld(_Fact, frozen=True, tag="contract_held"):
    step: StepId
    attempt: int
    evidence: Evidence


class ContractBroken(_Fact, frozen=True, tag="contract_broken"):
    step: StepId
    attempt: int
    evidence: Evidence
    to: StepState
    not_before: Instant | None = None
    aborts: bool = False
    fallback: tuple[StepId, ...] = ()


class ContractInconclusive(_Fact, frozen=True, tag="contract_inconclusive"):
    step: StepId
    attempt: int
    evidence: Evidence
    to: StepState
    not_before: Instant | None = None
    aborts: bool = False
    fallback: tuple[StepId, ...] = ()


class FallbackEnded(_Fact, frozen=True, tag="fallback_ended"):
    """The fallback steps of a step have come to their end; its contract is tried again where it has one, and where not
    nothing can say that it is done."""

    step: StepId
    attempt: int
    reason: str
    to: StepState
    not_before: Instant | None = None
    aborts: bool = False


class DoubtFound(_Fact, frozen=True, tag="doubt_found"):
    """An executor died between intent and outcome; `settle` is what the table of doubt says."""

    step: StepId
    attempt: int
    settle: Settlement
    reason: str


class DoubtSettled(_Fact, frozen=True, tag="doubt_settled"):
    """Doubt settled without a person: by rule, or by the contract."""

    step: StepId
    attempt: int
    to: StepState
    reason: str
    evidence: Evidence | None = None


class DoubtReferred(_Fact, frozen=True, tag="doubt_referred"):
    """The contract could not settle it; a person is asked."""

    step: StepId
    attempt: int
    reason: str
    evidence: Evidence


class Expected(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What is left to do will probably need, judged by how the same actions went in earlier runs."""

    steps: int
    """How many steps were left, as far as they were known."""
    known: int = 0
    """How many of them have gone well before, so that something is known of them."""
    wall_clock_ms: int | None = None
    """Of those, one after the other; absent where none is known. The same of the others, as reported then."""
    tokens: int | None = None
    cost_usd: float | None = None


class BudgetReached(_Fact, frozen=True, tag="budget_reached"):
    """Going on would take more than a budget allows. What is under way comes to its end; nothing more that would be
    paid from it begins until a person has decided."""

    step: StepId
    """What the question is about: `.budget`, or `.budget/STEP` for that of a step or of the plan nested in it."""
    what: str
    """`attempts` or `wall_clock_ms`, which are measured; `tokens` or `cost_usd`, which are reported."""
    spent: int | float
    reserved: int | float
    """What the steps at work may still spend."""
    limit: int | float
    wanted: int | float = 0
    """What the step that could not begin would have reserved."""
    wanted_by: StepId | None = None
    """That step; absent where the time was over while others were at work."""
    expected: Expected | None = None


class DecisionGiven(_Fact, frozen=True, tag="decision_given"):
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


class AnswerSent(_Fact, frozen=True, tag="answer_sent"):
    """A person answered while somebody was at work on the run. It stands in the plan's stream, which anybody may add
    to; whoever carries out the run records the decision itself, if its question is still the one that is asked."""

    run_id: RunId
    decision: DecisionGiven


class RunFinished(_Fact, frozen=True, tag="run_finished"):
    """The end of the run. Steps still open become cancelled."""

    status: str
    reason: str = ""


class RunPaused(_Fact, frozen=True, tag="run_paused"):
    """Somebody had the run stop with nothing under way; it goes on when the next executor starts."""

    by: Principal
    reason: str = ""


class RunCancelled(_Fact, frozen=True, tag="run_cancelled"):
    """Somebody ended the run as it stood. Steps still open become cancelled, whatever was under way."""

    by: Principal
    reason: str = ""
    status: str = "cancelled"
    """Or `failed`, where somebody gave it up."""


# --- Lock stream -------------------------------------------------------------------------------------------------


class LockTaken(_Fact, frozen=True, tag="lock_taken"):
    """A run has the lock from here on; written in the transaction that ends the step's attempt."""

    lock: str
    run_id: RunId
    step: StepId


class LockReleased(_Fact, frozen=True, tag="lock_released"):
    """The lock is free again: a step gave it back, or its run ended, in whose transaction this stands then."""

    lock: str
    run_id: RunId
    reason: str


# --- Signal stream -----------------------------------------------------------------------------------------------


class SignalGiven(_Fact, frozen=True, tag="signal_given"):
    """Somebody outside gave a signal, perhaps with a value. It permits nothing: it says that something has happened."""

    key: str
    by: Principal
    shown: str = ""
    """The end of the value, redacted."""
    value_bytes: int = 0
    value_seal: str = ""
    """Commits to the exact value, which is kept beside the chain under this name."""
    value_json: bool = False
    """Whether the value is JSON, and not text; JSON of no bytes is no value."""


# --- Topic stream ------------------------------------------------------------------------------------------------


class TopicPosted(_Fact, frozen=True, tag="topic_posted"):
    """Somebody left a note for the agents that read this topic. It permits nothing, and nothing is decided by it."""

    topic: str
    by: Principal
    text: str
    """What it says, redacted; more than this is kept nowhere."""


# --- Stream of refusals ------------------------------------------------------------------------------------------


class RequestRefused(_Fact, frozen=True, tag="request_refused"):
    """Somebody who is not a person asked for what they may not have: to approve, to start what nobody approved, to take
    what is another's, to flood. So many are recorded in an hour and no more."""

    by: Principal
    verb: str
    code: str
    subject: str = ""
    """What it was about, as it was named, redacted."""
    last: bool = False
    """Whether more of this kind by this caller may follow within the hour that are not recorded."""


WorkspaceEvent = (
    WorkspaceOpened | ConfigTrusted | ApproverEnrolled | ApproverRevoked | SignatureRefused | WorkStopped | StopLifted
)
LineageEvent = (
    PlanPrepared
    | PlanRejected
    | PlanCancelled
    | PlanExpired
    | PlanArchived
    | ApprovalGiven
    | ApprovalRevoked
    | ApprovalExpired
    | RunStarted
    | StopAsked
    | AnswerSent
    | RunEnded
)
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
    | DecisionGiven
)
RunEvent = (
    RunOpened | ExecutorStarted | StepEvent | ProtectedChanged | BudgetReached | RunPaused | RunFinished | RunCancelled
)
LockEvent = LockTaken | LockReleased
SignalEvent = SignalGiven
TopicEvent = TopicPosted
RefusalEvent = RequestRefused
Event = WorkspaceEvent | LineageEvent | RunEvent | LockEvent | SignalEvent | TopicEvent | RefusalEvent


class Recorded(msgspec.Struct, frozen=True, kw_only=True):
    """An event as it stands in the ledger: its place, its instant, and the chain's head after it."""

    stream: str
    seq: int
    at: Instant
    event: Event
    head: str


def ids_named(event: Event) -> tuple[str, ...]:
    """The ids by which people look this event's stream up; the ledger keeps an index of them."""
    # Asked of every event that is recorded; comparing types is quicker than matching.
    if type(event) is PlanPrepared:
        return (event.plan_id,)
    return (event.run_id,) if type(event) is RunOpened else ()


WIRE_NAMES = {"head": "run_head"}
"""Where a fact has another name on the wire: an event that names the head of a run's chain has one of its own too."""


def to_wire(recorded: Recorded) -> dict[str, Any]:
    """One flat JSON object per event, as `log --json` and robots see it."""
    body = msgspec.json.decode(msgspec.json.encode(recorded.event))  # by way of JSON, for a plan's bytes are raw
    facts = {WIRE_NAMES.get(name, name): value for name, value in body.items()}
    return {"seq": recorded.seq, "at": recorded.at, "stream": recorded.stream, **facts, "head": recorded.head}
