"""Events fold into a run's state by `apply`, which refuses what TRANSITIONS does not allow and then changes nothing."""

from __future__ import annotations

from typing import assert_never, cast, get_args

from ordain.core.plan.action import Task
from ordain.core.plan.model import Step, check_of, nested_plan_of
from ordain.core.plan.value import Instant, StepId
from ordain.core.plan.words import counted, sayable
from ordain.core.run.attempt import with_try
from ordain.core.run.event import (
    BudgetReached,
    ExecutorStarted,
    ProtectedChanged,
    RunCancelled,
    RunEvent,
    RunFinished,
    RunOpened,
    RunPaused,
)
from ordain.core.run.group import Group, Member, fallback_members, item_members, nested_members, within
from ordain.core.run.inheritance import refuse_replacing, run_again, take_over, unfolded
from ordain.core.run.prompt import AGENT_CANNOT
from ordain.core.run.run_state import SETTLED, IllegalTransition, RunState, StepRecord
from ordain.core.run.spending import RUN, owner_of
from ordain.core.run.step_event import (
    AgentCalled,
    AgentCallFailed,
    AttemptEnded,
    AttemptStarted,
    AttemptWaiting,
    ConditionFalse,
    ContractBroken,
    ContractHeld,
    ContractInconclusive,
    ContractSeen,
    DecisionGiven,
    DoubtChecked,
    DoubtFound,
    DoubtReferred,
    DoubtSettled,
    FallbackEnded,
    FilesProtected,
    GroupKind,
    PreconditionBroken,
    Settlement,
    StepApprovalAsked,
    StepEvent,
    StepKept,
    StepNotKept,
    StepState,
    StepUnfolded,
    Verdict,
    WorkClaimed,
    WorkOffered,
)
from ordain.core.run.transition import (
    CANCELLED,
    ESCALATED,
    FAILED,
    IN_DOUBT,
    PASSED,
    PENDING,
    RUNNING,
    SKIPPED,
    VERIFYING,
    WAITING,
    after_cannot,
    refuse_answer,
    refuse_blocked,
    refuse_check,
    refuse_fallback,
    refuse_group,
    refuse_held,
    refuse_move,
    refuse_tampered,
    refuse_undone,
    refuse_verify_again,
)
from ordain.core.text.limit import REPETITIONS_MAX

_OF_A_STEP = frozenset(get_args(StepEvent)) - {DecisionGiven}
"""Events about a step alone. To ask whether one is of a kind costs 0.1 µs, and with `match` once for each kind."""


def apply(state: RunState, event: RunEvent, at: Instant) -> RunState:
    """Fold one event into the state and return it; IllegalTransition says that nothing has changed."""
    if state.finished:
        raise IllegalTransition(f"{type(event).__name__} after the run finished")
    if type(event) in _OF_A_STEP:  # nearly all are: asked once, and not by comparing with each kind in turn
        _fold_step(state, cast("StepEvent", event), at)
    else:
        _apply_to_run(state, event, at)
    state.size += 1
    state.changed_at = at
    return state


def _apply_to_run(state: RunState, event: RunEvent, at: Instant) -> None:
    match event:
        case RunOpened():
            if state.size:
                raise IllegalTransition("a run is opened once, first")
            state.run_id, state.lineage, state.opened_at = event.run_id, event.lineage, at
            state.workspace, state.limits, state.plan_id = event.workspace, event.limits, event.plan_id
            state.rerun_of, state.first_run = event.rerun_of, event.first_run or event.run_id
            take_over(state, event)
            state.opened_at, state.signals, state.environment = at, event.signals, event.environment
            state.operands = event.operands
        case ExecutorStarted():
            if event.epoch <= state.epoch:
                raise IllegalTransition(f"epoch {event.epoch} after {state.epoch}")
            state.epoch, state.paused_by, state.reason = event.epoch, None, ""
            state.executor_at = at
            for account in state.accounts.values():
                account.cut(state.worked_at, at)
            state.worked_at = at
        case RunPaused():
            state.paused_by, state.reason = event.by, event.reason
        case ProtectedChanged():
            _tampered(state, event)
        case BudgetReached():
            _reach(state, event, at)
        case RunFinished():
            _finish(state, event, at)
        case RunCancelled():
            if event.status not in ("cancelled", "failed", "replaced"):
                raise IllegalTransition(f"nobody can end a run as {event.status}")
            refuse_replacing(state, event)
            _cancel(state, at)
            for account in state.accounts.values():
                account.cut(state.worked_at, at)  # whether anybody was still at work then, nobody can tell
                account.at_work = 0
            state.status, state.reason, state.replaced_by = event.status, event.reason, event.replaced_by
        case DecisionGiven() if (owner := owner_of(event.step)) is not None:
            _decide_budget(state, owner, event, at)
        case _:
            _fold_step(state, event, at)


