"""MCP over HTTP, through a real socket: nobody enters without a token, from another page or under another name, and no
client has what another proposed."""

from __future__ import annotations

import http.client
import json
import os
import signal
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.interfaces.http_server import HttpServer, headers, modern_body, modern_headers, next_event
from tests.interfaces.terminal import without_terminal
from tests.interfaces.test_robot import answered, refused
from tests.interfaces.workspace import READS, SMALL, WAITS, Workspace
from tests.patience import PATIENCE_S, eventually
from tests.words import hosts, listen, own_hosts

FINE, REFUSED = 0, 2


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("served")


@pytest.fixture(scope="module")
def shared(home: Path) -> Iterator[HttpServer]:
    """One server for all tests that need no other: clients come and go while it runs."""
    before = os.environ.get("ORDAIN_HOME")
    os.environ["ORDAIN_HOME"] = str(home / "state")
    (home / "workspace").mkdir()
    try:
        with HttpServer(Workspace(home / "workspace").path) as server:
            yield server
    finally:
        os.environ.pop("ORDAIN_HOME")
        if before is not None:
            os.environ["ORDAIN_HOME"] = before


@pytest.fixture
def server(shared: HttpServer, home: Path, monkeypatch: pytest.MonkeyPatch) -> HttpServer:
    monkeypatch.setenv("ORDAIN_HOME", str(home / "state"))
    return shared


@pytest.fixture
def token(server: HttpServer) -> Iterator[str]:
    yield server.token("anna")
    server.revoke("anna")


@pytest.fixture
def other(server: HttpServer) -> Iterator[str]:
    yield server.token("bert")
    server.revoke("bert")


LIST = modern_body("tools/list")


def listing(token: str, **changed: str) -> dict[str, str]:
    """The headers of a request that is answered, but for these."""
    sent = modern_headers(token, "tools/list")
    return {**sent, **{name.replace("_", "-"): value for name, value in changed.items()}}


# --- Who enters ----------------------------------------------------------------------------------------------------


def test_a_request_with_a_token_is_answered(server: HttpServer, token: str):
    assert "plan_propose" in {tool["name"] for tool in server.ask(token, "tools/list").result["tools"]}


@pytest.mark.parametrize("method", ["POST", "GET", "DELETE", "OPTIONS", "PUT", "HEAD"])
@pytest.mark.parametrize("shown", [None, "Bearer ", "Bearer ordain_mcp_nobody", "Basic YTpi", "ordain_mcp_nobody"])
def test_without_a_token_that_counts_nothing_is_answered(server: HttpServer, method: str, shown: str | None):
    sent = listing("") | {"Authorization": shown or ""}
    if shown is None:
        del sent["Authorization"]
    reply = server.request(method, body=LIST if method == "POST" else b"", headers=sent)
    assert (reply.status, reply.headers["www-authenticate"][:21]) == (401, 'Bearer realm="ordain"')
    assert b"tools" not in reply.body


def test_a_token_in_the_address_counts_for_nothing(server: HttpServer, token: str):
    sent = listing(token)
    del sent["Authorization"]
    for query in (f"?token={token}", f"?access_token={token}"):
        assert server.request(path=f"/mcp{query}", body=LIST, headers=sent).status == 401


def test_two_tokens_are_none(server: HttpServer, token: str):
    connection = http.client.HTTPConnection("127.0.0.1", server.port)
    connection.putrequest("POST", "/mcp")
    for name, value in [*listing(token).items(), ("Authorization", "Bearer x"), ("Content-Length", str(len(LIST)))]:
        connection.putheader(name, value)
    connection.endheaders(LIST)
    assert connection.getresponse().status == 401
    connection.close()


def test_a_revoked_token_counts_no_longer_while_the_server_runs(server: HttpServer):
    token = server.token("carl")
    session = server.session(token)
    assert server.ask(token, "tools/list").status == server.in_session(token, session).status == 200
    server.revoke("carl")
    assert server.ask(token, "tools/list").status == server.in_session(token, session).status == 401
    again = server.token("carl")  # the same name, and not the same token
    assert server.in_session(token, session).status == 401
    assert server.in_session(again, session).status == 404
    server.revoke("carl")


