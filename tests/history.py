"""Histories of runs, as tests tell them."""

from __future__ import annotations

from collections.abc import Iterable

from tests.words import Instant, Plan, RunEvent, RunState, apply


def replay(plan: Plan, history: Iterable[tuple[Instant, RunEvent]]) -> RunState:
    """The state that a run's whole history adds up to."""
    state = RunState(plan)
    for at, event in history:
        apply(state, event, at)
    return state
