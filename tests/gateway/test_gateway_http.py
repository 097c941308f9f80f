"""The gateway over HTTP, by itself: each message reaches the request it belongs to, in both eras of the protocol, and
nobody reaches what another began."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from ordain.interfaces.gateway import lines
from tests.gateway.asgi import LEGACY, META, MODERN, Gateway, Relay, modern, notification, request
from tests.patience import PATIENCE_S, eventually_in_loop, let_pass_in_loop
from tests.words import Message as Json

Life = Callable[[], Coroutine[Any, Any, None]]


def lived(life: Life) -> Callable[[], None]:
    """A test that is a coroutine."""

    def test() -> None:
        asyncio.run(life())

    test.__name__, test.__doc__ = life.__name__, life.__doc__
    return test


async def echo(relay: Relay, message: Json) -> None:
    """Answers every request with what was asked; with news before it where it has a token for them."""
    if "id" in message and "method" in message:
        params = message.get("params", {})
        if "progressToken" in params.get("_meta", {}):
            await relay.tell("notifications/progress", message["id"], progress=1)
        await relay.answer(message["id"], {"asked": message["method"], "with": params.get("x")})


# --- Sessions ------------------------------------------------------------------------------------------------------


@lived
async def test_a_client_that_greets_before_it_was_discovered_has_a_session_of_its_own():
    gateway = Gateway()
    waiting = gateway.modern("server/discover", 1)
    await waiting.reads.wait()
    name = await gateway.session()
    asked, greeted = gateway.relays
    assert [one["method"] for one in asked.got] == ["server/discover"]
    assert [one["method"] for one in greeted.got][:1] == ["initialize"]
    asking = gateway.ask(request("tools/list", 2), mcp_session_id=name)
    await greeted.last("tools/list")
    await greeted.answer(2, {"tools": []})
    assert (await asking.done()).status == 200
    await asked.answer(1, {"supportedVersions": [MODERN]})
    assert (await waiting.done()).status == 200


@lived
async def test_a_response_alone_is_a_document_and_one_with_news_before_it_a_stream():
    gateway = Gateway(echo)
    name = await gateway.session()
    alone = await gateway.ask(request("tools/call", 5, x=1), mcp_session_id=name, mcp_protocol_version=LEGACY).done()
    assert (alone.status, alone.headers["content-type"]) == (200, "application/json")
    assert alone.messages == [{"jsonrpc": "2.0", "id": 5, "result": {"asked": "tools/call", "with": 1}}]
    reply = await gateway.ask(request("tools/call", "5", x=2, _meta={"progressToken": 1}), mcp_session_id=name).done()
    assert reply.headers["content-type"] == "text/event-stream"
    news, response = reply.messages
    assert (news["method"], response["id"], response["result"]["with"]) == ("notifications/progress", "5", 2)
    assert gateway.relays[0].client == "mcp/anna"


@lived
async def test_a_session_is_there_for_the_token_that_began_it_and_for_nobody_else():
    gateway = Gateway(echo)
    name = await gateway.session()
    unknown = await gateway.ask(request("ping"), mcp_session_id="x").done()
    for token in ("bert's", "anna's next"):
        for method in ("POST", "GET", "DELETE"):
            reply = await gateway.ask(request("ping"), method=method, token=token, mcp_session_id=name).done()
            assert (reply.status, reply.body) == (unknown.status, unknown.body) == (404, unknown.body)
    assert (await gateway.ask(request("ping"), mcp_session_id=name).done()).status == 200
    assert len(gateway.relays) == 1


@lived
async def test_a_session_that_its_client_ends_is_gone_with_what_was_started_for_it():
    gateway = Gateway()
    name = await gateway.session()
    waiting = gateway.ask(request("tools/call"), mcp_session_id=name)
    await gateway.relays[0].last("tools/call")
    assert (await gateway.ask(method="DELETE", mcp_session_id=name).done()).status == 200
    assert gateway.relays[0].closed and (await waiting.done()).status == 500
    assert (await gateway.ask(request("ping"), mcp_session_id=name).done()).status == 404


@lived
async def test_a_session_that_was_refused_is_none():
    async def refuse(relay: Relay, message: Json) -> None:
        error = {"code": -32600, "message": "No."}
        await relay.send({"jsonrpc": "2.0", "id": message["id"], "error": error}, None)

    gateway = Gateway(refuse, greets=False)
    reply = await gateway.ask(request("initialize")).done()
    assert reply.messages[0]["error"]["message"] == "No." and gateway.relays[0].closed
    assert (await gateway.ask(request("ping"), mcp_session_id=reply.headers["mcp-session-id"]).done()).status == 404


@lived
async def test_what_has_no_answer_is_handed_on_and_accepted():
    gateway = Gateway()
    name = await gateway.session()
    for message in (notification("notifications/initialized"), {"jsonrpc": "2.0", "id": 7, "result": {"x": None}}):
        reply = await gateway.ask(message, mcp_session_id=name).done()
        assert (reply.status, reply.body, gateway.relays[0].got[-1]) == (202, b"", message)


@pytest.mark.parametrize(
    ("body", "status", "code"),
    [
        (b"{", 400, -32700),
        (b"1" * 5000, 400, -32700),
        (b"[" * 100_000, 400, -32700),
        ([request("ping"), request("ping", 2)], 400, -32600),
        ([], 400, -32600),
        ({"jsonrpc": "2.0"}, 400, -32600),
        ({"id": 1, "method": "ping"}, 400, -32600),
        ({"jsonrpc": "2.0", "id": True, "method": "ping"}, 400, -32600),
        ({"jsonrpc": "2.0", "id": None, "method": "ping"}, 400, -32600),
        ({"jsonrpc": "2.0", "id": 1.5, "method": "ping"}, 400, -32600),
        ({"jsonrpc": "2.0", "id": 1, "method": 1}, 400, -32600),
        ({"jsonrpc": "2.0", "id": 1, "method": "ping", "params": []}, 400, -32600),
        ({"jsonrpc": "2.0", "id": 1, "result": {}, "error": {}}, 400, -32600),
    ],
)
@pytest.mark.parametrize("version", [None, LEGACY, MODERN])
def test_what_is_not_one_message_is_not_relayed(body: Any, status: int, code: int, version: str | None):
    async def life() -> None:
        gateway = Gateway()
        name = await gateway.session()
        reply = await gateway.ask(body, mcp_session_id=name, mcp_protocol_version=version).done()
        assert (reply.status, reply.messages[0]["error"]["code"]) == (status, code)
        assert len(gateway.relays[0].got) == 1

    asyncio.run(life())


@lived
async def test_a_request_says_what_it_takes_and_in_which_session_it_is():
    gateway = Gateway(echo)
    name = await gateway.session()
    for accept in ("application/json", "text/event-stream", "text/html", None):
        assert (await gateway.ask(request("ping"), accept=accept, mcp_session_id=name).done()).status == 406
    assert (await gateway.ask(method="GET", accept="application/json", mcp_session_id=name).done()).status == 406
    for method in ("POST", "GET", "DELETE"):
        assert (await gateway.ask(request("ping"), method=method).done()).status == 400
    reply = await gateway.ask(method="PUT", mcp_session_id=name).done()
    assert (reply.status, reply.headers["allow"]) == (405, "GET, POST, DELETE")
    assert (await gateway.ask(b" " * ((4 << 20) + 1), mcp_session_id=name).done()).status == 413


@lived
async def test_two_requests_with_one_id_are_not_mixed_up():
    gateway = Gateway()
    name = await gateway.session()
    first = gateway.ask(request("tools/call", 1), mcp_session_id=name)
    await gateway.relays[0].last("tools/call")
    assert (await gateway.ask(request("ping", 1), mcp_session_id=name).done()).status == 400
    other = gateway.ask(request("ping", "1"), mcp_session_id=name)  # a text is no number
    await gateway.relays[0].last("ping")
    await gateway.relays[0].answer("1", "the text's")
    await gateway.relays[0].answer(1, "the number's")
    assert (await first.done()).messages[0]["result"] == "the number's"
    assert (await other.done()).messages[0]["result"] == "the text's"


@lived
async def test_a_cancelled_request_ends_whether_or_not_the_server_answers_it():
    gateway = Gateway()
    name = await gateway.session()
    waiting = gateway.ask(request("tools/call", 4), mcp_session_id=name)
    relay = gateway.relays[0]
    await relay.last("tools/call")
    cancelled = notification("notifications/cancelled", requestId=4)
    assert (await gateway.ask(cancelled, mcp_session_id=name).done()).status == 202
    assert relay.got[-1] == cancelled
    assert (await waiting.done()).messages[0]["error"]["code"] == -32800
    await relay.answer(4, "too late")  # nobody waits for it
    again = gateway.ask(request("tools/call", 4), mcp_session_id=name)
    await asyncio.sleep(0)
    await relay.last("tools/call")
    await relay.answer(4, "in time")
    assert (await again.done()).messages[0]["result"] == "in time"


@lived
async def test_a_call_in_a_session_goes_on_when_its_client_leaves():
    gateway = Gateway()
    name = await gateway.session()
    waiting = gateway.ask(request("tools/call", 4), mcp_session_id=name)
    relay = gateway.relays[0]
    await relay.last("tools/call")
    waiting.leave()
    await waiting.done()
    await relay.tell("notifications/progress", 4, progress=1)
    await relay.answer(4, "for nobody")
    assert [one["method"] for one in relay.got] == ["initialize", "tools/call"]


@lived
async def test_what_belongs_to_no_request_has_a_stream_of_its_own():
    gateway = Gateway()
    name = await gateway.session()
    relay = gateway.relays[0]
    await relay.tell("early")  # nobody listens yet
    standing = gateway.ask(method="GET", mcp_session_id=name)
    await standing.until(b'"early"')
    assert standing.so_far.headers["content-type"] == "text/event-stream"
    assert (await gateway.ask(method="GET", mcp_session_id=name).done()).status == 409
    call = gateway.ask(request("tools/call"), mcp_session_id=name)
    await relay.last("tools/call")
    asked = request("roots/list", 9)
    await relay.send(asked, None)
    await standing.until(b"roots/list")
    assert standing.so_far.messages[-1] == asked
    await relay.answer(1, {})
    assert len((await call.done()).messages) == 1
    standing.leave()
    await standing.done()
    again = gateway.ask(method="GET", mcp_session_id=name)  # as only one may be there, the first is forgotten
    await relay.tell("later")
    await again.until(b"later")
    again.leave()
    await again.done()


@lived
async def test_a_client_without_such_a_stream_is_told_where_it_listens():
    gateway = Gateway()
    name = await gateway.session()
    call = gateway.ask(request("tools/call"), mcp_session_id=name)
    await gateway.relays[0].last("tools/call")
    await gateway.relays[0].send(request("elicitation/create", 3), None)
    await gateway.relays[0].answer(1, {})
    assert [one.get("method") for one in (await call.done()).messages] == ["elicitation/create", None]


@lived
async def test_a_session_that_nobody_uses_is_closed_after_a_while():
    gateway = Gateway(idle_s=0.1)
    name = await gateway.session()
    standing = gateway.ask(method="GET", mcp_session_id=name)
    await let_pass_in_loop(0.15)
    assert not gateway.relays[0].closed  # somebody listens
    standing.leave()
    await standing.done()
    await eventually_in_loop(lambda: gateway.relays[0].closed, "its end")
    assert (await gateway.ask(request("ping"), mcp_session_id=name).done()).status == 404


@lived
async def test_a_token_has_so_many_sessions_and_loses_the_one_that_it_left_alone_for_longest():
    gateway = Gateway(echo, sessions_max=2)
    first, second = await gateway.session(), await gateway.session()
    await gateway.session("bert's")
    assert (await gateway.ask(request("ping"), mcp_session_id=first).done()).status == 200
    third = await gateway.session()
    found = [(await gateway.ask(request("ping"), mcp_session_id=name).done()).status for name in (first, second, third)]
    assert found == [200, 404, 200] and [one.closed for one in gateway.relays] == [False, True, False, False]
    listening = [gateway.ask(method="GET", mcp_session_id=name) for name in (first, third)]
    await asyncio.sleep(0)
    assert (await gateway.ask(request("initialize")).done()).status == 503
    for one in listening:
        one.leave()
        await one.done()


@lived
async def test_who_waits_for_long_sees_signs_of_life():
    before, lines.PING_S = lines.PING_S, 0.01
    try:
        gateway = Gateway()
        name = await gateway.session()
        call = gateway.ask(request("tools/call"), mcp_session_id=name)
        await call.until(b": ping\r\n\r\n: ping\r\n\r\n")
        await gateway.relays[0].answer(1, "at last")
        assert [one["result"] for one in (await call.done()).messages] == ["at last"]
    finally:
        lines.PING_S = before


@lived
async def test_at_the_end_everybody_is_let_go_and_everything_closed():
    gateway = Gateway()
    name = await gateway.session()
    standing = gateway.ask(method="GET", mcp_session_id=name)
    asked = [gateway.ask(request("tools/call"), mcp_session_id=name), gateway.modern("tools/call", name="x")]
    for relay in (gateway.relays[0], *gateway.relays[1:]):
        await relay.last("tools/call")
    await eventually_in_loop(lambda: len(gateway.relays) >= 2, "both relays", every_s=0)
    await gateway.relays[1].last("tools/call")
    gateway.inside.end()
    assert [(await one.done()).status for one in (standing, *asked)] == [200, 500, 500]
    await gateway.shut_down()
    assert gateway.closed and all(relay.closed for relay in gateway.relays)


# --- Each request by itself ----------------------------------------------------------------------------------------


@lived
async def test_requests_by_themselves_are_not_mixed_up_though_they_have_one_id_and_one_token():
    gateway = Gateway()
    asked = [gateway.modern("tools/call", 1, name="t", x=count) for count in range(3)]
    asked.append(gateway.modern("tools/call", 1, name="t", x=3, token="bert's"))
    await eventually_in_loop(
        lambda: len(gateway.relays) >= 2 and sum(len(relay.got) for relay in gateway.relays) >= 4,
        "all calls",
        every_s=0,
    )
    assert {relay.client for relay in gateway.relays} == {"mcp/anna", "mcp/bert"}
    for relay in gateway.relays:
        for one in reversed(relay.got):
            await relay.tell("notifications/progress", one["id"], progress=one["params"]["x"])
            await relay.answer(one["id"], one["params"]["x"])
    for count, one in enumerate(asked):
        news, response = (await one.done()).messages
        assert (news["params"]["progress"], response["id"], response["result"]) == (count, 1, count)


@lived
async def test_a_request_by_itself_is_cancelled_when_its_client_leaves():
    gateway = Gateway()
    waiting = gateway.modern("tools/call", "mine", name="t")
    await eventually_in_loop(lambda: gateway.relays, "its relay", every_s=0)
    asked = await gateway.relays[0].last("tools/call")
    waiting.leave()
    cancelled = await gateway.relays[0].last("notifications/cancelled")
    assert cancelled["params"]["requestId"] == asked["id"]
    await waiting.done()
    await gateway.relays[0].answer(asked["id"], "for nobody")


@lived
async def test_a_client_that_reads_nothing_holds_up_the_others_of_its_token_for_a_while_only():
    gateway = Gateway()
    stuck = gateway.modern("tools/call", 1, name="t")
    stuck.reads.clear()
    await eventually_in_loop(lambda: gateway.relays, "its relay", every_s=0)
    relay = gateway.relays[0]
    number = (await relay.last("tools/call"))["id"]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(lines, "PATIENCE_S", 0.01)
        other = gateway.modern("tools/call", 2, name="other")
        deaf = gateway.modern("tools/call", 3, name="deaf")
        deaf.reads.clear()
        await eventually_in_loop(lambda: len(relay.got) >= 3, "all calls", every_s=0)
    for _ in range(lines.HELD_MAX + 1):
        await relay.tell("notifications/progress", number, progress=1)
    async with asyncio.timeout(PATIENCE_S):
        for _ in range(lines.HELD_MAX + 5):
            await relay.tell("notifications/progress", relay.got[2]["id"], progress=1)
        await relay.answer(relay.got[1]["id"], "served")
    assert (await other.done()).messages[0]["result"] == "served"
    waiting = asyncio.create_task(relay.tell("notifications/progress", number, progress=2))
    await asyncio.sleep(0)
    stuck.reads.set()
    await waiting
    await relay.answer(number, "late")
    *_, last = (await stuck.done()).messages
    assert last["result"] == "late", "who reads again in time misses nothing"
    deaf.reads.set()
    deaf.leave()


@lived
async def test_a_subscription_is_known_by_the_id_that_its_client_gave_it():
    async def subscribe(relay: Relay, message: Json) -> None:
        if "id" in message:
            told = {f"{META}subscriptionId": message["id"], "vendor": 1}
            await relay.tell("notifications/tools/list_changed", message["id"], _meta=told)
            await relay.answer(message["id"], {"_meta": told})

    reply = await Gateway(subscribe).modern("subscriptions/listen", "mine").done()
    changed, ended = reply.messages
    assert changed["params"]["_meta"] == ended["result"]["_meta"] == {f"{META}subscriptionId": "mine", "vendor": 1}


@lived
async def test_nobody_is_asked_anything_in_this_era():
    async def ask(relay: Relay, message: Json) -> None:
        if "method" in message and "id" in message:
            await relay.send(request("sampling/createMessage", "s"), None)
            await relay.tell("notifications/message")
            await relay.answer(message["id"], {})

    gateway = Gateway(ask)
    assert len((await gateway.modern("tools/call", name="t").done()).messages) == 1
    assert gateway.relays[0].got[-1]["error"]["code"] == -32601 and gateway.relays[0].got[-1]["id"] == "s"


@lived
async def test_headers_and_envelope_of_a_request_say_the_same():
    gateway = Gateway(echo)

    async def told(body: Json, **headers: str | None) -> tuple[int, int | None]:
        sent = {"mcp_protocol_version": MODERN, "mcp_method": body.get("method"), "mcp_name": "t", **headers}
        reply = await gateway.ask(body, **sent).done()
        return reply.status, reply.messages[0].get("error", {}).get("code") if reply.body else None

    call = modern("tools/call", name="t")
    assert await told(call) == (200, None)
    assert await told(call, mcp_method="tools/list") == await told(call, mcp_method=None) == (400, -32020)
    assert await told(call, mcp_name="u") == await told(call, mcp_name=None) == (400, -32020)
    assert await told(call, mcp_protocol_version="2027-01-01") == (400, -32020)
    assert await told(request("tools/call", name="t")) == (400, -32602)
    later = json.loads(json.dumps(call).replace(MODERN, "2027-01-01"))
    assert await told(later, mcp_protocol_version="2027-01-01") == (400, -32022)
    assert await told(call, accept="application/json") == (406, None)
    assert await told({"jsonrpc": "2.0", "id": 1, "result": {}}, mcp_method=None) == (400, -32600)
    assert await told(notification("notifications/cancelled", requestId=1)) == (202, None)
    late = notification("notifications/cancelled", requestId=1)
    assert await told(late, mcp_protocol_version="2027-01-01") == (400, -32022)
    for method in ("GET", "DELETE"):
        reply = await gateway.ask(method=method, mcp_protocol_version=MODERN).done()
        assert (reply.status, reply.headers["allow"]) == (405, "POST")
    assert [one["method"] for one in gateway.relays[0].got] == ["tools/call"]


@lived
async def test_arguments_that_a_schema_wants_in_headers_are_the_same_there():
    schema = {"type": "object", "properties": {"region": {"type": "string", "x-mcp-header": "Region"}}}

    async def list_and_echo(relay: Relay, message: Json) -> None:
        if message["method"] == "tools/list":
            await relay.answer(message["id"], {"tools": [{"name": "t", "inputSchema": schema}]})
        else:
            await echo(relay, message)

    gateway = Gateway(list_and_echo)
    await gateway.modern("tools/list").done()
    body = modern("tools/call", name="t", arguments={"region": "eu"})
    headers = {"mcp_protocol_version": MODERN, "mcp_method": "tools/call", "mcp_name": "t"}
    found = [(await gateway.ask(body, **headers, mcp_param_region=one).done()).status for one in ("eu", "us", None)]
    assert found == [200, 400, 400]


@pytest.mark.parametrize(("code", "status"), [(-32601, 404), (-32602, 400), (-32603, 200), ("odd", 200)])
def test_an_error_has_the_status_that_the_protocol_gives_it(code: Any, status: int):
    async def fail(relay: Relay, message: Json) -> None:
        error = {"code": code, "message": "No."}
        await relay.send({"jsonrpc": "2.0", "id": message["id"], "error": error}, None)

    async def life() -> None:
        reply = await Gateway(fail).modern("tools/call", name="t").done()
        assert (reply.status, reply.messages[0]["error"]["code"]) == (status, code)

    asyncio.run(life())


@lived
async def test_a_line_that_nobody_uses_is_closed_and_begun_again_when_wanted():
    gateway = Gateway(echo, idle_s=0.01)
    await gateway.modern("tools/list").done()
    await eventually_in_loop(lambda: gateway.relays[0].closed, "its end")
    assert (await gateway.modern("tools/list").done()).status == 200 and len(gateway.relays) == 2


@lived
async def test_whatever_is_in_a_message_passes_unchanged():
    odd = {"n": 12345678901234567890123, "f": 1.0, "null": None, "half": "\ud800", "line": "a\u2028b\r\n", "": [{}]}
    gateway = Gateway(echo)
    name = await gateway.session()
    for meta in ({}, {"_meta": {"progressToken": 0}}):
        reply = await gateway.ask(request("x/y", 1, x=odd, **meta), mcp_session_id=name).done()
        assert reply.messages[-1]["result"]["with"] == odd
        assert json.dumps(reply.messages[-1]["result"]["with"]) == json.dumps(odd)
