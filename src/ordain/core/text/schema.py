"""JSON Schema, as far as questions and calls of plans need it: whether a value fits, and what is wrong in words.

The validation vocabulary of draft 2020-12. What is not known here (references, formats, conditions) is a fault of the
schema, never silently ignored. Patterns are matched by the caller: on some a matcher that goes back never ends.
"""

from __future__ import annotations

import json
import math
import operator
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from ordain.core.text.limit import FORBIDDEN, number_fault

Matches = Callable[[str, str], bool]
"""Whether a pattern matches a text somewhere; what is no pattern matches nothing."""

_TYPES: dict[str, tuple[str, Callable[[Any], bool]]] = {
    "null": ("null", lambda value: value is None),
    "boolean": ("true or false", lambda value: isinstance(value, bool)),
    "integer": ("a whole number", lambda value: _is_number(value) and (isinstance(value, int) or value.is_integer())),
    "number": ("a number", lambda value: _is_number(value)),
    "string": ("a text", lambda value: isinstance(value, str)),
    "array": ("a list", lambda value: isinstance(value, list | tuple)),
    "object": ("an object", lambda value: isinstance(value, Mapping)),
}

_COUNTS = frozenset({"minLength", "maxLength", "minItems", "maxItems", "minProperties", "maxProperties"})
_NUMBERS = frozenset({"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"})
_SCHEMAS = frozenset({"items", "additionalProperties", "not"})
_LISTS = frozenset({"anyOf", "oneOf", "allOf", "prefixItems"})


def _is_list(value: Any) -> bool:
    return isinstance(value, list | tuple) and bool(value)


def _are_types(said: Any) -> bool:
    named = (said,) if isinstance(said, str) else said
    return _is_list(named) and all(isinstance(one, str) and one in _TYPES for one in named)


_KEYWORDS: Mapping[str, Callable[[Any], bool]] = {
    # These say something to people and check nothing.
    **dict.fromkeys(
        ("$schema", "$comment", "title", "description", "default", "examples", "deprecated"), lambda said: True
    ),
    **dict.fromkeys(_COUNTS, lambda said: isinstance(said, int) and not isinstance(said, bool) and said >= 0),
    **dict.fromkeys(_NUMBERS, lambda said: _is_number(said)),
    "multipleOf": lambda said: _is_number(said) and said > 0,
    **dict.fromkeys((*_SCHEMAS, "const"), lambda said: True),
    **dict.fromkeys((*_LISTS, "enum"), _is_list),
    "type": _are_types,
    "properties": lambda said: isinstance(said, Mapping),
    "required": lambda said: isinstance(said, list | tuple) and all(isinstance(one, str) for one in said),
    "uniqueItems": lambda said: isinstance(said, bool),
    "pattern": lambda said: isinstance(said, str),
}
"""Every keyword that is known, and whether what it says can be; schemas inside are judged by themselves."""


def schema_faults(schema: Any, place: str = "the schema") -> Iterator[str]:
    """Everything because of which nobody could tell whether a value fits this schema."""
    if isinstance(schema, bool):
        return
    if not isinstance(schema, Mapping):
        yield f"{place} is neither an object nor true or false"
        return
    for name, said in schema.items():
        if name not in _KEYWORDS:
            yield f"{place}: `{name}` is not known here"
        elif not _KEYWORDS[name](said):
            yield f"{place}: what `{name}` says cannot be"
        for what, inner in _inside(name, said):
            yield from schema_faults(inner, f"{place}, {what}")


def _inside(name: str, said: Any) -> Iterator[tuple[str, Any]]:
    """The schemas in what a keyword says, and what each is called."""
    if name in _SCHEMAS:
        yield name, said
    elif name in _LISTS and _is_list(said):
        yield from ((f"{name} {number}", one) for number, one in enumerate(said, 1))
    elif name == "properties" and isinstance(said, Mapping):
        yield from ((f"property `{key}`", one) for key, one in said.items())


def patterns(schema: Any) -> Iterator[str]:
    """The patterns that texts must match somewhere in this schema; whether they are any is not asked."""
    todo = [schema]
    while todo:
        one = todo.pop()
        if isinstance(one, Mapping):
            if isinstance(pattern := one.get("pattern"), str):
                yield pattern
            todo += [inner for name, said in one.items() for _, inner in _inside(name, said)]


# --- Schemas of others ---------------------------------------------------------------------------------------------

_DEPTH_MAX = 24
_PARTS_MAX = 2_000
"""How much of a schema of others is looked at; what goes on after that checks nothing."""


def understood(schema: Any) -> Any:
    """What can be told of a value by a schema that others wrote, as a schema without faults: references within it are
    put in, and what is not known here is left out, so that all that fits the one fits the other."""
    return _SchemaReader(schema).of(schema, 0)


