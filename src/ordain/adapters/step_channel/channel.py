"""Doors of named pipes: how the agent of one attempt reaches whoever carries out its run.

A sandbox lets nothing have a socket, and a pipe with a name can be opened also where nothing can be written. So there
are some pairs of pipes in the attempt's private directory (`pipe`); a client takes a pair for as long as it
lives, which a lock says that dies with it.
"""

from __future__ import annotations

import contextlib
import json
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import ordain
from ordain.adapters.process.outside import our_python
from ordain.core.task.offer import DOOR, SERVER, TOKEN
from ordain.ports.agent import Behind, StepServer

_START = (
    "import runpy, sys; root = sys.argv.pop(1); root in sys.path or sys.path.insert(0, root); "
    "sys.argv[0] = 'ordain'; runpy.run_module('ordain', run_name='__main__', alter_sys=True)"
)
"""Starts the very code that this process runs, wherever its host stands and whatever is installed."""


class PipeDoors:
    """ports.Doors of named pipes."""

    def fault(self) -> str | None:
        from importlib.util import find_spec

        return None if find_spec("mcp") is not None else "the library `mcp` is not here"

    @contextlib.asynccontextmanager
    async def open(self, room: str, behind: Behind) -> AsyncIterator[StepServer]:
        import asyncio  # most commands only look, and start faster without these
        import secrets

        from ordain.adapters.step_channel.pipe import make_pairs

        directory, token = Path(room, "door"), secrets.token_urlsafe(32)
        pairs = make_pairs(directory, token, behind)
        root = str(Path(ordain.__file__).parents[1])
        argv = (sys.executable, "-P", "-c", _START, root, "mcp", "--step")
        try:
            yield StepServer(
                argv=argv,
                env={DOOR: str(directory), TOKEN: token, SERVER: json.dumps(argv)},
                sees=our_python(),
            )
        finally:
            await asyncio.gather(*(pair.close() for pair in pairs))
