"""A region at the bottom of a terminal that is drawn again and again, and lines above it that stay.

Pure: lines in, the text to be written out. Between two texts the cursor stands, visible, at the beginning of the line
below the region; so whoever comes next, a shell or an error, writes below it, and there is nothing to restore, not even
after a kill. Only lines that changed are written. Within one text the terminal is asked to show nothing before its end,
and not to wrap lines, so that a character that is wider than we think does no harm.
"""

from __future__ import annotations

from collections.abc import Sequence

from ordain.interfaces.view.frame import Line
from ordain.interfaces.view.text import cells

_BEGIN = "\x1b[?2026h\x1b[?25l"
_END = "\x1b[?25h\x1b[?2026l"
_NO_WRAP, _WRAP = "\x1b[?7l", "\x1b[?7h"
_ERASE_LINE, _ERASE_BELOW = "\x1b[K", "\x1b[J"


class Region:
    """What is on the screen, as far as we have drawn it."""

    def __init__(self, *, colour: bool) -> None:
        self._colour = colour
        self._drawn: list[str] = []
        self._widths: list[int] = []
        self._columns = 0

    def draw(self, lines: Sequence[Line], columns: int, above: Sequence[str] = ()) -> str:
        """What makes these lines the region's, and these others stand above it for good; empty where that is so."""
        painted = [self._painted(line) for line in lines]
        anew = bool(above) or columns != self._columns
        if not anew and painted == self._drawn:
            return ""
        if not painted and not self._drawn:
            return "".join(f"{line}\n" for line in above)
        parts = [_BEGIN, "\r", self._up(columns)]
        if anew:
            parts.append(_ERASE_BELOW)
            parts += [f"{line}\r\n" for line in above]
        parts.append(_NO_WRAP)
        for number, line in enumerate(painted):
            same = not anew and number < len(self._drawn) and self._drawn[number] == line
            parts.append("\r\n" if same else f"{_ERASE_LINE}{line}\r\n")
        parts += [_ERASE_BELOW, _WRAP, _END]
        self._drawn, self._columns = painted, columns
        self._widths = [sum(cells(text) for text, _ in line) for line in lines]
        return "".join(parts)

    def forget(self) -> None:
        """Somebody else has written since: what was drawn stays where it is, and the next region begins below."""
        self._drawn, self._widths, self._columns = [], [], 0

    def _up(self, columns: int) -> str:
        """To the region's first line. Where the terminal has become narrower, it has broken our lines in two."""
        rows = sum(max(1, -(-width // columns)) for width in self._widths) if columns > 0 else len(self._widths)
        return f"\x1b[{rows}A" if rows else ""

    def _painted(self, line: Line) -> str:
        return "".join(f"\x1b[{code}m{text}\x1b[0m" if code and text and self._colour else text for text, code in line)
