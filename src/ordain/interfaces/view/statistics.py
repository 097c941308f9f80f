"""Statistics as people read them: small bars and few numbers, each of which is in the JSON too.

Nothing depends on colour, and everything fits into the width that is given, from 60 columns on.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from ordain.core.report.statistics import (
    Contracts,
    Failure,
    Part,
    Plans,
    Retries,
    Runs,
    Statistics,
    Time,
)
from ordain.interfaces.view.run import instant
from ordain.interfaces.view.style import Style
from ordain.interfaces.view.text import bar, fitted, packed, padded, shares, visible

ROWS_MAX = 8
"""How many rows a list has; the rest is counted, and is in the JSON."""
WIDTH_MIN = 60

_CHARACTERS = {
    Part.EXECUTING: "█",
    Part.VERIFYING: "▓",
    Part.PERSON: "▒",
    Part.WAITING: "░",
    Part.STOPPED: "╌",
    Part.BETWEEN: "·",
}
_COLOURS = {Part.EXECUTING: "32", Part.VERIFYING: "36", Part.PERSON: "33", Part.WAITING: "34", Part.STOPPED: "31"}
_WORDS = {
    Part.EXECUTING: "executing",
    Part.VERIFYING: "verifying",
    Part.PERSON: "waiting for a person",
    Part.WAITING: "locks, retry delays",
    Part.STOPPED: "nobody at work",
    Part.BETWEEN: "between steps",
}
_STATUS_COLOURS = {"completed": "32", "failed": "31", "rejected": "33", "needs_review": "33", "cancelled": "2"}


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
        steps = [
            (
                visible(one.id) + (f" ({visible(one.plan)})" if several else ""),
                one.time,
                _tries(one.attempts, one.failures),
            )
            for one in statistics.steps
        ]
        yield from _timed_lines("By step, with attempts", steps, style, width)
        kinds = [(visible(one.kind), one.time, _tries(one.attempts, one.failures)) for one in statistics.kinds]
        yield from _timed_lines("By program or tool, with attempts", kinds, style, width)
        yield from _failure_lines(statistics.failures, style, width)
        yield from _other_lines(statistics, style, width)


def _head(title: str, style: Style) -> Iterator[str]:
    yield ""
    yield style.bold(title)


def _said(items: Iterable[str], width: int) -> Iterator[str]:
    yield from (f"  {fitted(row, width - 2)}" for row in packed(items, width - 2))


# --- Plans and runs --------------------------------------------------------------------------------------------------


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
    yield from _said(items, width)


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
    yield from _said([*took, *(f"{name}: {count}" for name, count in counts_by_name.items() if count)], width)


def _counted_lines(counted: Mapping[str, int], style: Style, width: int) -> Iterator[str]:
    largest = max(counted.values(), default=0)
    number = len(str(largest))
    for status, count in counted.items():
        made = bar(count, largest, width - 12 - 4 - number)
        colour = _STATUS_COLOURS.get(status)
        yield f"  {status:<12} {count:>{number}} {style(made, colour) if colour is not None else made}"


# --- Time ------------------------------------------------------------------------------------------------------------


def _time_lines(time: Time, style: Style, width: int) -> Iterator[str]:
    if not time.total_ms:
        return
    yield from _head(f"Where the time of runs went: {_length(time.total_ms)}", style)
    largest = max(time.parts.values())
    words = max(len(_WORDS[part]) for part in time.parts)
    for part, spent in time.parts.items():
        (columns,) = shares([spent], largest, width - 2 - words - 1 - 9 - 6 - 2)
        made = _painted(_CHARACTERS[part] * columns, part, style)
        yield f"  {_WORDS[part]:<{words}} {_length(spent):>8} {_percent(spent, time.total_ms):>5}  {made}"


def _timed_lines(title: str, rows: Sequence[tuple[str, Time, str]], style: Style, width: int) -> Iterator[str]:
    """Rows with a bar in which each part has its own character, as in the list of parts."""
    rows = [row for row in rows if row[1].total_ms]
    if not rows:
        return
    yield from _head(title, style)
    shown = rows[:ROWS_MAX]
    largest = max(time.total_ms for _, time, _ in shown)
    label = min(max(len(name) for name, _, _ in shown), width * 2 // 5)
    note = max(len(text) for _, _, text in shown)
    room = max(width - 2 - label - 1 - 8 - 1 - note - 2, 4)
    for name, time, text in shown:
        columns = shares([time.of(part) for part in Part], largest, room)
        made = "".join(
            _painted(_CHARACTERS[part] * count, part, style) for part, count in zip(Part, columns, strict=True) if count
        )
        yield f"  {padded(name, label)} {_length(time.total_ms):>8} {style.dim(f'{text:<{note}}')}  {made}"
    yield from _more(len(rows) - len(shown), style)


def _more(left: int, style: Style) -> Iterator[str]:
    if left > 0:
        yield style.dim(f"  … and {left} more: ordain stats --json")


def _painted(text: str, part: Part, style: Style) -> str:
    return style(text, _COLOURS[part]) if part in _COLOURS else style.dim(text)


def _tries(attempts: int, failures: int) -> str:
    return f"×{attempts}" + (f", {failures} failed" if failures else "")


# --- What went wrong -------------------------------------------------------------------------------------------------


def _failure_lines(failures: Sequence[Failure], style: Style, width: int) -> Iterator[str]:
    if not failures:
        return
    yield from _head(f"Failures by cause: {sum(one.count for one in failures)}", style)
    shown = failures[:ROWS_MAX]
    largest = max(one.count for one in shown)
    code, number = max(len(one.code) for one in shown), len(str(largest))
    for one in shown:
        made = bar(one.count, largest, max(width - 4 - code - number - 1, 4))
        yield f"  {one.code:<{code}} {one.count:>{number}} {style.bad(made)}"
        then = ", ".join(f"{count} {what}" for what, count in one.then.items())
        ended = ", ".join(f"{count} {what}" for what, count in one.ended.items())
        worst = ", ".join(f"{visible(each.step)} ×{each.count}" for each in one.steps[:3])
        items = [f"then: {then}", f"in the end: {ended}", f"most in: {worst}"]
        yield from (style.dim(f"    {fitted(row, width - 4)}") for row in packed(items, width - 4))
    yield from _more(len(failures) - len(shown), style)


def _other_lines(statistics: Statistics, style: Style, width: int) -> Iterator[str]:
    yield from _retry_lines(statistics.retries, style, width)
    if statistics.missing:
        yield from _head("Programs that were missing or could not be run", style)
        for one in statistics.missing[:ROWS_MAX]:
            name = visible(one.program) if one.program is not None else "(not named)"
            counts = (("command", one.commands), ("contract", one.contracts))
            times = ", ".join(f"{count} {word}{'s' * (count != 1)}" for word, count in counts if count)
            yield f"  {fitted(name, width - 30)}: {times}"
        yield from _more(len(statistics.missing) - ROWS_MAX, style)
    if statistics.doubts.found:
        yield from _head(f"Steps in doubt: {statistics.doubts.found}", style)
        open_ = {"not settled": statistics.doubts.unsettled} if statistics.doubts.unsettled else {}
        yield from _said([f"{how} ×{count}" for how, count in {**statistics.doubts.settled, **open_}.items()], width)
    if statistics.decisions.asked:
        decisions = statistics.decisions
        yield from _head(f"Questions to people: {decisions.asked}", style)
        items = [f"{answer} ×{count}" for answer, count in decisions.answers.items()]
        waited_ms = decisions.waited_ms
        items += [f"answered after {_length(waited_ms)} on average"] if waited_ms is not None else []
        left = decisions.asked - sum(decisions.answers.values())
        items += [f"without an answer: {left}"] if left else []
        yield from _said(items, width)
    yield from _contract_lines(statistics.contracts, style, width)


def _retry_lines(retries: Retries, style: Style, width: int) -> Iterator[str]:
    if not retries.passed_again:
        return
    again = _share(retries.passed_again, retries.passed)
    yield from _head(f"Passes that needed more than one attempt: {again}", style)
    largest = max(retries.passes_by_attempts.values())
    number = len(str(largest))
    for attempts, count in list(retries.passes_by_attempts.items())[:ROWS_MAX]:
        word = f"{attempts} attempt{'s' * (attempts != 1)}"
        yield f"  {word:<12} {count:>{number}} {bar(count, largest, width - 12 - 4 - number)}"


def _contract_lines(contracts: Sequence[Contracts], style: Style, width: int) -> Iterator[str]:
    if not contracts:
        return
    yield from _head("Contracts that did not hold and then did, in the same run", style)
    for one in contracts[:ROWS_MAX]:
        items = [f"held ×{one.held}", f"broken ×{one.broken}"]
        items += [f"inconclusive ×{one.inconclusive}"] if one.inconclusive else []
        items += [f"held after a retry ×{one.held_after_retry}"] if one.held_after_retry else []
        items += [f"held without one ×{one.held_same_attempt}"] if one.held_same_attempt else []
        rows = packed([f"{visible(one.step)} ({visible(one.plan)})", *items], width - 4)
        yield from (f"{'  ' if number == 0 else '    '}{fitted(row, width - 4)}" for number, row in enumerate(rows))
    yield from _more(len(contracts) - ROWS_MAX, style)


# --- Numbers ---------------------------------------------------------------------------------------------------------


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
