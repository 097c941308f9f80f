"""What changed between two plans, for people: what to read first, then the plan's own fields, then step by step.
Everything that differs is shown whole; lines that are the same in both are left out, and counted."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from difflib import SequenceMatcher
from typing import Any

import msgspec

from ordain.core.approval.diff import difference
from ordain.core.approval.diff.concern import Concern
from ordain.core.plan.canonical import plan_hash, short_id
from ordain.core.plan.value import PlanId
from ordain.core.plan.words import write_duration
from ordain.documents.yaml import yaml_text
from ordain.interfaces.view.picked import picked
from ordain.interfaces.view.run import instant
from ordain.interfaces.view.style import Style
from ordain.interfaces.view.text import visible

_WIDTH = 100
_AROUND = 3
_SINCE_LINES_MAX = 30
"""More lines of what changed stand in `ordain diff` only; the plan itself is shown whole all the same."""
_CHANGE_LINES_MAX = 100
_RANGES_MAX = 12
_EXACT = {"command", "env", "inputs", "protect", "reads", "writes"}
"""Fields that a machine reads: commands and paths."""
_COMPARED_MAX = 1_000
"""More lines than this are not compared one by one: it would take too long."""


class ComparedPlan(msgspec.Struct, frozen=True, kw_only=True):
    """One of the two, by name."""

    plan_id: PlanId
    plan_hash: str
    title: str
    lineage: str | None
    document: str | None


class ComparisonResult(msgspec.Struct, frozen=True, kw_only=True):
    """Both sides by name, then what to read first, then everything."""

    old: ComparedPlan
    new: ComparedPlan
    same: bool
    concerns: tuple[Concern, ...]
    fields: tuple[difference.FieldChange, ...]
    steps: difference.StepsDifference
    fallbacks: difference.StepsDifference


def comparison_result(found: difference.Comparison) -> ComparisonResult:
    changes = found.difference
    return picked(ComparisonResult, changes, old=_by_name(found.old), new=_by_name(found.new), same=changes.empty)


def _by_name(side: difference.Side) -> ComparedPlan:
    return picked(ComparedPlan, side, plan_hash=plan_hash(side.plan_id), title=side.plan.title)


def difference_lines(comparison: difference.Comparison, style: Style) -> Iterator[str]:
    """Two plans, what to read first, and everything that changed."""
    found = comparison.difference
    yield from _side("Old:", comparison.old, style)
    yield from _side("New:", comparison.new, style)
    yield ""
    if found.empty:
        yield "Nothing changed: they are one plan."
        return
    if found.concerns:
        yield style.bold("Read first:")
        for kind, detail in difference.concern_words(found.concerns):
            yield f"  {style.bad('!')} {visible(detail)}  {style.dim(kind)}"
        yield ""
    yield from _plan_lines(found, style)
    yield difference.summary(found)


def since_lines(since: difference.Since, identity: PlanId, style: Style) -> Iterator[str]:
    """What changed since a plan that was approved or rejected, as an approver of another one sees it."""
    at = since.approved_at if since.approved_at is not None else since.rejected_at
    assert at is not None
    done = "approved" if since.approved_at is not None else "rejected"
    yield f"  {style.bold(f'Since this document was {done} last')} ({instant(at)}):"
    for concern in since.concerns:
        yield f"    {style.bad('!')} {visible(concern)}"
    yield f"    {visible(since.summary)}"
    lines = [line for line in _plan_lines(since.changes, style) if line]
    shown = lines if len(lines) <= _SINCE_LINES_MAX else lines[: _SINCE_LINES_MAX - 1]
    yield from _indented(shown, "    ")
    if len(shown) < len(lines):
        yield f"    … {len(lines) - len(shown):,} more lines:"
    yield f"    → ordain diff {short_id(since.plan_id)} {short_id(identity)}"


def change_lines(found: difference.PlanDifference, style: Style) -> Iterator[str]:
    """Every field that differs, with its old and new value; of very many the first."""
    lines = [line for line in _plan_lines(found, style) if line]
    yield from lines[:_CHANGE_LINES_MAX]
    if len(lines) > _CHANGE_LINES_MAX:
        yield f"… {len(lines) - _CHANGE_LINES_MAX:,} more lines:"


def _side(label: str, side: difference.Side, style: Style) -> Iterator[str]:
    origin = [side.lineage] if side.lineage is not None else []
    if side.document is not None:
        origin.append(f"from {visible(side.document)}")
    yield f"{style.bold(label)} {visible(side.plan.title)}  {style.dim(' '.join(origin))}".rstrip()
    yield f"     {side.plan_id}"


def _plan_lines(found: difference.PlanDifference, style: Style) -> Iterator[str]:
    if found.fields:
        yield style.bold("Plan:")
        for change in found.fields:
            yield from _indented(_field_lines(change, style), "  ")
        yield ""
    for label, steps in (("Steps:", found.steps), ("Fallbacks:", found.fallbacks)):
        lines = list(_steps_lines(steps, style))
        if lines:
            yield style.bold(label)
            yield from _indented(lines, "  ")
            yield ""


# --- Steps -----------------------------------------------------------------------------------------------------------


def _steps_lines(steps: difference.StepsDifference, style: Style) -> Iterator[str]:
    """Every step that is not the same, in the new plan's order; a removed one where it used to be."""
    blocks = [(placed.number, 0, list(_whole(placed, "-", style))) for placed in steps.removed]
    blocks += [(placed.number, 1, list(_whole(placed, "+", style))) for placed in steps.added]
    changed = {one.number: one for one in steps.changed}
    moved = {one.number: one.old_number for one in steps.moved}
    names: dict[int, str] = {one.number: one.id for one in steps.changed}
    names |= {one.number: one.id for one in steps.moved} | {one.number: one.id for one in steps.renamed}
    old_names = {one.number: one.old_id for one in steps.renamed}
    for alike in _alike(steps, style):
        for number in alike:
            names.pop(number)
        lines = list(_inner_lines(changed[alike[0]], style))
        head = f"{style.warn('~')} {style.bold(f'{len(alike):,} steps')} ({_ranges(alike)})"
        if len(lines) == 1:
            blocks.append((alike[0], 1, [f"{head}: {lines[0].strip()}"]))
        else:
            blocks.append((alike[0], 1, [f"{head}, each:", *lines]))
    for number, name in names.items():
        one = changed.get(number)
        marks = ("~" if one is not None or number in old_names else "") + ("→" if number in moved else "")
        said = [f"was number {moved[number]}"] if number in moved else []
        said += [f"was called {visible(old_names[number])}"] if number in old_names else []
        head = f"{style.warn(marks)} {number}. {style.bold(visible(name))}{'  ' + ', '.join(said) if said else ''}"
        blocks.append((number, 1, [head, *(_inner_lines(one, style) if one is not None else ())]))
    for _, _, lines in sorted(blocks, key=lambda block: block[:2]):
        yield from lines


