"""What is wrong with the lists of the settings: entries that mean nothing, rules that do not do what their examples
say. A misspelt deny would deny nothing, so a configuration with any of it is not trusted. Rules are tried alone, in
each way that lists use them, or in both ways where none does."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Set
from typing import Any

from ordain.core.guard.call import EVERYTHING, Mode
from ordain.core.guard.host_tool import CLAUDE_CODE, KNOWN, callable_name, mangled, our_name
from ordain.core.plan.role import EffectClass
from ordain.core.plan.tool import (
    COMMANDS,
    HANDLER,
    HOST_TOOL,
    HOSTS,
    OWN_ACTION_KINDS,
    ToolDefinition,
    argument_faults,
    argument_names,
    operation_name,
    operations_of,
)
from ordain.core.policy.agent import shown_address
from ordain.core.policy.fact import facts_in_words
from ordain.core.policy.path_use import AGENT, OWN_WORDS, PATH, Subject, subject_of_call
from ordain.core.policy.rule import RULE, ArgumentConditions, CallRule, Example, Holds
from ordain.core.policy.ruling import AllowList, Strict, quoted
from ordain.core.policy.settings import DEFAULTS, Settings, arbiter_of, planner_access
from ordain.core.text.path import OFF_LIMITS, pattern_fault
from ordain.core.text.problem import Problem, closest

SHOWN_MAX = 200

_Fault = tuple[str, tuple[str, ...]]
"""What is wrong with an entry, as the end of a sentence, and hints."""


def list_problems(settings: Settings, tools: Mapping[str, ToolDefinition]) -> tuple[Problem, ...]:
    """Everything wrong with the lists and the rules, as far as these tools and the settings tell."""
    return (
        *_entry_problems(settings, tools),
        *_effect_problems(settings, tools),
        *_contradictions(settings),
        *_argument_problems(settings, tools),
        *_rule_problems(settings, tools),
    )


def named_sources(settings: Settings) -> frozenset[str]:
    """The sources of which the settings name operations or arguments, in lists, rules, examples or `effects`."""
    examples = (one.tool for rule in settings.rules.values() for one in (*rule.matches, *rule.matches_not))
    entries = (entry for entries in _lists(settings).values() for entry in entries)
    of_rules = (entry for rule in settings.rules.values() if rule.where for entry in rule.tools)
    named = {_source(one, settings) for one in (*examples, *(one for one in entries if ":" in one), *of_rules)}
    named |= {name for name, source in settings.sources.items() if source.effects}
    return frozenset(name for name in named if name)


def _source(entry: str, settings: Settings) -> str:
    """The source that a name of a tool begins with, which may have a colon in its own; empty where there is none."""
    at = [found.start() for found in re.finditer(":", entry)]
    return next((name for end in (len(entry), *reversed(at)) if (name := entry[:end]) in settings.sources), "")


def _problem(detail: str, hints: Iterable[str] = ()) -> Problem:
    return Problem(code="E_CONFIG", detail=f"{detail}.", hints=tuple(hints))


# --- Entries ---------------------------------------------------------------------------------------------------------


def _entry_problems(settings: Settings, tools: Mapping[str, ToolDefinition]) -> Iterator[Problem]:
    letting = {f"rules.{name}.tools" for name in settings.rules if _using(name, settings, _LETS_THROUGH)}
    for where, entries in _lists(settings).items():
        for entry in entries:
            if entry.startswith(PATH):
                fault = _path_fault(entry, lets_through=where in _LETS_THROUGH or where in letting)
            else:
                fault = _fault(entry, where, settings, tools)
            if fault is not None:
                yield _problem(f"{where} names `{entry}`, {fault[0]}", fault[1])


def _lists(settings: Settings) -> dict[str, tuple[str, ...]]:
    return {
        "policy.allow": settings.allow,
        "policy.ask": settings.ask,
        "policy.deny": settings.deny,
        "guard.guarded": settings.guarded,
        "guard.open": settings.open_calls,
        **{f"rules.{name}.tools": rule.tools for name, rule in settings.rules.items()},
    }


_LETS_THROUGH = ("policy.allow", "guard.open")
_FORBIDS = ("policy.deny", "policy.ask", "guard.guarded")


def _using(name: str, settings: Settings, which: Iterable[str]) -> list[str]:
    lists = _lists(settings)
    return [where for where in which if f"{RULE}{name}" in lists[where]]


def _fault(entry: str, where: str, settings: Settings, tools: Mapping[str, ToolDefinition]) -> _Fault | None:
    if entry.startswith(RULE):
        name = entry.removeprefix(RULE)
        return None if name in settings.rules else ("and there is no rule of that name", closest(name, settings.rules))
    if entry in HOSTS or HOST_TOOL.fullmatch(entry):
        if where == "policy.allow":
            return "which no plan can call", ()
        ours, outside = our_name(entry.removeprefix(operation_name(CLAUDE_CODE, "")))
        return (f"which is `{ours}` here", (f"Write `{ours}`.",)) if ours and not outside else None
    if where.startswith("guard."):
        if (where, entry) == ("guard.guarded", EVERYTHING):
            return None
        if entry.startswith(AGENT):
            return "and lists name what is called, not who calls", ()
        if entry.startswith(HANDLER) or entry in OWN_ACTION_KINDS:
            return "which only a plan can do", ("The guard is about calls outside of plans.",)
    return _name_fault(entry, settings, tools)


def _path_fault(entry: str, *, lets_through: bool) -> _Fault | None:
    fault = pattern_fault(entry.removeprefix(PATH))
    if fault is None or (fault == OFF_LIMITS and not lets_through):
        return None
    return f"and that path {fault}", ("Paths are relative to the workspace and stay beneath it.",)


def _name_fault(entry: str, settings: Settings, tools: Mapping[str, ToolDefinition]) -> _Fault | None:
    callable_names = {*tools, *settings.sources}
    if entry in OWN_WORDS or entry in callable_names:
        return None
    kind, colon, name = entry.partition(":")
    if not colon:
        return "which is no tool, action or effect class", _meant(entry, settings, callable_names)
    if kind == AGENT.removesuffix(":"):
        if name in settings.agents:
            return None
        return "and there is no agent of that name", closest(name, sorted(settings.agents))
    if kind in OWN_WORDS:
        return f"and `{kind}` has no operations", ()
    source = _source(entry, settings)
    if source and entry != operation_name(source, ""):
        return _operation_fault(source, entry.removeprefix(operation_name(source, "")), tools)
    # A tool's name may have a colon in it as well.
    if any(entry[: at.start()] in callable_names and at.end() < len(entry) for at in re.finditer(":", entry)):
        return None
    if kind in callable_names:
        return "without an operation", (f"Write `{kind}` for all it can do.",)
    return f"and there is no tool `{kind}`", closest(kind, [AGENT, PATH, RULE, *HOSTS, *sorted(callable_names)])


def _operation_fault(source: str, operation: str, tools: Mapping[str, ToolDefinition]) -> _Fault | None:
    """That a source, which was asked, has no such operation, and does not just leave it out of its list."""
    known = operations_of(source, tools)
    if not known or operation in known or not callable_name(operation):
        return None
    return f"and `{source}` has no operation `{operation}`", closest(operation, known)


def _effect_problems(settings: Settings, tools: Mapping[str, ToolDefinition]) -> Iterator[Problem]:
    for name, operation in ((name, one) for name, source in settings.sources.items() for one in source.effects):
        if fault := _operation_fault(name, operation, tools):
            yield _problem(f"tools.{name}.effects names `{operation}`, {fault[0]}", fault[1])


def _meant(word: str, settings: Settings, callable_names: Set[str]) -> tuple[str, ...]:
    if word in settings.rules:
        return (f"Write `{RULE}{word}`.",)
    if word in settings.agents:
        return (f"Write `{AGENT}{word}`.",)
    if "/" in word or "*" in word:
        return (f"Write `{PATH}{word}`.",)
    return closest(word, sorted(OWN_WORDS | callable_names))


def _contradictions(settings: Settings) -> Iterator[Problem]:
    """What `open` names and another list does too is never open. The default is no word of anybody."""
    lists = _lists(settings)
    for entry in settings.open_calls:
        others = [where for where in _FORBIDS if entry in lists[where]]
        if others and entry not in (*DEFAULTS.open_calls, EVERYTHING):
            do = "do" if len(others) > 1 else "does"
            yield _problem(f"guard.open names `{entry}`, and so {do} {' and '.join(others)}, which wins")


def _argument_problems(settings: Settings, tools: Mapping[str, ToolDefinition]) -> Iterator[Problem]:
    """The arguments that rules name and that none of their tools takes: such a rule means no call."""
    for name, rule in settings.rules.items():
        taken = _taken(rule, tools) if rule.where else None
        for argument in rule.where:
            if taken is not None and argument not in taken:
                detail = f"rules.{name}.where names `{argument}`, and {quoted(rule.tools)} takes no such argument"
                yield _problem(detail, closest(argument, sorted(taken)))


def _taken(rule: CallRule, tools: Mapping[str, ToolDefinition]) -> set[str] | None:
    """The arguments that the tools of a rule take; None where any of them is not known, or may take others."""
    found: set[str] = set()
    for entry in rule.tools:
        begins = operation_name(entry, "")
        meant = [tool for name, tool in tools.items() if name == entry or name.startswith(begins)]
        if not meant or entry in OWN_WORDS or any(map(_takes_others, meant)):
            return None
        found.update(name for tool in meant for name, _ in argument_names(tool))
    return found


def _takes_others(tool: ToolDefinition) -> bool:
    schema = tool.schema
    if schema is None:
        return False
    more = schema.get("additionalProperties") not in (None, False) or _ELSEWHERE & schema.keys()
    return bool(more) or not schema.get("properties")


_ELSEWHERE = frozenset(("$ref", "allOf", "anyOf", "else", "if", "oneOf", "patternProperties", "then"))
"""Where a schema can name arguments besides."""


# --- Rules and their examples ----------------------------------------------------------------------------------------


def _rule_problems(settings: Settings, tools: Mapping[str, ToolDefinition]) -> Iterator[Problem]:
    for name, rule in settings.rules.items():
        letting, forbidding = _using(name, settings, _LETS_THROUGH), _using(name, settings, _FORBIDS)
        unused = not letting and not forbidding
        for key, examples in (("matches", rule.matches), ("matches_not", rule.matches_not)):
            for example in examples:
                definition, faults = _called(example, settings, tools)
                if definition is not None or HOST_TOOL.fullmatch(example.tool):
                    must = key == "matches"
                    subject = subject_of_call(example.tool, example.args, definition, settings.understand)
                    if letting or unused:
                        faults = [*faults, *_letting_fault(rule, subject, must, letting)]
                    if forbidding or unused:
                        faults = [*faults, *_forbidding_fault(rule, subject, must, forbidding)]
                shown = f"rules.{name}.{key}: `{_shown(example)}`"
                yield from (_problem(f"{shown} {detail}", hints) for detail, hints in faults)


def _called(
    example: Example, settings: Settings, tools: Mapping[str, ToolDefinition]
) -> tuple[ToolDefinition | None, list[_Fault]]:
    """What is known of the tool that an example calls, and why nobody can call it so."""
    tool = tools.get(example.tool) or COMMANDS.get(example.tool)
    if tool is not None:
        later = [name for name, value in example.args.items() if "${" in str(value)]
        faults = argument_faults(tool, example.args, later)
        return tool, [(f"cannot be called: {detail.removesuffix('.')}", hints) for detail, hints in faults]
    source, _, operation = example.tool.partition(":")
    if source in settings.sources:
        effect = settings.sources[source].effects.get(operation, EffectClass.OPAQUE)
        return ToolDefinition(name=example.tool, description="", effect=effect), []
    if HOST_TOOL.fullmatch(example.tool):
        return None, []
    return None, [("calls a tool that there is not", closest(example.tool, sorted({*tools, *settings.sources})))]


def _shown(example: Example) -> str:
    written = f"{example.tool} {json.dumps(example.args, ensure_ascii=False)}" if example.args else example.tool
    return written if len(written) <= SHOWN_MAX else f"{written[: SHOWN_MAX - 1]}…"


def _letting_fault(rule: CallRule, subject: Subject, must: bool, used: list[str]) -> Iterator[_Fault]:
    let = any(AllowList([_ALONE], {"": rule}).vouching(subject))
    if let and not must:
        yield f"must not be let through, and is{_by(used)}", _TIGHTER
    elif must and not let:
        yield f"must be let through, and is not{_by(used)}", tuple(_why_not_let(rule, subject))


def _forbidding_fault(rule: CallRule, subject: Subject, must: bool, used: list[str]) -> Iterator[_Fault]:
    surely, maybe, _ = Strict([_ALONE], {"": rule}).names(subject)
    if not must and (surely or maybe):
        yield f"must not be meant, and {'is' if surely else 'may be'}{_by(used)}", _TIGHTER
    elif must and not surely:
        how = "only may be" if maybe else "is not"
        yield f"must be meant, and {how}{_by(used)}", tuple(_why_not_meant(rule, subject))


_ALONE = RULE
"""The entry that names a rule that is tried alone."""
_TIGHTER = ("Say more in `where`, or name less in `tools`; or take the example away if it is right as it is.",)


def _by(used: list[str]) -> str:
    return f" ({' and '.join(used)} {'name' if len(used) > 1 else 'names'} the rule)" if used else ""


def _why_not_let(rule: CallRule, subject: Subject) -> Iterator[str]:
    if not any(AllowList(rule.tools).vouching(subject)):
        yield f"{quoted(rule.tools)} would not let it through, whatever its arguments."
    elif subject.args is None:
        yield from _why_no_command(rule, subject)
    else:
        if unnamed := ArgumentConditions(rule).unnamed(subject.args):
            yield f"It has {quoted(unnamed)}, named neither in `where` nor in `besides`."
        if unlike := list(_unlike(rule, subject.args, lambda one, args: one.vouched(args))):
            yield from unlike
            yield "What lets through is compared letter by letter, and `*` stands for no separator."


def _why_no_command(rule: CallRule, subject: Subject) -> Iterator[str]:
    line = subject.line
    if line is None or line.strict is None:
        yield "It has no strict reading: a program or an option is not known, or something is decided when it runs."
    else:
        named = rule.where.keys() | set(rule.besides)
        alarms = sorted({fact.value for command in line.strict for fact in command.alarms} - named)
        if alarms:
            yield f"It {quoted(alarms)}, and the rule does not name that in `where` or `besides`."
        conditions = ArgumentConditions(rule)
        if kept := sorted({word for command in line.strict for word in conditions.kept_by(command)}):
            yield f"It says {quoted(kept)}, and the rule's `never` has that."
    yield f"What Ordain understands of it: {facts_in_words(line)}."


def _why_not_meant(rule: CallRule, subject: Subject) -> Iterator[str]:
    surely, maybe, _ = Strict(rule.tools).names(subject)
    if not surely:
        yield f"{quoted(rule.tools)} {'may' if maybe else 'does not'} name it, whatever its arguments."
    elif subject.args is None:
        yield f"What Ordain understands of it: {facts_in_words(subject.line)}."
    else:
        yield from _unlike(rule, subject.args, lambda one, args: one.meant(args) is Holds.YES)


def _unlike(
    rule: CallRule, args: Mapping[str, Any], alike: Callable[[ArgumentConditions, Mapping[str, Any]], bool]
) -> Iterator[str]:
    for name, wanted in rule.where.items():
        if name not in args:
            yield f"It has no `{name}`."
        elif not alike(ArgumentConditions(CallRule(tools=(), where={name: wanted})), {name: args[name]}):
            yield f"`{name}` is not like what `where` says."


# --- What a person should know of settings before trusting them ------------------------------------------------------

_OWN_SERVER = "ordain"
"""What our own server is called in the settings of agents' hosts."""


