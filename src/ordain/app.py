"""The verbs. Every interface is thin over these, so that what one shows the others show.

A verb returns a value or raises `Refused`; it prints nothing and asks nobody. Who calls, and through which channel, is
always passed in: only a person's channel can approve, answer or trust.
"""

from __future__ import annotations

import hashlib
import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

import msgspec

from ordain.core.action import CallTool, Task
from ordain.core.approval import (
    Approval,
    Base,
    Principal,
    Situation,
    WorkspaceIdentity,
    action_kinds,
    check,
)
from ordain.core.canonical import canonical_bytes, plan_hash, plan_id, short_id
from ordain.core.decision import decided, persons_only, questions
from ordain.core.event import (
    ApprovalGiven,
    ConfigTrusted,
    PlanPrepared,
    Recorded,
    RunOpened,
    RunStarted,
    WorkspaceOpened,
)
from ordain.core.lineage import PlanState
from ordain.core.lint.later import not_yet_refused
from ordain.core.lint.rules import lint
from ordain.core.model import Plan, all_steps, contract_of
from ordain.core.params import file_patterns
from ordain.core.policy import Ruling, planned_effects, rule, unknown_names
from ordain.core.problem import Place, Problem, Refused, Severity, refuse
from ordain.core.refs import references
from ordain.core.report import (
    Approved,
    LintReport,
    PlanLine,
    Prepared,
    Review,
    RunReport,
    Side,
    Since,
    run_report,
)
from ordain.core.settings import Settings, limits
from ordain.core.template import Filled, fill
from ordain.core.tool import SHELL, ToolDefinition, definition_digest, definition_of
from ordain.core.value import Instant, PlanId, RunId
from ordain.documents.configuration import read_settings
from ordain.documents.document import Document
from ordain.documents.reading import read
from ordain.documents.typed_values import read_values
from ordain.ports import Append, Clock, Ids, Ledger, Observer, Probe, Shell, Toolbox, Workspace, WriterLock
from ordain.records import WORKSPACE_STREAM, Records, first_lineage, lineage_id, stored_plan

if TYPE_CHECKING:
    from ordain.core.difference import Comparison
    from ordain.core.simulation import Simulation

__all__ = ["App"]

Params = Sequence[tuple[str, str]]
"""Names and values of a template's parameters, as they were typed."""
TIER = 0
"""The trust tier this version can give: cooperative. Tier 1 comes with the sandbox."""


