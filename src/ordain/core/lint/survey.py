"""A plan taken apart once for all the rules: everything that may run, by what it does, and what names what."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any

import msgspec

from ordain.core.plan.action import CallTool, RunCommand, Task
from ordain.core.plan.command import command_of, payload
from ordain.core.plan.condition import Contract, CustomCondition, Precondition
from ordain.core.plan.expr import OWN_END, VARIABLES, Named, named
from ordain.core.plan.failure import FailurePolicy, LastPolicy, Retry
from ordain.core.plan.graph import ImpliedNeed, Order, links, may_refer, stores_of, users_of
from ordain.core.plan.model import Action, Plan, Step, conditions_of, item_name, nested_plan_of
from ordain.core.plan.refs import Reference, Unreadable, parse, references
from ordain.core.plan.tool import ToolDefinition
from ordain.core.plan.value import StepId
from ordain.core.policy.agent import Agent
from ordain.core.policy.script import Script, plain_script
from ordain.core.policy.settings import Settings
from ordain.core.text.limit import NESTED_PLANS_MAX, STEPS_MAX
from ordain.core.text.problem import Problem, closest

COMPARED_MAX = 50_000


class Scope:
    """One plan, the outer one or one nested in it, and what its own steps can name."""

    def __init__(self, plan: Plan, around: tuple[Plan, ...] = ()) -> None:
        """`around` are the plans that this one is nested in, the innermost first."""
        self.plan, self.around = plan, around
        self.steps: dict[str, Step] = {step.id: step for step in plan.steps}
        self.fallbacks: dict[str, Step] = {step.id: step for step in plan.fallbacks}
        self.links: list[ImpliedNeed] = []

    @property
    def depth(self) -> int:
        return len(self.around)

    @cached_property
    def known(self) -> dict[str, Step]:
        return {**self.fallbacks, **self.steps} if self.fallbacks else self.steps

    @cached_property
    def users(self) -> dict[str, set[str]]:
        """For each fallback, the steps whose own policy names it."""
        return users_of(self.plan)

    @cached_property
    def stores(self) -> dict[str, list[StepId]]:
        """For each key of data, the steps that store it; no other plan sees that."""
        return stores_of(self.plan)

    @cached_property
    def declared(self) -> Order:
        """The order that the steps' own needs make."""
        return Order({name: step.needs for name, step in self.steps.items()})

    @cached_property
    def needs(self) -> Mapping[str, Sequence[str]]:
        """What each step waits for. What a fallback refers to comes before the steps that name it."""
        needs: dict[str, list[str]] = {name: list(step.needs) for name, step in self.steps.items()}
        for link in self.links:
            for step in self.users.get(link.step, ()) if link.step not in self.steps else (link.step,):
                if step in needs and (step != link.target or step == link.step):
                    needs[step].append(link.target)
        return needs

    @cached_property
    def order(self) -> Order:
        """The order with what references imply."""
        return Order(self.needs) if self.links else self.declared


class Mention(msgspec.Struct, frozen=True):
    """A reference where it stands. `in_source`: in `for_each` itself, where there is no item yet."""

    scope: Scope
    step: Step
    text: str
    reference: Reference | Unreadable
    in_source: bool = False


class AskedExpression(msgspec.Struct, frozen=True):
    """An expression where it stands; without a step, before anything has run. `after`: when the step is done."""

    scope: Scope
    step: Step | None
    what: str
    expression: str
    names: frozenset[str]
    named: Named
    after: bool = False


