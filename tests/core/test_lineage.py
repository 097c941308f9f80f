"""The life of a plan: the whole table of stages, and what holds of every history that the table lets through."""

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from ordain.core.approval.approval import Approval, Base, Channel, Principal, WorkspaceIdentity
from ordain.core.lineage.lineage import TRANSITIONS, PlanState, Stage, apply_lineage
from ordain.core.plan.value import Instant, PlanId, RunId, StepId
from ordain.core.run.event import (
    AnswerSent,
    ApprovalExpired,
    ApprovalGiven,
    ApprovalRevoked,
    LineageEvent,
    PlanArchived,
    PlanCancelled,
    PlanExpired,
    PlanPrepared,
    PlanRejected,
    RunEnded,
    RunStarted,
    StopAsked,
)
from ordain.core.run.run_state import IllegalTransition
from ordain.core.run.step_event import DecisionGiven, StepState
from tests.rows import each

KIM = Principal(name="kim", channel=Channel.TERMINAL)
ROBOT = Principal(name="robot", channel=Channel.ROBOT)
A, B = PlanId("plan:" + "a" * 64), PlanId("plan:" + "b" * 64)
NOW = 1_000_000
WEEK, HOURS = 7 * 86_400_000, 4 * 3_600_000


def prepared(plan: PlanId = A, by: Principal = KIM, at: int = NOW) -> PlanPrepared:
    return PlanPrepared(
        plan_id=plan,
        plan=msgspec.Raw(b'{"title":"Tidy"}'),
        document=None,
        document_sha256=None,
        by=by,
        expires_at=Instant(at + WEEK),
    )


def approved(name: str = "APPROVAL-1", plan: PlanId = A, at: int = NOW, ttl: int = HOURS) -> ApprovalGiven:
    return ApprovalGiven(
        approval=Approval(
            approval_id=name,
            plan_id=plan,
            workspace=WorkspaceIdentity(id="WS-1", path="/w", device=1, inode=2),
            action_kinds=("run",),
            base=Base(tools="sha256:t", config="defaults"),
            proposer=KIM,
            approver=KIM,
            tier=0,
            issued_at=Instant(at),
            expires_at=Instant(at + ttl),
            nonce=name,
        )
    )


def rejected(*, often: bool = False, plan: PlanId = A) -> PlanRejected:
    return PlanRejected(plan_id=plan, by=KIM, feedback="Test it first.", needs_review=often)


def started(run: str = "RUN-1", approval: str | None = None) -> RunStarted:
    return RunStarted(run_id=RunId(run), plan_id=A, approval_id=approval, by=KIM)


def ended(status: str, run: str = "RUN-1") -> RunEnded:
    return RunEnded(run_id=RunId(run), status=status, head="")


def fold(*events: LineageEvent | tuple[LineageEvent, int]) -> PlanState:
    """The state after these events, each at its own time where one is given."""
    state = PlanState()
    for one in events:
        event, at = one if isinstance(one, tuple) else (one, NOW)
        state = apply_lineage(state, event, Instant(at))
    return state


# --- The table ---------------------------------------------------------------------------------------------------

TABLE = """
                                     | new  | prop | appr | exec | comp | fail | reje | need | canc | expi | arch
proposed                             | prop | prop | prop |      | prop | prop | prop | prop | prop | prop | prop
proposed again, with a good approval |      |      | appr |      | appr | appr |      |      |      |      |
proposed again while it runs         |      |      |      | exec |      |      |      |      |      |      |
proposed to go on with a run         |      | prop | prop | prop | prop | prop |      |      | prop | prop | prop
approved                             |      | appr | appr |      | appr | appr |      |      |      |      |
an approval ended, another is left   |      |      | appr | exec | comp | fail |      |      |      |      |
the last approval ended              |      |      | prop | exec | comp | fail |      |      |      |      |
rejected                             |      | reje | reje |      |      |      |      |      |      |      |
rejected too often                   |      | need | need |      |      |      |      |      |      |      |
cancelled                            |      | canc | canc |      |      |      | canc | canc |      | canc |
expired                              |      | expi |      |      |      |      |      |      |      |      |
run started                          |      | exec | exec |      | exec | exec |      |      |      |      |
asked to stop                        |      |      |      | exec |      |      |      |      |      |      |
answer sent                          |      |      |      | exec |      |      |      |      |      |      |
run completed                        |      |      |      | comp |      |      |      |      |      |      |
run failed                           |      |      |      | fail |      |      |      |      |      |      |
run cancelled                        |      |      |      | canc |      |      |      |      |      |      |
run replaced                         |      | prop | appr |      |      |      |      |      |      |      |
archived                             |      |      |      |      | arch | arch | arch | arch | arch | arch |
"""
STAGES: tuple[Stage | None, ...] = (None, *Stage)


