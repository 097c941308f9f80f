"""From the text of `ordain.toml` to settings: strict, with every problem at once.

Whether the file counts at all (a person must have trusted it) is decided elsewhere. Every call of an agent that a hook
asks about reads it, so what only some configurations need is imported where it is needed.
"""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from ordain.core.guard.call import EVERYTHING, Mode
from ordain.core.plan.command import variable_fault
from ordain.core.plan.failure import Abort, Continue, Escalate, Retry, Skip
from ordain.core.plan.role import EffectClass
from ordain.core.plan.tool import RESERVED, ToolDefinition, ToolSource, handler_name
from ordain.core.plan.words import read_duration
from ordain.core.policy.agent import AGENT_PRESETS, KINDS, MODEL_WORD, PROMPT_WORD, Agent
from ordain.core.policy.rule import CallRule
from ordain.core.policy.settings import SECRET_NAMES, USER_SECTIONS, Settings
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


def _duration(value: Any) -> int:
    milliseconds = read_duration(value) if isinstance(value, str) else None
    if not milliseconds or milliseconds > DURATION_MAX_MS:
        raise Wrong('must be a duration such as "30s", "10m" or "4h", and at most ten years')
    return milliseconds


def _concurrency(value: Any) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not 1 <= value <= CONCURRENCY_MAX:
        raise Wrong(f"must be a whole number from 1 to {CONCURRENCY_MAX}")
    return value


def _count(value: Any) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not 1 <= value <= COUNT_MAX:
        raise Wrong(f"must be a whole number from 1 to {COUNT_MAX}")
    return value


def _mebibytes(value: Any) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= MEBIBYTES_MAX:
        raise Wrong(f"must be a whole number of MiB, at most {MEBIBYTES_MAX:,}")
    return value


def _some_mebibytes(value: Any) -> int:
    if _mebibytes(value) == 0:
        raise Wrong("must be at least 1")
    return int(value)


def _processes(value: Any) -> int:
    if _count(value) < PROCESSES_MIN:
        raise Wrong(f"must be at least {PROCESSES_MIN}, or no command could be started")
    return int(value)


def _tier(value: Any) -> int:
    if value not in (0, 1) or isinstance(value, bool):
        raise Wrong("must be 0 or 1")
    return int(value)


def _folder(value: Any) -> str:
    # `.ordain` is off limits to plans; these copies are ours.
    if not isinstance(value, str) or not value or path_fault(value.removeprefix(".ordain/"), writes=True) is not None:
        raise Wrong("must be a directory beneath the workspace")
    return value


def _globs(value: Any) -> tuple[str, ...]:
    names = _names(value)
    for name in names:
        if not re.fullmatch(r"[A-Za-z0-9_*?]+", name) or not name.strip("*?"):
            raise Wrong(f'names `{name}`, which is no pattern for names of variables, such as "*_TOKEN"')
    return names


def _files(value: Any) -> tuple[str, ...]:
    if not isinstance(value, list) or not all(isinstance(path, str) and path[:1] in ("/", "~") for path in value):
        raise Wrong('must be a list of files, each written from / or ~/, such as ["~/.netrc"]')
    return tuple(value)


def _control(value: Any) -> tuple[str, ...]:
    if not isinstance(value, list) or not all(isinstance(path, str) for path in value):
        raise Wrong('must be a list of patterns of paths, such as [".github/**"]')
    for path in value:
        fault = pattern_fault(path)
        if fault not in (None, OFF_LIMITS) or not path.strip("*?/."):
            raise Wrong(f"names `{path[:200]}`, which {fault or 'is everything, and nothing could be written'}")
    return tuple(value)


def _digests(value: Any) -> dict[str, str]:
    from ordain.core.text.path import path_fault

    if not isinstance(value, dict) or not value or any(path_fault(path) is not None for path in value):
        raise Wrong('must give files of the workspace their digests, such as { "tools/mine.py" = "sha256:…" }')
    if not all(isinstance(one, str) and re.fullmatch(r"sha256:[0-9a-f]{64}", one) for one in value.values()):
        raise Wrong("has what is no digest; `ordain trust` says which it would be")
    return dict(value)


