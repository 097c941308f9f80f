"""The user's state directory: outside every workspace, ours alone, checked before anything in it is believed.

Before anything is put into a workspace's part of it, the names of all directories that lead there are on disk: a synced
ledger is lost all the same with the directory it is in.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import shlex
import stat
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

from ordain.adapters.workspace import openat
from ordain.core.text.problem import Refused, refuse


def state_directory(env: Mapping[str, str], workspace: Path | None) -> Path:
    """`$ORDAIN_HOME` or the platform's place for state, made with mode 0700; raises Refused when it is not safe."""
    chosen = state_path(env)
    if not chosen.is_absolute():
        raise _refused(chosen, "is not an absolute path")
    real, root = Path(os.path.realpath(chosen)), Path(os.path.realpath(workspace)) if workspace is not None else None
    if root is not None and (real == root or root in real.parents):
        home = Path(os.path.realpath(env["HOME"])) if env.get("HOME") else None
        if home is not None and (home == root or root in home.parents):  # nobody means to have that as a workspace
            raise refuse(
                "E_STATE_DIR",
                f"The workspace would be {root}, with all you have in it, Ordain's own state too ({chosen}).",
                "Go to the project's directory, or name it: ordain -C DIR …",
                "One without ordain.toml or .git becomes a workspace of its own with `ordain init` there.",
            )
        raise _refused(chosen, "lies inside the workspace, where an agent could write")
    try:
        _make(chosen, parents=True)
    except OSError as error:
        raise _refused(chosen, f"cannot be made: {openat.reason(error)}") from error
    check_state_directory(chosen)
    return chosen


def check_state_directory(path: Path) -> None:
    """Raise Refused where nothing in this directory can be believed: it is a link, or others can write in it."""
    try:
        found = path.lstat()
    except OSError as error:
        raise _refused(path, f"cannot be looked at: {openat.reason(error)}") from error
    if not stat.S_ISDIR(found.st_mode):
        raise _refused(path, "is not a directory, or is a link")
    if found.st_uid != os.geteuid():
        raise _refused(path, "belongs to another user")
    if stat.S_IMODE(found.st_mode) & 0o077:
        raise _refused(path, "can be read or written by others", command=f"chmod 700 {shlex.quote(str(path))}")


def _make(path: Path, *, parents: bool = False) -> None:
    """Make a directory that is ours alone, whatever the umask takes away; one that is there is left as it is."""
    try:
        path.mkdir(mode=0o700, parents=parents)
        path.chmod(0o700)
    except FileExistsError:
        pass


def workspace_directory(state: Path, workspace: Path) -> Path:
    """Where one workspace's ledger and lock live, made if need be."""
    directory = shelf_path(state, workspace)
    try:
        for made in (directory.parent, directory):
            _make(made)
        # As long as it is empty, whoever made it may have been stopped before its name was safe.
        if not any(directory.iterdir()):
            _sync_names(directory)
    except OSError as error:
        raise _refused(directory, f"cannot be made: {openat.reason(error)}") from error
    return directory


def _sync_names(directory: Path) -> None:
    """Let the names of a directory and of those above it be on disk, as far as we may have made them."""
    for made in (directory, *directory.parents):
        if made.stat().st_uid != os.geteuid():
            return
        try:
            openat.sync(made.parent)
        except PermissionError:
            return


def shelf_path(state: Path, workspace: Path) -> Path:
    """Where one workspace's ledger and lock are or would be; makes nothing."""
    name = hashlib.sha256(os.fsencode(os.path.realpath(workspace))).hexdigest()[:32]
    return state / "workspaces" / name


def state_path(env: Mapping[str, str]) -> Path:
    """Where the state directory is or would be; looks at nothing."""
    if env.get("ORDAIN_HOME"):
        return Path(env["ORDAIN_HOME"])
    if env.get("XDG_STATE_HOME"):
        return Path(env["XDG_STATE_HOME"]) / "ordain"
    if not env.get("HOME"):
        raise refuse("E_STATE_DIR", "Neither ORDAIN_HOME nor HOME says where state may be kept.")
    home = Path(env["HOME"])
    return home / "Library/Application Support/ordain" if sys.platform == "darwin" else home / ".local/state/ordain"


