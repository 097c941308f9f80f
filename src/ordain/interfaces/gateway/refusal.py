"""What an agent reads whose call is not made: why, what helps, and the plan to propose, ready to be sent.

Some hosts show their models only the text of a result, others only its structure where it has one, and some cut both
short: so all of it stands in each, and is short. Where a tool says what shape its results have, there is only the text:
some hosts compare even what was refused with that shape, and then show nothing of it.
"""

from __future__ import annotations

import json
from typing import Any

from ordain.core.guard.call import Call, CallStanding, Met, proposal_of
from ordain.core.text.problem import Problem
from ordain.interfaces.gateway.wire import REFUSED, Id, Message, answer, error
from ordain.interfaces.mcp.texts import next_call
from ordain.interfaces.robot import envelope as robot

BODY_BYTES_MAX = 4 << 10
"""How long the plan to propose may be that is repeated whole: it stands in the result twice."""
_TOOL = "plan_propose"


def refusal(request: Id, call: Call, met: Met, told: Any, *, modern: bool, tool: bool, shaped: bool) -> Message:
    """The answer to a request that is refused: a result with `isError` for a call of a tool, else an error. `shaped`
    says that the tool's results have a shape of their own."""
    assert met.problem is not None
    problem = met.problem
    wanted = tool and met.judged.standing is CallStanding.GUARDED and not met.proposed
    body = _body(call) if wanted else None
    asking = None if not wanted else _ONCE_MORE if met.same is not None else _ASKING
    value = {**told(_value(problem, body is not None, asking)), "data": {_TOOL: body} if body else None}
    if not tool:
        return error(request, REFUSED, f"{problem.code}: {problem.detail}", value)
    text = "\n".join(_lines(value, body, asking))
    structured = {} if shaped else {"structuredContent": value}
    result = {"content": [{"type": "text", "text": text}], **structured, "isError": True}
    return answer(request, {**({"resultType": "complete"} if modern else {}), **result})


def server_lost(request: Id, server: str, why: str, *, modern: bool, tool: bool) -> Message:
    """The answer to a request whose server is gone, or cannot be had."""
    words = f"The server `{server}` {why}."
    if not tool:
        return error(request, -32000, words)
    result = {"content": [{"type": "text", "text": words}], "isError": True}
    return answer(request, {**({"resultType": "complete"} if modern else {}), **result})


def _body(call: Call) -> dict[str, Any] | None:
    """The arguments of `plan_propose`; None where they are too long, or nothing that a plan can hold."""
    body = proposal_of(call)
    try:
        size = len(json.dumps(body, ensure_ascii=False, allow_nan=False).encode())
    except ValueError:
        return None
    return body if size <= BODY_BYTES_MAX else None


_ASKING = "Call"
_ONCE_MORE = "Only if it is to be done once more, call"
"""How a plan is asked for: where the call was made before, nobody shall think that it was not."""


def _value(problem: Problem, has_body: bool, asking: str | None) -> dict[str, Any]:
    """The envelope of robot mode; the proposal becomes its data."""
    following: list[str] = []
    if asking is not None:
        how = f"with data.{_TOOL}, and a `contract` in its step." if has_body else _TOO_LONG
        following.append(f"{asking} {_TOOL} {how}")
    if problem.command is not None:
        following.insert(0 if asking == _ONCE_MORE else len(following), next_call(problem.command))
    document = robot.envelope(None, problems=(problem,), error=problem, next_=following, elapsed_ms=0)
    value = json.loads(document)
    assert isinstance(value, dict)
    return value


_TOO_LONG = "with a plan whose step calls the same tool with the same arguments; they are too long to be repeated here."


def _lines(value: dict[str, Any], body: dict[str, Any] | None, asking: str | None) -> list[str]:
    wrong = value["error"]
    lines = [f"{wrong['code']}: {wrong['message']}", wrong["remediation"]]
    if body is not None:
        lines += [f"{asking} {_TOOL} with this, and a `contract` in its step that tells whether it was done:"]
        lines += [robot.to_text(value["data"][_TOOL])]
    else:
        lines += value["next"]
    return [line for line in lines if line]