def _policy(value: Any) -> Any:
    from ordain.core.plan.words import read_failure

    policy = read_failure(value) if isinstance(value, str) else None
    if policy is None:
        raise Wrong('must be a text such as "abort" or "retry(2), then escalate"')
    if isinstance(policy, Problem):
        raise Wrong(f"cannot be read: {policy.detail}")
    last = policy.then if isinstance(policy, Retry) else policy
    if last is not None and not isinstance(last, Abort | Skip | Continue | Escalate):
        raise Wrong(f"is `{last.__struct_config__.tag}`, which this version does not carry out")
    return policy


def _names(value: Any) -> tuple[str, ...]:
    if not isinstance(value, list) or not all(isinstance(name, str) and name.isascii() and name for name in value):
        raise Wrong("must be a list of names")
    return tuple(value)


def _variables(value: Any) -> tuple[str, ...]:
    names = _names(value)
    for name in names:
        if fault := variable_fault(name):
            raise Wrong(f"names `{name}`, which {fault}")
    return names


def _text(value: Any) -> str:
    if not isinstance(value, str) or not value:
        raise Wrong("must be a text")
    return value


def read_flag(value: Any) -> bool:
    if not isinstance(value, bool):
        raise Wrong("must be true or false")
    return value


def _command(value: Any) -> tuple[str, ...]:
    if not isinstance(value, list) or not value or not all(isinstance(word, str) and word for word in value):
        raise Wrong('must be a list of words, such as ["my-agent", "--stdin"]')
    return tuple(value)


def _name_or_nothing(value: Any) -> str:
    if value != "" and not (isinstance(value, str) and _NAME.fullmatch(value)):
        raise Wrong("must be a name")
    return str(value)


# --- Agents and tool sources -------------------------------------------------------------------------------------


def _preset(value: Any) -> str:
    if value not in AGENT_PRESETS:
        raise Wrong(f"must be one of {', '.join(AGENT_PRESETS)}", *closest(str(value)[:64], AGENT_PRESETS))
    return str(value)


def _callable(value: Any) -> str:
    if not isinstance(value, str) or not re.fullmatch(r"[A-Za-z_][\w.]*:[A-Za-z_][\w.]*", value, re.ASCII):
        raise Wrong('must be a module and a name in it, such as "package.module:function"')
    return value


def _human(value: Any) -> bool:
    if value is not True:
        raise Wrong("must be true, or left out")
    return True


def _address(value: Any) -> str:
    from ordain.core.policy.tier import read_address

    if not isinstance(value, str) or read_address(value) is None:
        raise Wrong('must be an address such as "https://tools.example/mcp", with no password and no `#`')
    return value


def _headers(value: Any) -> dict[str, str]:
    from ordain.core.policy.tier import header_fault

    if not isinstance(value, dict) or not all(isinstance(text, str) for text in value.values()):
        raise Wrong('must be a section of texts, such as { Authorization = "secret:TOOLS_TOKEN" }')
    fault = header_fault(value)
    if fault is not None:
        raise Wrong(f"has the header {fault}")
    return dict(value)


def _effects(value: Any) -> dict[str, EffectClass]:
    known = [effect.value for effect in EffectClass]
    if not isinstance(value, dict) or not all(effect in known for effect in value.values()):
        raise Wrong(f"must give each tool one of {', '.join(known)}")
    return {_name_or_nothing(tool): EffectClass(effect) for tool, effect in value.items()}


def _effect(value: Any) -> EffectClass:
    known = [effect.value for effect in EffectClass]
    if value not in known:
        raise Wrong(f"must be one of {', '.join(known)}")
    return EffectClass(value)


def _template(value: Any) -> str:
    from ordain.core.run.prompt import template_fault

    fault = template_fault(_text(value))
    if fault is not None:
        raise Wrong(fault)
    return str(value)


def _output(value: Any) -> str:
    if value not in ("text", "json"):
        raise Wrong('must be "text" or "json"')
    return str(value)


def _home_files(value: Any) -> tuple[str, ...]:
    files = _files(value)
    for file in files:
        if not file.startswith("~/"):
            raise Wrong(f"names `{file}`, which is not written from ~/")
        if ".." in file.split("/"):
            raise Wrong(f"names `{file}`, which leads out of where it begins with `..`")
    return files


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


