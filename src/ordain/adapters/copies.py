"""Our own copies of proposals beneath the workspace, written whole and without following a link."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

from ordain.adapters.beneath import EscapeError, let_git_ignore, open_directory, open_parent, replace_file

__all__ = ["WorkspaceCopies"]

OURS = ".ordain"
"""The directory beneath a workspace that is ours alone."""


class WorkspaceCopies:
    """ports.Copies on the file system. What cannot be written is not: the ledger has it all."""

    def __init__(self, workspace: Path) -> None:
        self._workspace = workspace

    def put(self, path: str, data: bytes) -> bool:
        where = PurePosixPath(path)
        try:
            root = os.open(self._workspace, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            try:
                with _folder(root, where.parent) as folder:
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


@contextlib.contextmanager
def _folder(root: int, path: PurePosixPath) -> Iterator[int]:
    """The directory of copies, made if need be. One of our own is kept out of git when it is made and never later, so
    that whoever wants the copies there can have them; a directory that the settings name is the user's affair."""
    try:
        with open_directory(root, str(path)):
            made = False
    except FileNotFoundError:
        made = True
    with open_directory(root, str(path), create=True) as folder:
        if made and path.parts[0] == OURS:
            let_git_ignore(folder)
        yield folder