def _fold_step(state: RunState, event: StepEvent, at: Instant) -> None:
    was_at_work = event.step in state.active
    _apply_to_step(state, event, at)
    _spend(state, event, at, was_at_work=was_at_work)


def _apply_to_step(state: RunState, event: StepEvent, at: Instant) -> None:
    if event.step not in state.steps:
        raise IllegalTransition(f"{type(event).__name__} for {event.step}, which is not in the plan")
    record = state.steps[event.step]
    expected = record.attempts + 1 if type(event) in (AttemptStarted, StepUnfolded) else record.attempts
    if event.attempt != expected and not isinstance(event, DecisionGiven):
        raise IllegalTransition(f"attempt {event.attempt} of {event.step} where {expected} was due")
    refuse_move(record.state, event)  # before anything is noted: what is refused changes nothing
    refuse_fallback(state, event)
    refuse_group(state, record, event)
    match event:  # the most common first
        case AttemptStarted():
            refuse_blocked(state, event)
            refuse_held(state, event)
            state.move(event.step, RUNNING)
            _begin(state, event.step, record, at)
            record.agent, record.agent_why, record.key = event.agent, event.why, event.key
        case AttemptEnded():
            if event.outcome.error is None and event.to not in (VERIFYING, PASSED):
                raise IllegalTransition(f"{event.step} went well and cannot go to {event.to}")
            if event.outcome.error is not None and event.to in (VERIFYING, PASSED):
                raise IllegalTransition(f"{event.step} went badly and cannot go to {event.to}")
            if event.to is PASSED and check_of(state.step(event.step)) is not None:
                raise IllegalTransition(f"{event.step} has a contract; only that can pass it")
            if event.to in (VERIFYING, PASSED):
                refuse_tampered(state, event.step)
                refuse_undone(state, event.step)
            if event.outcome.error == AGENT_CANNOT and event.to is not after_cannot(state, event.step):
                raise IllegalTransition(f"{event.step} cannot be done, as was said; only a person decides what then")
            if record.state is WAITING and not record.gathers and state.is_persons(event.step):
                record.unanswered += 1
            record.outcome, record.ended_at = event.outcome, at
            record.waits_for, record.waits_until = "", None
            _let_go(state, event.step)
            _after(state, event, failed=event.outcome.error is not None)
        case WorkOffered():
            task = isinstance(state.step(event.step).action, Task)
            if record.state is not RUNNING or record.work is not None or not task:
                raise IllegalTransition(f"the task of {event.step} is offered once, before anybody performs it")
            item = event.item
            limits = state.limits_in_force
            if item.arbiter and (item.arbiter != limits.arbiter or item.agent not in (*limits.among, record.agent)):
                raise IllegalTransition(f"{item.agent} is none of those that an arbiter may choose for {event.step}")
            chosen = item.agent if item.arbiter else record.agent
            if (item.step, item.attempt, item.agent) != (event.step, event.attempt, chosen):
                raise IllegalTransition(f"what is offered is not the task of attempt {event.attempt} at {event.step}")
            record.work = item
            if item.arbiter:
                record.agent, record.agent_why = item.agent, item.why
        case WorkClaimed():
            taken = record.lease is not None or state.is_persons(event.step)
            if record.state is not RUNNING or record.work is None or taken:
                raise IllegalTransition(f"the task of {event.step} is not to be had")
            record.lease = event.lease
        case AgentCalled():
            if record.state is not RUNNING or record.work is None or event.call != record.calls + 1:
                raise IllegalTransition(f"no agent of {event.step} can make call {event.call} now")
            record.calls = event.call
        case AgentCallFailed():
            if record.state is not RUNNING or not 1 <= event.call <= record.calls:
                raise IllegalTransition(f"no agent of {event.step} has made call {event.call}")
        case ContractHeld():
            refuse_tampered(state, event.step)
            if event.evidence.verdict is not Verdict.HELD or check_of(state.step(event.step)) is None:
                raise IllegalTransition(f"{event.step} has no contract that was seen to hold")
            record.evidence, record.ended_at = event.evidence, at
            _checked(record)
            state.move(event.step, PASSED)
        case StepKept() | StepNotKept():
            if event.step not in state.may_keep or state.unmet_needs(event.step):
                raise IllegalTransition(f"{event.step} cannot be kept from the run before")
            verdict = event.evidence.verdict if event.evidence is not None else None
            checked = check_of(state.step(event.step)) is not None
            if (verdict is Verdict.HELD) is not (checked and isinstance(event, StepKept)):
                raise IllegalTransition(f"{event.step} is kept where its contract holds, and nowhere else")
            state.may_keep.discard(event.step)
            record.evidence = event.evidence
            state.move(event.step, PASSED if isinstance(event, StepKept) else PENDING)
            if isinstance(event, StepKept):
                record.outcome, record.kept, record.ended_at = event.outcome, True, at
                record.kept_from, record.kept_word = event.run_id, event.word
        case ConditionFalse():
            refuse_blocked(state, event)
            record.condition_false, record.ended_at = True, at
            state.move(event.step, SKIPPED)
        case PreconditionBroken():
            refuse_blocked(state, event)
            record.ended_at = at
            record.outcome, record.evidence, record.decided_by = None, None, None
            _after(state, event, failed=True)
            record.broken = event
        case StepApprovalAsked():
            refuse_blocked(state, event)
            record.asked, record.waits_since = event, at
            state.move(event.step, ESCALATED)
        case StepUnfolded():
            refuse_blocked(state, event)
            refuse_held(state, event)
            _unfold(state, event)
            unfolded(state, event)
            _begin(state, event.step, record, at)
        case FilesProtected():
            if record.state is not RUNNING or record.protected_now:
                raise IllegalTransition(f"what {event.step} must not change is kept once, before its effect")
            known = state.protected or {}
            if event.of_plan.keys() & known.keys() or (event.of_step and record.protected is not None):
                raise IllegalTransition(f"{event.step} would have a protected file be another than it was")
            state.protected = {**known, **event.of_plan} if event.of_plan or not known else known
            if event.beside_plan is not None:
                state.beside = (state.beside or frozenset()) | set(event.beside_plan)
            if event.beside_step is not None and record.protected is None:
                record.beside = frozenset(event.beside_step)
            record.protected = dict(event.of_step) if record.protected is None else record.protected
            record.protected_now = True
        case ContractSeen():
            if record.state is not RUNNING or record.seen_before is not None:
                raise IllegalTransition(f"the contract of {event.step} is looked at once, before its effect")
            record.seen_before, record.operand_before = event.evidence, event.operand
            record.seen_broken = record.seen_broken or event.evidence.verdict is Verdict.BROKEN
        case AttemptWaiting():
            if record.tampered:
                raise IllegalTransition(f"{event.step} was at work while protected files changed; it can only fail")
            if isinstance(state.step(event.step).action, Task) and record.work is None:
                raise IllegalTransition(f"{event.step} waits for somebody who was offered nothing")
            if record.state is RUNNING:
                record.waits_since = at
            record.waits_for, record.waits_until = event.reason, event.until
            state.move(event.step, WAITING)
        case ContractBroken() | ContractInconclusive():
            record.evidence, record.ended_at, record.broken = event.evidence, at, None
            record.checking = False
            _after(state, event, failed=True)
        case FallbackEnded():
            record.fell_back, record.ended_at = event.reason, at
            record.waits_for, record.waits_until = "", None
            _let_go(state, event.step)
            _after(state, event, failed=False)
        case DoubtFound():
            record.settle, record.how, record.waits_since = event.settle, event.reason, at
            state.move(event.step, IN_DOUBT)
        case DoubtReferred():
            if record.state is not IN_DOUBT:
                raise IllegalTransition(f"{event.step} is not in doubt")
            if event.settle not in (Settlement.PERSON, Settlement.CHECK):
                raise IllegalTransition(f"the doubt about {event.step} is referred to nobody")
            record.settle, record.evidence, record.how = event.settle, event.evidence, event.reason
            _checked(record)
        case DoubtChecked():
            refuse_check(state, event)
            record.evidence, record.checked, record.how = event.evidence, True, event.reason
            record.settle = Settlement.PERSON
            if event.to is not IN_DOUBT:
                record.settle, record.ended_at = None, at
                _again(state, event.step, event.to)
        case DoubtSettled():
            if event.to is PASSED:
                refuse_tampered(state, event.step)
                if event.evidence is None or event.evidence.verdict is not Verdict.HELD:
                    raise IllegalTransition(
                        f"{event.step} passes out of doubt by a contract that holds, or by a person"
                    )
            record.settle, record.how, record.ended_at = None, event.reason, at
            record.evidence = event.evidence or record.evidence
            _checked(record)
            _again(state, event.step, event.to)
        case DecisionGiven():
            if event.attempt not in (0, record.attempts):  # 0: of before answers were bound
                raise IllegalTransition(f"a decision about attempt {event.attempt} of {event.step}, which is over")
            if (record.asked is not None) is not (event.about == "step_approval"):
                raise IllegalTransition(f"a decision about {event.step} that is not the one that was asked for")
            if record.asked is not None and event.to is PASSED:
                raise IllegalTransition(f"{event.step} was not begun and cannot have passed")
            if record.state is WAITING or event.outcome is not None:
                refuse_answer(state, event)
                record.outcome, record.waits_for, record.waits_until = event.outcome, "", None
            checking = event.to is IN_DOUBT or (record.state is ESCALATED and event.to is VERIFYING)
            if checking:
                refuse_verify_again(state, event)
            record.decisions += 1
            record.how, record.decided_by, record.said = event.choice, event.by.name, event.said
            record.checking, record.settle = checking, Settlement.CONTRACT if event.to is IN_DOUBT else None
            if not checking:
                record.ended_at = at
                record.fell_back, record.failed_first, record.broken = "", None, None
                if event.outcome is None:  # an answer is what the step was for, and no second chance
                    record.failures = 0
            if record.asked is not None:
                record.allowed = record.asked.seal if event.to is PENDING else ""
                record.denied = event.to is SKIPPED
                record.asked = None
            _again(state, event.step, event.to)
            if event.aborts:
                _abort(state, event.step, by_person=True)
        case _:
            assert_never(event)