class Survey:
    """Everything that may run: the plan's steps, its fallbacks, and those of nested plans, as deep as is allowed."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.scopes: list[Scope] = []
        self.steps: list[Step] = []
        self.commands: list[tuple[Step, RunCommand]] = []
        self.calls: list[tuple[Step, CallTool]] = []
        self.tasks: list[tuple[Scope, Step, Task]] = []
        self.others: list[tuple[Step, Action]] = []
        self.contracts: list[tuple[Step, Contract]] = []
        self.checks: list[tuple[Step, str]] = []
        """What steps say under `happened`."""
        self.mentions: list[Mention] = []
        self.asked: list[AskedExpression] = []
        self.too_deep: list[Step] = []
        self.paths: tuple[Any, list[Any]] | None = None
        """What `lint.path` found, for which tools."""
        self._compared = 0
        self._walk(plan)
        # Who comes after whom because of a reference, an expression or a `reads: step:…`.
        for scope in self.scopes:
            for step in scope.known.values():
                if may_refer(step):
                    scope.links += links(step, scope.stores)

    def _walk(self, plan: Plan) -> None:
        todo = [Scope(plan)]
        while todo and len(self.steps) <= STEPS_MAX:
            scope = todo.pop()
            plan = scope.plan
            self.scopes.append(scope)
            if plan.preconditions:
                self._take_conditions(scope, None, plan.preconditions)
            for step in (*plan.steps, *plan.fallbacks):
                self._take(scope, step)
                inner = nested_plan_of(step)
                if inner is not None and scope.depth < NESTED_PLANS_MAX:
                    todo.append(Scope(inner, (plan, *scope.around)))
                elif inner is not None:
                    self.too_deep.append(step)

    def _take(self, scope: Scope, step: Step) -> None:
        self.steps.append(step)
        action = step.action
        command = command_of(action)
        if command is not None:
            self.commands.append((step, command))
            if command.env:
                self._take_references(scope, step, command.env)
        elif isinstance(action, CallTool):
            self.calls.append((step, action))
            self._take_references(scope, step, action.args)
        elif isinstance(action, Task):
            self.tasks.append((scope, step, action))
        else:
            self.others.append((step, action))
            self._take_references(scope, step, payload(action))
        if step.verification is not None:
            strategy = step.verification.strategy
            if isinstance(strategy, Contract):
                self.contracts.append((step, strategy))
            elif isinstance(strategy, CustomCondition):
                self._ask(scope, step, "the verification", strategy.expression, after=True)
        if step.happened is not None:
            self.checks.append((step, step.happened))
        if step.for_each is not None:
            self._take_references(scope, step, step.for_each.source, in_source=True)
        if step.when is not None:
            self._ask(scope, step, "`when`", step.when)
        if step.preconditions:
            self._take_conditions(scope, step, step.preconditions)

    @cached_property
    def looks(self) -> list[tuple[Step, str, str]]:
        """Every command that looks at what a step did, and what it is called."""
        contracts = [(step, "contract", contract.command) for step, contract in self.contracts]
        return [*contracts, *((step, "check", text) for step, text in self.checks)]

    @cached_property
    def shell_texts(self) -> list[tuple[Step, str, str]]:
        """Every text that bash gets, and what it is called."""
        return [*((step, "command", command.command) for step, command in self.commands), *self.looks]

    def declared(self) -> Iterator[tuple[str | None, msgspec.Struct]]:
        """Every precondition, way of verifying and failure policy, with the step that it is of; None for a plan's."""
        for scope in self.scopes:
            yield from ((None, one) for one in scope.plan.preconditions)
            if scope.plan.on_failure is not None:
                yield None, scope.plan.on_failure
        for step in self.steps:
            yield from ((step.id, one) for one in conditions_of(step))
            if step.on_failure is not None:
                yield step.id, step.on_failure

    def _take_references(self, scope: Scope, step: Step, value: Any, *, in_source: bool = False) -> None:
        item = item_name(step)
        for text in references(value, item):
            self.mentions.append(Mention(scope, step, text, parse(text, item), in_source))

    def _take_conditions(self, scope: Scope, step: Step | None, conditions: tuple[Precondition, ...]) -> None:
        for condition in conditions:
            if isinstance(condition, CustomCondition):
                self._ask(scope, step, f"the precondition `{condition.name}`", condition.expression)

    def _ask(self, scope: Scope, step: Step | None, what: str, expression: str, *, after: bool = False) -> None:
        names = VARIABLES
        if step is not None and step.for_each is not None:
            names |= {item_name(step), "index"}
        if after:
            names |= OWN_END
        self.asked.append(AskedExpression(scope, step, what, expression, names, named(expression), after))

    @cached_property
    def encoded(self) -> bytes | None:
        """The whole plan as JSON; None where it cannot be written."""
        return written(self.plan)

    @cached_property
    def plain_contracts(self) -> list[tuple[Step, Contract, Script]]:
        """The contracts that are plain words and can be taken apart without a parser."""
        read = ((step, contract, plain_script(contract.command)) for step, contract in self.contracts)
        return [(step, contract, script) for step, contract, script in read if script and script.statements]

    def near(self, word: str, known: Collection[str]) -> tuple[str, ...]:
        """A "did you mean" hint for a misspelt word, as long as comparing takes little time."""
        if self._compared > COMPARED_MAX:
            return ()
        self._compared += len(known)
        return closest(word, known)

    def scope_of(self, step: Step) -> Scope:
        """The plan that a step is of."""
        return self._scope_of[id(step)]

    @cached_property
    def _scope_of(self) -> dict[int, Scope]:
        return {id(step): scope for scope in self.scopes for step in (*scope.plan.steps, *scope.plan.fallbacks)}


def written(value: Any) -> bytes | None:
    """A value as JSON, to be searched quickly; None where it holds what cannot be written."""
    try:
        return msgspec.json.encode(value)
    except (UnicodeEncodeError, TypeError, ValueError, OverflowError, RecursionError):
        return None


def last_policy(policy: FailurePolicy | None) -> LastPolicy | None:
    """What follows when tries have run out; None when the plan's own policy does."""
    return policy.then if isinstance(policy, Retry) else policy


