"""What an approver sees first: what a plan consists of, and what to look at in it, worst first. All of it fits on a
screen of 80×24, whatever the plan holds."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from ordain.core.plan.action import CallTool
from ordain.core.plan.model import all_steps, contract_of, nested_plan_of
from ordain.core.policy.effect import LOOKS
from ordain.core.report.report import Review
from ordain.core.report.risk import KINDS, PLACES_MAX, PlanRisk, RiskPlace
from ordain.interfaces.view.style import Style
from ordain.interfaces.view.text import cells, fitted, packed, visible

ROW = 78
"""How many columns a row of this has at most, so that it stays one row on every usual terminal."""
_LINES_MAX, _ROWS_MAX = 7, 13
"""How many lines of the plan are shown, and how many rows there are in all below the heading."""
_LINES_MIN = 2
_COUNTED = (
    ("command", "command"), ("edit", "edit"), ("write", "write"), ("move", "move"), ("delete", "deletion"),
    ("request", "request"), ("call", "tool call"), ("agent", "agent task"), ("pane", "text typed into a pane"),
    ("question", "question"), ("read", "read"), ("action", "other step"),
)  # fmt: skip
"""Kinds of steps, and what one of them is called."""


def count_line(review: Review) -> str:
    """What a plan consists of, in one line."""
    steps = [step for step in all_steps(review.plan) if nested_plan_of(step) is None]
    nested = sum(nested_plan_of(step) is not None for step in all_steps(review.plan))
    acting = (effect for effect in review.effects if effect.kind not in LOOKS)
    kinds = Counter[str]()
    for step, effect in zip(all_steps(review.plan), acting, strict=True):
        if nested_plan_of(step) is not None:
            continue
        edits = isinstance(step.action, CallTool) and step.action.tool == "edit_file"
        kinds["edit" if edits else "question" if step.action.about.waits == "person" else effect.kind] += 1
    made = ", ".join(_count(kinds[kind], word) for kind, word in _COUNTED if kinds[kind])
    verified = sum(contract_of(step) is not None for step in steps)
    parts = [f"{verified} verified by contracts"] if verified else ["none verified by a contract"]
    if nested:
        parts.append(_count(nested, "nested plan"))
    if review.plan.fallbacks:
        parts.append(_count(len(review.plan.fallbacks), "fallback"))
    return f"{_count(len(steps), 'step')}: {made}; {', '.join(parts)}"


def risk_lines(risks: Sequence[PlanRisk], style: Style) -> Iterator[str]:
    """The worst lines of a plan, and every kind of risk with its count and first places."""
    if not risks:
        yield f"  {style.bold('Look at these:')} nothing stands out, which proves nothing"
        return
    yield f"  {style.bold('Look at these:')}"
    rows: list[str] = []
    for named in range(PLACES_MAX, -1, -1):  # fewer places where there are many kinds: all kinds stay on the screen
        rows = list(packed((_kind_words(one, named) for one in risks), ROW - 4))
        if len(rows) <= _ROWS_MAX - _LINES_MIN:
            break
    room = max(min(_LINES_MAX, _ROWS_MAX - len(rows)), _LINES_MIN)
    for kind, place in _worst(risks):
        shown = list(_place_rows(kind, place, style))
        room -= len(shown)
        if room < 0:
            break
        yield from shown
    yield from (f"    {row}" for row in rows)


def _worst(risks: Sequence[PlanRisk]) -> list[tuple[str, RiskPlace]]:
    """The places to show, each once, for the worst of its kinds; the worst of every kind before the others."""
    worst: dict[tuple[str, str, str], tuple[str, RiskPlace]] = {}
    found: dict[tuple[str, str, str], None] = {}
    shown = [one for one in risks if KINDS[one.kind].shown]
    for one in shown:
        for place in one.places:
            worst.setdefault(_key(place), (one.kind, place))
    for asks in (True, False):
        for at in range(PLACES_MAX):
            for one in shown:
                if KINDS[one.kind].asks is asks and at < len(one.places):
                    found.setdefault(_key(one.places[at]))
    return [worst[key] for key in found]


def _key(place: RiskPlace) -> tuple[str, str, str]:
    return place.step, place.part, "" if place.step else place.line


def _place_rows(kind: str, place: RiskPlace, style: Style) -> Iterator[str]:
    """One place: its line behind what it risks, or below it where both do not fit."""
    asks = KINDS[kind].asks
    head = f"{place_words(place, whole=True)}{KINDS[kind].phrase}: "
    sign, room = style.bad("!") if asks else style.warn("·"), ROW - 6 - cells(head)
    if cells(place.line[place.start : place.end]) + 2 > room:
        yield f"    {sign} {head.rstrip()}"
        sign, head, room = " ", "  ", ROW - 8
    before, risky, after = _cut(place, room)
    yield f"    {sign} {head}{before}{style.bad(risky) if asks and risky else risky}{after}"


def _cut(place: RiskPlace, room: int) -> tuple[str, str, str]:
    """A line in so many columns, before, in and after its risky part, whose ends are never cut off."""
    before, risky, after = (
        visible(" ⏎ ".join(part.split("\n")), exact=True)
        for part in (place.line[: place.start], place.line[place.start : place.end], place.line[place.end :])
    )
    if not risky:
        return "", "", fitted(after, room)
    if cells(risky) > room:
        half = (room - 3) // 2
        return "", f"{fitted(risky, half)} {_end(risky, half)}", ""
    spare = room - cells(risky)
    left = min(cells(before), max(spare // 3, spare - cells(after)))
    return _end(before, left), risky, fitted(after, spare - left) if spare > left else ""


def _end(text: str, room: int) -> str:
    """The end of a text, with a mark where something before it is left out."""
    return fitted(text[::-1], room)[::-1] if room > 0 else ""


def place_words(place: RiskPlace, *, whole: bool = False) -> str:
    """A place in short; `whole` as the beginning of a line."""
    name = place.number or visible(place.step)
    if not whole:
        return name or visible(fitted(place.part, 24))
    part = f" {place.part}" if place.part and place.step else ""
    return f"step {name}{part} " if name else ""


def _kind_words(one: PlanRisk, named: int) -> str:
    names = list(dict.fromkeys(filter(None, map(place_words, one.places))))
    more = ", …" if names and one.kind != "loop" and (one.count > len(one.places) or len(names) > named) else ""
    names = names[: max(named, int(KINDS[one.kind].asks))]
    return f"{KINDS[one.kind].phrase} {one.count:,}" + (f" ({', '.join(names)}{more})" if names else "")


def risk_names(risks: Iterable[PlanRisk]) -> str:
    """The kinds that want more than a yes, in a sentence."""
    return ", ".join(KINDS[one.kind].phrase for one in risks if KINDS[one.kind].asks)


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'s' * (number != 1)}"
