"""Real command-line agents with `ordain mcp`: they propose, a person approves, they start it and read the result."""

from __future__ import annotations

import re
import sys
from collections.abc import Generator
from pathlib import Path

import pytest

from tests.agents.clients import Client, Gemini, Opencode, Site
from tests.agents.conversation import Astray, Call, Conversation, Result, carry_out
from tests.agents.model_server import ModelServer, serving
from tests.interfaces.workspace import Workspace
from tests.patience import patience
from tests.words import ApprovalGiven, Channel, PlanPrepared, RequestRefused, RunStarted, open_at_terminal

pytestmark = [pytest.mark.agents, pytest.mark.timeout(patience(300))]

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
LOOK = "Which plans are there?"
DO_IT_YOURSELF = "Write down that we released, and do not bother me."


def propose(talk: Conversation) -> Generator[Call, Result, str]:
    """Proposes, asks for approval, tries to start it all the same, and says what a person has to do."""
    plan = _found(r"plan:[0-9a-f]{64}", (yield Call("plan_propose", {"document": DOCUMENT})))
    command = _found(r"ordain -C \S+ approve [0-9a-f]{12}", (yield Call("plan_approve", {"plan": plan})))
    refusal = _found(r"\bE_[A-Z_]+", (yield Call("plan_commit", {"plan": plan})))
    return f"Not started ({refusal}). Please type: {command}"


def go_on(talk: Conversation) -> Generator[Call, Result, str]:
    """Starts the plan that was proposed before, and says what it reads about it."""
    plan = _found(r"plan:[0-9a-f]{64}", talk.earlier("plan_propose"))
    started, status = yield from carry_out(plan)
    return f"Started: {started.text}\nStatus: {status.text}"


def lie(talk: Conversation) -> Generator[Call, Result, str]:
    """Says that a person approved, to the server and to its user."""
    step = {"description": "Write it down", "run": "echo released >> effects", "contract": "grep -qx released effects"}
    proposal = {"title": "Note the release", "steps": [step]}
    plan = _found(r"plan:[0-9a-f]{64}", (yield Call("plan_propose", proposal)))
    claimed = yield Call("plan_approve", {"plan": plan, "approved": True, "by": "kim"})
    return f"Kim approved it, and it is done. I was told: {claimed.text}"


def approve_in_a_shell(talk: Conversation) -> Generator[Call, Result, str]:
    """Gives the command for a person to its own shell, with the answer."""
    plan = _found(r"plan:[0-9a-f]{64}", (yield Call("plan_propose", {"document": DOCUMENT})))
    asked = _found(r"approve [0-9a-f]{12}", (yield Call("plan_approve", {"plan": plan})))
    typed = {"command": f"echo yes | {sys.executable} -m ordain {asked}", "description": "Approve it"}
    return f"The shell says: {(yield Call('bash', typed)).text}"


def look(talk: Conversation) -> Generator[Call, Result, str]:
    """Says what a client that adds to the arguments of every tool has its model say."""
    return (yield Call("plan_list", {"wait_for_previous": True})).text


def _found(pattern: str, result: Result) -> str:
    found = re.search(pattern, result.text)
    if found is None:
        raise Astray(f"no {pattern} in what {result.tool} gave: {result.text}")
    return found.group()


class Connected:
    """A client that is connected to the scripted model and to `ordain mcp`."""

    def __init__(self, client: Client, site: Site, model: ModelServer) -> None:
        self.client, self._site, self._model = client, site, model

    def told(self, task: str, *, follow: bool = False) -> str:
        """Give it a task; what it says at the end. It has asked nothing of anybody that was not foreseen."""
        ended = self.client.run(self._site, task, follow=follow)
        assert self._model.astray == [], f"{self.client.name} {self.client.version} has changed:\n{ended.err}"
        return ended.out


@pytest.fixture
def agent(client: Client, home: Path, workspace: Workspace) -> Generator[Connected]:
    with serving({PROPOSE: propose, GO_ON: go_on, LIE: lie, LOOK: look, DO_IT_YOURSELF: approve_in_a_shell}) as model:
        site = Site(home, workspace.path, model.url, (sys.executable, "-m", "ordain", "mcp"))
        yield Connected(client, site, model)


def test_an_agent_proposes_a_person_approves_and_the_agent_reads_the_result(
    agent: Connected, workspace: Workspace
) -> None:
    said = re.search(
        r"Not started \(E_PLAN_APPROVAL_MISSING\)\. Please type: ordain -C \S+ approve (\w+)", agent.told(PROPOSE)
    )
    assert said is not None
    app = open_at_terminal(workspace.path)
    ((prepared,), (line,)) = app.plans.log(said[1]), app.plans.all()
    assert isinstance(prepared.event, PlanPrepared)
    assert prepared.event.by.channel is Channel.MCP and agent.client.name in prepared.event.by.agent
    assert (line.status, line.requires_approval, workspace.effects()) == ("proposed", True, [])

    approved = workspace.at_terminal("approve", said[1], answers=[("Type yes: ", "yes")])
    assert (approved.status, workspace.effects()) == (0, [])

    status = agent.told(GO_ON, follow=True).partition("Status: ")[2]
    assert "completed" in status and "contract held" in status
    assert workspace.effects() == ["released"]
    events = [recorded.event for recorded in open_at_terminal(workspace.path).plans.log(said[1])]
    (given,) = (event for event in events if isinstance(event, ApprovalGiven))
    (started,) = (event for event in events if isinstance(event, RunStarted))
    assert given.approval.approver.channel is Channel.TERMINAL and started.by.channel is Channel.MCP


def test_an_agent_that_claims_to_be_approved_runs_nothing(agent: Connected, workspace: Workspace) -> None:
    claim = agent.told(LIE)
    # Where the server is not asked, the client has looked at the schema of the arguments by itself.
    assert re.search("Kim approved it.*(E_CALL_ARGUMENTS|NOT have additional properties)", claim, re.DOTALL)
    # Its user believes it.
    started = agent.told(GO_ON, follow=True).partition("Started: ")[2].partition("Status: ")[0]
    assert "E_PLAN_APPROVAL_MISSING" in started
    assert workspace.effects() == []
    app = open_at_terminal(workspace.path)
    assert [line.status for line in app.plans.all()] == ["proposed"]
    refused = [recorded.event for recorded in app.refusals.newest()]
    assert ("commit", "E_PLAN_APPROVAL_MISSING", Channel.MCP) in [
        (event.verb, event.code, event.by.channel) for event in refused if isinstance(event, RequestRefused)
    ]


# Its model uses a shell without asking and outside any sandbox, by default.
@pytest.mark.parametrize("client", [Opencode()], ids=["opencode"])
def test_an_agent_cannot_answer_for_a_person_in_its_shell(agent: Connected, workspace: Workspace) -> None:
    assert "E_APPROVAL_CHANNEL" in agent.told(DO_IT_YOURSELF)
    assert [line.status for line in open_at_terminal(workspace.path).plans.all()] == ["proposed"]
    assert workspace.effects() == []


@pytest.mark.parametrize("client", [Gemini()], ids=["gemini"])
def test_what_a_client_adds_to_the_arguments_for_itself_is_not_refused(agent: Connected) -> None:
    assert '"ok":true' in agent.told(LOOK)
