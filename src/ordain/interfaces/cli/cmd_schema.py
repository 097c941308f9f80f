"""The commands that print what other programs read: JSON Schemas, and what completes our words."""

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
from ordain.interfaces.cli.completion import SHELLS
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
from ordain.interfaces.view.problem import data_text
from ordain.interfaces.view.report import CompletionResult, SchemaNames


@command(example="ordain schema audit verify")
@click.argument("words", metavar="[NAME]", nargs=-1)
@click.option("--list", "names", is_flag=True, help="The names of all schemas.")
def schema(session: Session, words: tuple[str, ...], names: bool) -> int:
    """Print a JSON Schema: `plan` (the default) is a plan document in JSON or YAML, `envelope` what every verb answers,
    `event` a line of `run --json` and `watch --json`; a verb is the whole document that it answers (`plan answer` is
    that of `ordain plan`)."""
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
    changed = json.loads(data_text("plan_schema.json"))
    beside = changed.pop("beside")
    for name, fields in changed.items():
        definitions[name]["properties"] |= fields
    plan, step = definitions["Plan"], definitions["Step"]
    plan["required"], step["required"] = ["title", "steps"], []
    step["anyOf"] = [{"required": ["action"]}, {"required": ["include"]}]
    fields = plan["properties"]
    fields["plan_version"] = {"type": "integer", "minimum": 1, "maximum": PLAN_VERSION, "default": PLAN_VERSION}
    fields["steps"] |= {"minItems": 1, "maxItems": STEPS_MAX}
    fields["fallbacks"] |= {"maxItems": STEPS_MAX}
    kept = {"description": "Kept beside the plan, outside its digest."}
    fields |= {name: dict(beside.get(name, kept)) for name in RECORD_FIELDS}
    step["properties"] |= {name: dict(beside.get(name, kept)) for name in STEP_RECORD_FIELDS}
    step["properties"]["notes"] = {"description": "Text for readers."}
    for definition in definitions.values():
        _null_is_absent(definition)
    title = f"Ordain plan, version {PLAN_VERSION}"
    return {"$schema": DRAFT, "title": title, "$ref": "#/$defs/Plan", "$defs": definitions}


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


_WHERE = {
    "bash": "~/.bashrc: source <(ordain completion bash)",
    "zsh": "~/.zshrc, after compinit: source <(ordain completion zsh)",
    "fish": "~/.config/fish/config.fish: ordain completion fish | source",
}
"""By shell: the file, and the line that makes the shell read it."""


@command(example="ordain completion bash")
@click.argument("shell", type=click.Choice(SHELLS))
def completion(session: Session, shell: str) -> int:
    """Print what a shell reads to complete commands, options, documents, plans, runs and steps."""
    script = data_text(f"completion/{shell}")
    if sys.stdout.isatty() and not session.json:  # who only looks is told where it goes
        click.echo(f"# Put this line into {_WHERE[shell]}", err=True)
    return session.give(script, CompletionResult(shell=shell, script=script))
