"""The steps of a plan as a Mermaid flowchart. Whatever is not a plain letter, digit or blank is written as a character
code, so that nothing that a plan says can become syntax; what stock Mermaid would refuse is drawn in groups."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from ordain.core.lint.survey import fallbacks_for, waits_for, waves
from ordain.core.plan.model import Plan
from ordain.core.plan.value import StepId
from ordain.core.report.report import RunReport
from ordain.core.run.step_event import StepState
from ordain.interfaces.view.picture import States, for_all, states_of, step_names, unverified_of, wave_rows
from ordain.interfaces.view.text import visible

EDGES_MAX = 500
"""How many arrows stock Mermaid draws, by its setting `maxEdges`, which no diagram can change."""
TEXT_MAX = 50_000
"""How many characters it reads, by `maxTextSize`."""
_GROUPS_MAX = 200
_NAMES_WIDTH = 80

_PLAIN = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789 ")
_COLOURS = {
    StepState.FAILED: "fill:#f8d7d7,stroke:#b02020,color:#222222",
    StepState.IN_DOUBT: "fill:#ecd9f5,stroke:#7b3fa0,color:#222222",
    StepState.ESCALATED: "fill:#fbeecb,stroke:#a07414,color:#222222",
    StepState.RUNNING: "fill:#d6f0f5,stroke:#0a7f94,color:#222222",
    StepState.VERIFYING: "fill:#d6f0f5,stroke:#0a7f94,color:#222222",
    StepState.WAITING: "fill:#e8f4f7,stroke:#0a7f94,color:#222222",
    StepState.PENDING: "fill:#ffffff,stroke:#888888,color:#222222",
    StepState.CANCELLED: "fill:#eeeeee,stroke:#888888,color:#222222",
    StepState.SKIPPED: "fill:#eeeeee,stroke:#888888,color:#222222",
    StepState.PASSED: "fill:#d9f2d9,stroke:#2b7a2b,color:#222222",
}
"""How a state looks; the state that says most of a group comes first."""


def mermaid_text(plan: Plan, run: RunReport | None = None) -> str:
    """The flowchart of a plan; with a run, each step is of the class of its state."""
    edges = sum(map(len, waits_for(plan).values())) + sum(map(len, fallbacks_for(plan).values()))
    text = "".join(f"{line}\n" for line in _lines(plan, run)) if edges <= EDGES_MAX else ""
    return text if text and len(text) <= TEXT_MAX else "".join(f"{line}\n" for line in _grouped_lines(plan, run))


def is_grouped(text: str) -> bool:
    """Whether this flowchart shows groups of steps instead of steps."""
    return _GROUPED in text


_GROUPED = "  %% in groups: stock Mermaid draws no more than 500 arrows and reads no more than 50,000 characters"


def _grouped_lines(plan: Plan, run: RunReport | None) -> Iterator[str]:
    """The waves of a plan, one box each, or several where there are very many."""
    states = states_of(run)
    rows = list(wave_rows(waves(waits_for(plan))))
    size = -(-len(rows) // _GROUPS_MAX) or 1
    yield from _head(plan)
    yield _GROUPED
    boxes = [rows[at : at + size] for at in range(0, len(rows), size)]
    for number, box in enumerate(boxes, start=1):
        steps = [step for _, _, members in box for step in members]
        first, last = box[0][0], box[-1][1]
        wave = f"wave {first}" if first == last else f"waves {first} to {last}"
        said = [f"{wave} · {len(steps):,} step{'s' * (len(steps) != 1)}", step_names(steps, _NAMES_WIDTH)]
        found = Counter(states.get(step, StepState.PENDING) for step in steps)
        said += [", ".join(f"{found[state]:,} {state.value}" for state in StepState if found[state])] if states else []
        yield f'  w{number}["{"<br>".join(map(_label, said))}"]'
    yield from (f"  w{number} --> w{number + 1}" for number in range(1, len(boxes)))
    if plan.fallbacks:
        names = step_names([one.id for one in plan.fallbacks], _NAMES_WIDTH)
        count = f"{len(plan.fallbacks):,} fallback{'s' * (len(plan.fallbacks) != 1)}"
        yield f'  f1["{_label(count)}<br>{_label(names)}"]'
    if states:
        yield from _classes(
            (f"w{n}", _worst(states, [step for row in box for step in row[2]])) for n, box in enumerate(boxes, 1)
        )


def _worst(states: States, steps: Sequence[StepId]) -> StepState:
    """The state of a group that says most: what went wrong, else what is at work, else what is left to do."""
    found = {states.get(step, StepState.PENDING) for step in steps}
    return next(state for state in _COLOURS if state in found)


def _head(plan: Plan) -> Iterator[str]:
    yield "---"
    yield f'title: "{_yaml(plan.title)}"'
    yield "---"
    yield "flowchart TD"


def _classes(nodes: Iterable[tuple[str, StepState]]) -> Iterator[str]:
    """The nodes by their state, and how each state looks."""
    members: dict[StepState, list[str]] = {}
    for node, state in nodes:
        members.setdefault(state, []).append(node)
    for state in StepState:
        if state in members:
            yield f"  classDef {state.value} {_COLOURS[state]}"
            yield f"  class {','.join(members[state])} {state.value}"


def _lines(plan: Plan, run: RunReport | None) -> Iterator[str]:
    needs, states = waits_for(plan), states_of(run)
    node = {step.id: f"s{number}" for number, step in enumerate(plan.steps, start=1)}
    node |= {step.id: f"f{number}" for number, step in enumerate(plan.fallbacks, start=1)}
    yield from _head(plan)
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
    yield from _classes((node[step], state) for step, state in states.items() if step in node)
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
