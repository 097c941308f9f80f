"""What commands are held to at trust tier 1: how much they may use, and which paths `writes` can mean there.

A sandbox is made of directories and files, and knows no patterns. So `writes` can name whole directories and single
files; everything else is refused before a run, for it would be held loosely or not at all.
"""

from __future__ import annotations

import msgspec

from ordain.core.pattern import normal

__all__ = ["SandboxLimits", "Writable", "writable"]


class SandboxLimits(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What one command may use, and what it sees besides the workspace and the system's own programs."""

    processes: int = 1024
    open_files: int = 4096
    file_mib: int = 4096
    """How long one file may become."""
    memory_mib: int = 0
    """Address space of one process; 0: no limit."""
    tmp_mib: int = 1024
    """How much fits in `/tmp`, which is memory."""
    read: tuple[str, ...] = ()
    """Files and directories that can be read too, written from `/` or `~/`."""


class Writable(msgspec.Struct, frozen=True, kw_only=True):
    """A directory with everything beneath it, or a file."""

    path: str
    """Relative to the workspace."""
    directory: bool
    """Whether it must be a directory, and is made where it is not there."""


def writable(pattern: str) -> Writable | None:
    """What a pattern of `writes` lets a command write; None where that is no whole directory and no single file. The
    path is empty where it is the whole workspace."""
    text = normal(pattern)
    if text == "**":
        return Writable(path="", directory=True)
    path = text.removesuffix("/**")
    if not path or {"*", "?"} & set(path):
        return None
    return Writable(path=path, directory=path != text)
