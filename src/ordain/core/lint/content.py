"""Rules about texts, numbers and free values, wherever they stand in a plan: every reader and every terminal takes them
alike. A reader of documents refuses the same earlier; these rules are for plans made by code."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from ordain.core.lint.survey import Facts, Survey, written
from ordain.core.plan.action import Ask
from ordain.core.plan.command import command_of, payload
from ordain.core.plan.condition import Contract
from ordain.core.plan.model import NestedPlan, Step, look_commands
from ordain.core.plan.role import FieldPart, Handed, PathRead, PathWritten, Prose, Role, Schema, parts, value_with
from ordain.core.text.confusable import confusable_words
from ordain.core.text.limit import DEPTH_MAX, STRING_BYTES_MAX, number_fault, string_fault
from ordain.core.text.problem import Problem, blame_step
from ordain.core.text.schema import patterns, schema_faults
from ordain.core.text.secret import CREDENTIALS, SHAPES, compiled

_ESCAPED = (b"\\u00", b"\\b", b"\\f", b"\\r")
_WIDE = (re.compile(rb"\xc2[\x80-\x9f]"), re.compile(rb"\xe2(?:\x80[\xaa-\xae]|\x81[\xa6-\xa9])"))
"""Forbidden characters in UTF-8; two patterns, because one that begins with a fixed byte is searched quickly."""
_BORDER = re.compile(rb'[^\\]"')
_WINDOW = STRING_BYTES_MAX // 2


# --- Texts ---------------------------------------------------------------------------------------------------------


def texts(survey: Survey, facts: Facts) -> Iterator[Problem]:
    """No text holds what a terminal would obey, what reorders what a person reads, or half a character."""
    for step, value in _in_doubt(survey):
        told = set()
        for text in _strings(value):
            fault = string_fault(text)
            if fault is not None and fault[0] != "E_DOC_TOO_LARGE" and fault[0] not in told:
                told.add(fault[0])
                yield _problem(*fault, step)


def lengths(survey: Survey, facts: Facts) -> Iterator[Problem]:
    """No text is longer than a document's may be; arguments have a rule of their own."""
    for step, value in _in_doubt(survey):
        arguments = payload(step.action) if step is not None and command_of(step.action) is None else None
        for text in _strings(value, arguments):
            fault = string_fault(text)
            if fault is not None and fault[0] == "E_DOC_TOO_LARGE":
                yield _problem(*fault, step)
                break


def _in_doubt(survey: Survey) -> Iterator[tuple[Step | None, Any]]:
    """The steps, and the plans without their steps, in which something may be wrong with a text; in most plans none."""
    if not _doubtful(survey.encoded):
        return
    for scope in survey.scopes:
        around = msgspec.structs.replace(scope.plan, steps=(), fallbacks=())
        if _doubtful(written(around)):
            yield None, around
    for step in survey.steps:
        if _doubtful(written(step)):
            yield step, step


def _doubtful(data: bytes | None) -> bool:
    """Whether a value's JSON, where it could be written, may hold a forbidden character or a text that is too long."""
    if data is None or b"\x7f" in data or (b"\\" in data and any(escape in data for escape in _ESCAPED)):
        return True
    if not data.isascii() and any(pattern.search(data) for pattern in _WIDE):
        return True
    # A text that is too long covers one of these windows, and no text begins or ends in it.
    return any(not _BORDER.search(data, at, at + _WINDOW) for at in range(0, len(data) - _WINDOW + 1, _WINDOW))


def _strings(value: Any, skipped: Any = None) -> Iterator[str]:
    """Every text in a value but those of nested plans, which are looked at on their own."""
    return (one for one in _scalars(value, skipped) if isinstance(one, str))


