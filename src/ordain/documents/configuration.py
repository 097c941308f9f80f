"""From the text of `ordain.toml` to settings: strict, with every problem at once.

Whether the file counts at all (a person must have trusted it) is decided elsewhere.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable
from typing import Any

from ordain.core.problem import Place, Problem, closest
from ordain.core.settings import Settings
from ordain.documents.duration import read_duration
from ordain.documents.failure import read_failure

__all__ = ["CONFIGURATION_FILE", "TEMPLATE", "read_settings"]

CONFIGURATION_FILE = "ordain.toml"

_DANGEROUS_NAMES = (
    "LD_PRELOAD",
    "LD_LIBRARY_PATH",
    "LD_AUDIT",
    "PYTHONPATH",
    "PYTHONSTARTUP",
    "BASH_ENV",
    "ENV",
    "GIT_SSH_COMMAND",
    "SHELLOPTS",
    "BASHOPTS",
    "IFS",
    "PROMPT_COMMAND",
)
"""Variables that would make a trusted program do something else."""

_LATER = {
    "plans": {"max_rejections", "max_replans", "max_pending", "documents", "marks"},
    "approval": {"separate", "require_signature", "approvers"},
    "run": {"agent", "writers", "stalled_after"},
    "agents": None,
    "tools": None,
    "guard": None,
    "notify": None,
    "secrets": None,
}
"""Parts of the design that this version does not carry out; refused, so that nobody relies on them. None: all of it."""


class _Wrong(Exception):
    """A value that does not fit, in words."""


def _duration(value: Any) -> int:
    milliseconds = read_duration(value) if isinstance(value, str) else None
    if not milliseconds:
        raise _Wrong('must be a duration such as "30s", "10m" or "4h"')
    return milliseconds


def _concurrency(value: Any) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not 1 <= value <= 64:
        raise _Wrong("must be a whole number from 1 to 64")
    return value


def _policy(value: Any) -> Any:
    policy = read_failure(value) if isinstance(value, str) else None
    if policy is None:
        raise _Wrong('must be a text such as "abort" or "retry(2), then escalate"')
    if isinstance(policy, Problem):
        raise _Wrong(f"cannot be read: {policy.detail}")
    return policy


def _names(value: Any) -> tuple[str, ...]:
    if not isinstance(value, list) or not all(isinstance(name, str) and name.isascii() and name for name in value):
        raise _Wrong("must be a list of names")
    return tuple(value)


def _variables(value: Any) -> tuple[str, ...]:
    names = _names(value)
    for name in names:
        if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name):
            raise _Wrong(f"names `{name}`, which is not the name of a variable")
        if name in _DANGEROUS_NAMES or name.startswith(("LD_", "DYLD_", "ORDAIN_")):
            raise _Wrong(f"names `{name}`, which could make a trusted program do something else")
    return names


_KEYS: dict[str, dict[str, tuple[str, Callable[[Any], Any]]]] = {
    "plans": {"propose_ttl": ("propose_ttl_ms", _duration)},
    "approval": {"ttl": ("approval_ttl_ms", _duration)},
    "run": {
        "concurrency": ("concurrency", _concurrency),
        "step_timeout": ("step_timeout_ms", _duration),
        "contract_timeout": ("contract_timeout_ms", _duration),
        "on_failure": ("on_failure", _policy),
    },
    "policy": {"allow": ("allow", _names), "ask": ("ask", _names), "deny": ("deny", _names)},
    "contracts": {"env": ("env", _variables)},
}
"""Section → key → the setting it sets and how its value is read."""


def read_settings(data: bytes) -> tuple[Settings, tuple[Problem, ...]]:
    """The settings a configuration asks for, and everything wrong with it."""
    try:
        tree = tomllib.loads(data.decode())
    except UnicodeDecodeError:
        return Settings(), (_problem("is not UTF-8 text"),)
    except tomllib.TOMLDecodeError as error:
        return Settings(), (_problem(f"cannot be read: {error}"),)
    except RecursionError:
        return Settings(), (_problem("is nested too deep"),)
    values: dict[str, Any] = {}
    problems: list[Problem] = []
    for section, content in tree.items():
        later = _LATER.get(section, set())
        if later is None:
            problems.append(_problem(f"has a section [{section}], which this version does not carry out yet"))
        elif section not in _KEYS:
            problems.append(
                _problem(f"has an unknown section or key `{section}`", *closest(section, [*_KEYS, *_LATER]))
            )
        elif not isinstance(content, dict):
            problems.append(_problem(f"gives `{section}` a value; it is a section, written [{section}]"))
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
                    except _Wrong as wrong:
                        problems.append(_problem(f"{section}.{key} {wrong}"))
    return Settings(**values), tuple(problems)


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
# propose_ttl = "7d"           # a prepared plan nobody started expires

[approval]
# ttl = "4h"                   # from approval to start

[run]
# concurrency = 4              # steps at once
# step_timeout = "10m"
# contract_timeout = "60s"
# on_failure = "abort"         # or "retry(2), then escalate" …

[policy]                       # deny wins, then ask, then allow; what no list names is asked
# allow = ["reads"]            # effect classes (reads, repeatable, checkable, opaque) and tools
# ask = []
# deny = []

[contracts]
# env = ["PATH", "HOME", "LANG", "TMPDIR", "VIRTUAL_ENV"]   # what commands and contracts may see
"""
