"""The verbs. Every interface is thin over these, so that what one shows the others show.

A verb returns a value or raises `Refused`; it prints nothing and asks nobody. Who calls, and through which channel, is
always passed in: only a person's channel can approve, answer or trust.
"""

from __future__ import annotations

import shlex
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from ordain.app.answers import Answers, answer_commands
from ordain.app.approvals import Gate
from ordain.app.proposals import Proposals
from ordain.app.refusals import Refusals
from ordain.app.review import Params, Reviews, plan_or_refuse
from ordain.app.runs import RunControl, Waiting
from ordain.app.stop import Stops
from ordain.app.topics import Signals, Topics
from ordain.core.approval.approval import Principal
from ordain.core.approval.diff.difference import Side
from ordain.core.approval.signature import PublicKey
from ordain.core.ledger.summary import PlanSummary
from ordain.core.lineage.ask import Given
from ordain.core.lineage.decision import Asked
from ordain.core.lineage.lineage import PlanState, Stage
from ordain.core.lineage.workspace import Approver, WorkspaceState
from ordain.core.plan.canonical import plan_hash, plan_id, short_id
from ordain.core.plan.model import Plan
from ordain.core.plan.tool import COMMANDS, ToolDefinition
from ordain.core.plan.value import Instant, PlanId, RunId, StepId
from ordain.core.policy.assignment import RosterLine, roster
from ordain.core.policy.effect import planned_effects
from ordain.core.policy.settings import Settings, UserSettings, limits, sandbox_limits
from ordain.core.policy.tier import STRONGEST
from ordain.core.report.report import (
    Approved,
    InboxItem,
    KeptOutput,
    LintReport,
    PlanLine,
    Prepared,
    Review,
    RunReport,
    SignalAwaited,
    SignalReport,
    ToldPrompt,
    TopicLine,
)
from ordain.core.run.event import Recorded
from ordain.core.run.run_state import RunState, StepRecord
from ordain.core.run.step_event import StepState
from ordain.core.run.topic import Message
from ordain.core.text.limit import DAY_MS
from ordain.core.text.problem import Problem, Refused, Severity, refuse
from ordain.core.text.redaction import Hidden, Redactor, hide
from ordain.documents.settings import read_settings
from ordain.ports.ledger import Observer
from ordain.ports.machine import Credential
from ordain.ports.ports import Ports
from ordain.records.records import (
    WORKSPACE_STREAM,
    Records,
    is_unreadable,
    lineage_id,
    names_document,
    names_run,
    refuse_foreign,
)
from ordain.records.surroundings import Surroundings

if TYPE_CHECKING:
    from ordain.app.audits import Audits
    from ordain.app.guard import GuardedCalls
    from ordain.app.prompt import Prompts
    from ordain.core.approval.diff.difference import Comparison
    from ordain.core.report.brief import Arbitration, Brief
    from ordain.core.report.simulation import Simulation
    from ordain.core.report.statistics import Statistics


