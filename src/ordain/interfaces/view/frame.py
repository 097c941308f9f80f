"""How a run stands, as the lines of a region of a terminal. Pure: state, time and size in, lines out; they fit into the
region and hold nothing that a terminal would act on, whatever the plan and its commands say."""

from __future__ import annotations

import shlex
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import accumulate
from typing import NamedTuple

from ordain.core.plan.action import Ask, Task
from ordain.core.plan.value import Instant, StepId
from ordain.core.run.run_state import RunState
from ordain.core.run.schedule import asks, why_waiting
from ordain.core.run.spending import budget_name, owner_of
from ordain.core.run.step_event import Settlement, StepState
from ordain.core.text.limit import short_title
from ordain.interfaces.view.text import cells, visible

HEIGHT_MAX = 30
"""However high the terminal is: what stays above is of interest too."""
TAIL_LINES = 2
WAITING_LINES = 6
BAR_CELLS = 24
BAR_COLUMNS = 72

BOLD, DIM, GOOD, BAD, WARN, BUSY = "1", "2", "32", "31", "33", "36"


class Span(NamedTuple):
    """A part of a line, and its colour."""

    text: str
    code: str = ""


Line = tuple[Span, ...]


def frame(state: RunState, tails: Mapping[StepId, Sequence[str]], now: Instant, columns: int, rows: int) -> list[Line]:
    """The region's lines. `tails` are the last lines that steps under way have written, as `last_lines` gives them."""
    rows = min(rows, HEIGHT_MAX)
    lines = [fitted(_title(state), columns)] if rows > 2 else []
    lines.append(_progress(state, now, columns))
    room = rows - len(lines)
    people = [
        *(
            budget_name(owner)
            for owner, account in state.accounts.items()
            if owner in state.reached and not account.at_work
        ),
        *state.escalated,
        *(step for step in state.waiting if asks(state, step)),
        *(step for step in state.doubtful if state.steps[step].settle is Settlement.PERSON),
    ]
    begun = [
        *(step for step in state.waiting if not asks(state, step)),
        *(step for step in state.doubtful if state.steps[step].settle is not Settlement.PERSON),
    ]
    pending = [step for step, record in state.steps.items() if record.state is StepState.PENDING]
    others = len(begun) + len(pending)
    running = list(state.active)
    for_people = min(len(people), max(1, room // 3))
    for_others = min(others, 1)
    for_running = min(len(running), max(0, room - for_people - for_others))
    spare = max(0, room - for_people - for_others - for_running)
    more_people = min(spare, len(people) - for_people)
    for_people, spare = for_people + more_people, spare - more_people
    for_tails = min(TAIL_LINES, spare // for_running) if for_running else 0
    spare -= sum(min(for_tails, len(tails.get(step, ()))) for step in running[:for_running])
    for_others = min(others, for_others + spare, WAITING_LINES)
    soonest = [*begun, *_soonest(state, pending, for_others)][:for_others]
    body = [
        *_section(running, for_running, "run", lambda step: _running(state, step, tails, for_tails, now)),
        *_section(people, for_people, "wait for a person", lambda step: [_person(state, step)]),
        *_section(soonest, for_others, "wait", lambda step: [_other(state, step, now)], others),
    ]
    return [*lines, *(fitted(spans, columns) for spans in body[: max(0, room)])]


def last_lines(tail: str) -> tuple[str, ...]:
    """The last lines of an output that say something; of one that was written over, what came last."""
    lines = (line.rstrip("\r").rpartition("\r")[2] for line in tail.replace("\r\n", "\n").split("\n"))
    shown = [visible(line.strip()) for line in lines if line.strip()]
    return tuple(shown[-TAIL_LINES:])


def _title(state: RunState) -> Iterator[Span]:
    yield Span(visible(short_title(state.plan.title)), BOLD)
    yield Span(f"  {state.run_id}", DIM)
    if state.aborted_by is not None:
        yield Span(f"  is being aborted by {visible(state.aborted_by)}", BAD)
    elif state.paused_by is not None:
        yield Span(f"  paused by {visible(state.paused_by.name)}", WARN)


def _progress(state: RunState, now: Instant, columns: int) -> Line:
    found = Counter(record.state for record in state.steps.values())
    passed, skipped = found[StepState.PASSED], found[StepState.SKIPPED]
    failed, cancelled = found[StepState.FAILED], found[StepState.CANCELLED]
    waiting = found[StepState.WAITING] + found[StepState.ESCALATED] + found[StepState.IN_DOUBT]
    counts = (
        (passed, "passed", GOOD),
        (failed, "failed", BAD),
        (skipped, "skipped", WARN),
        (cancelled, "cancelled", DIM),
        (found[StepState.RUNNING] + found[StepState.VERIFYING], "running", BUSY),
        (waiting, "waiting", WARN),
        (found[StepState.PENDING], "left", DIM),
    )
    total = len(state.steps)
    spans = [*_bar(passed + skipped, failed, total), Span(" ")] if columns >= BAR_COLUMNS else []
    spans.append(Span(f"{passed + skipped + failed + cancelled:,}/{total:,}", BOLD))
    elapsed = [Span("  "), Span(_elapsed(now - state.opened_at), DIM)]
    words = [Span(f"  {number:,} {word}", code) for number, word, code in counts if number]
    return fitted([*spans, *elapsed, *words], columns)


def _bar(done: int, failed: int, total: int) -> Iterator[Span]:
    bad = max(1, BAR_CELLS * failed // total) if failed else 0
    good = min(BAR_CELLS * done // total, BAR_CELLS - bad) if total else BAR_CELLS
    yield Span("━" * good, GOOD)
    yield Span("━" * bad, BAD)
    yield Span("─" * (BAR_CELLS - good - bad), DIM)


def _running(
    state: RunState, step: StepId, tails: Mapping[StepId, Sequence[str]], most: int, now: Instant
) -> list[list[Span]]:
    record = state.steps[step]
    spans = [Span("▸ ", BUSY), Span(visible(step))]
    if record.attempts > 1:
        spans.append(Span(f" (attempt {record.attempts})", WARN))
    if record.agent:
        spans.append(Span(f"  {visible(record.agent)}", BOLD))
    spans.append(Span(f"  {_elapsed(now - (record.started_at or now))}", DIM))
    if record.state is StepState.VERIFYING:
        spans.append(Span("  is being verified", BUSY))
    written = tails.get(step, ())[-most:] if most else ()
    return [spans, *([Span("    │ ", DIM), Span(line, DIM)] for line in written)]


def _person(state: RunState, step: StepId) -> list[Span]:
    command = f"ordain answer {shlex.quote(f'{state.run_id}/{visible(step)}')}"
    if owner_of(step) is not None:
        why = "is reached and "
    else:
        why = "is in doubt and " if state.steps[step].state is StepState.IN_DOUBT else ""
    spans = [Span("? ", WARN), Span(visible(step)), Span(f": {why}waits for a person: ", WARN), Span(command, BOLD)]
    action = state.step(step).action if owner_of(step) is None else None
    if isinstance(action, Ask):
        spans.append(Span(f"  {visible(action.question)}", DIM))
    elif isinstance(action, Task) and asks(state, step):
        spans.append(Span(f"  {visible(state.step(step).description)}", DIM))
    return spans


def _other(state: RunState, step: StepId, now: Instant) -> list[Span]:
    mark = "◌ " if state.steps[step].state is not StepState.PENDING else "· "
    return [Span(f"{mark}{visible(step)}: {visible(why_waiting(state, step, now) or '')}", DIM)]


def _soonest(state: RunState, pending: Sequence[StepId], most: int) -> list[StepId]:
    """Steps that have not begun, those that could soonest first."""
    free, blocked = list[StepId](), list[StepId]()
    for step in pending:
        if len(free) >= most:
            break
        (blocked if state.is_blocked(step) else free).append(step)
    free.sort(key=lambda step: state.steps[step].not_before is None)
    return [*free, *blocked]


def _section(
    steps: Sequence[StepId],
    room: int,
    word: str,
    shown: Callable[[StepId], Iterable[list[Span]]],
    count: int | None = None,
) -> Iterator[list[Span]]:
    """As many of these steps as there is room for; the last place says how many more there are."""
    count = len(steps) if count is None else count
    if count > room > 0:
        steps = steps[: room - 1]
        yield from (line for step in steps for line in shown(step))
        more = count - len(steps)
        yield [Span(f"… and {more:,} more {word}" if steps else f"… {more:,} {word}", DIM)]
    else:
        yield from (line for step in steps[:room] for line in shown(step))


def _elapsed(milliseconds: int) -> str:
    seconds = max(0, milliseconds) // 1000
    if seconds < 60:
        return f"{seconds} s"
    minutes, seconds = divmod(seconds, 60)
    return f"{minutes} min {seconds:02} s" if minutes < 60 else f"{minutes // 60} h {minutes % 60:02} min"


def fitted(spans: Iterable[Span], columns: int) -> Line:
    """A line of this width at most; one that is cut ends in `…`."""
    whole = tuple(spans)
    # A text that is longer than the line is not looked at to its end.
    if sum(cells(text[: columns + 1]) for text, _ in whole) <= columns:
        return whole
    made: list[Span] = []
    room = columns - 1
    for text, code in whole:
        kept = text[: bisect_right(list(accumulate(map(cells, text[: room + 1]))), room)]
        made.append(Span(kept, code))
        room -= cells(kept)
        if kept != text:
            break
    return (*made, Span("…"))
