"""Plans made by code: `Plan.build("Bump version").step("read", tool="read_file", args={…}).done()`.

The builder follows the reader's rules: a step without `needs` follows the one before it, and a step does exactly one
thing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ordain.core.action import CallTool, RunCommand, Task
from ordain.core.condition import Contract, Verification
from ordain.core.model import PLAN_VERSION, Action, Plan, Step
from ordain.core.problem import refuse
from ordain.core.value import StepId

__all__ = ["PlanBuilder"]


class PlanBuilder:
    """Collects steps; `done` gives the plan. Fields of the plan are passed by their names."""

    def __init__(self, title: str, **fields: Any) -> None:
        self._title, self._fields = title, fields
        self._steps: list[Step] = []
        self._fallbacks: list[Step] = []

    def step(self, name: str, *, needs: Sequence[str] | str | None = None, **what: Any) -> PlanBuilder:
        """Add a step called `name`, doing one of `run`, `tool` (with `args`), `task` (with `agent`) or `action`.

        `contract` is a command that must hold afterwards. Other fields of `Step` are passed by their names.
        """
        wanted = [needs] if isinstance(needs, str) else needs
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
            title=self._title,
            steps=tuple(self._steps),
            fallbacks=tuple(self._fallbacks),
            **self._fields,
        )


def _made(name: str, needs: Sequence[str], what: dict[str, Any]) -> Step:
    action = _action(name, what)
    contract: str | None = what.pop("contract", None)
    if contract is not None:
        what["verification"] = Verification(strategy=Contract(command=contract))
    return Step(
        id=StepId(name),
        description=what.pop("description", name),
        action=action,
        needs=tuple(StepId(need) for need in sorted(set(needs))),
        **what,
    )


def _action(name: str, what: dict[str, Any]) -> Action:
    given = [kind for kind in ("run", "tool", "task", "action") if what.get(kind) is not None]
    if len(given) != 1:
        raise refuse(
            "E_STEP_ACTION",
            f"`{name}` has {len(given)} actions; a step does exactly one of run, tool, task and action.",
        )
    value: Any = what.pop(given[0])
    match given[0]:
        case "run":
            env: Mapping[str, str] = what.pop("env", {})
            return RunCommand(command=value, env=env)
        case "tool":
            return CallTool(tool=value, operation=what.pop("operation", None), args=what.pop("args", {}))
        case "task":
            fields = ("agent", "instructions", "criteria", "reads", "tools")
            return Task(task=value, **{field: what.pop(field) for field in fields if field in what})
        case _:
            made: Action = value
            return made