def _mode(value: Any) -> str:
    known = [mode.value for mode in Mode]
    if value not in known:
        raise Wrong(f"must be one of {', '.join(known)}", *closest(str(value)[:64], known))
    return str(value)


def _opened(value: Any) -> tuple[str, ...]:
    names = _names(value)
    if EVERYTHING in names:
        raise Wrong(
            f"names `{EVERYTHING}`, which would open what nobody knows",
            "Name what is guarded in `guarded`, without `*`; everything else that is known is open then.",
        )
    return names


_Reader = Callable[[Any], Any]

_AGENT_KEYS: dict[str, _Reader] = {
    "preset": _preset,
    "command": _command,
    "python": _callable,
    "human": _human,
    "description": _text,
    "model": _text,
    "env": _variables,
    "files": _home_files,
    "network": read_flag,
    "own_tools": read_flag,
    "output": _output,
    "prompt": _template,
}
_AGENT_KINDS: dict[str, tuple[str, ...]] = {
    "preset": ("command", "description", "model", "env", "files", "network", "own_tools", "prompt"),
    "command": ("description", "model", "env", "files", "network", "output", "prompt"),
    "python": ("description", "model", "env", "files", "network", "prompt"),
    "human": ("description",),
}
"""What an agent can be, and the keys that say more about it."""
_ACTION_KEYS: dict[str, _Reader] = {
    "command": _command,
    "python": _callable,
    "files": _digests,
    "effect": _effect,
    "destructive": read_flag,
    "description": _text,
}
_SOURCE_KEYS: dict[str, _Reader] = {
    "python": _callable,
    "files": _digests,
    "plugin": _text,
    "mcp": _command,
    "url": _address,
    "headers": _headers,
    "env": _variables,
    "trust_annotations": read_flag,
    "effects": _effects,
}
_SOURCE_KINDS: dict[str, tuple[str, ...]] = {
    "python": ("files",),
    "plugin": (),
    "mcp": ("files", "env", "trust_annotations", "effects"),
    "url": ("headers", "trust_annotations", "effects"),
}
"""What a tool can come from, and the keys that say more about it."""


def _agents(tree: dict[str, Any], problems: list[Problem]) -> dict[str, Agent]:
    found = {}
    for name, values in _named_sections("agents", tree, _AGENT_KEYS, problems):
        given = [kind for kind in _AGENT_KINDS if kind in tree[name]]
        if given == ["preset", "command"]:  # where its program is
            given = ["preset"]
        if len(given) != 1:
            needs = f"needs exactly one of {', '.join(_AGENT_KINDS)}; only `command` may stand beside `preset`"
            problems.append(_problem(f"agents.{name} {needs}"))
        else:
            more = [key for key in values if key not in (*given, *_AGENT_KINDS[given[0]])]
            problems += [_problem(f"agents.{name}.{key} says nothing about `{given[0]}`") for key in more]
        problems += [_problem(f"agents.{name}.command {fault}") for fault in _word_faults(values)]
        problems += [
            _problem(
                f"agents.{name} holds {what}", "Name the variable that holds it in `env`; its value stands nowhere."
            )
            for what in _secrets_in(tree[name])
        ]
        found[name] = Agent(**values)
    return found


def _secrets_in(section: Any) -> Iterable[str]:
    """What looks like a secret in a section."""
    from ordain.core.lint.content import secrets_in  # heavy, and many configurations have no such section
    from ordain.core.lint.survey import written

    return secrets_in(written(section) or b"", {})


def _word_faults(values: dict[str, Any]) -> Iterator[str]:
    """What is wrong with the words of an agent's command that stand for something else."""
    words = values.get("command", ())
    if any(PROMPT_WORD in word and word != PROMPT_WORD for word in words):
        yield f"has {PROMPT_WORD} as part of a word; the prompt is a word of its own"
    if any(MODEL_WORD in word for word in words) and "model" not in values:
        yield f"has {MODEL_WORD}, and no `model` says which that is where a plan names none"


