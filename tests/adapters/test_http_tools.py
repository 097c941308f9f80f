"""`http_request` against a server on this machine: what is sent, what is kept, and that nothing goes on afterwards."""

import asyncio
import contextlib
import hashlib
import socket
import ssl
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from ordain.adapters.tools import http as http_tools
from tests.words import OUTPUT_BYTES_MAX, HttpTools, ToolResult


class Handler(BaseHTTPRequestHandler):
    """Answers by path; everything that comes is noted."""

    server: "Server"

    def _answer(self) -> None:
        length = int(self.headers.get("Content-Length") or 0)
        body = self.rfile.read(length)
        self.server.seen.append((self.command, self.path, dict(self.headers), body))
        path, _, query = self.path.partition("?")
        match path.split("/")[1:]:
            case ["status", code]:
                self._send(int(code), b"said " + code.encode())
            case ["redirect", code]:
                self._send(int(code), b"elsewhere", Location=query)
            case ["round"]:
                self._send(302, b"", Location="/round")
            case ["big", size]:
                self._send(200, b"x" * int(size) + b"END")
            case ["short"]:
                self._send(200, b"half", **{"Content-Length": "1000"})
            case ["chunks"]:
                self.send_response(200)
                self.send_header("Transfer-Encoding", "chunked")
                self.end_headers()
                self.wfile.write(b"5\r\nhello\r\n" + (b"" if query else b"0\r\n\r\n"))
            case ["silence"]:
                self.server.waiting.set()
                # Until the other side hangs up.
                self.server.hung_up.append(self.connection.recv(1))
                self.server.done.set()
            case _:
                self._send(200, b"hello")

    do_GET = do_HEAD = do_POST = do_PUT = do_PATCH = do_DELETE = do_OPTIONS = _answer  # noqa: N815

    def _send(self, status: int, body: bytes, **headers: str) -> None:
        self.send_response(status)
        for name, value in {"Content-Length": str(len(body)), **headers}.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def log_message(self, *said: object) -> None:
        pass


class Server(ThreadingHTTPServer):
    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.seen: list[tuple[str, str, dict[str, str], bytes]] = []
        self.hung_up: list[bytes] = []
        self.waiting, self.done = threading.Event(), threading.Event()

    def url(self, path: str) -> str:
        return f"http://127.0.0.1:{self.server_port}{path}"


@contextlib.contextmanager
def serving() -> Iterator[Server]:
    with Server() as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()


@pytest.fixture
def server() -> Iterator[Server]:
    with serving() as server:
        yield server


def call(url: str, **args: Any) -> ToolResult:
    return asyncio.run(HttpTools().call("http_request", {"url": url, **args}, "step:0"))


def test_what_is_sent_is_what_the_plan_says_and_nothing_from_around(server, monkeypatch, tmp_path):
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:1/")
    (tmp_path / ".netrc").write_text("machine 127.0.0.1 login a password b\n")
    monkeypatch.setenv("HOME", str(tmp_path))
    result = call(server.url("/p?q=%20"), method="POST", headers={"X-One": "1", "accept": "a/b"}, body="grüß")
    assert result == ToolResult(output=b"hello", output_bytes=5)
    assert server.seen == [
        (
            "POST",
            "/p?q=%20",
            {
                "Host": f"127.0.0.1:{server.server_port}",
                "Accept-Encoding": "identity",
                "Content-Length": "6",
                "User-Agent": "ordain",
                "Connection": "close",
                "X-One": "1",
                "accept": "a/b",
            },
            "grüß".encode(),
        )
    ]


def test_a_header_of_the_plan_stands_alone(server):
    call(server.url("/"), headers={"user-agent": "mine", "accept-encoding": "gzip"})
    names = [name.lower() for name in server.seen[0][2]]
    assert (names.count("user-agent"), names.count("accept-encoding")) == (1, 1)


@pytest.mark.parametrize(
    ("code", "wanted", "good"),
    [(200, None, True), (204, None, True), (404, None, False), (500, None, False), (404, 404, True), (200, 201, False)],
)
def test_the_status_decides(server, code, wanted, good):
    result = call(server.url(f"/status/{code}"), **({"status": wanted} if wanted else {}))
    assert (result.error is None) is good
    if not good:
        assert (result.error, result.detail) == ("F_STEP_FAILED", f"the server answered with status {code}")


def test_what_a_server_says_to_a_failure_is_kept(server):
    assert call(server.url("/status/500")).output == b"said 500"


