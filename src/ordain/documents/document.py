"""What reading a document gives: a plan or the problems that keep it from being one, each with its place. The one
invariant that callers rely on: a document with an error has no plan."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Literal

import msgspec

from ordain.core.plan.model import Plan
from ordain.core.text.limit import DOCUMENT_BYTES_MAX, FORBIDDEN, INTEGER_MAX, character_fault, number_fault
from ordain.core.text.problem import Place, Problem, Severity

# --- Document --------------------------------------------------------------------------------------------------------

Notation = Literal["markdown", "yaml", "json"]

PROBLEMS_MAX = 200
"""How many problems one reading keeps; a hostile document could otherwise have a million."""


class Document(msgspec.Struct, frozen=True, kw_only=True):
    """One document as read. `plan` is there unless a problem is an error; then `partial` is what could be read of it,
    with which nothing may be done but to look for further problems. `places` says where each step starts, by step id,
    and where the plan's title is, under the empty key; `fields` where the plan's own fields are. `unknown` are needs
    that are no steps, each in its place; where there is a plan, lint tells of them. `notes` are the parts beside the
    plan: heading and text of every other section, and under the empty heading the free paragraphs around the
    title. `record` holds what the document says about the plan and its steps without being part of them, never hashed
    and never believed: owner, status, foreign ids and the like, by step id, and under the empty key those of the plan;
    those of a plan nested in the step `a` stand under `a/` and its steps' under `a/b`. `inner` says in the same way
    where the steps of nested plans are, as far as is known; `included` is what was in the files that the document
    includes. `dialect` names the seed in whose form the document is written, where that is not the form of its
    notation."""

    plan: Plan | None = None
    partial: Plan | None = None
    problems: tuple[Problem, ...] = ()
    places: Mapping[str, Place] = {}
    fields: Mapping[str, Place] = {}
    unknown: tuple[Problem, ...] = ()
    notes: tuple[tuple[str, str], ...] = ()
    notation: Notation = "markdown"
    dialect: str | None = None
    inner: Mapping[str, Place] = {}
    included: tuple[tuple[str, bytes], ...] = ()
    record: Mapping[str, Mapping[str, Any]] = {}


class LazyPlaces(Mapping[str, Place]):
    """Places that are looked up when they are asked for, by readers for which finding a place is work."""

    def __init__(self, find: Callable[[str], Place], keys: Iterable[str], file: str | None = None) -> None:
        self._find, self._keys, self._file = find, dict.fromkeys(keys), file

    def in_file(self, file: str) -> LazyPlaces:
        """The same places, which know the name of their file."""
        return LazyPlaces(self._find, self._keys, file)

    def __getitem__(self, key: str) -> Place:
        if key not in self._keys:
            raise KeyError(key)
        return msgspec.structs.replace(self._find(key), file=self._file)

    def __iter__(self) -> Iterator[str]:
        return iter(self._keys)

    def __len__(self) -> int:
        return len(self._keys)


class ProblemList:
    """Gathers the problems of one reading, so that all of them can be shown and not just the first."""

    def __init__(self, found: list[Problem] | None = None, default: Place | None = None) -> None:
        self._found, self._default = [] if found is None else found, default or Place()

    def about(self, step: str | None, line: int | None) -> ProblemList:
        """The same list for problems of one step: they carry its id, and its line where they have none."""
        return ProblemList(self._found, Place(step=step, line=line))

    def add(self, code: str, detail: str, *hints: str, line: int | None = None, column: int | None = None) -> None:
        """One more problem, at this place."""
        where = Place(line=line or self._default.line, column=column, step=self._default.step)
        self.extend([Problem(code=code, detail=detail, where=where, hints=hints)])

    def extend(self, problems: Iterable[Problem]) -> None:
        """Problems found by another reader, which knows the line but not the step."""
        for problem in problems:
            if len(self._found) >= PROBLEMS_MAX:
                return
            place = problem.where or self._default
            where = msgspec.structs.replace(place, step=place.step or self._default.step)
            self._found.append(msgspec.structs.replace(problem, where=where))

    def withdraw(self, code: str, line: int) -> Problem | None:
        """Take back the problem of this code on this line, which another one makes superfluous."""
        for at, problem in enumerate(self._found):
            if problem.code == code and problem.where is not None and problem.where.line == line:
                return self._found.pop(at)
        return None

    def hints(self, code: str) -> Iterator[str]:
        """The hints of all problems of this code, of this step if these are problems of one."""
        for problem in self._found:
            if problem.code == code and problem.where is not None and problem.where.step == self._default.step:
                yield from problem.hints

    def __len__(self) -> int:
        return len(self._found)

    def in_order(self) -> tuple[Problem, ...]:
        """All of them as they come in the document."""
        return tuple(sorted(self._found, key=lambda problem: (problem.where and problem.where.line) or 0))


def plan_unless_wrong(plan: Plan | None, problems: Iterable[Problem]) -> Plan | None:
    """The plan, unless one of the problems is more than a warning."""
    return plan if all(problem.severity is Severity.WARNING for problem in problems) else None


# --- Text ------------------------------------------------------------------------------------------------------------
# From bytes to Unicode text with `\n` line ends that a terminal shows as it is: no control characters but tab and
# newline, nothing that reorders what a person reads.

_SHOWN_MAX = 20


def decode(data: bytes) -> str | tuple[Problem, ...]:
    """The text of a document, or what keeps these bytes from being one."""
    problems = ProblemList()
    if len(data) > DOCUMENT_BYTES_MAX:
        detail = f"The document has {len(data):,} bytes; at most {DOCUMENT_BYTES_MAX:,} are read."
        problems.add("E_DOC_TOO_LARGE", detail, "Move large content to files that steps read.")
        return problems.in_order()
    if _wide(data):
        problems.add("E_DOC_ENCODING", "The document is UTF-16 or UTF-32.", "Save it as UTF-8.", line=1, column=1)
        return problems.in_order()
    try:
        # Surrogates pass here so that the scan below can name them and their place.
        text = data.decode("utf-8", "surrogatepass")
    except UnicodeDecodeError as error:
        before = data[: error.start].decode("utf-8", "surrogatepass")
        line, column = before.count("\n") + 1, len(before) - before.rfind("\n")
        detail = f"The byte 0x{data[error.start]:02X} is not UTF-8."
        problems.add("E_DOC_ENCODING", detail, "Save the document as UTF-8.", line=line, column=column)
        return problems.in_order()
    text = text.removeprefix("\ufeff").replace("\r\n", "\n")
    _refuse_characters(text, problems)
    if not problems and not text.strip():
        problems.add("E_DOC_EMPTY", "The document is empty.", "Start with a title: `# What is to be done`.")
    return problems.in_order() if problems else text


def _refuse_characters(text: str, problems: ProblemList) -> None:
    line, start = 1, 0
    for found in FORBIDDEN.finditer(text):
        newlines = text.count("\n", start, found.start())
        line, start = line + newlines, found.start()
        column = found.start() - text.rfind("\n", 0, found.start())
        code, detail = character_fault(found.group())
        problems.add(code, detail, "Delete it, or write it as an escape in the program.", line=line, column=column)
        if len(problems) >= _SHOWN_MAX:
            return


def _wide(data: bytes) -> bool:
    """Whether the bytes are UTF-16 or UTF-32: by their mark, or because every second byte is zero."""
    if data.startswith((b"\xff\xfe", b"\xfe\xff", b"\x00\x00\xfe\xff")):
        return True
    even, odd = data[0:64:2], data[1:64:2]
    return len(data) >= 4 and any(even) != any(odd)


# --- Value -----------------------------------------------------------------------------------------------------------
# What the readers of YAML and JSON share. A value that leaves them survives its canonical bytes unchanged: integers are
# exact for everyone, a whole number is an integer however it was spelt, strings hold only allowed characters.

Path = tuple[str | int, ...]
"""The way into a tree: keys of mappings and indexes of lists."""
Locate = Callable[[Path], tuple[int | None, int | None]]
"""Line and column of what a path leads to: of the key in a mapping, of the item in a list; of the nearest thing
around it where the document has no such place."""

_INTEGER = re.compile(r"-?[0-9]+")


def nowhere(path: Path) -> tuple[int | None, int | None]:
    """Where no place is known."""
    return None, None


class ReadValue(msgspec.Struct, frozen=True, kw_only=True):
    """A value as read, which means nothing while there are problems, its depth, and where its parts stand."""

    value: Any = None
    problems: tuple[Problem, ...] = ()
    depth: int = 0
    locate: Locate = nowhere


class Mark:
    """Where a value stands, its key's or its own start, and where the values inside it do."""

    __slots__ = ("column", "inside", "line")

    def __init__(self, line: int, column: int) -> None:
        self.line = line
        self.column = column
        self.inside: dict[str | int, Mark] = {}

    def find(self, path: Path) -> tuple[int | None, int | None]:
        """The place of what a path leads to, or of the innermost value on the way that has one."""
        mark = self
        for key in path:
            inner = mark.inside.get(key)
            if inner is None:
                break
            mark = inner
        return mark.line, mark.column


def exact_number(spelling: str) -> int | float | None:
    """The value of a number in JSON's spelling, or None where the number would not be kept as it is."""
    if _INTEGER.fullmatch(spelling):
        if len(spelling) > len(str(-INTEGER_MAX)) or abs(int(spelling)) > INTEGER_MAX:
            return None
        return int(spelling)
    value = float(spelling)
    if number_fault(value) is not None:
        return None
    if value == 0:
        significant = re.split("[eE]", spelling)[0]
        return None if re.search("[1-9]", significant) else 0
    return int(value) if value.is_integer() and abs(value) <= INTEGER_MAX else value


def whole_numbers(value: Any) -> Any:
    """The value with integers for all floats that are whole, as `exact_number` has them."""
    match value:
        case dict():
            return {key: whole_numbers(inner) for key, inner in value.items()}
        case list() | tuple():
            return [whole_numbers(inner) for inner in value]
        case float() if value.is_integer() and abs(value) <= INTEGER_MAX:
            return int(value)
        case _:
            return value
