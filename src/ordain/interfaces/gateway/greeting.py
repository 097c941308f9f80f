"""What a client is told that it speaks with: one server's own words, or what several have in common. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ordain import __version__
from ordain.interfaces.gateway.link import ServerLink
from ordain.interfaces.mcp.texts import mcp_texts

_INFO = {"name": "ordain", "title": "Ordain gateway", "version": __version__}
_INFO_KEY = "io.modelcontextprotocol/serverInfo"
_PLAIN = {"tools": {"listChanged": False}, "prompts": {"listChanged": False}, "completions": {}}
OWN_CAPABILITIES: Mapping[bool, Mapping[str, Any]] = {
    False: {**_PLAIN, "resources": {"subscribe": True, "listChanged": False}},
    True: {
        **_PLAIN,
        "resources": {"subscribe": True, "listChanged": True},
        "extensions": {"io.modelcontextprotocol/tasks": {}},
    },
}
"""What our own server can do, by whether the client speaks the modern era: known before it is started."""
_NOT_YET = "is not there yet; its tools are listed once it is"
Answers = Sequence[tuple[str, Mapping[str, Any]]]
"""What servers answered, by name."""


def merged_greeting(answers: Answers, own: Mapping[str, Any], absent: Sequence[str] = ()) -> dict[str, Any]:
    """The answer to `initialize`: of a single server its own, and what our own tools add to it. `absent` says in
    sentences which servers have no part in the session."""
    capabilities = _capabilities(answers, own)
    if len(answers) == 1:
        return {**answers[0][1], "capabilities": capabilities, **_instructions(answers, absent)}
    versions = [version for _, one in answers if isinstance(version := one.get("protocolVersion"), str)]
    return {
        "protocolVersion": min(versions),
        "capabilities": capabilities,
        "serverInfo": _INFO,
        **_instructions(answers, absent),
    }


def merged_discovery(answers: Answers, own: Mapping[str, Any], absent: Sequence[str] = ()) -> dict[str, Any] | None:
    """The same for `server/discover`; None where no version is spoken by all."""
    versions = [version for version in _versions(answers[0][1]) if all(version in _versions(one) for _, one in answers)]
    if not versions:
        return None
    capabilities = _capabilities(answers, own)
    if len(answers) == 1:
        return {**answers[0][1], "capabilities": capabilities, **_instructions(answers, absent)}
    return {
        "resultType": "complete",
        "supportedVersions": versions,
        "capabilities": capabilities,
        "ttlMs": 0,
        "cacheScope": "private",
        "_meta": {_INFO_KEY: _INFO},
        **_instructions(answers, absent),
    }


def absent_words(links: Iterable[ServerLink]) -> list[str]:
    """What is told of the servers that have no part in the session."""
    missing = [link for link in links if link.missing]
    return [
        f"The server `{link.name}` {f'{link.why_missing}; its tools are missing' if link.why_missing else _NOT_YET}."
        for link in missing
    ]


def alone(own: Mapping[str, Any], absent: Sequence[str]) -> dict[str, Any]:
    """What our own server says where no other is there, and why that is so."""
    return {**own, **({"instructions": "\n\n".join([mcp_texts()["instructions"], *absent])} if absent else {})}


def _versions(answered: Mapping[str, Any]) -> list[str]:
    found = answered.get("supportedVersions")
    return [one for one in found if isinstance(one, str)] if isinstance(found, list) else []


def _capabilities(answers: Answers, own: Mapping[str, Any]) -> dict[str, Any]:
    merged: dict[str, Any] = {}
    for _, one in (*answers, (None, {"capabilities": own})):
        said = one.get("capabilities")
        merged = merged_capabilities(merged, said if isinstance(said, dict) else {})
    return merged


def merged_capabilities(one: Mapping[str, Any], other: Mapping[str, Any]) -> dict[str, Any]:
    """What either can do."""
    merged = dict(one)
    for key, value in other.items():
        before = merged.get(key)
        if isinstance(before, dict) and isinstance(value, dict):
            merged[key] = merged_capabilities(before, value)
        elif before is None or before is False:
            merged[key] = value
    return merged


def _instructions(answers: Answers, absent: Sequence[str]) -> dict[str, str]:
    """What each server says, under its name where there are several, and what we do."""
    said = [(name, words) for name, one in answers if isinstance(words := one.get("instructions"), str) and words]
    theirs = [words if len(answers) == 1 else f"{name}: {words}" for name, words in said]
    ours = (mcp_texts()["instructions"], mcp_texts()["guarded"])
    return {"instructions": "\n\n".join([*theirs, *ours, *absent])}
