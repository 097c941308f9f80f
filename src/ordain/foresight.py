"""Runs that do not happen: what can be seen of one beforehand, without changing anything."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence

from ordain.core.assignment import Assignment
from ordain.core.canonical import plan_id
from ordain.core.dependency import item_name
from ordain.core.event import Limits
from ordain.core.expr import Expressions
from ordain.core.model import Plan, Step, contract_of
from ordain.core.payload import shared_variables
from ordain.core.refs import references
from ordain.core.simulation import Looked, Simulation, simulate
from ordain.ports import Probe, Shell
from ordain.verify import contract_command, judge

__all__ = ["foresee"]


async def foresee(
    plan: Plan,
    *,
    probe: Probe,
    shell: Shell,
    limits: Limits,
    usual: Mapping[str, Sequence[int]],
    expressions: Callable[[], Expressions],
    tasks: tuple[Assignment, ...],
) -> Simulation:
    """How a run of the plan would go; `usual` says how long actions took before."""
    at_once = asyncio.Semaphore(limits.concurrency)
    wanted = [step for step in plan.steps if contract_of(step) is not None]

    async def look(step: Step) -> Looked:
        async with at_once:
            return await _look(step, probe, shell, limits, expressions)

    looked = await asyncio.gather(*map(look, wanted))
    return simulate(
        plan,
        plan_id(plan),
        concurrency=plan.concurrency or limits.concurrency,
        looked={step.id: found for step, found in zip(wanted, looked, strict=True)},
        usual=usual,
        tasks=tasks,
    )


async def _look(
    step: Step, probe: Probe, shell: Shell, limits: Limits, expressions: Callable[[], Expressions]
) -> Looked:
    """What a step's contract says before the step. It never counts as evidence."""
    contract = contract_of(step)
    assert contract is not None
    unknown = [name for name, value in shared_variables(step).items() if next(references(value, item_name(step)), None)]
    if unknown:
        return Looked(detail=f"it asks about {', '.join(unknown)}, which is decided at run time")
    finished = await probe.look(contract_command(step, shell, limits, mark=""))
    if finished.fault is not None:
        return Looked(detail=finished.fault)
    verdict, detail = judge(finished, contract, expressions)
    return Looked(verdict=verdict, detail=detail)
