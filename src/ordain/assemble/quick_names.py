"""What plans, runs and steps of a workspace are called, for a shell that completes a word. Nothing is written."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from ordain.adapters.ledger.glance import PlanNames, plan_names, step_names
from ordain.adapters.workspace.locate import find_workspace, ledger_of
from ordain.core.plan.canonical import short_id
from ordain.core.text.problem import Refused


class QuickNames:
    """The names in the workspace that a directory lies in; none where there is no ledger."""

    def __init__(self, start: str, *, exact: bool) -> None:
        self._ledger: Path | None = None
        with suppress(Refused, OSError):
            place = Path(start)
            self._ledger = ledger_of(place.resolve() if exact else find_workspace(place))
        self._plans: list[PlanNames] = plan_names(self._ledger) if self._ledger is not None else []

    def plans(self) -> Iterator[str]:
        return (short_id(plan.plan_id) for plan in self._plans)

    def runs(self) -> Iterator[str]:
        return (run for plan in self._plans for run in plan.runs)

    def items(self, run: str) -> list[str]:
        """`RUN/STEP` for every step of a run."""
        stream = next((plan.stream for plan in self._plans if run in plan.runs), None)
        if stream is None or self._ledger is None:
            return []
        return [f"{run}/{step}" for step in step_names(self._ledger, stream)]
