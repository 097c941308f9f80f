"""What a Python function that performs tasks is given. Each attempt loads it, so it imports next to nothing."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any


class Cannot(Exception):
    """What an agent raises when the contract of its step cannot be satisfied honestly. A person then decides."""


class Work:
    """One attempt at a task."""

    def __init__(
        self,
        item: Mapping[str, Any],
        *,
        call: Callable[[str, dict[str, Any]], Any] | None,
        report: Callable[[str], None],
    ) -> None:
        self.prompt: str = item["prompt"]
        """Everything that an agent is told: the task, the contract, what it reads, what went wrong before."""
        self.task: str = item["task"]
        """The task alone, as the plan has it."""
        self.agent: str = item["agent"]
        self.kind: str = item["kind"]
        self.model: str | None = item.get("model")
        self.plan_id: str = item["plan_id"]
        self.run_id: str = item["run_id"]
        self.step: str = item["step"]
        self.attempt: int = item["attempt"]
        self.key: str = item["key"]
        """The step key: the same for every attempt at the same thing."""
        self.reads: tuple[str, ...] = tuple(read["ref"] for read in item.get("reads", ()))
        """What of the plan's `reads` stands in the prompt."""
        self.tools: tuple[str, ...] = tuple(item.get("tools", ()))
        """What it may use of the step's tools."""
        self._call, self._report = call, report

    def call(self, tool: str, **args: Any) -> Any:
        """Call a tool of the step, and get its result. Raises RuntimeError with what it says where it fails or is
        refused, and where the step has no tools to call. It waits; a coroutine function calls it in a thread."""
        if self._call is None:
            raise RuntimeError("no tools of the step can be reached from here")
        return self._call(tool, args)

    def uses(self, *, tokens: int | None = None, cost_usd: float | None = None) -> None:
        """Report what was used since the last report, which budgets count."""
        used = {"tokens": tokens, "cost_usd": cost_usd}
        self._report(json.dumps({name: value for name, value in used.items() if value is not None}) + "\n")
