"""Which kept outputs go by `[retention]`: those of runs that ended and that nobody still needs, the oldest first.

Pure: times and sizes are given. What any event outside of those runs names stays.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence, Set
from typing import NamedTuple

from ordain.core.lineage.lineage import PlanState, Stage
from ordain.core.plan.value import Instant, RunId
from ordain.core.policy.settings import Settings
from ordain.core.text.limit import DAY_MS

RETENTION_STREAM = "retention"
NEED_NOTHING = ("workspace", RETENTION_STREAM)
"""Streams whose events need nothing that is kept, whatever they name."""
MEGABYTE = 1_000_000


class KeptRun(NamedTuple):
    """A run that ended, and every seal that its events name."""

    run_id: RunId
    lineage: str
    ended_at: Instant
    seals: frozenset[str]


class Removal(NamedTuple):
    """What goes of one run."""

    run: KeptRun
    seals: tuple[str, ...]
    size: int


def needed_runs(state: PlanState) -> Iterator[RunId]:
    """The runs of a plan whose outputs somebody may still need: while it is approved or carried out all of them, while
    it waits for a decision the newest, and those that it goes on with."""
    if state.stage in (Stage.APPROVED, Stage.EXECUTING) or state.permissions or state.open_run is not None:
        yield from state.runs
    elif state.open:
        yield from tuple(state.runs)[-1:]
    if state.open and state.continues is not None:
        yield state.continues
    yield from (one.run_id for one in state.replans.values() if one.open)


def outputs_to_remove(
    ended: Sequence[KeptRun],
    needed: Set[RunId],
    named_elsewhere: Set[str],
    sizes: Mapping[str, int],
    settings: Settings,
    now: Instant,
) -> tuple[Removal, ...]:
    """What goes, run by run, the oldest first: what is older than `outputs_days`, then more until no more than
    `outputs_mb` are left, but for what ended within a day. `sizes` are those of everything that is kept."""
    too_old = now - settings.outputs_days * DAY_MS if settings.outputs_days else -1
    most = settings.outputs_mb * MEGABYTE if settings.outputs_mb else None
    holders = Counter(seal for run in ended for seal in run.seals)
    total = sum(sizes.values())
    removals = []
    for run in sorted(ended, key=lambda run: (run.ended_at, run.run_id)):
        if run.ended_at > too_old and (most is None or total <= most or run.ended_at > now - DAY_MS):
            break
        if run.run_id in needed:
            continue
        holders.subtract(run.seals)
        free = {seal for seal in run.seals & sizes.keys() if not holders[seal]} - named_elsewhere
        if free:
            size = sum(sizes[seal] for seal in free)
            total -= size
            removals.append(Removal(run, tuple(sorted(free)), size))
    return tuple(removals)
