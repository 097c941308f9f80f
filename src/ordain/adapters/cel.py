"""core.expr.Expressions in CEL, by Google's own implementation.

Its traps are closed here: an error while evaluating comes back as a truthy value, so only a BOOL counts; and its own
budget counts iterations but not what each of them copies, so the work is estimated before it is begun.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Set
from itertools import pairwise
from typing import Any

from cel_expr_python import cel

from ordain.core.expr import EXPRESSION_BYTES_MAX, VARIABLES, ExpressionError, tokens

__all__ = ["Cel"]

ITERATIONS_MAX = 10_000
"""The library's own budget; beyond it evaluation stops with an error."""
WORK_MAX = 1 << 30
"""Bytes that an evaluation may come to copy or read, in the worst case."""

_LOOPS = frozenset(["all", "exists", "exists_one", "map", "filter"])


class Cel:
    """core.expr.Expressions. Environments are kept, for making one costs as much as a hundred checks."""

    def __init__(self) -> None:
        self._environments: dict[frozenset[str], cel.Env] = {}

    def check(self, expression: str, names: Set[str]) -> str | None:
        try:
            compiled = self._compile(expression, frozenset(names))
            if _loops(expression):
                # With nothing to work on, only a loop that is too long by itself can use up the budget.
                compiled.eval(data={})
        except ExpressionError as error:
            return str(error)
        except RuntimeError as error:
            return _sentence(error)
        return None

    def evaluate(self, expression: str, variables: Mapping[str, Any]) -> bool:
        compiled = self._compile(expression, frozenset(variables))
        if _work(expression, variables) > WORK_MAX:
            raise ExpressionError("it would take too much work on values of this size")
        try:
            found = compiled.eval(data=dict(variables))
        except (RuntimeError, TypeError, ValueError) as error:
            raise ExpressionError(_sentence(error)) from error
        if found.type() != cel.Type.BOOL:
            raise ExpressionError(f"it gave no boolean: {str(found.value())[:200]}")
        return found.value() is True

    def _compile(self, expression: str, names: frozenset[str]) -> cel.Expression:
        try:
            size = len(expression.encode())
        except UnicodeEncodeError as error:
            raise ExpressionError("it holds half a character") from error
        if size > EXPRESSION_BYTES_MAX:
            raise ExpressionError(f"it is longer than {EXPRESSION_BYTES_MAX} bytes")
        try:
            compiled = self._environment(names).compile(expression)
        except RuntimeError as error:
            raise ExpressionError(_sentence(error)) from error
        kind = compiled.return_type()
        if kind == cel.Type.DYN:
            raise ExpressionError("nobody can know beforehand that it is boolean; compare it, as in `… == true`")
        if kind != cel.Type.BOOL:
            raise ExpressionError(f"it is not boolean, but of the type {kind.name().lower()}")
        return compiled

    def _environment(self, names: frozenset[str]) -> cel.Env:
        if names not in self._environments:
            kinds = {name: cel.Type.Map(cel.Type.STRING, cel.Type.DYN) for name in names & VARIABLES}
            others = {name: cel.Type.INT if name == "index" else cel.Type.DYN for name in names - VARIABLES}
            self._environments[names] = cel.NewEnv(variables={**kinds, **others})
        return self._environments[names]


def _loops(expression: str) -> int:
    """How many loops an expression has; no more of them can be inside each other."""
    line = tokens(expression)
    return sum(
        1 for token, after in pairwise(line) if token[0] == "name" and token[1] in _LOOPS and after == ("mark", "(")
    )


def _work(expression: str, variables: Mapping[str, Any]) -> int:
    """The worst case: every operation copies all there is and what was copied before, as often as loops can repeat."""
    texts, items = len(expression), len(expression)
    todo: list[Any] = [dict(variables)]
    while todo:
        match todo.pop():
            case str() as text:
                texts += len(text)
            case Mapping() as mapping:
                items += len(mapping)
                todo += mapping.keys()
                todo += mapping.values()
            case list() | tuple() as values:
                items += len(values)
                todo += values
    operations = 1 + sum(expression.count(mark) for mark in "+(")
    loops = _loops(expression)
    repeated = ITERATIONS_MAX if loops > 1 else items if loops else 1
    return texts * operations * operations * min(ITERATIONS_MAX, repeated)


def _sentence(error: Exception) -> str:
    """The library's message as one short line: its first complaint, without codes and drawings."""
    found = re.search(r"<input>:(\d+:\d+): (.*)", str(error)) or re.search(r"()^(?:[A-Z_]+: )?(.*)", str(error))
    text = found[2] if found else str(error)
    text = re.sub(r" \(in container ''\)| \[[A-Z_]+\]$|, expecting .*| expecting \{.*", "", text)
    return f"{text[:1].lower()}{text[1:200]}" + (f" (at {found[1]})" if found and found[1] else "")
