"""Performs `run`: bash gets the command."""

from __future__ import annotations

from ordain.core.plan.actions.command import RunCommand
from ordain.core.run.step_event import Outcome
from ordain.engine.perform.effects import Attempt, Performing


async def perform(run: Performing, action: RunCommand, attempt: Attempt) -> Outcome:
    return await run.shell(attempt, action.command, variables=action.env)
