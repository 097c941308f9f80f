"""Rules about tools and commands: they exist, are in scope, and get arguments and variables that fit."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from itertools import chain
from typing import Any

from msgspec.structs import replace

from ordain.core.lint.path import named_paths
from ordain.core.lint.survey import Facts, Survey
from ordain.core.plan.command import payload, setting_fault
from ordain.core.plan.model import Step, item_name
from ordain.core.plan.refs import is_reference, literal, references, without_references
from ordain.core.plan.tool import HANDLER, SHELL, argument_faults, definition_of, handler_of, operations_of
from ordain.core.policy.tier import header_fault, read_address
from ordain.core.text.limit import STRING_BYTES_MAX, strings
from ordain.core.text.problem import Place, Problem, blame_step
from ordain.core.text.secret import may_name, named_secrets

_PATH_BYTES_MAX = 4095
_PATH_PART_BYTES_MAX = 255
"""What Linux takes."""
_NAMED_MAX = 20


def known(survey: Survey, facts: Facts) -> Iterator[Problem]:
    """Every tool that is called, or that an agent may call, is registered or of a source that is."""
    tools = (name.partition(":")[0] for name in facts.tools if not name.startswith(HANDLER))
    named = {*tools, *facts.settings.sources}
    listed = [(step, entry.partition(":")[0]) for _, step, task in survey.tasks for entry in task.tools or ()]
    for step, name in (*((step, call.tool) for step, call in survey.calls), *listed):
        if name in facts.unreached:
            yield replace(facts.unreached[name], where=Place(step=step.id))
        if name in named or not name.isascii() or "${" in name:
            continue
        hints = survey.near(name, sorted(named)) or (_there_are(named),)
        yield blame_step(step.id, "E_TOOL_UNKNOWN", f"There is no tool `{name}`.", *hints)


def _there_are(names: Collection[str]) -> str:
    """The tools there are, as many as anybody reads."""
    more = f" and {len(names) - _NAMED_MAX:,} more; `ordain tools` lists them" if len(names) > _NAMED_MAX else ""
    return f"There are {', '.join(sorted(names)[:_NAMED_MAX])}{more}."


def handlers(survey: Survey, facts: Facts) -> Iterator[Problem]:
    """Every type of custom action has a handler."""
    known = [name.removeprefix(HANDLER) for name in facts.tools if name.startswith(HANDLER)]
    for step, action in survey.others:
        name = handler_of(action)
        if name is not None and name not in known:
            yield unhandled(name, Place(step=step.id), survey.near(name, known))


def unhandled(action_type: str, where: Place | None = None, near: tuple[str, ...] = ()) -> Problem:
    """What is said of a custom action that nothing here can carry out."""
    how = 'Register one in ordain.toml, such as `[actions.NAME]` with `command = ["program"]`, and have it trusted.'
    detail = f"There is no handler for the custom action `{action_type}`."
    return Problem(code="E_ACTION_UNKNOWN", detail=detail, where=where, hints=(*near, how), command="ordain trust")


def operations(survey: Survey, facts: Facts) -> Iterator[Problem]:
    """A tool that is one thing has no operations, and of any other a step says which it means."""
    for step, call in survey.calls:
        several = operations_of(call.tool, facts.tools)
        source = facts.settings.sources.get(call.tool)
        serves = source is not None and (bool(source.mcp) or source.url is not None)
        hints: tuple[str, ...] = ()
        detail = ""
        if call.operation is not None and call.tool in facts.tools:
            detail = f"`{call.tool}` has no operation `{call.operation}`, or any other."
            hints = survey.near(call.operation, facts.tools) or ("Leave `operation` out.",)
        elif call.operation is None and (several or serves) and call.tool not in facts.tools:
            detail = f"`{call.tool}` has several operations, and the step does not say which of them it calls."
            hints = ("Name it with `operation:`.", "ordain tools lists them.")
        elif call.operation is not None and several and call.operation not in several and "${" not in call.operation:
            detail = f"`{call.tool}` has no operation `{call.operation}`."
            hints = survey.near(call.operation, several) or ("ordain tools lists them.",)
        if detail:
            yield blame_step(step.id, "E_TOOL_OPERATION", detail, *hints)
    for _, step, task in survey.tasks:
        for entry in task.tools or ():
            name, colon, operation = entry.partition(":")
            several = operations_of(name, facts.tools)
            if colon and entry not in facts.tools and (several or name in facts.tools):
                detail = f"`{step.id}` lists `{entry}`, and `{name}` has no operation `{operation}`."
                hints = survey.near(operation, several) or ("ordain tools lists them.",)
                yield blame_step(step.id, "E_TOOL_OPERATION", detail, *hints)


def scope(survey: Survey, facts: Facts) -> Iterator[Problem]:
    """When a plan lists its tools, its steps use no others. A command is the tool `shell`, and so is a contract."""
    listed = [one.plan.tools for one in survey.scopes if one.plan.tools is not None]
    if not listed:
        return
    for step, name, operation in _uses(survey):
        if name is not None and "${" not in name:
            for tools in (survey.plan.tools, survey.scope_of(step).plan.tools):
                if tools is not None and name not in tools and f"{name}:{operation}" not in tools:
                    detail = f"`{step.id}` uses `{name}`, which is not among the plan's tools."
                    hint = f"Add `{name}` to `tools:`, or leave the step out."
                    yield blame_step(step.id, "E_TOOL_OUT_OF_SCOPE", detail, hint)
                    break


def _uses(survey: Survey) -> Iterator[tuple[Step, str, str | None]]:
    with_commands = {id(step): step for step, *_ in survey.shell_texts}
    yield from ((step, SHELL.name, None) for step in with_commands.values())
    yield from ((step, call.tool, call.operation) for step, call in survey.calls)
    for _, step, task in survey.tasks:
        for entry in task.tools or ():
            name, _, operation = entry.partition(":")
            yield step, name, operation or None


def arguments(survey: Survey, facts: Facts) -> Iterator[Problem]:
    """Every call's arguments fit what the tool takes; what a reference decides is judged when it is known."""
    for step, call in survey.calls:
        tool = definition_of(call, facts.tools)
        if tool is None:
            continue
        item = item_name(step)
        if tool.schema is None:
            args, later = call.args, {name for name, value in call.args.items() if is_reference(value, item)}
        else:
            args = literal(dict(call.args))
            later = {name for name, value in call.args.items() if next(references(value, item), None) is not None}
        for sentence, hints in argument_faults(tool, args, later):
            yield blame_step(step.id, "E_TOOL_ARGS", sentence, *hints)


