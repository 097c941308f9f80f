"""Lists of several servers as one, and the names by which what they list is known to a client. Pure.

A name passes unchanged unless another server has it too, compared in the form to which hosts bring names: then it is
`SERVER__name` for each of them. So is one that begins as another server's would then: it could be taken for that.
Ours always keep theirs: refusals name them.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

OWN = ""
"""What our own server is called where servers are told apart: no other one can be called so."""
_NOT_PLAIN = re.compile(r"[^A-Za-z0-9_]")
_SERVED = "__"


class ServerListing(NamedTuple):
    """What one server listed."""

    server: str
    entries: Sequence[Any]


class ListedEntry(NamedTuple):
    """One thing that a server listed, as it listed it."""

    server: str
    said: Mapping[str, Any]


def mangled(name: str) -> str:
    """A name as the strictest host writes it: two that are the same here may be one there."""
    return _NOT_PLAIN.sub("_", name)


def named(lists: Iterable[ServerListing]) -> tuple[dict[str, ListedEntry], list[str]]:
    """What there is, by the names for clients, in order; and what cannot be named, because even its longer name is
    another's."""
    lists = [ServerListing(one.server, [said for said in one.entries if _name(said) is not None]) for one in lists]
    ours = {mangled(said["name"]) for one in lists if one.server == OWN for said in one.entries}
    had = Counter(name for one in lists for name in {mangled(said["name"]) for said in one.entries})
    begins = {one.server: f"{mangled(one.server)}{_SERVED}" for one in lists if one.server != OWN}
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


def _name(said: Any) -> str | None:
    name = said.get("name") if isinstance(said, dict) else None
    return name if isinstance(name, str) else None


def merged_list(key: str, entries: Sequence[Any], answers: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The answer to a client that asked for a list. Of one server it is that server's own, with more in it; of several,
    what all of them say: for how long it may be kept, and for whom."""
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
