"""A question of a run as whoever answers must see it: what is asked, what was tried and seen, what each answer does."""

from __future__ import annotations

import shlex
import textwrap
from collections.abc import Iterator

import msgspec

from ordain.core.lineage.decision import Asked, Choice, Question, answer_ways
from ordain.core.plan.value import Instant
from ordain.core.plan.words import write_failure
from ordain.core.report.brief import Brief
from ordain.core.run.attempt import Try
from ordain.core.task.work_item import form_lines
from ordain.interfaces.view.preview import TIER_WORDS
from ordain.interfaces.view.run import duration, instant, tail_lines
from ordain.interfaces.view.style import Style
from ordain.interfaces.view.text import visible

_HOUR_MS = 3_600_000


def context_lines(question: Question, now: Instant, style: Style) -> Iterator[str]:
    """What is asked, what was tried, what the choices are, how long it has waited and what waits behind it."""
    yield f"{style.warn('A person must decide:')} {visible(question.text)}"
    attempt = f", attempt {question.attempt}" if question.attempt else ""
    yield f"  {style.dim(f'{question.item}{attempt}, {question.kind}')}"
    about = []
    if question.since is not None:
        about.append(f"since {instant(question.since)} ({_long(now - question.since)})")
    if question.until is not None:
        about.append(f"until {instant(question.until)}")
    if question.behind:
        about.append(f"{question.behind} step{'s' * (question.behind != 1)} cannot begin before")
    if about:
        yield f"  {style.dim(', '.join(about))}"
    tried = [f"    {_try(one)}" for one in question.tries] if question.kind != "ask" or len(question.tries) > 1 else []
    if question.detail and question.detail not in "".join(tried[-1:]):  # said once is enough
        yield f"  {visible(question.detail)}"
    if question.form is not None:
        yield from (f"  {visible(line)}" for line in form_lines(question.form))
    if tried:
        more = question.tries[0].attempt - 1
        yield f"  Tried:{f' (and {more} times before)' if more else ''}"
    yield from tried
    yield from seen_lines(question)
    if question.kind != "ask" and question.policy is not None:
        yield f"  On failure: {visible(write_failure(question.policy))}"
    if question.wants:
        command = f"ordain show {_run(question)} --brief {shlex.quote(question.step)} --json"
        yield f"  For a planner: {style.bold(command)}"
    if question.kind == "escalation":
        ways = f"ordain revise {_run(question)} DOCUMENT, or ordain replan {_run(question)}"
        yield f"  By another plan, and what passed is kept: {style.bold(ways)}"
    if question.takes:
        yield f"  Wanted: {wanted_words(question)}"


def seen_lines(question: Question) -> Iterator[str]:
    """What the step does and what its contract is, each with the end of what it wrote last."""
    log, step = (
        f"ordain log {_run(question)} --json",
        f"ordain show {_run(question)} --output {shlex.quote(question.step)}",
    )
    wrote, checked = question.output_tail.strip(), question.contract_output_tail.strip()
    if question.action:
        yield from _block("Action:", question.action)
    if wrote:
        yield from tail_lines(question.output_tail, step if question.action else log)
    if question.contract:
        yield from _block("Contract:", question.contract)
    if checked:
        yield from tail_lines(question.contract_output_tail, log)
    if question.check_output_tail.strip():
        yield "  What was asked whether it happened wrote:"
        yield from tail_lines(question.check_output_tail, log)


def _block(label: str, text: str) -> Iterator[str]:
    first, *others = text.rstrip("\n").split("\n")
    yield f"  {label:<9} {visible(first)}"
    yield from (f"  {'':<9} {visible(line)}" for line in others)


def question_lines(question: Question, now: Instant, style: Style) -> Iterator[str]:
    """The same, and every command that answers it."""
    yield from context_lines(question, now, style)
    for command, meaning in answer_ways(question):
        yield f"  → {style.bold(visible(command))}"
        if meaning:
            yield f"      {meaning}"


