"""What the outside must provide, as small protocols. Each has a real adapter and an in-memory twin.

Ports speak core's types only. A port never decides: it stores, performs, tells the time, and reports what it saw.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AbstractContextManager
from pathlib import Path
from typing import Any, Protocol, Self

import msgspec

from ordain.core.approval.approval import Moment
from ordain.core.approval.signature import PublicKey, Signature
from ordain.core.guard.sighting import Sighting
from ordain.core.ledger.chain import Entry
from ordain.core.ledger.link import Tip
from ordain.core.ledger.summary import PlanSummary
from ordain.core.lint.survey import Facts
from ordain.core.plan.condition import PaneExists, PaneState, PatternMatched, PatternNotMatched
from ordain.core.plan.model import Plan
from ordain.core.plan.tool import ToolDefinition, ToolSource
from ordain.core.plan.value import Instant, RunId
from ordain.core.policy.agent import Agent
from ordain.core.policy.script import Script
from ordain.core.policy.sealing import RunEnvironment
from ordain.core.policy.settings import Settings, UserSettings
from ordain.core.policy.stop import StopOrder
from ordain.core.policy.tier import SandboxLimits
from ordain.core.report.report import Told
from ordain.core.run.event import Event, Recorded
from ordain.core.run.step_event import ProtectedFile, Usage
from ordain.core.task.offer import CallAnswer, Offer
from ordain.core.task.work_item import WorkItem
from ordain.core.text.secret import Secret

PART_BYTES = 1 << 20
"""How much of something long is held in memory at a time."""


class Whole(msgspec.Struct, frozen=True, kw_only=True):
    """All of an output that is longer than the end of it that is at hand."""

    size: int
    sha256: bytes
    parts: Callable[[], Iterator[bytes]] | None = None
    """Its bytes, from the beginning; None where they are too many, or there was no room for them."""


class Artifact(msgspec.Struct, frozen=True, kw_only=True):
    """An output to keep whole, under its name (`core.artifact`)."""

    seal: str
    size: int
    parts: Callable[[], Iterator[bytes]]


class Append(msgspec.Struct, frozen=True, kw_only=True):
    """Events to add to one stream, if it still has the size the caller saw.

    `epoch` fences: when given, the append is refused unless it is the stream's newest epoch. An append whose
    `new_epoch` is given raises the stream's epoch to that value.
    """

    stream: str
    expected: int
    events: tuple[Event, ...]
    epoch: int | None = None
    new_epoch: int | None = None
    keeps: tuple[bytes, ...] = ()
    """Exact bytes to keep beside the chain, recorded together with the events that name their seals."""
    artifacts: tuple[Artifact, ...] = ()
    """The same of what is too long to be held in memory."""


class Ledger(Protocol):
    """Append-only, hash-chained streams of events. What `append` returned is on disk for good."""

    async def append(self, at: Instant, *appends: Append) -> tuple[Recorded, ...]:
        """Add to all these streams or to none, durably.

        Raises `Refused` with E_LEDGER_CONFLICT when a stream has another size than expected, E_FENCED when a newer
        executor has taken over, E_LEDGER_IO when the disk refuses; nothing is written then.
        """
        ...

    def read(self, stream: str, after: int = 0) -> Sequence[Recorded]:
        """The events of a stream with a sequence number above `after`, in order. Unknown streams are empty."""
        ...

    def let_go(self) -> None:
        """Close it where it was only looked at, and nobody can wait."""
        ...

    def size(self, stream: str) -> int:
        """How many events a stream has, without reading them. Nothing is verified."""
        ...

    async def grown(self, stream: str, size: int) -> None:
        """Return once the stream has more events than this, whoever recorded them."""
        ...

    def streams(self, prefix: str) -> Sequence[str]:
        """The names of the streams that begin with this prefix, oldest first."""
        ...

    def lookup(self, id_prefix: str) -> Sequence[tuple[str, str]]:
        """(id, stream) for every named id (`plan:…`, `RUN-…`) that begins with this prefix, at most 10."""
        ...

    def plans(
        self, *, open_only: bool = False, document: str | None = None, newest: int | None = None
    ) -> Sequence[PlanSummary]:
        """What is kept about each lineage for quick looking, oldest first; `newest` keeps those opened last."""
        ...

    def plan_count(self) -> int:
        """How many lineages there are."""
        ...

    def checkpoint(self) -> Tip:
        """How many events the ledger has, and one digest over all of them in order of arrival."""
        ...

    def everything(self) -> Iterator[Entry]:
        """Every event that is there now, in order of arrival, as it is stored: for verification and for copies."""
        ...

    def rebuild(self) -> int:
        """Throw everything that is a projection away and fold it again; returns how many events there are.

        Raises `Refused` with E_LEDGER_BROKEN when a chain is not whole; nothing was changed then.
        """
        ...

    def seal(self, body: bytes) -> str:
        """What commits to these bytes without giving them away: a keyed hash, whose key stays with the ledger."""
        ...

    def kept(self, seal: str) -> bytes | None:
        """The bytes that were kept under this seal, if they are there.

        Raises `Refused` with E_LEDGER_BROKEN when they are not the ones that were sealed.
        """
        ...

    def has_room(self, size: int) -> bool:
        """Whether artifacts of this size in all could be kept and leave room for what must be recorded."""
        ...

    def artifact(self, seal: str) -> Iterator[bytes] | None:
        """The artifact of this name from its beginning, part by part, if it is there.

        Raises `Refused` with E_LEDGER_BROKEN, before it hands anything out, when it is not what was sealed.
        """
        ...

    async def close(self) -> None: ...


class Archive(Protocol):
    """Copies of one workspace's ledger."""

    def export(self, ledger: Ledger) -> Iterator[bytes]:
        """The events as lines of JSON; nothing that is kept beside them."""
        ...

    def backup(self, target: Path, *, outputs: bool = True) -> Tip:
        """Copy the ledger to a new file, verified before it has its name; what the copy adds up to. Without `outputs`
        nothing that is kept beside the events is in it."""
        ...

    def draft(self, source: Path) -> tuple[Tip, Ledger]:
        """A ledger made from a copy, verified first, that is nobody's yet, and what the copy added up to; raises
        Refused where there is a ledger already."""
        ...

    def place(self) -> None:
        """Let the draft, once it is closed, be the ledger."""
        ...


