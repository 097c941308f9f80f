"""What the servers of a session list, as one list. A name passes unchanged unless another server has it too, as hosts
bring names, or it begins as another server's would then: it becomes `SERVER__name`. Ours keep theirs: refusals name
them."""

from __future__ import annotations

import asyncio
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from ordain.interfaces.gateway.front import Front
from ordain.interfaces.gateway.link import GREET_S, ServerLink
from ordain.interfaces.gateway.wire import Message, envelope_of
from ordain.ports.tool import Unreached

PAGES_MAX = 100
OWN = ""
"""What our own server is called where servers are told apart: no other one can be called so."""
_NOT_PLAIN = re.compile(r"[^A-Za-z0-9_]")
_SERVED = "__"
_OURS = "ordain:"
LISTS = {
    "tools/list": "tools",
    "resources/list": "resources",
    "resources/templates/list": "resourceTemplates",
    "prompts/list": "prompts",
}


class ListedEntry(NamedTuple):
    """One thing that a server listed, as it listed it."""

    server: str
    said: Mapping[str, Any]


class _Listing(NamedTuple):
    """What a server listed."""

    entries: list[Any]
    first: Message | None
    at: int
    """How often its tools had become others then."""


class Catalogue:
    """What is known of the servers' lists in one session."""

    def __init__(self, front: Front, links: Mapping[str, ServerLink], own: ServerLink) -> None:
        self._front, self._links, self._own = front, links, own
        self._listed: dict[str, Sequence[Any]] = {}
        self.tools: dict[str, ListedEntry] = {}
        self.prompts: dict[str, ListedEntry] = {}
        self._resources: dict[str, str] = {}
        self._templates: dict[str, str] = {}

    def link(self, server: str) -> ServerLink:
        return self._own if server == OWN else self._links[server]

    def only(self) -> ServerLink | None:
        """The only server, where there is one: what nobody else can be meant by is for it."""
        return next(iter(self._links.values())) if len(self._links) == 1 else None

    def last_known(self, link: ServerLink) -> Mapping[str, Any]:
        """What a server said last time, as long as it is not there yet."""
        is_late = link.missing and link.arriving is not None and not link.arriving.done()
        return self._front.known(link.name) if is_late else {}

    def forget(self, server: str) -> bool:
        """Have a server's tools listed no more; whether they were."""
        return self._listed.pop(server, None) is not None

    async def prompt(self, name: Any, params: Message) -> ListedEntry | None:
        """The prompt that a client knows by this name."""
        if name not in self.prompts:
            await self.list_all("prompts/list", envelope_of(params))
        return self.prompts.get(str(name))

    async def reader_of(self, uri: Any, params: Message) -> ServerLink | None:
        """Whose a resource is: as it was listed, or else by the template that fits it best."""
        if not isinstance(uri, str):
            return self.only()
        if _is_ours(uri):
            return self._own
        server = self._resources.get(uri, self._templates.get(uri))
        if server is None and self.only() is None:
            await self.list_all("resources/list", envelope_of(params))
            await self.list_all("resources/templates/list", envelope_of(params))
            server = self._resources.get(uri, self._templates.get(uri))
            fits = [one for one in self._templates if uri.startswith(one.partition("{")[0])]
            if server is None and fits:
                server = self._templates[max(fits, key=lambda one: len(one.partition("{")[0]))]
        return self.link(server) if server is not None else self.only()

    def is_shaped(self, link: ServerLink, name: str) -> bool:
        """Whether a tool says what shape its results have."""
        mine = (one.said for one in self.tools.values() if one.server == link.name and one.said["name"] == name)
        return any("outputSchema" in said for said in mine)

    async def list_all(self, method: str, params: Message) -> Message:
        """One list of what all servers list, and what is known by which name from now on."""
        key = LISTS[method]
        for link in self._links.values():
            if known := self.last_known(link).get("tools"):
                if method == "tools/list":
                    self._listed[link.name] = known
                elif link.arriving is not None:
                    await asyncio.wait([link.arriving])
        asked = [link for link in (*self._links.values(), self._own) if self._has(link, method.partition("/")[0])]
        pages = await asyncio.gather(*(self._pages(link, method, key, params) for link in asked))
        said = list(zip(asked, pages, strict=True))
        theirs = [one.first for link, one in said if link is not self._own]
        answers = [one for one in theirs or [one.first for one in pages] if one is not None] or [{}]
        if method == "tools/list":
            for link, one in said:
                self._know(link, one)
            entries = self._name_tools()
        elif method == "prompts/list":
            self.prompts, entries = self._named([(link.name, one.entries) for link, one in said])
        else:
            where = self._resources if method == "resources/list" else self._templates
            field = "uri" if method == "resources/list" else "uriTemplate"
            entries = []
            for link, one in ((link, one) for link, listed in said for one in listed.entries):
                uri = one.get(field) if isinstance(one, dict) else None
                if isinstance(uri, str) and _is_ours(uri) and link is not self._own:
                    continue  # what it says would be taken for ours
                entries.append(one)
                if isinstance(uri, str):
                    where.setdefault(uri, link.name)
        return merged_list(key, entries, answers)

    def _know(self, link: ServerLink, said: _Listing) -> None:
        self._listed[link.name] = said.entries
        if said.first is not None and link.greeted and link is not self._own:
            self._front.keep(link.name, {"greeting": link.greeted, "tools": said.entries})
        link.known_at = said.at
        link.tools = {one["name"]: one for one in filter(_is_named, said.entries)}

    def _name_tools(self) -> list[Any]:
        """All tools as they are told; from now on they are known by these names."""
        listed = [(name, self._listed[name]) for name in (*self._links, OWN) if name in self._listed]
        self.tools, entries = self._named(listed)
        return entries

    def _named(self, lists: Sequence[tuple[str, Sequence[Any]]]) -> tuple[dict[str, ListedEntry], list[Any]]:
        found, left_out = named(lists)
        for one in left_out:
            self._front.say(f"`{one}` has a name that another one has too, and cannot be reached.")
        shown = [one.said if one.said["name"] == name else {**one.said, "name": name} for name, one in found.items()]
        return found, shown

    async def list_anew(self, link: ServerLink, params: Message) -> bool:
        """Have a server list its tools again, which may be others now; whether it did."""
        said = await self._pages(link, "tools/list", "tools", params)
        if said.first is None:
            return False
        self._know(link, said)
        self._name_tools()
        return True

    def _has(self, link: ServerLink, what: str) -> bool:
        if link is self._own:
            return True
        # In the modern era nobody needs to ask first.
        return not link.missing and (link.capabilities is None or what in link.capabilities)

    async def _pages(self, link: ServerLink, method: str, key: str, params: Message) -> _Listing:
        entries: list[Any] = []
        first: Message | None = None
        at = -1
        try:
            async with asyncio.timeout(GREET_S):
                await link.ready()
                at = link.changes
                for _ in range(PAGES_MAX):
                    said = (await link.ask(method, params)).get("result")
                    if not isinstance(said, dict):
                        break
                    page = said.get(key)
                    entries += page if isinstance(page, list) else []
                    first = said if first is None else first
                    if said.get("nextCursor") is None:
                        break
                    params = {**params, "cursor": said["nextCursor"]}
        except (Unreached, TimeoutError) as gone:
            words = str(gone) or f"did not answer within {GREET_S:g} s"
            self._front.say(f"The server `{link.name or 'ordain'}` {words}; what it has is missing.")
        return _Listing(entries, first, at)


