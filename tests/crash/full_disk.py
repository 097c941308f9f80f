"""A disk that really is full: the state directory, or the workspace, on a small file system of its own.

A script, to be run by `test_full_disk` where it may mount something (`unshare --map-root-user --mount`), so that
nothing is left mounted. Room is left for so many bytes, and a run goes as far as it can: so much decides the moment at
which the disk is full. Then there is room again, and a careful person finishes the run.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

from tests.crash import world
from tests.crash.process import Told, Warm
from tests.crash.run import RunSite, check_end, ended_by_itself

__all__ = ["SIZE"]

SIZE = 1 << 20
"""Of the file system: several times what a run needs."""


def fill(disk: Path, room: int) -> Path:
    """Leave so many bytes of a disk; the file that takes up the rest."""
    filler = disk / "filler"
    with filler.open("wb") as file:
        filler.chmod(0o600)
        stands = os.statvfs(disk)
        rest = stands.f_bavail * stands.f_frsize - room
        if rest > 0:
            os.posix_fallocate(file.fileno(), 0, rest)
    return filler


def state_full(site: RunSite, room: int) -> str:
    """The ledger cannot grow: the run stops, says so, and has begun nothing that it could not record; it cannot be
    resumed either, until there is room; then it is finished."""
    site.reset()
    filler = fill(site.home, room)
    told = site.run("commit")
    stopped(site, told)
    if told.status == 0:
        return "room enough"
    runs = site.look().runs
    if runs:
        again = site.run("resume", runs[0].run_id)
        assert again.status in (0, 1, 2, 3), again
        stopped(site, again)
    filler.unlink()
    end = site.run("finish")
    check_end(site, end)
    assert end.status == 0, f"nothing has failed, and yet: {end}"
    return f"{told.codes[0]}, {'after' if runs else 'before'} the run began"


def stopped(site: RunSite, told: Told) -> None:
    assert not told.bug, told.bug
    assert told.status == 0 or told.codes or told.questions, told
    ended_by_itself(site, told, site.compared(site.look()))


def workspace_full(site: RunSite, room: int) -> str:
    """Steps cannot write: they fail and say so, and the run ends with the world as it is told."""
    site.reset()
    fill(site.workspace, room)
    told = site.run("commit")
    assert not told.bug, told.bug
    assert told.status in (0, 1) and not told.codes, told
    ended_by_itself(site, told, site.compared(site.look()))
    (site.workspace / "filler").unlink()
    check_end(site, site.run("finish"))
    return "room enough" if told.status == 0 else ", ".join(sorted(set(told.errors)))


def main(folder: Path, which: str, rooms: list[int]) -> None:
    disk = folder / {"state": "state", "workspace": "ws"}[which]
    disk.mkdir(mode=0o700)
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={SIZE},mode=700", "tmpfs", str(disk)], check=True)
    warm = Warm()
    site = RunSite(folder, warm)
    ended: Counter[str] = Counter()
    for room in rooms:
        try:
            ended[{"state": state_full, "workspace": workspace_full}[which](site, room)] += 1
        except AssertionError as error:
            raise AssertionError(f"with room for {room} bytes: {error}; {world.times(site.workspace)}") from error
    warm.close()
    print(json.dumps(ended))


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], [int(word) for word in sys.argv[3:]])