def test_a_stream_ends_when_its_token_is_revoked(server: HttpServer):
    token = server.token("dora")
    plan = server.call(token, "plan_propose", document=SMALL.replace("two", "six"))["data"]["lineage"]
    wanted = {"resourcesListChanged": True, "resourceSubscriptions": [f"ordain://plan/{plan}"]}
    with server.listening(token, wanted) as stream:
        server.call(token, "plan_propose", document=SMALL.replace("two", "seven"))
        assert next_event(stream)["method"] == "notifications/resources/list_changed"
        server.revoke("dora")
        assert without_terminal("cancel", plan, cwd=server.workspace).status == FINE
        assert stream.read().strip() == b""


# --- Where a request comes from ------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["127.0.0.1", "localhost", "[::1]"])
def test_this_machine_is_reached_by_its_own_names(server: HttpServer, token: str, name: str):
    sent = listing(token, Host=f"{name}:{server.port}", Origin=f"http://{name}:{server.port}")
    reply = server.request(body=LIST, headers=sent)
    assert reply.status == 200
    assert not [header for header in reply.headers if header.startswith("access-control")]


@pytest.mark.parametrize(
    "host",
    [
        "evil.example:{port}",
        "127.0.0.1",
        "localhost",
        "127.0.0.1:1",
        "127.0.0.1:{port}.evil.example",
        "localhost.:{port}",
        "",
    ],
)
def test_another_host_is_misdirected(server: HttpServer, token: str, host: str):
    for method in ("POST", "GET"):
        sent = listing(token, Host=host.format(port=server.port))
        assert server.request(method, body=LIST if method == "POST" else b"", headers=sent).status == 421


@pytest.mark.parametrize(
    "origin", ["http://evil.example", "null", "", "http://127.0.0.1", "http://localhost:{port}.evil.example", "file://"]
)
def test_a_page_of_another_origin_is_forbidden(server: HttpServer, token: str, origin: str):
    sent = listing(token, Origin=origin.format(port=server.port))
    reply = server.request(body=LIST, headers=sent)
    assert (reply.status, [name for name in reply.headers if name.startswith("access-control")]) == (403, [])


def test_what_is_no_json_is_not_read(server: HttpServer, token: str):
    for media_type in ("text/plain", "application/x-www-form-urlencoded", "application/jsonp", ""):
        assert server.request(body=LIST, headers=listing(token, Content_Type=media_type)).status == 415
    assert (
        server.request(body=LIST, headers=listing(token, Content_Type="application/json; charset=utf-8")).status == 200
    )
    assert server.request(body=b"{", headers=listing(token)).status == 400


def test_a_body_that_is_too_large_is_not_read(server: HttpServer, token: str):
    assert server.request(body=b" " * ((4 << 20) + 1), headers=listing(token)).status == 413
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=PATIENCE_S)
    parts = (b" " * (1 << 20) for _ in range(5))  # nobody says beforehand how much it will be
    connection.request("POST", "/mcp", body=parts, headers=listing(token), encode_chunked=True)
    assert connection.getresponse().status == 413
    connection.close()


def test_there_is_nothing_else(server: HttpServer, token: str):
    for path in ("/", "/mcp/", "/.well-known/oauth-protected-resource", "/docs"):
        assert server.request("GET", path, headers=headers(token)).status == 404


# --- Whose plan it is ----------------------------------------------------------------------------------------------


