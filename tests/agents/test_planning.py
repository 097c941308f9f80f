"""Real command-line agents write plans: the presets as planners, with a scripted model in place of a real one."""

from __future__ import annotations

import asyncio
from collections.abc import Generator
from pathlib import Path

import pytest

from tests.agents.conversation import Astray, Call, Conversation, Result
from tests.agents.hosts import HOSTS, Host
from tests.agents.model_server import serving
from tests.interfaces.workspace import KIM, Workspace, run_id
from tests.patience import patience
from tests.words import open_at_terminal, sha256

pytestmark = [pytest.mark.agents, pytest.mark.timeout(patience(300))]

GOAL = "Raise the version of the greeting to 1.1.0."
GOOD = """# Raise the version

## Steps

### 1. Write the version

**tool:** edit_file
**args:**
```yaml
path: VERSION
old: "1.0.0"
new: "1.1.0"
```
**contract:** grep -Fx 1.1.0 VERSION
"""
BAD = GOOD.replace("edit_file", "edit_files")


def looks_strays_and_plans(talk: Conversation) -> Generator[Call, Result, str]:
    """Looks, reaches for more than a planner has, hands in a plan that is wrong, and mends what it is told."""
    _holds("1.0.0", (yield Call("read_file", {"path": "VERSION"})))
    _holds("VERSION:1:", (yield Call("search", {"pattern": "1.0"})))
    _holds("E_CALL_BOUNDS", (yield Call("read_file", {"path": ".env"})))
    yield Call("bash", {"command": "touch strayed", "description": "try"}, anyway=True)
    yield Call("write_file", {"path": "strayed", "content": "x"}, anyway=True)
    _holds("E_TOOL_UNKNOWN", (yield Call("submit_plan", {"document": BAD})))
    yield Call("submit_plan", {"document": GOOD})
    return "The plan is handed in."


def _holds(text: str, result: Result) -> None:
    if text not in result.text:
        raise Astray(f"no {text} in what {result.tool} gave: {result.text}")


@pytest.mark.parametrize("host", HOSTS, ids=lambda host: host.preset)
def test_a_goal_becomes_an_approved_run_that_is_completed(
    host: Host, home: Path, workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    workspace.write("VERSION", "1.0.0\n")
    workspace.write(".env", "KEY=not-for-planners\n")
    with serving({GOAL: looks_strays_and_plans}) as model:
        host.at_home(home, model.url)
        for name, value in host.environment(model.url).items():
            monkeypatch.setenv(name, value)
        settings = f'[planner]\nagent = "coder"\n\n{host.configuration(1)}'
        workspace.write("ordain.toml", settings)
        asyncio.run(_trust(workspace, settings))
        ended = workspace.ordain("plan", GOAL, "-o", "raise.plan.md")
        assert model.astray == []
    assert ended.status == 0, (ended.out, ended.err)
    assert (workspace.path / "raise.plan.md").read_text() == GOOD
    # It reads, and nothing else: neither its host's tools nor ours wrote anything, and nothing was approved.
    assert not (workspace.path / "strayed").exists()
    assert (workspace.path / "VERSION").read_text() == "1.0.0\n"
    assert "proposed" in workspace.ordain("list").out
    workspace.approve("raise.plan.md")
    run = workspace.ordain("commit", "raise.plan.md")
    assert run.status == 0, (run.out, run.err)
    assert run_id(run.out)
    assert (workspace.path / "VERSION").read_text() == "1.1.0\n"


async def _trust(workspace: Workspace, settings: str) -> None:
    app = open_at_terminal(workspace.path)
    await app.approvals.trust(sha256(settings.encode()), KIM)
    await app.close()
