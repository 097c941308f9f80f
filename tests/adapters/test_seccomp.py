"""The filter, run by a small machine of our own; the kernel runs it in test_read_only."""

from __future__ import annotations

import struct

import pytest

from ordain.adapters.seccomp import no_sockets

X86, X86_32 = 0xC000003E, 0x40000003
SOCKET, OPEN, URING, X32 = 41, 2, 425, 0x40000000
ADD_KEY, KEYCTL = 248, 250
CHMODS = (90, 91, 268, 452)
ALLOW, KILL, REFUSE = 0x7FFF0000, 0x80000000, 0x0005000D


def answer(number: int, architecture: int, argument: int) -> int:
    program = no_sockets("x86_64")
    assert program is not None
    instructions = list(struct.iter_unpack("=HBBI", program))
    at = value = 0
    while True:
        code, if_true, if_false, operand = instructions[at]
        at += 1
        if code == 0x20:
            value = {0: number, 4: architecture, 16: argument, 24: argument, 32: argument}[operand]
        elif code == 0x06:
            return operand
        else:
            holds = {0x15: value == operand, 0x35: value >= operand, 0x45: bool(value & operand)}[code]
            at += if_true if holds else if_false


@pytest.mark.parametrize(
    ("number", "architecture", "argument", "expected"),
    [
        (OPEN, X86, 0, ALLOW),
        (SOCKET, X86, 1, REFUSE),
        (SOCKET, X86, 2, ALLOW),
        (SOCKET, X86, 10, ALLOW),
        (SOCKET, X86, 16, ALLOW),
        (SOCKET, X86, 40, REFUSE),
        (URING, X86, 0, REFUSE),
        (ADD_KEY, X86, 0, REFUSE),
        (KEYCTL, X86, 0, REFUSE),
        (KEYCTL + 1, X86, 0, ALLOW),
        *((call, X86, 0o755, ALLOW) for call in CHMODS),
        *((call, X86, 0o4755, REFUSE) for call in CHMODS),
        (X32 + SOCKET, X86, 1, REFUSE),
        (OPEN, X86_32, 0, KILL),
    ],
)
def test_answers(number: int, architecture: int, argument: int, expected: int) -> None:
    assert answer(number, architecture, argument) == expected


def test_a_machine_that_is_not_known_has_none() -> None:
    assert no_sockets("riscv64") is None
    assert no_sockets("aarch64") is not None
