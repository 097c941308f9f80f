"""The chain: its bytes are fixed for ever, and no change to a history goes unnoticed."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ordain.core.approval.approval import Channel, Principal
from ordain.core.ledger import chain
from ordain.core.plan.value import Instant, PlanId, StepId
from ordain.core.run.event import Event, ExecutorStarted, PlanPrepared, RunFinished
from ordain.core.run.step_event import AttemptStarted
from ordain.core.text.problem import Refused

HISTORY: tuple[Event, ...] = (
    PlanPrepared(
        plan_id=PlanId("plan:0"),
        plan=msgspec.Raw(b'{"a": 1.0}'),
        document="ü.plan.md",
        document_sha256=None,
        by=Principal(name="ana", channel=Channel.TERMINAL),
        expires_at=Instant(2_000),
    ),
    ExecutorStarted(epoch=1, pid=42, boot_id="b"),
    AttemptStarted(step=StepId("build"), attempt=1, key="step:k"),
    RunFinished(status="completed"),
)
GOLDEN_BODIES = (
    '{"stream":"run/RUN-1","seq":1,"at":1000,'
    '"event":{"type":"plan_prepared","plan_id":"plan:0","plan":{"a": 1.0},"document":"ü.plan.md",'
    '"document_sha256":null,"by":{"name":"ana","channel":"terminal"},"expires_at":2000}}',
    '{"stream":"run/RUN-1","seq":2,"at":1000,"event":{"type":"executor_started","epoch":1,"pid":42,"boot_id":"b"}}',
    '{"stream":"run/RUN-1","seq":3,"at":1000,"event":{"type":"attempt_started","step":"build","attempt":1,"key":"step:k"}}',
    '{"stream":"run/RUN-1","seq":4,"at":1000,"event":{"type":"run_finished","status":"completed"}}',
)
GOLDEN_HEADS = (
    "70a9e27fa513db32bce0e0f452655cda1dc5ded66f4621dd959d5174adf177d1",
    "72b244542e4368f0dc2be9dcc0642f0e4ce5cc66c776eaf2c1f56eec22c310f1",
    "74f3e8d4eb9ba585c9c276da26b82a2eb93ec237689678350b8d93e492ba63aa",
    "5a9d48a3f81b63d11cae9f301cd7a07cf6d21c4e2d8f2140b4351c5c1c4abb0e",
)


def rows_of(events: tuple[Event, ...], stream: str = "run/RUN-1") -> list[chain.Row]:
    bodies = [chain.encode(stream, seq, Instant(1_000), event) for seq, event in enumerate(events, 1)]
    stand, heads = chain.add(stream, chain.UNOPENED, bodies, expected=0, epoch=None, new_epoch=None)
    assert (stand.size, stand.head) == (len(heads), heads[-1])
    return [chain.Row(*row) for row in zip(range(1, len(heads) + 1), bodies, heads, strict=True)]


ROWS = rows_of(HISTORY)
END = chain.Tip(len(ROWS), ROWS[-1].head)


def test_bodies_are_these_bytes_for_ever() -> None:
    assert tuple(row.body.decode() for row in ROWS) == GOLDEN_BODIES


def test_heads_are_these_values_for_ever() -> None:
    assert tuple(row.head.hex() for row in ROWS) == GOLDEN_HEADS


def test_a_body_decodes_to_the_recorded_event() -> None:
    for row, event in zip(ROWS, HISTORY, strict=True):
        read = chain.decode(row.body, row.head)
        assert (read.stream, read.seq, read.at, read.event, read.head) == (
            "run/RUN-1",
            row.seq,
            1_000,
            event,
            row.head.hex(),
        )
        assert chain.encode(read.stream, read.seq, read.at, read.event) == row.body


def test_a_whole_chain_verifies_from_any_start() -> None:
    assert chain.verify(ROWS) is None
    assert chain.verify(ROWS, end=END) is None
    for size in range(1, len(ROWS) + 1):
        start = chain.Tip(size, ROWS[size - 1].head)
        assert chain.verify(ROWS[size:], start=start, end=END) is None
    assert chain.verify(ROWS[2:], start=chain.Tip(2, ROWS[0].head)) == 3


def test_the_end_of_a_chain_is_told_by_its_tip() -> None:
    assert chain.verify(ROWS[:-1]) is None
    assert chain.verify(ROWS[:-1], end=END) == 4
    assert chain.verify(ROWS, end=chain.Tip(2, ROWS[1].head)) == 3
    assert chain.verify(ROWS, end=chain.Tip(4, ROWS[0].head)) == 4


@given(st.data())
def test_a_flipped_bit_is_found_where_it_is(data: st.DataObject) -> None:
    place = data.draw(st.integers(0, len(ROWS) - 1))
    seq, body, head = ROWS[place]
    stored = bytearray(body + head)
    stored[data.draw(st.integers(0, len(stored) - 1))] ^= 1 << data.draw(st.integers(0, 7))
    changed = [*ROWS]
    changed[place] = chain.Row(seq, bytes(stored[: len(body)]), bytes(stored[len(body) :]))
    assert chain.verify(changed) == place + 1


@given(st.permutations(range(len(ROWS))), st.booleans())
def test_swapped_rows_are_found(order: list[int], renumbered: bool) -> None:
    swapped = [ROWS[place] for place in order]
    if renumbered:
        swapped = [row._replace(seq=seq) for seq, row in enumerate(swapped, 1)]
    first = next((seq for seq, place in enumerate(order, 1) if place != seq - 1), None)
    assert chain.verify(swapped) == first


@given(st.sets(st.integers(0, len(ROWS) - 1)), st.booleans())
def test_dropped_rows_are_found(dropped: set[int], renumbered: bool) -> None:
    kept = [row for place, row in enumerate(ROWS) if place not in dropped]
    if renumbered:
        kept = [row._replace(seq=seq) for seq, row in enumerate(kept, 1)]
    assert chain.verify(kept, end=END) == (min(dropped) + 1 if dropped else None)


@given(st.integers(0, len(ROWS) - 1))
def test_a_repeated_row_is_found(place: int) -> None:
    assert chain.verify([*ROWS[: place + 1], *ROWS[place:]]) == place + 2


def test_a_chain_copied_to_another_stream_is_found() -> None:
    assert chain.verify(ROWS, end=END) is None
    with pytest.raises(Refused, match="E_LEDGER_BROKEN"):
        chain.recorded("run/RUN-2", ROWS, start=chain.ORIGIN, end=END)


def test_a_body_with_a_wrong_number_is_found() -> None:
    body = chain.encode("a", 2, Instant(0), HISTORY[1])
    row = chain.Row(1, body, chain.extend(chain.ORIGIN.head, body))
    with pytest.raises(Refused, match="E_LEDGER_BROKEN"):
        chain.recorded("a", [row], start=chain.ORIGIN, end=chain.Tip(1, row.head))


def test_an_event_of_a_newer_version_is_refused_as_such() -> None:
    body = b'{"stream":"a","seq":1,"at":0,"event":{"type":"moon_landed"}}'
    row = chain.Row(1, body, chain.extend(chain.ORIGIN.head, body))
    with pytest.raises(Refused, match=r"E_LEDGER_VERSION: Event 1 of `a` .*moon_landed"):
        chain.recorded("a", [row], start=chain.ORIGIN, end=chain.Tip(1, row.head))


# --- The whole ledger --------------------------------------------------------------------------------------------

GOLDEN_CHECKPOINT = (12, bytes.fromhex("31a502f0a371412241f670eb38f1f8a830c90e2a3c7d683f3e78aeb030f46c9b"))


def entries_of(*streams: str) -> list[chain.Entry]:
    """The same history in each of these streams, arriving in turn."""
    histories = [rows_of(HISTORY, stream) for stream in streams]
    arrived = [
        (stream, rows[place]) for place in range(len(HISTORY)) for stream, rows in zip(streams, histories, strict=True)
    ]
    return [chain.Entry(position, stream, *row) for position, (stream, row) in enumerate(arrived, 1)]


ENTRIES = entries_of("run/RUN-1", "b", "ä")
CHECKPOINT = chain.checkpoint(entry.head for entry in ENTRIES)


def test_a_checkpoint_is_this_value_for_ever() -> None:
    assert GOLDEN_CHECKPOINT == CHECKPOINT


@given(st.integers(0, len(ENTRIES)))
def test_a_checkpoint_can_be_taken_up_anywhere(place: int) -> None:
    middle = chain.checkpoint(entry.head for entry in ENTRIES[:place])
    assert chain.checkpoint((entry.head for entry in ENTRIES[place:]), middle) == CHECKPOINT


def test_a_whole_ledger_is_told_in_one_pass() -> None:
    verified = chain.verify_everything(iter(ENTRIES))
    assert verified.whole
    assert verified.checkpoint == CHECKPOINT
    assert verified.tips == {entry.stream: (entry.seq, entry.head) for entry in ENTRIES}
    assert chain.verify_everything([]).checkpoint == chain.ORIGIN


@given(st.data())
def test_a_flipped_bit_in_a_ledger_is_found_and_only_its_stream_is_broken(data: st.DataObject) -> None:
    place = data.draw(st.integers(0, len(ENTRIES) - 1))
    entry = ENTRIES[place]
    stored = bytearray(entry.body + entry.head)
    stored[data.draw(st.integers(0, len(stored) - 1))] ^= 1 << data.draw(st.integers(0, 7))
    body, head = bytes(stored[: len(entry.body)]), bytes(stored[len(entry.body) :])
    changed = [*ENTRIES[:place], entry._replace(body=body, head=head), *ENTRIES[place + 1 :]]
    verified = chain.verify_everything(changed)
    assert (verified.broken, verified.missing) == ({entry.stream: entry.seq}, None)
    assert (verified.checkpoint == CHECKPOINT) == (head == entry.head)


@given(st.sets(st.integers(0, len(ENTRIES) - 1), min_size=1), st.booleans())
def test_events_that_are_gone_are_missed(dropped: set[int], renumbered: bool) -> None:
    kept = [entry for place, entry in enumerate(ENTRIES) if place not in dropped]
    if renumbered:
        kept = [entry._replace(position=position) for position, entry in enumerate(kept, 1)]
    verified = chain.verify_everything(kept)
    assert verified.checkpoint != CHECKPOINT
    # The last ones of all, or of a stream, can be missed by the checkpoint alone.
    if not renumbered and min(dropped) < len(kept):
        assert verified.missing == min(dropped) + 1
    for stream in {entry.stream for entry in ENTRIES}:
        seqs = [entry.seq for entry in kept if entry.stream == stream]
        assert verified.broken.get(stream) == next((n for n, seq in enumerate(seqs, 1) if n != seq), None)


@given(st.permutations(ENTRIES))
def test_another_order_of_arrival_is_another_checkpoint(order: list[chain.Entry]) -> None:
    moved = [entry._replace(position=position) for position, entry in enumerate(order, 1)]
    assert (chain.verify_everything(moved).checkpoint == CHECKPOINT) == (order == ENTRIES)


def test_a_chain_that_was_copied_to_another_stream_is_found_among_all() -> None:
    copied = [entry._replace(stream="c") if entry.stream == "b" else entry for entry in ENTRIES]
    verified = chain.verify_everything(copied)
    assert (verified.broken, verified.checkpoint) == ({"c": 1}, CHECKPOINT)


@pytest.mark.parametrize("body", [b"", b"{", b"null", b'{"stream":"a"}', b"\xff"])
def test_bytes_that_are_no_event_break_their_stream(body: bytes) -> None:
    entry = chain.Entry(1, "a", 1, body, chain.extend(chain.ORIGIN.head, body))
    assert chain.verify_everything([entry]).broken == {"a": 1}
