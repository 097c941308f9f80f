"""The bytes of a recorded event, the hash chain over them, and what may be added to a chain.

Ledgers store these bytes and heads, ask `add` for the heads to write and hand what they read to `recorded`. A head
commits to every byte and the order of all before it in its stream, a checkpoint to all before it in the whole ledger.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cache
from hashlib import sha256
from typing import NamedTuple

import msgspec

from ordain.core.ledger.link import ORIGIN as ORIGIN
from ordain.core.ledger.link import Row as Row
from ordain.core.ledger.link import Tip as Tip
from ordain.core.ledger.link import extend as extend
from ordain.core.ledger.link import verify as verify
from ordain.core.plan.value import Instant
from ordain.core.run.attempt import seals_in
from ordain.core.run.event import Event, Recorded
from ordain.core.text.problem import Refused, refuse

# --- Chain -----------------------------------------------------------------------------------------------------------

_CHECKPOINT_DOMAIN = b"ordain-checkpoint-v1\0"


class Stand(msgspec.Struct, frozen=True):
    """Where a stream stands: its chain, and the epoch of the executor that may write."""

    size: int
    head: bytes
    epoch: int


class Entry(NamedTuple):
    """An event as it stands in the whole ledger: when it arrived among all, and its row in its stream."""

    position: int
    stream: str
    seq: int
    body: bytes
    head: bytes


class StreamPlace(msgspec.Struct, frozen=True, kw_only=True):
    """Where a body says that it belongs."""

    stream: str
    seq: int


class Verified(msgspec.Struct, frozen=True, kw_only=True):
    """What one look at every event of a ledger showed."""

    checkpoint: Tip
    tips: Mapping[str, Tip]
    """Where each stream's chain stands."""
    broken: Mapping[str, int]
    """Streams that are not whole, and the first event of each that does not fit."""
    missing: int | None
    """The first place in the order of arrival that nothing fills."""

    @property
    def whole(self) -> bool:
        return not self.broken and self.missing is None


class _Body(msgspec.Struct, frozen=True, kw_only=True):
    """What is hashed. The order of the fields is the order of the bytes."""

    stream: str
    seq: int
    at: Instant
    event: Event


UNOPENED = Stand(*ORIGIN, 0)
"""Where a stream stands that nobody has written to."""

_encoder = msgspec.json.Encoder()
_place_decoder = msgspec.json.Decoder(StreamPlace)


@cache
def _decoder() -> msgspec.json.Decoder[_Body]:
    """Made when an event is first read: it knows all of them, and most commands read none."""
    return msgspec.json.Decoder(_Body)


def encode(stream: str, seq: int, at: Instant, event: Event) -> bytes:
    """The exact bytes to store and hash; raises ValueError for an event that would not read back as itself."""
    body = _Body(stream=stream, seq=seq, at=at, event=event)
    encoded = _encoder.encode(body)
    try:
        encoded.decode()  # an export carries it as text
        same = _decoder().decode(encoded) == body
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise ValueError(f"{type(event).__name__} cannot be read back: {error}") from error
    if not same:
        raise ValueError(f"{type(event).__name__} reads back as something else.")
    return encoded


def decode(body: bytes, head: bytes) -> Recorded:
    """The event of stored bytes. Says nothing about the chain."""
    read = _decoder().decode(body)
    return Recorded(stream=read.stream, seq=read.seq, at=read.at, event=read.event, head=head.hex())


def place(body: bytes) -> StreamPlace:
    """Where stored bytes say that they belong, whatever kind of event they are."""
    return _place_decoder.decode(body)


def head_after(head: str, stream: str, size: int, events: Iterable[Event], at: Instant) -> str:
    """The head that a stream of this size and head will have after these events."""
    after = bytes.fromhex(head)
    for seq, event in enumerate(events, start=size + 1):
        after = extend(after, encode(stream, seq, at, event))
    return after.hex()


def checkpoint(heads: Iterable[bytes], start: Tip = ORIGIN) -> Tip:
    """How many events a ledger has and one digest over all of them, from the head that each left in its stream."""
    size, digest = start
    for head in heads:
        size += 1
        digest = sha256(_CHECKPOINT_DOMAIN + digest + head).digest()
    return Tip(size, digest)


