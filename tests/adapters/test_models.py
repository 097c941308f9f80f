"""The client of models against a server that speaks the real protocols, byte for byte, with every fault."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Callable
from typing import Any, NamedTuple

import pytest

from tests.model_wire import EVENTS, Answer, Asked, WireServer, answering
from tests.patience import hang_guard
from tests.rows import each
from tests.words import (
    HttpModels,
    ModelBounds,
    ModelFailed,
    ModelRequest,
    ModelTurn,
    ModelUsage,
    RequestFailed,
    StopReason,
    TextCame,
    ToolAnswer,
    ToolAnswers,
    ToolSpec,
    ToolUse,
    UserText,
    model_access,
)

KEY = "sk-test-0123456789abcdef"
PROVIDERS = ("anthropic", "openai", "openai-chat")
READ = ToolSpec(name="read_file", description="Reads a file.", schema={"type": "object"})
REQUEST = ModelRequest(system="Be brief.", messages=[UserText(text="Hello.")], tools=[READ], output_tokens_max=99)


class Talk(NamedTuple):
    turn: ModelTurn | None
    failed: ModelFailed | None
    news: list[Any]
    slept: list[float]

    @property
    def text(self) -> str:
        return "".join(one.text for one in self.news if isinstance(one, TextCame))

    @property
    def failures(self) -> list[RequestFailed]:
        return [one for one in self.news if isinstance(one, RequestFailed)]


def ask(server: WireServer, provider: str, request: ModelRequest = REQUEST, bounds: Any = None, **access: Any) -> Talk:
    news: list[Any] = []
    slept: list[float] = []

    async def sleep(seconds: float) -> None:
        slept.append(seconds)

    async def asked() -> ModelTurn:
        reach = model_access(f"{provider}:a-model", base_url=server.url, key_env="A_KEY", **access)
        async with HttpModels(bounds, sleep).client(reach, KEY) as client:
            return await client.respond(request, news.append)

    try:
        return Talk(asyncio.run(asked()), None, news, slept)
    except ModelFailed as failed:
        return Talk(None, failed, news, slept)


def answer(provider: str, *given: Any, **more: Any) -> Answer:
    return Answer(EVENTS[provider](*given, **more))


# --- What is said ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("provider", [*PROVIDERS, "ollama"])
def test_a_text_streams_in_and_its_use_is_counted_alike(provider: str):
    with answering(answer(provider, "Hello, whoever you are.")) as server:
        said = ask(server, provider)
    assert said.turn is not None
    assert (said.turn.text, said.text) == ("Hello, whoever you are.",) * 2
    assert len(said.news) > 3
    assert said.turn.usage == ModelUsage(input=60, output=7, cached=30)
    assert (said.turn.stop, said.turn.uses, said.turn.model) == (StopReason.ENDED, (), "a-model")


@pytest.mark.parametrize("provider", PROVIDERS)
def test_calls_thoughts_and_answers_go_back_as_they_came(provider: str):
    calls = [("read_file", '{"path": "a.txt"}'), ("read_file", '{"path":"b.txt"}')]
    with answering(answer(provider, "I look.", calls, thinking="Where is it?"), answer(provider, "Done.")) as server:
        turn = ask(server, provider).turn
        assert turn is not None
        assert turn.stop is StopReason.TOOLS
        assert [dict(use.arguments) for use in turn.uses] == [{"path": "a.txt"}, {"path": "b.txt"}]
        answers = (
            ToolAnswer(use_id=turn.uses[0].id, text="aaa"),
            ToolAnswer(use_id=turn.uses[1].id, text="no such file", is_error=True),
        )
        messages = [*REQUEST.messages, turn, ToolAnswers(answers=answers, text="Go on.")]
        again = ask(server, provider, ModelRequest(system="", messages=messages))
        assert again.turn is not None and again.turn.text == "Done."
    first, second = (asked.body for asked in server.asked)
    if provider == "anthropic":
        assert second["messages"][1]["content"] == [
            {"type": "thinking", "thinking": "Where is it?", "signature": "c2lnbmVk"},
            {"type": "text", "text": "I look."},
            {"type": "tool_use", "id": "toolu_1", "name": "read_file", "input": {"path": "a.txt"}},
            {"type": "tool_use", "id": "toolu_2", "name": "read_file", "input": {"path": "b.txt"}},
        ]
        results = second["messages"][2]["content"]
        assert [one.get("is_error", False) for one in results[:2]] == [False, True]
        assert results[2]["text"] == "Go on."
    elif provider == "openai":
        sent = EVENTS[provider]("I look.", calls, thinking="Where is it?")[-1]["response"]["output"]
        assert second["input"][1:5] == sent
        assert [one["output"] for one in second["input"][5:7]] == ["aaa", "Error: no such file"]
        assert first["store"] is False and first["include"] == ["reasoning.encrypted_content"]
    else:
        message = second["messages"][1]
        assert message["reasoning_content"] == "Where is it?"
        assert [call["function"]["arguments"] for call in message["tool_calls"]] == [written for _, written in calls]
        assert [one["content"] for one in second["messages"][2:4]] == ["aaa", "Error: no such file"]
        assert first["stream_options"] == {"include_usage": True}


def test_each_protocol_is_asked_where_and_as_it_wants_to_be():
    def asked(provider: str, **access: Any) -> Asked:
        with answering(answer(provider, "Yes.")) as server:
            ask(server, provider, **access)
        return server.asked[0]

    messages = asked("anthropic")
    assert (messages.path, messages.headers["x-api-key"]) == ("/v1/messages", KEY)
    assert "authorization" not in messages.headers
    assert messages.body["max_tokens"] == 99
    assert messages.body["tools"][0]["input_schema"] == {"type": "object"}
    bearer = asked("anthropic", key_header="authorization").headers
    assert bearer["authorization"] == f"Bearer {KEY}" and "x-api-key" not in bearer
    responses = asked("openai")
    assert (responses.path, responses.headers["authorization"]) == ("/v1/responses", f"Bearer {KEY}")
    assert (responses.body["instructions"], responses.body["max_output_tokens"]) == ("Be brief.", 99)
    chat = asked("openai-chat")
    assert (chat.path, chat.body["messages"][0]["role"]) == ("/v1/chat/completions", "system")
    assert chat.body["max_tokens"] == 99
    assert asked("openai-chat", key_header="x-api-key").headers["x-api-key"] == KEY


def test_calls_that_cannot_be_read_are_faults_and_still_go_back():
    for provider in PROVIDERS:
        for written in ("{half", "[1]", '{"a": NaN}', '{"a": 1, "a": 2}', "[" * 1500):
            with answering(answer(provider, "", [("read_file", written)]), answer(provider, "Ah.")) as server:
                turn = ask(server, provider).turn
                assert turn is not None
                assert [(use.name, bool(use.fault), use.arguments) for use in turn.uses] == [("read_file", True, {})]
                told = ToolAnswers(answers=(ToolAnswer(use_id=turn.uses[0].id, text="?", is_error=True),))
                again = ask(server, provider, ModelRequest(system="", messages=[*REQUEST.messages, turn, told]))
                assert again.turn is not None, provider


def test_a_turn_that_was_cut_off_says_so_and_half_a_call_is_left_out():
    stops = {"anthropic": "max_tokens", "openai": "max_output_tokens", "openai-chat": "length"}
    for provider, stop in stops.items():
        with answering(answer(provider, "Well", [("read_file", '{"path": "a')], stop=stop)) as server:
            turn = ask(server, provider).turn
        assert turn is not None
        assert (turn.stop, turn.uses, turn.text) == (StopReason.TRUNCATED, (), "Well")
    refusals = {"anthropic": "refusal", "openai": "content_filter", "openai-chat": "content_filter"}
    for provider, stop in refusals.items():
        with answering(answer(provider, "No.", stop=stop)) as server:
            turn = ask(server, provider).turn
        assert turn is not None and turn.stop is StopReason.REFUSED


def test_servers_that_number_nothing_and_send_calls_whole_are_understood():
    def call(name: str, use_id: str) -> dict[str, Any]:
        return {"id": use_id, "function": {"name": name, "arguments": '{"path": "x"}'}}

    chunks = [
        {"choices": [{"delta": {"tool_calls": [call("read_file", "a")]}}]},
        {"choices": [{"delta": {"tool_calls": [call("read_file", "b")]}}]},
        {"choices": [{"delta": {}, "finish_reason": "stop"}]},
    ]
    with answering(Answer(chunks)) as server:
        turn = ask(server, "ollama").turn
    assert turn is not None and turn.stop is StopReason.TOOLS
    assert turn.uses == tuple(ToolUse(id=one, name="read_file", arguments={"path": "x"}) for one in "ab")
    assert turn.usage == ModelUsage()


# --- What goes wrong -------------------------------------------------------------------------------------------------


def refusal(status: int, message: str = "busy", **headers: str) -> Answer:
    body = json.dumps({"error": {"type": "some_error", "message": message}}).encode()
    return Answer(status=status, headers={name.replace("_", "-"): value for name, value in headers.items()}, body=body)


@pytest.mark.parametrize("provider", PROVIDERS)
def test_what_may_pass_is_tried_again_as_the_server_says_and_each_try_is_told(provider: str):
    answers = (refusal(429, retry_after="7"), refusal(529), answer(provider, "At last."))
    with answering(*answers) as server:
        said = ask(server, provider)
    assert said.turn is not None and said.turn.text == "At last."
    assert [(one.attempt, one.status, one.wait_ms) for one in said.failures] == [(1, 429, 7000), (2, 529, 2000)]
    assert said.slept == [7.0, 2.0]
    assert len({json.dumps(one.body) for one in server.asked}) == 1


def test_there_are_three_more_tries_and_none_where_it_makes_no_sense():
    with answering(*[refusal(503)] * 9) as server:
        said = ask(server, "openai")
    assert said.failed is not None and said.failed.code == "F_MODEL_UNREACHED"
    assert (len(server.asked), said.slept) == (4, [1.0, 2.0, 4.0])
    assert [one.wait_ms for one in said.failures] == [1000, 2000, 4000, None]
    assert "HTTP 503: busy (4 tries)" in said.failed.detail
    for one in (refusal(401), refusal(404), refusal(429, retry_after="3600")):
        with answering(one) as server:
            said = ask(server, "openai")
        assert (len(server.asked), said.slept) == (1, [])
        assert said.failed is not None


@each(
    "headers, seconds",
    (
        ({"retry_after": "0"}, 0.0),
        ({"retry_after_ms": "1500"}, 1.5),
        ({"date": "Thu, 19 Nov 2026 01:00:00 GMT", "retry_after": "Thu, 19 Nov 2026 01:00:30 GMT"}, 30.0),
        ({"retry_after": "soon"}, 1.0),
        ({"retry_after": "nan"}, 1.0),
        ({"retry_after": "-5"}, 1.0),
    ),
)
def test_waiting_can_be_asked_for_in_every_form(headers: dict[str, str], seconds: float):
    with answering(refusal(429, **headers), answer("openai", "Yes.")) as server:
        assert ask(server, "openai").slept == [seconds]


@pytest.mark.parametrize("provider", PROVIDERS)
def test_a_stream_that_breaks_off_is_never_taken_for_an_answer(provider: str):
    whole = EVENTS[provider]("It is done.", [("read_file", "{}")])
    ends = [end for end, event in enumerate(whole) if event != "[DONE]" and '"usage"' not in json.dumps(event)]
    for cut in (True, False):
        with answering(Answer(whole[: ends[-1]], cut=cut), answer(provider, "Again.")) as server:
            said = ask(server, provider)
        assert said.turn is not None and said.turn.text == "Again.", cut
        assert len(said.failures) == 1


@each(
    "garbage",
    (
        Answer(["no JSON"]),
        Answer(["[1, 2]"]),
        Answer(["[" * 100_000]),
        Answer(body=b"<html>Welcome to our proxy</html>"),
        Answer([]),
        Answer([{"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}]),
        Answer([{"type": "content_block_delta", "index": 3, "delta": {"type": "text_delta", "text": "x"}}]),
    ),
)
def test_garbage_is_a_failed_try(garbage: Answer):
    with answering(garbage, answer("anthropic", "Yes.")) as server:
        said = ask(server, "anthropic")
    assert said.turn is not None and len(said.failures) == 1


def test_an_error_in_the_stream_that_does_not_pass_is_not_tried_again():
    said = {"type": "error", "error": {"type": "invalid_request_error", "message": "too long"}}
    failed = {"type": "response.failed", "response": {"error": {"code": "invalid_prompt", "message": "no"}}}
    for provider, event in (("anthropic", said), ("openai", failed), ("openai-chat", {"error": {"message": "no"}})):
        with answering(Answer([event])) as server:
            asked = ask(server, provider)
        assert asked.failed is not None and len(asked.failures) == 1


@hang_guard
def test_each_silence_has_its_own_end():
    never = threading.Event()
    short = ModelBounds(first_event=0.05, idle=30.0)
    with answering(*[Answer(held_before=never)] * 4) as server:
        said = ask(server, "openai", bounds=short)
        never.set()
    assert said.failed is not None and "it said nothing for 0.05 s" in said.failed.detail
    never.clear()
    begun = EVENTS["anthropic"]("Hello")[:4]
    with answering(*[Answer(begun, held_after=never)] * 4) as server:
        said = ask(server, "anthropic", bounds=ModelBounds(idle=0.05))
        never.set()
    assert said.failed is not None and "in the middle of an answer" in said.failed.detail
    assert len(said.failures) == 4


@hang_guard
def test_a_complete_answer_does_not_wait_for_the_server_to_close():
    never = threading.Event()
    for provider in PROVIDERS:
        events = [event for event in EVENTS[provider]("Done.") if event != "[DONE]"]
        with answering(Answer(events, held_after=never)) as server:
            said = ask(server, provider, bounds=ModelBounds(after_end=0.05))
            never.set()
        never.clear()
        assert said.turn is not None and said.turn.text == "Done."
        assert said.turn.usage.output == 7


def check_endless(size: int, pieces: int, bounds: Any = None) -> list[str]:
    """What is said of an argument that is written without end, and of an event without end."""
    piece = {"type": "input_json_delta", "partial_json": "x" * size}
    block = {"type": "tool_use", "id": "1", "name": "read_file", "input": {}}
    begin = [{"type": "content_block_start", "index": 0, "content_block": block}]
    written = Answer([*begin, *[{"type": "content_block_delta", "index": 0, "delta": piece}] * pieces])
    said = []
    for answers in ([written], [Answer([{"type": "ping", "filler": "x" * size * pieces}])] * 4):
        with answering(*answers) as server:
            failed = ask(server, "anthropic", bounds=bounds).failed
        assert failed is not None and len(server.asked) == len(answers)
        said.append(failed.detail)
    return said


def test_an_answer_without_end_is_given_up():
    said = check_endless(1 << 10, 100, ModelBounds(answer_bytes=50_000))
    assert "50,000 bytes" in said[0] and "50000 byte limit" in said[1]


@pytest.mark.slow("an argument of 50 MB, sent for real")
def test_an_argument_of_50_megabytes_is_given_up():
    said = check_endless(256 << 10, 200)
    assert "8,388,608 bytes" in said[0] and "8388608 byte limit" in said[1]


@hang_guard
def test_when_cancelled_the_connection_is_closed():
    async def cancelled(server: WireServer) -> None:
        reach = model_access("anthropic:a-model", base_url=server.url, key_env="A_KEY")
        began = asyncio.Event()
        async with HttpModels().client(reach, KEY) as client:
            asked = asyncio.create_task(client.respond(REQUEST, lambda news: began.set()))
            await began.wait()
            asked.cancel()
            with pytest.raises(asyncio.CancelledError):
                await asked

    held = threading.Event()
    events = EVENTS["anthropic"]("Hello, hello")
    with answering(Answer([*events[:4], *[{"type": "ping"}] * 1, *events[4:]], held_after=held)) as server:
        asyncio.run(cancelled(server))
        held.set()
    assert len(server.asked) == 1


def test_a_key_that_is_echoed_is_told_nobody():
    echo = f"Incorrect API key provided: {KEY}\x1b[31m in line\n2"
    answers: list[tuple[str, Callable[[], Answer]]] = [
        ("openai", lambda: refusal(401, echo)),
        ("anthropic", lambda: Answer(status=401, body=echo.encode())),
        ("anthropic", lambda: Answer([{"type": "error", "error": {"type": "bad", "message": echo}}])),
    ]
    for provider, made in answers:
        with answering(made()) as server:
            said = ask(server, provider)
        assert said.failed is not None
        for text in (said.failed.detail, *(one.detail for one in said.failures)):
            assert KEY not in text and "Incorrect API key" in text and "\x1b" not in text and "\n" not in text


def test_no_redirect_is_followed_and_no_key_goes_there():
    with answering() as other:
        moved = Answer(status=307, headers={"Location": f"{other.url}/responses"}, body=b"{}")
        with answering(moved) as server:
            said = ask(server, "openai")
    assert said.failed is not None and "HTTP 307" in said.failed.detail
    assert other.asked == []


def test_what_a_server_does_not_know_is_left_out_of_all_further_requests():
    param = {
        "message": "Unsupported parameter: 'max_tokens'. Use 'max_completion_tokens' instead.",
        "param": "max_tokens",
    }
    encrypted = {"message": "Encrypted content is not supported with this model.", "param": "include"}
    for provider, error, gone in (("openai-chat", param, "max_tokens"), ("openai", encrypted, "include")):
        refused = Answer(status=400, body=json.dumps({"error": error}).encode())
        with answering(refused, answer(provider, "Yes."), answer(provider, "Yes.")) as server:

            async def twice(server: WireServer = server, provider: str = provider) -> list[Any]:
                reach = model_access(f"{provider}:a-model", base_url=server.url)
                news: list[Any] = []
                async with HttpModels().client(reach, "") as client:
                    for _ in range(2):
                        assert (await client.respond(REQUEST, news.append)).text == "Yes."
                return news

            news = asyncio.run(twice())
        assert [gone in one.body for one in server.asked] == [True, False, False]
        assert len([one for one in news if isinstance(one, RequestFailed)]) == 1


def test_nobody_is_reached_where_nobody_is():
    with answering() as server:
        pass
    said = ask(server, "openai")
    assert said.failed is not None and "cannot be reached" in said.failed.detail
    assert len(said.failures) == 4
