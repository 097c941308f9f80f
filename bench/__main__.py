"""`python -m bench`: every benchmark, or the ones named, and one table of ratios."""

from __future__ import annotations

import argparse
import asyncio
import os
import platform
import sys
import tempfile
import time
from pathlib import Path

import apsw

from bench import (
    agents,
    chain,
    commands,
    document,
    gateway,
    history,
    hook,
    ledger,
    live,
    mcp,
    outline,
    planner,
    resume,
    sandbox,
    startup,
    understood,
    wide,
)
from bench.measure import Line, Size

BENCHMARKS = {
    "chain": chain.measure,
    "wide": wide.measure,
    "commands": commands.measure,
    "resume": resume.measure,
    "startup": startup.measure,
    "ledger": ledger.measure,
    "history": history.measure,
    "document": document.measure,
    "live": live.measure,
    "mcp": mcp.measure,
    "gateway": gateway.measure,
    "hook": hook.measure,
    "understood": understood.measure,
    "sandbox": sandbox.measure,
    "agents": agents.measure,
    "outline": outline.measure,
    "planner": planner.measure,
}
# On the disk of the checkout: a temporary directory may be in memory, where durability costs nothing.
SCRATCH = Path(__file__).resolve().parent.parent / "build" / "bench"


def main() -> int:
    arguments = _arguments()
    began = time.monotonic()
    SCRATCH.mkdir(parents=True, exist_ok=True)
    lines: list[Line] = []
    for name in arguments.names or BENCHMARKS:
        if sys.stderr.isatty():
            print(f"measuring {name} …", file=sys.stderr, flush=True)
        with tempfile.TemporaryDirectory(prefix=f"{name}-", dir=SCRATCH) as directory:
            size = Size(quick=arguments.quick, peers=not arguments.no_peers, directory=Path(directory))
            lines += asyncio.run(BENCHMARKS[name](size))
    _print(lines)
    missed = [line for line in lines if line.missed]
    print()
    print(f"Python {platform.python_version()}, SQLite {apsw.sqlite_lib_version()}, {os.cpu_count()} cores.", end=" ")
    print(f"{len(missed)} target(s) missed. Took {time.monotonic() - began:.0f} s.", end=" ")
    print("docs/benchmarks.md says what each line means.")
    return 1 if arguments.check and missed else 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench", description="Speed beside peers and the physical floor.")
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"which to run: {', '.join(BENCHMARKS)}; default: all")
    parser.add_argument("--quick", action="store_true", help="small sizes; less exact")
    parser.add_argument("--no-peers", action="store_true", help="leave out what needs .venv-bench")
    parser.add_argument("--check", action="store_true", help="exit with 1 when a target is missed")
    arguments = parser.parse_args()
    for name in arguments.names:
        if name not in BENCHMARKS:
            parser.error(f"there is no benchmark `{name}`; there are: {', '.join(BENCHMARKS)}")
    return arguments


def _print(lines: list[Line]) -> None:
    rows = [("", "ours", "", "beside", "", "ratio", "target", "", "")]
    for line in lines:
        ratio = "–" if line.ratio is None else _ratio(line.ratio)
        target = "" if line.target is None else f"≤ {line.target:.3g} ×"
        verdict = "" if line.target is None or line.ratio is None else "MISSED" if line.missed else "met"
        row = (line.name, line.ours, _time(line.ours_s), line.other, _time(line.other_s), ratio, target, verdict)
        rows.append((*row, line.note))
    widths = [max(len(row[column]) for row in rows) for column in range(9)]
    right = (2, 4, 5, 6)
    previous = None
    for row in rows:
        if previous is not None and row[0] != previous:
            print()
        shown = ("" if row[0] == previous else row[0], *row[1:])
        cells = [
            cell.rjust(width) if column in right else cell.ljust(width)
            for column, (cell, width) in enumerate(zip(shown, widths, strict=True))
        ]
        print("  ".join(cells).rstrip())
        previous = row[0]


def _ratio(ratio: float) -> str:
    return f"{ratio:.3f} ×" if ratio < 1 else f"{ratio:.2f} ×" if ratio < 10 else f"{ratio:.1f} ×"


def _time(seconds: float | None) -> str:
    if seconds is None:
        return ""
    if seconds < 1e-3:
        return f"{seconds * 1e6:.0f} µs"
    return f"{seconds * 1e3:.1f} ms" if seconds < 1 else f"{seconds:.2f} s"


if __name__ == "__main__":
    sys.exit(main())
