"""The user's state directory: outside every workspace, ours alone, checked before anything in it is believed.

The invariant: before anything is put into a workspace's part of it, the names of all directories that lead there are
on disk. A ledger that is synced is lost all the same with the directory it is in.
"""

from __future__ import annotations

import hashlib
import os
import shlex
import stat
import sys
from collections.abc import Mapping
from pathlib import Path

from ordain.adapters.workspace.openat import reason, sync
from ordain.core.text.problem import Refused, refuse


def state_directory(env: Mapping[str, str], workspace: Path | None) -> Path:
    """`$ORDAIN_HOME` or the platform's place for state, made with mode 0700; raises Refused when it is not safe, by
    itself or for a workspace."""
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
        raise _refused(chosen, f"cannot be made: {reason(error)}") from error
    check_state_directory(chosen)
    return chosen


def check_state_directory(path: Path) -> None:
    """Raise Refused where nothing in this directory can be believed: it is a link, or others can write in it."""
    try:
        found = path.lstat()
    except OSError as error:
        raise _refused(path, f"cannot be looked at: {reason(error)}") from error
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
        raise _refused(directory, f"cannot be made: {reason(error)}") from error
    return directory


def _sync_names(directory: Path) -> None:
    """Let the names of a directory and of those above it be on disk, as far as we may have made them."""
    for made in (directory, *directory.parents):
        if made.stat().st_uid != os.geteuid():
            return
        try:
            sync(made.parent)
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