def _refused(path: Path, what: str, command: str | None = None) -> Refused:
    return refuse(
        "E_STATE_DIR",
        f"The state directory {path} {what}.",
        "Set ORDAIN_HOME to a directory of your own outside the workspace.",
        command=command,
    )


# --- Private files ---------------------------------------------------------------------------------------------------
# Keys and what tokens are known by. A file appears whole or not at all and is never overwritten, and nothing in one is
# believed before its place, owner and mode are right.


class PrivateFiles:
    """One directory of such files. `code` is the problem that everything wrong with them is told as."""

    def __init__(self, directory: Path, code: str) -> None:
        self._directory, self._code = directory, code

    def path(self, name: str) -> Path:
        return self._directory / name

    def names(self) -> list[str]:
        """The files that are there, sorted."""
        with contextlib.suppress(FileNotFoundError), self._refusing(self._directory, "read"), self._held() as held:
            listed = os.listdir(held)  # noqa: PTH208 - of the directory that was looked at, whatever has its name now
            return sorted(name for name in listed if not name.startswith("."))
        return []

    def read(self, name: str, most: int) -> bytes | None:
        """The first bytes of a file, one more than `most` where it is longer; None when there is none."""
        path = self.path(name)
        with (
            contextlib.suppress(FileNotFoundError),
            self._refusing(path, "read"),
            self._held() as held,
            os.fdopen(os.open(name, openat.READ, dir_fd=held), "rb") as file,
        ):
            entry = os.fstat(file.fileno())
            if not stat.S_ISREG(entry.st_mode):
                raise self._refused(path, "is not a regular file")
            self._check_ours(path, entry)
            return file.read(most + 1)
        return None

    def write(self, name: str, content: bytes) -> None:
        """Put a new file in its place, whole; raises FileExistsError where something is already."""
        temporary = f".{os.urandom(8).hex()}"  # no name begins with a dot
        with self._refusing(self.path(name), "written", FileExistsError):
            with openat.root(self._directory.parent) as above, contextlib.suppress(FileExistsError):
                os.mkdir(self._directory.name, 0o700, dir_fd=above)
                os.fsync(above)
            with self._held() as held:
                descriptor = os.open(temporary, openat.NEW_FILE, 0o600, dir_fd=held)
                try:
                    with os.fdopen(descriptor, "wb") as file:
                        file.write(content)
                        file.flush()
                        os.fsync(descriptor)
                    os.link(temporary, name, src_dir_fd=held, dst_dir_fd=held, follow_symlinks=False)
                finally:
                    os.unlink(temporary, dir_fd=held)
                os.fsync(held)

    def remove(self, name: str) -> bool:
        """Remove a file; whether there was one."""
        with contextlib.suppress(FileNotFoundError), self._refusing(self.path(name), "removed"), self._held() as held:
            os.unlink(name, dir_fd=held)
            os.fsync(held)
            return True
        return False

    @contextlib.contextmanager
    def _refusing(self, path: Path, done: str, but: type[OSError] = FileNotFoundError) -> Iterator[None]:
        try:
            yield
        except but:
            raise
        except OSError as error:
            why = "it is a link" if error.errno == errno.ELOOP else openat.reason(error)
            raise self._refused(path, f"cannot be {done}: {why}") from error

    def refused(self, name: str, what: str) -> Refused:
        """What is wrong with a file, as a refusal."""
        return self._refused(self.path(name), what)

    @contextlib.contextmanager
    def _held(self) -> Iterator[int]:
        """The directory, held open once it is seen to be ours alone; files are found in it and nowhere else."""
        with openat.opened(self._directory, openat.DIRECTORY) as descriptor:
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