def written() -> dict[tuple[str, Stage | None], Stage | None]:
    """The table above: what happened and from which stage → to which stage, None where it cannot happen."""
    head, *rows = (line.split("|") for line in TABLE.strip("\n").split("\n"))
    assert [name.strip() for name in head[1:]] == ["new", *(stage.value[:4] for stage in Stage)]

    def stage(word: str) -> Stage | None:
        return next((one for one in Stage if word and one.value.startswith(word)), None)

    return {
        (what.strip(), before): stage(word.strip())
        for what, *words in rows
        for before, word in zip(STAGES, words, strict=True)
    }


def test_the_table_is_the_one_that_people_agreed_on():
    found = {(what, before): moves.get(before) for what, moves in TRANSITIONS.items() for before in STAGES}
    assert found == written()


def test_every_stage_is_reached_and_every_stage_can_be_left():
    reached = {to for moves in TRANSITIONS.values() for to in moves.values()}
    assert reached == set(Stage)
    left = {before for moves in TRANSITIONS.values() for before, to in moves.items() if to != before}
    assert left == {None, *Stage}


REACHED: dict[Stage | None, tuple[LineageEvent, ...]] = {
    None: (),
    Stage.PROPOSED: (prepared(),),
    Stage.APPROVED: (prepared(), approved()),
    Stage.EXECUTING: (prepared(), started()),
    Stage.COMPLETED: (prepared(), started(), ended("completed")),
    Stage.FAILED: (prepared(), started(), ended("failed")),
    Stage.REJECTED: (prepared(), rejected()),
    Stage.NEEDS_REVIEW: (prepared(), rejected(often=True)),
    Stage.CANCELLED: (prepared(), PlanCancelled(by=KIM)),
    Stage.EXPIRED: (prepared(), PlanExpired(plan_id=A)),
    Stage.ARCHIVED: (prepared(), PlanCancelled(by=KIM), PlanArchived(by=KIM)),
}
HAPPENS: dict[str, LineageEvent] = {
    "proposed": prepared(B),
    "approved": approved("APPROVAL-2"),
    "rejected": rejected(),
    "rejected too often": rejected(often=True),
    "cancelled": PlanCancelled(by=KIM),
    "expired": PlanExpired(plan_id=A),
    "run started": started("RUN-2"),
    "asked to stop": StopAsked(run_id=RunId("RUN-1"), to="paused", by=KIM),
    "answer sent": AnswerSent(
        run_id=RunId("RUN-1"), decision=DecisionGiven(step=StepId("a"), choice="retry", by=KIM, to=StepState.PENDING)
    ),
    "run completed": ended("completed"),
    "run failed": ended("failed"),
    "run cancelled": ended("cancelled"),
    "archived": PlanArchived(by=KIM),
}


@pytest.mark.parametrize("before", STAGES)
@pytest.mark.parametrize("what", HAPPENS)
def test_every_event_at_every_stage_goes_where_the_table_says_or_nowhere(what, before):
    state = fold(*REACHED[before])
    assert state.stage == before
    to = written()[what, before]
    if to is None:
        with pytest.raises(IllegalTransition):
            apply_lineage(state, HAPPENS[what], Instant(NOW))
        assert state.stage == before
    else:
        assert apply_lineage(state, HAPPENS[what], Instant(NOW)).stage == to