@pytest.mark.parametrize("method", ["GET", "HEAD"])
@pytest.mark.parametrize("code", [301, 302, 303, 307, 308])
def test_redirects_on_the_same_server_are_followed(server, method, code):
    result = call(server.url(f"/redirect/{code}?/there%3Fx"), method=method)
    assert result.error is None
    assert [(one[0], one[1]) for one in server.seen[1:]] == [(method, "/there%3Fx")]


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE"])
def test_what_may_change_something_is_not_sent_twice(server, method):
    result = call(server.url("/redirect/307?/there"), method=method)
    assert (result.error, result.detail) == ("F_STEP_FAILED", "the server answered with status 307")
    assert len(server.seen) == 1


def test_a_redirect_that_is_wanted_is_the_answer(server):
    result = call(server.url("/redirect/302?/there"), status=302)
    assert (result.error, result.output, len(server.seen)) == (None, b"elsewhere", 1)


def test_redirects_have_an_end(server):
    assert call(server.url("/round")).detail == "it is redirected more than 5 times"
    assert len(server.seen) == 6


@pytest.mark.parametrize(
    "location", ["https://127.0.0.1/", "http://localhost:{port}/", "http://127.0.0.1:1/", "//other/x", "https:///x"]
)
def test_no_redirect_leads_to_another_server_or_scheme(server, location):
    with serving() as other:
        url = server.url(f"/redirect/302?{location.format(port=other.server_port)}")
        result = call(url, headers={"Authorization": "Basic x"})
        assert result.error == "F_STEP_FAILED" and "redirected to" in result.detail
        assert other.seen == []
    assert len(server.seen) == 1


@pytest.mark.parametrize(
    "location", ["file:///etc/passwd", "ftp://127.0.0.1/", "javascript:x", "http://u:p@127.0.0.1/"]
)
def test_a_redirect_to_what_is_no_address_is_refused(server, location):
    result = call(server.url(f"/redirect/302?{location}"))
    assert result.detail == "it is redirected to an address that no request can be sent to"


def test_of_a_long_answer_the_end_is_kept_and_all_is_counted(server):
    size = 3 * OUTPUT_BYTES_MAX + 17
    result = call(server.url(f"/big/{size}"))
    assert (result.error, result.output_bytes) == (None, size + 3)
    assert result.output == b"x" * (OUTPUT_BYTES_MAX - 3) + b"END"
    assert result.whole is not None and (result.whole.size, result.whole.parts) == (size + 3, None)


def test_where_there_is_room_a_long_answer_is_there_whole(server, tmp_path):
    size = 3 * OUTPUT_BYTES_MAX + 17
    tools = HttpTools(lambda: tmp_path)
    result = asyncio.run(tools.call("http_request", {"url": server.url(f"/big/{size}")}, "step:0"))
    whole = result.whole
    assert whole is not None and whole.parts is not None
    data = b"".join(whole.parts())
    assert (data, whole.sha256) == (b"x" * size + b"END", hashlib.sha256(data).digest())


def test_an_answer_that_ends_early_is_a_failure_that_says_it_was_sent(server):
    for path in ("/short", "/chunks?cut"):
        result = call(server.url(path))
        assert result.error == "F_STEP_FAILED"
        assert result.detail.startswith("it was sent, and no whole answer came: ")
    assert call(server.url("/chunks")).output == b"hello"


@pytest.mark.parametrize(
    "answer", [b"", b"rubbish\r\n\r\n", b"HTTP/1.1 200 OK\r\n" + b"A: b\r\n" * 200, b"HTTP/1.1 2\xff0 x\r\n\r\n"]
)
def test_rubbish_is_a_failure(answer):
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def speak() -> None:
            with listener.accept()[0] as connection:
                connection.recv(65536)
                connection.sendall(answer)

        thread = threading.Thread(target=speak)
        thread.start()
        result = call(f"http://127.0.0.1:{listener.getsockname()[1]}/")
        thread.join()
    assert result.error == "F_STEP_FAILED"
    assert result.detail.startswith("it was sent, and no whole answer came: ")


def test_nobody_there_means_that_nothing_was_sent():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        result = call(f"http://127.0.0.1:{free.getsockname()[1]}/")
    assert result.error == "F_STEP_FAILED" and "cannot be reached, so nothing was sent" in result.detail


def test_a_name_that_cannot_be_is_a_failure():
    assert "cannot be reached" in call(f"http://{'a' * 70}.invalid/").detail


