"""Agents on this machine: how each is started, and what its output says."""

from __future__ import annotations

import contextlib
import json
import tempfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from ordain.adapters.agents.found import agent_fault
from ordain.core.agent import MODEL_WORD, PROMPT_WORD, Agent
from ordain.core.event import Usage
from ordain.core.work import WorkItem
from ordain.ports import Finished, Invocation, Said, StepServer, ToolResult

__all__ = ["LocalAgents"]


class LocalAgents:
    """ports.Agents over programs and callables."""

    def __init__(self, workspace: Path, registered: Mapping[str, Callable[..., Any]] | None = None) -> None:
        self._workspace = workspace
        self._calls = dict(registered or {})

    def registered(self) -> Mapping[str, Agent]:
        return {name: Agent(python=_named(call), registered=True) for name, call in self._calls.items()}

    def fault(self, agent: Agent) -> str | None:
        return agent_fault(agent, self._workspace)

    @contextlib.contextmanager
    def room(self) -> Iterator[str]:
        with tempfile.TemporaryDirectory(prefix="ordain-agent-") as path:
            yield path

    def invocation(self, agent: Agent, item: WorkItem, room: str, server: StepServer | None) -> Invocation:
        words = tuple(_filled(word, item) for word in agent.command)
        stdin = b"" if PROMPT_WORD in agent.command else item.prompt.encode()
        env = {**(server.env if server is not None else {}), "ORDAIN_MODEL": item.model or ""}
        return Invocation(argv=words, stdin=stdin, env=env, read=_json if agent.output == "json" else _text)

    async def call(self, agent: Agent, item: WorkItem) -> ToolResult:
        return ToolResult(error="F_STEP_FAILED", detail="it is not registered in this program")


def _named(call: Callable[..., Any]) -> str:
    return f"{getattr(call, '__module__', '?')}:{getattr(call, '__qualname__', '?')}"


def _filled(word: str, item: WorkItem) -> str:
    return item.prompt if word == PROMPT_WORD else word.replace(MODEL_WORD, item.model or "")


def _text(finished: Finished) -> Said:
    return Said(text=finished.output)


def _json(finished: Finished) -> Said:
    """One JSON object: `result` is what it says, `usage` and `total_cost_usd` what it used."""
    try:
        said = json.loads(finished.output)
        usage, text = said.get("usage") or {}, said.get("result", "")
        tokens = sum(value for key, value in usage.items() if key in ("input_tokens", "output_tokens", "tokens"))
        used = Usage(tokens=tokens or None, cost_usd=said.get("total_cost_usd"))
    except (ValueError, TypeError, AttributeError, RecursionError):
        return Said(text=finished.output, error="what it wrote is not the JSON that it was to write")
    body = text if isinstance(text, str) else json.dumps(text, ensure_ascii=False)
    return Said(text=body.encode("utf-8", "replace"), used=used)
