"""The envelope: exactly one JSON document for every verb, with the same shape whether it went well or not."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import msgspec

from ordain.core.problem import Problem

__all__ = ["ENVELOPE_VERSION", "envelope", "problem_value", "to_json"]

ENVELOPE_VERSION = 1


def problem_value(problem: Problem) -> dict[str, Any]:
    """A problem with its severity, as robots get it: always with the same keys."""
    where = problem.where
    return {
        "code": problem.code,
        "severity": problem.severity.value,
        "detail": problem.detail,
        "where": None if where is None else {name: getattr(where, name) for name in where.__struct_fields__},
        "hints": list(problem.hints),
        "command": problem.command,
    }


def envelope(
    data: Any, *, problems: Sequence[Problem] = (), error: Problem | None = None, next_: Sequence[str], elapsed_ms: int
) -> bytes:
    """One document: `ok`, the verb's data, the error that refused it, all problems, and the commands that come next."""
    wrong = None
    if error is not None:
        wrong = {
            "code": error.code,
            "message": error.detail,
            "remediation": " ".join(error.hints),
            "command": error.command,
        }
    document = {
        "ok": error is None,
        "data": data,
        "error": wrong,
        "problems": [problem_value(problem) for problem in problems],
        "next": list(next_),
        "elapsed_ms": elapsed_ms,
        "version": ENVELOPE_VERSION,
    }
    return to_json(document)


def to_json(value: Any) -> bytes:
    """JSON on one line, in plain ASCII: what a terminal would act on (control, C1, bidirectional characters) is escaped
    here too, for people look at JSON on terminals."""
    plain = json.dumps(msgspec.to_builtins(value), separators=(",", ":"), ensure_ascii=False)
    whole = plain.encode("utf-8", "replace").decode()  # half a character has no place in JSON
    return json.dumps(json.loads(whole), separators=(",", ":")).replace("\x7f", "\\u007f").encode()
