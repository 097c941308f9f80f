"""How long an agent waits for its first answer from `ordain mcp`, beside importing the SDK that it is served with."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path

from bench.measure import Line, Size, compare, installed, timed

__all__ = ["measure"]

TARGET = 1.3
_OTHER = "python -c 'import mcp.server'"
_META = "io.modelcontextprotocol/"
_FIRST = {
    "initialize": {
        "protocolVersion": "2025-11-25",
        "capabilities": {},
        "clientInfo": {"name": "bench", "version": "1"},
    },
    "server/discover": {
        "_meta": {
            f"{_META}protocolVersion": "2026-07-28",
            f"{_META}clientCapabilities": {},
            f"{_META}clientInfo": {"name": "bench", "version": "1"},
        }
    },
}
"""The first request of each era."""


async def measure(size: Size) -> list[Line]:
    times: dict[str, list[float]] = {name: [] for name in ("import", *_FIRST)}
    for _ in range(2):  # byte code is written, files are in memory
        _import(size.directory)
        for method in _FIRST:
            _first_answer(method, size.directory)
    for _ in range(size.pick(15, 5)):
        times["import"].append(_import(size.directory))
        for method in _FIRST:
            times[method].append(_first_answer(method, size.directory))
    return [
        compare(
            "mcp",
            f"first answer of ordain mcp ({method})",
            _OTHER,
            list(zip(times[method], times["import"], strict=True)),
            target=TARGET,
        )
        for method in _FIRST
    ]


def _import(directory: Path) -> float:
    command = [sys.executable, "-c", "import mcp.server"]
    return timed(lambda: subprocess.run(command, check=True, cwd=directory, env=installed(directory)))


def _first_answer(method: str, directory: Path) -> float:
    """Seconds from the start of the process until it has answered one request."""
    ordain = str(Path(sys.executable).with_name("ordain"))
    request = json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": _FIRST[method]}) + "\n"
    began = time.perf_counter()
    with subprocess.Popen(
        [ordain, "mcp"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        cwd=directory,
        env=installed(directory),
    ) as server:
        assert server.stdin is not None and server.stdout is not None
        server.stdin.write(request.encode())
        server.stdin.flush()
        answer = json.loads(server.stdout.readline())
        took = time.perf_counter() - began
        server.stdin.close()
    if "result" not in answer:
        raise RuntimeError(f"{method} was not answered: {answer}")
    return took
