"""One renderer for everything a person reads: previews, approvals, runs, problems.

Nothing that a plan or a command's output contains can move the cursor, colour, hide or reorder text: every character
that is not plainly visible is shown escaped. Nothing is cut silently.
"""

from __future__ import annotations

import json
import textwrap
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime

from ordain.core.action import CallTool, RunCommand
from ordain.core.canonical import short_id
from ordain.core.event import Limits, StepState
from ordain.core.model import Step, contract_of
from ordain.core.problem import Problem, Severity
from ordain.core.refs import literal
from ordain.core.report import LintReport, PlanLine, Review, RunReport, StepReport
from ordain.core.value import Instant
from ordain.documents.duration import write_duration
from ordain.documents.failure import write_failure
from ordain.interfaces.visible import visible

__all__ = [
    "Style",
    "instant",
    "lint_lines",
    "next_command",
    "problem_lines",
    "review_lines",
    "run_lines",
    "status_lines",
    "visible",
]

TIER_WORDS = {0: "tier 0, cooperative: stops mistakes and crashes, not an agent that acts as you (SECURITY.md)"}


class Style:
    """Colour on a terminal, plain words elsewhere."""

    def __init__(self, colour: bool) -> None:
        self._colour = colour

    def __call__(self, text: str, code: str) -> str:
        return f"\x1b[{code}m{text}\x1b[0m" if self._colour else text

    def bold(self, text: str) -> str:
        return self(text, "1")

    def dim(self, text: str) -> str:
        return self(text, "2")

    def good(self, text: str) -> str:
        return self(text, "32")

    def bad(self, text: str) -> str:
        return self(text, "31")

    def warn(self, text: str) -> str:
        return self(text, "33")