class Command(msgspec.Struct, frozen=True, kw_only=True):
    """A bash command to run in the workspace with exactly this environment, marked so that it can be found again."""

    text: str
    env: Mapping[str, str]
    timeout_ms: int
    mark: str
    errors_apart: bool = False
    """Whether what it writes to standard error is kept apart from its output."""
    argv: tuple[str, ...] = ()
    """A program and its arguments, to be run without a shell; the text is then only how a person would type it."""
    whole: bool = False
    """Whether all of a long output is wanted, and not only its end."""
    stdin: bytes = b""
    """What it reads from its standard input, which ends after that."""
    reports: bool = False
    """Whether it may report what it uses: it is given the name of a file for that, in the variable `ORDAIN_USAGE`."""
    writes: tuple[str, ...] | None = None
    """What of the workspace it may change, as patterns that `core.sandbox` knows; None: all of it. Held at tier 1."""
    network: bool = False
    """Whether it has the network. Held at tier 1."""
    sees: tuple[str, ...] = ()
    """Directories and files besides that it can read at tier 1, where it could not otherwise."""
    home: tuple[str, ...] = ()
    """Files of the home directory, written from `~/`, of which it has a copy in its own at tier 1."""
    changes: tuple[str, ...] = ()
    """Directories besides that it can change at tier 1: of its room."""
    directory: str = ""
    """Where it is started, where that is not the workspace."""
    apart: bool = False
    """Whether it is started in an empty directory of its own, and `{workspace}` in its words means the workspace."""
    found_outside: bool = False
    """Whether its program is looked for nowhere in the workspace."""


