"""What the verbs return: one value for people, JSON and every other view, folded from state and never from prose."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import accumulate
from typing import Literal

import msgspec

from ordain.core.approval.approval import Base, Principal
from ordain.core.approval.diff.difference import Since
from ordain.core.lineage.decision import Question, questions
from ordain.core.lineage.lineage import Rejection, Version
from ordain.core.plan.action import Task
from ordain.core.plan.canonical import plan_hash
from ordain.core.plan.model import Plan, contract_of, nested_plan_of
from ordain.core.plan.role import about
from ordain.core.plan.value import Instant, PlanId, RunId, StepId
from ordain.core.policy.agent import AgentChoice
from ordain.core.policy.assignment import Assignment
from ordain.core.policy.bound_file import NotBound
from ordain.core.policy.effect import PlannedEffect
from ordain.core.policy.settings import Limits
from ordain.core.report.risk import PlanRisk, wants_id
from ordain.core.report.simulation import Foreknown
from ordain.core.report.succession import StepComment, Successor
from ordain.core.run.attempt import ABORT, DONE, SKIP, is_whole
from ordain.core.run.budget import Spending, spending
from ordain.core.run.consequence import warns
from ordain.core.run.event import PlanOrigin
from ordain.core.run.prompt import one_line
from ordain.core.run.run_state import RunState, StepRecord
from ordain.core.run.schedule import asks, why_waiting
from ordain.core.run.step_event import Evidence, GroupKind, Outcome, StepState, Usage
from ordain.core.task.work_item import Read
from ordain.core.text.limit import ARTIFACT_BYTES_MAX, DAY_MS, OUTPUT_BYTES_MAX, short_title
from ordain.core.text.problem import Problem

UNVERIFIED = "unverified"
"""What the evidence of a step begins with that passed by somebody's word."""


class ReviewedPlan(msgspec.Struct, frozen=True, kw_only=True):
    """A plan with everything an approver must see, computed from its bytes and the registry."""

    plan_id: PlanId
    plan_hash: str
    lineage: str | None
    status: str
    plan: Plan
    workspace: str
    """The directory everything happens in."""
    requires_approval: bool
    reasons: tuple[str, ...]
    effects: tuple[PlannedEffect, ...]
    risks: tuple[PlanRisk, ...]  # worst first
    known: Foreknown = Foreknown()  # of preconditions and contracts, for a person at a terminal
    diffs: Mapping[str, tuple[str, ...]] = {}
    """What steps make of files that are there, by step: a unified diff."""
    tasks: tuple[Assignment, ...]
    """Who would perform each task, and with what."""
    tier: int
    base: Base
    """What an approval would be bound to, besides the plan and the workspace."""
    limits: Limits
    """The settings a run would have now; where the plan is silent they decide."""
    not_bound: tuple[NotBound, ...] = ()
    """What it would not be bound to, of what the plan's commands read."""
    unusual: tuple[str, ...] = ()
    """What is unusual about the environment that a run would get."""
    document: str | None = None
    proposer: Principal | None = None
    """Who proposed it last, and through which channel; absent where it is not, or no longer, proposed."""
    origin: PlanOrigin | None = None
    """How it came to be, where a planner wrote it."""
    run: RunReport | None = None
    version: Version | None = None
    successor: Successor | None = None
    since: Since | None = None
    since_rejected: Since | None = None
    """The same since a plan that was rejected after that."""
    rejections: tuple[Rejection, ...] = ()
    """What people said who did not want it as it was."""
    comments: tuple[StepComment, ...] = ()
    """What became of each step that they said something about."""
    ledger_size: int = 0
    ledger_head: str = ""
    """How many events the ledger has, and the digest over all of them; an approval is bound to both."""
    signature_required: bool = False
    unused: int = 0  # approvals of it that were given already and that no run has used
    allow_subset: bool = False
    """Whether a successor may go on unasked that does nothing but what this plan does: a person says so."""
    shown_sha256: str = ""
    """Digest of the text that the approver was shown of all this."""


