"""Files of settings that a person lets be changed: as one is, as it will be, the difference, and writing it whole."""

from __future__ import annotations

import difflib
import errno
import os
import stat
from pathlib import Path
from typing import NamedTuple

from ordain.core.text.problem import refuse
from ordain.interfaces.cli.output_file import make_parents, write_whole
from ordain.interfaces.view.text import visible

SETTINGS_MAX = 4 << 20


class FileChange(NamedTuple):
    """A file as it is and as it will be; None where there is none."""

    path: Path
    before: str | None
    after: str | None


def shown_change(change: FileChange) -> list[str]:
    before, after = ((text or "").split("\n") for text in (change.before, change.after))
    made = " (new)" if change.before is None else " (deleted)" if change.after is None else ""
    changed = list(difflib.unified_diff(before, after, n=3, lineterm=""))[2:]
    return [f"{change.path}{made}:", *(f"  │ {visible(line)}" for line in changed), ""]


def write_change(change: FileChange, pasted: str) -> None:
    if text_of(change.path) != change.before:
        raise refuse("E_HOST_SETTINGS", f"{change.path} has changed meanwhile; it was left as it is.", command=pasted)
    if change.after is None:
        change.path.unlink()
        return
    make_parents(str(change.path))
    write_whole(str(change.path), change.after.encode())


def text_of(path: Path) -> str | None:
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        with os.fdopen(descriptor, "rb") as file:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                raise OSError("it is no regular file")
            data = file.read(SETTINGS_MAX + 1)
            if len(data) > SETTINGS_MAX:
                raise OSError("it is too long")
            return data.decode()
    except FileNotFoundError:
        return None
    except (OSError, UnicodeDecodeError) as error:
        if isinstance(error, OSError) and error.errno == errno.ELOOP:
            raise refuse("E_HOST_SETTINGS", f"{path} is a link; nothing is written through it.") from error
        raise refuse("E_HOST_SETTINGS", f"{path} cannot be read ({error}); it was left as it is.") from error
