"""Stopping runs from outside: pausing, cancelling, and ending the executor that does not answer."""

from __future__ import annotations

from collections.abc import Callable

from ordain.core.approval.approval import Principal
from ordain.core.lineage.lineage import PlanState
from ordain.core.plan.value import RunId
from ordain.core.report.report import RunReport
from ordain.core.run.event import RunCancelled, RunPaused, StopAsked
from ordain.core.run.run_state import RunState
from ordain.core.text.problem import refuse
from ordain.ports.ledger import Append
from ordain.ports.machine import Holder
from ordain.records.records import Records
from ordain.records.surroundings import Surroundings

ANSWERING_S = 10.0
"""How long an executor may take to end its run when it is asked to."""
LISTENING_S = 0.05


class RunEnds:
    """Ends the runs of one workspace. Anybody may: it permits nothing."""

    def __init__(
        self, here: Surroundings, report: Callable[[RunId], RunReport], tell: Callable[[RunReport, str], None]
    ) -> None:
        self._here, self.report, self._tell = here, report, tell

    @property
    def _records(self) -> Records:
        return self._here.records

    async def pause(self, ref: str | None, by: Principal, reason: str = "") -> RunReport:
        """Have a run stop when what is under way has ended; it goes on with `resume`. Anybody may: it permits
        nothing. Where an executor is at work it does that by itself, and the report says `pausing`."""
        run_id = self._records.find_run(ref) if ref is not None else self._records.only_open_run("pause")
        state = self._refuse_ended(run_id)
        text = self._here.redactor(defaults=True).text(reason)
        if self._here.ports.lock.holder(run_id) is not None:
            await self.ask(state, "paused", by, text)
            return self.report(run_id)
        with self._here.ports.lock.claim(run_id):
            state = self._refuse_ended(run_id)
            if state.paused_by is None:
                self._here.ports.shell.sweep(f"{state.workspace_identity.id}/{run_id}/", again=True)
                event = RunPaused(by=by, reason=text)
                await self._here.ledger.append(
                    self._here.now(), Append(stream=f"run/{run_id}", expected=state.size, events=(event,))
                )
            return self.report(run_id)

    async def cancel(
        self, ref: str, by: Principal, reason: str = "", *, status: str = "cancelled", take_over: bool = False
    ) -> RunReport:
        """End a run as it stands, as `cancelled` or given up as `failed`: whatever is running is ended, and of steps
        that were under way nobody says what they did. Anybody may: it permits nothing. An executor at work is asked to;
        with `take_over`, one that does not answer is killed."""
        run_id = self._records.find_run(ref)
        state = self._refuse_ended(run_id)
        text = self._here.redactor(defaults=True).text(reason)
        if self._here.ports.lock.holder(run_id) is not None:
            await self.ask(state, status, by, text)
            holder = await self._answered(run_id)
            if holder is not None and not take_over:
                detail = f"Process {holder.pid}, which is at work on {run_id}, was asked to end it and does not answer."
                hint = "It does that as soon as it can; if it is frozen, this ends the process itself:"
                raise refuse("E_RUN_BUSY", detail, hint, command=f"ordain cancel {run_id} --take-over")
            if holder is not None:
                self.end_executor(run_id, holder)
        with self._here.ports.lock.claim(run_id):
            if not self._records.run(run_id)[0].finished:
                await self.end_run(run_id, by, text, status)
        return self.report(run_id)

    async def ask(self, state: RunState, to: str, by: Principal, reason: str) -> None:
        """Record what is asked of whoever carries out a run; they heed it."""

        def asked(plan: PlanState) -> StopAsked:
            if plan.open_run != state.run_id:
                command = f"ordain show {state.run_id}"
                raise refuse("E_RUN_ENDED", f"{state.run_id} has ended just now.", command=command)
            return StopAsked(run_id=state.run_id, to=to, by=by, reason=reason)

        await self._records.decide(state.lineage, asked, self._here.now())

    async def _answered(self, run_id: RunId) -> Holder | None:
        """Wait a while for an executor to end its run and let go of it; the executor that did not."""
        import asyncio

        loop = asyncio.get_running_loop()
        until = loop.time() + ANSWERING_S
        # Nothing rings when a lock is let go.
        while (holder := self._here.ports.lock.holder(run_id)) is not None and loop.time() < until:  # noqa: ASYNC110
            await asyncio.sleep(LISTENING_S)
        return holder

    async def end_run(self, run_id: RunId, by: Principal, reason: str, status: str) -> None:
        from ordain.app.executor import end_run

        state = await end_run(self._here, run_id, RunCancelled(by=by, reason=reason, status=status))
        self._tell(self.report(run_id), state.lineage)

    def end_executor(self, run_id: RunId, holder: Holder) -> None:
        """Kill whoever carries out a run, so that nothing it would still do happens."""
        if not self._here.ports.lock.end(run_id, holder):
            detail = f"Process {holder.pid}, which is at work on {run_id}, cannot be ended from here."
            hint = "It runs as another user or on another machine; end it there."
            raise refuse("E_RUN_BUSY", detail, hint, command=f"ordain watch {run_id}")

    def _refuse_ended(self, run_id: RunId) -> RunState:
        state, _, _ = self._records.run(run_id)
        refuse_if_ended(state)
        return state


def refuse_if_ended(state: RunState) -> None:
    if state.finished:
        detail = f"{state.run_id} has ended ({state.status}); there is nothing to go on with."
        raise refuse("E_RUN_ENDED", detail, command=f"ordain show {state.run_id}")
