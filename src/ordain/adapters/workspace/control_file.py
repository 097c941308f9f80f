"""Control files in a real directory: found before a command runs in a sandbox and compared after it.

What is there is mounted read-only. A mount cannot keep a new one from being made in a subdirectory, and goes along when
a directory above it gets another name. So the writable part of the workspace is walked before and after, without
following a link. What is new or changed is set aside under a name that means nothing to git, a host or an editor.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import json
import os
import re
import stat
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path, PurePosixPath
from typing import NamedTuple

from ordain.adapters.workspace import openat
from ordain.core.text.control import (
    folded,
    index_entries,
    is_control_entry,
    is_control_name,
    is_named,
    is_packaged,
    is_repository,
    may_matter,
)
from ordain.core.text.path import is_kept

REPLACED = ".ordain/replaced"
"""Where what no step may leave is kept, for it may be a person's work."""
ENTRIES_MAX = 1_000_000
DEPTH_MAX = 200
MOUNTS_MAX = 200
"""Each holds a descriptor open, and mounting takes longer the more there are."""
_NOTE = "control-"
_OWN = (".git", ".ordain")
_UNFINISHED = (".git/rebase-merge", ".git/rebase-apply", ".git/sequencer")
"""What git goes on with, which can name commands to run."""
_INDEX = re.compile(r"index|sharedindex\.[0-9a-f]+")
INDEX_MAX = 256 << 20
_SHA256 = re.compile(rb"^\s*objectformat\s*=\s*\"?sha256", re.IGNORECASE | re.MULTILINE)


class _Seen(NamedTuple):
    """A control file: the directories above it, and each entry of it with when it changed, where that matters."""

    above: list[list[int]]
    own: list[list[str | int]]


