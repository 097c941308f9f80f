"""The tokens of clients of the MCP server: a file for each client, with the digest of its token and never the token."""

from __future__ import annotations

import functools
import hashlib
import re
from collections.abc import Callable, Sequence
from hmac import compare_digest
from pathlib import Path

import msgspec

from ordain.adapters.state.directory import PrivateFiles
from ordain.core.plan.value import Instant
from ordain.core.text.problem import refuse
from ordain.ports.machine import Client

TOKEN_HEAD = "ordain_mcp_"
"""How a token begins: `core.token_shape` knows it by that, wherever it is written or shown."""
TOKEN_BYTES = 32
FILE_BYTES_MAX = 4096
LOCAL = "local"
"""Whoever was told a token that one process lent."""

_NAME = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9_.-]{0,63}")


class _ClientFile(Client, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What is kept of a client."""

    token_sha256: str


class FileClients:
    """ports.Clients over files of one workspace. Every question reads them anew: who was revoked a moment ago is."""

    def __init__(self, directory: Callable[[], Path]) -> None:
        self._directory = directory
        self._lent: list[_ClientFile] = []
        self._found: dict[str, str] = {}
        """In whose file the digest of a token was last seen: where to look first, and no more than that."""

    def add(self, name: str, at: Instant) -> str:
        if _NAME.fullmatch(name) is None or name == LOCAL:
            raise refuse(
                "E_CLIENT",
                f"{name[:64]!a} is not a name for a client.",
                f"A name has up to 64 ASCII letters, digits and `_ - .`, begins with no dot, and is not `{LOCAL}`.",
            )
        token = _new_token()
        kept = _ClientFile(name=name, made_at=at, token_sha256=_digest(token))
        try:
            self._files.write(_file(name), msgspec.json.encode(kept) + b"\n")
        except FileExistsError:
            hint = "A token is told once. Revoke it to make another."
            command = f"ordain mcp token revoke {name}"
            raise refuse("E_CLIENT", f"The client `{name}` has a token already.", hint, command=command) from None
        return token

    def lend(self) -> str:
        token = _new_token()
        self._lent.append(_ClientFile(name=LOCAL, made_at=Instant(0), token_sha256=_digest(token)))
        return token

    def all(self) -> Sequence[Client]:
        return tuple(Client(name=one.name, made_at=one.made_at) for one in self._kept())

    def holder(self, token: str) -> str | None:
        given = _digest(token)
        # With a hundred clients, reading every file with every request would be most of what a request takes.
        if given in self._found:
            one = self._read(_file(self._found[given]))
            if one is not None and compare_digest(one.token_sha256, given):
                return one.name
            del self._found[given]
        # All of them are compared, each to its end: how long it takes tells nothing.
        kept = [one.name for one in self._kept() if compare_digest(one.token_sha256, given)]
        if kept:
            self._found[given] = kept[0]
        lent = [one.name for one in self._lent if compare_digest(one.token_sha256, given)]
        return next(iter((*lent, *kept)), None)

    def revoke(self, name: str) -> bool:
        return _NAME.fullmatch(name) is not None and self._files.remove(_file(name))

    def _kept(self) -> list[_ClientFile]:
        read = (self._read(name) for name in self._files.names())
        return [one for one in read if one is not None]  # none where it was revoked while we looked

    def _read(self, name: str) -> _ClientFile | None:
        files = self._files
        if (content := files.read(name, FILE_BYTES_MAX)) is None:
            return None
        try:
            one = msgspec.json.decode(content, type=_ClientFile)
        except ValueError:
            raise files.refused(name, "is damaged, or no file of this version") from None
        if _file(one.name) != name:
            raise files.refused(name, f"is about {one.name!a}")
        return one

    @functools.cached_property
    def _files(self) -> PrivateFiles:
        return PrivateFiles(self._directory() / "clients", "E_CLIENT")


def _new_token() -> str:
    from secrets import token_urlsafe

    return TOKEN_HEAD + token_urlsafe(TOKEN_BYTES)


def _file(name: str) -> str:
    return f"{name}.json"


def _digest(token: str) -> str:
    return hashlib.sha256(token.encode("utf-8", "surrogatepass")).hexdigest()
