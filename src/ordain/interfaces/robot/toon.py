"""TOON, for agents that pay for every character: a verb's result as one flat table with a few words around it.

The table is made of what `--json` says and of nothing else; what is nested there (outputs, evidence, questions) has no
place in it. Like our JSON, the text holds no character that a terminal would act on.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ordain.core.text.problem import Problem
from ordain.interfaces.robot.envelope import extra_missing

TABLES = ("commit", "list", "prepare", "rerun", "resume", "revise", "run", "show", "status")
"""The commands whose result has a table."""

_HEAD = ("run_id", "lineage", "plan_id", "title", "status", "requires_approval")
_MARK = "\x1f"
"""Always escaped by the library, and here never part of a text: one that is in a text is marked itself."""
_ESCAPED = re.compile(r"\\(?:u001f([0-9a-f]{4})\\u001f|.)")

Row = dict[str, Any]


def toon_writer() -> Callable[[Any], str]:
    """What writes TOON; refused where the library for it is not installed."""
    try:
        import toons
    except ImportError as error:
        raise extra_missing("toon", "TOON is written by the library `toons`, which is not here.") from error
    return toons.dumps


def toon_text(value: Any) -> str:
    """A value as TOON; a character that does not plainly show is written as an escape, where TOON has one for it: up to
    U+FFFF, which is where all of those are that a terminal acts on."""
    return _ESCAPED.sub(_unmarked, toon_writer()(_marked(value)))


def _marked(value: Any) -> Any:
    """The same with every such character between marks, which the library quotes and escapes."""
    match value:
        case str():
            return value if value.isprintable() else "".join(map(_marked_character, value))
        case dict():
            return {key: _marked(one) for key, one in value.items()}
        case list():
            return [_marked(one) for one in value]
        case _:
            return value


def _marked_character(character: str) -> str:
    if character.isprintable() or character in "\n\r\t" or ord(character) > 0xFFFF:
        return character
    return f"{_MARK}{ord(character):04x}{_MARK}"


def _unmarked(escape: re.Match[str]) -> str:
    return f"\\u{escape[1]}" if escape[1] is not None else escape[0]


# --- Tables ----------------------------------------------------------------------------------------------------------


def table_value(data: Mapping[str, Any], problems: Sequence[Problem], next_: Sequence[str]) -> dict[str, Any] | None:
    """What a verb's result is as a table: of steps, or of plans; None where there is none in it."""
    if "plans" in data:
        table = {"count": data["count"], "plans": [_plan_row(plan) for plan in data["plans"]]}
    elif "plan" in data:
        table = {**_head(data), "steps": _planned_rows(data)}
    elif "steps" in data:
        table = {**_head(data), "steps": [_step_row(step) for step in data["steps"]]}
    else:
        return None
    warnings = [{"code": problem.code, "detail": problem.detail} for problem in problems]
    return {**table, **({"problems": warnings} if warnings else {}), **({"next": list(next_)} if next_ else {})}


def _head(data: Mapping[str, Any]) -> dict[str, Any]:
    title = data["plan"]["title"] if "plan" in data else None
    found = {**data, "title": data.get("title", title)}
    return {name: found[name] for name in _HEAD if found.get(name) is not None}


def _step_row(step: Mapping[str, Any]) -> Row:
    """A step of a run. The numbers of those that belong to another step are that one's."""
    why = step["waiting"] or step["evidence"]
    names = ("number", "id", "state", "attempts", "duration_ms", "error")
    return {**{name: step[name] for name in names}, "evidence": why, "description": step["description"]}


def _planned_rows(data: Mapping[str, Any]) -> list[Row]:
    run = data.get("run")
    states = {step["id"]: step["state"] for step in run["steps"]} if run is not None else {}
    strategies = [(step.get("verification") or {}).get("strategy") or {} for step in data["plan"]["steps"]]
    return [
        {
            "number": number,
            "id": step["id"],
            "state": states.get(step["id"]),
            "needs": " ".join(step["needs"]),
            "type": step["action"]["type"],
            "verified": strategy.get("command") or strategy.get("type"),
            "description": step["description"],
        }
        for number, (step, strategy) in enumerate(zip(data["plan"]["steps"], strategies, strict=True), 1)
    ]


def _plan_row(plan: Mapping[str, Any]) -> Row:
    run = plan["run"]
    names = ("lineage", "plan_id", "status", "title", "document", "revisions", "changed_at")
    return {
        **{name: plan[name] for name in names},
        "run_id": run["run_id"] if run is not None else plan["last_run"],
        # What `--json` tells of a plan holds no run but one that is open.
        "passed": f"{sum(step['state'] == 'passed' for step in run['steps'])}/{len(run['steps'])}" if run else None,
    }
