"""Statistics as people read them, from 60 columns on: small bars and few numbers; all of it is in the JSON too."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TypeVar

from ordain.core.report.statistics import (
    Contracts,
    Failure,
    KindTime,
    MissingProgram,
    Part,
    Plans,
    Retries,
    Runs,
    Statistics,
    StepTime,
    Time,
)
from ordain.interfaces.view.run import instant
from ordain.interfaces.view.style import Style
from ordain.interfaces.view.text import bar, fitted, packed, padded, shares, visible

ROWS_MAX = 8
"""How many rows a list has; the rest is counted, and is in the JSON."""
WIDTH_MIN = 60

_PARTS = {
    Part.EXECUTING: ("executing", "█", "32"),
    Part.VERIFYING: ("verifying", "▓", "36"),
    Part.PERSON: ("waiting for a person", "▒", "33"),
    Part.WAITING: ("locks, retry delays", "░", "34"),
    Part.STOPPED: ("nobody at work", "╌", "31"),
    Part.BETWEEN: ("between steps", "·", "2"),
}
"""In words, as the character of a bar, and in which colour."""
_STATUS_COLOURS = {"completed": "32", "failed": "31", "rejected": "33", "needs_review": "33", "cancelled": "2"}

T = TypeVar("T")


def statistics_lines(statistics: Statistics, style: Style, width: int) -> Iterator[str]:
    """All that was counted and is not nothing."""
    width = max(width, WIDTH_MIN)
    span = f"since {instant(statistics.since)}" if statistics.since is not None else "from the beginning"
    if statistics.empty:
        if statistics.since is not None:
            yield f"Nothing was proposed or started {span}."
        else:
            yield "Nothing to count yet. Start with: ordain run DOCUMENT"
        return
    yield style.dim(f"Counted {span}.")
    if statistics.plans is not None and statistics.plans.count:
        yield from _plan_lines(statistics.plans, style, width)
    if statistics.runs.count:
        yield from _run_lines(statistics.runs, style, width)
        yield from _time_lines(statistics.time, style, width)
        several = len({one.plan for one in statistics.steps}) > 1
        steps = [(visible(one.id) + f" ({visible(one.plan)})" * several, one) for one in statistics.steps]
        yield from _timed_lines("By step, with attempts", steps, style, width)
        kinds = [(visible(one.kind), one) for one in statistics.kinds]
        yield from _timed_lines("By program or tool, with attempts", kinds, style, width)
        yield from _failure_lines(statistics.failures, style, width)
        yield from _other_lines(statistics, style, width)


def _head(title: str, style: Style) -> Iterator[str]:
    yield ""
    yield style.bold(title)


def packed_lines(items: Iterable[str], width: int, indent: int) -> Iterator[str]:
    yield from (" " * indent + fitted(row, width - indent) for row in packed(items, width - indent))


def listed(
    title: str, found: Sequence[T], lines: Callable[[T], Iterable[str]], verb: str, style: Style
) -> Iterator[str]:
    """A list under its title: its first rows, and how many more there are; nothing where it is empty."""
    if found:
        yield from _head(title, style)
    for one in found[:ROWS_MAX]:
        yield from lines(one)
    if len(found) > ROWS_MAX:
        yield style.dim(f"  … and {len(found) - ROWS_MAX} more: ordain {verb} --json")


def _plan_lines(plans: Plans, style: Style, width: int) -> Iterator[str]:
    yield from _head(f"Plans: {plans.count}", style)
    yield from _counted_lines(plans.by_status, style, width)
    items = []
    if plans.tried:
        items.append(f"completed at first run: {_share(plans.completed_at_first, plans.tried)}")
    counts = {
        "revised": plans.revised,
        "rejections": plans.rejections,
        "expiries": plans.expiries,
        "put away": plans.archived,
    }
    items += [f"{name}: {count}" for name, count in counts.items() if count]
    if plans.to_approval_ms is not None:
        items.append(f"approved after {_length(plans.to_approval_ms)} on average")
    if plans.runs_approved or plans.runs_unasked:
        items.append(f"runs on an approval: {plans.runs_approved}, that needed none: {plans.runs_unasked}")
    wasted = [f"{count} {how}" for how, count in plans.approvals.items() if how != "used"]
    if wasted:
        items.append(f"approvals not used: {', '.join(wasted)}")
    yield from packed_lines(items, width, 2)


def _run_lines(runs: Runs, style: Style, width: int) -> Iterator[str]:
    yield from _head(f"Runs: {runs.count}", style)
    yield from _counted_lines(runs.by_status, style, width)
    took = [f"took {_length(runs.duration_ms)} on average"] if runs.duration_ms is not None else []
    counts_by_name = {
        "reruns": runs.reruns,
        "steps kept": runs.kept,
        "not kept": runs.not_kept,
        "passed unverified": runs.unverified,
        "resumed by another executor": runs.takeovers,
    }
    counts = (f"{name}: {count}" for name, count in counts_by_name.items() if count)
    yield from packed_lines([*took, *counts], width, 2)


def _counted_lines(counted: Mapping[str, int], style: Style, width: int) -> Iterator[str]:
    largest = max(counted.values(), default=0)
    number = len(str(largest))
    for name, count in counted.items():
        made = bar(count, largest, width - 12 - 4 - number)
        colour = _STATUS_COLOURS.get(name)
        yield f"  {name:<12} {count:>{number}} {style(made, colour) if colour is not None else made}"


def _time_lines(time: Time, style: Style, width: int) -> Iterator[str]:
    if not time.total_ms:
        return
    yield from _head(f"Where the time of runs went: {_length(time.total_ms)}", style)
    largest = max(time.parts.values())
    words = max(len(_PARTS[part][0]) for part in time.parts)
    for part, spent in time.parts.items():
        (columns,) = shares([spent], largest, width - 2 - words - 1 - 9 - 6 - 2)
        made = _stretch(part, columns, style)
        yield f"  {_PARTS[part][0]:<{words}} {_length(spent):>8} {_percent(spent, time.total_ms):>5}  {made}"


def _timed_lines(
    title: str, found: Iterable[tuple[str, StepTime | KindTime]], style: Style, width: int
) -> Iterator[str]:
    """Rows with a bar in which each part has its own character, as in the list of parts."""
    rows = [(name, one.time, _tries(one.attempts, one.failures)) for name, one in found if one.time.total_ms]
    shown = rows[:ROWS_MAX]
    largest = max((time.total_ms for _, time, _ in shown), default=0)
    label = min(max((len(name) for name, _, _ in shown), default=0), width * 2 // 5)
    note = max((len(text) for _, _, text in shown), default=0)
    room = max(width - 2 - label - 1 - 8 - 1 - note - 2, 4)

    def lines(row: tuple[str, Time, str]) -> Iterator[str]:
        name, time, text = row
        columns = zip(Part, shares([time.of(part) for part in Part], largest, room), strict=True)
        made = "".join(_stretch(part, count, style) for part, count in columns if count)
        yield f"  {padded(name, label)} {_length(time.total_ms):>8} {style.dim(f'{text:<{note}}')}  {made}"

    yield from listed(title, rows, lines, "stats", style)


def _stretch(part: Part, columns: int, style: Style) -> str:
    return style(_PARTS[part][1] * columns, _PARTS[part][2])


def _tries(attempts: int, failures: int) -> str:
    return f"×{attempts}" + (f", {failures} failed" if failures else "")


def _failure_lines(failures: Sequence[Failure], style: Style, width: int) -> Iterator[str]:
    shown = failures[:ROWS_MAX]
    largest = max((one.count for one in shown), default=0)
    code, number = max((len(one.code) for one in shown), default=0), len(str(largest))

    def lines(one: Failure) -> Iterator[str]:
        made = bar(one.count, largest, max(width - 4 - code - number - 1, 4))
        yield f"  {one.code:<{code}} {one.count:>{number}} {style.bad(made)}"
        then = ", ".join(f"{count} {what}" for what, count in one.then.items())
        ended = ", ".join(f"{count} {what}" for what, count in one.ended.items())
        worst = ", ".join(f"{visible(each.step)} ×{each.count}" for each in one.steps[:3])
        items = [f"then: {then}", f"in the end: {ended}", f"most in: {worst}"]
        yield from map(style.dim, packed_lines(items, width, 4))

    yield from listed(f"Failures by cause: {sum(one.count for one in failures)}", failures, lines, "stats", style)


def _other_lines(statistics: Statistics, style: Style, width: int) -> Iterator[str]:
    yield from _retry_lines(statistics.retries, style, width)

    def missing(one: MissingProgram) -> Iterator[str]:
        name = visible(one.program) if one.program is not None else "(not named)"
        counts = (("command", one.commands), ("contract", one.contracts))
        times = ", ".join(f"{count} {word}{'s' * (count != 1)}" for word, count in counts if count)
        yield f"  {fitted(name, width - 30)}: {times}"

    title = "Programs that were missing or could not be run"
    yield from listed(title, statistics.missing, missing, "stats", style)
    if statistics.doubts.found:
        yield from _head(f"Steps in doubt: {statistics.doubts.found}", style)
        open_ = {"not settled": statistics.doubts.unsettled} if statistics.doubts.unsettled else {}
        items = [f"{how} ×{count}" for how, count in {**statistics.doubts.settled, **open_}.items()]
        yield from packed_lines(items, width, 2)
    if statistics.decisions.asked:
        decisions = statistics.decisions
        yield from _head(f"Questions to people: {decisions.asked}", style)
        items = [f"{answer} ×{count}" for answer, count in decisions.answers.items()]
        waited_ms = decisions.waited_ms
        items += [f"answered after {_length(waited_ms)} on average"] if waited_ms is not None else []
        left = decisions.asked - sum(decisions.answers.values())
        items += [f"without an answer: {left}"] if left else []
        yield from packed_lines(items, width, 2)

    def contract(one: Contracts) -> Iterator[str]:
        items = [f"held ×{one.held}", f"broken ×{one.broken}"]
        items += [f"inconclusive ×{one.inconclusive}"] if one.inconclusive else []
        items += [f"held after a retry ×{one.held_after_retry}"] if one.held_after_retry else []
        items += [f"held without one ×{one.held_same_attempt}"] if one.held_same_attempt else []
        first, *others = packed_lines([f"{visible(one.step)} ({visible(one.plan)})", *items], width, 4)
        yield from (first.removeprefix("  "), *others)

    title = "Contracts that did not hold and then did, in the same run"
    yield from listed(title, statistics.contracts, contract, "stats", style)


def _retry_lines(retries: Retries, style: Style, width: int) -> Iterator[str]:
    if retries.passed_again:
        again = _share(retries.passed_again, retries.passed)
        yield from _head(f"Passes that needed more than one attempt: {again}", style)
        counted = {f"{tries} attempt{'s' * (tries != 1)}": count for tries, count in retries.passes_by_attempts.items()}
        yield from _counted_lines(counted, style, width)


def _length(duration_ms: int) -> str:
    if duration_ms < 1000:
        return f"{duration_ms} ms"
    for size_ms, limit, unit in ((1000, 60, "s"), (60_000, 60, "min"), (3_600_000, 48, "h")):
        if duration_ms < limit * size_ms:
            return f"{duration_ms / size_ms:.1f} {unit}"
    return f"{duration_ms / 86_400_000:.1f} d"


def _share(count: int, total: int) -> str:
    return f"{count} of {total} ({_percent(count, total)})"


def _percent(count: int, total: int) -> str:
    percent = 100 * count / total
    return f"{percent:.0f} %" if percent >= 1 or not count else "<1 %"
