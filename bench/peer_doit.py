"""doit: commands that do nothing, so many at once. Run by `.venv-bench`, not by us.

Prints one JSON line: {"thread": [seconds per command, …]}, one number a round. Reading the tasks and saving what was
done count; starting Python does not. Each round has a new database.
"""

from __future__ import annotations

import io
import json
import sys
import time

from doit.action import CmdAction
from doit.cmd_base import ModuleTaskLoader
from doit.doit_cmd import DoitMain

COMMAND = ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", "true"]


def once(folder: str, count: int, concurrency: int, number: int) -> float:
    def task_nothing():
        for index in range(count):
            yield {"name": str(index), "actions": [CmdAction(COMMAND, shell=False)]}

    config = {"dep_file": f"{folder}/doit-{number}.db", "verbosity": 0, "outfile": io.StringIO()}
    loader = ModuleTaskLoader({"task_nothing": task_nothing, "DOIT_CONFIG": config})
    start = time.perf_counter()
    status = DoitMain(loader, config_filenames=()).run(["run", "-n", str(concurrency), "-P", "thread"])
    seconds = time.perf_counter() - start
    if status:
        raise SystemExit(f"doit ended with {status}")
    return seconds / count


def main(folder: str, count: int, concurrency: int, rounds: int) -> None:
    print(json.dumps({"thread": [once(folder, count, concurrency, number) for number in range(rounds)]}))


if __name__ == "__main__":
    main(sys.argv[1], *map(int, sys.argv[2:5]))
