"""Copies of the ledger that lies in one place."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

from ordain.core.chain import Tip
from ordain.core.problem import Refused, refuse
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

    def draft(self, source: Path) -> tuple[Tip, Ledger]:
        from ordain.adapters.ledger_backup import restore
        from ordain.adapters.sqlite_ledger import SqliteLedger

        if self._path().exists():
            raise self._taken()
        # What a restore that was killed left behind was never anybody's ledger.
        for left in (self._draft, *(self._draft.with_name(self._draft.name + end) for end in ("-wal", "-shm"))):
            left.unlink(missing_ok=True)
        tip = restore(source, self._draft)
        return tip, SqliteLedger.open(self._draft)

    def place(self) -> None:
        try:
            self._path().hardlink_to(self._draft)
        except FileExistsError as error:
            raise self._taken() from error
        self._draft.unlink()
        directory = os.open(self._path().parent, os.O_RDONLY)
        try:
            os.fsync(directory)
        finally:
            os.close(directory)

    @property
    def _draft(self) -> Path:
        return self._path().with_name("restoring.db")

    def _taken(self) -> Refused:
        return refuse("E_LEDGER_EXISTS", f"There is a ledger at {self._path()} already.", "It was left as it is.")
