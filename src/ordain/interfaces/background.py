"""An ordain command in the background: in a process and a session of its own, which outlives this one.

Whoever begins it waits only until its run is under way, or is told how it was refused.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Sequence
from typing import IO

BEGINNING_S = 5.0
"""How long it is waited for the other process to begin; after that it goes on by itself."""
LOOKING_S = 0.02
"""How often it is looked whether it has."""


class BackgroundProcess:
    """One such process, as long as somebody looks whether it has begun."""

    def __init__(self, workspace: str, words: Sequence[str], *, as_json: bool) -> None:
        # -P: a file in the directory that somebody stands in must not take the place of one of Python's own.
        command = [sys.executable, "-P", "-m", "ordain", "-C", workspace, *words]
        self._output: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115 - closed by `close`
        self._child = subprocess.Popen(
            [*command, "--json"] if as_json else command,
            stdin=subprocess.DEVNULL,
            stdout=self._output,
            stderr=subprocess.DEVNULL if as_json else subprocess.STDOUT,
            start_new_session=True,
        )
        self._said: bytes | None = None

    @property
    def pid(self) -> int:
        return self._child.pid

    def ended(self) -> tuple[int, bytes] | None:
        """Its exit status and all that it said, if it has come to its end already."""
        status = self._child.poll()
        if status is None:
            return None
        if self._said is None:  # kept: of several who look, one lets go of it first
            self._output.seek(0)
            self._said = self._output.read()
        return status, self._said

    def close(self) -> None:
        """Look at it no more; it goes on."""
        self._output.close()
