"""From a directory and an environment to an App over real adapters, which only the modules of this room name."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, cast

from ordain.adapters.agents.local import LocalAgents
from ordain.adapters.process.process import weaknesses
from ordain.adapters.state.directory import (
    check_state_directory,
    state_directory,
    state_path,
    workspace_directory,
)
from ordain.adapters.state.user_rules import confirm, is_confirmed, user_file
from ordain.adapters.tools.cel import Cel
from ordain.adapters.workspace.clock import RandomIds, WallClock
from ordain.adapters.workspace.directory import DirectoryWorkspace
from ordain.adapters.workspace.locate import find_workspace, ledger_of, real_directory
from ordain.adapters.workspace.secret import KnownSecrets
from ordain.app.app import App
from ordain.core.plan.tool import BUILT_IN
from ordain.core.task.offer import DOOR
from ordain.core.text.problem import Refused, refuse
from ordain.ports.ledger import LedgerAccess
from ordain.ports.ports import Ports

if TYPE_CHECKING:
    from ordain.adapters.tools.python import Call, Handler
    from ordain.assemble.adapters import Adapters
    from ordain.ports.agent import StepDoor
    from ordain.ports.machine import Clients
    from ordain.ports.tool import Upstreams

T = TypeVar("T")


def open_workspace(
    start: str | os.PathLike[str] = ".",
    *,
    exact: bool = False,
    alone: bool = False,
    handlers: Mapping[str, Handler | Call] | None = None,
    tools: Sequence[Callable[..., Any]] = (),
    agents: Mapping[str, Callable[..., Any]] | None = None,
) -> App:
    """Ordain over the workspace that `start` lies in, or over `start` itself when `exact`. `handlers` carry out custom
    actions, by their types; a plain callable is an opaque one. `tools` are functions that steps can call (`tool`),
    `agents` perform tasks, by their names.

    Nothing is written until a verb has something to record. `alone` says that this process starts no others of its own,
    so that everything that a command leaves behind can be told from them and ended.

    Who calls it is code: a principal that says it sits at a terminal is refused.
    """
    return _open(start, exact=exact, alone=alone, handlers=handlers, tools=tools, agents=agents, terminal=False)


def _open(
    start: str | os.PathLike[str] = ".",
    *,
    exact: bool = False,
    alone: bool = False,
    terminal: bool,
    handlers: Mapping[str, Handler | Call] | None = None,
    tools: Sequence[Callable[..., Any]] = (),
    agents: Mapping[str, Callable[..., Any]] | None = None,
) -> App:
    if (encoding := sys.getfilesystemencoding()) != "utf-8":
        detail = f"Python was started with {encoding}; commands would not be run as they were approved."
        raise refuse("E_WORKSPACE", detail, "Start it in a UTF-8 locale, or with PYTHONUTF8=1.")
    workspace = real_directory(Path(start)) if exact else _governed(find_workspace(Path(start)))

    @cache  # made once: who looks again later, when a run has ended, must not be refused for want of room
    def shelf() -> Path:
        return workspace_directory(state_directory(os.environ, workspace), workspace)

    boot_id = _boot_id()

    @cache
    def adapters() -> Adapters:
        return _adapters()(workspace, shelf, boot_id, alone=alone)

    nothing: dict[str, Any] = {"registered": dict}  # what lint asks of those that nobody gave anything
    sources = _later(lambda: adapters().sources(tools), **({} if tools else nothing | {"close": lambda: None}))
    if tools and (taken := sources.registered().keys() & BUILT_IN.keys()):
        raise ValueError(f"two tools are called {min(taken)}")
    ports = Ports(
        ledger=LedgerAccess(
            lambda: adapters().ledger(),
            exists=lambda: ledger_of(workspace) is not None,
            empty=lambda: adapters().empty_ledger(),
            former=cache(lambda: _adapters().former_ledger(workspace)),
        ),
        workspace=DirectoryWorkspace(workspace),
        protection=_later(lambda: adapters().protection()),
        expressions=Cel,
        shell=_later(lambda: adapters().shell()),
        toolbox=_later(lambda: adapters().toolbox(), definitions=lambda: BUILT_IN),
        handlers=_later(lambda: adapters().handlers(handlers), **({} if handlers else nothing)),
        sources=sources,
        agents=LocalAgents(workspace, agents),
        doors=_later(lambda: adapters().doors()),
        clock=WallClock(boot_id),
        ids=RandomIds(),
        lock=_later(lambda: adapters().lock()),
        keyring=_later(lambda: adapters().keyring()),
        notifier=_later(lambda: adapters().notifier()),
        copies=_later(lambda: adapters().copies()),
        logs=_later(lambda: adapters().logs()),
        secrets=KnownSecrets(),
        archive=_later(lambda: adapters().archive()),
        sightings=_later(lambda: adapters().sightings()),
        notes=_later(lambda: adapters().notes()),
        stop_switch=_later(lambda: adapters().stop_switch()),
        host=_later(lambda: adapters().host()),
        sandbox=_later(lambda: adapters().sandbox()),
        models=_later(lambda: adapters().models()),
        outlines=_later(lambda: adapters().outlines()),
        templates=lambda: adapters().templates(),
        weaknesses=weaknesses(),
        pid=os.getpid(),
        boot_id=boot_id,
        terminal=terminal,
    )
    app = App(ports)

    async def go_on(*asked: Any) -> Any:
        from ordain.planner.replan import Replanner  # only a run that waits for a planner asks

        return await Replanner(app).go_on(*asked)

    app.go_on = go_on
    return app


open_at_terminal = partial(_open, terminal=True)
"""The same as `open_workspace` for a person: the command line opens it so, and only when it has a terminal."""


def make_state(workspace: str | None) -> None:
    """Make the directory where a record is kept, if need be; raises Refused where it would not be safe. For whoever
    asks a person first: better no question than an answer that cannot be kept."""
    state_directory(os.environ, Path(workspace) if workspace is not None else None)


user_rules_file = partial(user_file, os.environ)
"""The user's own configuration, where anybody says where it is."""
user_rules_confirmed = partial(is_confirmed, env=os.environ)
"""Whether a person let what its bytes open count."""
confirm_user_rules = partial(confirm, env=os.environ)
"""Let it count; a person said so."""


