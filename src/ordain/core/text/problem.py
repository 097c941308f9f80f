"""What is wrong, as data: one shape for lint problems, refusals and failures. The first letter of a code says how bad
it is; `data/problems.toml` has a page for every code."""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum

import msgspec


class Severity(StrEnum):
    """How bad a problem is, told by the first letter of its code."""

    WARNING = "warning"
    """`W_`: worth a look; nothing is refused."""
    ERROR = "error"
    """`E_`: refused, and nothing was done."""
    FAILURE = "failure"
    """`F_`: failed after something ran."""
    BUG = "bug"
    """`B_`: a bug of ours."""


_BY_LETTER = {"W": Severity.WARNING, "E": Severity.ERROR, "F": Severity.FAILURE, "B": Severity.BUG}


class Place(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Where in a document a problem is; lines and columns count from one."""

    file: str | None = None
    line: int | None = None
    column: int | None = None
    step: str | None = None
    field: str | None = None
    """The field of the plan itself that it is about."""


class Problem(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One thing that is wrong: `detail` is a whole sentence, `hints` say what to do, `command` is to be pasted."""

    code: str
    detail: str
    where: Place | None = None
    hints: tuple[str, ...] = ()
    command: str | None = None

    @property
    def severity(self) -> Severity:
        return _BY_LETTER[self.code[0]]


def blame_step(step: str | None, code: str, detail: str, *hints: str, command: str | None = None) -> Problem:
    """The problem of one step; without one, of the plan."""
    where = Place(step=step) if step is not None else None
    return Problem(code=code, detail=detail, where=where, hints=hints, command=command)


def blame_plan(field: str, code: str, detail: str, *hints: str) -> Problem:
    """The problem of a field of the plan itself."""
    return Problem(code=code, detail=detail, where=Place(field=field), hints=hints)


class Refused(Exception):
    """A verb did nothing, and these problems say why. Nothing was consumed or half-done."""

    def __init__(self, problems: Iterable[Problem]) -> None:
        self.problems = tuple(problems)
        self.recorded = False
        """Whether the ledger tells that this was asked for and refused."""
        super().__init__("; ".join(f"{problem.code}: {problem.detail}" for problem in self.problems))


def refuse(code: str, detail: str, *hints: str, command: str | None = None) -> Refused:
    """The refusal of one problem, ready to raise."""
    return Refused([Problem(code=code, detail=detail, hints=hints, command=command)])


def closest(word: str, known: Iterable[str]) -> tuple[str, ...]:
    """A "did you mean" hint for a misspelt word, or nothing when no known word is near."""
    import difflib  # only for what is misspelt

    near = difflib.get_close_matches(word, list(known), n=1, cutoff=0.6)
    return (f"Did you mean `{near[0]}`?",) if near else ()
