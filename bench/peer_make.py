"""make: commands that do nothing, so many at once. Run by `.venv-bench`, not by us.

Prints one JSON line: {"make": [seconds per command, …]}, one number a round, with the whole process. Nothing is
remembered.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path

MAKEFILE = """\
SHELL := /bin/bash
.SHELLFLAGS := --noprofile --norc -eo pipefail -c
NAMES := {names}
.PHONY: all $(NAMES)
all: $(NAMES)
$(NAMES):
\t@true
"""


def main(folder: str, count: int, concurrency: int, rounds: int) -> None:
    path = Path(folder) / "Makefile"
    path.write_text(MAKEFILE.format(names=" ".join(f"n{number}" for number in range(count))))
    found = []
    for _ in range(rounds):
        start = time.perf_counter()
        subprocess.run(["make", "-s", "-f", str(path), f"-j{concurrency}"], check=True, cwd=folder)
        found.append((time.perf_counter() - start) / count)
    print(json.dumps({"make": found}))


if __name__ == "__main__":
    main(sys.argv[1], *map(int, sys.argv[2:5]))
