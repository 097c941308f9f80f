"""What looking over a workspace for a planner costs, beside nothing but git's list of its files."""

from __future__ import annotations

import asyncio
import subprocess
from pathlib import Path

from bench.measure import Line, Size, compare, timed
from ordain.adapters.workspace.directory import DirectoryWorkspace
from ordain.adapters.workspace.file_list import DirectoryOutlines
from ordain.core.task.outline import OUTLINE_MAX
from ordain.core.text.redaction import Redactor

__all__ = ["measure"]

TARGET = 15.0
_GOAL = "Raise the version of module 17 and release it"


async def measure(size: Size) -> list[Line]:
    files = size.pick(20_000, 4_000)
    place = size.directory / "repository"
    _make(place, files)
    listing = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    redactor = Redactor({f"KEY_{number}": f"{number:04}-not-a-secret" for number in range(5)})
    outlines = DirectoryOutlines(place, DirectoryWorkspace(place))

    def look() -> None:
        blocks = asyncio.run(outlines.outline(_GOAL, redactor))
        assert 0 < sum(len(block.text) for block in blocks) <= OUTLINE_MAX

    def floor() -> None:
        subprocess.run(listing, cwd=place, check=True, capture_output=True)

    await asyncio.to_thread(look)
    floor()
    pairs = []
    for _ in range(size.pick(9, 5)):
        ours = await asyncio.to_thread(timed, look)
        pairs.append((ours, timed(floor)))
    return [
        compare(
            "outline", f"repository of {files:,} files", "git ls-files", pairs, target=None if size.quick else TARGET
        )
    ]


def _make(place: Path, files: int) -> None:
    for number in range(files):
        folder = place / "src" / f"module{number // 100}" / f"part{number % 10}"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"file{number}.py").write_text(f"print({number})\n")
    (place / "README.md").write_text("# A repository\n" * 500)
    (place / "AGENTS.md").write_text("Use tabs.\n" * 2_000)
    (place / "pyproject.toml").write_text("[tool.pytest.ini_options]\n[tool.ruff]\n")
    who = ("-c", "user.name=Kim", "-c", "user.email=kim@example.com", "-c", "commit.gpgSign=false")
    for words in (("init", "-q"), ("add", "."), (*who, "commit", "-q", "-m", "Begin")):
        subprocess.run(["git", *words], cwd=place, check=True, capture_output=True)
