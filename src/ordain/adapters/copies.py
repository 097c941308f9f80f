"""Our own copies of proposals beneath the workspace, written whole and without following a link."""

from __future__ import annotations

import os
from pathlib import Path, PurePosixPath

from ordain.adapters.beneath import EscapeError, open_directory, open_parent, replace_file

__all__ = ["WorkspaceCopies"]


class WorkspaceCopies:
    """ports.Copies on the file system. What cannot be written is not: the ledger has it all."""

    def __init__(self, workspace: Path) -> None:
        self._workspace = workspace

    def put(self, path: str, data: bytes) -> bool:
        where = PurePosixPath(path)
        try:
            root = os.open(self._workspace, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            try:
                with open_directory(root, str(where.parent), create=True) as folder:
                    replace_file(folder, where.name, path, data, 0o644)
            finally:
                os.close(root)
        except (OSError, EscapeError):
            return False
        return True

    def remove(self, path: str) -> None:
        try:
            root = os.open(self._workspace, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            try:
                with open_parent(root, path) as (folder, name):
                    os.unlink(name, dir_fd=folder)
            finally:
                os.close(root)
        except (OSError, EscapeError):
            return