class Finished(msgspec.Struct, frozen=True, kw_only=True):
    """What was seen of a process. Exactly one of `exit_code`, `signal` and `fault` is set, unless it timed out."""

    duration_ms: int
    exit_code: int | None = None
    signal: int | None = None
    timed_out: bool = False
    still_there: str | None = None
    """Why one that timed out could not be ended."""
    fault: str | None = None
    """Why it could not be started."""
    output: bytes = b""
    """The end of what it wrote, exactly: all of it up to a bound."""
    errors: bytes = b""
    """The same of standard error, where that was to be kept apart; it is in `output` otherwise."""
    output_bytes: int = 0
    """How much it wrote in all, but for what is kept apart."""
    errors_bytes: int = 0
    whole: Whole | None = None
    """All of it, where that was wanted and `output` is only its end."""
    leftovers: int = 0
    reported: bytes = b""
    """What it wrote to the file for what it uses, up to a bound."""
    control: tuple[str, ...] = ()
    """What is said of the control files that it made or changed in a sandbox, and that were set aside."""


class Sealable(Protocol):
    """What starts programs for a run."""

    def sealed(self, given: RunEnvironment) -> Self:
        """The same, with these variables and programs and no others, whatever the environment says."""
        ...


class Shell(Sealable, Protocol):
    """Runs commands, each in its own session, and ends what it started with it, as far as it can be found."""

    async def run(self, command: Command) -> Finished:
        """Run to the end or to the timeout. When cancelled, kills everything it started first."""
        ...

    def written(self, mark: str, most: int) -> tuple[bytes, int]:
        """The last bytes, at most so many, that the command under way with this mark has written so far, and how many
        it has written in all; nothing where there is no such command."""
        ...

    def sweep(self, mark_prefix: str, *, again: bool = False) -> int:
        """Kill every process whose mark begins so (left by an executor that died) with all that it started; how many.

        `again` looks a second time, a moment later: what the dead one was starting bears its mark only then.
        """
        ...

    def environment(self, names: Sequence[str]) -> dict[str, str]:
        """The values of these variables, as far as they are set."""
        ...


class Host(Protocol):
    """What the machine and its user give to Ordain itself, whatever a workspace says."""

    def user_settings(self) -> UserSettings:
        """The user's own settings; raises Refused where their file cannot be believed."""
        ...

    def variables(self, names: Iterable[str]) -> dict[str, str]:
        """The values of these variables of the environment, as far as they are set."""
        ...

    def programs(self, names: Iterable[str], *, own: bool = False) -> dict[str, str]:
        """Where these programs are, as far as they are installed, whatever PATH says; with `own`, whatever any variable
        says. Raises Refused as above."""
        ...

    def look_at(self, directory: str) -> tuple[str, bool]:
        """Where a directory really is, and whether others can write there."""
        ...

    def home(self) -> str | None:
        """The home of this account, whatever the environment says."""
        ...


class Sandbox(Protocol):
    """Where commands run at trust tier 1, held to what they may reach."""

    def fault(self) -> str | None:
        """Why nothing can be held to anything here; None where it can."""
        ...

    def unseen(self, limits: SandboxLimits, argv: Sequence[str], names: Sequence[str]) -> str | None:
        """Why a program, handed the variables of these names, cannot be started in it, though it is there; None where
        it can, as far as can be told."""
        ...

    def shell(self, limits: SandboxLimits) -> Shell:
        """What runs commands in it, each within these limits."""
        ...


class ToolResult(msgspec.Struct, frozen=True, kw_only=True):
    """What a tool gave back: a value or bytes, or a problem's code and detail."""

    value: Any = None
    error: str | None = None
    detail: str = ""
    output: bytes | None = None
    """In place of a value: the end of the bytes that came, exactly, also where it went badly."""
    output_bytes: int = 0
    """How many came in all."""
    whole: Whole | None = None
    """All of them, where `output` is only their end."""
    used: Usage | None = None
    """What the tool reports that it used; nobody measures that."""