@pytest.mark.parametrize("before", STAGES)
@pytest.mark.parametrize("left", [0, 1])
def test_the_end_of_an_approval_at_every_stage_where_one_can_be_left(before, left):
    what = "an approval ended, another is left" if left else "the last approval ended"
    given_before = [approved(f"APPROVAL-{number}") for number in range(8, 9 + left)]
    events = list(REACHED[before])
    if written()[what, before] is None or before is Stage.APPROVED:
        events += given_before if before is Stage.APPROVED else []
    else:
        events[1:1] = given_before  # after it was prepared, before its run
    if before is Stage.APPROVED:
        events.remove(approved())
    state = fold(*events)
    assert state.stage == before
    after = apply_lineage(state, ApprovalRevoked(approval_id="APPROVAL-8", by=KIM), Instant(NOW))
    if written()[what, before] is None:
        assert (after.stage, after.ended) == (before, {}), "there was none"
    else:
        assert after.stage == written()[what, before]
        assert after.ended["APPROVAL-8"].how == "revoked"


@pytest.mark.parametrize("status", ["paused", "", "proposed"])
def test_a_run_ends_in_no_other_way(status):
    with pytest.raises(IllegalTransition):
        fold(prepared(), started(), ended(status))


@each(
    "events",
    [
        (prepared(), approved(), approved()),
        (prepared(), approved(), ApprovalRevoked(approval_id="APPROVAL-1", by=KIM), approved()),
        (prepared(), started(approval="APPROVAL-1")),
        (prepared(), approved(), started(approval="APPROVAL-1"), ended("completed"), started("RUN-2", "APPROVAL-1")),
        (prepared(), approved(), ApprovalExpired(approval_id="APPROVAL-1"), started(approval="APPROVAL-1")),
        (prepared(), approved(), prepared(B), started(approval="APPROVAL-1")),
        (prepared(), approved(), prepared(B), prepared(), started(approval="APPROVAL-1")),
        (prepared(), approved(), (started(approval="APPROVAL-1"), NOW + HOURS)),
        (prepared(), approved(), rejected(), prepared(), started(approval="APPROVAL-1")),
        (prepared(), started(), ended("completed", "RUN-2")),
        (prepared(), started(), ended("completed"), started()),
        (prepared(), started(), ended("completed"), ended("completed")),
        (prepared(), started(), prepared(B)),
    ],
)
def test_what_cannot_happen_raises(events):
    *before, last = events
    state = fold(*before)
    event, at = last if isinstance(last, tuple) else (last, NOW)
    with pytest.raises(IllegalTransition):
        apply_lineage(state, event, Instant(at))


# --- What is known of a plan -------------------------------------------------------------------------------------


def test_preparing_the_same_plan_again_keeps_its_approval_and_revives_none():
    assert fold(prepared(), approved(), prepared()).stage is Stage.APPROVED
    spent = fold(prepared(), approved(), started(approval="APPROVAL-1"), ended("completed"), prepared())
    assert (spent.stage, spent.permissions, spent.ended["APPROVAL-1"].how) == (Stage.PROPOSED, {}, "RUN-1")
    revised = fold(prepared(), approved(), prepared(B))
    assert (revised.stage, revised.permissions, revised.ended["APPROVAL-1"].how) == (Stage.PROPOSED, {}, "superseded")


def test_a_second_approval_outlives_the_run_of_the_first_and_is_still_there_when_the_plan_is_prepared_again():
    twice = (prepared(), approved("APPROVAL-1"), approved("APPROVAL-2"), started(approval="APPROVAL-2"))
    done = fold(*twice, ended("completed"), prepared())
    assert (done.stage, list(done.permissions)) == (Stage.APPROVED, ["APPROVAL-1"])
    late = fold(*twice, ended("completed"), prepared(), (prepared(), NOW + HOURS))
    assert (late.stage, late.permissions) == (Stage.PROPOSED, {})


@pytest.mark.parametrize(
    "end", [(ended("completed"), PlanArchived(by=KIM)), (ended("failed"), PlanArchived(by=KIM)), (ended("cancelled"),)]
)
def test_no_approval_outlives_its_plan(end):
    twice = (prepared(), approved("APPROVAL-1"), approved("APPROVAL-2"), started(approval="APPROVAL-2"), *end)
    state = fold(*twice)
    assert (state.permissions, state.ended["APPROVAL-1"].how) == ({}, "revoked")
    assert fold(*twice, (prepared(), NOW + HOURS)).stage is Stage.PROPOSED


