"""Every fact that can happen to a workspace, a plan or a run: past tense, built with every value passed in.

An event that moves a step says where it went (`to`), so that a history replays the same under any later rules.

A stream is one hash-chained sequence of events: `workspace`, `lineage/PLAN-…` (one plan through its revisions),
`run/RUN-…` (one run), `lock/NAME` (one named lock), `signal/KEY` (one signal from outside) or `topic/NAME` (one topic).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from ordain.core.approval.approval import Approval, Principal, WorkspaceIdentity
from ordain.core.approval.signature import PublicKey, Signature
from ordain.core.plan.tool import ToolDefinition
from ordain.core.plan.value import Instant, PlanId, RunId, StepId
from ordain.core.policy.sealing import SealedEnvironment
from ordain.core.policy.settings import Limits
from ordain.core.run.step_event import Carried, DecisionGiven, Fact, StepEvent

# --- Workspace stream --------------------------------------------------------------------------------------------


class WorkspaceOpened(Fact, frozen=True, tag="workspace_opened"):
    """An id was minted for a directory."""

    workspace: WorkspaceIdentity


class ConfigTrusted(Fact, frozen=True, tag="config_trusted"):
    """A person trusted this configuration. It stays in force, whatever becomes of the file, until another one is."""

    digest: str
    text: str
    by: Principal
    signature: Signature | None = None
    """An approver's, once one is enrolled."""


class ApproverEnrolled(Fact, frozen=True, tag="approver_enrolled"):
    """A person's public key counts here from now on. The first one is believed; every later one is vouched for."""

    name: str
    key: PublicKey
    by: Principal
    proof: Signature
    """By the new key itself: whoever enrolled it could use it."""
    signature: Signature | None = None
    """By an approver who was enrolled already."""


class ApproverRevoked(Fact, frozen=True, tag="approver_revoked"):
    """A key no longer counts, nor does any approval by it that was not used yet."""

    key: str
    by: Principal
    reason: str
    signature: Signature


class SignatureRefused(Fact, frozen=True, tag="signature_refused"):
    """Somebody gave a wrong passphrase for an approver's key."""

    name: str
    by: Principal


class WorkStopped(Fact, frozen=True, tag="work_stopped"):
    """Somebody stopped all work here, or everywhere. What stops is the switch in the state directory; this tells."""

    by: Principal
    reason: str = ""
    everywhere: bool = False


class StopLifted(Fact, frozen=True, tag="stop_lifted"):
    """A person let work go on."""

    by: Principal


# --- Lineage stream ----------------------------------------------------------------------------------------------


