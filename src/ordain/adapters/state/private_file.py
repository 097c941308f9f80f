"""Files of the state directory that are for their owner alone: keys and what tokens are known by.

A file appears whole or not at all and is never overwritten, and nothing in one is believed before its place, owner and
mode are right.
"""

from __future__ import annotations

import contextlib
import errno
import os
import shlex
import stat
from collections.abc import Iterator
from pathlib import Path
from secrets import token_hex

from ordain.adapters.workspace.openat import DIRECTORY, NEW_FILE, READ, open_root, opened, reason
from ordain.core.text.problem import Refused, refuse


class PrivateFiles:
    """One directory of such files. `code` is the problem that everything wrong with them is told as."""

    def __init__(self, directory: Path, code: str) -> None:
        self._directory, self._code = directory, code

    def path(self, name: str) -> Path:
        return self._directory / name

    def names(self) -> list[str]:
        """The files that are there, sorted."""
        try:
            with self._held() as held:
                listed = os.listdir(held)  # noqa: PTH208 - of the directory that was looked at, whatever has its name now
                return sorted(name for name in listed if not name.startswith("."))
        except FileNotFoundError:
            return []
        except OSError as error:
            raise self._refused(self._directory, f"cannot be read: {_reason(error)}") from error

    def read(self, name: str, most: int) -> bytes | None:
        """The first bytes of a file, one more than `most` where it is longer; None when there is none."""
        path = self.path(name)
        try:
            with self._held() as held, os.fdopen(os.open(name, READ, dir_fd=held), "rb") as file:
                entry = os.fstat(file.fileno())
                if not stat.S_ISREG(entry.st_mode):
                    raise self._refused(path, "is not a regular file")
                self._check_ours(path, entry)
                return file.read(most + 1)
        except FileNotFoundError:
            return None
        except OSError as error:
            raise self._refused(path, f"cannot be read: {_reason(error)}") from error

    def write(self, name: str, content: bytes) -> None:
        """Put a new file in its place, whole: a link to a finished file fails where something is already. Raises
        FileExistsError then."""
        temporary = f".{token_hex(8)}"  # no name begins with a dot
        try:
            with open_root(self._directory.parent) as above, contextlib.suppress(FileExistsError):
                os.mkdir(self._directory.name, 0o700, dir_fd=above)
                os.fsync(above)
            with self._held() as held:
                descriptor = os.open(temporary, NEW_FILE, 0o600, dir_fd=held)
                try:
                    with os.fdopen(descriptor, "wb") as file:
                        file.write(content)
                        file.flush()
                        os.fsync(descriptor)
                    os.link(temporary, name, src_dir_fd=held, dst_dir_fd=held, follow_symlinks=False)
                finally:
                    os.unlink(temporary, dir_fd=held)
                os.fsync(held)
        except FileExistsError:
            raise
        except OSError as error:
            raise self._refused(self.path(name), f"cannot be written: {_reason(error)}") from error

    def remove(self, name: str) -> bool:
        """Remove a file; whether there was one."""
        try:
            with self._held() as held:
                os.unlink(name, dir_fd=held)
                os.fsync(held)
        except FileNotFoundError:
            return False
        except OSError as error:
            raise self._refused(self.path(name), f"cannot be removed: {_reason(error)}") from error
        return True

    def refused(self, name: str, what: str) -> Refused:
        """What is wrong with a file, as a refusal."""
        return self._refused(self.path(name), what)

    @contextlib.contextmanager
    def _held(self) -> Iterator[int]:
        """The directory, held open once it is seen to be ours alone; files are found in it and nowhere else."""
        with opened(self._directory, DIRECTORY) as descriptor:
            self._check_ours(self._directory, os.fstat(descriptor))
            yield descriptor

    def _check_ours(self, path: Path, found: os.stat_result) -> None:
        if found.st_uid != os.geteuid():
            raise self._refused(path, "belongs to another user")
        if stat.S_IMODE(found.st_mode) & 0o077:
            mode = "700" if stat.S_ISDIR(found.st_mode) else "600"
            command = f"chmod {mode} {shlex.quote(str(path))}"
            raise self._refused(path, "can be read or written by others", command=command)

    def _refused(self, path: Path, what: str, command: str | None = None) -> Refused:
        return refuse(self._code, f"{path} {what}.", command=command)


def _reason(error: OSError) -> str:
    return "it is a link" if error.errno == errno.ELOOP else reason(error)