def _sources(tree: dict[str, Any], problems: list[Problem]) -> dict[str, ToolSource]:
    found = {}
    for name, values in _named_sections("tools", tree, _SOURCE_KEYS, problems):
        given = [kind for kind in _SOURCE_KINDS if kind in tree[name]]
        if len(given) != 1:
            problems.append(_problem(f"tools.{name} needs exactly one of {', '.join(_SOURCE_KINDS)}"))
        elif name in RESERVED:
            problems.append(_problem(f"has a section [tools.{name}], and `{name}` means something else to policies"))
        else:
            more = [key for key in values if key not in (*given, *_SOURCE_KINDS[given[0]])]
            problems += [_problem(f"tools.{name}.{key} says nothing about `{given[0]}`") for key in more]
            found[name] = ToolSource(**values)
    return found


def _actions(tree: dict[str, Any], problems: list[Problem]) -> dict[str, ToolDefinition]:
    found = {}
    for name, values in _named_sections("actions", tree, _ACTION_KEYS, problems):
        if ("command" in tree[name]) == ("python" in tree[name]):
            problems.append(_problem(f"actions.{name} needs exactly one of command, python"))
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
        problems += [
            _problem(f"rules.{name} holds {what}", "It would be stored and shown; make up another value.")
            for what in _secrets_in(content)
        ]
    return found


def _named_sections(
    section: str, tree: dict[str, Any], keys: dict[str, _Reader], problems: list[Problem]
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
    keys: Mapping[str, _Reader],
    problems: list[Problem],
    problem: Callable[..., Problem],
) -> dict[str, Any]:
    """The values of a section that are right; what is wrong with the others is added to the problems."""
    values = {}
    for key, value in content.items():
        if key not in keys:
            problems.append(problem(f"has an unknown key {section}.{key}", *closest(key, keys)))
            continue
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
        "approvers": ("approvers", _names),
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
    "policy": {"allow": ("allow", _names), "ask": ("ask", _names), "deny": ("deny", _names)},
    "guard": {
        "mode": ("guard_mode", _mode),
        "guarded": ("guarded", _names),
        "open": ("open_calls", _opened),
    },
    "contracts": {"env": ("env", _variables)},
    "sandbox": {
        "read": ("sandbox_read", _files),
        "processes": ("sandbox_processes", _processes),
        "open_files": ("sandbox_open_files", _processes),
        "file_mib": ("sandbox_file_mib", _some_mebibytes),
        "memory_mib": ("sandbox_memory_mib", _mebibytes),
        "tmp_mib": ("sandbox_tmp_mib", _some_mebibytes),
    },
    "control": {"files": ("control", _control)},
    "notify": {"command": ("notify", lambda value: _command(value) if value != [] else ())},
    "secrets": {"env": ("secret_env", _globs), "files": ("secret_files", _files)},
}
"""Section → key → the setting it sets and how its value is read."""


def toml_tree(data: bytes) -> dict[str, Any] | str:
    """The tree of a text, or in words why there is none."""
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
    if isinstance(tree, str):
        return Settings(), (_problem(tree),)
    values: dict[str, Any] = {}
    problems: list[Problem] = []
    for section, content in tree.items():
        later = _LATER.get(section, set())
        if section in USER_SECTIONS:
            hint = "Write it into config.toml in ~/.config/ordain, or in $XDG_CONFIG_HOME/ordain (docs/config.md)."
            problems.append(_problem(f"has `{section}`, which counts from your own configuration only", hint))
        elif section not in _KEYS and section not in _NAMED:
            problems.append(
                _problem(f"has an unknown section or key `{section}`", *closest(section, [*_KEYS, *_NAMED, *_LATER]))
            )
        elif not isinstance(content, dict):
            problems.append(_problem(f"gives `{section}` a value; it is a section, written [{section}]"))
        elif section in _NAMED:
            setting, read_named = _NAMED[section]
            values[setting] = read_named(content, problems)
        else:
            for key, value in content.items():
                if key in later:
                    problems.append(_problem(f"sets {section}.{key}, which this version does not carry out yet"))
                elif key not in _KEYS[section]:
                    problems.append(_problem(f"has an unknown key {section}.{key}", *closest(key, _KEYS[section])))
                else:
                    setting, read = _KEYS[section][key]
                    try:
                        values[setting] = read(value)
                    except Wrong as wrong:
                        problems.append(_problem(f"{section}.{key} {wrong.args[0]}", *wrong.args[1:]))
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


