"""One session of a client over any number of servers, and Ordain's own beside them. The invariant: a message reaches
exactly the server it is meant for, and what that says comes back under the client's own ids; nothing else of it is
changed. A call that is not open reaches nobody where rules are enforced."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import suppress
from typing import Any, NamedTuple, TypeVar

from ordain.core.text.problem import Refused
from ordain.interfaces.gateway.answer import (
    OWN_CAPABILITIES,
    absent_words,
    alone,
    merged_capabilities,
    merged_discovery,
    merged_greeting,
    refusal,
    server_lost,
)
from ordain.interfaces.gateway.catalogue import LISTS, OWN, Catalogue, ListedEntry
from ordain.interfaces.gateway.front import Caller, CallJudge, Front
from ordain.interfaces.gateway.link import ServerLink
from ordain.interfaces.gateway.subscription import ChangeStream
from ordain.interfaces.gateway.wire import (
    INTERNAL_ERROR,
    INVALID_PARAMS,
    INVALID_REQUEST,
    METHOD_NOT_FOUND,
    SUBSCRIPTION,
    Id,
    Message,
    ambiguous_key,
    answer,
    envelope_of,
    error,
    folded,
    is_modern,
    meta_of,
    notification,
    params_of,
)
from ordain.interfaces.robot import envelope as robot
from ordain.ports.tool import Unreached

KEY_SHOWN = 40
TASKS_MAX = 10_000
LOST = "ended before it answered; nobody can tell whether it did what it was asked"
NOT_LISTED = "does not say what tools it has"
_CHANGED = "notifications/tools/list_changed"
_T = TypeVar("_T")

Send = Callable[[Message, Id | None], Awaitable[None]]
"""Sends a message to the client: with the request of its own that it belongs to, where it does to one."""

_ABOUT_TASKS = frozenset(["tasks/get", "tasks/result", "tasks/list", "tasks/cancel", "tasks/update"])
"""What is asked of a call that was judged when it was made."""
_INITIALIZED = "notifications/initialized"
_TOLD = frozenset([_INITIALIZED, "notifications/roots/list_changed", "notifications/tasks/status"])
"""What clients tell by the protocol, and no server does anything for. Another notification is judged; what is none and
has no id is told nobody: there are servers that do what they are asked whether or not anybody wants an answer."""
_BEGINNING = ("initialize", "server/discover", "ping")


class _ServerRequest(NamedTuple):
    """A request of a server that the client has not answered."""

    link: ServerLink
    id: Any
    token: Any


def _by_own_name(message: Message, entry: ListedEntry) -> Message:
    """A request about something that a server listed, by the name that it has there."""
    return {**message, "params": {**params_of(message), "name": entry.said["name"]}}


class Relay:
    """A session. Whoever owns it hands it every message of the client, and sends what it is given."""

    def __init__(self, front: Front, send: Send, caller: Caller) -> None:
        self._front, self._send, self._caller = front, send, caller
        self._judging = CallJudge(front, caller)
        self._links = {name: self._link(name) for name in front.servers}
        self._own = self._link(OWN)
        self._catalogue = Catalogue(front, self._links, self._own)
        self._tasks: dict[Id, asyncio.Task[None]] = {}
        """What is being done about requests that no server has been handed yet, or several have."""
        self._under: dict[Id, tuple[ServerLink, int]] = {}
        """The client's requests that a server has, under which id of ours."""
        self._wanted: dict[str, _ServerRequest] = {}
        self._wants = 0
        self._jobs: dict[str, ServerLink] = {}
        self._listening: dict[Id, ChangeStream] = {}
        self._greeting: asyncio.Task[None] | None = None
        self._discovering: dict[Id, asyncio.Task[None]] = {}
        self._background: set[asyncio.Task[None]] = set()
        self._late: set[asyncio.Task[None]] = set()
        self._initialized = False
        """Whether the client said so."""
        self._closed = False

    def _link(self, name: str) -> ServerLink:
        begin = (lambda: self._front.own(self._caller)) if name == OWN else (lambda: self._front.open(name))
        return ServerLink(name, begin, self._heard, self._lost, self._front.say, self._front.patience.discover_s)

    async def received(self, message: Any) -> None:
        """Take a message of the client. Nothing is waited for."""
        if isinstance(message, list):
            for one in message:
                await self.received(None if isinstance(one, list) else one)
        elif not isinstance(message, dict):
            await self._send(error(None, INVALID_REQUEST, "A message is an object."), None)
        elif "method" in message and "id" in message:
            await self._asked(message)
        elif ambiguous_key(message) is not None:
            return
        elif "method" in message:
            self._notified(message)
        elif (wanted := self._wanted.pop(str(message.get("id")), None)) is not None:
            wanted.link.send({**message, "id": wanted.id})

    async def close(self) -> None:
        """End the session and everything that was started for it."""
        self._closed = True
        for task in (*self._tasks.values(), *self._background):
            task.cancel()
        await asyncio.gather(*self._tasks.values(), *self._background, return_exceptions=True)
        await asyncio.gather(*(link.close() for link in (*self._links.values(), self._own)), return_exceptions=True)

    # --- From the client ---------------------------------------------------------------------------------------------

    async def _asked(self, message: Message) -> None:
        request, method = message["id"], message["method"]
        if isinstance(request, bool) or not isinstance(request, str | int) or not isinstance(method, str):
            await self._send(error(None, INVALID_REQUEST, "A request has an id and a method."), None)
            return
        if (key := ambiguous_key(message)) is not None:
            words = f"`{key[:KEY_SHOWN]}` could be taken for another key."
            await self._send(error(request, INVALID_REQUEST, words), request)
            return
        self._judging.note_agent(params_of(message))
        with suppress(Exception):  # whoever looks closer tells what is wrong
            if method == "tools/call" and self._passed_at_once(request, message):
                return
        task = asyncio.create_task(self._served(request, method, message))
        self._tasks[request] = task
        task.add_done_callback(lambda ended: self._done(request, ended))
        if method == "initialize":
            self._greeting = task
        elif method == "server/discover":
            self._discovering[request] = task

    def _done(self, request: Id, task: asyncio.Task[None]) -> None:
        for tasks in (self._tasks, self._discovering):
            if tasks.get(request) is task:
                del tasks[request]

    async def _served(self, request: Id, method: str, message: Message) -> None:
        try:
            if method not in _BEGINNING and self._greeting is not None and not self._greeting.done():
                await asyncio.wait([self._greeting])  # who does not wait for the answer is served all the same
            said = await self._serve(request, method, message)
        except Unreached as gone:
            said = error(request, INTERNAL_ERROR, f"The server {gone}.")
        except Refused as refused:
            said = error(request, INTERNAL_ERROR, refused.problems[0].detail)
        except Exception as failure:  # one request that goes wrong is not the end of the others
            self._front.say(f"{method} failed: {robot.bug(failure).detail}")
            said = error(request, INTERNAL_ERROR, robot.bug(failure).detail)
        if said is not None:
            await self._send(said, request)

    async def _serve(self, request: Id, method: str, message: Message) -> Message | None:
        """What is answered here; None where a server answers, or nobody yet."""
        params = params_of(message)
        match method:
            case "initialize":
                return await self._initialize(request, params)
            case "server/discover":
                return await self._discover(request, params)
            case "ping":
                return answer(request, {})
            case "logging/setLevel":
                return await self._set_level(request, params)
            case "tools/call":
                return await self._call(request, message)
            case "prompts/get":
                return await self._get_prompt(request, message)
            case "resources/read" | "resources/subscribe" | "resources/unsubscribe":
                link = await self._catalogue.reader_of(params.get("uri"), params)
                if link is None:
                    return error(request, INVALID_PARAMS, f"Resource not found: {params.get('uri')}")
                return await self._pass(request, message, link, judged=method)
            case "completion/complete":
                return await self._complete(request, message)
            case "subscriptions/listen":
                return await self._listen(request, message)
            case _ if method in LISTS and params.get("cursor") is not None:
                return error(request, INVALID_PARAMS, "There is no such page: lists are whole.")
            case _ if method in LISTS:
                return answer(request, await self._catalogue.list_all(method, params))
            case _ if method in _ABOUT_TASKS:
                link = self._jobs.get(str(params.get("taskId")), self._catalogue.only() or self._own)
                return await self._pass(request, message, link)
            case _:
                only = self._catalogue.only()
                if only is None:
                    return error(request, METHOD_NOT_FOUND, "Method not found", {"method": method})
                return await self._pass(request, message, only, judged=method)

    def _notified(self, message: Message) -> None:
        method, params = message["method"], params_of(message)
        if method == "notifications/cancelled":
            self._take_back(params)
        elif method == "notifications/progress":
            wanted = self._wanted.get(str(params.get("progressToken")))
            if wanted is not None and wanted.token is not None:
                wanted.link.send({**message, "params": {**params, "progressToken": wanted.token}})
        elif method in _TOLD:
            self._initialized = self._initialized or method == _INITIALIZED
            for link in self._links.values():
                if not link.missing:
                    link.send(message)
        elif isinstance(method, str) and method.startswith("notifications/"):
            for link in self._links.values():
                self._in_background(self._tell(link, method, message))

    async def _tell(self, link: ServerLink, method: str, message: Message) -> None:
        """Tell a server what nobody knows the meaning of, if it may be told."""
        _, met = await self._judging.meet(link, method, params_of(message), tool=False)
        if not met.refused:
            link.send(message)

    def _take_back(self, params: Message) -> None:
        request = params.get("requestId")
        if isinstance(request, bool) or not isinstance(request, str | int):
            return
        under = self._under.pop(request, None)
        if under is not None:
            under[0].take_back(under[1], params)
        elif (listening := self._listening.pop(request, None)) is not None:
            listening.end()
        elif (task := self._tasks.get(request)) is not None:
            task.cancel()

    # --- From servers ------------------------------------------------------------------------------------------------

    async def _heard(self, link: ServerLink, message: Message) -> None:
        method, params = message["method"], params_of(message)
        if "id" in message:
            await self._want(link, message, params)
        elif method == "notifications/progress":
            asked = link.asked(params.get("progressToken"))
            if asked is not None and asked.token is not None:
                said = {**message, "params": {**params, "progressToken": asked.token}}
                await self._send(said, asked.related)
        elif method == "notifications/cancelled":
            await self._cancelled_by(link, message, params)
        elif SUBSCRIPTION in (meta := meta_of(params)):
            asked = link.asked(meta[SUBSCRIPTION])
            if asked is not None and asked.related is not None:
                said = {**message, "params": {**params, "_meta": {**meta, SUBSCRIPTION: asked.related}}}
                listening = self._listening.get(asked.related)
                await (listening.heard(link, said) if listening is not None else self._send(said, asked.related))
        else:
            await self._send(message, link.only_request())

    async def _want(self, link: ServerLink, message: Message, params: Message) -> None:
        self._wants += 1
        own, meta = f"ordain-{self._wants}", meta_of(params)
        token = meta.get("progressToken")
        if token is not None:
            message = {**message, "params": {**params, "_meta": {**meta, "progressToken": own}}}
        self._wanted[own] = _ServerRequest(link, message["id"], token)
        await self._send({**message, "id": own}, link.only_request())

    async def _cancelled_by(self, link: ServerLink, message: Message, params: Message) -> None:
        """A server takes back what it asked the client; or ends a stream that the client asked for."""
        request = params.get("requestId")
        for own, wanted in self._wanted.items():
            if wanted.link is link and wanted.id == request and type(wanted.id) is type(request):
                del self._wanted[own]
                await self._send({**message, "params": {**params, "requestId": own}}, None)
                return
        asked = link.asked(request)
        if asked is not None and asked.related is not None:
            await self._send({**message, "params": {**params, "requestId": asked.related}}, asked.related)

    async def _lost(self, link: ServerLink) -> None:
        """A server is gone: what it asked the client nobody waits for any more."""
        for own in [own for own, wanted in self._wanted.items() if wanted.link is link]:
            del self._wanted[own]
            if not self._closed:
                reason = {"requestId": own, "reason": "The server that asked has ended."}
                await self._send(notification("notifications/cancelled", reason), None)

    # --- Greeting ----------------------------------------------------------------------------------------------------

    async def _initialize(self, request: Id, params: Message) -> Message:
        await self._leave_other_era()
        answers = await self._each(lambda link: link.greet(params), self._arrived)
        said = {name: params_of({"params": one.get("result")}) for name, one in answers}
        for link in self._links.values():
            greeting = self._catalogue.last_known(link).get("greeting", {})
            if link.name not in said and greeting.get("protocolVersion") == params.get("protocolVersion"):
                said |= {link.name: greeting} if greeting else {}
        results = [(name, said[name]) for name in self._links if name in said]
        for link in self._links.values():
            link.greeting = params
        version = results[0][1].get("protocolVersion") if results else None
        self._own.greeting = {**params, "protocolVersion": version} if isinstance(version, str) else params
        if not results:
            await self._own.ready()
            return answer(request, alone(self._own.greeted, absent_words(self._links.values())))
        self._in_background(self._ready_own())
        own = OWN_CAPABILITIES[False]
        if self._late:
            own = merged_capabilities(own, {"tools": {"listChanged": True}})
        return answer(request, merged_greeting(results, own, absent_words(self._links.values())))

    async def _leave_other_era(self) -> None:
        """End what was begun in the modern era: a connection that was asked there does not take up this session."""
        asked = dict(self._discovering)
        for task in asked.values():
            task.cancel()
        await asyncio.gather(*asked.values(), return_exceptions=True)
        for request in asked:
            await self._send(error(request, METHOD_NOT_FOUND, "The client has greeted since."), request)
        for link in (*self._links.values(), self._own):
            if link.modern or link.probed or link is self._own:
                await link.close(wait=False)

    async def _arrived(self, link: ServerLink) -> None:
        if self._initialized:
            link.send(notification(_INITIALIZED))
        await self._send(notification(_CHANGED), None)

    async def _discover(self, request: Id, params: Message) -> Message:
        """Served in the modern era only where every server speaks it; else the client falls back to `initialize`."""
        answers = await self._each(lambda link: link.discover(params))
        results = [(name, said) for name, said in answers if said is not None]
        said = None
        if not answers:
            said = await self._own.discover(params)
            said = alone(said, absent_words(self._links.values())) if said is not None else None
        elif len(results) == len(answers):
            said = merged_discovery(results, OWN_CAPABILITIES[True], absent_words(self._links.values()))
        if said is None:
            return error(request, METHOD_NOT_FOUND, "Method not found", {"method": "server/discover"})
        self._in_background(self._ready_own())
        return answer(request, said)

    async def _each(
        self, ask: Callable[[ServerLink], Awaitable[_T]], arrived: Callable[[ServerLink], Awaitable[None]] | None = None
    ) -> list[tuple[str, _T]]:
        """What servers answer a client's first request. One that cannot be had is missing until it has `arrived`."""
        said: dict[str, _T] = {}

        async def asked(link: ServerLink) -> None:
            try:
                said[link.name] = await ask(link)
            except Unreached as gone:
                link.missing, link.why_missing = True, str(gone)
                if self._catalogue.forget(link.name) and link.arriving is not None:
                    await self._send(notification(_CHANGED), None)  # what was listed was what it had last time
                await link.close()
                self._front.say(f"The server `{link.name}` {gone}; its tools are missing.")
                return
            if link.missing and arrived is not None:
                link.missing = False
                await arrived(link)

        for late in self._late:
            late.cancel()
        for link in self._links.values():
            link.missing, link.why_missing, link.arriving = False, "", None
        tasks = {asyncio.create_task(asked(link)): link for link in self._links.values()}
        waiting = set(tasks)
        is_known = arrived is not None and all(self._front.known(name) for name in self._links)
        try:
            while waiting and not said:
                known_s = self._front.patience.known_s if is_known else None
                ended, waiting = await asyncio.wait(waiting, timeout=known_s, return_when=asyncio.FIRST_COMPLETED)
                if not ended:
                    break
            if waiting and not is_known:
                late_s = self._front.patience.late_s if arrived is not None else None
                _, waiting = await asyncio.wait(waiting, timeout=late_s)
        except asyncio.CancelledError:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            raise
        for task in tasks.keys() - waiting:
            task.result()
        self._late = waiting
        for task in waiting:
            tasks[task].missing, tasks[task].arriving = True, task
            self._background.add(task)
            task.add_done_callback(self._forget_late)
        return [(name, said[name]) for name in self._links if name in said]

    def _forget_late(self, task: asyncio.Task[None]) -> None:
        self._late.discard(task)
        self._background.discard(task)
        if not task.cancelled() and (failure := task.exception()) is not None:
            self._front.say(f"A server that came late could not take part: {type(failure).__name__}")

    async def _ready_own(self) -> None:
        try:
            await self._own.ready()
        except Unreached as gone:
            self._front.say(f"Ordain's own server {gone}.")

    def _in_background(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._background.add(task)
        task.add_done_callback(self._background.discard)

    async def _set_level(self, request: Id, params: Message) -> Message:
        asked = [link for link in self._links.values() if "logging" in (link.capabilities or {})]
        for link in asked:
            link.level = params
        said = await asyncio.gather(*(link.ask("logging/setLevel", params) for link in asked), return_exceptions=True)
        wrong = [one for one in said if isinstance(one, dict) and "error" in one]
        return {**wrong[0], "id": request} if wrong and len(wrong) == len(asked) else answer(request, {})

    # --- Calls -------------------------------------------------------------------------------------------------------

    async def _call(self, request: Id, message: Message) -> Message | None:
        params = params_of(message)
        name = params.get("name")
        if not isinstance(name, str):
            return error(request, INVALID_PARAMS, "A call names a tool.")
        if not isinstance(params.get("arguments"), dict | None):  # no rule could tell what they are
            return error(request, INVALID_PARAMS, "Arguments are an object.")
        entry = self._catalogue.tools.get(name)
        if entry is None:
            await self._catalogue.list_all("tools/list", envelope_of(params))
            entry = self._catalogue.tools.get(name)
        elif not (link := self._catalogue.link(entry.server)).listed:
            if link.arriving is not None:
                await asyncio.wait([link.arriving])
            if not await self._catalogue.list_anew(link, envelope_of(params)):
                return server_lost(request, link.name or "ordain", NOT_LISTED, modern=is_modern(params), tool=True)
            entry = self._catalogue.tools.get(name)
        if entry is None:
            only = self._catalogue.only()
            # Some servers would take a name for another that only looks like it.
            if only is None or folded(name) in map(folded, self._catalogue.tools):
                words = " ".join([f"Unknown tool: {name}", *absent_words(self._links.values())])
                return error(request, INVALID_PARAMS, words)
            return await self._pass(request, message, only, judged=name, tool=True)
        link = self._catalogue.link(entry.server)
        return await self._pass(request, _by_own_name(message, entry), link, judged=entry.said["name"], tool=True)

    async def _get_prompt(self, request: Id, message: Message) -> Message | None:
        params = params_of(message)
        name = params.get("name")
        entry = await self._catalogue.prompt(name, params)
        link = self._catalogue.link(entry.server) if entry is not None else self._catalogue.only()
        if link is None:
            return error(request, INVALID_PARAMS, f"Unknown prompt: {name}")
        message = _by_own_name(message, entry) if entry is not None else message
        return await self._pass(request, message, link, judged="prompts/get")

    async def _complete(self, request: Id, message: Message) -> Message | None:
        params = params_of(message)
        ref = params.get("ref")
        ref = ref if isinstance(ref, dict) else {}
        if ref.get("type") == "ref/prompt":
            entry = await self._catalogue.prompt(ref.get("name"), params)
            link = self._catalogue.link(entry.server) if entry is not None else self._catalogue.only()
            if entry is not None and entry.said["name"] != ref["name"]:
                message = {**message, "params": {**params, "ref": {**ref, "name": entry.said["name"]}}}
        else:
            link = await self._catalogue.reader_of(ref.get("uri"), params)
        if link is None:
            return error(request, INVALID_PARAMS, "Nobody here completes that.")
        return await self._pass(request, message, link, judged="completion/complete")

    # --- Passing on --------------------------------------------------------------------------------------------------

    async def _pass(
        self, request: Id, message: Message, link: ServerLink, *, judged: str | None = None, tool: bool = False
    ) -> Message | None:
        """Hand a request to a server, if it may be; `judged` is what it is known by there, None if it is not judged."""
        params = params_of(message)
        if judged is not None and link is not self._own:
            call, met = await self._judging.meet(link, judged, params, tool=tool)
            if met.refused:
                shaped = tool and self._catalogue.is_shaped(link, judged)
                return refusal(request, call, met, self._front.told, modern=is_modern(params), tool=tool, shaped=shaped)
        try:
            await link.ready()
            self._hand_over(request, message, link, tool=tool)
        except Unreached as gone:
            return server_lost(request, link.name or "ordain", str(gone), modern=is_modern(params), tool=tool)
        return None

    def _passed_at_once(self, request: Id, message: Message) -> bool:
        """Hand over a call that is open, where nothing has to be waited for; whether it was. Most are such calls."""
        params = params_of(message)
        name = params.get("name")
        entry = self._catalogue.tools.get(name) if isinstance(name, str) else None
        link = self._catalogue.link(entry.server) if entry is not None else None
        if entry is None or link is None or not link.is_open or not link.listed:
            return False
        if not isinstance(params.get("arguments"), dict | None):
            return False
        if link is not self._own and not self._judging.is_open(link, entry.said["name"], params):
            return False
        self._hand_over(request, _by_own_name(message, entry), link, tool=True)
        return True

    def _hand_over(self, request: Id, message: Message, link: ServerLink, *, tool: bool) -> None:
        modern = is_modern(params_of(message))

        async def answered(said: Message | None) -> None:
            if self._under.get(request) == under:
                del self._under[request]
            if said is None:
                said = server_lost(request, link.name or "ordain", LOST, modern=modern, tool=tool)
            else:
                task = said.get("result")
                if isinstance(task, dict) and task.get("resultType") == "task" and isinstance(task.get("taskId"), str):
                    self._jobs[task["taskId"]] = link
                    if len(self._jobs) > TASKS_MAX:
                        del self._jobs[next(iter(self._jobs))]
                said = {**said, "id": request}
            if not self._closed:
                await self._send(said, request)

        under = self._under[request] = link, link.request(message, answered, request)

    async def _listen(self, request: Id, message: Message) -> Message | None:
        links = [link for link in (*self._links.values(), self._own) if not link.missing]
        gone = await asyncio.gather(*(link.ready() for link in links), return_exceptions=True)
        there = [link for link, fault in zip(links, gone, strict=True) if fault is None and link.is_open]
        if not there:
            return error(request, INTERNAL_ERROR, "There is nobody who could be listened to.")
        stream = ChangeStream(request, self._send, lambda: self._listening.pop(request, None))
        self._listening[request] = stream
        stream.begin(message, there, self._front.patience.acknowledge_s)
        return None