class _SchemaReader:
    def __init__(self, root: Any) -> None:
        self._root, self._parts = root, 0
        self._within: list[str] = []
        """The references that are being put in: one within itself says nothing more."""

    def of(self, schema: Any, depth: int) -> Any:
        self._parts += 1
        if isinstance(schema, bool) or not isinstance(schema, Mapping):
            return schema if isinstance(schema, bool) else True
        if depth > _DEPTH_MAX or self._parts > _PARTS_MAX:
            return True
        kept: dict[str, Any] = {}
        for name, said in schema.items():
            found = self._keyword(name, said, schema, depth)
            if found is not None:
                # What fits several forms of one may have been told apart by what is left out.
                kept["anyOf" if name == "oneOf" and "anyOf" not in schema else name] = found
        if isinstance(reference := schema.get("$ref"), str):
            target: Any = True
            if reference not in self._within:
                self._within.append(reference)
                target = self.of(self._at(reference), depth + 1)
                self._within.pop()
            return {**kept, "allOf": [*kept.get("allOf", ()), target]} if kept else target
        return kept

    def _keyword(self, name: str, said: Any, schema: Mapping[str, Any], depth: int) -> Any:
        match name:
            case "description" if isinstance(said, str):
                return FORBIDDEN.sub("\ufffd", said)
            case "items":
                return self.of(said, depth + 1) if isinstance(said, Mapping | bool) else None
            case "additionalProperties":
                named = "patternProperties" in schema or not isinstance(said, Mapping | bool)
                return None if named else self.of(said, depth + 1)
            case "anyOf" | "oneOf" | "allOf" | "prefixItems":
                good = isinstance(said, list | tuple) and bool(said) and not (name == "oneOf" and "anyOf" in schema)
                return [self.of(one, depth + 1) for one in said] if good else None
            case "properties" if isinstance(said, Mapping):
                names = (key for key in said if isinstance(key, str) and not FORBIDDEN.search(key))
                return {key: self.of(said[key], depth + 1) for key in names}
            case "enum" | "const" | "type" | "required":
                return said if _KEYWORDS[name](said) and not any(_unkept(said)) else None
            case _ if name in _COUNTS | _NUMBERS:
                return said if _is_number(said) and number_fault(said) is None and _KEYWORDS[name](said) else None
            case _:
                return None

    def _at(self, reference: str) -> Any:
        """What a reference within the schema leads to; what leads elsewhere says nothing."""
        found = self._root
        for part in reference.removeprefix("#").split("/")[1:]:
            key = part.replace("~1", "/").replace("~0", "~")
            if not isinstance(found, Mapping) or key not in found:
                return True
            found = found[key]
        return found if reference.startswith("#") else True


def _unkept(value: Any) -> Iterator[Any]:
    """What in a value cannot be in a plan, so that nothing is the same as it."""
    match value:
        case str() if FORBIDDEN.search(value):
            yield value
        case int() | float() if not isinstance(value, bool) and number_fault(value) is not None:
            yield value
        case list() | tuple():
            yield from (one for inner in value for one in _unkept(inner))
        case Mapping():
            yield from (one for pair in value.items() for inner in pair for one in _unkept(inner))
        case _:
            return


def misfits(schema: Any, value: Any, matches: Matches, place: str = "it") -> Iterator[str]:
    """Everything because of which a value does not fit a schema without faults, as sentences without their end."""
    if isinstance(schema, bool):
        if not schema:
            yield f"{place} should not be there"
        return
    yield from _wrong_kind(schema, value, place)
    if _is_number(value):
        yield from _wrong_number(schema, value, place)
    elif isinstance(value, str):
        yield from _wrong_size(schema, len(value), "Length", place, "character")
        pattern = schema.get("pattern")
        if pattern is not None and not matches(pattern, value):
            yield f"{place} should match {pattern}"
    elif isinstance(value, list | tuple):
        yield from _wrong_list(schema, value, matches, place)
    elif isinstance(value, Mapping):
        yield from _wrong_object(schema, value, matches, place)
    yield from _wrong_together(schema, value, matches, place)


def _wrong_kind(schema: Mapping[str, Any], value: Any, place: str) -> Iterator[str]:
    if "type" in schema:
        named = (schema["type"],) if isinstance(schema["type"], str) else schema["type"]
        if not any(_TYPES[one][1](value) for one in named):
            yield f"{place} should be {' or '.join(_TYPES[one][0] for one in named)}"
    if "enum" in schema and not any(_same(value, one) for one in schema["enum"]):
        yield f"{place} should be one of {', '.join(map(_shown, schema['enum']))}"
    if "const" in schema and not _same(value, schema["const"]):
        yield f"{place} should be {_shown(schema['const'])}"