class PlanOrigin(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One planning that ended with a plan, as the planner's own side reports or we counted. No evidence."""

    planner: str
    """The model or agent that wrote the plan."""
    goal: str
    """What was asked for, without secrets."""
    asked_by: Principal
    rounds: int
    """How many documents it handed in."""
    first_wrong: int = 0
    """How many problems the first of them had."""
    requests: int = 0
    calls: int = 0
    """Of tools."""
    tokens: int = 0
    cost_usd: float | None = None
    """None where no price is known."""
    unenforced: bool = False
    """Whether it was started without a sandbox, so that nothing kept it from writing."""
    answers: tuple[tuple[str, str], ...] = ()
    """What the planner asked and what it was answered, without secrets."""


class PlanPrepared(Fact, frozen=True, tag="plan_prepared"):
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
    origin: PlanOrigin | None = None
    """How it came to be, where a planner of ours wrote it."""
    continues: RunId | None = None
    """Of a successor: the run of this lineage that it goes on with."""
    again_from: StepId | None = None
    """The step from which on nothing of that run is kept."""
    reason: str = ""
    """Why there is another version, as whoever proposed it says."""


class ReplanBegun(Fact, frozen=True, tag="replan_begun"):
    """Somebody who is no person was asked how a run goes on. It counts from here on, whatever comes of it."""

    replan: str
    """The id of this try."""
    run_id: RunId
    step: StepId
    """The step that failed, as the plan calls it."""
    cause: str
    """How it failed (`core.lineage.replan.cause_of`)."""
    by: Principal
    """Whose proposal it will be."""


class ReplanEnded(Fact, frozen=True, tag="replan_ended"):
    """What came of it: a successor, or why there is none."""

    replan: str
    plan_id: PlanId | None = None
    remainder: str = ""
    """The digest of what that successor has left to do (`core.lineage.replan.remainder_of`)."""
    error: str = ""
    """A problem code, with `detail` saying what is wrong."""
    detail: str = ""


class PlanRejected(Fact, frozen=True, tag="plan_rejected"):
    """Somebody said no, and why. Every approval of the plan that was not used ends with it."""

    plan_id: PlanId
    by: Principal
    feedback: str
    comments: Mapping[StepId, str] = {}
    needs_review: bool = False
    """It was rejected too often: the next revision must be a person's."""


class PlanCancelled(Fact, frozen=True, tag="plan_cancelled"):
    """Somebody took the proposal back."""

    by: Principal
    reason: str = ""


class PlanExpired(Fact, frozen=True, tag="plan_expired"):
    """Nobody decided in time; recorded once it was seen, so that no clock can make it good again."""

    plan_id: PlanId


class PlanArchived(Fact, frozen=True, tag="plan_archived"):
    """A plan that has come to its end was put away."""

    by: Principal


class ApprovalGiven(Fact, frozen=True, tag="approval_given"):
    approval: Approval
    signature: Signature | None = None


class ApprovalRevoked(Fact, frozen=True, tag="approval_revoked"):
    approval_id: str
    by: Principal
    reason: str = ""


class ApprovalExpired(Fact, frozen=True, tag="approval_expired"):
    """Its time was seen to be over; recorded, so that no clock can make it good again."""

    approval_id: str


class Unasked(msgspec.Struct, frozen=True, kw_only=True):
    """Why a successor was started that nobody was asked about: an approval of before allows it."""

    approval_id: str
    """The approval that its chain was started on, which says so."""
    causes: tuple[str, ...]
    """What had failed and how, each as `STEP: CAUSE`."""
    remainder: str
    """The digest of what was left to do."""


class RunStarted(Fact, frozen=True, tag="run_started"):
    """The lineage commits to a run and spends its approval; written in the transaction that opens the run."""

    run_id: RunId
    plan_id: PlanId
    approval_id: str | None
    by: Principal
    preparation: str = ""
    """What it was started for; a rerun is started for none."""
    tools: Mapping[str, ToolDefinition] | None = None
    """Where no approval was needed: the definitions that policy judged it by, so that this can be judged again."""
    continues: RunId | None = None
    """The run that it goes on with, which has ended by now."""
    unasked: Unasked | None = None


class StopAsked(Fact, frozen=True, tag="stop_asked"):
    """Somebody asked whoever carries out a run to stop: to pause it, or to end it as it stands."""

    run_id: RunId
    to: str
    """`paused`, `cancelled` or `failed`."""
    by: Principal
    reason: str = ""


class RunEnded(Fact, frozen=True, tag="run_ended"):
    """The lineage commits to the head of the finished run's chain."""

    run_id: RunId
    status: str
    head: str


# --- Run stream --------------------------------------------------------------------------------------------------


class RunOpened(Fact, frozen=True, tag="run_opened"):
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
    continues: RunId | None = None
    """The run of another plan that this one goes on with. What may be kept of it is in `may_keep`, items and steps of
    nested plans too."""
    unfolds_again: Mapping[StepId, str] = {}
    """The steps that become steps of their own again of which some may be kept, each with the seal of its items: where
    these are others now, nothing is kept."""
    spent: Mapping[StepId, Carried] = {}
    """What the runs before have spent, by whose budget it was: budgets span the chain."""


class ExecutorStarted(Fact, frozen=True, tag="executor_started"):
    """An executor took the run; appends with an older epoch are refused from here on."""

    epoch: int
    pid: int
    boot_id: str


class ProtectedChanged(Fact, frozen=True, tag="protected_changed"):
    """Protected files were found changed, or new ones beside them; recorded before they are put back, or set aside. Any
    of `steps` may have done it: they were at work. Where there are none, somebody else did."""

    files: tuple[str, ...]
    """Each file and what became of it, in words."""
    steps: tuple[StepId, ...] = ()


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


class BudgetReached(Fact, frozen=True, tag="budget_reached"):
    """Going on would take more than a budget allows: what it pays for does not begin until a person has decided."""

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


class AnswerSent(Fact, frozen=True, tag="answer_sent"):
    """A person answered while somebody was at work on the run. It stands in the plan's stream, which anybody may add
    to; whoever carries out the run records the decision itself, if its question is still the one that is asked."""

    run_id: RunId
    decision: DecisionGiven


class RunFinished(Fact, frozen=True, tag="run_finished"):
    """The end of the run. Steps still open become cancelled."""

    status: str
    reason: str = ""


class RunPaused(Fact, frozen=True, tag="run_paused"):
    """Somebody had the run stop with nothing under way; it goes on when the next executor starts."""

    by: Principal
    reason: str = ""


class RunCancelled(Fact, frozen=True, tag="run_cancelled"):
    """Somebody ended the run as it stood. Steps still open become cancelled, whatever was under way."""

    by: Principal
    reason: str = ""
    status: str = "cancelled"
    """Or `failed`, where somebody gave it up; or `replaced`, in the transaction that starts its successor."""
    replaced_by: RunId | None = None
    """That successor."""


# --- Lock stream -------------------------------------------------------------------------------------------------


class LockTaken(Fact, frozen=True, tag="lock_taken"):
    """A run has the lock from here on; written in the transaction that ends the step's attempt."""

    lock: str
    run_id: RunId
    step: StepId


class LockReleased(Fact, frozen=True, tag="lock_released"):
    """The lock is free again: a step gave it back, or its run ended, in whose transaction this stands then."""

    lock: str
    run_id: RunId
    reason: str


# --- Signal stream -----------------------------------------------------------------------------------------------


class SignalGiven(Fact, frozen=True, tag="signal_given"):
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


class TopicPosted(Fact, frozen=True, tag="topic_posted"):
    """Somebody left a note for the agents that read this topic. It permits nothing, and nothing is decided by it."""

    topic: str
    by: Principal
    text: str
    """What it says, redacted; more than this is kept nowhere."""


# --- Stream of refusals ------------------------------------------------------------------------------------------


class RequestRefused(Fact, frozen=True, tag="request_refused"):
    """Somebody who is not a person asked for what they may not have: to approve, to start what nobody approved, to take
    what is another's, to flood. So many are recorded in an hour and no more."""

    by: Principal
    verb: str
    code: str
    subject: str = ""
    """What it was about, as it was named, redacted."""
    last: bool = False
    """Whether more of this kind by this caller may follow within the hour that are not recorded."""


# --- Stream of what was removed ------------------------------------------------------------------------------------


class OutputsRemoved(Fact, frozen=True, tag="outputs_removed"):
    """What was kept beside the events of a run was removed with this event, because `[retention]` says so. The events
    of the run hold its seals and sizes as before."""

    run_id: RunId
    seals: tuple[str, ...]
    size: int
    by: Principal
    """Whose new plan was the occasion."""


WorkspaceEvent = (
    WorkspaceOpened | ConfigTrusted | ApproverEnrolled | ApproverRevoked | SignatureRefused | WorkStopped | StopLifted
)
LineageEvent = (
    PlanPrepared
    | ReplanBegun
    | ReplanEnded
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
RunEvent = (
    RunOpened | ExecutorStarted | StepEvent | ProtectedChanged | BudgetReached | RunPaused | RunFinished | RunCancelled
)
LockEvent = LockTaken | LockReleased
Event = (
    WorkspaceEvent | LineageEvent | RunEvent | LockEvent | SignalGiven | TopicPosted | RequestRefused | OutputsRemoved
)


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