def _alike(steps: difference.StepsDifference, style: Style) -> list[list[int]]:
    """The numbers of steps that changed in the same way, and in no other."""
    elsewhere = {one.number for one in steps.moved} | {one.number for one in steps.renamed}
    found: dict[tuple[str, ...], list[int]] = {}
    for one in steps.changed:
        if one.inside is None and one.number not in elsewhere:
            found.setdefault(tuple(_inner_lines(one, style)), []).append(one.number)
    return [numbers for numbers in found.values() if len(numbers) >= difference.ALIKE_MIN]


def _ranges(numbers: Sequence[int]) -> str:
    """Ascending numbers as ranges: `1-3, 7`."""
    ranges: list[list[int]] = []
    for number in numbers:
        if ranges and ranges[-1][1] == number - 1:
            ranges[-1][1] = number
        else:
            ranges.append([number, number])
    said = [f"{first}-{last}" if last > first else f"{first}" for first, last in ranges[:_RANGES_MAX]]
    more = len(ranges) - len(said)
    return ", ".join(said) + (f" and {more:,} more ranges; --json lists them" if more else "")


def _whole(placed: difference.PlacedStep, mark: str, style: Style) -> Iterator[str]:
    paint = style.good if mark == "+" else style.bad
    step: dict[str, Any] = msgspec.to_builtins(placed.step)
    name, description = step.pop("id"), step.pop("description")
    yield f"{paint(mark)} {placed.number}. {style.bold(visible(name))}  {visible(description)}"
    for field, value in step.items():
        exact = _is_exact((field,), value)
        for line in yaml_text({field: value}).removesuffix("\n").split("\n"):
            yield f"     │ {paint(f'{mark} {_shown(line, exact)}')}"


def _inner_lines(one: difference.ChangedStep, style: Style) -> Iterator[str]:
    for change in one.fields:
        yield from _indented(_field_lines(change, style), "     ")
    if one.inside is not None:
        yield "     in its plan"
        lines = list(_plan_lines(one.inside, style))
        yield from _indented(lines[:-1], "       ")


# --- Values ----------------------------------------------------------------------------------------------------------


