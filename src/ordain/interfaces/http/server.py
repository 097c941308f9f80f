"""Serving an application over HTTP until a signal ends it, whatever protocol it speaks."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import socket
from collections.abc import Callable, Generator

import uvicorn

from ordain.interfaces.http.entrance import Application

BODY_MAX = 4 << 20
"""How large a request may be, in bytes: more than the largest document that is read."""
ENDING_S = 1
"""How long what is under way may take when the server ends. Runs are not under way here: they go on."""


def serve_http(application: Application, listening: socket.socket, ending: Callable[[], None]) -> None:
    """Serve until a signal ends it; `ending` lets go of the streams that would go on."""
    config = uvicorn.Config(
        application,
        http="h11",
        loop="asyncio",
        ws="none",
        lifespan="on",
        log_config=None,
        log_level="critical",
        access_log=False,
        server_header=False,
        proxy_headers=False,
        timeout_graceful_shutdown=ENDING_S,
    )
    asyncio.run(_SignalledServer(config, ending).serve(sockets=[listening]))


class _SignalledServer(uvicorn.Server):
    """A server that a signal ends as it should be ended, and not once more by the signal itself."""

    def __init__(self, config: uvicorn.Config, ending: Callable[[], None]) -> None:
        super().__init__(config)
        self._ending = ending

    @contextlib.contextmanager
    def capture_signals(self) -> Generator[None, None, None]:
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            loop.add_signal_handler(number, self._end)
        yield

    def _end(self) -> None:
        self._ending()
        self.force_exit = self.should_exit
        self.should_exit = True
