"""Both verifiers, ours and the one that shares no line with it, find every forgery, and the same in it.

A forger here is whoever can write the file: every chain, every commitment and every table comes out right. What such a
one cannot make is a signature, or the checkpoint that somebody kept.
"""

from __future__ import annotations

import ast
import asyncio
import base64
import copy
import functools
import hashlib
import importlib.util
import json
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, NamedTuple

import apsw
import msgspec
import pytest
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from hypothesis import given, settings
from hypothesis import strategies as st

from ordain.core.ledger import chain
from tests.build import step
from tests.core.test_audit import ANN_MARK, KIM_MARK, PASSPHRASES, beside, look, remembered, signed, told
from tests.rows import each
from tests.scenario import KIM, ROBOT, Scenario
from tests.words import (
    AcquireLock,
    Ask,
    Budget,
    Entry,
    Escalate,
    Kind,
    OutputsRemoved,
    Records,
    Refused,
    RunId,
    Signed,
    SqliteLedger,
    Surroundings,
    Tip,
    backup,
    decided,
    export,
    restore,
    signed_decision,
)

ROOT = Path(__file__).parent.parent
SCRIPT = ROOT / "tools/verify_ledger.py"
_spec = importlib.util.spec_from_file_location("verify_ledger", SCRIPT)
assert _spec is not None and _spec.loader is not None
tool = importlib.util.module_from_spec(_spec)
sys.modules["verify_ledger"] = tool
_spec.loader.exec_module(tool)

KEEPS = Tip(len(told()), chain.checkpoint(row.head for row in told()).head)
"""The checkpoint that somebody kept of the story as it was told."""

NEEDS_RULES = frozenset({Kind.FORM, Kind.ACTIONS, Kind.HISTORY})
"""What only a verifier finds that knows the rules of plans and runs; the independent one does not."""


class Both(NamedTuple):
    """What the two verifiers say: kind, stream and event of each finding, and whose word each run was started on."""

    ours: set[tuple[str, str, int]]
    theirs: set[tuple[str, str, int]]
    runs: list[str]

    @property
    def kinds(self) -> set[str]:
        assert self.shared == self.theirs, "the verifiers do not find the same"
        return {kind for kind, _, _ in self.ours}

    @property
    def shared(self) -> set[tuple[str, str, int]]:
        """What the independent one finds too: of what cannot have happened, removals alone."""
        return {found for found in self.ours if found[0] not in NEEDS_RULES or found[1] == "retention"}


def both(rows: Iterable[Entry], keys: Iterable[str] = (), checkpoint: Tip | None = None) -> Both:
    rows = list(rows)
    ours = look(rows, keys=frozenset(keys), checkpoint=checkpoint)
    theirs = tool.verified(tool.Stored([tool.Row(*row) for row in rows]), keys, checkpoint)
    words = [
        f"signed by {run.by} ({run.key})" if run.approval is Signed.SIGNED else str(run.approval) for run in ours.runs
    ]
    if Kind.UNREADABLE not in {one.kind for one in ours.findings}:  # we know every field, they know what they need
        assert words == [theirs.approval_of(run) for run in theirs.runs.values()]
        assert ours.signed_events == theirs.signed_events
    assert (ours.events, ours.head) == (len(theirs.digests) - 1, theirs.digests[-1].hex())
    return Both(
        {(str(one.kind), one.stream, one.seq) for one in ours.findings},
        {(one.kind, one.stream, one.seq) for one in theirs.findings},
        words,
    )


def test_both_say_that_it_is_good() -> None:
    found = both(told())
    assert (found.ours, found.theirs) == (set(), set())
    signed = f"signed by kim ({KIM_MARK})"
    assert found.runs == [signed, signed, "unsigned", "claims no approval"]
    assert both(told(), checkpoint=KEEPS).ours == set()
    assert both(told(), checkpoint=Tip(0, bytes(32))).ours == set()


# --- Bytes and rows --------------------------------------------------------------------------------------------------


@pytest.fixture
def known_signatures(monkeypatch: pytest.MonkeyPatch) -> None:
    """Signatures that are good are known from the story as it was told; no other one is, and looking takes long."""
    good: set[tuple[bytes, bytes, bytes]] = set()
    verifies = tool.verifies

    def remember(key: bytes, signature: bytes, said: bytes) -> bool:
        if verifies(key, signature, said):
            good.add((key, signature, said))
            return True
        return False

    monkeypatch.setattr(tool, "verifies", remember)
    both(told())
    monkeypatch.setattr(tool, "verifies", lambda *asked: asked in good)


@pytest.mark.slow
def test_every_byte_of_every_event_and_head_counts(known_signatures: None) -> None:
    """Looked at with what its stream had before it: what else there is can only say more."""
    for index, row in enumerate(told()):
        before = [one for one in told()[:index] if one.stream == row.stream]
        flipped = [row._replace(body=other) for other in _flips(row.body)]
        flipped += [row._replace(head=other) for other in _flips(row.head)]
        place = ("chain", row.stream, row.seq)
        for other in flipped:
            rows = [*before, other]
            assert place in {(one.kind, one.stream, one.seq) for one in look(rows).findings}
            theirs = tool.verified(tool.Stored([tool.Row(*one) for one in rows]))
            assert place in {(one.kind, one.stream, one.seq) for one in theirs.findings}


def _flips(data: bytes) -> Iterable[bytes]:
    for index in range(len(data)):
        yield data[:index] + bytes([data[index] ^ (1 << index % 8)]) + data[index + 1 :]


def test_a_flipped_byte_is_found_in_the_whole_ledger_too() -> None:
    for index in range(0, len(told()), 3):
        row = told()[index]
        changed = row._replace(body=row.body.replace(b'"at":1', b'"at":2', 1))
        found = both([*told()[:index], changed, *told()[index + 1 :]])
        assert ("chain", row.stream, row.seq) in found.ours & found.theirs


def test_every_deleted_row_is_found() -> None:
    for index in range(len(told())):
        rows = [*told()[:index], *told()[index + 1 :]]
        found = both(rows, checkpoint=KEEPS)
        assert found.ours and found.theirs
        if index != len(told()) - 1:  # the end of a ledger is missed by nobody who kept no checkpoint
            assert both(rows).ours and both(rows).theirs
        closed = [row._replace(position=place) for place, row in enumerate(rows, 1)]
        found = both(closed, checkpoint=KEEPS)
        assert ("checkpoint", "", 0) in found.ours & found.theirs


def test_every_end_that_was_cut_off_is_found_by_who_kept_a_checkpoint() -> None:
    for size in range(len(told())):
        found = both(told()[:size], checkpoint=KEEPS)
        assert ("checkpoint", "", 0) in found.ours & found.theirs


@given(st.integers(0, len(told()) - 1), st.integers(0, len(told()) - 1), st.booleans())
def test_swapped_and_repeated_rows_are_found(one: int, two: int, closed: bool) -> None:
    swapped = list(told())
    swapped[one], swapped[two] = swapped[two], swapped[one]
    repeated = [*told()[: one + 1], told()[one], *told()[one + 1 :]]
    for rows, same in ((swapped, one == two), (repeated, False)):
        if closed:
            rows = [row._replace(position=place) for place, row in enumerate(rows, 1)]
        found = both(rows, checkpoint=KEEPS)
        assert bool(found.ours) is bool(found.theirs) is not same