def _checked(record: StepRecord) -> None:
    """Note that the contract which a person had run again has been: its verdict counts from here on, not their word."""
    if record.checking:
        record.checking, record.decided_by, record.said = False, None, ""


def _again(state: RunState, step_id: StepId, to: StepState) -> None:
    """Take a step where a doubt or a question was settled to, unless what it is part of was ended meanwhile."""
    state.move(step_id, to)
    if to in (PENDING, ESCALATED) and step_id in state.members and state.aborting(step_id) is not None:
        state.move(step_id, CANCELLED)


def _tampered(state: RunState, event: ProtectedChanged) -> None:
    """Note what was changed with every step that may have done it."""
    for step_id in event.steps:
        if step_id not in state.steps or state.steps[step_id].state not in (RUNNING, VERIFYING, IN_DOUBT):
            raise IllegalTransition(f"{step_id} was not at work and cannot have changed anything")
    for step_id in event.steps:
        record = state.steps[step_id]
        record.tampered = tuple(dict.fromkeys((*record.tampered, *event.files)))


def _spend(state: RunState, event: StepEvent, at: Instant, *, was_at_work: bool) -> None:
    """Note with every account that pays for a step what an event of it costs."""
    kind, is_at_work = type(event), event.step in state.active
    if kind is not DecisionGiven:  # which can be given while nobody is at work
        state.worked_at = at
    used = event.outcome.used if type(event) is AttemptEnded else None
    if is_at_work is was_at_work and used is None:
        return
    for owner in state.payers(event.step) if len(state.accounts) > 1 else (RUN,):
        account = state.accounts[owner]
        if is_at_work and not was_at_work:
            account.spent["attempts"] += kind is AttemptStarted
            account.begin(at)
        elif was_at_work and not is_at_work:
            account.end(at)
        if used is not None:
            account.use(used)


