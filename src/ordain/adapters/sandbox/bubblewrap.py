"""Bubblewrap: how it is handed what it is to do, and what it leaves open and we shut.

It is told in a file without a name, for everybody on a machine can read command lines, and has nearly no environment of
its own: what a plan gives to a command must mean nothing to a program outside.
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
import stat
import struct
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from ordain.adapters.process.bash import Inside
from ordain.adapters.process.process import MARK
from ordain.core.policy.sealing import PLAIN_PATH

# --- Seccomp ---------------------------------------------------------------------------------------------------------
# A filter for system calls, as the kernel's BPF machine reads it. Refused are sockets in the file system, io_uring,
# which can make sockets too, and the kernel's keyrings, which no namespace keeps apart; pairs of sockets without a
# connection, which can send to any socket that has a name; and the bits by which a file runs as its owner or group: it
# would still do that outside. A filter does not see the mode that `openat2` is given, so that call is said to be
# missing. Everything else is allowed.


class _Machine(NamedTuple):
    """The kernel's name for a machine, and the numbers of calls there."""

    architecture: int
    socket: int
    pair: int
    """`socketpair`"""
    keys: tuple[int, ...]
    """`add_key`, `request_key`, `keyctl`"""
    mode_second: tuple[int, ...]
    """`chmod`, `fchmod`, `creat` and `mknod`, whose second argument is a mode."""
    mode_third: tuple[int, ...]
    """`fchmodat`, `fchmodat2` and `mknodat`, whose third is."""
    opens: tuple[tuple[int, int], ...]
    """`open` and `openat`, and where their flags are: a mode comes next, which counts only if a file is made."""


_IO_URING_SETUP, _OPENAT2 = 425, 437
_LOAD, _EQUAL, _AT_LEAST, _ANY_BIT, _RETURN, _AND = 0x20, 0x15, 0x35, 0x45, 0x06, 0x54
_NUMBER, _ARCHITECTURE, _FIRST, _SECOND, _THIRD = 0, 4, 16, 24, 32
_MACHINES = {
    "x86_64": _Machine(
        *(0xC000003E, 41, 53, (248, 249, 250), (90, 91, 85, 133), (268, 452, 259)), ((2, _SECOND), (257, _THIRD))
    ),
    "aarch64": _Machine(0xC00000B7, 198, 199, (217, 218, 219), (52,), (53, 452, 33), ((56, _THIRD),)),
}
_X32 = 0x40000000
_UNIX, _INET, _INET6, _NETLINK = 1, 2, 10, 16
_ALLOWED_FAMILIES = (_INET, _INET6, _NETLINK)
"""By netlink programs ask what networks there are."""

_PAIRS = (1, 5)
"""Streams, and those that keep messages apart."""
_KIND = 0xF
"""The part of a socket's type that is no flag."""
_ALLOW, _KILL, _REFUSE, _MISSING = 0x7FFF0000, 0x80000000, 0x00050000 | errno.EACCES, 0x00050000 | errno.ENOSYS
_AS_ANOTHER = stat.S_ISUID | stat.S_ISGID
_MAKES = 0o20000100
"""O_CREAT, and what O_TMPFILE has beside O_DIRECTORY."""

_Instruction = tuple[int, int, int, int]


def no_sockets(machine: str) -> bytes | None:
    """The filter for a machine; None where its calls are not known here."""
    if (known := _MACHINES.get(machine)) is None:
        return None
    return b"".join(struct.pack("=HBBI", *instruction) for instruction in _program(known))


def _program(known: _Machine) -> Iterator[_Instruction]:
    """Each test jumps over no more than what follows from it."""
    yield from ((_LOAD, 0, 0, _ARCHITECTURE), (_EQUAL, 1, 0, known.architecture))
    yield (_RETURN, 0, 0, _KILL)  # another set of calls, such as 32 bit ones
    yield from ((_LOAD, 0, 0, _NUMBER), (_AT_LEAST, 0, 1, _X32), (_RETURN, 0, 0, _REFUSE))
    for call in (_IO_URING_SETUP, *known.keys):
        yield from ((_EQUAL, 0, 1, call), (_RETURN, 0, 0, _REFUSE))
    yield from ((_EQUAL, 0, 1, _OPENAT2), (_RETURN, 0, 0, _MISSING))
    for calls, mode in ((known.mode_second, _SECOND), (known.mode_third, _THIRD)):
        for call in calls:
            yield from ((_EQUAL, 0, 4, call), (_LOAD, 0, 0, mode), (_ANY_BIT, 0, 1, _AS_ANOTHER))
            yield from ((_RETURN, 0, 0, _REFUSE), (_RETURN, 0, 0, _ALLOW))
    for call, flags in known.opens:
        yield from ((_EQUAL, 0, 6, call), (_LOAD, 0, 0, flags), (_ANY_BIT, 0, 3, _MAKES), (_LOAD, 0, 0, flags + 8))
        yield from ((_ANY_BIT, 0, 1, _AS_ANOTHER), (_RETURN, 0, 0, _REFUSE), (_RETURN, 0, 0, _ALLOW))
    yield from ((_EQUAL, 0, 10, known.pair), (_LOAD, 0, 0, _FIRST), (_EQUAL, 1, 0, _UNIX))
    yield from ((_RETURN, 0, 0, _REFUSE), (_LOAD, 0, 0, _SECOND), (_AND, 0, 0, _KIND))
    for kind in _PAIRS:
        yield from ((_EQUAL, 0, 1, kind), (_RETURN, 0, 0, _ALLOW))
    yield (_RETURN, 0, 0, _REFUSE)
    yield from ((_EQUAL, 1, 0, known.socket), (_RETURN, 0, 0, _ALLOW), (_LOAD, 0, 0, _FIRST))
    for family in _ALLOWED_FAMILIES:
        yield from ((_EQUAL, 0, 1, family), (_RETURN, 0, 0, _ALLOW))
    yield (_RETURN, 0, 0, _REFUSE)


# --- Bubblewrap ------------------------------------------------------------------------------------------------------

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


def proc_words() -> Iterator[str]:
    """A `/proc` of the sandbox's own processes. Much of the rest is about the whole machine, and root could write it:
    bubblewrap leaves that open."""
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
    come before the command's own, `held` are descriptors for them. Raises ValueError where sockets cannot be kept shut.
    """
    import platform

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
    """Collect the first process of a sandbox, an orphan without a mark; bubblewrap has told its number."""
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