def secrets(survey: Survey, facts: Facts) -> Iterator[Problem]:
    """A call is handed no secret but those that the settings name."""
    patterns = facts.settings.secret_env
    for step, call in survey.calls:
        tool = definition_of(call, facts.tools)
        if tool is None or tool.schema is None:
            continue
        for name in sorted(set(named_secrets(call.args))):
            if not may_name(name, patterns):
                detail = f"`{step.id}` wants the secret `{name}`, which no pattern of `[secrets] env` means."
                hint = f"The patterns are {', '.join(patterns) or 'none'}."
                yield blame_step(step.id, "E_SECRET_REFERENCE", detail, hint)


def requests(survey: Survey, facts: Facts) -> Iterator[Problem]:
    """An address is one that means the same to everybody, and so are headers."""
    for step, kind, value in _of_kinds(survey, facts, "url", "headers"):
        item = item_name(step)
        if kind == "headers" and isinstance(value, Mapping):
            known = {str(name): without_references(text, item) for name, text in value.items() if isinstance(text, str)}
            fault = header_fault(known)
            if fault is not None:
                yield blame_step(step.id, "E_TOOL_ARGS", f"`{step.id}` sends the header {fault}.")
        elif kind != "url" or not isinstance(value, str) or is_reference(value, item):
            continue
        elif read_address(without_references(value, item)) is None:
            detail = f"`{step.id}`: `{value}` is not an address that a request can be sent to."
            hint = "Write `https://HOST/PATH?QUERY`, percent-encoded, with no password and no `#`."
            yield blame_step(step.id, "E_TOOL_ARGS", detail, hint)


def _of_kinds(survey: Survey, facts: Facts, *kinds: str) -> Iterator[tuple[Step, str, Any]]:
    for step, call in survey.calls:
        tool = facts.tools.get(call.tool)
        for parameter in tool.parameters if tool is not None else ():
            if parameter.kind in kinds and parameter.name in call.args:
                yield step, parameter.kind, call.args[parameter.name]


def sizes(survey: Survey, facts: Facts) -> Iterator[Problem]:
    """No argument is longer than a document's text may be, and no path than a file system takes."""
    payloads = ((step, payload(action)) for step, action in survey.others)
    for step, value in chain(((step, call.args) for step, call in survey.calls), payloads):
        if any(len(text) * 4 > STRING_BYTES_MAX and _bytes(text) > STRING_BYTES_MAX for text in strings(value)):
            yield _oversized(step, "an argument is longer than 1 MiB")
    for one in named_paths(survey, facts):
        path = one.path
        if len(path) * 4 > _PATH_PART_BYTES_MAX and not one.handed and not one.declared and _unbearable(path):
            yield _oversized(one.step, f"the path `{path[:32]}…` is longer than a file system takes")


def _bytes(text: str) -> int:
    return len(text.encode("utf-8", "surrogatepass"))


def _unbearable(path: str) -> bool:
    return _bytes(path) > _PATH_BYTES_MAX or any(_bytes(part) > _PATH_PART_BYTES_MAX for part in path.split("/"))


def _oversized(step: Step, what: str) -> Problem:
    return blame_step(step.id, "E_TOOL_ARGS", f"`{step.id}`: {what}.", "Put long texts into files of the workspace.")


def variables(survey: Survey, facts: Facts) -> Iterator[Problem]:
    """No variable is given to a command that would make a trusted program do something else."""
    given = [(step, command.env) for step, command in survey.commands]
    given += [(step, env) for step, _, env in _of_kinds(survey, facts, "variables") if isinstance(env, Mapping)]
    for step, env in given:
        for name in env:
            if fault := setting_fault(str(name)):
                detail = f"`{step.id}`: the variable `{name}` {fault}."
                yield blame_step(step.id, "E_ENV_NAME", detail, "Use another name.")
