"""The files of a workspace and what git knows of them, looked at in bounded time.

Git is run, and nothing that the repository says is: a private directory stands in for its `.git`, with our
configuration, the commit, a copy of the index and the way to the objects. So no fsmonitor, hook, filter, pager or the
like is started.
"""

from __future__ import annotations

import contextlib
import os
import stat
import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from ordain.adapters.process.outside import program
from ordain.adapters.workspace import openat
from ordain.adapters.workspace.locate import common_directory, git_head, read_regular
from ordain.core.policy.sealing import PLAIN_PATH
from ordain.core.task.outline import FileList, GitState, write_outline
from ordain.core.text.control import folded, is_packaged
from ordain.core.text.path import handed_fault, is_kept
from ordain.core.text.problem import Refused
from ordain.core.text.redaction import Redactor
from ordain.ports.workspace import OutlineBlock, Workspace

FILES_MAX = 100_000
"""How many files are listed; without git, how many entries are looked at."""
CHANGED_MAX = 200
SUBJECTS = 5
_OUTPUT_MAX = 16 << 20
_INDEX_MAX = 64 << 20
_FILE_MAX = 1 << 20
_SECONDS = 10
SKIPPED = frozenset(("node_modules", "site-packages", "__pycache__", ".venv", "venv", ".tox", ".nox", ".cache"))
"""Without git nobody says what is ignored; these are never what anybody works on."""
_HEAD_REF = b"ref: refs/heads/"


class _Repository(NamedTuple):
    """Where git keeps what belongs to a working tree, and the top of that."""

    top: Path
    own: Path
    common: Path


def list_files(workspace: Path, most: int = FILES_MAX) -> FileList:
    """The files of a workspace: as git lists them, else as they lie there; so many of them at most."""
    if (repository := _repository_of(workspace)) is not None:
        with contextlib.suppress(OSError, ValueError, Refused, openat.IrregularError):
            return _listed(workspace, repository, most)
    return _walked(workspace, most)


def _repository_of(workspace: Path) -> _Repository | None:
    """The repository that a directory lies in. A file that names a directory which does not point back, as that of a
    linked working tree does, could tell of the files of somewhere else."""
    for top in (workspace, *workspace.parents):
        mark = top / ".git"
        try:
            mode = mark.lstat().st_mode
        except FileNotFoundError:
            continue
        except OSError:
            return None
        with contextlib.suppress(OSError, ValueError):
            if stat.S_ISDIR(mode):
                (mark / "HEAD").lstat()
                return _Repository(top, mark, common_directory(mark))
            if stat.S_ISREG(mode):
                own = top / os.fsdecode(read_regular(mark).removeprefix(b"gitdir:").strip())
                back = os.fsdecode(read_regular(own / "gitdir").strip())
                if os.path.realpath(own / back) == str(mark):
                    return _Repository(top, own, common_directory(own))
        return None
    return None


def diff_files(workspace: Path, is_readable: Callable[[str], bool], files_most: int, bytes_most: int) -> str:
    """How the changed, readable files differ from the commit that is checked out, as unified diffs."""
    if (repository := _repository_of(workspace)) is None:
        return ""
    with contextlib.suppress(OSError, ValueError, Refused, openat.IrregularError), _git(workspace, repository) as ask:
        status = ask("status", "--porcelain", "-z", "--no-renames", "--ignore-submodules=all", ".")
        prefix = _prefix(workspace, repository)
        changed = (line[3:].removeprefix(prefix) for line in status if not line.startswith("??"))
        paths = [one for one in changed if handed_fault(one) is None and is_readable(one)][:files_most]
        options = ("--no-ext-diff", "--no-textconv", "--no-color", "--no-renames", "--ignore-submodules=all")
        shown = ask("--literal-pathspecs", "diff", *options, "HEAD", "--", *paths) if paths else []
        return "\n".join(shown)[:bytes_most]
    return ""


def _prefix(workspace: Path, repository: _Repository) -> str:
    above = workspace.relative_to(repository.top).as_posix()
    return "" if above == "." else f"{above}/"


@contextlib.contextmanager
def _git(workspace: Path, repository: _Repository) -> Iterator[Callable[..., list[str]]]:
    """Asks git about a repository, through what stands in for it: what it says, between its NULs."""
    import tempfile  # most commands only look

    if (git := program("git", os.environ.get("PATH", PLAIN_PATH), workspace)) is None:
        raise FileNotFoundError("git")
    with tempfile.TemporaryDirectory(prefix="ordain-git-", ignore_cleanup_errors=True) as room:
        _stand_in(Path(room), repository, git_head(repository.top))
        env = {
            "PATH": PLAIN_PATH,
            "LC_ALL": "C",
            "HOME": room,
            "GIT_DIR": room,
            "GIT_WORK_TREE": str(repository.top),
            "GIT_OBJECT_DIRECTORY": str(repository.common / "objects"),
            "GIT_CONFIG_NOSYSTEM": "1",
            "GIT_CONFIG_GLOBAL": "/dev/null",
            "GIT_ATTR_NOSYSTEM": "1",
            "GIT_OPTIONAL_LOCKS": "0",
            "GIT_ALLOW_PROTOCOL": "none",
            "GIT_TERMINAL_PROMPT": "0",
        }

        def ask(*words: str) -> list[str]:
            return _fields((git, "--no-pager", "-c", "core.fsmonitor=false", *words), workspace, env)

        yield ask