class App:
    """Ordain over one workspace. Opening it touches nothing; the ledger is opened by the first verb that needs it."""

    def __init__(self, ports: Ports) -> None:
        self._here = here = Surroundings(ports)
        self._reviewing = Reviews(here)
        self._proposals = Proposals(here, self._reviewing)
        self._gate = Gate(here)
        self._running = RunControl(here, self._gate, self._proposals)
        self._answering = Answers(here, self._gate)
        self._signalling = Signals(here)
        self._topics = Topics(here)
        self._refusals = Refusals(here)
        self.stopping = Stops(here)

    @property
    def workspace_path(self) -> str:
        """The real path of the workspace."""
        return self._here.ports.workspace.identity()[0]

    @property
    def _records(self) -> Records:
        return self._here.records

    @property
    def _prompting(self) -> Prompts:
        from ordain.app.prompt import Prompts  # few look at prompts

        return Prompts(self._here)

    @cached_property
    def guarding(self) -> GuardedCalls:
        """What becomes of agents' calls outside of any run."""
        from ordain.app.guard import GuardedCalls  # only what stands between agents and their tools asks

        return GuardedCalls(self._here)

    @property
    def auditing(self) -> Audits:
        """The verbs about the ledger as a whole."""
        from ordain.app.audits import Audits  # few commands look at all of it

        return Audits(self._here, self.write_copies)

    def redactor(self, *, trusted: bool = False) -> Redactor:
        """What keeps secrets out of everything shown; by the defaults where the record cannot be believed, or was not
        opened by what was asked. With `trusted` it is opened: what another one looked up is to be shown."""
        try:
            if trusted:
                _ = self._here.snapshot.settings
            return self._here.redactor()
        except Refused:
            return self._here.redactor(defaults=True)

    async def close(self) -> None:
        self._here.ports.sources.close()
        if (ledger := self._here.ports.ledger.opened) is not None:
            await ledger.close()

    def let_go(self) -> None:
        """The same where only looking was done, and nobody can wait."""
        self._here.ports.sources.close()
        if (ledger := self._here.ports.ledger.opened) is not None:
            ledger.let_go()

    # --- Looking ---------------------------------------------------------------------------------------------------

    def lint(self, data: bytes, file: str | None = None, params: Params = ()) -> LintReport:
        """Everything wrong with a document, in its text and in these surroundings. Writes nothing.

        A template is looked at as it is; with values for its parameters, the plan it becomes.
        """
        document, problems = self._reviewing.lint(data, file, params or None)
        if all(problem.severity is not Severity.ERROR for problem in problems):
            problems += self._reviewing.denied(document, file)
        plan = document.plan
        identity = plan_id(plan) if plan is not None else None
        return LintReport(
            file=file,
            dialect=document.dialect or document.notation,
            plan_id=identity,
            plan_hash=plan_hash(identity) if identity is not None else None,
            title=plan.title if plan is not None else None,
            steps=len(plan.steps) if plan is not None else 0,
            problems=problems,
        )

    def review_document(self, data: bytes, file: str | None = None, params: Params = ()) -> Review:
        """What a document's plan would do, without storing it; raises Refused when it has errors."""
        return self._reviewing.review_document(data, file, params)

    def review(self, ref: str) -> Review:
        """A stored plan as an approver must see it, with its newest run if it has one."""
        stream, identity = self._records.find(ref)
        state = self._records.lineage(stream)
        run_id = next(reversed(state.runs), None)
        return self._reviewing.review(
            self._records.plan(stream, identity),
            stream,
            state,
            self._proposals.copy_drift(stream, state),
            self._running.report(run_id) if run_id is not None else None,
        )

    async def simulate_document(
        self, data: bytes, file: str | None = None, params: Params = (), by: Principal | None = None
    ) -> Simulation:
        """How a run of a document's plan would go. Contracts run for a person only, where policy does not deny them, in
        the sandbox of tier 1: for all others nothing of a plan runs before its run."""
        document, problems = self._reviewing.lint(data, file, params)
        return await self._simulate(plan_or_refuse(document, problems), by)

    async def simulate(self, ref: str, by: Principal | None = None) -> Simulation:
        """The same for a stored plan."""
        return await self._simulate(self._records.plan(*self._records.find(ref)), by)

    async def _simulate(self, plan: Plan, by: Principal | None) -> Simulation:
        from ordain.app.foresight import foresee
        from ordain.core.policy.assignment import assignments  # only simulating needs it

        here = self._here
        if by is not None:
            here.refuse_pretended(by)
        usual = self._records.durations() if here.has_ledger() else {}
        settings = here.snapshot.settings
        fault: str | None = "not known yet: contracts of a plan run before its run only for a person at a terminal"
        if by is not None and by.person and not here.is_pretended(by):
            fault = here.tier_fault(STRONGEST)
        return await foresee(
            plan,
            shell=here.ports.sandbox.shell(sandbox_limits(settings))
            if fault is None and here.ports.sandbox is not None
            else None,
            fault=fault or "",
            denied=lambda step: here.denied(step, settings),
            mark=here.ports.ids.mint("SIM-"),
            limits=limits(settings),
            usual=usual,
            expressions=here.ports.expressions,
            tasks=tuple(assignments(plan, settings, here.known_agents(settings), here.tools(settings, plan))),
        )

    def refuse_edited(self, ref: str, verb: str) -> None:
        """Raise Refused where a plan is named by a document that says something else by now: who names the file means
        what it says."""
        stream, _ = self._records.find(ref)
        state = self._records.lineage(stream)
        if names_document(ref) and self._here.drift(state):
            raise refuse(
                "E_DOC_DRIFT",
                f"{state.document} is not what the plan was prepared from: it was edited or deleted since.",
                f"To have what the file says, prepare it again: ordain prepare {self._here.named(state)}",
                f"To {verb} what was prepared, name the plan: ordain {verb} {short_id(state.plan_id)}",
                command=f"ordain prepare {self._here.named(state)}",
            )

    def stored(self, ref: str) -> Side:
        """A stored plan by itself: the very one with this id, or the newest of a lineage."""
        return self._stored(*self._records.find_revision(ref))

    def last_prepared(self, document: str) -> Side:
        """The plan that was prepared last from the document of this name."""
        found = self._records.last_prepared(document) if self._here.has_ledger() else None
        if found is None:
            command = f"ordain prepare {shlex.quote(document)}"
            raise refuse("E_PLAN_NOT_FOUND", f"No plan was prepared from {document} yet.", command=command)
        return self._stored(*found)

    def was_prepared(self, document: str) -> bool:
        """Whether a plan was ever prepared from the document of this name."""
        return self._here.has_ledger() and self._records.last_prepared(document) is not None

    def _stored(self, stream: str, identity: PlanId) -> Side:
        document = self._records.lineage(stream).document
        plan = self._records.plan(stream, identity)
        return Side(plan_id=identity, plan=plan, lineage=lineage_id(stream), document=document)

    def in_document(self, data: bytes, file: str | None = None, params: Params | None = None) -> Side:
        """The plan in a document, filled in with these values, or as it stands where `params` is None; raises Refused
        when there is none to speak of. What else is wrong with it is not looked at."""
        return self._reviewing.in_document(data, file, params)

    def diff(self, old: Side, new: Side) -> Comparison:
        """What changed from one plan to another, and what of it to read first."""
        from ordain.core.approval.diff.difference import Comparison, difference  # only comparing needs it

        settings = self._here.snapshot.settings
        tools = self._here.tools(settings, old.plan, new.plan)
        return Comparison(old=old, new=new, difference=difference(old.plan, new.plan, tools, settings))

    def run(self, ref: str) -> RunReport:
        """One run as it stands."""
        return self._running.report(self._records.find_run(ref))

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

    @asynccontextmanager
    async def asked_for(self, verb: str, ref: str | None, by: Principal) -> AsyncIterator[None]:
        """Around what a caller asks about a plan or a run: refused where it is somebody else's; what is refused is
        recorded. The verbs that decide something do this themselves."""
        async with self._refusals.recording(verb, ref or "", by):
            self.check_owned(ref, by)
            yield

    def check_owned(self, ref: str | None, by: Principal) -> None:
        """Raise Refused where this plan or run is not the caller's to see or handle; a person's is everything."""
        self._here.refuse_pretended(by)
        if by.person or ref is None:
            return
        if names_run(ref):
            stream = self._records.run(self._records.find_run(ref))[0].lineage
        else:
            stream = self._records.find_plan(ref)
        refuse_foreign(self._records.lineage(stream), by)

    def recorded(self, ref: str) -> int:
        """How many events were recorded about this plan or run: more where something happened since."""
        stream = f"run/{self._records.find_run(ref)}" if names_run(ref) else self._records.find_plan(ref)
        return self._here.ledger.size(stream)

    async def record_refusal(self, verb: str, subject: str, by: Principal, problems: Sequence[Problem]) -> None:
        """Record what an interface refused by itself, before any verb was asked."""
        await self._refusals.record(verb, subject, by, problems)

    def refusals(self) -> Sequence[Recorded]:
        """The newest refusals that were recorded."""
        return self._refusals.newest()

    def refused_lately(self) -> int:
        """How many of them are not older than a day."""
        since = self._here.now() - DAY_MS
        return sum(recorded.at >= since for recorded in self._refusals.newest())

    def _refuse_unknown_step(self, state: RunState, step: str) -> None:
        if step not in state.steps:
            named = ", ".join(state.steps)
            raise refuse("E_STEP_UNKNOWN", f"{state.run_id} has no step `{step}`.", f"Its steps are: {named}.")

    def plans(self, *, open_only: bool = False, newest: int | None = None) -> tuple[PlanLine, ...]:
        """The plans of the workspace, oldest first, each with its newest run while that is not finished."""
        if not self._here.has_ledger():
            return ()
        return tuple(self.lines(self._here.ledger.plans(open_only=open_only, newest=newest)))

    def owned(self, by: Principal, newest: int | None = None) -> tuple[PlanSummary, ...]:
        """The plans that are this caller's to see, oldest first, among so many of the newest; none is looked at."""
        self._here.refuse_pretended(by)
        found = self._here.ledger.plans(newest=newest) if self._here.has_ledger() else ()
        return tuple(one for one in found if one.state.owned_by(by))

    def lines(self, found: Iterable[PlanSummary]) -> Iterator[PlanLine]:
        """How such plans stand. Each is looked at when it is asked for, so that a few of many cost little."""
        settings = self._here.snapshot.settings
        return (self._line(one, settings) for one in found)

    def plan_count(self) -> int:
        """How many plans the workspace has had."""
        return self._here.ledger.plan_count() if self._here.has_ledger() else 0

    def _line(self, summary: PlanSummary, settings: Settings) -> PlanLine:
        state = summary.state
        status = state.status(self._here.now())
        if status == Stage.APPROVED and self._all_revoked(state):
            status = Stage.PROPOSED
        requires_approval, destructive, run, plan = True, 0, None, None
        word, feedback = str(status), state.rejections[-1].words() if state.rejections else None
        try:
            run = self._running.report(state.open_run) if state.open_run is not None else None
            plan = self._records.plan(summary.stream) if status == Stage.PROPOSED else None
        except Refused as refused:  # one that can not be read hides no other
            if not is_unreadable(refused):
                raise
            word, feedback = "unreadable", refused.problems[0].detail
        if plan is not None:
            requires_approval = self._here.rule(plan, settings).requires_approval
            destructive = sum(one.destructive for one in planned_effects(plan, self._here.tools(settings, plan)))
        assert state.proposer is not None
        return PlanLine(
            lineage=lineage_id(summary.stream),
            plan_id=state.plan_id,
            title=state.title,
            status=run.status if run is not None else word,
            document=state.document,
            proposer=state.proposer,
            opened_at=state.opened_at,
            prepared_at=state.prepared_at,
            changed_at=state.changed_at,
            expires_at=state.expires_at,
            revisions=len(state.revisions),
            requires_approval=requires_approval,
            destructive=destructive,
            feedback=feedback,
            unused=len(state.permissions),
            last_run=next(reversed(state.runs), None),
            run=run,
        )

    def _all_revoked(self, state: PlanState) -> bool:
        """Whether every approval of a plan was signed by a key that was revoked since."""
        keys = {one.approval.key or "" for one in state.permissions.values()}
        approvers = self._here.snapshot.workspace.approvers
        return all(key in approvers and approvers[key].revoked_at is not None for key in keys)

    def inbox(self) -> tuple[InboxItem, ...]:
        """Everything that waits for a person here, the most dangerous first."""
        items = [item for line in self.plans(open_only=True) for item in _waiting(line, self.workspace_path)]
        return tuple(sorted(items, key=lambda item: (-item.destructive, item.since)))

    def log(self, ref: str | None) -> tuple[Recorded, ...]:
        """The ledger's own events about a run, or about a plan and all its runs, or about the workspace itself."""
        if ref is None:
            return tuple(self._here.ledger.read(WORKSPACE_STREAM)) if self._here.has_ledger() else ()
        if names_run(ref):
            return self._records.run_events(self._records.find_run(ref))
        return self._records.lineage_events(self._records.find_plan(ref))

    def statistics(self, ref: str | None = None, within_ms: int | None = None) -> Statistics:
        """How plans and runs went: all of them, one plan with its runs, or one run; `within_ms` looks back so far."""
        from ordain.app.audits import measure
        from ordain.core.report.tally import Tally  # only counting needs these

        now = self._here.now()
        since = Instant(max(now - within_ms, 0)) if within_ms is not None else None
        if ref is None and not self._here.has_ledger():
            return Tally().statistics(since, now)
        return measure(self._here.ledger, now, ref, since)

    def settings(self) -> tuple[Settings, str, tuple[Problem, ...]]:
        """The settings in force, the digest they are bound by, and a notice when the file says something else."""
        snapshot = self._here.snapshot
        return snapshot.settings, snapshot.digest, snapshot.notices

    def user_settings(self) -> UserSettings:
        """The user's own settings, which no workspace can set; refused as well where a program they name is."""
        settings = self._here.ports.host.user_settings()
        self._here.ports.host.programs(settings.programs)
        return settings

    def tools(self) -> tuple[Mapping[str, ToolDefinition], tuple[Problem, ...]]:
        """Everything that steps can call, by its name; and a notice for each source of tools that does not say what it
        has."""
        tools, unreached = self._here.found_tools(self._here.snapshot.settings)
        notices = (replace(problem, code="W_TOOL_SOURCE") for problem in unreached.values())
        return {**COMMANDS, **tools}, tuple(notices)

    def agents(self) -> tuple[RosterLine, ...]:
        """Everybody who can be given tasks, and whether they could be started here. Nobody is."""
        here = self._here
        settings, text = here.snapshot.settings, here.ports.workspace.configuration()
        written = read_settings(text)[0].agents if text is not None else {}
        known = here.known_agents(settings)
        looked_at = {name: here.agent_fault(agent, settings.tier, settings) for name, agent in known.items()}
        faults = {name: fault for name, fault in looked_at.items() if fault is not None}
        return tuple(roster(settings, here.ports.agents.registered(), written, faults))

    def workspace_state(self) -> WorkspaceState:
        """The workspace's id, its trusted configuration and its approvers."""
        return self._here.snapshot.workspace

    # --- Proposing -------------------------------------------------------------------------------------------------

    async def prepare(self, data: bytes, file: str | None, by: Principal, params: Params = ()) -> Prepared:
        """Check a document and store its plan's bytes; what was stored is what can be approved and run.

        `params` are the values of a template's parameters, as they were typed.
        """
        async with self._refusals.recording("prepare", file or "", by):
            return await self._proposals.prepare(data, file, by, params)

    async def prepare_plan(self, plan: Plan, by: Principal) -> Prepared:
        """The same for a plan made by code; a template takes the defaults of its parameters."""
        async with self._refusals.recording("prepare", str(getattr(plan, "title", "")), by):
            return await self._proposals.prepare_plan(plan, by)

    async def revise(
        self, ref: str, by: Principal, data: bytes | None = None, file: str | None = None, params: Params = ()
    ) -> Prepared:
        """Replace a plan by another one of the same lineage: from a document, or from its own, edited since."""
        async with self.asked_for("revise", ref, by):
            return await self._proposals.revise(ref, by, data, file, params)

    async def reject(
        self, ref: str, by: Principal, feedback: str, comments: Mapping[StepId, str] | None = None
    ) -> PlanLine:
        """Say no to a plan, and what should change."""
        async with self.asked_for("reject", ref, by):
            return self._line_of(await self._proposals.reject(ref, by, feedback, comments or {}))

    async def cancel(self, ref: str, by: Principal, reason: str = "") -> PlanLine:
        """Take a proposal back."""
        async with self.asked_for("cancel", ref, by):
            return self._line_of(await self._proposals.cancel(ref, by, reason))

    async def cancel_run(
        self, ref: str, by: Principal, reason: str = "", *, status: str = "cancelled", take_over: bool = False
    ) -> RunReport:
        """End a run as it stands. Its own caller may, and every person: it permits nothing."""
        async with self.asked_for("cancel", ref, by):
            return await self._running.cancel(ref, by, reason, status=status, take_over=take_over)

    async def archive(self, ref: str, by: Principal) -> PlanLine:
        """Put away a plan that has come to its end."""
        async with self.asked_for("archive", ref, by):
            return self._line_of(await self._proposals.archive(ref, by))

    def has_overdue(self) -> bool:
        """Whether a proposal ran out of time and nobody has recorded it yet."""
        return self._here.has_ledger() and any(self._proposals.overdue())

    async def expire_overdue(self) -> int:
        """Record, and tell, which proposals nobody decided in time; how many."""
        return await self._proposals.expire_overdue() if self._here.has_ledger() else 0

    def write_copies(self, *, open_only: bool = False) -> int:
        """Write our copies of the proposals that came without a file anew; how many there are."""
        without = [one for one in self._here.ledger.plans(open_only=open_only) if one.state.document is None]
        for summary in without:
            self._proposals.write_copy(summary.stream, summary.state)
        return len(without)

    def plan_line(self, ref: str) -> PlanLine:
        """One plan as a list shows it."""
        return self._line_of(self._records.lineage(self._records.find_plan(ref)))

    def _line_of(self, state: PlanState) -> PlanLine:
        stream = self._records.find_plan(state.plan_id)
        return self._line(PlanSummary(stream=stream, state=state), self._here.snapshot.settings)

    # --- Approving -------------------------------------------------------------------------------------------------

    async def approve(
        self, ref: str, by: Principal, shown: Review | None = None, credential: Credential | None = None
    ) -> Approved:
        """Record a person's permission for one run of exactly this plan, here and as things stand.

        `shown` is what the person saw: when that is no longer how things stand, nothing is recorded. With a credential
        the approval is signed.
        """
        stream, _ = self._records.current(ref)
        async with self._refusals.recording("approve", ref, by):
            self.refuse_edited(ref, "approve")
            permission = await self._gate.approve(stream, by, shown, credential)
        approval = permission.approval
        self._proposals.write_copy(stream, self._records.lineage(stream))
        return Approved(
            approval_id=approval.approval_id,
            plan_id=approval.plan_id,
            expires_at=approval.expires_at,
            tier=approval.tier,
            signed_by=approval.approver.name if permission.signature is not None else None,
            commit_command=f"ordain commit {short_id(approval.plan_id)}",
        )

    async def check_approvable(self, ref: str, by: Principal, signer: str | None = None) -> None:
        """Raise Refused where this person's yes could not count, so that nobody reads a plan in vain."""
        self._here.refuse_pretended(by)
        stream, state = self._records.current(ref)
        await self._gate.check_approvable(stream, state, by, signer)

    async def revoke(self, ref: str, by: Principal, reason: str = "") -> tuple[str, ...]:
        """End an approval, or every approval of a plan, that no run has used; which ones."""
        async with self._refusals.recording("revoke", ref, by):
            ended = await self._gate.revoke(ref, by, reason)
        self.write_copies(open_only=True)
        return ended

    def configuration(self) -> tuple[bytes, str]:
        """The content of `ordain.toml` and its digest, for a person to read before trusting it; raises Refused when
        something is wrong with it."""
        return self._gate.configuration()

    def without_secrets(self, value: Any) -> Any:
        """A value as it may be kept: with nothing in it of the secrets that are known here."""
        return self._here.redactor().value(value)

    def configuration_notes(self) -> list[str]:
        """What a person should know of its commands before trusting it."""
        return list(self._gate.configuration_notes())

    async def trust(self, shown: str, by: Principal, credential: Credential | None = None) -> None:
        """Make the configuration count whose digest was shown to the person, if it is still what is there."""
        async with self._refusals.recording("trust", shown, by):
            await self._gate.trust(shown, by, credential)

    async def enroll(
        self, credential: Credential, by: Principal, vouching: Credential | None = None
    ) -> tuple[str, PublicKey]:
        """Let a person's key count here; returns its fingerprint and the key."""
        from ordain.records.signature import enroll

        async with self._refusals.recording("enroll", credential.name, by):
            return await enroll(self._here, credential, by, vouching)

    async def revoke_approver(
        self, name: str, by: Principal, reason: str = "", credential: Credential | None = None
    ) -> Approver:
        """Let a key count no longer."""
        from ordain.records.signature import revoke_approver

        async with self._refusals.recording("revoke approver", name, by):
            return await revoke_approver(self._here, name, by, reason, credential)

    def check_signer(self, name: str) -> None:
        """Raise Refused where no key of this name could sign, before anybody is asked for a passphrase."""
        self._here.enrolled(name)

    def check_enrolling(self, name: str) -> None:
        """Raise Refused where this person cannot be enrolled, before anybody is asked for a passphrase."""
        from ordain.records.signature import check_enrolling

        check_enrolling(self._here, name)

    def keeps_key(self, name: str) -> bool:
        """Whether a key of this name is kept on this machine."""
        return self._here.ports.keyring.public_key(name) is not None

    # --- Running ---------------------------------------------------------------------------------------------------

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
        async with self.asked_for("commit", ref, by):
            self.refuse_edited(ref, "commit")
            return await self._running.commit(ref, by, *observers, waiting=waiting, preparation=preparation)

    def begun(self, ref: str, preparation: str | None = None) -> RunId | None:
        """The run that a preparation, by default the newest, has started."""
        return self._running.begun(ref, preparation)

    @property
    def started(self) -> RunId | None:
        """The run that was started here last."""
        return self._running.started

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
            work = self._running.approve_and_commit(shown, by, *observers, credential=credential, waiting=waiting)
            return await work

    async def rerun(
        self,
        ref: str,
        by: Principal,
        *observers: Observer,
        again_from: str | None = None,
        waiting: Waiting | None = None,
    ) -> RunReport:
        """Run a plan again on a new approval, keeping the steps that passed and whose contract holds now."""
        async with self.asked_for("rerun", ref, by):
            return await self._running.rerun(ref, by, *observers, again_from=again_from, waiting=waiting)

    async def resume(
        self, ref: str | None, *observers: Observer, waiting: Waiting | None = None, take_over: bool = False
    ) -> RunReport:
        """Go on with a run that stopped: the one named, or the only one that has not ended."""
        return await self._running.resume(ref, *observers, waiting=waiting, take_over=take_over)

    async def pause(self, ref: str | None, by: Principal, reason: str = "") -> RunReport:
        """Have a run stop when what is under way has ended."""
        async with self.asked_for("pause", ref, by):
            return await self._running.pause(ref, by, reason)

    async def signal(self, key: str, by: Principal, value: Any = None) -> SignalReport:
        """Say that something has happened that runs wait for. Anybody may: it permits nothing."""
        async with self._refusals.recording("signal", key, by):
            return await self._signalling.give(key, by, value)

    def topics(self) -> tuple[TopicLine, ...]:
        """Every topic, with its newest message."""
        return self._topics.all()

    def topic(self, name: str, newest: int) -> tuple[TopicLine, tuple[Message, ...]]:
        """A topic, and its last messages, so many at most."""
        return self._topics.read(name, newest)

    async def post(self, name: str, text: str, by: Principal) -> TopicLine:
        """Leave a message for the agents that read a topic. Anybody may: it permits nothing."""
        async with self._refusals.recording("post", name, by):
            return await self._topics.post(name, text, by)

    def signals_awaited(self) -> tuple[SignalAwaited, ...]:
        """The steps of open runs that wait for a signal."""
        return self._signalling.awaited()

    async def watch(self, ref: str | None, *observers: Observer) -> RunReport:
        """Tell observers what is recorded about a run for as long as somebody carries it out. Only looks."""
        return await self._running.watch(ref, *observers)

    def now(self) -> Instant:
        """What the clock says."""
        return self._here.now()

    def run_state(self, run_id: RunId) -> RunState:
        """A run folded as it is recorded, for somebody who folds into it what comes."""
        return self._records.run(run_id)[0]

    def run_notices(self, run_id: RunId) -> tuple[Problem, ...]:
        """What somebody who goes on with a run should know."""
        return self._running.notices(run_id)

    def asked(self, item: str) -> Asked:
        """What a run asks a person by this name, as it stands."""
        return self._answering.asked(item)

    def check_answering(self, asked: Asked, given: str | Given, by: Principal, signer: str | None = None) -> None:
        """Raise Refused where this person's answer to this question could not count, before anybody signs it."""
        self._here.refuse_pretended(by)
        self._answering.check(asked, _given(given), by, signer)

    async def answer(
        self,
        item: str,
        given: str | Given,
        by: Principal,
        shown: Asked | None = None,
        credential: Credential | None = None,
    ) -> RunReport:
        """Decide what a run asks a person, and sign that where a credential is given. An executor at work takes it up;
        else the run goes on with `resume`. `shown` is what the person saw."""
        async with self._refusals.recording("answer", item, by):
            return self._running.report(await self._answering.answer(item, _given(given), by, shown, credential))

    def brief(self, ref: str, step: str) -> Brief:
        """What a planner needs to know to propose how a run goes on after one of its steps."""
        from ordain.core.report.brief import brief  # only few ask for one

        run_id = self._records.find_run(ref)
        state, identity, _ = self._records.run(run_id)
        self._refuse_unknown_step(state, step)
        return brief(state, identity, StepId(step), self._running.report(run_id))

    def arbiter(self, ref: str, step: str | None) -> Arbitration:
        """What somebody should know who chooses the agent of a task of a stored plan or a run; without a name, of the
        first task that is not done."""
        from ordain.core.report.brief import arbitration, plan_standing, run_standing  # only few ask for it

        if names_run(ref):
            run_id = self._records.find_run(ref)
            state, identity, _ = self._records.run(run_id)
            standing = run_standing(
                state, identity, self._running.report(run_id), self._here.ports.toolbox.definitions()
            )
        else:
            standing = plan_standing(self.review(ref))
        return arbitration(standing, step, self.agents())

    def prompt_told(self, ref: str, step: str, attempt: int | None = None) -> ToldPrompt:
        """What the agent of a step of a run was told, in this attempt or in the last one."""
        run_id = self._records.find_run(ref)
        self._refuse_unknown_step(self._records.run(run_id)[0], step)
        return self._prompting.told(run_id, StepId(step), attempt)

    async def prompt_of(self, plan: Plan, step: str) -> ToldPrompt:
        """What the agent of a step of a plan would be told now."""
        return await self._prompting.foreseen(plan, step)

    @property
    def carries_out(self) -> RunId | None:
        """The run that is under way in this process."""
        return self._running.carries_out

    def stop(self) -> bool:
        """Ask the run under way to begin nothing more and return when what is under way has ended; whether there is
        such a run."""
        return self._running.stop()

    def find_run(self, ref: str | None) -> RunId:
        """The run a person means to go on with; without a name the only one that has not ended."""
        return self._records.find_run(ref) if ref is not None else self._records.only_open_run("resume")

    def executing(self, ref: str) -> RunId | None:
        """The run of a plan that somebody carries out by now, if there is one."""
        run_id = self._records.current(ref)[1].open_run
        return run_id if run_id is not None and self._running.report(run_id).executors else None

    def is_busy(self, ref: str) -> bool:
        """Whether somebody carries out a run of another plan here."""
        return self._running.is_busy(ref)

    async def check_startable(self, ref: str, by: Principal, preparation: str | None = None) -> None:
        """Raise Refused where this caller could not start this plan as things stand. Nothing is spent."""
        async with self.asked_for("commit", ref, by):
            self.refuse_edited(ref, "commit")
            await self._running.check_startable(ref, preparation)

    def refuse_stopped(self) -> None:
        self._here.refuse_stopped()

    def startable(self, ref: str) -> None:
        """Raise Refused where work is stopped, a run of this plan is open, or an agent of it cannot be started: nobody
        need be asked about what could not start."""
        self._here.refuse_stopped()
        self._running.refuse_open(self._records.current(ref)[1])
        self._here.refuse_agents(self.review(ref).plan, self._here.snapshot.settings)


