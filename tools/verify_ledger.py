#!/usr/bin/env python3
"""Verify a ledger of Ordain without Ordain: python3 verify_ledger.py LEDGER

One file, Python's standard library only, nothing of Ordain's, to be read from top to bottom by whoever wants to rely on
it. LEDGER is a `ledger.db` (format 1 or 2; opened read-only) or what `ordain audit export` wrote. It is looked at in
order of arrival, and every sentence printed is one thing that does not fit:

  missing     the order of arrival has a gap
  chain       an event is not what was recorded, or not where
  unreadable  an event fits its chain and cannot be understood
  stray       an event is in a stream where its kind does not belong
  plan        a plan's bytes do not have the digest they are called by
  commitment  a plan and a run of it do not say the same about each other
  approval    a run was started that its approval did not permit: used, expired, revoked, for another plan …
  decision    a person's answer to a run came through no terminal, does not do what its word says, or was moved
  signature   a signature is missing where one is needed, or is not good
  checkpoint  the ledger is not the one that an approver, or whoever kept a checkpoint, saw
  history     kept outputs were removed that no trusted `[retention]` let go
  output      what is kept beside the events is not what was sealed in them (a ledger.db only)
  table       the file's table of streams says something else than the events

What nobody can tell from a ledger alone: whether its end was cut off after the last checkpoint that somebody kept, and
whether events that no signed approval came after were written by Ordain or by whoever else could write the file.
Whether a run obeyed the rules of plans and steps is looked at by `ordain audit verify`, not here.

Exit status: 0 all fits · 1 something does not · 2 it could not be looked at.
"""

from __future__ import annotations

import argparse
import base64
import functools
import hashlib
import hmac
import json
import os
import re
import sqlite3
import sys
import tomllib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

# --- What is stored --------------------------------------------------------------------------------------------------


class Row(NamedTuple):
    """One event: when it arrived among all, its stream, its number there, its bytes, and the chain's head after it."""

    position: int
    stream: str
    seq: int
    body: bytes
    head: bytes


class Stored(NamedTuple):
    """A whole ledger, and what the file says about it besides: the table of streams, or the head of an export."""

    rows: Iterable[Row]
    streams: dict[str, tuple[int, bytes]] | None = None
    checkpoint: tuple[int, bytes] | None = None
    database: tuple[sqlite3.Connection, int] | None = None
    """The file and its format, seen as it was at one moment."""


APPLICATION_ID = 0x4F726461
FORMAT_1 = """
SELECT NULL, events.stream, seq, body, events.head FROM events LEFT JOIN streams ON streams.stream = events.stream
ORDER BY opened IS NULL, opened, events.stream, seq
"""
FORMAT_2 = "SELECT position, stream, seq, body, head FROM events ORDER BY position"


def read(path: Path) -> Stored:
    """The ledger in a file, whichever of the two it is; raises ValueError where it is none."""
    with path.open("rb") as file:
        database = file.read(16) == b"SQLite format 3\0"
    return read_database(path) if database else read_export(path)


def read_database(path: Path) -> Stored:
    connection, version = opened_database(path)
    connection.execute("BEGIN")  # whatever is recorded or removed while it is looked at, this sees one moment
    table = connection.execute("SELECT stream, size, head FROM streams").fetchall()
    streams = {stream: (size, head) for stream, size, head in table}
    return Stored(database_rows(connection, version), streams, database=(connection, version))


def opened_database(path: Path) -> tuple[sqlite3.Connection, int]:
    connection = sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)
    try:
        connection.execute("PRAGMA user_version").fetchone()
    except sqlite3.OperationalError:
        # SQLite wants to make a file beside a write-ahead log even to read it; where the log is empty it need not.
        log = path.with_name(path.name + "-wal")
        if log.exists() and log.stat().st_size:
            raise
        connection = sqlite3.connect(f"{path.absolute().as_uri()}?immutable=1", uri=True)
    mark, version = (connection.execute(f"PRAGMA {name}").fetchone()[0] for name in ("application_id", "user_version"))
    if mark != APPLICATION_ID or version not in (1, 2):
        raise ValueError("it is not a ledger of Ordain, or of a format that came later")
    return connection, version


SEALS = re.compile(rb'"(?!env_)\w*seal":"(hmac-sha256(?:-whole)?:[0-9a-f]{64})"')
"""Under every key that ends so; the environment alone is sealed and never kept."""
ANY_SEAL = re.compile(rb"hmac-sha256(?:-whole)?:[0-9a-f]{64}")