def _listed(workspace: Path, repository: _Repository, most: int) -> FileList:
    with _git(workspace, repository) as ask:
        commit = git_head(repository.top)
        names = ask("ls-files", "-z", "--cached", "--others", "--exclude-standard")
        status = ask("status", "--porcelain", "-z", "--no-renames", "--ignore-submodules=all", ".")
        subjects = ask("log", "-z", f"-{SUBJECTS}", "--no-color", "--format=%s") if commit is not None else []
        prefix = _prefix(workspace, repository)
        changed = [(line[:2].strip(), line[3:].removeprefix(prefix)) for line in status]
        gone = {path for what, path in changed if "D" in what}
        paths = sorted({name for name in names if name not in gone and handed_fault(name) is None})
        branch = read_regular(repository.own / "HEAD").strip()
        return FileList(
            paths=tuple(paths[:most]),
            whole=len(paths) <= most,
            git=GitState(
                branch=os.fsdecode(branch.removeprefix(_HEAD_REF)) if branch.startswith(_HEAD_REF) else "",
                commit=commit or "",
                subjects=tuple(subjects),
                changed=tuple(one for one in changed if handed_fault(one[1]) is None)[:CHANGED_MAX],
            ),
        )


def _stand_in(room: Path, repository: _Repository, commit: str | None) -> None:
    """Make what git takes for the repository: all but the index, `shallow` and what is not to be listed is ours."""
    sha256 = commit is not None and len(commit) == 64
    version, kind = (1, "[extensions]\n\tobjectFormat = sha256\n") if sha256 else (0, "")
    (room / "config").write_text(f"[core]\n\trepositoryFormatVersion = {version}\n\tbare = false\n{kind}")
    (room / "HEAD").write_text(f"{commit or 'ref: refs/heads/none'}\n")
    for name in ("refs", "objects", "info"):
        (room / name).mkdir()
    places = ((repository.own, "index"), (repository.common, "shallow"), (repository.common, "info/exclude"))
    for place, name in places:
        with contextlib.suppress(FileNotFoundError):
            longest = _INDEX_MAX if name == "index" else _FILE_MAX
            with (
                openat.opened(place, openat.DIRECTORY) as held,
                openat.parent(held, name) as (parent, last),
                openat.file(parent, last, name) as file,
            ):
                data, found = file.read(longest + 1), os.fstat(file.fileno())
            if len(data) > longest:
                raise ValueError(f"{name} is larger than anybody should wait for")
            (room / name).write_bytes(data)
            # Git compares this time with those of files: what was written since may be other than it looks.
            os.utime(room / name, ns=(found.st_atime_ns, found.st_mtime_ns))


def _fields(words: Sequence[str], directory: Path, env: dict[str, str]) -> list[str]:
    """What a program writes, between its NULs; raises OSError where it ends badly, is too slow or writes too much."""
    import subprocess

    with subprocess.Popen(
        words,
        cwd=directory,
        env=env,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    ) as process:
        ending = threading.Timer(_SECONDS, process.kill)
        ending.start()
        try:
            assert process.stdout is not None
            data = process.stdout.read(_OUTPUT_MAX + 1)
            if len(data) > _OUTPUT_MAX:
                process.kill()
            if process.wait() != 0:
                raise OSError("git ended badly")
        finally:
            ending.cancel()
    return [one.decode("utf-8", "backslashreplace") for one in data.split(b"\0") if one]


def _walked(workspace: Path, most: int) -> FileList:
    """What lies in a directory, breadth first; no link is followed."""
    found, seen, whole = list[str](), 0, True
    todo = deque([""])
    while todo and seen <= most:
        above = todo.popleft()
        for name, is_directory in _entries(workspace / above):
            path, seen = above + name, seen + 1
            if seen > most:
                whole = False
                break
            if not is_directory:
                if handed_fault(path) is None:
                    found.append(openat.shown(path))
            elif folded(name) not in SKIPPED and not is_kept(path) and not is_packaged(path):
                todo.append(f"{path}/")
    return FileList(paths=tuple(sorted(found)), whole=whole and not todo)


def _entries(directory: Path) -> Iterator[tuple[str, bool]]:
    with contextlib.suppress(OSError, ValueError), os.scandir(directory) as entries:
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                yield entry.name, True
            elif entry.is_file(follow_symlinks=False):
                yield entry.name, False


# --- Outlines for planners --------------------------------------------------------------------------------------------

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
        def head_of(path: str, most: int) -> str:
            with contextlib.suppress(Refused):
                if handed_fault(path) is None:
                    data, size = self._workspace.beginning(path, most + redactor.ahead, secret_files)
                    head = redactor.beginning(data, whole=len(data) >= size)[0][:most]
                    return head.decode("utf-8", "replace").rstrip("\ufffd") if b"\0" not in head else ""
            return ""

        listing = list_files(Path(os.path.realpath(self._path)))
        blocks = write_outline(listing, head_of, goal, redactor)
        return tuple(OutlineBlock(name=name, text=text) for name, text in blocks)
