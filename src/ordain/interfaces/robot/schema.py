"""What all our JSON Schemas share: which draft they are, and how what is made from types is put in form."""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, get_args

import msgspec
import msgspec.inspect

from ordain.core.guard.report import WatchReport
from ordain.core.lineage.decision import Asked
from ordain.core.plan.model import Plan
from ordain.core.policy.fact import CheckedCommands
from ordain.core.policy.stop import StopReport
from ordain.core.report.brief import Arbitration, Brief
from ordain.core.report.progress import AttemptOutput
from ordain.core.report.report import PlanLine, RunReport, ToldPrompt
from ordain.core.report.simulation import Simulation
from ordain.core.report.statistics import Statistics
from ordain.core.report.template import NewDocument, TemplateList
from ordain.core.report.transcript import Transcript
from ordain.core.run.event import WIRE_NAMES, Event
from ordain.core.run.wait import SignalReport
from ordain.interfaces.robot.envelope import ENVELOPE_VERSION, Envelope
from ordain.interfaces.view import audit, diff, lint, picture, planned, problem, report, tool

RESULTS: dict[str, tuple[Any, ...]] = {
    "run": (report.RunResult, report.PreparedResult),
    "lint": (lint.LintResult, tuple[lint.LintResult, ...]),
    "show": (
        report.ReviewResult,
        RunReport,
        Asked,
        Brief,
        Arbitration,
        report.OutputResult,
        picture.PictureResult,
        ToldPrompt,
        Transcript,
    ),
    "prepare": (report.PreparedResult,),
    "approve": (),
    "commit": (report.RunResult, report.BegunResult, report.QueuedResult),
    "status": (report.StatusResult,),
    "inbox": (report.InboxResult,),
    "answer": (),
    "resume": (report.RunResult, report.BegunResult, report.QueuedResult),
    "new": (NewDocument, TemplateList),
    "compose": (NewDocument,),
    "plan": (planned.PlannedResult,),
    "replan": (planned.PlannedResult,),
    "list": (report.ListResult,),
    "revise": (report.PreparedResult,),
    "reject": (PlanLine,),
    "cancel": (PlanLine, RunReport),
    "archive": (PlanLine,),
    "diff": (diff.ComparisonResult,),
    "simulate": (Simulation,),
    "fmt": (report.FormResult,),
    "schema": (dict[str, Any], report.SchemaNames),
    "watch": (report.RunResult,),
    "stop": (StopReport,),
    "pause": (RunReport,),
    "signal": (SignalReport,),
    "rerun": (report.RunResult, report.PreparedResult),
    "stats": (Statistics,),
    "log": (report.LogResult,),
    "init": (report.InitResult,),
    "config": (report.ConfigResult,),
    "tools": (tool.ToolsResult,),
    "agents": (tool.AgentsResult,),
    "topic": (report.TopicsResult, report.TopicResult, report.PostedResult),
    "trust": (),
    "revoke": (report.RevokedResult,),
    "approver enroll": (),
    "approver list": (audit.ApproversResult,),
    "approver revoke": (),
    "audit verify": (audit.AuditResult,),
    "audit export": (audit.CopiedResult,),
    "audit backup": (audit.CopiedResult,),
    "audit restore": (),
    "audit rebuild": (audit.RebuiltResult,),
    "explain": (problem.PageResult, problem.WordResult),
    "completion": (report.CompletionResult,),
    "mcp token": (report.ClientsResult,),
    "guard report": (WatchReport,),
    "guard check": (CheckedCommands,),
    "guard hook": (report.HookResult,),
    "guard init": (report.InstallResult,),
    "guard install": (report.InstallResult,),
    "skill": (report.SkillResult,),
    "robot": (report.VerbsResult, report.Verb),
}
"""The forms a verb's data has; where there is more than one, any of them. Null, besides, where it was refused."""


DRAFT = "https://json-schema.org/draft/2020-12/schema"


def tidy(schema: Any) -> Any:
    """The schema without what only OpenAPI knows, and with descriptions free of their source's indentation."""
    if isinstance(schema, list):
        return [tidy(inner) for inner in schema]
    if not isinstance(schema, dict):
        return schema
    made = {key: tidy(inner) for key, inner in schema.items() if key != "discriminator"}
    if isinstance(made.get("description"), str):
        made["description"] = inspect.cleandoc(made["description"])
    return made


# --- Answer schemas --------------------------------------------------------------------------------------------------
# JSON Schemas of what Ordain answers: the envelope, each verb's whole document, and the ledger's events.
#
# Made from the types that are answered, so that a field added to one is in its schema. A field that is always there
# is required; fields that a schema does not name may come with a later version, so readers let them be.

_REFERENCE = "#/$defs/"
_PLACE: dict[str, Any] = {
    "seq": {"description": "Its number in the stream, from 1 on.", "type": "integer"},
    "at": {"description": "Milliseconds since 1970-01-01 UTC.", "type": "integer"},
    "stream": {"description": "The sequence of events that it is in.", "type": "string"},
}
_HEAD: dict[str, Any] = {"head": {"description": "The digest of the stream up to and with it.", "type": "string"}}