def test_a_client_has_its_own_plans_and_no_others(server: HttpServer, token: str, other: str):
    proposed = server.call(token, "plan_propose", document=SMALL)
    assert proposed["ok"], proposed
    plan, lineage = proposed["data"]["plan_id"], proposed["data"]["lineage"]
    assert [one["plan_id"] for one in server.call(token, "plan_list")["data"]["plans"]].count(plan) == 1
    assert plan not in [one["plan_id"] for one in server.call(other, "plan_list")["data"]["plans"]]
    for tool, more in {
        "plan_get": {},
        "plan_status": {},
        "plan_commit": {},
        "plan_approve": {},
        "plan_cancel": {},
        "plan_prepare": {},
        "plan_reject": {"feedback": "No."},
        "plan_revise": {"document": READS},
    }.items():
        for name in (plan, lineage):
            subject = {"what" if tool in ("plan_status", "plan_cancel") else "plan": name}
            answer = server.call(other, tool, **subject, **more)
            assert (answer["ok"], answer["error"]["code"]) == (False, "E_PLAN_NOT_YOURS"), (tool, answer)
    for uri in (f"ordain://plan/{plan}", f"ordain://plan/{lineage}/preview"):
        assert server.ask(token, "resources/read", {"uri": uri}).result["contents"]
        assert b"E_PLAN_NOT_YOURS" in server.ask(other, "resources/read", {"uri": uri}).body
    listed = server.ask(other, "resources/list").result["resources"]
    assert lineage not in json.dumps(listed)


def test_a_client_is_no_user_of_the_machine(server: HttpServer, token: str):
    plan = server.call(token, "plan_propose", document=READS)["data"]["plan_id"]
    told = answered(without_terminal("list", "--json", cwd=server.workspace))["plans"]
    assert [one["proposer"]["name"] for one in told if one["plan_id"] == plan] == ["mcp/anna"]


def test_a_session_is_its_tokens_own(server: HttpServer, token: str, other: str):
    session = server.session(token)
    assert server.in_session(token, session).status == 200
    for http_method in ("POST", "GET", "DELETE"):
        assert server.in_session(other, session, http_method=http_method).status == 404
    assert server.in_session(token, session).status == 200
    assert server.in_session(token, session, http_method="DELETE").status == 200
    assert server.in_session(token, session).status == 404


# --- Being told ----------------------------------------------------------------------------------------------------


def test_a_client_is_told_of_its_own_plan_and_not_of_anothers(server: HttpServer, token: str, other: str):
    document = SMALL.replace("two lines", "two lines, told of")
    plan = server.call(token, "plan_propose", document=document)["data"]["lineage"]
    foreign = server.call(other, "plan_propose", document=SMALL.replace("two", "four"))["data"]["lineage"]
    uris = [f"ordain://plan/{one}" for one in (plan, foreign)] + ["ordain://plan/PLAN-NONE", "test://else"]
    wanted = {"resourceSubscriptions": uris, "toolsListChanged": True, "resourcesListChanged": False}
    with server.listening(token, wanted, {"resourceSubscriptions": uris[:1]}) as stream:
        assert server.call(other, "plan_cancel", what=foreign)["ok"]
        assert server.call(token, "plan_cancel", what=plan)["ok"]
        told = next_event(stream)
    assert (told["method"], told["params"]["uri"]) == ("notifications/resources/updated", uris[0])


def test_before_2026_a_client_subscribes_on_its_connection(server: HttpServer, token: str, other: str):
    plan = server.call(token, "plan_propose", document=SMALL.replace("two", "five"))["data"]["lineage"]
    uri = f"ordain://plan/{plan}"

    def subscribe(token: str, session: str, method: str) -> dict[str, Any]:
        body = json.dumps({"jsonrpc": "2.0", "id": 3, "method": method, "params": {"uri": uri}}).encode()
        sent = headers(token) | {"Mcp-Session-Id": session, "MCP-Protocol-Version": "2025-11-25"}
        text = server.request(body=body, headers=sent).body.decode()
        message: dict[str, Any] = json.loads(text[text.index("{") :])
        return message

    stranger = server.session(other)
    assert "error" in subscribe(other, stranger, "resources/subscribe")
    session = server.session(token)
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=PATIENCE_S)
    sent = headers(token) | {"Mcp-Session-Id": session, "MCP-Protocol-Version": "2025-11-25"}
    connection.request("GET", "/mcp", headers=sent)
    stream = connection.getresponse()
    assert subscribe(token, session, "resources/subscribe")["result"] == {}
    assert server.call(token, "plan_cancel", what=plan)["ok"]
    told = next_event(stream)
    assert (told["method"], told["params"]["uri"]) == ("notifications/resources/updated", uri)
    assert subscribe(token, session, "resources/unsubscribe")["result"] == {}
    connection.close()