class ControlWatch:
    """The control files beneath directories of a workspace, compared with what they were when this was made. What is
    in `kept` does not matter, for it cannot be written. Raises ValueError where there is too much to look at."""

    _linked: Sequence[str] = ()

    def __init__(self, root: int, places: Sequence[str], more: Sequence[str], kept: Collection[str]) -> None:
        self._root, self._places, self._more = root, list(places), list(more)
        walk = self._look(kept)
        whole = {path.rpartition("/")[0] or path if path in walk.repositories else path for path in walk.found}
        top = os.path.realpath(f"/proc/self/fd/{root}")
        led_to = _linked(top, [*whole, *walk.beside])
        self._linked = [path for path in led_to if any(not one or path.startswith(f"{one}/") for one in places)]
        self._note(walk, self._linked)
        self._before = walk.found
        whole = whole.union(walk.found.keys() & led_to).difference(kept, _UNFINISHED)
        found = {path for path in whole if not (is_packaged(path) or _target(f"{top}/{path}"))}
        self.mountable = [path for path in sorted(found) if not _lies_in(path, {*found, *kept})][:MOUNTS_MAX]
        self._kept = {*kept, *self.mountable, *(path for path in self._before if _lies_in(path, self.mountable))}
        self._index = self._indexes()

    def finish(self) -> tuple[str, ...]:
        """Set aside what is new or changed; what is said of it, which is nothing where it came with packages."""
        after = self._look(self._kept).found
        new = sorted(path for path, seen in after.items() if self._is_new(path, seen))
        gone = sorted(path for path in self._before.keys() - after.keys() if self._is_gone(path))
        told = [f"`{openat.shown(path)}` is new or has changed" for path in new if not is_packaged(path)]
        index = self._indexes()
        entries = self._new_entries(index) if index != self._index else []
        told += [f"`{openat.shown(os.fsdecode(path))}` in git's index is new or has changed" for path in entries]
        new += [f".git/{name}" for name in index if entries and index[name] != self._index.get(name)]
        where = set_aside(self._root, new) if new else ""
        for name, content in self._index.items() if entries else ():
            if content is not None:
                with openat.directory(self._root, ".git") as held:
                    openat.place_file(held, name, content, 0o644)
        return (*told, *(f"`{openat.shown(path)}` is gone" for path in gone), *([where] if told else []))

    def _look(self, unread: Collection[str]) -> _Walk:
        walk = _Walk(self._more, unread)
        for place in self._places:
            gone = contextlib.suppress(FileNotFoundError, NotADirectoryError, openat.EscapeError)
            with gone, openat.directory(self._root, place) as held:
                walk.look(held, f"{place}/" if place else "", [])
        self._note(walk, [*(_UNFINISHED if "" in self._places else ()), *self._linked])
        for above in {one for place in self._places for one in PurePosixPath(place).parents}:
            names, control = _beside(self._root, above, self._more)
            walk.beside += control
            if is_repository(names):
                self._note(walk, [str(above / name) for name in names if name.lower() == "head"])
        return walk

    def _note(self, walk: _Walk, paths: Iterable[str]) -> None:
        for path in paths:
            with contextlib.suppress(OSError, openat.EscapeError), openat.parent(self._root, path) as (parent, name):
                own = os.fstat(parent)
                walk.note(parent, name, path.removesuffix(name), [[own.st_dev, own.st_ino]])

    def _indexes(self) -> dict[str, bytes | None]:
        """The files of git's index, where a command can write them; None for one that cannot be read."""
        found: dict[str, bytes | None] = {}
        if "" in self._places:
            with contextlib.suppress(OSError, openat.EscapeError), openat.directory(self._root, ".git") as held:
                with os.scandir(held) as entries:
                    names = [entry.name for entry in entries if _INDEX.fullmatch(entry.name)]
                found = {name: _content(held, name) for name in names}
        return found

    def _new_entries(self, index: Mapping[str, bytes | None]) -> list[bytes]:
        """The control files in git's index that are new or changed, except those that the workspace has too."""
        with openat.directory(self._root, ".git") as held:
            id_size = 32 if _SHA256.search(_content(held, "config") or b"") else 20
        now = _entries(index, id_size)
        new = {one for one in now - _entries(self._index, id_size) if is_control_entry(*one[:2], self._more)}
        # One without a path changes an entry of a shared index.
        if any(not one[0] for one in new) and not any(is_control_entry(*one[:2], self._more) for one in now if one[0]):
            new = {one for one in new if one[0]}
        return sorted({path for path, mode, content in new if not self._is_there(path, mode, content)})

    def _is_there(self, path: bytes, mode: int, content: bytes) -> bool:
        """Whether a file in the workspace has what the index has, so that git would write nothing new."""
        found, name = None, os.fsdecode(path)
        if stat.S_ISREG(mode) and not is_kept(name):
            with contextlib.suppress(OSError, ValueError), openat.parent(self._root, name) as (held, last):
                found = _content(held, last)
        kind = hashlib.sha1 if len(content) == 20 else hashlib.sha256
        return found is not None and kind(b"blob %d\0%b" % (len(found), found)).digest() == content

    def _is_new(self, path: str, seen: _Seen) -> bool:
        """What was kept nobody in a sandbox could change, unless a directory above it is another one now."""
        before = self._before.get(path)
        return before is None or before.above != seen.above or (path not in self._kept and before.own != seen.own)

    def _is_gone(self, path: str) -> bool:
        if is_packaged(path) or path in _UNFINISHED:
            return False
        with contextlib.suppress(OSError, openat.EscapeError), openat.parent(self._root, path) as (parent, _):
            found = os.fstat(parent)
            return path not in self._kept or self._before[path].above[-1:] != [[found.st_dev, found.st_ino]]
        return True

    # --- After a crash -------------------------------------------------------------------------------------------

    @contextlib.contextmanager
    def noted(self, room: Path) -> Iterator[None]:
        """Keep what was seen for a resumed run, as long as a command runs."""
        note = room / f"{_NOTE}{os.urandom(8).hex()}"
        note.write_text(json.dumps([self._places, self._more, sorted(self._kept), self._before]))
        try:
            yield
        finally:
            note.unlink(missing_ok=True)

    @classmethod
    def finish_noted(cls, root: int, room: Path) -> None:
        """Set aside the repositories that a command left whose executor died. Other new things may be a person's."""
        for note in room.glob(f"{_NOTE}*"):
            watch = cls.__new__(cls)
            places, more, kept, before = json.loads(note.read_text())
            watch._root, watch._places, watch._more, watch._kept = root, places, more, set(kept)
            watch._before = {path: _Seen(*seen) for path, seen in before.items()}
            new = [path for path, seen in watch._look(kept).found.items() if watch._is_new(path, seen)]
            set_aside(root, [path for path in new if is_kept(path) or f"/{path}".lower().endswith("/head")])
            note.unlink(missing_ok=True)


