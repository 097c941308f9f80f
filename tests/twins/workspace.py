"""Twins of what Ordain finds around it: a workspace, its files, keys, logs and locks, made of values."""

from __future__ import annotations

import contextlib
import hashlib
import posixpath
import sys
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from ordain.adapters.process.line import understanding
from ordain.adapters.process.shell_text import ShellText
from ordain.adapters.state import keys
from ordain.adapters.workspace.operand import operand_path, operand_pattern
from ordain.core.approval.signature import PublicKey, Signature
from ordain.core.guard.sighting import Sighting
from ordain.core.lint.path import written_places
from ordain.core.lint.survey import Facts, Survey
from ordain.core.plan.model import Plan
from ordain.core.plan.tool import ToolDefinition
from ordain.core.plan.value import Instant, RunId
from ordain.core.policy.fact import LineFacts
from ordain.core.policy.loading import CACHED, LoadingRules, is_cached
from ordain.core.policy.path_use import ABSENT
from ordain.core.policy.script import Script
from ordain.core.policy.settings import Settings, UserSettings
from ordain.core.policy.stop import StopOrder
from ordain.core.run.step_event import ProtectedFile
from ordain.core.text.control import folded
from ordain.core.text.path import handed_fault, holds_secrets, is_kept, path_fault, pattern_fault
from ordain.core.text.pattern import PathPattern, normal
from ordain.core.text.problem import refuse
from ordain.ports.machine import Credential, Holder
from ordain.ports.workspace import Saved


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

    def secret_places(self, secret_files: Sequence[str]) -> tuple[str, ...]:
        return tuple(sorted(name for name in self.documents if holds_secrets(name) or name in secret_files))

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

    async def stamps(self) -> dict[str, tuple[int, ...]]:
        return {name: (hash(data),) for name, data in self._workspace.documents.items()}

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


class MemoryKeyring:
    """ports.Keyring whose keys are kept in a dictionary; signatures are real ones."""

    def __init__(self) -> None:
        self.kept: dict[str, tuple[bytes, str]] = {}

    def create(self, credential: Credential) -> PublicKey:
        if credential.name in self.kept:
            raise refuse("E_APPROVER", f"There is a key of {credential.name} already.")
        seed = hashlib.sha256(credential.name.encode()).digest()
        self.kept[credential.name] = (seed, credential.passphrase)
        return keys.public_half(seed)

    def public_key(self, name: str) -> PublicKey | None:
        return keys.public_half(self.kept[name][0]) if name in self.kept else None

    def sign(self, credential: Credential, statement: bytes) -> Signature | None:
        seed, passphrase = self.kept[credential.name]
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

    def programs(self, names: Iterable[str], *, own: bool = False) -> dict[str, str]:
        return {name: self.found[name] for name in names if name in self.found}

    def look_at(self, directory: str) -> tuple[str, bool]:
        return directory, False

    def home(self) -> str | None:
        return "/home/kim"

    def understanding(self, settings: Settings) -> Callable[[str], LineFacts]:
        return understanding(Path("/workspace"), settings)


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

    def lose_sight(self) -> None:
        """Of all that was claimed here, as when the files of the claims are gone."""
        self.others.clear()
        self._claimed.clear()
        self._places = 0

    def beat(self) -> None:
        pass

    def holder(self, what: str) -> Holder | None:
        return self.others.get(what)

    def end(self, what: str, holder: Holder) -> bool:
        self.ended.append(what)
        self.others.pop(what, None)
        return True
