"""What went wrong with similar plans of this workspace, as a planner is told it: from the ledger, in a few lines."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import suppress

from ordain.app.app import App
from ordain.core.lineage.lineage import PlanState
from ordain.core.run.step_event import StepState
from ordain.core.text.problem import Refused

LOOKED_BACK = 200
"""Among how many of the newest plans is looked for similar ones."""
TOLD_MAX = 5
LINE_MAX = 400
_FAILED = (StepState.FAILED, StepState.ESCALATED, StepState.IN_DOUBT)
_WORD = re.compile(r"\w{4,}")


def failures(app: App, goal: str) -> list[str]:
    """Why plans for something similar were rejected or failed, the newest first."""
    if not app.here.has_ledger():
        return []
    wanted = _words(goal)
    found: list[str] = []
    for summary in reversed(app.here.ledger.plans(newest=LOOKED_BACK)):
        told = summary.state.origin.goal if summary.state.origin is not None else ""
        if not _is_similar(wanted, _words(f"{summary.state.title} {told}")):
            continue
        with suppress(Refused):  # what cannot be read teaches nothing
            found += _of(app, summary.state)
        if len(found) >= TOLD_MAX:
            break
    return [one if len(one) <= LINE_MAX else f"{one[: LINE_MAX - 1]}…" for one in found[:TOLD_MAX]]


def _of(app: App, state: PlanState) -> Iterator[str]:
    for run_id, ended in reversed(state.runs.items()):
        if ended != "failed":
            continue
        report = app.runs.run(run_id)
        for step in report.steps:
            if step.state in _FAILED:
                seen = " ".join((step.own_output_tail or step.output_tail or step.evidence).split())[-200:]
                yield f"“{state.title}”: step `{step.id}` failed ({step.error or step.state.value}): {seen}"
        return
    for rejection in state.rejections[-1:]:
        yield f"“{state.title}” was rejected: {rejection.words()}"


def _words(text: str) -> frozenset[str]:
    return frozenset(_WORD.findall(text.lower()))


def _is_similar(wanted: frozenset[str], other: frozenset[str]) -> bool:
    shared = len(wanted & other)
    return shared >= 2 or (shared == 1 and min(len(wanted), len(other)) <= 2)