def envelope_schema() -> dict[str, Any]:
    """The envelope, whatever the verb."""
    return _enveloped("What every verb answers", {}, {})


def schema_name(verb: str) -> str:
    """What the schema of a verb's answer is called; `plan` alone is a plan document."""
    return "plan answer" if verb == "plan" else verb


def answer_schema(verb: str) -> dict[str, Any]:
    """The whole document that a verb answers with."""
    forms, definitions = _made(RESULTS[verb])
    data = {"anyOf": [*forms, {"type": "null"}]} if forms else {"type": "null"}
    return _enveloped(f"What `ordain {verb} --json` answers", data, definitions)


def event_schema() -> dict[str, Any]:
    """One event of the ledger as robots get it, or what is told beside them of a run under way."""
    return _whole("An event", {"$ref": f"{_REFERENCE}{report.EVENT}"}, {})


def _enveloped(title: str, data: dict[str, Any], definitions: dict[str, Any]) -> dict[str, Any]:
    _, made = _made([Envelope])
    whole = made.pop("Envelope")
    whole["properties"] |= {"data": data, "version": {"type": "integer", "const": ENVELOPE_VERSION}}
    return _whole(title, whole, made | definitions)


def _whole(title: str, schema: dict[str, Any], definitions: dict[str, Any]) -> dict[str, Any]:
    wanted, found = [schema], dict[str, Any]()
    while wanted:
        for name in _referred(wanted.pop()):
            if name not in definitions:
                definitions = _events() | definitions
            if name not in found:
                found[name] = definitions[name]
                wanted.append(found[name])
    return {"$schema": DRAFT, **schema, "title": title, "$defs": dict(sorted(found.items()))}


def _referred(schema: Any) -> Iterator[str]:
    for inner in schema.values() if isinstance(schema, dict) else schema if isinstance(schema, list) else ():
        yield from _referred(inner)
    if isinstance(schema, dict) and isinstance(schema.get("$ref"), str):
        yield schema["$ref"].removeprefix(_REFERENCE)


def _made(types: Sequence[Any]) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    schemas, components = msgspec.json.schema_components(types, ref_template=f"{_REFERENCE}{{name}}")
    definitions: dict[str, Any] = tidy(components)
    for struct in _structs(msgspec.inspect.multi_type_info(types)):
        kind = struct.cls
        # Where two have one name, theirs are written with the module.
        definition = definitions.get(kind.__name__) or definitions[f"{kind.__module__}.{kind.__qualname__}"]
        always = [field.encode_name for field in struct.fields if field.required or _always(kind, field)]
        tag = [kind.__struct_config__.tag_field] if kind.__struct_config__.tag is not None else []
        definition["required"] = [*tag, *always]
    return [tidy(schema) for schema in schemas], definitions


def _always(kind: type[msgspec.Struct], field: msgspec.inspect.Field) -> bool:
    """Whether a field that has a default is written all the same; one that may be unset has none."""
    has_default = msgspec.NODEFAULT is not field.default or msgspec.NODEFAULT is not field.default_factory
    return has_default and not kind.__struct_config__.omit_defaults


def _structs(types: Iterable[Any]) -> Iterator[msgspec.inspect.StructType]:
    seen: set[type] = set()
    wanted = list(types)
    while wanted:
        one = wanted.pop()
        if isinstance(one, msgspec.inspect.StructType):
            if one.cls in seen:
                continue
            seen.add(one.cls)
            yield one
        for value in msgspec.structs.astuple(one):
            parts = value if isinstance(value, tuple) else (value,)
            types_inside = [part.type if isinstance(part, msgspec.inspect.Field) else part for part in parts]
            wanted += [inner for inner in types_inside if isinstance(inner, msgspec.inspect.Type)]


def _events() -> dict[str, Any]:
    """The definition of an event, with one for each type by its name: the event's own fields and its place."""
    kinds = get_args(Event)
    _, definitions = _made([Event, AttemptOutput, Plan])
    definitions["PlanPrepared"]["properties"]["plan"] = {"$ref": f"{_REFERENCE}Plan"}
    recorded = {}
    for kind in kinds:
        body = definitions[kind.__name__]
        facts = {WIRE_NAMES.get(name, name): schema for name, schema in body["properties"].items()}
        always = [WIRE_NAMES.get(name, name) for name in body["required"]]
        recorded[kind.__struct_config__.tag] = body | {
            "title": kind.__struct_config__.tag,
            "properties": _PLACE | facts | _HEAD,
            "required": [*_PLACE, *always, *_HEAD],
        }
    told = definitions["AttemptOutput"]
    recorded[AttemptOutput.__struct_config__.tag] = told
    definitions |= recorded
    definitions[report.EVENT] = {"anyOf": [{"$ref": f"{_REFERENCE}{name}"} for name in recorded]}
    return definitions
