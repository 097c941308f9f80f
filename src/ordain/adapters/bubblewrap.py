"""Bubblewrap: where it is, how it is handed what it is to do, and what it leaves open and we shut.

What it is to do is handed over in a file without a name, for everybody on a machine can read command lines. It runs
with nearly no environment of its own: what a plan gives to a command must mean nothing to a program outside.
"""

from __future__ import annotations

import contextlib
import os
import platform
import re
import shutil
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from ordain.adapters.bash import PLAIN_PATH, Inside
from ordain.adapters.processes import MARK
from ordain.adapters.seccomp import no_sockets

__all__ = ["APART", "MISSING", "proc_words", "started_in", "which_bubblewrap"]

MISSING = "bubblewrap is not installed"

APART = (
    *("--unshare-user", "--unshare-ipc", "--unshare-pid", "--unshare-uts", "--unshare-cgroup-try"),
    # Root keeps its capabilities otherwise, and could mount everything anew.
    *("--cap-drop", "ALL"),
    *("--die-with-parent", "--new-session"),
)
"""Namespaces of its own, but for the network, no capabilities, and no life after ours."""

_NOT_WRITTEN = ("sys", "sysrq-trigger", "irq", "bus", "fs", "acpi", "driver", "scsi", "asound", "mtrr", "pressure")
_NOT_READ = ("kcore", "keys", "key-users", "kmsg", "kallsyms", "kpagecgroup", "kpagecount", "kpageflags", "timer_list")

_ENDING_LOOKS = 50
"""How often, a millisecond apart, it is looked whether the first process of a sandbox has ended."""


def which_bubblewrap(workspace: Path) -> str | None:
    """Where bubblewrap is; never in the workspace, nor where the workspace is meant."""
    parts = [part for part in os.environ.get("PATH", PLAIN_PATH).split(":") if part.startswith("/")]
    safe = [part for part in parts if not Path(os.path.realpath(part)).is_relative_to(workspace)]
    return shutil.which("bwrap", path=":".join(safe)) if safe else None


def proc_words() -> Iterator[str]:
    """A `/proc` of the sandbox's own processes. Much of the rest of it belongs to root, so root could write it, for it
    is about the whole machine; bubblewrap leaves that open where the directory itself cannot be written."""
    yield from ("--proc", "/proc")
    for name in _NOT_WRITTEN:
        if Path("/proc", name).exists():
            yield from ("--ro-bind", f"/proc/{name}", f"/proc/{name}")
    for name in _NOT_READ:
        if Path("/proc", name).exists():
            yield from ("--ro-bind", "/dev/null", f"/proc/{name}")


@contextlib.contextmanager
def started_in(
    program: str, words: Sequence[str], env: Mapping[str, str], *, before: Sequence[str] = (), held: Sequence[int] = ()
) -> Iterator[Inside]:
    """How a command with this environment is started in a sandbox that these words describe. `before` are words that
    come before the command's own in there, `held` are descriptors for them.

    Raises ValueError where nothing is known about keeping sockets shut.
    """
    filter_program = no_sockets(platform.machine())
    if filter_program is None:
        raise ValueError(f"nothing is known about keeping sockets shut on {platform.machine()}")
    given = [word for name, value in env.items() for word in ("--setenv", name, value)]
    with _file(filter_program) as filtering, _file(b"") as status:
        told = [*words, "--seccomp", str(filtering), "--json-status-fd", str(status), "--clearenv", *given]
        with _file(b"\0".join(os.fsencode(word) for word in told)) as arguments, _collected(status):
            yield Inside(
                words=(program, "--args", str(arguments), "--", *before),
                env={"PATH": PLAIN_PATH, MARK: env[MARK]},
                descriptors=(arguments, filtering, status, *held),
                # It tells the exit status of what it ran, and nothing where it came to run nothing.
                began=lambda: b'"exit-code"' in os.pread(status, 4096, 0),
            )


@contextlib.contextmanager
def _collected(status: int) -> Iterator[None]:
    """The first process of a sandbox is an orphan when it has ended, and handed to us where we take orphans. It bears
    no mark then by which it could be found, but bubblewrap has told its number."""
    try:
        yield
    finally:
        told = re.search(rb'"child-pid": *(\d+)', os.pread(status, 4096, 0))
        with contextlib.suppress(ChildProcessError):  # nobody hands us orphans, or it is collected already
            for _ in range(_ENDING_LOOKS):
                if told is None or os.waitpid(int(told.group(1)), os.WNOHANG)[0]:
                    break
                time.sleep(0.001)


@contextlib.contextmanager
def _file(content: bytes) -> Iterator[int]:
    """A file without a name."""
    descriptor = os.memfd_create("ordain")
    try:
        with open(descriptor, "wb", closefd=False) as file:
            file.write(content)
        os.lseek(descriptor, 0, os.SEEK_SET)
        yield descriptor
    finally:
        os.close(descriptor)
