"""Which settings are in force: those that a person trusted last, and while the file says something else no more than
the defaults let through: an agent can edit or delete the file, and neither may loosen anything."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

import msgspec

from ordain.core.plan.canonical import sha256
from ordain.core.policy.fact import LineFacts
from ordain.core.policy.settings import DEFAULTS, PROGRAMS, Settings, UserSettings, with_user_rules
from ordain.core.text.control import CONFIGURATION_FILE
from ordain.core.text.problem import Place, Problem, Refused, closest
from ordain.documents.setting_value import Wrong, read_flag
from ordain.documents.settings import read_settings, read_values, section_names, settings_of, toml_tree

# --- In force --------------------------------------------------------------------------------------------------------


class SettingsInForce(NamedTuple):
    """Settings, and whether the file says something else than what was trusted."""

    settings: Settings
    differs: bool


class RulesHost(Protocol):
    """What of `ports.Host` settings depend on."""

    def user_settings(self) -> UserSettings: ...

    def understanding(self, settings: Settings) -> Callable[[str], LineFacts]: ...


def in_force(trusted: str | None, file: bytes | None, host: RulesHost) -> SettingsInForce:
    """The settings in force in a workspace, with the user's own rules and what reads their command lines."""
    found = trusted_settings(trusted, file)
    settings = with_user_rules(found.settings, host.user_settings())
    return found._replace(settings=msgspec.structs.replace(settings, understand=host.understanding(settings)))


def trusted_settings(trusted: str | None, file: bytes | None) -> SettingsInForce:
    """The settings in force by what was trusted last and the file; raises Refused where that cannot be read."""
    if trusted is None:
        settings, differs = Settings(), file is not None and read_settings(file) != (DEFAULTS, ())
    else:
        settings, problems = read_settings(trusted.encode())
        if problems:
            raise Refused(problems)
        differs = file is None or sha256(file) != sha256(trusted.encode())
    if not differs:
        return SettingsInForce(settings, differs)
    allowed = tuple(name for name in settings.allow if name in DEFAULTS.allow)
    opened = tuple(name for name in settings.open_calls if name in DEFAULTS.open_calls)
    guarded = tuple(dict.fromkeys((*settings.guarded, *DEFAULTS.guarded)))
    return SettingsInForce(
        msgspec.structs.replace(
            settings, allow=allowed, open_calls=opened, guarded=guarded, outputs_days=0, outputs_mb=0
        ),
        differs,
    )


def says_enforce(file: bytes | None) -> bool:
    """Whether a file, trusted or not, wants the guard to refuse."""
    return file is not None and read_settings(file)[0].guard_mode == "enforce"


# --- User configuration ----------------------------------------------------------------------------------------------
# From the text of the user's `config.toml` to settings: strict, with every problem at once.


def _program(value: Any) -> str:
    if not isinstance(value, str) or not value.startswith("/") or "\0" in value or ".." in value.split("/"):
        raise Wrong('must be an absolute path, such as "/opt/bin/bash"')
    return value


_KEYS: dict[str, dict[str, Callable[[Any], Any]]] = {
    "programs": dict.fromkeys(PROGRAMS, _program),
    "audit": {"robot_backup_outputs": read_flag},
}
"""Section → key → how its value is read. None of them counts from a workspace."""


_SHARED = ("guard", "rules")
"""Sections that a workspace can have too."""


def read_user_settings(data: bytes, file: str) -> UserSettings | list[Problem]:
    """The settings in the user's own file, or everything that is wrong with it."""

    def problem(what: str, *hints: str) -> Problem:
        return Problem(code="E_CONFIG_USER", detail=f"This file {what}.", where=Place(file=file), hints=hints)

    tree = toml_tree(data)
    if isinstance(tree, str):
        return [problem(tree)]
    values: dict[str, dict[str, Any]] = {}
    shared, found = settings_of({section: tree[section] for section in _SHARED if section in tree})
    problems = [problem(re.sub(rf"^{CONFIGURATION_FILE}:? ", "", one.detail).rstrip("."), *one.hints) for one in found]
    for section, content in tree.items():
        if section in _SHARED:
            continue
        if section in section_names():
            hint = f"Write it into the workspace's {CONFIGURATION_FILE}."
            problems.append(problem(f"has `{section}`, which counts from a workspace only", hint))
        elif section not in _KEYS:
            problems.append(problem(f"has an unknown section or key `{section}`", *closest(section, _KEYS)))
        elif not isinstance(content, dict):
            problems.append(problem(f"gives `{section}` a value; it is a section, written [{section}]"))
        else:
            values[section] = read_values(section, content, _KEYS[section], problems, problem)
    guard = tree.get("guard", {})
    return problems or UserSettings(
        programs=values.get("programs", {}),
        **values.get("audit", {}),
        guard_mode=shared.guard_mode,
        guarded=shared.guarded if "guarded" in guard else (),
        open_calls=shared.open_calls if "open" in guard else (),
        rules=shared.rules,
        file=file,
    )


def user_key_names() -> tuple[str, ...]:
    """Every key, as `section.key`."""
    return tuple(f"{section}.{key}" for section, keys in _KEYS.items() for key in keys)
