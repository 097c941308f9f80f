"""The loop of a model with tools: what it is answered, and that every limit holds."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.twins.model import Move, ScriptedModel, calls, says
from tests.words import (
    Dialogue,
    DialogueEnd,
    DialogueLimits,
    ModelFailed,
    ModelUsage,
    Performed,
    StopReason,
    ToolAnswers,
    ToolSpec,
    ToolUse,
    UserText,
    checked,
    converse,
    without_raw,
)

ECHO = ToolSpec(
    name="echo",
    description="Gives back what it is given.",
    schema={"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]},
)


async def echo(use: ToolUse) -> Performed:
    return Performed(text=use.arguments["text"], ends=use.arguments["text"] == "end")


def talk(*moves: Move, perform: Any = echo, **limits: Any) -> tuple[Dialogue, ScriptedModel]:
    model = ScriptedModel(moves)
    dialogue = converse(
        model,
        system="Be brief.",
        messages=[UserText(text="Do it.")],
        tools=[ECHO],
        perform=checked([ECHO], perform, lambda pattern, text: True),
        limits=DialogueLimits(**limits),
        tell=lambda news: None,
    )
    return asyncio.run(dialogue), model


def answers_in(dialogue: Dialogue) -> list[tuple[str, bool]]:
    return [
        (answer.text, answer.is_error)
        for message in dialogue.messages
        if isinstance(message, ToolAnswers)
        for answer in message.answers
    ]


def test_a_model_calls_tools_reads_the_answers_and_has_the_last_word():
    done, model = talk(calls(("echo", {"text": "a"}), ("echo", {"text": "b"})), says("Done."))
    assert (done.end, done.text, done.calls, done.requests) == (DialogueEnd.SAID, "Done.", 2, 2)
    assert answers_in(done) == [("a", False), ("b", False)]
    assert done.usage == ModelUsage(input=200, output=20)
    # What came from the provider goes back as it came.
    assert model.asked[1].messages[1] == done.messages[1]
    assert [one.raw for one in without_raw(done.messages) if hasattr(one, "raw")] == [None, None]


def test_what_does_not_fit_is_answered_with_what_would():
    done, _ = talk(
        calls(("ecko", {"text": "a"})),
        calls(("echo", {})),
        calls(("echo", {"text": 3})),
        says("Done."),
    )
    texts = [text for text, is_error in answers_in(done) if is_error]
    assert len(texts) == 3
    assert "There is no tool `ecko`." in texts[0] and "There are: echo." in texts[0]
    assert "`text`" in texts[1] and "`text`" in texts[2]


def test_arguments_that_cannot_be_read_are_never_performed():
    performed: list[ToolUse] = []

    async def note(use: ToolUse) -> Performed:
        performed.append(use)
        return Performed(text="")

    broken = ToolUse(id="1", name="echo", fault="it is no JSON")
    done, _ = talk(says("", uses=(broken,), stop=StopReason.TOOLS), says("Done."), perform=note)
    assert performed == []
    assert answers_in(done) == [("The arguments cannot be read: it is no JSON. Send one JSON object.", True)]


def test_a_turn_that_was_cut_off_is_never_acted_on():
    cut = calls(("echo", {"text": "half"}), stop=StopReason.TRUNCATED)
    done, model = talk(cut, says("Done."))
    assert done.end is DialogueEnd.SAID and done.calls == 0
    assert answers_in(done) == [("Not performed: it was cut off.", True)]
    done, model = talk(cut, cut, cut)
    assert (done.end, done.calls, len(model.asked)) == (DialogueEnd.TRUNCATED, 0, 3)


def test_endless_calls_end_at_the_limit_and_those_beyond_it_are_not_performed():
    done, model = talk(*[calls(("echo", {"text": "a"}), ("echo", {"text": "b"}))] * 9, calls=5)
    assert (done.end, done.calls, len(model.asked)) == (DialogueEnd.CALLS, 5, 3)
    assert answers_in(done)[-1] == ("Not performed: the dialogue has ended.", True)


def test_answers_and_tokens_are_bounded_in_all():
    done, _ = talk(*[calls(("echo", {"text": "x" * 600}))] * 9, answer_bytes=1000)
    assert (done.end, done.calls) == (DialogueEnd.BYTES, 2)
    done, model = talk(*[calls(("echo", {"text": "x"}))] * 9, tokens=250)
    assert (done.end, done.requests) == (DialogueEnd.TOKENS, 3)
    assert [one.output_tokens_max for one in model.asked] == [250, 140, 30]


def test_a_call_can_end_it_and_a_refusal_does():
    done, model = talk(calls(("echo", {"text": "end"}), ("echo", {"text": "more"})))
    assert (done.end, done.calls) == (DialogueEnd.HANDED_IN, 1)
    assert (answers_in(done)[1], len(model.asked)) == (("Not performed: the dialogue has ended.", True), 1)
    done, _ = talk(says("I cannot help with that.", stop=StopReason.REFUSED))
    assert (done.end, done.text) == (DialogueEnd.REFUSED, "I cannot help with that.")


def test_what_was_used_is_known_even_where_no_answer_comes():
    seen: list[ModelUsage] = []
    model = ScriptedModel([calls(("echo", {"text": "a"})), ModelFailed("F_MODEL", "503")])
    with pytest.raises(ModelFailed):
        asyncio.run(
            converse(
                model,
                system="",
                messages=[UserText(text="Do it.")],
                tools=[ECHO],
                perform=echo,
                limits=DialogueLimits(),
                tell=lambda news: None,
                used=seen.append,
            )
        )
    assert seen == [ModelUsage(input=100, output=10)]
