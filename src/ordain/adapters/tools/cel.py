"""core.expr.Expressions in CEL, by Google's own implementation.

Its traps are closed here: an error comes back as a truthy value, so only a BOOL counts; and its budget counts
iterations but not what each copies, so the work is estimated before it is begun, also when an expression is only
checked.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Set
from typing import Any

from ordain.core.plan.expr import EXPRESSION_BYTES_MAX, VARIABLES, ExpressionError, Token, items_of_loops, tokens

ITERATIONS_MAX = 10_000
"""The library's own budget; beyond it evaluation stops with an error."""
WORK_MAX = 1 << 30
"""Bytes that an evaluation may come to copy or read, in the worst case."""


class Cel:
    """core.expr.Expressions. Environments are kept, for making one costs as much as a hundred checks."""

    def __init__(self) -> None:
        from cel_expr_python import cel  # few plans have expressions or patterns

        self._cel: Any = cel
        self._environments: dict[frozenset[str], Any] = {}

    def check(self, expression: str, names: Set[str]) -> str | None:
        try:
            compiled = self._compile(expression, frozenset(names))
            if items_of_loops(tokens(expression)):
                # With nothing to work on, only what is too much by itself can use up the budget.
                _refuse_work(expression, {})
                compiled.eval(data={})
        except ExpressionError as error:
            return str(error)
        except RuntimeError as error:
            return _sentence(error)
        return None

    def evaluate(self, expression: str, variables: Mapping[str, Any]) -> bool:
        compiled = self._compile(expression, frozenset(variables))
        _refuse_work(expression, variables)
        try:
            found = compiled.eval(data=dict(variables))
        except (RuntimeError, TypeError, ValueError) as error:
            raise ExpressionError(_sentence(error)) from error
        if found.type() != self._cel.Type.BOOL:
            raise ExpressionError(f"it gave no boolean: {str(found.value())[:200]}")
        return bool(found.value() is True)

    def matches(self, pattern: str, text: str) -> bool:
        try:
            pattern.encode(), text.encode()
        except UnicodeEncodeError as error:
            raise ExpressionError("it holds half a character") from error
        return self.evaluate("text.matches(pattern)", {"text": text, "pattern": pattern})

    def _compile(self, expression: str, names: frozenset[str]) -> Any:
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
        if kind == self._cel.Type.DYN:
            raise ExpressionError("nobody can know beforehand that it is boolean; compare it, as in `… == true`")
        if kind != self._cel.Type.BOOL:
            raise ExpressionError(f"it is not boolean, but of the type {kind.name().lower()}")
        return compiled

    def _environment(self, names: frozenset[str]) -> Any:
        if names not in self._environments:
            kinds = {name: self._cel.Type.Map(self._cel.Type.STRING, self._cel.Type.DYN) for name in names & VARIABLES}
            others = {name: self._cel.Type.INT if name == "index" else self._cel.Type.DYN for name in names - VARIABLES}
            self._environments[names] = self._cel.NewEnv(variables={**kinds, **others})
        return self._environments[names]


def _refuse_work(expression: str, variables: Mapping[str, Any]) -> None:
    if _work(expression, variables) > WORK_MAX:
        raise ExpressionError("it would take too much work" + (" on values of this size" if variables else ""))


def _clauses(expression: str) -> Iterator[list[Token]]:
    """The tokens of each part of an expression that is evaluated on its own, `&&`, `||` and `?:` being taken apart."""
    clause: list[Token] = []
    depth = 0
    for token in tokens(expression):
        if token[0] == "mark":
            depth += (token[1] in "([{") - (token[1] in ")]}")
            if depth <= 0 and token[1] in "&|?:":
                yield clause
                clause = []
                continue
        clause.append(token)
    yield clause


def _work(expression: str, variables: Mapping[str, Any]) -> float:
    """The worst case: every operation copies all there is and what was copied before, as often as loops can repeat."""
    texts, items = len(expression), 0
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
    return sum(_work_of(clause, texts, items) for clause in _clauses(expression))


def _work_of(clause: list[Token], texts: int, items: int) -> float:
    marks = Counter(token[1] for token in clause if token[0] == "mark")
    operations = 1 + marks["+"] + marks["("]
    loops = items_of_loops(clause)
    repeated = min(ITERATIONS_MAX, float(items + marks[","] + 1) ** min(len(loops), 9))
    return texts * operations * operations * repeated * _growth(clause, loops)


def _growth(clause: list[Token], loops: list[str]) -> float:
    """By how much a value can grow in loops that take each other's results: `.map(a, a + a)` twenty times makes a
    megabyte of one letter."""
    growth = 1.0
    for name, times in Counter(loops).items():
        uses = sum(token == ("name", name) for token in clause) - times
        growth *= max(1.0, uses / times) ** min(times, 60)
    return growth


def _sentence(error: Exception) -> str:
    """The library's message as one short line: its first complaint, without codes and drawings."""
    found = re.search(r"<input>:(?:-1:-1|(\d+:\d+)): (.*)", str(error)) or re.search(
        r"()^(?:[A-Z_]+: )?(.*)", str(error)
    )
    text = found[2] if found else str(error)
    text = re.sub(r" \(in container ''\)| \[[A-Z_]+\]$|, expecting .*| expecting \{.*", "", text)
    return f"{text[:1].lower()}{text[1:200]}" + (f" (at {found[1]})" if found and found[1] else "")
