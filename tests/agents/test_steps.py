"""Real command-line agents carry out the steps of a plan: the presets, with a scripted model in place of a real one."""

from __future__ import annotations

import asyncio
import re
import sys
from collections.abc import Generator, Sequence
from pathlib import Path
from typing import TypeVar

import pytest

from tests.agents.conversation import Astray, Call, Conversation, Result, Script
from tests.agents.hosts import HOSTS, Host
from tests.agents.lures import MARK, lay
from tests.agents.model_server import ModelServer, serving
from tests.interfaces.workspace import KIM, Workspace
from tests.patience import patience
from tests.words import AgentCalled, AttemptEnded, Event, RequestRefused, StepState, open_at_terminal, sha256

pytestmark = [pytest.mark.agents, pytest.mark.timeout(patience(300))]

PAGE = Path(__file__).parents[2] / "docs" / "agents.md"
WRITE = "Write `app/greeting.py` with a function `greet` that greets somebody by name."
TEST = "Write `app/test_greeting.py`, which fails where nobody is greeted by name, after reading what is there."
IMPOSSIBLE = "Make the sum of two and two five."
OWN = "Say what your own shell says."
DOCUMENT = f"""\
# Greet people

## Steps

### 1. Write the greeting

**task:** {WRITE}
**writes:**
- app/**

**contract:** cd app && {sys.executable} -B -c "import greeting; assert greeting.greet('Ada') == 'Hello, Ada!'"
**on_fail:** retry(2), then escalate

### 2. Test the greeting

**task:** {TEST}
**writes:**
- app/**

**contract:** cd app && {sys.executable} -B test_greeting.py
"""
HOPELESS = f"""\
# Do what cannot be done

## Steps

### 1. Count

**task:** {IMPOSSIBLE}
**contract:** test $((2 + 2)) = 5
**on_fail:** escalate
"""
AT_HOME = f"""\
# Look with its own eyes

## Steps

### 1. Look

**task:** {OWN}
**contract:** grep -q seen seen.txt
"""
CODE = "def greet(name):\n    return f'Hello, {name}!'\n"
CHECK = "import greeting\nassert greeting.greet('Kim') == 'Hello, Kim!'\n"
LOST = "the model of this test is out of order"
LIE = "I wrote it and all tests pass."


def lies_and_then_writes(talk: Conversation) -> Generator[Call, Result, str]:
    """Says at once that it is done; does it once it is told what the check said."""
    if not talk.told("What went wrong before"):
        return LIE
    if not (talk.told("broken") and talk.told("No module named 'greeting'")):
        raise Astray("the second attempt is not told what the check wrote")
    yield Call("write_file", {"path": "app/greeting.py", "content": CODE})
    return "This time I did."


def reads_strays_and_writes(talk: Conversation) -> Generator[Call, Result, str]:
    """Reads, reaches for more than its step has in three ways, and then does what it should."""
    _holds("Hello", (yield Call("read_file", {"path": "app/greeting.py"})))
    yield Call("bash", {"command": "touch strayed", "description": "try"}, anyway=True)
    yield Call("shell", {"command": "touch strayed"}, anyway=True)
    _holds("E_", (yield Call("write_file", {"path": "strayed", "content": "x"})))
    yield Call("write_file", {"path": "app/test_greeting.py", "content": "import greeting\n"})
    edit = {"path": "app/test_greeting.py", "old": "import greeting\n", "new": CHECK}
    yield Call("edit_file", edit)
    return "Tested."


def gives_up(talk: Conversation) -> Generator[Call, Result, str]:
    yield Call("cannot", {"reason": "two and two are four"})
    return "It is done."


async def _trust(workspace: Workspace, settings: str) -> None:
    app = open_at_terminal(workspace.path)
    await app.approvals.trust(sha256(settings.encode()), KIM)
    await app.close()


def _holds(text: str, result: Result) -> None:
    if text not in result.text:
        raise Astray(f"no {text} in what {result.tool} gave: {result.text}")


T = TypeVar("T")


class Worked:
    """What came of a plan that an agent carried out."""

    def __init__(self, workspace: Workspace, model: ModelServer, run: str) -> None:
        self.model = model
        app = open_at_terminal(workspace.path)
        self.events: Sequence[Event] = [recorded.event for recorded in app.plans.log(run)]
        self.refused = [one.event for one in app.refusals.newest() if isinstance(one.event, RequestRefused)]
        asyncio.run(app.close())

    def all(self, kind: type[T]) -> list[T]:
        return [event for event in self.events if isinstance(event, kind)]


@pytest.fixture(params=HOSTS, ids=lambda host: host.preset)
def host(request: pytest.FixtureRequest) -> Host:
    found: Host = request.param
    return found


