"""The verbs about runs: starting one, going on with it, deciding what it asks, ending it.

The engine carries out; here is looked who may, what was permitted, and that nobody else is at it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress

import msgspec

from ordain.core.approval import Approval, Principal
from ordain.core.decision import (
    Asked,
    choice_named,
    decided,
    find_question,
    persons_only,
    signed_decision,
    stale,
)
from ordain.core.event import ApprovalGiven, RunCancelled, RunEvent, RunOpened, RunStarted
from ordain.core.lineage import PlanState
from ordain.core.model import Plan
from ordain.core.problem import Problem, Refused, refuse
from ordain.core.report import Review, RunReport, run_report
from ordain.core.settings import limits
from ordain.core.signature import fingerprint
from ordain.core.state import RunState, apply
from ordain.core.value import PlanId, RunId
from ordain.gate import Gate, given, meanwhile
from ordain.ports import Append, Credential, Observer, Shell
from ordain.proposals import Proposals
from ordain.records import WORKSPACE_STREAM, Records
from ordain.surroundings import TIER, Surroundings

__all__ = ["Running"]


class Running:
    """Runs of one workspace."""

    def __init__(
        self, here: Surroundings, gate: Gate, proposals: Proposals, *, shell: Shell, pid: int, boot_id: str
    ) -> None:
        self._here, self._gate, self._proposals = here, gate, proposals
        self._shell, self._pid, self._boot_id = shell, pid, boot_id
        self._stop: Callable[[], None] | None = None

    @property
    def _records(self) -> Records:
        return self._here.records

    async def commit(self, ref: str, by: Principal, *observers: Observer) -> RunReport:
        """Start the approved run and carry it out until it ends or waits for a person.

        Everything is checked first; the approval is spent in the transaction that opens the run, so a refusal
        consumes nothing and one approval starts one run.
        """
        return await self._commit(ref, by, observers, shown=None)

    async def approve_and_commit(
        self, shown: Review, by: Principal, *observers: Observer, credential: Credential | None = None
    ) -> RunReport:
        """A person's yes to what was shown, spent on the spot: approval and start are one transaction, so a yes whose
        run is refused leaves no approval behind."""
        return await self._commit(shown.plan_id, by, observers, shown=shown, credential=credential)

    async def _commit(
        self,
        ref: str,
        by: Principal,
        observers: Sequence[Observer],
        shown: Review | None,
        credential: Credential | None = None,
    ) -> RunReport:
        here, run_id = self._here, RunId(self._here.ids.mint("RUN-"))
        stream, _ = self._records.current(ref)
        with here.lock.hold(run_id):
            while True:
                try:
                    await self._start(stream, run_id, by, shown, credential)
                    break
                except Refused as refused:
                    if refused.problems[0].code != "E_LEDGER_CONFLICT":
                        raise
                    if shown is not None:
                        raise meanwhile(shown.plan_id) from refused  # a person's yes is for what was shown
            self._proposals.write_copy(stream, self._records.lineage(stream))
            return await self._carry_out(run_id, observers)

    async def _start(
        self, stream: str, run_id: RunId, by: Principal, shown: Review | None, credential: Credential | None
    ) -> None:
        """Check everything, then open the run and spend its approval in one transaction, which compares what was
        looked at: the lineage, and with the workspace's own stream the settings and the approvers."""
        here = self._here
        state, workspace = self._records.lineage(stream), here.workspace_state()
        plan, now = self._records.plan(stream), here.now()
        self.refuse_open(state)
        settings, _, _ = here.settings()
        ruling = here.rule(plan, settings)
        if ruling.denied:
            raise Refused(ruling.denied)
        events: tuple[ApprovalGiven | RunStarted, ...] = ()
        if shown is not None:
            permission = await self._gate.permit(stream, state, by, shown, credential)
            approval: Approval | None = permission.approval
            events = (given(permission),)
        else:
            approval = await self._gate.usable(state, stream, plan, required=ruling.requires_approval)
        await self._refuse_unprotectable(plan)
        started = RunStarted(
            run_id=run_id,
            plan_id=state.plan_id,
            approval_id=approval.approval_id if approval is not None else None,
            by=by,
        )
        opened = RunOpened(
            run_id=run_id,
            plan_id=state.plan_id,
            lineage=stream,
            workspace=await here.identity(),
            limits=limits(settings),
        )
        await here.ledger.append(
            now,
            Append(stream=WORKSPACE_STREAM, expected=workspace.size, events=()),
            Append(stream=stream, expected=state.size, events=(*events, started)),
            Append(stream=f"run/{run_id}", expected=0, events=(opened,)),
        )

    async def _refuse_unprotectable(self, plan: Plan) -> None:
        """Raise Refused where what the plan protects cannot be kept, before anything is spent on it. Files that only
        come to be while it runs are looked at then."""
        for patterns in dict.fromkeys((plan.protect, *(step.protect for step in plan.steps))):
            if patterns:
                await self._here.protection.save(patterns, ())

    async def resume(self, ref: str | None, *observers: Observer) -> RunReport:
        """Go on with a run that stopped: the one named, or the only one that has not ended."""
        run_id = self._records.find_run(ref) if ref is not None else self._records.only_open_run()
        with self._here.lock.hold(run_id):
            state, _, _ = self._records.run(run_id)
            if state.finished:
                raise refuse("E_RUN_ENDED", f"{run_id} has ended ({state.status}); there is nothing to go on with.")
            if state.workspace_identity != await self._here.identity():
                raise refuse(
                    "E_PLAN_WORKSPACE",
                    f"{run_id} was begun in another directory than the one that is here now.",
                    f"It was begun in {state.workspace_identity.path}; that directory was moved or replaced.",
                    command=f"ordain cancel {run_id}",
                )
            await self._gate.refuse_unsigned_run(state, *self._records.start_of(run_id))
            return await self._carry_out(run_id, observers)

    def asked(self, item: str) -> Asked:
        """What a run asks a person by this name, as it stands; the person is shown it before they answer."""
        run_id = self._records.find_run(item.partition("/")[0])
        return self._asked(item, *self._records.run(run_id))

    def _asked(self, item: str, state: RunState, plan_id: PlanId, head: str) -> Asked:
        return Asked(
            question=find_question(state, item),
            run_id=state.run_id,
            plan_id=plan_id,
            workspace_id=state.workspace_identity.id,
            head=head,
            tier=TIER,
        )

    def check_answering(self, asked: Asked, word: str, by: Principal, signer: str | None) -> None:
        """Raise Refused where this person's answer to this question could not count, before anything is typed."""
        choice_named(asked.question, word)
        self._gate.check_answering(by, signer, f"ordain answer {asked.question.item} {word}")

    async def answer(
        self, item: str, word: str, by: Principal, shown: Asked | None = None, credential: Credential | None = None
    ) -> RunReport:
        """Record a person's decision about what a run asks; the run goes on with `resume`. `shown` is what the person
        saw: when that is no longer how things stand, nothing is recorded."""
        here, run_id = self._here, self._records.find_run(item.partition("/")[0])
        persons_only("answer this", by, f"ordain answer {item} {word}")
        # While an executor is at work it alone appends to its run; it stops by itself when only people are waited for.
        with here.lock.hold(f"answer to {run_id}"):
            state, plan_id, head = self._records.run(run_id)
            workspace, asked = here.workspace_state(), self._asked(item, state, plan_id, head)
            if shown not in (None, asked):
                raise stale(asked.question)
            signer = credential.name if credential is not None else None
            command = f"ordain answer {asked.question.item} {word}"
            approver = self._gate.check_answering(by, signer, command)
            if approver is not None:
                by = Principal(name=approver.name, channel=by.channel)
            key = fingerprint(approver.key) if approver is not None else None
            event = decided(state, asked.question, word, by, head=head, key=key)
            if credential is not None:
                said = signed_decision(event, workspace_id=asked.workspace_id, run_id=run_id, plan_id=plan_id)
                event = msgspec.structs.replace(event, signature=await here.sign(credential, said, by))
            try:
                await here.ledger.append(
                    here.now(),
                    Append(stream=WORKSPACE_STREAM, expected=workspace.size, events=()),
                    Append(stream=f"run/{run_id}", expected=state.size, events=(event,)),
                )
            except Refused as refused:
                if refused.problems[0].code != "E_LEDGER_CONFLICT":
                    raise
                raise stale(asked.question) from refused
            return self.report(run_id)

    @property
    def carries_out(self) -> bool:
        """Whether a run is under way in this process."""
        return self._stop is not None

    def stop(self) -> bool:
        """Ask the run under way to begin nothing more and return when what is under way has ended; whether there is
        such a run."""
        if self._stop is None:
            return False
        self._stop()
        return True

    async def _carry_out(self, run_id: RunId, observers: Sequence[Observer]) -> RunReport:
        from ordain.engine import Engine  # only a run needs the loop and all it imports

        state, _, head = self._records.run(run_id)
        engine = Engine(
            state,
            head,
            ledger=self._here.ledger,
            shell=self._shell,
            toolbox=self._here.toolbox,
            clock=self._here.clock,
            sink=self._here.sink(),
            protection=self._here.protection,
            expressions=self._here.expressions,
            git_head=self._here.workspace.git_head,
            observers=tuple(observers),
        )
        self._stop = engine.stop
        try:
            await engine.carry_out(self._pid, self._boot_id)
        except Refused as refused:
            stopped = Problem(
                code="F_RUN_STOPPED",
                detail=f"{run_id} stopped because of that; what was under way is looked at when it is resumed.",
                command=f"ordain resume {run_id}",
            )
            raise Refused([*refused.problems, stopped]) from refused
        finally:
            self._stop = None
        report = self.report(run_id)
        self._tell(report, state.lineage)
        return report

    def _tell(self, report: RunReport, stream: str) -> None:
        """Tell whoever the settings name how a run ended or what it asks."""
        self._proposals.write_copy(stream, self._records.lineage(stream))
        for question in report.questions:
            self._here.notify(
                question.kind,
                run_id=report.run_id,
                title=report.title,
                text=question.text,
                command=f"ordain answer {question.item} …",
            )
        if report.status in ("completed", "failed", "cancelled"):
            self._here.notify("finished", run_id=report.run_id, title=report.title, status=report.status)

    def report(self, run_id: RunId) -> RunReport:
        """One run as it stands."""
        state, identity, _ = self._records.run(run_id)
        return run_report(state, identity, self._here.now(), executing=self._here.lock.holder() == run_id)

    def refuse_open(self, state: PlanState) -> None:
        """Raise Refused where a run of this plan is open."""
        if state.open_run is not None:
            asked = self.report(state.open_run).questions
            command = f"ordain answer {asked[0].item} …" if asked else f"ordain resume {state.open_run}"
            raise refuse("E_RUN_OPEN", f"{state.open_run} of this plan has not ended.", command=command)

    async def cancel(self, ref: str, by: Principal, reason: str = "") -> RunReport:
        """End a run as it stands, carrying nothing out: whatever an executor left running is ended, and of steps that
        were under way nobody says what they did. Anybody may: it permits nothing."""
        run_id = self._records.find_run(ref)
        text = self._here.redactor(defaults=True).text(reason)
        with self._here.lock.hold(f"cancelling {run_id}"):
            state, _, head = self._records.run(run_id)
            if state.finished:
                raise refuse("E_RUN_ENDED", f"{run_id} has ended ({state.status}).", command=f"ordain show {run_id}")
            self._shell.sweep(f"{state.workspace_identity.id}/{run_id}/")
            head = await self._put_back(state, head)
            now, event = self._here.now(), RunCancelled(by=by, reason=text)
            await self._here.ledger.append(now, *self._records.cancelling(state, head, event, now))
        report = self.report(run_id)
        self._tell(report, state.lineage)
        return report

    async def _put_back(self, state: RunState, head: str) -> str:
        """Put back what steps that were under way did to protected files, as far as it can be; the run's head then."""
        from ordain.guard import Guard  # only a run needs it

        async def record(event: RunEvent, keeps: Sequence[bytes]) -> None:
            nonlocal head
            append = Append(stream=f"run/{state.run_id}", expected=state.size, events=(event,), keeps=tuple(keeps))
            now = self._here.now()
            (recorded,) = await self._here.ledger.append(now, append)
            apply(state, event, now)
            head = recorded.head

        with suppress(Refused):  # the run ends all the same; what was found changed is recorded
            await Guard(state, self._here.protection, self._here.ledger).take_over(record)
        return head