def test_rows_from_another_ledger_are_found() -> None:
    other = told(3)
    for index, (mine, theirs) in enumerate(zip(told(), other, strict=True)):
        if mine.body != theirs.body:
            spliced = theirs._replace(stream=mine.stream)
            found = both([*told()[:index], spliced, *told()[index + 1 :]])
            assert found.ours and found.theirs
    # Whole streams of another workspace, whose chains are right: their approvals were given elsewhere.
    foreign = [row for row in other if row.stream != "workspace"]
    mine = [row for row in told() if row.stream == "workspace"]
    rows = [row._replace(position=place) for place, row in enumerate([*mine, *foreign], 1)]
    assert {"approval", "commitment", "signature", "checkpoint"} <= both(rows).kinds


def test_a_gap_in_the_order_of_arrival_is_found() -> None:
    for gap in range(len(told())):
        rows = [row._replace(position=row.position + (index >= gap)) for index, row in enumerate(told())]
        assert both(rows).kinds == {"missing"}


# --- A forger who writes the file ------------------------------------------------------------------------------------

Event = dict[str, Any]


class Forger:
    """Events that can be changed, and written so that everything fits that can be made to fit."""

    def __init__(self, rows: Iterable[Entry] = told()) -> None:
        self.events: list[tuple[str, int, Event]] = []
        for row in rows:
            value = json.loads(row.body)
            self.events.append((row.stream, value["at"], value["event"]))

    def first(self, kind: str, where: Callable[[Event], bool] = lambda event: True) -> int:
        return next(at for at, (_, _, event) in enumerate(self.events) if event["type"] == kind and where(event))

    def insert(self, index: int, stream: str, event: Event, at: int = 1_800_000_000_000) -> Forger:
        self.events.insert(index, (stream, at, event))
        return self

    def rows(self, *, pins: bool = True) -> list[Entry]:
        """All heads anew, and what commits to them: where a run ended, and what approvers saw of the ledger and those
        who answered of the run, unless that is signed."""
        tips: dict[str, Tip] = {}
        rows: list[Entry] = []
        digest = Tip(0, bytes(32))
        for position, (stream, at, event) in enumerate(copy.deepcopy(self.events), 1):
            if event["type"] == "run_ended":
                event["head"] = tips.get(f"run/{event['run_id']}", chain.ORIGIN).head.hex()
            if event["type"] == "approval_given" and event.get("signature") is None and pins:
                event["approval"] |= {"ledger_size": digest.size, "ledger_head": digest.head.hex()}
            size, head = tips.get(stream, chain.ORIGIN)
            if event["type"] == "decision_given" and event.get("signature") is None and event.get("head") and pins:
                event["head"] = head.hex()
            body = json.dumps(
                {"stream": stream, "seq": size + 1, "at": at, "event": event}, separators=(",", ":"), ensure_ascii=False
            ).encode()
            tips[stream] = Tip(size + 1, chain.extend(head, body))
            rows.append(Entry(position, stream, size + 1, body, tips[stream].head))
            digest = chain.checkpoint((tips[stream].head,), digest)
        return rows


def test_what_is_written_anew_without_a_change_is_the_same() -> None:
    assert Forger().rows() == list(told())


def _signed(event: Event) -> bool:
    return event.get("signature") is not None


def test_what_a_signature_vouches_for_cannot_be_rewritten() -> None:
    """Every event before the last signed approval, changed in a way that fits: found without any checkpoint."""
    pinned = look(told()).signed_events
    assert pinned > 20
    for index in range(pinned):
        forger = Forger()
        stream, at, event = forger.events[index]
        forger.events[index] = (stream, at + 1, event)
        assert "checkpoint" in both(forger.rows()).kinds


@each(
    "field, value",
    [
        ("plan_id", "plan:" + "0" * 64),
        ("expires_at", 2_000_000_000_000),
        ("uses", 2),
        ("nonce", "another"),
        ("ledger_size", 1),
        ("ledger_head", ""),
        ("tier", 1),
        ("key", None),
        ("approver", {"name": "eve", "channel": "terminal"}),
    ],
)
def test_nothing_in_a_signed_approval_can_be_changed(field: str, value: Any) -> None:
    forger = Forger()
    forger.events[forger.first("approval_given", _signed)][2]["approval"][field] = value
    found = both(forger.rows())
    assert "signature" in found.kinds
    assert f"signed by kim ({KIM_MARK})" not in found.runs[:1]


def test_what_came_after_the_last_signature_can_be_rewritten_unless_somebody_kept_a_checkpoint() -> None:
    """What verification cannot tell, so that nobody believes it could."""
    forger = Forger()
    index = forger.first("attempt_ended", lambda event: event["step"] == "c")
    forger.events[index][2]["outcome"]["output_tail"] = "all is well"
    assert both(forger.rows()).ours == set()
    assert both(forger.rows(), checkpoint=KEEPS).kinds == {"checkpoint"}


def unsigned_run(forger: Forger) -> Forger:
    """A run that nobody approved: the plan, the approval and the run of an honest one, under other names."""
    first = forger.first("plan_prepared", lambda event: event["plan"]["title"] == "Unsigned")
    lineage = forger.events[first][0]
    started = next(event for stream, _, event in forger.events if stream == lineage and event["type"] == "run_started")
    added = [one for one in forger.events if one[0] in (lineage, f"run/{started['run_id']}")]
    renamed = json.loads(
        json.dumps(added).replace(started["run_id"], "RUN-EVIL").replace(started["approval_id"], "APPROVAL-EVIL")
    )
    added = [(stream, at, event) for stream, at, event in renamed if event["type"] != "plan_prepared"]
    for _, _, event in added:
        if event["type"] == "run_started":
            event["preparation"] = "APPROVAL-EVIL"  # what was prepared had its run
    forger.events += added
    return forger


def test_a_run_that_nobody_signed_for_is_called_unsigned_and_does_not_count_where_a_key_is_asked_for() -> None:
    rows = unsigned_run(Forger()).rows()
    found = both(rows)
    assert (found.ours, found.theirs, found.runs[-1]) == (set(), set(), "unsigned")
    stream = rows[-1].stream
    with_key = both(rows, keys=[KIM_MARK])
    assert with_key.kinds == {"signature"}
    assert len([one for one in with_key.ours if one[1] == stream]) == 2  # the honest one and the other


