"""What a scripted model does, in terms of no provider: it says something or calls a tool, and reads what the tool gave.

A script is a generator. It yields `Call`s, is sent the `Result` of each, and returns the text it ends its turn with:

    def look(talk):
        found = yield Call("plan_list", {})
        return f"There is {found.text}."

It is begun anew for every request and given the results that the client's conversation holds. So what the model does
next follows from the conversation alone: nothing is remembered between requests, as a real model's server does not.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Generator, Mapping
from typing import Any


class Astray(Exception):
    """A conversation the scripts do not know how to go on with: the client does something that nobody expected."""


@dataclasses.dataclass(frozen=True)
class Said:
    """Text of the user, or what the client adds in the user's name."""

    text: str


@dataclasses.dataclass(frozen=True)
class Call:
    """The model calls a tool, by the name its server gives it."""

    tool: str
    arguments: Mapping[str, Any]
    anyway: bool = False
    """By this very name, whether or not it is offered."""


@dataclasses.dataclass(frozen=True)
class Result:
    """What the client told its model about a call. The tool has the name that the client gives it."""

    tool: str
    text: str


@dataclasses.dataclass(frozen=True)
class Say:
    """The model says something and ends its turn."""

    text: str


Move = Call | Say


@dataclasses.dataclass(frozen=True)
class Conversation:
    """One request of a client: the names of the tools it offers, and everything so far, oldest first."""

    tools: tuple[str, ...]
    entries: tuple[Said | Result, ...]

    def earlier(self, tool: str) -> Result:
        """The last result of a tool, in this turn or one before."""
        for entry in reversed(self.entries):
            if isinstance(entry, Result) and _is(entry.tool, tool):
                return entry
        raise Astray(f"no result of {tool} in the conversation")

    def told(self, text: str) -> bool:
        """Whether the user, or the client in the user's name, says this."""
        return any(isinstance(entry, Said) and text in entry.text for entry in self.entries)

    def offered(self, tool: str) -> str:
        """The name under which the client offers a tool."""
        found = [name for name in self.tools if _is(name, tool)]
        if len(found) != 1:
            raise Astray(f"{tool} should be offered once; offered are: {', '.join(self.tools)}")
        return found[0]


Script = Callable[[Conversation], Generator[Call, Result, str]]

# Clients ask for small things beside the conversation, such as a title for it, and offer no tools then.
ASIDE = Say("A plan")


def next_move(scripts: Mapping[str, Script], talk: Conversation) -> Move:
    """What the model does now: each script has a task, and the task that the user gave last decides."""
    if not talk.tools:
        return ASIDE
    task, begin = _last_task(scripts, talk)
    results = [entry for entry in talk.entries[begin:] if isinstance(entry, Result)]
    playing = scripts[task](talk)
    try:
        call = next(playing)
        for result in results:
            if not _is(result.tool, call.tool):
                raise Astray(f"a result of {result.tool} after a call of {call.tool}")
            call = playing.send(result)
    except StopIteration as end:
        return Say(end.value)
    return call if call.anyway else Call(talk.offered(call.tool), call.arguments)


def _last_task(scripts: Mapping[str, Script], talk: Conversation) -> tuple[str, int]:
    for index in range(len(talk.entries) - 1, -1, -1):
        entry = talk.entries[index]
        for task in scripts:
            if isinstance(entry, Said) and task in entry.text:
                return task, index + 1
    raise Astray("none of the tasks is in the conversation")


def _is(offered: str, tool: str) -> bool:
    """Clients put the name of the server before the tool's, each in its own way."""
    return offered == tool or offered.endswith(("_" + tool, "." + tool))


ASKED_MAX = 50
"""How often an agent asks for a run that is still being started: on a busy machine it takes its time."""


def carry_out(plan: str) -> Generator[Call, Result, tuple[Result, Result]]:
    """Start an approved plan, and ask until it has ended, as the answers advise; what the first and the last said."""
    started = yield Call("plan_commit", {"plan": plan, "wait_s": 20})
    status = yield Call("plan_status", {"what": plan, "wait_s": 5})
    for _ in range(ASKED_MAX if "being started" in started.text else 0):
        if "completed" in status.text or "failed" in status.text:
            break
        status = yield Call("plan_status", {"what": plan, "wait_s": 5})
    return started, status
