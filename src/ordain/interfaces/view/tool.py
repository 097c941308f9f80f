"""What there is to call, as one value for everybody who asks, and who performs tasks, as an approver reads it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import msgspec

from ordain.core.plan.command import typed
from ordain.core.plan.tool import ToolDefinition, argument_names
from ordain.core.policy.agent import shown_address
from ordain.core.policy.assignment import Assignment, RosterLine
from ordain.interfaces.view.picked import picked
from ordain.interfaces.view.style import Style
from ordain.interfaces.view.text import label_rows, visible


class ParameterBrief(msgspec.Struct, frozen=True, kw_only=True):
    """One argument of a tool that steps can call."""

    name: str
    kind: str
    required: bool
    description: str


class ToolBrief(msgspec.Struct, frozen=True, kw_only=True):
    """One tool that steps can call, or one operation of a tool that has several."""

    name: str
    """Of an operation `tool:operation`; a step gives the two apart."""
    description: str
    effect: str
    """`reads`, `repeatable`, `checkable` or `opaque`: how little may be assumed after a crash."""
    destructive: bool
    parameters: tuple[ParameterBrief, ...]
    source: str
    """Where it comes from: `built in`, or what it is."""
    schema: Mapping[str, Any] | msgspec.UnsetType = msgspec.UNSET
    """The JSON Schema of its arguments, as far as it is checked here; of tools that are not built in."""


class ToolsResult(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that steps of a plan can call."""

    tools: tuple[ToolBrief, ...]


def tools_result(tools: Iterable[ToolDefinition]) -> ToolsResult:
    briefs = []
    for tool in tools:
        schema = tool.schema if tool.schema is not None else msgspec.UNSET
        facts = {"parameters": tuple(_parameters(tool)), "source": _source(tool), "schema": schema}
        briefs.append(picked(ToolBrief, tool, effect=tool.effect.value, **facts))
    return ToolsResult(tools=tuple(briefs))


def _parameters(tool: ToolDefinition) -> Iterator[ParameterBrief]:
    if tool.schema is None:
        yield from (picked(ParameterBrief, one) for one in tool.parameters)
        return
    for name, required in argument_names(tool):
        about = tool.schema["properties"][name]
        about = about if isinstance(about, Mapping) else {}
        said = about.get("description", "")
        yield ParameterBrief(name=name, kind=_kind(about), required=required, description=said)


def _kind(about: Mapping[str, Any]) -> str:
    named = about.get("type")
    if named is not None:
        return named if isinstance(named, str) else " or ".join(named)
    if "enum" in about:
        return "one of " + ", ".join(map(str, about["enum"]))
    forms = [_kind(one) for one in about.get("anyOf", ()) if isinstance(one, Mapping)]
    return " or ".join(dict.fromkeys(forms)) or "any"


def _source(tool: ToolDefinition) -> str:
    if tool.command:
        return typed(tool.command)
    if tool.source is not None:
        return shown_address(tool.source.url or "") or typed(tool.source.mcp)
    if tool.python is not None:
        return f"{tool.python}, handed over by the program" if tool.registered else tool.python
    return "built in"


class AgentsResult(msgspec.Struct, frozen=True, kw_only=True):
    """Everybody who can be given tasks."""

    agents: tuple[RosterLine, ...]


Tasks = Mapping[str, Assignment]
"""Who performs each task, by what a run calls its step."""


def by_name(tasks: Iterable[Assignment]) -> Tasks:
    return {one.step: one for one in tasks}


