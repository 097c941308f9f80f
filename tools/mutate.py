"""`make mutate`: break one guarantee at a time and demand that the test named beside it fails.

A row of `tests/mutants/*.toml` has a guarantee in words, a file, the text `old` that occurs there exactly once, the
text `new` that breaks it, and the test that must notice. Every sabotage is tried in a copy of the tree, so an
interrupted run leaves nothing behind. A test that errs instead of failing counts as not noticing.

    .venv/bin/python tools/mutate.py            all rows
    .venv/bin/python tools/mutate.py approval   the rows of tests/mutants/approval.toml
"""

from __future__ import annotations

import os
import queue
import shutil
import subprocess
import sys
import tempfile
import threading
import tomllib
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent
ROWS = ROOT / "tests" / "mutants"
COPIED = ("src", "tests", "tools", "examples", "docs", "bench", "*.toml", "*.md")
WORKERS = 2
TIMEOUT_S = 300


class Mutant(NamedTuple):
    """One guarantee, how to break it, and the test that must fail then."""

    area: str
    guarantee: str
    file: str
    old: str
    new: str
    test: str


def read_mutants(areas: Iterable[str] = ()) -> list[Mutant]:
    """The rows of the named areas, or of all."""
    found = []
    for path in sorted(ROWS.glob("*.toml")):
        if not areas or path.stem in areas:
            rows = tomllib.loads(path.read_text())["mutant"]
            found += [Mutant(area=path.stem, **row) for row in rows]
    return found


def copy_tree(into: Path) -> Path:
    """A copy of what the tests need."""
    for source in (path for name in COPIED for path in ROOT.glob(name)):
        if source.is_dir():
            shutil.copytree(source, into / source.name, ignore=shutil.ignore_patterns("__pycache__", "node_modules"))
        else:
            shutil.copy2(source, into / source.name)
    return into


def run_tests(tree: Path, *tests: str) -> tuple[int, str]:
    """The exit status of pytest over these tests in a tree, and the end of what it wrote."""
    env = {**os.environ, "PYTHONPATH": str(tree / "src"), "PYTHONDONTWRITEBYTECODE": "1"}
    command = [sys.executable, "-m", "pytest", "-x", "-p", "no:cacheprovider", "-m", "not agents and not mcp", *tests]
    try:
        done = subprocess.run(
            command, cwd=tree, env=env, capture_output=True, text=True, timeout=TIMEOUT_S, check=False
        )
    except subprocess.TimeoutExpired:
        return -1, "timed out"
    return done.returncode, "\n".join(done.stdout.splitlines()[-15:])


def judge(tree: Path, mutant: Mutant) -> str | None:
    """Why a sabotage counts as not noticed; None where the named test failed for it."""
    path = tree / mutant.file
    before = path.read_text()
    if before.count(mutant.old) != 1:
        return f"`old` occurs {before.count(mutant.old)} times in {mutant.file}"
    path.write_text(before.replace(mutant.old, mutant.new))
    try:
        status, said = run_tests(tree, mutant.test)
    finally:
        path.write_text(before)
    if status == 1:
        return None
    return "the test passed all the same" if status == 0 else f"pytest ended with {status}:\n{said}"


def main() -> int:
    mutants = read_mutants(sys.argv[1:])
    with tempfile.TemporaryDirectory(prefix="ordain-mutate-") as room:
        trees = [copy_tree(Path(room) / str(number)) for number in range(WORKERS)]
        status, said = run_tests(trees[0], *dict.fromkeys(mutant.test for mutant in mutants))
        if status != 0:
            print(f"The tests do not pass before anything is broken:\n{said}")
            return 1
        waiting: queue.SimpleQueue[Mutant] = queue.SimpleQueue()
        for mutant in mutants:
            waiting.put(mutant)
        survivors: list[tuple[Mutant, str]] = []

        def work(tree: Path) -> None:
            while True:
                try:
                    mutant = waiting.get_nowait()
                except queue.Empty:
                    return
                why = judge(tree, mutant)
                print(f"{'caught  ' if why is None else 'SURVIVED'}  {mutant.area}: {mutant.guarantee}", flush=True)
                if why is not None:
                    survivors.append((mutant, why))

        threads = [threading.Thread(target=work, args=(tree,)) for tree in trees]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    for mutant, why in survivors:
        print(f"\n{mutant.area}: {mutant.guarantee}\n  {mutant.file} under {mutant.test}\n  {why}")
    print(f"\n{len(mutants) - len(survivors)} of {len(mutants)} sabotages were caught.")
    return 1 if survivors else 0


if __name__ == "__main__":
    sys.exit(main())