class _Walk:
    def __init__(self, more: Sequence[str], unread: Collection[str]) -> None:
        self._more, self._unread = more, unread
        self._count = 0
        self.found: dict[str, _Seen] = {}
        self.repositories: set[str] = set()
        """The `HEAD` of each: only that is set aside of a new one, for the rest may have been there before."""
        self.beside: list[str] = []  # control files beside what can be written

    def look(self, held: int, path: str, above: list[list[int]]) -> None:
        own = os.fstat(held)
        above = [*above, [own.st_dev, own.st_ino]]
        inner = path[:-1].rpartition("/")[2]
        with os.scandir(held) as found:
            entries = list(found)
        self._spend(len(entries))
        unclear = [entry.name for entry in entries if may_matter(entry.name)]
        control = {name for name in unclear if is_control_name(name, inner)}
        if is_repository(unclear):
            head = next(name for name in unclear if name.lower() == "head")
            self.repositories.add(path + head)
            self.note(held, head, path, above, [entry.name for entry in entries])
            if path + head in self._unread:
                return
        if self._more:
            control.update(entry.name for entry in entries if is_named(path + entry.name, self._more))
        for entry in entries:
            name, is_directory = entry.name, entry.is_dir(follow_symlinks=False)
            if not path and is_directory and name in _OWN:
                continue
            if name in control:
                self.note(held, name, path, above)
            elif is_directory:
                below = _opened(held, name) if len(above) < DEPTH_MAX else None
                if below is None:  # nobody can look there, so nobody may make it
                    self.note(held, name, path, above)
                    continue
                try:
                    self.look(below, f"{path}{name}/", above)
                finally:
                    os.close(below)

    def note(self, held: int, name: str, path: str, above: list[list[int]], names: Iterable[str] = ()) -> None:
        with contextlib.suppress(FileNotFoundError):
            read = () if path + name in self._unread else sorted({name, *names})
            self.found[path + name] = _Seen(above, [found for one in read for found in self.entries(held, one, one)])

    def entries(self, held: int, name: str, path: str) -> Iterator[list[str | int]]:
        """All that lies at and beneath an entry."""
        self._spend(1)
        found = os.stat(name, dir_fd=held, follow_symlinks=False)
        yield [path, found.st_ino, found.st_ctime_ns]
        below = _opened(held, name) if stat.S_ISDIR(found.st_mode) and path.count("/") < DEPTH_MAX else None
        if below is not None:
            try:
                with os.scandir(below) as inside:
                    names = sorted(entry.name for entry in inside)
                for inner in names:
                    yield from self.entries(below, inner, f"{path}/{inner}")
            finally:
                os.close(below)

    def _spend(self, count: int) -> None:
        self._count += count
        if self._count > ENTRIES_MAX:
            raise ValueError(
                f"there are more than {ENTRIES_MAX:,} files to look at for control files; name the directories that "
                "the command writes in `writes`"
            )


# --- By more than a name ---------------------------------------------------------------------------------------------
# What lies in a repository of any name, and what a control file leads to by links, counts like a control file.


def reach_fault(workspace: Path, paths: Sequence[str], more: Sequence[str] = (), *, deep: bool = False) -> str | None:
    """Why these may not be written although their names say nothing: git takes a directory above for a repository,
    or would, or a control file beside or above is a link to it; `deep`, or to what is beneath."""
    made: dict[PurePosixPath, set[str]] = {}
    control: list[str] = []
    for path in map(PurePosixPath, paths):
        for inner, outer in zip((path, *path.parents), path.parents, strict=False):
            made.setdefault(outer, set()).add(inner.name)
    with openat.root(workspace) as root:
        for above, names in made.items():
            there, beside = _beside(root, above, more)
            if is_repository(names | there):
                return f"git takes `{above}` for a repository"
            control += beside
    written = [f"{folded(path)}/" for path in paths]
    for one in sorted(_linked(os.path.realpath(workspace), control)):
        begins = f"{folded(one)}/"
        if any(path.startswith(begins) or (deep and begins.startswith(path)) for path in written):
            return f"a control file is a link that leads to `{openat.shown(one)}`"
    return None


def _beside(root: int, above: PurePosixPath, more: Sequence[str]) -> tuple[set[str], list[str]]:
    """The names in a directory, where there is one, and the paths of the control files among them."""
    names: set[str] = set()
    gone = contextlib.suppress(FileNotFoundError, NotADirectoryError, openat.EscapeError)
    with gone, openat.directory(root, str(above)) as held, os.scandir(held) as entries:
        names.update(entry.name for entry in entries)
    control = {above / name for name in names if may_matter(name) and is_control_name(name, above.name)}
    control |= {above / name for name in names if more and is_named(str(above / name), more)}
    return names, [str(path) for path in control if str(path) not in _OWN]


