"""How a Python function that the configuration names is started for one task: in a fresh process, with the interpreter
and the modules that we have ourselves. Neither the workspace nor a variable adds any."""

from __future__ import annotations

import importlib.util
import os
import sys
from pathlib import Path

import msgspec

from ordain.adapters.agents import python_agent
from ordain.adapters.process.program_file import our_python
from ordain.core.policy.agent import Agent
from ordain.core.run.prompt import CANNOT
from ordain.core.task.work_item import WorkItem
from ordain.ports.ports import Finished, Invocation, Said, StepServer


def python_invocation(agent: Agent, item: WorkItem, server: StepServer | None) -> Invocation:
    assert agent.python is not None
    given = {
        "call": agent.python,
        "path": [path for path in sys.path if os.path.isabs(path)],  # noqa: PTH117
        "item": item,
        "server": {"argv": server.argv, "env": server.env} if server is not None else None,
        "cannot": CANNOT,
    }
    return Invocation(
        # `-P`: what stands beside the program or in the directory it is started in is none of ours.
        argv=(sys.executable, "-P", str(Path(python_agent.__file__).resolve())),
        stdin=msgspec.json.encode(given),
        read=_said,
        sees=(*our_python(), *_package(agent.python)),
        home=agent.files,
    )


def _said(finished: Finished) -> Said:
    return Said(text=finished.output, as_value=True)


def _top(name: str) -> str:
    return name.partition(":")[0].partition(".")[0]


def _package(name: str) -> tuple[str, ...]:
    """Where the outermost package or module of a function is; nothing where it cannot be found."""
    try:
        spec = importlib.util.find_spec(_top(name))
    except (ImportError, ValueError, AttributeError):
        return ()
    if spec is None:
        return ()
    return tuple(spec.submodule_search_locations or ()) or ((spec.origin,) if spec.origin is not None else ())