@each(
    "stream, event, kinds",
    [
        ("workspace", {"type": "moon_landed"}, {"unreadable"}),
        ("workspace", {"type": "run_finished", "status": "completed"}, {"stray"}),
        (
            "elsewhere/WS",
            {"type": "signature_refused", "name": "kim", "by": {"name": "kim", "channel": "robot"}},
            {"stray"},
        ),
        (
            "workspace/2",
            {"type": "signature_refused", "name": "kim", "by": {"name": "kim", "channel": "robot"}},
            {"stray"},
        ),
        ("run/RUN-X", {"type": "executor_started", "epoch": 1, "pid": 1, "boot_id": ""}, {"commitment"}),
        ("workspace", {"type": "lock_taken", "lock": "db", "run_id": "RUN-X", "step": "a"}, {"stray"}),
        ("lock/db", {"type": "run_finished", "status": "completed"}, {"stray"}),
        ("lock/db", {"type": "lock_taken", "lock": "db", "run_id": "RUN-X", "step": "a"}, {"history"}),
        ("signal/go", {"type": "signal_given", "key": "go", "by": {"name": "x", "channel": "robot"}}, set()),
        ("signal/go", {"type": "signal_given", "key": "no", "by": {"name": "x", "channel": "robot"}}, {"history"}),
        ("lock/db", {"type": "signal_given", "key": "db", "by": {"name": "x", "channel": "robot"}}, {"stray"}),
        ("signal/go", {"type": "lock_taken", "lock": "go", "run_id": "RUN-X", "step": "a"}, {"stray"}),
        (
            "topic/a",
            {"type": "topic_posted", "topic": "a", "by": {"name": "x", "channel": "robot"}, "text": "x"},
            set(),
        ),
        (
            "topic/a",
            {"type": "topic_posted", "topic": "b", "by": {"name": "x", "channel": "robot"}, "text": "x"},
            {"history"},
        ),
        ("topic/a", {"type": "signal_given", "key": "a", "by": {"name": "x", "channel": "robot"}}, {"stray"}),
    ],
)
def test_what_does_not_belong_is_found(stream: str, event: Event, kinds: set[str]) -> None:
    forger = Forger()
    assert both(forger.insert(len(forger.events), stream, event).rows()).kinds == kinds


def test_a_lock_that_two_runs_hold_or_that_outlives_its_run_is_found() -> None:
    life = Scenario(step("take", action=AcquireLock(lock_name="db")), step("a")).approve().run()
    rows = [json.loads(row.body) for row in life.ledger.everything()]
    run_id = next(row["event"]["run_id"] for row in rows if row["event"]["type"] == "lock_taken")

    def found(change: Callable[[list[Any]], None]) -> set[str]:
        forger = Forger()
        forger.events = [(row["stream"], row["at"], row["event"]) for row in rows]
        change(forger.events)
        return both(forger.rows()).kinds

    given = next(index for index, row in enumerate(rows) if row["event"]["type"] == "lock_released")
    assert found(lambda events: None) == set()
    assert found(lambda events: events.pop(given)) == {"history"}, "it ended and did not give it back"
    again = ("lock/db", rows[given]["at"], {"type": "lock_taken", "lock": "db", "run_id": run_id, "step": "take"})
    assert found(lambda events: events.insert(given, again)) == {"history"}, "taken by two, or after the end"
    other = (*again[:2], {**again[2], "lock": "files"})
    assert found(lambda events: events.append(other)) == {"history"}, "of another lock"


def test_a_run_that_does_another_again_that_was_none_of_its_plan_is_found() -> None:
    forger = Forger()
    index = forger.first("run_opened")
    forger.events[index][2]["rerun_of"] = "RUN-NEVER"
    assert "commitment" in both(forger.rows()).kinds


def test_a_plan_that_was_changed_under_its_name_is_found() -> None:
    forger = Forger()
    forger.events[forger.first("plan_prepared")][2]["plan"]["steps"][0]["action"]["command"] = "do evil"
    assert {"plan", "checkpoint"} <= both(forger.rows()).kinds


def test_a_signed_approval_starts_one_run_wherever_it_is_copied() -> None:
    forger = Forger()
    lineage = forger.events[forger.first("approval_given", _signed)][0]
    life = [one for one in forger.events if one[0] == lineage]
    again = json.loads(json.dumps([one for one in life if one[2]["type"] == "run_started"]).replace("RUN-", "RUN-X"))
    for stream in (lineage, "lineage/PLAN-COPY"):
        copied = Forger()
        copied.events += [
            (stream, at, event) for stream_, at, event in life if stream != stream_ and "run" not in event["type"]
        ]
        copied.events += [(stream, at, event) for _, at, event in again]
        found = both(copied.rows())
        assert {"approval", "commitment"} <= found.kinds
        assert found.runs[-1] == "unsigned"


BY = {"name": "eve", "channel": "terminal"}


def _private(name: str) -> Ed25519PrivateKey:
    """The key of this name, as the memory's keyring makes it."""
    return Ed25519PrivateKey.from_private_bytes(hashlib.sha256(name.encode()).digest())


def _eve(kind: str, said: Event, name: str = "eve") -> Event:
    """Eve's signature with a key of her own, or of somebody whose key she has."""
    private = _private(name)
    public = private.public_key().public_bytes_raw()
    value = private.sign(tool.statement(kind, said))
    return {"key": tool.fingerprint(public), "value": base64.b64encode(value).decode()}


def _enrolment(workspace: str, seq: int, *, vouched: bool) -> Event:
    public = _private("eve").public_key().public_bytes_raw()
    said = {"workspace": workspace, "name": "eve", "key": tool.fingerprint(public)}
    event = {
        "type": "approver_enrolled",
        "name": "eve",
        "key": {"algorithm": "ed25519", "key": base64.b64encode(public).decode()},
        "by": BY,
        "proof": _eve("approver-proof", said),
    }
    return event | ({"signature": _eve("approver", {**said, "seq": seq})} if vouched else {})


@pytest.mark.parametrize("end", [False, True])
@pytest.mark.parametrize("how", ["trust", "trust, signed by eve", "enrol", "enrol, signed by eve", "revoke"])
def test_authority_without_the_signature_of_an_enrolled_key_is_found(how: str, end: bool) -> None:
    forger = Forger()
    workspace = forger.events[0][2]["workspace"]["id"]
    seqs = [index for index, (stream, _, _) in enumerate(forger.events) if stream == "workspace"]
    index, seq = (len(forger.events), len(seqs) + 1) if end else (seqs[-1], len(seqs))
    digest = "sha256:" + "0" * 64
    event: Event = {"type": "config_trusted", "digest": digest, "text": "[policy]\nallow = ['*']\n", "by": BY}
    if how == "trust, signed by eve":
        event["signature"] = _eve("trust", {"workspace": workspace, "seq": seq, "digest": digest})
    if how.startswith("enrol"):
        event = _enrolment(workspace, seq, vouched="eve" in how)
    if how == "revoke":
        signature = _eve("revocation", {"workspace": workspace, "seq": seq, "key": KIM_MARK})
        event = {"type": "approver_revoked", "key": KIM_MARK, "by": BY, "reason": "", "signature": signature}
    found = both(forger.insert(index, "workspace", event).rows())
    assert ("signature", "workspace", seq) in found.ours & found.theirs
    assert found.kinds == ({"signature"} if end else {"signature", "checkpoint"})


