"""JSON Schema, as far as questions of plans need it: whether a value fits, and what is wrong in words for a person.

The validation vocabulary of draft 2020-12 for values that stand by themselves. What is not known here (references,
formats, conditions) is a fault of the schema, never silently ignored: an answer must not pass by a rule that nobody
looked at. Patterns are matched by whoever calls: a plan may hold one on which a matcher that goes back never ends.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from fractions import Fraction
from typing import Any

__all__ = ["Matches", "misfits", "patterns", "schema_faults"]

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

_NOTES = frozenset({"$schema", "$comment", "title", "description", "default", "examples", "deprecated"})
"""Keywords that say something to people and check nothing."""
_COUNTS = frozenset({"minLength", "maxLength", "minItems", "maxItems", "minProperties", "maxProperties"})
_NUMBERS = frozenset({"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"})
_SCHEMAS = frozenset({"items", "additionalProperties", "not"})
_LISTS = frozenset({"anyOf", "oneOf", "allOf", "prefixItems"})
_OTHERS = frozenset({"type", "enum", "const", "pattern", "required", "properties", "uniqueItems"})


def schema_faults(schema: Any, place: str = "the schema") -> Iterator[str]:
    """Everything because of which nobody could tell whether a value fits this schema."""
    if isinstance(schema, bool):
        return
    if not isinstance(schema, Mapping):
        yield f"{place} is neither an object nor true or false"
        return
    for name, said in schema.items():
        if name in _COUNTS:
            good = isinstance(said, int) and not isinstance(said, bool) and said >= 0
        elif name in _NUMBERS:
            good = _is_number(said) and (name != "multipleOf" or said > 0)
        elif name in _SCHEMAS:
            yield from schema_faults(said, f"{place}, {name}")
            good = True
        elif name in _LISTS:
            good = isinstance(said, list | tuple) and bool(said)
            for number, one in enumerate(said if good else (), 1):
                yield from schema_faults(one, f"{place}, {name} {number}")
        elif name == "properties":
            good = isinstance(said, Mapping)
            for key, one in said.items() if good else ():
                yield from schema_faults(one, f"{place}, property `{key}`")
        elif name in _OTHERS:
            good = _is_good(name, said)
        elif name in _NOTES:
            good = True
        else:
            yield f"{place}: `{name}` is not known here"
            continue
        if not good:
            yield f"{place}: what `{name}` says cannot be"


def _is_good(name: str, said: Any) -> bool:
    match name:
        case "type":
            named = (said,) if isinstance(said, str) else said
            return (
                isinstance(named, list | tuple)
                and bool(named)
                and all(isinstance(one, str) and one in _TYPES for one in named)
            )
        case "enum":
            return isinstance(said, list | tuple) and bool(said)
        case "required":
            return isinstance(said, list | tuple) and all(isinstance(one, str) for one in said)
        case "uniqueItems":
            return isinstance(said, bool)
        case "pattern":
            return isinstance(said, str)
        case _:
            return True


def patterns(schema: Any) -> Iterator[str]:
    """The patterns that texts must match somewhere in this schema; whether they are any is not asked."""
    todo = [schema]
    while todo:
        one = todo.pop()
        if not isinstance(one, Mapping):
            continue
        if isinstance(pattern := one.get("pattern"), str):
            yield pattern
        todo += [one[name] for name in _SCHEMAS if name in one]
        todo += [inner for name in _LISTS if isinstance(one.get(name), list | tuple) for inner in one[name]]
        if isinstance(known := one.get("properties"), Mapping):
            todo += known.values()


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


def _wrong_number(schema: Mapping[str, Any], value: float, place: str) -> Iterator[str]:
    if "minimum" in schema and value < schema["minimum"]:
        yield f"{place} should be at least {schema['minimum']}"
    if "maximum" in schema and value > schema["maximum"]:
        yield f"{place} should be at most {schema['maximum']}"
    if "exclusiveMinimum" in schema and value <= schema["exclusiveMinimum"]:
        yield f"{place} should be more than {schema['exclusiveMinimum']}"
    if "exclusiveMaximum" in schema and value >= schema["exclusiveMaximum"]:
        yield f"{place} should be less than {schema['exclusiveMaximum']}"
    if "multipleOf" in schema and not _divides(schema["multipleOf"], value):
        yield f"{place} should be a multiple of {schema['multipleOf']}"


def _divides(step: float, value: float) -> bool:
    """Whether a number is so many times the other: of the numbers as they are written, for no float is 0.1."""
    return (isinstance(value, int) or math.isfinite(value)) and Fraction(str(value)) % Fraction(str(step)) == 0


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
    known = schema.get("properties", {})
    for name in schema.get("required", ()):
        if name not in value:
            yield f"{place} should have `{name}`"
    for name, one in value.items():
        if name in known:
            yield from misfits(known[name], one, matches, f"`{name}`")
        elif schema.get("additionalProperties") is False:
            yield f"{place} should have no `{name}`"
        else:
            yield from misfits(schema.get("additionalProperties", True), one, matches, f"`{name}`")


def _wrong_together(schema: Mapping[str, Any], value: Any, matches: Matches, place: str) -> Iterator[str]:
    for one in schema.get("allOf", ()):
        yield from misfits(one, value, matches, place)
    for word in ("anyOf", "oneOf"):
        if word in schema:
            fitting = sum(not any(misfits(one, value, matches, place)) for one in schema[word])
            if fitting == 0:
                yield f"{place} fits none of the forms that it may have"
            elif fitting > 1 and word == "oneOf":
                yield f"{place} fits several of the forms of which it may have one"
    if "not" in schema and not any(misfits(schema["not"], value, matches, place)):
        yield f"{place} has a form that it should not have"


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
