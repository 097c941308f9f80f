"""Runs that do not happen: what can be seen of one beforehand, without changing anything."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from ordain.core.approval.approval import Approval
from ordain.core.plan.command import shared_variables
from ordain.core.plan.model import Plan, Step, contract_of, item_name
from ordain.core.plan.refs import references
from ordain.core.plan.value import StepId
from ordain.core.policy.settings import limits
from ordain.core.report.simulation import Looked
from ordain.core.run.step_event import Verdict
from ordain.engine.begin import Conditions
from ordain.engine.verify import contract_command, judge
from ordain.ports.process import Shell
from ordain.records.surroundings import Surroundings

LOOKED_MS = 3_000
"""How long a person waits for what is known beforehand."""


async def look_at_contracts(
    plan: Plan, here: Surroundings, shell: Shell | None, fault: str, within_ms: int | None = None
) -> Mapping[StepId, Looked]:
    """What contracts say before their steps, in `shell`, a sandbox; where there is none, `fault` says why and nothing
    runs. `within_ms` is how long all of them may take; what has no answer by then is not known yet."""
    settings, mark, expressions = here.snapshot.settings, here.ports.ids.mint("SIM-"), here.ports.expressions
    within = limits(settings)
    at_once = asyncio.Semaphore(within.concurrency)

    async def look(step: Step) -> Looked:
        """It never counts as evidence, and says held or broken, no more: an exit status would tell what was read."""
        contract = contract_of(step)
        assert contract is not None
        unknown = [name for name, value in shared_variables(step).items() if any(references(value, item_name(step)))]
        if unknown:
            return Looked(detail=f"it asks about {', '.join(unknown)}, which is decided at run time")
        if shell is None:
            return Looked(detail=fault)
        if here.denied(step, settings) is not None:
            return Looked(detail="policy denies this step")
        async with at_once:
            finished = await shell.run(contract_command(step, shell, within, mark=f"{mark}/{step.id}"))
        verdict, _ = judge(finished, contract, expressions)
        return Looked(detail="it gave no answer") if verdict is Verdict.INCONCLUSIVE else Looked(verdict=verdict)

    work = {step.id: asyncio.create_task(look(step)) for step in plan.steps if contract_of(step) is not None}
    if not work:
        return {}
    try:
        await asyncio.wait(work.values(), timeout=within_ms / 1000 if within_ms is not None else None)
    finally:
        late = [task for task in work.values() if not task.done() and task.cancel()]
        await asyncio.gather(*late, return_exceptions=True)
    took = f"it took over {(within_ms or 0) / 1000:.0f} s"
    return {name: Looked(detail=took) if task.cancelled() else task.result() for name, task in work.items()}


def conditions_before(plan: Plan, approval: Approval | None, here: Surroundings) -> Conditions:
    """What holds before a run of the plan has begun."""
    return Conditions(
        ports=here.ports,
        run_id=None,
        lock_holder=lambda name: here.records.lock(name).holder,
        approval=approval,
        passed=lambda name: f"`{name}` has not passed: its run has not begun",
        variables=lambda expression: {
            "params": {name: parameter.default for name, parameter in plan.params.items()},
            "steps": {},
            "data": {},
        },
    )
