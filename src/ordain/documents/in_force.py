"""Which settings are in force: those that a person trusted last, and while the file says something else no more than
the defaults let through.

One place for all who ask: an agent can edit or delete the file, and neither may loosen anything; a person may have
edited it to tighten it.
"""

from __future__ import annotations

import hashlib
from typing import NamedTuple

import msgspec

from ordain.core.problem import Refused
from ordain.core.settings import DEFAULTS, Settings
from ordain.documents.configuration import read_settings

__all__ = ["InForce", "in_force", "says_enforce", "sha256"]


class InForce(NamedTuple):
    """Settings, and whether the file says something else than what was trusted."""

    settings: Settings
    differs: bool


def in_force(trusted: str | None, file: bytes | None) -> InForce:
    """The settings in force where this text was trusted last, or none, and the file says this; raises Refused where
    this version cannot read what was trusted."""
    if trusted is None:
        settings, differs = Settings(), file is not None and read_settings(file) != (DEFAULTS, ())
    else:
        settings, problems = read_settings(trusted.encode())
        if problems:
            raise Refused(problems)
        differs = file is None or sha256(file) != sha256(trusted.encode())
    if not differs:
        return InForce(settings, differs)
    allowed = tuple(name for name in settings.allow if name in DEFAULTS.allow)
    opened = tuple(name for name in settings.open_calls if name in DEFAULTS.open_calls)
    guarded = tuple(dict.fromkeys((*settings.guarded, *DEFAULTS.guarded)))
    return InForce(msgspec.structs.replace(settings, allow=allowed, open_calls=opened, guarded=guarded), differs)


def says_enforce(file: bytes | None) -> bool:
    """Whether a file, trusted or not, wants the guard to refuse."""
    return file is not None and read_settings(file)[0].guard_mode == "enforce"


def sha256(data: bytes) -> str:
    return "sha256:" + hashlib.sha256(data).hexdigest()