class App:
    """Ordain over one workspace. Opening it touches nothing; the ledger is opened by the first verb that needs it."""

    def __init__(
        self,
        *,
        open_ledger: Callable[[], Ledger],
        has_ledger: Callable[[], bool] = lambda: True,
        workspace: Workspace,
        shell: Shell,
        probe: Probe,
        toolbox: Toolbox,
        clock: Clock,
        ids: Ids,
        lock: WriterLock,
        pid: int,
        boot_id: str,
    ) -> None:
        self._open_ledger, self._ledger_exists = open_ledger, has_ledger
        self._opened: Ledger | None = None
        self._workspace, self._shell, self._probe, self._toolbox = workspace, shell, probe, toolbox
        self._clock, self._ids, self._lock = clock, ids, lock
        self._pid, self._boot_id = pid, boot_id
        self._stop: Callable[[], None] | None = None

    def _has_ledger(self) -> bool:
        """Whether anything was ever recorded here; asking must not make a ledger."""
        return self._opened is not None or self._ledger_exists()

    @property
    def _ledger(self) -> Ledger:
        if self._opened is None:
            self._opened = self._open_ledger()
        return self._opened

    @property
    def workspace_path(self) -> str:
        """The real path of the workspace."""
        return self._workspace.identity()[0]

    @property
    def _records(self) -> Records:
        return Records(self._ledger)

    async def close(self) -> None:
        if self._opened is not None:
            await self._opened.close()

    # --- Looking ---------------------------------------------------------------------------------------------------

    def lint(self, data: bytes, file: str | None = None, params: Params = ()) -> LintReport:
        """Everything wrong with a document, in its text and in these surroundings. Writes nothing.

        A template is looked at as it is; with values for its parameters, the plan it becomes.
        """
        document, problems = self._lint(data, file, params or None)
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
        document, problems = self._lint(data, file, params)
        if document.plan is None and not params and {problem.code for problem in problems} >= {"E_PARAM"}:
            # A template whose values are still wanted can be looked at all the same.
            wanted = tuple(problem for problem in problems if problem.code == "E_PARAM")
            document, problems = self._lint(data, file, None)
            plan = _plan_or_refuse(document, problems)
            return self._review(plan, lineage=None, status="template", document=file, notices=(*wanted, *problems))
        plan = _plan_or_refuse(document, problems)
        notices = (*problems, *self.settings()[2])
        return self._review(plan, lineage=None, status="draft", document=file, notices=notices)

    def review(self, ref: str) -> Review:
        """A stored plan as an approver must see it, with its newest run if it has one."""
        lineage = self._records.find_plan(ref)
        state, now = self._records.lineage(lineage), self._clock.now()
        plan = stored_plan(state)
        run_id = next(reversed(state.runs), None)
        return self._review(
            plan,
            lineage=lineage,
            status=state.status(now),
            document=state.prepared.document if state.prepared else None,
            notices=(*self._drift(state), *self.settings()[2]),
            run=self._report(run_id) if run_id is not None else None,
        )

    async def simulate_document(self, data: bytes, file: str | None = None, params: Params = ()) -> Simulation:
        """How a run of a document's plan would go. Nothing is changed: contracts are looked at, if at all, where they
        can change nothing."""
        document, problems = self._lint(data, file, params)
        return await self._simulate(_plan_or_refuse(document, problems))

    async def simulate(self, ref: str) -> Simulation:
        """The same for a stored plan."""
        return await self._simulate(stored_plan(self._records.lineage(self._records.find_plan(ref))))

    async def _simulate(self, plan: Plan) -> Simulation:
        from ordain.foresight import foresee  # only simulating needs it

        usual = self._records.durations() if self._has_ledger() else {}
        in_force = limits(self.settings()[0])
        return await foresee(plan, probe=self._probe, shell=self._shell, limits=in_force, usual=usual)

    def stored(self, ref: str) -> Side:
        """A stored plan by itself: the very one with this id, or the newest of a lineage."""
        stream, identity = self._records.find_revision(ref)
        return self._stored(stream, identity)

    def last_prepared(self, document: str) -> Side:
        """The plan that was prepared last from the document of this name."""
        found = self._records.last_prepared(document) if self._has_ledger() else None
        if found is None:
            command = f"ordain prepare {shlex.quote(document)}"
            raise refuse("E_PLAN_NOT_FOUND", f"No plan was prepared from {document} yet.", command=command)
        return self._stored(*found)

    def _stored(self, stream: str, identity: PlanId) -> Side:
        state = self._records.lineage(stream)
        document = state.prepared.document if state.prepared is not None else None
        plan = stored_plan(state, identity)
        return Side(plan_id=identity, plan=plan, lineage=lineage_id(stream), document=document)

    def in_document(self, data: bytes, file: str | None = None, params: Params | None = None) -> Side:
        """The plan in a document, filled in with these values, or as it stands where `params` is None; raises Refused
        when there is none to speak of. What else is wrong with it is not looked at."""
        document = read(data, file)
        if document.plan is None:
            raise Refused(document.problems)
        filled = self._filled(document.plan, params) if params is not None else Filled(plan=document.plan)
        if not isinstance(filled, Filled):
            raise Refused(tuple(_placed(filled, document, file)))
        return Side(plan_id=plan_id(filled.plan), plan=filled.plan, document=file)

    def diff(self, old: Side, new: Side) -> Comparison:
        """What changed from one plan to another, and what of it to read first."""
        from ordain.core.difference import Comparison, difference  # only comparing needs it

        return Comparison(old=old, new=new, difference=difference(old.plan, new.plan, self._toolbox.definitions()))

    def run(self, ref: str) -> RunReport:
        """One run as it stands."""
        return self._report(self._records.find_run(ref))

    def plans(self) -> tuple[PlanLine, ...]:
        """Every plan of the workspace, oldest first, with its newest run while that is not finished."""
        if not self._has_ledger():
            return ()
        now, settings = self._clock.now(), self.settings()[0]
        lines = []
        for stream in self._records.lineages():
            state = self._records.lineage(stream)
            plan = stored_plan(state)
            run = self._report(state.open_run) if state.open_run is not None else None
            requires_approval = self._rule(plan, settings).requires_approval
            lines.append(
                PlanLine(
                    lineage=lineage_id(stream),
                    plan_id=state.plan_id,
                    title=plan.title,
                    status=run.status if run is not None else state.status(now),
                    requires_approval=requires_approval,
                    last_run=next(reversed(state.runs), None),
                    run=run,
                )
            )
        return tuple(lines)

    def log(self, ref: str) -> tuple[Recorded, ...]:
        """The ledger's own events about a run, or about a plan and all its runs, in order."""
        if ref.upper().startswith("RUN-"):
            return self._records.run_events(self._records.find_run(ref))
        return self._records.lineage_events(self._records.find_plan(ref))

    def settings(self) -> tuple[Settings, str, tuple[Problem, ...]]:
        """The settings in force, the digest they are bound by, and a notice when the file says something else.

        What a person trusted last is in force, from the ledger: an agent can edit or delete the file, and neither may
        loosen anything. While the file says something else, nothing beyond the defaults is allowed unasked either, for
        a person may have edited it to tighten it.
        """
        trusted = self._records.trusted_configuration() if self._has_ledger() else None
        text = self._workspace.configuration()
        if trusted is None:
            settings, digest, in_force = Settings(), "defaults", "the defaults apply"
            differs = text is not None and read_settings(text) != (Settings(), ())
        else:
            settings, problems = read_settings(trusted.text.encode())
            if problems:
                raise Refused(problems)
            digest, in_force = trusted.digest, "the one trusted last applies, and allows nothing beyond the defaults"
            differs = text is None or _sha256(text) != trusted.digest
        if not differs:
            return settings, digest, ()
        allowed = tuple(name for name in settings.allow if name in Settings().allow)
        notice = Problem(
            code="W_CONFIG_UNTRUSTED",
            detail=f"ordain.toml is {'gone' if text is None else 'not trusted as it stands'}, so {in_force}.",
            hints=("An agent can edit that file; it counts once a person has read it.",),
            command="ordain trust" if text is not None else "ordain init",
        )
        return msgspec.structs.replace(settings, allow=allowed), f"{digest}, narrowed", (notice,)

    def configuration(self) -> tuple[bytes, str]:
        """The content of `ordain.toml` and its digest, for a person to read before trusting it; raises Refused when
        something is wrong with it."""
        data = self._workspace.configuration()
        if data is None:
            raise refuse("E_CONFIG", "There is no ordain.toml in this workspace.", command="ordain init")
        settings, problems = read_settings(data)
        problems = (*problems, *unknown_names(settings, self._toolbox.definitions()))
        if problems:
            raise Refused(problems)
        return data, _sha256(data)

    # --- Preparing, approving --------------------------------------------------------------------------------------

    async def prepare(self, data: bytes, file: str | None, by: Principal, params: Params = ()) -> Prepared:
        """Check a document and store its plan's bytes; what was stored is what can be approved and run.

        `params` are the values of a template's parameters, as they were typed.
        """
        document, problems = self._lint(data, file, params)
        plan = _plan_or_refuse(document, problems)
        return await self._prepare(plan, by, file, _sha256(data), problems)

    async def prepare_plan(self, plan: Plan, by: Principal) -> Prepared:
        """The same for a plan made by code; a template takes the defaults of its parameters."""
        filled = self._filled(plan, ())
        if not isinstance(filled, Filled):
            raise Refused(filled)
        plan = filled.plan
        workspace = await self._identity()
        settings, _, _ = self.settings()
        problems = lint(plan, self._workspace.facts(plan, self._toolbox.definitions(), settings, workspace.id))
        _plan_or_refuse(Document(plan=plan, problems=()), problems)
        return await self._prepare(plan, by, None, None, problems)

    async def _prepare(
        self, plan: Plan, by: Principal, file: str | None, sha256: str | None, notices: tuple[Problem, ...]
    ) -> Prepared:
        if later := not_yet_refused(plan):
            raise Refused(later)
        settings, _, config_notices = self.settings()
        ruling = self._rule(plan, settings)
        if ruling.denied:
            raise Refused(ruling.denied)
        await self._identity()
        identity, now = plan_id(plan), self._clock.now()
        # Named after its first plan, so that two who prepare the same plan at once prepare the same lineage.
        stream = self._records.lineage_of(identity) or first_lineage(identity)
        expires_at = Instant(now + settings.propose_ttl_ms)
        prepared = PlanPrepared(
            plan_id=identity,
            plan=msgspec.Raw(canonical_bytes(plan)),
            document=file,
            document_sha256=sha256,
            by=by,
            expires_at=expires_at,
        )
        await self._records.note(stream, prepared, now)
        state = self._records.lineage(stream)
        review = self._review(
            plan,
            lineage=stream,
            status=state.status(now),
            document=file,
            notices=(*notices, *config_notices),
        )
        short = short_id(identity)
        return Prepared(
            review=review,
            lineage=lineage_id(stream),
            expires_at=expires_at,
            approval_command=f"ordain approve {short}" if review.requires_approval else None,
            commit_command=f"ordain commit {short}",
        )

    async def approve(self, ref: str, by: Principal, shown: Review | None = None) -> Approved:
        """Record a person's permission for one run of exactly this plan, here and as things stand.

        `shown` is what the person saw: when that is no longer how things stand, nothing is recorded.
        """
        stream = self._records.find_plan(ref)
        approval = await self._permit(self._records.lineage(stream), by, shown)
        await self._records.note(stream, ApprovalGiven(approval=approval), approval.issued_at)
        return Approved(
            approval_id=approval.approval_id,
            plan_id=approval.plan_id,
            expires_at=approval.expires_at,
            tier=approval.tier,
            commit_command=f"ordain commit {short_id(approval.plan_id)}",
        )

    async def _permit(self, state: PlanState, by: Principal, shown: Review | None) -> Approval:
        """A person's permission, not recorded yet."""
        command = f"ordain approve {short_id(state.plan_id)}"
        persons_only("approve a plan", by, command)
        plan, now = stored_plan(state), self._clock.now()
        self._refuse_expired(state, now)
        settings, _, _ = self.settings()
        if denied := self._rule(plan, settings).denied:
            raise Refused(denied)
        assert state.prepared is not None
        here = await self._situation(plan)
        if shown is not None and (shown.plan_id, shown.base) != (state.plan_id, here.base):
            raise refuse("E_PLAN_STALE_BASE", "Things changed while the plan was being read.", command=command)
        return Approval(
            approval_id=self._ids.mint("APPROVAL-"),
            plan_id=state.plan_id,
            workspace=here.workspace,
            action_kinds=action_kinds(plan),
            base=here.base,
            proposer=state.prepared.by,
            approver=by,
            tier=here.tier,
            issued_at=now,
            expires_at=Instant(now + settings.approval_ttl_ms),
            nonce=self._ids.mint(""),
        )

    async def trust(self, shown: str, by: Principal) -> None:
        """Make the configuration count whose digest was shown to the person, if it is still what is there."""
        persons_only("trust a configuration", by, "ordain trust")
        text, digest = self.configuration()
        if digest != shown:
            raise refuse("E_CONFIG", "ordain.toml was changed while it was being read.", command="ordain trust")
        await self._identity()
        await self._records.note(
            WORKSPACE_STREAM, ConfigTrusted(digest=digest, text=text.decode(), by=by), self._clock.now()
        )

    # --- Running ---------------------------------------------------------------------------------------------------

    async def commit(self, ref: str, by: Principal, *observers: Observer) -> RunReport:
        """Start the approved run and carry it out until it ends or waits for a person.

        Everything is checked first; the approval is spent in the transaction that opens the run, so a refusal
        consumes nothing and one approval starts one run.
        """
        return await self._commit(ref, by, observers, shown=None)

    async def approve_and_commit(self, shown: Review, by: Principal, *observers: Observer) -> RunReport:
        """A person's yes to what was shown, spent on the spot: approval and start are one transaction, so a yes whose
        run is refused leaves no approval behind."""
        return await self._commit(shown.plan_id, by, observers, shown=shown)

    async def _commit(self, ref: str, by: Principal, observers: Sequence[Observer], shown: Review | None) -> RunReport:
        stream, run_id = self._records.find_plan(ref), RunId(self._ids.mint("RUN-"))
        with self._lock.hold(run_id):
            state = self._records.lineage(stream)
            plan, now = stored_plan(state), self._clock.now()
            self._refuse_open(state)
            settings, _, _ = self.settings()
            ruling = self._rule(plan, settings)
            if ruling.denied:
                raise Refused(ruling.denied)
            given: tuple[ApprovalGiven, ...] = ()
            if shown is not None:
                approval: Approval | None = await self._permit(state, by, shown)
                assert approval is not None
                given = (ApprovalGiven(approval=approval),)
            else:
                approval = await self._usable_approval(state, plan, now, required=ruling.requires_approval)
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
                workspace=await self._identity(),
                limits=limits(settings),
            )
            await self._ledger.append(
                now,
                Append(stream=stream, expected=state.size, events=(*given, started)),
                Append(stream=f"run/{run_id}", expected=0, events=(opened,)),
            )
            return await self._carry_out(run_id, observers)

    async def resume(self, ref: str | None, *observers: Observer) -> RunReport:
        """Go on with a run that stopped: the one named, or the only one that has not ended."""
        run_id = self._records.find_run(ref) if ref is not None else self._records.only_open_run()
        with self._lock.hold(run_id):
            state, _, _ = self._records.run(run_id)
            if state.finished:
                raise refuse("E_RUN_ENDED", f"{run_id} has ended ({state.status}); there is nothing to go on with.")
            if state.workspace_identity != await self._identity():
                raise refuse(
                    "E_PLAN_WORKSPACE",
                    f"{run_id} was begun in another directory than the one that is here now.",
                    f"It was begun in {state.workspace_identity.path}; that directory was moved or replaced.",
                )
            return await self._carry_out(run_id, observers)

    async def answer(self, item: str, word: str, by: Principal) -> RunReport:
        """Decide what a run asks a person; the run goes on with `resume`."""
        run_ref, _, step = item.partition("/")
        run_id = self._records.find_run(run_ref)
        persons_only("answer this", by, f"ordain answer {run_id}/{step} {word}")
        # While an executor is at work it alone appends to its run; it stops by itself when only people are waited for.
        with self._lock.hold(f"answer to {run_id}"):
            state, _, _ = self._records.run(run_id)
            asked = {question.step: question for question in questions(state)}
            question = next((q for q in asked.values() if q.step == step or (not step and len(asked) == 1)), None)
            if question is None:
                open_items = [q.item for q in asked.values()]
                about = f"{run_id} asks nothing about `{step}`." if step else f"Which of its steps does {run_id} mean?"
                raise refuse(
                    "E_ANSWER_ITEM",
                    about if asked else f"{run_id} asks nothing now.",
                    *(["It asks about: " + ", ".join(open_items) + "."] if asked else []),
                    command="ordain status",
                )
            event = decided(state, question, word, by)
            await self._ledger.append(
                self._clock.now(), Append(stream=f"run/{run_id}", expected=state.size, events=(event,))
            )
            return self._report(run_id)

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
            ledger=self._ledger,
            shell=self._shell,
            toolbox=self._toolbox,
            clock=self._clock,
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
        return self._report(run_id)

    def _report(self, run_id: RunId) -> RunReport:
        state, identity, _ = self._records.run(run_id)
        return run_report(state, identity, self._clock.now(), executing=self._lock.holder() == run_id)

    # --- Surroundings ----------------------------------------------------------------------------------------------

    async def _identity(self) -> WorkspaceIdentity:
        """Which directory this is now, under the id minted for it when it was first used."""
        path, device, inode = self._workspace.identity()
        known = self._records.workspace_id()
        if known is None:
            minted = WorkspaceIdentity(id=self._ids.mint("WS-"), path=path, device=device, inode=inode)
            try:
                await self._ledger.append(
                    self._clock.now(),
                    Append(stream=WORKSPACE_STREAM, expected=0, events=(WorkspaceOpened(workspace=minted),)),
                )
            except Refused as refused:
                if refused.problems[0].code != "E_LEDGER_CONFLICT":
                    raise
            known = self._records.workspace_id()
            assert known is not None
        return WorkspaceIdentity(id=known, path=path, device=device, inode=inode)

    async def _situation(self, plan: Plan) -> Situation:
        return Situation(workspace=await self._identity(), base=self._base(plan), tier=TIER, now=self._clock.now())

    def _base(self, plan: Plan) -> Base:
        """What an approval of this plan depends on, as it is now."""
        _, config, _ = self.settings()
        tools = self._toolbox.definitions()
        steps = list(all_steps(plan))
        used = {tool.name: tool for step in steps if (tool := definition_of(step.action, tools)) is not None}
        if any(contract_of(step) is not None for step in steps):
            used[SHELL.name] = SHELL
        return Base(tools=definition_digest(tuple(used.values())), config=config)

    async def _usable_approval(self, state: PlanState, plan: Plan, now: Instant, *, required: bool) -> Approval | None:
        """The approval that permits this run, or None when none is needed; raises Refused with the reason."""
        command = f"ordain approve {short_id(state.plan_id)}"
        if not required:
            self._refuse_expired(state, now)
            return None
        if not state.approvals:
            self._refuse_expired(state, now)
            raise refuse("E_PLAN_APPROVAL_MISSING", "Nobody has approved this plan.", command=command)
        unspent = state.unspent()
        if not unspent:
            spent = list(state.spent.values())[-1]
            raise refuse("E_APPROVAL_SPENT", f"The approval was used by {spent}.", command=command)
        here = await self._situation(plan)
        problems = [check(approval, plan, here) for approval in unspent]
        for approval, problem in zip(unspent, problems, strict=True):
            if problem is None:
                return approval
        raise Refused([problem for problem in problems[:1] if problem is not None])

    def startable(self, ref: str) -> None:
        """Raise Refused where a run of this plan is open: nobody need be asked about what could not start."""
        self._refuse_open(self._records.lineage(self._records.find_plan(ref)))

    def _refuse_open(self, state: PlanState) -> None:
        if state.open_run is not None:
            asked = self._report(state.open_run).questions
            command = f"ordain answer {asked[0].item} …" if asked else f"ordain resume {state.open_run}"
            raise refuse("E_RUN_OPEN", f"{state.open_run} of this plan has not ended.", command=command)

    def _refuse_expired(self, state: PlanState, now: Instant) -> None:
        if state.prepared is not None and now >= state.prepared.expires_at:
            document = shlex.quote(state.prepared.document or "DOCUMENT")
            raise refuse("E_PLAN_EXPIRED", "The plan was prepared too long ago.", command=f"ordain prepare {document}")

    def _lint(self, data: bytes, file: str | None, params: Params | None) -> tuple[Document, tuple[Problem, ...]]:
        """The document with the plan it becomes with these values, or as it stands where `params` is None."""
        document = read(data, file)
        origin: Mapping[str, str] = {}
        if params is not None and document.plan is not None:
            filled = self._filled(document.plan, params)
            if not isinstance(filled, Filled):
                problems = (*document.problems, *_placed(filled, document, file))
                return msgspec.structs.replace(document, plan=None), problems
            document, origin = msgspec.structs.replace(document, plan=filled.plan), filled.origin
        plan = document.plan or document.partial
        if plan is None:
            return document, document.problems
        # The ledger is looked at only for a plan that names its workspace, or what only a trusted configuration can
        # say: linting must not need a state directory.
        tools = self._toolbox.definitions()
        named = plan.workspace_id is not None and self._has_ledger()
        workspace_id = self._records.workspace_id() if named else None
        settings = self.settings()[0] if self._has_ledger() and _asks_settings(plan, tools) else Settings()
        facts = self._workspace.facts(plan, tools, settings, workspace_id)
        found = lint(plan, facts, partial=document.plan is None)
        return document, (*document.problems, *_placed(found, document, file, origin))

    def _filled(self, plan: Plan, params: Params) -> Filled | tuple[Problem, ...]:
        values, problems = read_values(plan.params, params)
        if problems:
            return problems
        return fill(plan, values, {pattern: self._workspace.files(pattern) for pattern in file_patterns(plan)})

    def _rule(self, plan: Plan, settings: Settings) -> Ruling:
        return rule(plan, self._toolbox.definitions(), settings)

    def _review(
        self,
        plan: Plan,
        *,
        lineage: str | None,
        status: str,
        document: str | None,
        notices: tuple[Problem, ...],
        run: RunReport | None = None,
    ) -> Review:
        settings, _, _ = self.settings()
        ruling = self._rule(plan, settings)
        identity = plan_id(plan)
        return Review(
            plan_id=identity,
            plan_hash=plan_hash(identity),
            lineage=lineage_id(lineage) if lineage is not None else None,
            status=status,
            plan=plan,
            workspace=self.workspace_path,
            requires_approval=ruling.requires_approval,
            reasons=ruling.reasons,
            effects=planned_effects(plan, self._toolbox.definitions()),
            tier=TIER,
            base=self._base(plan),
            limits=limits(settings),
            document=document,
            notices=(*notices, *ruling.denied),
            run=run,
            since=self._since(plan, identity, document) if lineage is not None and document is not None else None,
        )

    def _since(self, plan: Plan, identity: PlanId, document: str) -> Since | None:
        """What changed since the last plan a person approved from this document; None where that is nothing."""
        found = self._records.last_approved(document, besides=identity)
        if found is None:
            return None
        from ordain.core.difference import difference, summary  # few plans have a predecessor

        at, stream, before = found
        changed = difference(stored_plan(self._records.lineage(stream), before), plan, self._toolbox.definitions())
        concerns = tuple(concern.detail for concern in changed.concerns)
        return Since(plan_id=before, approved_at=at, concerns=concerns, summary=summary(changed))

    def _drift(self, state: PlanState) -> tuple[Problem, ...]:
        """A notice when the document a plan was prepared from says something else by now."""
        prepared = state.prepared
        if prepared is None or prepared.document is None:
            return ()
        data = self._workspace.document(prepared.document)
        if data is not None and _sha256(data) == prepared.document_sha256:
            return ()
        change = "is gone" if data is None else "has changed"
        return (
            Problem(
                code="W_DOC_DRIFT",
                detail=f"{prepared.document} {change} since it was prepared; what runs is what was prepared.",
                command=f"ordain prepare {shlex.quote(prepared.document)}",
            ),
        )