def test_who_prepared_a_plan_is_known_for_ever():
    state = fold(prepared(), prepared(by=ROBOT), prepared(B, ROBOT), prepared(by=ROBOT))
    assert state.prepared_by == {A: ("kim", "robot"), B: ("robot",)}
    assert state.proposer == ROBOT


def test_rejections_are_counted_until_a_person_proposes():
    state = fold(prepared(by=ROBOT), rejected(), prepared(B, ROBOT), rejected(plan=B))
    assert [one.plan_id for one in state.rejections] == [A, B]
    for event in (PlanCancelled(by=ROBOT), PlanArchived(by=ROBOT), prepared(B, ROBOT)):
        assert len(apply_lineage(state, event, Instant(NOW)).rejections) == 2
    assert apply_lineage(state, prepared(B, KIM), Instant(NOW)).rejections == ()


def test_revisions_say_where_the_newest_bytes_of_each_plan_are():
    state = fold(prepared(), prepared(B), prepared())
    assert (state.revisions, state.plan_id, state.size) == ({B: 2, A: 3}, A, 3)


@each(
    "events, after, status",
    [
        ((), 0, "draft"),
        ((prepared(),), WEEK - 1, "proposed"),
        ((prepared(),), WEEK, "expired"),
        ((prepared(), approved()), HOURS - 1, "approved"),
        ((prepared(), approved()), HOURS, "proposed"),
        ((prepared(), approved()), WEEK, "expired"),
        ((prepared(), approved(ttl=2 * WEEK)), WEEK, "approved"),
        ((prepared(), approved("APPROVAL-1", ttl=5), approved("APPROVAL-2")), 5, "approved"),
        ((prepared(), started()), 10 * WEEK, "executing"),
        ((prepared(), rejected()), 10 * WEEK, "rejected"),
    ],
)
def test_the_status_is_the_stage_as_it_is_at_a_time(events, after, status):
    assert fold(*events).status(Instant(NOW + after)) == status


# --- Every history -----------------------------------------------------------------------------------------------

NAMES = [f"APPROVAL-{number}" for number in range(4)]
RUNS = ["RUN-1", "RUN-2"]
people = st.sampled_from([KIM, ROBOT])
events = st.one_of(
    st.builds(prepared, st.sampled_from([A, B]), people),
    st.builds(approved, st.sampled_from(NAMES), st.sampled_from([A, B]), st.integers(NOW, NOW + 2 * HOURS)),
    st.builds(lambda name: ApprovalRevoked(approval_id=name, by=ROBOT), st.sampled_from(NAMES)),
    st.builds(lambda name: ApprovalExpired(approval_id=name), st.sampled_from(NAMES)),
    st.builds(lambda often: rejected(often=often), st.booleans()),
    st.builds(PlanCancelled, by=people),
    st.builds(PlanArchived, by=people),
    st.just(PlanExpired(plan_id=A)),
    st.builds(started, st.sampled_from(RUNS), st.sampled_from([None, *NAMES])),
    st.builds(ended, st.sampled_from(["completed", "failed", "cancelled"]), st.sampled_from(RUNS)),
)


def copy(state: PlanState) -> PlanState:
    return msgspec.json.decode(msgspec.json.encode(state), type=PlanState)


def check(state: PlanState, at: int) -> None:
    assert copy(state) == state, "what is kept beside the chain is what was folded"
    assert not state.permissions or state.stage in (Stage.APPROVED, Stage.EXECUTING, Stage.COMPLETED, Stage.FAILED)
    assert (state.stage is Stage.APPROVED) <= bool(state.permissions)
    assert (state.stage is Stage.EXECUTING) == (state.open_run is not None)
    assert state.permissions.keys().isdisjoint(state.ended)
    assert state.status(Instant(at)) in {"draft", *Stage}
    used = [one.how for one in state.ended.values() if one.how.startswith("RUN-")]
    assert len(used) == len(set(used)), "one approval, one run"


@given(st.lists(st.tuples(events, st.integers(NOW, NOW + 2 * HOURS + WEEK)), max_size=40))
def test_what_holds_of_every_history(history: list[tuple[Any, int]]):
    """Clocks jump both ways between two events; what cannot happen is passed over, as a ledger would never hold it."""
    state = PlanState()
    for event, at in history:
        try:
            state = apply_lineage(copy(state), event, Instant(at))
        except IllegalTransition:
            continue
        check(state, at)


