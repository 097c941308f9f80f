"""What a successor can keep of the run that it goes on with, decided from the two plans and that run alone.

A passed step is kept when what it does, how it is checked and all it needs are unchanged and its contract holds again.
So is one that failed only its check, where its contract, perhaps a corrected one, holds now. Everything else runs.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from ordain.core.plan.canonical import canonical_bytes
from ordain.core.plan.graph import Order, needs_of
from ordain.core.plan.model import Plan, Step, contract_of, nested_plan_of
from ordain.core.plan.role import about
from ordain.core.plan.value import RunId, StepId
from ordain.core.run.event import RunCancelled, RunOpened
from ordain.core.run.result import referred_to
from ordain.core.run.run_state import IllegalTransition, RunState, StepRecord
from ordain.core.run.step_event import Carried, Evidence, GroupKind, Outcome, ProtectedFile, StepState, StepUnfolded


class FormerStep(msgspec.Struct, frozen=True, kw_only=True):
    """What was seen of a step in the run before."""

    outcome: Outcome | None
    evidence: Evidence | None
    run_id: RunId
    """The run that carried it out."""
    word: str
    """By whose word alone it passed, where nothing was seen."""
    protected: Mapping[str, ProtectedFile]
    """What had to stay as it was then."""


class Inheritance(msgspec.Struct, frozen=True, kw_only=True):
    """What a successor takes over."""

    kept: tuple[StepId, ...] = ()
    """Steps that are looked at when their turn comes, and run only where their contract does not hold; in the order of
    the plan, items and steps of nested plans by their whole names."""
    unfolds_again: Mapping[StepId, str] = {}
    """Steps that some of these belong to, with the seal of the items that they had."""
    spent: Mapping[StepId, Carried] = {}


def inherited(former: RunState, plan: Plan, again_from: StepId | None = None) -> Inheritance:
    """What a run of this plan can take over from that run; nothing of `again_from` and what needs it."""
    heir = _Heir(former, again_from)
    heir.plan(former.plan, plan)
    spent = {owner: account.carried() for owner, account in former.accounts.items()}
    return Inheritance(
        kept=tuple(heir.kept),
        unfolds_again=heir.unfolds_again,
        spent={owner: carried for owner, carried in spent.items() if carried != Carried()},
    )


class _Heir:
    """Compares two plans step by step, down into loops and nested plans, with how the run of the old one stands."""

    def __init__(self, former: RunState, again_from: StepId | None) -> None:
        self._former, self._again_from = former, again_from
        self.kept: list[StepId] = []
        self.unfolds_again: dict[StepId, str] = {}

    def plan(self, old: Plan, new: Plan, prefix: str = "") -> bool:
        """Look at the steps of a plan; whether all of them will be as they were."""
        needs, before, found = needs_of(new), {step.id: step for step in old.steps}, dict[StepId, list[StepId]]()
        steps, whole = {step.id: step for step in new.steps}, set[StepId]()
        for name in map(StepId, Order({str(one): wanted for one, wanted in needs.items()}).sequence):
            was = before.get(name)
            if was is None or (not prefix and name == self._again_from) or not whole.issuperset(needs[name]):
                continue
            mark = len(self.kept)
            if self._step(StepId(f"{prefix}{name}"), was, steps[name], new):
                whole.add(name)
            found[name] = self.kept[mark:]
            del self.kept[mark:]
        self.kept += [one for step in new.steps for one in found.get(step.id, ())]
        return len(whole) == len(steps)

    def _step(self, name: StepId, was: Step, step: Step, plan: Plan) -> bool:
        """Look at one step, which may be repeated; whether it will be as it was."""
        if step.for_each is None or was.for_each is None:
            return was.for_each is step.for_each and self._one(name, was, step, plan)
        record, group = self._former.steps[name], self._former.groups.get(name)
        if _is_left_out(record, was, step):
            return True
        same_items = canonical_bytes(was.for_each) == canonical_bytes(step.for_each)
        if group is None or group.kind is not GroupKind.ITEMS or not same_items:
            return False
        mark = len(self.kept)
        whole = [self._one(item, was, step, plan) for item in group.members]
        if len(self.kept) > mark:
            self.unfolds_again[name] = group.items_seal
        return record.state is StepState.PASSED and all(whole) and bool(whole)

    def _one(self, name: StepId, was: Step, step: Step, plan: Plan) -> bool:
        record = self._former.steps.get(name)
        if record is None:
            return False
        if _is_left_out(record, was, step):
            return True
        old, new = nested_plan_of(was), nested_plan_of(step)
        if old is not None and new is not None:
            mark, same_check = len(self.kept), canonical_bytes(was.verification) == canonical_bytes(step.verification)
            whole = self.plan(old, new, f"{name}/") and same_check
            if len(self.kept) > mark:
                self.unfolds_again[name] = ""
            return whole and record.state is StepState.PASSED
        if old is not None or new is not None or canonical_bytes(was.action) != canonical_bytes(step.action):
            return False
        if about(step.action).held:
            return True  # the run before gave it back; it is taken again, and is the same
        if record.fell_back and not referred_to(plan).isdisjoint(one.id for one in plan.fallbacks):
            return False  # what its fallback gave is asked for, and nothing of that is kept
        if record.state is StepState.PASSED and _check(was) == _check(step):
            self.kept.append(name)
            return True
        if is_done(record, step):
            self.kept.append(name)
        return False


def is_done(record: StepRecord, step: Step) -> bool:
    """Whether a step was seen to do its work, so that only its check stands between it and having passed."""
    if record.outcome is None or record.outcome.error is not None or record.tampered or step.proof is not None:
        return False
    return contract_of(step) is not None and record.state not in (StepState.RUNNING, StepState.IN_DOUBT)


def _is_left_out(record: StepRecord, was: Step, step: Step) -> bool:
    """Whether a step was left out by its condition, which will be asked again and say the same."""
    return record.condition_false and record.state is StepState.SKIPPED and was.when == step.when


def _check(step: Step) -> bytes:
    strategy = step.verification.strategy if step.verification is not None else None
    return canonical_bytes((strategy, step.proof))


# --- The run that goes on with another one, as a rerun or a successor ------------------------------------------------


def take_over(state: RunState, event: RunOpened) -> None:
    """Begin with what the run before has left."""
    state.continues, state.unfolds_again, state.carried = event.continues, event.unfolds_again, event.spent
    # Items and steps of nested plans are not there yet.
    state.may_keep = {step_id for step_id in event.may_keep if event.continues is not None or step_id in state.steps}
    for owner in event.spent.keys() & state.accounts.keys():
        state.accounts[owner].carry(event.spent[owner])


def unfolded(state: RunState, event: StepUnfolded) -> None:
    """A step has become steps of its own. Unless they are what they were before, it is run again as a whole."""
    parent = event.step
    if state.may_keep and state.unfolds_again.get(parent) != event.items_seal:
        _keep_nothing_in(state, parent)
        run_again(state, parent)


def run_again(state: RunState, step_id: StepId) -> None:
    """Keep nothing of the run before that comes after a step which is run again, however far, for it may come out
    otherwise; but a lock is the same lock again. What it is part of may come out otherwise too."""
    front = [step_id]
    while front:
        name = front.pop()
        if name in state.again or about(state.defined[name].action).held:
            continue
        state.again.add(name)
        state.may_keep.discard(name)
        front += state.dependents_of(name)
        if not state.unfolds_again:
            continue
        if name != step_id and name in state.unfolds_again:
            _keep_nothing_in(state, name)
        member = state.members.get(name)
        while member is not None and member.parent not in state.again:
            state.again.add(member.parent)
            front += state.dependents_of(member.parent)
            member = state.members.get(member.parent)


def _keep_nothing_in(state: RunState, parent: StepId) -> None:
    inside = (f"{parent}[", f"{parent}/")
    state.may_keep = {name for name in state.may_keep if not name.startswith(inside)}


def is_at_rest(state: RunState) -> bool:
    """Whether nothing of a run is under way or in doubt: only then can another run go on in its place."""
    return not (state.active or state.doubtful)


def refuse_replacing(state: RunState, event: RunCancelled) -> None:
    """Raise IllegalTransition where a run is said to be replaced that cannot be, or by nothing."""
    if (event.status == "replaced") is not (event.replaced_by is not None):
        raise IllegalTransition(f"the run is {event.status}, and what replaces it is {event.replaced_by}")
    if event.status == "replaced" and not is_at_rest(state):
        raise IllegalTransition("a run is replaced when nothing of it is under way or in doubt")
