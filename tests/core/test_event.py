"""Events as robots get them: flat, and none of their facts lost to the place they stand in."""

from __future__ import annotations

import json
from typing import get_args

import pytest

from ordain.core.approval.approval import Channel, Principal
from ordain.core.plan.value import Instant, RunId, StepId
from ordain.core.report.progress import wire_line
from ordain.core.run.event import Event, Recorded, RunEnded, to_wire
from ordain.core.run.step_event import DecisionGiven, StepState

_PLACE = {"seq", "at", "stream", "type", "run_head"}
_ANSWER = DecisionGiven(
    step=StepId("send"),
    choice="happened",
    by=Principal(name="ada", channel=Channel.TERMINAL),
    to=StepState.PASSED,
    head="aa",
)


def test_no_event_has_a_field_that_its_place_is_told_by() -> None:
    assert not {kind.__name__: kind.__struct_fields__ for kind in get_args(Event) if _PLACE & {*kind.__struct_fields__}}


@pytest.mark.parametrize("event", [RunEnded(run_id=RunId("RUN-A"), status="completed", head="aa"), _ANSWER])
def test_the_head_that_an_event_names_is_told_beside_its_own(event: RunEnded | DecisionGiven) -> None:
    recorded = Recorded(stream="run/RUN-A", seq=3, at=Instant(5), event=event, head="bb")
    wire = to_wire(recorded)
    assert (wire["head"], wire["run_head"]) == ("bb", "aa")
    assert wire_line(recorded).count(b'"head"') == 1
    assert json.loads(wire_line(recorded)) == wire


def test_a_decision_of_before_answers_were_bound_names_none() -> None:
    event = DecisionGiven(step=_ANSWER.step, choice="retry", by=_ANSWER.by, to=StepState.PENDING)
    assert "run_head" not in to_wire(Recorded(stream="run/RUN-A", seq=3, at=Instant(5), event=event, head="bb"))