TEMPLATE = """\
# Ordain's settings for this workspace. Everything below is the default; take the # away to change it.
# The file counts once a person has run `ordain trust`, and again after every change.

[plans]
# propose_ttl = "7d"           # a proposal nobody decided expires
# max_rejections = 3           # then the plan needs a person's own revision
# max_pending = 20             # open proposals of one agent
# documents = ".ordain/plans"  # where proposals without a file get one

[approval]
# ttl = "4h"                   # from approval to start; `approve --start` starts at once
# separate = false             # true: whoever prepared a plan may not approve it
# require_signature = false    # true: only an enrolled key can approve (ordain approver enroll)
# approvers = []               # who may approve and answer; empty: any person at a terminal
# bind_git_head = false        # true: an approval holds only for the commit that is checked out

[run]
# concurrency = 4              # steps at once
# writers = 1                  # runs at once in this workspace
# stalled_after = "30m"        # a run without a sign of life for so long is stalled
# step_timeout = "10m"
# contract_timeout = "60s"
# on_failure = "abort"         # or "retry(2), then escalate" …
# agent = ""                   # for tasks that name none
# agent_for = {}               # by kind of work, before that: { review = "critic", docs = "writer" }; docs/agents.md
# prompt = ""                  # what agents are told, in place of `ordain show --prompt`'s own template
# tier = 0                     # 1: commands and contracts of every plan run in a sandbox; needs bubblewrap

[sandbox]                      # what a command is held to at tier 1
# read = []                    # what it can read besides the workspace and the system, such as "~/.pyenv"
# processes = 1024             # at once; root is held to no number
# open_files = 4096
# file_mib = 4096              # how long one file may become
# memory_mib = 0               # address space of one process; 0: no limit
# tmp_mib = 1024               # what fits in its /tmp, which is memory

[policy]                       # deny wins, then ask, then allow; what no list names is asked
# allow = ["reads"]            # effect classes, tools, "tool:operation", "agent:coder", "path:docs/**", "rule:NAME"
# ask = []
# deny = []

[guard]                        # calls of agents outside of any run: ordain mcp --gateway, ordain guard (docs/guard.md)
# mode = "observe"             # notes what needs a plan and lets it through; "enforce" refuses it
# guarded = ["*"]              # what needs a plan: `*` is whatever `open` does not name, other entries win over it
# open = ["reads"]             # what needs none; entries as in [policy], and tools of hosts: "claude-code:WebFetch"

[control]                      # what no agent writes, by file tools, in a sandbox or through a hook (docs/guard.md)
# files = []                   # besides .git, .claude, ordain.toml and the like, such as [".github/**"]

[contracts]
# env = ["PATH", "HOME", "LANG", "TMPDIR", "VIRTUAL_ENV"]   # what commands and contracts may see

[notify]
# command = []                 # such as ["notify-send", "ordain"]; gets what waits or has ended as JSON on stdin

[secrets]
# Values of these variables are never written or shown.
# env = SECRET_NAMES
# files = []                               # nor what stands in these, such as "~/.netrc"

# Agents, who perform tasks, each in a section [agents.NAME] with one of
#   preset = "claude" (codex, gemini, opencode, pi) · command = ["my-agent", "--stdin"] · python = "module:function"
#   · human = true
# and, where it makes sense, description, model, env, files, network, own_tools, output, prompt (docs/agents.md)

# Tools of yours, each in a section [tools.NAME] with one of
#   python = "module:function" · plugin = "package" · mcp = ["server", "--stdio"] · url = "https://host/mcp"

# Rules: calls by what they are called with, for any list above as "rule:NAME", each in a section [rules.NAME] with
#   tools = ["mail:send"]                      what is called, in the words of the lists
#   where = { to = "*@example.com" }           what arguments must be like: a text with stars, a value, or a list
#   besides = ["subject", "body"]              what else may be given, where the rule lets a call through
#   matches = ['mail:send {"to": "kim@example.com"}']
#   matches_not = ['mail:send {"to": "kim@example.org"}']    tried before the file can be trusted (docs/guard.md)
""".replace("SECRET_NAMES", json.dumps(SECRET_NAMES))