@pytest.mark.parametrize(
    ("args", "words"),
    [
        ({"url": "file:///etc/passwd"}, "not an address"),
        ({"url": "http://127.0.0.1/\r\nX: y"}, "not an address"),
        ({"url": "http://127.0.0.1/ x"}, "not an address"),
        ({"url": "http://127.0.0.1:1/", "headers": {"A": "b\r\nC: d"}}, "`A` with a value"),
        ({"url": "http://127.0.0.1:1/", "headers": {"A\r\nB": "c"}}, "not the name of a header"),
        ({"url": "http://127.0.0.1:1/", "headers": {"Host": "other"}}, "not for a plan to set"),
    ],
)
def test_what_could_be_taken_for_something_else_is_not_sent(args, words):
    result = call(**args)
    assert result.error == "F_STEP_FAILED" and words in result.detail


def test_a_cancelled_request_is_cut_and_nothing_goes_on(server):
    async def main() -> None:
        work = asyncio.create_task(HttpTools().call("http_request", {"url": server.url("/silence")}, "k"))
        await asyncio.to_thread(server.waiting.wait, 10)
        work.cancel()
        with pytest.raises(asyncio.CancelledError):
            await work
        assert await asyncio.to_thread(server.done.wait, 10)

    asyncio.run(main())
    assert server.hung_up == [b""]


def test_slow_servers_hold_up_nobody_else(server):
    async def main() -> ToolResult:
        tools = HttpTools()
        slow = [
            asyncio.create_task(tools.call("http_request", {"url": server.url("/silence")}, "k")) for _ in range(40)
        ]
        result = await asyncio.wait_for(tools.call("http_request", {"url": server.url("/")}, "k"), 10)
        assert await asyncio.wait_for(asyncio.to_thread(lambda: True), 10)
        for one in slow:
            one.cancel()
        await asyncio.gather(*slow, return_exceptions=True)
        return result

    assert asyncio.run(main()).output == b"hello"


def test_a_connection_that_never_comes_about_is_cut_too():
    """A queue that is full takes no more: the next one who calls waits for an answer that does not come."""
    with socket.socket() as listener, contextlib.ExitStack() as callers:
        listener.bind(("127.0.0.1", 0))
        listener.listen(0)
        where = listener.getsockname()
        for _ in range(4):
            caller = callers.enter_context(socket.socket())
            caller.setblocking(False)
            caller.connect_ex(where)

        async def main() -> bool:
            url = f"http://127.0.0.1:{where[1]}/"
            work = asyncio.create_task(HttpTools().call("http_request", {"url": url}, "k"))
            done, _ = await asyncio.wait([work], timeout=0.2)
            if done:
                return False
            work.cancel()
            with pytest.raises(asyncio.CancelledError):
                await asyncio.wait_for(work, 5)
            return True

        if not asyncio.run(main()):
            pytest.skip("here a full queue takes more")


def test_an_answer_that_was_whole_is_told_even_if_cancelled_meanwhile(server, monkeypatch):
    """Cancelled between the end of the exchange and the telling: what happened is not thrown away."""
    loops: list[asyncio.Task[ToolResult]] = []
    end = http_tools._Wire.end

    def cancelling(wire: Any) -> None:
        end(wire)
        loops[0].get_loop().call_soon_threadsafe(loops[0].cancel)

    monkeypatch.setattr(http_tools._Wire, "end", cancelling)

    async def main() -> ToolResult:
        loops.append(asyncio.create_task(HttpTools().call("http_request", {"url": server.url("/")}, "k")))
        return await loops[0]

    assert asyncio.run(main()).output == b"hello"


def test_a_server_that_nobody_vouches_for_gets_nothing(tmp_path):
    """TLS with a certificate that it made itself."""
    certificate = self_signed(tmp_path)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    with serving() as server:
        server.socket = context.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
        result = call(f"https://127.0.0.1:{server.server_port}/")
        assert server.seen == []
    assert result.error == "F_STEP_FAILED"
    assert "cannot be reached, so nothing was sent" in result.detail and "self-signed" in result.detail


def test_a_server_that_is_vouched_for_is_asked(tmp_path, monkeypatch):
    certificate = self_signed(tmp_path)
    monkeypatch.setenv("SSL_CERT_FILE", certificate)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    with serving() as server:
        server.socket = context.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
        assert call(f"https://127.0.0.1:{server.server_port}/").output == b"hello"
        assert "self" not in call(f"https://localhost:{server.server_port}/").detail
        assert len(server.seen) == 1, "the certificate is not for that name"


def self_signed(folder: Any) -> str:
    import datetime
    import ipaddress

    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "here")])
    now = datetime.datetime.now(datetime.UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    path = folder / "server.pem"
    path.write_bytes(
        key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
        + made.public_bytes(serialization.Encoding.PEM)
    )
    return str(path)
