"""Performs `store_data`: its value is the result of the step, which is how it is stored."""

from __future__ import annotations

from ordain.core.plan.actions.data import StoreData
from ordain.core.plan.refs import literal
from ordain.core.run.step_event import Outcome
from ordain.engine.perform.effects import Attempt, Performing


async def perform(run: Performing, action: StoreData, attempt: Attempt) -> Outcome:
    return run.value(attempt.step_id, literal(action.value))
