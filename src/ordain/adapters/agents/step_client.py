"""The tools of a step, called over MCP from the process of an agent: the few messages that takes, and no more.

One call at a time. What the server says that is no answer is passed over.
"""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Mapping, Sequence
from threading import Lock
from typing import Any

_PROTOCOL = "2025-06-18"
_END_S = 2.0


class StepClient:
    """A session with the server of one step."""

    def __init__(self, argv: Sequence[str], env: Mapping[str, str]) -> None:
        self._process = subprocess.Popen(
            argv, env={**os.environ, **env}, stdin=subprocess.PIPE, stdout=subprocess.PIPE, encoding="utf-8"
        )
        self._lock, self._asked = Lock(), 0
        who = {"name": "ordain-python-agent", "version": "1"}
        self._ask("initialize", {"protocolVersion": _PROTOCOL, "capabilities": {}, "clientInfo": who})
        self._send({"method": "notifications/initialized"})

    def call(self, tool: str, args: dict[str, Any]) -> Any:
        with self._lock:
            result = self._ask("tools/call", {"name": tool, "arguments": args})
        text = "\n".join(part["text"] for part in result.get("content", ()) if part.get("type") == "text")
        if result.get("isError"):
            raise RuntimeError(text or f"{tool} failed and did not say why")
        return result.get("structuredContent", text)

    def close(self) -> None:
        """End the session; the server ends when nothing more can come."""
        try:
            self._process.communicate(timeout=_END_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def _ask(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        self._asked += 1
        self._send({"id": self._asked, "method": method, "params": params})
        assert self._process.stdout is not None
        for line in self._process.stdout:
            try:
                said = json.loads(line)
            except ValueError:
                continue
            if isinstance(said, dict) and said.get("id") == self._asked and "method" not in said:
                if "error" in said:
                    raise RuntimeError(said["error"].get("message", "it was refused"))
                result: dict[str, Any] = said["result"]
                return result
        raise RuntimeError("the server of the step's tools has ended")

    def _send(self, message: dict[str, Any]) -> None:
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
            self._process.stdin.flush()
        except OSError as error:
            raise RuntimeError(f"the server of the step's tools cannot be reached: {error}") from error
