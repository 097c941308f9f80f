"""What happens next: `decide` says which effects the loop performs, by the rules here and in `consequence`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from itertools import islice
from typing import assert_never

import msgspec
from msgspec.structs import asdict, replace

from ordain.core.plan.action import Task
from ordain.core.plan.model import Step, check_of, contract_of, nested_plan_of
from ordain.core.plan.role import EffectClass, about
from ordain.core.plan.tool import ToolDefinition, definition_of, happened_check
from ordain.core.plan.value import Instant, RunId, StepId
from ordain.core.run.budget import Held, may_begin, over_at, over_by_now
from ordain.core.run.consequence import Consequence, after_fallback, consequence, why_aborted
from ordain.core.run.event import BudgetReached
from ordain.core.run.prompt import AGENT_CANNOT
from ordain.core.run.run_state import SETTLED, RunState
from ordain.core.run.step_event import (
    AttemptEnded,
    ContractBroken,
    ContractHeld,
    ContractInconclusive,
    DoubtChecked,
    DoubtFound,
    DoubtReferred,
    DoubtSettled,
    Evidence,
    FallbackEnded,
    GroupKind,
    Outcome,
    PreconditionBroken,
    Settlement,
    StepKept,
    StepNotKept,
    StepState,
    Verdict,
)
from ordain.core.run.transition import after_check

# --- Effects: what `decide` asks the loop to do --------------------------------------------------------------------


class _OfStep(msgspec.Struct, frozen=True):
    step: StepId


class Start(_OfStep, frozen=True):
    """Begin the next attempt of a step."""


class Recheck(_OfStep, frozen=True):
    """Look whether a step that passed in the run before need not be run again."""


class Verify(_OfStep, frozen=True):
    """Run a step's contract."""


class SettleByContract(_OfStep, frozen=True):
    """Run the contract of a step in doubt, to find out whether its effect happened."""


class SettleByCheck(_OfStep, frozen=True):
    """Ask the check of a step in doubt whether its effect happened."""


class WaitOn(_OfStep, frozen=True):
    """Look again for what a step waits for, when that may have come or its time is over."""


class GiveUp(_OfStep, frozen=True):
    """End an attempt that waited for a person, whose time is over."""


class Stop(_OfStep, frozen=True):
    """End an attempt that runs or waits, because the run is being aborted."""


class Gather(_OfStep, frozen=True):
    """The steps that a step waited for have come to their end: say what that makes of it."""


class Reach(msgspec.Struct, frozen=True):
    """The time of a budget is over while steps are at work: say so."""

    event: BudgetReached


class Wake(msgspec.Struct, frozen=True):
    """Look again at this instant."""

    at: Instant


class End(msgspec.Struct, frozen=True):
    """Nothing is left to do: finish the run with this status."""

    status: str
    reason: str = ""


Settle = SettleByContract | SettleByCheck
Effect = Start | Recheck | Verify | Settle | WaitOn | Gather | GiveUp | Stop | Reach | Wake | End


def decide(state: RunState, now: Instant) -> tuple[Effect, ...]:
    """The effects that this state calls for now. Empty means: wait for what is under way, or for a person."""
    if state.finished:
        return ()
    effects: list[Effect] = [
        _SETTLED_BY[how](step) for step in state.doubtful if (how := state.steps[step].settle) in _SETTLED_BY
    ]
    verifying = [step for step in state.active if state.steps[step].state is StepState.VERIFYING]
    # Whatever runs, is settled or verified takes a place. More can wait to be verified than there are places, where
    # people have answered that what was in doubt happened.
    places = max(concurrency(state) - len(effects) - (len(state.active) - len(verifying)), 0)
    effects += [Verify(step) for step in verifying[:places]]
    effects += [Gather(step) for step in state.gatherable]
    # What runs is ended; what is being verified is judged to the end, for its effect is there already.
    stopped = state.stopped
    effects += [Stop(step) for step in stopped]
    if state.aborted_by is not None:
        over = not effects and not state.doubtful and not state.gathering
        return (End("failed", why_aborted(state)),) if over else tuple(effects)
    if state.budgeted:
        effects += [Reach(event) for event in over_by_now(state, now)]  # before anything else could reach it
    with_person, times_over = _waits(state, now, effects) if state.waiting else (False, [])
    # Only as many are looked at as there are free places. What was begun before goes first, once its time has come.
    free = max(0, places - len(verifying))
    ready, delayed = _unheld(state)
    due = [position for not_before, position in islice(delayed, free) if not_before <= now]
    positions = [*due, *islice(ready, free - len(due))]
    for position in positions:
        step = state.names[position]
        effects.append(Recheck(step) if step in state.may_keep else Start(step))
    if state.budgeted and (reached_at := over_at(state, now)) is not None:
        times_over.append(reached_at)
    if len(positions) < free and len(due) < len(delayed):
        effects.append(Wake(min((delayed[len(due)][0], *times_over))))
    elif times_over and (effects or state.active):  # nobody stays only to see that a person does not answer
        effects.append(Wake(min(times_over)))
    held = state.reached and (state.ready or state.delayed)
    if effects or state.active or with_person or state.doubtful or state.escalated or held:
        return tuple(effects)
    return (End("failed" if state.unsatisfied else "completed"),)


