"""Ending the executors of runs, as by kill -9, and what their steps left running. No ledger is needed for it."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable
from functools import partial
from pathlib import Path

from ordain.adapters.ledger.lock import FileWriterLock
from ordain.adapters.process.process import all_processes, end_all, mark_of, with_descendants
from ordain.core.plan.value import RunId

_AGAIN_S = 0.05
_TRIES = 3


def end_executors(shelves: Iterable[Path], boot_id: str) -> tuple[tuple[RunId, ...], tuple[RunId, ...]]:
    """The runs of these workspaces whose executor was killed, and those whose executor could not be."""
    ended: list[RunId] = []
    left: list[RunId] = []
    swept: set[RunId] = set()
    for shelf in shelves:
        lock = FileWriterLock(partial(Path, shelf), boot_id)
        # The lock of an executor that was killed before is still there: what that one left running is swept as well.
        for run_id in (RunId(path.stem) for path in sorted(shelf.glob("RUN-*.lock"))):
            swept.add(run_id)
            if lock.holder(run_id) is not None:
                (ended if _end(lock, run_id) else left).append(run_id)
    for _ in range(2):  # twice: what a dead executor was just starting gets its mark a moment later
        end_all(partial(_marked, swept))
        time.sleep(_AGAIN_S)
    return tuple(ended), tuple(left)


def _end(lock: FileWriterLock, run_id: RunId) -> bool:
    """Kill the executor of a run; one that has just claimed it may not have said yet who it is."""
    for _ in range(_TRIES):
        holder = lock.holder(run_id)
        if holder is None or lock.end(run_id, holder):
            return True
        time.sleep(_AGAIN_S)
    return False


def _marked(run_ids: set[RunId]) -> set[int]:
    """The processes that bear the mark of one of these runs, with all that they started, but not ourselves: an agent
    may stop the very run it works for."""
    marks = {pid: (mark_of(pid) or "").split("/") for pid in all_processes()}
    marked = {pid for pid, parts in marks.items() if len(parts) > 1 and parts[1] in run_ids}
    return with_descendants(marked) - {os.getpid()} if marked - {os.getpid()} else set()