class Toolbox(Protocol):
    """The registered tools. Those that are commands are among them, but the shell runs them (`core.command`)."""

    def definitions(self) -> Mapping[str, ToolDefinition]: ...

    async def call(self, tool: str, args: Mapping[str, Any], key: str, *, control: Sequence[str] = ()) -> ToolResult:
        """Call a tool with its step key. A failure is a result; an exception is a bug. `control` are the patterns of
        control files that the settings add.

        When cancelled, either nothing goes on afterwards, or the call is finished and its result returned.
        """
        ...

    async def operand(self, tool: str, args: Mapping[str, Any]) -> str | None:
        """A digest of what this call would change, as it is now; None where that cannot be told."""
        ...


class Handlers(Protocol):
    """Custom actions that are Python callables. Those that are commands the shell runs."""

    def registered(self) -> Mapping[str, ToolDefinition]:
        """The handlers that the program which uses us has registered, by their names among the tools."""
        ...

    async def call(self, handler: ToolDefinition, payload: Any, key: str) -> ToolResult:
        """Call a handler with the step key. Whatever goes wrong is a result: what it raises, what cannot be found.

        When cancelled, either nothing goes on afterwards, or the call is finished and its result returned.
        """
        ...


class Lost(Exception):
    """Nobody can tell any more whether a call happened: what was to answer it is gone. In words, why."""


class Sources(Sealable, Protocol):
    """Tools that are not built in: what the program which uses us hands over, and what the configuration names."""

    def registered(self) -> Mapping[str, ToolDefinition]:
        """The tools that the program which uses us has handed over, by their names."""
        ...

    def definitions(self, name: str, source: ToolSource, secret: Secret) -> Mapping[str, ToolDefinition]:
        """The tool that a source is, or the operations it has, by their names among the tools; asked for once and kept.

        Raises `Refused` with E_TOOL_SOURCE where they cannot be had.
        """
        ...

    def asked(
        self, sources: Mapping[str, ToolSource], secret: Secret, given: RunEnvironment | None
    ) -> AbstractContextManager[None]:
        """Ask these now, with the variables that were sealed for a run, or our own. Until the end of this nobody asks
        them again: `definitions` repeats what they said, also where they cannot be had."""
        ...

    def code_fault(self, source: ToolSource) -> tuple[str, ...]:
        """Why what a source runs is not what a person could trust: it would be found in the workspace, or is not what
        `files` says. Then what helps. Nothing where it can be trusted; nothing is started or imported."""
        ...

    def lost_words(self, argv: Sequence[str]) -> Sequence[str]:
        """The words of a command that name something in the workspace, where it is not started."""
        ...

    async def call(self, tool: ToolDefinition, args: Mapping[str, Any], key: str, secret: Secret) -> ToolResult:
        """Call a tool with the step key, where it still is what this definition says. Whatever goes wrong is a result;
        raises `Lost` where whoever was asked is gone and did not answer.

        When cancelled, either nothing goes on afterwards here, or the call is finished and its result returned.
        """
        ...

    def said(self, key: str) -> str:
        """How far the call with this step key says that it has come, in words; nothing where it says nothing."""
        ...

    def close(self) -> None:
        """End whatever was started to ask or to call."""
        ...


class Unreached(Exception):
    """A server cannot be started or reached. In words, why, as the end of a sentence."""


class Upstream(Protocol):
    """One session with a server of tools, in its own words: messages of the protocol go and come as they stand."""

    noise: str
    """The beginning of the first line that it wrote and that is no message; empty where there was none."""

    def send(self, message: Mapping[str, Any]) -> None:
        """Hand over a message without waiting. What cannot be delivered is lost; `messages` ends then, or soon."""
        ...

    def messages(self) -> AsyncIterator[dict[str, Any]]:
        """What the server says, until it will say nothing more. Taken by one reader, once."""
        ...

    async def close(self) -> None:
        """End the session, and a server that was started for it with everything it started."""
        ...


