"""The way in for the hook of an agent's host: nothing of the command line is loaded, for that takes longer than the
answer. Whatever happens, a call that was asked about is answered, or this ends with the status that refuses it."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ordain.interfaces.hook.claude import HookAnswer

REFUSES = 2
"""The exit status that a host takes for no."""
ANSWER_S = 25
"""How long an answer may take: less than hosts wait (`host_settings`), some of which take no answer for a yes."""


def enter(words: Sequence[str]) -> None:
    """Answer the hook that these words are about, and end; come back where they are for the command line to judge."""
    if sys.getfilesystemencoding() != "utf-8":
        return
    import gc

    gc.disable()  # this is over before there is anything to collect
    try:
        from ordain.interfaces.hook.claude import STDIN_MAX, Options, answer_hook

        options = Options()
        if not words or words[0] != "claude-code" or len(words) % 2 == 0:
            return
        for name, value in zip(words[1::2], words[2::2], strict=True):
            if name == "--gateway":
                options = options._replace(own=(*options.own, value))
            elif name == "--workspace":
                options = options._replace(workspace=value)
            elif name == "--state":
                options = options._replace(state=value)
            else:
                return
        speak(lambda: answer_hook(sys.stdin.buffer.read(STDIN_MAX + 1), options))
    except BaseException as error:
        _end(REFUSES, f"Ordain could not tell whether this may be called: {type(error).__name__}: {error}")


def speak(answered: Callable[[], HookAnswer]) -> None:
    """Answer what is asked on standard input, and end."""
    late = f"Ordain could not tell within {ANSWER_S} s whether this may be called."
    signal.signal(signal.SIGALRM, lambda *_: _end(REFUSES, late))
    signal.alarm(ANSWER_S)
    answer = answered()
    if answer.text:
        said = answer.text.encode()
        if os.write(1, said) != len(said):  # a host takes half an answer for a yes
            _end(REFUSES, "Ordain could not tell all of its answer, so the call is refused.")
    if answer.then is not None and os.fork() == 0:
        os.setsid()  # the host waits no longer: what is still to be done is nobody's but ours
        nowhere = os.open(os.devnull, os.O_RDWR)
        for number in (0, 1, 2):
            os.dup2(nowhere, number)
        answer.then()
    _end(0)


def _end(status: int, said: str = "") -> None:
    """End at once: taking everything down in order takes longer than the answer."""
    if said:
        os.write(2, said.encode("utf-8", "replace"))
    os._exit(status)