def _scalars(value: Any, skipped: Any = None) -> Iterator[Any]:
    todo, seen = [value], set()
    while todo:
        one = todo.pop()
        if (one is skipped and one is not value) or id(one) in seen or isinstance(one, NestedPlan):
            continue
        match one:
            case str() | int() | float():
                yield one
                continue
            case msgspec.Struct():
                todo += [getattr(one, field) for field in one.__struct_fields__]
            case Mapping():
                todo += [*one.keys(), *one.values()]
            case list() | tuple():
                todo += one
        seen.add(id(one))


def letters(survey: Survey, facts: Facts) -> Iterator[Problem]:
    """No word of a command, a path, an address or an argument passes for another."""
    if survey.encoded is not None and survey.encoded.isascii():
        return
    plans = ((None, scope.plan.protect, ()) for scope in survey.scopes)
    for step, value, commands in (*plans, *map(_for_machines, survey.steps)):
        found: dict[str, None] = {}
        for text in (*_strings(value), *commands):
            found |= dict.fromkeys(confusable_words(text, exact=True if text in commands else None))
        if found:
            more = f", and {len(found) - 3} more" if len(found) > 3 else ""
            first = f"{', '.join(list(found)[:3])}{more}"
            detail = f"These words have letters that pass for others, or that nobody sees: {first}."
            yield _problem("W_CONFUSABLE", detail, step)


def _for_machines(step: Step) -> tuple[Step, Any, tuple[str, ...]]:
    command = command_of(step.action)
    commands = (*look_commands(step), *((command.command,) if command is not None else ()))
    found = parts(step.action, PathRead, PathWritten, Handed, Prose)
    given = [part.value for part in found if _is_for_machines(part)]
    return step, (payload(step.action), given, step.writes, step.protect), commands


def _is_for_machines(part: FieldPart[Role]) -> bool:
    match part.role:
        case Prose(machine=machine):
            return machine
        case Handed():
            return str(part.value).startswith("file:")
        case _:
            return True


# --- Numbers and free values ---------------------------------------------------------------------------------------


def numbers(survey: Survey, facts: Facts) -> Iterator[Problem]:
    """Every number is one that every reader holds exactly."""
    for step, value, skipped in _numbered(survey):
        for one in _scalars(value, skipped):
            fault = number_fault(one) if isinstance(one, int | float) else None
            if fault is not None:
                yield _problem(*fault, step)
                break


def _numbered(survey: Survey) -> Iterator[tuple[Step | None, Any, Any]]:
    """Where numbers stand that no other rule bounds, and the free values in them, which `values` looks at."""
    for scope in survey.scopes:
        if scope.plan.preconditions:
            yield None, scope.plan.preconditions, None
    for step in survey.steps:
        if step.preconditions:
            yield step, step.preconditions, None
        if step.verification is not None and not isinstance(step.verification.strategy, Contract):
            yield step, step.verification, None
    for step, action in survey.others:
        yield step, action, value_with(action, Schema) or payload(action)


def values(survey: Survey, facts: Facts) -> Iterator[Problem]:
    """Arguments are JSON that every reader understands alike; otherwise the digest would not be portable."""
    for step, value in _free_values(survey):
        fault = _value_fault(value)
        if fault is not None:
            yield _problem(*fault, step)


def questions(survey: Survey, facts: Facts) -> Iterator[Problem]:
    """What a plan asks a person can be answered: its choices are different ones, and its schema can be looked at."""
    for step, action in survey.others:
        if not isinstance(action, Ask):
            continue
        faults = [*schema_faults(action.schema)] if _value_fault(action.schema) is None else []
        for pattern in patterns(action.schema) if facts.pattern_faults else ():
            if pattern in facts.pattern_faults:
                faults.append(f"the pattern `{pattern[:200]}` is none of RE2: {facts.pattern_faults[pattern]}")
        if not action.question.strip():
            faults.append("there is no question")
        if action.choices and action.schema:
            faults.append("it has both choices and a schema; one of them says what an answer is")
        if len(set(action.choices)) < len(action.choices) or not all(word.strip() for word in action.choices):
            faults.append("its choices are not different words")
        for fault in faults:
            yield _problem("E_ASK", f"Nobody could answer what it asks: {fault}.", step)


