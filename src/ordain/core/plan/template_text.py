"""Parameters in the prose and the paths of a template, which only `ordain new` fills in, before there is a document.

A value is put into a plan and not into the spelling of a document, so none can add a step, a field or a command; one
that would read as a reference is refused, and so is one in a path that means more than one file.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, TypeVar

import msgspec
from msgspec.structs import replace

from ordain.core.plan.model import Plan, Step, nested_plan_of
from ordain.core.plan.refs import ParamValue, Reference, as_text, misplaced_reference, parse, references, spans
from ordain.core.plan.role import Handed, Prose, changed
from ordain.core.plan.template import Filled, fill, missing_value, values_of
from ordain.core.text.limit import STRING_BYTES_MAX, line_fault
from ordain.core.text.problem import Place, Problem, closest

_PATH_MARKS = frozenset("*?[]{}:\\")
"""What could make a pattern of a path, or another kind of a reference to one."""

S = TypeVar("S", bound=msgspec.Struct)
_ITEM = "item"


def wanted(plan: Plan) -> Iterator[str]:
    """The parameters that a template refers to without saying what stands in for one that has no value."""
    own = replace(plan, **{name: tuple(map(_without_inner, getattr(plan, name))) for name in ("steps", "fallbacks")})
    for text in references(msgspec.to_builtins(own), _ITEM):
        found = _param(text)
        if found is not None and found[1].default is None:
            yield found[0]


def _without_inner(step: Step) -> Step:
    """A step without the plan that it holds, whose parameters are its own."""
    inner = nested_plan_of(step)
    return step if inner is None else replace(step, action=replace(step.action, plan=replace(inner, steps=())))


def fill_template(
    plan: Plan, given: Mapping[str, Any], files: Mapping[str, Sequence[str]], unread: Collection[str] = ()
) -> Filled | tuple[Problem, ...]:
    """The plan that a template becomes with these values, its texts as well, or all that keeps it from being one."""
    values, problems = values_of(plan, given, files, unread)
    wrong = {*unread, *(given.keys() - values.keys())}
    for name in dict.fromkeys(wanted(plan)):
        if name in plan.params and not plan.params[name].required and name not in values and name not in wrong:
            problems.append(missing_value(name, plan.params[name]))
    filling = _Texts(plan, values)
    texts = filling.filled()
    if problems or filling.problems or unread:
        return (*problems, *filling.problems)
    return fill(texts, given, files)


class _Texts:
    def __init__(self, plan: Plan, values: Mapping[str, Any]) -> None:
        self.plan, self.values = plan, values
        self.problems: list[Problem] = []
        self._steps = {step.id for step in (*plan.steps, *plan.fallbacks)}

    def filled(self) -> Plan:
        plan = self.plan
        return replace(
            plan,
            title=self._text(plan.title, "title", None, line=True),
            **{what: self._text(text, what, None) for what in ("task", "context") if (text := getattr(plan, what))},
            protect=self._paths(plan.protect, "protect", None),
            on_failure=self._prose(plan.on_failure, None),
            steps=tuple(map(self._step, plan.steps)),
            fallbacks=tuple(map(self._step, plan.fallbacks)),
        )

    def _step(self, step: Step) -> Step:
        return replace(
            step,
            description=self._text(step.description, "title", step, line=True),
            action=self._prose(step.action, step),
            on_failure=self._prose(step.on_failure, step),
            **{name: self._paths(getattr(step, name), name, step) for name in ("protect", "writes", "inputs")},
        )

    def _paths(self, paths: tuple[str, ...], what: str, step: Step | None) -> tuple[str, ...]:
        return tuple(self._text(path, f"path in `{what}`", step, path=True) for path in paths)

    def _prose(self, value: S | None, step: Step | None) -> S | None:
        """The same with every prose of it filled in, what it hands an agent, and that of the values inside it."""

        def change(role: Any, text: str) -> str:
            match role:
                case Prose(what=what):
                    return self._text(text, what, step)
                case Handed():
                    return self._text(text, "path in `reads`", step, path=True)
                case _:
                    return text

        return changed(value, change) if value is not None else None

    def _text(self, text: str, what: str, step: Step | None, *, line: bool = False, path: bool = False) -> str:
        if "${" not in text:
            return text
        pieces, used, at = [], [], 0
        for start, end in spans(text, _ITEM):
            value = self._value(text[start:end], step)
            if path and value and not (value.isprintable() and _PATH_MARKS.isdisjoint(value)):
                detail = f"With the value of `{text[start:end]}` the {what} is not that of one file."
                self._add("E_PARAM", detail, step, "Give a path without `*`, `?`, `[`, `:` and line ends.")
            pieces += [text[at:start], text[start:end] if value is None else value]
            used += [text[start:end]] if value is not None else []
            at = end
        made = "".join([*pieces, text[at:]])
        if used:
            self._judge(made, " and ".join(f"`{one}`" for one in dict.fromkeys(used)), what, step, line=line)
        return made

    def _value(self, written: str, step: Step | None) -> str | None:
        """The text in place of a reference; None where it stays, because it is none to a parameter."""
        found = _param(written)
        if found is None:
            return None
        name, reference = found
        if name not in self.plan.params:
            detail = f"`{written}` names `{name}`, which is not a parameter of the template."
            self._add("E_REF", detail, step, *closest(name, self.plan.params))
        elif name in self.values:
            return as_text(self.values[name])
        elif reference.default is not None:
            return as_text(reference.default.value)
        return ""  # that it is wanted is said of the parameter, once

    def _judge(self, text: str, used: str, what: str, step: Step | None, *, line: bool) -> None:
        """Note what a text became that no text of a plan may be."""
        if line and (line_fault(what, text) is not None or not text.strip()):
            self._add("E_PARAM", f"With the value of {used} the {what} is not one line of text.", step)
        if len(text.encode("utf-8", "surrogatepass")) > STRING_BYTES_MAX:
            self._add("E_PARAM", f"With the value of {used} the {what} becomes longer than 1 MiB.", step)
        if (found := misplaced_reference(text, self._steps)) is not None:
            detail = f"With the value of {used} the {what} holds `{found}`, which would read as a reference."
            self._add("E_PARAM", detail, step, "Give a value without `${…}` of that form.")

    def _add(self, code: str, detail: str, step: Step | None, *hints: str) -> None:
        where = Place(step=step.id) if step is not None else None
        self.problems.append(Problem(code=code, detail=detail, where=where, hints=hints))


def _param(written: str) -> tuple[str, Reference] | None:
    """The parameter that a reference names; None where it names something else or cannot be read."""
    reference = parse(written, _ITEM)
    if not isinstance(reference, Reference) or not isinstance(reference.source, ParamValue):
        return None
    return reference.source.name, reference