def remarks(before: Settings | None, now: Settings) -> Iterator[str]:
    """Sentences, the most telling first; `before` is what counted, None where nobody trusted anything yet."""
    before = before or DEFAULTS
    if before.guard_mode == Mode.ENFORCE and now.guard_mode != Mode.ENFORCE:
        yield "Nothing is refused any more outside of plans: [guard] mode is no longer `enforce`, calls are only noted."
    if EVERYTHING not in now.guarded:
        named = f" but {quoted(now.guarded)}" if now.guarded else ""
        yield f"Every tool that is known is open to agents outside of plans{named}: [guard] guarded has no `*`."
    for where, was, is_now in (
        ("[policy] deny", before.deny, now.deny),
        ("[policy] ask", before.ask, now.ask),
        ("[guard] guarded", before.guarded, now.guarded),
    ):
        if gone := set(was) - set(is_now) - {EVERYTHING}:
            yield f"{where} no longer names {quoted(gone)}."
    for name, source in now.sources.items():
        if mangled(name) == _OWN_SERVER and (source.mcp or source.url is not None):
            yield (
                f"[tools.{name}] is called like Ordain's own server: the hook of {CLAUDE_CODE} judges no call of a "
                "server that the host knows by that name. Call it otherwise."
            )
    if now.removes_outputs:
        over = [f"older than {now.outputs_days:,} day{'s' * (now.outputs_days != 1)}"] if now.outputs_days else []
        over += [f"beyond {now.outputs_mb:,} MB"] if now.outputs_mb else []
        yield (
            f"[retention] removes outputs of ended runs {' or '.join(over)} for good, at the first preparation of "
            "a day."
        )
    yield from _of_models(before, now)
    yield from _of_hosts(now)


