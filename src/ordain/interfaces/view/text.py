"""Text that cannot deceive: what a terminal would hide, move, colour or reorder is shown as an escape instead. Writing
that people use (emoji, Persian, Indic scripts) stays readable: a joiner between letters that join is spelling."""

from __future__ import annotations

import json
import unicodedata
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate
from typing import assert_never

from ordain.core.plan import condition as conditions
from ordain.core.plan.model import ForEach
from ordain.core.plan.words import write_duration
from ordain.core.text.confusable import confusable_places, is_hidden, spelling_places

_MARK = "‹"


def visible(text: str, *, exact: bool | None = None) -> str:
    """The text on one line, with every character that a terminal would not plainly show, or that passes for another
    (`core.confusable`), written as `‹U+200B›`. `exact` says that it is a command, a path, an address or a name.

    The opening mark itself is written so too: two different texts never look the same because of an escape.
    """
    if text.isascii() and text.isprintable():
        return text
    out: list[str] = []
    passing, spelling = confusable_places(text, exact=exact), spelling_places(text)
    for index, character in enumerate(text):
        if index not in spelling and (character == _MARK or index in passing or is_hidden(character)):
            out.append(f"{_MARK}U+{ord(character):X}›")
        else:
            out.append(character)
    return "".join(out)


def cells(text: str) -> int:
    """How many columns of a terminal a visible text takes, at most."""
    if text.isascii():
        return len(text)
    return sum(2 if unicodedata.east_asian_width(character) in "WF" else 1 for character in text)


# --- Words -----------------------------------------------------------------------------------------------------------
# Conditions in words, with every value that they hold; whoever reads them has read the condition.


def condition_words(condition: conditions.Precondition) -> str:
    """A condition as a sentence without its full stop."""
    match condition:
        case conditions.PaneExists(pane_id=pane):
            return f"pane {pane} exists"
        case conditions.PaneState(pane_id=pane, expected_agent=agent, expected_domain=domain):
            both = (("agent", agent), ("domain", domain))
            wanted = [f"{word} {json.dumps(value, ensure_ascii=False)}" for word, value in both if value is not None]
            return f"pane {pane} has {' and '.join(wanted)}" if wanted else f"pane {pane} is in its state"
        case conditions.PatternMatched(rule_id=rule, pane_id=pane, within_ms=within):
            time = f" within {write_duration(within)}" if within is not None else ""
            return f"the pattern {rule} was seen{_in_pane(pane)}{time}"
        case conditions.PatternNotMatched(rule_id=rule, pane_id=pane):
            return f"the pattern {rule} is not seen{_in_pane(pane)}"
        case conditions.LockHeld(lock_name=name):
            return f"the lock {name} is held"
        case conditions.LockAvailable(lock_name=name):
            return f"the lock {name} is free"
        case conditions.ApprovalValid(scope=scope):
            workspace = f" in workspace {scope.workspace_id}" if scope.workspace_id is not None else ""
            return f"an approval covers {scope.action_kind}{_in_pane(scope.pane_id)}{workspace}"
        case conditions.StepCompleted(step_id=step):
            return f"the step {step} is completed"
        case conditions.CustomCondition(name=name, expression=expression):
            return f"{json.dumps(name, ensure_ascii=False)}: {expression}"
        case _ as never:
            assert_never(never)


def repeat_words(each: ForEach) -> str:
    """For what a step is repeated, with every bound that there is."""
    name = each.name or "item"
    what = f"{name} of {each.source}" if each.batch is None else f"{each.batch} of {each.source}, together as {name}"
    at_once = f", {each.concurrency} at once" if each.concurrency is not None else ""
    return f"{what}, at most {each.max:,}{at_once}"


def _in_pane(pane: int | None) -> str:
    return f" in pane {pane}" if pane is not None else ""


def label_rows(*pairs: tuple[str, str | None], indent: int = 7, width: int = 12) -> Iterator[str]:
    """What there is, each behind its label."""
    return (f"{'':{indent}}{label + ':':<{width - 1}} {text}" for label, text in pairs if text is not None)


# --- Rows of so many columns ------------------------------------------------------------------------------------------

_EIGHTHS = " ▏▎▍▌▋▊▉"


def fitted(text: str, room: int) -> str:
    """A text that fits into so many columns; what does not is cut, with a mark."""
    ends = list(accumulate(map(cells, text)))
    if not ends or ends[-1] <= room:
        return text
    return text[: bisect_right(ends, max(room, 1) - 1)] + "…"


def counted(number: int, noun: str) -> str:
    return f"{number} {noun}{'s' * (number != 1)}"


def padded(text: str, room: int) -> str:
    """A text in exactly so many columns."""
    short = fitted(text, room)
    return short + " " * (room - cells(short))


def packed(items: Iterable[str], room: int) -> Iterator[str]:
    """Short texts side by side, in as many rows as they need; one that is too long for a row has its own."""
    row = ""
    for text in items:
        if row and cells(row) + 3 + cells(text) > room:
            yield row
            row = ""
        row = f"{row} · {text}" if row else text
    if row:
        yield row


def bar(count: int, largest: int, room: int) -> str:
    """A bar as long as the count is part of the largest; something is always seen of what is not nothing."""
    eighths = round(8 * room * count / largest) if largest else 0
    whole, rest = divmod(max(eighths, 1 if count else 0), 8)
    return "█" * whole + (_EIGHTHS[rest] if rest else "")


def shares(counts: Sequence[int], largest: int, room: int) -> tuple[int, ...]:
    """How many columns each count has in one bar, which is as long as their sum is part of the largest."""
    total = sum(counts)
    if not total or not largest:
        return (0,) * len(counts)
    length = max(round(room * total / largest), 1)
    made = [length * count // total for count in counts]
    by_rest = sorted(range(len(counts)), key=lambda number: (-(length * counts[number] % total), number))
    for number in by_rest[: length - sum(made)]:
        made[number] += 1
    return tuple(made)
