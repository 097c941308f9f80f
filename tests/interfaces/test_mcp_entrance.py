"""The entrance and the watcher by themselves: what they do when nothing can be looked at, and when nobody listens."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

import msgspec

from ordain.interfaces.http.entrance import Message
from tests.interfaces.workspace import LARGE, SMALL, Workspace
from tests.patience import eventually_in_loop, let_pass_in_loop
from tests.words import (
    PLAN_SURFACE,
    App,
    Channel,
    ClientCall,
    Entrance,
    Principal,
    Receive,
    Scope,
    Send,
    Subscription,
    Watcher,
    open_workspace,
    refuse,
)

ANNA = Principal(name="mcp/anna", channel=Channel.MCP)
BERT = Principal(name="mcp/bert", channel=Channel.MCP)


def test_where_tokens_cannot_be_looked_at_nobody_enters():
    def unreadable(token: str) -> str | None:
        raise refuse("E_CLIENT", "It is damaged.")

    async def inside(scope: Scope, receive: Receive, send: Send) -> None:
        raise AssertionError("nobody may get here")

    sent: list[Message] = []

    async def send(message: Message) -> None:
        sent.append(message)

    async def receive() -> Message:
        raise AssertionError("nothing is read")

    headers = [(b"host", b"localhost:1"), (b"authorization", b"Bearer x"), (b"content-type", b"application/json")]
    scope = {"type": "http", "method": "POST", "path": "/mcp", "headers": headers}
    entrance = Entrance(inside, ["localhost:1"], unreadable, lambda *passed: None)
    asyncio.run(entrance(scope, receive, send))
    assert sent[0]["status"] == 503 and b"damaged" not in sent[1]["body"]


def test_an_answer_that_took_its_time_is_not_sent_to_whom_was_revoked_meanwhile():
    holders = ["anna", None]
    sent: list[Message] = []

    async def inside(scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"what the run did"})

    async def send(message: Message) -> None:
        sent.append(message)

    async def receive() -> Message:
        raise AssertionError("nothing is read")

    headers = [(b"host", b"localhost:1"), (b"authorization", b"Bearer x"), (b"content-type", b"application/json")]
    scope = {"type": "http", "method": "POST", "path": "/mcp", "headers": headers}
    entrance = Entrance(inside, ["localhost:1"], lambda token: holders.pop(0), lambda *passed: None)
    asyncio.run(entrance(scope, receive, send))
    start, body = sent
    assert start["status"] == 401 and b"revoked" in body["body"]


def test_it_is_looked_only_while_somebody_is_subscribed(workspace: Workspace):
    looked: list[str] = []

    def size(app: object, names: Mapping[str, str]) -> int:
        looked.append(names["id"])
        return app.plans.recorded(names["id"])  # type: ignore[attr-defined]

    plans = next(one for one in PLAN_SURFACE.templates if one.uri == "ordain://plan/{id}")
    surface = msgspec.structs.replace(PLAN_SURFACE, templates=(msgspec.structs.replace(plans, size=size),))
    told: list[str | None] = []

    async def tell(uri: str | None) -> None:
        told.append(uri)

    async def gone(uri: str | None) -> None:
        raise BrokenPipeError

    async def whole() -> None:
        app = open_workspace(workspace.path)
        prepared = await app.plans.prepare(SMALL.encode(), None, ANNA)
        uri = f"ordain://plan/{prepared.review.plan_id}"

        async def progress(*told: Any) -> None: ...

        call = ClientCall(ANNA, lambda: open_workspace(workspace.path), progress)
        watcher = Watcher(surface, lambda: open_workspace(workspace.path), looking_s=0.01)
        assert await watcher.permitted(call, [uri, uri, "ordain://plan/none", "else://where"]) == [uri]
        stranger = ClientCall(BERT, lambda: open_workspace(workspace.path), progress)
        assert await watcher.permitted(stranger, [uri]) == []
        await let_pass_in_loop(0.05)
        assert looked == []
        subscriptions = [Subscription(ANNA, tell), Subscription(ANNA, gone)]
        for one in subscriptions:
            await watcher.add(one, [uri])
        await app.plans.cancel(prepared.review.plan_id, ANNA)
        await eventually_in_loop(lambda: told, "the change")
        watcher.end(subscriptions[0])  # the other one ended when it could not be told
        await let_pass_in_loop(0.05)
        seen = len(looked)
        await let_pass_in_loop(0.05)
        assert (told, len(looked)) == ([uri], seen)
        await app.close()

    asyncio.run(whole())


async def _nobody(*told: Any) -> None: ...


def test_a_client_that_subscribes_to_all_it_can_leaves_room_for_others(workspace: Workspace):
    def workspaces() -> App:
        return open_workspace(workspace.path)

    async def whole() -> None:
        app = workspaces()
        annas = (await app.plans.prepare(SMALL.encode(), None, ANNA)).review.plan_id
        berts = (await app.plans.prepare(LARGE.encode(), None, BERT)).review.plan_id
        await app.close()
        anna, bert = ClientCall(ANNA, workspaces, _nobody), ClientCall(BERT, workspaces, _nobody)
        watcher = Watcher(PLAN_SURFACE, workspaces, subscribed_max=3)
        subscription = Subscription(ANNA, _nobody)
        by_many_names = [f"ordain://plan/{annas[: 13 + more]}" for more in range(20)]
        granted = await watcher.permitted(anna, by_many_names)
        await watcher.add(subscription, granted)
        assert granted == by_many_names[:3]
        assert await watcher.permitted(anna, by_many_names[3:4]) == []
        assert await watcher.permitted(bert, [f"ordain://plan/{berts}"]) == [f"ordain://plan/{berts}"]
        watcher.end(subscription)

    asyncio.run(whole())


def test_a_name_that_has_come_to_fit_several_plans_keeps_nobody_else_from_being_told(workspace: Workspace):
    def workspaces() -> App:
        return open_workspace(workspace.path)

    told: list[str | None] = []

    async def tell(uri: str | None) -> None:
        told.append(uri)

    async def whole() -> None:
        app = workspaces()
        await app.plans.prepare(SMALL.encode(), None, ANNA)
        watcher = Watcher(PLAN_SURFACE, workspaces, looking_s=0.01)
        subscriptions = [Subscription(ANNA, _nobody), Subscription(BERT, tell)]
        (vague,) = await watcher.permitted(ClientCall(ANNA, workspaces, _nobody), ["ordain://plan/PLAN-"])
        await watcher.add(subscriptions[0], [vague])
        berts = (await app.plans.prepare(LARGE.encode(), None, BERT)).review.plan_id
        await watcher.add(subscriptions[1], [f"ordain://plan/{berts}"])
        await app.plans.cancel(berts, BERT)
        await eventually_in_loop(lambda: told, "the change")
        for one in subscriptions:
            watcher.end(one)
        await app.close()

    asyncio.run(whole())
