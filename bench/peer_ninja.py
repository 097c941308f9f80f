"""ninja: commands that do nothing, so many at once. Run by `.venv-bench`, not by us.

Prints one JSON line: {"ninja": [seconds per command, …]}, one number a round, with the whole process. It keeps a log of
what it built, which is not made durable. It starts each command with /bin/sh, which then starts our bash.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path

RULE = """\
rule nothing
  command = exec /bin/bash --noprofile --norc -eo pipefail -c true
"""


def main(folder: str, count: int, concurrency: int, rounds: int) -> None:
    ninja = Path(sys.executable).with_name("ninja")
    (Path(folder) / "build.ninja").write_text(RULE + "".join(f"build n{number}: nothing\n" for number in range(count)))
    found = []
    for _ in range(rounds):
        start = time.perf_counter()
        subprocess.run([ninja, "--quiet", f"-j{concurrency}"], check=True, cwd=folder, stdout=subprocess.DEVNULL)
        found.append((time.perf_counter() - start) / count)
    print(json.dumps({"ninja": found}))


if __name__ == "__main__":
    main(sys.argv[1], *map(int, sys.argv[2:5]))
