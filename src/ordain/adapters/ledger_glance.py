"""A glance at a ledger for whoever must answer at once: what a person trusted last, and whether a plan may be meant.

It loads nothing that knows events, which takes longer than the answer. It believes what `ledger_reading` believes and
no more: the workspace's chain must be whole. Whatever is out of the ordinary (an older format, an enrolled key, an
event that is not known here, damage) it leaves to those who read the ledger in full, and says so with None.
"""

from __future__ import annotations

from contextlib import closing
from hashlib import sha256
from pathlib import Path
from typing import Any, NamedTuple

import apsw
import msgspec

from ordain.adapters.ledger_file import FORMAT, WALK, connect_to_look, first, format_of, inspect, real_place, rows
from ordain.core.link import Row, Tip, verify
from ordain.core.problem import Refused

__all__ = ["Glance", "glance"]

BUSY_TIMEOUT_MS = 2_000
PLANS_MAX = 50
"""How many of the newest open plans are looked at."""
_STREAM = "workspace"
_STAND = "SELECT opened, size, head, last FROM streams WHERE stream = ?"
_OPEN = "SELECT body FROM plans WHERE open = 1 ORDER BY opened DESC LIMIT ?"
_PASSED_OVER = ("workspace_opened", "signature_refused")
"""Events of the workspace's stream that change nothing about what is trusted, as long as nobody is enrolled."""


class Glance(NamedTuple):
    """What was seen."""

    trusted: str | None
    """The configuration that a person trusted last."""
    approved: bool
    """Whether a plan is approved or being carried out, as far as a projection can tell."""


class _Body(msgspec.Struct):
    stream: str
    seq: int
    event: dict[str, Any]


class _State(msgspec.Struct):
    stage: str | None
    runs: dict[str, str | None] = {}


class _Summary(msgspec.Struct):
    state: _State


def glance(path: Path) -> Glance | None:
    """What this ledger says at a glance; None where only somebody who reads it in full can tell."""
    path = real_place(path)
    try:
        inspect(path)
        with closing(connect_to_look(path, BUSY_TIMEOUT_MS)) as connection:
            if format_of(path, connection) != FORMAT:
                return None
            connection.execute("BEGIN")
            events = _workspace(connection)
            return Glance(_trusted(events), _approved(connection)) if events is not None else None
    except (apsw.Error, OSError, msgspec.MsgspecError, TypeError, ValueError, KeyError, Refused):
        return None  # who reads it in full says what is wrong with it


def _workspace(connection: apsw.Connection) -> list[dict[str, Any]] | None:
    """The events of the workspace's stream; None where it is not whole, or has one that is not known here."""
    found = first(connection, _STAND, (_STREAM,))
    if found is None:
        return None
    opened, size, head, last = found
    stored = [Row(*row) for row in rows(connection, WALK, (opened, last, 0))][::-1]
    if verify(stored, end=Tip(size, head)) is not None:
        return None
    bodies = [msgspec.json.decode(row.body, type=_Body) for row in stored]
    if any((body.stream, body.seq) != (_STREAM, row.seq) for body, row in zip(bodies, stored, strict=True)):
        return None
    events = [body.event for body in bodies]
    return events if all(_plain(event) for event in events) else None


def _plain(event: dict[str, Any]) -> bool:
    if event["type"] != "config_trusted":
        return event["type"] in _PASSED_OVER
    return bool(event["digest"] == f"sha256:{sha256(event['text'].encode()).hexdigest()}")


def _trusted(events: list[dict[str, Any]]) -> str | None:
    return next((str(event["text"]) for event in reversed(events) if event["type"] == "config_trusted"), None)


def _approved(connection: apsw.Connection) -> bool:
    summaries = (msgspec.json.decode(body, type=_Summary) for (body,) in rows(connection, _OPEN, (PLANS_MAX,)))
    return any(one.state.stage in ("approved", "executing") or None in one.state.runs.values() for one in summaries)
