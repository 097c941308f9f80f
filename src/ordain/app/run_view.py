"""Looking at runs: as they stand, what their steps wrote and were told, and which one is meant."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from typing import NoReturn

from msgspec import UNSET, UnsetType
from msgspec.structs import replace

from ordain.app.gate import Gate
from ordain.app.plan_view import UNDER_WAY
from ordain.app.plans import PlanVerbs
from ordain.app.retention import removal_notices, removed_outputs, why_gone
from ordain.core.approval.approval import Principal
from ordain.core.lineage.lineage import Permission, Stage
from ordain.core.plan.canonical import short_id
from ordain.core.plan.value import PlanId, RunId, StepId
from ordain.core.policy.sealing import SealedEnvironment
from ordain.core.policy.settings import Settings
from ordain.core.report.brief import Brief, brief
from ordain.core.report.progress import AttemptOutput, read_output
from ordain.core.report.report import KeptOutput, Life, RunReport, ToldPrompt, run_report
from ordain.core.report.transcript import Transcript
from ordain.core.run.event import RunCancelled, RunFinished
from ordain.core.run.run_state import RunState, StepRecord
from ordain.core.text.problem import Problem, Refused, refuse
from ordain.core.text.redaction import Hidden, hide
from ordain.ports.ledger import Observer
from ordain.ports.workspace import StepLogs
from ordain.records.records import Records, refuse_superseded
from ordain.records.surroundings import Surroundings

LOOKING_S = 1.0
"""How often it is looked whether somebody still carries out a run that is watched."""
_NAMED_MAX = 10
"""How many runs are listed where it is not clear which one is meant."""
LOOKED_BACK = 64 << 10
"""How much of a run's log is looked at by somebody who begins to watch it."""


class OutputTails:
    """The ends of outputs that whoever carries out a run puts into its log. They are shown, and nothing else."""

    def __init__(self, logs: StepLogs, run_id: RunId) -> None:
        self._logs, self._run_id = logs, run_id
        self._place = -LOOKED_BACK

    def since(self) -> tuple[AttemptOutput, ...]:
        """The newest of each step that was added since this was asked last."""
        data, end = self._logs.read(self._run_id, self._place)
        *lines, begun = data.split(b"\n")
        self._place = end - len(begun)
        found = [output for line in lines if (output := read_output(line)) is not None]
        ours = {output.step: output for output in found if output.stream == f"run/{self._run_id}"}
        return tuple(ours.values())


