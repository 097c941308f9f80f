"""`ordain plan`: from a goal to a proposal, by whoever the trusted settings name as planner. A planning writes nothing
until its plan is proposed, in one append; the proposal is the planner's, so policy asks a person about it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping

import msgspec

from ordain.app.app import App
from ordain.core.approval.approval import Channel, Principal
from ordain.core.plan.canonical import plan_id, sha256, short_id
from ordain.core.plan.model import Budget, Plan
from ordain.core.plan.tool import inventory_line
from ordain.core.plan.value import StepId
from ordain.core.policy.agent import ModelAccess, shown_address
from ordain.core.policy.assignment import inventory_lines as agent_lines
from ordain.core.policy.settings import Settings, planner_access
from ordain.core.run.event import PlanOrigin
from ordain.core.text.problem import Problem, refuse
from ordain.documents.markdown.writer import write_markdown
from ordain.planner.agent_planner import PlanningAgent, draft_by_agent, planning_agent
from ordain.planner.brief import PlannerBrief, named_block, opening, setting_lines, system_text
from ordain.planner.loop import TOKENS_MAX, Drafted, DraftEnd, PlannerSetup, TellPlanner, draft
from ordain.planner.outcome import Planned, PlanRequest
from ordain.planner.reading import PlannerReads, failures
from ordain.planner.rounds import Judge, JudgedDraft, Rounds, size_problems, unverified_steps
from ordain.ports.model import ModelClient, ModelFailed, ModelRequest, ModelTurn, ModelUsage, Tell
from ordain.ports.workspace import OutlineBlock
from ordain.records.sink import Sink

GOAL_KEPT = 2_000


class Planner:
    """The planner of one workspace."""

    def __init__(self, app: App) -> None:
        self._app, self._here = app, app.here

    async def plan(self, request: PlanRequest, by: Principal, *, tell: TellPlanner = lambda news: None) -> Planned:
        """Have a plan written and propose it, or say what came instead; raises Refused where nobody could be asked."""
        planned = await self.draft(request, by, tell=tell)
        return await self.propose(planned, by) if planned.good else planned

    async def draft(self, request: PlanRequest, by: Principal, *, tell: TellPlanner = lambda news: None) -> Planned:
        """The first half of it: nothing is stored."""
        async with self._app.refusals.asked_for("plan", request.revise, by):
            self._here.refuse_stopped()
            revised = self._revised(request.revise) if request.revise is not None else None
            if not request.goal.strip() and revised is None:
                raise refuse("E_PLANNER_GOAL", "There is no goal to plan for.", command='ordain plan "WHAT TO REACH"')
            return await self.ask(request, by, lambda: self._brief(request, revised), self._judge(revised), tell)

    def check_askable(self, request: PlanRequest) -> None:
        """Raise Refused where nobody could be asked. Nobody is, and nothing is started."""
        settings = self._here.snapshot.settings
        if self._agent(settings, request, _Meter(request.budget, request.used)) is None:
            self._key(self._access(settings))

    async def ask(
        self,
        request: PlanRequest,
        by: Principal,
        brief: Callable[[], Awaitable[PlannerBrief]],
        judge: Judge,
        tell: TellPlanner = lambda news: None,
    ) -> Planned:
        """What the planner of the settings makes of a brief, as this judge finds it. Nothing is stored."""
        here = self._here
        settings = here.snapshot.settings
        meter = _Meter(request.budget, request.used)
        who = self._agent(settings, request, meter) or self._access(settings)
        agent = who if isinstance(who, PlanningAgent) else None
        key = "" if isinstance(who, PlanningAgent) else self._key(who)
        planner = agent.words if agent is not None else str(who)
        rounds = Rounds(judge, settings.planner_max_rounds)
        told, proposer = await brief(), self.proposer(planner, by)
        sink = here.sink() if here.has_ledger() else Sink(here.snapshot.redactor, lambda data: "")
        reading = PlannerReads(here, self._app.refusals, sink, proposer, tell)
        matches, asked = here.ports.expressions().matches, len(request.answers)
        setup = PlannerSetup(reading.specs, reading.perform, rounds, matches, tell, asked)
        drafted = await self._drafted(who, key, told, setup, meter)
        plan = rounds.judged.plan if rounds.judged is not None else None
        return Planned(
            request=request,
            planner=planner,
            unenforced=agent is not None and not agent.tier,
            drafted=drafted,
            document=rounds.document,
            judged=rounds.judged,
            rounds=rounds.count,
            first_wrong=rounds.first_wrong,
            stopped=rounds.end,
            unverified=tuple(unverified_steps(plan, here.tools(settings, plan))) if plan is not None else (),
            usage=meter.usage,
            unpriced=meter.unpriced,
        )

    async def propose(self, planned: Planned, by: Principal, file: str | None = None) -> Planned:
        """The second half: store the plan as the planner's proposal; `file` is where its document was written."""
        data, request = planned.document.encode("utf-8", "surrogatepass"), planned.request
        proposer, plans, origin = self.proposer(planned.planner, by), self._app.plans, self.origin(planned, by)
        if request.revise is not None:
            prepared = await plans.revise(request.revise, proposer, data, file, origin=origin)
        else:
            prepared = await plans.prepare(data, file, proposer, origin=origin)
        return msgspec.structs.replace(planned, prepared=prepared)

    def origin(self, planned: Planned, by: Principal) -> PlanOrigin:
        """How a planner's plan came to be, as it is recorded with it."""
        drafted, redactor = planned.drafted, self._here.redactor()

        def clean(text: str) -> str:
            return redactor.text(text)[:GOAL_KEPT]

        return PlanOrigin(
            planner=planned.planner,
            goal=clean(planned.request.goal),
            answers=tuple((clean(one.question), clean(one.answer)) for one in planned.request.answers),
            asked_by=by,
            rounds=planned.rounds,
            first_wrong=planned.first_wrong,
            requests=drafted.requests,
            calls=drafted.calls,
            tokens=planned.usage.tokens,
            cost_usd=planned.usage.cost_usd,
            unenforced=planned.unenforced,
        )

    def keep(self, planned: Planned) -> str | None:
        """Where a document that could not be proposed is kept in the workspace; None where it cannot be written."""
        data = planned.document.encode("utf-8", "replace")
        name = f"unfinished-{sha256(data).removeprefix('sha256:')[:8]}.plan.md"
        path = f"{self._here.snapshot.settings.documents.rstrip('/')}/{name}"
        return path if self._here.ports.copies.put(path, data) else None

    # --- Who plans -------------------------------------------------------------------------------------------------

    @staticmethod
    def proposer(planner: str, by: Principal) -> Principal:
        """Whose proposal it is: an agent's that had it written, which spends its own rights; else the planner's."""
        return by if by.channel is Channel.MCP else Principal(name=planner, channel=Channel.PLANNER)

    def _agent(self, settings: Settings, request: PlanRequest, meter: _Meter) -> PlanningAgent | None:
        if not settings.planner_agent:
            return None
        return planning_agent(self._here, settings.planner_agent, meter.seconds, unenforced=request.unenforced)

    def _access(self, settings: Settings) -> ModelAccess:
        access = planner_access(settings)
        if access is None:
            notices = [one for one in self._here.snapshot.notices if one.code == "W_CONFIG_UNTRUSTED"]
            command = notices[0].command if notices else None
            hint = (
                'Write into ordain.toml: [planner], and below it model = "anthropic:NAME" (or "openai:NAME", '
                '"ollama:NAME"), and let a person run `ordain trust`.'
            )
            if notices and b"[planner]" in (self._here.snapshot.text or b""):
                hint = "ordain.toml has a `[planner]`; it counts once a person has run `ordain trust`."
            untrusted = "; ordain.toml is not trusted as it is now, so what it names does not count yet"
            raise refuse(
                "E_PLANNER_NONE",
                f"No planner is configured: nobody is named who writes plans here{untrusted * bool(notices)}.",
                hint,
                command=command or "ordain explain E_PLANNER_NONE",
            )
        fault = self._here.ports.models.fault(access) if self._here.ports.models is not None else "no client is here"
        if fault is not None:
            raise refuse("E_PLANNER_START", f"{access} cannot be asked here: {fault}.")
        return access

    def _key(self, access: ModelAccess) -> str:
        if not access.key_env:
            return ""
        value = self._here.ports.host.variables((access.key_env,)).get(access.key_env, "")
        if not value.strip():
            raise refuse(
                "E_PLANNER_KEY",
                f"{access} needs a key, and the variable {access.key_env} is not set here.",
                f"Set it in the shell that `ordain` is started from: export {access.key_env}=…",
                "Another variable is named by `key_env` in [planner].",
            )
        return value.strip()

    # --- The planning ----------------------------------------------------------------------------------------------

    async def _drafted(
        self, who: PlanningAgent | ModelAccess, key: str, brief: PlannerBrief, setup: PlannerSetup, meter: _Meter
    ) -> Drafted:
        here, models = self._here, self._here.ports.models
        system, told = system_text(brief.role), opening(brief, here.snapshot.redactor)
        try:
            async with asyncio.timeout(meter.seconds):
                if isinstance(who, PlanningAgent):
                    return await draft_by_agent(here, who, setup, f"{system}\n\n{told}", meter.add)
                assert models is not None
                async with models.client(who, key) as client:
                    return await draft(meter.around(client), setup, system, told, meter.tokens)
        except TimeoutError:
            return meter.drafted(DraftEnd.TIME)
        except _SpentError:
            return meter.drafted(DraftEnd.COST)
        except ModelFailed as failed:
            assert isinstance(who, ModelAccess)
            where = f"The address is {shown_address(who.base_url)} (`base_url` in [planner])"
            where += f"; the key is in {who.key_env} (`key_env`)." if who.key_env else "."
            raise refuse("E_PLANNER_UNREACHED", f"{failed.detail.rstrip('.')}.", where) from failed

    def _judge(self, revised: tuple[Plan, tuple[OutlineBlock, ...]] | None) -> Judge:
        rejected = plan_id(revised[0]) if revised is not None else None

        def judge(document: str) -> JudgedDraft:
            found, problems = self._app.plans.judge(document.encode("utf-8", "surrogatepass"))
            plan = found.plan
            if plan is not None:
                problems += size_problems(plan, found.places)
            if plan is not None and plan_id(plan) == rejected:
                problems += (Problem(code="E_PLAN_REJECTED", detail="This is the rejected plan itself, unchanged."),)
            return JudgedDraft(problems=problems, plan=plan)

        return judge

    # --- What it is told -------------------------------------------------------------------------------------------

    async def _brief(self, request: PlanRequest, revised: tuple[Plan, tuple[OutlineBlock, ...]] | None) -> PlannerBrief:
        goal = request.goal.strip() or (revised[0].title if revised is not None else "")
        return PlannerBrief(
            goal=goal,
            constraints=(*self._here.snapshot.settings.planner_constraints, *request.constraints),
            answers=request.answers,
            revising=revised[1] if revised is not None else (),
            blocks=await self.material(goal),
        )

    async def material(self, goal: str) -> tuple[OutlineBlock, ...]:
        """What every planner is told beside its goal: what steps can use, what is allowed, what is here."""
        here, app = self._here, self._app
        settings, outlines, redactor = here.snapshot.settings, here.ports.outlines, here.snapshot.redactor
        tools, _ = app.workspace.tools()
        outline = await outlines.outline(goal, redactor, settings.secret_files) if outlines is not None else ()
        return (
            *named_block("Tools that steps can call", [inventory_line(tool) for tool in tools.values()]),
            *named_block("Agents that can be given tasks", [*agent_lines(app.workspace.agents())] or ["none"]),
            *named_block("What policy and settings say", setting_lines(settings)),
            *named_block("Why similar plans failed here", failures(app, goal)),
            *named_block("Topics that tasks can read", sorted(here.topics_there())),
            *(msgspec.structs.replace(one, name=f"The workspace: {one.name}") for one in outline),
        )

    def _revised(self, ref: str) -> tuple[Plan, tuple[OutlineBlock, ...]]:
        """The plan that is to be revised, and what its planner is told of it."""
        review = self._app.plans.review(ref)
        if review.status == "needs_review":
            detail = "It was rejected too often: the next revision must be a person's own."
            raise refuse("E_PLAN_NEEDS_REVIEW", detail, command=f"ordain show {short_id(review.plan_id)}")
        said = []
        for one in review.rejections:
            said += [f"{one.by.name} rejected {short_id(one.plan_id)}: {one.feedback}".rstrip(": ")]
            said += [f"About step `{step}`: {text}" for step, text in one.comments.items()]
        comments = review.rejections[-1].comments if review.rejections else {}
        text = in_place(write_markdown(review.plan).rstrip("\n"), review.plan, comments)
        blocks = (
            *named_block("The plan to be revised, with what was said in its place", [text]),
            *named_block("Everything that was said about it", said),
        )
        return review.plan, blocks


