"""What is known of a plan before its approval, in a few rows: preconditions, and contracts that hold already."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from ordain.core.plan.value import StepId
from ordain.core.report.foreknown import Foreknown, KnownAnswer, KnownCondition
from ordain.interfaces.view.style import Style
from ordain.interfaces.view.text import condition_words, visible

_WORDS = {KnownAnswer.FAIL: "FAIL", KnownAnswer.PASS: "PASS", KnownAnswer.UNKNOWN: "not known yet"}
_SHOWN_MAX = 3
"""How many places of each are named."""


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