class Upstreams(Protocol):
    """Sessions with the servers that the configuration names."""

    async def open(self, source: ToolSource, secret: Secret) -> Upstream:
        """Begin a session with the server of a source, which must be one; raises Unreached."""
        ...

    def known(self, source: ToolSource) -> Mapping[str, Any]:
        """What was kept of the server of a source last; nothing where nothing was."""
        ...

    def keep(self, source: ToolSource, said: Mapping[str, Any]) -> None:
        """Keep what a server said of itself, to be told before it is there the next time. Believed by nobody."""
        ...


class StepServer(msgspec.Struct, frozen=True, kw_only=True):
    """How an agent reaches the tools of its step: a command that speaks MCP, and what that must be given."""

    argv: tuple[str, ...]
    env: Mapping[str, str]
    sees: tuple[str, ...] = ()
    """What it must be able to read."""


class Behind(Protocol):
    """What is behind a door."""

    def listed(self) -> Sequence[Offer]:
        """The tools there are."""
        ...

    async def serve(self, tool: str, args: Mapping[str, Any]) -> CallAnswer:
        """Answer a call of a tool, whether or not there is such a one. When cancelled, nothing goes on afterwards."""
        ...

    async def may(self, tool: str, args: Mapping[str, Any]) -> CallAnswer:
        """Answer whether the agent may make a call itself, with a tool of its own host that does the same: nothing is
        performed. There is no problem in the answer where it may."""
        ...

    async def stranger(self) -> CallAnswer:
        """Answer somebody who knocks with another token than this door's."""
        ...


class Doors(Protocol):
    """Ways for the agent of one attempt, and nobody else, to reach the tools of its step. Nothing decides here: whoever
    opens a door says what is behind it and answers each call."""

    def fault(self) -> str | None:
        """Why no door can be opened here; None where one can."""
        ...

    def open(self, room: str, behind: Behind) -> AbstractAsyncContextManager[StepServer]:
        """A door with a token of its own, in this private directory, for as long as the attempt lasts. What was asked
        for and is not answered by then is ended."""
        ...


class StepDoor(Protocol):
    """A door from its agent's side. Whatever is asked once the attempt is over raises `Refused` with E_DOOR."""

    async def offers(self) -> Sequence[Offer]:
        """The tools there are."""
        ...

    async def call(self, tool: str, args: Mapping[str, Any]) -> CallAnswer:
        """What a call of a tool is answered. When cancelled, it is taken back."""
        ...

    async def may(self, tool: str, args: Mapping[str, Any]) -> CallAnswer:
        """Whether the agent may make a call itself; there is no problem in the answer where it may."""
        ...


class Said(msgspec.Struct, frozen=True, kw_only=True):
    """What an agent that has come to its end is understood to have said. Nothing of it is believed."""

    text: bytes = b""
    """Its last words."""
    used: Usage | None = None
    error: str | None = None
    """What went wrong by its own account, whatever its exit status is."""
    as_value: bool = False
    """Whether its last words are a value, and not text, where they are the JSON of one."""


class Invocation(msgspec.Struct, frozen=True, kw_only=True):
    """How an agent is started for one work item."""

    argv: tuple[str, ...]
    read: Callable[[Finished], Said]
    """What its output says."""
    stdin: bytes = b""
    env: Mapping[str, str] = {}
    """Variables besides those that it is allowed to see."""
    sees: tuple[str, ...] = ()
    """What it must be able to read at tier 1."""
    home: tuple[str, ...] = ()
    """Files of the home directory that it must have a copy of at tier 1."""
    changes: tuple[str, ...] = ()
    """Directories of its room that it must be able to change at tier 1."""
    directory: str = ""
    """Where it is started, where that is not the workspace."""


