"""In-memory twins of the ports: part of the product, for tests and for trying things out without touching anything.

The ledger's twin is in `memory_ledger`. Time moves only when told to, or when everybody waits for it; commands and
tools do what the script says.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import heapq
import posixpath
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

from ordain.adapters.process.shell_text import ShellText
from ordain.adapters.state import keys
from ordain.adapters.tools.toolbox import BUILT_IN
from ordain.adapters.workspace.directory import operand_path, operand_pattern
from ordain.core.approval.approval import Moment
from ordain.core.approval.signature import PublicKey, Signature
from ordain.core.guard.sighting import Sighting
from ordain.core.lint.path import written_places
from ordain.core.lint.survey import Facts, Survey
from ordain.core.plan.condition import PaneExists, PaneState, PatternMatched, PatternNotMatched
from ordain.core.plan.model import Plan
from ordain.core.plan.role import EffectClass
from ordain.core.plan.tool import HANDLER, ToolDefinition, ToolSource, handler_name
from ordain.core.plan.value import Instant, RunId
from ordain.core.policy.agent import Agent
from ordain.core.policy.loading import CACHED, LoadingRules, is_cached
from ordain.core.policy.path_use import ABSENT
from ordain.core.policy.script import Script
from ordain.core.policy.sealing import RunEnvironment
from ordain.core.policy.settings import Settings, UserSettings
from ordain.core.policy.stop import StopOrder
from ordain.core.run.event import ProtectedFile
from ordain.core.task.work_item import WorkItem
from ordain.core.text.control import folded
from ordain.core.text.path import handed_fault, is_kept, path_fault, pattern_fault
from ordain.core.text.pattern import PathPattern, normal
from ordain.core.text.problem import refuse
from ordain.core.text.secret import Secret
from ordain.ports.ports import (
    Behind,
    Command,
    Credential,
    Finished,
    Holder,
    Invocation,
    Said,
    Saved,
    StepServer,
    ToolResult,
    Unreached,
)


class ManualClock:
    """ports.Clock whose time stands still until someone sleeps; then it jumps to the earliest instant waited for."""

    def __init__(self, now: int = 1_800_000_000_000) -> None:
        self._now = now
        self.boot_id = "boot-1"
        self.elapsed_ms = 1_000_000
        """Since that boot; moves with time, but is not set back with it."""
        self._sleepers: list[tuple[int, int, asyncio.Event]] = []
        self._count = 0

    def now(self) -> Instant:
        return Instant(self._now)

    def moment(self) -> Moment:
        return Moment(at=self.now(), boot_id=self.boot_id, elapsed_ms=self.elapsed_ms)

    def advance(self, milliseconds: int) -> None:
        """Move time; backwards too, as real clocks do."""
        self._now += milliseconds
        self.elapsed_ms += max(milliseconds, 0)
        while self._sleepers and self._sleepers[0][0] <= self._now:
            heapq.heappop(self._sleepers)[2].set()

    async def sleep_until(self, instant: Instant) -> None:
        if instant <= self._now:
            return
        bell = asyncio.Event()
        self._count += 1
        heapq.heappush(self._sleepers, (instant, self._count, bell))
        while not bell.is_set():
            # Let everybody who can still do something do it, and whoever was woken meanwhile; then jump to the
            # earliest alarm.
            before = self._now
            for _ in range(20):
                await asyncio.sleep(0)
            if not bell.is_set() and self._now == before:
                self.advance(self._sleepers[0][0] - self._now)


class CountingIds:
    """ports.Ids that count, so that every test names the same things."""

    def __init__(self) -> None:
        self._count = 0

    def mint(self, prefix: str) -> str:
        self._count += 1
        return f"{prefix}{self._count:04d}"


class ScriptedShell:
    """ports.Shell whose commands are looked up in a script: text → exit status, Finished, or a coroutine function.

    Unknown commands exit with 0. `calls` lists every command in the order begun.
    """

    def __init__(self, script: Mapping[str, int | Finished | Callable[[Command], Awaitable[Finished]]] | None = None):
        self.script = dict(script or {})
        self.calls: list[Command] = []
        self.swept: list[str] = []
        self.given: Mapping[str, str] = {}
        self.programs: Mapping[str, str] = {}
        self.so_far: dict[str, bytes] = {}
        """What commands under way have written, by their marks."""

    async def run(self, command: Command) -> Finished:
        self.calls.append(command)
        await asyncio.sleep(0)
        answer = self.script.get(command.text, 0)
        if isinstance(answer, int):
            return Finished(duration_ms=1, exit_code=answer)
        return answer if isinstance(answer, Finished) else await answer(command)

    def written(self, mark: str, most: int) -> tuple[bytes, int]:
        written = self.so_far.get(mark, b"")
        return written[max(0, len(written) - most) :], len(written)

    def sweep(self, mark_prefix: str, *, again: bool = False) -> int:
        self.swept.append(mark_prefix)
        return 0

    def environment(self, names: Sequence[str]) -> dict[str, str]:
        return {name: self.given[name] for name in names if name in self.given}

    def sealed(self, given: RunEnvironment) -> ScriptedShell:
        self.given = given.variables
        return self


class ScriptedToolbox:
    """ports.Toolbox with the built-in definitions over a dictionary of files, and over one of answers to requests."""

    def __init__(self, tools: Mapping[str, ToolDefinition] | None = None) -> None:
        self.files: dict[str, str] = {}
        self.answers: dict[str, ToolResult] = {}
        """By method and address, as in `GET http://host/`."""
        self.calls: list[tuple[str, Mapping[str, Any]]] = []
        self._tools = BUILT_IN if tools is None else tools

    def definitions(self) -> Mapping[str, ToolDefinition]:
        return self._tools

    async def call(self, tool: str, args: Mapping[str, Any], key: str, *, control: Sequence[str] = ()) -> ToolResult:
        self.calls.append((tool, args))
        await asyncio.sleep(0)
        path = args.get("path", ".")
        match tool:
            case "write_file":
                self.files[path] = args["content"]
                return ToolResult()
            case "edit_file":
                if self.files.get(path, "").count(args["old"]) != 1:
                    return ToolResult(error="F_STEP_FAILED", detail=f"{path}: the text to replace is not there once")
                self.files[path] = self.files[path].replace(args["old"], args["new"])
                return ToolResult()
            case "read_file" if path in self.files:
                return ToolResult(value=self.files[path])
            case "list_files":
                return ToolResult(value=sorted(self.files))
            case "make_dir":
                return ToolResult()
            case "move" if self._tree(path) and (args.get("overwrite") or not self._tree(args["to"])):
                for name in self._tree(path):
                    self.files[args["to"] + name.removeprefix(path)] = self.files.pop(name)
                return ToolResult()
            case "delete" if path in self.files or (args.get("recursive") and self._tree(path)):
                for name in self._tree(path):
                    del self.files[name]
                return ToolResult()
            case "http_request" if (sent := f"{args.get('method', 'GET')} {args['url']}") in self.answers:
                return self.answers[sent]
            case _:
                return ToolResult(error="F_STEP_FAILED", detail=f"{tool} cannot do that to {path}")

    def _tree(self, path: str) -> list[str]:
        """The file of this name, or those beneath the directory of this name."""
        return [name for name in self.files if name == path or name.startswith(f"{path}/")]

    async def operand(self, tool: str, args: Mapping[str, Any]) -> str | None:
        if tool == "http_request":
            return None
        paths = [args[name] for name in ("path", "to") if name in args]
        return repr([[(name, self.files[name]) for name in self._tree(path)] for path in paths])


class ScriptedHandlers:
    """ports.Handlers that give what the script says, by the type of the action; `calls` lists every call."""

    def __init__(self) -> None:
        self.definitions: dict[str, ToolDefinition] = {}
        self.script: dict[str, ToolResult | Callable[[Any], Awaitable[ToolResult]]] = {}
        self.calls: list[tuple[str, Any, str]] = []

    def register(self, name: str, effect: EffectClass = EffectClass.OPAQUE, *, destructive: bool = False) -> None:
        handler = ToolDefinition(
            name=handler_name(name),
            description=f"The custom action {name}.",
            effect=effect,
            atomic=effect is EffectClass.CHECKABLE,
            destructive=destructive,
            python=f"script:{name}",
            registered=True,
        )
        self.definitions[handler.name] = handler

    def registered(self) -> Mapping[str, ToolDefinition]:
        return self.definitions

    async def call(self, handler: ToolDefinition, payload: Any, key: str) -> ToolResult:
        name = handler.name.removeprefix(HANDLER)
        self.calls.append((name, payload, key))
        await asyncio.sleep(0)
        answer = self.script.get(name, ToolResult())
        return answer if isinstance(answer, ToolResult) else await answer(payload)


class MemoryDoors:
    """ports.Doors that nobody has to go through: what is behind the last one is at hand, until it is shut."""

    def __init__(self) -> None:
        self.behind: Behind | None = None

    def fault(self) -> str | None:
        return None

    @contextlib.asynccontextmanager
    async def open(self, room: str, behind: Behind) -> AsyncIterator[StepServer]:
        self.behind = behind
        try:
            yield StepServer(argv=("door",), env={"DOOR": room})
        finally:
            self.behind = None


class ScriptedAgents:
    """ports.Agents that start nothing: a script says what each gives, by its name; `items` lists every work item."""

    def __init__(self) -> None:
        self.script: dict[str, ToolResult | Callable[[WorkItem], Awaitable[ToolResult]]] = {}
        self.items: list[WorkItem] = []

    def registered(self) -> Mapping[str, Agent]:
        return {name: Agent(python=f"script:{name}", registered=True) for name in self.script}

    def sealed(self, given: RunEnvironment) -> ScriptedAgents:
        return self

    def fault(self, agent: Agent) -> str | None:
        return None

    def room(self) -> contextlib.AbstractContextManager[str]:
        return contextlib.nullcontext("/room")

    def invocation(
        self, agent: Agent, item: WorkItem, room: str, server: StepServer | None, *, sandboxed: bool = False
    ) -> Invocation:
        self.items.append(item)
        return Invocation(
            argv=agent.command, stdin=item.prompt.encode(), read=lambda finished: Said(text=finished.output)
        )

    async def call(self, agent: Agent, item: WorkItem) -> ToolResult:
        self.items.append(item)
        await asyncio.sleep(0)
        answer = self.script[item.agent]
        return answer if isinstance(answer, ToolResult) else await answer(item)


class MemoryWorkspace:
    """ports.Workspace made of values; change them to change the surroundings."""

    def __init__(self) -> None:
        self.place = ("/workspace", 1, 1)
        self.configuration_text: bytes | None = None
        self.documents: dict[str, bytes] = {}
        self.head: str | None = None
        self.shell_faults: dict[str, str] = {}
        self._shell_text = ShellText()

    def identity(self) -> tuple[str, int, int]:
        return self.place

    def configuration(self) -> bytes | None:
        return self.configuration_text

    def document(self, path: str) -> bytes | None:
        return self.documents.get(path)

    def files(self, pattern: str) -> tuple[str, ...]:
        wanted = normal(pattern) if pattern_fault(pattern) is None else ""
        found = PathPattern(wanted)
        return tuple(sorted(name for name in self.documents if found.matches(name)))

    def beginning(self, path: str, limit: int, secret_files: Sequence[str]) -> tuple[bytes, int]:
        data = self.documents.get(path)
        if data is None:
            raise refuse("F_READ_MISSING", f"`{path}` is not there")
        return data[:limit], len(data)

    def withheld(self, path: str, secret_files: Sequence[str], *, deep: bool) -> str | None:
        names = (name for name in self.documents if deep and name.startswith(f"{path}/"))
        fault = next((name for name in names if handed_fault(name, touched=True) is not None), None)
        return f"holds `{fault}`, which is not for agents" if fault is not None else None

    def digests(self, paths: Sequence[str], patterns: Sequence[str]) -> dict[str, str]:
        names = {path for given in paths if (path := operand_path(given)) is not None}
        wanted = [PathPattern(text) for given in patterns if (text := operand_pattern(given)) is not None]
        files = [name for name in self.documents if path_fault(name) is None and not is_kept(name)]
        names.update(name for name in files if any(pattern.matches(folded(name)) for pattern in wanted))
        return {name: self._digest(name) for name in sorted(names)}

    def contents(self, paths: Collection[str], patterns: Collection[str]) -> dict[str, str]:
        names = {*paths, *self.digests((), tuple(patterns))}
        return {path: what for path in sorted(names) if (what := self._digest(path)) != ABSENT}

    def real_path(self, path: str) -> str:
        return posixpath.normpath(path) if path else ""

    def scripts(self, texts: Iterable[str]) -> dict[str, Script]:
        return self._shell_text.scripts(texts)

    def _digest(self, path: str) -> str:
        if path in self.documents:
            return f"sha256:{hashlib.sha256(self.documents[path]).hexdigest()}"
        return "directory" if any(name.startswith(f"{path}/") for name in self.documents) else ABSENT

    def git_head(self) -> str | None:
        return self.head

    def facts(
        self, plan: Plan, tools: Mapping[str, ToolDefinition], settings: Settings, workspace_id: str | None
    ) -> Facts:
        written = written_places(Survey(plan), Facts(tools=tools))
        return Facts(
            tools=tools,
            settings=settings,
            shell_faults=self.shell_faults,
            new_writes=frozenset(path for path in written if path and self._digest(path) == ABSENT),
            workspace_id=workspace_id,
        )


def _outer(path: str) -> str:
    return path.rpartition("/")[0]


class MemoryProtection:
    """ports.Protection of the documents of a workspace made of values; all of them have one mode."""

    MODE = 0o644

    def __init__(self, workspace: MemoryWorkspace) -> None:
        self._workspace = workspace
        self.files_max = 1000

    async def save(self, patterns: Sequence[str], known: Collection[str]) -> dict[str, Saved]:
        found = self._workspace.digests((), patterns)
        if len(found) > self.files_max:
            raise refuse("E_PROTECT", f"The patterns mean {len(found)} files; {self.files_max} can be protected.")
        documents = self._workspace.documents
        kept = (path for path in found if path not in known and not is_cached(path))
        return {path: Saved(content=documents[path], mode=self.MODE) for path in kept}

    async def beside(self, patterns: Sequence[str], protected: Collection[str]) -> set[str]:
        documents = self._workspace.documents
        loading = LoadingRules(protected, documents, sys.stdlib_module_names)
        near = [path for path in documents if _outer(path) in loading.places or _outer(_outer(path)) in loading.places]
        found = {*self._workspace.digests((), patterns), *(path for path in near if loading.changes(path))}
        found |= {path for path in documents if loading.is_python and f"/{path}".endswith("/conftest.py")}
        return {path for path in found if not is_cached(path)}

    async def set_aside(self, paths: Collection[str]) -> None:
        for path in paths:
            self._workspace.documents.pop(path, None)

    async def drop_caches(self, protected: Collection[str]) -> None:
        places = LoadingRules(protected).places
        for path in [path for path in self._workspace.documents if f"/{CACHED}/" in f"/{path}"]:
            if f"/{path}".partition(f"/{CACHED}/")[0].lstrip("/") in places:
                del self._workspace.documents[path]

    async def changed(self, files: Mapping[str, ProtectedFile], seal: Callable[[bytes], str]) -> dict[str, str]:
        documents = self._workspace.documents
        became = {path: "has changed" if path in documents else "is gone" for path in sorted(files)}
        return {
            path: what
            for path, what in became.items()
            if path not in documents or seal(documents[path]) != files[path].seal
        }

    async def restore(self, files: Mapping[str, Saved]) -> None:
        self._workspace.documents.update({path: saved.content for path, saved in files.items()})


class MemoryPanes:
    """ports.Panes that are whatever it is told they are."""

    def __init__(self) -> None:
        self.agents: dict[int, str] = {}
        """The panes there are, by id, and the agent that lives in each."""
        self.domains: dict[int, str] = {}
        self.matching: set[tuple[str, int | None]] = set()
        """The rules that match what is shown in a pane; None stands for any."""

    def fault(self, condition: PaneExists | PaneState | PatternMatched | PatternNotMatched) -> str | None:
        match condition:
            case PatternMatched(rule_id=rule, pane_id=pane):
                return None if (rule, pane) in self.matching else f"the rule `{rule}` does not match"
            case PatternNotMatched(rule_id=rule, pane_id=pane):
                return f"the rule `{rule}` matches" if (rule, pane) in self.matching else None
            case _ if condition.pane_id not in self.agents:
                return f"there is no pane {condition.pane_id}"
            case PaneState(pane_id=pane, expected_agent=agent) if agent not in (None, self.agents[pane]):
                return f"{self.agents[pane]} lives in pane {pane}, and not {agent}"
            case PaneState(pane_id=pane, expected_domain=domain) if domain not in (None, self.domains.get(pane)):
                return f"pane {pane} is not in the domain {domain}"
            case _:
                return None


class MemoryKeyring:
    """ports.Keyring whose keys are kept in a dictionary; signatures are real ones."""

    def __init__(self) -> None:
        self._kept: dict[str, tuple[bytes, str]] = {}

    def create(self, credential: Credential) -> PublicKey:
        if credential.name in self._kept:
            raise refuse("E_APPROVER", f"There is a key of {credential.name} already.")
        seed = hashlib.sha256(credential.name.encode()).digest()
        self._kept[credential.name] = (seed, credential.passphrase)
        return keys.public_half(seed)

    def public_key(self, name: str) -> PublicKey | None:
        return keys.public_half(self._kept[name][0]) if name in self._kept else None

    def sign(self, credential: Credential, statement: bytes) -> Signature | None:
        seed, passphrase = self._kept[credential.name]
        return keys.signed(seed, statement) if passphrase == credential.passphrase else None

    def verify(self, key: PublicKey, signature: Signature, statement: bytes) -> bool:
        return keys.verify(key, signature, statement)


class MemorySightings:
    """ports.Sightings that remembers them."""

    def __init__(self) -> None:
        self.noted: list[Sighting] = []

    def note(self, sightings: Sequence[Sighting]) -> None:
        self.noted.extend(sightings)

    def since(self, at: Instant) -> Iterator[Sighting]:
        return (one for one in self.noted if one.at >= at)

    def incomplete(self, at: Instant) -> bool:
        return False


class MemoryUpstreams:
    """ports.Upstreams whose servers are functions: each is handed the messages of its session as they come, and a
    function that says something, or None when it ends."""

    def __init__(self, **servers: Callable[[dict[str, Any], Say], None]) -> None:
        self._servers = servers
        self.opened: list[tuple[str, MemoryUpstream]] = []
        self.kept: dict[str, Mapping[str, Any]] = {}

    def known(self, source: ToolSource) -> Mapping[str, Any]:
        return self.kept.get(source.mcp[0], {})

    def keep(self, source: ToolSource, said: Mapping[str, Any]) -> None:
        self.kept[source.mcp[0]] = said

    async def open(self, source: ToolSource, secret: Secret) -> MemoryUpstream:
        name = source.mcp[0]
        if name not in self._servers:
            raise Unreached("there is no such server")
        made = MemoryUpstream(self._servers[name])
        self.opened.append((name, made))
        return made


Say = Callable[[dict[str, Any] | None], None]


class MemoryUpstream:
    """ports.Upstream with a function."""

    def __init__(self, server: Callable[[dict[str, Any], Say], None]) -> None:
        self._server = server
        self._said: asyncio.Queue[dict[str, Any] | None] = asyncio.Queue()
        self.sent: list[dict[str, Any]] = []
        self.closed = False
        self.noise = ""

    def send(self, message: Mapping[str, Any]) -> None:
        if not self.closed:
            self.sent.append(dict(message))
            self._server(dict(message), self.say)

    def say(self, message: dict[str, Any] | None) -> None:
        self._said.put_nowait(message)

    async def messages(self) -> AsyncIterator[dict[str, Any]]:
        while (message := await self._said.get()) is not None:
            yield message
        self.closed = True

    async def close(self) -> None:
        self.closed = True
        self.say(None)


class ToldNotifier:
    """ports.Notifier that remembers what it was told."""

    def __init__(self) -> None:
        self.told: list[tuple[tuple[str, ...], bytes]] = []

    def tell(self, command: Sequence[str], message: bytes) -> None:
        self.told.append((tuple(command), message))


class MemoryCopies:
    """ports.Copies into the documents of a workspace made of values."""

    def __init__(self, workspace: MemoryWorkspace) -> None:
        self._documents = workspace.documents

    def put(self, path: str, data: bytes) -> bool:
        self._documents[path] = data
        return True

    def remove(self, path: str) -> None:
        self._documents.pop(path, None)


class MemoryStepLogs:
    """ports.StepLogs in a dictionary; `full` stands for a disk on which nothing more can be written."""

    def __init__(self) -> None:
        self.logs: dict[str, bytes] = {}
        self.full = False
        self.refused = 0

    def write(self, run_id: str, at: int, lines: bytes) -> bool:
        there = self.logs.get(run_id, b"")
        if self.full or at > len(there):
            self.refused += 1
            return False
        self.logs[run_id] = there[:at] + lines
        return True

    def read(self, run_id: str, start: int) -> tuple[bytes, int]:
        there = self.logs.get(run_id, b"")
        return there[start:], len(there)


class MemoryHost:
    """ports.Host that is whatever it is told to be."""

    def __init__(self) -> None:
        self.user = UserSettings()

        self.values: dict[str, str] = {}
        self.found: dict[str, str] = {"bash": "/bin/bash", "bwrap": "/bin/bwrap"}

    def user_settings(self) -> UserSettings:
        return self.user

    def variables(self, names: Iterable[str]) -> dict[str, str]:
        return {name: self.values[name] for name in names if name in self.values}

    def programs(self, names: Iterable[str]) -> dict[str, str]:
        return {name: self.found[name] for name in names if name in self.found}

    def look_at(self, directory: str) -> tuple[str, bool]:
        return directory, False

    def home(self) -> str | None:
        return "/home/kim"


class MemorySecrets:
    """ports.Secrets that are whatever it is told they are."""

    def __init__(self) -> None:
        self.values: dict[str, str] = {}

    def known(self, patterns: Sequence[str], files: Sequence[str]) -> tuple[Mapping[str, str], Sequence[str]]:
        return self.values, ()


class MemoryStopSwitch:
    """ports.StopSwitch inside one process; `at_work` are runs that somebody carries out."""

    def __init__(self) -> None:
        self.stops: list[StopOrder] = []
        self.at_work: list[RunId] = []

    def read(self) -> tuple[StopOrder, ...]:
        return tuple(sorted(self.stops, key=lambda stop: not stop.everywhere))

    def turn_on(self, stop: StopOrder) -> None:
        if all(one.everywhere != stop.everywhere for one in self.stops):
            self.stops.append(stop)

    def turn_off(self, stop: StopOrder) -> None:
        self.stops = [one for one in self.stops if one.everywhere != stop.everywhere]

    def end_runs(self, *, everywhere: bool) -> tuple[tuple[RunId, ...], tuple[RunId, ...]]:
        ended, self.at_work = tuple(self.at_work), []
        return ended, ()


class MemoryWriterLock:
    """ports.WriterLock inside one process; `others` stand for other processes that have claimed something, and with it
    a place."""

    def __init__(self) -> None:
        self.others: dict[str, Holder] = {}
        self.ended: list[str] = []
        self._claimed: set[str] = set()
        self._places = 0

    @contextlib.contextmanager
    def claim(self, what: str) -> Iterator[None]:
        if what in self._claimed or what in self.others:
            raise refuse("E_RUN_BUSY", f"Another process is at work on {what} just now.")
        self._claimed.add(what)
        try:
            yield
        finally:
            self._claimed.discard(what)

    @contextlib.contextmanager
    def place(self, holder: str, places: int) -> Iterator[None]:
        if self._places + len(self.others) >= places:
            others = ", ".join(self.others) or "ourselves"
            raise refuse("E_WORKSPACE_BUSY", f"Another ordain process is at work in this workspace: {others}.")
        self._places += 1
        try:
            yield
        finally:
            self._places -= 1

    def beat(self) -> None:
        pass

    def holder(self, what: str) -> Holder | None:
        return self.others.get(what)

    def end(self, what: str, holder: Holder) -> bool:
        self.ended.append(what)
        self.others.pop(what, None)
        return True
