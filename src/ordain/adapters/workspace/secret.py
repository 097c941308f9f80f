"""The secrets of the surroundings, to be hidden from then on: from variables and from files that the configuration
names. They go from here to the redactor and nowhere else."""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from urllib.parse import unquote

from ordain.adapters.workspace.locate import read_regular
from ordain.core.text.control import folded
from ordain.core.text.pattern import compile_later
from ordain.core.text.secret import is_telling, may_name

# --- Secrets ---------------------------------------------------------------------------------------------------------

FILE_BYTES_MAX = 64 << 10
"""A file of secrets that is larger is taken to be something else."""

_VARIABLE = compile_later(
    r"""^[ \t]*(?:export[ \t]+)?(?P<name>[A-Za-z_][A-Za-z0-9_.]*)[ \t]*=[ \t]*
    (?:(?:"(?P<double>(?:[^"\\]|\\.)*+)"|'(?P<single>[^']*+)')[ \t]*(?:\#[^\r\n]*+)?|(?P<bare>[^\s"'=][^\r\n]*+)?)
    \r?$""",
    re.MULTILINE | re.VERBOSE | re.DOTALL,
)
"""A line of a file of variables; between quotes it may be several."""
_COMMENT = compile_later(r"^[ \t]*#[^\n]*$", re.MULTILINE)
_END_COMMENT = compile_later(r"[ \t]#")
_IN_ADDRESS = compile_later(r"://[^\s/?#:@]*:([^\s/?#@]+)@|(?:^|[\s;])password\s*=\s*([^\s;]+)", re.IGNORECASE)
"""The password in an address of a database or proxy, or among the settings of a connection."""
_LOGIN = compile_later(r"(?:^|\s)(?:machine\s+\S+|default)(?=\s)")
_PASSWORD = compile_later(r"\s(?:password|account)\s+(\S+)")
_ESCAPE = compile_later(r"\\(.)", re.DOTALL)
_ESCAPES = {"n": "\n", "r": "\r", "t": "\t"}


def collect(
    env: Mapping[str, str], patterns: Sequence[str], files: Sequence[str], home: Path
) -> tuple[dict[str, str], list[str]]:
    """The secrets by the names they are shown under, and the files that could not be read.

    A variable is one when a pattern means its name; of another, the password in an address is one. A file (absolute or
    `~/…`) may hold variables, logins as in `.netrc`, or one secret.
    """
    secrets: dict[str, str] = {}
    for name, value in env.items():
        if may_name(name, patterns) and not _is_place(value):
            secrets[name] = value
        elif found := _IN_ADDRESS.search(value):
            secrets[name] = unquote(found[1] or found[2])
    unread = []
    for file in files:
        if (text := _read(file, home)) is None:
            unread.append(file)
            continue
        secrets |= {f"file:{file}{part}": secret for part, secret in _secrets_in(text)}
    return {name: secret for name, secret in secrets.items() if is_telling(secret)}, unread


def _is_place(value: str) -> bool:
    """Whether this is only where a secret is kept."""
    with contextlib.suppress(OSError):
        return value.startswith("/") and Path(value).exists()
    return False


def secret_path(file: str, home: Path) -> Path | None:
    """Where a file of secrets is that was given like this; None where that cannot be told."""
    path = home / file[2:] if file.startswith("~/") else Path(file)
    return path if path.is_absolute() else None


def _read(file: str, home: Path) -> str | None:
    if (path := secret_path(file, home)) is None:
        return None
    try:
        content = read_regular(path, FILE_BYTES_MAX)
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


# --- Known secrets ---------------------------------------------------------------------------------------------------
# The secrets of this process's environment and of the files the settings name.


class KnownSecrets:
    """ports.Secrets over the real environment."""

    def known(self, patterns: Sequence[str], files: Sequence[str]) -> tuple[Mapping[str, str], Sequence[str]]:
        return collect(os.environ, patterns, files, _home())

    def holds(self, opened: int, files: Sequence[str]) -> bool:
        """Whether what was opened is one of these files, by whatever name."""
        return any(_same(os.fstat(opened), path) for path in _places(files))

    def places(self, files: Sequence[str]) -> Sequence[Path]:
        """Where these files are."""
        return tuple(_places(files))

    def lies_at(self, path: Path, files: Sequence[str], *, deep: bool) -> bool:
        """Whether one of these files, or a link to one, is at a path or where it is `deep` beneath it; or would be."""
        wanted = folded(str(path.absolute()))
        try:
            there = path.lstat()
        except (OSError, ValueError):
            there = None
        return any(
            folded(str(one)) == wanted or (there is not None and _same(there, one))
            for place in _places(files)
            for one in (place, *(place.parents if deep else ()))
        )


def _places(files: Sequence[str]) -> Iterator[Path]:
    """Where these files are: as they are named, and where their links lead."""
    for file in files:
        path = secret_path(file, _home())
        if path is not None and "\0" not in file:
            yield from {path, Path(os.path.realpath(path))}


def _same(found: os.stat_result, path: Path) -> bool:
    with contextlib.suppress(OSError):
        return os.path.samestat(found, path.lstat())
    return False


def _home() -> Path:
    return Path(os.environ.get("HOME") or "/")