def _given(given: str | Given) -> Given:
    """An answer that is a word or a text, or as it was given."""
    return Given(word=given) if isinstance(given, str) else given


def _why_no_output(record: StepRecord) -> str:
    """Why nothing that a step wrote can be had, in words that follow its name."""
    if record.outcome is not None:
        return "wrote something that is not kept" if record.outcome.output_bytes else "wrote nothing"
    if record.state in _UNDER_WAY:
        return "has not ended"
    return "has not begun" if record.attempts == 0 else "has no end that anybody saw"


_UNDER_WAY = (StepState.RUNNING, StepState.WAITING, StepState.VERIFYING)


def _waiting(line: PlanLine, workspace: str) -> list[InboxItem]:
    """What of a plan waits for a person."""
    item = partial(InboxItem, title=line.title, plan_id=line.plan_id, workspace=workspace)
    short = short_id(line.plan_id)
    if line.run is not None and line.run.status in ("stalled", "stopped"):
        run_id, at_work = line.run.run_id, [step.id for step in line.run.steps if step.state in _UNDER_WAY]
        begun = f"; {', '.join(at_work)} had begun" if at_work else ""
        silent = line.run.status == "stalled"
        why = f"no sign of life from {run_id} for too long" if silent else f"nobody carries out {run_id} any more"
        take_over = " --take-over" if silent else ""
        others = f"to end it as failed, ordain cancel {run_id} --failed{take_over}"
        return [
            item(
                kind=line.run.status,
                commands=(f"ordain resume {run_id}",),
                since=line.run.changed_at,
                detail=f"{why}{begun}; {others}",
            )
        ]
    if line.run is not None:
        return [
            item(
                kind=question.kind,
                commands=answer_commands(question),
                since=question.since or line.changed_at,
                detail=question.text,
                expires_at=question.until,
                question=question,
            )
            for question in line.run.questions
        ]
    kinds = {
        "proposed": ("approval", f"ordain approve {short}"),
        "needs_review": ("review", f"ordain show {short}"),
        "unreadable": ("unreadable", f"ordain cancel {short}"),
    }
    if line.status not in kinds or (line.status == "proposed" and not line.requires_approval):
        return []
    kind, command = kinds[line.status]
    return [
        item(
            kind=kind,
            commands=(command,),
            since=line.prepared_at,
            detail=line.feedback or "" if kind == "unreadable" else f"proposed by {line.proposer.words}",
            expires_at=line.expires_at if kind == "approval" else None,
            destructive=line.destructive,
        )
    ]
