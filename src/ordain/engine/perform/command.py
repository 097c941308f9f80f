"""Performs `run`: bash gets the command."""

from __future__ import annotations

from ordain.core.plan.action import RunCommand
from ordain.core.run.step_event import Outcome
from ordain.engine.context import RunContext
from ordain.engine.perform.effects import Attempt, run_command


async def perform(run: RunContext, action: RunCommand, attempt: Attempt) -> Outcome:
    return await run_command(run, attempt, action.command, variables=action.env)
