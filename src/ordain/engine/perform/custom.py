"""Performs `custom`: its handler, a command or a Python callable, gets the payload."""

from __future__ import annotations

import json

from ordain.core.plan.actions.custom import Custom
from ordain.core.plan.command import typed
from ordain.core.plan.refs import literal
from ordain.core.plan.tool import definition_of
from ordain.core.run.step_event import Outcome
from ordain.engine.perform.effects import Attempt, Performing


async def perform(run: Performing, action: Custom, attempt: Attempt) -> Outcome:
    handler, payload = definition_of(action, run.tools), literal(action.payload)
    if handler is not None and handler.command:
        stdin = json.dumps(payload, ensure_ascii=False).encode("utf-8", "replace")
        return await run.shell(attempt, typed(handler.command), argv=handler.command, stdin=stdin, handler=True)
    if handler is None or run.handlers is None:
        return run.not_begun("there is no handler for it here")
    call = run.handlers.call(handler, payload, run.key(attempt.step.id))
    return await run.call(attempt.step, call, attempt.timeout_ms)
