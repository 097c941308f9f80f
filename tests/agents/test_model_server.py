"""The scripted model, without any client: what it does follows from the conversation, in every provider's protocol."""

from __future__ import annotations

import http.client
import json
from collections.abc import Callable, Generator
from typing import Any, NamedTuple

import pytest

from tests.agents.conversation import ASIDE, Astray, Call, Conversation, Result, Said, Say, next_move
from tests.agents.model_server import ModelServer, serving

OFFERED = "srv_find", "srv_keep"


def fetch(talk: Conversation) -> Generator[Call, Result, str]:
    found = yield Call("find", {"what": "key"})
    kept = yield Call("keep", {"value": found.text})
    return f"kept {kept.text}"


def use(talk: Conversation) -> Generator[Call, Result, str]:
    used = yield Call("find", {"what": talk.earlier("keep").text})
    return f"used {used.text}"


SCRIPTS = {"Fetch it": fetch, "Use it": use}


def talk(*entries: Said | Result, tools: tuple[str, ...] = OFFERED) -> Conversation:
    return Conversation(tools, entries)


def test_a_script_is_played_as_far_as_the_results_go() -> None:
    task, found, kept = Said("Fetch it, please."), Result("srv_find", "4711"), Result("srv_keep", "well")
    assert next_move(SCRIPTS, talk(task)) == Call("srv_find", {"what": "key"})
    assert next_move(SCRIPTS, talk(task, found)) == Call("srv_keep", {"value": "4711"})
    assert next_move(SCRIPTS, talk(task, found, Said("<reminder>"), kept)) == Say("kept well")


def test_the_last_task_decides_and_what_was_found_before_is_still_known() -> None:
    before = Said("Fetch it"), Result("srv_find", "4711"), Result("srv_keep", "well")
    assert next_move(SCRIPTS, talk(*before, Said("Use it"))) == Call("srv_find", {"what": "well"})
    assert next_move(SCRIPTS, talk(*before, Said("Use it"), Result("srv_find", "this"))) == Say("used this")


def test_a_client_that_offers_no_tools_asks_for_something_beside_the_conversation() -> None:
    assert next_move(SCRIPTS, talk(Said("Give a title to: Fetch it"), tools=())) == ASIDE


@pytest.mark.parametrize(
    ("strange", "said"),
    [
        (talk(Said("Something else")), "none of the tasks"),
        (talk(Said("Fetch it"), tools=("bash",)), "find should be offered once; offered are: bash"),
        (talk(Said("Fetch it"), tools=("a_find", "b_find")), "offered are: a_find, b_find"),
        (talk(Said("Fetch it"), Result("srv_keep", "well")), "a result of srv_keep after a call of find"),
        (talk(Said("Use it")), "no result of keep"),
    ],
)
def test_a_conversation_that_goes_another_way_is_said(strange: Conversation, said: str) -> None:
    with pytest.raises(Astray, match=said):
        next_move(SCRIPTS, strange)


class Sent(NamedTuple):
    """What a client reads off an answer: the call that was made, or the text."""

    call: tuple[str, Any] | None
    text: str


class Provider(NamedTuple):
    """A protocol as a client sees it: how a request is made, how an answer is read and put into the next request."""

    path: str
    begin: Callable[[str], dict[str, Any]]
    read: Callable[[list[Any]], Sent]
    go_on: Callable[[dict[str, Any], list[Any], str], None]


def _anthropic_begin(task: str) -> dict[str, Any]:
    return {
        "model": "m",
        "messages": [{"role": "user", "content": task}],
        "tools": [{"name": name} for name in OFFERED],
    }


def _anthropic_read(events: list[Any]) -> Sent:
    kinds = [event["type"] for event in events]
    assert kinds[0] == "message_start" and kinds[-1] == "message_stop"
    block, delta = events[1]["content_block"], events[2]["delta"]
    if block["type"] == "tool_use":
        assert events[4]["delta"]["stop_reason"] == "tool_use"
        return Sent((block["name"], json.loads(delta["partial_json"])), "")
    return Sent(None, delta["text"])


def _anthropic_go_on(body: dict[str, Any], events: list[Any], result: str) -> None:
    block = events[1]["content_block"]
    answer = {"type": "tool_result", "tool_use_id": block["id"], "content": [{"type": "text", "text": result}]}
    body["messages"] += [{"role": "assistant", "content": [block]}, {"role": "user", "content": [answer]}]


def _responses_begin(task: str) -> dict[str, Any]:
    item = {"type": "message", "role": "user", "content": [{"type": "input_text", "text": task}]}
    inner = [{"type": "function", "name": name} for name in OFFERED]
    return {"model": "m", "input": [item], "tools": [{"type": "namespace", "name": "srv", "tools": inner}]}


def _responses_read(events: list[Any]) -> Sent:
    assert [event["type"] for event in events][:1] == ["response.created"]
    (item,) = events[-1]["response"]["output"]
    if item["type"] == "function_call":
        assert item["namespace"] == "srv"
        return Sent((item["name"], json.loads(item["arguments"])), "")
    return Sent(None, item["content"][0]["text"])