_SETTLED_BY: dict[Settlement | None, type[Settle]] = {
    Settlement.CONTRACT: SettleByContract,
    Settlement.CHECK: SettleByCheck,
}


def _unheld(state: RunState) -> tuple[Sequence[int], Sequence[tuple[Instant, int]]]:
    """The steps that are ready, and those that will be, but for those that a reached budget keeps from beginning."""
    if not state.reached:
        return state.ready, state.delayed
    ready = [position for position in state.ready if not state.held(state.names[position])]
    return ready, [one for one in state.delayed if not state.held(state.names[one[1]])]


def _waits(state: RunState, now: Instant, effects: list[Effect]) -> tuple[bool, list[Instant]]:
    """Add what is to be done about the steps that wait; whether any waits for a person, and until when."""
    with_person, times_over = False, []
    for step in state.waiting:
        if state.aborting(step) is not None:
            continue  # it is stopped
        until = state.steps[step].waits_until
        if not asks(state, step):
            effects.append(WaitOn(step))
            continue
        with_person = True
        if until is not None and until <= now:
            effects.append(GiveUp(step))
        elif until is not None:
            times_over.append(until)
    return with_person, times_over


def asks(state: RunState, step_id: StepId) -> bool:
    """Whether a step waits for what only a person can say."""
    record = state.steps[step_id]
    return record.state is StepState.WAITING and not record.gathers and state.is_persons(step_id)


def concurrency(state: RunState) -> int:
    return state.plan.concurrency or state.limits_in_force.concurrency


def why_waiting(state: RunState, step_id: StepId, now: Instant) -> str | None:
    """One sentence on why a step is not under way, or None when it is under way or settled."""
    record = state.steps[step_id]
    match record.state:
        case StepState.IN_DOUBT:
            return "in doubt: it started, and its end was not recorded"
        case StepState.ESCALATED:
            return "waits for a person's decision"
        case StepState.WAITING if record.gathers:
            group = state.groups[step_id]
            settled = sum(state.steps[name].state in SETTLED for name in group.members)
            return f"waits for its {_GROUP_WORDS[group.kind]}: {settled} of {len(group.members)} have ended"
        case StepState.WAITING:
            return f"waits for {record.waits_for}"
        case StepState.PENDING:
            if unmet := state.unmet_needs(step_id):
                return "needs " + ", ".join(f"{need} ({state.steps[need].state.value})" for need in unmet)
            if state.paused_by is not None:
                return f"the run is paused by {state.paused_by.name}"
            if state.aborted_by is not None:
                return f"the run is being aborted by {state.aborted_by}"
            if isinstance(found := may_begin(state, step_id, now), Held):
                return f"waits for {found.why}"
            if record.not_before is not None and record.not_before > now:
                return f"next attempt in {(record.not_before - now + 999) // 1000} s"
            return "waits for its turn"
        case _:
            return None


_GROUP_WORDS = {GroupKind.ITEMS: "items", GroupKind.NESTED: "steps", GroupKind.FALLBACK: "fallback steps"}


# --- From what the loop saw to the event that says so ----------------------------------------------------------------


