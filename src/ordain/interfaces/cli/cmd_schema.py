"""The commands that print what other programs read: JSON Schemas, also of plans, and what completes our words.

The schema of plans is made from the model itself and adjusted to what a document may leave out or say beside the plan,
so that a field added to the model is in it. It tells the form only; `ordain lint` tells everything.
"""

from __future__ import annotations

import functools
import json
import sys
from typing import Any

import click
import msgspec

from ordain.core.plan.model import PLAN_VERSION, Plan
from ordain.core.text.limit import STEPS_MAX
from ordain.core.text.problem import closest, refuse
from ordain.documents.shape import RECORD_FIELDS, STEP_RECORD_FIELDS
from ordain.interfaces.cli.completion import SCRIPTS, WHERE
from ordain.interfaces.cli.session import Session, command
from ordain.interfaces.robot.schema import (
    DRAFT,
    RESULTS,
    answer_schema,
    envelope_schema,
    event_schema,
    schema_name,
    tidy,
)
from ordain.interfaces.view.result import CompletionResult, SchemaNames

_ONE_LINE = {"type": "string", "pattern": r"^[^\n]*\S[^\n]*$"}
_ID = {"type": "string", "pattern": "^(?!(?:-?[0-9]+|none)$)[A-Za-z0-9_-]{1,64}$"}
_TEXTS = {"type": "array", "items": {"type": "string"}}
_NOTE = {
    "type": "object",
    "properties": {"heading": {"type": "string"}, "text": {"type": "string"}},
    "additionalProperties": False,
}
_BESIDE: dict[str, Any] = {
    "notes": {
        "description": "Text for readers: headings with their texts, or a list of texts.",
        "anyOf": [
            {"type": "object", "additionalProperties": {"type": "string"}},
            {"type": "array", "items": {"anyOf": [{"type": "string"}, _NOTE]}},
        ],
    },
    "risks": {"description": "Kept as a note.", "anyOf": [{"type": "string"}, _TEXTS]},
    "plan_id": {"description": "An id from elsewhere; kept beside the plan, proves nothing."},
    "step_id": {"description": "An id from elsewhere; another name of the step in `step_completed`."},
    "step_number": {"description": "1, 2, 3 … in order.", "type": "integer", "minimum": 1},
}


@command()
@click.argument("words", metavar="[NAME]", nargs=-1)
@click.option("--list", "names", is_flag=True, help="The names of all schemas.")
def schema(session: Session, words: tuple[str, ...], names: bool) -> int:
    """Print a JSON Schema: `plan` (the default) is a plan document in JSON or YAML, `envelope` what every verb answers,
    `event` a line of `run --json` and `watch --json`; a verb is the whole document that it answers (`plan answer` is
    that of `ordain plan`).

    Example: ordain schema audit verify
    """
    makers = {"plan": plan_schema, "envelope": envelope_schema, "event": event_schema}
    makers |= {schema_name(verb): functools.partial(answer_schema, verb) for verb in RESULTS}
    if names:
        return session.show(SchemaNames(schemas=tuple(makers)), makers, next_=["ordain schema envelope"])
    name = " ".join(words) or "plan"
    if name not in makers:
        hints = closest(name, makers)
        raise refuse("E_SCHEMA_UNKNOWN", f"There is no schema {name}.", *hints, command="ordain schema --list")
    made = makers[name]()
    return session.give(f"{json.dumps(made, ensure_ascii=False, indent=2)}\n", made)


def plan_schema() -> dict[str, Any]:
    """The JSON Schema of a plan document in JSON or YAML."""
    made = msgspec.json.schema(Plan)
    definitions: dict[str, Any] = {name: tidy(schema) for name, schema in made["$defs"].items()}
    _plan(definitions["Plan"])
    _step(definitions["Step"])
    definitions["Fallback"]["properties"]["steps"]["items"] = {"anyOf": [_ID, {"$ref": "#/$defs/Step"}]}
    definitions["ValidateApproval"]["properties"]["approval_code"] = {
        "description": "Ignored with a warning: a code in a plan is a leak.",
        "deprecated": True,
    }
    for definition in definitions.values():
        _null_is_absent(definition)
    return {
        "$schema": DRAFT,
        "title": f"Ordain plan, version {PLAN_VERSION}",
        "$ref": "#/$defs/Plan",
        "$defs": definitions,
    }


def _plan(plan: dict[str, Any]) -> None:
    fields = plan["properties"]
    plan["required"] = ["title", "steps"]
    fields["plan_version"] = {"type": "integer", "minimum": 1, "maximum": PLAN_VERSION, "default": PLAN_VERSION}
    fields["title"] = _ONE_LINE
    fields["steps"] |= {"minItems": 1, "maxItems": STEPS_MAX}
    fields["fallbacks"] |= {"maxItems": STEPS_MAX}
    fields |= {name: _beside(name) for name in RECORD_FIELDS}


def _step(step: dict[str, Any]) -> None:
    fields = step["properties"]
    step["required"] = []
    step["anyOf"] = [{"required": ["action"]}, {"required": ["include"]}]
    fields["include"] = {
        "description": "A document of the workspace whose plan the step carries out.",
        "type": "string",
    }
    fields["id"] = _ID | {"description": "Absent, it is the slug of the description."}
    fields["description"] = _ONE_LINE | {"description": "Absent, it is the command's first line, or the id."}
    fields["needs"] = {
        "description": "Ids or numbers of steps; absent, it is the step before; empty, there are none.",
        "type": "array",
        "items": {"anyOf": [_ID, {"type": "integer", "minimum": 1}]},
    }
    fields |= {name: _beside(name) for name in STEP_RECORD_FIELDS}
    fields["notes"] = {"description": "Text for readers."}


def _beside(name: str) -> dict[str, Any]:
    return dict(_BESIDE.get(name, {"description": "Kept beside the plan, outside its digest."}))


def _null_is_absent(definition: dict[str, Any]) -> None:
    fields = definition["properties"]
    for name, schema in fields.items():
        takes_null = not schema.keys() & {"type", "anyOf", "enum", "$ref"} or {"type": "null"} in schema.get(
            "anyOf", ()
        )
        if name not in definition["required"] and not takes_null:
            about = {key: schema[key] for key in ("description", "default") if key in schema}
            rest = {key: inner for key, inner in schema.items() if key not in about}
            fields[name] = about | {"anyOf": [rest, {"type": "null"}]}


@command()
@click.argument("shell", type=click.Choice(list(SCRIPTS)))
def completion(session: Session, shell: str) -> int:
    """Print what a shell reads to complete commands, options, documents, plans, runs and steps.

    Example: ordain completion bash
    """
    if sys.stdout.isatty() and not session.json:  # who only looks is told where it goes
        click.echo(f"# Put this line into {WHERE[shell]}", err=True)
    return session.give(SCRIPTS[shell], CompletionResult(shell=shell, script=SCRIPTS[shell]))
