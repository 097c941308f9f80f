"""The YAML between the `---` lines at the top of a Markdown document, checked key by key: every unknown key is refused,
because a misspelt one would silently change what is approved. Then the values of fences."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec

from ordain.core.plan.model import PLAN_VERSION, Parameter
from ordain.core.plan.name import name_fault, scope_faults
from ordain.core.text.limit import DEPTH_MAX, TIER_MAX
from ordain.core.text.problem import closest
from ordain.documents.document import PROBLEMS_MAX, Locate, Path, ProblemList, ReadValue, nowhere
from ordain.documents.json import read_json
from ordain.documents.markdown.scan import Fence
from ordain.documents.shape import RECORD_FIELDS, STEP_RECORD_FIELDS, shape
from ordain.documents.yaml import read_yaml

# --- Front matter ----------------------------------------------------------------------------------------------------

FOR_READERS = ("owner", "status", "tags", "metadata")
"""Keys of the front matter that are kept beside the plan."""


class FrontMatter(msgspec.Struct, frozen=True, kw_only=True):
    """Fields of the plan, what stands beside it and its steps, and how many lines the front matter takes."""

    end: int = 0
    values: Mapping[str, Any] = {}
    record: Mapping[str, Mapping[str, Any]] = {}
    locate: Locate = nowhere


def read_front_matter(lines: Sequence[str], problems: ProblemList) -> FrontMatter | None:
    """The front matter at the top of these lines; None where it has no end, so that nothing below can be read."""
    if not lines or lines[0].rstrip() != "---":
        return FrontMatter()
    end = next((at for at in range(1, len(lines)) if lines[at].rstrip() == "---"), None)
    if end is None:
        hint = "Close it with a line `---`, or delete the first line."
        problems.add("E_DOC_SYNTAX", "The front matter that starts here has no end.", hint, line=1)
        return None
    # Free values are bounded by `shape`; those in `record` and `params` stand three deep.
    read = read_yaml("".join(f"{line}\n" for line in lines[1:end]), first_line=2, depth_max=DEPTH_MAX + 3)
    problems.extend(read.problems)
    if read.problems or read.value is None:
        return FrontMatter(end=end + 1)
    if not isinstance(read.value, dict):
        problems.add("E_DOC_SYNTAX", "The front matter is not a mapping.", "Write `key: value` lines.", line=2)
        return FrontMatter(end=end + 1)
    return _checked(read, end + 1, problems)


class _Key:
    """One key being checked: its value, and where to say what is wrong with it."""

    def __init__(self, name: str, read: ReadValue, problems: ProblemList) -> None:
        self.name, self.value = name, read.value[name]
        self.locate, self.problems = read.locate, problems

    def wrong(self, code: str, detail: str, *hints: str, at: Path = ()) -> None:
        line, column = self.locate((self.name, *at))
        self.problems.add(code, detail, *hints, line=line, column=column)

    def shaped(self, into: Any) -> Any:
        return shape(self.value, into, locate=self.locate, problems=self.problems, path=(self.name,))

    def free(self, value: Any, at: Path = ()) -> bool:
        """Whether a value that means nothing to a plan is there, and is one that a document may hold."""
        path = (self.name, *at)
        return shape(value, Any, locate=self.locate, problems=self.problems, path=path) is not None


def _checked(read: ReadValue, end: int, problems: ProblemList) -> FrontMatter:
    values: dict[str, Any] = {}
    record: dict[str, dict[str, Any]] = {}
    # `record` is looked at last: it must not say what another key has said.
    for name, value in sorted(read.value.items(), key=lambda item: item[0] == "record"):
        if len(problems) >= PROBLEMS_MAX:
            break
        key = _Key(name, read, problems)
        if name in FOR_READERS:
            if key.free(value):
                record.setdefault("", {})[name] = value
        elif name == "record":
            _take_records(key, record)
        elif name in _CHECKS:
            # `null` reads as absent.
            checked = None if value is None else _CHECKS[name](key)
            if checked is not None:
                values[name] = checked
        else:
            hints = closest(name[:64], [*_CHECKS, *FOR_READERS, "record"])
            key.wrong("E_PLAN_UNKNOWN_FIELD", f"The front matter has no key `{name[:64]}`.", *hints)
    return FrontMatter(end=end, values=values, record=record, locate=read.locate)


def _take_records(key: _Key, record: dict[str, dict[str, Any]]) -> None:
    """What other notations say beside the plan and its steps, and Markdown has no place of its own for."""
    if not isinstance(key.value, dict) or not all(isinstance(said, dict) for said in key.value.values()):
        key.wrong("E_PLAN_TYPE", "`record` is not a mapping from step ids to mappings.")
        return
    for owner, said in key.value.items():
        known = _beside(owner)
        for name, value in said.items():
            at = (owner, name)
            if len(key.problems) >= PROBLEMS_MAX:
                return
            if name not in known:
                detail = f"`record` has no place for `{name[:64]}`."
                key.wrong("E_PLAN_UNKNOWN_FIELD", detail, *closest(name[:64], known), at=at)
            elif name in record.get(owner, {}):
                key.wrong("E_DOC_DUPLICATE", f"`{name}` is given twice.", at=at)
            elif key.free(value, at):
                record.setdefault(owner, {})[name] = value


def _beside(owner: str) -> tuple[str, ...]:
    """What may be said beside the plan (its notes are sections), a nested plan or a step."""
    if not owner:
        return tuple(name for name in RECORD_FIELDS if name not in ("notes", "risks"))
    return RECORD_FIELDS if owner.endswith("/") else tuple(name for name in STEP_RECORD_FIELDS if name != "step_number")


def _type(key: _Key) -> None:
    if key.value != "plan":
        key.wrong("E_PLAN_TYPE", "The `type` of the document is not `plan`.", "Write `type: plan`.")


def _plan_version(key: _Key) -> int | None:
    detail = f"Plan version {key.value} is not known here; this version reads {PLAN_VERSION}."
    return _number(key, 1, PLAN_VERSION, f"Write `plan_version: {PLAN_VERSION}`.", "E_PLAN_VERSION", detail)


def _number(key: _Key, low: int, high: int, hint: str, code: str, beyond: str) -> int | None:
    """A whole number; one outside of its limits has a problem of its own."""
    if not isinstance(key.value, int) or isinstance(key.value, bool):
        key.wrong("E_PLAN_TYPE", f"`{key.name}` is not a whole number.", hint)
        return None
    if not low <= key.value <= high:
        key.wrong(code, beyond)
        return None
    return key.value


def _text(key: _Key, what: str) -> str | None:
    if isinstance(key.value, str):
        return key.value
    key.wrong("E_PLAN_TYPE", f"`{key.name}` is not {what}.")
    return None


def _agent(key: _Key) -> str | None:
    agent = _text(key, "a name")
    fault = name_fault("agent", agent) if agent is not None else None
    if fault:
        key.wrong(*fault)
    return agent


def _texts(key: _Key, hint: str) -> tuple[str, ...] | None:
    if not isinstance(key.value, list) or not all(isinstance(item, str) for item in key.value):
        key.wrong("E_PLAN_TYPE", f"`{key.name}` is not a list of texts.", hint)
        return None
    return tuple(key.value)


def _tools(key: _Key) -> tuple[str, ...] | None:
    names = _texts(key, "Write `tools: [read_file, shell]`.")
    for fault in scope_faults(names or ()):
        key.wrong(*fault)
    return names


def _tier(key: _Key) -> int | None:
    detail = f"`tier` is {key.value}; 0 to {TIER_MAX} are allowed."
    return _number(key, 0, TIER_MAX, "Write `tier: 0`, `tier: 1` or `tier: 2`.", "E_FIELD_VALUE", detail)


_CHECKS: dict[str, Callable[[_Key], Any]] = {
    "type": _type,
    "plan_version": _plan_version,
    "workspace_id": lambda key: _text(key, "text"),
    "tools": _tools,
    "protect": lambda key: _texts(key, 'Write `protect: ["tests/**"]`.'),
    "agent": _agent,
    "tier": _tier,
    "params": lambda key: key.shaped(dict[str, Parameter]),
}


# --- Fenced ----------------------------------------------------------------------------------------------------------


def fenced_value(name: str, fence: Fence, problems: ProblemList, *, depth_max: int = DEPTH_MAX) -> ReadValue | None:
    """What the fence below the field `name` holds, or None where it can not be read."""
    match fence.language:
        case "json":
            read = read_json(fence.content, first_line=fence.line + 1, depth_max=depth_max)
        case "" | "yaml" | "yml":
            # The last line has its end as every line has: the last text of a literal block must not lose it.
            read = read_yaml(fence.content + "\n", first_line=fence.line + 1, depth_max=depth_max)
        case other:
            detail = f"`{name}` is YAML or JSON, and this fence says `{other[:32]}`."
            problems.add("E_FIELD_VALUE", detail, "Use a ```yaml or ```json fence.", line=fence.line)
            return None
    if fence.indent:
        read = _moved(read, fence.indent)
    if read.problems:
        problems.extend(read.problems)
        return None
    return read


def _moved(read: ReadValue, indent: int) -> ReadValue:
    """The same value with its columns as they are in the document, where the fence and its lines are indented."""

    def locate(path: Path) -> tuple[int | None, int | None]:
        line, column = read.locate(path)
        return line, column and column + indent

    moved = []
    for problem in read.problems:
        where = problem.where
        if where is not None and where.column is not None:
            where = msgspec.structs.replace(where, column=where.column + indent)
        moved.append(msgspec.structs.replace(problem, where=where))
    return msgspec.structs.replace(read, locate=locate, problems=tuple(moved))


def shaped(name: str, fence: Fence, into: Any, problems: ProblemList) -> Any:
    """The value in the fence as one of the plan's own types, or None where it is none."""
    # Free values are bounded by `shape`; those of parameters stand two deep.
    read = fenced_value(name, fence, problems, depth_max=DEPTH_MAX + 2)
    if read is None:
        return None
    return shape(read.value, into, locate=read.locate, problems=problems)