class Agents(Sealable, Protocol):
    """What performs tasks."""

    def registered(self) -> Mapping[str, Agent]:
        """The agents that the program which uses us has handed over, by their names."""
        ...

    def fault(self, agent: Agent) -> str | None:
        """Why an agent cannot be started here; None where it can, as far as can be told."""
        ...

    def room(self) -> AbstractContextManager[str]:
        """A private directory for one attempt, gone after it."""
        ...

    def invocation(
        self, agent: Agent, item: WorkItem, room: str, server: StepServer | None, *, sandboxed: bool = False
    ) -> Invocation:
        """How to start an agent for an item; what it is to find in files is put into the room.

        Raises ValueError, in words, where something is missing that only a person can say.
        """
        ...

    async def call(self, agent: Agent, item: WorkItem) -> ToolResult:
        """Have a registered callable do it. Whatever goes wrong is a result."""
        ...


class Panes(Protocol):
    """The terminals that agents live in, as far as conditions look at them."""

    def fault(self, condition: PaneExists | PaneState | PatternMatched | PatternNotMatched) -> str | None:
        """Why a condition about a pane does not hold, in words; None where it does."""
        ...


class Clock(Protocol):
    """Time, and waiting for it."""

    def now(self) -> Instant: ...

    def moment(self) -> Moment:
        """The same, with what a clock says that nobody can set."""
        ...

    async def sleep_until(self, instant: Instant) -> None: ...


class Ids(Protocol):
    """Fresh random names."""

    def mint(self, prefix: str) -> str:
        """`prefix` and at least 80 random bits in base32."""
        ...


class Workspace(Protocol):
    """The directory a plan may touch, as far as anybody but tools and commands looks at it."""

    def identity(self) -> tuple[str, int, int]:
        """Real path, device and inode, as they are now."""
        ...

    def configuration(self) -> bytes | None:
        """The content of `ordain.toml`, if there is one."""
        ...

    def document(self, path: str) -> bytes | None:
        """The content of a document by the path it was prepared from, if it can still be read."""
        ...

    def files(self, pattern: str) -> tuple[str, ...]:
        """The names of the files that match a pattern (`src/**/*.py`), sorted; no links, nothing outside."""
        ...

    def beginning(self, path: str, limit: int, secret_files: Sequence[str]) -> tuple[bytes, int]:
        """So many bytes of a regular file at most, and how long all of it is. No link is followed.

        Raises `Refused` with F_PATH_ESCAPE where a link is on the way, F_READ_MISSING where it cannot be read for
        another reason: also because it is one of the files that hold secrets.
        """
        ...

    def withheld(self, path: str, secret_files: Sequence[str], *, deep: bool) -> str | None:
        """Why what is at a path, or where it is `deep` beneath it, is not for agents, in words that follow on the path:
        it is one of the files that hold secrets, or beneath it is what bears a name that no agent may touch. What its
        own name says is not looked at (core.path.handed_fault).
        """
        ...

    def digests(self, paths: Sequence[str], patterns: Sequence[str]) -> Mapping[str, str]:
        """What is at these paths, and at every path but a directory's that a pattern means, as `protect` means it.

        By path in one spelling, sorted: `sha256:…` of a regular file's content, `link:…` of a link's target (also of a
        link on the way: none is followed), `directory`, `other` for a pipe or device, `absent`. What git keeps or is
        ours is left out. Raises `Refused` with E_PATH for what does not lie beneath the workspace, E_BASE_UNREADABLE
        when something cannot be seen or is more than anybody should wait for.
        """
        ...

    def contents(self, paths: Collection[str], patterns: Collection[str]) -> Mapping[str, str]:
        """What is in the files that commands name, and in those that a pattern means, by path, sorted; where nothing
        is, nothing is said. A path may lead out of the workspace, and links are followed, as a command does.

        `sha256:…` of a regular file's content, with its real path where a link led there; `directory`, `too large`,
        `unreadable`, `changing` while somebody writes it, `other`. Raises `Refused` with E_BASE_UNREADABLE when it is
        more than anybody should wait for.
        """
        ...

    def real_path(self, path: str) -> str:
        """Where a path leads, with every link and `..` followed: beneath the workspace, or absolute."""
        ...

    def scripts(self, texts: Iterable[str]) -> Mapping[str, Script]:
        """The texts of commands taken apart; one that cannot be, or is too long, is not there. The same texts in the
        same order always give the same."""
        ...

    def git_head(self) -> str | None:
        """The commit that is checked out, told without running git; None where there is no git, or no commit yet.

        Raises `Refused` with E_BASE_UNREADABLE where it cannot be told, for no two such answers are the same.
        """
        ...

    def facts(
        self, plan: Plan, tools: Mapping[str, ToolDefinition], settings: Settings, workspace_id: str | None
    ) -> Facts:
        """What lint wants to know about the surroundings of this plan. Changes nothing."""
        ...


