"""Values written as fences of YAML or JSON inside a Markdown document.

Knows which languages a fence may have; what a value must look like is said by `shape`.
"""

from __future__ import annotations

from typing import Any

import msgspec

from ordain.core.bound import DEPTH_MAX
from ordain.documents.document import ProblemList
from ordain.documents.json_value import read_json
from ordain.documents.scan import Fence
from ordain.documents.shape import shape
from ordain.documents.value import Path, ReadValue
from ordain.documents.yaml_value import read_yaml

__all__ = ["fenced_value", "shaped"]


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
