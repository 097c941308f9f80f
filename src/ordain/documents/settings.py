"""From the text of `ordain.toml` to settings: strict, with every problem at once. Every call of an agent that a hook
asks about reads it, so what only some configurations need is imported where it is needed."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import Any

from ordain.core.plan.role import EffectClass
from ordain.core.plan.tool import RESERVED, ToolDefinition, ToolSource, handler_name
from ordain.core.policy.agent import (
    MODEL_WORD,
    PROMPT_WORD,
    Agent,
    access_fault,
    model_access,
    model_agent,
    model_fault,
)
from ordain.core.policy.fact import ALARMS, CommandFact
from ordain.core.policy.rule import CallRule
from ordain.core.policy.settings import USER_SECTIONS, Settings
from ordain.core.text.control import CONFIGURATION_FILE
from ordain.core.text.problem import Place, Problem, closest
from ordain.documents.rules import read_rule
from ordain.documents.setting_value import (
    ACTION_KEYS,
    AGENT_KEYS,
    AGENT_KINDS,
    NAME,
    SECTION_KEYS,
    SOURCE_KEYS,
    SOURCE_KINDS,
    Reader,
    Wrong,
)

RULES_MAX = 100

_NAMES_ARE = "Names are ASCII letters, digits, `_`, `-` and `.`, at most 64, and begin with none of the last two."

_LATER = {"plans": {"marks"}}
"""Parts of the design that this version does not carry out; refused, so that nobody relies on them."""


# --- Sections --------------------------------------------------------------------------------------------------------


def _agents(tree: dict[str, Any], problems: list[Problem]) -> dict[str, Agent]:
    found = {}
    for name, values in _named_sections("agents", tree, AGENT_KEYS, problems):
        given = [kind for kind in AGENT_KINDS if kind in tree[name]]
        if len(given) > 1 and given[-1] == "model":  # which one they use
            given.pop()
        if given == ["preset", "command"]:  # where its program is
            given = ["preset"]
        more = "; only `command` may be beside `preset`, and a `model` beside all but `human`"
        faults = [*_kind_faults(given, values, AGENT_KINDS, more), *_word_faults(values)]
        if given == ["model"] and "model" in values:
            faults += _model_faults(values)
        problems += [_problem(f"agents.{name}{fault}") for fault in faults]
        hint = "Name the variable that holds it in `env`; its value is written nowhere."
        problems += [_problem(f"agents.{name} holds {what}", hint) for what in _secrets_in(tree[name])]
        if given != ["model"]:
            values = {key: value for key, value in values.items() if key not in _MODEL_KEYS}
        elif not faults and "model" in values:
            found[name] = model_agent(**values)
            continue
        found[name] = Agent(**values)
    return found


_MODEL_KEYS = ("base_url", "key_env", "key_header")


def _model_faults(values: dict[str, Any]) -> Iterator[str]:
    fault = model_fault(values["model"])
    if fault is not None:
        yield f".model {fault}; only beside a `preset`, `command` or `python` it is a name of theirs"
    elif "base_url" in values and "key_header" in values and "key_env" not in values:
        yield ".key_header says how a key is sent, and no `key_env` says which is for that address"
    else:
        access = model_access(values["model"], **{key: values[key] for key in _MODEL_KEYS if key in values})
        if (fault := access_fault(access)) is not None:
            yield f": {fault}"


def _kind_faults(
    given: list[str], values: Collection[str], kinds: Mapping[str, Collection[str]], more: str = ""
) -> Iterator[str]:
    """What is wrong with a section that says of several kinds, or of none, what it is, or more than its kind has."""
    if len(given) != 1:
        yield f" needs exactly one of {', '.join(kinds)}{more}"
        return
    yield from (f".{key} says nothing about `{given[0]}`" for key in values if key not in (*given, *kinds[given[0]]))


def _word_faults(values: dict[str, Any]) -> Iterator[str]:
    """What is wrong with the words of an agent's command that stand for something else."""
    words = values.get("command", ())
    if any(PROMPT_WORD in word and word != PROMPT_WORD for word in words):
        yield f".command has {PROMPT_WORD} as part of a word; the prompt is a word of its own"
    if any(MODEL_WORD in word for word in words) and "model" not in values:
        yield f".command has {MODEL_WORD}, and no `model` says which that is where a plan names none"


def _secrets_in(section: Any) -> Iterable[str]:
    from ordain.core.lint.content import secrets_of  # heavy, and many configurations have no such section

    return secrets_of(section)