def kept_outputs(stored: Stored, findings: Iterable[Finding] = ()) -> dict[str, list[tuple[str, int]]] | None:
    """The events whose kept outputs are intact, changed, removed by `[retention]`, or not here for another reason; None
    for an export, which has none. An event about which something was found removed nothing."""
    if stored.database is None or stored.database[1] == 1:
        return None
    connection, version = stored.database
    tables = {name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
    keys = "SELECT value FROM secret WHERE name = 'seal'"
    (key,) = (connection.execute(keys).fetchone() if "secret" in tables else None) or (None,)
    found: dict[str, list[tuple[str, int]]] = {"intact": [], "changed": [], "removed": [], "left_out": []}
    gone: dict[str, tuple[str, int]] = {}
    removed: set[str] = set()
    doubted = {finding.seq for finding in findings if finding.stream == "retention"}
    seen = set()

    def sealed(body: bytes) -> str:
        return "hmac-sha256:" + hmac.digest(key, body, "sha256").hex() if key is not None else ""

    def is_gone(seal: str) -> bool:
        """Whether nothing of it is here. A table that is gone was taken away."""
        some = "SELECT 1 FROM kept WHERE seal = ? OR (seal >= ? AND seal < ?)"
        return "kept" in tables and connection.execute(some, (seal, f"{seal}/0", f"{seal}/:")).fetchone() is None

    def kept(name: str) -> bytes | None:
        read = "SELECT body FROM kept WHERE seal = ?"
        row = connection.execute(read, (name,)).fetchone() if "kept" in tables else None
        return bytes(row[0]) if row is not None else None

    for row in list(database_rows(connection, version)):
        if row.stream == "retention" and row.seq not in doubted:
            removed |= set(parse(row.body)["event"]["seals"])
        named = {name.decode() for name in SEALS.findall(row.body)}
        removed -= named  # named again, so kept again
        for seal in named - seen:
            seen.add(seal)
            first = kept(seal if not seal.startswith("hmac-sha256-whole:") else f"{seal}/0")
            if seal.startswith("hmac-sha256-whole:"):
                whole, size, number, part = hashlib.sha256(), 0, 0, first
                while part is not None:
                    whole.update(part)
                    size, number = size + len(part), number + 1
                    part = kept(f"{seal}/{number}")
                made = sealed(b"ordain-whole-v1\0" + size.to_bytes(8) + whole.digest())
                good = made.removeprefix("hmac-sha256:") == seal.removeprefix("hmac-sha256-whole:")
            else:
                good = first is not None and sealed(first) == seal
            if is_gone(seal):
                gone[seal] = (row.stream, row.seq)
            else:
                found["intact" if good else "changed"].append((row.stream, row.seq))
    for seal, place in gone.items():
        found["removed" if seal in removed else "left_out"].append(place)
    return found


def database_rows(connection: sqlite3.Connection, version: int) -> Iterator[Row]:
    """In format 1 the order of arrival is that in which the streams were opened. In format 2 a stream is the position
    of its first event, and that event's bytes say what it is called."""
    names: dict[Any, str] = {}
    for arrived, row in enumerate(connection.execute(FORMAT_1 if version == 1 else FORMAT_2), 1):
        position, stream, seq, body, head = row
        if version == 1:
            names[stream] = stream
        elif stream not in names:
            names[stream] = named(body)
        yield Row(arrived if version == 1 else position, names[stream], seq, body, head)


def named(body: bytes) -> str:
    try:
        return str(parse(body)["stream"])
    except (ValueError, KeyError, TypeError):
        return ""


def read_export(path: Path) -> Stored:
    """JSON lines: first {format, size, head}, then {position, stream, seq, head, body} with the body as text."""
    lines = path.open("rb")
    first = parse(next(lines, b""))
    if not isinstance(first, dict) or not {"format", "size", "head"} <= first.keys():
        raise ValueError("it is neither a ledger nor an export of one")
    exported = (parse(line) for line in lines)
    rows = (
        Row(one["position"], one["stream"], one["seq"], one["body"].encode(), bytes.fromhex(one["head"]))
        for one in exported
    )
    return Stored(rows, checkpoint=(first["size"], bytes.fromhex(first["head"])))


# --- Chains and checkpoints ------------------------------------------------------------------------------------------

ORIGIN = bytes(32)


def extend(head: bytes, body: bytes) -> bytes:
    """The head of a stream's chain after one more event."""
    return hashlib.sha256(b"ordain-ledger-v1\0" + head + len(body).to_bytes(8, "big") + body).digest()


def advance(digest: bytes, head: bytes) -> bytes:
    """The digest over the whole ledger after one more event, from the head that it left in its stream."""
    return hashlib.sha256(b"ordain-checkpoint-v1\0" + digest + head).digest()


# --- JSON, exactly ---------------------------------------------------------------------------------------------------


def parse(data: bytes) -> Any:
    """Strict JSON: no key twice in an object, no NaN. Raises ValueError."""
    try:
        return json.loads(data.decode(), object_pairs_hook=no_key_twice, parse_constant=no_constant)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None


def no_key_twice(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(pairs)
    if len(made) != len(pairs):
        raise ValueError("an object has a key twice")
    return made


def no_constant(name: str) -> None:
    raise ValueError(f"{name} is not JSON")


def member(text: str, start: int, name: str) -> tuple[int, int]:
    """Where the value of a key stands in an object that begins at `start`, so that its exact text can be taken.

    Raises ValueError where anything is spelt with spaces between: nothing of ours is.
    """
    scan, index = json.JSONDecoder().raw_decode, start + 1
    while True:
        key, index = scan(text, index)
        _, end = scan(text, index + 1)
        if key == name:
            return index + 1, end
        if text[end] != ",":
            raise ValueError(f"there is no {name} where one belongs")
        index = end + 1


def canonical(value: Any) -> str:
    """RFC 8785 of a value without floats: no spaces, keys in the order of their UTF-16 code units."""
    if isinstance(value, dict):
        keys = sorted(value, key=lambda key: key.encode("utf-16-be"))
        return "{" + ",".join(f"{canonical(key)}:{canonical(value[key])}" for key in keys) + "}"
    if isinstance(value, list):
        return "[" + ",".join(map(canonical, value)) + "]"
    if isinstance(value, float):
        raise ValueError("what is signed holds no fractions")
    return json.dumps(value, ensure_ascii=False)


def framed(kind: str, body: bytes) -> bytes:
    """DSSE's pre-authentication encoding: what is hashed or signed, with its type and both lengths before it."""
    name = f"application/vnd.ordain.{kind}.v1+json".encode()
    return b"DSSEv1 %d %s %d %s" % (len(name), name, len(body), body)


def statement(kind: str, value: Any) -> bytes:
    """The bytes that an approver signs."""
    return framed(kind, canonical(value).encode())


# --- Ed25519 (RFC 8032, section 5.1), verification only --------------------------------------------------------------

P = 2**255 - 19
ORDER = 2**252 + 27742317777372353535851937790883648493
D = -121665 * pow(121666, -1, P) % P
ROOT_OF_MINUS_1 = pow(2, (P - 1) // 4, P)
Point = tuple[int, int, int, int]
"""(X, Y, Z, T) with x = X/Z, y = Y/Z and x·y = T/Z."""
NEUTRAL: Point = (0, 1, 1, 0)


def add(one: Point, two: Point) -> Point:
    a, b = (one[1] - one[0]) * (two[1] - two[0]) % P, (one[1] + one[0]) * (two[1] + two[0]) % P
    c, d = 2 * one[3] * two[3] * D % P, 2 * one[2] * two[2] % P
    e, f, g, h = b - a, d - c, d + c, b + a
    return e * f % P, g * h % P, f * g % P, e * h % P


def multiply(scalar: int, point: Point) -> Point:
    result = NEUTRAL
    while scalar:
        if scalar & 1:
            result = add(result, point)
        point, scalar = add(point, point), scalar >> 1
    return result


def compress(point: Point) -> bytes:
    inverse = pow(point[2], -1, P)
    x, y = point[0] * inverse % P, point[1] * inverse % P
    return (y | (x & 1) << 255).to_bytes(32, "little")


def decompress(raw: bytes) -> Point | None:
    """The point that 32 bytes are the one spelling of, if they are."""
    number = int.from_bytes(raw, "little")
    sign, y = number >> 255, number & ((1 << 255) - 1)
    if y >= P:
        return None
    square = (y * y - 1) * pow(D * y * y + 1, -1, P) % P
    x = pow(square, (P + 3) // 8, P)
    if (x * x - square) % P:
        x = x * ROOT_OF_MINUS_1 % P
    if (x * x - square) % P or (x == 0 and sign):
        return None
    x = P - x if x & 1 != sign else x
    return x, y, 1, x * y % P


BASE = decompress((4 * pow(5, -1, P) % P).to_bytes(32, "little"))


def weak(raw: bytes) -> bool:
    """Whether a key is no point, or one of small order, for which anybody finds signatures."""
    point = decompress(raw)
    return point is None or compress(multiply(8, point)) == compress(NEUTRAL)


@functools.lru_cache(maxsize=4096)
def verifies(key: bytes, signature: bytes, said: bytes) -> bool:
    """Whether this key made this signature over these bytes; only the one spelling of a signature counts."""
    point, scalar = decompress(key), int.from_bytes(signature[32:], "little")
    if point is None or weak(key) or scalar >= ORDER or BASE is None:
        return False
    challenge = int.from_bytes(hashlib.sha512(signature[:32] + key + said).digest(), "little") % ORDER
    x, y, z, t = point
    return compress(add(multiply(scalar, BASE), multiply(challenge, (P - x, y, z, P - t)))) == signature[:32]


def fingerprint(key: bytes) -> str:
    return "ed25519:" + hashlib.sha256(key).hexdigest()


FINGERPRINT = re.compile(r"ed25519:[0-9a-f]{64}")


def unbase64(text: str, length: int) -> bytes:
    raw = base64.b64decode(text.encode(), validate=True)
    if base64.b64encode(raw).decode() != text or len(raw) != length:
        raise ValueError(f"it is not base64 of {length} bytes")
    return raw


# --- What was recorded -----------------------------------------------------------------------------------------------

CLOCK_SKEW_MS = 60_000
BELONGS = {
    "workspace": "workspace_opened config_trusted approver_enrolled approver_revoked signature_refused work_stopped "
    "stop_lifted",
    "lineage": "plan_prepared replan_begun replan_ended plan_rejected plan_cancelled plan_expired plan_archived "
    "approval_given approval_revoked "
    "approval_expired run_started stop_asked answer_sent run_ended",
    "run": "run_opened executor_started step_kept step_not_kept condition_false precondition_broken "
    "step_approval_asked step_unfolded attempt_started work_offered work_claimed agent_called agent_call_failed "
    "files_protected protected_changed "
    "contract_seen attempt_waiting attempt_ended contract_held contract_broken contract_inconclusive fallback_ended "
    "doubt_found doubt_settled doubt_referred doubt_checked budget_reached decision_given run_paused run_finished "
    "run_cancelled",
    "lock": "lock_taken lock_released",
    "signal": "signal_given",
    "topic": "topic_posted",
    "refusals": "request_refused",
    "retention": "outputs_removed",
}
STREAM_OF = {kind: stream for stream, kinds in BELONGS.items() for kind in kinds.split()}
"""Each kind of event, and the kind of stream it belongs in."""
NAMELESS = {"workspace", "refusals", "retention"}
"""Streams of which a ledger has one, so that no name follows."""
LEADS_TO = {
    "doubt": {"happened": {"passed", "verifying"}, "did-not": {"pending"}, "abort": {"failed"}},
    "escalation": {"retry": {"pending"}, "skip": {"skipped"}, "pass": {"passed"}, "abort": {"failed"}},
    "step_approval": {"allow": {"pending"}, "deny": {"skipped"}, "abort": {"failed"}},
    "budget": {"extend": {"pending"}, "unlimited": {"pending"}, "abort": {"failed"}},
    "ask": {"abort": {"failed"}},
    "task": {"abort": {"failed"}},
}
"""What can be asked of a person, and where each answer can take the step."""
Event = dict[str, Any]


@dataclass
class Approver:
    name: str
    key: bytes
    revoked: bool = False


@dataclass
class Given:
    """An approval, the key that signed it if that is proved, and what became of it."""

    lineage: str
    approval: Event
    signer: str | None
    arrived: int
    """How many events the ledger had with it."""
    ended: str | None = None


@dataclass
class Run:
    """A run as its plan tells of it, and the key whose signature permits it if that is proved."""

    lineage: str
    seq: int
    started: Event
    given: Given | None
    signer: str | None
    ended: tuple[int, Event] | None = None
    answers: int = 0
    answers_signed: int = 0
    replaced_by: str | None = None
    outcomes: dict[str, bytes] = field(default_factory=dict)
    """The digest of how each step went last."""
    well: dict[str, str | None] = field(default_factory=dict)
    """The steps that went well, and where it was another run that did them, which."""


@dataclass
class Lineage:
    """One plan through its revisions: the newest one, and the approvals of it that a run could still use."""

    plan_id: str | None = None
    open: dict[str, Given] = field(default_factory=dict)
    beneath: str | None = None
    """The plan of the run that a proposed successor would go on with; where that is declined, the newest again."""
    newest: str | None = None
    """The run that was started last."""

    def end(self, given: Given, how: str) -> None:
        given.ended = how
        self.open.pop(given.approval["approval_id"], None)

    def end_all(self, how: str) -> None:
        for given in list(self.open.values()):
            self.end(given, how)


@dataclass
class Moments:
    """The heads of a run's chain, and how many events there were with the last one of each step."""

    heads: list[str] = field(default_factory=list)
    last: dict[str, int] = field(default_factory=dict)

    def add(self, event: Event, head: bytes) -> None:
        self.heads.append(head.hex())
        steps = event.get("steps", []) if event["type"] == "protected_changed" else [event.get("step")]
        self.last |= {step: len(self.heads) for step in steps if step is not None}

    def since(self, step: str) -> list[str]:
        """The heads since when nothing of a step was recorded."""
        return self.heads[max(self.last.get(step, 1) - 1, 0) :]


class Finding(NamedTuple):
    """One thing that does not fit; `seq` is 0 where it is about a whole stream or ledger."""

    kind: str
    stream: str
    seq: int
    sentence: str


class Verifier:
    """Everything that is known after the events looked at so far."""

    def __init__(self, keys: Iterable[str] = ()) -> None:
        self.keys = frozenset(keys)
        self.findings: list[Finding] = []
        self.digests = [ORIGIN]
        """The checkpoint's digest after each event."""
        self.tips: dict[str, tuple[int, bytes]] = {}
        """Size and head of each stream."""
        self.priors: dict[str, tuple[int, bytes]] = {}
        """The same before its newest event."""
        self.last: dict[str, Event] = {}
        """The newest event of each stream; empty where it cannot be read."""
        self.workspace_id: str | None = None
        self.approvers: dict[str, Approver] = {}
        self.lineages: dict[str, Lineage] = {}
        self.plans: dict[str, str] = {}
        """Every plan, and the lineage that had it first: it belongs to that one."""
        self.approvals: dict[str, Given] = {}
        self.runs: dict[str, Run] = {}
        self.opened: dict[str, str] = {}
        """Every run that was begun, and the plan that it says it is of."""
        self.moments: dict[str, Moments] = {}
        self.signed_events = 0
        """How many events, from the first on, a good signature vouches for."""
        self.stream, self.seq, self.at = "", 0, 0
        """The event that is looked at."""
        self.before = ORIGIN
        """The head of its stream before it."""
        self.times: list[int] = []
        """When each event says that it was recorded, in order of arrival."""
        self.demands_signatures = False
        """Whether the configuration that is trusted so far wants every approval and every answer signed."""
        self.removes_outputs = False
        """Whether it lets what is kept be removed."""
        self.holders: dict[str, set[str]] = {}
        """The streams that name each seal and may need what is kept under it."""

    def find(self, kind: str, sentence: str) -> None:
        self.findings.append(Finding(kind, self.stream, self.seq, sentence))

    def look(self, rows: Iterable[Row]) -> None:
        arrived = 0
        for row in rows:
            self.stream, self.seq = row.stream, row.seq
            arrived += 1
            if row.position != arrived:
                self.find("missing", f"What arrived as number {row.position} comes where number {arrived} was due.")
                arrived = row.position
            self.look_at(row)

    def look_at(self, row: Row) -> None:
        _, stream, seq, body, head = row
        size, self.before = self.tips.get(stream, (0, ORIGIN))
        wrong = None
        if head != extend(self.before, body):
            wrong = f"Event {seq} is not what was recorded: its bytes do not fit its place in the chain."
        elif seq != size + 1:
            wrong = f"Event {seq} comes where event {size + 1} was due."
        self.priors[stream] = size, self.before
        self.tips[stream], self.last[stream] = (seq, head), {}
        self.digests.append(advance(self.digests[-1], head))
        for seal in ANY_SEAL.findall(body) if stream not in ("workspace", "retention") else ():
            self.holders.setdefault(seal.decode(), set()).add(stream)
        try:
            said = parse(body)
            event, self.at = said["event"], number(said["at"])
            self.times.append(self.at)
            if wrong is None and (said["stream"], said["seq"]) != (stream, seq):
                wrong = f"Event {seq} says that it is event {said['seq']} of `{said['stream']}`."
            self.last[stream] = event
            self.hand_on(event, body.decode())
        except (ValueError, KeyError, TypeError, AttributeError, IndexError) as error:
            if wrong is None:
                self.find("unreadable", f"Event {seq} cannot be read: {error!r}.")
        if wrong is not None:
            self.find("chain", wrong)

    def hand_on(self, event: Event, text: str) -> None:
        kind, (stream, _, name) = event["type"], self.stream.partition("/")
        if STREAM_OF[kind] != stream or (stream in NAMELESS) is bool(name):
            self.find("stray", f"Event {self.seq} is a {kind}, which does not belong in this stream.")
        elif stream == "workspace":
            self.workspace_event(event)
        elif stream == "lineage":
            self.lineage_event(event, text)
        elif stream == "retention":
            self.outputs_removed(event)
        elif stream == "run":
            if name not in self.opened:
                self.opened[name] = event.get("plan_id", "") if kind == "run_opened" else ""
                self.run_opened(name, event)
            if name in self.runs:
                self.resulted(self.runs[name], event)
            moments = self.moments.setdefault(name, Moments())
            if kind == "decision_given":
                self.decision_given(name, event, moments)
            moments.add(event, self.tips[self.stream][1])

    def outputs_removed(self, event: Event) -> None:
        """What `[retention]` removed: that of a run which had ended, and nothing that any other could need."""
        said = f"Event {self.seq} removes what {event['run_id']} kept"
        if not self.removes_outputs:
            self.find("history", f"{said}, and no `[retention]` was trusted by then.")
        elif not self.has_ended(f"run/{event['run_id']}"):
            self.find("history", f"{said}, which had not ended.")
        elif not all(self.may_go(seal, f"run/{event['run_id']}") for seal in event["seals"]):
            self.find("history", f"{said}, and more: something that it had not named, or that others name too.")

    def has_ended(self, stream: str) -> bool:
        run = self.runs.get(stream.removeprefix("run/")) if stream.startswith("run/") else None
        return run is not None and run.ended is not None

    def may_go(self, seal: str, run: str) -> bool:
        holders = self.holders.get(seal, set())
        return run in holders and all(map(self.has_ended, holders))

    # --- The workspace's own stream: who may sign ---------------------------------------------------------------------

    def workspace_event(self, event: Event) -> None:
        kind, signature = event["type"], signature_of(event.get("signature"))
        here = {"workspace": self.workspace_id or "", "seq": self.seq}
        if kind == "workspace_opened":
            self.workspace_id = self.workspace_id or event["workspace"]["id"]
        elif kind == "config_trusted":
            # What is signed is the digest, and what counts is the text.
            if event["digest"] != f"sha256:{hashlib.sha256(event['text'].encode()).hexdigest()}":
                self.find("signature", f"Event {self.seq} trusts a configuration that does not have its digest.")
            else:
                vouched = self.vouched(signature, statement("trust", {**here, "digest": event["digest"]}))
                if vouched:
                    settings = tomllib.loads(event["text"])
                    self.demands_signatures = settings.get("approval", {}).get("require_signature") is True
                    self.removes_outputs = any(settings.get("retention", {}).values())
        elif kind == "approver_enrolled":
            self.enrolled(event, signature, here)
        elif kind == "approver_revoked" and event["key"] in self.approvers:
            said = statement("revocation", {**here, "key": event["key"]})
            self.approvers[event["key"]].revoked |= self.vouched(signature, said)
        if signature is not None and self.keys and signature[0] not in self.keys:
            self.find(
                "signature", f"Event {self.seq} is signed with {signature[0]}, which is not among the keys given."
            )

    def enrolled(self, event: Event, signature: tuple[str, bytes] | None, here: Event) -> None:
        key, name, proof = key_of(event["key"]), event["name"], signature_of(event["proof"])
        mark = fingerprint(key)
        said = {**here, "name": name, "key": mark}
        own = statement("approver-proof", {"workspace": here["workspace"], "name": name, "key": mark})
        if proof is None or proof[0] != mark or not verifies(key, proof[1], own):
            self.find("signature", f"{name} was enrolled with a key that was not there to prove it.")
        elif mark not in self.approvers and self.vouched(signature, statement("approver", said)):
            self.approvers[mark] = Approver(name, key)

    def vouched(self, signature: tuple[str, bytes] | None, said: bytes) -> bool:
        """Whether this may count: nobody is enrolled yet, or somebody who is signed it."""
        good = not self.approvers or self.signer(signature, said) is not None
        if not good:
            self.find("signature", f"Event {self.seq} needs the signature of an enrolled key and has none.")
        return good

    def signer(self, signature: tuple[str, bytes] | None, said: bytes) -> Approver | None:
        approver = self.approvers.get(signature[0]) if signature else None
        if signature is None or approver is None or approver.revoked:
            return None
        return approver if verifies(approver.key, signature[1], said) else None

    # --- One plan -----------------------------------------------------------------------------------------------------

    def lineage_event(self, event: Event, text: str) -> None:
        lineage, kind = self.lineages.setdefault(self.stream, Lineage()), event["type"]
        for given in list(lineage.open.values()):
            if self.at >= given.approval["expires_at"]:
                lineage.end(given, "expired")
        if kind == "plan_prepared":
            self.plan_prepared(lineage, event, text)
        elif kind in ("plan_rejected", "plan_cancelled", "plan_archived"):
            lineage.end_all("revoked")
            self.stand_as_before(lineage)
        elif kind == "plan_expired":
            self.stand_as_before(lineage)
        elif kind in ("approval_revoked", "approval_expired") and event["approval_id"] in lineage.open:
            lineage.end(lineage.open[event["approval_id"]], kind.removeprefix("approval_"))
        elif kind == "approval_given":
            self.approval_given(lineage, event["approval"], signature_of(event.get("signature")))
        elif kind == "run_started":
            self.run_started(lineage, event)
        elif kind == "run_ended":
            if event["status"] == "cancelled":
                lineage.end_all("revoked")
            run = self.runs.get(event["run_id"])
            if run is None or run.lineage != self.stream:
                self.find("commitment", f"{event['run_id']} ended here and was not started here.")
            elif run.ended:
                self.find("commitment", f"{event['run_id']} ends a second time.")
            else:
                run.ended = self.seq, event

    def stand_as_before(self, lineage: Lineage) -> None:
        if lineage.beneath is not None:
            lineage.plan_id, lineage.beneath = lineage.beneath, None

    def plan_prepared(self, lineage: Lineage, event: Event, text: str) -> None:
        begin, end = member(text, member(text, 0, "event")[0], "plan")
        digest = hashlib.sha256(framed("plan", text[begin:end].encode())).hexdigest()
        if event["plan_id"] != f"plan:{digest}":
            self.find("plan", f"The plan in event {self.seq} does not have the digest it is called by.")
        if event.get("continues") is not None and lineage.beneath is None:
            lineage.beneath = lineage.plan_id
        if event["plan_id"] != lineage.plan_id:
            lineage.end_all("superseded")
        lineage.plan_id = event["plan_id"]
        self.plans.setdefault(event["plan_id"], self.stream)

    def approval_given(self, lineage: Lineage, approval: Event, signature: tuple[str, bytes] | None) -> None:
        name, key, known = approval["approval_id"], approval.get("key"), len(self.findings)
        number(approval["issued_at"]), number(approval["expires_at"])
        if name in self.approvals:
            self.find("approval", f"{name} is given a second time.")
        if approval["plan_id"] != lineage.plan_id:
            self.find("approval", f"{name} is for another plan than the one that was proposed here.")
        elif self.plans.get(approval["plan_id"]) != self.stream:
            self.find("approval", f"{name} is for a plan that belongs to another lineage.")
        if approval.get("uses", 1) != 1:
            self.find("approval", f"{name} is for more than one run.")
        if approval["approver"]["channel"] != "terminal":
            self.find("approval", f"{name} did not come through a terminal, where alone a person can be.")
        if approval["workspace"]["id"] != self.workspace_id:
            self.find("approval", f"{name} was given for another workspace.")
        size, head = number(approval.get("ledger_size", 0)), approval.get("ledger_head", "")
        # The approver saw the ledger before this event, which is its newest: so less than all that is there by now.
        pinned = 0 <= size < len(self.digests) - 1 and self.digests[size].hex() == head
        if head and not pinned:
            self.find("checkpoint", f"{name} was given when the first {size} events were others than they are now.")
        signer = None
        if signature is not None or key is not None:
            signer = self.signer(signature, statement("approval", approval))
            if signer is None or fingerprint(signer.key) != key:
                self.find("signature", f"{name} is not signed by a key that was enrolled and not revoked.")
            elif signer.name != approval["approver"]["name"]:
                self.find("signature", f"{name} is signed by {signer.name} in the name of somebody else.")
            elif self.keys and key not in self.keys:
                self.find("signature", f"{name} is signed with {key}, which is not among the keys given.")
            elif pinned:
                self.signed_events = max(self.signed_events, size)
        if name not in self.approvals:
            proved = key if signer is not None and len(self.findings) == known else None
            lineage.open[name] = self.approvals[name] = Given(self.stream, approval, proved, len(self.times))

    def run_started(self, lineage: Lineage, event: Event) -> None:
        run_id, name = event["run_id"], event["approval_id"]
        if event["plan_id"] != lineage.plan_id:
            self.find("commitment", f"{run_id} is of another plan than the one that was proposed here.")
        elif self.plans.get(event["plan_id"]) != self.stream:
            self.find("commitment", f"{run_id} is of a plan that belongs to another lineage.")
        before = event.get("continues")
        ended = before in self.runs and self.runs[before].ended is not None
        if before is not None and (before != lineage.newest or not ended):
            self.find(
                "commitment", f"{run_id} goes on with {before}, which is not the run before it, or has not ended."
            )
        lineage.newest, lineage.beneath = run_id, None
        if name is None and event.get("unasked") is not None:
            self.unasked(event)
        given = self.approvals.get(name or "")
        signer = None
        if name is not None:
            signer = given.signer if given is not None and self.permits(given, event) else None
            if given is None:
                self.find("approval", f"{run_id} was started on {name}, which was never given.")
            else:
                lineage.end(given, f"used by {run_id}")
            if signer is None and self.keys:
                self.find("signature", f"{run_id} was started on nothing that one of the keys signed.")
            elif signer is None and self.demands_signatures:
                self.find("signature", f"{run_id} was started unsigned, and the configuration wants signatures.")
        if run_id in self.runs:
            self.find("commitment", f"{run_id} is started a second time.")
        else:
            self.runs[run_id] = Run(self.stream, self.seq, event, given, signer)

    def unasked(self, event: Event) -> None:
        """Whether an approval that a run before was started on lets this one go on without another."""
        name, before = event["unasked"]["approval_id"], event.get("continues")
        given, said = self.approvals.get(name), f"{event['run_id']} went on unasked by {name}"
        chain: list[str] = []
        while before is not None and before not in chain:
            chain.append(before)
            before = self.runs[before].started.get("continues") if before in self.runs else None
        if given is None or given.approval.get("allow_subset") is not True or not chain:
            self.find("approval", f"{said}, which does not allow that.")
        elif given.ended is None or given.ended.removeprefix("used by ") not in chain:
            self.find("approval", f"{said}, which no run before it was started on.")

    def permits(self, given: Given, event: Event) -> bool:
        known, started = len(self.findings), f"{event['run_id']} was started on {event['approval_id']}"
        if given.lineage != self.stream:
            self.find("approval", f"{started}, which was given elsewhere.")
        elif given.ended is not None:
            self.find("approval", f"{started}, which had ended: {given.ended}.")
        if given.approval["plan_id"] != event["plan_id"]:
            self.find("approval", f"{started}, which is for another plan.")
        bound = given.approval.get("continues") or {}
        if bound.get("run_id") != event.get("continues"):
            self.find("approval", f"{started}, which is for going on with another run.")
        elif bound and bound["head"] != self.head_seen(f"run/{bound['run_id']}"):
            self.find("approval", f"{started}, and of {bound['run_id']} more was recorded than the approver saw.")
        if given.approval["issued_at"] > self.at + CLOCK_SKEW_MS:
            self.find("approval", f"{started} before that was given.")
        if max(self.times[given.arrived :], default=0) >= given.approval["expires_at"]:
            self.find("approval", f"{started} after its time: something recorded before that is dated later.")
        if given.signer is not None and self.approvers[given.signer].revoked:
            self.find("signature", f"{started} after the key that signed it was revoked.")
        return len(self.findings) == known

    def head_seen(self, stream: str) -> str:
        """The head of a run's chain as whoever approved its successor saw it: before the event that replaced it."""
        replaced = self.last.get(stream, {}).get("replaced_by") is not None
        return (self.priors if replaced else self.tips).get(stream, (0, b""))[1].hex()

    # --- One run ------------------------------------------------------------------------------------------------------

    def run_opened(self, name: str, event: Event) -> None:
        """The first event of a run against what its plan says of it."""
        run = self.runs.get(name)
        if event["type"] != "run_opened":
            sentence = f"A run begins with event {self.seq}, which does not open it."
        elif run is None:
            sentence = f"No plan says that {name} was started."
        elif (event["run_id"], event["plan_id"], event["lineage"]) != (name, run.started["plan_id"], run.lineage):
            sentence = f"{name} says that it is a run of another plan than the plan says."
        elif event["workspace"]["id"] != self.workspace_id:
            sentence = f"{name} was run in another workspace."
        elif run.given is not None and run.given.approval["workspace"] != event["workspace"]:
            sentence = f"{name} was run in another directory than it was approved for."
        elif event.get("rerun_of") is not None and not self.ended_before(event["rerun_of"], run):
            sentence = f"{name} does {event['rerun_of']} again, which is no run of its plan that had ended."
        elif event.get("continues") != run.started.get("continues"):
            sentence = f"{name} goes on with another run than its plan says."
        elif kept_of(run) not in (None, event.get("may_keep", [])):
            sentence = f"{name} may keep other steps of the run before than was approved."
        else:
            return
        self.find("commitment", sentence)
        if run is not None:
            run.signer = None

    def resulted(self, run: Run, event: Event) -> None:
        """Note what a step came to, and compare what is kept of another run with that run."""
        kind, step, to = event["type"], event.get("step", ""), event.get("to")
        outcome = event.get("outcome")
        before = run.started.get("continues")
        if kind == "step_kept" and before is not None:
            former = self.runs.get(before)
            fits = former is not None and step in former.well and former.outcomes.get(step, b"") == outcome_of(outcome)
            if not fits or former is None or event.get("run_id") != (former.well[step] or before):
                sentence = (
                    f"`{step}` is kept at event {self.seq} with a result that it does not have in the run before."
                )
                self.find("commitment", sentence)
        if kind in ("attempt_started", "step_unfolded", "precondition_broken"):
            run.outcomes.pop(step, None)
            run.well.pop(step, None)
        elif kind == "step_kept":
            run.outcomes[step], run.well[step] = outcome_of(outcome), event.get("run_id")
        elif kind in ("attempt_ended", "decision_given") and outcome is not None:
            run.outcomes[step] = outcome_of(outcome)
            if outcome.get("error") is None:
                run.well[step] = None
        elif kind in ("contract_held", "doubt_checked") or (
            kind in ("decision_given", "doubt_settled") and to == "passed"
        ):
            run.well[step] = None
        elif kind == "run_cancelled":
            run.replaced_by = event.get("replaced_by")

    def decision_given(self, run_id: str, event: Event, moments: Moments) -> None:
        """A person's answer: through a terminal, before anything else of its step since they were asked, and signed
        where that is needed."""
        name, known = f"The answer `{event['choice']}` about `{event['step']}`", len(self.findings)
        key, signature = event.get("key"), signature_of(event.get("signature"))
        value = {"workspace": self.workspace_id or "", "run": run_id, "plan": self.opened[run_id], "key": key}
        absent = {"attempt": 0, "about": "", "asked_sha256": "", "head": "", "aborts": False}
        value |= {field: event.get(field, default) for field, default in absent.items()}
        value |= {field: event[field] for field in ("step", "choice", "to", "by")}
        value |= {field: event[field] for field in ("outcome", "said") if event.get(field)}
        if event["by"]["channel"] != "terminal":
            self.find("decision", f"{name} did not come through a terminal, where alone a person can be.")
        if not does_what_it_says(value):
            self.find("decision", f"{name} takes it to {event['to']}, where that cannot lead.")
        # Answers of before they were bound have none of these.
        bound = value["head"] or value["attempt"] or key is not None
        if bound and value["head"] not in (self.before.hex(), *moments.since(event["step"])):
            self.find("decision", f"{name} was given when the run was another one than before it here.")
        signer = None
        if signature is not None or key is not None:
            signer = self.signer(signature, statement("decision", value))
            if signer is None or fingerprint(signer.key) != key:
                self.find("signature", f"{name} is not signed by a key that was enrolled and not revoked.")
            elif signer.name != event["by"]["name"]:
                self.find("signature", f"{name} is signed by {signer.name} in the name of somebody else.")
            elif self.keys and key not in self.keys:
                self.find("signature", f"{name} is signed with {key}, which is not among the keys given.")
        elif self.keys:
            self.find("signature", f"{name} is nothing that one of the keys signed.")
        elif self.demands_signatures:
            self.find("signature", f"{name} is unsigned, and the configuration wants signatures.")
        if run_id in self.runs:
            self.runs[run_id].answers += 1
            self.runs[run_id].answers_signed += signer is not None and len(self.findings) == known

    def ended_before(self, name: str, again: Run) -> bool:
        """Whether a run of the same plan had ended when this one was started."""
        former = self.runs.get(name)
        return (
            former is not None
            and (former.lineage, former.started["plan_id"]) == (again.lineage, again.started["plan_id"])
            and former.ended is not None
        )

    def compare(self, name: str, run: Run) -> None:
        """What a plan says of a run with the run itself, when both are known to their end."""
        stream = f"run/{name}"
        self.stream, self.seq = run.lineage, run.seq
        if stream not in self.tips:
            self.find("commitment", f"{name} was started, and there is nothing of it.")
            return
        (size, head), last = self.tips[stream], self.last[stream]
        how = {"run_finished": last.get("status"), "run_cancelled": last.get("status", "cancelled")}
        finished = how.get(last.get("type", ""))
        heir = self.runs.get(run.replaced_by or "")
        if finished == "replaced" and (heir is None or heir.started.get("continues") != name):
            self.stream, self.seq = stream, size
            self.find("commitment", f"{name} was replaced, and no run goes on in its place.")
            self.stream, self.seq = run.lineage, run.seq
        if run.ended is not None:
            self.seq, ended = run.ended
            if (ended["head"], ended["status"]) != (head.hex(), finished):
                self.find("commitment", f"Event {self.seq} says how {name} ended, and the run is another one now.")
        elif finished is not None:
            self.stream, self.seq = stream, size
            self.find("commitment", f"{name} has finished, and its plan does not say so.")

    # --- The end ------------------------------------------------------------------------------------------------------

    def finish(self, kept: Iterable[tuple[int, bytes]], table: dict[str, tuple[int, bytes]] | None) -> None:
        """What can be told only when everything was seen."""
        for name, run in self.runs.items():
            self.compare(name, run)
        self.stream, self.seq = "workspace", 0
        for key in sorted(self.keys - self.approvers.keys()):
            self.find("signature", f"The key {key} was never enrolled in this ledger.")
        self.stream = ""
        for size, head in kept:
            if size >= len(self.digests):
                self.find(
                    "checkpoint", f"There are {len(self.digests) - 1} events; there were {size}: the end is gone."
                )
            elif self.digests[size] != head:
                self.find("checkpoint", f"The first {size} events are not those of the checkpoint that was kept.")
        for stream in sorted({*table, *self.tips} if table is not None else ()):
            if table is not None and table.get(stream) != self.tips.get(stream):
                self.stream = stream
                self.find("table", "The table of streams says something else than the events.")

    def approval_of(self, run: Run) -> str:
        """Whose word a run was started on."""
        if run.signer is not None:
            return f"signed by {self.approvers[run.signer].name} ({run.signer})"
        return "claims no approval" if run.started["approval_id"] is None else "unsigned"


def kept_of(run: Run) -> list[str] | None:
    """What whoever approved a run saw that it may keep of another one; None where it goes on with none."""
    bound = run.given.approval.get("continues") if run.given is not None else None
    return bound.get("kept", []) if bound is not None else None


def outcome_of(outcome: Event | None) -> bytes:
    """The digest of how an attempt went: a ledger can hold more of them than fit in memory."""
    return hashlib.sha256(json.dumps(outcome, sort_keys=True).encode()).digest() if outcome is not None else b""


def answers_of(run: Run) -> str:
    """How many of the answers that a run went by are proved to be somebody's, where there are any."""
    return f"; {run.answers_signed} of {run.answers} answers signed" if run.answers else ""


def does_what_it_says(decision: Event) -> bool:
    """Whether an answer takes its step where its word can lead."""
    if "outcome" in decision and decision["outcome"].get("error") is not None:
        said = (decision["about"], decision["choice"]) == ("task", "cannot")
        return said and decision["to"] == "escalated" and not decision["aborts"]
    if "outcome" in decision:
        return decision["to"] in ("verifying", "passed") and not decision["aborts"]
    # Answers of before they were bound do not say what they are about.
    kinds = [decision["about"]] if decision["about"] else list(LEADS_TO)
    led = set().union(*(LEADS_TO.get(kind, {}).get(decision["choice"], set()) for kind in kinds))
    return decision["to"] in led and decision["aborts"] is (decision["choice"] == "abort")


def number(value: Any) -> int:
    if type(value) is not int:
        raise ValueError(f"{value!r} is not a whole number")
    return value


def key_of(value: Event) -> bytes:
    """The raw bytes of a public key that binds somebody."""
    key = unbase64(value["key"], 32)
    if value.get("algorithm", "ed25519") != "ed25519" or weak(key):
        raise ValueError("it is a key that binds nobody")
    return key


def signature_of(value: Event | None) -> tuple[str, bytes] | None:
    """The fingerprint of the key that signed, and the raw signature."""
    if value is None:
        return None
    if not FINGERPRINT.fullmatch(value["key"]):
        raise ValueError("a signature does not name a key by its fingerprint")
    return value["key"], unbase64(value["value"], 64)


def verified(stored: Stored, keys: Iterable[str] = (), checkpoint: tuple[int, bytes] | None = None) -> Verifier:
    """Everything there is to say about a ledger."""
    verifier = Verifier(keys)
    verifier.look(stored.rows)
    verifier.finish([kept for kept in (stored.checkpoint, checkpoint) if kept is not None], stored.streams)
    return verifier


# --- The command -----------------------------------------------------------------------------------------------------


def keys_in(text: str) -> list[str]:
    """Fingerprints: one itself, or a file whose lines begin with one or with a key in base64."""
    if FINGERPRINT.fullmatch(text):
        return [text]
    words = [line.split()[0] for line in Path(text).read_text().splitlines() if line.strip() and line[0] != "#"]
    return [word if FINGERPRINT.fullmatch(word) else fingerprint(unbase64(word, 32)) for word in words]


def checkpoint_in(text: str) -> tuple[int, bytes]:
    if not re.fullmatch(r"[0-9]+:[0-9a-f]{64}", text):
        raise argparse.ArgumentTypeError("a checkpoint is written SIZE:HEAD, with 64 hex digits")
    size, _, head = text.partition(":")
    return int(size), bytes.fromhex(head)


def visible(text: str) -> str:
    """No text from a ledger may move a terminal's cursor."""
    return "".join(one if one.isprintable() else one.encode("unicode_escape").decode() for one in text)


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Verify a ledger of Ordain without Ordain.")
    parser.add_argument("ledger", type=Path, metavar="LEDGER", help="ledger.db, or an export of it")
    parser.add_argument("--checkpoint", type=checkpoint_in, metavar="SIZE:HEAD", help="one that somebody kept")
    parser.add_argument("--key", action="append", default=[], metavar="FINGERPRINT|FILE", help="only these keys count")
    parser.add_argument("--json", action="store_true", help="one JSON document")
    given = parser.parse_args(arguments)
    try:
        keys = [key for text in given.key for key in keys_in(text)]
        stored = read(given.ledger)
        result = verified(stored, keys, given.checkpoint)
        outputs = kept_outputs(stored, result.findings)
        for stream, seq in outputs["changed"] if outputs is not None else ():
            sentence = f"What was kept with event {seq} is not what was sealed in it."
            result.findings.append(Finding("output", stream, seq, sentence))
    except (OSError, ValueError, KeyError, TypeError, AttributeError, sqlite3.Error) as error:
        print(visible(f"{given.ledger} could not be looked at: {error}"), file=sys.stderr)
        return 2
    size, signed = len(result.digests) - 1, result.signed_events
    kept = f"{size}:{result.digests[-1].hex()}"
    runs = {name: result.approval_of(run) for name, run in result.runs.items()}
    if given.json:
        findings = [finding._asdict() for finding in result.findings]
        answer = {"checkpoint": kept, "findings": findings, "runs": runs, "signed_events": signed}
        print(json.dumps(answer | {"outputs": {name: len(found) for name, found in (outputs or {}).items()}}))
        return 1 if findings else 0
    for kind, stream, seq, sentence in result.findings:
        print(visible(f"{kind}: {stream or 'the whole ledger'}{f', event {seq}' if seq else ''}: {sentence}"))
    for mark, approver in result.approvers.items():
        print(visible(f"key of {approver.name}: {mark}{', revoked' if approver.revoked else ''}"))
    for name, run in result.runs.items():
        print(visible(f"{name}: {runs[name]}{answers_of(run)}"))
    print(f"{size} events in {len(result.tips)} streams; a good signature vouches for the first {signed} of them.")
    if outputs is not None:
        intact, changed, gone, left_out = map(len, outputs.values())
        removed = f"{gone} removed by retention, " if gone else ""
        never = " (what contracts write never is)" if left_out else ""
        print(f"Kept outputs: {intact} intact, {changed} changed, {removed}{left_out} not kept here{never}.")
    print(f"Checkpoint, to be kept elsewhere: {kept}")
    print(f"Ledger does not verify: {len(result.findings)} findings." if result.findings else "Ledger verified.")
    print("This cannot show whether events were cut off after the last checkpoint that you kept.")
    return 1 if result.findings else 0


if __name__ == "__main__":
    try:
        status = main()
        sys.stdout.flush()
    except BrokenPipeError:
        # Whoever read along has gone (`| head`), and was not told all: no verdict. Nothing is left to be flushed.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        status = 2
    sys.exit(status)
