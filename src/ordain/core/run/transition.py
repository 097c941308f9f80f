"""Which moves a step may make: the table, and what refuses an event that does not fit with IllegalTransition."""

from __future__ import annotations

from ordain.core.plan.action import Task
from ordain.core.plan.condition import CustomCondition
from ordain.core.plan.model import check_of, contract_of, nested_plan_of
from ordain.core.plan.tool import COMMANDS, tool_name
from ordain.core.plan.value import StepId
from ordain.core.run.attempt import CANNOT, CHECK, DONE
from ordain.core.run.prompt import AGENT_CANNOT
from ordain.core.run.run_state import IllegalTransition, RunState, StepRecord
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

PENDING, RUNNING, VERIFYING = StepState.PENDING, StepState.RUNNING, StepState.VERIFYING
WAITING = StepState.WAITING
PASSED, FAILED, SKIPPED, CANCELLED = StepState.PASSED, StepState.FAILED, StepState.SKIPPED, StepState.CANCELLED
IN_DOUBT, ESCALATED = StepState.IN_DOUBT, StepState.ESCALATED

AFTER_FAILURE = frozenset({PENDING, FAILED, SKIPPED, ESCALATED, WAITING})
"""Where a failure policy can take a step; it waits where fallback steps are run."""

TRANSITIONS: dict[tuple[StepState, type], frozenset[StepState]] = {
    (PENDING, StepKept): frozenset({PASSED}),
    (PENDING, StepNotKept): frozenset({PENDING}),
    (PENDING, ConditionFalse): frozenset({SKIPPED}),
    (PENDING, PreconditionBroken): AFTER_FAILURE,
    (PENDING, StepApprovalAsked): frozenset({ESCALATED}),
    (PENDING, StepUnfolded): frozenset({WAITING}),
    (PENDING, AttemptStarted): frozenset({RUNNING}),
    (RUNNING, AttemptWaiting): frozenset({WAITING}),
    (WAITING, AttemptWaiting): frozenset({WAITING}),
    (RUNNING, AttemptEnded): AFTER_FAILURE | {VERIFYING, PASSED, CANCELLED},
    (WAITING, AttemptEnded): AFTER_FAILURE | {VERIFYING, PASSED, CANCELLED},
    (WAITING, DecisionGiven): frozenset({VERIFYING, PASSED, FAILED, ESCALATED}),
    (VERIFYING, ContractHeld): frozenset({PASSED}),
    (VERIFYING, ContractBroken): AFTER_FAILURE,
    (VERIFYING, ContractInconclusive): AFTER_FAILURE,
    (WAITING, FallbackEnded): frozenset({VERIFYING, FAILED, SKIPPED, ESCALATED, CANCELLED}),
    (RUNNING, DoubtFound): frozenset({IN_DOUBT}),
    (IN_DOUBT, DoubtSettled): frozenset({PASSED, PENDING}),
    (IN_DOUBT, DoubtChecked): frozenset({VERIFYING, PASSED, PENDING, IN_DOUBT}),
    (IN_DOUBT, DecisionGiven): frozenset({IN_DOUBT, VERIFYING, PASSED, PENDING, FAILED}),
    (ESCALATED, DecisionGiven): frozenset({VERIFYING, PENDING, SKIPPED, PASSED, FAILED}),
}
"""From state and event to the states it may lead to. Every move of every step is one of these; besides them,
`run_finished` takes the steps that are still open (pending, or escalated when the run aborts) to cancelled,
`run_cancelled` all that are; and where a plan that is nested or a step's fallback is ended early, its steps that are
not at work are cancelled too. Only steps that belong to another one can leave a settled state: when that is tried
again, they begin anew."""

_STAY = frozenset({FilesProtected, ContractSeen, DoubtReferred, WorkOffered, WorkClaimed, AgentCalled, AgentCallFailed})
"""Events that leave a step where it is, and are refused where they have no place."""
_TO: dict[type, StepState] = {
    AttemptStarted: RUNNING,
    AttemptWaiting: WAITING,
    StepUnfolded: WAITING,
    ConditionFalse: SKIPPED,
    StepApprovalAsked: ESCALATED,
    ContractHeld: PASSED,
    StepKept: PASSED,
    StepNotKept: PENDING,
    DoubtFound: IN_DOUBT,
}
"""Where events lead that can lead to one state only; the others say it."""
_NOWHERE: frozenset[StepState] = frozenset()


def refuse_move(origin: StepState, event: StepEvent) -> None:
    kind = type(event)
    if kind in _STAY:
        return
    to = _TO.get(kind) or getattr(event, "to", None)
    if to not in TRANSITIONS.get((origin, kind), _NOWHERE):
        raise IllegalTransition(f"{event.step}: {kind.__name__} takes nothing from {origin} to {to}")


