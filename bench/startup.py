"""What it costs to start the program, beside importing the one library a command line needs."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from bench.measure import Line, Size, compare, installed, timed
from bench.plans import FIVE_STEPS
from bench.workspaces import trust

__all__ = ["measure"]

VERSION_TARGET = 1.5
LINT_TARGET = 3.0
RUN_TARGET = 6.0
_ALLOWED = '[policy]\nallow = ["opaque", "shell"]\n'
_ONE_STEP = "# Nothing\n\n1. `true`\n"
_OTHER = "python -c 'import click'"


async def measure(size: Size) -> list[Line]:
    document = size.directory / "five.plan.md"
    document.write_text(FIVE_STEPS)
    ordain = str(Path(sys.executable).with_name("ordain"))
    permitted = size.directory / "permitted"
    permitted.mkdir()
    (permitted / "one.plan.md").write_text(_ONE_STEP)
    await trust(size.directory / "home", permitted, _ALLOWED)
    commands = {
        "click": [sys.executable, "-c", "import click"],
        "version": [ordain, "--version"],
        "lint": [ordain, "lint", str(document)],
        "run": [ordain, "-C", str(permitted), "run", str(permitted / "one.plan.md")],
    }
    for command in commands.values():
        _start(command, size.directory)  # byte code is written, files are in memory
        _start(command, size.directory)
    times: dict[str, list[float]] = {name: [] for name in commands}
    for _ in range(size.pick(25, 9)):
        for name, command in commands.items():
            times[name].append(_start(command, size.directory))
    version = list(zip(times["version"], times["click"], strict=True))
    lint = list(zip(times["lint"], times["click"], strict=True))
    run = list(zip(times["run"], times["click"], strict=True))
    return [
        compare("startup", "ordain --version", _OTHER, version, target=VERSION_TARGET),
        compare("startup", "ordain lint (five steps)", _OTHER, lint, target=LINT_TARGET),
        compare("startup", "ordain run (one `true`)", _OTHER, run, target=RUN_TARGET),
    ]


def _start(command: list[str], directory: Path) -> float:
    """Seconds of one process."""
    env = installed(directory)
    return timed(lambda: subprocess.run(command, check=True, capture_output=True, cwd=directory, env=env))
