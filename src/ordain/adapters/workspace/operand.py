"""What is in the files that a plan and its commands name.

For a plan they are looked at beneath the held root, and no link is followed; for commands as a command would find them:
links are followed, and a path may lead out of the workspace.
"""

from __future__ import annotations

import errno
import hashlib
import os
import stat
from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import takewhile
from pathlib import Path

from ordain.adapters.workspace import openat
from ordain.core.policy.bound_file import FILE_BYTES_MAX
from ordain.core.policy.path_use import ABSENT, spelt_path
from ordain.core.text.control import folded
from ordain.core.text.path import OFF_LIMITS, is_kept, path_fault, pattern_fault
from ordain.core.text.pattern import PathPattern
from ordain.core.text.problem import Refused, refuse

EFFORT_MAX = 20_000_000
"""How much is done to find operands in one look, in compared characters: some seconds."""
_STEP_EFFORT = 4
"""What it takes to open a directory on the way, or to turn to a pattern."""
OPERANDS_MAX = 20_000
OPERAND_BYTES_MAX = 16 << 30
"""How much is read in one look; that takes about a minute. A file with holes can claim any size."""
FILES_MAX = 20_000
_CHUNK_BYTES = 1 << 20
_NOT_THERE = frozenset([errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.ENAMETOOLONG, errno.EINVAL, errno.ENXIO])


def operand_path(path: str) -> str | None:
    """The one spelling of a path that is looked at; None for what git keeps or is ours. Raises Refused for what does
    not lie beneath the workspace."""
    spelt = spelt_path(path)
    fault = path_fault(path) or (None if spelt else "is the workspace itself")
    if fault is not None and fault != OFF_LIMITS:
        raise refuse("E_PATH", f"The path `{path[:200]}` {fault}.")
    return spelt if not is_kept(path) else None


def operand_pattern(pattern: str) -> str | None:
    """What folded names are compared with, so that a pattern means here what it protects; None and Refused as above."""
    fault = pattern_fault(pattern)
    if fault is not None and fault != OFF_LIMITS:
        raise refuse("E_PATH", f"The pattern `{pattern[:200]}` {fault}.")
    return folded(pattern) + "/**" * pattern.endswith("/") if fault is None else None


class _Wanted:
    """A pattern of folded paths, the directories it begins with, and how deep it goes."""

    def __init__(self, text: str) -> None:
        parts = text.split("/")
        self.text = text
        self.pattern = PathPattern(text)
        self.along = tuple(takewhile(lambda part: not set(part) & set("*?"), parts[:-1]))
        self._depth_max = None if "**" in text else len(parts)

    def goes_by(self, depth: int, name: str) -> bool:
        return depth >= len(self.along) or self.along[depth] == name

    def goes_below(self, depth: int) -> bool:
        return self._depth_max is None or depth + 1 < self._depth_max


