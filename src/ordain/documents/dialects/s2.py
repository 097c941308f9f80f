"""The third seed's plans (JSON, or the same tree in YAML): calls of tools, known by their ids.

A tree in, a document out. The seed has one reference, `"$step_1"` as a whole value; whatever else looks like one of the
format's references is text there, and stays text.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import Any

from ordain.core.plan.name import id_fault
from ordain.core.plan.refs import references
from ordain.documents.dialects.reader import Keys, Renamed, document_of, kept
from ordain.documents.document import Document, Notation, Path, ProblemList, ReadValue

UNTITLED = "Untitled plan"
"""The seed's plans have no title; one that a document gives all the same, as `title`, is taken."""
PLAN_BESIDE = ("id", "taskId", "estimatedDuration", "createdAt")
LINEAGE = ("version",)
STEP_BESIDE = ("order", "result")
"""What is kept beside the plan and its steps, in this order."""

_PLAN_SOURCES = kept(PLAN_BESIDE, LINEAGE)
_STEP_SOURCES: dict[Path, Path] = {
    ("needs",): ("dependsOn",),
    ("on_failure",): ("critical",),
    ("action",): (),
    ("action", "tool"): ("tool",),
    ("action", "args"): ("args",),
    **kept(STEP_BESIDE),
}
_STEP_INSTEAD = {"needs": "dependsOn", "depends_on": "dependsOn", "on_failure": "critical", "step_number": "order"}
_NAMED = re.compile(r"\$([A-Za-z0-9_-]+)")


def read_s2(read: ReadValue, notation: Notation) -> Document:
    """The document that this tree of the third seed's form is."""
    problems = ProblemList()
    plan = Keys(read.value, (), read.locate, problems)
    title = plan.take("title", str)
    metadata = plan.metadata(PLAN_BESIDE, LINEAGE)
    steps = plan.beside("steps").get("steps")
    plan.refuse_rest("A plan of dialect s2", {})
    tree: dict[str, Any] = {
        "title": UNTITLED if title is None else title,
        "metadata": metadata or None,
        "steps": _steps(steps, read, problems) if type(steps) is list else steps,
    }
    locate = Renamed(read.locate, _PLAN_SOURCES, _STEP_SOURCES)
    return document_of(tree, read, locate, notation, "s2", problems)


def _steps(given: list[Any], read: ReadValue, problems: ProblemList) -> list[Any]:
    """The steps in the format's own form; what is no mapping stays, for others to refuse."""
    names = (step.get("id") for step in given if type(step) is dict)
    values = _Values(dict.fromkeys(name for name in names if type(name) is str and id_fault(name) is None))
    steps: list[Any] = []
    before: int | float | None = None
    for index, step in enumerate(given):
        if type(step) is not dict:
            steps.append(step)
            continue
        name = step.get("id")
        known = name if type(name) is str and id_fault(name) is None else None
        keys = Keys(step, ("steps", index), read.locate, problems.about(known, None))
        before = _order(keys, before)
        steps.append(_step(keys, values))
    return steps


def _order(keys: Keys, before: int | float | None) -> int | float | None:
    """The `order` of a step, which must be that of the list."""
    order: Any = keys.value.get("order")
    if order is None:
        return before
    if isinstance(order, int | float) and not isinstance(order, bool) and (before is None or order > before):
        return order
    hint = "Put the steps in the order that `order` says; it is a number, and rises."
    keys.wrong("E_PLAN_TYPE", "`order` is not that in which the steps stand.", hint, at=("order",))
    return before


def _step(keys: Keys, values: _Values) -> dict[str, Any]:
    for key in ("id", "tool"):
        if keys.value.get(key) is None:
            keys.wrong("E_PLAN_TYPE", f"`{key}` is missing; text is wanted.")
    step = keys.take("id", str)
    critical = keys.take("critical", bool)
    args = keys.take("args", dict[str, Any])
    needs = keys.take("dependsOn", tuple[str, ...])
    made: dict[str, Any] = {
        "id": step,
        "description": keys.take("description", str),
        "needs": None if needs is None else list(needs),
        "action": {
            "type": "tool",
            "tool": keys.take("tool", str) or "…",
            "args": {} if args is None else values.made(args, keys),
        },
        "on_failure": {"strategy": "continue"} if critical is False else None,
        "status": keys.take("status", str),
        "metadata": keys.beside(*STEP_BESIDE) or None,
    }
    keys.refuse_rest("A step of dialect s2", _STEP_INSTEAD)
    return made


class _Values:
    """Makes the arguments of steps: texts that name a step become references, all others stay what they say."""

    def __init__(self, ids: Collection[str]) -> None:
        self._ids = ids
        self._near = {_stem(step): step for step in reversed(list(ids)) if _stem(step)}

    def made(self, value: Any, keys: Keys, path: Path = ("args",)) -> Any:
        """The value with references; `path` is its way from the mapping whose keys are taken."""
        if type(value) is str:
            return self._text(value, keys, path) if "$" in value else value
        if type(value) is dict:
            return {key: self.made(inner, keys, (*path, key)) for key, inner in value.items()}
        if type(value) is list:
            return [self.made(inner, keys, (*path, index)) for index, inner in enumerate(value)]
        return value

    def _text(self, text: str, keys: Keys, path: Path) -> str:
        named = _NAMED.fullmatch(text)
        if named and named[1] in self._ids:
            return f"${{{named[1]}.output}}"
        near = self._near.get(_stem(named[1])) if named else None
        if near is not None:
            keys.wrong("E_REF", f"`{text[:65]}` names no step of the plan.", f"Did you mean `${near}`?", at=path)
        # Unescaped it would become a reference, or lose a dollar.
        escaped = "$${" in text or next(references(text), None) is not None
        return text.replace("${", "$${") if escaped else text


def _stem(name: str) -> str:
    """A name without what is easily mistyped; other texts that begin with a dollar are no slips of the pen."""
    return re.sub("[0-9_-]+", "", name).lower()