class Site:
    """A workspace in which a host is the agent."""

    def __init__(self, host: Host, home: Path, workspace: Workspace, patch: pytest.MonkeyPatch) -> None:
        self.host, self._home, self.workspace, self._patch = host, home, workspace, patch

    def run(
        self, document: str, scripts: dict[str, Script], *, tier: int = 0, lures: bool = True, **agent: object
    ) -> tuple[int, Worked]:
        """Have it carried out. Nothing of what it reached for was unforeseen, but for what a script says is."""
        ran = self._home / "lured"
        with serving(scripts) as model:
            if lures:
                lay(self.workspace.path, self._home, ran)
            self.host.at_home(self._home, model.url)
            for name, value in self.host.environment(model.url).items():
                self._patch.setenv(name, value)
            settings = self.host.configuration(tier, **agent)
            self.workspace.write("ordain.toml", settings)
            asyncio.run(_trust(self.workspace, settings))
            self.workspace.write("work.plan.md", document)
            (self.workspace.path / "app").mkdir(exist_ok=True)
            run, ended = self.workspace.started("work.plan.md")
            log = self.workspace.ordain("log", run).out
            foreseen = all(LOST in astray for astray in model.astray)
            assert foreseen, f"{self.host.preset} {self.host.version}:\n{model.astray}\n{log}"
        # Whatever the agent's own settings, memories and plug-ins are, here and at home: it has none of them.
        assert not ran.exists() and not any(MARK in body for body in model.bodies)
        return ended.status, Worked(self.workspace, model, run)


@pytest.fixture
def site(host: Host, home: Path, workspace: Workspace, monkeypatch: pytest.MonkeyPatch) -> Site:
    return Site(host, home, workspace, monkeypatch)


@pytest.mark.parametrize("tier", [0, 1])
def test_a_liar_is_caught_told_what_was_wrong_and_then_does_it(site: Site, tier: int) -> None:
    scripts = {WRITE: lies_and_then_writes, TEST: reads_strays_and_writes}
    status, worked = site.run(DOCUMENT, scripts, tier=tier)
    path = site.workspace.path
    first, second, third = worked.all(AttemptEnded)
    assert status == 0, [ended.outcome for ended in (first, second, third)]
    # What an agent says is kept, and it was its contract that said no.
    assert first.outcome.error is None and first.outcome.output_tail.splitlines()[0] == LIE
    assert ((path / "app/greeting.py").read_text(), (path / "app/test_greeting.py").read_text()) == (CODE, CHECK)
    # What it was not given it did not get, by whatever name it asked; what reached us stands in the ledger.
    assert not (path / "strayed").exists()
    assert [call.tool for call in worked.all(AgentCalled)] == ["write_file", "read_file", "write_file", "edit_file"]
    assert "coder" in worked.refused[-1].by.name
    assert worked.refused[-1].code in site.workspace.ordain("log", "--refused").out
    # What it used is what it says it used.
    assert [ended.outcome.used.tokens for ended in (first, second, third)] == [2, 4, 14]
    row = _row(site.host)
    assert ("cost" in row["used"]) == (first.outcome.used.cost_usd is not None)
    # Beside the tools of the step its model has exactly those that the docs name.
    assert {_besides(talk) for talk in worked.model.heard} == {row["remains"]}


def test_an_agent_that_says_that_it_cannot_be_done_is_heard(site: Site) -> None:
    status, worked = site.run(HOPELESS, {IMPOSSIBLE: gives_up})
    (ended,) = worked.all(AttemptEnded)
    assert (status, ended.outcome.error) == (3, "F_AGENT_CANNOT")
    assert "two and two are four" in ended.outcome.detail


def test_where_the_models_server_refuses_the_attempt_has_failed_and_says_so(site: Site) -> None:
    def refuses(talk: Conversation) -> Generator[Call, Result, str]:
        yield Call("list_files", {"path": "."})
        raise Astray(LOST)

    status, worked = site.run(HOPELESS, {IMPOSSIBLE: refuses})
    (ended,) = worked.all(AttemptEnded)
    assert (status, ended.outcome.error, ended.to) == (3, "F_STEP_FAILED", StepState.ESCALATED)
    assert LOST in ended.outcome.detail


def test_an_agent_may_be_left_its_own_tools_which_the_sandbox_holds(site: Site) -> None:
    tool, takes = site.host.shell

    def looks(talk: Conversation) -> Generator[Call, Result, str]:
        command = (
            f"echo seen > seen.txt; echo x > {site.workspace.path.parent}/outside; cat {site.workspace.path}/*.toml"
        )
        _holds("coder", (yield Call(tool, {takes: command, "description": "look"}, anyway=True)))
        return "Seen."

    # Of a model that it does not know anything about, codex has no other way to run a command.
    model = "scripted" if site.host.preset == "codex" else site.host.model
    status, _ = site.run(AT_HOME, {OWN: looks}, tier=1, lures=False, own_tools=True, model=model)
    assert status == 0 and not (site.workspace.path.parent / "outside").exists()


def _besides(talk: Conversation) -> str:
    """The tools that a model is offered besides those of its step."""
    ours = ("read_file", "list_files", "search", "write_file", "edit_file", "make_dir", "move", "delete", "cannot")
    other = [name for name in talk.tools if not re.search(rf"(^|_)({'|'.join(ours)})$", name)]
    return ", ".join(f"`{name}`" for name in sorted(other)) or "none"


def _row(host: Host) -> dict[str, str]:
    """What the docs say of a preset."""
    for line in PAGE.read_text().splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if cells[0] == f"{host.preset} {host.version}":
            return dict(zip(("preset", "remains", "model", "login", "used"), cells, strict=True))
    raise AssertionError(f"docs/agents.md says nothing of {host.preset} {host.version}")
