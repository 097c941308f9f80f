"""Python functions that perform tasks, as a configuration or a program would name them."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from ordain import Cannot, Work

THIS = "tests.agent_functions"


def writes(work: Work) -> str:
    """Do what the contracts of the tests want, and say what was seen."""
    Path("done").write_text(f"{work.step} {work.attempt}\n")
    print("on the side")
    return f"{work.agent} did {work.task!r} with {work.model}"


async def slowly(work: Work) -> dict[str, Any]:
    await asyncio.sleep(0)
    return {"step": work.step, "attempt": work.attempt, "reads": list(work.reads)}


def counts(work: Work) -> None:
    work.uses(tokens=700)
    work.uses(tokens=50, cost_usd=0.25)


def gives_up(work: Work) -> str:
    raise Cannot("the test asserts that\n1 is 2")


def raises(work: Work) -> str:
    raise ValueError("no such thing")


def odd(work: Work) -> object:
    return object()


def where(work: Work) -> dict[str, Any]:
    """What this process is like."""
    return {
        "pid": os.getpid(),
        "path": sys.path,
        "variables": sorted(os.environ),
        "home": os.environ.get("HOME"),
        "session": os.getsid(0) == os.getpid(),
    }


def calls(work: Work) -> Any:
    """What two tools of the step say, the second of which fails."""
    said = work.call("echo", text="through the door")
    try:
        work.call("fail")
    except RuntimeError as error:
        return [said, str(error)]


def tries_to_get_out(work: Work) -> str:
    target = work.task.split()[-1]
    try:
        Path(target).write_text("x")
    except OSError as error:
        return str(error)
    return "out"


_LEFT = """
import os, time
os.setsid()
if os.fork() == 0:
    with open("left.new", "w") as file:
        file.write(str(os.getpid()))
    os.rename("left.new", "left")
    time.sleep(60)
"""


def leaves_one_behind(work: Work) -> str:
    """A process that gets away as far as one can: in a session of its own, an orphan, without our mark."""
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    subprocess.run([sys.executable, "-c", _LEFT], env={}, check=True, **quiet)  # type: ignore[call-overload]
    while not Path("left").exists():
        pass
    return "left one"