def test_only_what_works_is_declared(server: HttpServer, token: str):
    declared = server.ask(token, "server/discover").result["capabilities"]
    assert declared["resources"] == {"subscribe": True, "listChanged": True}
    assert not declared["tools"].get("listChanged") and not declared["prompts"].get("listChanged")
    assert "logging" not in declared


# --- Starting and ending -------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_the_server_and_no_run(workspace: Workspace, number: signal.Signals):
    with HttpServer(workspace.path) as server:
        assert server.listening_on() == {"0100007F"}
        settings = json.loads(server.said[-1])["mcpServers"]["ordain"]
        token = settings["headers"]["Authorization"].removeprefix("Bearer ")
        assert settings["url"] == f"http://127.0.0.1:{server.port}/mcp" and len(token) >= 40
        plan = server.call(token, "plan_propose", document=WAITS)["data"]["plan_id"]
        workspace.at_terminal("approve", plan, answers=[("Type yes", "yes")])
        begun = server.call(token, "plan_commit", plan=plan)
        assert begun["ok"], begun
        eventually(lambda: (workspace.path / "pid").exists(), "the run")
        with server.listening(token, {"resourcesListChanged": True}) as stream:
            assert server.end(number) == FINE
            assert "result" in next_event(stream)  # told that it ends, and not dropped
        assert server.said[3:] == []
    (workspace.path / "go").touch()
    eventually(lambda: workspace.effects() == ["slow", "after"], "the run to go on")


def test_a_token_is_told_once_and_kept_by_its_digest(workspace: Workspace):
    added = workspace.ordain("mcp", "token", "add", "laptop")
    token = added.out.strip()
    assert (added.status, token.startswith("ordain_mcp_"), token in added.err) == (FINE, True, False)
    kept = [path for path in Path(os.environ["ORDAIN_HOME"]).rglob("*") if path.is_file()]
    assert kept and all(token.encode() not in path.read_bytes() for path in kept)
    assert [oct(path.stat().st_mode & 0o777) for path in kept if path.name == "laptop.json"] == ["0o600"]
    again = workspace.ordain("mcp", "token", "add", "laptop")
    assert (again.status, "E_CLIENT" in again.err, again.out) == (REFUSED, True, "")
    assert "laptop" in workspace.ordain("mcp", "token", "list").out
    assert workspace.ordain("mcp", "token", "revoke", "laptop").status == FINE
    assert "E_CLIENT" in workspace.ordain("mcp", "token", "revoke", "laptop").err
    assert workspace.ordain("mcp", "token", "add", "laptop").out.strip() != token


@pytest.mark.parametrize("name", ["local", "", "../a", "a/b", ".a", "a b", "ä", "x" * 65])
def test_names_that_could_mean_something_else_are_refused(workspace: Workspace, name: str):
    assert "E_CLIENT" in workspace.ordain("mcp", "token", "add", name).err


def test_a_token_is_hidden_wherever_it_is_shown(workspace: Workspace):
    token = workspace.ordain("mcp", "token", "add", "ci").out.strip()
    workspace.write("leak.plan.md", f"# Leak\n\n1. `echo {token}`\n")
    done = workspace.ordain("lint", "leak.plan.md")
    assert (done.status, token in done.out + done.err) == (REFUSED, False)