def instant(at: Instant) -> str:
    """A moment, in UTC, for people."""
    return datetime.fromtimestamp(at / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


def duration(milliseconds: int) -> str:
    return f"{milliseconds / 1000:.1f} s" if milliseconds < 60_000 else f"{milliseconds / 60_000:.1f} min"


# --- Problems --------------------------------------------------------------------------------------------------------


def problem_lines(problems: Iterable[Problem], style: Style) -> Iterator[str]:
    """Each problem with its place, its code and what helps."""
    for problem in problems:
        where = problem.where
        place = ""
        if where is not None and (where.file or where.line):
            parts = [where.file or "", str(where.line or ""), str(where.column or "")]
            place = visible(":".join(part for part in parts if part)) + ": "
        paint = style.warn if problem.severity is Severity.WARNING else style.bad
        yield f"{place}{paint(problem.code)} {visible(problem.detail)}"
        for hint in problem.hints:
            yield f"    {visible(hint)}"
        if problem.command:
            yield f"    → {style.bold(visible(problem.command))}"


def lint_lines(report: LintReport, style: Style) -> Iterator[str]:
    yield from problem_lines(report.problems, style)
    errors = sum(problem.severity is not Severity.WARNING for problem in report.problems)
    warnings = len(report.problems) - errors
    name = visible(report.file or "the document")
    if errors or report.plan_id is None:
        yield style.bad(f"{name}: {errors} error{'s' * (errors != 1)}, {warnings} warning{'s' * (warnings != 1)}")
    else:
        with_warnings = f", {warnings} warning{'s' * (warnings != 1)}" if warnings else ""
        steps = f"{report.steps} step{'s' * (report.steps != 1)}"
        yield style.good(f"{name}: good") + f" ({steps}{with_warnings}), {style.dim(report.plan_id)}"


# --- Plans -----------------------------------------------------------------------------------------------------------


def review_lines(review: Review, style: Style, *, detail: str = "normal") -> Iterator[str]:
    """A plan as an approver must see it. `detail` is quiet, normal or verbose."""
    plan = review.plan
    reports = {report.id: report for report in review.run.steps} if review.run is not None else {}
    yield f"{style.bold('Plan:')} {visible(plan.title)}"
    if detail == "quiet":
        for number, step in enumerate(plan.steps, start=1):
            yield f"  {number}. [{_state(reports.get(step.id))}] {visible(step.description)}"
        return
    yield f"  ID:      {review.plan_id}"
    yield f"  In:      {visible(review.workspace)}"
    if review.lineage is not None:
        yield f"  Lineage: {review.lineage} ({review.status})"
    if review.document is not None:
        yield f"  From:    {visible(review.document)}"
    if plan.context is not None:
        yield "  Context:"
        yield from _block(plan.context, "    ")
    yield ""
    yield "  Steps:"
    previous: str | None = None
    for number, step in enumerate(plan.steps, start=1):
        yield from _step_lines(number, step, previous, reports.get(step.id), style, detail)
        previous = step.id
    yield ""
    yield f"  On failure:  {visible(write_failure(plan.on_failure or review.limits.on_failure))}"
    for label, value in (
        ("Workspace", plan.workspace_id),
        ("Tier", str(plan.tier) if plan.tier is not None else None),
        ("Tools", ", ".join(plan.tools) or "none" if plan.tools is not None else None),
        ("Concurrency", str(plan.concurrency) if plan.concurrency else None),
        ("Timeout", write_duration(plan.timeout_ms) if plan.timeout_ms else None),
    ):
        if value is not None:
            yield f"  {label + ':':<12} {visible(value)}"
    if detail == "verbose":
        yield from _limit_lines(review.limits)
    yield ""
    yield from _effect_lines(review, style)
    if review.notices:
        yield ""
        yield from (f"  {line}" for line in problem_lines(review.notices, style))


def _limit_lines(limits: Limits) -> Iterator[str]:
    """The settings that hold where the plan is silent."""
    yield f"  By default:  {limits.concurrency} steps at once, {write_duration(limits.step_timeout_ms)} a step,"
    yield f"               {write_duration(limits.contract_timeout_ms)} a contract, environment {' '.join(limits.env)}"


def _step_lines(
    number: int, step: Step, previous: str | None, report: StepReport | None, style: Style, detail: str
) -> Iterator[str]:
    yield f"    {number}. [{_state(report)}] {style.bold(visible(step.description))}  {style.dim(step.id)}"
    match step.action:
        case RunCommand(command=command):
            yield from _labelled("Runs", command)
        case CallTool(tool=tool, args=args):
            yield f"       Calls:      {tool}"
            for name, value in literal(args).items():
                text = value if isinstance(value, str) and _plain(value) else json.dumps(value, ensure_ascii=False)
                yield from _labelled(f"  {visible(name)}", text)
    implied = (previous,) if previous is not None else ()
    if step.needs != implied or detail == "verbose":
        yield f"       Needs:      {', '.join(step.needs) or 'nothing'}"
    contract = contract_of(step)
    if contract is not None and step.verification is not None:
        yield from _labelled("Contract", contract.command)
        if contract.exit_code:
            yield f"       Wants:      exit status {contract.exit_code}"
    if step.verification is not None:
        if contract is None:
            yield f"       Verified:   by {step.verification.strategy.__struct_config__.tag}"
        if step.verification.description is not None:
            yield from _labelled("Meaning", step.verification.description)
        if step.verification.timeout_ms is not None:
            yield f"       Within:     {write_duration(step.verification.timeout_ms)}"
    if step.on_failure is not None:
        yield f"       On failure: {visible(write_failure(step.on_failure))}"
    if step.timeout_ms is not None:
        yield f"       Timeout:    {write_duration(step.timeout_ms)}"
    if step.idempotent is not None:
        word = "may be run again after a crash (claimed)" if step.idempotent else "never run again unasked"
        yield f"       Repeatable: {style.warn(word)}"
    if report is not None and report.evidence:
        yield f"       Evidence:   {visible(report.evidence)}"


def _plain(text: str) -> bool:
    """Whether a text can be shown without quotes: not where it would look like a number or nothing at all."""
    if text != text.strip(" ") or not text:
        return False
    try:
        json.loads(text)
    except ValueError:
        return True
    return text[0] in "{["


def _labelled(label: str, text: str) -> Iterator[str]:
    """A value after its label; one that has several lines stands whole below it, marked so that it cannot be taken for
    anything else."""
    if "\n" not in text:
        yield f"       {label + ':':<11} {visible(text)}"
        return
    yield f"       {label}:"
    yield from _block(text, "         ")


def _block(text: str, indent: str) -> Iterator[str]:
    for line in text.split("\n"):
        yield f"{indent}│ {visible(line)}"


def _effect_lines(review: Review, style: Style) -> Iterator[str]:
    yield f"  {style.bold('What it will do')} (computed from the plan and the tool registry):"
    commands = [effect for effect in review.effects if effect.kind == "command"]
    contracts = [effect for effect in review.effects if effect.kind == "contract"]
    writes = sorted({effect.target for effect in review.effects if effect.kind == "write"})
    reads = sorted({effect.target for effect in review.effects if effect.kind == "read"})
    if commands:
        count = len(commands)
        yield f"    runs {count} command{'s' * (count != 1)}, each with everything you may do on this machine"
    if contracts:
        yield f"    checks contracts, which are commands too: {len(contracts)}"
    if writes:
        yield f"    writes {', '.join(visible(path) for path in writes)}"
    if reads:
        yield f"    reads {', '.join(visible(path) for path in reads)}"
    for effect in review.effects:
        if effect.claimed_repeatable:
            yield f"    {style.warn('may run again after a crash')}: {effect.step}"
    verdict = "needs approval" if review.requires_approval else "needs no approval"
    yield f"  {style.bold('Policy:')} {verdict}"
    for reason in review.reasons:
        yield f"    because {reason}"
    yield f"  {style.bold('Trust:')} {TIER_WORDS[review.tier]}"


# --- Runs ------------------------------------------------------------------------------------------------------------


def run_lines(report: RunReport, style: Style, *, verbose: bool = False) -> Iterator[str]:
    """The report of a run: every step by name, how it ended, how we know, and what a person is asked.

    `verbose` shows the end of every step's output, not only of those that went wrong.
    """
    yield f"{style.bold('Run:')} {report.run_id}  {visible(report.title)}"
    yield f"  Plan:   {report.plan_id}"
    yield f"  Status: {_run_status(report, style)}"
    if report.reason:
        yield f"  Why:    {visible(report.reason)}"
    yield ""
    width = max((len(step.id) for step in report.steps), default=0)
    for step in report.steps:
        took = f"{duration(step.duration_ms):>8}" if step.duration_ms is not None else " " * 8
        tries = f" (attempt {step.attempts})" if step.attempts > 1 else ""
        why = step.waiting or step.evidence
        if step.error is not None and step.waiting is None:
            why = f"{step.error} {why}"
        yield (
            f"  {step.number:>3}. {_painted(step.state, style)} {step.id:<{min(width, 32)}} {took}  "
            f"{visible(why)}{style.dim(tries)}"
        )
        wrong = step.state in (StepState.FAILED, StepState.ESCALATED)
        if (wrong or verbose) and step.output_tail.strip():
            yield from _tail(step.output_tail, report.run_id)
    for question in report.questions:
        yield ""
        yield f"  {style.warn('A person is asked:')} {visible(question.text)}"
        if question.detail:
            yield f"    {visible(question.detail)}"
        for choice in question.choices:
            yield f"    → {style.bold(f'ordain answer {question.item} {choice.word}')}"
            yield f"        {choice.meaning}"


def _tail(output: str, run_id: str) -> Iterator[str]:
    lines = output.rstrip("\n").split("\n")
    if len(lines) > 8:
        yield f"         │ … {len(lines) - 8} earlier lines: ordain log {run_id} --json"
    for line in lines[-8:]:
        yield from textwrap.wrap(
            visible(line), 140, initial_indent="         │ ", subsequent_indent="         │   ", drop_whitespace=False
        ) or ["         │"]


def _run_status(report: RunReport, style: Style) -> str:
    passed = sum(step.state is StepState.PASSED for step in report.steps)
    words = f"{report.status}, {passed} of {len(report.steps)} steps passed"
    unverified = [step.id for step in report.steps if step.evidence.startswith("unverified")]
    if unverified:
        words += f"; by a person's word only: {', '.join(unverified)}"
    match report.status:
        case "completed":
            return style.good(words)
        case "failed":
            return style.bad(words)
        case "stopped":
            return style.warn(f"{words} → ordain resume {report.run_id}")
        case _:
            return style.warn(words)


_PAINT = {
    StepState.PASSED: "32",
    StepState.FAILED: "31",
    StepState.IN_DOUBT: "35",
    StepState.ESCALATED: "33",
    StepState.RUNNING: "36",
    StepState.VERIFYING: "36",
}


def _painted(state: StepState, style: Style) -> str:
    word = f"{state.value:<10}"
    return style(word, _PAINT[state]) if state in _PAINT else style.dim(word)


def _state(report: StepReport | None) -> str:
    return (report.state if report is not None else StepState.PENDING).value.upper()


def status_lines(plans: Iterable[PlanLine], workspace: str, style: Style) -> Iterator[str]:
    """What runs, what waits for whom, what can be started."""
    plans = list(plans)
    yield style.dim(f"In {visible(workspace)}:")
    if not plans:
        yield "No plans here yet. Start with: ordain run DOCUMENT"
    for line in plans:
        short = short_id(line.plan_id)
        ended = f"  {style.dim(line.last_run)}" if line.last_run is not None and line.run is None else ""
        yield f"{short}  {line.status:<10} {visible(line.title)}{ended}"
        if line.run is not None:
            yield from (f"  {text}" for text in run_lines(line.run, style))
        elif (command := next_command(line)) is not None:
            yield f"    → {command}"


def next_command(line: PlanLine) -> str | None:
    """What can be done next with a plan that is not running."""
    verbs = {"proposed": "approve" if line.requires_approval else "commit", "approved": "commit"}
    return f"ordain {verbs[line.status]} {short_id(line.plan_id)}" if line.status in verbs else None
