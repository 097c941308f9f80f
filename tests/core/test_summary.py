"""The line kept about each plan: always the fold of its events, and never a reason to fail."""

from typing import Any

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from ordain.core.ledger.summary import PlanSummary, summarise
from ordain.core.lineage.lineage import PlanState, Stage, apply_lineage
from ordain.core.plan.value import Instant
from ordain.core.run.event import LineageEvent, PlanArchived, PlanPrepared, Recorded, WorkspaceOpened
from ordain.core.run.run_state import IllegalTransition
from tests.core.test_lineage import KIM, NOW, WEEK, copy, ended, events, prepared, started
from tests.core.test_workspace import OPENED

STREAM = "lineage/PLAN-A"


def recorded(event: LineageEvent | WorkspaceOpened, at: int = NOW) -> Recorded:
    return Recorded(stream=STREAM, seq=1, at=Instant(at), event=event, head="")


def test_what_is_no_lineages_event_leaves_it_as_it_was():
    before = summarise(None, recorded(prepared()))
    assert summarise(None, recorded(OPENED)) is None
    assert summarise(before, recorded(OPENED)) is before


def test_a_summary_knows_its_plan_as_the_fold_does():
    found: PlanSummary | None = None
    for event in (prepared(), started(), ended("completed")):
        found = summarise(found, recorded(event))
    assert found is not None
    assert (found.stream, found.state.stage, found.open, found.document) == (STREAM, Stage.COMPLETED, False, None)


def test_what_could_not_have_happened_is_passed_over():
    before = summarise(None, recorded(prepared()))
    assert summarise(before, recorded(PlanArchived(by=KIM))) == before
    assert summarise(None, recorded(PlanArchived(by=KIM))) is None


def test_a_plan_that_is_none_is_passed_over():
    for body in (b"[]", b'{"title":7}', b"not json"):
        event = msgspec.structs.replace(prepared(), plan=msgspec.Raw(body))
        assert isinstance(event, PlanPrepared)
        assert summarise(None, recorded(event)) is None


@given(st.lists(st.tuples(events, st.integers(NOW, NOW + WEEK)), max_size=30))
def test_it_is_always_the_fold_and_never_changes_the_one_before(history: list[tuple[Any, int]]):
    summary: PlanSummary | None = None
    state = PlanState()
    for event, at in history:
        before, kept = summary, copy(summary.state) if summary is not None else None
        summary = summarise(summary, recorded(event, at))
        assert before is None or before.state == kept
        try:
            state = apply_lineage(copy(state), event, Instant(at))
        except IllegalTransition:
            assert summary is before
            continue
        assert summary == PlanSummary(stream=STREAM, state=state)
