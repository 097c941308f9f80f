"""The gateway over standard input and output: one client, which started this process and is the user it runs as."""

from __future__ import annotations

import asyncio
import os
import signal
import stat
import sys
from collections.abc import Awaitable, Callable, Sequence

from ordain.interfaces.gateway.front import Caller, Front
from ordain.interfaces.gateway.relay import Relay
from ordain.interfaces.gateway.wire import PARSE_ERROR, REFUSED, Id, Message, error, read_line, written

LINE_MAX = 64 << 20


async def serve_gateway(
    front: Front, caller: Caller, ending: Sequence[signal.Signals], close: Callable[[], Awaitable[None]]
) -> None:
    """Serve until the client closes the stream, or one of these signals comes; `close` what it stood on then."""
    lines, write = await _lines(), await _writer()

    async def send(message: Message, related: Id | None) -> None:
        await write(written(message))

    relay = Relay(front, send, caller)
    serving = asyncio.ensure_future(_take(lines, relay, send))
    for number in ending:
        asyncio.get_running_loop().add_signal_handler(number, serving.cancel)
    try:
        await serving
    except (asyncio.CancelledError, ConnectionError):
        pass
    except ValueError:
        front.say(f"A line of more than {LINE_MAX:,} bytes was sent, which nobody reads.")
    finally:
        await relay.close()
        await close()


async def _take(lines: asyncio.StreamReader | None, relay: Relay, send: Callable[..., Awaitable[None]]) -> None:
    while line := await (lines.readline() if lines is not None else asyncio.to_thread(sys.stdin.buffer.readline)):
        try:
            message = read_line(line)
        except ValueError:
            if line.strip():
                await send(error(None, PARSE_ERROR, "A line that is no JSON."), None)
            continue
        await relay.received(message)


def _is_pipe(descriptor: int) -> bool:
    """Whether something can be waited for without changing it for others, as a terminal would be."""
    mode = os.fstat(descriptor).st_mode
    return stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode)


async def _lines() -> asyncio.StreamReader | None:
    if not _is_pipe(sys.stdin.fileno()):
        return None
    reader = asyncio.StreamReader(limit=LINE_MAX)
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin.buffer)
    return reader


async def _writer() -> Callable[[bytes], Awaitable[None]]:
    """Writing to standard output. Whatever else writes there writes to standard error from now on."""
    out = os.fdopen(os.dup(1), "wb", buffering=0)
    os.dup2(2, 1)
    if not _is_pipe(out.fileno()):

        async def write_whole(data: bytes) -> None:
            view = memoryview(data)
            while view:
                view = view[out.write(view) :]

        return write_whole
    loop = asyncio.get_running_loop()
    transport, protocol = await loop.connect_write_pipe(asyncio.streams.FlowControlMixin, out)
    writer = asyncio.StreamWriter(transport, protocol, None, loop)

    async def write(data: bytes) -> None:
        writer.write(data)
        await writer.drain()

    return write


def answer_refused(words: str) -> None:
    """Answer every request with why nothing can be served, until the client has gone: a log is shown to nobody."""
    for line in iter(lambda: sys.stdin.buffer.readline(LINE_MAX), b""):
        try:
            message = read_line(line)
        except ValueError:
            continue
        if isinstance(message, dict) and "method" in message and "id" in message:
            sys.stdout.buffer.write(written(error(message["id"], REFUSED, words)))
            sys.stdout.buffer.flush()