def in_place(document: str, plan: Plan, comments: Mapping[StepId, str], mark: str = "REJECTED: ") -> str:
    """A document with what was said of each step right after the heading of that step."""
    if not comments:
        return document
    ids = iter(step.id for step in plan.steps)
    lines = []
    for line in document.split("\n"):
        lines.append(line)
        if line.startswith("### "):
            said = comments.get(next(ids, StepId("")))
            if said:
                lines += ["", *(f"> {mark}{part}" for part in said.split("\n"))]
    return "\n".join(lines)


# --- What it may cost ------------------------------------------------------------------------------------------------


class _SpentError(Exception):
    """The money is spent."""


class _Meter:
    """What a planning has used, and what it may."""

    _client: ModelClient

    def __init__(self, budget: Budget | None, used: ModelUsage) -> None:
        budget = budget or Budget()
        if budget.attempts is not None:
            detail = "A planning is one attempt; its budget is of tokens, money or time."
            raise refuse("E_PLANNER_BUDGET", detail, "Write `--budget 200k tokens`, `--budget '$1'` or both.")
        self.tokens = (budget.tokens if budget.tokens is not None else TOKENS_MAX) - used.tokens
        self.seconds = budget.wall_clock_ms / 1000 if budget.wall_clock_ms is not None else None
        self._cost = budget.cost_usd
        self.usage, self.requests = used, 0

    @property
    def unpriced(self) -> bool:
        return self._cost is not None and bool(self.requests) and self.usage.cost_usd is None

    def add(self, usage: ModelUsage) -> bool:
        """Count what one start of an agent used; whether more may be used."""
        self.usage, self.requests = self.usage.plus(usage), self.requests + 1
        self.tokens -= usage.tokens
        return self.tokens > 0 and (self._cost is None or (self.usage.cost_usd or 0.0) < self._cost)

    def around(self, client: ModelClient) -> ModelClient:
        """The same client, whose answers are counted."""
        self._client = client
        return self

    def drafted(self, end: DraftEnd) -> Drafted:
        return Drafted(end=end, requests=self.requests, usage=self.usage)

    async def respond(self, request: ModelRequest, tell: Tell) -> ModelTurn:
        if self._cost is not None and (self.usage.cost_usd or 0.0) >= self._cost:
            raise _SpentError
        turn = await self._client.respond(request, tell)
        self.usage, self.requests = self.usage.plus(turn.usage), self.requests + 1
        return turn
