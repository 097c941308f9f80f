"""What every ledger promises, asked of each adapter. A new adapter joins by adding its factory to `LEDGERS`."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from ordain.core.ledger import chain
from tests.twins.ledger import MemoryLedger
from tests.words import (
    PART_BYTES,
    Abort,
    Append,
    Artifact,
    AttemptStarted,
    Channel,
    Event,
    Instant,
    Ledger,
    Limits,
    OutputsRemoved,
    PlanId,
    PlanPrepared,
    PlanSummary,
    Principal,
    Recorded,
    Refused,
    RunEnded,
    RunId,
    RunOpened,
    RunStarted,
    SqliteLedger,
    StepId,
    WorkspaceIdentity,
    is_whole,
    summarise,
    whole_seal,
)


def sqlite_on_a_slow_disk(folder: Path) -> Ledger:
    """Leaves every commit to its thread."""
    return SqliteLedger.open(folder / "ledger.db", quick_s=0)


LEDGERS: dict[str, Callable[[Path], Ledger]] = {
    "memory": lambda _: MemoryLedger(),
    "sqlite": lambda folder: SqliteLedger.open(folder / "ledger.db"),
    "sqlite-slow": sqlite_on_a_slow_disk,
}
WORKSPACE = WorkspaceIdentity(id="WS-1", path="/w", device=1, inode=1)

AT = Instant(1_700_000_000_000)
ANA = Principal(name="ana", channel=Channel.TERMINAL)


@pytest.fixture(params=LEDGERS)
def ledger(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Ledger]:
    made = LEDGERS[request.param](tmp_path)
    yield made
    asyncio.run(made.close())


def fact(number: int) -> Event:
    return AttemptStarted(step=StepId("build"), attempt=number, key=f"step:{number}")


def prepared(plan_id: str, plan: bytes = b"{}", document: str | None = None) -> Event:
    return PlanPrepared(
        plan_id=PlanId(plan_id),
        plan=msgspec.Raw(plan),
        document=document,
        document_sha256=None,
        by=ANA,
        expires_at=Instant(AT + 1),
    )


def opened(run_id: str) -> Event:
    limits = Limits(concurrency=1, step_timeout_ms=1, contract_timeout_ms=1, on_failure=Abort(), env=("PATH",))
    return RunOpened(
        run_id=RunId(run_id), plan_id=PlanId("plan:1"), lineage="lineage/PLAN-1", workspace=WORKSPACE, limits=limits
    )


def to(
    stream: str,
    expected: int,
    *events: Event,
    epoch: int | None = None,
    new_epoch: int | None = None,
    keeps: tuple[bytes, ...] = (),
    artifacts: tuple[Artifact, ...] = (),
) -> Append:
    return Append(
        stream=stream,
        expected=expected,
        events=events,
        epoch=epoch,
        new_epoch=new_epoch,
        keeps=keeps,
        artifacts=artifacts,
    )


def append(ledger: Ledger, *appends: Append, at: Instant = AT) -> tuple[Recorded, ...]:
    return asyncio.run(ledger.append(at, *appends))


def refusal(ledger: Ledger, *appends: Append) -> str:
    with pytest.raises(Refused) as refused:
        append(ledger, *appends)
    return refused.value.problems[0].code


# --- Appending and reading ---------------------------------------------------------------------------------------


def test_a_new_ledger_is_empty(ledger: Ledger) -> None:
    assert list(ledger.read("run/RUN-1")) == []
    assert list(ledger.streams("")) == []
    assert list(ledger.lookup("")) == []
    assert list(ledger.plans()) == list(ledger.everything()) == []
    assert (ledger.size("run/RUN-1"), ledger.plan_count(), ledger.checkpoint()) == (0, 0, chain.ORIGIN)


def test_what_was_appended_is_read_back_in_order(ledger: Ledger) -> None:
    first = append(ledger, to("run/RUN-1", 0, fact(1), fact(2)))
    second = append(ledger, to("run/RUN-1", 2, fact(3)), at=Instant(AT + 5))
    assert [(one.seq, one.at, one.event) for one in first + second] == [
        (1, AT, fact(1)),
        (2, AT, fact(2)),
        (3, AT + 5, fact(3)),
    ]
    assert tuple(ledger.read("run/RUN-1")) == first + second
    assert {one.stream for one in ledger.read("run/RUN-1")} == {"run/RUN-1"}


def test_reading_goes_on_after_a_sequence_number(ledger: Ledger) -> None:
    written = append(ledger, to("run/RUN-1", 0, fact(1), fact(2), fact(3)))
    for after in range(-1, 6):
        assert tuple(ledger.read("run/RUN-1", after)) == written[max(after, 0) :]
    assert list(ledger.read("run/RUN-2", 3)) == []


def test_appending_nothing_changes_nothing(ledger: Ledger) -> None:
    assert append(ledger) == ()
    assert list(ledger.streams("")) == []


def test_an_append_of_no_events_asks_for_the_size_and_leaves_nothing(ledger: Ledger) -> None:
    assert append(ledger, to("a", 0)) == ()
    assert list(ledger.streams("")) == []
    append(ledger, to("a", 0, fact(1)))
    assert refusal(ledger, to("a", 0), to("b", 0, fact(1))) == "E_LEDGER_CONFLICT"
    append(ledger, to("a", 1), to("b", 0, fact(1)))
    assert list(ledger.streams("")) == ["a", "b"]


def test_the_size_of_a_stream_is_told(ledger: Ledger) -> None:
    append(ledger, to("a", 0, fact(1), fact(2)), to("b", 0, fact(1)))
    append(ledger, to("a", 2, fact(3)))
    assert [ledger.size(stream) for stream in ("a", "b", "c", "\udcff")] == [3, 1, 0, 0]


def test_one_call_can_append_to_one_stream_twice(ledger: Ledger) -> None:
    written = append(ledger, to("a", 0, fact(1)), to("b", 0, fact(9)), to("a", 1, fact(2)))
    assert [(one.stream, one.seq) for one in written] == [("a", 1), ("b", 1), ("a", 2)]
    assert [one.event for one in ledger.read("a")] == [fact(1), fact(2)]


def test_the_bytes_of_a_plan_come_back_as_they_were(ledger: Ledger) -> None:
    plan = '{"title":"ärger \\u0000 \\"x\\"","n":1.50,"z":[1,  2],"a":{}}'.encode()
    append(ledger, to("lineage/PLAN-1", 0, prepared("plan:1", plan)))
    (read,) = ledger.read("lineage/PLAN-1")
    assert isinstance(read.event, PlanPrepared)
    assert bytes(read.event.plan) == plan


@pytest.mark.parametrize(
    "plan", [b"", b" {} ", b"{", b'{},"document":"forged"', b'{}}, "seq": 7, "x": {"y": {}', b'"\xff"']
)
def test_an_event_that_would_read_back_differently_is_not_recorded(ledger: Ledger, plan: bytes) -> None:
    with pytest.raises(ValueError, match="PlanPrepared"):
        append(ledger, to("a", 0, prepared("plan:1", plan)))
    assert list(ledger.read("a")) == []


def test_heads_form_the_chain_over_the_bodies(ledger: Ledger) -> None:
    written = append(ledger, to("a", 0, fact(1), fact(1)), to("b", 0, fact(1)))
    head = chain.ORIGIN.head
    for one in written[:2]:
        head = chain.extend(head, chain.encode("a", one.seq, AT, one.event))
        assert one.head == head.hex()
    assert len({one.head for one in written}) == 3


# --- Refusals ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("expected", [0, 1, 3])
def test_another_size_than_expected_is_a_conflict(ledger: Ledger, expected: int) -> None:
    before = append(ledger, to("a", 0, fact(1), fact(2)))
    assert refusal(ledger, to("a", expected, fact(3))) == "E_LEDGER_CONFLICT"
    assert tuple(ledger.read("a")) == before
    append(ledger, to("a", 2, fact(3)))


def test_a_refused_append_leaves_nothing_in_any_stream(ledger: Ledger) -> None:
    before = append(ledger, to("a", 0, fact(1)))
    assert refusal(ledger, to("b", 0, opened("RUN-B")), to("a", 0, fact(2))) == "E_LEDGER_CONFLICT"
    assert tuple(ledger.read("a")) == before
    assert list(ledger.read("b")) == []
    assert list(ledger.streams("")) == ["a"]
    assert list(ledger.lookup("RUN-")) == []


def test_a_refused_append_does_not_raise_an_epoch(ledger: Ledger) -> None:
    append(ledger, to("a", 0, fact(1)))
    assert refusal(ledger, to("b", 0, fact(1), new_epoch=5), to("a", 0, fact(2))) == "E_LEDGER_CONFLICT"
    append(ledger, to("b", 0, fact(1), epoch=0, new_epoch=1))


def test_an_older_epoch_is_fenced(ledger: Ledger) -> None:
    append(ledger, to("a", 0, fact(1), new_epoch=1))
    append(ledger, to("a", 1, fact(2), epoch=1))
    append(ledger, to("a", 2, fact(3), new_epoch=2))
    # The size it saw is outdated as well, but that it was replaced is what it must learn.
    assert refusal(ledger, to("a", 2, fact(4), epoch=1)) == "E_FENCED"
    assert refusal(ledger, to("a", 3, fact(4), epoch=1)) == "E_FENCED"
    assert refusal(ledger, to("a", 3, fact(4), epoch=3)) == "E_FENCED"
    append(ledger, to("a", 3, fact(4), epoch=2))
    append(ledger, to("a", 4, fact(5)))
    assert len(ledger.read("a")) == 5


@pytest.mark.parametrize("new_epoch", [0, 1, 2])
def test_an_epoch_only_rises(ledger: Ledger, new_epoch: int) -> None:
    append(ledger, to("a", 0, fact(1), new_epoch=2))
    assert refusal(ledger, to("a", 1, fact(2), new_epoch=new_epoch)) == "E_FENCED"
    append(ledger, to("a", 1, fact(2), epoch=2, new_epoch=3))
    assert refusal(ledger, to("a", 2, fact(3), epoch=2)) == "E_FENCED"


def test_an_epoch_belongs_to_one_stream(ledger: Ledger) -> None:
    append(ledger, to("a", 0, fact(1), new_epoch=7))
    append(ledger, to("b", 0, fact(1), new_epoch=1))


# --- The whole ledger --------------------------------------------------------------------------------------------


def test_everything_comes_in_the_order_of_arrival(ledger: Ledger) -> None:
    written = append(ledger, to("b", 0, fact(1), fact(2)), to("a", 0, fact(3)))
    written += append(ledger, to("b", 2, fact(4)))
    found = list(ledger.everything())
    assert [entry.position for entry in found] == [1, 2, 3, 4]
    assert [(entry.stream, entry.seq, entry.head.hex()) for entry in found] == [
        (one.stream, one.seq, one.head) for one in written
    ]
    assert [chain.decode(entry.body, entry.head) for entry in found] == list(written)
    verified = chain.verify_everything(found)
    assert verified.whole
    assert verified.checkpoint == ledger.checkpoint()
    assert verified.tips == {"b": (3, found[3].head), "a": (1, found[2].head)}


def test_a_checkpoint_commits_to_every_head_and_their_order(ledger: Ledger) -> None:
    seen = {ledger.checkpoint()}
    heads: list[bytes] = []
    for size in range(3):
        written = append(ledger, to("a", size, fact(size)), to("b", size, fact(size)))
        heads += [bytes.fromhex(one.head) for one in written]
        assert ledger.checkpoint() == chain.checkpoint(heads)
        seen.add(ledger.checkpoint())
    assert len(seen) == 4
    assert chain.checkpoint(reversed(heads)) not in seen


def test_a_refused_append_moves_no_checkpoint(ledger: Ledger) -> None:
    append(ledger, to("a", 0, fact(1)))
    before = ledger.checkpoint()
    assert refusal(ledger, to("b", 0, fact(1)), to("a", 0, fact(2))) == "E_LEDGER_CONFLICT"
    assert ledger.checkpoint() == before
    append(ledger, to("b", 0, fact(1)))
    assert [entry.position for entry in ledger.everything()] == [1, 2]


def test_checkpoints_of_a_long_ledger_are_right(ledger: Ledger) -> None:
    """Past every point at which an adapter may remember one."""
    heads: list[bytes] = []
    for size in range(0, 2400, 400):
        written = append(ledger, to("a", size, *(fact(number) for number in range(400))))
        heads += [bytes.fromhex(one.head) for one in written]
        assert ledger.checkpoint() == chain.checkpoint(heads)


# --- Plans -------------------------------------------------------------------------------------------------------


def ended(run_id: str) -> Event:
    return RunEnded(run_id=RunId(run_id), status="completed", head="00")


def started(run_id: str, plan_id: str) -> Event:
    return RunStarted(run_id=RunId(run_id), plan_id=PlanId(plan_id), approval_id=None, by=ANA)


def fold(ledger: Ledger, stream: str) -> PlanSummary | None:
    summary = None
    for recorded in ledger.read(stream):
        summary = summarise(summary, recorded)
    return summary


def test_a_plan_is_kept_as_its_events_add_up_to(ledger: Ledger) -> None:
    append(ledger, to("lineage/A", 0, prepared("plan:a", document="a.md")), to("run/1", 0, fact(1)))
    assert list(ledger.plans()) == [fold(ledger, "lineage/A")]
    append(ledger, to("lineage/A", 1, started("RUN-1", "plan:a")))
    append(ledger, to("lineage/A", 2, ended("RUN-1")))
    (summary,) = ledger.plans()
    assert summary == fold(ledger, "lineage/A")
    assert (summary.stream, summary.open, summary.document) == ("lineage/A", False, "a.md")
    assert ledger.plan_count() == 1


def test_plans_are_found_by_what_is_asked_for_oldest_first(ledger: Ledger) -> None:
    for number, document in enumerate(("x.md", "y.md", "x.md", None)):
        append(ledger, to(f"lineage/{number}", 0, prepared(f"plan:{number}", document=document)))
    append(ledger, to("lineage/2", 1, started("RUN-2", "plan:2"), ended("RUN-2")))

    def found(**asked: Any) -> list[str]:
        return [plan.stream.removeprefix("lineage/") for plan in ledger.plans(**asked)]

    assert found() == ["0", "1", "2", "3"]
    assert found(open_only=True) == ["0", "1", "3"]
    assert found(document="x.md") == ["0", "2"]
    assert found(document="x.md", open_only=True) == ["0"]
    assert found(document="z.md") == found(document="\udcff") == []
    assert [found(newest=count) for count in (0, 1, 3, 9)] == [[], ["3"], ["1", "2", "3"], ["0", "1", "2", "3"]]
    assert found(open_only=True, newest=2) == ["1", "3"]
    assert ledger.plan_count() == 4


def test_a_rebuild_comes_to_the_same(ledger: Ledger) -> None:
    assert ledger.rebuild() == 0
    append(ledger, to("lineage/A", 0, prepared("plan:a"), started("RUN-1", "plan:a")), to("run/1", 0, opened("RUN-1")))
    before = (ledger.streams(""), ledger.lookup(""), tuple(ledger.plans()), ledger.checkpoint())
    assert ledger.rebuild() == 3
    assert (ledger.streams(""), ledger.lookup(""), tuple(ledger.plans()), ledger.checkpoint()) == before
    append(ledger, to("lineage/A", 2, ended("RUN-1")))
    assert [plan.open for plan in ledger.plans()] == [False]


def test_a_refused_append_keeps_nothing_about_a_plan(ledger: Ledger) -> None:
    append(ledger, to("a", 0, fact(1)))
    assert refusal(ledger, to("lineage/A", 0, prepared("plan:a")), to("a", 0, fact(1))) == "E_LEDGER_CONFLICT"
    assert (list(ledger.plans()), ledger.plan_count()) == ([], 0)


# --- What is kept beside the chain -------------------------------------------------------------------------------


def test_bytes_are_kept_under_their_seal(ledger: Ledger) -> None:
    secret, other = b"\x00a secret\xff", b""
    seal = ledger.seal(secret)
    assert seal.startswith("hmac-sha256:") and len(seal) == len("hmac-sha256:") + 64
    assert seal == ledger.seal(secret) != ledger.seal(other)
    assert hashlib.sha256(secret).hexdigest() not in seal
    assert ledger.kept(seal) is None
    append(ledger, to("a", 0, fact(1), keeps=(secret, other)))
    append(ledger, to("a", 1, fact(2), keeps=(secret,)))
    assert ledger.kept(seal) == secret
    assert ledger.kept(ledger.seal(other)) == other
    assert ledger.kept("hmac-sha256:" + "0" * 64) is ledger.kept("\udcff") is None


def test_a_refused_append_keeps_nothing(ledger: Ledger) -> None:
    append(ledger, to("a", 0, fact(1)))
    assert refusal(ledger, to("b", 0, fact(1), keeps=(b"x",)), to("a", 0, fact(2))) == "E_LEDGER_CONFLICT"
    assert ledger.kept(ledger.seal(b"x")) is None


def artifact_of(ledger: Ledger, *parts: bytes) -> Artifact:
    data = b"".join(parts)
    seal = whole_seal(ledger.seal, hashlib.sha256(data).digest(), len(data))
    return Artifact(seal=seal, size=len(data), parts=lambda: iter(parts))


def test_an_artifact_is_kept_part_by_part_under_a_name_that_no_bytes_have(ledger: Ledger) -> None:
    one = artifact_of(ledger, b"a" * PART_BYTES, b"b" * PART_BYTES, b"c")
    assert is_whole(one.seal) and not is_whole(ledger.seal(b"a"))
    assert ledger.artifact(one.seal) is None
    append(ledger, to("a", 0, fact(1), artifacts=(one,)))
    append(ledger, to("a", 1, fact(2), artifacts=(one, artifact_of(ledger, b"d"))))
    assert list(ledger.artifact(one.seal) or ()) == list(one.parts())
    assert ledger.kept(one.seal) is None
    assert ledger.artifact("\udcff") is None
    assert ledger.has_room(len(b"".join(one.parts())))


def test_a_refused_append_keeps_no_artifact(ledger: Ledger) -> None:
    append(ledger, to("a", 0, fact(1)))
    one = artifact_of(ledger, b"x")
    assert refusal(ledger, to("b", 0, fact(1), artifacts=(one,)), to("a", 0, fact(2))) == "E_LEDGER_CONFLICT"
    assert ledger.artifact(one.seal) is None


def naming(*seals: str) -> Event:
    return OutputsRemoved(run_id=RunId("RUN-1"), seals=seals, size=1, by=ANA)


def test_what_is_kept_goes_with_the_event_that_says_so(ledger: Ledger) -> None:
    one, two = artifact_of(ledger, b"a" * PART_BYTES, b"b"), artifact_of(ledger, b"c")
    seal, stays = ledger.seal(b"x"), ledger.seal(b"yy")
    append(ledger, to("a", 0, naming(seal, stays, one.seal, two.seal), keeps=(b"x", b"yy"), artifacts=(one, two)))
    assert ledger.kept_sizes() == {seal: 1, stays: 2, one.seal: PART_BYTES + 1, two.seal: 1}
    dropped = Append(stream="b", expected=0, events=(naming(),), drops=(seal, one.seal), seen=1)
    overtaken = Append(stream="b", expected=7, events=(naming(),), drops=(seal,), seen=1)
    assert refusal(ledger, overtaken) == "E_LEDGER_CONFLICT" and ledger.kept(seal) == b"x"
    append(ledger, dropped)
    assert (ledger.kept(seal), ledger.artifact(one.seal)) == (None, None)
    assert ledger.kept_sizes() == {stays: 2, two.seal: 1}
    append(ledger, to("a", 1, naming(seal), keeps=(b"x",)))
    assert ledger.kept(seal) == b"x", "what is named again is kept again"


def test_nothing_goes_that_an_event_in_between_names(ledger: Ledger) -> None:
    seal = ledger.seal(b"x")
    append(ledger, to("a", 0, naming(seal), keeps=(b"x",)))

    def dropping(expected: int, seen: int) -> Append:
        return Append(stream="b", expected=expected, events=(fact(1),), drops=(seal,), seen=seen)

    append(ledger, to("a", 1, naming(seal)))
    assert refusal(ledger, dropping(0, 1)) == "E_LEDGER_CONFLICT" and ledger.kept(seal) == b"x"

    async def at_once() -> list[object]:
        named = ledger.append(AT, to("c", 0, naming(seal), keeps=(b"x",)))
        later = ledger.append(AT, to("d", 0, naming(seal), keeps=(b"x",)))
        return await asyncio.gather(named, ledger.append(AT, dropping(0, 2)), later, return_exceptions=True)

    found = asyncio.run(at_once())
    assert [isinstance(one, Refused) for one in found] == [False, True, False] and ledger.kept(seal) == b"x"

    async def before() -> None:
        await asyncio.gather(
            ledger.append(AT, dropping(0, 4)), ledger.append(AT, to("e", 0, naming(seal), keeps=(b"x",)))
        )

    asyncio.run(before())
    assert ledger.kept(seal) == b"x", "whoever comes after it keeps it again"


# --- Names -------------------------------------------------------------------------------------------------------


def test_streams_are_listed_oldest_first(ledger: Ledger) -> None:
    for stream in ("run/RUN-B", "lineage/PLAN-1", "run/RUN-A", "run"):
        append(ledger, to(stream, 0, fact(1)))
    append(ledger, to("run/RUN-B", 1, fact(2)))
    assert list(ledger.streams("")) == ["run/RUN-B", "lineage/PLAN-1", "run/RUN-A", "run"]
    assert list(ledger.streams("run/")) == ["run/RUN-B", "run/RUN-A"]
    assert list(ledger.streams("run/RUN-C")) == []


def test_ids_are_looked_up_by_prefix(ledger: Ledger) -> None:
    append(ledger, to("lineage/PLAN-1", 0, prepared("plan:ab1"), prepared("plan:ab2")))
    append(ledger, to("lineage/PLAN-2", 0, prepared("plan:b")), to("run/RUN-1", 0, opened("RUN-1"), fact(1)))
    assert list(ledger.lookup("plan:ab")) == [("plan:ab1", "lineage/PLAN-1"), ("plan:ab2", "lineage/PLAN-1")]
    assert list(ledger.lookup("plan:ab2")) == [("plan:ab2", "lineage/PLAN-1")]
    assert list(ledger.lookup("RUN-")) == [("RUN-1", "run/RUN-1")]
    assert list(ledger.lookup("plan:ab22")) == []


@pytest.mark.parametrize("prefix", ["%", "_", "plan%", "plan:__", "PLAN:", "*", "plan:*", "'", "\\", "\x00", "\udcff"])
def test_a_prefix_is_taken_literally(ledger: Ledger, prefix: str) -> None:
    append(ledger, to("lineage/PLAN-1", 0, prepared("plan:ab")))
    assert list(ledger.lookup(prefix)) == []
    assert list(ledger.streams(prefix)) == []
    assert list(ledger.read(prefix)) == []


def test_prefixes_at_the_end_of_the_alphabet_work(ledger: Ledger) -> None:
    last = "\U0010ffff"
    append(ledger, to("a", 0, prepared(f"plan:{last}"), prepared(f"plan:{last}{last}"), prepared("plan:~")))
    assert [name for name, _ in ledger.lookup(f"plan:{last}")] == [f"plan:{last}", f"plan:{last}{last}"]


def test_a_lookup_gives_at_most_ten(ledger: Ledger) -> None:
    append(ledger, to("a", 0, *(prepared(f"plan:{number:02}") for number in range(30))))
    assert [name for name, _ in ledger.lookup("plan:")] == [f"plan:{number:02}" for number in range(10)]


def test_an_id_stays_with_the_stream_that_named_it_first(ledger: Ledger) -> None:
    append(ledger, to("lineage/PLAN-1", 0, prepared("plan:a")))
    append(ledger, to("lineage/PLAN-1", 1, prepared("plan:a")))
    append(ledger, to("lineage/PLAN-2", 0, prepared("plan:a")))
    assert list(ledger.lookup("plan:")) == [("plan:a", "lineage/PLAN-1")]


# --- At the same time --------------------------------------------------------------------------------------------


def test_concurrent_appends_to_different_streams_all_stand(ledger: Ledger) -> None:
    async def one(stream: str) -> None:
        for size in range(10):
            await ledger.append(AT, to(stream, size, fact(size)))

    async def everyone() -> None:
        await asyncio.gather(*(one(f"run/{number}") for number in range(20)))

    asyncio.run(everyone())
    for number in range(20):
        assert [one.event for one in ledger.read(f"run/{number}")] == [fact(size) for size in range(10)]


def test_of_fifty_concurrent_appends_exactly_one_wins(ledger: Ledger) -> None:
    async def everyone() -> list[tuple[Recorded, ...] | BaseException]:
        calls = (ledger.append(AT, to("a", 0, fact(number)), to(f"b{number}", 0, fact(0))) for number in range(50))
        return await asyncio.gather(*calls, return_exceptions=True)

    answers = asyncio.run(everyone())
    (won,) = [answer for answer in answers if not isinstance(answer, BaseException)]
    lost = [answer.problems[0].code for answer in answers if isinstance(answer, Refused)]
    assert lost == ["E_LEDGER_CONFLICT"] * 49
    assert tuple(ledger.read("a")) == won[:1]
    assert list(ledger.streams("b")) == [won[1].stream]