def test_one_preparation_starts_one_run():
    def prep(name: str) -> PlanPrepared:
        return msgspec.structs.replace(prepared(), preparation=name)

    def run(name: str, preparation: str, approval: str | None = None) -> RunStarted:
        return msgspec.structs.replace(started(name, approval), preparation=preparation)

    first = (prep("PREP-A"), run("RUN-1", "PREP-A"), ended("completed"))
    assert fold(*first).preparations["PREP-A"].run_id == "RUN-1"
    for wrong in ("PREP-A", "PREP-B", "APPROVAL-1"):
        with pytest.raises(IllegalTransition, match="cannot start"):
            fold(*first, run("RUN-2", wrong))
    with pytest.raises(IllegalTransition, match="recorded twice"):
        fold(*first, prep("PREP-A"))
    more = fold(*first, approved(), run("RUN-2", "APPROVAL-1", "APPROVAL-1"))  # a yes that came after it
    assert (more.preparation, more.preparations["APPROVAL-1"].run_id) == ("APPROVAL-1", "RUN-2")
    assert fold(prep("PREP-A"), approved()).preparation == "PREP-A"
    assert fold(*first, run("RUN-2", "")).preparations["PREP-A"].run_id == "RUN-1"  # a rerun


def test_what_a_version_without_preparations_recorded_has_had_its_run():
    old = fold(prepared(), started(), ended("failed"), started("RUN-2"), ended("completed", "RUN-2"))
    assert [one.run_id for one in old.preparations.values()] == ["RUN-2"]
    assert [one.run_id for one in fold(prepared(), started(), ended("failed"), prepared()).preparations.values()] == [
        "RUN-1",
        None,
    ]


# --- Successors ------------------------------------------------------------------------------------------------------


def successor(plan: PlanId = B, run: str = "RUN-1") -> PlanPrepared:
    return replace(prepared(plan), continues=RunId(run), revises=A, reason="The contract was wrong.")


def replaced(run: str = "RUN-1") -> RunEnded:
    return ended("replaced", run)


def test_a_proposed_successor_lies_over_the_run_that_it_would_replace():
    state = fold(prepared(), started(), successor())
    assert (state.stage, state.plan_id, state.open_run, state.continues) == (Stage.PROPOSED, B, "RUN-1", "RUN-1")
    state = fold(prepared(), started(), successor(), ended("completed"))
    assert (state.stage, state.beneath and state.beneath.stage) == (Stage.PROPOSED, Stage.COMPLETED)


@pytest.mark.parametrize(
    "no", [rejected(plan=B), rejected(often=True, plan=B), PlanCancelled(by=KIM), PlanExpired(plan_id=B)]
)
@pytest.mark.parametrize("how", [None, "failed"])
def test_where_it_is_declined_the_lineage_stands_as_before(no, how):
    events = [prepared(), started(), *([ended(how)] if how else [])]
    before, after = fold(*events), fold(*events, successor(), no)
    assert (after.stage, after.plan_id, after.runs) == (before.stage, before.plan_id, before.runs)
    assert (after.continues, after.beneath, after.permissions) == (None, None, {})
    assert after.version(B) is not None


def test_it_starts_when_the_run_before_has_ended_and_not_else():
    heir = replace(started("RUN-2"), plan_id=B, continues=RunId("RUN-1"))
    state = fold(prepared(), started(), successor(), replaced(), heir)
    assert (state.stage, state.open_run, state.runs) == (Stage.EXECUTING, "RUN-2", {"RUN-1": "replaced", "RUN-2": None})
    with pytest.raises(IllegalTransition):
        fold(prepared(), started(), successor(), heir)
    with pytest.raises(IllegalTransition):  # it goes on with nothing
        fold(prepared(), started(), successor(), replaced(), replace(heir, continues=None))
    with pytest.raises(IllegalTransition):  # nothing is proposed that would
        fold(prepared(), started(), replaced())
    with pytest.raises(IllegalTransition):
        fold(prepared(), started(), successor(run="RUN-9"))
    with pytest.raises(IllegalTransition):  # what comes while a run is open goes on with it
        fold(prepared(), started(), successor(), prepared(B))