class Saved(msgspec.Struct, frozen=True, kw_only=True):
    """A file as it is: its content and mode; or where a link leads, without a mode."""

    content: bytes
    mode: int | None = None


class Protection(Protocol):
    """Files beneath the workspace that must stay as they are. No link is followed."""

    async def save(self, patterns: Sequence[str], known: Collection[str]) -> Mapping[str, Saved]:
        """Every file and link that a pattern means, as `protect` means it, and that is not known yet, by its path;
        caches of programs are left out.

        Raises `Refused` with E_PROTECT when one cannot be read or is being written, or when it is more than can be
        kept.
        """
        ...

    async def beside(self, patterns: Sequence[str], protected: Collection[str]) -> Collection[str]:
        """What is tampering where it is new: every path that a pattern means, and every file that changes how these
        protected ones are loaded (`core.loading`). Caches of programs are left out.

        Raises `Refused` with E_PROTECT when something cannot be looked at.
        """
        ...

    async def set_aside(self, paths: Collection[str]) -> None:
        """Move new files away; raises `Refused` with E_PROTECT where one cannot be."""
        ...

    async def drop_caches(self, protected: Collection[str]) -> None:
        """Remove what was compiled of protected files, and beside them: it could be loaded in place of them."""
        ...

    async def changed(self, files: Mapping[str, ProtectedFile], seal: Callable[[bytes], str]) -> Mapping[str, str]:
        """What became of those that are not as they were, by path: `has changed` or `is gone`."""
        ...

    async def restore(self, files: Mapping[str, Saved]) -> None:
        """Put files back, each in one step, whatever stands in their place or on the way; that is set aside.

        Raises `Refused` with E_PROTECT when one cannot be put back.
        """
        ...


class Credential(msgspec.Struct, frozen=True, kw_only=True):
    """What a person types to use their key. Never recorded, never shown."""

    name: str
    passphrase: str

    def __repr__(self) -> str:
        return f"Credential(name={self.name!r})"


class Keyring(Protocol):
    """The approvers' keys that are kept here."""

    def create(self, credential: Credential) -> PublicKey:
        """Make a key under this name and passphrase; raises Refused with E_APPROVER when there is one already."""
        ...

    def public_key(self, name: str) -> PublicKey | None:
        """The public half of the key of this name, if it is kept here."""
        ...

    def sign(self, credential: Credential, statement: bytes) -> Signature | None:
        """The signature over these bytes; None when the passphrase is wrong."""
        ...

    def verify(self, key: PublicKey, signature: Signature, statement: bytes) -> bool:
        """Whether this key made this signature over these bytes."""
        ...


class Client(msgspec.Struct, frozen=True, kw_only=True):
    """A client that may reach the MCP server over HTTP."""

    name: str
    made_at: Instant
    """When its token was made."""


class Clients(Protocol):
    """Whom tokens of the MCP server were given to. A token is told once and kept nowhere: only its digest is."""

    def add(self, name: str, at: Instant) -> str:
        """Make a token for a client of this name; raises Refused with E_CLIENT when it has one already."""
        ...

    def lend(self) -> str:
        """A token that is good for this process only and kept nowhere; whoever was told it is the client `local`."""
        ...

    def all(self) -> Sequence[Client]:
        """Every client that has a token that is kept, by name."""
        ...

    def holder(self, token: str) -> str | None:
        """The name of the client that this token was given to, as things stand now; None when it is no token."""
        ...

    def revoke(self, name: str) -> bool:
        """Let a client's token count no longer; whether it had one."""
        ...


