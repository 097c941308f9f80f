"""From the text of `ordain.toml` to settings: strict, with every problem at once.

Whether the file counts at all (a person must have trusted it) is decided elsewhere. Every call of an agent that a hook
asks about reads it, so what only some configurations need is imported where it is needed.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import Any

from ordain.core.guard.call import EVERYTHING, Mode
from ordain.core.plan.command import variable_fault
from ordain.core.plan.failure import Abort, Continue, Escalate, Retry, Skip
from ordain.core.plan.role import EffectClass
from ordain.core.plan.tool import RESERVED, ToolDefinition, ToolSource, handler_name
from ordain.core.plan.words import read_duration, read_failure
from ordain.core.policy.agent import AGENT_PRESETS, KINDS, MODEL_WORD, PROMPT_WORD, Agent
from ordain.core.policy.fact import ALARMS, CommandFact
from ordain.core.policy.rule import CallRule
from ordain.core.policy.settings import USER_SECTIONS, Settings
from ordain.core.policy.tier import header_fault, read_address
from ordain.core.text.control import CONFIGURATION_FILE
from ordain.core.text.limit import CONCURRENCY_MAX
from ordain.core.text.path import OFF_LIMITS, path_fault, pattern_fault
from ordain.core.text.problem import Place, Problem, closest
from ordain.documents.rules import read_rule

COUNT_MAX = 10_000
MEBIBYTES_MAX = 1 << 20
PROCESSES_MIN = 16
RULES_MAX = 100
DURATION_MAX_MS = 3_653 * 86_400_000

_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,63}")
_NAMES_ARE = "Names are ASCII letters, digits, `_`, `-` and `.`, at most 64, and begin with none of the last two."

_LATER = {
    "plans": {"max_replans", "marks"},
}
"""Parts of the design that this version does not carry out; refused, so that nobody relies on them."""


class Wrong(Exception):
    """A value that does not fit, in words; then hints, if any."""


Reader = Callable[[Any], Any]
"""Gives what a value means, or raises Wrong."""

# --- Kinds of readers ------------------------------------------------------------------------------------------------


def reads(fits: Callable[[Any], object], words: str) -> Reader:
    """A reader of values that fit as they are."""

    def read(value: Any) -> Any:
        if not fits(value):
            raise Wrong(words)
        return value

    return read


def _number(low: int, high: int, words: str = "") -> Reader:
    def fits(value: Any) -> bool:
        return isinstance(value, int) and not isinstance(value, bool) and low <= value <= high

    return reads(fits, words or f"must be a whole number from {low} to {high}")


def _at_least(low: int, number: Reader, words: str) -> Reader:
    fits = reads(lambda value: value >= low, words)
    return lambda value: fits(number(value))


def _one_of(known: Collection[str], *, near: bool = True) -> Reader:
    def read(value: Any) -> str:
        if value not in known:
            raise Wrong(f"must be one of {', '.join(known)}", *(closest(str(value)[:64], known) if near else ()))
        return str(value)

    return read


def _texts(fits: Callable[[str], object], words: str, fault: Callable[[str], str | None] = lambda _: None) -> Reader:
    """A reader of lists of texts; `fault` says in words what is wrong with one of them."""

    def read(value: Any) -> tuple[str, ...]:
        if not isinstance(value, list) or not all(isinstance(one, str) and fits(one) for one in value):
            raise Wrong(words)
        for one in value:
            if wrong := fault(one):
                raise Wrong(f"names {wrong}")
        return tuple(value)

    return read


# --- Readers ---------------------------------------------------------------------------------------------------------

_text = reads(lambda value: isinstance(value, str) and value, "must be a text")
read_flag = reads(lambda value: isinstance(value, bool), "must be true or false")
_concurrency, _count = _number(1, CONCURRENCY_MAX), _number(1, COUNT_MAX)
_mebibytes = _number(0, MEBIBYTES_MAX, f"must be a whole number of MiB, at most {MEBIBYTES_MAX:,}")
_some_mebibytes = _at_least(1, _mebibytes, "must be at least 1")
_processes = _at_least(PROCESSES_MIN, _count, f"must be at least {PROCESSES_MIN}, or no command could be started")
_callable = reads(
    lambda value: isinstance(value, str) and re.fullmatch(r"[A-Za-z_][\w.]*:[A-Za-z_][\w.]*", value, re.ASCII),
    'must be a module and a name in it, such as "package.module:function"',
)
_address = reads(
    lambda value: isinstance(value, str) and read_address(value) is not None,
    'must be an address such as "https://tools.example/mcp", with no password and no `#`',
)
_folder = reads(
    # `.ordain` is off limits to plans; these copies are ours.
    lambda value: isinstance(value, str) and value and not path_fault(value.removeprefix(".ordain/"), writes=True),
    "must be a directory beneath the workspace",
)
_name_or_nothing = reads(
    lambda value: value == "" or (isinstance(value, str) and _NAME.fullmatch(value)), "must be a name"
)
_some_words = _texts(bool, 'must be a list of words, such as ["my-agent", "--stdin"]')
_EFFECTS = [effect.value for effect in EffectClass]


def _names(fault: Callable[[str], str | None] = lambda _: None) -> Reader:
    return _texts(lambda name: name.isascii() and name, "must be a list of names", fault)


def _glob_fault(name: str) -> str | None:
    fits = re.fullmatch(r"[A-Za-z0-9_*?]+", name) and name.strip("*?")
    return None if fits else f'`{name}`, which is no pattern for names of variables, such as "*_TOKEN"'


def _variable_fault(name: str) -> str | None:
    fault = variable_fault(name)
    return f"`{name}`, which {fault}" if fault else None


def _control_fault(path: str) -> str | None:
    fault = pattern_fault(path)
    if fault in (None, OFF_LIMITS) and path.strip("*?/."):
        return None
    return f"`{path[:200]}`, which {fault or 'is everything, and nothing could be written'}"


def _home_fault(file: str) -> str | None:
    if not file.startswith("~/"):
        return f"`{file}`, which is not written from ~/"
    return f"`{file}`, which leads out of where it begins with `..`" if ".." in file.split("/") else None


def _files(fault: Callable[[str], str | None] = lambda _: None) -> Reader:
    words = 'must be a list of files, each written from / or ~/, such as ["~/.netrc"]'
    return _texts(lambda path: path[:1] in ("/", "~"), words, fault)


_variables = _names(_variable_fault)
_patterns = _texts(lambda _: True, 'must be a list of patterns of paths, such as [".github/**"]', _control_fault)


def _duration(value: Any) -> int:
    milliseconds = read_duration(value) if isinstance(value, str) else None
    if not milliseconds or milliseconds > DURATION_MAX_MS:
        raise Wrong('must be a duration such as "30s", "10m" or "4h", and at most ten years')
    return milliseconds


def _tier(value: Any) -> int:
    if value not in (0, 1) or isinstance(value, bool):
        raise Wrong("must be 0 or 1")
    return int(value)


def _digests(value: Any) -> dict[str, str]:
    if not isinstance(value, dict) or not value or any(path_fault(path) is not None for path in value):
        raise Wrong('must give files of the workspace their digests, such as { "tools/mine.py" = "sha256:…" }')
    if not all(isinstance(one, str) and re.fullmatch(r"sha256:[0-9a-f]{64}", one) for one in value.values()):
        raise Wrong("has what is no digest; `ordain trust` says which it would be")
    return dict(value)


def _policy(value: Any) -> Any:
    policy = read_failure(value) if isinstance(value, str) else None
    if policy is None:
        raise Wrong('must be a text such as "abort" or "retry(2), then escalate"')
    if isinstance(policy, Problem):
        raise Wrong(f"cannot be read: {policy.detail}")
    last = policy.then if isinstance(policy, Retry) else policy
    if last is not None and not isinstance(last, Abort | Skip | Continue | Escalate):
        raise Wrong(f"is `{last.__struct_config__.tag}`, which this version does not carry out")
    return policy


def _check(value: Any) -> str:
    if not isinstance(value, str) or not value.strip() or "\0" in value:
        raise Wrong("must be a command for bash that exits 0 (it happened), 1 (it did not) or otherwise (unknown)")
    return value


def _command(value: Any) -> tuple[str, ...]:
    words: tuple[str, ...] = _some_words(value or None)
    return words


def _headers(value: Any) -> dict[str, str]:
    if not isinstance(value, dict) or not all(isinstance(text, str) for text in value.values()):
        raise Wrong('must be a section of texts, such as { Authorization = "secret:TOOLS_TOKEN" }')
    fault = header_fault(value)
    if fault is not None:
        raise Wrong(f"has the header {fault}")
    return dict(value)


def _effects(value: Any) -> dict[str, EffectClass]:
    if not isinstance(value, dict) or not all(effect in _EFFECTS for effect in value.values()):
        raise Wrong(f"must give each tool one of {', '.join(_EFFECTS)}")
    return {_name_or_nothing(tool): EffectClass(effect) for tool, effect in value.items()}


def _template(value: Any) -> str:
    from ordain.core.run.prompt import template_fault

    fault = template_fault(_text(value))
    if fault is not None:
        raise Wrong(fault)
    return str(value)


def _by_kind(value: Any) -> dict[str, str]:
    kinds = ", ".join(KINDS)
    if not isinstance(value, dict):
        raise Wrong(f"must be a section that gives an agent to each of some of {kinds}")
    unknown = [kind for kind in value if kind not in KINDS]
    if unknown:
        named = ", ".join(f"`{kind[:64]}`" for kind in unknown)
        hints = (hint for kind in unknown for hint in closest(kind[:64], KINDS))
        raise Wrong(f"has {named}, and there is no such kind of work; there are {kinds}", *hints)
    if not all(isinstance(name, str) and _NAME.fullmatch(name) for name in value.values()):
        raise Wrong("must give each kind the name of an agent")
    return dict(value)


def _opened(value: Any) -> tuple[str, ...]:
    names: tuple[str, ...] = _names()(value)
    if EVERYTHING in names:
        raise Wrong(
            f"names `{EVERYTHING}`, which would open what nobody knows",
            "Name what is guarded in `guarded`, without `*`; everything else that is known is open then.",
        )
    return names


# --- Sections --------------------------------------------------------------------------------------------------------

_AGENT_KEYS: dict[str, Reader] = {
    "preset": _one_of(AGENT_PRESETS),
    "command": _command,
    "python": _callable,
    "human": reads(lambda value: value is True, "must be true, or left out"),
    "description": _text,
    "model": _text,
    "env": _variables,
    "files": _files(_home_fault),
    "network": read_flag,
    "own_tools": read_flag,
    "output": reads(lambda value: value in ("text", "json"), 'must be "text" or "json"'),
    "prompt": _template,
}
_AGENT_KINDS: dict[str, tuple[str, ...]] = {
    "preset": ("command", "description", "model", "env", "files", "network", "own_tools", "prompt"),
    "command": ("description", "model", "env", "files", "network", "output", "prompt"),
    "python": ("description", "model", "env", "files", "network", "prompt"),
    "human": ("description",),
}
"""What an agent can be, and the keys that say more about it."""
_ACTION_KEYS: dict[str, Reader] = {
    "command": _command,
    "python": _callable,
    "files": _digests,
    "effect": lambda value: EffectClass(_one_of(_EFFECTS, near=False)(value)),
    "destructive": read_flag,
    "description": _text,
    "happened": _check,
    "happened_final": read_flag,
}
_SOURCE_KEYS: dict[str, Reader] = {
    "python": _callable,
    "files": _digests,
    "plugin": _text,
    "mcp": _command,
    "url": _address,
    "headers": _headers,
    "env": _variables,
    "trust_annotations": read_flag,
    "effects": _effects,
    "happened": _check,
    "happened_final": read_flag,
}
_HAPPENED = ("happened", "happened_final")
_SOURCE_KINDS: dict[str, tuple[str, ...]] = {
    "python": ("files", *_HAPPENED),
    "plugin": _HAPPENED,
    "mcp": ("files", "env", "trust_annotations", "effects", *_HAPPENED),
    "url": ("headers", "trust_annotations", "effects", *_HAPPENED),
}
"""What a tool can come from, and the keys that say more about it."""


def _agents(tree: dict[str, Any], problems: list[Problem]) -> dict[str, Agent]:
    found = {}
    for name, values in _named_sections("agents", tree, _AGENT_KEYS, problems):
        given = [kind for kind in _AGENT_KINDS if kind in tree[name]]
        if given == ["preset", "command"]:  # where its program is
            given = ["preset"]
        more = "; only `command` may stand beside `preset`"
        faults = [*_kind_faults(given, values, _AGENT_KINDS, more), *_word_faults(values)]
        problems += [_problem(f"agents.{name}{fault}") for fault in faults]
        hint = "Name the variable that holds it in `env`; its value stands nowhere."
        problems += [_problem(f"agents.{name} holds {what}", hint) for what in _secrets_in(tree[name])]
        found[name] = Agent(**values)
    return found


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
    """What looks like a secret in a section."""
    from ordain.core.lint.content import secrets_of  # heavy, and many configurations have no such section

    return secrets_of(section)


def _sources(tree: dict[str, Any], problems: list[Problem]) -> dict[str, ToolSource]:
    found = {}
    for name, values in _named_sections("tools", tree, _SOURCE_KEYS, problems):
        given = [kind for kind in _SOURCE_KINDS if kind in tree[name]]
        if len(given) == 1 and name in RESERVED:
            problems.append(_problem(f"has a section [tools.{name}], and `{name}` means something else to policies"))
            continue
        faults = (*_kind_faults(given, values, _SOURCE_KINDS), *_final_faults(values))
        problems += [_problem(f"tools.{name}{fault}") for fault in faults]
        if len(given) == 1:
            found[name] = ToolSource(**values)
    return found


def _final_faults(values: Mapping[str, Any]) -> Iterator[str]:
    if values.get("happened_final") and "happened" not in values:
        yield ".happened_final says that an answer is final, and no `happened` says who answers"


def _actions(tree: dict[str, Any], problems: list[Problem]) -> dict[str, ToolDefinition]:
    found = {}
    for name, values in _named_sections("actions", tree, _ACTION_KEYS, problems):
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
    """The name and the values of every [section.NAME] that is one."""
    for name, content in _sections(section, tree, problems):
        yield name, read_values(f"{section}.{name}", content, keys, problems, _problem)


def _sections(section: str, tree: dict[str, Any], problems: list[Problem]) -> Iterator[tuple[str, dict[str, Any]]]:
    """The name of every [section.NAME] that is one, and what stands in it."""
    for name, content in tree.items():
        if not _NAME.fullmatch(name):
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


_KEYS: dict[str, dict[str, tuple[str, Callable[[Any], Any]]]] = {
    "plans": {
        "propose_ttl": ("propose_ttl_ms", _duration),
        "max_rejections": ("max_rejections", _count),
        "max_pending": ("max_pending", _count),
        "documents": ("documents", _folder),
    },
    "approval": {
        "ttl": ("approval_ttl_ms", _duration),
        "separate": ("separate", read_flag),
        "require_signature": ("require_signature", read_flag),
        "approvers": ("approvers", _names()),
        "bind_git_head": ("bind_git_head", read_flag),
    },
    "run": {
        "concurrency": ("concurrency", _concurrency),
        "writers": ("writers", _concurrency),
        "stalled_after": ("stalled_after_ms", _duration),
        "step_timeout": ("step_timeout_ms", _duration),
        "contract_timeout": ("contract_timeout_ms", _duration),
        "on_failure": ("on_failure", _policy),
        "agent": ("agent", _name_or_nothing),
        "agent_for": ("agent_for", _by_kind),
        "prompt": ("prompt", lambda value: _template(value) if value != "" else ""),
        "tier": ("tier", _tier),
    },
    "policy": {"allow": ("allow", _names()), "ask": ("ask", _names()), "deny": ("deny", _names())},
    "guard": {
        "mode": ("guard_mode", _one_of([mode.value for mode in Mode])),
        "guarded": ("guarded", _names()),
        "open": ("open_calls", _opened),
    },
    "contracts": {"env": ("env", _variables)},
    "sandbox": {
        "read": ("sandbox_read", _files()),
        "processes": ("sandbox_processes", _processes),
        "open_files": ("sandbox_open_files", _processes),
        "file_mib": ("sandbox_file_mib", _some_mebibytes),
        "memory_mib": ("sandbox_memory_mib", _mebibytes),
        "tmp_mib": ("sandbox_tmp_mib", _some_mebibytes),
    },
    "control": {"files": ("control", _patterns)},
    "notify": {"command": ("notify", lambda value: _command(value) if value != [] else ())},
    "secrets": {"env": ("secret_env", _names(_glob_fault)), "files": ("secret_files", _files())},
}
"""Section → key → the setting it sets and how its value is read."""


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
        elif section not in _KEYS and section not in _NAMED:
            problems.append(_problem(f"has an unknown section or key `{section}`", *closest(section, section_names())))
        elif not isinstance(content, dict):
            problems.append(_problem(f"gives `{section}` a value; it is a section, written [{section}]"))
        elif section in _NAMED:
            setting, read_named = _NAMED[section]
            values[setting] = read_named(content, problems)
        else:
            keys = {key: reader for key, (_, reader) in _KEYS[section].items()}
            read = read_values(section, content, keys, problems, _problem)
            values |= {_KEYS[section][key][0]: value for key, value in read.items()}
    settings = Settings(**values)
    # As written, so that one that is wrong does not hide the others.
    by_kind = tree["run"].get("agent_for") if isinstance(tree.get("run"), dict) else None
    given = by_kind.items() if isinstance(by_kind, dict) else ()
    named = {"run.agent": settings.agent, **{f"run.agent_for.{kind}": one for kind, one in given}}
    for key, name in named.items():
        if isinstance(name, str) and _NAME.fullmatch(name) and name not in settings.agents:
            hints = closest(name, settings.agents)
            problems.append(_problem(f"{key} names `{name}`, and there is no such agent", *hints))
    return settings, tuple(problems)


def keys_set(data: bytes) -> frozenset[str]:
    """The keys that a configuration sets, as `section.key`; only for one that can be read."""
    import tomllib

    tree = tomllib.loads(data.decode())
    return frozenset(f"{section}.{key}" for section, content in tree.items() for key in content)


def section_names() -> tuple[str, ...]:
    """Every section that a workspace's configuration can have."""
    return (*_KEYS, *_NAMED, *_LATER)


def key_names() -> Mapping[str, str]:
    """Every key that is one value, as `section.key`, and the setting it sets."""
    return {f"{section}.{key}": setting for section, keys in _KEYS.items() for key, (setting, _) in keys.items()}


def _problem(what: str, *hints: str) -> Problem:
    return Problem(
        code="E_CONFIG",
        detail=f"{CONFIGURATION_FILE}: {what}." if "." in what.split()[0] else f"{CONFIGURATION_FILE} {what}.",
        where=Place(file=CONFIGURATION_FILE),
        hints=hints,
    )
