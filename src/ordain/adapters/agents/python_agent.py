"""The process in which a Python function performs one task; it is run as a program, by its path.

It gets everything on standard input, and writes what the function gives back to standard output: text as it is, else
JSON.
"""

from __future__ import annotations

import json
import os
import sys
from typing import Any

_PROTOCOL = "2025-06-18"
_END_S = 2.0


def main() -> None:
    given = json.load(sys.stdin.buffer)
    answer = os.dup(1)
    os.dup2(2, 1)
    # Where the one that started us finds modules; neither this file's directory nor the workspace is meant.
    sys.path[:] = given["path"]
    from pkgutil import resolve_name

    from ordain.adapters.agents.python_work import Cannot, Work

    tools = _StepTools(given["server"])
    work = Work(given["item"], call=tools.call if given["server"] is not None else None, report=_report)
    try:
        value = resolve_name(given["call"])(work)
        if hasattr(value, "__await__"):
            import asyncio

            async def awaited() -> Any:
                return await value

            value = asyncio.run(awaited())
        said = value if isinstance(value, str) else "" if value is None else json.dumps(value, allow_nan=False)
    except Cannot as cannot:
        said = f"{given['cannot']} {' '.join(str(cannot).split())}\n"
    finally:
        tools.close()
    with os.fdopen(answer, "wb") as out:
        out.write(said.encode("utf-8", "replace"))


def _report(line: str) -> None:
    if "ORDAIN_USAGE" in os.environ:
        with open(os.environ["ORDAIN_USAGE"], "a") as file:  # noqa: PTH123 - pathlib takes a while to load
            file.write(line)


class _StepTools:
    """The tools of the step over MCP: the few messages that takes. The first call starts the server."""

    def __init__(self, server: dict[str, Any] | None) -> None:
        import threading

        self._server, self._lock, self._asked = server, threading.Lock(), 0
        self._process: Any = None

    def call(self, tool: str, args: dict[str, Any]) -> Any:
        with self._lock:
            if self._process is None:
                self._start()
            result = self._ask("tools/call", {"name": tool, "arguments": args})
        text = "\n".join(part["text"] for part in result.get("content", ()) if part.get("type") == "text")
        if result.get("isError"):
            raise RuntimeError(text or f"{tool} failed and did not say why")
        return result.get("structuredContent", text)

    def close(self) -> None:
        """End the session; the server ends when nothing more can come."""
        if self._process is not None:
            import subprocess

            try:
                self._process.communicate(timeout=_END_S)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()

    def _start(self) -> None:
        import subprocess

        assert self._server is not None
        env, pipe = {**os.environ, **self._server["env"]}, subprocess.PIPE
        self._process = subprocess.Popen(self._server["argv"], env=env, stdin=pipe, stdout=pipe, encoding="utf-8")
        who = {"name": "ordain-python-agent", "version": "1"}
        self._ask("initialize", {"protocolVersion": _PROTOCOL, "capabilities": {}, "clientInfo": who})
        self._send({"method": "notifications/initialized"})

    def _ask(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        self._asked += 1
        self._send({"id": self._asked, "method": method, "params": params})
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
        try:
            self._process.stdin.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
            self._process.stdin.flush()
        except OSError as error:
            raise RuntimeError(f"the server of the step's tools cannot be reached: {error}") from error


if __name__ == "__main__":
    main()
