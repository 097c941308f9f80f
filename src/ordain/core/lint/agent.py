"""Rules about who performs tasks and workflows, and what that may cost."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec.structs import replace

from ordain.core.lint.survey import Facts, Scope, Survey
from ordain.core.plan.action import Task, workflow_run
from ordain.core.plan.condition import CustomCondition
from ordain.core.plan.model import Budget, Step, check_of
from ordain.core.policy.agent import PROVIDERS, Agent, AgentChoice, choose, model_of, tasks_of
from ordain.core.text.problem import Problem, blame_plan, blame_step

TASK_TOKENS_MIN = 1000
"""Less than this pays no task of any agent."""


def named(survey: Survey, facts: Facts) -> Iterator[Problem]:
    """Every task is somebody's."""
    for scope, step, _ in survey.tasks:
        if _choice(scope, step, facts) is None:
            detail = f"Nobody is named to do the task of `{step.id}`."
            hint = "Name an agent in the step, in the plan, or with `[run] agent` in ordain.toml."
            yield blame_step(step.id, "E_STEP_AGENT", detail, hint, command=_LIST)


def known(survey: Survey, facts: Facts) -> Iterator[Problem]:
    """Every agent that is named is there."""
    for scope in survey.scopes:
        if scope.plan.agent and _unknown(scope.plan.agent, facts):
            detail = f"The plan names the agent `{scope.plan.agent}`, and there is none of that name."
            hints = survey.near(scope.plan.agent, facts.agents) or _WHERE
            yield replace(blame_plan("agent", "E_AGENT_UNKNOWN", detail, *hints), command=_LIST)
    for scope, step, task in survey.tasks:
        choice = _choice(scope, step, facts)
        by_plan = not task.agent and any(plan.agent for plan in (scope.plan, *scope.around))
        if choice is not None and not by_plan and _unknown(choice.agent, facts):
            detail = f"There is no agent `{choice.agent}`; {choice.why} for this task."
            hints = survey.near(choice.agent, facts.agents) or _WHERE
            yield blame_step(step.id, "E_AGENT_UNKNOWN", detail, *hints, command=_LIST)


_WHERE = ("Agents are the sections [agents.NAME] of ordain.toml, which counts once it is trusted.",)
_LIST = "ordain agents"
_NOBODY = Agent()
_UNUSED = "Nothing is done with it: take it out, or give a step a task."


def _choice(scope: Scope, step: Step, facts: Facts) -> AgentChoice | None:
    return choose(step, (scope.plan, *scope.around), facts.settings.agent_for, facts.settings.agent)


def _unknown(name: str, facts: Facts) -> bool:
    return name not in facts.agents and name.isascii() and "${" not in name


def startable(survey: Survey, facts: Facts) -> Iterator[Problem]:
    """Everybody who performs a task can be started, as far as can be told."""
    for name, fault in facts.agent_faults.items():
        yield agent_problem("W_AGENT_START", name, fault)


def agent_problem(code: str, name: str, fault: str) -> Problem:
    """That an agent cannot be started: a warning while a plan is looked at, a refusal when a run is to begin."""
    hint = "Install or set what it needs, or let its definition in ordain.toml say where that is."
    return blame_step(None, code, f"The agent `{name}` cannot be started here: {fault}.", hint, command=_LIST)


def used(survey: Survey, facts: Facts) -> Iterator[Problem]:
    """Who performs tasks, and with which model, is said only where there are tasks: what is approved is carried out."""
    for scope in survey.scopes:
        named = [(kind, name) for kind in ("agent", "model") if (name := getattr(scope.plan, kind))]
        # What is wrong with a name itself is said elsewhere.
        what = " and ".join(f"the {kind} `{name}`" for kind, name in named if name.isascii())
        if what and next(tasks_of(scope.plan), None) is None:
            detail = f"The plan names {what}, and none of its steps has a task."
            yield blame_plan(named[0][0], "W_AGENT_UNUSED", detail, _UNUSED)
    for step in survey.steps:
        if step.model is not None and not isinstance(step.action, Task):
            detail = f"`{step.id}` names the model `{step.model}`, and has no task."
            yield blame_step(step.id, "W_AGENT_UNUSED", detail, _UNUSED)


