"""The contract of ports.Toolbox, for the real tools and their in-memory twin."""

import asyncio
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from tests.twins.execution import ScriptedToolbox
from tests.words import ToolResult, built_in_tools

NAMES = (
    *("read_file", "list_files", "search", "write_file", "make_dir", "edit_file", "move", "delete"),
    *("shell", "exec", "http_request"),
)


@pytest.fixture(params=["real", "memory"])
def toolbox(request, tmp_path):
    return built_in_tools(tmp_path) if request.param == "real" else ScriptedToolbox()


def call(toolbox, tool, **args):
    return asyncio.run(toolbox.call(tool, args, "step:0"))


def operand(toolbox, tool, **args):
    return asyncio.run(toolbox.operand(tool, args))


def test_definitions_name_themselves(toolbox):
    assert {name: tool.name for name, tool in toolbox.definitions().items()} == {name: name for name in NAMES}


def test_what_was_written_is_read_and_listed(toolbox):
    assert call(toolbox, "write_file", path="a.txt", content="x").error is None
    assert call(toolbox, "read_file", path="a.txt").value == "x"
    assert call(toolbox, "list_files").value == ["a.txt"]


def test_lines_that_hold_a_text_are_found_where_it_is_looked_for(toolbox):
    call(toolbox, "make_dir", path="d")
    call(toolbox, "write_file", path="a.txt", content="one\n two three\n")
    call(toolbox, "write_file", path="d/b.txt", content="two\n")
    everywhere = {"matches": ["a.txt:2: two three", "d/b.txt:1: two"], "complete": True}
    assert call(toolbox, "search", pattern="two").value == everywhere
    assert call(toolbox, "search", pattern="two", path="d").value["matches"] == ["d/b.txt:1: two"]
    assert call(toolbox, "search", pattern="four").value == {"matches": [], "complete": True}


def test_an_edit_needs_exactly_one_place(toolbox):
    call(toolbox, "write_file", path="a.txt", content="one two two")
    assert call(toolbox, "edit_file", path="a.txt", old="one", new="1").error is None
    assert call(toolbox, "edit_file", path="a.txt", old="two", new="2").error == "F_STEP_FAILED"
    assert call(toolbox, "read_file", path="a.txt").value == "1 two two"


def test_what_was_moved_is_there_and_nothing_was_overwritten_unasked(toolbox):
    call(toolbox, "write_file", path="a", content="1")
    call(toolbox, "write_file", path="b", content="2")
    assert call(toolbox, "move", path="a", to="b").error == "F_STEP_FAILED"
    assert call(toolbox, "read_file", path="b").value == "2"
    assert call(toolbox, "move", path="a", to="b", overwrite=True).error is None
    assert (call(toolbox, "read_file", path="b").value, call(toolbox, "list_files").value) == ("1", ["b"])
    assert call(toolbox, "move", path="b", to="c").error is None
    assert call(toolbox, "list_files").value == ["c"]
    assert call(toolbox, "move", path="b", to="d").error == "F_STEP_FAILED"


def test_what_was_deleted_is_gone_and_a_directory_only_with_a_word(toolbox):
    call(toolbox, "write_file", path="a", content="1")
    call(toolbox, "make_dir", path="d")
    call(toolbox, "write_file", path="d/b", content="2")
    assert call(toolbox, "delete", path="a").error is None
    assert call(toolbox, "delete", path="a").error == "F_STEP_FAILED"
    assert call(toolbox, "delete", path="d").error == "F_STEP_FAILED"
    assert call(toolbox, "read_file", path="d/b").value == "2"
    assert call(toolbox, "delete", path="d", recursive=True).error is None
    assert call(toolbox, "list_files").value == []


@pytest.mark.parametrize(
    ("tool", "args"),
    [
        ("edit_file", {"path": "a", "old": "1", "new": "2"}),
        ("move", {"path": "a", "to": "b"}),
        ("delete", {"path": "a"}),
    ],
)
def test_the_operand_tells_whether_a_call_happened(toolbox, tool, args):
    call(toolbox, "write_file", path="a", content="1")
    before = operand(toolbox, tool, **args)
    assert before is not None and operand(toolbox, tool, **args) == before
    assert call(toolbox, tool, **args).error is None
    assert operand(toolbox, tool, **args) != before


def test_of_a_request_nobody_can_tell(toolbox):
    assert operand(toolbox, "http_request", url="http://127.0.0.1:1/") is None


def test_a_request_gives_the_body_of_the_answer(toolbox):
    class Hello(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("Content-Length", "5")
            self.end_headers()
            self.wfile.write(b"hello")

        def log_message(self, *said: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Hello) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            url = f"http://127.0.0.1:{server.server_port}/"
            if isinstance(toolbox, ScriptedToolbox):
                toolbox.answers[f"GET {url}"] = ToolResult(output=b"hello", output_bytes=5)
            result = call(toolbox, "http_request", url=url)
        finally:
            server.shutdown()
            thread.join()
    assert (result.error, result.output, result.output_bytes) == (None, b"hello", 5)


def test_failures_are_results(toolbox):
    assert call(toolbox, "read_file", path="none").error == "F_STEP_FAILED"
    assert call(toolbox, "no_such_tool").error == "F_STEP_FAILED"


def test_commands_are_not_called_here(toolbox):
    assert call(toolbox, "shell", command="touch x").error == "F_STEP_FAILED"
    assert call(toolbox, "exec", argv=["touch", "x"]).error == "F_STEP_FAILED"
    assert call(toolbox, "list_files").value == []
