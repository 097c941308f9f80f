"""Every built-in tool in one run, over the real ledger, file system, processes and a server on this machine."""

import asyncio
import threading
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from tests.build import plan, step
from tests.scenario import KIM
from tests.words import BUILT_IN, CallTool, open_at_terminal


class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *said: object) -> None:
        pass


def test_all_of_them(tmp_path: Path):
    (tmp_path / "build/deep").mkdir(parents=True)
    (tmp_path / "build/deep/x").write_text("x")
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(tmp_path))) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            url = f"http://127.0.0.1:{server.server_port}/docs/b.txt"
            made = plan(
                step("make", tool="make_dir", args={"path": "docs"}),
                step("write", tool="write_file", args={"path": "docs/a.txt", "content": "one\n"}),
                step("edit", tool="edit_file", args={"path": "docs/a.txt", "old": "one", "new": "two"}),
                step(
                    "move", tool="move", args={"path": "docs/a.txt", "to": "docs/b.txt"}, contract="grep two docs/b.txt"
                ),
                step("delete", tool="delete", args={"path": "build", "recursive": True}, contract="! test -e build"),
                step("read", tool="read_file", args={"path": "docs/b.txt"}),
                step("list", tool="list_files"),
                step("search", tool="search", args={"pattern": "two", "files": "*.txt"}),
                step("exec", tool="exec", args={"argv": ["printf", "%s", "$HOME; *"], "env": {"X": "1"}}),
                step("shell", tool="shell", args={"command": 'printf "$X-$ORDAIN_STEP"', "env": {"X": "1"}}),
                step("ask", tool="http_request", args={"url": url}),
            )
            assert {one.action.tool for one in made.steps if isinstance(one.action, CallTool)} == set(BUILT_IN)

            async def whole():
                app = open_at_terminal(tmp_path, exact=True)
                try:
                    prepared = await app.plans.prepare_plan(made, KIM)
                    await app.approvals.approve(str(prepared.review.plan_id), KIM)
                    return await app.runs.commit(str(prepared.review.plan_id), KIM)
                finally:
                    await app.close()

            report = asyncio.run(whole())
        finally:
            server.shutdown()
            thread.join()
    assert report.status == "completed", [(one.id, one.state, one.evidence) for one in report.steps]
    shown = {one.id: one.output_tail for one in report.steps}
    assert {name: shown[name] for name in ("read", "list", "search", "exec", "shell", "ask")} == {
        "read": "two\n",
        "list": '[".ordain/", "docs/"]',
        "search": '{"matches": ["docs/b.txt:1: two"], "complete": true}',
        "exec": "$HOME; *",
        "shell": "1-shell",
        "ask": "two\n",
    }