def test_a_ledger_made_from_nothing_with_another_key_fits_and_is_not_the_auditors() -> None:
    """The forger's best: a whole life with a key of her own. Only who knows the right key can tell."""
    rows = [row for row in told() if row.position == 1]
    forger = Forger(rows)
    workspace = forger.events[0][2]["workspace"]["id"]
    forger.insert(1, "workspace", _enrolment(workspace, 2, vouched=False))
    source = Forger()
    life = source.events[source.first("approval_given", _signed)][0]
    for stream, at, event in source.events:
        if (
            stream == life
            or (stream.startswith("run/") and event.get("lineage") == life)
            or stream == forger.events[-1][0]
        ):
            forger.events.append((stream, at, event))
    forger.events = [one for one in forger.events if one[0] in ("workspace", life) and one[2]["type"] != "run_ended"][
        :2
    ]
    prepared = source.events[source.first("plan_prepared")]
    approval = copy.deepcopy(source.events[source.first("approval_given", _signed)][2]["approval"])
    forger.events.append(prepared)
    pinned = chain.checkpoint(row.head for row in forger.rows())
    mark = forger.events[1][2]["proof"]["key"]
    approval |= {"key": mark, "approver": BY, "ledger_size": pinned.size, "ledger_head": pinned.head.hex()}
    forger.events.append(
        (
            prepared[0],
            prepared[1],
            {"type": "approval_given", "approval": approval, "signature": _eve("approval", approval)},
        )
    )
    started = source.events[source.first("run_started")]
    forger.events += [started, source.events[source.first("run_opened")]]
    found = both(forger.rows())
    assert (found.ours, found.runs) == (set(), [f"signed by eve ({mark})"])
    assert both(forger.rows(), keys=[mark]).ours == set()
    theirs = both(forger.rows(), keys=[KIM_MARK])
    assert theirs.kinds == {"signature"} and theirs.runs == ["unsigned"]
    assert ("signature", "workspace", 0) in theirs.ours  # the right key was never enrolled


def test_keys_that_are_not_given_do_not_count() -> None:
    found = both(told(), keys=[ANN_MARK])
    assert found.kinds == {"signature"} and found.runs[:2] == ["unsigned", "unsigned"]
    both_keys = both(told(), keys=[ANN_MARK, KIM_MARK])
    assert len(both_keys.ours) == 1  # the run that nobody signed for


def test_an_approval_by_a_revoked_key_starts_nothing() -> None:
    forger = Forger()
    given_at = forger.first("approval_given", lambda event: event["approval"]["key"] == ANN_MARK)
    lineage, at, event = forger.events[given_at]
    approval = event["approval"]
    started = {
        "type": "run_started",
        "run_id": "RUN-LATE",
        "plan_id": approval["plan_id"],
        "approval_id": approval["approval_id"],
        "by": BY,
    }
    opened = copy.deepcopy(forger.events[forger.first("run_opened")][2])
    opened |= {"run_id": "RUN-LATE", "plan_id": approval["plan_id"], "lineage": lineage}
    forger.events += [(lineage, at, started), ("run/RUN-LATE", at, opened)]
    found = both(forger.rows())
    assert found.kinds == {"signature"} and found.runs[-1] == "unsigned"


def test_nobody_signs_in_the_name_of_another() -> None:
    forger = Forger()
    index = forger.first("approval_given", lambda event: not _signed(event))
    size, head = chain.checkpoint(row.head for row in told()[:index])
    approval = forger.events[index][2]["approval"]
    approval |= {"approver": BY, "key": KIM_MARK, "ledger_size": size, "ledger_head": head.hex()}
    forger.events[index][2]["signature"] = _eve("approval", approval, name="kim")
    found = both(forger.rows())
    assert (found.kinds, found.runs[2]) == ({"signature"}, "unsigned")
    approval["approver"] = {"name": "kim", "channel": "terminal"}
    forger.events[index][2]["signature"] = _eve("approval", approval, name="kim")
    found = both(forger.rows())
    assert (found.kinds, found.runs[2]) == (set(), f"signed by kim ({KIM_MARK})")


@pytest.mark.parametrize(("ahead_ms", "kinds"), [(60_000, set()), (60_001, {"approval"})])
def test_an_approval_is_given_before_it_is_used(ahead_ms: int, kinds: set[str]) -> None:
    forger = Forger()
    index = forger.first("approval_given", lambda event: not _signed(event))
    forger.events[index][2]["approval"]["issued_at"] += ahead_ms
    assert both(forger.rows()).kinds == kinds


@pytest.mark.parametrize("channel", ["robot", "script", "library"])
def test_an_approval_through_a_channel_that_is_no_persons_is_none(channel: str) -> None:
    forger = Forger()
    index = forger.first("approval_given", lambda event: not _signed(event))
    forger.events[index][2]["approval"]["approver"]["channel"] = channel
    assert both(forger.rows()).kinds == {"approval"}


def test_a_plan_belongs_to_one_lineage() -> None:
    """Prepared twice at once it may stand in two, and is approved and run in the first only."""
    forger = Forger()
    _, at, event = forger.events[forger.first("plan_prepared")]
    forger.events.append(("lineage/PLAN-COPY", at, event))
    assert both(forger.rows()).ours == set()
    given = copy.deepcopy(forger.events[forger.first("approval_given")][2])
    approval = given["approval"] | {"approval_id": "APPROVAL-COPY", "key": None}
    approved = copy.deepcopy(forger).insert(
        len(forger.events), "lineage/PLAN-COPY", {**given, "approval": approval, "signature": None}, at
    )
    assert both(approved.rows()).kinds == {"approval"}
    started = copy.deepcopy(forger.events[forger.first("run_started")][2]) | {"run_id": "RUN-COPY", "approval_id": None}
    opened = copy.deepcopy(forger.events[forger.first("run_opened")][2])
    opened |= {"run_id": "RUN-COPY", "lineage": "lineage/PLAN-COPY"}
    forger.events += [("lineage/PLAN-COPY", at, started), ("run/RUN-COPY", at, opened)]
    assert both(forger.rows()).kinds == {"commitment"}


@pytest.mark.parametrize("late", [True, False])
def test_an_approval_starts_nothing_after_its_time(late: bool) -> None:
    forger = Forger()
    started = forger.first("run_started", lambda event: event["approval_id"] is not None)
    stream, _, event = forger.events[started]
    given_at = forger.first("approval_given")
    expires_at = forger.events[given_at][2]["approval"]["expires_at"]
    forger.events[started] = (stream, expires_at if late else expires_at - 1, event)
    assert ("approval" in both(forger.rows()).kinds) is late


@pytest.mark.parametrize(
    "ending", ["plan_rejected", "plan_cancelled", "plan_archived", "approval_revoked", "approval_expired", "revised"]
)
def test_an_approval_that_has_ended_starts_nothing(ending: str) -> None:
    forger = Forger()
    start = forger.first("run_started", lambda event: event["approval_id"] is not None)
    stream, at, started = forger.events[start]
    named = {"approval_id": started["approval_id"], "plan_id": started["plan_id"]}
    event = {"type": ending, "by": BY, "feedback": "No.", "reason": "", **named}
    if ending == "revised":
        other = copy.deepcopy(forger.events[forger.first("plan_prepared")][2])
        plan = {**other["plan"], "title": "Another"}
        text = json.dumps(plan, separators=(",", ":"), ensure_ascii=False).encode()
        other |= {"plan": plan, "plan_id": f"plan:{hashlib.sha256(tool.framed('plan', text)).hexdigest()}"}
        event = other
    found = both(forger.insert(start, stream, event, at).rows())
    assert "approval" in found.kinds and found.runs[0] == "unsigned"


# --- Answers ---------------------------------------------------------------------------------------------------------

DEMANDED = b"[approval]\nrequire_signature = true\n"