def _reach(state: RunState, event: BudgetReached, at: Instant) -> None:
    """Note that nothing more is paid from an account until a person has decided."""
    owner = owner_of(event.step)
    if owner is None or owner not in state.accounts or owner in state.reached:
        raise IllegalTransition(f"{event.step} is no budget that can be reached now")
    account = state.accounts[owner]
    if event.what not in account.limits:
        raise IllegalTransition(f"{event.step} has no limit of {event.what}")
    said = (event.spent, event.limit)
    seen = (sayable(event.what, account.total(event.what, at)), sayable(event.what, account.limits[event.what]))
    if said != seen:
        raise IllegalTransition(f"{event.step} says {said} of {event.what}, where {seen} were spent and allowed")
    wanted = account.total(event.what, at) + counted(event.what, event.wanted)
    if account.total(event.what, at) < account.limits[event.what] >= wanted:
        raise IllegalTransition(f"{event.step} is not reached: there is enough {event.what} left")
    state.reached[owner] = event
    account.reached_at = state.worked_at = at


def _decide_budget(state: RunState, owner: StepId, event: DecisionGiven, at: Instant) -> None:
    """Go on as a person decided about a budget, or end what it paid for."""
    reached = state.reached.get(owner)
    if reached is None:
        raise IllegalTransition(f"nobody was asked about {event.step}")
    to, aborts = (FAILED, True) if event.choice == "abort" else (PENDING, False)
    known = event.choice in ("extend", "unlimited", "abort") and event.about == "budget" and event.outcome is None
    if not known or (event.to, event.aborts) != (to, aborts):
        raise IllegalTransition(f"{event.choice} is no answer about {event.step}, or does not do that")
    account = state.accounts[owner]
    account.decisions += 1
    del state.reached[owner]
    if event.choice == "extend":
        account.extend(reached.what, at)
    elif event.choice == "unlimited":
        del account.limits[reached.what]
    else:
        _abort(state, owner or event.step, by_person=True)


