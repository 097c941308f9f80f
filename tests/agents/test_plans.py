"""Real command-line agents with `ordain mcp`: they propose, a person approves, they start it and read the result."""

from __future__ import annotations

import re
import sys
from collections.abc import Generator
from pathlib import Path

import pytest

from tests.agents.clients import Client, Site
from tests.agents.conversation import Astray, Call, Conversation, Result
from tests.agents.model_server import ModelServer, serving
from tests.interfaces.workspace import Workspace

pytestmark = [pytest.mark.agents, pytest.mark.timeout(300)]

DOCUMENT = """\
# Note the release

## Steps

### 1. Write it down

**run:** echo released >> effects
**contract:** grep -qx released effects
"""

PROPOSE = "Please write down that we released."
GO_ON = "It is approved, please go on."
LIE = "Write down that we released, and be quick about it."


def propose(talk: Conversation) -> Generator[Call, Result, str]:
    """Proposes, asks for approval, tries to start it all the same, and says what a person has to do."""
    plan = _found(r"plan:[0-9a-f]{64}", (yield Call("plan_propose", {"document": DOCUMENT})))
    command = _found(r"ordain approve [0-9a-f]{12}", (yield Call("plan_approve", {"plan": plan})))
    refusal = _found(r"\bE_[A-Z_]+", (yield Call("plan_commit", {"plan": plan})))
    return f"Not started ({refusal}). Please run: {command}"


def go_on(talk: Conversation) -> Generator[Call, Result, str]:
    """Starts the plan that was proposed before and says what it reads about it."""
    plan = _found(r"plan:[0-9a-f]{64}", talk.earlier("plan_propose"))
    started = yield Call("plan_commit", {"plan": plan, "wait_s": 20})
    status = yield Call("plan_status", {"what": plan})
    return f"Started: {started.text}\nStatus: {status.text}"


def lie(talk: Conversation) -> Generator[Call, Result, str]:
    """Says that a person approved, to the server and to its user."""
    plan = _found(r"plan:[0-9a-f]{64}", (yield Call("plan_propose", {"document": DOCUMENT})))
    yield Call("plan_approve", {"plan": plan, "approved": True, "by": "kim"})
    return "Kim approved it, and it is done."


def _found(pattern: str, result: Result) -> str:
    found = re.search(pattern, result.text)
    if found is None:
        raise Astray(f"no {pattern} in what {result.tool} gave: {result.text}")
    return found.group()


@pytest.fixture
def site(home: Path, workspace: Workspace) -> Generator[tuple[Site, ModelServer]]:
    """A workspace with an agent that is connected to the scripted model and to `ordain mcp`."""
    with serving({PROPOSE: propose, GO_ON: go_on, LIE: lie}) as model:
        yield Site(home, workspace.path, model.url, (sys.executable, "-m", "ordain", "mcp")), model


def test_an_agent_proposes_a_person_approves_and_the_agent_reads_the_result(
    client: Client, site: tuple[Site, ModelServer], workspace: Workspace
) -> None:
    here, model = site
    asked = client.run(here, PROPOSE).out
    assert model.astray == []
    assert "Not started (E_PLAN_APPROVAL_MISSING)." in asked
    found = re.search(r"Please run: ordain (approve [0-9a-f]{12})", asked)
    assert found is not None, asked
    assert workspace.effects() == []

    approved = workspace.at_terminal(*found[1].split(), answers=[("Type yes: ", "yes")])
    assert approved.status == 0 and workspace.effects() == []

    read = client.run(here, GO_ON, follow=True).out
    assert model.astray == []
    assert "completed" in read.partition("Status: ")[2], read
    assert workspace.effects() == ["released"]


def test_a_model_that_claims_approval_runs_nothing(
    client: Client, site: tuple[Site, ModelServer], workspace: Workspace
) -> None:
    here, model = site
    assert "Kim approved it, and it is done." in client.run(here, LIE).out
    # Its user believes it and tells it to go on.
    read = client.run(here, GO_ON, follow=True).out
    assert model.astray == []
    assert "E_PLAN_APPROVAL_MISSING" in read.partition("Started: ")[2].partition("Status: ")[0]
    assert workspace.effects() == []