@functools.cache
def answered(config: bytes = DEMANDED) -> tuple[Entry, ...]:
    """Two runs that asked, and people who answered: one step twice, one in doubt, all signed, one by a key that was
    revoked later; and one that still asks."""
    life = Scenario(step("a", on_failure=Escalate()), step("b"), title="Asks").script(a=1)
    asyncio.run(life.app.approvals.enroll(PASSPHRASES["kim"], KIM))
    asyncio.run(life.app.approvals.enroll(PASSPHRASES["ann"], KIM, PASSPHRASES["kim"]))
    life.workspace.configuration_text = config
    asyncio.run(life.app.approvals.trust(life.app.approvals.configuration()[1], KIM, PASSPHRASES["kim"]))
    signed(life.prepare(), "kim").run()
    decide(life, "retry", "kim").resume()
    decide(life, "skip", "ann").crash_at(4).resume().resume()
    assert life.expect(a="skipped", b="in_doubt").status() == "waiting"
    asyncio.run(life.app.approvals.revoke_approver("ann", KIM, "left", PASSPHRASES["kim"]))
    decide(life, "happened", "kim").resume()
    assert life.status() == "completed"
    other = signed(beside(life, step("a", on_failure=Escalate()), step("b"), title="Asks too"), "kim").run()
    assert other.status() == "waiting"
    return tuple(life.ledger.everything())


def decide(life: Scenario, word: str, name: str) -> Scenario:
    """A person answers the only thing that is asked, with their key."""
    (question,) = life.app.runs.run(str(life.run_id())).questions
    asked = life.app.answers.asked(question.item)
    asyncio.run(life.app.answers.answer(question.item, word, KIM, asked, PASSPHRASES[name]))
    return life


def decisions_of(forger: Forger) -> list[Event]:
    return [event for _, _, event in forger.events if event["type"] == "decision_given"]


def answers(rows: list[Entry], **how: Any) -> list[tuple[int, int]]:
    """How many answers each run had, and how many of them are proved to be somebody's: the same in both."""
    ours = [(run.answers, run.answers_signed) for run in look(rows, **how).runs]
    theirs = tool.verified(tool.Stored([tool.Row(*row) for row in rows]), how.get("keys", ()))
    assert ours == [(run.answers, run.answers_signed) for run in theirs.runs.values()]
    return ours


def test_answers_are_good_as_they_were_given() -> None:
    found = both(answered())
    assert (found.ours, found.theirs) == (set(), set())
    assert answers(list(answered())) == [(3, 3), (0, 0)]
    assert Forger(answered()).rows() == list(answered())


@each(
    "field, value",
    [
        ("choice", "pass"),
        ("to", "passed"),
        ("aborts", True),
        ("step", "b"),
        ("attempt", 2),
        ("attempt", 0),
        ("about", "doubt"),
        ("asked_sha256", "0" * 64),
        ("head", "0" * 64),
        ("head", ""),
        ("key", None),
        ("key", ANN_MARK),
        ("signature", None),
        ("by", {"name": "ann", "channel": "terminal"}),
        ("by", {"name": "kim", "channel": "robot"}),
    ],
)
def test_nothing_in_a_signed_answer_can_be_changed(field: str, value: Any) -> None:
    forger = Forger(answered())
    event = decisions_of(forger)[0]
    assert event.get(field) != value
    event[field] = value
    rows = forger.rows()
    assert "signature" in both(rows).kinds
    assert answers(rows)[0][1] < 3


@pytest.mark.slow
def test_an_answer_whose_signature_was_taken_out_is_called_unsigned_or_found_where_one_is_demanded() -> None:
    for config, kinds in ((DEMANDED, {"signature"}), (b"", set())):
        forger = Forger(answered(config))
        last = decisions_of(forger)[-1]
        del last["signature"], last["key"]
        # What a signed approval saw after it pins it: a forger can do this to the newest events only.
        del forger.events[[event for _, _, event in forger.events].index(last) + 1 :]
        rows = forger.rows()
        assert both(rows).kinds == kinds
        assert answers(rows) == [(3, 2)]
        assert both(rows, keys=[KIM_MARK, ANN_MARK]).kinds == {"signature"}


@each(
    "at, forged",
    [
        (0, {"to": "passed"}),
        (0, {"to": "skipped"}),
        (0, {"choice": "pass"}),
        (0, {"choice": "whatever"}),
        (0, {"aborts": True}),
        (0, {"choice": "abort", "to": "failed"}),
        (0, {"choice": "happened", "to": "passed"}),
        (0, {"about": "nothing"}),
        (0, {"about": "", "to": "passed"}),
        (2, {"choice": "did-not"}),
        (2, {"to": "failed", "aborts": True}),
    ],
)
def test_an_answer_that_does_not_do_what_its_word_says_is_found_by_both(at: int, forged: Event) -> None:
    forger = Forger(answered(b""))
    event = decisions_of(forger)[at]
    del event["signature"], event["key"]
    del forger.events[[event for _, _, event in forger.events].index(event) + 1 :]
    assert "decision" not in both(forger.rows()).kinds
    event |= forged
    found = both(forger.rows())
    assert "decision" in {kind for kind, _, _ in found.ours & found.theirs}


def test_a_word_that_passed_a_step_whose_contract_could_be_run_is_found() -> None:
    for at in range(1, 20):
        life = Scenario(step("a", contract="check b", on_failure=Escalate())).approve().crash_at(at).run()
        if life.crashed and life.run_id() is not None and life.resume().states()["a"] == "in_doubt":
            break
    life.answer("a", "happened")
    forger = Forger(tuple(life.ledger.everything()))
    assert both(forger.rows()).kinds == set()
    (event,) = decisions_of(forger)
    assert event["to"] == "verifying"
    event["to"] = "passed"
    assert both(forger.rows()).kinds == {"history"}


def asked_aside(*, between: bool) -> Forger:
    """A run in which a person answered about `a` while `b` went on, told as a forger has it: the answer is bound to a
    moment before what was recorded of `b`."""
    life = Scenario(*(step(name, needs=(), on_failure=Escalate()) for name in "ab")).script(a=1, b=1)
    asyncio.run(life.app.approvals.enroll(PASSPHRASES["kim"], KIM))
    signed(life.prepare(), "kim").run()
    asked = life.app.answers.asked(f"{life.run_id()}/a")
    asyncio.run(
        life.app.answers.answer(f"{life.run_id()}/{'a' if between else 'b'}", "retry", KIM, None, PASSPHRASES["kim"])
    )
    life.resume()
    state, plan_id, _ = Records(life.ledger).run(life.run_id())  # type: ignore[arg-type]
    event = decided(state, asked.question, "pass", KIM, head=asked.head, key=KIM_MARK)
    said = signed_decision(event, workspace_id=asked.workspace_id, run_id=asked.run_id, plan_id=plan_id)
    signature = asyncio.run(Surroundings(life.app.ports).sign(PASSPHRASES["kim"], said, KIM))
    made = msgspec.to_builtins(msgspec.structs.replace(event, signature=signature))
    forger = Forger(tuple(life.ledger.everything()))
    return forger.insert(len(forger.events), f"run/{life.run_id()}", made)


def test_an_answer_may_come_after_what_others_did_and_after_nothing_of_its_own_step() -> None:
    assert both(asked_aside(between=False).rows()).kinds == set()
    found = both(asked_aside(between=True).rows())
    assert "decision" in found.kinds and found.ours & found.theirs


