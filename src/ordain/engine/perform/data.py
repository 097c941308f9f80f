"""Performs `store_data`: its value is the result of the step, which is how it is stored."""

from __future__ import annotations

from ordain.core.plan.action import StoreData
from ordain.core.plan.refs import literal
from ordain.core.run.step_event import Outcome
from ordain.engine.context import RunContext
from ordain.engine.perform.effects import Attempt, value_outcome


async def perform(run: RunContext, action: StoreData, attempt: Attempt) -> Outcome:
    return value_outcome(run, attempt.step_id, literal(action.value))