def ended(state: RunState, step_id: StepId, outcome: Outcome, now: Instant, *, stopped: bool) -> AttemptEnded:
    """The event for an attempt that ended with this outcome; `stopped` when we ended it because the run aborts."""
    if state.steps[step_id].tampered and not stopped:
        before = f"{outcome.detail}; " if outcome.detail else ""
        error = outcome.error if outcome.error == AGENT_CANNOT else "F_CONTRACT_TAMPERED"
        outcome = replace(outcome, error=error, detail=before + tampered_words(state.steps[step_id].tampered))
    group = state.groups.get(step_id) if state.steps[step_id].gathers else None
    if stopped:
        after = Consequence(to=StepState.CANCELLED)
    elif outcome.error is not None and group is not None and group.kind is GroupKind.ITEMS:
        after = Consequence(to=StepState.FAILED)  # each item had the failure policy for itself
    elif outcome.error == AGENT_CANNOT and state.aborting(step_id) is None:
        after = Consequence(to=StepState.ESCALATED)  # to try again would help nobody, whatever the policy is
    elif outcome.error is not None:
        after = consequence(state, step_id, now)
    elif check_of(state.step(step_id)) is not None:
        after = Consequence(to=StepState.VERIFYING)
    else:
        # Its own observed result is the evidence: the harness saw the exit status, or called the tool itself.
        after = Consequence(to=StepState.PASSED)
    return AttemptEnded(step=step_id, attempt=state.steps[step_id].attempts, outcome=outcome, **asdict(after))


def fallback_ended(state: RunState, step_id: StepId, now: Instant) -> FallbackEnded:
    """The event for a step whose fallback steps have ended: its contract is tried again. Where that could show nothing,
    or one of them failed, the policy of the plan goes on."""
    failed = [name for name in state.groups[step_id].members if not state.steps[name].satisfies]
    unproved = wants_proof(state, step_id)
    reason = f"its fallback steps were run, and {', '.join(failed)} did not pass" if failed else "its fallback was run"
    if unproved and not failed:
        reason += ", and its contract was never seen broken"
    after = Consequence(to=StepState.VERIFYING)
    if state.aborting(step_id) is not None:
        after = Consequence(to=StepState.CANCELLED)
    elif failed or unproved or check_of(state.step(step_id)) is None:
        after = after_fallback(state, step_id)
    rest = asdict(after)
    del rest["fallback"]  # once is enough
    return FallbackEnded(step=step_id, attempt=state.steps[step_id].attempts, reason=reason, **rest)


def rechecked(
    step_id: StepId, outcome: Outcome | None, evidence: Evidence | None, run_id: RunId | None = None, word: str = ""
) -> StepKept | StepNotKept:
    """The event for a step that passed in the run before, with that outcome, and whose contract shows this now. A
    successor names the run that carried it out, and whose word it passed by where nothing was seen."""
    if evidence is None or evidence.verdict is Verdict.HELD:
        word = word if evidence is None else ""
        return StepKept(step=step_id, outcome=outcome, evidence=evidence, run_id=run_id, word=word)
    return StepNotKept(step=step_id, evidence=evidence)


def all_after(state: RunState, step_id: StepId) -> set[StepId]:
    """A step and all that need it, directly or through others."""
    found, front = {step_id}, [step_id]
    while front:
        new = [other for other in state.dependents_of(front.pop()) if other not in found]
        found.update(new)
        front += new
    return found


def keepable(former: RunState, again_from: StepId | None, *, person: bool) -> tuple[StepId, ...]:
    """The steps that a rerun need not run again if their contract holds: those that passed, but for `again_from` and
    all that depends on it. One without a contract is run again too, unless a person said from where on. Where files
    are protected everything is run again: only an attempt looks after them."""
    again = all_after(former, again_from) if again_from is not None else set[StepId]()
    found = []
    for step in former.plan.steps:
        record = former.steps[step.id]
        if record.state is not StepState.PASSED or step.id in again or former.protects(step.id):
            continue
        if about(step.action).held or nested_plan_of(step) is not None or step.for_each is not None:
            continue  # the run before gave its locks back; and what became steps of its own is done again as a whole
        # An expression asks about the attempt itself, which there is none of; nobody's word is evidence.
        observed = check_of(step) is None and record.decided_by is None and not isinstance(step.action, Task)
        observed = observed and not record.checked
        if contract_of(step) is not None or (observed and again_from is not None and person):
            found.append(step.id)
    return tuple(found)


