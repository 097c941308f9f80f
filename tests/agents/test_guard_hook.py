"""Real Claude Code with our hook in its settings, as `ordain guard install` writes them, and a scripted model."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import json
import os
import re
import signal
import subprocess
import threading
from collections.abc import Generator, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.agents.clients import NODE
from tests.agents.conversation import Astray, Call, Conversation, Result, Said, Script
from tests.agents.hosts import HOSTS
from tests.agents.model_server import ModelServer, serving
from tests.interfaces.test_guard_hook import ENFORCE, OBSERVE, sightings
from tests.interfaces.workspace import Workspace
from tests.patience import patience
from tests.words import EXAMPLE, RequestRefused, open_workspace

pytestmark = [pytest.mark.agents, pytest.mark.timeout(patience(300))]

CLAUDE = next(host for host in HOSTS if host.preset == "claude")
TASK = "Do what you are here for."
PATIENCE_S = patience(60)


@dataclasses.dataclass(frozen=True)
class Site:
    """A user of Claude Code with a workspace."""

    home: Path
    workspace: Workspace

    def install(self, *words: str) -> None:
        """As a person does it."""
        done = self.workspace.at_terminal(
            *("guard", "install", "claude-code", *words),
            answers=[("Type yes", "yes")],
            env={"HOME": str(self.home), "PATH": f"{NODE}:{os.environ['PATH']}"},
        )
        assert done.status == 0, done.out

    def run(self, script: Script, *words: str, talking: bool = False) -> ModelServer:
        """One task; with `talking`, with somebody who grants whatever is asked."""
        with serving({TASK: script}) as model:
            env = {**os.environ, **CLAUDE.environment(model.url), "HOME": str(self.home)}
            env |= {"CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1", "CLAUDE_CODE_MAX_RETRIES": "1"}
            command = [*CLAUDE.command, "--print", "--model", CLAUDE.model, *words]
            with _started([*command, *(_TALKING if talking else [])], self.workspace.path, env) as child:
                _grant_everything(child) if talking else child.communicate(TASK)
            assert model.heard and not model.astray, model.astray
            return model

    def refused(self) -> list[str]:
        app = open_workspace(self.workspace.path)
        found = [one.event.code for one in app.refusals.newest() if isinstance(one.event, RequestRefused)]
        asyncio.run(app.close())
        return found


_TALKING = ["--input-format", "stream-json", "--output-format", "stream-json", "--verbose"]
_TALKING += ["--permission-prompt-tool", "stdio"]


@contextlib.contextmanager
def _started(command: Sequence[str], cwd: Path, env: dict[str, str]) -> Iterator[subprocess.Popen[str]]:
    pipe = subprocess.PIPE
    child = subprocess.Popen(
        command, cwd=cwd, env=env, stdin=pipe, stdout=pipe, stderr=pipe, text=True, start_new_session=True
    )
    patience = threading.Timer(PATIENCE_S, lambda: os.killpg(child.pid, signal.SIGKILL))
    patience.start()
    try:
        yield child
    finally:
        patience.cancel()
        with contextlib.suppress(OSError):
            os.killpg(child.pid, signal.SIGKILL)
        child.communicate()


def _grant_everything(child: subprocess.Popen[str]) -> None:
    assert child.stdin is not None and child.stdout is not None

    def send(message: dict[str, Any]) -> None:
        assert child.stdin is not None
        child.stdin.write(json.dumps(message) + "\n")
        child.stdin.flush()

    send({"type": "user", "message": {"role": "user", "content": TASK}})
    for line in child.stdout:
        message = json.loads(line)
        if message["type"] == "control_request":
            granted = {"behavior": "allow", "updatedInput": message["request"].get("input", {})}
            answer = {"subtype": "success", "request_id": message["request_id"], "response": granted}
            send({"type": "control_response", "response": answer})
        if message["type"] == "result":
            return


@pytest.fixture
def site(home: Path, workspace: Workspace) -> Site:
    return Site(home, workspace)


def holds(result: Result, *texts: str) -> None:
    for text in texts:
        if text not in result.text:
            raise Astray(f"no {text} in what {result.tool} gave: {result.text}")


def test_a_command_is_refused_the_model_reads_why_and_what_is_open_passes(site: Site) -> None:
    site.workspace.trust(ENFORCE)
    site.install()

    def tries(talk: Conversation) -> Generator[Call, Result, str]:
        refused = yield Call("Bash", {"command": "touch strayed", "description": "try"}, anyway=True)
        holds(refused, "E_TOOL_GUARDED", "plan_propose", '"run": "touch strayed"')
        path = str(site.workspace.path / "small.plan.md")
        holds((yield Call("Read", {"file_path": path}, anyway=True)), "Make two lines")
        written = {"file_path": str(site.workspace.path / "strayed"), "content": "x"}
        holds((yield Call("Write", written, anyway=True)), "E_TOOL_GUARDED")
        return "I see."

    site.run(tries, "--allowedTools", "Bash,Read,Write")
    assert not (site.workspace.path / "strayed").exists()
    assert [one.tool for one in sightings(site.workspace)] == ["shell", "write_file"]
    assert set(site.refused()) == {"E_TOOL_GUARDED"}


def test_our_silence_about_what_is_open_grants_nothing_that_its_user_did_not(site: Site) -> None:
    site.workspace.trust(ENFORCE + 'open = ["reads", "shell"]\n')
    site.install("--user")

    def tries(talk: Conversation) -> Generator[Call, Result, str]:
        yield Call("Bash", {"command": "touch strayed", "description": "try"}, anyway=True)
        return "I see."

    site.run(tries)
    assert not (site.workspace.path / "strayed").exists() and sightings(site.workspace) == []
    site.run(tries, "--allowedTools", "Bash")
    assert (site.workspace.path / "strayed").exists()


def test_observed_everything_passes_and_is_noted_and_without_the_hook_nothing_is(site: Site) -> None:
    site.workspace.trust(OBSERVE)
    site.install()

    def does(talk: Conversation) -> Generator[Call, Result, str]:
        yield Call("Bash", {"command": "echo done >> effects", "description": "do"}, anyway=True)
        return "Done."

    site.run(does, "--allowedTools", "Bash")
    assert site.workspace.effects() == ["done"]
    assert [(one.tool, one.refused) for one in sightings(site.workspace)] == [("shell", False)]
    site.install("--remove")
    site.run(does, "--allowedTools", "Bash")
    assert (site.workspace.effects(), len(sightings(site.workspace))) == (["done", "done"], 1)


def test_where_our_hook_breaks_the_call_is_refused(site: Site) -> None:
    site.workspace.trust(ENFORCE)
    site.install()
    file = site.workspace.path / ".claude/settings.local.json"
    file.write_text(file.read_text().replace('"guard",', '"gard",'))

    def tries(talk: Conversation) -> Generator[Call, Result, str]:
        yield Call("Bash", {"command": "touch strayed", "description": "try"}, anyway=True)
        return "I see."

    site.run(tries, "--allowedTools", "Bash")
    assert not (site.workspace.path / "strayed").exists()


UNPROVED = "# Greet\n\n## Steps\n\n### 1. Greet everybody\n\n**task:** Greet everybody.\n"


def test_what_is_planned_in_plan_mode_becomes_a_proposal(site: Site) -> None:
    site.workspace.trust(ENFORCE)
    site.install()

    def plans(talk: Conversation) -> Generator[Call, Result, str]:
        file = {"file_path": _plan_file(talk)}
        yield Call("Write", {**file, "content": UNPROVED}, anyway=True)
        holds((yield Call("ExitPlanMode", {}, anyway=True)), "Without a contract: `greet-everybody`", EXAMPLE)
        yield Call("Write", {**file, "content": EXAMPLE}, anyway=True)
        holds((yield Call("ExitPlanMode", {}, anyway=True)), "ordain approve ")
        return "It waits for you."

    site.run(plans, "--permission-mode", "plan", talking=True)
    app = open_workspace(site.workspace.path)
    (line,) = app.plans.all()
    asyncio.run(app.close())
    assert (line.title, line.status, line.proposer.agent) == ("Greet and count", "proposed", "claude-code")
    short = line.plan_id.removeprefix("plan:")[:12]
    site.workspace.approve(short)
    assert site.workspace.ordain("commit", short).status == 0
    assert (site.workspace.path / "greeting.txt").read_text() == "hello"


def _plan_file(talk: Conversation) -> str:
    """Where the host wants its note of the plan."""
    texts = [entry.text for entry in talk.entries if isinstance(entry, Said)]
    found = re.search(r"(/[^\s\"\\]*/plans/[^\s\"\\]+\.md)", "\n".join(texts))
    if found is None:
        raise Astray("the host does not say where the plan is written")
    return found[1]
