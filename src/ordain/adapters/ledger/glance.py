"""A glance at a ledger for whoever must answer at once: what a person trusted last, approved plans, and names.

It loads nothing that knows events, and believes what `reader` believes: every chain must be whole. Whatever is out of
the ordinary (an older format, an enrolled key, an unknown event, damage) it leaves to those who read it in full: None.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from hashlib import sha256
from pathlib import Path
from typing import NamedTuple, TypeVar

import apsw
import msgspec

from ordain.adapters.ledger import database
from ordain.core.ledger.link import Row, Tip, verify
from ordain.core.plan.canonical import plan_from_bytes, plan_id
from ordain.core.plan.model import Plan, nested_plan_of
from ordain.core.plan.value import Instant, PlanId
from ordain.core.text.problem import Refused

BUSY_TIMEOUT_MS = 2_000
PLANS_MAX = 50
_TRUSTED, _PREPARED = "config_trusted", "plan_prepared"
_STAND = "SELECT opened, size, head, last FROM streams WHERE stream = ?"
_OPEN = "SELECT body FROM plans WHERE open = 1 ORDER BY opened DESC LIMIT ?"
_NEWEST = "SELECT body FROM plans ORDER BY opened DESC LIMIT ?"
_PASSED_OVER = ("workspace_opened", "signature_refused", "work_stopped", "stop_lifted")
"""Events of the workspace's stream that change nothing about what is trusted, as long as nobody is enrolled."""


T = TypeVar("T")


class Glance(NamedTuple):
    trusted: str | None
    """The configuration that a person trusted last."""


class _GlancedBody(msgspec.Struct):
    stream: str
    seq: int
    event: msgspec.Raw


class _Told(msgspec.Struct):
    """An event, as far as it matters here."""

    type: str
    text: str = ""
    digest: str = ""
    plan_id: str = ""
    plan: msgspec.Raw = msgspec.Raw(b"")


class _Expiry(msgspec.Struct):
    expires_at: int


class _Permission(msgspec.Struct):
    approval: _Expiry


class _State(msgspec.Struct):
    stage: str | None
    plan_id: str = ""
    document: str | None = None
    permissions: dict[str, _Permission] = {}
    runs: dict[str, str | None] = {}
    continues: str | None = None
    """A successor is proposed over the run that is open; who reads it in full tells the two apart."""


class _Summary(msgspec.Struct):
    """What is kept beside the chain about a plan (`core.summary`)."""

    stream: str
    state: _State
    fold: int = 1


def glance(path: Path) -> Glance | None:
    """What this ledger says at a glance; None where only somebody who reads it in full can tell."""
    return _looking(path, _trusted)


def approved_plans(path: Path, now: Instant) -> list[tuple[PlanId, bool, Plan]] | None:
    """The newest plans that a person has approved and that did not end, and whether each runs; None as above."""
    return _looking(path, lambda connection: _approved(connection, now))


class PlanNames(NamedTuple):
    """What a plan and its runs are called. Shown to who types a command, and believed by nobody."""

    stream: str
    plan_id: PlanId
    document: str | None
    runs: tuple[str, ...]


def plan_names(path: Path) -> list[PlanNames]:
    """The newest plans first."""
    return _looking(path, _names, make_nothing=True) or []


def step_names(path: Path, stream: str) -> list[str]:
    """The steps of a lineage's newest plan as its run calls them."""

    def named(connection: apsw.Connection) -> list[str]:
        prepared = [event for event in _events(connection, stream) if event.type == _PREPARED][-1:]
        return [name for event in prepared for name in _steps(plan_from_bytes(bytes(event.plan)))]

    return _looking(path, named, make_nothing=True) or []


def _names(connection: apsw.Connection) -> list[PlanNames]:
    stored = [msgspec.json.decode(body, type=_Summary) for (body,) in connection.execute(_NEWEST, (PLANS_MAX,))]
    return [
        PlanNames(one.stream, PlanId(one.state.plan_id), one.state.document, (*reversed(one.state.runs),))
        for one in stored
    ]


def _steps(plan: Plan, inside: str = "") -> Iterator[str]:
    for step in (*plan.steps, *plan.fallbacks):
        yield f"{inside}{step.id}"
        if (inner := nested_plan_of(step)) is not None:
            yield from _steps(inner, f"{inside}{step.id}/")


def _looking(path: Path, look: Callable[[apsw.Connection], T | None], *, make_nothing: bool = False) -> T | None:
    """What is seen there. `make_nothing`: not even the files that SQLite makes beside a log to read it."""
    with suppress(apsw.Error, OSError, msgspec.MsgspecError, TypeError, ValueError, Refused):
        path = database.real_place(path)
        database.inspect(path)
        connect = database.connect_at_rest if make_nothing else database.connect_to_look
        with closing(connect(path, BUSY_TIMEOUT_MS)) as connection:
            if database.format_of(path, connection) == database.FORMAT:
                connection.execute("BEGIN")
                return look(connection)
    return None  # who reads it in full says what is wrong with it


def _trusted(connection: apsw.Connection) -> Glance | None:
    events = _events(connection, "workspace")
    if not events or not all(map(_plain, events)):
        return None
    return Glance(next((event.text for event in reversed(events) if event.type == _TRUSTED), None))


def _approved(connection: apsw.Connection, now: Instant) -> list[tuple[PlanId, bool, Plan]] | None:
    stored = [msgspec.json.decode(body, type=_Summary) for (body,) in connection.execute(_OPEN, (PLANS_MAX,))]
    if any(one.fold != database.FOLD or one.state.continues is not None for one in stored):
        return None
    found = []
    for one in reversed(stored):
        running = None in one.state.runs.values()
        good = any(now < permission.approval.expires_at for permission in one.state.permissions.values())
        if running or (one.state.stage == "approved" and good):
            prepared = [event for event in _events(connection, one.stream) if event.type == _PREPARED][-1:]
            plans = [(PlanId(event.plan_id), running, plan_from_bytes(bytes(event.plan))) for event in prepared]
            if not plans or any(plan_id(plan) != identity for identity, _, plan in plans):
                return None
            found += plans
    return found


def _events(connection: apsw.Connection, stream: str) -> list[_Told]:
    """The events of a stream; raises ValueError where its chain is not whole."""
    if (found := database.first(connection, _STAND, (stream,))) is None:
        return []
    opened, size, head, last = found
    stored = [Row(*row) for row in connection.execute(database.WALK, (opened, last, 0))][::-1]
    bodies = [msgspec.json.decode(row.body, type=_GlancedBody) for row in stored]
    whole = verify(stored, end=Tip(size, head)) is None
    if not whole or any((body.stream, body.seq) != (stream, at) for at, body in enumerate(bodies, 1)):
        raise ValueError(stream)
    return [msgspec.json.decode(body.event, type=_Told) for body in bodies]


def _plain(event: _Told) -> bool:
    """Whether this changes nothing about what is trusted but in the plainest way."""
    if event.type != _TRUSTED:
        return event.type in _PASSED_OVER
    return event.digest == f"sha256:{sha256(event.text.encode()).hexdigest()}"