def _begin(state: RunState, step_id: StepId, record: StepRecord, at: Instant) -> None:
    """Note that one more attempt of a step has begun."""
    if state.may_keep and not state.steps[step_id].gathers:
        run_again(state, step_id)
    if record.started_at is not None:
        record.tries = with_try(record.tries, record.last_try())
    record.attempts += 1
    record.outcome, record.evidence, record.broken = None, None, None
    record.seen_before, record.operand_before, record.checked = None, None, False
    record.protected_now, record.tampered, record.fell_back, record.failed_first = False, (), "", None
    record.work, record.lease, record.calls = None, None, 0
    record.started_at, record.ended_at, record.how, record.decided_by, record.said = at, None, "", None, ""


def _unfold(state: RunState, event: StepUnfolded) -> None:
    step_id, count = event.step, event.count
    step = state.step(step_id)
    nested = nested_plan_of(step) if step.for_each is None else None
    if len(event.labels) not in (0, count):
        raise IllegalTransition(f"{step_id} has {count} items and {len(event.labels)} names for them")
    if not state.has_room(count):
        raise IllegalTransition(f"{step_id} becomes {count} steps, and then there are more than a run can have")
    match event.kind:
        case GroupKind.ITEMS if step.for_each is not None and 0 <= count <= min(step.for_each.max, REPETITIONS_MAX):
            original = _as_written(state, step_id)
            made = item_members(step, original, count, event.labels)
            limit = step.for_each.concurrency
            names = [state.written_name(step_id)] * count
        case GroupKind.NESTED if nested is not None and count == len(nested.steps):
            made, limit = nested_members(step, nested), nested.concurrency
            names = [one.id for one in nested.steps]
        case _:
            raise IllegalTransition(f"{step_id} does not become {event.kind.value}")
    labels = event.labels or [""] * count
    members = [Member(step_id, event.kind, name, index, labels[index]) for index, name in enumerate(names)]
    group = Group(kind=event.kind, members=tuple(one.id for one, _ in made), limit=limit, items_seal=event.items_seal)
    state.gather(step_id)
    state.unfold(step_id, group, made, members)


