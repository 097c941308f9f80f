"""A run on a terminal while it goes on: an observer that folds what it is told and draws how things stand.

The region is drawn ten times a second at most, and waits for no terminal: who has stopped it (Ctrl-S) stops no run.
Between two texts the cursor stands, visible, at the beginning of the line below the region, so that there is nothing to
restore, not even after a kill. Within one text the terminal is asked not to wrap lines, so that a character that is
wider than we think does no harm.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import time
from collections import deque
from collections.abc import Callable, Sequence
from types import FrameType
from typing import TYPE_CHECKING, TextIO

from ordain.core.plan.value import Instant, RunId, StepId
from ordain.core.report.progress import Told
from ordain.core.run.event import Recorded, RunEvent
from ordain.core.run.run_state import RunState
from ordain.core.run.state import apply
from ordain.interfaces.view.event import Weight, change_of
from ordain.interfaces.view.frame import Line, frame, last_lines
from ordain.interfaces.view.style import Style
from ordain.interfaces.view.text import cells

if TYPE_CHECKING:
    import asyncio

APART_S = 0.1
"""How much time is between two drawings, at least."""
FIRST_S = 0.2
"""When it is drawn first: a run that is over by then needs no region."""
TICK_S = 1.0
"""How often it is drawn although nothing has happened, for time passes."""
FEW_STEPS = 50
"""Up to how many steps each gets a line that stays when it is done. Of more, only what went otherwise does: the report
names them all."""
LINES_A_SECOND = 10
"""How many such lines there are in a second, so that nobody's terminal scrolls away."""


_BEGIN = "\x1b[?2026h\x1b[?25l"
_END = "\x1b[?25h\x1b[?2026l"
_NO_WRAP, _WRAP = "\x1b[?7l", "\x1b[?7h"
_ERASE_LINE, _ERASE_BELOW = "\x1b[K", "\x1b[J"


class Region:
    """What is on the screen, as far as we have drawn it, and lines above it that stay."""

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


class LiveView:
    """Draws one run to one terminal. `state_of` folds a run as it is recorded when the first event of it comes."""

    def __init__(
        self,
        stream: TextIO,
        style: Style,
        state_of: Callable[[RunId], RunState],
        *,
        colour: bool,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._stream, self._style, self._state_of, self._clock = stream, style, state_of, clock
        self._region = Region(colour=colour)
        self._state: RunState | None = None
        self._tails: dict[StepId, tuple[int, tuple[str, ...]]] = {}
        """Of steps that have written something: of which attempt, and the last lines of it."""
        self._above: list[str] = []
        """Lines that are to stay and are not yet written."""
        self._left_out = 0
        self._written: deque[float] = deque(maxlen=LINES_A_SECOND)
        """When the last lines came that were not left out."""
        self._loop: asyncio.AbstractEventLoop | None = None
        self._next: asyncio.TimerHandle | None = None
        self._soon = False
        """Whether the next drawing is because something happened, and not for time alone."""
        self._drawn_at = 0.0
        self._before: Callable[[int, FrameType | None], object] | int | None = None
        """What was done before about being continued after a stop."""
        self._gone = False

    def __enter__(self) -> LiveView:
        return self

    def __exit__(self, *_: object) -> None:
        """Leave the terminal with the lines that stay, and no region."""
        if self._next is not None:
            self._next.cancel()
        if self._before is not None:
            signal.signal(signal.SIGCONT, self._before)
        self._loop = None
        self._write((), self._size()[0])

    def __call__(self, told: Told) -> None:
        """Fold what happened, and have it drawn soon."""
        if self._loop is None:
            self._begin()
        if isinstance(told, Recorded):
            self._fold(told)
        else:
            self._tails[told.step] = (told.attempt, last_lines(told.tail))
        self._wake()

    def note(self, line: str) -> None:
        """Show a line above the region, for good."""
        self._above.append(line)
        if self._loop is not None:
            self._wake()
        else:
            self._write((), self._size()[0])

    # --- What happened ---------------------------------------------------------------------------------------------

    def _fold(self, recorded: Recorded) -> None:
        if self._state is None:
            self._state = self._state_of(RunId(recorded.stream.removeprefix("run/")))
        if recorded.seq > self._state.size and isinstance(recorded.event, RunEvent):
            apply(self._state, recorded.event, recorded.at)
        change = change_of(recorded, self._style)
        if change is None or change.weight is Weight.PASSING:
            return
        few = len(self._state.steps) <= FEW_STEPS
        if few or (change.weight is Weight.NOTABLE and self._may_stay()):
            self._above.append(f"  {change.text}")
        elif change.weight is Weight.NOTABLE:
            self._left_out += 1

    def _may_stay(self) -> bool:
        now = self._clock()
        if len(self._written) == LINES_A_SECOND and now - self._written[0] < 1:
            return False
        self._written.append(now)
        return True

    # --- Drawing ---------------------------------------------------------------------------------------------------

    def _begin(self) -> None:
        import asyncio

        self._loop = asyncio.get_running_loop()
        self._drawn_at = self._loop.time() + FIRST_S - APART_S
        with contextlib.suppress(ValueError, RuntimeError, NotImplementedError):  # not in the main thread
            self._loop.add_signal_handler(signal.SIGWINCH, self._wake)
            # After a stop (Ctrl-Z) a shell has written to the terminal. Not by way of the loop, where a drawing that is
            # due would come first.
            self._before = signal.signal(signal.SIGCONT, lambda *_: self._region.forget())

    def _ours(self) -> bool:
        """Whether the terminal takes something, and nobody has put us into the background there."""
        if not select.select([], [self._stream], [], 0)[1]:
            return False
        try:
            return os.tcgetpgrp(self._stream.fileno()) == os.getpgrp()
        except OSError:  # it is not the terminal that we were started from
            return True

    def _wake(self) -> None:
        if self._soon or self._loop is None:
            return
        self._soon = True
        if self._next is not None:
            self._next.cancel()
        self._next = self._loop.call_at(max(self._loop.time(), self._drawn_at + APART_S), self._draw)

    def _draw(self) -> None:
        if self._loop is None or self._gone:
            return
        self._soon, self._drawn_at = False, self._loop.time()
        if not self._ours():
            self._wake()  # later
            return
        self._next = self._loop.call_later(TICK_S, self._draw)
        if self._state is None:
            return
        if self._left_out and self._may_stay():
            self._above.append(self._style.dim(f"  … and {self._left_out:,} more like that; the report names them"))
            self._left_out = 0
        columns, rows = self._size()
        self._write(self._lines(self._state, columns, rows), columns)

    def _lines(self, state: RunState, columns: int, rows: int) -> list[Line]:
        tails = {}
        for step in state.active:
            attempt, lines = self._tails.get(step, (0, ()))
            if attempt == state.steps[step].attempts:
                tails[step] = lines
        # One row less: the cursor's own, below the region.
        return frame(state, tails, Instant(int(self._clock() * 1000)), columns, max(1, rows - 1))

    def _write(self, lines: Sequence[Line], columns: int) -> None:
        above, self._above = self._above, []
        text = self._region.draw(lines, columns, above)
        if not text or self._gone:
            return
        try:
            self._stream.write(text)
            self._stream.flush()
        except (OSError, ValueError):  # nobody is left to see it, which changes nothing for the run
            self._gone = True

    def _size(self) -> tuple[int, int]:
        try:
            columns, rows = os.get_terminal_size(self._stream.fileno())
        except OSError:
            columns, rows = 0, 0
        return columns or 80, rows or 24