class Sightings(Protocol):
    """Notes of guarded calls, for reports. Nothing is decided by them."""

    def note(self, sightings: Sequence[Sighting]) -> None:
        """Note some; what cannot be noted is left out, for a note holds up nobody."""
        ...

    def since(self, at: Instant) -> Iterator[Sighting]:
        """Those noted since then, day by day; within a day as they came."""
        ...

    def incomplete(self, at: Instant) -> bool:
        """Whether some were left out since then, as far as anybody can tell: there were too many, or no room."""
        ...


class Notifier(Protocol):
    """Tells people outside that something waits for them."""

    def tell(self, command: Sequence[str], message: bytes) -> None:
        """Hand the message to the command and go on; what becomes of it changes nothing."""
        ...


class Copies(Protocol):
    """Our own copies of proposals in the workspace, for people to read. Nothing is believed because it is there."""

    def put(self, path: str, data: bytes) -> bool:
        """Write a whole file beneath the workspace; whether that went well."""
        ...

    def remove(self, path: str) -> None:
        """Take it away, if it is there."""
        ...


class StepLogs(Protocol):
    """One file of lines for each run in the workspace, for people and programs to read. Nothing is believed because it
    is there, and nothing goes wrong because it could not be written."""

    def write(self, run_id: str, at: int, lines: bytes) -> bool:
        """Have these lines stand in a run's log from this place on, and nothing after them; whether that went well."""
        ...

    def read(self, run_id: str, start: int) -> tuple[bytes, int]:
        """What stands in it from a place on, as much as can be read at once, and the place after that. A negative place
        counts from the end."""
        ...


class Secrets(Protocol):
    """The secrets that are known here, so that they can be kept out of everything written or shown."""

    def known(self, patterns: Sequence[str], files: Sequence[str]) -> tuple[Mapping[str, str], Sequence[str]]:
        """Name → value for the environment variables that match a pattern and for what stands in the files; and the
        files that cannot be read."""
        ...


class Holder(msgspec.Struct, frozen=True, kw_only=True):
    """Somebody who has claimed something."""

    name: str
    pid: int = 0
    silent_ms: int = 0
    """How long ago it last gave a sign of life."""


class WriterLock(Protocol):
    """Who is at work in a workspace. What is held dies with its holder."""

    def claim(self, what: str) -> AbstractContextManager[None]:
        """Be the only one who is at work on this (a run), or raise `Refused` with E_RUN_BUSY."""
        ...

    def place(self, holder: str, places: int) -> AbstractContextManager[None]:
        """Have one of so many places for those who change the workspace, or raise `Refused` with E_WORKSPACE_BUSY that
        names who has them."""
        ...

    def beat(self) -> None:
        """Give a sign of life, for everything that is held."""
        ...

    def holder(self, what: str) -> Holder | None:
        """Who else has claimed this right now; None when nobody has, or we have."""
        ...

    def end(self, what: str, holder: Holder) -> bool:
        """End the process that was seen to have claimed this, and no other; whether nobody has it now."""
        ...


class StopSwitch(Protocol):
    """What stops work in a workspace, or in all of the user's. It needs no ledger."""

    def read(self) -> tuple[StopOrder, ...]:
        """What is in force here. What cannot be read counts as a stop."""
        ...

    def turn_on(self, stop: StopOrder) -> None:
        """Stop work; where it is stopped already, nothing changes."""
        ...

    def turn_off(self, stop: StopOrder) -> None: ...

    def end_runs(self, *, everywhere: bool) -> tuple[tuple[RunId, ...], tuple[RunId, ...]]:
        """Kill whoever carries out a run, here or in every workspace, and what steps left running; the runs that had
        an executor, and those whose executor could not be killed."""
        ...


Observer = Callable[[Told], None]
"""Receives events after they are durable, and what is told besides them; whatever it does changes nothing."""
