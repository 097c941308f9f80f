"""The environment that an approval seals: variables, and the programs that Ordain itself runs. A run gets the sealed
values, wherever it is started from; of a secret only a seal is kept, which the value at hand must fit."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple

import msgspec

from ordain.core.plan.command import setting_fault

PLAIN_PATH = "/usr/local/bin:/usr/bin:/bin"
"""Where programs are looked for when nothing is left of the PATH: an empty one would mean the workspace."""
_TEMPORARY = ("/tmp", "/var/tmp", "/dev/shm", "/private/tmp", "/private/var/folders")
_UNREMARKABLE = ("PATH", "HOME", "SHELL")

Seal = Callable[[bytes], str]
LookAt = Callable[[str], tuple[str, bool]]
"""Where a directory really is, and whether others can write there."""


class SealedEnvironment(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Everything that a run takes from the environment. A variable that is absent was not set, and stays so."""

    values: Mapping[str, str] = {}
    secrets: Mapping[str, str] = {}
    """The name of each secret variable → the seal of its value."""
    programs: Mapping[str, str] = {}


class RunEnvironment(NamedTuple):
    """What a run is given, whatever the environment that it is started from."""

    variables: Mapping[str, str]
    programs: Mapping[str, str]


def absolute_parts(path: str) -> str:
    """A PATH without what is not absolute: that means the directory a command runs in, where steps can put programs."""
    return ":".join(part for part in path.split(":") if part.startswith("/")) or PLAIN_PATH


def _seal_of(name: str, value: str, seal: Seal) -> str:
    return seal(f"environment\0{name}\0{value}".encode("utf-8", "surrogateescape"))


def seal_environment(
    found: Mapping[str, str], is_secret: Callable[[str, str], bool], seal: Seal, programs: Mapping[str, str]
) -> SealedEnvironment:
    """What is sealed of these variables and programs."""
    given = {name: absolute_parts(value) if name == "PATH" else value for name, value in sorted(found.items())}
    secrets = {name: _seal_of(name, value, seal) for name, value in given.items() if is_secret(name, value)}
    values = {name: value for name, value in given.items() if name not in secrets}
    return SealedEnvironment(values=values, secrets=secrets, programs=dict(sorted(programs.items())))


def misfits(
    sealed: SealedEnvironment, found: Mapping[str, str], seal: Seal, programs: Mapping[str, str] | None = None
) -> Iterator[str]:
    """What here does not fit what was sealed, in words: secrets, for other values are given again, and programs."""
    for name, expected in sealed.secrets.items():
        if name not in found:
            yield f"the secret variable `{name}` is not set"
        elif _seal_of(name, found[name], seal) != expected:
            yield f"the secret variable `{name}` has another value"
    for name in sorted(sealed.programs.keys() | programs.keys()) if programs is not None else ():
        before, now = sealed.programs.get(name, "not there"), (programs or {}).get(name, "not there")
        if before != now:
            yield f"the program `{name}` (it was {before}, it is {now})"


def restore(sealed: SealedEnvironment, found: Mapping[str, str]) -> RunEnvironment:
    """The sealed values, and the secrets at hand, which fit."""
    secrets = {name: found[name] for name in sealed.secrets if name in found}
    return RunEnvironment({**sealed.values, **secrets}, sealed.programs)


def unusual(
    found: Mapping[str, str], shown: Mapping[str, str], workspace: str, home: str | None, look_at: LookAt
) -> Iterator[str]:
    """What an approver should know of the variables that are `found`: those that decide which programs run, or how.
    `shown` are their values as they may be shown, `home` is the account's own."""
    for part in dict.fromkeys(found["PATH"].split(":")) if "PATH" in found else ():
        if not part.startswith("/"):
            yield f"PATH has {part or 'an empty part'}, which is not absolute; it is left out"
            continue
        real, open_to_others = look_at(part)
        if _lies_in(real, (workspace,)) or _lies_in(part, (workspace,)):
            yield f"PATH has {part}, in the workspace, where agents and steps write"
        elif _lies_in(part, _TEMPORARY) or _lies_in(real, _TEMPORARY):
            yield f"PATH has {part}, a temporary directory"
        elif open_to_others:
            yield f"PATH has {part}, where others can write"
    if "HOME" in found and home is not None and look_at(found["HOME"])[0] != look_at(home)[0]:
        yield f"HOME is {found['HOME']}; the home of this account is {home}"
    for name in shown:
        if name not in _UNREMARKABLE and (setting_fault(name) is not None or name.startswith("GIT_")):
            yield f"{name} changes what programs do: {shown[name]}"


def _lies_in(path: str, places: tuple[str, ...]) -> bool:
    return any(path == place or path.startswith(f"{place.rstrip('/')}/") for place in places)
