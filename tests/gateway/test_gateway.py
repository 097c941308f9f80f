"""`ordain mcp --gateway` over pipes, before real servers: what passes is what would without it, and nothing guarded
does."""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.gateway.conftest import KIM, Site
from tests.gateway.pipes import GATEWAY, LEGACY, META, MODERN, Pipe
from tests.patience import PATIENCE_S
from tests.words import open_at_terminal, read_settings

OURS = ["plan_propose", "plan_lint", "plan_list", "plan_get", "plan_revise", "plan_prepare", "plan_approve"]
OURS += ["plan_commit", "plan_status", "plan_cancel", "plan_reject", "plan_generate", "tools_list"]
THEIRS = ["echo", "odd", "send", "progress", "slow", "crash", "big", "wrong", "sample", "grow", "refuse"]
ENFORCE = '[guard]\nmode = "enforce"\n'


# --- As without us ---------------------------------------------------------------------------------------------------


def said_in_a_session(pipe: Pipe) -> list[Any]:
    """All that a client hears in a session with everything in it that a server may say."""
    with pipe:
        greeted = pipe.greet()["result"]
        theirs, _, _ = greeted["instructions"].partition("\n\n")  # ours follow
        listed = pipe.request("tools/list", {"x-params": None}, "list")["result"]
        while listed.get("nextCursor"):
            more = pipe.request("tools/list", {"cursor": listed["nextCursor"]}, "list")["result"]
            listed = {**listed, **more, "tools": listed["tools"] + more["tools"], "nextCursor": more.get("nextCursor")}
        listed.pop("nextCursor", None)
        listed["tools"] = [one for one in listed["tools"] if one["name"] not in OURS]
        odd_arguments = {"big": 12345678901234567890123, "none": None, "f": [1.0, 1e-7], "\u2028": "\ud83d\ude00"}
        calls = [
            pipe.call("echo", "text id", **odd_arguments),
            pipe.request("tools/call", {"name": "echo", "arguments": None, "x-params": [None], "_meta": {"v/x": None}}),
            pipe.call("odd", 0),
            pipe.call("refuse"),
            pipe.call("wrong", "\u00e9"),
            pipe.request("tools/call", {"name": "progress", "_meta": {"progressToken": "tok", "v/y": 1}}, "7"),
            pipe.request("tools/call", {"name": "progress", "_meta": {"progressToken": 0}}, 7),
            pipe.call("big", n=5_000_000),
            pipe.request("tools/call", {"name": "nothing of the sort", "arguments": {}}),
            pipe.request("vendor/method", {"a": [None, 12345678901234567890123]}),
        ]
        for one in calls:  # what it repeats of the request has the ids that the gateway made
            for part in one.get("result", {}).get("content", ()):
                if part.get("type") == "text" and part["text"].startswith("{"):
                    given = json.loads(part["text"])
                    given.get("_meta", {}).pop("progressToken", None)
                    part["text"] = given
        return [
            {name: greeted[name] for name in greeted if name != "capabilities"} | {"instructions": theirs},
            greeted["capabilities"]["x-capability"],
            listed,
            calls,
            pipe.heard,
        ]


@pytest.mark.slow("real gateway and server processes; test_relay has the rules")
@pytest.mark.parametrize("era", [LEGACY, MODERN])
def test_every_value_of_a_session_is_the_same_with_and_without_the_gateway(site: Site, era: str) -> None:
    site.trust(site.odd())  # observing
    direct, through = said_in_a_session(site.direct(era)), said_in_a_session(site.gateway(era=era))
    for one, other in zip(through, direct, strict=True):
        # Compared as texts: 1 and 1.0 and true are the same to Python.
        assert json.dumps(one)[:100_000] == json.dumps(other)[:100_000]
    assert json.dumps(through) == json.dumps(direct), "or in what is very long"


