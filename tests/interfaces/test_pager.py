"""The pager: forward, back, jumps and search, and what was not seen; without a terminal. In a real one: test_tmux."""

from __future__ import annotations

from collections.abc import Sequence

from tests.words import Pager

STEPS = 2_122
TEXT = ["Plan: Long", "", *(f"    {number}. step {number}" for number in range(1, STEPS + 1)), "the end"]
ROOM = 23


def read(*keys: str, lines: Sequence[str] = TEXT) -> tuple[int | None, list[str]]:
    """What the pager answers to these keys, and what it wrote, in parts."""
    left, written = list("".join(keys)), []

    def key() -> str:
        return left.pop(0) if left else ""

    rows = list(enumerate(lines))
    return Pager(lambda: (rows, ROOM, 80), len(lines), key, written.append).show(), written


def screen(written: Sequence[str]) -> list[str]:
    """The lines on the screen in the end."""
    text = "".join(written).rpartition("\x1b[2J\x1b[H")[2]
    lines = [line.rpartition("\r\x1b[K")[2] for line in text.split("\n")]
    return lines[-ROOM - 1 : -1]


def test_it_goes_forward_back_and_to_the_question():
    for keys, unseen, first in (
        ("a", len(TEXT) - ROOM, "Plan: Long"),
        ("\r a", len(TEXT) - 3 * ROOM, TEXT[2 * ROOM]),
        (" b a", len(TEXT) - 2 * ROOM, TEXT[ROOM]),
        ("jja", len(TEXT) - ROOM - 2, TEXT[2]),
        ("jjka", len(TEXT) - ROOM - 2, TEXT[1]),
        ("5ja", len(TEXT) - ROOM - 5, TEXT[5]),
        ("G\r", len(TEXT) - 2 * ROOM, TEXT[-ROOM]),
        ("Gga", len(TEXT) - 2 * ROOM, TEXT[0]),
        ("50%a", len(TEXT) - 2 * ROOM, TEXT[len(TEXT) // 2]),
        ("17ga", len(TEXT) - ROOM - 16, TEXT[16]),
        ("1700sa", len(TEXT) - 2 * ROOM, "    1700. step 1700"),
        ("/step 1700\ra", len(TEXT) - 2 * ROOM, "    1700. step 1700"),
        ("/STEP 21\rna", len(TEXT) - ROOM - (210 + 1 - 22), "    210. step 210"),
        ("/step 21\rnNa", len(TEXT) - ROOM - (210 + 1 - 22), "    21. step 21"),
    ):
        answer, written = read(keys)
        if "/" not in keys or "1700" in keys:
            assert answer == unseen, keys
        assert screen(written)[0] == first, keys


def test_who_leaves_answers_nothing():
    for keys in ("q", " q", "Gq", "\x03", "\x04", "", "17"):
        assert read(keys)[0] is None, keys


def test_whoever_read_everything_is_not_told_otherwise():
    short = TEXT[:60]
    answer, written = read("\r\r\r", lines=short)
    assert answer == 0 and "the end; Enter to answer" in "".join(written)
    assert read("Gba", lines=short)[0] == 0


def test_what_is_not_found_moves_nothing():
    for keys, told in (("/nowhere\ra", "no more of: nowhere"), ("9999sa", "no step 9999"), ("xa", "? shows the keys")):
        answer, written = read(keys)
        assert (answer, told in "".join(written)) == (len(TEXT) - ROOM, True)
