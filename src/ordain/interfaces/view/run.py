"""How runs, problems and states are shown to people; plans are in `preview`. Nothing that a plan or an output contains
can move the cursor, colour, hide or reorder text, and nothing is cut silently."""

from __future__ import annotations

import shlex
import textwrap
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime

from msgspec import UNSET

from ordain.core.approval.approval import Principal
from ordain.core.guard.plan_note import PlanNote
from ordain.core.lineage.decision import answer_ways
from ordain.core.plan.canonical import short_id
from ordain.core.plan.value import Instant, StepId
from ordain.core.policy.agent import AgentChoice
from ordain.core.report.report import InboxItem, PlanLine, RunReport, StepReport
from ordain.core.run.budget import Spending, amount_said
from ordain.core.run.step_event import Evidence, StepState
from ordain.core.run.wait import SignalAwaited
from ordain.core.task.work_item import form_lines
from ordain.core.text.tail import CUT_MARK
from ordain.interfaces.view.next_command import after_line, of_failure
from ordain.interfaces.view.style import Style
from ordain.interfaces.view.text import visible as visible


def instant(at: Instant) -> str:
    """A moment, in UTC, for people."""
    return datetime.fromtimestamp(at / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


def duration(milliseconds: int) -> str:
    return f"{milliseconds / 1000:.1f} s" if milliseconds < 60_000 else f"{milliseconds / 60_000:.1f} min"


MANY_STEPS = 50
"""More than this is read from what went wrong on."""
_WRONG = frozenset({StepState.FAILED, StepState.ESCALATED, StepState.IN_DOUBT})
_UNDER_WAY = frozenset({StepState.RUNNING, StepState.VERIFYING})


# --- Runs ------------------------------------------------------------------------------------------------------------


def run_lines(
    report: RunReport, style: Style, *, verbose: bool = False, quiet: bool = False, removed: Mapping[StepId, str] = {}
) -> Iterator[str]:
    """The report of a run: every step by name, how it ended, how we know, what a person is asked, and what comes next.
    `verbose` shows every output and all evidence; `quiet` only the steps that went wrong, which come first of many.
    `removed` are the steps whose outputs were removed, and when, in words."""
    yield f"{style.bold('Run:')} {report.run_id}  {visible(report.title)}"
    yield f"  Plan:   {report.plan_id}"
    yield f"  Status: {_run_status(report, style)}"
    if report.reason:
        yield f"  Why:    {visible(report.reason)}"
    if report.rerun_of is not None:
        yield f"  Again:  {report.rerun_of}"
    if report.continues is not None:
        yield f"  After:  {report.continues}, with which it goes on"
    if report.replaced_by is not None:
        yield f"  Then:   {report.replaced_by}, which goes on in its place"
    if spent := spent_words(one for one in report.spending if one.step is None):
        yield f"  Spent:  {visible(spent)}"
    yield ""
    steps = report.steps
    if quiet:
        steps = tuple(step for step in steps if step.state in _WRONG)
    elif len(steps) > MANY_STEPS:
        steps = tuple(sorted(steps, key=lambda step: step.state not in _WRONG))
    width = min(max((len(step.id) for step in steps), default=0), 32)
    for step in steps:
        yield _step_line(step, _word(step.state, report), style, len(str(len(report.steps))), width)
        if own_budget := spent_words(one for one in report.spending if one.step == step.id):
            yield f"         {style.dim('Spent:')} {visible(own_budget)}"
        yield from _step_details(step, report, removed.get(step.id), verbose=verbose)
    if steps:
        yield ""
    found = Counter(step.state for step in report.steps)
    order = sorted(found, key=lambda state: (state is not StepState.PASSED, list(StepState).index(state)))
    words = [f"{found[state]:,} {_word(state, report).replace('_', ' ')}" for state in order]
    attempts = sum(step.attempts for step in report.steps if not step.unfolds)
    words.append(f"{attempts:,} attempt{'s' * (attempts != 1)}")
    # What was recorded last is no end while a step is at work: how long that took is not known.
    if not any(step.state in _UNDER_WAY for step in report.steps):
        words.append(f"took {duration(report.took_ms)}")
    yield f"  {', '.join(words)}"
    if quiet:
        yield f"  {len(report.steps) - len(steps):,} more, each by its name: ordain show {report.run_id}"
    for question in report.questions:
        yield ""
        yield f"  {style.warn('A person must decide:')} {visible(question.text)}"
        if question.detail:
            yield f"    {visible(question.detail)}"
        if question.form is not None:
            yield from (f"    {visible(line)}" for line in form_lines(question.form))
        for command, meaning in answer_ways(question):
            yield f"    → {style.bold(visible(command))}"
            if meaning:
                yield f"        {meaning}"
    if report.answered:
        yield ""
        yield f"  Answered, and taken up when the run goes on: {', '.join(report.answered)}"
    yield from _next_lines(report, style, quiet=quiet)


def _word(state: StepState, report: RunReport) -> str:
    """A step's state. In a run that a stop killed, nothing is running."""
    stopped = report.reason and report.status in ("stopped", "stalled")
    return "killed" if state in _UNDER_WAY and stopped else state.value


def _step_line(step: StepReport, word: str, style: Style, digits: int, width: int) -> str:
    took = f"{duration(step.duration_ms):>8}" if step.duration_ms is not None else " " * 8
    said = [visible(step.agent.agent)] if isinstance(step.agent, AgentChoice) else []
    said += [f"attempt {step.attempts}"] if step.attempts > 1 else []
    tries = style.dim(f" ({', '.join(said)})") if said else ""
    why = step.waiting or step.evidence
    if step.error is not None and step.waiting is None:
        why = f"{step.error} {why}"
    state = painted(f"{word:<10}", step.state, style)
    # What belongs to a step stands below it.
    number = f"{step.number}." if step.part_of is None else ""
    why = f"{step.label}: {why}" if step.label else why
    return f"  {number:>{max(3, digits) + 1}} {state} {step.id:<{width}} {took}  {visible(why)}{tries}".rstrip()


def _step_details(step: StepReport, report: RunReport, removed: str | None, *, verbose: bool) -> Iterator[str]:
    wrong = step.state in (StepState.FAILED, StepState.ESCALATED)
    own = removed or f"ordain show {report.run_id} --output {shlex.quote(step.id)}"
    if (wrong or verbose) and step.own_output_tail.strip():
        yield "         It wrote:"
        yield from tail_lines(step.own_output_tail, own)
        yield "         Its contract wrote:" if step.output_tail.strip() else "         Its contract wrote nothing."
    if (wrong or verbose) and step.output_tail.strip():
        by_contract = step.verified is not None
        yield from tail_lines(step.output_tail, f"ordain log {report.run_id} --json" if by_contract else own)
    yield from _affected_lines(step, verbose=verbose)
    if step.refused:
        last = " in its last attempt" if step.attempts > 1 else ""
        calls = f"{step.refused} call{'s' * (step.refused != 1)} of its agent{last}"
        yield f"         Refused:  {calls}; which they were: ordain log --refused"
    if isinstance(step.agent, AgentChoice) and (verbose or (step.attempts and "the arbiter" in step.agent.why)):
        yield f"         Agent:    {visible(step.agent.agent)}, because {visible(step.agent.why)}"
    if verbose:
        if step.calls:
            last = " in its last attempt" if step.attempts > 1 else ""
            yield f"         Called:   {step.calls} time{'s' * (step.calls != 1)}, by its agent{last}"
        yield from _evidence_lines(step)


SHOWN_FILES = 6


def _affected_lines(step: StepReport, *, verbose: bool) -> Iterator[str]:
    """What a step changed, where that is known."""
    files = step.affected_files
    if files is None:
        if verbose:
            yield "         Files:    not known which it changed"
    elif isinstance(files, tuple) and (files or verbose):
        shown = files if verbose else files[:SHOWN_FILES]
        left = len(files) - len(shown) + (step.affected_more or 0)
        more = f" and {left:,} more" if left else ""
        yield f"         Files:    {visible(', '.join(shown)) or 'none changed'}{more}"


def _next_lines(report: RunReport, style: Style, *, quiet: bool) -> Iterator[str]:
    if report.status not in ("failed", "cancelled"):
        return
    wrong = any(step.state is StepState.FAILED for step in report.steps)
    many = len(report.steps) > MANY_STEPS and not quiet
    commands = [f"ordain show {report.run_id} --quiet"] if wrong and many else []
    commands += of_failure(report)
    yield ""
    for command in commands:
        yield f"    → {style.bold(command)}"
    if report.prepare is UNSET:
        approving = style.dim(f"(where it needs approval, first: ordain approve {short_id(report.plan_id)})")
        yield f"    → {style.bold(f'ordain rerun {report.run_id}')}  {approving}"
    elif report.prepare:
        after = style.dim(f"(once approved, ordain rerun {report.run_id} keeps the steps that passed)")
        yield f"    → {style.bold(report.prepare)}  {after}"
    going_on = style.dim("(by another plan; unchanged steps that passed are kept)")
    yield f"    → {style.bold(f'ordain rerun {report.run_id} --with DOCUMENT')}  {going_on}"


def spent_words(spending: Iterable[Spending]) -> str:
    """What was spent and may be, measured apart from reported; nothing without a limit or a report."""
    shown = list(spending)
    if all(one.limit is None and one.measured for one in shown):
        return ""
    parts = []
    for measured, word in ((True, "measured"), (False, "as reported")):
        kind = [_of_limit(one) for one in shown if one.measured is measured]
        parts += [f"{', '.join(kind)} ({word})"] if kind else []
    return "; ".join(parts)


def _of_limit(one: Spending) -> str:
    spent = amount_said(one.what, one.spent)
    return f"{spent} of {amount_said(one.what, one.limit)}" if one.limit is not None else spent


def _evidence_lines(step: StepReport) -> Iterator[str]:
    if step.meaning is not None:
        yield f"         Meaning:  {visible(step.meaning)}"
    if step.seen_before is not None:
        yield f"         Before:   {_seen(step.seen_before)}"
    seen = step.verified
    if seen is not None:
        yield f"         Verified: {_seen(seen)}"
        parts = (
            ("What ran", seen.command_sha256),
            ("Output", f"{seen.output_bytes:,} bytes, {seen.output_seal}" if seen.output_seal else ""),
            ("Contract saw", f"{', '.join(seen.env_names)} {seen.env_seal}" if seen.env_seal else ""),
            ("Commit", seen.git_head),
        )
        yield from (f"         {label + ':':<9} {visible(text)}" for label, text in parts if text)
    yield from (f"         Changed:  {visible(file)}, and was put back" for file in step.tampered)


def _seen(evidence: Evidence) -> str:
    status = f"exit status {evidence.exit_code}" if evidence.exit_code is not None else ""
    said = [text for text in (evidence.detail or status, duration(evidence.duration_ms)) if text]
    return f"{evidence.verdict.value}: {visible(', '.join(said))}"


def tail_lines(output: str, rest: str) -> Iterator[str]:
    """The end of an output, and the command that shows the rest, or what became of it. How much that is cannot be told
    from the end."""
    lines = output.removeprefix(CUT_MARK).rstrip("\n").split("\n")
    if len(lines) > 8:
        yield f"         │ … earlier lines: {rest}"
    elif output.startswith(CUT_MARK):
        yield f"         │ … earlier output: {rest}"
    for line in lines[-8:]:
        yield from textwrap.wrap(
            visible(line), 140, initial_indent="         │ ", subsequent_indent="         │   ", drop_whitespace=False
        ) or ["         │"]


def _run_status(report: RunReport, style: Style) -> str:
    passed = sum(step.state is StepState.PASSED for step in report.steps)
    words = f"{report.status}, {passed} of {len(report.steps)} steps passed"
    for whose, persons in (("a person's", True), ("an agent's", False)):
        unverified = [step.id for step in report.steps if step.unverified and (step.decided_by is not None) is persons]
        if unverified:
            words += f"; by {whose} word only: {', '.join(unverified)}"
    if failed := [step.id for step in report.steps if step.state is StepState.SKIPPED and step.error is not None]:
        words += f"; failed and skipped: {', '.join(failed)}"
    match report.status:
        case "completed" if failed:
            return style.warn(words)
        case "completed":
            return style.good(words)
        case "failed":
            return style.bad(words)
        case "stopped" | "stalled" | "paused":
            # Nobody watches what a killed executor had begun, and nobody has ended it.
            if at_work := [step.id for step in report.steps if step.state is StepState.RUNNING and not step.unfolds]:
                killed = _word(StepState.RUNNING, report) == "killed"
                how = "killed" if killed else "may still be at work, until it is resumed"
                words += f"; {how}: {', '.join(at_work)}"
            return style.warn(f"{words} → ordain resume {report.run_id}")
        case "executing" | "pausing" | "cancelling":
            return style.warn(f"{words} → ordain watch {report.run_id}")
        case _:
            return style.warn(words)


MARKS = {
    StepState.PENDING: ("○", "2"),
    StepState.RUNNING: ("▶", "36"),
    StepState.WAITING: ("◌", "36"),
    StepState.VERIFYING: ("◇", "36"),
    StepState.PASSED: ("✓", "32"),
    StepState.FAILED: ("✗", "31"),
    StepState.IN_DOUBT: ("?", "35"),
    StepState.ESCALATED: ("!", "33"),
    StepState.SKIPPED: ("»", "2"),
    StepState.CANCELLED: ("⊘", "2"),
}
"""The mark and the colour of a step that stands so."""


def painted(text: str, state: StepState, style: Style) -> str:
    """A text in the colour of a state."""
    return style(text, MARKS[state][1])


_NO_PLANS = "No plans here yet. Start with: ordain run DOCUMENT"
_SAID = {"rejected": "said", "needs_review": "said", "unreadable": "why"}


def status_lines(plans: Sequence[PlanLine], workspace: str, count: int, style: Style) -> Iterator[str]:
    """What runs, what waits for whom, what can be started, of as many plans as there are."""
    yield style.dim(f"In {visible(workspace)}:")
    if not plans:
        yield _NO_PLANS
    for line in plans:
        short = short_id(line.plan_id)
        ended = f"  {style.dim(line.last_run)}" if line.last_run is not None and line.run is None else ""
        yield f"{short}  {line.status:<10} {visible(line.title)}{ended}"
        if line.continues is not None:
            yield f"    to go on with {line.continues}"
            yield from (f"    → {command}" for command in (after_line(line),) if command)
        if line.run is not None:
            quiet = len(line.run.steps) > MANY_STEPS
            yield from (f"  {text}" if text else "" for text in run_lines(line.run, style, quiet=quiet))
            continue
        if line.feedback is not None and line.status in _SAID:
            yield f"    {_SAID[line.status]}: {visible(line.feedback)}"
        if line.unused and line.status != "approved":
            unused = f"{line.unused} approval{'s' * (line.unused != 1)} that a run could use"
            yield f"    {style.warn(unused)} → ordain revoke {short}"
        if (command := after_line(line)) is not None:
            yield f"    → {command}"
    if count > len(plans):
        yield style.dim(f"{count - len(plans)} more have ended: ordain list --all")


def list_lines(plans: Sequence[PlanLine], count: int, wanted: str | None, style: Style) -> Iterator[str]:
    """One line for each plan, and what was said when it was rejected; those that are `wanted`, of so many."""
    for line in plans:
        revision = f", revision {line.revisions}" if line.revisions > 1 else ""
        origin = visible(line.document) if line.document is not None else "no file"
        yield f"{short_id(line.plan_id)}  {line.status:<12} {visible(line.title)}"
        parts = (f"{line.lineage}{revision}", origin, f"by {who(line.proposer)}", instant(line.changed_at))
        yield style.dim(f"              {'  '.join(parts)}")
        if line.continues is not None:
            yield f"              to go on with {line.continues}{f': {visible(line.reason)}' if line.reason else ''}"
        if line.feedback is not None and line.status in _SAID:
            yield f"              {_SAID[line.status]}: {visible(line.feedback)}"
    if not plans:
        yield _NO_PLANS if not count else f"No plan here is {wanted}."
    if wanted is None and len(plans) < count:
        yield style.dim(f"{count - len(plans)} older ones: ordain list --all")


def who(principal: Principal) -> str:
    """Who asked and through which channel."""
    return visible(principal.words)


def inbox_lines(item: InboxItem, style: Style, *, everywhere: bool, seen: Iterable[str] = ()) -> Iterator[str]:
    """One thing that waits for a person, what was seen of it, and the commands that decide it."""
    danger = style.bad(f", {item.destructive} destructive") if item.destructive else ""
    until = f", until {instant(item.expires_at)}" if item.expires_at is not None else ""
    yield f"{style.warn(item.kind):<10} {short_id(item.plan_id)}  {visible(item.title)}{danger}"
    yield f"    {visible(item.detail)} (since {instant(item.since)}{until})"
    if item.question is not None and item.question.kind in ("doubt", "escalation") and item.question.detail:
        yield f"    {visible(item.question.detail)}"
    if everywhere:
        yield f"    in {visible(item.workspace)}"
    yield from (f"  {line}" for line in seen)
    yield from (f"    → {style.bold(visible(command))}" for command in item.commands)


def note_lines(note: PlanNote, style: Style, *, whole: bool) -> Iterator[str]:
    """A plan in prose: nothing waits for it, and nothing of it was proposed."""
    yield f"{style.dim('note')}       {note.note_id}  {visible(note.title)}"
    yield f"    {visible(note.agent)} left plan mode with it, in words that cannot be carried out ({instant(note.at)})"
    shown = note.text.splitlines() if whole else []
    yield from (f"    │ {visible(line)}" for line in shown)
    more = "" if whole else "; ordain inbox --verbose shows it whole"
    yield f"    → {style.bold(f'ordain inbox --dismiss {note.note_id}')}{style.dim(more)}"


def awaited_lines(awaited: Iterable[SignalAwaited], style: Style) -> Iterator[str]:
    """What waits for no decision, but for something to happen outside."""
    for one in awaited:
        until = f", until {instant(one.until)}" if one.until is not None else ""
        yield f"{style.dim('signal')}     {visible(one.title)}: {one.step} of {one.run_id} waits for it{until}"
        yield f"    → {style.bold(f'ordain signal {visible(one.signal)}')}"
