"""One attempt of a step, and the looks at whether it is done: what was seen becomes a report for the journal. Protected
files are kept before anything happens and compared after it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from ordain.core.lineage.ask import waiting_for
from ordain.core.plan.action import RunCommand, Task
from ordain.core.plan.condition import CustomCondition
from ordain.core.plan.model import Step, check_of, contract_of
from ordain.core.plan.role import about
from ordain.core.plan.tool import happened_check
from ordain.core.plan.value import Instant, StepId
from ordain.core.run import schedule
from ordain.core.run.event import RunEvent
from ordain.core.run.result import Missing
from ordain.core.run.step_event import ContractSeen, Evidence, Outcome, StepKept, StepNotKept, StepState, Verdict
from ordain.core.text.problem import Refused
from ordain.engine.affected import AffectedFiles
from ordain.engine.context import RunContext
from ordain.engine.journal import Report
from ordain.engine.perform.table import perform_step
from ordain.engine.shield import Shield
from ordain.engine.task import TaskPerformer
from ordain.engine.verify import ask, ask_happened, verify
from ordain.ports.tool import Lost


class Attempts:
    """The attempts and contracts of one run."""

    def __init__(self, run: RunContext, shield: Shield) -> None:
        self._run, self._state, self._shield = run, run.state, shield
        self._tasks, self._affected = TaskPerformer(run), AffectedFiles(run)

    async def attempt(self, step_id: StepId) -> Report | None:
        """One attempt; None where the step has come to something outside and waits for that."""
        state, stopped = self._state, False
        try:
            await self._shield.look(step_id)  # what changed while nobody was at work is put back too
            try:
                await self._shield.before(step_id)
            except Refused as refused:
                outcome = Outcome(duration_ms=0, error="F_PROTECT_FAILED", detail=refused.problems[0].detail)
                return self._ended_with(step_id, outcome)
            unproved = await self._look_first(step_id)
            step, persons = state.step(step_id), state.is_persons(step_id)
            if unproved is None and persons and isinstance(step.action, Task):
                unproved = await self._tasks.hand_over(step_id)
            waits = unproved is None and (persons or about(step.action).waits == "outside")
            nothing = unproved or (Outcome(duration_ms=0) if waits else None)
            outcome = nothing or await self._affected.during(step_id, self._perform)
            await self._shield.after(step_id)
            if waits and not state.steps[step_id].tampered:  # what comes now changes only the ledger
                return (lambda now: waiting_for(state, step_id)) if persons else None
        except Lost:
            await self._shield.after(step_id)
            return lambda now: schedule.doubt(state, step_id, self._run.tools)
        except asyncio.CancelledError:
            if state.aborting(step_id) is None or self._run.journal.closed:
                raise  # the executor itself is being ended: no outcome was seen, and none is claimed
            stopped = True
            duration = self._run.ports.clock.now() - (state.steps[step_id].started_at or self._run.journal.now)
            await self._shield.after(step_id)
            outcome = stopped_outcome(duration)
        return self._ended_with(step_id, outcome, stopped=stopped)

    async def _perform(self, step_id: StepId) -> Outcome:
        if isinstance(self._state.step(step_id).action, Task):
            return await self._tasks.effect(step_id)
        return await perform_step(self._run, step_id)

    def _ended_with(self, step_id: StepId, outcome: Outcome, *, stopped: bool = False) -> Report:
        def report(now: Instant) -> RunEvent:
            event = schedule.ended(self._state, step_id, outcome, now, stopped=stopped)
            self._run.journal.keep(step_id, event.outcome.output_seal)
            return event

        return report

    async def _look_first(self, step_id: StepId) -> Outcome | None:
        """Run the contract before the effect where that is wanted; the outcome where the effect must not begin."""
        step, record = self._state.step(step_id), self._state.steps[step_id]
        proves = schedule.wants_proof(self._state, step_id)
        if not proves and not schedule.looks_first(step, self._run.tools):
            return None
        seen, operand = await self._contract(step_id), await self._operand(step_id)
        await self._shield.look(step_id)
        if record.tampered:  # what was seen of changed files proves nothing; `ended` says what is wrong with it
            return Outcome(duration_ms=seen.duration_ms)
        event = ContractSeen(step=step_id, attempt=record.attempts, evidence=seen, operand=operand)
        await self._run.journal.record(event)
        return schedule.not_begun(seen, seen.duration_ms) if proves else None

    async def recheck(self, step_id: StepId) -> Report:
        """Look whether what a step did in the run before is still there."""
        step, before = self._state.step(step_id), self._run.opened.former[step_id]
        evidence = None
        if contract_of(step) is not None:
            evidence = await self._contract(step_id)
        elif check_of(step) is not None:
            evidence = before.evidence  # an expression asks about the attempt itself, which there is none of
        if self._state.continues is None:
            kept = schedule.rechecked(step_id, before.outcome, evidence)
            return lambda now: self._looked(step_id, kept)
        if changed := await self._run.ports.protection.changed(before.protected, self._run.journal.ledger.seal):
            detail = f"protected files are not as they were: {', '.join(sorted(changed))}"
            evidence = Evidence(verdict=Verdict.BROKEN, duration_ms=0, detail=self._run.sink.text(detail))
        kept = schedule.rechecked(step_id, before.outcome, evidence, before.run_id, before.word)
        return lambda now: self._looked(step_id, kept)

    def _looked(self, step_id: StepId, seen: StepKept | StepNotKept) -> StepKept | StepNotKept | None:
        """What was seen of a step that was done before; nothing where it was ended meanwhile."""
        return seen if self._state.steps[step_id].state is StepState.PENDING else None

    async def verify(self, step_id: StepId) -> Report:
        evidence = await self._checked(step_id)
        return lambda now: schedule.judged(self._state, step_id, evidence, now)

    async def settle(self, step_id: StepId) -> Report:
        evidence, operand = await self._checked(step_id), await self._operand(step_id)
        return lambda now: schedule.settled(self._state, step_id, evidence, operand, self._run.tools)

    async def ask_check(self, step_id: StepId) -> Report:
        """Ask the check of a step in doubt, with protected files as they were before the step."""
        await self._shield.look(step_id)
        run = self._run
        check = happened_check(self._state.step(step_id), run.tools)
        assert check is not None
        evidence = await self._looked_at(step_id, check.command, lambda step: ask_happened(run, step, check))
        return lambda now: schedule.answered(self._state, step_id, evidence, run.tools, read_only=run.limits.tier > 0)

    async def _checked(self, step_id: StepId) -> Evidence:
        """Look whether a step is done, with protected files as they were before it: a contract runs what was made."""
        await self._shield.verifying(step_id)
        await self._shield.look(step_id)
        check = check_of(self._state.step(step_id))
        if self._state.steps[step_id].tampered:
            evidence = Evidence(verdict=Verdict.BROKEN, duration_ms=0)  # `core` says what is wrong with it
        elif isinstance(check, CustomCondition):
            variables = self._run.results.variables(step_id, check.expression, own_end=True)
            evidence = ask(check, variables, self._run.sink, self._run.ports.expressions)
        else:
            evidence = await self._contract(step_id)
        await self._shield.after(step_id)
        return evidence

    async def _contract(self, step_id: StepId) -> Evidence:
        contract = contract_of(self._state.step(step_id))
        assert contract is not None
        return await self._looked_at(step_id, contract.command, lambda step: verify(self._run, step))

    async def _looked_at(self, step_id: StepId, command: str, look: Callable[[Step], Awaitable[Evidence]]) -> Evidence:
        """Look at a step by a command, unless what it refers to is not there, or policy denies that command."""
        try:
            step = self._run.results.step(step_id)
        except Missing as missing:
            why = f"what it refers to is not there: {missing}"
        else:
            alone = Step(id=step.id, description="", action=RunCommand(command=command), needs=())
            denied = self._run.authority.denied(alone)
            if denied is None:
                return await look(step)
            why = denied.detail
        return Evidence(verdict=Verdict.INCONCLUSIVE, duration_ms=0, detail=self._run.sink.text(why))

    async def _operand(self, step_id: StepId) -> str | None:
        """What the step's tool changes, as it is now."""
        call = self._run.results.call(step_id)
        return await self._run.ports.toolbox.operand(*call) if call is not None else None


def stopped_outcome(duration_ms: int) -> Outcome:
    return Outcome(duration_ms=duration_ms, error="F_STEP_STOPPED", detail="stopped, because the run aborts")
