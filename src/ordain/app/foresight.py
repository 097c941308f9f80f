"""Runs that do not happen: what can be seen of one beforehand, without changing anything."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence

from ordain.core.plan.canonical import plan_id
from ordain.core.plan.command import shared_variables
from ordain.core.plan.expr import Expressions
from ordain.core.plan.model import Plan, Step, contract_of, item_name
from ordain.core.plan.refs import references
from ordain.core.policy.assignment import Assignment
from ordain.core.policy.settings import Limits
from ordain.core.report.simulation import Looked, Simulation, simulate
from ordain.core.run.step_event import Verdict
from ordain.core.text.problem import Problem
from ordain.engine.verify import contract_command, judge
from ordain.ports.process import Shell


async def foresee(
    plan: Plan,
    *,
    shell: Shell | None,
    fault: str,
    denied: Callable[[Step], Problem | None],
    mark: str,
    limits: Limits,
    usual: Mapping[str, Sequence[int]],
    expressions: Callable[[], Expressions],
    tasks: tuple[Assignment, ...],
) -> Simulation:
    """How a run of the plan would go. Contracts run in `shell`, a sandbox; where there is none, `fault` says why and
    nothing runs. `denied` is what policy has against a step, and `usual` how long actions took before."""
    at_once = asyncio.Semaphore(limits.concurrency)

    async def look(step: Step) -> Looked:
        """What a contract says before its step. It never counts as evidence, and it says held or broken, no more: an
        exit status would tell what a command read."""
        contract = contract_of(step)
        assert contract is not None
        unknown = [name for name, value in shared_variables(step).items() if any(references(value, item_name(step)))]
        if unknown:
            return Looked(detail=f"it asks about {', '.join(unknown)}, which is decided at run time")
        if shell is None:
            return Looked(detail=fault)
        if denied(step) is not None:
            return Looked(detail="policy denies this step")
        async with at_once:
            finished = await shell.run(contract_command(step, shell, limits, mark=f"{mark}/{step.id}"))
        verdict, _ = judge(finished, contract, expressions)
        return Looked(detail="it gave no answer") if verdict is Verdict.INCONCLUSIVE else Looked(verdict=verdict)

    wanted = [step for step in plan.steps if contract_of(step) is not None]
    looked = await asyncio.gather(*map(look, wanted))
    return simulate(
        plan,
        plan_id(plan),
        concurrency=plan.concurrency or limits.concurrency,
        looked={step.id: found for step, found in zip(wanted, looked, strict=True)},
        usual=usual,
        tasks=tasks,
    )
