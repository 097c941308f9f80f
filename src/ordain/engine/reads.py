"""What a step reads, gathered for the prompt of its agent: files, topics, results of earlier steps. All is redacted
before it is cut, and what is cut or left out says so. What the plan names and is not there is told, all of it, and
starts no agent."""

from __future__ import annotations

import asyncio
import codecs
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from ordain.core.plan.action import Task
from ordain.core.plan.refs import as_text
from ordain.core.run.prompt import Shown
from ordain.core.run.result import Missing
from ordain.core.run.topic import messages
from ordain.core.task.work_item import Read
from ordain.core.text.path import handed_fault, is_pattern
from ordain.core.text.problem import Refused
from ordain.ports.workspace import Workspace
from ordain.records.records import Records, instant
from ordain.records.sink import Sink

READ_BYTES_MAX, READS_BYTES_MAX = 256 << 10, 1 << 20
"""How much of one file, topic or result is put into a prompt, and how much of all that a step reads."""
FILES_MAX = MESSAGES_MAX = 100
"""How many files of one pattern, and messages of one topic."""


class NothingGivenError(Exception):
    """A step gave nothing, and need not have: in words that follow on its name."""


class Lack(NamedTuple):
    """What is read and is not there."""

    code: str
    words: str


class Gathered(NamedTuple):
    """What is put into a prompt, what is recorded of it, and what is not there."""

    shown: tuple[Shown, ...]
    reads: tuple[Read, ...]
    lacks: tuple[Lack, ...]


class _FileHead(NamedTuple):
    """A file's beginning, or why there is none."""

    path: str
    data: bytes = b""
    size: int = 0
    fault: Lack | None = None


class StepReads:
    """Reads for the steps of one workspace."""

    def __init__(self, workspace: Workspace, records: Records | None, sink: Sink, secret_files: Sequence[str]) -> None:
        """Without records there is no topic; `secret_files` are those that the settings name."""
        self._workspace, self._records, self._sink, self._secret_files = workspace, records, sink, secret_files

    async def gather(
        self, task: Task, output: Callable[[str], Any], item: Callable[[], tuple[str, str, Any] | None]
    ) -> Gathered:
        """What a task is repeated for, and then everything that it reads, in its order. `output` gives the result of a
        step, `item` the item with its name and which it is; both raise Missing or NothingGivenError."""
        gathering = _ReadBudget(self._sink)
        _item(gathering, item)
        for ref in task.reads:
            kind, _, name = ref.partition(":")
            if kind == "file" and is_pattern(name):
                # In a thread: a slow disk must not hold up the loop.
                gathering.files(ref, await asyncio.to_thread(self._matching, name))
            elif kind == "file":
                gathering.file(ref, await asyncio.to_thread(self._file, name))
            elif kind == "topic":
                self._topic(gathering, ref, name)
            elif kind == "step":
                _result(gathering, ref, name, output)
            else:
                gathering.lack("F_READ_MISSING", f"`{ref}` is no file, topic or step")
        return gathering.done()

    def _file(self, path: str) -> _FileHead:
        fault = handed_fault(path)
        if fault is not None:
            return _FileHead(path, fault=Lack("F_PATH_ESCAPE", f"`{path}` {fault}"))
        try:
            data, size = self._workspace.beginning(path, READ_BYTES_MAX + self._sink.ahead, self._secret_files)
        except Refused as refused:
            return _FileHead(path, fault=Lack(refused.problems[0].code, refused.problems[0].detail))
        if not _is_text(data, whole=len(data) >= size):
            return _FileHead(path, fault=Lack("F_READ_MISSING", f"`{path}` is no text (UTF-8)"))
        return _FileHead(path, data, max(size, len(data)))

    def _matching(self, pattern: str) -> list[_FileHead] | Lack:
        try:
            found = [path for path in self._workspace.files(pattern) if handed_fault(path) is None]
        except Refused as refused:
            return Lack("F_READ_MISSING", refused.problems[0].detail)
        # Beyond those that are shown it is only told how many there are.
        return [self._file(path) if number < FILES_MAX else _FileHead(path) for number, path in enumerate(found)]

    def _topic(self, gathering: _ReadBudget, ref: str, name: str) -> None:
        found = messages(self._records.topic(name, MESSAGES_MAX)) if self._records is not None else ()
        if not found:
            gathering.lack("F_READ_MISSING", f"nothing was posted to the topic `{name}`")
            return
        told = [(f"{message.by.words}, {instant(message.at)}", message.text) for message in found]
        gathering.topic(ref, told, found[-1].number)


def _item(gathering: _ReadBudget, item: Callable[[], tuple[str, str, Any] | None]) -> None:
    try:
        found = item()
    except Missing as missing:
        gathering.lack("F_READ_MISSING", f"its item {missing}")
    except NothingGivenError as nothing:
        gathering.nothing("item", str(nothing))
    else:
        if found is not None:
            name, which, value = found
            data = as_text(value).encode("utf-8", "replace")
            gathering.put(name, data, len(data), which)


