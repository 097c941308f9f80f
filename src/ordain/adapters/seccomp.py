"""A filter for system calls, as the kernel's BPF machine reads it: no sockets but those of the network, and no keys.

Sockets in the file system, io_uring, which can make sockets too, and the kernel's keyrings, which no namespace keeps
apart, are refused; everything else is allowed.
"""

from __future__ import annotations

import errno
import socket
import struct

__all__ = ["no_sockets"]

_MACHINES = {"x86_64": (0xC000003E, 41, (248, 249, 250)), "aarch64": (0xC00000B7, 198, (217, 218, 219))}
"""The kernel's name for each machine, the number of the call `socket` there, and those of `add_key`, `request_key` and
`keyctl`."""
_IO_URING_SETUP = 425
_X32 = 0x40000000
_ALLOWED_FAMILIES = (socket.AF_INET, socket.AF_INET6, 16)
"""16 is netlink, by which programs ask what networks there are."""

_LOAD, _EQUAL, _AT_LEAST, _RETURN = 0x20, 0x15, 0x35, 0x06
_NUMBER, _ARCHITECTURE, _FIRST_ARGUMENT = 0, 4, 16
_ALLOW, _KILL, _REFUSE = 0x7FFF0000, 0x80000000, 0x00050000 | errno.EACCES


def no_sockets(machine: str) -> bytes | None:
    """The filter for a machine; None where its calls are not known here."""
    if machine not in _MACHINES:
        return None
    architecture, socket_call, key_calls = _MACHINES[machine]
    families = len(_ALLOWED_FAMILIES)
    never = (_IO_URING_SETUP, *key_calls)
    program = [
        (_LOAD, 0, 0, _ARCHITECTURE),
        (_EQUAL, 1, 0, architecture),
        (_RETURN, 0, 0, _KILL),  # another set of calls, such as 32 bit ones
        (_LOAD, 0, 0, _NUMBER),
        (_AT_LEAST, 2 + len(never) + families, 0, _X32),
        *((_EQUAL, 1 + len(never) - number + families, 0, call) for number, call in enumerate(never)),
        (_EQUAL, 0, 2 + families, socket_call),
        (_LOAD, 0, 0, _FIRST_ARGUMENT),
        *((_EQUAL, families - number, 0, family) for number, family in enumerate(_ALLOWED_FAMILIES)),
        (_RETURN, 0, 0, _REFUSE),
        (_RETURN, 0, 0, _ALLOW),
    ]
    return b"".join(struct.pack("=HBBI", *instruction) for instruction in program)
