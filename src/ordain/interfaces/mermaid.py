"""The steps of a plan as a Mermaid flowchart.

Nothing that a plan says can become syntax: whatever is not a plain letter, digit or blank is written as a character
code, so that the file is ASCII and the picture shows the very words.
"""

from __future__ import annotations

from collections.abc import Iterator

from ordain.core.event import StepState
from ordain.core.model import Plan
from ordain.core.report import RunReport
from ordain.core.waves import fallbacks_for, waits_for
from ordain.interfaces.picture import for_all, states_of, unverified_of
from ordain.interfaces.visible import visible

__all__ = ["mermaid_text"]

_PLAIN = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789 ")
_COLOURS = {
    StepState.PENDING: "fill:#ffffff,stroke:#888888,color:#222222",
    StepState.RUNNING: "fill:#d6f0f5,stroke:#0a7f94,color:#222222",
    StepState.WAITING: "fill:#e8f4f7,stroke:#0a7f94,color:#222222",
    StepState.VERIFYING: "fill:#d6f0f5,stroke:#0a7f94,color:#222222",
    StepState.PASSED: "fill:#d9f2d9,stroke:#2b7a2b,color:#222222",
    StepState.FAILED: "fill:#f8d7d7,stroke:#b02020,color:#222222",
    StepState.IN_DOUBT: "fill:#ecd9f5,stroke:#7b3fa0,color:#222222",
    StepState.ESCALATED: "fill:#fbeecb,stroke:#a07414,color:#222222",
    StepState.SKIPPED: "fill:#eeeeee,stroke:#888888,color:#222222",
    StepState.CANCELLED: "fill:#eeeeee,stroke:#888888,color:#222222",
}


def mermaid_text(plan: Plan, run: RunReport | None = None) -> str:
    """The flowchart of a plan; with a run, each step is of the class of its state."""
    return "".join(f"{line}\n" for line in _lines(plan, run))


def _lines(plan: Plan, run: RunReport | None) -> Iterator[str]:
    needs, states = waits_for(plan), states_of(run)
    node = {step.id: f"s{number}" for number, step in enumerate(plan.steps, start=1)}
    node |= {step.id: f"f{number}" for number, step in enumerate(plan.fallbacks, start=1)}
    yield "---"
    yield f'title: "{_yaml(plan.title)}"'
    yield "---"
    yield "flowchart TD"
    for number, step in enumerate(plan.steps, start=1):
        yield f'  {node[step.id]}["{_label(f"{number} · {step.id}")}<br>{_label(step.description)}"]'
    for fallback in plan.fallbacks:
        more = "<br>" + _label("for every step without a policy of its own") if fallback.id in for_all(plan) else ""
        head = _label(f"fallback · {fallback.id}")
        yield f'  {node[fallback.id]}["{head}<br>{_label(fallback.description)}{more}"]'
    for target, sources in needs.items():
        yield from (f"  {node[source]} --> {node[target]}" for source in sources)
    for name, users in fallbacks_for(plan).items():
        yield from (f"  {node[user]} -.-> {node[name]}" for user in users)
    for state in StepState:
        members = [node[step] for step, found in states.items() if found is state and step in node]
        if members:
            yield f"  classDef {state.value} {_COLOURS[state]}"
            yield f"  class {','.join(members)} {state.value}"
    told = [node[step] for step in states if step in unverified_of(run) and step in node]
    if told:
        yield "  classDef unverified stroke-dasharray:5 4"
        yield f"  class {','.join(told)} unverified"


def _label(text: str) -> str:
    """A text as part of a label in quotes: everything but plain characters as its code."""
    return "".join(one if one in _PLAIN else f"#{ord(one)};" for one in visible(text))


def _yaml(text: str) -> str:
    """A text inside double quotes in YAML: everything but plain characters as its code."""
    return "".join(one if one in _PLAIN else f"\\U{ord(one):08x}" for one in visible(text))
