"""Files that must stay as they are, in a real directory: found, compared, and put back beneath the held root.

No link is followed, and a link that was planted in place of a file is replaced like anything else. What stood in the
place of a file is not lost: it is moved, or linked, to a directory of ours, for it may be a person's work.
"""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
import stat
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from pathlib import Path

from ordain.adapters.beneath import EscapeError, open_directory, open_parent, place_file, place_link
from ordain.adapters.directory import Look, operand_pattern
from ordain.core.event import ProtectedFile
from ordain.core.problem import Refused, refuse
from ordain.ports import Saved

__all__ = ["ProtectedFiles"]

FILES_MAX = 10_000
"""How many files a plan, or a step, may protect."""
BYTES_MAX = 64 << 20
"""How much they may hold together: all of it is kept beside the chain."""
REPLACED = ".ordain/replaced"
_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


class ProtectedFiles:
    """ports.Protection on the file system."""

    def __init__(self, workspace: Path) -> None:
        self._workspace = workspace

    async def save(self, patterns: Sequence[str], known: Collection[str]) -> dict[str, Saved]:
        import asyncio  # most commands only look, and start faster without it

        return await asyncio.to_thread(self._save, patterns, known)

    async def changed(self, files: Mapping[str, ProtectedFile], seal: Callable[[bytes], str]) -> dict[str, str]:
        import asyncio

        return await asyncio.to_thread(self._changed, files, seal)

    async def restore(self, files: Mapping[str, Saved]) -> None:
        import asyncio

        await asyncio.to_thread(self._restore, files)

    def _save(self, patterns: Sequence[str], known: Collection[str]) -> dict[str, Saved]:
        wanted = {pattern for given in patterns if (pattern := operand_pattern(given)) is not None}
        saved: dict[str, Saved] = {}
        size = 0
        with self._root() as root:
            try:
                found = Look(root).matching(wanted)
            except Refused as refused:
                raise refuse("E_PROTECT", *(refused.problems[0].detail, *refused.problems[0].hints)) from refused
            if len(found) > FILES_MAX:
                raise refuse("E_PROTECT", f"The patterns mean {len(found):,} files; {FILES_MAX:,} can be protected.")
            for path in sorted(found.difference(known)):
                one = _read(root, path, BYTES_MAX - size)
                if one is not None:
                    saved[path] = one
                    size += len(one.content)
        return saved

    def _changed(self, files: Mapping[str, ProtectedFile], seal: Callable[[bytes], str]) -> dict[str, str]:
        with self._root() as root:
            became = {path: _became(root, path, file, seal) for path, file in sorted(files.items())}
        return {path: what for path, what in became.items() if what is not None}

    def _restore(self, files: Mapping[str, Saved]) -> None:
        aside = secrets.token_hex(8)
        with self._root() as root:
            for path, saved in files.items():
                try:
                    _put_back(root, path, saved, aside)
                except (OSError, EscapeError) as error:
                    reason = os.strerror(error.errno or errno.EIO).lower() if isinstance(error, OSError) else str(error)
                    raise refuse(
                        "E_PROTECT",
                        f"The protected file `{path}` was changed and cannot be put back: {reason}.",
                        "Make its directory writable again; it is put back when the run is resumed.",
                    ) from error

    @contextlib.contextmanager
    def _root(self) -> Iterator[int]:
        try:
            root = os.open(self._workspace, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        except OSError as error:
            raise refuse("E_WORKSPACE", f"{self._workspace} is not a directory, or not there any more.") from error
        try:
            yield root
        finally:
            os.close(root)


# --- Looking -------------------------------------------------------------------------------------------------------


def _read(root: int, path: str, size_max: int) -> Saved | None:
    """A file or link as it is; None for one that is gone since its name was read."""
    try:
        with open_parent(root, path) as (parent, name):
            found = os.stat(name, dir_fd=parent, follow_symlinks=False)
            if stat.S_ISLNK(found.st_mode):
                return Saved(content=os.fsencode(os.readlink(name, dir_fd=parent)))
            if not stat.S_ISREG(found.st_mode):
                raise refuse("E_PROTECT", f"`{path}` is neither a file nor a link, and cannot be protected.")
            if found.st_size > size_max:
                limit = BYTES_MAX >> 20
                raise refuse("E_PROTECT", f"With `{path}`, more than {limit} MiB would have to be protected.")
            return Saved(content=_content(parent, name, path, found), mode=stat.S_IMODE(found.st_mode))
    except FileNotFoundError:
        return None
    except (OSError, EscapeError) as error:
        reason = os.strerror(error.errno or errno.EIO).lower() if isinstance(error, OSError) else str(error)
        raise refuse("E_PROTECT", f"`{path}` cannot be read: {reason}.") from error


def _content(parent: int, name: str, path: str, looked: os.stat_result) -> bytes:
    """What is in a file, which must be the one that was looked at and not be written meanwhile."""
    descriptor = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK, dir_fd=parent)
    with os.fdopen(descriptor, "rb") as file:
        content = file.read(looked.st_size + 1)
        now = os.fstat(descriptor)
    if len(content) != looked.st_size or _version(now) != _version(looked):
        raise refuse("E_PROTECT", f"`{path}` changes while it is read.", "Wait until nobody writes it any more.")
    return content


