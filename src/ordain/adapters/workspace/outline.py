"""Outlines of a real directory for planners."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from ordain.adapters.workspace.file_list import diff_files, list_files
from ordain.core.task.outline import write_outline
from ordain.core.text.path import handed_fault
from ordain.core.text.problem import Refused
from ordain.core.text.redaction import Redactor
from ordain.ports.outline import OutlineBlock
from ordain.ports.workspace import Workspace

CHANGED_FILES_MAX = 50
CHANGES_MAX = 16_000


class DirectoryOutlines:
    """ports.Outlines on the file system. A link, a pipe, what is no text and what holds secrets are not read."""

    def __init__(self, path: Path, workspace: Workspace) -> None:
        """`workspace` reads the files of the directory at `path`."""
        self._path, self._workspace = path, workspace

    async def outline(
        self, goal: str, redactor: Redactor, secret_files: Sequence[str] = ()
    ) -> tuple[OutlineBlock, ...]:
        import asyncio  # most commands only look, and start faster without it

        return await asyncio.to_thread(self._outline, goal, redactor, secret_files)

    async def changes(self, redactor: Redactor, secret_files: Sequence[str] = ()) -> str:
        import asyncio

        def is_readable(path: str) -> bool:
            return self._workspace.withheld(path, secret_files, deep=False) is None

        def shown() -> str:
            most = CHANGES_MAX + redactor.ahead
            return diff_files(Path(os.path.realpath(self._path)), is_readable, CHANGED_FILES_MAX, most)

        return redactor.text(await asyncio.to_thread(shown))[:CHANGES_MAX]

    def _outline(self, goal: str, redactor: Redactor, secret_files: Sequence[str]) -> tuple[OutlineBlock, ...]:
        def read(path: str, most: int) -> str:
            return self._head(path, most, redactor, secret_files)

        listing = list_files(Path(os.path.realpath(self._path)))
        return tuple(OutlineBlock(name=name, text=text) for name, text in write_outline(listing, read, goal, redactor))

    def _head(self, path: str, most: int, redactor: Redactor, secret_files: Sequence[str]) -> str:
        if handed_fault(path) is not None:
            return ""
        try:
            data, size = self._workspace.beginning(path, most + redactor.ahead, secret_files)
        except Refused:
            return ""
        head = redactor.beginning(data, whole=len(data) >= size)[0][:most]
        return head.decode("utf-8", "replace").rstrip("\ufffd") if b"\0" not in head else ""
