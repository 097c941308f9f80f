"""Replanning: a run that stopped at a step gets a proposal how it goes on. Every try is recorded before anybody is
asked and is bounded; what comes of it is a proposal for a successor, and a person may answer the run instead at any
time."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec

from ordain.app.app import App
from ordain.app.runs import Waiting
from ordain.app.succession import refuse_unready
from ordain.core.approval.approval import Channel, Principal
from ordain.core.lineage.lineage import PlanState
from ordain.core.lineage.replan import cause_of, remainder_of, replan_fault
from ordain.core.plan.model import Budget, Plan
from ordain.core.plan.value import RunId, StepId
from ordain.core.report.report import RunReport, StepReport
from ordain.core.run.event import ReplanBegun, ReplanEnded
from ordain.core.run.inheritance import inherited
from ordain.core.run.run_state import RunState
from ordain.core.run.step_event import StepState
from ordain.core.text.problem import Problem, Refused, refuse
from ordain.documents.markdown.writer import write_markdown
from ordain.planner.brief import PlannerBrief, PlannerRole, named_block
from ordain.planner.loop import TellPlanner
from ordain.planner.outcome import Planned, PlanRequest, problems_of
from ordain.planner.planner import Planner, in_place
from ordain.planner.rest import WholePlan, advised, put_together, read_advice, weaker_steps
from ordain.planner.rounds import JudgedDraft, size_problems, unverified_steps
from ordain.ports.ledger import Observer

PLANNER = Principal(name="ordain", channel=Channel.PLANNER)
"""Who asks where a failure policy does."""
_STUCK = (StepState.FAILED, StepState.ESCALATED)


class ReplanRequest(msgspec.Struct, frozen=True, kw_only=True):
    """What is asked of a replanning."""

    run: str
    step: StepId | None = None
    """The step that it is about; by default the first that did not get through."""
    reason: str = ""
    """What whoever asks says: what went wrong, or what is wanted instead."""
    recover: bool = False
    """Whether advice about that step is wanted, and not the rest of the plan."""
    budget: Budget | None = None
    unenforced: bool = False


class Replanner:
    """Asks the planner of one workspace how its runs go on."""

    def __init__(self, app: App) -> None:
        self._app, self._here, self._planner = app, app.here, Planner(app)

    async def replan(self, request: ReplanRequest, by: Principal, *, tell: TellPlanner = lambda news: None) -> Planned:
        """Have the planner propose how a run goes on. Raises Refused where it may not be asked, or cannot be."""
        records = self._here.records
        run_id = records.find_run(request.run)
        async with self._app.refusals.asked_for("replan", run_id, by):
            self._here.refuse_stopped()
            former, _, _ = records.run(run_id)
            step = self._step(former, request.step)
            refuse_unready(self._here, former)
            lineage = records.lineage(former.lineage)
            self._refuse_unfit(former, lineage)
            cause = cause_of(former, step)
            most = self._here.snapshot.settings.max_replans
            if (fault := replan_fault(lineage, (f"{step}: {cause}",), most=most)) is not None:
                raise Refused([fault])
            asked = PlanRequest(goal=self._goal(former), budget=request.budget, unenforced=request.unenforced)
            self._planner.check_askable(asked)
            work = _Rest(self._app, former, step, recover=request.recover)
            name = self._here.ports.ids.mint("REPLAN-")
            with self._here.ports.lock.claim(RunId(name)):
                await self._end_dead(former.lineage)
                began = ReplanBegun(replan=name, run_id=run_id, step=step, cause=cause, by=by)
                await self._record(former.lineage, began)
                return await self._replanned(name, asked, request.reason, former, work, by, tell)

    async def _replanned(
        self, name: str, asked: PlanRequest, why: str, former: RunState, work: _Rest, by: Principal, tell: TellPlanner
    ) -> Planned:
        """The try itself; whatever ends it but a kill is recorded."""
        ended = ReplanEnded(replan=name, error="F_REPLAN_KILLED", detail="It was interrupted.")
        try:
            planned = await self._planner.ask(
                asked, by, lambda: work.brief(self._planner, asked.goal, why), work.judge, tell
            )
            if not planned.good:
                ended = self._ended(name, problems_of(planned)[0])
                return planned
            assert planned.judged is not None and planned.judged.plan is not None
            remainder = work.remainder(planned.judged.plan)
            if self._here.records.run(former.run_id)[0].size != former.size:  # a person's answer comes first
                detail = f"Somebody went on with {former.run_id} while its planner was asked; nothing was proposed."
                raise refuse("E_REPLAN_OVERTAKEN", detail, command="ordain status")
            whole = work.whole(planned.document)
            assert isinstance(whole, WholePlan)
            prepared = await self._app.plans.succeed(
                former.run_id,
                self._planner.proposer(planned.planner, by),
                whole.text.encode("utf-8", "surrogatepass"),
                origin=self._planner.origin(planned, by),
                reason=work.reason(planned.document) or why,
            )
            ended = ReplanEnded(replan=name, plan_id=prepared.review.plan_id, remainder=remainder)
            return msgspec.structs.replace(planned, document=whole.text, prepared=prepared)
        except Refused as refused:
            ended = self._ended(name, refused.problems[0])
            raise
        finally:
            await self._record(former.lineage, ended)

    def _ended(self, name: str, problem: Problem) -> ReplanEnded:
        return ReplanEnded(replan=name, error=problem.code, detail=self._here.redactor().text(problem.detail))

    async def _record(self, stream: str, event: ReplanBegun | ReplanEnded) -> None:
        await self._here.records.decide(stream, lambda state: event, self._here.now())

    async def _end_dead(self, stream: str) -> None:
        """Say of tries whose process died that nothing came of them; they have counted since they began."""
        for name, one in self._here.records.lineage(stream).replans.items():
            if one.open and self._here.ports.lock.holder(RunId(name)) is None:
                ended = ReplanEnded(replan=name, error="F_REPLAN_KILLED", detail="Its process ended before it did.")
                await self._record(stream, ended)

    # --- What it is about ------------------------------------------------------------------------------------------

    def _step(self, former: RunState, asked: StepId | None) -> StepId:
        names = [step.id for step in former.plan.steps]
        if asked is not None and asked not in names:
            raise refuse("E_STEP_UNKNOWN", f"{former.run_id} has no step `{asked}`.", f"Its steps are: {names}.")
        stuck = [name for name in names if former.steps[name].state in _STUCK]
        found = asked if asked is not None else next(iter(stuck), None)
        if found is None or former.steps[found].state is StepState.PASSED:
            detail = f"No step of {former.run_id} failed or waits for a decision about its failure."
            hint = "What is wanted otherwise is written by hand: revise the plan."
            raise refuse("E_REPLAN_NOTHING", detail, hint, command=f"ordain revise {former.run_id} DOCUMENT")
        return found

    def _refuse_unfit(self, former: RunState, lineage: PlanState) -> None:
        newest = next(reversed(lineage.runs), None)
        if former.run_id != newest:
            detail = f"{former.run_id} is not the newest run of its plan; what passed then may have failed since."
            raise refuse("E_RUN_OLD", detail, command=f"ordain replan {newest}")
        if former.status == "completed":
            raise refuse("E_REPLAN_NOTHING", f"{former.run_id} is completed.", command=f"ordain show {former.run_id}")

    def _goal(self, former: RunState) -> str:
        origin = self._here.records.lineage(former.lineage).origin
        return (origin.goal if origin is not None else "") or former.plan.task or former.plan.title

    # --- Where a failure policy asks -------------------------------------------------------------------------------

    async def go_on(
        self,
        report: RunReport,
        observers: Sequence[Observer],
        waiting: Waiting | None,
        told: Callable[[str], None] = lambda words: None,
    ) -> RunReport:
        """Ask the planner where a run waits for one, and go on by what it proposes where an approval says that nobody
        need be asked about a subset. Whatever keeps the planner from it, a person is asked as ever."""
        question = next(one for one in report.questions if one.wants)
        top = StepId(question.step.partition("[")[0].partition("/")[0])  # of a loop or nested plan the step around it
        try:
            told(f"asking the planner how to go on after {question.step}")
            wanted = ReplanRequest(run=report.run_id, step=top, recover=question.wants == "recover")
            planned = await self.replan(wanted, PLANNER)
        except Refused as refused:
            told(f"no proposal by a planner: {refused.problems[0].detail}")
            return report
        if planned.prepared is None:
            told(f"no proposal by a planner: {problems_of(planned)[0].detail}")
            return report
        review = planned.prepared.review
        if planned.prepared.approval_command is not None:
            told(f"the planner proposes how to go on: ordain approve {review.plan_id.removeprefix('plan:')[:12]}")
            return report
        # What comes of that is gone on with in the same way, within the bounds.
        return await self._app.runs.commit(review.plan_id, PLANNER, *observers, waiting=waiting)


class _Rest:
    """What is left of a run, what a planner is told of it, and what its answer makes of the plan."""

    def __init__(self, app: App, former: RunState, step: StepId, *, recover: bool) -> None:
        self._app, self._former, self._step, self._recover = app, former, step, recover
        self.plan = former.plan
        self._kept = {one.id for one in former.plan.steps if former.steps[one.id].state is StepState.PASSED}

    def whole(self, document: str) -> WholePlan | Problem:
        """The plan that what was handed in makes of what there is."""
        if not self._recover:
            return put_together(self.plan, self._kept, document)
        advice = read_advice(document)
        return advice if isinstance(advice, Problem) else advised(self.plan, self._step, self._kept, advice)

    def reason(self, document: str) -> str:
        advice = read_advice(document) if self._recover else None
        return "" if advice is None or isinstance(advice, Problem) else f"{advice.reason}"

    def remainder(self, plan: Plan) -> str:
        """What a plan leaves to do after this run, however it is called."""
        return remainder_of(plan, self._former, inherited(self._former, plan).kept)

    def judge(self, document: str) -> JudgedDraft:
        whole = self.whole(document)
        if isinstance(whole, Problem):
            return JudgedDraft(problems=(whole,))
        found, problems = self._app.plans.judge(whole.text.encode("utf-8", "surrogatepass"))
        plan = found.plan
        if plan is not None:
            problems += size_problems(plan, found.places)
        problems = tuple(map(whole.placed, problems))
        if plan is not None:
            here = self._app.here
            known = set(unverified_steps(self.plan, here.tools(here.snapshot.settings, self.plan)))
            bare = [one for one in unverified_steps(plan, here.tools(here.snapshot.settings, plan)) if one not in known]
            problems += (*weaker_steps(self.plan, plan, self._kept, bare), *self._stalled(plan))
        return JudgedDraft(problems=problems, plan=plan)

    def _stalled(self, plan: Plan) -> tuple[Problem, ...]:
        """What is wrong with a rest that was tried before, by this run or in an earlier try."""
        lineage = self._app.here.records.lineage(self._former.lineage)
        left = self.remainder(plan)
        tried = {one.remainder for one in lineage.replans.values()} | {self.remainder(self.plan)}
        if left not in tried:
            return ()
        detail = "What is left to do is what did not get through before, whatever its steps are called."
        return (Problem(code="E_REPLAN_STALLED", detail=detail, hints=("Change what is done, or give up.",)),)

    # --- What a planner is told ------------------------------------------------------------------------------------

    async def brief(self, planner: Planner, goal: str, reason: str) -> PlannerBrief:
        report = self._app.runs.run(self._former.run_id)
        steps = {one.id: one for one in report.steps}
        stuck = [one for one in report.steps if one.state in _STUCK and one.id != self._step]
        others = [line for one in stuck for line in (f"{one.id}:", *_went(one))]
        became = {one.id: _became(steps[one.id]) for one in self.plan.steps if one.id in steps}
        text = in_place(write_markdown(self.plan, lists=False).rstrip("\n"), self.plan, became, mark="")
        outlines, here = self._app.here.ports.outlines, self._app.here.snapshot
        changed = await outlines.changes(here.redactor, here.settings.secret_files) if outlines is not None else ""
        return PlannerBrief(
            goal=goal,
            role=PlannerRole.ADVICE if self._recover else PlannerRole.REST,
            constraints=here.settings.planner_constraints,
            revising=(
                *named_block("Why the plan is to go on otherwise", [reason] if reason else []),
                *named_block("The plan, with what became of each step", [text]),
                *named_block(f"How the step {self._step} went", [*_went(steps[self._step])]),
                *named_block("Other steps that did not get through", others),
                *named_block("What changed in the workspace since the last commit", [changed] if changed else []),
            ),
            blocks=await planner.material(goal),
        )


def _became(step: StepReport) -> str:
    match step.state:
        case StepState.PASSED:
            files = step.affected_files if isinstance(step.affected_files, tuple) else ()
            changed = f"; it changed {', '.join(files[:20])}" if files else ""
            return f"PASSED and is kept: {step.evidence}{changed}"
        case StepState.PENDING:
            return "NOT BEGUN"
        case _:
            return f"{step.state.value.upper()}: {step.error or step.evidence}"


def _went(step: StepReport) -> Sequence[str]:
    """What was seen of a step that did not get through."""
    seen = step.verified
    said = [f"State: {step.state.value}, after {step.attempts} attempts. {step.evidence}"]
    if step.error:
        said.append(f"Error: {step.error}")
    if seen is not None and seen.exit_code is not None:
        said.append(f"Its contract ended with exit status {seen.exit_code}.")
    if step.own_output_tail:
        said += ["The end of what it wrote:", step.own_output_tail]
    if step.output_tail:
        what = "its contract" if seen is not None else "it"
        said += [f"The end of what {what} wrote:", step.output_tail]
    return said
