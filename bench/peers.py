"""Peers, each a script of its own run by the Python of `.venv-bench`, so that what they install never meets ours.

The environment is made when first wanted. A peer that cannot be had is a reason in the table, never a failure.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

import msgspec

from bench.measure import Line, Size, unmeasured

__all__ = ["AGENTLEDGER", "DBOS", "DURABLE", "LANGGRAPH", "Peer", "PeerMissing", "ask", "beside"]

_ROOT = Path(__file__).resolve().parent.parent
_VENV = _ROOT / ".venv-bench"
_PYTHON = _VENV / "bin" / "python"
_REQUIREMENTS = {
    "agentledger": "agentledger-runtime==1.6.*",
    "dbos": "dbos==3.3.*",
    "doit": "doit==0.37.*",
    "langgraph": "langgraph==1.2.* langgraph-checkpoint-sqlite==3.1.*",
    "make": "",
    "ninja": "ninja==1.13.*",
}
"""What has to be installed for each; make is the system's."""
_INSTALL_TIMEOUT_S = 300
_RUN_TIMEOUT_S = 120


class PeerMissing(Exception):
    """Why a peer could not be measured, in a few words."""


class Peer(msgspec.Struct, frozen=True):
    """A peer as it stands in the table."""

    script: str
    name: str
    note: str = ""


DBOS = Peer("dbos", "DBOS (SQLite)", "it records no start")
AGENTLEDGER = Peer("agentledger", "AgentLedger (SQLite)", "a call of a tool; four commits each")
LANGGRAPH = Peer("langgraph", "LangGraph (SQLite)", "it records no start")
DURABLE = (DBOS, LANGGRAPH, AGENTLEDGER)


def beside(
    size: Size, ours: Line, peer: Peer, *words: int | str, target: float | None = None, only: str = ""
) -> tuple[Line, str]:
    """Our line of before beside the fastest way of a peer, with `words` for its script; and which way that was."""
    try:
        if not size.peers:
            raise PeerMissing("peers were not asked for")
        found = ask(peer.script, size.directory, *words, *([only] if only else ()))
    except PeerMissing as missing:
        return unmeasured(ours.name, ours.ours, peer.name, str(missing)), only
    way, seconds = min(((way, statistics.median(rounds)) for way, rounds in found.items()), key=lambda pair: pair[1])
    assert ours.ours_s is not None
    name = f"{peer.name}, {way}" if way != peer.script else peer.name
    line = Line(
        name=ours.name,
        ours=ours.ours,
        ours_s=ours.ours_s,
        other=name,
        other_s=seconds,
        ratio=ours.ours_s / seconds,
        target=target,
        note=peer.note,
    )
    return line, way


def ask(peer: str, directory: Path, *words: int | str) -> dict[str, list[float]]:
    """What `peer_<name>.py` measured, called with a folder of its own and these words: seconds by name."""
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
    if not _PYTHON.exists():
        _run([sys.executable, "-m", "venv", _VENV], _INSTALL_TIMEOUT_S, "no environment for peers could be made")
    if requirement:
        print(f"installing {requirement} into {_VENV.name} …", file=sys.stderr, flush=True)
        pip = [_PYTHON, "-m", "pip", "--quiet", "--disable-pip-version-check", "install", *requirement.split()]
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
