"""In which dialect a document is written, told by a few of its keys. Three seeds have a form of their own here. A tree
with a key that only the format's own trees have is never taken for a dialect, so that what is wrong in it is said in
the format's own words."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal

import msgspec

from ordain.core.text.pattern import compile_later
from ordain.core.text.problem import closest
from ordain.documents.document import (
    PROBLEMS_MAX,
    Document,
    Locate,
    Notation,
    Path,
    ProblemList,
    ReadValue,
    plan_unless_wrong,
)
from ordain.documents.markdown.scan import Heading, Text, scan
from ordain.documents.shape import shape, shown
from ordain.documents.tree import read_tree

# --- Detection -------------------------------------------------------------------------------------------------------

DIALECTS = ("s1", "s2", "s3")

_S1_PLAN = frozenset(("currentStepIndex", "previousPlanId", "createdBy", "updatedAt"))
_S1_STEP = frozenset(("index", "suggestedAgent", "acceptanceCriteria", "executedBy", "affectedFiles"))
_S2_PLAN = frozenset(("taskId", "estimatedDuration"))
_S2_STEP = frozenset(("args", "dependsOn", "order", "critical"))
TOP_KEYS = frozenset(("id", "version", "createdAt")) | _S1_PLAN | _S2_PLAN
"""Keys with which the YAML of a dialect may start, and no plan in the format's own notation does."""

_S3_KEY = re.compile(r"^(?:planner_model|executor_model|tools_required|execution_[a-z_]+|result_summary)[ \t]*:", re.M)
_S3_HEAD = (re.compile(r"^id[ \t]*:", re.M), re.compile(r"^title[ \t]*:", re.M))
_TYPE = compile_later(r"^type[ \t]*:", re.M)
_START = compile_later(r"---[ \t]*\n")
_END = compile_later(r"^---[ \t]*$", re.M)


def tree_dialect(tree: Any) -> Literal["s1", "s2"] | None:
    """The dialect of a JSON or YAML tree, or None where it is one of the format's own."""
    if type(tree) is not dict or "plan_version" in tree:
        return None
    steps = tree.get("steps")
    first = steps[0] if type(steps) is list and steps else None
    keys = first.keys() if type(first) is dict else ()
    if "action" in keys:
        return None
    in_plan, in_steps = not _S1_PLAN.isdisjoint(tree), not _S1_STEP.isdisjoint(keys)
    if "tool" not in keys and (in_plan or in_steps):
        return "s1"
    if not _S2_PLAN.isdisjoint(tree):
        return "s2"
    # A title makes it the format's own, which says what to write instead of `tool`; unless `dependsOn` says otherwise.
    titled = "title" in tree and "dependsOn" not in keys
    return "s2" if "tool" in keys and not titled and not _S2_STEP.isdisjoint(keys) else None


def front_matter_dialect(text: str) -> Literal["s3"] | None:
    """The dialect of a Markdown document, told by its front matter."""
    end = _END.search(text, 3) if _START.match(text) else None
    if end is None:
        return None
    head = text[: end.start()]
    if _TYPE.search(head):
        return None
    return "s3" if _S3_KEY.search(head) or all(key.search(head) for key in _S3_HEAD) else None


# --- Keys ------------------------------------------------------------------------------------------------------------
# No key of a dialect's mappings is dropped: one is taken for the plan, kept beside it, or refused as unknown.


class Keys:
    """One mapping of a dialect while its keys are taken; `refuse_rest` says which of them nobody has taken."""

    def __init__(self, value: Mapping[str, Any], path: Path, locate: Locate, problems: ProblemList) -> None:
        self.value, self.path = value, path
        self._locate, self._problems = locate, problems
        self._taken: set[str] = set()

    def take(self, key: str, kind: Any = Any) -> Any:
        """The value of a key as this type; None where it is absent or `null`, or is none and that was said."""
        self._taken.add(key)
        given = self.value.get(key)
        if given is None:
            return None
        return shape(given, kind, locate=self._locate, problems=self._problems, path=(*self.path, key))

    def beside(self, *keys: str) -> dict[str, Any]:
        """What these keys say, under their own names, as it stands: whoever gets it looks at it."""
        self._taken.update(keys)
        return {key: self.value[key] for key in keys if self.value.get(key) is not None}

    def metadata(self, beside: Sequence[str], lineage: Sequence[str], more: Mapping[str, Any] = {}) -> dict[str, Any]:
        """What is kept beside the plan: these keys as they are, `more`, and the keys of its lineage together."""
        history = self.beside(*lineage)
        return {**self.beside(*beside), **more, **({"lineage": history} if history else {})}

    def wrong(self, code: str, detail: str, *hints: str, at: Path = ()) -> None:
        """One more problem, at this place below the mapping."""
        line, column = self._locate((*self.path, *at))
        self._problems.add(code, detail, *hints, line=line, column=column)

    def refuse_rest(self, owner: str, instead: Mapping[str, str]) -> None:
        """Refuse every key that means nothing here; `instead` has the dialect's words for those of the format."""
        for key in self.value:
            if key in self._taken or len(self._problems) >= PROBLEMS_MAX:
                continue
            hints = (f"Write `{instead[key]}`.",) if key in instead else closest(key[:64], sorted(self._taken))
            self.wrong("E_PLAN_UNKNOWN_FIELD", f"{owner} has no field `{shown(key)}`.", *hints, at=(key,))