def refuse_group(state: RunState, record: StepRecord, event: StepEvent) -> None:
    """Refuse what does not fit the steps that a step waits for, or would wait for."""
    name = event.step
    if record.gathers:
        group = state.groups[name]
        if name not in state.gatherable:
            raise IllegalTransition(f"{name} waits for steps of its own")
        if type(event) is not (FallbackEnded if group.kind is GroupKind.FALLBACK else AttemptEnded):
            raise IllegalTransition(f"{type(event).__name__} is not how {name} ends to wait for its {group.kind.value}")
        went_well = type(event) is AttemptEnded and event.outcome.error is None
        if went_well and not all(state.steps[one].satisfies for one in group.members):
            raise IllegalTransition(f"{name} went well, and not all steps of its own did")
    elif type(event) is FallbackEnded:
        raise IllegalTransition(f"{name} has no fallback under way")
    elif type(event) is AttemptStarted:
        step = state.step(name)
        if step.for_each is not None or nested_plan_of(step) is not None:
            raise IllegalTransition(f"{name} becomes steps of its own and is not begun itself")


def refuse_blocked(state: RunState, event: StepEvent) -> None:
    if state.is_blocked(event.step):
        raise IllegalTransition(f"{event.step} started before what it needs")


def refuse_held(state: RunState, event: StepEvent) -> None:
    if state.held(event.step):
        raise IllegalTransition(f"{event.step} began although a budget was reached that pays for it")


def refuse_tampered(state: RunState, step_id: StepId) -> None:
    if state.steps[step_id].tampered:
        raise IllegalTransition(f"{step_id} was at work while protected files changed; no evidence can pass it")


def refuse_undone(state: RunState, step_id: StepId) -> None:
    """Refuse that a task is done which nobody has taken, or a person's without their word."""
    record = state.steps[step_id]
    if isinstance(state.step(step_id).action, Task) and not record.gathers and record.lease is None:
        raise IllegalTransition(f"the task of {step_id} was performed by nobody")


def refuse_answer(state: RunState, event: DecisionGiven) -> None:
    """Refuse what is no answer to a question that the plan asks, or about a task that it gives to a person."""
    step, error = state.step(event.step), event.outcome.error if event.outcome is not None else None
    if state.steps[event.step].state is not WAITING or not state.is_persons(event.step):
        raise IllegalTransition(f"{event.step} asks a person nothing that could have a result")
    after = FAILED if event.aborts else VERIFYING if check_of(step) is not None else PASSED
    if error is not None:
        after = ESCALATED
    if event.to is not after or event.aborts is not (event.outcome is None):
        raise IllegalTransition(f"an answer cannot take {event.step} to {event.to}")
    if isinstance(step.action, Task) and event.outcome is not None:
        known = {DONE: None, CANNOT: AGENT_CANNOT}
        if event.about != "task" or event.choice not in known or known[event.choice] != error:
            raise IllegalTransition(f"{event.choice} is not what can be said of the task of {event.step}")
    elif error is not None:
        raise IllegalTransition(f"the answer about {event.step} went badly, and no answer can")
    if after in (VERIFYING, PASSED):
        refuse_tampered(state, event.step)


def after_check(state: RunState, step_id: StepId, verdict: Verdict, *, final: bool, read_only: bool) -> StepState:
    """Where the answer of a check takes a step in doubt: nowhere, unless that answer can be relied on."""
    checked = check_of(state.step(step_id))
    if not read_only or state.steps[step_id].tampered:
        return IN_DOUBT
    if verdict is Verdict.BROKEN and final:
        return PENDING
    if verdict is not Verdict.HELD or isinstance(checked, CustomCondition):  # nobody saw the end it would ask about
        return IN_DOUBT
    return VERIFYING if checked is not None else PASSED


def refuse_check(state: RunState, event: DoubtChecked) -> None:
    """Raise IllegalTransition for the answer of a check that nobody had to ask, or that cannot lead where it says."""
    step = state.step(event.step)
    if state.steps[event.step].settle is not Settlement.CHECK:
        raise IllegalTransition(f"no check is asked about {event.step}")
    known = event.tool == tool_name(step.action) and event.tool not in COMMANDS if event.tool else step.happened
    if not known or (event.final and not event.tool):
        raise IllegalTransition(f"{event.step} has no such check")
    to = after_check(state, event.step, event.evidence.verdict, final=event.final, read_only=event.read_only)
    if event.to is not to:
        raise IllegalTransition(f"the check of {event.step} cannot take it to {event.to}")


def refuse_verify_again(state: RunState, event: DecisionGiven) -> None:
    """Refuse to run a contract again that there is not, or that could prove nothing."""
    refuse_tampered(state, event.step)
    if event.choice != CHECK or contract_of(state.step(event.step)) is None:
        raise IllegalTransition(f"{event.step} has no contract that could be run again")


def after_cannot(state: RunState, step_id: StepId) -> StepState:
    return ESCALATED if state.aborting(step_id) is None else FAILED


_MAY_FALL_BACK = (AttemptEnded, ContractBroken, ContractInconclusive, PreconditionBroken)


def refuse_fallback(state: RunState, event: StepEvent) -> None:
    """Refuse that a step waits for no fallback steps, or for such as the plan does not have."""
    if type(event) is AttemptStarted or not isinstance(event, _MAY_FALL_BACK):
        return
    if bool(event.fallback) is not (event.to is WAITING):
        raise IllegalTransition(f"{event.step} waits after a failure for fallback steps, and for nothing else")
    if event.fallback and (
        unknown := set(event.fallback) - {one.id for one in state.plan_around(event.step).fallbacks}
    ):
        names = ", ".join(sorted(unknown))
        raise IllegalTransition(f"{event.step} falls back on {names}, which the plan does not have")