_BOUNDS: tuple[tuple[str, Callable[[float, float], bool], str], ...] = (
    ("minimum", operator.lt, "at least"),
    ("maximum", operator.gt, "at most"),
    ("exclusiveMinimum", operator.le, "more than"),
    ("exclusiveMaximum", operator.ge, "less than"),
)


def _wrong_number(schema: Mapping[str, Any], value: float, place: str) -> Iterator[str]:
    for name, is_beyond, words in _BOUNDS:
        if name in schema and is_beyond(value, schema[name]):
            yield f"{place} should be {words} {schema[name]}"
    if "multipleOf" in schema:
        from fractions import Fraction  # hardly any schema asks

        step = schema["multipleOf"]
        finite = isinstance(value, int) or math.isfinite(value)
        # Of the numbers as they are written, for no float is 0.1.
        if not finite or Fraction(str(value)) % Fraction(str(step)) != 0:
            yield f"{place} should be a multiple of {step}"


def _wrong_size(schema: Mapping[str, Any], size: int, of: str, place: str, unit: str) -> Iterator[str]:
    least, most = schema.get(f"min{of}"), schema.get(f"max{of}")
    if least is not None and size < least:
        yield f"{place} should have at least {least} {unit}{'s' * (least != 1)}"
    if most is not None and size > most:
        yield f"{place} should have at most {most} {unit}{'s' * (most != 1)}"


def _wrong_list(schema: Mapping[str, Any], value: Sequence[Any], matches: Matches, place: str) -> Iterator[str]:
    yield from _wrong_size(schema, len(value), "Items", place, "item")
    if schema.get("uniqueItems") and any(_same(one, two) for at, one in enumerate(value) for two in value[:at]):
        yield f"{place} should have no item twice"
    first = schema.get("prefixItems", ())
    for number, one in enumerate(value):
        rule = first[number] if number < len(first) else schema.get("items", True)
        yield from misfits(rule, one, matches, f"item {number + 1} of {place}")


def _wrong_object(schema: Mapping[str, Any], value: Mapping[str, Any], matches: Matches, place: str) -> Iterator[str]:
    yield from _wrong_size(schema, len(value), "Properties", place, "field")
    known, of = schema.get("properties", {}), f" of {place}" if place != "it" else ""
    for name in schema.get("required", ()):
        if name not in value:
            yield f"{place} should have `{name}`"
    for name, one in value.items():
        if name in known:
            yield from misfits(known[name], one, matches, f"`{name}`{of}")
        elif schema.get("additionalProperties") is False:
            yield f"{place} should have no `{name}`"
        else:
            yield from misfits(schema.get("additionalProperties", True), one, matches, f"`{name}`{of}")


def _wrong_together(schema: Mapping[str, Any], value: Any, matches: Matches, place: str) -> Iterator[str]:
    for one in schema.get("allOf", ()):
        yield from misfits(one, value, matches, place)
    for word in ("anyOf", "oneOf"):
        if word in schema:
            fitting = sum(not any(misfits(one, value, matches, place)) for one in schema[word])
            if fitting == 0:
                yield from _fits_none(schema[word], value, matches, place)
            elif fitting > 1 and word == "oneOf":
                yield f"{place} fits several of the forms of which it may have one"
    if "not" in schema and not any(misfits(schema["not"], value, matches, place)):
        yield f"{place} has a form that it should not have"


def _fits_none(forms: Sequence[Any], value: Any, matches: Matches, place: str) -> Iterator[str]:
    """Why a value has none of these forms: what is wrong with the one that was meant, where that can be told."""
    named = [one.get("type") if isinstance(one, Mapping) else None for one in forms]
    meant = [one for one, kind in zip(forms, named, strict=True) if isinstance(kind, str) and _TYPES[kind][1](value)]
    if len(meant) == 1:
        yield from misfits(meant[0], value, matches, place)
    elif not meant and all(isinstance(kind, str) for kind in named):
        kinds = [_TYPES[kind][0] for kind in named if isinstance(kind, str) and kind != "null"]
        yield f"{place} should be {' or '.join(kinds)}"
    else:
        yield f"{place} fits none of the forms that it may have"


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _same(one: Any, two: Any) -> bool:
    """Whether two JSON values are the same: true is not 1, and 1.0 is."""
    if isinstance(one, bool) or isinstance(two, bool):
        return one is two
    if isinstance(one, list | tuple) and isinstance(two, list | tuple):
        return len(one) == len(two) and all(map(_same, one, two))
    if isinstance(one, Mapping) and isinstance(two, Mapping):
        return one.keys() == two.keys() and all(_same(value, two[name]) for name, value in one.items())
    return bool(one == two)


def _shown(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