def verify_everything(entries: Iterable[Entry]) -> Verified:
    """Every chain and the checkpoint, in one pass; each stream is looked at to its end, whatever is wrong in it."""
    tips: dict[str, Tip] = {}
    faults: dict[str, int] = {}
    missing: int | None = None
    arrived, digest = ORIGIN
    for position, stream, seq, body, head in entries:
        arrived += 1
        if position != arrived:
            missing, arrived = missing or arrived, position
        size, before = tips.get(stream, ORIGIN)
        if seq != size + 1 or head != extend(before, body) or not _belongs(body, stream, seq):
            faults.setdefault(stream, size + 1)
        tips[stream] = Tip(seq, head)
        digest = sha256(_CHECKPOINT_DOMAIN + digest + head).digest()
    return Verified(checkpoint=Tip(arrived, digest), tips=tips, broken=faults, missing=missing)


def _belongs(body: bytes, stream: str, seq: int) -> bool:
    """A chain is whole wherever it is copied to; only the body says where it belongs."""
    try:
        said = _place_decoder.decode(body)
    except msgspec.DecodeError:
        return False
    return said.seq == seq and said.stream == stream


def recorded(stream: str, rows: Iterable[Row], *, start: Tip, end: Tip) -> tuple[Recorded, ...]:
    """The events of these rows of a stream; raises `Refused` with E_LEDGER_BROKEN where their chain is not whole, and
    with E_LEDGER_VERSION where this version does not know an event."""
    rows = tuple(rows)
    seq = verify(rows, start=start, end=end)
    if seq is not None:
        raise broken(stream, seq)
    events = []
    for row in rows:
        try:
            event = decode(row.body, row.head)
        except msgspec.DecodeError as error:
            raise refuse(
                "E_LEDGER_VERSION",
                f"Event {row.seq} of `{stream}` is of a kind this version does not know: {error}.",
                "It was written by a newer version; use that one.",
            ) from error
        # A chain is whole wherever it is copied to; only the body says where it belongs.
        if (event.stream, event.seq) != (stream, row.seq):
            raise broken(stream, row.seq)
        events.append(event)
    return tuple(events)


def broken(stream: str, seq: int) -> Refused:
    return refuse(
        "E_LEDGER_BROKEN",
        f"The chain of `{stream}` is broken at event {seq}: what is stored is not what was recorded.",
        "Nothing of this stream can be trusted from there on; restore the ledger from a copy.",
    )


def refuse_named(drops: tuple[str, ...], bodies: Iterable[bytes]) -> None:
    """Raise Refused with E_LEDGER_CONFLICT where one of these events names what is to be dropped."""
    gone = frozenset(drops)
    if any(not gone.isdisjoint(seals_in(body)) for body in bodies):
        what = "What was to be removed was named by an event in between."
        raise refuse("E_LEDGER_CONFLICT", what, "Look again at who needs it.")


def add(
    stream: str, stand: Stand, bodies: Iterable[bytes], *, expected: int, epoch: int | None, new_epoch: int | None
) -> tuple[Stand, list[bytes]]:
    """Where the stream stands after these bodies, and the head after each; `ports.Append` says what the rest means.

    Raises `Refused` with E_FENCED, else E_LEDGER_CONFLICT, when the append was decided from an outdated view: to an
    executor that was replaced a conflict would be an invitation to try again.
    """
    size, head, now = stand.size, stand.head, stand.epoch
    if epoch is not None and epoch != now:
        raise refuse("E_FENCED", f"`{stream}` was taken over: it is in epoch {now}, this writer in {epoch}.")
    if new_epoch is not None and new_epoch <= now:
        raise refuse("E_FENCED", f"`{stream}` was taken over: it is in epoch {now}, and {new_epoch} is not newer.")
    if expected != size:
        raise refuse(
            "E_LEDGER_CONFLICT",
            f"`{stream}` has {size} events where {expected} were expected: something was recorded in between.",
            "Read the stream again and decide again.",
        )
    heads = []
    for body in bodies:
        head = extend(head, body)
        heads.append(head)
    return Stand(size + len(heads), head, now if new_epoch is None else new_epoch), heads
