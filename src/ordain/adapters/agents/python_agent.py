"""The process in which a Python function performs one task; it is run as a program, by its path.

It gets everything on standard input. What the function gives back is all that it writes to standard output, text as it
is and everything else as JSON; what the function prints goes to standard error.
"""

from __future__ import annotations

import json
import os
import sys
from typing import Any


def main() -> None:
    given = json.load(sys.stdin.buffer)
    answer = os.dup(1)
    os.dup2(2, 1)
    # Where the one that started us finds modules; neither this file's directory nor the workspace is meant.
    sys.path[:] = given["path"]
    from pkgutil import resolve_name

    from ordain.adapters.agents.python_work import Cannot, Work

    tools = _Tools(given["server"])
    work = Work(given["item"], call=tools.call if given["server"] is not None else None, report=_report)
    try:
        value = resolve_name(given["call"])(work)
        if hasattr(value, "__await__"):
            import asyncio

            value = asyncio.run(_awaited(value))
        said = value if isinstance(value, str) else "" if value is None else json.dumps(value, allow_nan=False)
    except Cannot as cannot:
        said = f"{given['cannot']} {' '.join(str(cannot).split())}\n"
    finally:
        tools.close()
    with os.fdopen(answer, "wb") as out:
        out.write(said.encode("utf-8", "replace"))


class _Tools:
    """The tools of the step; their server is started by the first call."""

    def __init__(self, server: dict[str, Any] | None) -> None:
        self._server = server
        self._client: Any = None

    def call(self, tool: str, args: dict[str, Any]) -> Any:
        if self._client is None:
            from ordain.adapters.agents.step_client import StepClient

            assert self._server is not None
            self._client = StepClient(self._server["argv"], self._server["env"])
        return self._client.call(tool, args)

    def close(self) -> None:
        if self._client is not None:
            self._client.close()


async def _awaited(value: Any) -> Any:
    return await value


def _report(line: str) -> None:
    """Where there is a file for what is used."""
    if "ORDAIN_USAGE" in os.environ:
        with open(os.environ["ORDAIN_USAGE"], "a") as file:  # noqa: PTH123 - pathlib takes a while to load
            file.write(line)


if __name__ == "__main__":
    main()
