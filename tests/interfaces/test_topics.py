"""Topics on the command line: anybody leaves notes, agents get them, nobody can flood the ledger with them."""

from __future__ import annotations

import asyncio
import json
import os
import shlex

import pytest

from ordain.core.run.topic import PER_HOUR
from tests.interfaces.terminal import ORDAIN
from tests.interfaces.test_locks import trusted
from tests.interfaces.test_robot import answered, refused
from tests.interfaces.workspace import KIM, Workspace
from tests.scenario import ManualClock, MemoryLedger, twin_ports
from tests.words import MESSAGE_BYTES_MAX, TOPICS_MAX, Refused, Surroundings, Topics, open_at_terminal

FINE = 0


def test_json_topic(workspace: Workspace):
    assert answered(workspace.ordain("topic", "--json")) == {"topics": []}
    refused(workspace.ordain("topic", "--json", "a b"), "E_NAME")
    refused(workspace.ordain("topic", "--json", "a b", "-m", "x"), "E_NAME")
    refused(workspace.ordain("topic", "--json", "\u0430uth", "-m", "x"), "E_NAME")
    refused(workspace.ordain("topic", "--json", "auth"), "E_TOPIC")
    refused(workspace.ordain("topic", "--json", "auth", "-m", " \n"), "E_TOPIC")
    refused(workspace.ordain("topic", "--json", "-m", "x"), "E_USAGE")
    posted = answered(workspace.ordain("topic", "--json", "auth", "-m", "one"))
    assert (posted["count"], posted["posted"]["text"], posted["posted"]["by"]["channel"]) == (1, "one", "robot")
    assert [one["text"] for one in answered(workspace.ordain("topic", "--json", "auth"))["messages"]] == ["one"]
    assert [one["topic"] for one in answered(workspace.ordain("topic", "--json"))["topics"]] == ["auth"]


def test_messages_are_read_with_who_and_when(workspace: Workspace):
    assert "There are no topics." in workspace.ordain("topic").out
    assert workspace.ordain("topic", "auth", "-m", "one\ntwo \x1b[31mred").out == "Posted as number 1 of auth.\n"
    assert workspace.ordain("topic", "auth", "-m", "three").out == "Posted as number 2 of auth.\n"
    said = workspace.ordain("topic", "auth").out.splitlines()
    assert said[1:3] == ["    one", "    two ‹U+1B›[31mred"] and said[4] == "    three"
    assert said[0].startswith("1  2") and said[0].endswith("(script)")
    assert workspace.ordain("topic", "auth", "-n", "1").out.startswith("The newest 1 of 2:\n2  2")
    assert workspace.ordain("topic").out.startswith("auth      2  2")
    wrong = workspace.ordain("topic", "atuh").err
    assert "E_TOPIC" in wrong and "Did you mean `auth`?" in wrong
    assert workspace.ordain("audit", "verify").status == FINE


def test_a_message_can_come_on_standard_input(workspace: Workspace):
    assert workspace.ordain("topic", "auth", "-m", "-", stdin="found\nit é".encode()).status == FINE
    (message,) = answered(workspace.ordain("topic", "--json", "auth"))["messages"]
    assert message["text"] == "found\nit é"


@pytest.mark.parametrize("data", [b"x" * 70_000, b"\xff", b"x" * 65_535 + "é".encode(), b""])
def test_what_is_too_long_or_no_text_is_refused(data: bytes, workspace: Workspace):
    refused(workspace.ordain("topic", "--json", "auth", "-m", "-", stdin=data), "E_TOPIC")
    assert answered(workspace.ordain("topic", "--json")) == {"topics": []}


def test_secrets_are_not_posted(workspace: Workspace, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("MY_TOKEN", "tr0ub4dor-and-three")
    workspace.ordain("topic", "auth", "-m", "it is tr0ub4dor-and-three")
    monkeypatch.delenv("MY_TOKEN")
    assert "it is [redacted MY_TOKEN]" in workspace.ordain("topic", "auth").out


READS = """\
# Read

**Budget:** max 200k tokens

## Steps

### 1. Post

**run:** ./ordain topic auth -m 'from a step'

### 2. Ask

**agent:** asker
**reads:**
- topic:auth
**task:** Look.
**contract:** grep -q 'from a step' told
"""


def test_an_agent_reads_what_a_step_before_it_posted(workspace: Workspace):
    workspace.write("read.plan.md", READS)
    # A step sees few variables, and not where a test keeps its state.
    kept = {name: os.environ[name] for name in ("ORDAIN_HOME", "PYTHONPATH") if name in os.environ}
    words = ["env", *(f"{name}={value}" for name, value in kept.items()), *ORDAIN]
    workspace.write("ordain", f'#!/bin/sh\nexec {shlex.join(words)} "$@"\n').chmod(0o755)
    trusted(workspace, '[agents.asker]\ncommand = ["sh", "-c", "cat > told"]\n')
    warned = json.loads(workspace.ordain("robot", "lint", "read.plan.md").out)["problems"]
    assert [(one["code"], one["where"]["step"]) for one in warned] == [("W_TOPIC_EMPTY", "ask")]
    run, done = workspace.started("read.plan.md")
    assert done.status == FINE, done
    told = (workspace.path / "told").read_text()
    assert "(message 1 of 1, by " in told and "```\nfrom a step\n```" in told
    assert workspace.ordain("show", run, "--prompt", "ask").out == told
    assert workspace.ordain("robot", "lint", "read.plan.md").out.count("W_TOPIC_EMPTY") == 0


# --- Floods ----------------------------------------------------------------------------------------------------------


def codes(work: object) -> str:
    with pytest.raises(Refused) as raised:
        asyncio.run(work)  # type: ignore[arg-type]
    return raised.value.problems[0].code


def test_a_topic_takes_so_many_an_hour():
    clock = ManualClock()
    here: Surroundings = Surroundings(twin_ports(MemoryLedger(), clock=clock))
    topics = Topics(here)
    for number in range(PER_HOUR):
        assert asyncio.run(topics.post("auth", "x", KIM)).count == number + 1
    assert codes(topics.post("auth", "x", KIM)) == "E_TOPIC_FLOOD"
    assert asyncio.run(topics.post("other", "x", KIM)).count == 1
    clock.advance(3_600_001)
    assert asyncio.run(topics.post("auth", "x", KIM)).count == PER_HOUR + 1


def test_there_are_so_many_topics():
    topics = Topics(Surroundings(twin_ports(MemoryLedger())), topics_max=3)
    for number in range(3):
        asyncio.run(topics.post(f"t{number}", "x", KIM))
    assert codes(topics.post("t3", "x", KIM)) == "E_TOPIC_FLOOD"
    assert asyncio.run(topics.post("t0", "x", KIM)).count == 2
    assert TOPICS_MAX == 1_000 and MESSAGE_BYTES_MAX == 64 << 10, "as the page of the problem says"


def test_two_processes_can_post_at_once(workspace: Workspace):
    apps = [open_at_terminal(workspace.path) for _ in range(4)]

    async def all_of_them() -> None:
        await asyncio.gather(*(app.topics.post("auth", f"{number}", KIM) for app in apps for number in range(5)))
        for app in apps:
            await app.close()

    asyncio.run(all_of_them())
    assert answered(workspace.ordain("topic", "--json", "auth"))["count"] == 20