def _plan_or_refuse(document: Document, problems: Sequence[Problem]) -> Plan:
    if document.plan is None or any(problem.severity is not Severity.WARNING for problem in problems):
        raise Refused(problems)
    return document.plan


def _asks_settings(plan: Plan, tools: Mapping[str, ToolDefinition]) -> bool:
    """Whether lint needs the settings to judge a plan: it names agents, tools that are not built in, or results of
    steps that the settings may let be skipped."""
    return plan.agent is not None or any(
        isinstance(step.action, Task)
        or (
            isinstance(step.action, CallTool)
            and (step.action.tool not in tools or next(references(step.action.args), None) is not None)
        )
        for step in all_steps(plan)
    )


def _placed(
    problems: Sequence[Problem], document: Document, file: str | None, origin: Mapping[str, str] | None = None
) -> Iterator[Problem]:
    """The same problems with the line in the document where their step begins, or the step it was generated from;
    what its reader told already is left out."""
    told = {(problem.code, problem.where.step if problem.where else None) for problem in document.problems}
    for problem in problems:
        step = problem.where.step if problem.where is not None else None
        if (problem.code, step) in told:
            continue
        place = document.places.get((origin or {}).get(step, step) if step else "", Place())
        yield msgspec.structs.replace(problem, where=msgspec.structs.replace(place, file=file, step=step))


def _sha256(data: bytes) -> str:
    return "sha256:" + hashlib.sha256(data).hexdigest()