class Review(ReviewedPlan, frozen=True, kw_only=True):
    """The same, with the warnings about it."""

    notices: tuple[Problem, ...] = ()

    @property
    def small(self) -> bool:
        """Whether a plain yes is enough, because nothing in it wants more."""
        return not wants_id(self.risks)


class Prepared(msgspec.Struct, frozen=True, kw_only=True):
    """A plan that was stored. `approval_command` is for a person; the handle is worth nothing until one acts."""

    review: Review
    lineage: str
    expires_at: Instant
    approval_command: str | None
    commit_command: str
    preparation: str
    """What the command to commit names: it starts one run, however often it is asked."""


class Approved(msgspec.Struct, frozen=True, kw_only=True):
    approval_id: str
    plan_id: PlanId
    expires_at: Instant
    tier: int
    commit_command: str
    signed_by: str | None = None


class StepReport(msgspec.Struct, frozen=True, kw_only=True):
    """How one step stands, and how we know."""

    number: int
    """Of the step of the plan; those that belong to it bear it too."""
    id: StepId
    description: str
    state: StepState
    attempts: int
    evidence: str
    """Why the state is believed; says "unverified" where nothing was verified."""
    duration_ms: int | None = None
    error: str | None = None
    output_tail: str = ""
    """The redacted end of what was written last: by its contract, where that was run, else by the step."""
    own_output_tail: str = ""
    """The same of the step itself, where its contract was run."""
    waiting: str | None = None
    meaning: str | None = None
    """What its verification is said to show."""
    verified: Evidence | None = None
    """All that was seen when it was verified last."""
    seen_before: Evidence | None = None
    """The same of a contract that was run before the effect."""
    tampered: tuple[str, ...] = ()
    """Protected files that changed while its last attempt was at work, and were put back."""
    label: str = ""
    """Of an item: what tells it from the others."""
    agent: AgentChoice | msgspec.UnsetType = msgspec.UNSET
    """Of a task: who performs it, and why that one."""
    unfolds: bool = False
    """Whether it does nothing itself but wait for steps of its own: its items, or those of its plan."""
    part_of: StepId | None = None
    """The step that it belongs to: as one of its items, as a step of its plan, or as its fallback."""
    decided_by: str | None = None
    """Who decided that it is where it is, where a person did: their word, not evidence."""
    used: Usage | None = None
    """What its last attempt reported that it used."""
    calls: int | msgspec.UnsetType = msgspec.UNSET
    """How many calls of tools its agent has made in its last attempt, where it is a task."""
    refused: int | msgspec.UnsetType = msgspec.UNSET
    """How many it was refused, once that attempt has ended."""
    affected_files: tuple[str, ...] | msgspec.UnsetType | None = msgspec.UNSET
    """What its last attempt changed, once that has ended; null where it is not known. No evidence."""
    affected_more: int | msgspec.UnsetType = msgspec.UNSET
    """How many more files it changed than are named, where there are more."""
    kept_from: RunId | None = None
    """The run that carried it out, where that was another one."""
    unverified: bool = False
    """Whether it passed by somebody's word alone: a person's, where one decided, else its agent's."""
    warned: bool | msgspec.UnsetType = msgspec.UNSET
    """Whether it failed and was skipped by a failure policy that says to warn of that."""

    @property
    def failed(self) -> bool:
        return self.state is StepState.FAILED


class KeptOutput(msgspec.Struct, frozen=True, kw_only=True):
    """What a step wrote and is kept exactly, and how much there was of it."""

    run_id: RunId
    step: StepId
    output_bytes: int
    kept_bytes: int
    """Less than all where only the end is kept."""


