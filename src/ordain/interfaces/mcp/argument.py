"""The arguments of tools: their schema for clients, and reading what a client sent. One that a tool does not know is
refused, never ignored: nobody can believe that `approved: true` did something."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache
from itertools import islice
from typing import Any, TypeVar

import msgspec

from ordain.core.text.problem import Problem, Refused, closest
from ordain.core.text.schema import misfits

T = TypeVar("T", bound=msgspec.Struct)

# gemini puts this into the schema of every tool for its own use, and hands on to the server what its model says there.
_OF_THE_CLIENT = frozenset({"wait_for_previous"})
UNKNOWN_MAX = FAULTS_MAX = 20
"""How many arguments that a tool does not know are told of, one by one, and how much that is wrong with one value."""
NAME_MAX = 64


def read_arguments(kind: type[T], given: Mapping[str, Any] | None) -> T:
    """The arguments as a value; raises Refused with everything that is wrong with their names and values."""
    given = {name: value for name, value in (given or {}).items() if name not in _OF_THE_CLIENT}
    fields = {field.encode_name: field for field in msgspec.structs.fields(kind)}
    unknown = unknown_arguments(kind, given)
    problems = [
        Problem(
            code="E_CALL_ARGUMENTS",
            detail=f"There is no argument `{name}`.",
            hints=(*closest(name, fields), f"It takes: {', '.join(fields) or 'nothing'}."),
        )
        for name in unknown[:UNKNOWN_MAX]
    ]
    if len(unknown) > UNKNOWN_MAX:
        detail = f"{len(unknown) - UNKNOWN_MAX} more arguments are unknown too."
        problems.append(Problem(code="E_CALL_ARGUMENTS", detail=detail))
    problems += [
        Problem(code="E_CALL_ARGUMENTS", detail=f"The argument `{name}` is missing.")
        for name, field in fields.items()
        if field.required and name not in given
    ]
    sound = {name: value for name, value in given.items() if name in fields and value is not None}
    schema = _schema_of(kind)["properties"]
    for name, value in sound.items():
        wrong = misfits(schema.get(name, True), value, lambda pattern, text: True, f"`{name}`")
        for fault in islice(wrong, FAULTS_MAX):
            hints = ("What this form cannot say, `document` can.",) if "should have no `" in fault else ()
            problems.append(Problem(code="E_CALL_ARGUMENTS", detail=f"{fault}.", hints=hints))
    try:  # JSON can name halves of characters, and some readers let them through
        json.dumps(given, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        detail = "The arguments hold half of a surrogate pair, which is no character."
        problems.append(Problem(code="E_CALL_ARGUMENTS", detail=detail))
    if problems:
        raise Refused(problems)
    try:
        return msgspec.convert(sound, kind)
    except msgspec.ValidationError as error:  # what the schema does not say
        raise Refused([Problem(code="E_CALL_ARGUMENTS", detail=f"{error}.")]) from error


_schema_of = cache(lambda kind: schema_of(kind))


def unknown_arguments(kind: type[msgspec.Struct], given: Mapping[str, Any] | None) -> list[str]:
    """The names of arguments that were given and that there are not."""
    fields = {field.encode_name for field in msgspec.structs.fields(kind)}
    return [name[:NAME_MAX] for name in given or () if name not in fields and name not in _OF_THE_CLIENT]


def schema_of(kind: Any) -> dict[str, Any]:
    """The JSON Schema of a type, whole in itself: without references, which not every client follows."""
    made = msgspec.json.schema(kind)
    definitions = made.pop("$defs", {})

    def inlined(schema: Any) -> Any:  # no type of ours contains itself
        if isinstance(schema, list):
            return list(map(inlined, schema))
        if not isinstance(schema, dict):
            return schema
        if "$ref" in schema:
            return inlined(definitions[schema["$ref"].rpartition("/")[2]])
        return {key: inlined(value) for key, value in schema.items() if key != "discriminator"}

    schema: dict[str, Any] = inlined(made)
    return schema


def described(schema: Any, words: Mapping[str, str]) -> Any:
    """The schema with what is said of each property, by its name."""
    if isinstance(schema, list):
        return [described(one, words) for one in schema]
    if not isinstance(schema, dict):
        return schema
    made = {key: described(value, words) for key, value in schema.items()}
    if "properties" in schema:
        made["properties"] = {
            name: ({"description": words[name]} if name in words else {}) | one
            for name, one in made["properties"].items()
        }
    return made
