"""Telling people through a command of theirs: started, handed its message, and left to itself."""

from __future__ import annotations

import contextlib
import os
import subprocess
import threading
from collections.abc import Sequence
from pathlib import Path

from ordain.core.text.problem import Refused


class CommandNotifier:
    """ports.Notifier over real processes. A command that is missing, hangs or fails holds nobody up."""

    def __init__(self, workspace: Path) -> None:
        self._workspace = workspace

    def tell(self, command: Sequence[str], message: bytes) -> None:
        from ordain.adapters.process.outside import environment, private_directory, started  # few are told anything

        with contextlib.suppress(OSError, ValueError, RuntimeError, Refused), contextlib.ExitStack() as held:
            room = held.enter_context(private_directory(self._workspace))
            # Through a file that has no name, so that even a command that never reads can be left behind.
            descriptor = os.memfd_create("ordain-notice") if hasattr(os, "memfd_create") else _unnamed()
            with os.fdopen(descriptor, "w+b") as file:
                file.write(message + b"\n")
                file.flush()
                file.seek(0)
                process = subprocess.Popen(
                    started(command, {}, self._workspace, None),
                    cwd=room,
                    env=environment(list(os.environ), self._workspace),
                    stdin=file,
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.DEVNULL,
                    start_new_session=True,
                )
            # Somebody must collect it when it ends, and nobody waits for that.
            left = held.pop_all()
            threading.Thread(target=_collect, args=(process, left), name="ordain-notice", daemon=True).start()


def _collect(process: subprocess.Popen[bytes], held: contextlib.ExitStack) -> None:
    process.wait()
    held.close()


def _unnamed() -> int:
    import tempfile  # where the system has no files in memory

    with tempfile.TemporaryFile() as file:
        return os.dup(file.fileno())