def assignment_lines(task: Assignment, style: Style) -> Iterator[str]:
    """Who performs a task, below what the task is."""
    if not task.agent:
        yield f"       Agent:      {style.bad('nobody is named')}"
        return
    yield f"       Agent:      {visible(task.agent)}, because {task.why}"
    if task.arbiter:
        asked = f"{task.arbiter} ({task.arbiter_runner}), which is asked when the task begins and may choose another"
        yield f"       Chosen by:  {style.warn(visible(asked))}"
        yield f"       Among:      {visible('; '.join(task.among))}"
    if not task.runner:
        yield f"       It is:      {style.bad('not there')}"
        return
    if task.human:
        yield "       It is:      a person, who is asked"
        return
    model = f", model {task.model}" if task.model is not None else ""
    unforeseen = f"with what it calls {visible(', '.join(task.unforeseen))} is for the agent to decide"
    key = f"; the key in {task.key_env} is sent there and nowhere else" if task.key_env else ""
    told = f"{task.address} is told the task, what it reads and what its tools answer{key}"
    own_tools = "tools of its own, which only the sandbox holds to the step"
    copies = visible(", ".join([*task.files, *(["its own login"] if task.login else [])]))
    whose = "the agent's own template" if task.prompt == "agent" else "the template of `[run] prompt`"
    yield from label_rows(
        ("It is", visible(task.runner + model)),
        ("May use", visible(", ".join(task.tools) or "no tools")),
        ("Unforeseen", style.warn(unforeseen) if task.unforeseen else None),
        ("Told there", visible(told) if task.address else None),
        ("Besides", style.warn(own_tools) if task.own_tools else None),
        ("Network", style.warn("in a sandbox (tier 1) too") if task.network else None),
        ("Agent sees", visible(", ".join(task.env)) or None),
        ("Has copies", f"{copies}, of your home directory, in the sandbox" if copies else None),
        ("Prompt", f"by {whose}" if task.prompt else None),
    )


def summary_lines(tasks: Iterable[Assignment], tier: int, style: Style) -> Iterator[str]:
    """What agents are started or asked, and what each can reach."""
    agents: dict[str, list[Assignment]] = {}
    for one in tasks:
        agents.setdefault(one.agent, []).append(one)
    asked = sorted(
        {f"{one.arbiter} ({one.arbiter_runner})" for given in agents.values() for one in given if one.arbiter}
    )
    for words in asked:
        yield f"    asks {visible(words)} who does each task that is left to it, with all that the run shows of it"
    for name, given in agents.items():
        count = f"{len(given)} task{'s' * (len(given) != 1)}"
        if not name or not given[0].runner:
            missing = f"{count} for {name}, which is not there" if name else f"{count} for nobody"
            yield f"    {style.bad(visible(missing))}"
        elif given[0].human:
            yield f"    asks a person, as {visible(name)}, to do {count}"
        elif given[0].address:
            what = f"gives {count} to {name}, and speaks to {given[0].runner} for each attempt at one"
            yield f"    {visible(what)}, which can do nothing but call the tools of its step"
        else:
            what = f"gives {count} to {name}, and starts {given[0].runner} for each attempt at one"
            yield f"    {visible(what)}, {_reach(given, tier)}"


def roster_lines(roster: Iterable[RosterLine], style: Style) -> Iterator[str]:
    """Everybody who can be given tasks, each with what is known of it."""
    for one in roster:
        model = f", model {one.model}" if one.model is not None else ""
        found = style.bad(visible(one.fault)) if one.fault is not None else "found"
        if one.source == "not trusted":
            found = style.warn("counts once ordain.toml is trusted: ordain trust")
        yield f"{style.bold(visible(one.name))}  {visible(one.runner + model)}  {style.dim(one.source)}, {found}"
        if one.description:
            yield f"  {visible(' '.join(one.description.split()))}"
        kinds = [*one.rules, *(["whatever no rule names"] if one.default else [])]
        if kinds:
            yield f"  Performs tasks that name nobody: {', '.join(kinds)}"
        if one.own_tools:
            yield f"  {style.warn('Keeps tools of its own, which only the sandbox holds to a step.')}"
        if one.network:
            yield f"  {style.warn('Has the network in the sandbox too.')}"


def _reach(given: list[Assignment], tier: int) -> str:
    if tier == 0:
        return "with everything you may do on this machine and its network"
    network = "with the network" if any(one.network for one in given) else "without the network"
    return f"in a sandbox {network}"
