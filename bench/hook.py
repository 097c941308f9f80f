"""How long an agent's host waits for `ordain guard hook`, where the ledger is long, beside importing the one library
that a command line needs."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from bench.history import lived
from bench.measure import Line, Size, compare, installed, timed
from bench.workspaces import trust

__all__ = ["measure"]

TARGET = 2.5
_OTHER = "python -c 'import click'"
_CALLS = {
    "a guarded call": ("mcp__mail__send", {"to": "kim@example.com", "body": "Hello"}),
    "an open call": ("Read", {"file_path": "notes.txt"}),
}
"""What is asked about, and whether it is refused."""


async def measure(size: Size) -> list[Line]:
    plans = size.pick(10_000, 1_000)
    workspace, env = size.directory / "workspace", installed(size.directory)
    await (await lived(size.directory / "home", workspace, plans)).close()
    await trust(size.directory / "home", workspace, '[guard]\nmode = "enforce"\nopen = ["reads"]\n')
    hook = [str(Path(sys.executable).with_name("ordain")), "guard", "hook", "claude-code"]
    importing = [sys.executable, "-c", "import click"]
    times: dict[str, list[float]] = {name: [] for name in ("click", *_CALLS)}
    rounds = size.pick(25, 9)
    for turn in range(rounds + 2):  # the first two: byte code is written, files are in memory
        found = {"click": timed(lambda: subprocess.run(importing, check=True, cwd=workspace, env=env))}
        found |= {name: _answer(hook, name, workspace, env) for name in _CALLS}
        for name, seconds in found.items():
            times[name] += [seconds] if turn >= 2 else []
    note = f"{plans:,} plans"
    return [
        compare(
            "hook",
            f"answer about {name}",
            _OTHER,
            list(zip(times[name], times["click"], strict=True)),
            target=TARGET,
            note=note,
        )
        for name in _CALLS
    ]


def _answer(hook: list[str], name: str, workspace: Path, env: dict[str, str]) -> float:
    """Seconds of one process that is asked about a call."""
    tool, given = _CALLS[name]
    asked = {
        "hook_event_name": "PreToolUse",
        "session_id": "bench",
        "transcript_path": str(workspace / "transcript.jsonl"),
        "cwd": str(workspace),
        "permission_mode": "default",
        "tool_name": tool,
        "tool_input": given,
        "tool_use_id": "toolu_1",
    }
    said = b""

    def run() -> None:
        nonlocal said
        done = subprocess.run(
            hook, input=json.dumps(asked).encode(), check=True, capture_output=True, cwd=workspace, env=env
        )
        said = done.stdout

    seconds = timed(run)
    if (b'"deny"' in said) != (name == "a guarded call"):
        raise RuntimeError(f"the hook answered about {name}: {said!r}")
    return seconds
