"""What is told of a run while it goes on: its recorded events, and output, which no chain holds."""

from __future__ import annotations

import msgspec

from ordain.core.plan.value import Instant, StepId
from ordain.core.run.event import WIRE_NAMES, Recorded, to_wire


class AttemptOutput(msgspec.Struct, frozen=True, kw_only=True, tag_field="type", tag="attempt_output"):
    """The redacted end of what an attempt that is under way has written so far, or its contract."""

    at: Instant
    stream: str
    step: StepId
    attempt: int
    tail: str


Told = Recorded | AttemptOutput
"""What observers are told: the ledger's own events, and what is said besides them."""


def wire_line(told: Told) -> bytes:
    """One line of JSON: of an event the very object that `core.event.to_wire` makes of it."""
    body = msgspec.json.encode(told.event if isinstance(told, Recorded) else told)
    if isinstance(told, AttemptOutput):
        return body + b"\n"
    if not WIRE_NAMES.keys().isdisjoint(told.event.__struct_fields__):
        return msgspec.json.encode(to_wire(told)) + b"\n"
    place = msgspec.json.encode({"seq": told.seq, "at": told.at, "stream": told.stream})
    return b"".join((place[:-1], b",", body[1:-1], b',"head":', msgspec.json.encode(told.head), b"}\n"))


def read_output(line: bytes) -> AttemptOutput | None:
    """What such a line says that is no event's; None for every other line. Anybody may have written it."""
    if b'"attempt_output"' not in line:
        return None
    try:
        return msgspec.json.decode(line, type=AttemptOutput)
    except (msgspec.DecodeError, ValueError):
        return None