def judged(
    state: RunState, step_id: StepId, evidence: Evidence, now: Instant
) -> ContractHeld | ContractBroken | ContractInconclusive:
    """The event for a contract that was run after its step."""
    attempt = state.steps[step_id].attempts
    evidence = _untouched(state, step_id, evidence)
    if evidence.verdict is Verdict.HELD:
        return ContractHeld(step=step_id, attempt=attempt, evidence=evidence)
    after = consequence(state, step_id, now)
    if state.steps[step_id].checking and state.aborting(step_id) is None:
        after = Consequence(to=StepState.ESCALATED)  # to look once more is no reason to try again
    kind = ContractBroken if evidence.verdict is Verdict.BROKEN else ContractInconclusive
    return kind(step=step_id, attempt=attempt, evidence=evidence, **asdict(after))


def not_held(state: RunState, step_id: StepId, error: str, detail: str, now: Instant) -> PreconditionBroken:
    after = consequence(state, step_id, now)
    attempt = state.steps[step_id].attempts
    return PreconditionBroken(step=step_id, attempt=attempt, error=error, detail=detail, **asdict(after))


FILES_NAMED_MAX = 20


def tampered_words(files: Sequence[str]) -> str:
    """What is said of protected files that were changed, which are put back before anything goes on."""
    named = ", ".join(files[:FILES_NAMED_MAX])
    more = f" and {len(files) - FILES_NAMED_MAX} more" if len(files) > FILES_NAMED_MAX else ""
    return f"protected files changed while it was at work, and were put back: {named}{more}"


def _untouched(state: RunState, step_id: StepId, evidence: Evidence) -> Evidence:
    """The evidence, which is none for a step that was at work while protected files changed: its contract is broken."""
    files = state.steps[step_id].tampered
    if not files:
        return evidence
    return replace(evidence, verdict=Verdict.BROKEN, error="F_CONTRACT_TAMPERED", detail=tampered_words(files))


# --- Before an effect ------------------------------------------------------------------------------------------------


def wants_proof(state: RunState, step_id: StepId) -> bool:
    """Whether the contract must be seen broken before the effect; once is enough, whatever an earlier attempt did."""
    return state.step(step_id).proof is not None and not state.steps[step_id].seen_broken


def not_begun(seen: Evidence, duration_ms: int) -> Outcome | None:
    """The outcome of an attempt that wanted proof and did not get it; None where the contract is broken."""
    match seen.verdict:
        case Verdict.BROKEN:
            return None
        case Verdict.HELD:
            detail = "its contract held before it did anything, so it could prove nothing"
            return Outcome(duration_ms=duration_ms, error="F_CONTRACT_GREEN_BEFORE", detail=detail)
        case Verdict.INCONCLUSIVE:
            detail = f"its contract could not be judged before the step: {seen.detail}"
            return Outcome(duration_ms=duration_ms, error="F_CONTRACT_INCONCLUSIVE", detail=detail)


# --- Doubt -----------------------------------------------------------------------------------------------------------


def effect_class(step: Step, tools: Mapping[str, ToolDefinition]) -> EffectClass:
    """What a step's action counts as after a crash: the tool's class, sharpened by what the plan claims or forbids."""
    tool = definition_of(step.action, tools)
    effect = tool.effect if tool is not None else EffectClass.OPAQUE
    if effect is EffectClass.READS or about(step.action).recorded:
        return effect
    if step.idempotent is not None:
        return EffectClass.REPEATABLE if step.idempotent else EffectClass.OPAQUE
    return effect


def looks_first(step: Step, tools: Mapping[str, ToolDefinition]) -> bool:
    """Whether the contract is run once before the effect, so that it can settle doubt later."""
    return contract_of(step) is not None and effect_class(step, tools) is EffectClass.CHECKABLE