def _free_values(survey: Survey) -> Iterator[tuple[Step | None, Any]]:
    for scope in survey.scopes:
        for parameter in scope.plan.params.values():
            yield None, {"default": parameter.default}
    for step, call in survey.calls:
        if not all(type(value) is str and type(name) is str for name, value in call.args.items()):
            yield step, call.args
    for step, action in survey.others:
        schema = value_with(action, Schema)
        yield step, schema if schema is not None else {"": payload(action)}


def _value_fault(value: Any, depth: int = 0) -> tuple[str, str] | None:
    if depth > DEPTH_MAX:
        return "E_DOC_DEPTH", f"More than {DEPTH_MAX} lists and mappings are nested."
    match value:
        case str() | bool() | None:
            return None
        case int() | float():
            return number_fault(value)
        case Mapping():
            inner = [key if isinstance(key, str) else () for key in value] + list(value.values())
        case list() | tuple() if depth:
            inner = list(value)
        case _:
            return "E_TOOL_ARGS", f"An argument is a {type(value).__name__}, which JSON does not have."
    return next((fault for one in inner if (fault := _value_fault(one, depth + 1))), None)


def _problem(code: str, detail: str, step: Step | None) -> Problem:
    if step is None:
        return Problem(code=code, detail=detail)
    return blame_step(step.id, code, f"`{step.id}`: {detail[:1].lower()}{detail[1:]}")


# --- Secrets: none stands in a plan, for a plan is stored, shown and sent around -------------------------------------

_WORD = re.compile(rb"[A-Za-z0-9]")
_ESCAPES = (b"\\n", b"\\t", b"\\r")
_KEEP_SECRETS = "Let the program read it from where secrets are kept, such as a file that only you can read."


def no_secrets(survey: Survey, facts: Facts) -> Iterator[Problem]:
    """No text has the shape of a well-known secret, or is one that a variable holds; shown is at most how it begins."""
    held = {written(value): f"the value of ${name}" for name, value in facts.secrets.items()}
    values = {value.strip(b'"'): whose for value, whose in held.items() if value is not None}
    if next(secrets_in(survey.encoded or _shown(survey.plan), values), None) is None:
        return
    for number, step in enumerate((*survey.plan.steps, *survey.plan.fallbacks), 1):
        for what in secrets_in(written(step) or _shown(step), values):
            # Not by its id, which may be made of the very text.
            yield blame_step(step.id, "E_PLAN_SECRET", f"Step {number} holds {what}.", _KEEP_SECRETS)
    around = msgspec.structs.replace(survey.plan, steps=(), fallbacks=())
    for what in secrets_in(written(around) or _shown(around), values):
        yield blame_step(None, "E_PLAN_SECRET", f"The plan holds {what}.", _KEEP_SECRETS)


def secrets_of(value: Any) -> Iterator[str]:
    """What looks like a secret in a value; none in one that cannot be written."""
    return secrets_in(written(value) or b"", {})


def secrets_in(data: bytes, values: Mapping[bytes, str]) -> Iterator[str]:
    """What secrets stand in a text; of each shape only the first. One in the middle of a word is none."""
    yield from (whose for value, whose in values.items() if value in data)
    for shape in SHAPES:
        for found in compiled(shape.head).finditer(data):
            at = found.start()
            if not _WORD.match(data[at - 1 : at]) or data[at - 2 : at] in _ESCAPES:
                yield f"what looks like {shape.what}: `{found.group()[:4].decode()}…`"
                break
    for shape in CREDENTIALS:
        if compiled(shape.head).search(data):
            yield f"what looks like {shape.what}"


def _shown(value: Any) -> bytes:
    """What cannot be written as JSON has other problems, and is looked at as Python shows it, if it does."""
    try:
        return repr(value).encode("utf-8", "surrogatepass")
    except (RecursionError, ValueError):  # Python writes no very long numbers
        return b""
