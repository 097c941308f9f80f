"""Ports of what is recorded: the ledger, copies of it, and notes of guarded calls."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, Protocol, TypeAlias

import msgspec

from ordain.core.text.problem import refuse

if TYPE_CHECKING:
    from ordain.core.guard.plan_note import PlanNote
    from ordain.core.guard.sighting import Sighting
    from ordain.core.ledger.chain import Entry
    from ordain.core.ledger.link import Tip
    from ordain.core.ledger.summary import PlanSummary
    from ordain.core.plan.value import Instant
    from ordain.core.report.progress import Told
    from ordain.core.run.event import Event, Recorded


class Artifact(msgspec.Struct, frozen=True, kw_only=True):
    """An output to keep whole, under its name (`core.artifact`)."""

    seal: str
    size: int
    parts: Callable[[], Iterator[bytes]]


class Append(msgspec.Struct, frozen=True, kw_only=True):
    """Events to add to one stream, if it still has the size the caller saw.

    `epoch` fences: the append is refused unless it is the stream's newest. `new_epoch` raises the stream's epoch.
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
    drops: tuple[str, ...] = ()
    """Seals of kept bytes that go in the transaction of the events. Refused with E_LEDGER_CONFLICT where any event of
    the ledger after the first `seen` ones names one of them."""
    seen: int = 0


class Ledger(Protocol):
    """Append-only, hash-chained streams of events. What `append` returned is on disk for good."""

    async def append(self, at: Instant, *appends: Append) -> tuple[Recorded, ...]:
        """Add to all these streams or to none, durably.

        Raises `Refused` with E_LEDGER_CONFLICT when a stream has another size than expected, E_FENCED when a newer
        executor has taken over, E_LEDGER_IO when the disk refuses; nothing is written then.
        """

    def read(self, stream: str, after: int = 0) -> Sequence[Recorded]:
        """The events of a stream with a sequence number above `after`, in order. Unknown streams are empty."""

    def let_go(self) -> None:
        """Close it where it was only looked at, and nobody can wait."""

    def size(self, stream: str) -> int:
        """How many events a stream has, without reading them. Nothing is verified."""

    async def grown(self, stream: str, size: int) -> None:
        """Return once the stream has more events than this, whoever recorded them."""

    def streams(self, prefix: str) -> Sequence[str]:
        """The names of the streams that begin with this prefix, oldest first."""

    def lookup(self, id_prefix: str) -> Sequence[tuple[str, str]]:
        """(id, stream) for every named id (`plan:…`, `RUN-…`) that begins with this prefix, at most 10."""

    def plans(
        self, *, open_only: bool = False, document: str | None = None, newest: int | None = None
    ) -> Sequence[PlanSummary]:
        """What is kept about each lineage for quick looking, oldest first; `newest` keeps those opened last."""

    def plan_count(self) -> int:
        """How many lineages there are."""

    def checkpoint(self) -> Tip:
        """How many events the ledger has, and one digest over all of them in order of arrival."""

    def everything(self) -> Iterator[Entry]:
        """Every event that is there now, in order of arrival, as it is stored: for verification and for copies."""

    def rebuild(self) -> int:
        """Throw everything that is a projection away and fold it again; returns how many events there are. Raises
        `Refused` with E_LEDGER_BROKEN when a chain is not whole; nothing was changed then."""

    def seal(self, body: bytes) -> str:
        """What commits to these bytes without giving them away: a keyed hash, whose key stays with the ledger."""

    def kept(self, seal: str) -> bytes | None:
        """The bytes that were kept under this seal, if there; raises `Refused` with E_LEDGER_BROKEN for others."""

    def has_room(self, size: int) -> bool:
        """Whether artifacts of this size in all could be kept and leave room for what must be recorded."""

    def artifact(self, seal: str) -> Iterator[bytes] | None:
        """The artifact of this name, part by part, if it is there. Raises `Refused` with E_LEDGER_BROKEN, before it
        hands anything out, when it is not what was sealed, and with E_OUTPUT_NOT_KEPT when it is removed meanwhile."""

    def kept_sizes(self) -> Mapping[str, int]:
        """How many bytes are kept under each seal."""
        ...

    async def close(self) -> None: ...


class Archive(Protocol):
    """Copies of one workspace's ledger."""

    def export(self, ledger: Ledger) -> Iterator[bytes]:
        """The events as lines of JSON; nothing that is kept beside them."""

    def backup(self, target: Path, *, outputs: bool = True) -> Tip:
        """Copy the ledger to a new file, verified first; without `outputs` only its events. What the copy adds up
        to."""

    def draft(self, source: Path) -> tuple[Tip, Ledger]:
        """A ledger made from a copy, verified first, that is nobody's yet, and what the copy added up to; raises
        Refused where there is a ledger already."""

    def place(self) -> None:
        """Let the draft, once it is closed, be the ledger."""


class Sightings(Protocol):
    """Notes of guarded calls, for reports. Nothing is decided by them."""

    def note(self, sightings: Sequence[Sighting]) -> None:
        """Note some; what cannot be noted is left out, for a note holds up nobody."""

    def since(self, at: Instant) -> Iterator[Sighting]:
        """Those noted since then, day by day; within a day as they came."""

    def incomplete(self, at: Instant) -> bool:
        """Whether some were left out since then, as far as anybody can tell: there were too many, or no room."""


class NoteShelf(Protocol):
    """Plans in prose that agents left plan mode with, until a person dismisses them. Nothing is decided by them."""

    def keep(self, note: PlanNote) -> None:
        """Keep one; the oldest goes where there are too many. Raises OSError where there is no room."""

    def all(self) -> tuple[PlanNote, ...]:
        """Those that are kept, the oldest first."""

    def dismiss(self, note_id: str) -> bool:
        """Forget one; False where there is none by that name."""


Observer: TypeAlias = "Callable[[Told], None]"
"""Receives events after they are durable, and what is told besides them; whatever it does changes nothing."""


class Former(NamedTuple):
    """The ledger that a directory had under a path that is gone."""

    path: str
    governed: bool
    """Whether somebody trusted a configuration or enrolled a key in it."""


class LedgerAccess:
    """The ledger of one workspace, opened by the first verb that needs it. Looking makes no file."""

    def __init__(
        self,
        open_ledger: Callable[[], Ledger],
        *,
        exists: Callable[[], bool],
        empty: Callable[[], Ledger],
        former: Callable[[], Former | None] = lambda: None,
    ) -> None:
        """`empty` is looked into while nothing is recorded; `former` finds the ledger of a directory that moved
        here."""
        self._open, self._exists, self._empty, self.former = open_ledger, exists, cache(empty), former
        self.opened: Ledger | None = None

    def exists(self) -> bool:
        """Whether anything was ever recorded here; asking makes no ledger."""
        return self.opened is not None or self._exists()

    def open(self) -> Ledger:
        """The ledger, made where there is none."""
        if self.opened is None:
            if not self._exists():
                self.refuse_moved()
            self.opened = self._open()
        return self.opened

    def look(self) -> Ledger:
        """The ledger, or an empty one where there is none."""
        if self.exists():
            return self.open()
        self.refuse_moved()
        return self._empty()

    def refuse_moved(self) -> None:
        """Raise Refused where a new record would leave behind what somebody trusted or enrolled for this directory."""
        former = self.former()
        if former is not None and former.governed:
            raise refuse(
                "E_WORKSPACE_MOVED",
                "This directory looks like one that was moved here, and people had trusted settings or enrolled keys.",
                f"If it is another directory, move {former.path} away.",
                command=f"ordain audit restore {shlex.quote(former.path)}",
            )
