"""ports.NoteShelf in files beside the ledger: one for each note, written whole under its name."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import msgspec

from ordain.adapters.workspace.openat import READ, opened, place_file, root
from ordain.core.guard.plan_note import NOTE_MAX, NOTES_MAX, PlanNote

_ID = re.compile(r"n-[0-9a-f]{8}")
_BYTES_MAX = NOTE_MAX * 6 + 4096


class FileNotes:
    """ports.NoteShelf in a directory of the state, which is made when there is something to keep."""

    def __init__(self, shelf: Callable[[], Path]) -> None:
        self._shelf = shelf

    def keep(self, note: PlanNote) -> None:
        directory = self._directory()
        directory.mkdir(mode=0o700, exist_ok=True)
        with root(directory) as held:
            place_file(held, f"{note.note_id}.json", msgspec.json.encode(note), 0o600)
        for old in self.all()[:-NOTES_MAX]:
            self.dismiss(old.note_id)

    def all(self) -> tuple[PlanNote, ...]:
        found: list[PlanNote] = []
        for path in self._directory().glob("n-*.json"):
            # Another took it away, or it is not ours.
            with suppress(OSError, msgspec.DecodeError, UnicodeDecodeError), opened(path, READ) as handle:
                found.append(msgspec.json.decode(os.read(handle, _BYTES_MAX), type=PlanNote))
        return tuple(sorted(found, key=lambda note: (note.at, note.note_id)))

    def dismiss(self, note_id: str) -> bool:
        with suppress(FileNotFoundError):
            if _ID.fullmatch(note_id):
                (self._directory() / f"{note_id}.json").unlink()
                return True
        return False

    def _directory(self) -> Path:
        return self._shelf() / "notes"
