"""A run that goes on with another one, as a rerun or a successor: what is kept of that one, and what it has spent."""

from __future__ import annotations

from ordain.core.plan.role import about
from ordain.core.plan.value import StepId
from ordain.core.run.event import RunCancelled, RunOpened
from ordain.core.run.run_state import IllegalTransition, RunState
from ordain.core.run.step_event import StepUnfolded


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
