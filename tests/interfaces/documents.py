"""What robots get: strictly checked against its schema, then compared without what is never the same twice."""

from __future__ import annotations

import copy
import functools
import json
import os
import pwd
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jsonschema

from tests.interfaces.golden import check_text
from tests.words import answer_schema, event_schema

__all__ = ["GOLDEN", "check_document", "check_event", "golden_name", "strict"]

GOLDEN = Path(__file__).parent.parent / "golden" / "robot"
_IDS = re.compile(
    r"(?P<kind>PLAN|RUN|APPROVAL|PREP|WS)-[A-Z2-7]{8,}|(?P<hex>\b[0-9a-f]{64}\b)|(?P<short>\b[0-9a-f]{12}\b)"
)
_AN_INSTANT = 1_600_000_000_000
_NEVER_THE_SAME = ("pid", "boot_id", "device", "inode", "nonce", "parts", "env_names", "environment", "unusual")


def golden_name(verb: str) -> str:
    """How the golden documents of a verb begin."""
    return verb.replace(" ", "-")


def strict(schema: Any) -> Any:
    """The schema with nothing let pass that it does not name: readers are lenient, this check is not."""
    if isinstance(schema, list):
        return [strict(inner) for inner in schema]
    if not isinstance(schema, dict):
        return schema
    made = {key: strict(inner) for key, inner in schema.items()}
    if isinstance(schema.get("properties"), dict) and schema.get("type") == "object":
        made.setdefault("additionalProperties", False)
    return made


@functools.cache
def _validator(make: Callable[..., dict[str, Any]], *names: str) -> jsonschema.Draft202012Validator:
    schema = make(*names)
    jsonschema.Draft202012Validator.check_schema(schema)
    return jsonschema.Draft202012Validator(strict(schema))


def check_event(line: str) -> None:
    """One line that `run` or `watch` prints before the last."""
    _validator(event_schema).validate(json.loads(line))


def check_document(verb: str, case: str, line: str, workspace: Path) -> dict[str, Any]:
    """The one document of a verb: fits its schema, and is the golden one; as it came."""
    document: dict[str, Any] = json.loads(line)
    _validator(answer_schema, verb).validate(document)
    file = GOLDEN / f"{golden_name(verb)}{f'.{case}' if case else ''}.json"
    told = json.dumps(_Plain(workspace).value(copy.deepcopy(document)), indent=1, ensure_ascii=False) + "\n"
    told = re.sub(
        r"HOME is \S+; the home of this account is [^\s\"]+", "HOME is HERE; the home of this account is THERE", told
    )
    check_text(file, told)
    return document


class _Plain:
    """Takes out ids, times, durations and paths, each id by the order in which it is first met."""

    def __init__(self, workspace: Path) -> None:
        self._workspace = str(workspace)
        self._known: dict[str, str] = {}

    def value(self, value: Any, key: str = "") -> Any:
        if key in _NEVER_THE_SAME:
            return key.upper()
        if isinstance(value, dict):
            value = {**value}
            if str(value.get("what", "")).endswith("_ms"):
                value["spent"] = "MS"
            if value.get("name") == pwd.getpwuid(os.getuid()).pw_name and "channel" in value:
                value["name"] = "USER"
            return {self._text(name): self.value(inner, name) for name, inner in value.items()}
        if isinstance(value, list):
            return [self.value(inner) for inner in value]
        if isinstance(value, bool) or value is None:
            return value
        if isinstance(value, int):
            return "TIME" if value > _AN_INSTANT else "MS" if key.endswith("_ms") else value
        return self._text(value) if isinstance(value, str) else value

    def _text(self, text: str) -> str:
        text = text.replace(self._workspace, "WORKSPACE")
        return _IDS.sub(self._named, text)

    def _named(self, found: re.Match[str]) -> str:
        if found["short"]:
            whole = next((name for known, name in self._known.items() if known.startswith(found["short"])), None)
            return f"{whole}-SHORT" if whole is not None else found["short"]
        kind = found["kind"] or "HEX"
        count = sum(name.startswith(kind) for name in self._known.values())
        return self._known.setdefault(found.group(), f"{kind}-{count + 1}")