def _linked(top: str, control: Sequence[str]) -> set[str]:
    """Where links in control files and git's hooks lead in the workspace, link by link; not to what they lie in."""
    found: set[str] = set()
    waiting = [".git/hooks", *control]
    while waiting:
        for link in _links(f"{top}/{waiting.pop()}"):
            inside = (one for one in _way(link) if one.startswith(f"{top}/") and not f"{link}/".startswith(f"{one}/"))
            way = [path for one in inside if (path := one.removeprefix(f"{top}/")) not in _OWN]
            waiting += [path for path in way[-1:] if path not in found]
            found.update(way)
    return found


def _links(path: str, depth: int = 3) -> Iterator[str]:
    """The links at a path, and so deep beneath it."""
    if _target(path):
        yield path
    elif depth:
        with contextlib.suppress(OSError), os.scandir(path) as entries:
            for one in entries:
                yield from _links(one.path, depth - 1) if one.is_symlink() or one.is_dir() else ()


def _way(link: str) -> Iterator[str]:
    """A link, each other one on the way that it leads, and the end of it."""
    done, rest, links = "", link.split("/"), 0
    while rest and links < 40:
        part = rest.pop(0)
        done = done.rpartition("/")[0] if part == ".." else f"{done}/{part}" if part not in ("", ".") else done
        if target := _target(done):
            yield done
            done = "" if target[0] == "/" else done.rpartition("/")[0]
            rest, links = [*target.split("/"), *rest], links + 1
    yield done


def _target(path: str) -> str:
    with contextlib.suppress(OSError):
        return os.readlink(path)  # noqa: PTH115
    return ""


def _lies_in(path: str, places: Collection[str]) -> bool:
    return any(str(outer) in places for outer in PurePosixPath(path).parents)


def _opened(held: int, name: str) -> int | None:
    try:
        return os.open(name, openat.DIRECTORY, dir_fd=held)
    except OSError as error:
        if error.errno not in (errno.EACCES, errno.ENOENT, errno.ENOTDIR, errno.ELOOP):
            raise
        return None


def _entries(index: Mapping[str, bytes | None], id_size: int) -> set[tuple[bytes, int, bytes]]:
    """What is in these files, and each file that is no index: nobody knows what git makes of it."""
    found = set()
    for name, content in index.items():
        try:
            found |= index_entries(content or b"", id_size)
        except ValueError:
            found.add((f".git/{name}".encode(), 0, b""))
    return found


def _content(held: int, name: str) -> bytes | None:
    with contextlib.suppress(OSError, openat.EscapeError, openat.IrregularError), openat.file(held, name, name) as file:
        content = file.read(INDEX_MAX + 1)
        return content if len(content) <= INDEX_MAX else None
    return None


def set_aside(root: int, paths: Sequence[str]) -> str:
    """Move what must not stay to where its name means nothing, and say what became of it."""
    folder = f"{REPLACED}/{os.urandom(8).hex()}"
    failed = []
    for path in paths:
        try:
            _set_aside(root, path, folder)
        except FileNotFoundError:
            continue  # it went with a directory above it
        except (OSError, openat.EscapeError) as error:
            why = f"could not be set aside ({openat.reason(error)}): remove it before you do anything else"
            failed.append(f"`{openat.shown(path)}` {why}")
    return "; ".join([f"what was found is in {folder}", *failed])


@contextlib.contextmanager
def open_replaced(root: int, path: str) -> Iterator[int]:
    """A directory for what was replaced, made if need be; git leaves it out."""
    with openat.directory(root, REPLACED, create=True) as ours:
        openat.let_git_ignore(ours)
    with openat.directory(root, path, create=True) as kept:
        yield kept


def _set_aside(root: int, path: str, folder: str) -> None:
    *outer, name = path.split("/")
    above = "/".join(f"was-{part}" if is_control_name(part) else part for part in outer)
    with openat.parent(root, path) as (parent, last), contextlib.ExitStack() as held:
        new, kept = f"was-{name}"[:200], parent
        found = os.stat(last, dir_fd=parent, follow_symlinks=False)
        if stat.S_ISDIR(found.st_mode) and not found.st_mode & 0o200:  # its maker has shut it
            os.chmod(last, 0o700, dir_fd=parent)
        try:
            kept = held.enter_context(open_replaced(root, f"{folder}/{above}"))
            os.rename(last, new, src_dir_fd=parent, dst_dir_fd=kept)
        except OSError:  # another file system
            kept, new = parent, f"ordain-{os.urandom(4).hex()}-{new}"
            os.rename(last, new, src_dir_fd=parent, dst_dir_fd=kept)
        with contextlib.suppress(OSError):  # no repository is one without it
            os.rename(f"{new}/HEAD", f"{new}/was-HEAD", src_dir_fd=kept, dst_dir_fd=kept)
