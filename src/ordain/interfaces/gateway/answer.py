"""What the gateway answers by itself: whom a client speaks with (one server's own words, or what several have in
common), and why a call is not made. Pure."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ordain import __version__
from ordain.core.guard.call import Call, CallStanding, Met, proposal_of
from ordain.core.text.problem import Problem
from ordain.interfaces.gateway.link import ServerLink
from ordain.interfaces.gateway.wire import REFUSED, Id, Message, answer, error
from ordain.interfaces.mcp.texts import mcp_texts, next_call
from ordain.interfaces.robot import envelope as robot

_INFO = {"name": "ordain", "title": "Ordain gateway", "version": __version__}
_INFO_KEY = "io.modelcontextprotocol/serverInfo"
_PLAIN = {"tools": {"listChanged": False}, "prompts": {"listChanged": False}, "completions": {}}
_TASKS: Mapping[str, Any] = {"extensions": {"io.modelcontextprotocol/tasks": {}}}
OWN_CAPABILITIES: Mapping[bool, Mapping[str, Any]] = {
    False: {**_PLAIN, "resources": {"subscribe": True, "listChanged": False}},
    True: {**_PLAIN, "resources": {"subscribe": True, "listChanged": True}, **_TASKS},
}
"""What our own server can do, by whether the client speaks the modern era: known before it is started."""
_NOT_YET = "is not there yet; its tools are listed once it is"
Answers = Sequence[tuple[str, Mapping[str, Any]]]


def merged_greeting(answers: Answers, own: Mapping[str, Any], absent: Sequence[str] = ()) -> dict[str, Any]:
    """The answer to `initialize`, with what our own tools add; `absent` says which servers have no part in it."""
    capabilities = _capabilities(answers, own)
    if len(answers) == 1:
        return {**answers[0][1], "capabilities": capabilities, **_instructions(answers, absent)}
    versions = [version for _, one in answers if isinstance(version := one.get("protocolVersion"), str)]
    return {
        "protocolVersion": min(versions),
        "capabilities": capabilities,
        "serverInfo": _INFO,
        **_instructions(answers, absent),
    }


def merged_discovery(answers: Answers, own: Mapping[str, Any], absent: Sequence[str] = ()) -> dict[str, Any] | None:
    """The same for `server/discover`; None where no version is spoken by all."""
    versions = [version for version in _versions(answers[0][1]) if all(version in _versions(one) for _, one in answers)]
    if not versions:
        return None
    capabilities = _capabilities(answers, own)
    if len(answers) == 1:
        return {**answers[0][1], "capabilities": capabilities, **_instructions(answers, absent)}
    return {
        "resultType": "complete",
        "supportedVersions": versions,
        "capabilities": capabilities,
        "ttlMs": 0,
        "cacheScope": "private",
        "_meta": {_INFO_KEY: _INFO},
        **_instructions(answers, absent),
    }


def absent_words(links: Iterable[ServerLink]) -> list[str]:
    """What is told of the servers that have no part in the session."""
    why = {link.name: link.why_missing for link in links if link.missing}
    return [f"The server `{name}` {f'{one}; its tools are missing' if one else _NOT_YET}." for name, one in why.items()]


def alone(own: Mapping[str, Any], absent: Sequence[str]) -> dict[str, Any]:
    """What our own server says where no other is there, and why that is so."""
    return {**own, **({"instructions": "\n\n".join([mcp_texts()["instructions"], *absent])} if absent else {})}


def _versions(answered: Mapping[str, Any]) -> list[str]:
    found = answered.get("supportedVersions")
    return [one for one in found if isinstance(one, str)] if isinstance(found, list) else []


def _capabilities(answers: Answers, own: Mapping[str, Any]) -> dict[str, Any]:
    merged: dict[str, Any] = {}
    for _, one in (*answers, (None, {"capabilities": own})):
        said = one.get("capabilities")
        merged = merged_capabilities(merged, said if isinstance(said, dict) else {})
    return merged


def merged_capabilities(one: Mapping[str, Any], other: Mapping[str, Any]) -> dict[str, Any]:
    """What either can do."""
    merged = dict(one)
    for key, value in other.items():
        before = merged.get(key)
        if isinstance(before, dict) and isinstance(value, dict):
            merged[key] = merged_capabilities(before, value)
        elif before is None or before is False:
            merged[key] = value
    return merged


def _instructions(answers: Answers, absent: Sequence[str]) -> dict[str, str]:
    """What each server says, under its name where there are several, and what we do."""
    said = [(name, words) for name, one in answers if isinstance(words := one.get("instructions"), str) and words]
    theirs = [words if len(answers) == 1 else f"{name}: {words}" for name, words in said]
    ours = (mcp_texts()["instructions"], mcp_texts()["guarded"])
    return {"instructions": "\n\n".join([*theirs, *ours, *absent])}


# --- Refusals ---------------------------------------------------------------------------------------------------------
# Some hosts show their models only the text of a result, others only its structure where it has one, and some cut both
# short: so all of it stands in each, and is short. Where a tool says what shape its results have, there is only the
# text: some hosts compare even what was refused with that shape, and then show nothing of it.

BODY_BYTES_MAX = 4 << 10
"""How long the plan to propose may be that is repeated whole: it stands in the result twice."""
_TOOL = "plan_propose"


def refusal(request: Id, call: Call, met: Met, told: Any, *, modern: bool, tool: bool, shaped: bool) -> Message:
    """The answer to a refused request: a result with `isError` for a call of a tool, `shaped` or not, else an error."""
    assert met.problem is not None
    problem = met.problem
    wanted = tool and met.judged.standing is CallStanding.GUARDED and not met.proposed
    body = _body(call) if wanted else None
    asking = None if not wanted else _ONCE_MORE if met.same is not None else _ASKING
    value = {**told(_value(problem, body is not None, asking)), "data": {_TOOL: body} if body else None}
    if not tool:
        return error(request, REFUSED, f"{problem.code}: {problem.detail}", value)
    text = "\n".join(_lines(value, body, asking))
    return _failed(request, text, {} if shaped else {"structuredContent": value}, modern=modern)


def server_lost(request: Id, server: str, why: str, *, modern: bool, tool: bool) -> Message:
    """The answer to a request whose server is gone, or cannot be had."""
    words = f"The server `{server}` {why}."
    return _failed(request, words, {}, modern=modern) if tool else error(request, -32000, words)


def _failed(request: Id, text: str, structured: Mapping[str, Any], *, modern: bool) -> Message:
    result = {"content": [{"type": "text", "text": text}], **structured, "isError": True}
    return answer(request, {"resultType": "complete", **result} if modern else result)


def _body(call: Call) -> dict[str, Any] | None:
    """The arguments of `plan_propose`; None where they are too long, or nothing that a plan can hold."""
    body = proposal_of(call)
    try:
        return body if len(json.dumps(body, ensure_ascii=False, allow_nan=False).encode()) <= BODY_BYTES_MAX else None
    except ValueError:
        return None


_TOO_LONG = "with a plan whose step calls the same tool with the same arguments; they are too long to be repeated here."
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
    value: dict[str, Any] = json.loads(document)
    return value


def _lines(value: dict[str, Any], body: dict[str, Any] | None, asking: str | None) -> list[str]:
    wrong = value["error"]
    lines = [f"{wrong['code']}: {wrong['message']}", wrong["remediation"]]
    if body is not None:
        lines += [f"{asking} {_TOOL} with this, and a `contract` in its step that tells whether it was done:"]
        lines += [robot.to_text(value["data"][_TOOL])]
    else:
        lines += value["next"]
    return [line for line in lines if line]
