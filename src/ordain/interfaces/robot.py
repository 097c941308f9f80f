"""The envelope: exactly one JSON document for every verb, with the same shape whether it went well or not."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from ordain.core.problem import Problem

__all__ = ["ENVELOPE_VERSION", "envelope", "problem_value"]

ENVELOPE_VERSION = 1


def problem_value(problem: Problem) -> dict[str, Any]:
    """A problem with its severity, as robots get it."""
    value: dict[str, Any] = msgspec.to_builtins(problem)
    return {"code": value.pop("code"), "severity": problem.severity.value, **value}


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
    return msgspec.json.encode(
        {
            "ok": error is None,
            "data": data,
            "error": wrong,
            "problems": [problem_value(problem) for problem in problems],
            "next": list(next_),
            "elapsed_ms": elapsed_ms,
            "version": ENVELOPE_VERSION,
        }
    )
