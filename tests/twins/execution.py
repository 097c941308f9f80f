"""Twins of what Ordain sets to work. Time moves when a test moves it, or when everybody waits for it; commands, tools
and agents do what the script says."""

from __future__ import annotations

import asyncio
import contextlib
import heapq
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from typing import Any

from ordain.core.approval.approval import Moment
from ordain.core.plan.condition import PaneExists, PaneState, PatternMatched, PatternNotMatched
from ordain.core.plan.role import EffectClass
from ordain.core.plan.tool import BUILT_IN, HANDLER, ToolDefinition, ToolSource, handler_name
from ordain.core.plan.value import Instant
from ordain.core.policy.agent import Agent
from ordain.core.policy.sealing import RunEnvironment
from ordain.core.task.work_item import WorkItem
from ordain.core.text.secret import Secret
from ordain.ports.agent import Invocation, Said, StepServer
from ordain.ports.process import Command, Finished
from ordain.ports.tool import ToolResult, Unreached


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

    def set_forward(self, milliseconds: int) -> None:
        """Somebody corrects the clock: no time has passed meanwhile."""
        self._now += milliseconds

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
        self.tools = BUILT_IN if tools is None else tools

    def definitions(self) -> Mapping[str, ToolDefinition]:
        return self.tools

    async def call(
        self,
        tool: str,
        args: Mapping[str, Any],
        key: str,
        *,
        control: Sequence[str] = (),
        secret_files: Sequence[str] = (),
    ) -> ToolResult:
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
            case "search":
                found = [
                    f"{name}:{number}: {line.strip()}"
                    for name in sorted(self._tree(path))
                    for number, line in enumerate(self.files[name].split("\n"), 1)
                    if args["pattern"] in line
                ]
                return ToolResult(value={"matches": found, "complete": True})
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
        return [name for name in self.files if path in (".", name) or name.startswith(f"{path}/")]

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

    def register(
        self, name: str, effect: EffectClass = EffectClass.OPAQUE, *, destructive: bool = False, **declared: Any
    ) -> None:
        handler = ToolDefinition(
            name=handler_name(name),
            description=f"The custom action {name}.",
            effect=effect,
            atomic=effect is EffectClass.CHECKABLE,
            destructive=destructive,
            python=f"script:{name}",
            registered=True,
            **declared,
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


class MemoryUpstreams:
    """ports.Upstreams whose servers are functions: each is handed the messages of its session as they come, and a
    function that says something, or None when it ends."""

    def __init__(self, **servers: Callable[[dict[str, Any], Say], None]) -> None:
        self.servers = servers
        self.opened: list[tuple[str, MemoryUpstream]] = []
        self.kept: dict[str, Mapping[str, Any]] = {}

    def known(self, source: ToolSource) -> Mapping[str, Any]:
        return self.kept.get(source.mcp[0], {})

    def keep(self, source: ToolSource, said: Mapping[str, Any]) -> None:
        self.kept[source.mcp[0]] = said

    async def open(self, source: ToolSource, secret: Secret) -> MemoryUpstream:
        name = source.mcp[0]
        if name not in self.servers:
            raise Unreached("there is no such server")
        made = MemoryUpstream(self.servers[name])
        self.opened.append((name, made))
        return made


Say = Callable[[dict[str, Any] | None], None]


class MemoryUpstream:
    """ports.Upstream with a function."""

    def __init__(self, server: Callable[[dict[str, Any], Say], None]) -> None:
        self.server = server
        self._said: asyncio.Queue[dict[str, Any] | None] = asyncio.Queue()
        self.sent: list[dict[str, Any]] = []
        self.closed = False
        self.noise = ""

    def send(self, message: Mapping[str, Any]) -> None:
        if not self.closed:
            self.sent.append(dict(message))
            self.server(dict(message), self.say)

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
