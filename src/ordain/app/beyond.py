"""The verbs beyond looking at documents, made together when the first of them is asked for."""

from __future__ import annotations

from collections.abc import Callable

from ordain.app.answers import Answers
from ordain.app.approvals import Approvals
from ordain.app.gate import Gate
from ordain.app.plans import PlanVerbs
from ordain.app.refusals import Refusals
from ordain.app.review import Reviews
from ordain.app.runs import GoOn, RunVerbs
from ordain.app.stop import Stops
from ordain.app.templates import Templates
from ordain.app.topics import Signals, Topics
from ordain.app.workspace import WorkspaceView
from ordain.records.surroundings import Surroundings


class Beyond:
    def __init__(self, here: Surroundings, go_on: Callable[[], GoOn | None]) -> None:
        gate, reviews, self.refusals = Gate(here), Reviews(here), Refusals(here)
        plans = self.plans = PlanVerbs(here, reviews, lambda run_id: self.runs.report(run_id), self.refusals)
        self.workspace = WorkspaceView(here)
        self.approvals = Approvals(here, gate, plans, self.refusals)
        self.runs = RunVerbs(here, gate, plans, self.refusals, go_on)
        self.answers = Answers(here, gate, self.runs.report)
        self.signals, self.topics, self.stops = Signals(here), Topics(here), Stops(here)
        self.templates = Templates(here, reviews)
