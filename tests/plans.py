"""Arbitrary plans: a Hypothesis strategy over the whole model, field by field as its types have it.

What is made is a sound value, as a reader would give it: names are names, ids are unique, needs exist and are sorted,
titles are one line, numbers are within limits. All other text is arbitrary.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin

import msgspec
from hypothesis import strategies as st

from tests.words import (
    PLAN_VERSION,
    ApprovalScope,
    Ask,
    Budget,
    CallTool,
    Contract,
    Custom,
    Fallback,
    ForEach,
    NestedPlan,
    Parameter,
    Plan,
    Retry,
    RunCommand,
    Step,
    StepCompleted,
    StoreData,
    Task,
    fields,
)

__all__ = ["LINES", "NAMES", "TEXTS", "VALUES", "Site", "changed", "plans", "sites"]

WHOLE = 2**53 - 1
DAY_MS = 86_400_000
BIDI = "\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069"

NAMES = st.from_regex(r"[A-Za-z][A-Za-z0-9_-]{0,10}", fullmatch=True).filter(lambda name: name != "none")
_CHARACTERS = st.characters(exclude_categories=("Cs", "Cc"), exclude_characters=BIDI)
_AWKWARD = st.sampled_from(
    [
        *("---", "# T", "## Steps", "### 1. A", "**run:** x", "```", "~~~", "1. `a`", "- a", "a: b", "a:", "? x", "- "),
        *("no", "1.10", "007", "~", "null", "true", "1", "-0", "<<", "=", "y", "12:30", "2026-01-01", "!x", "&x", "*x"),
        *("|", ">", "%a", "@a", "`a`", "'", '"', "\\", "${a.output}", "$${", "$HOME", "{}", "[]", " # c", "a #", "..."),
        *(
            "✅ done",
            "[x] done",
            "\ufeff",
            "\u2028",
            "\u200d",
            "\uffff",
            "😀",
            " lead",
            "trail ",
            "<!-- a -->",
            "status: approved",
        ),
    ]
)
LINES = (st.text(_CHARACTERS, max_size=12) | _AWKWARD | st.builds("{} {}".format, _AWKWARD, _AWKWARD)).map(
    lambda line: line.replace("\n", " ")
)
"""Text without newlines."""
TITLES = LINES.map(str.strip).filter(bool)
TEXTS = LINES | st.lists(LINES | st.sampled_from(["", "\t", "  "]), max_size=4).map("\n".join)
"""Text of any number of lines."""
_WORDS = TEXTS.filter(str.strip)
_FLOATS = st.floats(allow_nan=False, allow_infinity=False).filter(
    lambda number: not number.is_integer() or abs(number) <= WHOLE or abs(number) >= 1e21
)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-WHOLE, WHOLE) | _FLOATS | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=5,
)
"""Free values, such as arguments."""

_TIMES = st.integers(1, DAY_MS)
_FIELDS: dict[tuple[Any, str], st.SearchStrategy[Any]] = {
    (Plan, "plan_version"): st.just(PLAN_VERSION),
    (Plan, "title"): TITLES,
    (Plan, "tier"): st.integers(0, 2),
    (Plan, "concurrency"): st.integers(1, 64),
    (Plan, "agent"): NAMES,
    (Plan, "model"): NAMES,
    (Plan, "workspace_id"): NAMES,
    (Plan, "tools"): st.lists(NAMES, max_size=2, unique=True).map(tuple),
    (Plan, "params"): st.dictionaries(NAMES, st.deferred(lambda: _PARAMETERS), min_size=1, max_size=2),
    (Step, "description"): TITLES,
    (Step, "model"): NAMES,
    (Step, "pool"): NAMES,
    (RunCommand, "command"): _WORDS,
    (RunCommand, "env"): st.dictionaries(NAMES, TEXTS, max_size=2),
    (CallTool, "tool"): NAMES,
    (CallTool, "operation"): NAMES,
    (Task, "task"): _WORDS,
    (Task, "agent"): NAMES,
    (Task, "tools"): st.lists(NAMES, max_size=2, unique=True).map(tuple),
    (StoreData, "key"): NAMES,
    (Ask, "question"): _WORDS,
    (Custom, "action_type"): NAMES,
    (Contract, "command"): _WORDS,
    (Contract, "exit_code"): st.integers(0, 255),
    (ApprovalScope, "action_kind"): NAMES,
    (Retry, "max_attempts"): st.integers(2, 101),
    (Retry, "initial_delay_ms"): _TIMES,
    (Retry, "increment_ms"): _TIMES,
    (Retry, "backoff_multiplier"): st.integers(1, 100).map(float) | st.floats(1, 100),
    (Retry, "max_delay_ms"): _TIMES,
    (Budget, "tokens"): st.integers(1, 10**9),
    (Budget, "cost_usd"): st.integers(1, 10**6).map(lambda cents: cents / 100),
    (Budget, "wall_clock_ms"): _TIMES,
    (Budget, "attempts"): st.integers(1, 10**6),
    (ForEach, "name"): NAMES,
    (ForEach, "max"): st.integers(1, 1000),
    (ForEach, "concurrency"): st.integers(1, 64),
    (Parameter, "default"): VALUES,
}
_PARAMETERS = st.builds(
    Parameter,
    type=st.sampled_from(["string", "integer", "number", "boolean"]),
    description=st.none() | TEXTS,
    default=VALUES,
    required=st.booleans(),
)


@st.composite
def plans(draw: st.DrawFn, *, nested: int = 1) -> Plan:
    """A plan; `nested` says how many plans may stand inside one another in it."""
    names = draw(st.lists(NAMES, min_size=1, max_size=4, unique=True))
    count = draw(st.integers(1, len(names)))
    made = _Maker(draw, tuple(names[:count]), tuple(names[count:]), nested)
    plan: Plan = made.struct(Plan)
    return plan


Site = tuple[msgspec.Struct, msgspec.structs.FieldInfo]
"""A field of one of the structs in a plan."""


def sites(plan: Plan) -> list[Site]:
    """Every field that could be another: of the plan, its steps, fallback steps, contracts, nested plans; absent ones
    too. A fallback policy needs fallback steps to name."""
    found = [value for value in structs(plan) if not isinstance(value, Fallback)]
    return [(value, field) for value in found for field in fields(type(value))]


@st.composite
def changed(draw: st.DrawFn, plan: Plan, site: Site) -> Plan:
    """The same plan with this field drawn anew. Any text is arbitrary here, and the plan need not be sound."""
    value, field = site
    here = _plan_around(plan, value)
    made = _Maker(draw, tuple(step.id for step in here.steps), tuple(step.id for step in here.fallbacks), 1)
    old = getattr(value, field.name)
    if isinstance(old, str):
        new: Any = draw(st.text(st.characters(exclude_categories=("Cs",)), max_size=3).map(lambda text: old + text))
    elif (type(value), field.name) in ((Plan, "steps"), (Plan, "fallbacks")):
        new = draw(st.permutations(old)) if len(old) > 1 else (*old, made.struct(Step, id="more"))
    elif not field.required and old != field.default and draw(st.booleans()):
        new = field.default if field.default is not msgspec.NODEFAULT else {}
    else:
        new = made.field(type(value), field)
    return _replaced(plan, value, msgspec.structs.replace(value, **{field.name: new}))


def structs(value: Any) -> Iterator[msgspec.Struct]:
    """Every struct in a value, itself first."""
    if isinstance(value, msgspec.Struct):
        yield value
        for field in value.__struct_fields__:
            yield from structs(getattr(value, field))
    elif isinstance(value, tuple | list):
        for inner in value:
            yield from structs(inner)
    elif isinstance(value, Mapping):
        for inner in value.values():
            yield from structs(inner)


def _plan_around(plan: Plan, value: msgspec.Struct) -> Plan:
    """The innermost plan that a struct stands in."""
    around = [one for one in structs(plan) if isinstance(one, Plan) and any(inner is value for inner in structs(one))]
    return around[-1]


def _replaced(value: Any, old: msgspec.Struct, new: msgspec.Struct) -> Any:
    if value is old:
        return new
    if isinstance(value, msgspec.Struct):
        inner = {name: _replaced(getattr(value, name), old, new) for name in value.__struct_fields__}
        return msgspec.structs.replace(value, **inner)
    if isinstance(value, tuple | list):
        return type(value)(_replaced(one, old, new) for one in value)
    if isinstance(value, Mapping):
        return {key: _replaced(one, old, new) for key, one in value.items()}
    return value


class _Maker:
    """Draws the values of one plan, whose steps and fallback steps have these ids."""

    def __init__(self, draw: st.DrawFn, steps: tuple[str, ...], fallbacks: tuple[str, ...], nested: int) -> None:
        self.draw = draw
        self.steps = steps
        self.fallbacks = fallbacks
        self.nested = nested

    def struct(self, kind: Any, **given: Any) -> Any:
        optional = [field.name for field in fields(kind) if not field.required and field.name not in given]
        chosen = self.draw(st.sets(st.sampled_from(optional), max_size=3)) if optional else set()
        if kind is Plan:
            given["steps"] = tuple(self.struct(Step, id=name) for name in self.steps)
            given["fallbacks"] = tuple(self.struct(Step, id=name) for name in self.fallbacks)
        if kind is Budget and not chosen:
            chosen = {"tokens"}
        for field in fields(kind):
            if field.name not in given and (field.required or field.name in chosen):
                given[field.name] = self.field(kind, field)
        return kind(**given)

    def field(self, kind: Any, field: msgspec.structs.FieldInfo) -> Any:
        if field.name == "needs":
            needs = self.draw(st.sets(st.sampled_from(self.steps), max_size=2))
            return tuple(sorted(needs))
        if (kind, field.name) == (Fallback, "steps"):
            return tuple(self.draw(st.lists(st.sampled_from(self.fallbacks), min_size=1, max_size=2, unique=True)))
        if kind is StepCompleted:
            return self.draw(st.sampled_from(self.steps))
        if (kind, field.name) in _FIELDS:
            return self.draw(_FIELDS[kind, field.name])
        if field.name.endswith("_ms"):
            return self.draw(_TIMES)
        if field.name in ("lock_name", "rule_id", "workflow_id", "pane", "workspace_id"):
            return self.draw(NAMES)
        return self.value(field.type)

    def value(self, kind: Any) -> Any:
        kind = getattr(kind, "__supertype__", kind)
        origin, inner = get_origin(kind), get_args(kind)
        if kind is Any:
            return self.draw(VALUES)
        if origin in (Union, UnionType):
            return self.value(self.draw(st.sampled_from(self.members(inner))))
        if origin is Literal:
            return self.draw(st.sampled_from(inner))
        if origin is tuple:
            return tuple(self.value(inner[0]) for _ in range(self.draw(st.integers(1, 2))))
        if isinstance(origin, type) and issubclass(origin, Mapping):
            return {self.draw(TEXTS): self.value(inner[1]) for _ in range(self.draw(st.integers(1, 2)))}
        if kind is NestedPlan:
            return NestedPlan(plan=self.draw(plans(nested=self.nested - 1)))
        if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
            return self.struct(kind)
        return self.draw({str: TEXTS, int: st.integers(0, WHOLE), float: _FLOATS, bool: st.booleans()}[kind])

    def members(self, kinds: tuple[Any, ...]) -> list[Any]:
        """The members of a union that can stand here."""
        impossible = (
            {NoneType} | ({Fallback} if not self.fallbacks else set()) | ({NestedPlan} if not self.nested else set())
        )
        return [kind for kind in kinds if kind not in impossible]
