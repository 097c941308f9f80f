"""Agents on this machine: how each is started, and what its output says.

Most commands only look, and most runs have no task: what starts an agent is loaded by the first that is started.
"""

from __future__ import annotations

import contextlib
import copy
import os
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from ordain.core.policy.agent import MODEL_WORD, PROMPT_WORD, Agent
from ordain.core.policy.sealing import RunEnvironment
from ordain.core.task.work_item import WorkItem
from ordain.ports.ports import Finished, Invocation, Said, StepServer, ToolResult

WORD_BYTES_MAX = (128 << 10) - 1
"""What Linux takes for one word of a command, but for the NUL at its end."""

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
        return {name: Agent(python=_named(call), registered=True) for name, call in self._calls.items()}

    def fault(self, agent: Agent) -> str | None:
        from ordain.adapters.agents.discovery import agent_fault

        fault = agent_fault(agent, self._workspace)
        if fault is None or agent.preset is None:
            return fault
        from ordain.adapters.agents.presets import PRESETS

        return f"{fault}; `npm install -g {PRESETS[agent.preset].package}` installs {agent.preset}"

    @contextlib.contextmanager
    def room(self) -> Iterator[str]:
        import shutil
        import tempfile

        path = tempfile.mkdtemp(prefix="ordain-agent-", dir=self._outside(tempfile.gettempdir()))
        try:
            yield path
        finally:
            try:
                shutil.rmtree(path, ignore_errors=True)
            except RecursionError:  # directories that an agent left in one another, deeper than Python goes
                import subprocess

                subprocess.run(["/bin/rm", "-rf", "--", path], stderr=subprocess.DEVNULL, check=False)

    def _outside(self, usual: str) -> str:
        """Where private directories are made: not in the workspace, which every agent sees, if that can be helped."""
        workspace = Path(os.path.realpath(self._workspace))
        fits = (one for one in (usual, *_PLACES) if not Path(os.path.realpath(one)).is_relative_to(workspace))
        return next((one for one in fits if os.access(one, os.W_OK | os.X_OK)), usual)

    def invocation(
        self, agent: Agent, item: WorkItem, room: str, server: StepServer | None, *, sandboxed: bool = False
    ) -> Invocation:
        if agent.preset is not None:
            from ordain.adapters.agents.presets import preset_invocation

            return preset_invocation(agent, item, room, server, Path(self._home).expanduser(), sandboxed=sandboxed)
        if agent.python is not None:
            from ordain.adapters.agents.python_process import python_invocation

            return python_invocation(agent, item, server)
        words = tuple(_filled(word, item) for word in agent.command)
        stdin, size = b"" if PROMPT_WORD in agent.command else item.prompt.encode(), len(item.prompt.encode())
        if not stdin and size > WORD_BYTES_MAX:
            detail = f"the prompt has {size:,} bytes, and a word of a command {WORD_BYTES_MAX:,} at most"
            raise ValueError(f"{detail}; without `{PROMPT_WORD}` it comes on standard input")
        return Invocation(
            argv=words,
            stdin=stdin,
            env={**(server.env if server is not None else {}), "ORDAIN_MODEL": item.model or ""},
            read=_object if agent.output == "json" else _text,
            home=agent.files,
        )

    async def call(self, agent: Agent, item: WorkItem) -> ToolResult:
        if self.registered().get(item.agent) != agent:
            detail = f"the agent `{item.agent}` is not registered in this program"
            return ToolResult(error="F_STEP_FAILED", detail=detail)
        from ordain.adapters.agents.python_call import performed

        return await performed(self._calls[item.agent], item)


def _named(call: Callable[..., Any]) -> str:
    return f"{getattr(call, '__module__', '?')}:{getattr(call, '__qualname__', '?')}"


def _filled(word: str, item: WorkItem) -> str:
    return item.prompt if word == PROMPT_WORD else word.replace(MODEL_WORD, item.model or "")


def _object(finished: Finished) -> Said:
    from ordain.adapters.agents.claude import read_object

    return read_object(finished)


def _text(finished: Finished) -> Said:
    return Said(text=finished.output)