class PatternLook:
    """One look at the files beneath a held directory. No link is followed; what cannot be seen is refused, for
    nobody would notice when it changes; and a look has an end."""

    def __init__(self, root: int, effort: int = 0) -> None:
        self._root = root
        self.effort = effort
        self._bytes = 0

    def matching(self, patterns: Collection[str]) -> set[str]:
        """Everything but directories that a pattern means, and the links where a pattern would go on beneath."""
        found: set[str] = set()
        self._spend(sum(len(text) * (1 + len(text) // 512) for text in patterns))
        todo = [("", 0, [_Wanted(text) for text in sorted(patterns)])] if patterns else []
        while todo:
            above, depth, wanted = todo.pop()
            self._spend(_STEP_EFFORT * depth)
            for own_name, is_directory, links in self.entries(above):
                self._spend(_STEP_EFFORT * len(wanted))
                name, path = folded(own_name), above + own_name
                if name in (".git", ".ordain"):
                    continue
                on = [one for one in wanted if one.goes_by(depth, name)]
                if is_directory:
                    below = [one for one in on if one.goes_below(depth)]
                    todo += [(f"{path}/", depth + 1, below)] if below else []
                elif any((links and depth < len(one.along)) or self._matches(one, folded(path)) for one in on):
                    if openat.shown(path) != path:  # it could be told from no other in a record
                        what = f"The name `{openat.shown(path)}` is not UTF-8, and the plan's patterns mean it."
                        raise refuse("E_BASE_UNREADABLE", what)
                    found.add(path)
        return found

    def idle(self, patterns: Mapping[str, str | None]) -> frozenset[str]:
        """The names of the patterns that mean nothing that is there; one without a pattern never means anything."""
        texts = {text for text in patterns.values() if text is not None}
        paths = [folded(path) for path in self.matching(texts)]
        wanted = {text: _Wanted(text) for text in texts}
        used = {text for text, one in wanted.items() if any(self._matches(one, path) for path in paths)}
        return frozenset(name for name, text in patterns.items() if text not in used)

    def _matches(self, wanted: _Wanted, path: str) -> bool:
        if not wanted.pattern.may_match(path):
            return False
        self._spend(len(path) * (2 + len(wanted.text) // 256))
        return wanted.pattern.matches(path)

    def entries(self, above: str) -> Iterator[tuple[str, bool, bool]]:
        """What is in a directory: each name, whether it is a directory, and whether it is a link."""
        try:
            with openat.directory(self._root, above) as held, os.scandir(held) as entries:
                for entry in entries:
                    yield entry.name, entry.is_dir(follow_symlinks=False), entry.is_symlink()
        except FileNotFoundError:  # gone since its name was read
            return
        except (OSError, openat.EscapeError) as error:
            raise _unreadable(above, error) from error

    def _spend(self, effort: int) -> None:
        self.effort += effort
        if self.effort > EFFORT_MAX:
            hint = "Begin patterns with the directory that is meant: `tests/**`."
            raise refuse("E_BASE_UNREADABLE", "The files that the plan names take too long to find.", hint)

    def digests(self, paths: Collection[str]) -> dict[str, str]:
        if len(paths) > OPERANDS_MAX:
            raise refuse("E_BASE_UNREADABLE", f"The plan names more than {OPERANDS_MAX:,} files.")
        return {path: self.digest(path) for path in sorted(paths)}

    def digest(self, path: str) -> str:
        """What is at a path: `sha256:…` of a regular file's content, `link:…` of a link's target, and else a word."""
        try:
            with openat.parent(self._root, path) as (parent, name):
                return self._seen(parent, name, path)
        except openat.EscapeError:
            return self._link_along(path)
        except (FileNotFoundError, NotADirectoryError, UnicodeEncodeError):
            return ABSENT
        except OSError as error:
            if error.errno == errno.ENAMETOOLONG:
                return ABSENT
            raise _unreadable(path, error) from error

    def _seen(self, parent: int, name: str, path: str) -> str:
        # Looked at before it is opened: opening a pipe or a device can do something.
        mode = os.stat(name, dir_fd=parent, follow_symlinks=False).st_mode
        if stat.S_ISLNK(mode):
            return "link:" + hashlib.sha256(os.fsencode(os.readlink(name, dir_fd=parent))).hexdigest()
        if stat.S_ISDIR(mode):
            return "directory"
        return self._content(parent, name, path) if stat.S_ISREG(mode) else "other"

    def _link_along(self, path: str) -> str:
        """The first link on the way to a path: all there is of the path, as nobody goes through it."""
        parts = path.split("/")
        try:
            for depth in range(1, len(parts)):
                self._spend(_STEP_EFFORT * depth)
                with openat.parent(self._root, "/".join(parts[:depth])) as (parent, name):
                    if openat.is_link(parent, name):
                        return self._seen(parent, name, path)
        except (OSError, openat.EscapeError) as error:
            raise _changing(path) from error
        raise _changing(path)

    def _content(self, parent: int, name: str, path: str) -> str:
        """The digest of as many bytes as the file had when it was opened; one that is being written is refused."""
        with openat.opened(name, openat.READ, parent=parent) as descriptor:
            self._bytes += os.fstat(descriptor).st_size
            if self._bytes > OPERAND_BYTES_MAX:
                detail = f"With `{path}`, the files that the plan names have more than {OPERAND_BYTES_MAX:,} bytes."
                raise refuse("E_BASE_UNREADABLE", detail)
            digest = _digest(descriptor, OPERAND_BYTES_MAX)
        if digest is None:
            raise _changing(path)
        return digest


def _digest(descriptor: int, most: int) -> str | None:
    """The digest of a regular file of so many bytes at most; None for any other, and one that is being written."""
    before, digest = os.fstat(descriptor), hashlib.sha256()
    left = before.st_size
    if not stat.S_ISREG(before.st_mode) or left > most:
        return None
    while left and (chunk := os.read(descriptor, min(left, _CHUNK_BYTES))):
        digest.update(chunk)
        left -= len(chunk)
    more, after = os.read(descriptor, 1), os.fstat(descriptor)
    same = not left and not more and (after.st_size, after.st_mtime_ns) == (before.st_size, before.st_mtime_ns)
    return f"sha256:{digest.hexdigest()}" if same else None


def _unreadable(path: str, error: OSError | openat.EscapeError) -> Refused:
    return refuse("E_BASE_UNREADABLE", f"`{openat.shown(path) or '.'}` cannot be read: {openat.reason(error)}.")


def _changing(path: str) -> Refused:
    return refuse("E_BASE_UNREADABLE", f"`{path}` changes while it is read.", "Wait until nobody writes it any more.")


# --- What commands name ----------------------------------------------------------------------------------------------


def contents(root: Path, paths: Sequence[str]) -> dict[str, str]:
    """What is at these paths (`ports.Workspace.contents`); what is not there is left out."""
    found: dict[str, str] = {}
    size = 0
    for path in paths:
        what, read = _seen(f"{root}/{path}" if path[:1] != "/" else path)
        size += read
        if what != ABSENT:
            found[path] = what
        if len(found) > FILES_MAX or size > OPERAND_BYTES_MAX:
            detail = f"The commands of the plan name more than {FILES_MAX:,} files or {OPERAND_BYTES_MAX >> 30} GiB."
            raise refuse("E_BASE_UNREADABLE", detail)
    return found


def _seen(path: str) -> tuple[str, int]:
    """What is at a path, and how much of it was read."""
    try:
        found = Path(path).stat()
        if stat.S_ISDIR(found.st_mode):
            return "directory", 0
        if not stat.S_ISREG(found.st_mode):
            return "other", 0
        if found.st_size > FILE_BYTES_MAX:
            return "too large", 0
        real = os.path.realpath(path)
        with openat.opened(real, openat.READ) as descriptor:
            digest = _digest(descriptor, FILE_BYTES_MAX) or "changing"
        moved = f" {real}" if digest != "changing" and real != os.path.normpath(path) else ""
        return digest + moved, found.st_size
    except PermissionError:
        return "unreadable", 0
    except ValueError:  # no name that a file could have
        return ABSENT, 0
    except OSError as error:
        if error.errno in _NOT_THERE:
            return ABSENT, 0
        raise _unreadable(path, error) from error