def test_an_answer_given_twice_is_found() -> None:
    forger = asked_aside(between=False)
    stream, _, event = forger.events[-1]
    rows = forger.insert(len(forger.events), stream, dict(event)).rows()
    assert "decision" in both(rows).kinds


def test_the_value_of_an_answer_is_what_was_signed() -> None:
    life = Scenario(step("a", action=Ask(question="Which?")))
    asyncio.run(life.app.approvals.enroll(PASSPHRASES["kim"], KIM))
    signed(life.prepare(), "kim").run()
    asyncio.run(life.app.answers.answer(f"{life.run_id()}/a", "1.4.0", KIM, None, PASSPHRASES["kim"]))
    rows = list(life.ledger.everything())
    assert both(rows).kinds == set() and answers(rows) == [(1, 1)]
    for field, value in (("output_seal", "hmac-sha256:" + "0" * 64), ("output_tail", "9.9.9"), ("duration_ms", 1)):
        forger = Forger(tuple(rows))
        decisions_of(forger)[0]["outcome"][field] = value
        assert "signature" in both(forger.rows()).kinds, field


def test_a_signed_answer_fits_no_other_run_step_attempt_or_moment() -> None:
    """Each answer of the first run, written where the second one waits for one about its first attempt of `a`."""
    for index in range(3):
        forger = Forger(answered())
        event = decisions_of(forger)[index]
        stream = forger.events[-1][0]
        assert stream.startswith("run/")
        head = forger.rows()[-1].head.hex()
        for moved in (event, {**event, "head": head}):
            copied = Forger(answered())
            copied.insert(len(copied.events), stream, moved)
            found = both(copied.rows())
            assert "signature" in found.kinds
            assert ("decision" in found.kinds) is (moved is event)
            assert answers(copied.rows()) == [(3, 3), (1, 0)]


@each(
    "name, by, kinds",
    [
        ("kim", {"name": "kim", "channel": "terminal"}, set()),
        ("kim", {"name": "kim", "channel": "robot"}, {"decision"}),
        ("kim", {"name": "kim", "channel": "library"}, {"decision"}),
        ("kim", {"name": "eve", "channel": "terminal"}, {"signature"}),
        ("ann", {"name": "ann", "channel": "terminal"}, {"signature"}),  # revoked
        ("eve", BY, {"signature"}),  # never enrolled
        (None, {"name": "kim", "channel": "terminal"}, {"signature"}),
        (None, {"name": "kim", "channel": "script"}, {"signature", "decision"}),
    ],
)
def test_an_answer_is_by_a_person_whose_key_counts(name: str | None, by: Event, kinds: set[str]) -> None:
    forger = Forger(answered())
    stream = forger.events[-1][0]
    opened = next(event for where, _, event in forger.events if where == stream)
    public = _private(name or "").public_key().public_bytes_raw()
    event = {
        "type": "decision_given",
        "step": "a",
        "choice": "pass",
        "by": by,
        "to": "passed",
        "attempt": 1,
        "about": "escalation",
        "asked_sha256": "0" * 64,
        "head": forger.rows()[-1].head.hex(),
    }
    if name is not None:
        event["key"] = tool.fingerprint(public)
        said = {key: value for key, value in event.items() if key != "type"} | {"aborts": False}
        said |= {"workspace": opened["workspace"]["id"], "run": opened["run_id"], "plan": opened["plan_id"]}
        event["signature"] = _eve("decision", said, name=name)
    rows = forger.insert(len(forger.events), stream, event).rows()
    assert both(rows).kinds == kinds
    assert answers(rows)[-1] == (1, int(not kinds))


def test_answers_of_keys_that_are_not_given_do_not_count() -> None:
    rows = list(answered())
    assert both(rows, keys=[KIM_MARK, ANN_MARK]).ours == set()
    assert both(rows, keys=[ANN_MARK]).kinds == {"signature"}
    assert answers(rows, keys=frozenset({ANN_MARK}))[0] == (3, 1)


def test_what_was_refused_belongs_where_it_is_recorded_and_nowhere_else() -> None:
    """Every ledger in which anything was ever refused has such a stream."""
    life = Scenario(step("a"), title="Asked for too much").prepare()
    with pytest.raises(Refused):
        asyncio.run(life.app.approvals.approve(str(life.plan_id), ROBOT, life.app.plans.review(str(life.plan_id))))
    rows = list(life.ledger.everything())
    assert [row.seq for row in rows if row.stream == "refusals"] == [1]
    found = both(rows)
    assert (found.ours, found.theirs) == (set(), set())
    forger = Forger(rows)
    _, at, refused = forger.events.pop(forger.first("request_refused"))
    for stream in ("refusals/more", "workspace"):
        misplaced = Forger(forger.rows()).insert(len(forger.events), stream, refused, at)
        assert both(misplaced.rows()).kinds == {"stray"}
    opened = forger.events[forger.first("workspace_opened")][2]
    assert both(Forger(rows).insert(len(rows), "refusals", opened).rows()).kinds == {"stray"}


@functools.cache
def keeping() -> tuple[tuple[Entry, ...], str, str]:
    """A run that ended where `[retention]` is trusted, and a seal that it names."""
    life = Scenario(step("a"), title="Keep it")
    life.workspace.configuration_text = b"[retention]\noutputs_days = 1\n"
    asyncio.run(life.app.approvals.trust(life.app.approvals.configuration()[1], KIM))
    life.approve().run()
    forger, seal = Forger(life.ledger.everything()), life.ledger.seal(b"what it wrote")
    forger.events[forger.first("attempt_ended")][2]["outcome"]["output_seal"] = seal
    return tuple(forger.rows()), life.run_id(), seal


def removed(forger: Forger, index: int, run: str, *seals: str) -> Both:
    """What is found where somebody says in this place that what a run kept was removed."""
    gone = OutputsRemoved(run_id=RunId(run), seals=seals, size=1, by=KIM)
    return both(forger.insert(index, "retention", msgspec.to_builtins(gone)).rows())


UNLIKELY = {("history", "retention", 1)}


def test_a_removal_of_what_a_run_keeps_that_has_not_ended_is_found() -> None:
    rows, run, seal = keeping()
    assert removed(Forger(rows), len(rows), run, seal).ours == set()
    early = removed(Forger(rows), Forger(rows).first("run_ended"), run, seal)
    assert early.ours == early.theirs == UNLIKELY
    gone = msgspec.to_builtins(OutputsRemoved(run_id=RunId(run), seals=(seal,), size=1, by=KIM))
    assert both(Forger(rows).insert(len(rows), "workspace", gone).rows()).kinds == {"stray"}
    assert both(Forger(rows).insert(len(rows), "retention/more", gone).rows()).kinds == {"stray"}


def test_a_removal_that_no_trusted_configuration_allows_is_found() -> None:
    rows, run, seal = keeping()
    for text in ("", "[retention]\noutputs_days = 0\n", "[limits]\n"):
        forger = Forger(rows)
        trusted = forger.events[forger.first("config_trusted")][2]
        trusted |= {"text": text, "digest": f"sha256:{hashlib.sha256(text.encode()).hexdigest()}"}
        found = removed(forger, len(rows), run, seal)
        assert found.ours == found.theirs == UNLIKELY
    forger = Forger(rows)
    later = forger.events.pop(forger.first("config_trusted"))
    forger.events.append(later)
    found = removed(forger, len(rows) - 1, run, seal)
    assert found.ours == found.theirs == UNLIKELY, "what is trusted afterwards allowed nothing before"


