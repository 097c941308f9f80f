"""The secrets of the surroundings, to be hidden from then on: from variables and from files that the configuration
names. They go from here to the redactor and nowhere else."""

from __future__ import annotations

import fnmatch
import os
import re
import stat
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from ordain.core.secret_form import SECRET_LENGTH_MIN

__all__ = ["FILE_BYTES_MAX", "collect", "secret_path"]

FILE_BYTES_MAX = 64 << 10
"""A file of secrets that is larger is taken to be something else."""

_VARIABLE = re.compile(
    r"""^[ \t]*(?:export[ \t]+)?(?P<name>[A-Za-z_][A-Za-z0-9_.]*)[ \t]*=[ \t]*
    (?:(?:"(?P<double>(?:[^"\\]|\\.)*+)"|'(?P<single>[^']*+)')[ \t]*(?:\#[^\r\n]*+)?|(?P<bare>[^\s"'=][^\r\n]*+)?)
    \r?$""",
    re.MULTILINE | re.VERBOSE | re.DOTALL,
)
"""A line of a file of variables; between quotes it may be several."""
_COMMENT = re.compile(r"^[ \t]*#[^\n]*$", re.MULTILINE)
_END_COMMENT = re.compile(r"[ \t]#")
_LOGIN = re.compile(r"(?:^|\s)(?:machine\s+\S+|default)(?=\s)")
_PASSWORD = re.compile(r"\s(?:password|account)\s+(\S+)")
_ESCAPE = re.compile(r"\\(.)", re.DOTALL)
_ESCAPES = {"n": "\n", "r": "\r", "t": "\t"}


def collect(
    env: Mapping[str, str], patterns: Sequence[str], files: Sequence[str], home: Path
) -> tuple[dict[str, str], list[str]]:
    """The secrets by the names they are shown under, and the files that could not be read.

    A variable is one when a pattern means its name. A file is given by an absolute path or one that begins with `~/`;
    it may hold variables, logins as in `.netrc`, or one secret.
    """
    secrets = {
        name: value for name, value in env.items() if any(fnmatch.fnmatchcase(name, pattern) for pattern in patterns)
    }
    unread = []
    for file in files:
        text = _read(file, home)
        if text is None:
            unread.append(file)
            continue
        secrets |= {f"file:{file}{part}": secret for part, secret in _secrets_in(text)}
    return {name: secret for name, secret in secrets.items() if len(secret.strip()) >= SECRET_LENGTH_MIN}, unread


def secret_path(file: str, home: Path) -> Path | None:
    """Where a file of secrets is that was given like this; None where that cannot be told."""
    path = home / file[2:] if file.startswith("~/") else Path(file)
    return path if path.is_absolute() else None


def _read(file: str, home: Path) -> str | None:
    path = secret_path(file, home)
    if path is None:
        return None
    try:
        # A pipe or a device in its place must not hold us up.
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        with os.fdopen(descriptor, "rb") as opened:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                return None
            content = opened.read(FILE_BYTES_MAX + 1)
    except (OSError, ValueError):  # not there, not to be read, or no name that a file could have
        return None
    return content.decode("utf-8", "surrogateescape") if len(content) <= FILE_BYTES_MAX else None


def _secrets_in(text: str) -> Iterator[tuple[str, str]]:
    """What in a file is secret, and what to call it besides the file; all of it where some is not understood."""
    text = text.removeprefix("\ufeff")
    variables = [found for found in _VARIABLE.finditer(text) if _value(found)]
    for found in variables:
        yield f":{found['name']}", _value(found)
    if _LOGIN.search(text):
        for number, found in enumerate(_PASSWORD.finditer(text), 1):
            yield f":{number}", found[1].strip('"')
    elif not variables or _COMMENT.sub("", _VARIABLE.sub("", text)).strip():
        yield "", text.strip()


def _value(found: re.Match[str]) -> str:
    if found["double"] is not None:
        return _ESCAPE.sub(lambda escape: _ESCAPES.get(escape[1], escape[1]), found["double"])
    return found["single"] or _END_COMMENT.split(found["bare"] or "", maxsplit=1)[0].rstrip()
