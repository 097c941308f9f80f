"""Very large documents, read, linted and hashed, beside `json.loads` of the same plan; growth and memory too."""

from __future__ import annotations

import gc
import json
import tracemalloc
from collections.abc import Awaitable, Callable

import msgspec

from bench.measure import Line, Size, compare, race, timed
from bench.plans import markdown_plan
from ordain.adapters.workspace.directory import DirectoryWorkspace
from ordain.core.lint.rules import lint
from ordain.core.lint.survey import Facts
from ordain.core.plan.canonical import plan_id
from ordain.core.plan.model import Plan
from ordain.core.plan.tool import DEFINITIONS
from ordain.core.policy.settings import Settings
from ordain.core.text.problem import Severity
from ordain.documents.reading import read

__all__ = ["measure"]

FROM_JSON, FROM_MARKDOWN, TWICE_THE_STEPS, MEMORY = 12.0, 20.0, 2.3, 6.0


async def measure(size: Size) -> list[Line]:
    count, rounds = size.pick(10_000, 2000), size.pick(5, 3)
    workspace = DirectoryWorkspace(size.directory, 0)
    markdown, plan = _made(count)
    facts = workspace.facts(plan, DEFINITIONS, Settings(), None)
    wrong = [problem for problem in lint(plan, facts) if problem.severity is not Severity.WARNING]
    if wrong:
        raise RuntimeError(f"the generated document has errors: {wrong[0]}")
    text = msgspec.json.encode(plan)
    parts: list[tuple[str, Callable[[], object], float | None]] = [
        (f"JSON: read + lint + digest, {count:,} steps", lambda: _whole(text, facts), FROM_JSON),
        ("  of that, reading", lambda: read(text), None),
        (f"Markdown: read + lint + digest, {count:,} steps", lambda: _whole(markdown, facts), FROM_MARKDOWN),
        ("  of that, reading", lambda: read(markdown), None),
        ("  linting", lambda: lint(plan, facts), None),
        ("  the digest", lambda: plan_id(plan), None),
        ("and looking at the surroundings", lambda: workspace.facts(plan, DEFINITIONS, Settings(), None), None),
    ]
    lines = []
    for label, work, target in parts:
        pairs = await race(rounds, _once(work), _once(lambda: json.loads(text)))
        note = f"{len(markdown) / 1e6:.1f} MB of Markdown, {len(text) / 1e6:.1f} MB of JSON" if target else ""
        lines.append(compare("document", label, "json.loads of the plan", pairs, target=target, note=note))
    lines += await _growth(count, rounds, facts, text)
    lines.append(_memory(text, facts))
    return lines


async def _growth(count: int, rounds: int, facts: Facts, text: bytes) -> list[Line]:
    """Twice the steps should cost twice the time."""
    double_markdown, double_plan = _made(2 * count)
    double_text = msgspec.json.encode(double_plan)
    single_markdown, _ = _made(count)
    lines = []
    for label, large, small in (
        ("JSON", double_text, text),
        ("Markdown", double_markdown, single_markdown),
    ):
        pairs = await race(rounds, _once(_bound(large, facts)), _once(_bound(small, facts)))
        ours, other = f"{label}: {2 * count:,} steps", f"{count:,} steps"
        lines.append(compare("document", ours, other, pairs, target=TWICE_THE_STEPS))
    return lines


def _memory(text: bytes, facts: Facts) -> Line:
    """The most that is held at once, beside the parsed JSON itself."""
    gc.collect()
    tracemalloc.start()
    parsed = json.loads(text)
    held = tracemalloc.get_traced_memory()[0]
    del parsed
    tracemalloc.stop()
    gc.collect()
    tracemalloc.start()
    _whole(text, facts)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return Line(
        name="document",
        ours="JSON: peak memory of read + lint + digest",
        other="the parsed JSON",
        ratio=peak / held,
        target=MEMORY,
        note=f"{peak / 1e6:.0f} MB beside {held / 1e6:.0f} MB",
    )


def _made(count: int) -> tuple[bytes, Plan]:
    data = markdown_plan(count).encode()
    document = read(data)
    if document.plan is None:
        raise RuntimeError(f"the generated document cannot be read: {document.problems[0]}")
    return data, document.plan


def _whole(data: bytes, facts: Facts) -> None:
    plan = read(data).plan
    assert plan is not None
    lint(plan, facts)
    plan_id(plan)


def _bound(data: bytes, facts: Facts) -> Callable[[], None]:
    return lambda: _whole(data, facts)


def _once(work: Callable[[], object]) -> Callable[[], Awaitable[float]]:
    async def run() -> float:
        return timed(work)

    return run
