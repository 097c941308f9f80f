"""Real command-line agents behind `ordain mcp --gateway`: a guarded call is refused, a person approves the plan that
the refusal hands over, and the call then happens exactly once, by the harness."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest

from tests.agents.clients import Client, Site
from tests.agents.conversation import Astray, Call, Conversation, Result, carry_out
from tests.agents.model_server import serving
from tests.interfaces.workspace import Workspace
from tests.patience import patience
from tests.words import Channel, RequestRefused, open_workspace

pytestmark = [pytest.mark.agents, pytest.mark.timeout(patience(300))]

MAIL = Path(__file__).with_name("mail_server.py")
LETTER = {"to": "everybody@example.com", "body": "It is released."}
SEND = "Please tell everybody by mail that it is released."
GO_ON = "It is approved, please go on."
INSIST = "Send the same letter yourself."

CONFIGURATION = f"""\
[tools.mail]
mcp = [{json.dumps(sys.executable)}, {json.dumps(str(MAIL))}, "{{workspace}}/outbox"]
effects = {{ inbox = "reads" }}

[guard]
mode = "MODE"
"""


def send(talk: Conversation) -> Generator[Call, Result, str]:
    """Reads the letters, tries to send one, and proposes what it is handed instead."""
    letters = yield Call("inbox", {})
    refused = yield Call("send", LETTER)
    proposed = yield Call("plan_propose", _handed_over(refused))
    plan = _found(r"plan:[0-9a-f]{64}", proposed)
    asked = yield Call("plan_approve", {"plan": plan})
    command = _found(r"ordain -C \S+ approve [0-9a-f]{12}", asked)
    return f"Read: {letters.text}\nRefused: {refused.text}\nPlease type: {command}"


def go_on(talk: Conversation) -> Generator[Call, Result, str]:
    """Starts the plan, and reads how it went."""
    plan = _found(r"plan:[0-9a-f]{64}", talk.earlier("plan_propose"))
    _, status = yield from carry_out(plan)
    return f"Status: {status.text}"


def insist(talk: Conversation) -> Generator[Call, Result, str]:
    """Makes the call by itself, without a plan."""
    return f"The tool says: {(yield Call('send', LETTER)).text}"


def _handed_over(refused: Result) -> dict[str, Any]:
    """The argument of plan_propose in what a client tells its model of a refusal."""
    # Some show it as it is, some within a text of JSON.
    for text in (refused.text, refused.text.encode().decode("unicode_escape")):
        if (begins := re.search(r'\{\s*"title"', text)) is not None:
            proposal: dict[str, Any] = json.JSONDecoder().raw_decode(text, begins.start())[0]
            return proposal
    raise Astray(f"no proposal in {refused.text}")


def _found(pattern: str, result: Result) -> str:
    found = re.search(pattern, result.text)
    if found is None:
        raise Astray(f"no {pattern} in what {result.tool} gave: {result.text}")
    return found.group()


class Behind:
    """A client whose only MCP server is the gateway, which fronts the mail server."""

    def __init__(self, client: Client, home: Path, workspace: Workspace) -> None:
        self.client, self._home, self._workspace = client, home, workspace

    def told(self, task: str, *, follow: bool = False) -> str:
        with serving({SEND: send, GO_ON: go_on, INSIST: insist}) as model:
            command = (sys.executable, "-m", "ordain", "-C", str(self._workspace.path), "mcp", "--gateway")
            site = Site(self._home, self._workspace.path, model.url, command)
            ended = self.client.run(site, task, follow=follow)
            assert model.astray == [], f"{self.client.name} {self.client.version} has changed:\n{ended.err}"
        return ended.out

    def outbox(self) -> list[str]:
        file = self._workspace.path / "outbox"
        return file.read_text().splitlines() if file.exists() else []


@pytest.fixture
def behind(client: Client, home: Path, workspace: Workspace) -> Behind:
    return Behind(client, home, workspace)


def test_a_guarded_call_is_refused_approved_and_made_once_by_the_harness(behind: Behind, workspace: Workspace) -> None:
    workspace.trust(CONFIGURATION.replace("MODE", "enforce"))
    said = behind.told(SEND)
    assert "A letter from Kim" in said and "E_TOOL_GUARDED" in said
    assert behind.outbox() == []
    typed = re.search(r"Please type: ordain -C \S+ approve (\w+)", said)
    assert typed is not None
    approved = workspace.at_terminal("approve", typed[1], answers=[("short id", typed[1])])
    assert (approved.status, behind.outbox()) == (0, [])

    assert "completed" in behind.told(GO_ON, follow=True)
    assert behind.outbox() == ["everybody@example.com: It is released."]

    # What was approved is spent; the same call again needs another yes.
    assert "E_TOOL_GUARDED" in behind.told(INSIST)
    assert behind.outbox() == ["everybody@example.com: It is released."]
    refused = [recorded.event for recorded in open_workspace(workspace.path).refusals.newest()]
    assert [(event.verb, event.code, event.by.channel) for event in refused if isinstance(event, RequestRefused)].count(
        ("call", "E_TOOL_GUARDED", Channel.MCP)
    ) == 2


def test_watching_refuses_nothing_and_notes_what_would_have_been(behind: Behind, workspace: Workspace) -> None:
    workspace.trust(CONFIGURATION.replace("MODE", "observe"))
    assert "sent to everybody@example.com" in behind.told(INSIST)
    assert behind.outbox() == ["everybody@example.com: It is released."]
    report = workspace.ordain("guard", "report")
    assert report.status == 0 and "mail:send" in report.out and behind.client.name in report.out
