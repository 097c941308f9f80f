"""Peers, each a script of its own run by the Python of `.venv-bench`, so that what they install never meets ours.

The environment is made when first wanted. A peer that cannot be had is a reason in the table, never a failure.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

__all__ = ["PeerMissing", "ask"]

_ROOT = Path(__file__).resolve().parent.parent
_VENV = _ROOT / ".venv-bench"
_PYTHON = _VENV / "bin" / "python"
_REQUIREMENTS = {"dbos": "dbos==3.3.*", "doit": "doit==0.37.*"}
_INSTALL_TIMEOUT_S = 180
_RUN_TIMEOUT_S = 90


class PeerMissing(Exception):
    """Why a peer could not be measured, in a few words."""


def ask(peer: str, directory: Path, *words: int) -> dict[str, list[float]]:
    """What `peer_<name>.py` measured, called with a folder of its own and these numbers: seconds by name."""
    _install(peer)
    script = _ROOT / "bench" / f"peer_{peer}.py"
    with tempfile.TemporaryDirectory(dir=directory) as folder:
        done = _run([_PYTHON, script, folder, *map(str, words)], _RUN_TIMEOUT_S, f"{peer} failed", folder)
    try:
        return json.loads(done.splitlines()[-1])
    except (IndexError, ValueError) as error:
        raise PeerMissing(f"{peer} said nothing to be understood") from error


def _install(peer: str) -> None:
    requirement = _REQUIREMENTS[peer]
    stamp = _VENV / f".installed-{peer}"
    if stamp.exists() and stamp.read_text() == requirement:
        return
    print(f"installing {requirement} into {_VENV.name} …", file=sys.stderr, flush=True)
    if not _PYTHON.exists():
        _run([sys.executable, "-m", "venv", _VENV], _INSTALL_TIMEOUT_S, "no environment for peers could be made")
    pip = [_PYTHON, "-m", "pip", "--quiet", "--disable-pip-version-check", "install", requirement]
    _run(pip, _INSTALL_TIMEOUT_S, f"{requirement} could not be installed")
    stamp.write_text(requirement)


def _run(command: list[str | Path], timeout_s: int, complaint: str, folder: str | None = None) -> str:
    env = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "VIRTUAL_ENV"))}
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=timeout_s, check=False, cwd=folder or _ROOT, env=env
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise PeerMissing(f"{complaint}: {type(error).__name__}") from error
    if done.returncode != 0:
        last = (done.stderr.strip().splitlines() or [f"exit status {done.returncode}"])[-1]
        raise PeerMissing(f"{complaint}: {last[:100]}")
    return done.stdout
