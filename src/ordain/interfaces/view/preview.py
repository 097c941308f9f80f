"""A plan as an approver must see it: everything that is in the digest, and what it comes to. Fields that have no words
of their own are shown by name, so that one that is added to the model cannot be approved unseen."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

import msgspec

from ordain.core.plan.action import Ask, CallTool, RunCommand, Task
from ordain.core.plan.canonical import short_id
from ordain.core.plan.command import command_of, command_text, decided_later, shared_variables
from ordain.core.plan.condition import Verification
from ordain.core.plan.failure import FailurePolicy
from ordain.core.plan.graph import needs_of
from ordain.core.plan.model import Action, Budget, NestedPlan, Plan, Step, all_steps, contract_of
from ordain.core.plan.refs import literal, references
from ordain.core.plan.tool import HANDLER, action_kind
from ordain.core.plan.value import StepId
from ordain.core.plan.words import read_failure, write_budget, write_duration, write_failure
from ordain.core.policy.bound_file import SHOWN_MAX, UNBOUND
from ordain.core.report.file_diff import is_whole
from ordain.core.report.report import Prepared, Review, StepReport
from ordain.core.report.simulation import SimulatedStep
from ordain.core.run.step_event import StepState
from ordain.core.text.confusable import ascii_hosts
from ordain.documents.yaml import yaml_text
from ordain.interfaces.view.diff import since_lines
from ordain.interfaces.view.lint import problem_lines
from ordain.interfaces.view.review import (
    ROW,
    count_line,
    folded,
    known_lines,
    origin_lines,
    origin_words,
    risk_lines,
    successor_lines,
    version_lines,
)
from ordain.interfaces.view.run import instant, who
from ordain.interfaces.view.style import Style
from ordain.interfaces.view.text import cells, condition_words, label_rows, repeat_words, visible
from ordain.interfaces.view.tool import Tasks, assignment_lines, by_name, summary_lines

_VERBS = {
    "pane": "types into",
    "delete": "deletes",
    "move": "moves",
    "request": "sends",
    "call": "calls",
    "write": "writes",
    "read": "reads",
}
TIER_WORDS = {
    0: "tier 0, cooperative: stops mistakes and crashes, not an agent that acts as you (SECURITY.md)",
    1: "tier 1, sandboxed: commands and contracts reach no more than is said here; you yourself are not (SECURITY.md)",
    2: "tier 2, separated: this version cannot give it",
}
_REACH = {
    0: "with your full permissions and network access",
    1: "in a sandbox: this workspace, the system's programs, no network unless it is named below",
}
_PLAN_SHOWN = frozenset(
    [
        "plan_version", "title", "context", "steps", "fallbacks", "preconditions", "on_failure", "tools", "protect",
        "timeout_ms", "budget",
    ]
)  # fmt: skip
_STEP_SHOWN = frozenset(
    [
        "id", "description", "action", "needs", "preconditions", "verification", "happened", "proof", "protect",
        "on_failure", "timeout_ms", "idempotent", "budget", "when", "for_each", "approval",
    ]
)  # fmt: skip
"""The fields that have words of their own; all others are shown by their names."""
_TASK_SHOWN = frozenset(["type", "task", "agent"])


def review_lines(review: Review, style: Style, *, detail: str = "normal") -> Iterator[str]:
    """A plan as an approver must see it; `detail` is quiet, normal or verbose."""
    plan = review.plan
    reports = {report.id: report for report in review.run.steps} if review.run is not None else None
    view = PlanView(style, by_name(review.tasks), detail, reports, review.diffs)
    yield f"{style.bold('Plan:')} {visible(plan.title)}"
    if detail == "quiet":
        for number, step in enumerate(plan.steps, start=1):
            yield f"  {number}. {_state(step.id, view)}{visible(step.description)}"
        return
    yield f"  {count_line(review)}"
    yield ""
    yield from risk_lines(review.risks, style)
    if review.known.looked:
        yield from known_lines(review.known, [step.id for step in plan.steps], style)
    yield from _history_lines(review, style)
    fold = folded(review.successor, plan, detail)
    yield from _plan_lines(plan, view, review.limits.on_failure, fold=fold)
    if fold:
        yield f"  {len(fold)} unchanged: ordain show --verbose {short_id(review.plan_id)} has them whole"
    yield ""
    yield from _reach_lines(review, style, detail)
    yield from _binding_lines(review, style)
    if review.notices:
        yield ""
        yield from (f"  {line}" for line in problem_lines(review.notices, style))


def prepared_lines(prepared: Prepared, style: Style, said: Iterable[str] = (), where: str = "") -> Iterator[str]:
    """A plan that was stored, what is said beside it, and the command that comes next."""
    yield from review_lines(prepared.review, style)
    yield ""
    yield from said
    yield f"Stored as {prepared.lineage}, good until {instant(prepared.expires_at)}.{where} Next:"
    yield f"  → {style.bold(prepared.approval_command or prepared.commit_command)}"


def _history_lines(review: Review, style: Style) -> Iterator[str]:
    """What people said before: yes to an earlier version, no to this one."""
    if review.unused:
        count = f"{review.unused} approval{'s' * (review.unused != 1)}"
        yield ""
        yield f"  {style.warn('Approved already:')} {count} that no run has used"
        yield f"    → ordain revoke {short_id(review.plan_id)}"
    became = {(one.plan_id, one.step): one.became for one in review.comments}
    for one in review.rejections:
        said = f"{visible(one.by.name)} rejected {short_id(one.plan_id)} ({instant(one.at)})"
        yield ""
        yield f"  {style.warn(said)}:"
        yield from (f"    {visible(line)}" for line in one.feedback.splitlines())
        for about, text in one.comments.items():
            yield f"    about {visible(about)}: {visible(' '.join(text.split()))}"
            if (words := became.get((one.plan_id, about))) is not None:
                yield f"      → {style.bold(f'{visible(about)} {visible(words)}')}"
    if review.successor is not None:
        yield ""
        yield from successor_lines(review.successor, review.plan_id, style)
    for since in (review.since, review.since_rejected):
        if since is not None:
            yield ""
            yield from since_lines(since, review.plan_id, style)


class PlanView(NamedTuple):
    """How the steps of a plan are shown."""

    style: Style
    tasks: Tasks
    detail: str = "normal"
    reports: Mapping[Any, StepReport] | None = None
    """How the steps of a run stand, by their names; without it no step is said to stand anywhere."""
    diffs: Mapping[str, tuple[str, ...]] = MappingProxyType({})
    """What steps make of files, by their names."""


def _plan_lines(
    plan: Plan,
    view: PlanView,
    default: FailurePolicy | None = None,
    inside: str = "",
    fold: Mapping[StepId, str] = MappingProxyType({}),
) -> Iterator[str]:
    """What a plan says, whether it stands alone or `inside` a step. Of steps to `fold` only a line is shown."""
    if plan.context is not None:
        yield ""
        yield "  Context:"
        yield from _block(plan.context, "    ")
    if plan.preconditions:
        yield ""
        yield "  Preconditions:"
        yield from (f"    {visible(condition_words(condition))}" for condition in plan.preconditions)
    yield ""
    yield "  Steps:"
    implied: tuple[str, ...] = ()
    waits = needs_of(plan)
    for number, step in enumerate(plan.steps, start=1):
        if step.id in fold:
            title = f"{number}. {visible(step.description)} ‹{visible(step.id)}›"
            yield f"    {view.style.dim(f'{title} {fold[step.id]}')}"
        else:
            yield from _whole_step(step, f"{number}.", implied, waits[step.id], view, inside)
        implied = (step.id,)
    if plan.fallbacks:
        yield ""
        yield "  Fallbacks, run only where a failure policy names them:"
        for step in plan.fallbacks:
            yield from _whole_step(step, "-", (), step.needs, view._replace(reports=None), inside)
    yield ""
    by_default = "" if plan.on_failure is not None else " (by default)"
    policy = plan.on_failure or default
    protected = f"{_patterns(plan.protect)}; what a step changes there fails it and is put back"
    yield from label_rows(
        ("On failure", f"{visible(policy_words(policy))}{by_default}" if policy is not None else None),
        ("Tools", visible(", ".join(plan.tools) or "none") if plan.tools is not None else None),
        ("Protects", protected if plan.protect else None),
        ("Each step", f"at most {write_duration(plan.timeout_ms)}" if plan.timeout_ms is not None else None),
        ("Budget", budget_words(plan.budget) if plan.budget is not None else None),
        indent=2,
        width=13,
    )
    yield from (line[5:] for line in _other_fields(plan, _PLAN_SHOWN, width=13))


# --- Steps -----------------------------------------------------------------------------------------------------------


def _whole_step(
    step: Step, sign: str, implied: tuple[str, ...], waits: tuple[StepId, ...], view: PlanView, inside: str
) -> Iterator[str]:
    """A step, its action in the line of its title where both fit. `inside` begins the names of steps in a run."""
    name, style, verbose = f"{inside}{step.id}", view.style, view.detail == "verbose"
    diff = view.diffs.get(name, ())
    text = _one_line(step.action) if not diff or verbose else _changed_file(step.action, diff)
    title, named = visible(step.description), style.dim(f" ‹{visible(step.id)}›")
    head = f"    {sign} {_state(name, view)}"
    if text is not None and step.description == command_text(step.action):
        yield f"{head}{text}{named}"
    elif text is not None and cells(f"{head}{title} ‹{step.id}› {text}") <= ROW:
        yield f"{head}{style.bold(title)}{named} {text}"
    else:
        yield f"{head}{style.bold(title)}{named}"
        if text is not None:
            yield f"       {text}"
    if text is None:
        yield from action_lines(step.action, view, name)
    else:
        yield from (f"         that host is {host}" for host in ascii_hosts(text))
    for line in diff:
        paint = {"-": style.bad, "+": style.good}.get(line[:1], style.dim)
        yield f"         │ {paint(visible(line))}"
    yield from flow_lines(step)
    referred = ", ".join(need for need in waits if need not in step.needs)
    needs = ", ".join(step.needs) or "nothing"
    yield from label_rows(
        ("Needs", visible(needs) if step.needs != implied or verbose else None),
        ("Waits for", f"{visible(referred)}, which it refers to" if referred else None),
    )
    if step.verification is not None:
        yield from _verification_lines(step, step.verification)
    if step.happened is not None:
        yield from _labelled("Happened?", step.happened, exact=True)
    repeatable = "may be run again after a crash (claimed)" if step.idempotent else "never run again unasked"
    protected = f"{_patterns(step.protect)}; what changes there fails it and is put back"
    yield from label_rows(
        ("Proof", f"{step.proof}: the contract is run first too, and must be broken then" if step.proof else None),
        ("Protects", protected if step.protect else None),
        ("On failure", visible(policy_words(step.on_failure)) if step.on_failure is not None else None),
        ("Timeout", write_duration(step.timeout_ms) if step.timeout_ms is not None else None),
        ("Budget", budget_words(step.budget) if step.budget is not None else None),
        ("Repeatable", style.warn(repeatable) if step.idempotent is not None else None),
    )
    yield from _other_fields(step, _STEP_SHOWN, width=12)
    report = view.reports.get(name) if view.reports is not None else None
    yield from label_rows(("Evidence", (visible(report.evidence) or None) if report is not None else None))


def _one_line(action: Action) -> str | None:
    """What an action does, where one line says all of it: a command, or a call with short arguments."""
    command = command_of(action)
    if isinstance(action, RunCommand):
        return f"$ {visible(action.command, exact=True)}" if "\n" not in action.command and not action.env else None
    if not isinstance(action, CallTool) or command is not None:
        return None
    args = literal(dict(action.args))
    if next(references(args), None) is not None or not all(_is_short(one) for one in args.values()):
        return None
    name = action.tool if action.operation is None else f"{action.tool}: {action.operation}"
    words = (f"{key}={value if isinstance(value, str) else json.dumps(value)}" for key, value in args.items())
    return f"calls {visible(' '.join((name, *words)), exact=True)}"


def _changed_file(action: Action, diff: tuple[str, ...]) -> str | None:
    """A call whose diff says what becomes of a file; None where the diff does not say all of it."""
    assert isinstance(action, CallTool)
    return f"calls {action.tool} path={visible(action.args['path'], exact=True)}" if is_whole(diff) else None


def _is_short(value: Any) -> bool:
    if isinstance(value, str):
        return len(value) <= 60 and not set(value) & set(" \n\"'=") and _plain(value)
    return isinstance(value, bool | int | float)


def budget_words(budget: Budget) -> str:
    """A budget in words, and how it is known what was spent."""
    exact = [f"{budget.tokens} tokens"] if budget.tokens is not None else []
    others = msgspec.structs.replace(budget, tokens=None)
    if others != Budget():
        exact.append(write_budget(others) or json.dumps(msgspec.to_builtins(others)))
    words = ", ".join(exact)
    reported = "; tokens and money as reported" if budget.tokens is not None or budget.cost_usd is not None else ""
    return f"{words}{reported}; then a person is asked"


def flow_lines(step: Step | SimulatedStep) -> Iterator[str]:
    """When a step begins besides what it needs, and for what it is repeated."""
    yield from label_rows(("Only when", visible(step.when) if step.when is not None else None))
    if step.preconditions:
        yield "       Only if:"
        yield from (f"         {visible(condition_words(condition))}" for condition in step.preconditions)
    asked = f"{step.approval}: a person says yes right before it, to its values as they are then"
    yield from label_rows(
        ("For each", visible(repeat_words(step.for_each)) if step.for_each is not None else None),
        ("Approval", asked if step.approval is not None else None),
    )


def action_lines(action: Action, view: PlanView, name: str) -> Iterator[str]:
    """What a step does that a run calls `name`, with every value that is known and who performs its task."""
    fields: dict[str, Any]
    match action:
        case RunCommand(command=command, env=env):
            yield from _labelled("Runs", command, exact=True)
            yield from _values(_given(env))
        case CallTool(tool=tool, operation=operation, args=args):
            yield f"       Calls:      {visible(tool if operation is None else f'{tool}: {operation}')}"
            called = command_of(action)
            # Bash gets a command as it is written.
            yield from _values(_given(args) | ({"  command": called.command} if called is not None else {}))
        case NestedPlan(plan=plan):
            yield f"       Carries out: {view.style.bold(visible(plan.title))}"
            inside = _plan_lines(plan, view, inside=f"{name}/")
            yield from (f"       {line}".rstrip() for line in inside)
        case Ask(question=question):
            yield from _labelled("Asks", question)
            fields = msgspec.to_builtins(action)
            yield from _values({f"  {key}": fields[key] for key in ("choices", "schema") if key in fields})
        case Task(task=task):
            yield from _labelled("Task", task)
            fields = {key: one for key, one in msgspec.to_builtins(action).items() if key not in _TASK_SHOWN}
            yield from _listed({key.capitalize(): one for key, one in fields.items()})
            if name in view.tasks:
                yield from assignment_lines(view.tasks[name], view.style)
        case _:
            yield f"       Does:       {action_kind(action)}"
            fields = msgspec.to_builtins(action)
            fields.pop("type")
            yield from _values(_given(fields))


def _verification_lines(step: Step, verification: Verification) -> Iterator[str]:
    contract = contract_of(step)
    if contract is None:
        strategy: dict[str, Any] = msgspec.to_builtins(verification.strategy)
        yield f"       Verified:   by {strategy.pop('type')}"
        yield from _values({f"  {name}": value for name, value in strategy.items()})
    else:
        yield from _labelled("Contract", contract.command, exact=True)
        yield from label_rows(("It sees", ", ".join(shared_variables(step)) or None))
        yield from label_rows(("Wants", f"exit status {contract.exit_code}" if contract.exit_code else None))
        if contract.stdout is not None:
            yield from _labelled("Output has", contract.stdout)
    if verification.description is not None:
        yield from _labelled("Meaning", verification.description)
    within = write_duration(verification.timeout_ms) if verification.timeout_ms is not None else None
    yield from label_rows(("Within", within))


def policy_words(policy: FailurePolicy) -> str:
    """A failure policy in the words of documents, or as a value where those can not say all of it."""
    words = write_failure(policy)
    return words if read_failure(words) == policy else json.dumps(msgspec.to_builtins(policy), ensure_ascii=False)


# --- Values ----------------------------------------------------------------------------------------------------------


def _other_fields(value: Plan | Step, shown: frozenset[str], *, width: int) -> Iterator[str]:
    said: dict[str, Any] = msgspec.to_builtins(value)
    named = {name.replace("_", " ").capitalize(): inner for name, inner in said.items() if name not in shown}
    yield from _listed(named, width=width)


def _listed(values: dict[str, Any], *, width: int = 12) -> Iterator[str]:
    """Fields of a plan or step by name: a list of texts as items, one to a line, for a comma may be part of one."""
    for name, value in values.items():
        if isinstance(value, list | tuple) and value and all(isinstance(one, str) and one for one in value):
            if len(value) == 1:
                yield f"       {visible(name) + ':':<{width - 1}} {visible(value[0])}"
            else:
                yield f"       {visible(name)}:"
                yield from (f"         - {visible(one)}" for one in value)
        else:
            yield from _values({name: value}, width=width)


def _values(values: dict[str, Any], *, width: int = 12) -> Iterator[str]:
    for name, value in values.items():
        label, text = visible(name), json.dumps(value, ensure_ascii=False)
        if isinstance(value, str) and ("\n" in value or _plain(value)):
            text = value
        elif isinstance(value, dict | list | tuple) and len(text) > 80:
            label, text = f"{label} (a value, as YAML)", yaml_text(value).removesuffix("\n")
        yield from _labelled(label, text, width=width, exact=True if name == "  command" else None)


def _patterns(patterns: tuple[str, ...]) -> str:
    """Patterns of paths, each in quotes: a comma may be part of one."""
    return visible(", ".join(json.dumps(pattern, ensure_ascii=False) for pattern in patterns))


def _given(values: Mapping[str, Any]) -> dict[str, Any]:
    """What an action gets, by name: as it gets it, but as it is written where that could be taken for a reference."""
    said = literal(dict(values))
    return {f"  {name}": values[name] if next(references(said[name]), None) else said[name] for name in values}


def _plain(text: str) -> bool:
    """Whether a text can be shown without quotes: not where it would look like another value or nothing at all."""
    if text != text.strip(" ") or not text:
        return False
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return True
    return False


def _labelled(label: str, text: str, *, width: int = 12, exact: bool | None = None) -> Iterator[str]:
    """A value after its label; several lines stand below it, marked so that they cannot be taken for anything else."""
    if "\n" not in text:
        yield f"       {label + ':':<{width - 1}} {visible(text, exact=exact)}"
    else:
        yield f"       {label}:"
        yield from _block(text, "         ", exact=exact)
    yield from (f"         that host is {host}" for host in ascii_hosts(text))


def _block(text: str, indent: str, *, exact: bool | None = None) -> Iterator[str]:
    for line in text.split("\n"):
        yield f"{indent}│ {visible(line, exact=exact)}"


def _state(name: str, view: PlanView) -> str:
    if view.reports is None:
        return ""
    state = view.reports[name].state if name in view.reports else StepState.PENDING
    return f"[{state.value.upper()}] "


# --- What an approval is good for ------------------------------------------------------------------------------------


def _reach_lines(review: Review, style: Style, detail: str) -> Iterator[str]:
    """What the plan reaches: how commands run, what stands behind its handlers, and who performs its tasks."""
    kinds = Counter(effect.kind for effect in review.effects)
    counted = [
        f"{kinds[kind]} {word}{'s' * (kinds[kind] != 1)}"
        for kind, word in (("command", "shell command"), ("contract", "contract"), ("check", "happened check"))
        if kinds[kind]
    ]
    if counted:
        yield f"  {style.bold('Runs')} {' and '.join(counted)} {_REACH.get(review.tier, _REACH[0])}"
    for effect in review.effects:
        if effect.tool.startswith(HANDLER):
            runs = "runs: " if effect.kind == "command" else ""
            yield f"    {effect.tool} {runs}{visible(effect.target, exact=True)} (step {visible(effect.step)})"
        if effect.secrets:
            secrets = ", ".join(f"secret {name}" for name in effect.secrets)
            yield f"    {style.warn(visible(f'hands {secrets} to {effect.target}'))} (step {visible(effect.step)})"
        if effect.happened:
            again = "; if it did not, it is run again" if effect.happened_final else ""
            asked = f"{effect.tool} is asked in doubt whether it happened, by `{effect.happened}`{again}"
            yield f"    {visible(asked, exact=True)} (step {visible(effect.step)})"
    yield from summary_lines(review.tasks, review.tier, style)
    if review.tier and review.limits.sandbox.read:
        also = f"can be read in the sandbox too: {', '.join(review.limits.sandbox.read)}"
        yield f"    {style.warn(visible(also))}"
    for step in all_steps(review.plan):
        if step.network:
            yield f"    {style.warn('may use the network')}: {visible(step.id)}"
        for name, sources in decided_later(step).items():
            decided = f"`{name}` of {step.id} is decided at run time, by {', '.join(sources)}"
            yield f"    {style.warn(visible(decided))}"
    if detail == "verbose":
        for kind, verb in _VERBS.items():  # what is read, written and called, each once
            targets = sorted({one.target for one in review.effects if one.kind == kind})
            if targets:
                yield f"    {verb} {', '.join(visible(target, exact=True) for target in targets)}"
        own, contract = (
            write_duration(ms) for ms in (review.limits.step_timeout_ms, review.limits.contract_timeout_ms)
        )
        yield f"  By default:  {review.limits.concurrency} steps at once, {own} a step,"
        yield f"               {contract} a contract, environment {' '.join(review.limits.env)}"


def _binding_lines(review: Review, style: Style) -> Iterator[str]:
    """Which plan this is, what voids its approval, what no approval covers, and how far it can be trusted."""
    yield f"  {style.bold('ID:')} {review.plan_id}"
    origin = f", from {visible(review.document)}" if review.document is not None else ""
    yield f"  {style.bold('In:')} {visible(review.workspace)}{origin}"
    if review.lineage is not None:
        by = f", by {who(review.proposer)}" if review.proposer is not None else ""
        yield f"  {style.bold('Lineage:')} {review.lineage} ({review.status}){by}"
        if review.successor is None:
            yield from version_lines(review.version)
    if review.origin is not None:
        yield f"  {style.bold('Planned:')} {origin_words(review.origin)}"
        yield from origin_lines(review.origin)
    verdict = "needs approval" if review.requires_approval else "needs no approval"
    yield f"  {style.bold('Policy:')} {verdict}"
    yield from (f"    because {visible(reason)}" for reason in review.reasons)
    if review.allow_subset:
        words = "a new version that only leaves out steps or lowers limits goes on unasked"
        yield f"  {style.warn('Also allowed')}: {words}"
    if review.lineage is not None:
        yield f"  {style.bold('Approval is void if')} {_bound_words(review)} change"
    for number, one in enumerate(review.not_bound if review.lineage is not None else ()):
        # What may be another when the plan runs, although its commands read it.
        head = style.warn("NOT bound:") if not number else " " * len("NOT bound:")
        yield f"  {head} {one.reason}: {_first(one.first, one.count)}"
    if review.unusual:
        yield f"  {style.bold('Environment')}, sealed for the run:"
        yield from (f"    {style.bad('!')} {visible(one)}" for one in review.unusual)
    if review.lineage is not None and review.signature_required:
        yield f"  {style.bold('Signature:')} an enrolled key must sign"
    yield f"  {style.bold('Trust:')} {TIER_WORDS[review.tier]}"
    if review.lineage is not None:
        yield f"  {style.bold('Ledger:')} {review.ledger_size}:{review.ledger_head}"


def _bound_words(review: Review) -> str:
    """What an approval is bound to, besides the plan."""
    base, parts = review.base, ["this directory"]
    files = [path for path, what in base.operands.items() if what not in UNBOUND]
    if files:
        parts.append(f"{len(files)} file{'s' * (len(files) != 1)} ({_first(files[:SHOWN_MAX], len(files))})")
    parts.append(f"the configuration ({base.config[:19]})")
    if base.environment is not None:
        programs = ", ".join(base.environment.programs.values())
        parts.append(f"the environment ({visible(programs)})")
    if base.git_head is not None:
        parts.append(f"the commit {base.git_head[:12]}")
    if review.successor is not None:
        parts.append(f"{review.successor.run_id} and what it leaves")
    return f"{', '.join(parts)} or the tools"


def _first(names: Sequence[str], count: int) -> str:
    if count <= len(names):
        return visible(", ".join(names), exact=True)
    return f"{visible(', '.join(names), exact=True)} and {count - len(names)} more" if names else str(count)
