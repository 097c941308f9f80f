"""Values of parameters from what a person typed, `name=text`, by the parameters' types and as strict as documents."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from ordain.core.plan.model import Parameter
from ordain.core.text.limit import string_fault
from ordain.core.text.problem import Problem
from ordain.documents.document import exact_number
from ordain.documents.json import read_json

_INTEGER = re.compile(r"-?(?:0|[1-9][0-9]*)")
_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][-+]?[0-9]+)?")


class _NoValue(Exception):
    """A text that can be no value, in words."""


def read_values(
    params: Mapping[str, Parameter], given: Sequence[tuple[str, str]]
) -> tuple[dict[str, Any], tuple[Problem, ...]]:
    """The values that these texts stand for. A list is typed as JSON, or item by item by naming the parameter several
    times. What does not fit, or is not known, stays a text, which whoever fills the template in refuses."""
    texts: dict[str, list[str]] = {}
    for name, text in given:
        texts.setdefault(name, []).append(text)
    values: dict[str, Any] = {}
    problems = []
    for name, typed in texts.items():
        try:
            values[name] = _value(params.get(name), typed)
        except _NoValue as wrong:
            problems.append(Problem(code="E_PARAM", detail=f"The value of the parameter `{name}` {wrong}"))
    return values, tuple(problems)


def _value(parameter: Parameter | None, typed: list[str]) -> Any:
    for text in typed:
        fault = string_fault(text)
        if fault is not None:
            raise _NoValue(f"can not be in a plan. {fault[1]}")
    if parameter is not None and parameter.type == "list":
        return _list(typed)
    if len(typed) > 1:
        raise _NoValue(f"is given {len(typed)} times.")
    if parameter is not None and parameter.type == "boolean" and typed[0] in ("true", "false"):
        return typed[0] == "true"
    spelling = {"integer": _INTEGER, "number": _NUMBER}.get(parameter.type) if parameter is not None else None
    if spelling is not None and spelling.fullmatch(typed[0]):
        number = exact_number(typed[0])
        if number is None:
            raise _NoValue("can not be kept exactly.")
        return number
    return typed[0]


def _list(typed: list[str]) -> Any:
    if len(typed) > 1 or not typed[0].lstrip().startswith("["):
        return typed
    read = read_json(typed[0])
    if read.problems:
        raise _NoValue(f"begins like a JSON list and is none. {read.problems[0].detail}")
    return read.value
