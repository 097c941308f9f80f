"""The verbs about runs: starting one, going on with it, looking at it, ending it."""

from __future__ import annotations

import shlex
from collections.abc import Awaitable, Callable, Iterator, Sequence
from typing import NoReturn

from ordain.app.plans import PlanVerbs
from ordain.app.refusals import Refusals
from ordain.app.run_control import RunControl, Waiting
from ordain.core.approval.approval import Principal
from ordain.core.plan.value import RunId, StepId
from ordain.core.report.brief import Brief, brief
from ordain.core.report.report import KeptOutput, Review, RunReport, ToldPrompt
from ordain.core.report.transcript import Transcript
from ordain.core.run.run_state import RunState, StepRecord
from ordain.core.run.step_event import StepState
from ordain.core.text.problem import Problem, refuse
from ordain.core.text.redaction import Hidden, hide
from ordain.ports.ledger import Observer
from ordain.ports.machine import Credential
from ordain.records.records import Records
from ordain.records.surroundings import Surroundings

GoOn = Callable[[RunReport, Sequence[Observer], Waiting | None, Callable[[str], None]], Awaitable[RunReport]]
"""Asks a planner about a run that waits for one; the run as it stands then, or the one that went on in its place."""
_NAMED_MAX = 10
"""How many runs are listed where it is not clear which one is meant."""


