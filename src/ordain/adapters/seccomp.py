"""A filter for system calls, as the kernel's BPF machine reads it: no sockets but those of the network, no keys, and no
programs that run as their owner.

Sockets in the file system, io_uring, which can make sockets too, and the kernel's keyrings, which no namespace keeps
apart, are refused. So is setting the bit by which a file runs as its owner: it would still do that outside. Everything
else is allowed.
"""

from __future__ import annotations

import errno
import socket
import stat
import struct
from collections.abc import Iterator
from typing import NamedTuple

__all__ = ["no_sockets"]


class _Machine(NamedTuple):
    """The kernel's name for a machine, and the numbers of calls there."""

    architecture: int
    socket: int
    keys: tuple[int, ...]
    """`add_key`, `request_key`, `keyctl`"""
    mode_second: tuple[int, ...]
    """`chmod` and `fchmod`, whose second argument is a mode."""
    mode_third: tuple[int, ...]
    """`fchmodat` and `fchmodat2`, whose third is."""


_MACHINES = {
    "x86_64": _Machine(0xC000003E, 41, (248, 249, 250), (90, 91), (268, 452)),
    "aarch64": _Machine(0xC00000B7, 198, (217, 218, 219), (52,), (53, 452)),
}
_IO_URING_SETUP = 425
_X32 = 0x40000000
_ALLOWED_FAMILIES = (socket.AF_INET, socket.AF_INET6, 16)
"""16 is netlink, by which programs ask what networks there are."""

_LOAD, _EQUAL, _AT_LEAST, _ANY_BIT, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
_NUMBER, _ARCHITECTURE, _FIRST, _SECOND, _THIRD = 0, 4, 16, 24, 32
_ALLOW, _KILL, _REFUSE = 0x7FFF0000, 0x80000000, 0x00050000 | errno.EACCES

_Instruction = tuple[int, int, int, int]


def no_sockets(machine: str) -> bytes | None:
    """The filter for a machine; None where its calls are not known here."""
    known = _MACHINES.get(machine)
    if known is None:
        return None
    return b"".join(struct.pack("=HBBI", *instruction) for instruction in _program(known))


def _program(known: _Machine) -> Iterator[_Instruction]:
    """Each test jumps over no more than what follows from it."""
    yield from ((_LOAD, 0, 0, _ARCHITECTURE), (_EQUAL, 1, 0, known.architecture))
    yield (_RETURN, 0, 0, _KILL)  # another set of calls, such as 32 bit ones
    yield from ((_LOAD, 0, 0, _NUMBER), (_AT_LEAST, 0, 1, _X32), (_RETURN, 0, 0, _REFUSE))
    for call in (_IO_URING_SETUP, *known.keys):
        yield from ((_EQUAL, 0, 1, call), (_RETURN, 0, 0, _REFUSE))
    for calls, mode in ((known.mode_second, _SECOND), (known.mode_third, _THIRD)):
        for call in calls:
            yield from ((_EQUAL, 0, 4, call), (_LOAD, 0, 0, mode), (_ANY_BIT, 0, 1, stat.S_ISUID))
            yield from ((_RETURN, 0, 0, _REFUSE), (_RETURN, 0, 0, _ALLOW))
    yield from ((_EQUAL, 1, 0, known.socket), (_RETURN, 0, 0, _ALLOW), (_LOAD, 0, 0, _FIRST))
    for family in _ALLOWED_FAMILIES:
        yield from ((_EQUAL, 0, 1, family), (_RETURN, 0, 0, _ALLOW))
    yield (_RETURN, 0, 0, _REFUSE)
