"""What a step makes of a file that is there: the lines it takes away and adds, as a unified diff."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from ordain.core.plan.action import CallTool
from ordain.core.plan.model import Plan, nested_plan_of
from ordain.core.plan.refs import references

LINES_MAX = 60
"""How many lines of one diff are shown; what is cut is still in the arguments, which are shown then."""
BYTES_MAX = 256 << 10
"""Of larger files no diff is made: nobody waits for it."""
CUT = "… more lines: see what the step is given"

Before = Callable[[str], str | None]
"""What is in a file now, without secrets; None where there is none that can be shown."""


def file_diffs(plan: Plan, before: Before) -> dict[str, tuple[str, ...]]:
    """The diffs of the steps that edit or replace files, against the files as they are now."""
    return {name: lines for name, action in _calls(plan, "") if (lines := _diff(action, before))}


def is_whole(lines: tuple[str, ...]) -> bool:
    return bool(lines) and lines[-1] != CUT


def _calls(plan: Plan, outer: str) -> Iterator[tuple[str, CallTool]]:
    for step in (*plan.steps, *plan.fallbacks):
        if isinstance(step.action, CallTool) and step.action.operation is None and step.for_each is None:
            yield f"{outer}{step.id}", step.action
        elif (inner := nested_plan_of(step)) is not None:
            yield from _calls(inner, f"{outer}{step.id}/")


def _diff(action: CallTool, before: Before) -> tuple[str, ...]:
    args: Mapping[str, object] = action.args
    wanted = {"edit_file": ("old", "new"), "write_file": ("content",)}.get(action.tool)
    if wanted is None or set(args) != {"path", *wanted} or next(references(args), None) is not None:
        return ()
    path, *texts = (args[name] for name in ("path", *wanted))
    if not isinstance(path, str) or not all(isinstance(text, str) and "${" not in text for text in texts):
        return ()
    now, after = before(path), str(texts[-1])
    if now is None or (len(texts) == 2 and now.count(str(texts[0])) != 1):
        return ()
    after = now.replace(str(texts[0]), after) if len(texts) == 2 else after
    if now.endswith("\n") and after.endswith("\n"):  # else a last line feed that comes or goes stays visible
        now, after = now[:-1], after[:-1]
    from difflib import unified_diff  # few plans edit a file

    lines = list(unified_diff(now.split("\n"), after.split("\n"), n=2, lineterm=""))[2:]
    return (*lines[:LINES_MAX], CUT) if len(lines) > LINES_MAX else tuple(lines)