def _sources(tree: dict[str, Any], problems: list[Problem]) -> dict[str, ToolSource]:
    found = {}
    for name, values in _named_sections("tools", tree, SOURCE_KEYS, problems):
        given = [kind for kind in SOURCE_KINDS if kind in tree[name]]
        if len(given) == 1 and name in RESERVED:
            problems.append(_problem(f"has a section [tools.{name}], and `{name}` means something else to policies"))
            continue
        faults = (*_kind_faults(given, values, SOURCE_KINDS), *_final_faults(values))
        problems += [_problem(f"tools.{name}{fault}") for fault in faults]
        if len(given) == 1:
            found[name] = ToolSource(**values)
    return found


def _final_faults(values: Mapping[str, Any]) -> Iterator[str]:
    if values.get("happened_final") and "happened" not in values:
        yield ".happened_final says that an answer is final, and no `happened` says who answers"


def _actions(tree: dict[str, Any], problems: list[Problem]) -> dict[str, ToolDefinition]:
    found = {}
    for name, values in _named_sections("actions", tree, ACTION_KEYS, problems):
        if ("command" in tree[name]) == ("python" in tree[name]):
            problems.append(_problem(f"actions.{name} needs exactly one of command, python"))
        problems += [_problem(f"actions.{name}{fault}") for fault in _final_faults(values)]
        effect = values.setdefault("effect", EffectClass.OPAQUE)
        values.setdefault("description", f"The custom action {name}.")
        # Whoever says that a contract can tell whether it happened says that it does not half happen.
        handler = ToolDefinition(name=handler_name(name), atomic=effect is EffectClass.CHECKABLE, **values)
        found[handler.name] = handler
    return found


def _rules(tree: dict[str, Any], problems: list[Problem]) -> dict[str, CallRule]:
    found = {}
    if len(tree) > RULES_MAX:
        problems.append(_problem(f"has {len(tree)} rules; at most {RULES_MAX} are read"))
    for name, content in _sections("rules", dict(list(tree.items())[:RULES_MAX]), problems):
        found[name], faults = read_rule(content)
        problems += [_problem(f"rules.{name}.{detail}", *hints) for detail, hints in faults]
        hint = "It would be stored and shown; make up another value."
        problems += [_problem(f"rules.{name} holds {what}", hint) for what in _secrets_in(content)]
    return found


def _commands(tree: dict[str, Any], problems: list[Problem]) -> dict[str, tuple[str, ...]]:
    """Facts that count for a program whatever the table says: a workspace only makes it stricter."""
    found = {}
    for name, facts in tree.items():
        unknown = [fact for fact in facts if fact not in _FACTS] if isinstance(facts, list) else [facts]
        if not isinstance(facts, list) or not facts or unknown:
            hints = closest(str(unknown[0])[:64], _FACTS) if unknown else ()
            problems.append(_problem(f"commands.{name} must be a list of some of {', '.join(_FACTS)}", *hints))
        else:
            found[name] = tuple(facts)
    return found


_FACTS = [fact.value for fact in CommandFact if fact in ALARMS]


def _named_sections(
    section: str, tree: dict[str, Any], keys: dict[str, Reader], problems: list[Problem]
) -> Iterator[tuple[str, dict[str, Any]]]:
    for name, content in _sections(section, tree, problems):
        yield name, read_values(f"{section}.{name}", content, keys, problems, _problem)


def _sections(section: str, tree: dict[str, Any], problems: list[Problem]) -> Iterator[tuple[str, dict[str, Any]]]:
    """The name of every [section.NAME] that is one, and what stands in it."""
    for name, content in tree.items():
        if not NAME.fullmatch(name):
            problems.append(_problem(f"has a section [{section}.{name}], which is no name", _NAMES_ARE))
        elif not isinstance(content, dict):
            problems.append(_problem(f"{section}.{name} must be a section, written [{section}.{name}]"))
        else:
            yield name, content


def read_values(
    section: str,
    content: dict[str, Any],
    keys: Mapping[str, Reader],
    problems: list[Problem],
    problem: Callable[..., Problem],
) -> dict[str, Any]:
    """The values of a section that are right; what is wrong with the others is added to the problems."""
    values = {}
    for key, value in content.items():
        if key in _LATER.get(section, ()):
            problems.append(problem(f"sets {section}.{key}, which this version does not carry out yet"))
        elif key not in keys:
            problems.append(problem(f"has an unknown key {section}.{key}", *closest(key, keys)))
        else:
            try:
                values[key] = keys[key](value)
            except Wrong as wrong:
                problems.append(problem(f"{section}.{key} {wrong.args[0]}", *wrong.args[1:]))
    return values


_NAMED: dict[str, tuple[str, Callable[[dict[str, Any], list[Problem]], dict[str, Any]]]] = {
    "agents": ("agents", _agents),
    "tools": ("sources", _sources),
    "actions": ("actions", _actions),
    "rules": ("rules", _rules),
    "commands": ("commands", _commands),
}
"""Sections that hold a section for each name → the setting they make and how they are read."""