def _responses_go_on(body: dict[str, Any], events: list[Any], result: str) -> None:
    (item,) = events[-1]["response"]["output"]
    body["input"] += [item, {"type": "function_call_output", "call_id": item["call_id"], "output": result}]


def _chat_begin(task: str) -> dict[str, Any]:
    tools = [{"type": "function", "function": {"name": name}} for name in OFFERED]
    return {"model": "m", "messages": [{"role": "user", "content": task}], "tools": tools}


def _chat_read(events: list[Any]) -> Sent:
    assert events[-1] == "[DONE]"
    delta = events[0]["choices"][0]["delta"]
    if "tool_calls" in delta:
        function = delta["tool_calls"][0]["function"]
        return Sent((function["name"], json.loads(function["arguments"])), "")
    return Sent(None, delta["content"])


def _chat_go_on(body: dict[str, Any], events: list[Any], result: str) -> None:
    delta = events[0]["choices"][0]["delta"]
    answer = {"role": "tool", "tool_call_id": delta["tool_calls"][0]["id"], "content": result}
    body["messages"] += [delta, answer]


def _gemini_begin(task: str) -> dict[str, Any]:
    declared = [{"name": name} for name in OFFERED]
    return {
        "contents": [{"role": "user", "parts": [{"text": task}]}],
        "tools": [{"functionDeclarations": declared}],
    }


def _gemini_read(events: list[Any]) -> Sent:
    part = events[0]["candidates"][0]["content"]["parts"][0]
    call = part.get("functionCall")
    return Sent((call["name"], call["args"]), "") if call else Sent(None, part["text"])


def _gemini_go_on(body: dict[str, Any], events: list[Any], result: str) -> None:
    content = events[0]["candidates"][0]["content"]
    response = {"name": content["parts"][0]["functionCall"]["name"], "response": {"output": result}}
    body["contents"] += [content, {"role": "user", "parts": [{"functionResponse": response}]}]


PROVIDERS = {
    "anthropic": Provider("/v1/messages?beta=true", _anthropic_begin, _anthropic_read, _anthropic_go_on),
    "responses": Provider("/v1/responses", _responses_begin, _responses_read, _responses_go_on),
    "chat": Provider("/v1/chat/completions", _chat_begin, _chat_read, _chat_go_on),
    "gemini": Provider("/v1beta/models/m:streamGenerateContent?alt=sse", _gemini_begin, _gemini_read, _gemini_go_on),
}


@pytest.mark.parametrize("provider", PROVIDERS.values(), ids=PROVIDERS)
def test_every_protocol_carries_the_same_script(provider: Provider) -> None:
    with serving(SCRIPTS) as server:
        body = provider.begin("Fetch it")
        first = _ask(server, provider.path, body)
        assert provider.read(first) == Sent(("srv_find", {"what": "key"}), "")
        provider.go_on(body, first, "4711")
        second = _ask(server, provider.path, body)
        name, arguments = provider.read(second).call or ("", {})
        assert name == "srv_keep" and "4711" in arguments["value"]
        provider.go_on(body, second, "well")
        text = provider.read(_ask(server, provider.path, body)).text
        assert text.startswith("kept ") and "well" in text
        assert server.astray == []
        assert [len(heard.entries) for heard in server.heard] == [1, 2, 3]


@pytest.mark.parametrize(
    ("request_line", "body", "noted"),
    [
        ("POST /v2/messages", {}, "POST /v2/messages: Astray: no model's server is asked this"),
        ("POST /v1/messages", {"messages": 7}, "POST /v1/messages: TypeError: "),
        ("GET http://elsewhere.example/news", None, "GET http://elsewhere.example/news: Astray: "),
        ("CONNECT elsewhere.example:443", None, "CONNECT elsewhere.example:443: Astray: "),
    ],
)
def test_what_it_cannot_answer_is_refused_and_noted(request_line: str, body: Any, noted: str) -> None:
    with serving(SCRIPTS) as server:
        method, path = request_line.split(" ")
        status, _ = _request(server, method, path, body)
        assert status == 400
        (line,) = server.astray
        assert line.startswith(noted)


@pytest.mark.parametrize("request_line", ["HEAD /", "GET /v1/models", "POST /v1/messages/count_tokens"])
def test_what_clients_ask_beside_the_conversation_is_answered(request_line: str) -> None:
    with serving(SCRIPTS) as server:
        method, path = request_line.split(" ")
        status, _ = _request(server, method, path, None)
        assert (status, server.astray) == (200, [])


def _ask(server: ModelServer, path: str, body: dict[str, Any]) -> list[Any]:
    """The events of a streamed answer."""
    status, text = _request(server, "POST", path, body)
    assert status == 200, text
    data = [line.removeprefix("data: ") for line in text.splitlines() if line.startswith("data: ")]
    return [line if line == "[DONE]" else json.loads(line) for line in data]


def _request(server: ModelServer, method: str, path: str, body: Any) -> tuple[int, str]:
    connection = http.client.HTTPConnection("127.0.0.1", server.server_port, timeout=10)
    try:
        connection.request(method, path, None if body is None else json.dumps(body))
        answer = connection.getresponse()
        return answer.status, answer.read().decode()
    finally:
        connection.close()
