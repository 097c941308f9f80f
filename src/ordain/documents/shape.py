"""A plain tree of lists and mappings to the typed values of a plan, with every problem and its place, by the model's
types alone. msgspec's own conversion is tried first because it is fast; only what it refuses is walked through."""

from __future__ import annotations

import functools
import math
from collections.abc import Collection, Iterable, Mapping
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin

import msgspec

from ordain.core.plan.model import Action, Plan, Step
from ordain.core.plan.name import id_fault
from ordain.core.plan.role import fields
from ordain.core.text.limit import DEPTH_MAX, INTEGER_MAX, number_fault
from ordain.core.text.problem import closest
from ordain.documents.document import PROBLEMS_MAX, Locate, Path, ProblemList, nowhere

RECORD_FIELDS = ("plan_id", "created_at", "metadata", "tags", "owner", "status", "priority", "notes", "risks")
"""What a plan's tree may carry beside the plan: kept in the document, never hashed."""
STEP_RECORD_FIELDS = ("step_number", "step_id", "metadata", "tags", "status", "notes")
"""The same for a step."""

_ALSO_KNOWN: dict[Any, tuple[str, ...]] = {Plan: RECORD_FIELDS, Step: STEP_RECORD_FIELDS}
_KEPT_WHEN_EMPTY = ("needs", "tools")
_INSTEAD = {
    "approved": "A person approves a plan after it was prepared; a document can not.",
    "run": "Write `action: {type: run, command: …}`.",
    "tool": "Write `action: {type: tool, tool: …, args: {…}}`.",
    "contract": "Write `verification: {strategy: {type: contract, command: …}}`.",
    "verify": "Write `verification: {strategy: {…}}`.",
    "on_fail": "Write `on_failure: {strategy: …}`.",
    "depends_on": "Write `needs`.",
    "timeout": "Write `timeout_ms`, in milliseconds.",
    "approval_code": "Leave it out: an approval code in a plan is a leak.",
}
_TYPE_WORDS: dict[Any, str] = {str: "text", int: "a whole number", float: "a number", bool: "true or false"}
_WRONG: Any = object()
"""Stands for what could not be read; its problem is already noted."""
_WORD_MAX = 64
_STEP_LISTS = (("steps",), ("fallbacks",))


def shape(
    value: Any,
    into: Any,
    *,
    locate: Locate,
    problems: ProblemList,
    path: Path = (),
    sound: bool = False,
    walk: type[_TreeWalk] | None = None,
) -> Any | None:
    """The value of type `into` that a tree from a strict reader describes, or None and all that is wrong with it.
    `null` and empty lists and mappings read as absent for fields that may be absent, `needs` and `tools` excepted;
    inside free values such as `args` they stay. `path` is where the tree stands in what `locate` knows; a tree is
    `sound` when its reader has seen that all numbers are exact and that it is no deeper than a value may be."""
    if sound or not _doubtful(value):
        try:
            return msgspec.convert(value, into)
        except msgspec.ValidationError:
            pass
    read = (walk or _TreeWalk)(locate).read(value, into, path, problems)
    return None if read is _WRONG else read


def silent_shape(value: Any, into: Any) -> Any | None:
    """The same where nobody asks what is wrong: it stops at the first fault, which costs much less than to tell it."""
    try:
        return shape(value, into, locate=nowhere, problems=ProblemList(), walk=_SilentWalk)
    except _FaultError:
        return None


def path_text(path: Path) -> str:
    """The path as an author would write it, from the innermost step on: `action.args`, `needs[0]`."""
    start = 0
    while path[start : start + 1] in _STEP_LISTS and len(path) > start + 1:
        start += 4 if path[start + 2 : start + 4] == ("action", "plan") and len(path) > start + 4 else 2
    text = ""
    for key in path[start:] or path:
        text += f"[{key}]" if isinstance(key, int) else f".{shown(key)}" if text else shown(key)
    return text


def shown(word: str) -> str:
    """A word of the document, cut to what a line can bear and with nothing in it that a terminal would obey."""
    cut = word if len(word) <= _WORD_MAX else word[: _WORD_MAX - 1] + "…"
    return cut if cut.isprintable() and "`" not in cut else ascii(cut)[1:-1].replace("`", "'")


def _doubtful(value: Any) -> bool:
    """Whether a tree may hold what msgspec would let through: inexact numbers, or free values nested too deep."""
    level: list[Any] = [[value]]
    for _ in range(DEPTH_MAX + 1):
        below: list[Any] = []
        for container in level:
            for item in container.values() if type(container) is dict else container:
                kind = type(item)
                if kind is dict or kind is list:
                    below.append(item)
                elif (kind is int and not -INTEGER_MAX <= item <= INTEGER_MAX) or (
                    kind is float and not math.isfinite(item)
                ):
                    return True
        if not below:
            return False
        level = below
    return True