def _field_lines(change: difference.FieldChange, style: Style) -> Iterator[str]:
    """One field: on a line where both values fit, else line by line below its name."""
    name, exact = _path(change.path), _is_exact(change.path, change.old, change.new)
    values = (change.old, change.new)
    if change.path[-1].endswith("_ms") and all(
        one is msgspec.UNSET or (type(one) is int and one >= 0) for one in values
    ):
        old, new = ("absent" if one is msgspec.UNSET else write_duration(one) for one in values)
        yield f"{name.removesuffix('_ms')}: {style.bad(old)} → {style.good(new)}"
        return
    if not _long(change.old) and not _long(change.new):
        old, new = _value(change.old, exact), _value(change.new, exact)
        if len(name) + len(old) + len(new) < _WIDTH - 16:
            yield f"{name}: {style.bad(old)} → {style.good(new)}"
            return
        yield f"{name}:"
        yield f"  {style.bad(f'- {old}')}"
        yield f"  {style.good(f'+ {new}')}"
        return
    yield f"{name}:"
    for mark, line in _compared(_lines(change.old), _lines(change.new), exact):
        paint = {"-": style.bad, "+": style.good}.get(mark, str)
        yield f"  │ {paint(f'{mark} {line}')}".rstrip()


def _is_exact(path: Sequence[str], *values: Any) -> bool | None:
    """True where a machine reads a value, so that look-alike letters are escaped; None for prose."""
    dicts = [value for value in values if isinstance(value, dict)]
    names = {*path, *(name for value in dicts for name in value)}
    inside = (_is_exact((), *value.values()) for value in dicts)
    return True if names & _EXACT or any(inside) else None


def _path(path: Sequence[str]) -> str:
    plain = all(part.isascii() and part.replace("_", "").replace("-", "").isalnum() for part in path)
    return ".".join(path) if plain else ".".join(_value(part) if not part.isidentifier() else part for part in path)


def _long(value: Any) -> bool:
    if isinstance(value, str):
        return "\n" in value
    return isinstance(value, dict | list | tuple) and len(json.dumps(value)) > _WIDTH // 2


def _value(value: Any, exact: bool | None = None) -> str:
    if value is msgspec.UNSET:
        return "absent"
    return visible(json.dumps(value, ensure_ascii=False), exact=exact)


def _lines(value: Any) -> list[str]:
    if value is msgspec.UNSET:
        return []
    text = value if isinstance(value, str) else yaml_text(value).removesuffix("\n")
    return text.split("\n")


def _shown(line: str, exact: bool | None = None) -> str:
    """A line whose end can be seen: blanks there are written out."""
    kept = line.rstrip(" ")
    return visible(kept, exact=exact) + "‹U+20›" * (len(line) - len(kept))


def _compared(old: Sequence[str], new: Sequence[str], exact: bool | None = None) -> Iterator[tuple[str, str]]:
    """Two texts as lines with marks; lines that are the same in both are left out where they are many."""
    start = 0
    while start < min(len(old), len(new)) and old[start] == new[start]:
        start += 1
    end = 0
    while end < min(len(old), len(new)) - start and old[-1 - end] == new[-1 - end]:
        end += 1
    yield from _same(old[:start], exact, first=True)
    middle = (old[start : len(old) - end], new[start : len(new) - end])
    for same, i, j, k, m in _parts(*middle):
        if same:
            yield from _same(middle[0][i:j], exact)
        else:
            yield from (("-", _shown(line, exact)) for line in middle[0][i:j])
            yield from (("+", _shown(line, exact)) for line in middle[1][k:m])
    yield from _same(old[len(old) - end :], exact, last=True)


def _parts(old: Sequence[str], new: Sequence[str]) -> Iterator[tuple[bool, int, int, int, int]]:
    """Which lines of the one are which lines of the other: whether they are the same, and the ends of both parts."""
    if max(len(old), len(new)) > _COMPARED_MAX:
        yield False, 0, len(old), 0, len(new)
        return
    for code, i, j, k, m in SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
        yield code == "equal", i, j, k, m


def _same(
    lines: Sequence[str], exact: bool | None, *, first: bool = False, last: bool = False
) -> Iterator[tuple[str, str]]:
    before, after = 0 if first else _AROUND, 0 if last else _AROUND
    hidden = len(lines) - before - after
    if hidden < 2:
        yield from ((" ", _shown(line, exact)) for line in lines)
        return
    yield from ((" ", _shown(line, exact)) for line in lines[:before])
    yield "…", f"{hidden} lines are the same"
    yield from ((" ", _shown(line, exact)) for line in lines[len(lines) - after :])


def _indented(lines: Sequence[str] | Iterator[str], indent: str) -> Iterator[str]:
    return (f"{indent}{line}".rstrip() if line else "" for line in lines)