def _run(question: Question) -> str:
    return question.item.partition("/")[0]


def wanted_words(question: Question) -> str:
    """What kind of value answers a question that has no choices."""
    if question.takes == "text":
        return "a text"
    return f"a value that fits {visible(msgspec.json.encode(question.schema).decode())}"


def _try(one: Try) -> str:
    outcome, evidence = one.outcome, one.evidence
    said = []
    if outcome is not None:
        said.append(duration(outcome.duration_ms))
        status = f"exit status {outcome.exit_code}" if outcome.exit_code is not None else "it ended"
        said.append(f"{outcome.error} {outcome.detail}" if outcome.error is not None else outcome.detail or status)
    else:
        said.append("its end was not recorded")
    if evidence is not None:
        said.append(f"verdict {evidence.verdict.value}" + (f": {evidence.detail}" if evidence.detail else ""))
    if one.decided_by is not None:
        said.append(f"{one.decided_by} decided: {one.how}" + (f" ({' '.join(one.said.split())})" if one.said else ""))
    elif one.how:
        said.append(one.how)
    begun = instant(one.started_at) if one.started_at is not None else ""
    return f"{one.attempt:>3}. {begun}  {visible(', '.join(said))}"


def choice_lines(choice: Choice, number: int | None, columns: int, style: Style) -> Iterator[str]:
    """One choice, by its number where it has one, with what it means and what follows from it."""
    label = f"    {number}  " if number is not None else "    "
    yield f"{label}{visible(choice.word):<9} {choice.meaning}".rstrip()
    indent = f"{'':<{len(label)}}{'':<9} "
    for line in textwrap.wrap(choice.consequence, max(columns - len(indent), 30)):
        yield f"{indent}{style.dim(line)}"


def answer_lines(
    asked: Asked, chosen: Choice | None, by: str, *, signed: bool, given: str, choices: tuple[Choice, ...], style: Style
) -> Iterator[str]:
    """The choices not shown yet, what follows from the chosen one, and whose word it is; `given` if it is none."""
    for choice in choices:
        is_chosen = chosen is not None and choice.word == chosen.word
        line = f"{'→' if is_chosen else ' '} {visible(choice.word):<9} {choice.meaning}".rstrip()
        yield f"  {style.bold(line) if is_chosen else line}"
        if is_chosen:
            yield f"    {'':<9} {style.warn(choice.consequence)}"
    if chosen is None:
        yield f"  {style.bold(f'→ {visible(given)}')}"
    proof = "signed" if signed else "unsigned: nothing proves who said it"
    yield f"  Answered by {visible(by)}, {proof}."
    yield f"  {style.bold('Trust:')} {TIER_WORDS[asked.tier]}"


def brief_lines(brief: Brief, style: Style) -> Iterator[str]:
    """A brief for people to look through; machines read it as JSON."""
    wants = f", wants: {brief.wants}" if brief.wants else ""
    yield f"{style.bold('Brief:')} {brief.step.id} of {brief.run_id} ({brief.status}), {brief.state.value}{wants}"
    yield f"  {visible(brief.step.description)}"
    yield f"  On failure: {visible(write_failure(brief.policy))}"
    yield from (f"    {_try(one)}" for one in brief.tries)
    for title, steps in (("Passed", brief.passed), ("Ended otherwise", brief.others)):
        if steps:
            yield f"  {title}:"
            yield from (f"    {one.id}: {one.state.value}, {visible(one.evidence)}" for one in steps)
    if brief.remains:
        yield "  Remains:"
        yield from (f"    {one.id}: {visible(one.waiting or one.state.value)}" for one in brief.remains)


def _long(milliseconds: int) -> str:
    if milliseconds < _HOUR_MS:
        return duration(max(milliseconds, 0))
    hours = milliseconds // _HOUR_MS
    return f"{hours} h" if hours < 48 else f"{hours // 24} days"