def test_a_removal_of_more_than_its_run_named_is_found() -> None:
    rows, run, seal = keeping()
    other = "hmac-sha256:" + "0" * 64
    signal = {"type": "signal_given", "key": "go", "by": {"name": "x", "channel": "robot"}, "value_seal": seal}
    for found in (
        removed(Forger(rows), len(rows), "RUN-AAAAAAAAAAAAAAAA", seal),
        removed(Forger(rows), len(rows), run, seal, other),
        removed(
            Forger(rows).insert(len(rows), "signal/go", {**signal, "value_seal": other}), len(rows) + 1, run, other
        ),
        removed(Forger(rows).insert(len(rows), "signal/go", signal), len(rows) + 1, run, seal),
    ):
        assert found.ours == found.theirs == UNLIKELY
    assert removed(Forger(rows).insert(len(rows), "signal/go", signal), len(rows), run, seal).ours == set(), (
        "named later"
    )


# --- The same in everything ------------------------------------------------------------------------------------------


@pytest.mark.slow
@settings(max_examples=200)
@given(st.data())
def test_both_find_the_same_in_anything_that_is_changed(data: st.DataObject) -> None:
    """Up to three changes: events moved, dropped, repeated, or a value in one that becomes another one of its kind."""
    forger = Forger(data.draw(st.sampled_from([told, answered]))())
    texts = sorted({event[name] for _, _, event in forger.events for name in event if isinstance(event[name], str)})
    for _ in range(data.draw(st.integers(1, 3))):
        index = data.draw(st.integers(0, len(forger.events) - 1))
        match data.draw(st.sampled_from(["drop", "repeat", "move", "retime", "change", "change", "change"])):
            case "drop":
                del forger.events[index]
            case "repeat":
                forger.events.append(copy.deepcopy(forger.events[index]))
            case "move":
                forger.events.insert(data.draw(st.integers(0, len(forger.events) - 1)), forger.events.pop(index))
            case "retime":
                stream, at, event = forger.events[index]
                forger.events[index] = (stream, at + data.draw(st.integers(-(10**9), 10**9)), event)
            case _:
                _change(data, forger.events[index][2], texts)
    keys = data.draw(st.sampled_from([(), (KIM_MARK,), (KIM_MARK, ANN_MARK)]))
    found = both(
        forger.rows(pins=data.draw(st.booleans())), keys=keys, checkpoint=data.draw(st.sampled_from([None, KEEPS]))
    )
    if "unreadable" in {
        kind for kind, _, _ in found.ours
    }:  # we know every field of every event, they know what they need
        assert found.ours
    else:
        assert found.shared == found.theirs


def _change(data: st.DataObject, at: Any, texts: list[str]) -> None:
    while True:
        choices = sorted(key for key in at if key not in ("type", "plan")) if isinstance(at, dict) else range(len(at))
        if not choices:
            return
        key = data.draw(st.sampled_from(choices))
        if not isinstance(at[key], dict | list):
            break
        at = at[key]
    if isinstance(at[key], bool):
        at[key] = not at[key]
    elif isinstance(at[key], int):
        at[key] += data.draw(st.integers(-2, 2))
    elif isinstance(at[key], str):
        at[key] = data.draw(st.sampled_from(texts))


# --- Their own ground ------------------------------------------------------------------------------------------------


def test_the_independent_verifier_imports_nothing_but_the_standard_library() -> None:
    names = set()
    for node in ast.walk(ast.parse(SCRIPT.read_text())):
        if isinstance(node, ast.ImportFrom):
            assert node.level == 0 and node.module is not None
            names.add(node.module.partition(".")[0])
        elif isinstance(node, ast.Import):
            names |= {alias.name.partition(".")[0] for alias in node.names}
    assert names <= sys.stdlib_module_names


# RFC 8032, section 7.1: the first three and the one with a long message's digest.
VECTORS = [
    (
        "d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a",
        "",
        "e5564300c360ac729086e2cc806e828a84877f1eb8e5d974d873e065224901555fb8821590a33bacc61e39701cf9b46bd25bf5f0595bbe24"
        "655141438e7a100b",
    ),
    (
        "3d4017c3e843895a92b70aa74d1b7ebc9c982ccf2ec4968cc0cd55f12af4660c",
        "72",
        "92a009a9f0d4cab8720e820b5f642540a2b27b5416503f8fb3762223ebdb69da085ac1e43e15996e458f3613d0f11d8c387b2eaeb4302aee"
        "b00d291612bb0c00",
    ),
    (
        "fc51cd8e6218a1a38da47ed00230f0580816ed13ba3303ac5deb911548908025",
        "af82",
        "6291d657deec24024827e69c3abe01a30ce548a284743a445e3680d7db5ac3ac18ff9b538d16f290ae67f760984dc6594a7c15e9716ed28d"
        "c027beceea1ec40a",
    ),
]


@pytest.mark.parametrize(("key", "said", "signature"), VECTORS)
def test_the_vectors_of_the_rfc(key: str, said: str, signature: str) -> None:
    raw, message, value = bytes.fromhex(key), bytes.fromhex(said), bytes.fromhex(signature)
    assert tool.verifies(raw, value, message)
    assert not tool.verifies(raw, value, message + b"x")
    # The same signature in its other spelling, which a careless verifier lets pass.
    malleable = value[:32] + (int.from_bytes(value[32:], "little") + tool.ORDER).to_bytes(32, "little")
    assert not tool.verifies(raw, malleable, message)