class RunVerbs:
    """The runs of one workspace."""

    def __init__(
        self,
        here: Surroundings,
        control: RunControl,
        plans: PlanVerbs,
        refusals: Refusals,
        go_on: Callable[[], GoOn | None] = lambda: None,
    ) -> None:
        self._here, self._control, self._plans, self._refusals, self._go_on = here, control, plans, refusals, go_on
        self.tell: Callable[[str], None] = lambda words: None
        """Told what is done about a run beside carrying it out, for somebody who watches."""

    @property
    def _records(self) -> Records:
        return self._here.records

    def run(self, ref: str) -> RunReport:
        """One run as it stands."""
        return self._control.report(self._records.find_run(ref))

    def output(self, ref: str, step: str) -> tuple[KeptOutput, Iterator[bytes]]:
        """What a step of a run wrote, as far as it is kept, part by part, without the secrets that were known when it
        was recorded. Whoever shows it hides those that are known now as well."""
        found, parts, hidden = self._output(ref, step)
        return found, hide(parts, hidden)

    def exact_output(self, ref: str, step: str, by: Principal) -> tuple[KeptOutput, Iterator[bytes]]:
        """The same, exactly, with every secret in it: for a person at a terminal only."""
        self._here.refuse_pretended(by)
        if not by.person:
            raise refuse(
                "E_EXACT_CHANNEL",
                "What a step wrote is handed out exactly, with the secrets in it, to a person at a terminal only.",
                "Without -o it is shown with them hidden.",
                command=f"ordain show {shlex.quote(ref)} --output {shlex.quote(step)} -o FILE",
            )
        return self._output(ref, step, exact=True)[:2]

    def _output(
        self, ref: str, step: str, *, exact: bool = False
    ) -> tuple[KeptOutput, Iterator[bytes], tuple[Hidden, ...]]:
        run_id = self._records.find_run(ref)
        state = self._records.run(run_id)[0]
        self._refuse_unknown_step(state, step)
        record = state.steps[StepId(step)]
        outcome, ledger = record.outcome, self._here.ledger
        seal = outcome.output_seal if outcome is not None else ""
        kept, parts = ledger.kept(seal), ledger.artifact(seal)
        if outcome is None or (kept is None and parts is None):
            raise refuse(
                "E_OUTPUT_NOT_KEPT",
                f"`{step}` {_why_no_output(record)} in {run_id}.",
                command=f"ordain show --verbose {run_id}",
            )
        if outcome.hidden is None and not exact:  # 0.1 recorded it, and only its end is known to be without secrets
            kept, parts = outcome.output_tail.encode("utf-8", "replace"), None
        size = len(kept) if kept is not None else outcome.output_bytes
        found = KeptOutput(run_id=run_id, step=StepId(step), output_bytes=outcome.output_bytes, kept_bytes=size)
        return found, parts if parts is not None else iter((kept or b"",)), outcome.hidden or ()

    def _refuse_unknown_step(self, state: RunState, step: str) -> None:
        if step not in state.steps:
            named = ", ".join(state.steps)
            raise refuse("E_STEP_UNKNOWN", f"{state.run_id} has no step `{step}`.", f"Its steps are: {named}.")

    async def cancel_run(
        self, ref: str, by: Principal, reason: str = "", *, status: str = "cancelled", take_over: bool = False
    ) -> RunReport:
        """End a run as it stands. Its own caller may, and every person: it permits nothing."""
        async with self._refusals.asked_for("cancel", ref, by):
            return await self._control.ends.cancel(ref, by, reason, status=status, take_over=take_over)

    async def commit(
        self,
        ref: str,
        by: Principal,
        *observers: Observer,
        waiting: Waiting | None = None,
        preparation: str | None = None,
    ) -> RunReport:
        """Start the approved run and carry it out until it ends or waits for a person. A preparation, by default the
        newest, starts one run: where it has, that one is watched to its end and reported; `started` tells the two
        apart."""
        async with self._refusals.asked_for("commit", ref, by):
            self._plans.refuse_edited(ref, "commit")
            report = await self._control.commit(ref, by, *observers, waiting=waiting, preparation=preparation)
        return await self._gone_on(report, observers, waiting)

    def begun(self, ref: str, preparation: str | None = None) -> RunId | None:
        """The run that a preparation, by default the newest, has started."""
        return self._control.begun(ref, preparation)

    @property
    def started(self) -> RunId | None:
        """The run that was started here last."""
        return self._control.started

    async def approve_and_commit(
        self,
        shown: Review,
        by: Principal,
        *observers: Observer,
        credential: Credential | None = None,
        waiting: Waiting | None = None,
    ) -> RunReport:
        """A person's yes to what was shown, spent on the spot."""
        async with self._refusals.recording("approve", shown.plan_id, by):
            work = self._control.approve_and_commit(shown, by, *observers, credential=credential, waiting=waiting)
            report = await work
        return await self._gone_on(report, observers, waiting)

    async def rerun(
        self,
        ref: str,
        by: Principal,
        *observers: Observer,
        again_from: str | None = None,
        waiting: Waiting | None = None,
        shown: Review | None = None,
        credential: Credential | None = None,
    ) -> RunReport:
        """Run a plan again on a new approval, keeping the steps that passed and whose contract holds now. `shown` is
        what a person has just said yes to: that is recorded and spent in one transaction."""
        async with self._refusals.asked_for("rerun", ref, by):
            report = await self._control.rerun(
                ref, by, *observers, again_from=again_from, waiting=waiting, shown=shown, credential=credential
            )
        return await self._gone_on(report, observers, waiting)

    async def resume(
        self,
        ref: str | None,
        *observers: Observer,
        waiting: Waiting | None = None,
        take_over: bool = False,
        verify_only: bool = False,
    ) -> RunReport:
        """Go on with a run that stopped: the one named, or the only one that has not ended. With `verify_only` no step
        begins: contracts that are due are run, and that is all."""
        report = await self._control.resume(
            ref, *observers, waiting=waiting, take_over=take_over, verify_only=verify_only
        )
        return report if verify_only else await self._gone_on(report, observers, waiting)

    async def _gone_on(self, report: RunReport, observers: Sequence[Observer], waiting: Waiting | None) -> RunReport:
        """A run as it stands once a planner was asked about it, where its failure policy wants that."""
        go_on = self._go_on()
        if go_on is None or report.status != "waiting" or not any(one.wants for one in report.questions):
            return report
        return await go_on(report, observers, waiting, self.tell)

    async def pause(self, ref: str | None, by: Principal, reason: str = "") -> RunReport:
        """Have a run stop when what is under way has ended."""
        async with self._refusals.asked_for("pause", ref, by):
            return await self._control.ends.pause(ref, by, reason)

    async def watch(self, ref: str | None, *observers: Observer) -> RunReport:
        """Tell observers what is recorded about a run for as long as somebody carries it out. Only looks."""
        return await self._control.watch(ref, *observers)

    def run_state(self, run_id: RunId) -> RunState:
        """A run folded as it is recorded, for somebody who folds into it what comes."""
        return self._records.run(run_id)[0]

    def run_notices(self, run_id: RunId) -> tuple[Problem, ...]:
        """What somebody who goes on with a run should know."""
        return self._control.notices(run_id)

    def brief(self, ref: str, step: str) -> Brief:
        """What a planner needs to know to propose how a run goes on after one of its steps."""
        run_id = self._records.find_run(ref)
        state, identity, _ = self._records.run(run_id)
        self._refuse_unknown_step(state, step)
        return brief(state, identity, StepId(step), self._control.report(run_id))

    def prompt_told(self, ref: str, step: str, attempt: int | None = None) -> ToldPrompt:
        """What the agent of a step of a run was told, in this attempt or in the last one."""
        run_id = self._records.find_run(ref)
        self._refuse_unknown_step(self._records.run(run_id)[0], step)
        return self._plans.prompts.told(run_id, StepId(step), attempt)

    def transcript(self, ref: str, step: str, attempt: int | None = None) -> Transcript:
        """What was said between Ordain and the model that performed a step, in this attempt or in the last one."""
        run_id = self._records.find_run(ref)
        self._refuse_unknown_step(self._records.run(run_id)[0], step)
        return self._plans.prompts.transcript(run_id, StepId(step), attempt)

    def ended_run(self) -> RunId:
        """The run that a person means to run again where they name none: the one plan whose newest run failed or was
        cancelled, else the one whose run completed."""
        found = self._one_that_was(("failed", "cancelled"), "rerun") or self._one_that_was(("completed",), "rerun")
        return found or self._none_ended("has ended")

    def _one_that_was(self, standings: Sequence[str], verb: str) -> RunId | None:
        lines = self._plans.all()
        found = [line.last_run for line in lines if line.status in standings and line.last_run is not None]
        if len(found) > 1:
            commands = tuple(f"ordain {verb} {run_id}" for run_id in found[:_NAMED_MAX])
            ways = f"{len(found)} plans have a run that ended as {' or '.join(standings)}. Name one:"
            raise refuse("E_RUN_AMBIGUOUS", ways, *commands, command=commands[0])
        return found[0] if found else None

    def _none_ended(self, how: str) -> NoReturn:
        raise refuse("E_RUN_NOT_FOUND", f"No run of this workspace {how}.", command="ordain status")

    def stuck_run(self) -> RunId:
        """The run that a person means to replan where they name none: the only one that has not ended, else that of
        the one plan whose newest run failed or was cancelled."""
        if self._records.open_runs():
            return self._records.only_open_run("replan")
        return self._one_that_was(("failed", "cancelled"), "replan") or self._none_ended("failed or waits")

    def newest_run(self, ref: str | None) -> RunId:
        """The newest run of a plan; without a name, of the one plan whose run ended or waits."""
        if ref is None:
            return self._records.only_open_run("rerun") if self._records.open_runs() else self.ended_run()
        _, state = self._records.current(ref)
        if not state.runs:
            raise refuse("E_RUN_NOT_FOUND", "No run of this plan was ever started.", command="ordain status")
        return next(reversed(state.runs))

    @property
    def carries_out(self) -> RunId | None:
        """The run that is under way in this process."""
        return self._control.carries_out

    def stop(self) -> bool:
        """Ask the run under way to begin nothing more and return when what is under way has ended; whether there is
        such a run."""
        return self._control.stop()

    def find_run(self, ref: str | None) -> RunId:
        """The run a person means to go on with; without a name the only one that has not ended."""
        return self._records.find_run(ref) if ref is not None else self._records.only_open_run("resume")

    def executing(self, ref: str) -> RunId | None:
        """The run of a plan that somebody carries out by now, if there is one."""
        state = self._records.current(ref)[1]
        run_id = state.open_run if state.open_run != state.continues else None
        return run_id if run_id is not None and self._control.report(run_id).executors else None

    def is_busy(self, ref: str) -> bool:
        """Whether somebody carries out a run of another plan here."""
        return self._control.is_busy(ref)

    async def check_startable(self, ref: str, by: Principal, preparation: str | None = None) -> None:
        """Raise Refused where this caller could not start this plan as things stand. Nothing is spent."""
        async with self._refusals.asked_for("commit", ref, by):
            self._plans.refuse_edited(ref, "commit")
            await self._control.check_startable(ref, preparation)

    def startable(self, ref: str) -> None:
        """Raise Refused where work is stopped, a run of this plan is open, or an agent of it cannot be started: nobody
        need be asked about what could not start."""
        self._here.refuse_stopped()
        stream, state = self._records.current(ref)
        self._control.refuse_open(state)
        self._here.refuse_agents(self._records.plan(stream), self._here.snapshot.settings)


_UNDER_WAY = (StepState.RUNNING, StepState.WAITING, StepState.VERIFYING)


def _why_no_output(record: StepRecord) -> str:
    """Why nothing that a step wrote can be had, in words that follow its name."""
    if record.outcome is not None:
        return "wrote something that is not kept" if record.outcome.output_bytes else "wrote nothing"
    if record.state in _UNDER_WAY:
        return "has not ended"
    return "has not begun" if record.attempts == 0 else "has no end that anybody saw"