def _is_named(said: Any) -> bool:
    return isinstance(said, dict) and isinstance(said.get("name"), str)


def _is_ours(uri: str) -> bool:
    return uri.strip().casefold().startswith(_OURS)


def mangled(name: str) -> str:
    """A name as the strictest host writes it: two that are the same here may be one there."""
    return _NOT_PLAIN.sub("_", name)


def named(lists: Iterable[tuple[str, Sequence[Any]]]) -> tuple[dict[str, ListedEntry], list[str]]:
    """What servers listed, by the names for clients, in order; and what has no name that is not another's."""
    lists = [(server, list(filter(_is_named, entries))) for server, entries in lists]
    ours = {mangled(said["name"]) for server, entries in lists if server == OWN for said in entries}
    had = Counter(name for _, entries in lists for name in {mangled(said["name"]) for said in entries})
    begins = {server: f"{mangled(server)}{_SERVED}" for server, _ in lists if server != OWN}
    found: dict[str, ListedEntry] = {}
    owners: dict[str, str] = {}
    left_out: list[str] = []
    for server, entries in lists:
        for said in entries:
            name = said["name"]
            others = tuple(begin for other, begin in begins.items() if other != server)
            if server != OWN and (had[mangled(name)] > 1 or mangled(name).startswith(others)):
                name = f"{server}{_SERVED}{name}"
            owner = owners.setdefault(mangled(name), server)
            if owner != server or name in found or (server != OWN and mangled(name) in ours):
                left_out.append(f"{server}:{said['name']}")
            else:
                found[name] = ListedEntry(server, said)
    return found, left_out


def merged_list(key: str, entries: Sequence[Any], answers: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The answer to a client that asked for a list: one server's own with more in it, or what all of them say."""
    rest = dict(answers[0]) if len(answers) == 1 else {}
    if len(answers) > 1:
        if any("resultType" in one for one in answers):
            rest["resultType"] = "complete"
        kept = [one.get("ttlMs") for one in answers]
        if any(one is not None for one in kept):
            rest["ttlMs"] = min((one for one in kept if isinstance(one, int)), default=0)
            rest["cacheScope"] = "public" if all(one.get("cacheScope") == "public" for one in answers) else "private"
    rest.pop("nextCursor", None)
    return {**rest, key: list(entries)}
