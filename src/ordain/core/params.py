"""The values of a template's parameters: given, by default, or the files that are there."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ordain.core.model import NestedPlan, Parameter, Plan
from ordain.core.problem import Problem, closest
from ordain.core.resolve import as_text

__all__ = ["file_patterns", "fits", "values_of"]


def fits(parameter: Parameter, value: Any) -> bool:
    """Whether a value is of a parameter's type."""
    match parameter.type:
        case "string":
            return isinstance(value, str)
        case "boolean":
            return isinstance(value, bool)
        case "integer":
            return isinstance(value, int) and not isinstance(value, bool)
        case "number":
            return isinstance(value, int | float) and not isinstance(value, bool)
        case "list":
            return isinstance(value, list | tuple)


def file_patterns(plan: Plan) -> frozenset[str]:
    """The patterns of files whose names a template wants, for a probe to look up."""
    found = {parameter.files for parameter in plan.params.values() if parameter.files is not None}
    for step in (*plan.steps, *plan.fallbacks):
        if isinstance(step.action, NestedPlan):
            found |= file_patterns(step.action.plan)
    return frozenset(found)


def values_of(
    plan: Plan, given: Mapping[str, Any], files: Mapping[str, Sequence[str]]
) -> tuple[dict[str, Any], list[Problem]]:
    """The value of each parameter that has one, and what is wrong."""
    problems = []
    for name in given.keys() - plan.params.keys():
        hints = closest(name, plan.params) or _names_of(plan.params)
        problems.append(Problem(code="E_PARAM", detail=f"The plan has no parameter `{name}`.", hints=hints))
    values: dict[str, Any] = {}
    for name, parameter in plan.params.items():
        if name in given:
            if fits(parameter, given[name]):
                values[name] = given[name]
            else:
                shown = as_text(given[name])[:60]
                detail = f"`{shown}` is no value for the parameter `{name}`, which is of type {parameter.type}."
                problems.append(Problem(code="E_PARAM", detail=detail, hints=_typing(name, parameter)))
        elif parameter.files is not None:
            values[name] = list(files.get(parameter.files, ()))
        elif parameter.default is not None:
            values[name] = parameter.default
        elif parameter.required:
            detail = f"The plan wants a value for the parameter `{name}`."
            hints = (*((parameter.description,) if parameter.description else ()), *_typing(name, parameter))
            problems.append(Problem(code="E_PARAM", detail=detail, hints=hints))
    return values, problems


def _names_of(params: Mapping[str, Parameter]) -> tuple[str, ...]:
    return (f"Its parameters: {', '.join(f'`{name}`' for name in list(params)[:20])}.",) if params else ()


def _typing(name: str, parameter: Parameter) -> tuple[str, ...]:
    example = {"string": "text", "integer": "3", "number": "1.5", "boolean": "true", "list": "one"}[parameter.type]
    several = f" --param {name}=two" if parameter.type == "list" else ""
    return (f"Write `--param {name}={example}{several}`.",)