@pytest.mark.slow("real gateway and server processes; test_relay has the rules")
def test_a_call_that_is_taken_back_ends_and_a_slow_one_holds_up_nobody(site: Site) -> None:
    site.trust(site.odd())
    with site.gateway() as pipe:
        pipe.greet()
        slow = pipe.ask("tools/call", {"name": "slow", "arguments": {"n": 20}}, "slow")
        assert pipe.call("echo", "fast")["id"] == "fast"
        pipe.send({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": "slow"}})
        assert pipe.answer(slow)["result"]["content"][0]["text"] == "cancelled"


@pytest.mark.slow("real gateway and server processes; test_relay has the rules")
def test_what_a_server_asks_the_client_is_answered_to_it(site: Site) -> None:
    site.trust(site.odd())
    with site.gateway() as pipe:
        pipe.greet()
        asked = pipe.ask("tools/call", {"name": "sample", "arguments": {}})
        want = pipe.next()
        while want.get("method") != "sampling/createMessage":
            want = pipe.next()
        assert want["params"]["maxTokens"] == 5
        result = {"role": "assistant", "content": {"type": "text", "text": "hi"}, "x": None}
        pipe.send({"jsonrpc": "2.0", "id": want["id"], "result": result})
        assert json.loads(pipe.answer(asked)["result"]["content"][0]["text"]) == result


@pytest.mark.slow("real gateway and server processes; test_relay has the rules")
def test_a_tool_that_appears_can_be_called_and_the_client_is_told(site: Site) -> None:
    site.trust(site.odd())
    with site.gateway() as pipe:
        pipe.greet()
        assert pipe.names() == [*THEIRS, *OURS]
        pipe.call("grow")
        assert [one["method"] for one in pipe.heard] == ["notifications/tools/list_changed"]
        assert pipe.call("more0")["result"]["content"]
        assert "more0" in pipe.names()


# --- Servers that die, or never live ---------------------------------------------------------------------------------


@pytest.mark.slow("real gateway and server processes; test_relay has the rules")
def test_a_server_that_dies_is_started_again_by_the_next_call(site: Site) -> None:
    site.trust(site.odd() + site.odd("other", "o_"))
    with site.gateway() as pipe:
        pipe.greet()
        pipe.names()
        slow = pipe.ask("tools/call", {"name": "slow", "arguments": {"n": 20}})
        lost = pipe.call("crash")["result"]
        assert lost["isError"] is True and "`odd`" in lost["content"][0]["text"]
        told = [one for one in pipe.heard if one.get("id") == slow] or [pipe.answer(slow)]
        assert told[0]["result"]["isError"] is True, "whatever waits is told"
        assert "isError" not in pipe.call("o_echo")["result"]
        assert "isError" not in pipe.call("echo")["result"]


@pytest.mark.slow("real gateway and server processes; test_relay has the rules")
def test_a_server_that_is_killed_between_calls_is_not_missed(site: Site) -> None:
    site.trust(site.odd())
    with site.gateway() as pipe:
        pipe.greet()
        pipe.call("echo")
        children = Path(f"/proc/{pipe.process.pid}/task/{pipe.process.pid}/children").read_text().split()
        assert len(children) == 1
        os.kill(int(children[0]), signal.SIGKILL)
        said = pipe.call("echo")["result"]
        if said.get("isError"):  # it was handed over before anybody saw that it had died
            said = pipe.call("echo")["result"]
        assert "isError" not in said


@pytest.mark.slow
def test_servers_that_cannot_be_started_are_told_of_and_the_others_serve(site: Site) -> None:
    table = '[tools.gone]\nmcp = ["/no/such/program"]\n[tools.dies]\nmcp = ["false"]\n'
    table += '[tools.talks]\nmcp = ["echo", "I am no server"]\n'
    site.trust(site.odd() + table)
    with site.gateway() as pipe:
        pipe.greet()
        assert pipe.names() == [*THEIRS, *OURS]
    assert "ordain: The server `gone` cannot be started: `/no/such/program`: No such file" in pipe.errors
    # Its end may be seen before or after it was asked something.
    ended = r"ordain: The server `%s` (did not answer|ended before).*%s.*its tools are missing\."
    assert re.search(ended % ("talks", "it wrote `I am no server`"), pipe.errors)
    assert re.search(ended % ("dies", ""), pipe.errors)


def _has_ended(pid: int) -> bool:
    """Also where nobody has asked how it ended: its parent may be gone."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return True


@pytest.mark.slow("real gateway and server processes; test_relay has the rules")
@pytest.mark.parametrize("number", [None, signal.SIGTERM, signal.SIGKILL])
def test_servers_end_with_the_gateway(site: Site, number: signal.Signals | None) -> None:
    site.trust(site.odd())
    with site.gateway() as pipe:
        pipe.greet()
        children = Path(f"/proc/{pipe.process.pid}/task/{pipe.process.pid}/children").read_text().split()
        if number is not None:
            pipe.process.send_signal(number)
            pipe.process.wait(PATIENCE_S)
    for _ in range(2_000):
        if _has_ended(int(children[0])):
            return
        signal.sigtimedwait([], 0.005)
    raise AssertionError("it lives on")


# --- The guard -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("era", [LEGACY, MODERN])
def test_enforced_a_guarded_call_is_refused_and_recorded(site: Site, era: str) -> None:
    site.trust(site.odd() + ENFORCE)
    with site.gateway(era=era) as pipe:
        pipe.greet()
        assert "isError" not in pipe.call("echo")["result"], "what only reads is open"
        said = pipe.call("send", to="kim@example.com", password="correct horse")["result"]
        assert said["isError"] is True
        assert said["structuredContent"]["error"]["code"] == "E_TOOL_GUARDED"
        step = said["structuredContent"]["data"]["plan_propose"]["steps"][0]
        assert (step["tool"], step["operation"]) == ("odd", "send")
        assert len(json.dumps(said)) < 12_000
        vendor = pipe.request("vendor/method", {})
        assert "E_TOOL_GUARDED" in vendor["error"]["message"]
    assert site.received().count("tools/call") == 1 and "vendor/method" not in site.received()
    send, other = site.sightings()
    assert (send.tool, send.agent, send.through, send.refused) == ("odd:send", "raw 2", "gateway", True)
    assert other.tool == "odd:vendor/method"
    assert [(code, subject.split()[0]) for _, code, subject in site.refused()][:1] == [("E_TOOL_GUARDED", "odd:send")]


@pytest.mark.slow("real gateway and server processes; test_relay has the rules")
def test_observed_a_guarded_call_passes_and_is_noted(site: Site) -> None:
    site.trust(site.odd())
    with site.gateway() as pipe:
        pipe.greet()
        assert "isError" not in pipe.call("send", to="kim")["result"]
        assert "isError" not in pipe.call("echo")["result"]
    (seen,) = site.sightings()
    assert (seen.tool, seen.refused, seen.code, seen.about) == ("odd:send", False, "E_TOOL_GUARDED", '{"to": "kim"}')
    assert site.refused() == []


@pytest.mark.slow("real gateway and server processes; test_relay has the rules")
def test_annotations_are_not_believed_unless_the_settings_say_so_and_effects_win(site: Site) -> None:
    untrusted = site.odd().replace("trust_annotations = true", 'effects = { send = "reads" }')
    site.trust(untrusted + ENFORCE)
    with site.gateway() as pipe:
        pipe.greet()
        assert pipe.call("echo")["result"]["isError"] is True
        assert "isError" not in pipe.call("send")["result"]


@pytest.mark.slow("real gateway and server processes; test_relay has the rules")
def test_settings_that_a_person_trusts_count_from_the_next_call_on_and_edits_do_not(site: Site) -> None:
    site.trust(site.odd() + ENFORCE)
    with site.gateway() as pipe:
        pipe.greet()
        assert pipe.call("send")["result"]["isError"] is True
        opened = site.odd() + ENFORCE + 'open = ["reads", "odd:send"]\n'
        (site.path / "ordain.toml").write_text(opened)
        assert pipe.call("send")["result"]["isError"] is True, "an agent can write that file"
        site.trust(opened)
        assert "isError" not in pipe.call("send")["result"]
        site.trust(site.odd() + ENFORCE + '[policy]\ndeny = ["odd:send"]\n')
        denied = pipe.call("send")["result"]
        assert denied["structuredContent"]["error"]["code"] == "E_POLICY_DENIED"


@pytest.mark.slow("real gateway and server processes; test_relay has the rules")
def test_the_refused_call_is_proposed_approved_and_made_once_by_the_harness(site: Site) -> None:
    site.trust(site.odd() + ENFORCE)
    with site.gateway() as pipe:
        pipe.greet()
        body = pipe.call("send", n=5)["result"]["structuredContent"]["data"]["plan_propose"]
        body["steps"][0]["contract"] = """grep -qx '{"n": 5}' sent.log"""
        proposed = pipe.call("plan_propose", **body)["result"]["structuredContent"]
        assert proposed["ok"], proposed
        plan = proposed["data"]["plan"]
        early = pipe.call("send", n=5)["result"]["structuredContent"]
        assert early["error"]["code"] == "E_TOOL_GUARDED" and early["data"] is None, "it is proposed already"
        assert early["next"] == [f"A person types at a terminal: ordain -C {site.path} approve {plan}"]

        async def approve() -> None:
            app = open_at_terminal(site.path, exact=True)
            await app.approvals.approve(plan, KIM)
            await app.close()

        asyncio.run(approve())
        again = pipe.call("send", n=5)["result"]["structuredContent"]
        assert "very call" in again["error"]["message"] and again["data"] is None
        other = pipe.call("send", n=6)["result"]["structuredContent"]
        assert other["error"]["code"] == "E_TOOL_ARGS_NOT_APPROVED"
        assert "send" not in (site.path / "odd.log").read_text()
        done = pipe.call("plan_commit", plan=plan, wait_s=20)["result"]["structuredContent"]
        assert done["data"]["status"] == "success", done
        once_more = pipe.call("send", n=5)["result"]["structuredContent"]
        assert once_more["next"][0] == f"Call plan_status with what={done['data']['run_id']}."
        assert once_more["next"][1].startswith("Only if it is to be done once more, call plan_propose")
        first = pipe.call("plan_commit", plan=plan)["result"]["structuredContent"]
        assert first["data"]["run_id"] == done["data"]["run_id"]
        pipe.call("plan_prepare", plan=plan)
        spent = pipe.call("plan_commit", plan=plan)["result"]["structuredContent"]
        assert (spent["error"]["code"], spent["next"]) == ("E_APPROVAL_SPENT", once_more["next"][:1])
    sent = [json.loads(line) for line in (site.path / "odd.log").read_text().splitlines() if '"send"' in line]
    assert [one["params"]["arguments"] for one in sent] == [{"n": 5}]


# --- Which servers, for whom -----------------------------------------------------------------------------------------


@pytest.mark.slow("real gateway and server processes; test_relay has the rules")
def test_only_the_servers_that_are_named_are_fronted(site: Site) -> None:
    site.trust(site.odd() + site.odd("other", "o_"))
    with site.gateway("--server", "other") as pipe:
        pipe.greet()
        assert pipe.names() == [*(f"o_{name}" for name in THEIRS), *OURS]
    with site.gateway("--server", "othr") as pipe:
        assert pipe.process.wait(PATIENCE_S) == 2
    assert "E_MCP_START" in pipe.errors and "other" in pipe.errors


@pytest.mark.slow("real gateway and server processes; test_relay has the rules")
def test_without_servers_it_is_ordains_own(site: Site) -> None:
    for era in (LEGACY, MODERN):
        with site.gateway(era=era) as pipe:
            assert "capabilities" in pipe.greet()["result"]
            assert pipe.names() == OURS
        assert "name no MCP server" in pipe.errors


def test_the_settings_on_the_gateways_page_are_settings() -> None:
    page = Path(__file__).parents[2] / "docs" / "gateway.md"
    (text,) = re.findall(r"^```toml\n(.*?)^```", page.read_text(), re.MULTILINE | re.DOTALL)
    settings, problems = read_settings(text.encode())
    assert not problems and list(settings.sources) == ["mail", "tickets"]


@pytest.mark.slow("real gateway and server processes; test_relay has the rules")
def test_one_server_of_the_older_era_brings_all_to_it(site: Site) -> None:
    site.trust(site.odd() + site.odd("older", "old_", "legacy"))
    with site.gateway() as pipe:
        meta = {f"{META}protocolVersion": MODERN, f"{META}clientCapabilities": {}}
        assert pipe.request("server/discover", {"_meta": meta})["error"]["code"] == -32601
        assert pipe.greet()["result"]["protocolVersion"] == LEGACY
        assert pipe.names() == [*THEIRS, *(f"old_{name}" for name in THEIRS), *OURS]


@pytest.mark.slow("real gateway and server processes; test_relay has the rules")
def test_what_ours_can_do_is_what_is_said_before_it_is_started(site: Site) -> None:
    from tests.words import OWN_CAPABILITIES

    for era in (LEGACY, MODERN):
        with Pipe((*GATEWAY[:-1],), site.path, era) as pipe:
            said = pipe.greet()["result"]["capabilities"]
            assert said == OWN_CAPABILITIES[era == MODERN]


@pytest.mark.slow("real gateway and server processes; test_relay has the rules")
def test_the_first_answer_does_not_wait_for_the_library(site: Site) -> None:
    """Hosts wait for servers one after the other; the SDK takes most of a second to load."""
    code = (
        "import sys, ordain.interfaces.gateway.stdio, ordain.interfaces.gateway.front, ordain.adapters.tools.upstream;"
        "print([name for name in sys.modules if name.split('.')[0] in ('mcp', 'mcp_types', 'pydantic', 'httpx2')])"
    )
    with Pipe([sys.executable, "-c", code], site.path) as pipe:
        assert pipe.process.stdout is not None
        assert pipe.process.stdout.read().strip() == b"[]"


@pytest.mark.slow("real gateway and server processes; test_relay has the rules")
def test_a_client_of_the_sdk_sees_servers_and_ours(site: Site) -> None:
    from mcp import Client, StdioServerParameters
    from mcp.client.stdio import stdio_client

    site.trust(site.odd() + site.odd("other", "o_") + ENFORCE)

    async def session() -> None:
        env = {name: os.environ[name] for name in os.environ}
        server = StdioServerParameters(command=GATEWAY[0], args=list(GATEWAY[1:]), cwd=site.path, env=env)
        told: list[float] = []

        async def progress(done: float, total: float | None, words: str | None) -> None:
            told.append(done)

        async with Client(stdio_client(server), cache=None) as client:
            names = [tool.name for tool in (await client.list_tools()).tools]
            assert names == [*THEIRS, *(f"o_{name}" for name in THEIRS), *OURS]
            result = await client.call_tool("o_progress", {}, progress_callback=progress)
            assert not result.is_error and told == [0, 1, 2]
            refused = await client.call_tool("send", {"n": 1})
            assert refused.is_error and refused.structured_content is not None
            planned = await client.call_tool("plan_lint", refused.structured_content["data"]["plan_propose"])
            assert planned.structured_content is not None

    asyncio.run(asyncio.wait_for(session(), PATIENCE_S))


@pytest.mark.slow("real gateway and server processes; test_relay has the rules")
def test_changes_of_several_servers_come_on_one_stream(site: Site) -> None:
    """`subscriptions/listen`: one acknowledgement of all that will be told, under the client's own id."""
    site.trust(site.odd())
    with site.gateway(era=MODERN) as pipe:
        pipe.greet()
        wanted = {"notifications": {"resourcesListChanged": True}}
        listening = pipe.ask("subscriptions/listen", wanted, "stream-1")
        told = pipe.next()
        assert told["method"] == "notifications/subscriptions/acknowledged"
        assert told["params"]["notifications"] == {"resourcesListChanged": True}
        assert told["params"]["_meta"][f"{META}subscriptionId"] == listening
        body = {"title": "T", "steps": [{"description": "d", "run": "true > x", "contract": "test -f x"}]}
        pipe.call("plan_propose", **body)
        changed = next((one for one in pipe.heard if one["method"] == "notifications/resources/list_changed"), None)
        while changed is None:
            message = pipe.next()
            changed = message if message.get("method") == "notifications/resources/list_changed" else None
        assert changed["params"]["_meta"][f"{META}subscriptionId"] == listening


@pytest.mark.slow("real gateway and server processes; test_relay has the rules")
@pytest.mark.parametrize(
    "words", [["--step", "--gateway"], ["--server", "x"], ["--gateway", "--json"]], ids=lambda words: " ".join(words)
)
def test_words_that_do_not_go_together_are_refused(site: Site, words: list[str]) -> None:
    with Pipe([*GATEWAY[:-1], *words], site.path) as pipe:
        assert pipe.process.wait(PATIENCE_S) == 2


@pytest.mark.slow("real gateway and server processes; test_relay has the rules")
def test_a_client_that_greets_while_a_server_still_starts_has_all_its_tools(site: Site, tmp_path: Path) -> None:
    """Claude Code greets when nobody says within 2 s whether the modern era is spoken."""
    gate, server = tmp_path / "gate", Path(__file__).with_name("slow_server.py")
    os.mkfifo(gate)
    opened = os.open(gate, os.O_RDWR)
    command = json.dumps([sys.executable, "-I", "-S", str(server), str(gate)])
    site.trust(f'[tools.slow]\nmcp = {command}\neffects = {{ say = "reads" }}\n')
    with site.gateway() as pipe:
        meta = {f"{META}protocolVersion": MODERN, f"{META}clientCapabilities": {}}
        pipe.ask("server/discover", {"_meta": meta}, "first")
        info = {"name": "raw", "version": "2"}
        greeting = {"protocolVersion": LEGACY, "capabilities": {}, "clientInfo": info}
        pipe.ask("initialize", greeting, "second")
        assert "error" in pipe.answer("first")
        os.write(opened, b"go" * 10)
        assert pipe.answer("second")["result"]["protocolVersion"] == LEGACY
        pipe.send({"jsonrpc": "2.0", "method": "notifications/initialized"})
        assert pipe.names() == ["say", *OURS]
        assert pipe.call("say")["result"]["content"][0]["text"] == "said"
    os.close(opened)  # and with it all that nobody has read
    with site.gateway() as pipe:  # what it had is known by now, and it never comes
        pipe.greet()
        assert pipe.names() == ["say", *OURS]