def _as_written(state: RunState, step_id: StepId) -> Step:
    """A step with everything that the plan says of it."""
    plan, name = state.plan_around(step_id), state.written_name(step_id)
    return _within(state, step_id, next(one for one in (*plan.steps, *plan.fallbacks) if one.id == name))


def _within(state: RunState, step_id: StepId, written: Step) -> Step:
    """A step of the plan that this one is of, with what is said of all steps in that plan, if it is a nested one."""
    around = state.holder(step_id)
    return written if around is None else within(written, state.plan_around(step_id), state.step(around))


def _fall_back(state: RunState, step_id: StepId, names: tuple[StepId, ...]) -> None:
    fallbacks = [_within(state, step_id, one) for one in state.plan_around(step_id).fallbacks]
    if not state.has_room(len(fallbacks)):
        raise IllegalTransition(f"{step_id} falls back, and then there are more steps than a run can have")
    made = fallback_members(step_id, fallbacks, names, lambda name: state.named(step_id, name))
    prefix = len(step_id) + 1
    members = [
        Member(step_id, GroupKind.FALLBACK, StepId(one.id[prefix:]), index) for index, (one, _) in enumerate(made)
    ]
    state.gather(step_id)
    group = Group(kind=GroupKind.FALLBACK, members=tuple(one.id for one, _ in made))
    state.unfold(step_id, group, made, members)


def _let_go(state: RunState, step_id: StepId) -> None:
    """End the steps of a step's own that have not come to an end and never will."""
    if state.steps[step_id].gathers:
        for name in state.groups[step_id].members:
            if state.steps[name].state is PENDING:
                state.move(name, CANCELLED)


def _abort(state: RunState, step_id: StepId, *, by_person: bool = False) -> None:
    """A step ends the run, or the nested plan or the fallback that it is of. A person who gives up means the run."""
    parent = state.ended_with(step_id) if not by_person else None
    if parent is not None:
        state.end_early(parent, step_id)
        return
    state.aborted_by = step_id
    for one in list(state.gathering):
        if one in state.gathering:
            state.end_early(one, step_id)


def _after(
    state: RunState,
    event: AttemptEnded | ContractBroken | ContractInconclusive | PreconditionBroken | FallbackEnded,
    *,
    failed: bool,
) -> None:
    """Take a step where its outcome or verdict, and the failure policy written into the event, sent it."""
    record = state.steps[event.step]
    if failed and event.to is not CANCELLED:
        record.failures += 1
    if not isinstance(event, FallbackEnded) and event.to is WAITING:
        record.failed_first = record.evidence
        _fall_back(state, event.step, event.fallback)
    else:
        state.move(event.step, event.to, event.not_before)
    if event.aborts:
        _abort(state, event.step)


def _finish(state: RunState, event: RunFinished, at: Instant) -> None:
    under_way = state.active or state.waiting or state.gathering or state.doubtful
    if under_way or (state.escalated and state.aborted_by is None):
        raise IllegalTransition("a run cannot finish while a step is running, waiting, in doubt or with a person")
    # "None ready" is never "complete": only every step passed or skipped is.
    if (event.status == "completed") is not (state.unsatisfied == 0):
        raise IllegalTransition(f"the run is called {event.status}, but its steps say otherwise")
    _cancel(state, at)
    state.status, state.reason = event.status, event.reason


def _cancel(state: RunState, at: Instant) -> None:
    """End every step that is still open; of one that was under way nobody knows what it did."""
    for step_id, record in state.steps.items():
        if record.state not in SETTLED:
            record.how = ""
            if record.state in (RUNNING, IN_DOUBT):
                record.how = "was under way when the run was cancelled; nobody looked whether it happened"
            elif record.gathers:
                record.how = "waited for its own steps when the run was cancelled"
            elif record.state is WAITING:
                record.how = f"waited for {record.waits_for} when the run was cancelled"
                record.waits_for, record.waits_until = "", None
            elif record.state is VERIFYING:
                record.how = "was done and not verified when the run was cancelled"
            state.move(step_id, CANCELLED)
            record.ended_at = at
