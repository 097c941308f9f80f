"""The filter, run by a small machine of our own; the kernel runs it in test_read_only."""

from __future__ import annotations

import struct

import pytest

from tests.rows import each
from tests.words import no_sockets

X86, X86_32 = 0xC000003E, 0x40000003
SOCKET, OPEN, URING, X32 = 41, 2, 425, 0x40000000
ADD_KEY, KEYCTL = 248, 250
CHMODS = (90, 91, 268, 452)
ALLOW, KILL, REFUSE = 0x7FFF0000, 0x80000000, 0x0005000D


def answer(number: int, architecture: int, *arguments: int) -> int:
    program = no_sockets("x86_64")
    assert program is not None
    instructions = list(struct.iter_unpack("=HBBI", program))
    at = value = 0
    while True:
        code, if_true, if_false, operand = instructions[at]
        at += 1
        if code == 0x20:
            value = {0: number, 4: architecture, **dict(zip((16, 24, 32, 40), arguments, strict=False))}[operand]
        elif code == 0x54:
            value &= operand
        elif code == 0x06:
            return operand
        else:
            holds = {0x15: value == operand, 0x35: value >= operand, 0x45: bool(value & operand)}[code]
            at += if_true if holds else if_false


@each(
    "number, architecture, argument, expected",
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
    assert answer(number, architecture, argument, argument, argument) == expected


CREAT, OPENAT, OPENAT2, MKNOD, MKNODAT, PAIR = 85, 257, 437, 133, 259, 53
O_CREAT, O_TMPFILE, CLOEXEC = 0o100, 0o20200000, 0o2000000


@pytest.mark.parametrize("mode", [0o4755, 0o2755, 0o6000])
def test_no_file_is_made_that_runs_as_another(mode: int) -> None:
    made = [(OPEN, 0, O_CREAT, mode), (OPEN, 0, O_TMPFILE, mode), (OPENAT, 0, 0, O_CREAT | CLOEXEC, mode)]
    made += [(CREAT, 0, mode), (MKNOD, 0, mode), (MKNODAT, 0, 0, mode), *((call, mode, mode, mode) for call in CHMODS)]
    assert [answer(number, X86, *arguments) for number, *arguments in made] == [REFUSE] * len(made)
    plain = [(number, *(0o755 if one == mode else one for one in arguments)) for number, *arguments in made]
    assert [answer(number, X86, *arguments) for number, *arguments in plain] == [ALLOW] * len(made)
    # Without a file to make, whatever stands in the place of a mode means nothing.
    assert answer(OPEN, X86, 0, 0, mode) == answer(OPENAT, X86, 0, 0, CLOEXEC, mode) == ALLOW
    assert answer(OPENAT2, X86, 0, 0, 0) == 0x00050026  # there is no such call


@each(
    "family, kind, expected",
    [
        (1, 1, ALLOW), (1, 1 | CLOEXEC, ALLOW), (1, 5, ALLOW), (1, 2, REFUSE), (1, 2 | CLOEXEC, REFUSE), (1, 3, REFUSE),
        (2, 1, REFUSE), (30, 2, REFUSE),
    ],
)  # fmt: skip
def test_pairs_of_sockets_are_connected(family: int, kind: int, expected: int) -> None:
    assert answer(PAIR, X86, family, kind, 0) == expected


def test_a_machine_that_is_not_known_has_none() -> None:
    assert no_sockets("riscv64") is None
    assert no_sockets("aarch64") is not None
