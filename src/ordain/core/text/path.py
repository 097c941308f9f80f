"""What a path is: one that lies beneath the workspace, or why it is none; and the one spelling that paths are compared
in. Looks at no file."""

from __future__ import annotations

import re
from collections.abc import Sequence

from ordain.core.text.control import folded, is_control
from ordain.core.text.pattern import PATTERN_MAX

_PRIVATE = re.compile(r"(?:.*/)?\.git/(?:hooks|config)(?:/.*)?|\.ordain(?:/.*)?", re.DOTALL)
"""Places where a file would run code behind everybody's back, or that are ours."""
_HOLDS_SECRETS = re.compile(
    r"(?:.*/)?(?:\.env(?!\.(?:example|sample|template|dist)\Z)(?:\..*)?|\.envrc|[._]netrc|\.pgpass|\.pypirc|"
    r"\.git-credentials|\.htpasswd|id_(?:rsa|dsa|ecdsa|ed25519)(?:_sk)?)",
    re.DOTALL,
)
"""Files that are there to hold secrets, by the names that programs look for."""
_GIT = re.compile(r"(?:.*/)?\.git(?:/.*)?", re.DOTALL)
"""Where git keeps what it runs and what it believes, its submodules and work trees included."""
COMPARED_MAX = 3_000_000
"""How often a path is compared with a pattern, or a character of it; that takes some seconds."""
OFF_LIMITS = "is off limits"
_ELSEWHERE = ("is empty or has a NUL in it", "is not relative to the workspace", "leads out of the workspace")


def path_fault(value: str, *, writes: bool = False, control: Sequence[str] = ()) -> str | None:
    """Why a path cannot be read, or written; None when it lies beneath the workspace and is neither git's nor ours."""
    if not value or "\0" in value:
        return _ELSEWHERE[0]
    if value[0] in "/~":
        return _ELSEWHERE[1]
    if ".." in value and ".." in value.split("/"):
        return _ELSEWHERE[2]
    return OFF_LIMITS if _PRIVATE.fullmatch(folded(value)) or (writes and is_control(value, control)) else None


def is_kept(value: str) -> bool:
    """Whether a path is git's or Ordain's own, which nobody is handed and nobody compares."""
    name = folded(value)
    return _GIT.fullmatch(name) is not None or _PRIVATE.fullmatch(name) is not None


def path_hints(fault: str, *, writes: bool = True) -> tuple[str, ...]:
    """What helps against what is wrong with a path that is read or written, where it does not say that itself."""
    if fault in _ELSEWHERE:
        return ("Paths are relative to the workspace and stay beneath it.",)
    return (_KEPT + _CONTROL * writes,) if fault == OFF_LIMITS else ()


_KEPT = "What is in `.git` is git's, and what is in `.ordain` Ordain's."
_CONTROL = (
    " Settings of Ordain, of agent hosts, of editors and of direnv, and what `[control]` names, are for a person to "
    "write, by hand."
)


def handed_fault(value: str, *, touched: bool = False, control: Sequence[str] = ()) -> str | None:
    """Why no agent may be handed a file, or be handed it to be `touched`, which holds for control files too. What the
    settings say holds secrets is known where the files are (ports.Workspace)."""
    fault = path_fault(value, writes=touched, control=control)
    if fault is None and is_kept(value):
        return OFF_LIMITS
    if fault is None and holds_secrets(value):
        return "is made to hold secrets, which no agent is handed"
    return fault


def holds_secrets(name: str) -> bool:
    """Whether a file is made to hold secrets, by its name."""
    return _HOLDS_SECRETS.fullmatch(folded(name)) is not None


def is_pattern(path: str) -> bool:
    """Whether what a step reads is many files, by a pattern, and not one."""
    return "*" in path or "?" in path


def pattern_fault(value: str) -> str | None:
    """Why a pattern of paths cannot be used; None when it means paths beneath the workspace."""
    return path_fault(value) or ("is longer than any path" if len(value) > PATTERN_MAX else None)