class RunReport(msgspec.Struct, frozen=True, kw_only=True):
    """One run: every step by name, how it ended, and what a person is asked."""

    run_id: RunId
    plan_id: PlanId
    plan_hash: str
    title: str
    status: str
    """completed, failed, cancelled, replaced; executing, pausing, cancelling; waiting (for a person), paused (by one),
    stopped (nobody is carrying it out) or stalled (no sign of life for too long)."""
    steps: tuple[StepReport, ...]
    questions: tuple[Question, ...]
    """What nobody has answered yet."""
    answered: tuple[str, ...] = ()
    """What was asked and is answered, by the names of the questions, and that nobody has taken up yet."""
    reason: str = ""
    """Why it ended so, where there is more to say than the steps do."""
    executors: int = 0
    """How many processes have carried it out so far, one after the other."""
    rerun_of: RunId | None = None
    continues: RunId | None = None
    """The run that it goes on with."""
    replaced_by: RunId | None = None
    """The run that goes on in its place."""
    prepare: str | msgspec.UnsetType = msgspec.UNSET
    """The command that must come before another run of its plan, where that was cancelled or archived; empty where the
    plan came without a document."""
    changed_at: Instant = Instant(0)
    """When something was recorded of it last."""
    took_ms: int = 0
    """From its beginning to what was recorded last."""
    spending: tuple[Spending, ...] = ()
    """What it has spent, and how much it may: what we measured, and what was reported."""


PlanStanding = Literal[
    "proposed", "approved", "rejected", "needs_review", "expired", "executing", "pausing", "cancelling", "waiting",
    "paused", "stopped", "stalled", "completed", "failed", "cancelled", "archived", "unreadable",
]  # fmt: skip
"""Every word for how a plan stands in a list; while its run has not ended, the word for that."""


class PlanLine(msgspec.Struct, frozen=True, kw_only=True):
    """One plan in a list."""

    lineage: str
    plan_id: PlanId
    title: str
    status: str
    document: str | None
    proposer: Principal
    opened_at: Instant
    """When it was first prepared, whatever was prepared in its place since."""
    prepared_at: Instant
    changed_at: Instant
    expires_at: Instant
    revisions: int
    requires_approval: bool = True
    destructive: int = 0
    """How many of its effects cannot be undone; looked at only while it waits for a decision."""
    feedback: str | None = None
    """What was said when it was rejected last, or why it can not be read."""
    unused: int = 0
    """Approvals that a run could still use, whatever the status."""
    last_run: RunId | None = None
    run: RunReport | None = None
    """The newest run, while it has not ended."""
    version: int = 1
    previous_plan_id: PlanId | None = None
    reason: str = ""
    """Why there is this version, as whoever proposed it says."""
    continues: RunId | None = None
    """The run that it is proposed to go on with; that stays as it is until this one starts."""


