"""What docs/clients.md says about each client is what is measured here."""

from __future__ import annotations

import re
import sys
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest

from tests.agents import probe
from tests.agents.clients import Client, Site
from tests.agents.conversation import Call, Conversation, Result
from tests.agents.model_server import ModelServer, serving
from tests.agents.tap import messages
from tests.interfaces.workspace import Workspace
from tests.patience import patience

pytestmark = [pytest.mark.agents, pytest.mark.timeout(patience(300))]

PAGE = Path(__file__).parents[2] / "docs" / "clients.md"
TASK = "Find out how you treat a tool server."


def try_all(talk: Conversation) -> Generator[Call, Result, str]:
    for tool in ("succeed", "refuse", "ask"):
        yield Call(tool, {})
    return "Found out."


def test_the_table_in_the_docs_is_what_is_measured(client: Client, home: Path, workspace: Workspace) -> None:
    with serving({TASK: try_all}) as model:
        site = Site(home, workspace.path, model.url, (sys.executable, probe.__file__))
        ended = client.run(site, TASK)
        assert model.astray == [], f"{client.name} {client.version}: {ended}"
        row = _row(client, model, messages(site.notes))
    assert row in PAGE.read_text().splitlines(), f"measured: {row}"


def _row(client: Client, model: ModelServer, passed: list[dict[str, Any]]) -> str:
    succeeded, refused, asked = (entry.text for entry in model.heard[-1].entries if isinstance(entry, Result))
    version, capabilities = _agreed(passed)
    calls = [message for message in passed if message.get("method") == "tools/call"]
    cells = (
        f"{client.name} {client.version}",
        version,
        _declared(capabilities),
        _shown(succeeded),
        _shown(refused),
        re.search("answered: ([a-z ]+)", asked).group(1),  # type: ignore[union-attr]
        "yes" if all(probe.INSTRUCTIONS in body for body in model.bodies) else "no",
        "yes" if all("progressToken" in call["params"].get("_meta", {}) for call in calls) else "no",
    )
    return f"| {' | '.join(cells)} |"


def _agreed(passed: list[dict[str, Any]]) -> tuple[str, dict[str, Any]]:
    """The version of the protocol in which the tools were called, and what the client says it can do."""
    for message in passed:
        meta = message.get("params", {}).get("_meta", {})
        if message.get("method") == "tools/call" and "io.modelcontextprotocol/protocolVersion" in meta:
            return meta["io.modelcontextprotocol/protocolVersion"], meta["io.modelcontextprotocol/clientCapabilities"]
    (begun,) = (message["params"] for message in passed if message.get("method") == "initialize")
    (agreed,) = (message["result"] for message in passed if "protocolVersion" in message.get("result", {}))
    return agreed["protocolVersion"], begun["capabilities"]


def _declared(capabilities: dict[str, Any]) -> str:
    """The capabilities by name; what is in an elicitation matters here, what is in others does not."""
    names = [name for name in capabilities if name not in ("elicitation", "experimental")]
    if "elicitation" in capabilities:
        names.append(f"elicitation ({', '.join(capabilities['elicitation']) or 'form'})")
    return ", ".join(sorted(names)) or "nothing"


def _shown(text: str) -> str:
    shown = {"text": probe.WORDS in text, "structure": probe.STRUCTURE in text}
    return ", ".join(name for name, there in shown.items() if there) or "neither"
