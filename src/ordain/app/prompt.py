"""What agents are told: exactly what one was told in an attempt, from the ledger, or what would be told now, made alike
and marked as such."""

from __future__ import annotations

from typing import Any

from ordain.app.retention import why_gone
from ordain.core.plan.action import Task
from ordain.core.plan.model import Plan, Step, nested_plan_of
from ordain.core.plan.value import RunId, StepId
from ordain.core.policy.agent import choose, model_of
from ordain.core.policy.scope import offered
from ordain.core.report.report import ToldPrompt
from ordain.core.report.transcript import Transcript, read_transcript
from ordain.core.run.course import planned_course
from ordain.core.run.prompt import Setting, ToolAccess, write_prompt
from ordain.core.run.step_event import AttemptEnded, WorkOffered
from ordain.core.task.offer import door_names
from ordain.core.task.work_item import form_text
from ordain.core.text.problem import closest, refuse
from ordain.engine.reads import NothingGivenError, StepReads
from ordain.engine.task import reach_of
from ordain.records.sink import Sink
from ordain.records.surroundings import Surroundings


class Prompts:
    """The prompts of one workspace."""

    def __init__(self, here: Surroundings) -> None:
        self._here = here

    def told(self, run_id: RunId, step: StepId, attempt: int | None) -> ToldPrompt:
        """What the agent of a step was told in this attempt, or in the last one."""
        events = [one.event for one in self._here.records.run_events(run_id)]
        offers = [one for one in events if isinstance(one, WorkOffered) and one.step == step]
        found = next((one for one in reversed(offers) if attempt in (None, one.attempt)), None)
        if found is None:
            which = f"in attempt {attempt}" if attempt is not None else "so far"
            known = ", ".join(str(one.attempt) for one in offers)
            hint = f"Told in: attempt {known}." if known else "Of its plan it can be shown what would be told."
            raise refuse("E_PROMPT", f"No agent was told anything for `{step}` of {run_id} {which}.", hint)
        item = found.item
        body = self._here.ledger.kept(item.prompt_seal)
        if body is None:
            why = why_gone(self._here.ledger, item.prompt_seal) or "is not kept in this ledger"
            raise refuse("E_PROMPT", f"What was told for `{step}` of {run_id} {why}.")
        return ToldPrompt(
            step=step,
            agent=item.agent,
            model=item.model,
            run_id=run_id,
            attempt=found.attempt,
            told=True,
            tools=item.tools,
            reads=item.reads,
            missing=(),
            prompt=body.decode("utf-8", "replace"),
        )

    def transcript(self, run_id: RunId, step: StepId, attempt: int | None) -> Transcript:
        """What was said between us and the model that performed a step in this attempt, or in the last one."""
        events = (one.event for one in self._here.records.run_events(run_id))
        ends = [one for one in events if isinstance(one, AttemptEnded) and one.step == step]
        found = next((one for one in reversed(ends) if attempt in (None, one.attempt)), None)
        seal = found.outcome.transcript_seal if found is not None else ""
        body = self._here.ledger.kept(seal) if seal else None
        if body is None and (gone := why_gone(self._here.ledger, seal)) is not None:
            raise refuse("E_PROMPT", f"The transcript of `{step}` of {run_id} {gone}.")
        if found is None or body is None:
            which = f"attempt {attempt}" if attempt is not None else "the last attempt"
            hint = "It is kept where a model performs a task that is spoken to directly, once its attempt has ended."
            raise refuse("E_PROMPT", f"There is no transcript of {which} at `{step}` of {run_id}.", hint)
        return read_transcript(run_id, step, found.attempt, body)

    async def foreseen(self, plan: Plan, name: str) -> ToldPrompt:
        """What the agent of a step would be told now, in its first attempt."""
        here, (step, plans) = self._here, _found(plan, name)
        if not isinstance(step.action, Task):
            raise refuse("E_PROMPT", f"`{name}` is no task: no agent is told anything for it.")
        settings = here.snapshot.settings
        choice = choose(step, plans, settings.agent_for, settings.agent)
        agent = here.known_agents(settings).get(choice.agent) if choice is not None else None
        # Nothing is recorded of it, so nothing needs the ledger's own seal.
        sink = here.sink() if here.has_ledger() else Sink(here.redactor(), lambda data: "")
        records = here.records if here.has_ledger() else None
        reading = StepReads(here.ports.workspace, records, sink, settings.secret_files)
        gathered = await reading.gather(step.action, _not_yet, lambda: _no_item_yet(step))
        tools = offered(step.action, plans, here.tools(settings, plan))
        setting = Setting(
            plan=plans[0],
            step=step,
            agent=choice.agent if choice is not None else "",
            tools=tuple(door_names(tools).values()),
            reads=gathered.shown,
            writes=step.writes,
            reaches=reach_of(agent, here.ports.doors) if agent is not None else ToolAccess.NONE,
            course=planned_course(plans[0], step) if settings.progress else None,
        )
        if agent is not None and agent.human:  # who is shown a form, and nothing else
            written = form_text(step, setting.agent)
        else:
            written = write_prompt((agent.prompt if agent is not None else "") or settings.prompt, setting)
        return ToldPrompt(
            step=StepId(name),
            agent=setting.agent,
            model=model_of(step, plans, agent),
            run_id=None,
            attempt=1,
            told=False,
            tools=tools,
            reads=gathered.reads,
            missing=tuple(lack.words for lack in gathered.lacks),
            prompt=sink.text(written),
        )


def _not_yet(name: str) -> Any:
    raise NothingGivenError("its result is not known before it has run")


def _no_item_yet(step: Step) -> None:
    if step.for_each is not None:
        raise NothingGivenError("which item it is for is not known before it begins")


def _found(plan: Plan, name: str) -> tuple[Step, tuple[Plan, ...]]:
    """The step that is called this in a run of the plan, and the plans around it, the innermost first."""
    plans: tuple[Plan, ...] = (plan,)
    *outer, last = name.split("/")
    for part in outer:
        step = _named(plans[0], part, name)
        inner = nested_plan_of(step)
        if inner is None:
            raise refuse("E_STEP_UNKNOWN", f"`{part}` holds no plan, so there is no step `{name}`.")
        plans = (inner, *plans)
    return _named(plans[0], last, name), plans


def _named(plan: Plan, part: str, whole: str) -> Step:
    steps = {step.id: step for step in (*plan.steps, *plan.fallbacks)}
    found = steps.get(StepId(part.rpartition("+")[2].partition("[")[0]))
    if found is None:
        hints = closest(part, steps) or (f"Its steps are: {', '.join(steps)}.",)
        raise refuse("E_STEP_UNKNOWN", f"The plan has no step `{whole}`.", *hints)
    return found
