"""The disk of the state directory, or of the workspace, is full at some moment of a run, and then has room again."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.crash.process import ROOT

pytestmark = pytest.mark.slow("mounts a small disk for each place that may be full")

ROOMS = {"state": (0, 8, 40, 60, 80, 100, 120, 400), "workspace": (0, 4, 8, 12, 16, 20, 400)}
"""For how many KiB there is room."""
ALONE = ("unshare", "--map-root-user", "--mount")


@pytest.fixture
def mounting(tmp_path) -> None:
    """Skips with the reason where nobody lets us mount anything."""
    if shutil.which(ALONE[0]) is None:
        pytest.skip("there is no unshare here, to mount a small disk with")
    tried = subprocess.run(
        [*ALONE, "mount", "-t", "tmpfs", "tmpfs", str(tmp_path)], capture_output=True, text=True, check=False
    )
    if tried.returncode != 0:
        pytest.skip(f"a small disk cannot be mounted here: {tried.stderr.strip()}")


def fill(folder: Path, which: str, rooms: list[int]) -> dict[str, int]:
    """How runs ended for which there was so much room."""
    argv = [*ALONE, sys.executable, "-m", "tests.crash.full_disk", str(folder), which, *map(str, rooms)]
    done = subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-4000:]
    ended: dict[str, int] = json.loads(done.stdout)
    assert sum(ended.values()) == len(rooms)
    return ended


@pytest.mark.parametrize("which", ROOMS)
def test_the_disk_is_full(tmp_path, mounting, which):
    ended = fill(tmp_path, which, [kib * 1024 for kib in ROOMS[which]])
    assert "room enough" in ended and len(ended) >= 2, ended


@pytest.mark.sweep
@pytest.mark.timeout(600)
@pytest.mark.parametrize("which", ROOMS)
def test_the_disk_is_full_at_every_page(tmp_path, mounting, which):
    rooms = range(0, (300 if which == "state" else 40) * 1024, 4096)
    print(f"\n{which}: {fill(tmp_path, which, list(rooms))}")
