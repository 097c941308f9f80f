"""Performs `tool`: a command, a tool that is built in, or one of somebody else."""

from __future__ import annotations

from ordain.core.plan.action import CallTool
from ordain.core.plan.command import command_of, program_of, typed
from ordain.core.plan.refs import literal
from ordain.core.plan.tool import ToolDefinition, definition_of
from ordain.core.run.step_event import Outcome
from ordain.core.text.secret import SecretMissing, with_secrets
from ordain.engine.context import RunContext
from ordain.engine.perform.effects import Attempt, call_tool, call_within, not_begun, run_command


async def perform(run: RunContext, action: CallTool, attempt: Attempt) -> Outcome:
    command, program = command_of(action), program_of(action)
    if command is not None:
        return await run_command(run, attempt, command.command, variables=command.env)
    if program is not None:
        argv = tuple(literal(list(program.argv)))
        return await run_command(run, attempt, typed(argv), argv=argv, variables=program.env)
    tool = definition_of(action, run.tools)
    if tool is not None and tool.schema is not None:
        return await _call_of_others(run, action, attempt, tool)
    return await call_tool(run, attempt, action.tool, literal(action.args))


async def _call_of_others(run: RunContext, action: CallTool, attempt: Attempt, tool: ToolDefinition) -> Outcome:
    written = run.state.step(attempt.step_id).action
    assert isinstance(written, CallTool)
    try:
        args = with_secrets(written.args, literal(action.args), run.secret)
    except SecretMissing as missing:
        return not_begun(run, str(missing))
    call = run.ports.sources.call(tool, args, run.results.key(attempt.step.id), run.secret)
    return await call_within(run, attempt.step, call, attempt.timeout_ms)
