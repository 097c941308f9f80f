"""The values of a template's parameters: given, by default, or the files that are there."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from ordain.core.model import NestedPlan, Parameter, Plan
from ordain.core.problem import Problem, closest
from ordain.core.resolve import as_text

__all__ = ["file_patterns", "fits", "read_values", "values_of"]

_INTEGER = re.compile(r"-?(?:0|[1-9][0-9]{0,15})")
_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][-+]?[0-9]+)?")


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


def read_values(
    params: Mapping[str, Parameter], given: Sequence[tuple[str, str]]
) -> tuple[dict[str, Any], tuple[Problem, ...]]:
    """The values that a person typed as `name=text`, by the types of the parameters.

    A list is typed as JSON, or item by item by naming the parameter several times. Names that are not known are kept
    as text, for `fill` to refuse.
    """
    texts: dict[str, list[str]] = {}
    for name, text in given:
        texts.setdefault(name, []).append(text)
    values: dict[str, Any] = {}
    problems = []
    for name, typed in texts.items():
        parameter = params.get(name)
        if parameter is not None and parameter.type == "list":
            values[name] = _typed_list(typed)
        elif len(typed) > 1:
            problems.append(Problem(code="E_PARAM", detail=f"The parameter `{name}` is given {len(typed)} times."))
        else:
            values[name] = typed[0] if parameter is None else _typed(parameter, typed[0])
    return values, tuple(problems)


def _typed(parameter: Parameter, text: str) -> Any:
    """The value a text stands for; a text that does not fit stays one, for `fill` to refuse."""
    match parameter.type:
        case "integer" if _INTEGER.fullmatch(text):
            return int(text)
        case "number" if _INTEGER.fullmatch(text):
            return int(text)
        case "number" if _NUMBER.fullmatch(text):
            return float(text)
        case "boolean" if text in ("true", "false"):
            return text == "true"
        case _:
            return text


def _typed_list(texts: list[str]) -> Any:
    if len(texts) > 1 or not texts[0].lstrip().startswith("["):
        return texts
    try:
        return json.loads(texts[0])
    except ValueError:
        return texts


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