def _of_models(before: Settings, now: Settings) -> Iterator[str]:
    """Addresses that are told of this workspace from now on."""
    known = {agent.base_url for agent in before.agents.values()} | set(_addresses(before).values())
    told = {f"[agents.{name}]": agent.base_url for name, agent in now.agents.items() if agent.is_model}
    for where, address in (told | _addresses(now)).items():
        if address and address not in known:
            told_there = "what it is asked, what it reads and what its tools answer is sent there"
            yield f"{where} is a model at {shown_address(address)}: {told_there}."


def _addresses(settings: Settings) -> dict[str, str]:
    named = {"[run] arbiter": arbiter_of(settings), "[planner] model": planner_access(settings)}
    return {where: one.base_url for where, one in named.items() if one is not None}


def _of_hosts(settings: Settings) -> Iterator[str]:
    """Names of a host's own tools that mean less than they seem to, or nothing as far as is known here."""
    begins = operation_name(CLAUDE_CODE, "")
    for name, entries in _lists(settings).items():
        section, _, key = name.rpartition(".")
        where = f"[{section}] {key}"
        for entry in entries if name != "policy.allow" else ():
            tool = entry.removeprefix(begins)
            if not entry.startswith(begins) or not HOST_TOOL.fullmatch(entry):
                continue
            if ours := our_name(tool)[0]:
                yield f"{where} names `{entry}`, which is writing outside of the workspace; in it, that is `{ours}`."
            elif tool not in KNOWN:
                near = "".join(f" {hint}" for hint in closest(tool, sorted(KNOWN)))
                yield f"{where} names `{entry}`, which this version of Ordain does not know.{near}"
