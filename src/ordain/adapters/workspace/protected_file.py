"""Files that must stay as they are, in a real directory: found, compared, and put back beneath the held root.

No link is followed. What stood in the place of a file may be a person's work: it is kept in a directory of ours.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
import sys
from collections.abc import Callable, Collection, Coroutine, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

from ordain.adapters.tools.file import aside, take_away
from ordain.adapters.workspace import openat
from ordain.adapters.workspace.control_file import REPLACED, open_replaced, set_aside
from ordain.adapters.workspace.file_list import list_files
from ordain.adapters.workspace.operand import PatternLook, operand_pattern
from ordain.core.policy.loading import CACHED, LoadingRules, is_cached
from ordain.core.run.step_event import ProtectedFile
from ordain.core.text.problem import Refused, refuse
from ordain.ports.workspace import Saved

FILES_MAX = 10_000
BYTES_MAX = 64 << 20
"""How much they may hold together: all of it is kept beside the chain."""
BEHIND_MAX = 10_000
"""How many directories behind a link are looked through; one with more counts."""
T = TypeVar("T")
_Given = ParamSpec("_Given")


def _apart(work: Callable[_Given, T]) -> Callable[_Given, Coroutine[Any, Any, T]]:

    async def done(*args: _Given.args, **named: _Given.kwargs) -> T:
        import asyncio  # most commands only look, and start faster without it

        return await asyncio.to_thread(work, *args, **named)

    return done


STAMPED_MAX = 30_000


def _stamps(workspace: Path) -> dict[str, tuple[int, ...]] | None:
    listed = list_files(workspace, STAMPED_MAX)
    found: dict[str, tuple[int, ...]] = {}
    for path in listed.paths:
        with contextlib.suppress(OSError, ValueError):
            one = (workspace / path).lstat()
            # The last of these times can be set by no program but the clock.
            found[path] = (one.st_ino, one.st_size, one.st_mode, one.st_mtime_ns, one.st_ctime_ns)
    return found if listed.whole else None


class ProtectedFiles:
    """ports.Protection on the file system."""

    def __init__(self, workspace: Path, *, files_max: int = FILES_MAX, bytes_max: int = BYTES_MAX) -> None:
        self._workspace = workspace
        self._files_max, self._bytes_max = files_max, bytes_max

    async def stamps(self) -> dict[str, tuple[int, ...]] | None:
        return await _apart(_stamps)(self._workspace)  # a second for 20,000 files

    async def set_aside(self, paths: Collection[str]) -> None:
        with self._root() as root:
            told = await _apart(set_aside)(root, sorted(paths))
        if "could not be" in told:
            raise refuse("E_PROTECT", f"Something new changes how protected files are loaded: {told}.")

    async def drop_caches(self, protected: Collection[str]) -> None:
        with self._root() as root:
            for place in LoadingRules(protected).places:
                with contextlib.suppress(OSError, openat.EscapeError), openat.directory(root, place) as held:
                    os.rename(CACHED, aside(CACHED), src_dir_fd=held, dst_dir_fd=held)
                    take_away(held, aside(CACHED))

    @_apart
    def save(self, patterns: Sequence[str], known: Collection[str]) -> dict[str, Saved]:
        wanted = {pattern for given in patterns if (pattern := operand_pattern(given)) is not None}
        saved: dict[str, Saved] = {}
        size = 0
        with self._root() as root:
            try:
                found = PatternLook(root).matching(wanted)
            except Refused as refused:
                raise refuse("E_PROTECT", *(refused.problems[0].detail, *refused.problems[0].hints)) from refused
            if len(found) > self._files_max:
                detail = f"The patterns mean {len(found):,} files; {self._files_max:,} can be protected."
                raise refuse("E_PROTECT", detail)
            for path in sorted(one for one in found.difference(known) if not is_cached(one)):
                if (one := _read(root, path, self._bytes_max - size, self._bytes_max)) is not None:
                    saved[path] = one
                    size += len(one.content)
        return saved

    @_apart
    def beside(self, patterns: Sequence[str], protected: Collection[str]) -> set[str]:
        wanted = {one for text in patterns if (one := operand_pattern(text)) is not None}
        with self._root() as root:
            try:
                look = PatternLook(root)
                found = look.matching(wanted)
                places = LoadingRules(protected).places
                # The files in these places that make a directory a package.
                named = [f"{place}/{name}".lstrip("/") for place in places for name in ("__init__.py", "package.json")]
                present = [name for name in named if _is_file(root, name)]
                loading = LoadingRules(protected, present, sys.stdlib_module_names)
                found.update(_conftests(look, self._workspace, "", 0) if loading.is_python else ())
                for place in loading.places:
                    above = f"{place}/" if place else ""
                    if not _is_directory(root, place):  # what was protected in it is gone, and that is told
                        continue
                    for name, is_directory, is_link in look.entries(above):
                        path = above + name
                        inner = look.entries(f"{path}/") if is_directory and loading.packages(path) else ()
                        files = [f"{path}/{one}" for one, is_inner, _ in inner if not is_inner]
                        own = [] if is_directory and name != "node_modules" else [path]
                        found.update(one for one in (*files, *own) if loading.changes(one))
                        found.update([path] if is_link and loading.packages(path) else ())
            except Refused as refused:
                raise refuse("E_PROTECT", *(refused.problems[0].detail, *refused.problems[0].hints)) from refused
        return {path for path in found if not is_cached(path)}

    @_apart
    def changed(self, files: Mapping[str, ProtectedFile], seal: Callable[[bytes], str]) -> dict[str, str]:
        with self._root() as root:
            became = {path: _became(root, path, file, seal) for path, file in sorted(files.items())}
        return {path: what for path, what in became.items() if what is not None}

    @_apart
    def restore(self, files: Mapping[str, Saved]) -> None:
        aside = f"{REPLACED}/{os.urandom(8).hex()}"
        with self._root() as root:
            for path, saved in files.items():
                try:
                    _put_back(root, path, saved, aside)
                except (OSError, openat.EscapeError) as error:
                    raise refuse(
                        "E_PROTECT",
                        f"The protected file `{path}` was changed and cannot be put back: {openat.reason(error)}.",
                        "Make its directory writable again; it is put back when the run is resumed.",
                    ) from error

    @contextlib.contextmanager
    def _root(self) -> Iterator[int]:
        with contextlib.ExitStack() as held:
            try:
                root = held.enter_context(openat.root(self._workspace))
            except OSError as error:
                raise refuse("E_WORKSPACE", f"{self._workspace} is not a directory, or not there any more.") from error
            yield root


# --- Looking -------------------------------------------------------------------------------------------------------


def _is_directory(root: int, path: str) -> bool:
    gone = contextlib.suppress(openat.EscapeError, FileNotFoundError, NotADirectoryError)
    with gone, openat.directory(root, path):
        return True
    return False


def _is_file(root: int, path: str) -> bool:
    with contextlib.suppress(OSError, openat.EscapeError), openat.parent(root, path) as (parent, name):
        return stat.S_ISREG(os.stat(name, dir_fd=parent, follow_symlinks=False).st_mode)
    return False


def _conftests(look: PatternLook, workspace: Path, above: str, depth: int) -> Iterator[str]:
    """Every `conftest.py` that pytest finds by itself, and every link behind which it finds one."""
    entries = []
    with contextlib.suppress(Refused):  # pytest cannot read it either
        entries = list(look.entries(above))
    for name, is_directory, is_link in entries:
        looked_in = not name.startswith(".") and name not in ("node_modules", "site-packages")
        if is_directory and looked_in and depth < 50:
            yield from _conftests(look, workspace, f"{above}{name}/", depth + 1)
        elif name.lower() == "conftest.py" and not is_directory:
            yield above + name
        behind = enumerate(os.walk(workspace / above / name, followlinks=True)) if is_link and looked_in else ()
        if any(count > BEHIND_MAX or "conftest.py" in map(str.lower, files) for count, (*_, files) in behind):
            yield above + name


def _read(root: int, path: str, size_max: int, bytes_max: int) -> Saved | None:
    """A file or link as it is; None for one that is gone since its name was read."""
    try:
        with openat.parent(root, path) as (parent, name):
            found = os.stat(name, dir_fd=parent, follow_symlinks=False)
            if stat.S_ISLNK(found.st_mode):
                return Saved(content=os.fsencode(os.readlink(name, dir_fd=parent)))
            if not stat.S_ISREG(found.st_mode):
                raise refuse("E_PROTECT", f"`{path}` is neither a file nor a link, and cannot be protected.")
            if found.st_size > size_max:
                limit = bytes_max >> 20
                raise refuse("E_PROTECT", f"With `{path}`, more than {limit} MiB would have to be protected.")
            return Saved(content=_content(parent, name, path, found), mode=stat.S_IMODE(found.st_mode))
    except FileNotFoundError:
        return None
    except (OSError, openat.EscapeError, openat.IrregularError) as error:
        raise refuse("E_PROTECT", f"`{path}` cannot be read: {openat.reason(error)}.") from error


def _content(parent: int, name: str, path: str, looked: os.stat_result) -> bytes:
    """What is in a file, which must be the one that was looked at and not be written meanwhile."""
    with openat.file(parent, name, path) as file:
        content = file.read(looked.st_size + 1)
        now = os.fstat(file.fileno())
    if len(content) != looked.st_size or _version(now) != _version(looked):
        raise refuse("E_PROTECT", f"`{path}` changes while it is read.", "Wait until nobody writes it any more.")
    return content


def _version(found: os.stat_result) -> tuple[int, ...]:
    return found.st_dev, found.st_ino, found.st_mode, found.st_size, found.st_mtime_ns


def _became(root: int, path: str, file: ProtectedFile, seal: Callable[[bytes], str]) -> str | None:
    try:
        with openat.parent(root, path) as (parent, name):
            found = os.stat(name, dir_fd=parent, follow_symlinks=False)
            if stat.S_ISLNK(found.st_mode):
                same = file.mode is None and seal(os.fsencode(os.readlink(name, dir_fd=parent))) == file.seal
            elif stat.S_ISREG(found.st_mode) and found.st_size == file.size:
                # Of another size it need not be read, however large somebody made it.
                same = stat.S_IMODE(found.st_mode) == file.mode
                same = same and seal(_content(parent, name, path, found)) == file.seal
            else:
                same = False
    except (FileNotFoundError, NotADirectoryError):
        return "is gone"
    except (openat.EscapeError, openat.IrregularError, PermissionError, Refused):
        same = False  # a link, unreadable, or being written
    except OSError as error:
        raise refuse("E_PROTECT", f"`{path}` cannot be compared with what it was: {openat.reason(error)}.") from error
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
            openat.place_link(held, name, os.fsdecode(saved.content))
        else:
            openat.place_file(held, name, saved.content, saved.mode)
    finally:
        os.close(held)


def _entered(root: int, held: int, part: str, above: str, aside: str) -> int:
    """A directory on the way, made anew where there is none or something else stands in its place."""
    for _ in range(2):
        try:
            return os.open(part, openat.DIRECTORY, dir_fd=held)
        except OSError as error:
            if error.errno not in (errno.ENOENT, errno.ENOTDIR, errno.ELOOP):
                raise
            if error.errno != errno.ENOENT:
                _move_aside(root, held, part, above, aside)
            os.mkdir(part, 0o777, dir_fd=held)
            os.fsync(held)
    return os.open(part, openat.DIRECTORY, dir_fd=held)


def _make_way(root: int, held: int, name: str, above: str, aside: str) -> None:
    """Keep what stands in a file's place; what is no directory stands there too, until the file takes its place."""
    try:
        mode = os.stat(name, dir_fd=held, follow_symlinks=False).st_mode
    except FileNotFoundError:
        return
    if stat.S_ISDIR(mode):
        _move_aside(root, held, name, above, aside)
        return
    with contextlib.suppress(OSError, openat.EscapeError), open_replaced(root, f"{aside}/{above}") as kept:
        os.link(name, name, src_dir_fd=held, dst_dir_fd=kept, follow_symlinks=False)


def _move_aside(root: int, held: int, name: str, above: str, aside: str) -> None:
    try:
        with open_replaced(root, f"{aside}/{above}") as kept:
            os.rename(name, name, src_dir_fd=held, dst_dir_fd=kept)
    except (OSError, openat.EscapeError):  # ours may be on another file system, or a link that somebody planted
        os.rename(name, f".ordain-{os.urandom(8).hex()}-{name}"[:255], src_dir_fd=held, dst_dir_fd=held)
