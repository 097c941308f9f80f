"""Plans made by code: `Plan.build("Bump version").step("read", tool="read_file", args={…}).done()`.

A step without `needs` follows the one before it. A field takes the value of the model or the words of Markdown
(`timeout="30s"`, `on_fail="retry(2)"`); what is wrong with a call is refused at that call, with step and field.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, get_args

import msgspec
import rfc8785

from ordain.core.plan.action import CallTool, RunCommand, Task
from ordain.core.plan.canonical import reread, said_of
from ordain.core.plan.model import PLAN_VERSION, Action, Plan, Step
from ordain.core.plan.name import id_fault
from ordain.core.plan.role import fields
from ordain.core.plan.value import StepId
from ordain.core.plan.words import read_budget, read_duration, read_failure
from ordain.core.text.problem import Place, Problem, Refused, closest

_ACTIONS: dict[str, tuple[type[msgspec.Struct], str]] = {
    "run": (RunCommand, "command"),
    "tool": (CallTool, "tool"),
    "task": (Task, "task"),
}
"""What each way to say what a step does makes, and its field for it."""
_SPELLINGS = {"timeout": "timeout_ms", "on_fail": "on_failure", "verify": "verification", "contract": "verification"}
"""Fields that Markdown has by other names than the model."""
_OWN = {"id", "action", "command", "plan_version", "title", "steps", "fallbacks"}
_HINTS = {
    "for_each": 'Write `for_each={"in": "${list.output}", "max": 50}`.',
    "timeout": 'Write `timeout="30s"`, or `timeout_ms` in milliseconds.',
    "on_failure": 'Write `on_failure="retry(2), then escalate"`.',
    "budget": 'Write `budget="max 200k tokens, $1.50"`.',
}


class PlanBuilder:
    """Collects steps; `done` gives the plan. Fields of the plan are passed by their names."""

    def __init__(self, title: str, **fields: Any) -> None:
        self._fields = _read({"title": str, **_types(Plan)}, None, {"title": title, **fields})
        self._steps: list[Step] = []
        self._fallbacks: list[Step] = []

    def step(self, name: str, *, needs: Sequence[str] | str | None = None, **what: Any) -> PlanBuilder:
        """Add a step called `name`, doing one of `run`, `tool` (with `args`), `task` (with `agent`) or `action`.

        `contract` is a command that must hold afterwards. Other fields of `Step` are passed by their names. Raises
        Refused with all that is wrong.
        """
        wanted = _listed(needs) if isinstance(needs, str) else needs
        if wanted is None:
            wanted = [self._steps[-1].id] if self._steps else []
        self._steps.append(_made(name, wanted, what))
        return self

    def fallback(self, name: str, **what: Any) -> PlanBuilder:
        """Add a step that runs only where a failure policy names it."""
        self._fallbacks.append(_made(name, (), what))
        return self

    def done(self) -> Plan:
        """The plan of what was added so far. Lint it before relying on it."""
        return Plan(
            plan_version=PLAN_VERSION,
            steps=tuple(self._steps),
            fallbacks=tuple(self._fallbacks),
            **self._fields,
        )


def _made(name: str, needs: Sequence[str], what: dict[str, Any]) -> Step:
    fault = id_fault(name) if isinstance(name, str) else ("E_STEP_ID", f"The id {name!r} is not text.")
    if fault:
        raise Refused([_problem(None, *fault)])
    given = [kind for kind in (*_ACTIONS, "action") if what.get(kind) is not None]
    if len(given) != 1:
        detail = f"`{name}` has {len(given)} actions; a step does exactly one of run, tool, task and action."
        raise Refused([_problem(name, "E_STEP_ACTION", detail)])
    kind = given[0]
    into, main = _ACTIONS.get(kind, (None, ""))
    types = _types(Step) | (_types(into) | {kind: str} if into is not None else {"action": Action})
    read = _read(types, name, {**what, "needs": needs})
    read["needs"] = tuple(sorted(set(read["needs"])))
    if into is not None:
        own = {key: read.pop(key) for key in into.__struct_fields__ if key in read and key != kind}
        read["action"] = into(**{main: read.pop(kind)}, **own)
    return Step(id=StepId(name), **{"description": name, **read})


def _types(into: type[msgspec.Struct]) -> dict[str, Any]:
    return {field.name: field.type for field in fields(into) if field.name not in _OWN}


def _read(types: Mapping[str, Any], step: str | None, given: Mapping[str, Any]) -> dict[str, Any]:
    """These fields, each in its type; raises Refused with every one that is unknown, or of another type."""
    read: dict[str, Any] = {}
    problems: list[Problem] = []
    for name, value in given.items():
        key = _SPELLINGS.get(name, name)
        if key not in types:
            near = closest(name, [*types, *_SPELLINGS])
            detail = f"{'A plan' if step is None else f'`{step}`'} has no field `{name}` here."
            problems.append(_problem(step, "E_PLAN_UNKNOWN_FIELD", detail, *near))
        elif key in read:
            problems.append(_problem(step, "E_DOC_DUPLICATE", f"`{name}` says what another field says already."))
        elif value is not None or name == "title":
            try:
                read[key] = _value(name, value, types[key])
            except Refused as refused:
                problems += (_problem(step, one.code, one.detail, *one.hints) for one in refused.problems)
            except (msgspec.MsgspecError, TypeError, ValueError, RecursionError) as error:
                hints = (_HINTS[name],) if name in _HINTS else ()
                problems.append(_problem(step, "E_PLAN_TYPE", f"{said_of(error, name)}.", *hints))
    if problems:
        raise Refused(problems)
    return read


def _value(name: str, value: Any, into: Any) -> Any:
    """A value of this type, from one of the model or from Markdown's words for it."""
    made: Any = value
    if isinstance(value, str):
        match name:
            case "timeout":
                made = read_duration(value)
                if made is None:
                    raise ValueError(f"`{value[:60]}` is not a duration")
            case "on_fail" | "on_failure":
                made = read_failure(value)
            case "budget":
                made = read_budget(value)
            case "contract":
                made = {"strategy": {"type": "contract", "command": value}}
            case "verify":
                made = {"strategy": {"type": value}}
            case "criteria":
                made = [value]
            case _ if tuple[str, ...] in (into, *get_args(into)):
                made = _listed(value)
        if isinstance(made, Problem):
            raise Refused([made])
    elif name == "timeout":
        raise ValueError(f"{value!r} says no unit")
    tree = msgspec.to_builtins(made, builtin_types=(bytes, bytearray, memoryview))
    rfc8785.dumps(tree)  # raises for bytes, which would become base64 where a command or a path is meant
    if name in ("contract", "verify") and isinstance(tree, dict) and "type" in tree:
        tree = {"strategy": tree}
    return reread(name, tree, into)


def _listed(text: str) -> list[str]:
    """The words of a list as Markdown writes it on one line."""
    return [] if text.strip() == "none" else [word.strip() for word in text.split(",")]


def _problem(step: str | None, code: str, detail: str, *hints: str) -> Problem:
    said = detail if step is None or f"`{step}`" in detail else f"`{step}`: {detail}"
    return Problem(code=code, detail=said, where=Place(step=step) if step is not None else None, hints=hints)
