"""An agent for tests, as a program: it does exactly what its task says, and reaches tools only through its step's door.

Each line of its prompt that begins with `DO ` holds one thing to do, as JSON:

- `{"call": TOOL, "args": {…}}` calls a tool; `"times": N` calls it so often, `"at_once": true` all before any answer;
- `{"list": true}` asks which tools there are;
- `{"write": [PATH, TEXT]}` writes a file itself, as an agent with tools of its own could;
- `{"say": TEXT}` prints a line; `{"exit": N}` ends with that status; `{"wait_for": PATH}` waits for a file;
- `{"hook": TOOL, "args": {…}}` has its host ask, as Claude Code does, before it calls a tool of its own;
- `{"kill_server": true}` kills its server as nobody can prevent, and the next call has a new one;
- `{"gateway": true}` has the next server started as `ordain mcp --gateway`, as an agent's own settings may say;
- `{"raw": TEXT}` writes that into the door's pipes; `{"token": TEXT}` is the token that the next server is given.

What it is answered it prints, one JSON document in a line. It needs nothing but Python.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any


class Server:
    """The MCP server of the step, started as a host would."""

    def __init__(self, token: str | None = None, *, gateway: bool = False) -> None:
        env = dict(os.environ) if token is None else {**os.environ, "ORDAIN_DOOR_TOKEN": token}
        words = json.loads(os.environ["ORDAIN_DOOR_SERVER"])
        words = [*words[:-1], "--gateway"] if gateway else words
        self.process = subprocess.Popen(words, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self._asked = 0
        info = {"name": "step-agent", "version": "1"}
        self.request("initialize", {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": info})
        self._send({"jsonrpc": "2.0", "method": "notifications/initialized"})

    def request(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        return self.answer(self.ask(method, params))

    def ask(self, method: str, params: dict[str, Any]) -> int:
        self._asked += 1
        self._send({"jsonrpc": "2.0", "id": self._asked, "method": method, "params": params})
        return self._asked

    def answer(self, asked: int) -> dict[str, Any]:
        """The answer to a request, or the next one there is where several were asked at once."""
        assert self.process.stdout is not None
        for line in self.process.stdout:
            message = json.loads(line)
            if message.get("id") is not None and message["id"] >= asked:
                return message.get("result") or {"error": message.get("error")}
        return {"error": f"the server has ended with {self.process.wait()}"}

    def call(self, tool: str, args: dict[str, Any]) -> dict[str, Any]:
        return self.request("tools/call", {"name": tool, "arguments": args})

    def _send(self, message: dict[str, Any]) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(message).encode() + b"\n")
        self.process.stdin.flush()


class Agent:
    def __init__(self) -> None:
        self._server: Server | None = None
        self._token: str | None = None
        self._gateway = False

    @property
    def server(self) -> Server:
        if self._server is None:
            self._server = Server(self._token, gateway=self._gateway)
        return self._server

    def do(self, what: dict[str, Any]) -> None:
        if "call" in what:
            for _ in range(what.get("times", 1) if not what.get("at_once") else 0):
                said = self.server.call(what["call"], what.get("args", {}))
            if what.get("at_once"):
                params = {"name": what["call"], "arguments": what.get("args", {})}
                asked = [self.server.ask("tools/call", params) for _ in range(what["times"])]
                said = [self.server.answer(asked[0]) for _ in asked][-1]
            _print(said)
        if "list" in what:
            _print(self.server.request("tools/list", {}))
        if "hook" in what:
            _print(_hooked(what["hook"], what.get("args", {})))
        if "write" in what:
            path, text = what["write"]
            Path(path).write_text(text)
        if "say" in what:
            print(what["say"], flush=True)
        if "wait_for" in what:
            while not Path(what["wait_for"]).exists():
                time.sleep(0.01)
        if "kill_server" in what:
            self.server.process.kill()
            self.server.process.wait()
            self._server = None
        if "token" in what:
            self._token, self._server = what["token"], None
        if "gateway" in what:
            self._gateway, self._server = what["gateway"], None
        if "raw" in what:
            with open(Path(os.environ["ORDAIN_DOOR"], "0.in"), "wb") as pipe:
                pipe.write(what["raw"].encode("latin-1") * what.get("times", 1))
        if "exit" in what:
            sys.exit(what["exit"])


def _hooked(tool: str, args: dict[str, Any]) -> dict[str, Any]:
    """What our hook answers, by the very code that carries out the run."""
    words = [*json.loads(os.environ["ORDAIN_DOOR_SERVER"])[:-2], "guard", "hook", "claude-code"]
    asked = {"hook_event_name": "PreToolUse", "tool_name": tool, "tool_input": args, "cwd": str(Path.cwd())}
    done = subprocess.run(words, input=json.dumps(asked).encode(), stdout=subprocess.PIPE)
    return {"status": done.returncode, "answer": json.loads(done.stdout) if done.stdout else None}


def _print(said: dict[str, Any]) -> None:
    print(json.dumps(said), flush=True)


if __name__ == "__main__":
    agent = Agent()
    for line in sys.stdin.read().splitlines():
        if line.startswith("DO "):
            agent.do(json.loads(line.removeprefix("DO ")))
