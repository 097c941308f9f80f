"""A dialogue with a model that has tools: its turns, our answers, and limits that hold whatever it says. Calls of one
turn are performed in their order. A turn that was cut off is never acted on: half an argument can still be
well-formed."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from enum import StrEnum

import msgspec
from msgspec.structs import replace

from ordain.core.text.problem import closest
from ordain.core.text.schema import Matches, misfits
from ordain.ports import model

CALLS_MAX = 50
NUDGES_MAX = 2
"""How often a model is told that its turn was cut off before the dialogue ends."""


class DialogueLimits(msgspec.Struct, frozen=True, kw_only=True):
    """What one dialogue may use."""

    calls: int = CALLS_MAX
    answer_bytes: int = 8 << 20
    """Of what tools answer, in all."""
    tokens: int | None = None
    """Input and output in all; None where nothing limits them. No request begins once they are used up."""
    output_tokens: int = 16_000


class DialogueEnd(StrEnum):
    """Why a dialogue ended."""

    SAID = "said"
    HANDED_IN = "handed_in"
    """A call of a tool ended it."""
    CALLS = "calls"
    BYTES = "bytes"
    TOKENS = "tokens"
    TRUNCATED = "truncated"
    REFUSED = "refused"


class Performed(msgspec.Struct, frozen=True, kw_only=True):
    """What a call of a tool gave."""

    text: str
    is_error: bool = False
    ends: bool = False


Perform = Callable[[model.ToolUse], Awaitable[Performed]]


class Dialogue(msgspec.Struct, frozen=True, kw_only=True):
    """A dialogue that came to its end."""

    end: DialogueEnd
    text: str
    messages: tuple[model.Message, ...]
    """All of it, as it can be continued or kept."""
    usage: model.ModelUsage
    calls: int
    requests: int


async def converse(
    client: model.ModelClient,
    *,
    system: str,
    messages: Sequence[model.Message],
    tools: Sequence[model.ToolSpec],
    perform: Perform,
    limits: DialogueLimits,
    tell: model.Tell,
    used: Callable[[model.ModelUsage], None] = lambda usage: None,
    heard: Callable[[model.Message], None] = lambda message: None,
) -> Dialogue:
    """Talk with a model until it ends or a limit does. `used` and `heard` are told all, also where no answer comes."""
    said: list[model.Message] = list(messages)
    usage, calls, requests, answered, nudges = model.ModelUsage(), 0, 0, 0, 0

    def add(message: model.Message) -> None:
        said.append(message)
        heard(message)

    def ended(end: DialogueEnd, text: str) -> Dialogue:
        return Dialogue(end=end, text=text, messages=tuple(said), usage=usage, calls=calls, requests=requests)

    last = ""
    while True:
        if limits.tokens is not None and usage.tokens >= limits.tokens:
            return ended(DialogueEnd.TOKENS, last)
        most = limits.output_tokens
        if limits.tokens is not None:
            most = max(1, min(most, limits.tokens - usage.tokens))
        request = model.ModelRequest(system=system, messages=tuple(said), tools=tools, output_tokens_max=most)
        turn = await client.respond(request, tell)
        requests, usage, last = requests + 1, usage.plus(turn.usage), turn.text
        used(turn.usage)
        add(turn)
        if turn.stop is model.StopReason.REFUSED:
            return ended(DialogueEnd.REFUSED, last)
        if turn.stop is model.StopReason.TRUNCATED:
            nudges += 1
            if nudges > NUDGES_MAX:
                return ended(DialogueEnd.TRUNCATED, last)
            add(_cut_off(turn, most))
            continue
        if not turn.uses:
            return ended(DialogueEnd.SAID, last)
        answers: list[model.ToolAnswer] = []
        stop: DialogueEnd | None = None
        for use in turn.uses:
            if stop is None and calls >= limits.calls:
                stop = DialogueEnd.CALLS
            if stop is not None:
                answers.append(
                    model.ToolAnswer(use_id=use.id, text="Not performed: the dialogue has ended.", is_error=True)
                )
                continue
            calls += 1
            unread = f"The arguments cannot be read: {use.fault}. Send one JSON object."
            given = Performed(text=unread, is_error=True) if use.fault else await perform(use)
            answered += len(given.text.encode("utf-8", "replace"))
            answers.append(model.ToolAnswer(use_id=use.id, text=given.text, is_error=given.is_error))
            if given.ends:
                stop = DialogueEnd.HANDED_IN
            elif answered > limits.answer_bytes:
                stop = DialogueEnd.BYTES
        left = limits.calls - calls
        warning = f"{left} calls of tools are left." if left in (10, 3, 1) else ""
        add(model.ToolAnswers(answers=tuple(answers), text=warning))
        if stop is not None:
            return ended(stop, last)


def _cut_off(turn: model.ModelTurn, most: int) -> model.Message:
    words = f"Your answer was cut off after {most:,} tokens, and none of it was acted on. Answer again, shorter."
    if not turn.uses:
        return model.UserText(text=words)
    answers = (
        model.ToolAnswer(use_id=use.id, text="Not performed: it was cut off.", is_error=True) for use in turn.uses
    )
    return model.ToolAnswers(answers=tuple(answers), text=words)


def checked(tools: Sequence[model.ToolSpec], perform: Perform, matches: Matches) -> Perform:
    """`perform` for calls of these tools whose arguments fit; every other call is answered with what is wrong."""
    known = {tool.name: tool for tool in tools}

    async def answer(use: model.ToolUse) -> Performed:
        tool = known.get(use.name)
        if tool is None:
            near = " ".join(closest(use.name[:64], known))
            text = f"There is no tool `{use.name[:64]}`. {near} There are: {', '.join(known)}.".replace("  ", " ")
            return Performed(text=text, is_error=True)
        wrong = [*misfits(tool.schema, use.arguments, matches)][:10]
        if wrong:
            return Performed(text=f"The arguments of `{tool.name}` do not fit: {'; '.join(wrong)}.", is_error=True)
        return await perform(use)

    return answer


def without_raw(messages: Sequence[model.Message]) -> tuple[model.Message, ...]:
    """A dialogue as it is kept: what was said, without what only its provider can read."""
    return tuple(replace(one, raw=None) if isinstance(one, model.ModelTurn) else one for one in messages)
