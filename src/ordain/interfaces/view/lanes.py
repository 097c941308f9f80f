"""Who waits for whom, drawn with lines: one row a step, lanes beside it, much as `git log --graph` draws commits.

Steps that wait for exactly the same steps share a lane. Above, everything they wait for joins it; below, they hang on
it. So a lane stands for every pair of its sources and its targets, each step has one line coming in at most, and every
pair is drawn exactly once. A line that goes sideways has an arrow at its end; a step that no arrow points to has its
line from above.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from ordain.core.lint.waves import Needs, reading_order
from ordain.core.plan.value import StepId

UP, DOWN, LEFT, RIGHT = 1, 2, 4, 8
_CHARACTERS = {
    0: " ",
    UP | DOWN: "│",
    LEFT | RIGHT: "─",
    UP | DOWN | RIGHT: "├",
    UP | DOWN | LEFT: "┤",
    UP | DOWN | LEFT | RIGHT: "┼",
    DOWN | RIGHT: "╭",
    DOWN | LEFT: "╮",
    UP | RIGHT: "╰",
    UP | LEFT: "╯",
}


class Lane(msgspec.Struct, frozen=True, kw_only=True):
    """Every one of the targets waits for every one of the sources, and for nothing else."""

    sources: tuple[StepId, ...]
    targets: tuple[StepId, ...]


class LaneRow(msgspec.Struct, frozen=True, kw_only=True):
    """One row of the drawing; `step` is None where only lines join or part. The step stands in `column`."""

    cells: tuple[int, ...]
    """For each lane, the sides on which a line leaves the cell."""
    step: StepId | None = None
    column: int = -1
    end: int = -1
    """The column at which a line from the side ends."""

    def text(self, mark: str) -> str:
        """The row in characters, with this mark where the step is."""
        made = ""
        for column, cell in enumerate(self.cells):
            if column == self.end and cell & LEFT:
                made = made[:-1] + "→"
            made += mark if column == self.column else _CHARACTERS[cell]
            made += " " if not cell & RIGHT else "←" if column == self.end else "─"
        return made[:-1]


def lanes(needs: Needs) -> list[Lane]:
    """The lanes of a plan, in the order in which their first step begins."""
    found: dict[frozenset[StepId], list[StepId]] = {}
    order = reading_order(needs)
    for step in order:
        if needs[step]:
            found.setdefault(frozenset(needs[step]), []).append(step)
    position = {step: number for number, step in enumerate(order)}
    return [
        Lane(sources=tuple(sorted(sources, key=position.__getitem__)), targets=tuple(targets))
        for sources, targets in found.items()
    ]


def drawn(needs: Needs) -> list[LaneRow]:
    """The rows of the drawing, every step after those it waits for."""
    return _LaneDrawing(needs).rows


class _LaneDrawing:
    """Rows as they grow. A column is taken by a lane from the row of its first source to that of its last target."""

    def __init__(self, needs: Needs) -> None:
        self.rows: list[LaneRow] = []
        self._columns: list[int | None] = []
        found = lanes(needs)
        self._waiting = [len(lane.targets) for lane in found]
        incoming = {step: number for number, lane in enumerate(found) for step in lane.targets}
        outgoing: dict[StepId, list[int]] = {}
        for number, lane in enumerate(found):
            for step in lane.sources:
                outgoing.setdefault(step, []).append(number)
        for step in reading_order(needs):
            column = self._place(step, incoming.get(step), bool(outgoing.get(step)))
            self._leave(column, outgoing.get(step, ()))

    def _place(self, step: StepId, lane: int | None, goes_on: bool) -> int:
        """Draw a step's own row, with the line that comes in; the column it stands in."""
        down = DOWN if goes_on else 0
        if lane is None:
            column = self._free()
            if self.rows and self.rows[-1].column == column:
                self._add({})  # right below another step it would look as if it waited for that
            self._add({column: down}, step, column)
            return column
        source = self._columns.index(lane)
        self._waiting[lane] -= 1
        if self._waiting[lane] == 0:
            self._columns[source] = None
            self._add({source: UP | down}, step, source)
            return source
        column = self._free()
        self._link(source, column, UP | DOWN, down, step)
        return column

    def _leave(self, column: int, outgoing: Sequence[int]) -> None:
        """Draw the lines that go out of a step: into its own column, to new lanes, and to lanes that are there."""
        fresh = [lane for lane in outgoing if lane not in self._columns]
        if fresh:
            self._take(column, fresh[0])
        there = [lane for lane in outgoing if lane not in fresh]
        for number, lane in enumerate(there, start=1):
            ends = number == len(there) and not fresh
            self._link(column, self._columns.index(lane), UP if ends else UP | DOWN, UP | DOWN)
        for lane in fresh[1:]:
            other = self._free()
            self._link(column, other, UP | DOWN, DOWN)
            self._take(other, lane)

    # --- Cells -----------------------------------------------------------------------------------------------------

    def _free(self) -> int:
        return self._columns.index(None) if None in self._columns else len(self._columns)

    def _take(self, column: int, lane: int) -> None:
        self._columns += [None] * (column + 1 - len(self._columns))
        self._columns[column] = lane

    def _link(self, start: int, end: int, at_start: int, at_end: int, step: StepId | None = None) -> None:
        """A row with a line from one column to another; lanes between them are crossed."""
        toward, back = (RIGHT, LEFT) if start < end else (LEFT, RIGHT)
        cells = {start: at_start | toward, end: at_end | back}
        for column in range(min(start, end) + 1, max(start, end)):
            taken = column < len(self._columns) and self._columns[column] is not None
            cells[column] = LEFT | RIGHT | (UP | DOWN if taken else 0)
        self._add(cells, step, end if step is not None else -1, end)

    def _add(self, cells: dict[int, int], step: StepId | None = None, column: int = -1, end: int = -1) -> None:
        """Add a row: these cells, and lanes that pass."""
        width = max([len(self._columns), *(one + 1 for one in cells)])
        passing = [UP | DOWN if lane is not None else 0 for lane in self._columns] + [0] * width
        made = [cells.get(one, passing[one]) for one in range(width)]
        self.rows.append(LaneRow(cells=tuple(made), step=step, column=column, end=end))