def toml_tree(data: bytes) -> dict[str, Any] | str:
    """The tree of a text, or in words why there is none."""
    import tomllib  # most workspaces have no configuration

    try:
        return tomllib.loads(data.decode())
    except UnicodeDecodeError:
        return "is not UTF-8 text"
    except tomllib.TOMLDecodeError as error:
        return f"cannot be read: {error}"
    except RecursionError:
        return "is nested too deep"


def read_settings(data: bytes) -> tuple[Settings, tuple[Problem, ...]]:
    """The settings a configuration asks for, and everything wrong with it."""
    tree = toml_tree(data)
    return (Settings(), (_problem(tree),)) if isinstance(tree, str) else settings_of(tree)


def settings_of(tree: Mapping[str, Any]) -> tuple[Settings, tuple[Problem, ...]]:
    """The same from its tree."""
    values: dict[str, Any] = {}
    problems: list[Problem] = []
    for section, content in tree.items():
        if section in USER_SECTIONS:
            hint = "Write it into config.toml in ~/.config/ordain, or in $XDG_CONFIG_HOME/ordain (docs/config.md)."
            problems.append(_problem(f"has `{section}`, which counts from your own configuration only", hint))
        elif section not in SECTION_KEYS and section not in _NAMED:
            problems.append(_problem(f"has an unknown section or key `{section}`", *closest(section, section_names())))
        elif not isinstance(content, dict):
            problems.append(_problem(f"gives `{section}` a value; it is a section, written [{section}]"))
        elif section in _NAMED:
            setting, read_named = _NAMED[section]
            values[setting] = read_named(content, problems)
        else:
            keys = {key: reader for key, (_, reader) in SECTION_KEYS[section].items()}
            read = read_values(section, content, keys, problems, _problem)
            values |= {SECTION_KEYS[section][key][0]: value for key, value in read.items()}
    settings = Settings(**values)
    # As written, so that one that is wrong does not hide the others.
    by_kind = tree["run"].get("agent_for") if isinstance(tree.get("run"), dict) else None
    given = by_kind.items() if isinstance(by_kind, dict) else ()
    named = {"run.agent": settings.agent, **{f"run.agent_for.{kind}": one for kind, one in given}}
    named["planner.agent"] = settings.planner_agent
    named["run.arbiter"] = settings.arbiter
    for key, name in named.items():
        if isinstance(name, str) and NAME.fullmatch(name) and name not in settings.agents:
            hints = closest(name, settings.agents)
            problems.append(_problem(f"{key} names `{name}`, and there is no such agent", *hints))
    problems += map(_problem, (*_planner_faults(settings), *_arbiter_faults(settings)))
    return settings, tuple(problems)


def _arbiter_faults(settings: Settings) -> Iterator[str]:
    if not settings.arbiter:
        return
    default, judge = settings.agents.get(settings.agent), settings.agents.get(settings.arbiter)
    if not settings.agent:
        yield "run.arbiter needs a `run.agent`, who performs a task where it gives no answer"
    elif default is not None and default.human:
        yield f"run.arbiter needs a `run.agent` that is no person, and `{settings.agent}` is one"
    if judge is not None and judge.human:
        yield f"run.arbiter names `{settings.arbiter}`, who is a person; a person names an agent in the plan"


def _planner_faults(settings: Settings) -> Iterator[str]:
    if settings.planner_agent and settings.planner_model:
        yield "planner has both `agent` and `model`; one of them plans"
    for key in ("base_url", "key_env", "key_header"):
        if getattr(settings, f"planner_{key}") and not settings.planner_model:
            yield f"planner.{key} says something about a model, and planner.model names none"


def keys_set(data: bytes) -> frozenset[str]:
    """The keys that a configuration sets, as `section.key`; only for one that can be read."""
    import tomllib

    tree = tomllib.loads(data.decode())
    return frozenset(f"{section}.{key}" for section, content in tree.items() for key in content)


def section_names() -> tuple[str, ...]:
    """Every section that a workspace's configuration can have."""
    return (*SECTION_KEYS, *_NAMED, *_LATER)


def key_names() -> Mapping[str, str]:
    """Every key that is one value, as `section.key`, and the setting it sets."""
    return {f"{section}.{key}": setting for section, keys in SECTION_KEYS.items() for key, (setting, _) in keys.items()}


def _problem(what: str, *hints: str) -> Problem:
    detail = f"{CONFIGURATION_FILE}: {what}." if "." in what.split()[0] else f"{CONFIGURATION_FILE} {what}."
    return Problem(code="E_CONFIG", detail=detail, hints=hints, where=Place(file=CONFIGURATION_FILE))