def doubt(state: RunState, step_id: StepId, tools: Mapping[str, ToolDefinition]) -> DoubtFound:
    """What the table of doubt says of a step that was begun and has no recorded end."""
    step, record = state.step(step_id), state.steps[step_id]
    tool = definition_of(step.action, tools)
    seen = record.seen_before
    match effect_class(step, tools):
        case _ if not _reached(state, step_id):
            settle, reason = Settlement.AGAIN, "it had not got as far as its effect, so it is run again"
        case EffectClass.READS:
            settle, reason = Settlement.AGAIN, "it only reads, so it is run again"
        case EffectClass.REPEATABLE:
            settle, reason = Settlement.AGAIN, "running it twice has the effect of once, so it is run again"
        case EffectClass.CHECKABLE if looks_first(step, tools) and seen is None:
            settle, reason = Settlement.AGAIN, "it had not got as far as its effect, so it is run again"
        case EffectClass.CHECKABLE if tool and tool.atomic and seen and seen.verdict is Verdict.BROKEN:
            settle, reason = Settlement.CONTRACT, "its contract was broken before and can tell"
        case EffectClass.CHECKABLE:
            settle, reason = Settlement.PERSON, "no contract can tell whether it happened"
        case EffectClass.OPAQUE:
            settle, reason = Settlement.PERSON, "Ordain cannot determine whether this took effect"
        case effect:
            assert_never(effect)
    if settle is Settlement.PERSON and happened_check(step, tools) is not None:
        settle, reason = Settlement.CHECK, "its check is asked whether it happened"
    return DoubtFound(step=step_id, attempt=record.attempts, settle=settle, reason=reason)


def _reached(state: RunState, step_id: StepId) -> bool:
    """Whether the effect may have begun, as far as what is recorded before every effect can tell."""
    record = state.steps[step_id]
    if isinstance(state.step(step_id).action, Task) and record.lease is None:
        return False  # nobody had taken it
    return not wants_proof(state, step_id) and (record.protected_now or not state.protects(step_id))


def settled(
    state: RunState,
    step_id: StepId,
    evidence: Evidence,
    operand: str | None,
    tools: Mapping[str, ToolDefinition] = {},
) -> DoubtSettled | DoubtReferred:
    """The event for a contract that was run to settle a doubt, with what the tool changes as it is now.

    Only a sound contract gets here (see `doubt`), or one that a person has run again. A broken one proves nothing by
    itself: what tells is whether the thing the tool changes is still as it was.
    """
    record = state.steps[step_id]
    evidence = _untouched(state, step_id, evidence)
    operand = None if record.checking else operand  # they asked what the contract says, and not to run the step again
    settled_to = partial(DoubtSettled, step=step_id, attempt=record.attempts, evidence=evidence)
    if operand is not None and operand == record.operand_before:
        reason = "what it changes is as it was before, so it did not happen; it is run again"
        return settled_to(to=StepState.PENDING, reason=reason)
    if evidence.verdict is Verdict.HELD:
        reason = "recovered by contract: it was broken before the step and holds now"
        if record.checking:
            reason = f"{record.decided_by} had its contract run again, and it holds"
        return settled_to(to=StepState.PASSED, reason=reason)
    reason = f"its contract is {evidence.verdict.value}, which does not tell whether it happened"
    may_ask = not record.checking and happened_check(state.step(step_id), tools) is not None
    asked = Settlement.CHECK if may_ask else Settlement.PERSON
    return DoubtReferred(step=step_id, attempt=record.attempts, reason=reason, evidence=evidence, settle=asked)


def answered(
    state: RunState, step_id: StepId, evidence: Evidence, tools: Mapping[str, ToolDefinition], *, read_only: bool
) -> DoubtChecked:
    """The event for a check that was asked about a step in doubt. `read_only`: a sandbox kept it from changing the
    workspace. "It did not" runs the step again only where the tool's registration says that this is final."""
    check = happened_check(state.step(step_id), tools)
    assert check is not None
    verdict = evidence.verdict
    to = after_check(state, step_id, verdict, final=check.final, read_only=read_only)
    whose = f"the check of `{check.tool}`" if check.tool else "its check"
    said = f"{whose} says {_ANSWERS[verdict]}" if verdict is not Verdict.INCONCLUSIVE else f"{whose} does not know"
    if verdict is Verdict.INCONCLUSIVE and evidence.detail:
        said += f" ({evidence.detail})"
    if to is StepState.PENDING:
        said += ", and that is final; it is run again"
    elif not read_only:
        said += "; at trust tier 0 that settles nothing"
    elif to is StepState.IN_DOUBT and verdict is Verdict.BROKEN:
        said += ", which may mean not yet"
    return DoubtChecked(
        step=step_id,
        attempt=state.steps[step_id].attempts,
        evidence=evidence,
        to=to,
        reason=said,
        tool=check.tool,
        final=check.final,
        read_only=read_only,
    )


_ANSWERS = {Verdict.HELD: "that it happened", Verdict.BROKEN: "that it did not happen"}
