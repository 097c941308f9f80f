"""What an approver reads beside a plan: the run it goes on with, what is known before it starts, how it was planned."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from ordain.core.lineage.lineage import Version
from ordain.core.lineage.replan import cause_words
from ordain.core.plan.canonical import short_id
from ordain.core.plan.model import Plan
from ordain.core.plan.value import PlanId, StepId
from ordain.core.report.simulation import Foreknown, KnownAnswer, KnownCondition
from ordain.core.report.succession import KeptStep, Successor
from ordain.core.run.event import PlanOrigin
from ordain.interfaces.view.diff import change_lines
from ordain.interfaces.view.run import who
from ordain.interfaces.view.style import Style
from ordain.interfaces.view.text import condition_words, visible

_NAMED_MAX = 12
_WIDTH = 9


def successor_lines(found: Successor, identity: PlanId, style: Style) -> Iterator[str]:
    """Everything that tells a successor from a plan that begins anew."""
    until = "which stays as it is until this one starts" if found.run_status == "open" else f"which {_ended(found)}"
    yield f"  {style.bold(f'Goes on with {found.run_id}')}, {until}:"
    yield _row("Version", f"{found.version}; the one before is {short_id(found.previous_plan_id)}")
    if found.reason:
        yield _row("Why", visible(" ".join(found.reason.split())))
    if found.causes:
        yield _row("Failed", visible("; ".join(map(cause_words, found.causes))))
    yield _row("Keeps", _kept_words(found.kept))
    yield _row("Runs", visible(_named(found.runs)) or "nothing else")
    if found.runs_partly:
        yield _row("", f"and what is left of {visible(_named(found.runs_partly))}")
    if found.uncertain:
        named = visible(_named(found.uncertain))
        yield _row("Beware", style.warn(f"under way when that run was ended, and may have happened: {named}"))
    for label, concerns in (("Wider", found.wider), ("Weaker", found.weaker)):
        for number, concern in enumerate(concerns):
            yield _row(label if not number else "", f"{style.bad('!')} {visible(concern)}")
    yield _row("Changed", found.summary.removeprefix("In all: "))
    yield from (f"    {line}" for line in change_lines(found.changes, style))
    yield f"    → ordain diff {short_id(found.previous_plan_id)} {short_id(identity)}"


def version_lines(version: Version | None) -> Iterator[str]:
    """Which version of its lineage a plan is, where it is not the first."""
    if version is not None and version.previous_plan_id is not None:
        reason = f": {visible(' '.join(version.reason.split()))}" if version.reason else ""
        after = f", to go on with {version.continues}" if version.continues is not None else ""
        yield f"    version {version.number}, after {short_id(version.previous_plan_id)}{after}{reason}"


def folded(found: Successor | None, plan: Plan, detail: str) -> Mapping[StepId, str]:
    """The steps of which only a line is shown, with a word for it: a person has read them in the version before."""
    if found is None or not found.approved_before or detail == "verbose":
        return {}
    changes = found.changes.steps
    other = {one.id for one in changes.changed} | {one.id for one in changes.renamed}
    other |= {one.step.id for one in changes.added}
    kept = {one.step for one in found.kept}
    return {step.id: "kept" if step.id in kept else "unchanged" for step in plan.steps if step.id not in other}


def _row(label: str, text: str) -> str:
    return f"    {f'{label}:' if label else '':<{_WIDTH}} {text}"


def _ended(found: Successor) -> str:
    return {"replaced": "was replaced", "completed": "completed", "failed": "failed"}.get(
        found.run_status, f"was {found.run_status}"
    )


def _kept_words(kept: Sequence[KeptStep]) -> str:
    """What is kept, on one line."""
    if not kept:
        return "nothing"
    contracts, words = [one for one in kept if one.contract], [one for one in kept if one.word]
    said = f"{len(kept)} step{'s' * (len(kept) != 1)} ({visible(_named([one.step for one in kept]))})"
    if contracts:
        said += f"; {len(contracts)} of them where the contract holds again, else they run"
    return said + (f"; {len(words)} unverified" if words else "")


def _named(names: Sequence[str]) -> str:
    return ", ".join(names[:_NAMED_MAX]) + (f" and {len(names) - _NAMED_MAX} more" if len(names) > _NAMED_MAX else "")


_WORDS = {KnownAnswer.FAIL: "FAIL", KnownAnswer.PASS: "PASS", KnownAnswer.UNKNOWN: "not known yet"}
_SHOWN_MAX = 3


def known_lines(known: Foreknown, steps: Sequence[StepId], style: Style) -> Iterator[str]:
    """The rows, none where a plan has neither; what fails first. `steps` are those of the plan, in order."""
    numbers = {step: number for number, step in enumerate(steps, start=1)}
    rows = [*_precondition_rows(known.preconditions, numbers, style), *_contract_rows(known, numbers, style)]
    if rows:
        yield ""
        yield f"  {style.bold('Known now:')}"
        yield from (f"    {row}" for row in rows)


def _precondition_rows(found: Sequence[KnownCondition], numbers: Mapping[StepId, int], style: Style) -> Iterator[str]:
    if not found:
        return
    counts = [f"{sum(one.answer is answer for one in found)} {word}" for answer, word in _WORDS.items()]
    yield f"preconditions: {', '.join(one for one in counts if not one.startswith('0 '))}"
    failing = [one for one in found if one.answer is KnownAnswer.FAIL]
    for one in failing[:_SHOWN_MAX]:
        where = f"step {numbers[one.step]} would fail" if one.step is not None else "the plan could not start"
        yield f"  {style.bad('FAIL')} {visible(condition_words(one.condition))}: {where} now"
        yield f"       {visible(one.detail)}"
    if len(failing) > _SHOWN_MAX:
        yield f"  and {len(failing) - _SHOWN_MAX} more"


def _contract_rows(known: Foreknown, numbers: Mapping[StepId, int], style: Style) -> Iterator[str]:
    parts = []
    if known.holding:
        places = ", ".join(f"{numbers[step]}" for step in known.holding[:_SHOWN_MAX])
        more = ", …" * (len(known.holding) > _SHOWN_MAX)
        proves = "would prove nothing"
        verb = "hold" if len(known.holding) > 1 else "holds"
        parts.append(style.warn(f"{len(known.holding)} {verb} already ({places}{more}) and {proves}"))
    if known.broken:
        parts.append(f"{known.broken} {'do' if known.broken > 1 else 'does'} not hold yet")
    if known.unknown:
        parts.append(f"{known.unknown} not known yet")
    if parts:
        yield f"contracts: {', '.join(parts)}"
    if known.unknown and known.why_unknown:
        yield style.dim(f"  {visible(known.why_unknown)}")


def origin_words(origin: PlanOrigin) -> str:
    """How a plan came to be that a planner wrote."""
    unenforced = ", started without a sandbox" if origin.unenforced else ""
    rounds = rounds_words(origin.rounds, origin.first_wrong)
    words = f"for {who(origin.asked_by)}: {rounds}; {origin.tokens:,} tokens{unenforced}"
    return f"by {visible(origin.planner)} {words}"


def rounds_words(count: int, first_wrong: int) -> str:
    """How often a planner handed in a plan, and how good the first was."""
    if count <= 1:
        return "right at once" if not first_wrong else "in one round"
    return f"in {count} rounds, after {first_wrong} problem{'s' * (first_wrong != 1)} in the first"
