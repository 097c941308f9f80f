"""The keys of a configuration, and readers that give what their values mean or say what is wrong with them."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection
from typing import Any

from ordain.core.guard.call import EVERYTHING, Mode
from ordain.core.plan.command import variable_fault
from ordain.core.plan.failure import Abort, Continue, Escalate, Recover, Replan, Retry, Skip
from ordain.core.plan.role import EffectClass
from ordain.core.plan.words import read_duration, read_failure
from ordain.core.policy.agent import AGENT_PRESETS, KEY_HEADERS, KINDS, MODEL_WORDS, base_url_fault, model_fault
from ordain.core.policy.tier import header_fault, read_address
from ordain.core.text.limit import CONCURRENCY_MAX
from ordain.core.text.path import OFF_LIMITS, path_fault, pattern_fault
from ordain.core.text.problem import Problem, closest

COUNT_MAX = 10_000
MEBIBYTES_MAX = 1 << 20
PROCESSES_MIN = 16
DURATION_MAX_MS = 3_653 * 86_400_000

NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,63}")


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


def one_of(known: Collection[str], *, near: bool = True) -> Reader:
    def read(value: Any) -> str:
        if value not in known:
            raise Wrong(f"must be one of {', '.join(known)}", *(closest(str(value)[:64], known) if near else ()))
        return str(value)

    return read


def _texts(fits: Callable[[str], object], words: str, fault: Callable[[str], str | None] = lambda _: None) -> Reader:
    def read(value: Any) -> tuple[str, ...]:
        if not isinstance(value, list) or not all(isinstance(one, str) and fits(one) for one in value):
            raise Wrong(words)
        for one in value:
            if wrong := fault(one):
                raise Wrong(f"names {wrong}")
        return tuple(value)

    return read


def nothing_or(reader: Reader) -> Reader:
    """The same reader, but that an empty text stands for nothing."""
    return lambda value: "" if value == "" else reader(value)


# --- Readers ---------------------------------------------------------------------------------------------------------

read_tries = _number(0, COUNT_MAX)
read_text = reads(lambda value: isinstance(value, str) and value, "must be a text")
read_flag = reads(lambda value: isinstance(value, bool), "must be true or false")
read_concurrency, read_count = _number(1, CONCURRENCY_MAX), _number(1, COUNT_MAX)
read_mebibytes = _number(0, MEBIBYTES_MAX, f"must be a whole number of MiB, at most {MEBIBYTES_MAX:,}")
read_megabytes = _number(0, MEBIBYTES_MAX, f"must be a whole number of MB, at most {MEBIBYTES_MAX:,}")
read_some_mebibytes = _at_least(1, read_mebibytes, "must be at least 1")
read_processes = _at_least(
    PROCESSES_MIN, read_count, f"must be at least {PROCESSES_MIN}, or no command could be started"
)
read_callable = reads(
    lambda value: isinstance(value, str) and re.fullmatch(r"[A-Za-z_][\w.]*:[A-Za-z_][\w.]*", value, re.ASCII),
    'must be a module and a name in it, such as "package.module:function"',
)
read_server_address = reads(
    lambda value: isinstance(value, str) and read_address(value) is not None,
    'must be an address such as "https://tools.example/mcp", with no password and no `#`',
)
read_rounds = _number(0, 10)
read_sentences = _texts(lambda one: one.strip(), 'must be a list of sentences, such as ["Leave vendor/ alone."]')
read_folder = reads(
    # `.ordain` is off limits to plans; these copies are ours.
    lambda value: isinstance(value, str) and value and not path_fault(value.removeprefix(".ordain/"), writes=True),
    "must be a directory beneath the workspace",
)
read_name_or_nothing = reads(
    lambda value: value == "" or (isinstance(value, str) and NAME.fullmatch(value)), "must be a name"
)
_some_words = _texts(bool, 'must be a list of words, such as ["my-agent", "--stdin"]')
EFFECTS = [effect.value for effect in EffectClass]


def names_like(fault: Callable[[str], str | None] = lambda _: None) -> Reader:
    return _texts(lambda name: name.isascii() and name, "must be a list of names", fault)


def glob_fault(name: str) -> str | None:
    fits = re.fullmatch(r"[A-Za-z0-9_*?]+", name) and name.strip("*?")
    return None if fits else f'`{name}`, which is no pattern for names of variables, such as "*_TOKEN"'


def _control_fault(path: str) -> str | None:
    fault = pattern_fault(path)
    if fault in (None, OFF_LIMITS) and path.strip("*?/."):
        return None
    return f"`{path[:200]}`, which {fault or 'is everything, and nothing could be written'}"


def home_fault(file: str) -> str | None:
    if not file.startswith("~/"):
        return f"`{file}`, which is not written from ~/"
    return f"`{file}`, which leads out of where it begins with `..`" if ".." in file.split("/") else None


def files_like(fault: Callable[[str], str | None] = lambda _: None) -> Reader:
    words = 'must be a list of files, each written from / or ~/, such as ["~/.netrc"]'
    return _texts(lambda path: path[:1] in ("/", "~"), words, fault)


read_variables = names_like(lambda name: f"`{name}`, which {fault}" if (fault := variable_fault(name)) else None)
read_variable = reads(
    lambda value: isinstance(value, str) and value.isascii() and value and variable_fault(value) is None,
    "must be the name of a variable",
)
read_base_url = reads(
    lambda value: isinstance(value, str) and base_url_fault(value) is None,
    'must be an address such as "https://models.example/v1", with no password and no `#`',
)
read_patterns = _texts(lambda _: True, 'must be a list of patterns of paths, such as [".github/**"]', _control_fault)


def read_model(value: Any) -> str:
    if (fault := model_fault(value) if isinstance(value, str) else f"must be one of {MODEL_WORDS}") is not None:
        raise Wrong(fault)
    return str(value)


def read_milliseconds(value: Any) -> int:
    milliseconds = read_duration(value) if isinstance(value, str) else None
    if not milliseconds or milliseconds > DURATION_MAX_MS:
        raise Wrong('must be a duration such as "30s", "10m" or "4h", and at most ten years')
    return milliseconds


def read_tier(value: Any) -> int:
    if value not in (0, 1) or isinstance(value, bool):
        raise Wrong("must be 0 or 1")
    return int(value)


def read_digests(value: Any) -> dict[str, str]:
    if not isinstance(value, dict) or not value or any(path_fault(path) is not None for path in value):
        raise Wrong('must give files of the workspace their digests, such as { "tools/mine.py" = "sha256:…" }')
    if not all(isinstance(one, str) and re.fullmatch(r"sha256:[0-9a-f]{64}", one) for one in value.values()):
        raise Wrong("has what is no digest; `ordain trust` says which it would be")
    return dict(value)


def read_policy(value: Any) -> Any:
    policy = read_failure(value) if isinstance(value, str) else None
    if policy is None:
        raise Wrong('must be a text such as "abort" or "retry(2), then escalate"')
    if isinstance(policy, Problem):
        raise Wrong(f"cannot be read: {policy.detail}")
    last = policy.then if isinstance(policy, Retry) else policy
    if last is not None and not isinstance(last, Abort | Skip | Continue | Escalate | Replan | Recover):
        raise Wrong(f"is `{last.__struct_config__.tag}`, which this version does not carry out")
    return policy


def read_check(value: Any) -> str:
    if not isinstance(value, str) or not value.strip() or "\0" in value:
        raise Wrong("must be a command for bash that exits 0 (it happened), 1 (it did not) or otherwise (unknown)")
    return value


def read_command(value: Any) -> tuple[str, ...]:
    words: tuple[str, ...] = _some_words(value or None)
    return words


def read_headers(value: Any) -> dict[str, str]:
    if not isinstance(value, dict) or not all(isinstance(text, str) for text in value.values()):
        raise Wrong('must be a section of texts, such as { Authorization = "secret:TOOLS_TOKEN" }')
    fault = header_fault(value)
    if fault is not None:
        raise Wrong(f"has the header {fault}")
    return dict(value)


def read_effects(value: Any) -> dict[str, EffectClass]:
    if not isinstance(value, dict) or not all(effect in EFFECTS for effect in value.values()):
        raise Wrong(f"must give each tool one of {', '.join(EFFECTS)}")
    return {read_name_or_nothing(tool): EffectClass(effect) for tool, effect in value.items()}


def read_template(value: Any) -> str:
    from ordain.core.run.prompt import template_fault

    fault = template_fault(read_text(value))
    if fault is not None:
        raise Wrong(fault)
    return str(value)


def read_arbiter(value: Any) -> str:
    if isinstance(value, str) and ":" in value:
        fault = model_fault(value)
        if fault is not None:
            raise Wrong(fault)
        return value
    return str(read_name_or_nothing(value))


def read_by_kind(value: Any) -> dict[str, str]:
    kinds = ", ".join(KINDS)
    if not isinstance(value, dict):
        raise Wrong(f"must be a section that gives an agent to each of some of {kinds}")
    unknown = [kind for kind in value if kind not in KINDS]
    if unknown:
        named = ", ".join(f"`{kind[:64]}`" for kind in unknown)
        hints = (hint for kind in unknown for hint in closest(kind[:64], KINDS))
        raise Wrong(f"has {named}, and there is no such kind of work; there are {kinds}", *hints)
    if not all(isinstance(name, str) and NAME.fullmatch(name) for name in value.values()):
        raise Wrong("must give each kind the name of an agent")
    return dict(value)


def read_opened(value: Any) -> tuple[str, ...]:
    names: tuple[str, ...] = names_like()(value)
    if EVERYTHING in names:
        raise Wrong(
            f"names `{EVERYTHING}`, which would open what nobody knows",
            "Name what is guarded in `guarded`, without `*`; everything else that is known is open then.",
        )
    return names


# --- Tables ----------------------------------------------------------------------------------------------------------

AGENT_KEYS: dict[str, Reader] = {
    "preset": one_of(AGENT_PRESETS),
    "command": read_command,
    "python": read_callable,
    "human": reads(lambda value: value is True, "must be true, or left out"),
    "description": read_text,
    "model": read_text,
    "env": read_variables,
    "files": files_like(home_fault),
    "network": read_flag,
    "own_tools": read_flag,
    "output": reads(lambda value: value in ("text", "json"), 'must be "text" or "json"'),
    "prompt": read_template,
    "base_url": read_base_url,
    "key_env": read_variable,
    "key_header": one_of(KEY_HEADERS, near=False),
}
AGENT_KINDS: dict[str, tuple[str, ...]] = {
    "preset": ("command", "description", "model", "env", "files", "network", "own_tools", "prompt"),
    "command": ("description", "model", "env", "files", "network", "output", "prompt"),
    "python": ("description", "model", "env", "files", "network", "prompt"),
    "human": ("description",),
    "model": ("description", "base_url", "key_env", "key_header", "prompt"),
}
"""What an agent can be, and the keys that say more about it. `model` makes a model of it where no other kind stands
beside it; else it only says which one that uses."""
ACTION_KEYS: dict[str, Reader] = {
    "command": read_command,
    "python": read_callable,
    "files": read_digests,
    "effect": lambda value: EffectClass(one_of(EFFECTS, near=False)(value)),
    "destructive": read_flag,
    "description": read_text,
    "happened": read_check,
    "happened_final": read_flag,
}
SOURCE_KEYS: dict[str, Reader] = {
    "python": read_callable,
    "files": read_digests,
    "plugin": read_text,
    "mcp": read_command,
    "url": read_server_address,
    "headers": read_headers,
    "env": read_variables,
    "trust_annotations": read_flag,
    "effects": read_effects,
    "happened": read_check,
    "happened_final": read_flag,
}
_HAPPENED = ("happened", "happened_final")
SOURCE_KINDS: dict[str, tuple[str, ...]] = {
    "python": ("files", *_HAPPENED),
    "plugin": _HAPPENED,
    "mcp": ("files", "env", "trust_annotations", "effects", *_HAPPENED),
    "url": ("headers", "trust_annotations", "effects", *_HAPPENED),
}
"""What a tool can come from, and the keys that say more about it."""
SECTION_KEYS: dict[str, dict[str, tuple[str, Callable[[Any], Any]]]] = {
    "plans": {
        "propose_ttl": ("propose_ttl_ms", read_milliseconds),
        "archive_after": ("archive_after_ms", read_milliseconds),
        "max_rejections": ("max_rejections", read_count),
        "max_replans": ("max_replans", read_tries),
        "max_pending": ("max_pending", read_count),
        "documents": ("documents", read_folder),
        "templates": ("templates", read_folder),
    },
    "approval": {
        "ttl": ("approval_ttl_ms", read_milliseconds),
        "separate": ("separate", read_flag),
        "require_signature": ("require_signature", read_flag),
        "approvers": ("approvers", names_like()),
        "bind_git_head": ("bind_git_head", read_flag),
    },
    "run": {
        "concurrency": ("concurrency", read_concurrency),
        "writers": ("writers", read_concurrency),
        "stalled_after": ("stalled_after_ms", read_milliseconds),
        "step_timeout": ("step_timeout_ms", read_milliseconds),
        "contract_timeout": ("contract_timeout_ms", read_milliseconds),
        "on_failure": ("on_failure", read_policy),
        "agent": ("agent", read_name_or_nothing),
        "agent_for": ("agent_for", read_by_kind),
        "arbiter": ("arbiter", read_arbiter),
        "prompt": ("prompt", lambda value: read_template(value) if value != "" else ""),
        "progress": ("progress", read_flag),
        "tier": ("tier", read_tier),
    },
    "policy": {"allow": ("allow", names_like()), "ask": ("ask", names_like()), "deny": ("deny", names_like())},
    "guard": {
        "mode": ("guard_mode", one_of([mode.value for mode in Mode])),
        "guarded": ("guarded", names_like()),
        "open": ("open_calls", read_opened),
    },
    "contracts": {"env": ("env", read_variables)},
    "sandbox": {
        "read": ("sandbox_read", files_like()),
        "processes": ("sandbox_processes", read_processes),
        "open_files": ("sandbox_open_files", read_processes),
        "file_mib": ("sandbox_file_mib", read_some_mebibytes),
        "memory_mib": ("sandbox_memory_mib", read_mebibytes),
        "tmp_mib": ("sandbox_tmp_mib", read_some_mebibytes),
    },
    "planner": {
        "agent": ("planner_agent", read_name_or_nothing),
        "model": ("planner_model", nothing_or(read_model)),
        "base_url": ("planner_base_url", nothing_or(read_base_url)),
        "key_env": ("planner_key_env", nothing_or(read_variable)),
        "key_header": ("planner_key_header", nothing_or(one_of(KEY_HEADERS))),
        "max_rounds": ("planner_max_rounds", read_rounds),
        "constraints": ("planner_constraints", read_sentences),
    },
    "retention": {"outputs_days": ("outputs_days", read_tries), "outputs_mb": ("outputs_mb", read_megabytes)},
    "control": {"files": ("control", read_patterns)},
    "notify": {"command": ("notify", lambda value: read_command(value) if value != [] else ())},
    "secrets": {"env": ("secret_env", names_like(glob_fault)), "files": ("secret_files", files_like())},
}
"""Section → key → the setting it sets and how its value is read."""
