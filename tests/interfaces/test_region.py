"""What is written to a terminal so that a region is drawn again and again: a small terminal shows what comes of it."""

from __future__ import annotations

import re

from hypothesis import given
from hypothesis import strategies as st

from tests.words import Line, Region, Span

_PART = re.compile(r"\x1b\[(\??)([0-9]*)([A-Za-z])|\r|\n|[^\x1b\r\n]")


class Screen:
    """As much of a terminal as a region needs; anything else is an error. Lines that scrolled away are kept."""

    def __init__(self, columns: int, rows: int) -> None:
        self.columns, self.rows = columns, rows
        self.lines = [""]
        self.row = self.column = 0
        self.modes = {"25": True, "7": True, "2026": False}

    def write(self, text: str) -> None:
        at = 0
        while at < len(text):
            found = _PART.match(text, at)
            assert found is not None, f"{text[at:]!r} is no sequence that a region needs"
            at = found.end()
            self._do(found)

    def shown(self) -> list[str]:
        return [line.rstrip() for line in self.lines]

    def _do(self, found: re.Match[str]) -> None:
        private, number, letter = found.groups()
        top = max(0, len(self.lines) - self.rows)
        match letter:
            case None if found[0] == "\r":
                self.column = 0
            case None if found[0] == "\n":
                self.row, self.column = self.row + 1, 0  # as a terminal is set up: every line begins at its beginning
                self.lines += [""] * (self.row + 1 - len(self.lines))
            case None:
                self._put(found[0])
            case "h" | "l" if private:
                self.modes[number] = letter == "h"
            case "A":
                self.row = max(top, self.row - int(number))
            case "K":
                self.lines[self.row] = self.lines[self.row][: self.column]
            case "J":
                self.lines[self.row] = self.lines[self.row][: self.column]
                self.lines[self.row + 1 :] = []
            case "m":
                pass
            case _:
                raise AssertionError(f"{found[0]!r} is no sequence that a region needs")

    def _put(self, character: str) -> None:
        if self.column == self.columns:
            if not self.modes["7"]:
                return
            self.row, self.column = self.row + 1, 0
            self.lines += [""] * (self.row + 1 - len(self.lines))
        line = self.lines[self.row].ljust(self.column)
        self.lines[self.row] = line[: self.column] + character + line[self.column + 1 :]
        self.column += 1


def region(*texts: str) -> list[Line]:
    return [(Span(text[:1], "31"), Span(text[1:])) for text in texts]


TEXTS = st.lists(st.text(alphabet="abc ", max_size=10), max_size=7)


@given(st.lists(st.tuples(TEXTS, TEXTS), max_size=12), st.booleans())
def test_the_screen_shows_the_lines_that_stay_and_the_last_region(
    drawings: list[tuple[list[str], list[str]]], colour: bool
) -> None:
    screen, drawn, stays = Screen(columns=10, rows=8), Region(colour=colour), []
    for lines, above in drawings:
        screen.write(drawn.draw(region(*lines), 10, above))
        stays += above
        assert screen.shown() == [line.rstrip() for line in (*stays, *lines, "")]
        assert (screen.row, screen.column) == (len(stays) + len(lines), 0)
        assert screen.modes == {"25": True, "7": True, "2026": False}, "left as it was found, each time"
    screen.write(drawn.draw((), 10))
    assert screen.shown() == [*(line.rstrip() for line in stays), ""]


def test_only_what_changed_is_written() -> None:
    drawn = Region(colour=False)
    drawn.draw(region("one", "two", "three"), 20)
    assert drawn.draw(region("one", "two", "three"), 20) == ""
    text = drawn.draw(region("one", "TWO", "three"), 20)
    assert "TWO" in text and "one" not in text and "three" not in text
    assert (text.startswith("\x1b[?2026h"), text.endswith("\x1b[?2026l")) == (True, True), "shown all at once"


def test_lines_alone_are_written_without_any_sequence() -> None:
    assert Region(colour=True).draw((), 20, ["one", "two"]) == "one\ntwo\n"


def test_a_line_above_that_is_too_long_is_wrapped_and_not_cut() -> None:
    screen, drawn = Screen(columns=10, rows=8), Region(colour=False)
    screen.write(drawn.draw(region("region"), 10))
    screen.write(drawn.draw(region("region"), 10, ["a long line above"]))
    assert screen.shown() == ["a long lin", "e above", "region", ""]


def test_a_narrower_terminal_is_drawn_anew_from_where_the_region_now_begins() -> None:
    screen, drawn = Screen(columns=10, rows=8), Region(colour=False)
    screen.write(drawn.draw(region("0123456789", "ab"), 10, ["stays"]))
    # What terminals do when they become half as wide.
    screen.columns, screen.lines, screen.row = 5, ["stays", "01234", "56789", "ab", ""], 4
    screen.write(drawn.draw(region("0123…", "ab"), 5))
    assert screen.shown() == ["stays", "0123…", "ab", ""]


def test_after_somebody_else_has_written_the_region_begins_below() -> None:
    screen, drawn = Screen(columns=20, rows=8), Region(colour=False)
    screen.write(drawn.draw(region("region"), 20))
    screen.write("[1]+  Stopped\r\n")
    drawn.forget()
    screen.write(drawn.draw(region("region"), 20))
    assert screen.shown() == ["region", "[1]+  Stopped", "region", ""]