# --- Waves -----------------------------------------------------------------------------------------------------------
# A wave holds the steps that could begin together: everything they wait for is in earlier waves. Steps that wait for
# each other in a circle, or for such steps, are in no wave; lint refuses them.

Needs = Mapping[StepId, Sequence[StepId]]
"""For each step, in the plan's order, the steps it waits for."""


def waits_for(plan: Plan) -> dict[StepId, tuple[StepId, ...]]:
    """What each step of the plan waits for: by its `needs`, and by what it refers to."""
    known = Survey(plan).scopes[0].needs
    return {
        StepId(name): tuple(StepId(need) for need in dict.fromkeys(needs) if need in known)
        for name, needs in known.items()
    }


def fallbacks_for(plan: Plan) -> dict[StepId, tuple[StepId, ...]]:
    """For each fallback of the plan, the steps whose own policy names it, in the plan's order."""
    users = Survey(plan).scopes[0].users
    return {
        fallback.id: tuple(step.id for step in (*plan.steps, *plan.fallbacks) if step.id in users[fallback.id])
        for fallback in plan.fallbacks
    }


def waves(needs: Needs) -> tuple[tuple[StepId, ...], ...]:
    """The steps by the longest way to them, each wave in the plan's order."""
    level: dict[str, int] = {}
    for name in Order(needs).sequence:
        level[name] = 1 + max((level[need] for need in needs[StepId(name)]), default=-1)
    found: list[list[StepId]] = [[] for _ in range(1 + max(level.values(), default=-1))]
    for step in needs:
        if step in level:
            found[level[step]].append(step)
    return tuple(tuple(wave) for wave in found)


# --- Facts -----------------------------------------------------------------------------------------------------------
# What a probe found out about the surroundings, so that linting itself stays pure.


class Facts(msgspec.Struct, frozen=True, kw_only=True):
    """The surroundings of a plan. What is not mentioned was not looked at."""

    tools: Mapping[str, ToolDefinition] = {}
    settings: Settings = Settings()
    """The settings in force: by which rules tasks get their agents, and where tools come from."""
    agents: Mapping[str, Agent] = {}
    """Everybody who can be given tasks."""
    agent_faults: Mapping[str, str] = {}
    """Who performs tasks of the plan and cannot be started here → why."""
    unreached: Mapping[str, Problem] = {}
    """Sources of tools that do not say what they have → why."""
    workflows: frozenset[str] = frozenset()
    """The names of the workflows there are."""
    shell_faults: Mapping[str, str] = {}
    """Command text → what bash says is wrong with its syntax."""
    scripts: Mapping[str, Script] = {}
    """Command text → the same taken apart; plain words need no entry."""
    unread: frozenset[str] = frozenset()
    """Contracts that nobody could take apart, although nothing is wrong with them."""
    unasked: frozenset[str] = frozenset()
    """Commands and contracts whose syntax nobody checked."""
    expression_faults: Mapping[tuple[str, frozenset[str]], str] = {}
    """Expression and the variables it can name → what is wrong with it."""
    pattern_faults: Mapping[str, str] = {}
    """Pattern of an output or an answer → what is wrong with it."""
    idle_patterns: frozenset[str] = frozenset()
    """Patterns of outputs that match whatever is written."""
    protecting_nothing: frozenset[str] = frozenset()
    """Patterns of `protect` that mean no file that is here."""
    empty_inputs: Mapping[str, str] = {}
    """Paths and patterns of `inputs` that nothing is bound by, and why."""
    missing_programs: frozenset[str] = frozenset()
    """Programs that commands, contracts and checks start and that are not here."""
    new_writes: frozenset[str] = frozenset()
    """Where steps write and nothing is yet."""
    missing_files: frozenset[str] = frozenset()
    """Paths that steps read and that are not here."""
    unknown_paths: frozenset[str] = frozenset()
    """Paths that words of steps need and that are not here."""
    edits: Mapping[tuple[str, str], int] = {}
    """Path and text that a step replaces → how often it occurs in the file now, if that may be looked into."""
    unhanded: Mapping[str, str] = {}
    """Paths that tasks read and that are there, but cannot be put before an agent as they are → why."""
    secret_reads: frozenset[str] = frozenset()
    """Paths that tasks read and that the settings name among the files that hold secrets."""
    empty_topics: frozenset[str] = frozenset()
    """Topics that steps read and to which nothing was posted yet."""
    secrets: Mapping[str, str] = {}
    """The variables of the environment that hold secrets → their values, which stand in no plan."""
    panes: bool = False
    """Whether panes can be looked at."""
    tier: int = 0
    """The strongest trust tier that can be had here, as far as that was looked at."""
    tier_fault: str = "nobody has looked whether it can"
    """Why no stronger one can be had."""
    workspace_id: str | None = None
