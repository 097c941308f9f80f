"""How a command ends that was told to. Imports nothing of ours, so that signals are heeded from the first moment on."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
from collections.abc import Iterator
from types import FrameType
from typing import NoReturn

INTERRUPTED, NOBODY_READS = 130, 141


def ends_us() -> Iterator[signal.Signals]:
    """The signals that tell us to end. A hang-up that our caller has us ignore (`nohup`) is none."""
    yield from (signal.SIGINT, signal.SIGTERM)
    if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:
        yield signal.SIGHUP


def heed_signals() -> None:
    """Take each of them as a Ctrl-C."""
    with contextlib.suppress(ValueError):  # in a thread of somebody's program: signals are not ours
        for number in ends_us():
            signal.signal(number, _interrupt)


@contextlib.contextmanager
def heeding() -> Iterator[None]:
    """The same for as long as a command goes on."""
    before = {number: signal.getsignal(number) for number in ends_us()}
    heed_signals()
    try:
        yield
    finally:
        with contextlib.suppress(ValueError):
            for number, handler in before.items():
                signal.signal(number, handler)


@contextlib.contextmanager
def while_somebody_reads() -> Iterator[None]:
    """End with a status that says so where whoever read us has gone; there is nobody left to tell."""
    try:
        yield
    except BrokenPipeError:
        sys.stderr.close()
        raise SystemExit(NOBODY_READS) from None


def open_what_is_closed() -> None:
    """Let streams that our caller closed (`>&-`) lead nowhere: no file of ours may get their number, and a command does
    its work whether or not anybody could read it."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, os.fdopen(os.open(os.devnull, os.O_RDWR), mode, encoding="utf-8"))


def let_go_of_output() -> None:
    """Write out what was said; where nobody reads it, keep Python from ending with a status of its own."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (OSError, ValueError):
            with contextlib.suppress(OSError, ValueError):
                os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def _interrupt(number: int, frame: FrameType | None) -> NoReturn:
    raise KeyboardInterrupt
