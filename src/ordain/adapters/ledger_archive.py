"""Copies of the ledger that lies in one place."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

from ordain.core.chain import Tip
from ordain.ports import Ledger

__all__ = ["FileArchive"]


class FileArchive:
    """ports.Archive over the ledger's file, whose place is asked for only when it is needed."""

    def __init__(self, path: Callable[[], Path]) -> None:
        self._path = path

    def export(self, ledger: Ledger) -> Iterator[bytes]:
        from ordain.adapters.ledger_backup import export  # apsw is not needed for linting

        return export(ledger)

    def backup(self, target: Path) -> Tip:
        from ordain.adapters.ledger_backup import backup

        return backup(self._path(), target)

    def restore(self, source: Path) -> Tip:
        from ordain.adapters.ledger_backup import restore

        return restore(source, self._path())