def workflows(survey: Survey, facts: Facts) -> Iterator[Problem]:
    """Every workflow that is run is there."""
    for step, action in survey.others:
        name = workflow_run(action)
        if name is not None and name not in facts.workflows and "${" not in name:
            detail = f"There is no workflow `{name}`."
            yield blame_step(step.id, "E_WORKFLOW_UNKNOWN", detail, *survey.near(name, facts.workflows))


def unverified(survey: Survey, facts: Facts) -> Iterator[Problem]:
    """Something but its agent's word says that a task is done, unless the plan says that nothing does."""
    for _, step, _ in survey.tasks:
        said = isinstance(check_of(step), CustomCondition)
        if step.verification is None or said:
            what = "Only an expression, which sees what was said and nothing of what was done," if said else "Nothing"
            yield blame_step(
                step.id,
                "W_TASK_UNVERIFIED",
                f"{what} verifies the task of `{step.id}`: it passes by the performer's word alone.",
                "Give it a contract.",
                "Where nothing can tell, say so: `**verify:** none` in Markdown, in a tree "
                "`verification: {strategy: {type: none}}`.",
            )


def _performed(survey: Survey, facts: Facts) -> Iterator[tuple[Scope, Step, str, Agent]]:
    """Every task with the name of who performs it, and what the settings say of them."""
    for scope, step, _ in survey.tasks:
        choice = _choice(scope, step, facts)
        name = choice.agent if choice is not None else ""
        yield scope, step, name, facts.settings.agents.get(name, _NOBODY)


def budget(survey: Survey, facts: Facts) -> Iterator[Problem]:
    """What agents may spend is limited, and is enough for what they are asked."""
    steps = [step for _, step, _, agent in _performed(survey, facts) if not agent.human]
    if not steps:
        return
    given, count = survey.plan.budget, len(steps)
    if given is None and any(step.budget is None for step in steps):
        hint = "Say it in the plan: `**Budget:** max 200k tokens, $1.50, 20 minutes`."
        yield blame_step(None, "W_BUDGET", "Agents are given tasks, and nothing limits what they may spend.", hint)
    wanted = sum(max(_tokens(step.budget) or 0, TASK_TOKENS_MIN) for step in steps)
    tokens = _tokens(given)
    if tokens is not None and 0 < tokens < wanted:
        detail = f"{tokens} tokens cannot pay {count} task{'s' if count > 1 else ''}: they need {wanted} at least."
        hint = f"Raise the budget; no task can be done with less than {TASK_TOKENS_MIN} tokens."
        yield blame_plan("budget", "W_BUDGET", detail, hint)
    for step in steps:
        own = _tokens(step.budget)
        if own is not None and 0 < own < TASK_TOKENS_MIN:
            hint = f"No task can be done with less than {TASK_TOKENS_MIN} tokens."
            yield blame_step(step.id, "W_BUDGET", f"{own} tokens cannot pay the task of `{step.id}`.", hint)


def elsewhere(survey: Survey, facts: Facts) -> Iterator[Problem]:
    """A plan names a model at the address of its agent; which address that is only the settings say."""
    for scope, step, name, agent in _performed(survey, facts):
        model = model_of(step, (scope.plan, *scope.around), None) or ""
        provider, own = model.partition(":")[0], (agent.model or "").partition(":")[0]
        if agent.is_model and provider in PROVIDERS and provider != own and ":" in model:
            detail = f"`{step.id}` names the model `{model}`, and its agent `{name}` speaks to `{own}:` models only."
            hint = f"Name one as `{own}:NAME`, or give the task to an agent that is defined with the other."
            yield blame_step(step.id, "E_FIELD_VALUE", detail, hint, command=_LIST)


def uncounted(survey: Survey, facts: Facts) -> Iterator[Problem]:
    """Nobody relies on a limit that nothing counts: what a model costs that is spoken to directly is not known."""
    for scope, step, name, agent in _performed(survey, facts):
        budgets = (step.budget, scope.plan.budget, *(plan.budget for plan in scope.around))
        given = [one for one in budgets if one is not None] if agent.is_model else []
        if any(one.cost_usd is not None for one in given) and all(one.tokens is None for one in given):
            detail = f"Nobody knows what the model `{name}` costs, so no limit in dollars ends `{step.id}`."
            hint = "Limit its tokens as well: `**Budget:** max 200k tokens`."
            yield blame_step(step.id, "W_BUDGET", detail, hint)


def _tokens(budget: Budget | None) -> int | None:
    return budget.tokens if budget is not None else None
