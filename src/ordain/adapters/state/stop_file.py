"""The stop as small files: one in the user's state directory, one in the workspace's part of it.

That a file is there stops; what it says is for people. A file that cannot be read stops too.
"""

from __future__ import annotations

import contextlib
import errno
import os
from collections.abc import Callable, Iterable, Mapping
from functools import cache
from pathlib import Path

import msgspec

from ordain.adapters.state.directory import shelf_path, state_directory, state_path, workspace_directory
from ordain.adapters.workspace import openat
from ordain.core.plan.value import RunId
from ordain.core.policy.stop import StopOrder
from ordain.core.text.problem import Refused, refuse

EndExecutors = Callable[[Iterable[Path], str], tuple[tuple[RunId, ...], tuple[RunId, ...]]]
"""Ends the executors of these shelves: which it ended, and which it could not. Passed in, as the hook only reads."""
STOPPED = "stopped"
_MOST = 16_384


def read_stops(env: Mapping[str, str], workspace: Path) -> tuple[StopOrder, ...]:
    """What stops work in a workspace, the user's own stop first. Two files are looked for, and nothing is made."""
    places = _places(workspace, *map(env.get, _SAY_WHERE))
    found = (_read(place, everywhere=everywhere) for place, everywhere in places)
    return tuple(stop for stop in found if stop is not None)


_SAY_WHERE = ("ORDAIN_HOME", "XDG_STATE_HOME", "HOME")


@cache
def _places(workspace: Path, *said: str | None) -> tuple[tuple[str, bool], ...]:
    """Where the stops of a workspace are; asked before each step, and where a directory really is takes a while."""
    try:
        state = state_path({name: value for name, value in zip(_SAY_WHERE, said, strict=True) if value is not None})
    except Refused:  # nothing can be recorded there, so nothing can be started either
        return ()
    places = ((state, True), (shelf_path(state, workspace), False))
    return tuple((str(place / STOPPED), everywhere) for place, everywhere in places)


def _read(path: str, *, everywhere: bool) -> StopOrder | None:
    try:
        descriptor = os.open(path, openat.READ)
    except FileNotFoundError:
        return None
    except OSError as error:
        fault = "" if error.errno == errno.ELOOP else f"{path} cannot be read: {openat.reason(error)}"
        return StopOrder(everywhere=everywhere, fault=fault)
    said = StopOrder(everywhere=everywhere)
    try:  # what it says is for people
        with contextlib.suppress(OSError, msgspec.MsgspecError, ValueError, RecursionError):
            said = msgspec.json.decode(os.read(descriptor, _MOST), type=StopOrder)
    finally:
        os.close(descriptor)
    return msgspec.structs.replace(said, everywhere=everywhere)


class StopFiles:
    """ports.StopSwitch of one workspace."""

    def __init__(self, workspace: Path, boot_id: str, end_executors: EndExecutors) -> None:
        self._workspace, self._boot_id, self._end_executors = workspace, boot_id, end_executors

    def read(self) -> tuple[StopOrder, ...]:
        return read_stops(os.environ, self._workspace)

    def turn_on(self, stop: StopOrder) -> None:
        path = self._directory(everywhere=stop.everywhere) / STOPPED
        try:
            # Once it is open it is on, whatever else the disk takes.
            with openat.opened(path, openat.NEW_FILE) as descriptor, contextlib.suppress(OSError):
                os.write(descriptor, msgspec.json.encode(stop))
                os.fsync(descriptor)
                openat.sync(path.parent)
        except FileExistsError:
            return  # it is on, and keeps who turned it on first
        except OSError as error:
            raise _refused(path, "made", error) from error

    def turn_off(self, stop: StopOrder) -> None:
        path = self._directory(everywhere=stop.everywhere) / STOPPED
        try:
            path.unlink(missing_ok=True)
            openat.sync(path.parent)
        except OSError as error:
            raise _refused(path, "removed", error) from error

    def end_runs(self, *, everywhere: bool) -> tuple[tuple[RunId, ...], tuple[RunId, ...]]:
        directory = self._directory(everywhere=everywhere)
        found = directory / "workspaces"
        shelves = found.iterdir() if everywhere and found.is_dir() else (directory,)
        return self._end_executors(sorted(shelves), self._boot_id)

    def _directory(self, *, everywhere: bool) -> Path:
        state = state_directory(os.environ, None if everywhere else self._workspace)
        return state if everywhere else workspace_directory(state, self._workspace)


def _refused(path: Path, done: str, error: OSError) -> Refused:
    return refuse("E_STATE_DIR", f"{path} cannot be {done}: {openat.reason(error)}.")
