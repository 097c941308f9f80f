"""A very large document, read, linted and hashed, beside `json.loads` of the same plan."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable

import msgspec

from bench.measure import Line, Size, compare, race, timed
from bench.plans import markdown_plan
from ordain.adapters.directory import DirectoryWorkspace
from ordain.adapters.file_tools import DEFINITIONS
from ordain.core.canonical import plan_id
from ordain.core.lint.rules import lint
from ordain.core.problem import Severity
from ordain.documents.reading import read

__all__ = ["measure"]

TARGET = 20.0


async def measure(size: Size) -> list[Line]:
    count, rounds = size.pick(10_000, 2000), size.pick(5, 3)
    data = markdown_plan(count).encode()
    workspace = DirectoryWorkspace(size.directory, 0)
    document = read(data)
    plan = document.plan
    if plan is None:
        raise RuntimeError(f"the generated document cannot be read: {document.problems[0]}")
    facts = workspace.facts(plan, DEFINITIONS, None)
    wrong = [problem for problem in lint(plan, facts) if problem.severity is not Severity.WARNING]
    if wrong:
        raise RuntimeError(f"the generated document has errors: {wrong[0]}")
    text = msgspec.json.encode(plan).decode()

    def whole() -> None:
        again = read(data).plan
        assert again is not None
        lint(again, facts)
        plan_id(again)

    parts: list[tuple[str, Callable[[], object], float | None]] = [
        (f"read + lint + digest, {count:,} steps", whole, TARGET),
        ("  of that, reading", lambda: read(data), None),
        ("  of that, linting", lambda: lint(plan, facts), None),
        ("  of that, the digest", lambda: plan_id(plan), None),
        ("and looking at the surroundings", lambda: workspace.facts(plan, DEFINITIONS, None), None),
    ]
    lines = []
    for label, work, target in parts:
        pairs = await race(rounds, _once(work), _once(lambda: json.loads(text)))
        note = f"{len(data) / 1e6:.1f} MB of Markdown, {len(text) / 1e6:.1f} MB of JSON" if target else ""
        lines.append(compare("document", label, "json.loads of the plan", pairs, target=target, note=note))
    return lines


def _once(work: Callable[[], object]) -> Callable[[], Awaitable[float]]:
    async def run() -> float:
        return timed(work)

    return run
