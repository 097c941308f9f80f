"""Agents on this machine: whether each could be started, how it is, what it says. What starts one is loaded late."""

from __future__ import annotations

import contextlib
import copy
import os
import shutil
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib.machinery import PathFinder
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ordain.adapters.process.outside import program as find_program
from ordain.core.policy.agent import Agent
from ordain.core.policy.sealing import PLAIN_PATH, RunEnvironment

if TYPE_CHECKING:
    from ordain.core.task.work_item import WorkItem
    from ordain.ports.agent import Invocation, StepServer
    from ordain.ports.tool import ToolResult

_PLACES = ("/tmp", "/var/tmp")


class LocalAgents:
    """ports.Agents over programs and callables."""

    def __init__(self, workspace: Path, registered: Mapping[str, Callable[..., Any]] | None = None) -> None:
        self._workspace = workspace
        self._calls = dict(registered or {})
        self._home = "~"

    def sealed(self, given: RunEnvironment) -> LocalAgents:
        agents = copy.copy(self)
        agents._home = given.variables.get("HOME", "~")
        return agents

    def registered(self) -> Mapping[str, Agent]:
        def spelt(call: Callable[..., Any]) -> str:
            return f"{getattr(call, '__module__', '?')}:{getattr(call, '__qualname__', '?')}"

        return {name: Agent(python=spelt(call), registered=True) for name, call in self._calls.items()}

    def fault(self, agent: Agent) -> str | None:
        fault = _agent_fault(agent, self._workspace)
        if fault is None or agent.preset is None:
            return fault
        from ordain.adapters.agents.preset import PRESETS

        return f"{fault}; `npm install -g {PRESETS[agent.preset].package}` installs {agent.preset}"

    @contextlib.contextmanager
    def room(self) -> Iterator[str]:
        import tempfile  # most runs have no task

        path = tempfile.mkdtemp(prefix="ordain-agent-", dir=self._outside(tempfile.gettempdir()))
        try:
            yield path
        finally:
            try:
                shutil.rmtree(path, ignore_errors=True)
            except RecursionError:  # directories that an agent left in one another, deeper than Python goes
                import subprocess  # few commands start anything

                subprocess.run(["/bin/rm", "-rf", "--", path], stderr=subprocess.DEVNULL, check=False)

    def _outside(self, usual: str) -> str:
        """Where private directories are made: not in the workspace, which every agent sees, if that can be helped."""
        workspace = Path(os.path.realpath(self._workspace))
        fits = (one for one in (usual, *_PLACES) if not Path(os.path.realpath(one)).is_relative_to(workspace))
        return next((one for one in fits if os.access(one, os.W_OK | os.X_OK)), usual)

    def invocation(
        self, agent: Agent, item: WorkItem, room: str, server: StepServer | None, *, sandboxed: bool = False
    ) -> Invocation:
        from ordain.adapters.agents import command, preset, python_task

        if agent.preset is not None:
            return preset.preset_invocation(
                agent, item, room, server, Path(self._home).expanduser(), sandboxed=sandboxed
            )
        if agent.python is not None:
            return python_task.python_invocation(agent, item, server)
        return command.command_invocation(agent, item, server)

    async def call(self, agent: Agent, item: WorkItem) -> ToolResult:
        from ordain.adapters.agents.python_task import performed, unregistered

        if self.registered().get(item.agent) != agent:
            return unregistered(item.agent)
        return await performed(self._calls[item.agent], item)


def _agent_fault(agent: Agent, workspace: Path) -> str | None:
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
    if find_program(program, os.environ.get("PATH", PLAIN_PATH), workspace) is not None:
        return None
    inside = ", only one in the workspace, which any step can change" if shutil.which(program) is not None else ""
    return f"there is no program {program}{inside}"


def _is_module(name: str) -> bool:
    """Whether a module can be found where an agent finds it, never where it is started; none is imported."""
    path: Sequence[str] = [place for place in sys.path if os.path.isabs(place)]  # noqa: PTH117
    parts = name.split(".")
    for number, part in enumerate(parts, start=1):
        if number == 1 and part in sys.builtin_module_names:
            return len(parts) == 1
        if (spec := PathFinder.find_spec(".".join(parts[:number]), path)) is None:
            return False
        path = list(spec.submodule_search_locations or ())
    return True
