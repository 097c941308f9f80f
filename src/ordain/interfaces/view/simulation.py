"""A simulated run as people read it: wave by wave, what waits for what, what is not known yet, what holds already."""

from __future__ import annotations

from collections.abc import Iterator

from ordain.core.report.simulation import SimulatedFallback, SimulatedStep, Simulation
from ordain.core.run.step_event import Verdict
from ordain.interfaces.view.preview import PlanView, action_lines, budget_words, flow_lines, policy_words
from ordain.interfaces.view.run import duration
from ordain.interfaces.view.style import Style
from ordain.interfaces.view.text import condition_words, counted, label_rows, visible
from ordain.interfaces.view.tool import by_name

_HOLDS = {Verdict.HELD: "holds already", Verdict.BROKEN: "does not hold yet"}


def simulation_lines(simulation: Simulation, style: Style) -> Iterator[str]:
    """Everything that is known beforehand. Nothing was run but contracts, where they can change nothing."""
    yield f"{style.bold('Simulated:')} {visible(simulation.title)}"
    yield f"  Plan:  {simulation.plan_id}"
    for condition in simulation.preconditions:
        yield f"  Only if: {visible(condition_words(condition))}"
    if simulation.budget is not None:
        yield f"  Budget: {budget_words(simulation.budget)}"
    if simulation.on_failure is not None:
        yield f"  On failure: {visible(policy_words(simulation.on_failure))}, unless a step says otherwise"
    by_id, view = {step.id: step for step in simulation.steps}, PlanView(style, by_name(simulation.tasks))
    for number, wave in enumerate(simulation.waves, start=1):
        at_once = min(len(wave), simulation.concurrency)
        yield ""
        yield f"  {style.bold(f'Wave {number}')}: {counted(len(wave), 'step')}" + (
            f", {at_once} at once" if len(wave) > 1 else ""
        )
        for step in wave:
            yield from _step_lines(by_id[step], view)
    if simulation.fallbacks:
        yield ""
        yield f"  {style.bold('Fallbacks')}: only after a failure"
        for fallback in simulation.fallbacks:
            yield from _fallback_lines(fallback, view)
    stuck = [step.id for step in simulation.steps if not step.wave]
    if stuck:
        yield ""
        yield f"  {style.bad('Never begins:')} {visible(', '.join(stuck))}"
    yield ""
    yield from _sum_lines(simulation, style)


def _step_lines(step: SimulatedStep, view: PlanView) -> Iterator[str]:
    style = view.style
    took = f"  usually {duration(step.usually_ms)}" if step.usually_ms is not None else ""
    yield f"    {step.number}. {style.bold(visible(step.description))}  {style.dim(visible(step.id) + took)}"
    yield from action_lines(step.action, view, step.id)
    waits = f"after {', '.join(step.waits_for)}" if step.waits_for else "at once"
    yield f"       Begins:     {visible(waits)}"
    yield from flow_lines(step)
    for name, references in step.decided_later.items():
        if name != "for_each":  # which was said
            yield f"       At run time: {visible(name)} is decided by {visible(', '.join(references))}"
    if step.contract is not None:
        verdict = step.contract.verdict
        word = _HOLDS[verdict] if verdict is not None else "not looked at"
        paint = style.warn if verdict is Verdict.HELD else str
        detail = f" ({visible(step.contract.detail)})" if step.contract.detail else ""
        yield f"       Contract:   {paint(word)}{detail}"
        if verdict is Verdict.HELD and step.proof is not None:
            yield f"       {style.bad('Would not begin')}: the plan wants it broken first ({step.proof})"
    yield from label_rows(
        ("Budget", budget_words(step.budget) if step.budget is not None else None),
        ("On failure", visible(policy_words(step.on_failure)) if step.on_failure is not None else None),
    )


def _fallback_lines(fallback: SimulatedFallback, view: PlanView) -> Iterator[str]:
    yield f"    - {view.style.bold(visible(fallback.description))}  {view.style.dim(visible(fallback.id))}"
    yield from action_lines(fallback.action, view, fallback.id)
    used_by = visible(", ".join(fallback.used_by))
    yield from label_rows(("Begins", f"after a failure of {used_by}" if used_by else None))


def _sum_lines(simulation: Simulation, style: Style) -> Iterator[str]:
    steps = simulation.steps
    held = sum(step.contract is not None and step.contract.verdict is Verdict.HELD for step in steps)
    if held:
        prove = f"{counted(held, 'contract')} would prove nothing, unless an earlier step changes that"
        yield f"  {style.warn(prove)}: held before the step did anything"
    unchecked = sum(step.contract is None for step in steps)
    if unchecked:
        yield f"  Without a contract: {counted(unchecked, 'step')}"
    if simulation.expected_ms is not None:
        yield f"  Would take about {duration(simulation.expected_ms)}, as things took before"
    else:
        known = len(steps) - simulation.unknown_durations
        yield f"  How long it takes is not known: {known} of {counted(len(steps), 'step')} ran before"
    looked = any(step.contract is not None and step.contract.verdict is not None for step in steps)
    yield "  Nothing was carried out" + ("; contracts were looked at in a sandbox." if looked else ".")