def _source(path: Path, sources: Mapping[Path, Path]) -> Path:
    """Where a part came from; a path that begins with none of the sources is the same there."""
    for length in range(min(len(path), 3), 0, -1):
        if path[:length] in sources:
            return (*sources[path[:length]], *path[length:])
    return path


class Dialect(msgspec.Struct, frozen=True, kw_only=True):
    """One dialect: from which of its fields each of ours is taken, in a plan and in a step."""

    name: str
    beside: tuple[str, ...]
    """What is kept beside the plan, in this order; `lineage` and `step_beside` are too."""
    lineage: tuple[str, ...]
    step_beside: tuple[str, ...] = ()
    plan: Mapping[Path, Path] = {}
    step: Mapping[Path, Path] = {}
    plan_instead: Mapping[str, str] = {}
    """The dialect's words for those of the format, for hints."""
    step_instead: Mapping[str, str] = {}

    def locate(self, read: ReadValue) -> Locate:
        """Finds the places of a tree in the format's own form that was made from `read`."""
        plan: dict[Path, Path] = {**self.plan, **{("metadata", key): (key,) for key in self.beside}}
        plan |= {("metadata", "lineage", key): (key,) for key in self.lineage}
        step: dict[Path, Path] = {**self.step, **{("metadata", key): (key,) for key in self.step_beside}}

        def place(path: Path) -> tuple[int | None, int | None]:
            if path[:1] == ("steps",) and len(path) > 2:
                return read.locate((*path[:2], *_source(path[2:], step)))
            return read.locate(_source(path, plan))

        return place

    def document(self, tree: dict[str, Any], read: ReadValue, notation: Notation, problems: ProblemList) -> Document:
        """The document of such a tree, with the problems met on the way."""
        made = read_tree(msgspec.structs.replace(read, value=tree, locate=self.locate(read)), notation)
        problems.extend(made.problems)
        found = problems.in_order()
        whole = plan_unless_wrong(made.plan, found)
        partial = None if whole is not None else made.plan or made.partial
        return msgspec.structs.replace(made, plan=whole, partial=partial, problems=found, dialect=self.name)


def first_line(text: str) -> str:
    """The title of a text that may have several lines; one that has a single line is its own."""
    return text if "\n" not in text else text.strip().partition("\n")[0].rstrip()


# --- Progress --------------------------------------------------------------------------------------------------------
# Marks of progress, ✅ and `[x]` before a step's title and `**status: …**` lines, are kept beside the plan as claims;
# nothing that decides ever reads one.

_DONE = compile_later(r"[ \t]*(?:#{1,6}[ \t]+)?(?:[^ \t.]+\.[ \t]+)?(?:✅|\[[xX]\](?:[ \t]|$))")
_STATUS = compile_later(r" {0,3}\*\*status:(?:\*\*[ \t]*(?P<beside>.*)|(?P<inside>[^*]*)\*\*[ \t]*)", re.IGNORECASE)


def with_claims(document: Document, text: str) -> Document:
    """The document with what its marks of progress claim, unless its record says something else."""
    if not ("✅" in text or "[x]" in text or "[X]" in text or "**status:" in text.lower()):
        return document
    record: dict[str, Mapping[str, Any]] = dict(document.record)
    for owner, word in _claims(document, text.split("\n")):
        if "status" not in record.get(owner, {}):
            record[owner] = {**record.get(owner, {}), "status": word}
    return msgspec.structs.replace(document, record=record)


def _claims(document: Document, lines: list[str]) -> Iterator[tuple[str, str]]:
    starts = {place.line: owner for owner, place in document.places.items()}
    owner = ""
    end = 0
    if lines[0].rstrip() == "---":
        end = next((at + 1 for at in range(1, len(lines)) if lines[at].rstrip() == "---"), 0)
    for block in scan(lines, end):
        if block.line in starts:
            owner = starts[block.line]
            if _DONE.match(lines[block.line - 1]):
                yield owner, "done"
        elif isinstance(block, Heading) and block.level == 2 and block.text not in ("Steps", "Fallbacks"):
            # Below stand notes, which claim nothing.
            return
        elif isinstance(block, Text) and (found := _STATUS.fullmatch(block.text)):
            word = (found["beside"] or found["inside"] or "").strip()
            if word:
                yield owner, word
