"""The verb that counts: how plans and runs went, from the ledger alone. Only looks.

One lineage and one run are held at a time, so that a long history needs no more memory than a short one.
"""

from __future__ import annotations

from functools import cache

from ordain.core.event import LineageEvent, PlanPrepared, RunEvent, RunOpened, RunStarted
from ordain.core.model import Plan
from ordain.core.plan_tally import PlanTally
from ordain.core.problem import refuse
from ordain.core.run_state import IllegalTransition
from ordain.core.run_tally import RunTally
from ordain.core.statistics import Statistics
from ordain.core.tally import Tally
from ordain.core.value import Instant, PlanId, RunId
from ordain.ports import Ledger
from ordain.records import Records, decoded_plan, impossible, names_run

__all__ = ["measure"]


def measure(ledger: Ledger, now: Instant, ref: str | None = None, since: Instant | None = None) -> Statistics:
    """What was counted of all plans, of one plan and its runs, or of one run: plans that were first proposed and runs
    that were started at `since` or later. Raises Refused where the ledger is broken."""
    tally, records = Tally(), Records(ledger)
    if ref is not None and names_run(ref):
        run_id = records.find_run(ref)
        _lineage(ledger, records.run(run_id)[0].lineage, tally, now, since, only=run_id)
        return tally.statistics(since, now, plans=False)
    for stream in (records.find_plan(ref),) if ref is not None else ledger.streams("lineage/"):
        _lineage(ledger, stream, tally, now, since)
    return tally.statistics(since, now)


def _lineage(
    ledger: Ledger, stream: str, tally: Tally, now: Instant, since: Instant | None, only: RunId | None = None
) -> None:
    """Count one lineage and its runs, or `only` one of them."""
    plan = PlanTally()
    prepared: dict[PlanId, PlanPrepared] = {}
    started: list[RunId] = []
    for recorded in ledger.read(stream):
        event = recorded.event
        assert isinstance(event, LineageEvent)
        try:
            plan.fold(event, recorded.at)
        except IllegalTransition as error:
            raise impossible(recorded, error) from error
        if isinstance(event, PlanPrepared):
            prepared[event.plan_id] = event
        elif isinstance(event, RunStarted) and only in (None, event.run_id) and recorded.at >= (since or 0):
            started.append(event.run_id)
    if plan.state.opened_at >= (since or 0):
        plan.close(tally, now)

    @cache
    def plan_of(plan_id: PlanId) -> Plan:
        return decoded_plan(prepared[plan_id])

    for run_id in started:
        run: RunTally | None = None
        for recorded in ledger.read(f"run/{run_id}"):
            event = recorded.event
            assert isinstance(event, RunEvent)
            if run is None:
                if not isinstance(event, RunOpened) or event.plan_id not in prepared:
                    break
                run = RunTally(tally, plan_of(event.plan_id), plan.name)
            try:
                run.fold(event, recorded.at)
            except IllegalTransition as error:
                raise impossible(recorded, error) from error
        if run is None:
            raise refuse("E_LEDGER_BROKEN", f"{run_id} was started, and nothing of it is recorded.")
        run.close(now)
