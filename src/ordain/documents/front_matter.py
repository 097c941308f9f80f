"""The YAML between the `---` lines at the top of a Markdown document: the plan's keys, checked one by one.

Knows nothing of the text below it. Keys for readers (`owner`, `status`, tags, metadata) are accepted and stay
outside the plan; every unknown key is refused, because a misspelt one would silently change what is approved.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec

from ordain.core.model import PLAN_VERSION
from ordain.core.problem import closest
from ordain.documents.document import PROBLEMS_MAX, ProblemList
from ordain.documents.slug import tool_name_fault
from ordain.documents.yaml_value import read_yaml

__all__ = ["TIER_MAX", "FrontMatter", "read_front_matter"]

TIER_MAX = 2

_FOR_READERS = ("owner", "status", "tags", "metadata")
_NOT_YET = ("protect", "agent", "params")


class FrontMatter(msgspec.Struct, frozen=True, kw_only=True):
    """What the front matter says, absent where it says nothing; `end` counts the lines it takes."""

    end: int = 0
    plan_version: int = PLAN_VERSION
    workspace_id: str | None = None
    tools: tuple[str, ...] | None = None
    tier: int | None = None
    tier_line: int | None = None


def read_front_matter(lines: Sequence[str], problems: ProblemList) -> FrontMatter | None:
    """The front matter at the top of these lines; None where it has no end, so that nothing below can be read."""
    if not lines or lines[0].rstrip() != "---":
        return FrontMatter()
    end = next((at for at in range(1, len(lines)) if lines[at].rstrip() == "---"), None)
    if end is None:
        hint = "Close it with a line `---`, or delete the first line."
        problems.add("E_DOC_SYNTAX", "The front matter that starts here has no end.", hint, line=1)
        return None
    read = read_yaml("\n".join(lines[1:end]), first_line=2)
    problems.extend(read.problems)
    if read.problems or read.value is None:
        return FrontMatter(end=end + 1)
    if not isinstance(read.value, dict):
        problems.add("E_DOC_SYNTAX", "The front matter is not a mapping.", "Write `key: value` lines.", line=2)
        return FrontMatter(end=end + 1)
    return _checked(read.value, read.key_lines, end + 1, problems)


def _checked(values: dict[str, Any], key_lines: Mapping[str, int], end: int, problems: ProblemList) -> FrontMatter:
    found: dict[str, Any] = {}
    for key, value in values.items():
        if len(problems) >= PROBLEMS_MAX:
            break
        line = key_lines.get(key)

        def wrong(code: str, detail: str, *hints: str, line: int | None = line) -> None:
            problems.add(code, detail, *hints, line=line)

        if key in _NOT_YET:
            wrong("E_NOT_YET", f"`{key}` is part of the format, but this version does not carry it out.")
        elif key in _CHECKS:
            # `null` reads as absent.
            checked = None if value is None else _CHECKS[key](value, wrong)
            if checked is not None:
                found[key] = checked
        elif key not in _FOR_READERS:
            hints = closest(key, [*_CHECKS, *_FOR_READERS, *_NOT_YET])
            wrong("E_PLAN_UNKNOWN_FIELD", f"The front matter has no key `{key[:64]}`.", *hints)
    found.pop("type", None)
    return FrontMatter(end=end, tier_line=key_lines.get("tier") if "tier" in found else None, **found)


_Wrong = Callable[..., None]


def _type(value: Any, wrong: _Wrong) -> None:
    if value != "plan":
        wrong("E_PLAN_TYPE", "The `type` of the document is not `plan`.", "Write `type: plan`.")


def _plan_version(value: Any, wrong: _Wrong) -> int | None:
    if not _whole(value):
        wrong("E_PLAN_TYPE", "`plan_version` is not a whole number.", f"Write `plan_version: {PLAN_VERSION}`.")
        return None
    if not 1 <= value <= PLAN_VERSION:
        wrong("E_PLAN_VERSION", f"Plan version {value} is not known here; this version reads {PLAN_VERSION}.")
        return None
    return int(value)


def _workspace_id(value: Any, wrong: _Wrong) -> str | None:
    if isinstance(value, str) and value.strip():
        return value
    wrong("E_PLAN_TYPE", "`workspace_id` is not text.")
    return None


def _tools(value: Any, wrong: _Wrong) -> tuple[str, ...] | None:
    if not isinstance(value, list) or not all(isinstance(name, str) for name in value):
        wrong("E_PLAN_TYPE", "`tools` is not a list of names.", "Write `tools: [read_file, shell]`.")
        return None
    for name in value:
        fault = tool_name_fault(name)
        if fault:
            wrong(*fault)
    if len(set(value)) < len(value):
        wrong("E_DOC_DUPLICATE", "A tool stands twice in `tools`.")
    return tuple(value)


def _tier(value: Any, wrong: _Wrong) -> int | None:
    if not _whole(value):
        wrong("E_PLAN_TYPE", "`tier` is not a whole number.", "Write `tier: 0`, `tier: 1` or `tier: 2`.")
        return None
    if not 0 <= value <= TIER_MAX:
        wrong("E_FIELD_VALUE", f"`tier` is {value}; 0 to {TIER_MAX} are allowed.")
        return None
    return int(value)


def _whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


_CHECKS: dict[str, Callable[[Any, _Wrong], Any]] = {
    "type": _type,
    "plan_version": _plan_version,
    "workspace_id": _workspace_id,
    "tools": _tools,
    "tier": _tier,
}