def _result(gathering: _ReadBudget, ref: str, name: str, output: Callable[[str], Any]) -> None:
    try:
        data = as_text(output(name)).encode("utf-8", "replace")
    except Missing as missing:
        gathering.lack("F_READ_MISSING", f"`{name}` {missing}")
    except NothingGivenError as nothing:
        gathering.nothing(ref, str(nothing))
    else:
        gathering.put(ref, data, len(data))


class _ReadBudget:
    """What was gathered so far, and how much room is left."""

    def __init__(self, sink: Sink) -> None:
        self._sink, self._left = sink, READS_BYTES_MAX
        self._shown: list[Shown] = []
        self._reads: list[Read] = []
        self._lacks: list[Lack] = []

    def done(self) -> Gathered:
        return Gathered(tuple(self._shown), tuple(self._reads), tuple(self._lacks))

    def lack(self, code: str, words: str) -> None:
        self._lacks.append(Lack(code, self._sink.text(words)))

    def nothing(self, ref: str, note: str, size: int = 0) -> None:
        """Show that there is something, and why nothing of it is here."""
        named = self._sink.text(ref)
        self._shown.append(Shown(ref=named, text="", note=self._sink.text(note)))
        self._reads.append(Read(ref=named, size=size, cut=size > 0))

    def file(self, ref: str, file: _FileHead) -> None:
        if file.fault is not None:
            self.lack(*file.fault)
        else:
            self.put(ref, file.data, file.size)

    def files(self, ref: str, found: list[_FileHead] | Lack) -> None:
        """The files that a pattern means. One that cannot be handed on is left out: nobody named it."""
        if isinstance(found, Lack) or not found:
            self.lack(*(found or Lack("F_READ_MISSING", f"`{ref}` means no file that is there")))
            return
        for file in found[:FILES_MAX]:
            if file.fault is None:
                self.put(f"file:{file.path}", file.data, file.size)
            else:
                self.nothing(f"file:{file.path}", f"left out: {file.fault.words}")
        if len(found) > FILES_MAX:
            self.nothing(ref, f"left out: all but the first {FILES_MAX} of {len(found):,} files")

    def put(self, ref: str, data: bytes, size: int, which: str = "") -> None:
        """Put in a text as far as there is room; `data` is all of it, or its beginning and some more."""
        room = min(READ_BYTES_MAX, self._left)
        if not room and size:
            self.nothing(ref, f"left out: all that is read has more than {READS_BYTES_MAX >> 10:,} KiB", size)
            return
        whole = len(data) >= size
        text, hidden = self._sink.beginning(data, whole=whole)
        cut = not whole or len(text) > room
        if cut:  # as many whole lines as there is room for; of a line that is longer than that, whole characters
            lines, newline, _ = text[:room].rpartition(b"\n")
            text = lines + newline if newline else text[:room].decode("utf-8", "ignore").encode()
        self._left -= len(text)
        state = f"cut: the first {len(text):,} of {size:,} bytes" if cut else "" if text else "empty"
        note = "; ".join(one for one in (which, state) if one)
        named = self._sink.text(ref)
        self._shown.append(Shown(ref=named, text=text.decode("utf-8", "replace"), note=note))
        self._reads.append(Read(ref=named, size=size, seal=self._sink.seal(text), cut=cut, hidden=hidden))

    def topic(self, ref: str, told: Sequence[tuple[str, str]], count: int) -> None:
        """Put in the newest messages of a topic, in order, each with who and when; as many as there is room for."""
        room = min(READ_BYTES_MAX, self._left)
        fitting: list[tuple[str, bytes, int]] = []
        for who, text in reversed(told):
            data, hidden = self._sink.beginning(text.encode("utf-8", "replace"), whole=True)
            if len(data) > room:
                break
            room -= len(data)
            fitting.append((who, data, hidden))
        size = sum(len(text.encode("utf-8", "replace")) for _, text in told)
        if not fitting:
            self.nothing(ref, "left out: there is no room for it", size)
            return
        fitting.reverse()
        body = b"".join(data for _, data, _ in fitting)
        self._left -= len(body)
        cut = len(fitting) < count
        first = count - len(fitting) + 1
        for number, (who, data, _) in enumerate(fitting, start=first):
            note = f"message {number} of {count}, by {self._sink.text(who)}"
            self._shown.append(Shown(ref=ref, text=data.decode("utf-8", "replace"), note=note))
        hidden = sum(number for _, _, number in fitting)
        self._reads.append(Read(ref=ref, size=size, seal=self._sink.seal(body), cut=cut, hidden=hidden))


def _is_text(data: bytes, *, whole: bool) -> bool:
    try:
        return "\0" not in codecs.getincrementaldecoder("utf-8")().decode(data, final=whole)
    except UnicodeDecodeError:
        return False