def test_json_mcp(workspace: Workspace):
    refused(workspace.ordain("mcp", "--json"), "E_MCP_START")
    refused(workspace.ordain("mcp", "token", "add", "ci", "--json"), "E_CLIENT")
    workspace.ordain("mcp", "token", "add", "ci")
    (client,) = answered(workspace.ordain("mcp", "token", "list", "--json"))["clients"]
    assert (client["name"], set(client)) == ("ci", {"name", "made_at"})
    assert answered(workspace.ordain("mcp", "token", "revoke", "ci", "--json")) == {"clients": []}


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.0.2.1"])
def test_it_listens_where_others_reach_it_only_when_told_by_which_name(workspace: Workspace, host: str):
    done = workspace.ordain("mcp", "--http", "--port", "0", "--host", host)
    assert (done.status, "E_MCP_START" in done.err, "--allow-host" in done.err) == (REFUSED, True, True)


def test_everything_wrong_with_where_to_listen_is_told_at_once(workspace: Workspace):
    words = ["--port", "70000", "--host", "example.com", "--allow-host", "build.example", "--allow-host", "a:0"]
    done = workspace.ordain("mcp", "--http", *words)
    assert (done.status, done.err.count("E_MCP_START")) == (REFUSED, 4)
    for said in ("no port 70000", "`example.com` is none", "`build.example` is not that", "`a:0` is not that"):
        assert said in done.err
    assert workspace.ordain("mcp", "--http", "--port", "-1").err.startswith("E_MCP_START There is no port -1.")


@pytest.mark.parametrize("option", [["--port", "0"], ["--host", "::1"], ["--allow-host", "build.example:8443"]])
def test_what_is_about_http_goes_with_http(workspace: Workspace, option: list[str]):
    done = workspace.ordain("mcp", *option)
    assert (done.status, f"{option[0]} goes with --http." in done.err) == (REFUSED, True)
    refused(workspace.ordain("mcp", *option, "--json"), "E_USAGE")


def test_without_its_library_it_says_how_to_get_it(workspace: Workspace, tmp_path: Path):
    without = tmp_path / "without"
    without.mkdir()
    (without / "sitecustomize.py").write_text(NO_MCP)
    path = os.pathsep.join(filter(None, [str(without), os.environ.get("PYTHONPATH")]))
    done = workspace.ordain("mcp", env={"PYTHONPATH": path})
    assert (done.status, "E_EXTRA_MISSING" in done.err) == (REFUSED, True)
    assert "→ pip install 'ordain[mcp]'" in done.err and "pip install '.[mcp]'" in done.err


NO_MCP = """\
import importlib.util
found = importlib.util.find_spec
importlib.util.find_spec = lambda name, package=None: None if name == "mcp" else found(name, package)
"""


def test_a_port_that_is_taken_is_said(server: HttpServer, workspace: Workspace):
    done = workspace.ordain("mcp", "--http", "--port", str(server.port))
    assert (done.status, "E_MCP_START" in done.err) == (REFUSED, True)


def test_a_name_that_others_use_is_allowed_by_saying_it(workspace: Workspace):
    with HttpServer(workspace.path, "--allow-host", "build.example:8443") as server:
        assert any("not encrypted" in line for line in server.said)
        token = server.token("ci")
        for host, status in {"build.example:8443": 200, "build.example": 421, "build.example:8444": 421}.items():
            assert server.request(body=LIST, headers=listing(token, Host=host)).status == status


def test_no_part_of_an_answer_waits_for_another_to_be_confirmed():
    with listen("127.0.0.1", 0, ()) as listening, socket.create_connection(listening.getsockname()):
        accepted, _ = listening.accept()
        with accepted:
            assert accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)


def test_clients_may_leave_out_the_usual_port():
    with listen("127.0.0.1", 0, ()) as listening:
        here = own_hosts(listening)
        assert hosts(listening, ["a.example:443", "b.example:8443"]) == (
            *here,
            *("a.example:443", "b.example:8443", "a.example"),
        )
