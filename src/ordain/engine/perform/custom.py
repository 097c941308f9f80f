"""Performs `custom`: its handler, a command or a Python callable, gets the payload."""

from __future__ import annotations

import json

from ordain.core.plan.action import Custom
from ordain.core.plan.command import typed
from ordain.core.plan.refs import literal
from ordain.core.plan.tool import definition_of
from ordain.core.run.step_event import Outcome
from ordain.engine.context import RunContext
from ordain.engine.perform.effects import Attempt, call_within, not_begun, run_command


async def perform(run: RunContext, action: Custom, attempt: Attempt) -> Outcome:
    handler, payload = definition_of(action, run.tools), literal(action.payload)
    if handler is not None and handler.command:
        stdin = json.dumps(payload, ensure_ascii=False).encode("utf-8", "replace")
        words = handler.command
        return await run_command(run, attempt, typed(words), argv=words, stdin=stdin, handler=True)
    if handler is None:
        return not_begun(run, "there is no handler for it here")
    call = run.ports.handlers.call(handler, payload, run.results.key(attempt.step.id))
    return await call_within(run, attempt.step, call, attempt.timeout_ms)
