"""Telling people through a command of theirs: started, handed its message, and left to itself."""

from __future__ import annotations

import contextlib
import os
import subprocess
import threading
from collections.abc import Sequence
from pathlib import Path

__all__ = ["CommandNotifier"]


class CommandNotifier:
    """ports.Notifier over real processes. A command that is missing, hangs or fails holds nobody up."""

    def __init__(self, workspace: Path) -> None:
        self._workspace = workspace

    def tell(self, command: Sequence[str], message: bytes) -> None:
        with contextlib.suppress(OSError, ValueError, RuntimeError):
            # Through a file that has no name, so that even a command that never reads can be left behind.
            descriptor = os.memfd_create("ordain-notice") if hasattr(os, "memfd_create") else _unnamed()
            with os.fdopen(descriptor, "w+b") as file:
                file.write(message + b"\n")
                file.flush()
                file.seek(0)
                process = subprocess.Popen(
                    list(command),
                    cwd=self._workspace,
                    stdin=file,
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.DEVNULL,
                    start_new_session=True,
                )
            # Somebody must collect it when it ends, and nobody waits for that.
            threading.Thread(target=process.wait, name="ordain-notice", daemon=True).start()


def _unnamed() -> int:
    import tempfile  # where the system has no files in memory

    with tempfile.TemporaryFile() as file:
        return os.dup(file.fileno())