class _TreeWalk:
    """Reads one tree along its type, noting problems instead of stopping."""

    def __init__(self, locate: Locate) -> None:
        self.locate = locate

    def read(self, value: Any, into: Any, path: Path, problems: ProblemList) -> Any:
        into = getattr(into, "__supertype__", into)
        if len(problems) >= PROBLEMS_MAX:
            return _WRONG
        if into is Any:
            return self._free(value, path, problems)
        origin = get_origin(into)
        if origin in (Union, UnionType):
            return self._union(value, into, path, problems)
        if origin is Literal:
            return self._literal(value, get_args(into), path, problems)
        if origin is tuple:
            return self._list(value, get_args(into)[0], path, problems)
        if isinstance(origin, type) and issubclass(origin, Mapping):
            return self._mapping(value, get_args(into)[1], path, problems)
        if isinstance(into, type) and issubclass(into, msgspec.Struct):
            return self._struct(value, into, path, problems)
        return self._scalar(value, into, path, problems)

    # --- Single values ---

    def _scalar(self, value: Any, into: Any, path: Path, problems: ProblemList) -> Any:
        if into is float and type(value) is int:
            value = self._number(value, path, problems)
            return _WRONG if value is _WRONG else float(value)
        if type(value) is into:
            return self._number(value, path, problems)
        return self._not(_TYPE_WORDS.get(into, "something else"), value, path, problems)

    def _literal(self, value: Any, choices: Collection[Any], path: Path, problems: ProblemList) -> Any:
        if isinstance(value, str) and value in choices:
            return value
        wanted = " or ".join(f"`{choice}`" for choice in choices)
        hints = self._near(value, map(str, choices)) if isinstance(value, str) else ()
        if isinstance(value, str):
            detail = f"{_subject(path)} is `{shown(value)}`; {wanted} is wanted."
            return self._add("E_PLAN_TYPE", detail, path, problems, *hints)
        return self._not(wanted, value, path, problems, *hints)

    def _free(self, value: Any, path: Path, problems: ProblemList) -> Any:
        """A value whose form is nobody's business here; only its numbers and its depth are."""
        todo = [(value, path, 1)]
        sound = True
        while todo and len(problems) < PROBLEMS_MAX:
            item, at, depth = todo.pop()
            if isinstance(item, dict | list) and depth > DEPTH_MAX:
                detail = f"More than {DEPTH_MAX} lists and mappings are nested."
                self._add("E_DOC_DEPTH", detail, at, problems)
                return _WRONG
            if isinstance(item, dict):
                todo += [(inner, (*at, key), depth + 1) for key, inner in item.items()]
            elif isinstance(item, list):
                todo += [(inner, (*at, index), depth + 1) for index, inner in enumerate(item)]
            else:
                sound = self._number(item, at, problems) is not _WRONG and sound
        return value if sound else _WRONG

    def _number(self, value: Any, path: Path, problems: ProblemList) -> Any:
        if type(value) in (int, float) and number_fault(value) is not None:
            detail = f"The number of `{path_text(path)}` can not be kept exactly."
            return self._add("E_DOC_NUMBER", detail, path, problems, "Write it as text.")
        return value

    # --- Lists and mappings ---

    def _list(self, value: Any, item: Any, path: Path, problems: ProblemList) -> Any:
        if not isinstance(value, list | tuple):
            return self._not("a list", value, path, problems)
        read = [self.read(inner, item, (*path, index), problems) for index, inner in enumerate(value)]
        return _WRONG if any(inner is _WRONG for inner in read) else tuple(read)

    def _mapping(self, value: Any, item: Any, path: Path, problems: ProblemList) -> Any:
        if not isinstance(value, Mapping):
            return self._not("a mapping", value, path, problems)
        if item is Any:
            return self._free(value, path, problems)
        read = {key: self.read(inner, item, (*path, key), problems) for key, inner in value.items()}
        return _WRONG if any(inner is _WRONG for inner in read.values()) else read

    # --- Structs ---

    def _union(self, value: Any, into: Any, path: Path, problems: ProblemList) -> Any:
        members = [member for member in get_args(into) if member is not NoneType]
        if value is None and len(members) < len(get_args(into)):
            return None
        if len(members) == 1:
            return self.read(value, members[0], path, problems)
        if not isinstance(value, Mapping):
            return self._not("a mapping", value, path, problems, into=into)
        field, by_tag = _tags(into)
        tag = value.get(field)
        if isinstance(tag, str) and tag in by_tag:
            return self._struct(value, by_tag[tag], path, problems)
        code = "E_STEP_ACTION" if into == Action else "E_PLAN_TYPE"
        at, choices = ((*path, field) if field in value else path), ", ".join(f"`{name}`" for name in by_tag)
        if isinstance(tag, str):
            detail = f"`{shown(tag)}` is no {field} that {_name(path, into)} can have."
            return self._add(code, detail, at, problems, *(self._near(tag, by_tag) or (f"There are {choices}.",)))
        if field in value:
            return self._not(f"one of {choices}", tag, at, problems)
        detail = f"{_subject(path, into)} does not say its `{field}`."
        return self._add(code, detail, at, problems, f"Write one of {choices}.")

    def _struct(self, value: Any, into: type[msgspec.Struct], path: Path, problems: ProblemList) -> Any:
        if not isinstance(value, Mapping):
            return self._not("a mapping", value, path, problems, into=into)
        if into is Step:
            step = value.get("id")
            known = step if isinstance(step, str) and id_fault(step) is None else None
            problems = problems.about(known, self.locate(path)[0])
        fields, tag_field = _fields(into), into.__struct_config__.tag_field
        read: dict[str, Any] = {}
        for key, inner in value.items():
            if key in fields:
                field = fields[key]
                if not _absent(inner, field):
                    read[field.name] = self.read(inner, field.type, (*path, key), problems)
            elif key != tag_field:
                self._unknown(key, into, path, problems)
                read[key] = _WRONG
        for key, field in fields.items():
            if field.required and field.name not in read:
                read[field.name] = self._missing(key, field.type, into, path, problems)
        if len(problems) >= PROBLEMS_MAX or any(inner is _WRONG for inner in read.values()):
            return _WRONG
        return into(**read)

    def _unknown(self, key: Any, into: Any, path: Path, problems: ProblemList) -> None:
        if len(problems) >= PROBLEMS_MAX:
            return
        tag = into.__struct_config__.tag
        owner = f"`{tag}`" if tag is not None else _subject(path, into)
        owner = {Plan: "A plan", Step: "A step"}.get(into, owner)
        known = (*_fields(into), *_ALSO_KNOWN.get(into, ()))
        hints = (_INSTEAD[key],) if key in _INSTEAD else self._near(key, known)
        detail = f"{owner} has no field `{shown(str(key))}`."
        self._add("E_PLAN_UNKNOWN_FIELD", detail, (*path, key), problems, *hints)

    def _missing(self, key: str, kind: Any, into: Any, path: Path, problems: ProblemList) -> Any:
        if into is Step and key == "action":
            hint = "Write `action: {type: run, command: …}`, or another type."
            detail = "The step has nothing to do: `action` is missing."
            return self._add("E_STEP_ACTION", detail, (*path, key), problems, hint)
        detail = f"`{path_text((*path, key))}` is missing; {_wanted(kind)} is wanted."
        return self._add("E_PLAN_TYPE", detail, (*path, key), problems)

    # --- Problems ---

    def _not(self, wanted: str, value: Any, path: Path, problems: ProblemList, *hints: str, into: Any = None) -> Any:
        detail = f"{_subject(path, into)} is {_kind(value)}; {wanted} is wanted."
        return self._add("E_PLAN_TYPE", detail, path, problems, *hints)

    def _add(self, code: str, detail: str, path: Path, problems: ProblemList, *hints: str) -> Any:
        line, column = self.locate(path)
        problems.add(code, detail, *hints, line=line, column=column)
        return _WRONG

    def _near(self, word: Any, known: Iterable[str]) -> tuple[str, ...]:
        return closest(word, known) if isinstance(word, str) and len(word) <= _WORD_MAX else ()


