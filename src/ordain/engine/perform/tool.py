"""Performs `tool`: a command, a tool that is built in, or one of somebody else."""

from __future__ import annotations

from ordain.core.plan.actions.tool import CallTool
from ordain.core.plan.command import command_of, program_of, typed
from ordain.core.plan.refs import literal
from ordain.core.plan.tool import ToolDefinition, definition_of
from ordain.core.run.step_event import Outcome
from ordain.core.text.secret import SecretMissing, with_secrets
from ordain.engine.perform.effects import Attempt, Performing


async def perform(run: Performing, action: CallTool, attempt: Attempt) -> Outcome:
    command, program = command_of(action), program_of(action)
    if command is not None:
        return await run.shell(attempt, command.command, variables=command.env)
    if program is not None:
        argv = tuple(literal(list(program.argv)))
        return await run.shell(attempt, typed(argv), argv=argv, variables=program.env)
    tool = definition_of(action, run.tools)
    if tool is not None and tool.schema is not None:
        return await _call_of_others(run, action, attempt, tool)
    control, key = run.state.limits_in_force.sandbox.control, run.key(attempt.step.id)
    call = run.toolbox.call(action.tool, literal(action.args), key, control=control)
    return await run.call(attempt.step, call, attempt.timeout_ms)


async def _call_of_others(run: Performing, action: CallTool, attempt: Attempt, tool: ToolDefinition) -> Outcome:
    written = run.state.step(attempt.step_id).action
    assert isinstance(written, CallTool)
    if run.sources is None:
        return run.not_begun("there is no such tool here")
    try:
        args = with_secrets(written.args, literal(action.args), run.secret)
    except SecretMissing as missing:
        return run.not_begun(str(missing))
    call = run.sources.call(tool, args, run.key(attempt.step.id), run.secret)
    return await run.call(attempt.step, call, attempt.timeout_ms)
