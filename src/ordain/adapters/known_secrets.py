"""The secrets of this process's environment and of the files the settings name."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from ordain.adapters.secrets import collect, secret_path

__all__ = ["KnownSecrets"]


class KnownSecrets:
    """ports.Secrets over the real environment."""

    def known(self, patterns: Sequence[str], files: Sequence[str]) -> tuple[Mapping[str, str], Sequence[str]]:
        return collect(os.environ, patterns, files, _home())

    def holds(self, opened: int, files: Sequence[str]) -> bool:
        """Whether what was opened is one of these files, by whatever name."""
        for file in files:
            path = secret_path(file, _home())
            with contextlib.suppress(OSError, ValueError):
                if path is not None and os.path.samestat(os.fstat(opened), path.stat()):
                    return True
        return False


def _home() -> Path:
    return Path(os.environ.get("HOME") or "/")