class RunView:
    """The runs of one workspace, for whoever looks."""

    def __init__(self, here: Surroundings, gate: Gate, plans: PlanVerbs) -> None:
        self._here, self._gate, self._plans = here, gate, plans

    @property
    def _records(self) -> Records:
        return self._here.records

    def run(self, ref: str) -> RunReport:
        """One run as it stands."""
        return self.report(self._records.find_run(ref))

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
        state, _ = self._step_of(ref, step)
        run_id, record = state.run_id, state.steps[StepId(step)]
        outcome, ledger = record.outcome, self._here.ledger
        seal = outcome.output_seal if outcome is not None else ""
        kept, parts = ledger.kept(seal), ledger.artifact(seal)
        if outcome is None or (kept is None and parts is None):
            detail = f"`{step}` {_why_no_output(record)} in {run_id}."
            if outcome is not None and (gone := why_gone(ledger, seal)) is not None:
                detail = f"What `{step}` wrote in {run_id} ({outcome.output_bytes:,} bytes) {gone}."
            raise refuse("E_OUTPUT_NOT_KEPT", detail, command=f"ordain show --verbose {run_id}")
        if outcome.hidden is None and not exact:  # 0.1 recorded it, and only its end is known to be without secrets
            kept, parts = outcome.output_tail.encode("utf-8", "replace"), None
        size = len(kept) if kept is not None else outcome.output_bytes
        found = KeptOutput(run_id=run_id, step=StepId(step), output_bytes=outcome.output_bytes, kept_bytes=size)
        return found, parts if parts is not None else iter((kept or b"",)), outcome.hidden or ()

    def _step_of(self, ref: str, step: str) -> tuple[RunState, PlanId]:
        """A run and its plan; raises Refused where it has no such step."""
        state, identity, _ = self._records.run(self._records.find_run(ref))
        if step not in state.steps:
            named = ", ".join(state.steps)
            raise refuse("E_STEP_UNKNOWN", f"{state.run_id} has no step `{step}`.", f"Its steps are: {named}.")
        return state, identity

    def begun(self, ref: str, preparation: str | None = None) -> RunId | None:
        """The run that a preparation, by default the newest, has started."""
        if preparation is None:
            state = self._records.current(ref)[1]
            found = state.preparations.get(state.preparation)
            return found.run_id if found is not None else None
        state = self._records.lineage(self._records.find_plan(ref))
        found = state.preparations.get(preparation)
        if found is None:
            detail = f"This plan was never prepared as `{preparation}`."
            raise refuse("E_PREPARATION_NOT_FOUND", detail, command=f"ordain show {short_id(state.plan_id)}")
        if found.run_id is None:
            refuse_superseded(found.plan_id, state)
        return found.run_id

    def is_busy(self, ref: str) -> bool:
        """Whether somebody carries out a run of another plan here."""
        own = self._records.current(ref)[1].open_run
        others = (plan.state.open_run for plan in self._here.ledger.plans(open_only=True))
        return any(self._here.ports.lock.holder(one) is not None for one in others if one is not None and one != own)

    def run_state(self, run_id: RunId) -> RunState:
        """A run folded as it is recorded, for somebody who folds into it what comes."""
        return self._records.run(run_id)[0]

    def removed(self, ref: str) -> tuple[Problem, ...]:
        """That `[retention]` removed what a run kept, where it did."""
        return removal_notices(self._here.ledger, self._records.find_run(ref))

    def removed_outputs(self, run_id: RunId) -> Mapping[StepId, str]:
        """The steps of a run whose outputs `[retention]` removed, and when, in words."""
        return removed_outputs(self._here.ledger, self._records.run(run_id)[0])

    def brief(self, ref: str, step: str) -> Brief:
        """What a planner needs to know to propose how a run goes on after one of its steps."""
        state, identity = self._step_of(ref, step)
        return brief(state, identity, StepId(step), self.report(state.run_id))

    def prompt_told(self, ref: str, step: str, attempt: int | None = None) -> ToldPrompt:
        """What the agent of a step of a run was told, in this attempt or in the last one."""
        return self._plans.prompts.told(self._step_of(ref, step)[0].run_id, StepId(step), attempt)

    def transcript(self, ref: str, step: str, attempt: int | None = None) -> Transcript:
        """What was said between Ordain and the model that performed a step, in this attempt or in the last one."""
        return self._plans.prompts.transcript(self._step_of(ref, step)[0].run_id, StepId(step), attempt)

    def ended_run(self) -> RunId:
        """The run to run again where none is named: of the one plan that failed or was cancelled, else completed."""
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
        """The run to replan where none is named: the only open one, else that of the one plan that failed."""
        if self._records.open_runs():
            return self._records.only_open_run("replan")
        return self._one_that_was(("failed", "cancelled"), "replan") or self._none_ended("failed or waits")

    def newest_run(self, ref: str | None) -> RunId:
        """The newest run of a plan; without a name, of the one plan whose run ended or waits."""
        if ref is None:
            return self._records.only_open_run("rerun") if self._records.open_runs() else self.ended_run()
        return self._newest_run(ref, "ordain status")

    def _newest_run(self, ref: str, command: str = "") -> RunId:
        _, state = self._records.current(ref)
        if not state.runs:
            command = command or f"ordain commit {short_id(state.plan_id)}"
            raise refuse("E_RUN_NOT_FOUND", "No run of this plan was ever started.", command=command)
        return next(reversed(state.runs))

    def find_run(self, ref: str | None) -> RunId:
        """The run a person means to go on with; without a name the only one that has not ended."""
        return self._records.find_run(ref) if ref is not None else self._records.only_open_run("resume")

    def executing(self, ref: str) -> RunId | None:
        """The run of a plan that somebody carries out by now, if there is one."""
        state = self._records.current(ref)[1]
        run_id = state.open_run if state.open_run != state.continues else None
        return run_id if run_id is not None and self.report(run_id).executors else None

    def report(self, run_id: RunId) -> RunReport:
        state, identity, _ = self._records.run(run_id)
        return self._report(state, identity)

    def _report(self, state: RunState, identity: PlanId) -> RunReport:
        holder, asked = self._here.ports.lock.holder(state.run_id), None
        if holder is not None:
            plan = self._records.lineage(state.lineage)
            if plan.stop_asked is not None and plan.stop_asked_at >= state.executor_at:
                asked = plan.stop_asked.to
        life = Life(
            executing=holder is not None,
            silent_ms=holder.silent_ms if holder is not None else 0,
            stop_asked=asked,
            stopped_at=self._records.stopped_at(),
            answered=frozenset(one.step for one in self._gate.sent(state)),
            stalled_after_ms=self._stalled_after_ms(),
        )
        report = run_report(state, identity, self._here.now(), life)
        return replace(report, prepare=self._prepare(state)) if state.finished else report

    def _prepare(self, state: RunState) -> str | UnsetType:
        """What must come before another run of a plan that was cancelled or archived."""
        plan = self._records.lineage(state.lineage)
        if plan.stage not in (Stage.CANCELLED, Stage.ARCHIVED):
            return UNSET
        return f"ordain prepare {self._here.named(plan)}" if plan.document is not None else ""

    async def watch(self, ref: str | None, *observers: Observer) -> RunReport:
        """Tell observers what was and is recorded about a run for as long as somebody carries it out. Only looks."""
        import asyncio

        run_id = self._records.find_run(ref) if ref is not None else self._records.only_open_run("watch")
        stream, seen, ended = f"run/{run_id}", 0, False
        said = OutputTails(self._here.ports.logs, run_id)
        while True:
            at_work = self._here.ports.lock.holder(run_id) is not None  # first: what it records last is read after that
            for recorded in self._here.ledger.read(stream, seen):
                seen, ended = recorded.seq, isinstance(recorded.event, RunFinished | RunCancelled)
                for observe in observers:
                    observe(recorded)
            if ended or not at_work:
                return self.report(run_id)
            for output in said.since():
                for observe in observers:
                    observe(output)
            with suppress(TimeoutError):
                await asyncio.wait_for(self._here.ledger.grown(stream, seen), LOOKING_S)

    def run_notices(self, run_id: RunId) -> tuple[Problem, ...]:
        """What somebody who goes on with a run should know."""
        state = self._records.run(run_id)[0]
        if sealed_of(state, self._records.start_of(run_id, state.lineage)[1]) is not None:
            return ()
        detail = f"{run_id} was begun by an older version, so its steps get the variables that you have now."
        return (Problem(code="W_RUN_UNSEALED", detail=detail),)

    def _stalled_after_ms(self) -> int:
        try:
            return self._here.snapshot.settings.stalled_after_ms
        except Refused:  # the record cannot be believed; looking must still be possible
            return Settings().stalled_after_ms


def _why_no_output(record: StepRecord) -> str:
    """Why nothing that a step wrote can be had, in words that follow its name."""
    if record.outcome is not None:
        return "wrote something that is not kept" if record.outcome.output_bytes else "wrote nothing"
    if record.state in UNDER_WAY:
        return "has not ended"
    return "has not begun" if record.attempts == 0 else "has no end that anybody saw"


def sealed_of(state: RunState, given: Permission | None) -> SealedEnvironment | None:
    """What a run gets of the environment, by its approval or preparation; None for one of an older version."""
    return given.approval.base.environment if given is not None else state.environment
