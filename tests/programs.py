"""Programs that some tests drive for real: found, or installed where that is ours to do, or the test says why not."""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

import pytest

_LOCK = Path(tempfile.gettempdir()) / f"ordain-test-programs-{os.getuid()}.lock"
_PACKAGES = {"bwrap": "bubblewrap"}
"""Programs whose package is called otherwise."""
_QUIET = {"DEBIAN_FRONTEND": "noninteractive", "PATH": os.environ.get("PATH", os.defpath)}


def need(program: str) -> str:
    """The path of a program. Missing, it is installed (as root, with apt-get); where it cannot be had the test is
    skipped with the reason, and fails in CI, where nothing may be skipped unnoticed."""
    found = shutil.which(program) or _installed(program)
    if found is not None:
        return found
    reason = f"{program} is not installed, and could not be for this test (it takes root, apt-get and a network)"
    if os.environ.get("CI") == "true":
        pytest.fail(reason)
    pytest.skip(reason)


def _installed(program: str) -> str | None:
    """Install a program with apt-get; one process at a time, for apt has no patience with a second."""
    apt = shutil.which("apt-get")
    if apt is None or os.geteuid() != 0:
        return None
    with _LOCK.open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # let go when the file is closed
        if (found := shutil.which(program)) is not None:
            return found  # another worker was faster
        package = _PACKAGES.get(program, program)
        install = [apt, "install", "-y", "-qq", "--no-install-recommends", package]
        # The lists of packages are fetched at most once, and not at all where they are there already.
        if not _done(install) and not (_done([apt, "update", "-qq"]) and _done(install)):
            return None
    return shutil.which(program)


def _done(argv: list[str]) -> bool:
    return subprocess.run(argv, env=_QUIET, capture_output=True, check=False).returncode == 0
