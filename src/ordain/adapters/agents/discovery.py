"""Whether an agent could be started here, found out without starting or importing anything of the workspace."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Sequence
from importlib.machinery import PathFinder
from pathlib import Path

from ordain.core.policy.agent import Agent
from ordain.core.policy.sealing import PLAIN_PATH


def agent_fault(agent: Agent, workspace: Path) -> str | None:
    """Why an agent cannot be started in a workspace; None where nothing speaks against it."""
    if agent.human or agent.registered:
        return None
    if agent.python is not None:
        module = agent.python.partition(":")[0]
        if not sys.executable:
            return "it is not known which Python to start"
        return None if _is_module(module) else f"there is no module {module}"
    program = agent.command[0] if agent.command else agent.preset or ""
    # A name with a slash is meant from the workspace, where the agent is started; no other one is found in there.
    if "/" in program:
        return None if shutil.which(workspace / program) is not None else f"there is no program {program}"
    from ordain.adapters.process.outside import program as find

    if find(program, os.environ.get("PATH", PLAIN_PATH), workspace) is not None:
        return None
    inside = ", only one in the workspace, which any step can change" if shutil.which(program) is not None else ""
    return f"there is no program {program}{inside}"


def _is_module(name: str) -> bool:
    """Whether a module can be found where an agent finds it, which is never the directory it is started in. Each
    package is looked for in the one around it; none is imported, for that would run what it holds."""
    path: Sequence[str] = [place for place in sys.path if os.path.isabs(place)]  # noqa: PTH117
    parts = name.split(".")
    for number, part in enumerate(parts, start=1):
        if number == 1 and part in sys.builtin_module_names:
            return len(parts) == 1
        spec = PathFinder.find_spec(".".join(parts[:number]), path)
        if spec is None:
            return False
        path = list(spec.submodule_search_locations or ())
    return True