class _FaultError(Exception):
    """Something is wrong; nobody asks what."""


class _SilentWalk(_TreeWalk):
    def _add(self, code: str, detail: str, path: Path, problems: ProblemList, *hints: str) -> Any:
        raise _FaultError

    def _near(self, word: Any, known: Iterable[str]) -> tuple[str, ...]:
        raise _FaultError


# --- What the types say --------------------------------------------------------------------------------------------


@functools.cache
def _fields(into: type[msgspec.Struct]) -> dict[str, msgspec.structs.FieldInfo]:
    return {field.encode_name: field for field in fields(into)}


@functools.cache
def _tags(into: Any) -> tuple[str, dict[str, type[msgspec.Struct]]]:
    """The field that tells the members of a union apart, and the member of each of its values."""
    members = [member for member in get_args(into) if member is not NoneType]
    return members[0].__struct_config__.tag_field, {member.__struct_config__.tag: member for member in members}


def _name(path: Path, into: Any = None) -> str:
    if path:
        return f"`{path_text(path)}`"
    return "the action" if into == Action else "the plan" if into is Plan else "the value"


def _absent(value: Any, field: msgspec.structs.FieldInfo) -> bool:
    """Whether a field with this value reads as if it had not been written."""
    if field.type is Any and (field.required or value is not None):
        return False
    return value is None or (not field.required and value in ([], {}) and field.name not in _KEPT_WHEN_EMPTY)


def _subject(path: Path, into: Any = None) -> str:
    name = _name(path, into)
    return name[0].upper() + name[1:]


def _wanted(kind: Any) -> str:
    kind = getattr(kind, "__supertype__", kind)
    origin = get_origin(kind)
    if kind is Any:
        return "any value"
    if kind in _TYPE_WORDS:
        return _TYPE_WORDS[kind]
    if origin is Literal:
        return " or ".join(f"`{choice}`" for choice in get_args(kind))
    return "a list" if origin is tuple else "a mapping"


def _kind(value: Any) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return "text"
    if isinstance(value, int | float):
        return "a number" if not isinstance(value, float) or value.is_integer() else "a fraction"
    return "a mapping" if isinstance(value, Mapping) else "a list"
