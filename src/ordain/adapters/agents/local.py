"""Agents on this machine: how each is started, and what its output says."""

from __future__ import annotations

import contextlib
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from ordain.adapters.agents.claude import read_object
from ordain.adapters.agents.found import agent_fault
from ordain.adapters.agents.python_call import performed
from ordain.adapters.agents.python_process import python_invocation
from ordain.core.agent import MODEL_WORD, PROMPT_WORD, Agent
from ordain.core.work import WorkItem
from ordain.ports import Finished, Invocation, Said, StepServer, ToolResult

__all__ = ["LocalAgents"]

ARGUMENT_BYTES_MAX = (128 << 10) - 1
"""What Linux takes as one argument."""


class LocalAgents:
    """ports.Agents over programs and callables."""

    def __init__(self, workspace: Path, registered: Mapping[str, Callable[..., Any]] | None = None) -> None:
        self._workspace = workspace
        self._calls = dict(registered or {})

    def registered(self) -> Mapping[str, Agent]:
        return {name: Agent(python=_named(call), registered=True) for name, call in self._calls.items()}

    def fault(self, agent: Agent) -> str | None:
        fault = agent_fault(agent, self._workspace)
        if fault is None or agent.preset is None:
            return fault
        from ordain.adapters.agents.presets import PRESETS  # most runs have none

        return f"{fault}; `npm install -g {PRESETS[agent.preset].package}` installs {agent.preset}"

    @contextlib.contextmanager
    def room(self) -> Iterator[str]:
        path = tempfile.mkdtemp(prefix="ordain-agent-")
        try:
            yield path
        finally:
            try:
                shutil.rmtree(path, ignore_errors=True)
            except RecursionError:  # directories that an agent left in one another, deeper than Python goes
                import subprocess

                subprocess.run(["rm", "-rf", "--", path], stderr=subprocess.DEVNULL, check=False)

    def invocation(
        self, agent: Agent, item: WorkItem, room: str, server: StepServer | None, *, sandboxed: bool = False
    ) -> Invocation:
        if agent.preset is not None:
            from ordain.adapters.agents.presets import preset_invocation  # most runs have none

            return preset_invocation(agent, item, room, server, sandboxed=sandboxed)
        if agent.python is not None:
            return python_invocation(agent, item, server)
        words = tuple(_filled(word, item) for word in agent.command)
        if PROMPT_WORD in agent.command and (size := len(item.prompt.encode())) > ARGUMENT_BYTES_MAX:
            raise ValueError(
                f"its prompt has {size:,} bytes, and no argument can have more than {ARGUMENT_BYTES_MAX:,}; "
                f"leave out the word {PROMPT_WORD}, and it comes on standard input"
            )
        stdin = b"" if PROMPT_WORD in agent.command else item.prompt.encode()
        return Invocation(
            argv=words,
            stdin=stdin,
            env={**(server.env if server is not None else {}), "ORDAIN_MODEL": item.model or ""},
            read=read_object if agent.output == "json" else _text,
            home=agent.files,
        )

    async def call(self, agent: Agent, item: WorkItem) -> ToolResult:
        if self.registered().get(item.agent) != agent:
            detail = f"the agent `{item.agent}` is not registered in this program"
            return ToolResult(error="F_STEP_FAILED", detail=detail)
        return await performed(self._calls[item.agent], item)


def _named(call: Callable[..., Any]) -> str:
    return f"{getattr(call, '__module__', '?')}:{getattr(call, '__qualname__', '?')}"


def _filled(word: str, item: WorkItem) -> str:
    return item.prompt if word == PROMPT_WORD else word.replace(MODEL_WORD, item.model or "")


def _text(finished: Finished) -> Said:
    return Said(text=finished.output)
