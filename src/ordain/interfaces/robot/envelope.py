"""What robots are answered: one JSON document for every verb, or one table for agents that pay for every character."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec

from ordain.core.text.problem import Problem, Refused, Severity, refuse
from ordain.interfaces.view.picked import picked
from ordain.interfaces.view.problem import problem_pages

ENVELOPE_VERSION = 1


class ToldPlace(msgspec.Struct, frozen=True, kw_only=True):
    """Where in a document a problem is; lines and columns count from one."""

    file: str | None
    line: int | None
    column: int | None
    step: str | None


class ToldProblem(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that is wrong, as robots get it: always with the same keys."""

    code: str
    severity: Severity
    detail: str
    """A whole sentence about this very case."""
    where: ToldPlace | None
    hints: tuple[str, ...]
    """What to write or do instead."""
    command: str | None
    """The line to paste next."""


class Error(msgspec.Struct, frozen=True, kw_only=True):
    """Why a verb refused or failed: the first of the problems that did it."""

    code: str
    message: str
    remediation: str
    """What helps: what is known of this very case, else what the page of the code says. Never empty."""
    command: str | None
    """What helps; it is among `next` too."""


class Envelope(msgspec.Struct, frozen=True, kw_only=True):
    """The one document that every verb answers with."""

    ok: bool
    """Whether there is no error."""
    data: Any
    """What the verb answers; null where there is nothing to tell."""
    error: Error | None
    problems: tuple[ToldProblem, ...]
    """All that is wrong, warnings too."""
    next: tuple[str, ...]
    """Commands that can be pasted and make sense now, the best one first."""
    elapsed_ms: int
    version: int
    """Of this shape. It stays 1 as long as fields are only added."""


def told(problem: Problem) -> ToldProblem:
    """A problem with its severity."""
    return picked(ToldProblem, problem, where=picked(ToldPlace, problem.where) if problem.where else None)


def cause(problems: Sequence[Problem]) -> Problem:
    """What a refusal is put down to: the first problem that is more than a warning."""
    return next((problem for problem in problems if problem.severity is not Severity.WARNING), problems[0])


def remedies(problems: Sequence[Problem]) -> tuple[str, ...]:
    """The commands that help, each once."""
    return tuple(dict.fromkeys(problem.command for problem in problems if problem.command is not None))


def bug(error: BaseException) -> Problem:
    """What cannot happen, and did."""
    detail = f"{type(error).__name__}: {error}"
    return Problem(code="B_BUG", detail=detail, hints=("This is a bug in ordain. Please report it.",))


def envelope(
    data: Any, *, problems: Sequence[Problem] = (), error: Problem | None = None, next_: Sequence[str], elapsed_ms: int
) -> bytes:
    """One document: `ok`, the verb's data, the error that refused it, all problems, and the commands that come next."""
    wrong = None
    if error is not None:
        helps = " ".join(error.hints)
        if not helps:  # nothing more is known of this case than what the page of the code says
            page = problem_pages().get(error.code)
            helps = " ".join(page.remedy.split()) if page is not None else f"What it means: ordain explain {error.code}"
        wrong = Error(code=error.code, message=error.detail, remediation=helps, command=error.command)
    document = Envelope(
        ok=error is None,
        data=data,
        error=wrong,
        problems=tuple(map(told, problems)),
        next=tuple(next_),
        elapsed_ms=elapsed_ms,
        version=ENVELOPE_VERSION,
    )
    return to_json(document)


def to_text(value: Any) -> str:
    """JSON on one line for models, with letters of all languages; what cannot be seen is escaped."""
    text = json.dumps(json.loads(to_json(value)), separators=(",", ":"), ensure_ascii=False)
    return "".join(one if one.isprintable() else json.dumps(one)[1:-1] for one in text)


def to_json(value: Any) -> bytes:
    """JSON on one line, in plain ASCII, for people look at JSON on terminals: nothing in it is acted on there."""
    plain = json.dumps(msgspec.to_builtins(value, str_keys=True), separators=(",", ":"), ensure_ascii=False)
    whole = plain.encode("utf-8", "replace").decode()  # half a character has no place in JSON
    return json.dumps(json.loads(whole), separators=(",", ":")).replace("\x7f", "\\u007f").encode()


def extra_missing(extra: str, detail: str) -> Refused:
    """The refusal of what needs this extra of the package."""
    return refuse(
        "E_EXTRA_MISSING",
        detail,
        f"In a checkout of Ordain: pip install '.[{extra}]'",
        command=f"pip install 'ordain[{extra}]'",
    )


# --- TOON ------------------------------------------------------------------------------------------------------------
# A verb's result as one flat table with a few words around it, made of what `--json` says; what is nested there has no
# place in it.

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
    """A value as TOON, with an escape for each character up to U+FFFF that does not plainly show."""
    return _ESCAPED.sub(lambda found: f"\\u{found[1]}" if found[1] else found[0], toon_writer()(_marked(value)))


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
    plain = character.isprintable() or character in "\n\r\t" or ord(character) > 0xFFFF
    return character if plain else f"{_MARK}{ord(character):04x}{_MARK}"


def table_value(data: Mapping[str, Any], problems: Sequence[Problem], next_: Sequence[str]) -> dict[str, Any]:
    """What the result of a verb in TABLES is as a table: of steps, or of plans."""
    if "plans" in data:
        table = {"count": data["count"], "plans": [_plan_row(plan) for plan in data["plans"]]}
    elif "plan" in data:
        table = {**_head(data), "steps": _planned_rows(data)}
    else:
        table = {**_head(data), "steps": [_step_row(step) for step in data["steps"]]}
    warnings = [{"code": problem.code, "detail": problem.detail} for problem in problems]
    return {**table, **({"problems": warnings} if warnings else {}), **({"next": list(next_)} if next_ else {})}


def _head(data: Mapping[str, Any]) -> Row:
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