class InboxItem(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that waits for a person, and the commands that decide it, one for each choice there is."""

    kind: str
    """`approval`, `review` (rejected too often), `doubt`, `escalation`, `ask`, `task`, `step_approval`, `budget`,
    `stalled`, `stopped` or `unreadable`."""
    title: str
    plan_id: PlanId
    commands: tuple[str, ...]
    since: Instant
    detail: str = ""
    expires_at: Instant | None = None
    destructive: int = 0
    workspace: str = ""
    question: Question | None = None
    """What is asked with all that is known about it, where a run asks."""
    risks: tuple[PlanRisk, ...] = ()
    """Of a plan that waits for approval, worst first."""


class ToldPrompt(msgspec.Struct, frozen=True, kw_only=True):
    """What the agent of a step was told in an attempt, or would be told now where there was none."""

    step: StepId
    agent: str
    """Empty where nobody is named."""
    model: str | None
    run_id: RunId | None
    attempt: int
    """How many-th attempt it is, of those of that run."""
    told: bool
    """Whether somebody was told this; else it is made from how things are now."""
    tools: tuple[str, ...]
    reads: tuple[Read, ...]
    missing: tuple[str, ...]
    """What it reads and is not there, in words: with that, no attempt would begin."""
    prompt: str


class Life(msgspec.Struct, frozen=True, kw_only=True):
    """What is known of a run besides its events: whether somebody is at work on it, and for how long nobody was."""

    executing: bool = False
    silent_ms: int = 0
    """Since the executor's last sign of life."""
    stop_asked: str | None = None
    """What the executor was asked and has not done yet: to have it `paused`, `cancelled` or `failed`."""
    stopped_at: Instant = Instant(0)
    """When `ordain stop` last killed all work here."""
    stalled_after_ms: int = DAY_MS
    answered: frozenset[StepId] = frozenset()
    """The steps about which somebody sent an answer that is not taken up yet."""


def run_report(state: RunState, plan_id: PlanId, now: Instant, life: Life) -> RunReport:
    everything = questions(state)
    asked = tuple(one for one in everything if one.step not in life.answered)
    killed = state.active and not life.executing and life.stopped_at > state.changed_at
    # Each step is followed by those that belong to it and bear its number.
    order = tuple(state.reading_order())
    numbers = accumulate(int(step not in state.members) for step in order)
    return RunReport(
        run_id=state.run_id,
        plan_id=plan_id,
        plan_hash=plan_hash(plan_id),
        title=short_title(state.plan.title),
        status=state.status or _open_status(state, now, life, waits=bool(asked)),
        steps=tuple(step_report(state, step, number, now) for step, number in zip(order, numbers, strict=True)),
        questions=asked,
        answered=tuple(one.item for one in everything if one.step in life.answered),
        reason="`ordain stop` killed it with all that it had begun" if killed else state.reason,
        executors=state.epoch,
        rerun_of=state.rerun_of,
        continues=state.continues,
        replaced_by=state.replaced_by,
        changed_at=state.changed_at,
        took_ms=state.changed_at - state.opened_at,
        spending=spending(state, now if life.executing else state.worked_at),
    )


def _open_status(state: RunState, now: Instant, life: Life, *, waits: bool) -> str:
    """The one word for a run that has not ended; `waits` whether it waits for an answer."""
    if life.executing:
        if life.silent_ms > life.stalled_after_ms:
            return "stalled"
        if life.stop_asked is not None:
            return "pausing" if life.stop_asked == "paused" else "cancelling"
        return "executing"
    if waits and not _could_go_on(state, now, life):
        return "waiting"
    if state.paused_by is not None:
        return "paused"
    return "stalled" if now - state.changed_at > life.stalled_after_ms else "stopped"


def _could_go_on(state: RunState, now: Instant, life: Life) -> bool:
    """Whether anything could be done without a person's answer."""
    if state.aborted_by is not None and not state.doubtful:
        return True
    if life.answered or state.active or state.gatherable:
        return True
    places = (*state.ready, *(position for _, position in state.delayed)) if state.aborted_by is None else ()
    if any(not state.held(state.names[place]) for place in places):
        return True
    times = [(asks(state, step), state.steps[step].waits_until) for step in state.waiting]
    return any(not asked or (until is not None and until <= now) for asked, until in times)


def step_report(state: RunState, step_id: StepId, number: int, now: Instant) -> StepReport:
    """How one step of a run stands; `number` is that of the step of the plan that it is or belongs to."""
    step, record, member = state.step(step_id), state.steps[step_id], state.members.get(step_id)
    outcome, error = record.outcome, _error(record)
    choice = state.performer(step_id) if isinstance(step.action, Task) else None
    evidence = _never_begun(state, step_id) or _evidence(
        record, contract_of(step) is not None, said=by_word(state, step_id), gathered=_gathered(state, step_id)
    )
    shown = record.evidence or outcome
    if outcome is not None and record.fell_back:  # why it came to its fallback
        shown = outcome if outcome.error is not None else record.failed_first or shown
    return StepReport(
        number=number,
        part_of=member.parent if member is not None else None,
        label=member.label if member is not None else "",
        unfolds=step.for_each is not None or nested_plan_of(step) is not None,
        id=step.id,
        description=step.description,
        state=record.state,
        attempts=record.attempts,
        evidence=evidence,
        duration_ms=outcome.duration_ms if outcome is not None else None,
        error=error,
        output_tail=shown.output_tail if shown is not None else "",
        own_output_tail=outcome.output_tail if outcome is not None and shown is not outcome else "",
        waiting=None if state.finished else why_waiting(state, step.id, now),
        meaning=step.verification.description if step.verification is not None else None,
        verified=record.evidence,
        seen_before=record.seen_before,
        tampered=record.tampered,
        decided_by=record.decided_by,
        used=outcome.used if outcome is not None else None,
        agent=choice or msgspec.UNSET,
        calls=record.calls if record.work is not None else msgspec.UNSET,
        refused=outcome.refused if record.work is not None and outcome is not None else msgspec.UNSET,
        affected_files=outcome.affected_files if outcome is not None else msgspec.UNSET,
        affected_more=(outcome.affected_more if outcome is not None else 0) or msgspec.UNSET,
        kept_from=record.kept_from,
        unverified=evidence.startswith(UNVERIFIED),
        warned=(record.state is StepState.SKIPPED and error is not None and warns(state, step_id)) or msgspec.UNSET,
    )


def _error(record: StepRecord) -> str | None:
    if record.state is StepState.IN_DOUBT:
        return "F_STEP_IN_DOUBT"
    if record.state not in (StepState.FAILED, StepState.ESCALATED, StepState.SKIPPED, StepState.PENDING):
        return None
    if record.broken is not None:
        return record.broken.error
    own = record.outcome.error if record.outcome is not None else None
    seen = record.failed_first or (record.evidence if not record.fell_back or own is None else None)
    if seen is None:
        return own
    return seen.error or {"broken": "F_CONTRACT_BROKEN", "inconclusive": "F_CONTRACT_INCONCLUSIVE"}.get(seen.verdict)


ANSWER_CHARACTERS = 200
"""How much of an answer a line of a report shows."""


def _line(text: str) -> str:
    words = one_line(text)
    return words if len(words) <= ANSWER_CHARACTERS else words[:ANSWER_CHARACTERS] + "…"


def _cut(outcome: Outcome | None) -> str:
    """That not all of a result is kept, where it is not."""
    if outcome is None or outcome.output_bytes <= OUTPUT_BYTES_MAX or is_whole(outcome.output_seal):
        return ""
    room = ", for want of room" if outcome.whole_seal and outcome.output_bytes <= ARTIFACT_BYTES_MAX else ""
    return f"; only the last {OUTPUT_BYTES_MAX >> 20} MiB of its {outcome.output_bytes:,} bytes are kept{room}"


def _gathered(state: RunState, step_id: StepId) -> str:
    """What became of the items of a repeated step, or of the steps of its plan; nothing for other steps."""
    group = state.groups.get(step_id)
    if group is None or group.kind is GroupKind.FALLBACK:
        return ""
    if not group.members:
        return "no items, nothing was done"
    noun = "item" if group.kind is GroupKind.ITEMS else "step"
    records = [state.steps[name] for name in group.members]
    passed = sum(record.state is StepState.PASSED for record in records)
    skipped = len(group.members) - passed
    unproved = sum(by_word(state, name) is not None for name in group.members)
    said = f"{passed} {noun}{'s' * (passed != 1)} passed" + (f", {unproved} of them {UNVERIFIED}" if unproved else "")
    return said + (f", {skipped} skipped" if skipped else "")


def by_word(state: RunState, step_id: StepId) -> str | None:
    """By whose word alone a step passed; None where something was seen, or where a word was what it asked for."""
    record, step = state.steps[step_id], state.step(step_id)
    seen = record.evidence is not None and record.evidence.verdict == "held"
    if isinstance(step.action, Task) and contract_of(step) is None:
        seen = False  # an expression is asked about what was said, and of what was done it sees nothing
    if record.state is not StepState.PASSED or seen:
        return None
    if record.kept_word:
        return record.kept_word
    if about(step.action).waits == "person" and record.outcome is not None:
        return None
    if record.decided_by is not None:
        return f"{record.decided_by} said so ({record.how})"
    if not record.agent or record.outcome is None:
        return None
    status = f" (exit status {record.outcome.exit_code})" if record.outcome.exit_code is not None else ""
    return f"the agent {record.agent} said so{status}"


def _evidence(record: StepRecord, contract: bool, *, said: str | None, gathered: str) -> str:
    outcome, evidence = record.outcome, record.evidence
    what = "contract" if contract else "verification"
    remark = f": {_line(record.said)}" if record.said.strip() else ""
    match record.state:
        case StepState.PASSED:
            if said is not None:
                return f"{UNVERIFIED}: {said}{remark}"
            if record.checked and not contract and record.decided_by is None:
                return f"{record.how}, settling a doubt after a crash"
            if record.decided_by is not None and evidence is None and outcome is not None:
                return f"answered by {record.decided_by}: {_line(outcome.output_tail)}"
            if evidence is not None:
                again = f"kept from {record.kept_from or 'the earlier run'}: " if record.kept else ""
                held = f"{again}{what} held" + (f" (exit status {evidence.exit_code})" if contract else "")
                held += f", done by {record.decided_by}" if record.agent and record.how == DONE else ""
                held += _cut(outcome)
                if record.fell_back:
                    return f"{held}, after it had failed and {record.fell_back}"
                return held if outcome is not None else f"{held}, settling a doubt after a crash"
            if record.kept:
                return f"kept from {record.kept_from or 'the earlier run'}, where it passed; not checked again"
            if outcome is not None and outcome.exit_code is not None:
                return f"exit status {outcome.exit_code}, observed by Ordain{_cut(outcome)}"
            return gathered or f"result observed by Ordain{_cut(outcome)}"
        case StepState.SKIPPED if record.denied:
            return f"denied by {record.decided_by}{remark}"
        case StepState.SKIPPED if record.decided_by is not None and record.how == SKIP:
            return f"skipped by {record.decided_by}{remark}"
        case StepState.SKIPPED if record.condition_false:
            return "its condition was false"
        case StepState.FAILED if record.decided_by is not None and record.how == ABORT:
            return f"aborted by {record.decided_by}{remark}"
        case StepState.ESCALATED if record.asked is not None:
            return f"not started: {record.asked.reason}"
        case StepState.FAILED | StepState.ESCALATED | StepState.SKIPPED | StepState.PENDING:
            after = f"; {record.fell_back}" if record.fell_back else ""
            if record.broken is not None:
                return f"not started: {record.broken.detail}{after}"
            seen = outcome.detail if outcome is not None else ""
            if evidence is not None:
                words, first = f"{what} {evidence.verdict.value}: {evidence.detail}", record.failed_first
                # After a fallback, what went wrong first is what a reader wants to know.
                if after and outcome is not None and outcome.error is not None:
                    return f"{seen}{after}; {words}"
                if first is not None and first is not evidence:
                    return f"{what} {first.verdict.value}: {first.detail}{after}; {words}"
                return f"{words}{after}"
            return f"{seen}{after}" if outcome is not None else ""
        case StepState.IN_DOUBT:
            return record.how
        case StepState.CANCELLED if record.how:
            return record.how
        case StepState.CANCELLED if outcome is not None:
            return outcome.detail
        case _:
            return ""


def _never_begun(state: RunState, step_id: StepId) -> str:
    record = state.steps[step_id]
    if record.state is not StepState.CANCELLED or record.attempts or record.how:
        return ""
    unmet = [f"{need} ({state.steps[need].state.value})" for need in state.unmet_needs(step_id)]
    return f"never begun: needs {', '.join(unmet)}" if unmet else ""
