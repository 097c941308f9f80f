"""Planners over real workspaces, asked through the library: scripted models, and documents that they hand in."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import msgspec

from tests.task_runs import trusting
from tests.twins.model import Move, ScriptedModel, ScriptedModels, calls
from tests.words import App, Channel, Planned, Planner, PlanRequest, Principal, open_workspace

MODEL = "anthropic:planner"
SETTINGS = f'[planner]\nmodel = "{MODEL}"\nbase_url = "http://127.0.0.1:9/v1"\n'
BY = Principal(name="kim", channel=Channel.SCRIPT)

RAISE = """\
# Raise the version to 1.1.0

## Steps

### 1. Raise the version

**id:** raise
**tool:** edit_file
**args:**
```yaml
path: VERSION
old: "1.0.0"
new: "1.1.0"
```
**contract:** grep -Fx 1.1.0 VERSION
"""


def submits(document: str, **more: Any) -> Any:
    return calls(("submit_plan", {"document": document}), **more)


class Asking:
    """One workspace whose planner is scripted."""

    def __init__(self, path: Path, settings: str = SETTINGS) -> None:
        self.path, self.model = path, ScriptedModel(())
        (path / "VERSION").write_text("1.0.0\n")
        asyncio.run(trusting(path, settings))
        self.news: list[Any] = []
        self.faults: dict[str, str] = {}

    def app(self) -> App:
        opened = open_workspace(self.path, exact=True)
        models = ScriptedModels({MODEL: self.model}, self.faults)
        return App(msgspec.structs.replace(opened.ports, models=models))

    def asked(
        self, moves: Iterable[Move], by: Principal = BY, goal: str = "raise the version", **request: Any
    ) -> Planned:
        """What came of a planning in which the model makes these moves."""
        self.model = ScriptedModel(moves)
        return self.run(lambda planner: planner.plan(PlanRequest(goal=goal, **request), by, tell=self.news.append))

    def run(self, work: Callable[[Planner], Any]) -> Any:
        async def life() -> Any:
            app = self.app()
            try:
                return await work(Planner(app))
            finally:
                await app.close()

        return asyncio.run(life())

    def told(self, turn: int = -1) -> str:
        """What the model was told before this answer of its own, the answers of its tools among it."""
        last = self.model.asked[turn].messages[-1]
        if hasattr(last, "answers"):
            return "\n".join([*(one.text for one in last.answers), last.text])
        return str(last.text)


def codes(problems: Iterable[Any]) -> list[str]:
    return [one.code for one in problems]