@given(st.binary(min_size=32, max_size=32), st.binary(max_size=64), st.integers(0, 96 * 8 - 1), st.booleans())
def test_signatures_are_good_where_the_library_says_so(seed: bytes, said: bytes, bit: int, whole: bool) -> None:
    private = Ed25519PrivateKey.from_private_bytes(seed)
    both_parts = bytearray(private.public_key().public_bytes_raw() + private.sign(said))
    if not whole:
        both_parts[bit // 8] ^= 1 << bit % 8
    key, signature = bytes(both_parts[:32]), bytes(both_parts[32:])
    try:
        Ed25519PublicKey.from_public_bytes(key).verify(signature, said)
        good = True
    except (InvalidSignature, ValueError):
        good = False
    assert tool.verifies(key, signature, said) is good is whole


@pytest.mark.parametrize("y", [0, 1, tool.P - 1, tool.P, tool.P + 1])
@pytest.mark.parametrize("sign", [0, 1])
def test_a_key_for_which_anybody_finds_signatures_is_none(y: int, sign: int) -> None:
    assert tool.weak((y | sign << 255).to_bytes(32, "little"))


def test_statements_are_the_same_bytes_where_a_path_is_not_ascii() -> None:
    from tests.words import statement

    value = {"é": 1, "\U0001f600": [True, None, '\x7f\x1f"\\'], "\ufb33": {}, "a": "ü", "B": -5}
    assert tool.statement("approval", value) == statement("approval", value)


# --- Files -----------------------------------------------------------------------------------------------------------


def run(*arguments: str | Path) -> tuple[int, str]:
    """The verifier as an auditor runs it: a bare Python, no package in sight."""
    done = subprocess.run(
        [sys.executable, "-I", "-S", str(SCRIPT), *map(str, arguments)], capture_output=True, timeout=60, check=False
    )
    return done.returncode, (done.stdout + done.stderr).decode()


@pytest.fixture
def ledger_file(tmp_path: Path) -> Path:
    """The story in a file."""
    lines = tmp_path / "lines"
    header = {"format": "ordain-ledger-export/1", "size": KEEPS.size, "head": KEEPS.head.hex()}
    written = [msgspec.json.encode(header)]
    for position, stream, seq, body, head in told():
        line = {"position": position, "stream": stream, "seq": seq, "head": head.hex(), "body": body.decode()}
        written.append(msgspec.json.encode(line))
    lines.write_bytes(b"\n".join(written) + b"\n")
    assert restore(lines, tmp_path / "ledger.db") == KEEPS
    return tmp_path / "ledger.db"


@pytest.mark.slow
def test_a_file_a_backup_and_an_export_are_verified(ledger_file: Path, tmp_path: Path) -> None:
    ledger = SqliteLedger.open(ledger_file)
    (tmp_path / "exported").write_bytes(b"".join(export(ledger)))
    asyncio.run(ledger.close())
    backup(ledger_file, tmp_path / "backup.db")
    kept = f"{KEEPS.size}:{KEEPS.head.hex()}"
    for name in ("ledger.db", "exported", "backup.db"):
        before = (tmp_path / name).read_bytes()
        status, out = run(tmp_path / name, "--checkpoint", kept)
        assert (status, "Ledger verified." in out, kept in out) == (0, True, True), out
        assert f"signed by kim ({KIM_MARK})" in out and "unsigned" in out
        assert (tmp_path / name).read_bytes() == before
    status, out = run(ledger_file, "--key", KIM_MARK, "--json")
    document = json.loads(out)
    # The run that nobody signed for, and an approval by a key that was not given.
    assert (status, [one["kind"] for one in document["findings"]]) == (1, ["signature", "signature"])


def test_whoever_stops_reading_gets_no_traceback(ledger_file: Path) -> None:
    """As `| head` does: the reader has gone before the first line."""
    reading, writing = os.pipe()
    os.close(reading)
    command = [sys.executable, "-I", "-S", str(SCRIPT), str(ledger_file)]
    with os.fdopen(writing, "wb") as gone:
        done = subprocess.run(command, stdout=gone, stderr=subprocess.PIPE, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (2, b"")


def test_a_changed_file_is_found(ledger_file: Path) -> None:
    change = "UPDATE events SET body = cast(replace(cast(body AS TEXT), 'Declined', 'Approved') AS BLOB)"
    connection = apsw.Connection(str(ledger_file))
    connection.execute(change)
    connection.execute("UPDATE streams SET size = size + 1 WHERE stream = 'workspace'")
    connection.close()
    status, out = run(ledger_file)
    assert status == 1 and "chain: lineage/" in out and "table: workspace" in out


@pytest.mark.part(of=5)
@pytest.mark.parametrize("content", [b"", b"{}\n", b"SQLite format 3\0", b"\xff\xfe", b"[" * 100_000])
def test_what_is_no_ledger_is_called_that(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "file").write_bytes(content)
    status, out = run(tmp_path / "file")
    assert status == 2 and "could not be looked at" in out and "Traceback" not in out


def test_a_ledger_of_every_format_is_verified_by_both() -> None:
    for path in sorted((ROOT / "tests/golden/ledgers").glob("v*.db")):
        rows = [Entry(*row) for row in tool.read(path).rows]
        found = both(rows)
        # The configuration in the first was never one: its digest was made up.
        made_up = path.stem == "v1"
        assert found.ours == found.theirs == ({("signature", "workspace", 2)} if made_up else set()), path
        status, out = run(path)
        assert (status, "does not have its digest" in out) == (int(made_up), made_up)
        assert made_up or "signed by kim" in out


def test_keys_come_from_files_too(ledger_file: Path, tmp_path: Path) -> None:
    public = _private("kim").public_key().public_bytes_raw()
    (tmp_path / "keys").write_text(f"# ours\n\n{base64.b64encode(public).decode()}  kim\n{ANN_MARK}\n")
    assert tool.keys_in(str(tmp_path / "keys")) == [KIM_MARK, ANN_MARK]
    status, out = run(ledger_file, "--key", tmp_path / "keys")
    assert status == 1 and out.count("signature: ") == 1


def test_remembered_signatures_are_the_librarys() -> None:
    assert remembered.__wrapped__.__module__ == "ordain.adapters.state.keys"


def test_the_page_about_audits_names_every_kind_and_who_finds_it() -> None:
    page = (ROOT / "docs/audit.md").read_text()
    found = dict(re.findall(r"^\| `(\w+)` \|.*\| (✓|streams|removals|)\s*\|$", page, re.MULTILINE))
    assert found.keys() == {kind.value for kind in Kind}
    assert {name for name, both in found.items() if both in ("", "removals")} == {kind.value for kind in NEEDS_RULES}


def test_every_kind_is_found_by_somebody() -> None:
    shared = {kind.value for kind in Kind} - {kind.value for kind in NEEDS_RULES} | {Kind.HISTORY.value}
    assert shared == {line.split()[0] for line in (tool.__doc__ or "").splitlines() if line.startswith("  ")}


# --- Budgets ---------------------------------------------------------------------------------------------------------


@functools.cache
def extended() -> tuple[Entry, ...]:
    """A run whose budget was reached twice; the first answer allows more, the second ends it."""
    life = Scenario(*(step(name) for name in "abcd"), title="Spends", budget=Budget(attempts=1))
    asyncio.run(life.app.approvals.enroll(PASSPHRASES["kim"], KIM))
    life.workspace.configuration_text = DEMANDED
    asyncio.run(life.app.approvals.trust(life.app.approvals.configuration()[1], KIM, PASSPHRASES["kim"]))
    signed(life.prepare(), "kim").run()
    decide(life, "extend", "kim").resume()
    decide(life, "abort", "kim").resume()
    assert life.status() == "failed"
    return tuple(life.ledger.everything())


def test_answers_about_a_budget_are_good_as_they_were_given() -> None:
    found = both(extended())
    assert (found.ours, found.theirs) == (set(), set())
    assert answers(list(extended())) == [(2, 2)]


@pytest.mark.parametrize(
    ("field", "value"),
    [("choice", "unlimited"), ("step", ".budget/a"), ("about", "doubt"), ("head", "0" * 64), ("signature", None)],
)
def test_nothing_in_a_signed_answer_about_a_budget_can_be_changed(field: str, value: Any) -> None:
    forger = Forger(extended())
    decisions_of(forger)[0][field] = value
    assert "signature" in both(forger.rows()).kinds


def test_a_budget_that_was_not_reached_so_is_found() -> None:
    forger = Forger(extended())
    reached = next(event for _, _, event in forger.events if event["type"] == "budget_reached")
    reached["limit"] = 7
    assert "history" in {kind for kind, _, _ in both(forger.rows()).ours}