def open_clients(workspace: str) -> Clients:
    """The clients that may reach this workspace's MCP server over HTTP. A token is good for one workspace."""
    path = Path(workspace)
    return _adapters().clients(lambda: workspace_directory(state_directory(os.environ, path), path))


def open_upstreams(workspace: str) -> Upstreams:
    """Sessions with the servers of tools that a workspace's settings name, which are started in it."""
    return _adapters().upstreams(Path(workspace))


def has_door() -> bool:
    """Whether this process says that it belongs to an agent that carries out a step, as `open_door` finds out."""
    return bool(os.environ.get(DOOR))


def open_door() -> StepDoor:
    """The door of the step whose agent started this process, in a running event loop; raises Refused without one."""
    return _adapters().door()


def every_workspace(*, terminal: bool = False) -> list[App]:
    """Ordain over every directory that has a ledger here and is still there; `terminal` as in `open_at_terminal`."""
    found = []
    for _, opened in _adapters().ledgers():
        with suppress(Refused):  # one that is gone does not hide the others
            found.append(_open(opened.path, exact=True, alone=False, terminal=terminal))
    return found


class _Later:
    """An adapter that is made when it is first asked something that is not known before."""

    def __init__(self, make: Callable[[], object], known: Mapping[str, Callable[[], object]]) -> None:
        self._make, self._known = make, known
        self._made: Any = None

    def __getattr__(self, name: str) -> Any:
        if self._made is None:
            if name in self._known:
                return self._known[name]
            self._made = self._make()
        return getattr(self._made, name)


def _later(make: Callable[[], T], **known: Callable[[], object]) -> T:
    """`known` are the answers that need no adapter as long as there is none."""
    return cast("T", _Later(make, known))


def _adapters() -> type[Adapters]:
    from ordain.assemble.adapters import Adapters  # lint and others only look at documents

    return Adapters


def _governed(nearest: Path) -> Path:
    """The workspace that `nearest` belongs to: a directory above it where a person trusted a configuration keeps
    ruling it. Otherwise an agent could make a directory look like a workspace of its own."""
    for above in reversed(nearest.parents):
        if (path := ledger_of(above)) is not None:
            check_state_directory(state_path(os.environ))
            if _adapters().is_governing(path):
                return above
    return nearest


def _boot_id() -> str:
    with suppress(OSError):
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    return "unknown"
