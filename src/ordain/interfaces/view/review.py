"""What an approver reads beside a plan: what to look at first, worst first, on a screen of 80×24 whatever it holds; the
run it goes on with, what is known before it starts, how it was planned."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence

from ordain.core.lineage.lineage import Version
from ordain.core.lineage.replan import cause_words
from ordain.core.plan.action import CallTool
from ordain.core.plan.canonical import short_id
from ordain.core.plan.model import Plan, all_steps, contract_of, nested_plan_of
from ordain.core.plan.value import PlanId, StepId
from ordain.core.policy.effect import LOOKS
from ordain.core.report.report import Review
from ordain.core.report.risk import KINDS, PLACES_MAX, PlanRisk, RiskPlace
from ordain.core.report.simulation import Foreknown, KnownAnswer, KnownCondition
from ordain.core.report.succession import KeptStep, Successor
from ordain.core.run.event import PlanOrigin
from ordain.interfaces.view.diff import change_lines
from ordain.interfaces.view.run import who
from ordain.interfaces.view.style import Style
from ordain.interfaces.view.text import cells, condition_words, fitted, packed, visible

_NAMED_MAX = 12
_WIDTH = 9


def successor_lines(found: Successor, identity: PlanId, style: Style) -> Iterator[str]:
    """Everything that tells a successor from a plan that begins anew."""
    ended = found.run_status if found.run_status in ("completed", "failed") else f"was {found.run_status}"
    until = "which stays as it is until this one starts" if found.run_status == "open" else f"which {ended}"
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


def origin_lines(origin: PlanOrigin) -> Iterator[str]:
    """What a planner's plan was asked to do: whoever approves compares it with what the plan does."""
    if origin.goal:
        yield f"    goal: {visible(' '.join(origin.goal.split()))}"
    for question, answer in origin.answers:
        yield f"    asked: {visible(' '.join(question.split()))} → {visible(' '.join(answer.split()))}"


def rounds_words(count: int, first_wrong: int) -> str:
    """How often a planner handed in a plan, and how good the first was."""
    if count <= 1:
        return "right at once" if not first_wrong else "in one round"
    return f"in {count} rounds, after {first_wrong} problem{'s' * (first_wrong != 1)} in the first"


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
