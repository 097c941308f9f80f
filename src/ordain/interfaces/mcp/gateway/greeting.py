"""What a client is told that it speaks with: one server's own words, or what several have in common. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ordain import __version__

__all__ = ["merged_capabilities", "merged_discovery", "merged_greeting"]

_INFO = {"name": "ordain", "title": "Ordain gateway", "version": __version__}
_INFO_KEY = "io.modelcontextprotocol/serverInfo"
Answers = Sequence[tuple[str, Mapping[str, Any]]]
"""What servers answered, by name."""


def merged_greeting(answers: Answers, own: Mapping[str, Any]) -> dict[str, Any]:
    """The answer to `initialize`: of a single server its own, and what our own tools add to it."""
    capabilities = _capabilities(answers, own)
    if len(answers) == 1:
        return {**answers[0][1], "capabilities": capabilities}
    versions = [version for _, one in answers if isinstance(version := one.get("protocolVersion"), str)]
    return {
        "protocolVersion": min(versions),
        "capabilities": capabilities,
        "serverInfo": _INFO,
        **_instructions(answers),
    }


def merged_discovery(answers: Answers, own: Mapping[str, Any]) -> dict[str, Any] | None:
    """The same for `server/discover`; None where no version is spoken by all."""
    versions = [version for version in _versions(answers[0][1]) if all(version in _versions(one) for _, one in answers)]
    if not versions:
        return None
    capabilities = _capabilities(answers, own)
    if len(answers) == 1:
        return {**answers[0][1], "capabilities": capabilities}
    return {
        "resultType": "complete",
        "supportedVersions": versions,
        "capabilities": capabilities,
        "ttlMs": 0,
        "cacheScope": "private",
        "_meta": {_INFO_KEY: _INFO},
        **_instructions(answers),
    }


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


def _instructions(answers: Answers) -> dict[str, str]:
    said = [f"{name}: {words}" for name, one in answers if isinstance(words := one.get("instructions"), str) and words]
    return {"instructions": "\n\n".join(said)} if said else {}