def _version(found: os.stat_result) -> tuple[int, ...]:
    return found.st_dev, found.st_ino, found.st_mode, found.st_size, found.st_mtime_ns


def _became(root: int, path: str, file: ProtectedFile, seal: Callable[[bytes], str]) -> str | None:
    """What became of a protected file; None where it is as it was."""
    try:
        with open_parent(root, path) as (parent, name):
            found = os.stat(name, dir_fd=parent, follow_symlinks=False)
            if stat.S_ISLNK(found.st_mode):
                same = file.mode is None and seal(os.fsencode(os.readlink(name, dir_fd=parent))) == file.seal
            elif stat.S_ISREG(found.st_mode) and found.st_size == file.size:
                # Of another size it need not be read, however large somebody made it.
                same = (
                    stat.S_IMODE(found.st_mode) == file.mode and seal(_content(parent, name, path, found)) == file.seal
                )
            else:
                same = False
    except (FileNotFoundError, NotADirectoryError):
        return "is gone"
    except (EscapeError, PermissionError, Refused):  # a link on the way, no longer to be read, or being written
        same = False
    except OSError as error:
        if error.errno == errno.ELOOP:  # a link since it was looked at
            return "has changed"
        reason = os.strerror(error.errno or errno.EIO).lower()
        raise refuse("E_PROTECT", f"`{path}` cannot be compared with what it was: {reason}.") from error
    return None if same else "has changed"


# --- Putting back --------------------------------------------------------------------------------------------------


def _put_back(root: int, path: str, saved: Saved, aside: str) -> None:
    *directories, name = path.split("/")
    held, above = os.dup(root), ""
    try:
        for part in directories:
            inner = _entered(root, held, part, above, aside)
            os.close(held)
            held, above = inner, f"{above}{part}/"
        _make_way(root, held, name, above, aside)
        if saved.mode is None:
            place_link(held, name, os.fsdecode(saved.content))
        else:
            place_file(held, name, saved.content, saved.mode)
    finally:
        os.close(held)


def _entered(root: int, held: int, part: str, above: str, aside: str) -> int:
    """A directory on the way, made anew where there is none or something else stands in its place."""
    for _ in range(2):
        try:
            return os.open(part, _DIRECTORY, dir_fd=held)
        except OSError as error:
            if error.errno not in (errno.ENOENT, errno.ENOTDIR, errno.ELOOP):
                raise
            if error.errno != errno.ENOENT:
                _move_aside(root, held, part, above, aside)
            os.mkdir(part, 0o777, dir_fd=held)
            os.fsync(held)
    return os.open(part, _DIRECTORY, dir_fd=held)


def _make_way(root: int, held: int, name: str, above: str, aside: str) -> None:
    """Keep what stands in a file's place. What is no directory keeps standing there too, until the file takes its
    place in one step."""
    try:
        mode = os.stat(name, dir_fd=held, follow_symlinks=False).st_mode
    except FileNotFoundError:
        return
    if stat.S_ISDIR(mode):
        _move_aside(root, held, name, above, aside)
        return
    with contextlib.suppress(OSError, EscapeError), open_directory(root, _aside(above, aside), create=True) as kept:
        os.link(name, name, src_dir_fd=held, dst_dir_fd=kept, follow_symlinks=False)


def _move_aside(root: int, held: int, name: str, above: str, aside: str) -> None:
    try:
        with open_directory(root, _aside(above, aside), create=True) as kept:
            os.rename(name, name, src_dir_fd=held, dst_dir_fd=kept)
    except (OSError, EscapeError):  # our own directory may be on another file system, or a link that somebody planted
        os.rename(name, f".ordain-{aside}-{name}"[:255], src_dir_fd=held, dst_dir_fd=held)


def _aside(above: str, aside: str) -> str:
    return f"{REPLACED}/{aside}/{above}"
