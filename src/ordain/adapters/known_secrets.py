"""The secrets of this process's environment and of the files the settings name."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from ordain.adapters.secrets import collect

__all__ = ["KnownSecrets"]


class KnownSecrets:
    """ports.Secrets over the real environment."""

    def known(self, patterns: Sequence[str], files: Sequence[str]) -> tuple[Mapping[str, str], Sequence[str]]:
        home = Path(os.environ.get("HOME") or "/")
        return collect(os.environ, patterns, files, home)
