"""What an approver should read first in a changed plan: whatever lets it do more, check less or ask less.

Computed from the plans and the tool registry, never from prose. Every field that changed is a concern, unless the
tables `_STEP_HARMLESS` and `_PLAN_HARMLESS` say that this very change only tightens or cannot matter: where it cannot
be told which way a change goes, as with another command, a person has to read it. Of the settings only those count
that say who performs tasks; what else the configuration would say in place of an absent field is not known here, and
its built-in value stands for it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, get_args

import msgspec

from ordain.core.approval.diff.failure_policy import StepPolicy, failure_changes, no_softer, policy_of
from ordain.core.approval.diff.pairing import Pairing, pair
from ordain.core.lint.waves import Needs, ordering, waits_for
from ordain.core.plan.actions.task import Task
from ordain.core.plan.actions.tool import CallTool
from ordain.core.plan.canonical import canonical_bytes
from ordain.core.plan.concern import ConcernKind, Said, listed
from ordain.core.plan.condition import Contract, NoCheck, Strategy
from ordain.core.plan.model import Action, Budget, ForEach, NestedPlan, Parameter, Plan, Step, all_steps
from ordain.core.plan.role import EffectClass, about
from ordain.core.plan.tool import ToolDefinition, tool_name
from ordain.core.plan.value import StepId
from ordain.core.policy.agent_choice import AgentChoice, choose, model_of
from ordain.core.policy.effect import PlannedEffect, effects_of, planned_effects
from ordain.core.policy.scope import offered, scope_of
from ordain.core.policy.settings import DEFAULTS, Settings

_RANK = {kind: rank for rank, kind in enumerate(get_args(ConcernKind))}


class Concern(msgspec.Struct, frozen=True, kw_only=True):
    """One thing to read first. A step of a nested plan is named `outer/inner`; without a step it is the plan's own."""

    kind: ConcernKind
    detail: str
    step: str | None = None


def concerns(
    old: Plan, new: Plan, tools: Mapping[str, ToolDefinition], settings: Settings = DEFAULTS
) -> tuple[Concern, ...]:
    """Everything that may let the new plan do more, check less or ask less than the old one; the most dangerous
    first."""
    found = _PlanComparison(old, new, tools, settings).judged(_Plans((old,), (new,)))
    return tuple(sorted(found, key=lambda concern: _RANK[concern.kind]))


_Around = tuple[Plan, ...]
"""A plan, and after it those that it is nested in, from the inside out."""


class _Plans(msgspec.Struct, frozen=True):
    """Two plans to compare, without their steps, and after each those that it is nested in."""

    olds: _Around
    news: _Around

    @property
    def old(self) -> Plan:
        return self.olds[0]

    @property
    def new(self) -> Plan:
        return self.news[0]


class _Steps(msgspec.Struct, frozen=True):
    """One step in two plans."""

    old: Step
    new: Step
    plans: _Plans
    fallback: bool
    tools: Mapping[str, ToolDefinition]


class _PlanComparison:
    """Compares two whole plans, down into the plans nested in both."""

    def __init__(self, old: Plan, new: Plan, tools: Mapping[str, ToolDefinition], settings: Settings) -> None:
        self._tools, self._settings = tools, settings
        self._written = {effect.target for effect in planned_effects(old, tools) if effect.kind == "write"}
        self._written |= {pattern for step in all_steps(old) for pattern in step.writes}
        # A check that left with one step and came back with another is neither gone nor new.
        checks, checks_before = _checks(new), _checks(old)
        self._checks_new, self._checks_gone = checks - checks_before, checks_before - checks

    def judged(self, plans: _Plans, outer: str = "") -> Iterator[Concern]:
        """Concerns about a plan and everything in it; `outer` leads to the step it is nested in."""
        around, old, new = outer.removesuffix("/"), plans.old, plans.new
        for kind, said in _plan_changes(plans):
            yield Concern(
                kind=kind, detail=f"The plan{f' in `{around}`' if around else ''} {said}.", step=around or None
            )
        steps, fallbacks = pair(old.steps, new.steps), pair(old.fallbacks, new.fallbacks)
        for one, fallback in (*((one, False) for one in steps.pairs), *((one, True) for one in fallbacks.pairs)):
            both = _Steps(one.old, one.new, plans, fallback, self._tools)
            if one.old is not one.new:
                yield from _about(outer, one.new, self._changed(both))
            yield from _about(outer, one.new, self._reach(both))
            inner, inside = f"{outer}{one.new.id}/", (one.old.action, one.new.action)
            if isinstance(inside[0], NestedPlan) and isinstance(inside[1], NestedPlan):
                within = _Plans((inside[0].plan, *plans.olds), (inside[1].plan, *plans.news))
                yield from self.judged(within, inner)
            elif isinstance(inside[0], NestedPlan):
                yield from self._all_of(self._removed, inner, (inside[0].plan, *plans.olds))
            elif isinstance(inside[1], NestedPlan):
                yield from self._all_of(self._added, inner, (inside[1].plan, *plans.news))
        for _, step in (*steps.added, *fallbacks.added):
            yield from self._nested(self._added, outer, step, plans.news)
        for _, step in (*steps.removed, *fallbacks.removed):
            yield from self._nested(self._removed, outer, step, plans.olds)
        yield from (concern for step, said in _loosened(old, new, steps) for concern in _about(outer, step, [said]))

    def _nested(
        self, judge: Callable[[Step, _Around], Iterable[Said]], outer: str, step: Step, plans: _Around
    ) -> Iterator[Concern]:
        """What is said of a step that only one of the plans has, and of the steps of a plan in it."""
        yield from _about(outer, step, judge(step, plans))
        if isinstance(step.action, NestedPlan):
            yield from self._all_of(judge, f"{outer}{step.id}/", (step.action.plan, *plans))

    def _all_of(
        self, judge: Callable[[Step, _Around], Iterable[Said]], outer: str, plans: _Around
    ) -> Iterator[Concern]:
        for inner in (*plans[0].steps, *plans[0].fallbacks):
            yield from self._nested(judge, outer, inner, plans)

    def _changed(self, both: _Steps) -> Iterator[Said]:
        """What is said of a step in both plans: something of each field that changed, unless it is harmless."""
        for name in _differing(both.old, both.new, _STEP_FIELDS):
            if name in _STEP_HARMLESS and _STEP_HARMLESS[name](both):
                continue
            say = self._action if name == "action" else _STEP_SAYS.get(name, _nothing)
            said = list(say(both))
            yield from said or [("field_changed", f"has another `{name}`; read it")]
        yield from self._agent(both)

    def _agent(self, both: _Steps) -> Iterator[Said]:
        """That another one performs a task: because the step says so, or because its title makes it another kind of
        work. Where only a plan names another one, that is said of the plan."""
        old, new, plans = both.old, both.new, both.plans
        if not isinstance(old.action, Task) or not isinstance(new.action, Task):
            return
        before, now = self._chosen(old, plans.olds), self._chosen(new, plans.news)
        by_plan = [one.agent for one in plans.olds] != [one.agent for one in plans.news]
        own = old.action.agent or new.action.agent
        if (before and before.agent) != (now and now.agent) and (own or not by_plan):
            why = f", because {now.why}" if now is not None and not new.action.agent else ""
            yield "agent_changed", f"is given to {_choice('agent', now.agent if now is not None else None)}{why}"

    def _reach(self, both: _Steps) -> Iterator[Said]:
        """That the agent of a task may use more, because of what its step lists, or because a plan around it lists some
        now. Where a plan that listed some lists others, that is said of the plan."""
        old, new, plans = both.old.action, both.new.action, both.plans
        if not isinstance(old, Task) or not isinstance(new, Task):
            return
        by_plan = old.tools is None and new.tools is None and scope_of(old, plans.olds) is not None
        more = _more_tools(self._usable(old, plans.olds), self._usable(new, plans.news))
        if more and not by_plan:
            yield "tools_widened", f"may also use {listed(more)}"

    def _usable(self, task: Task, plans: _Around) -> tuple[str, ...]:
        """What a task may use; where nothing is listed that is not everything."""
        named = scope_of(task, plans)
        return named if named is not None else offered(task, plans, self._tools)

    def _chosen(self, step: Step, plans: _Around) -> AgentChoice | None:
        return choose(step, plans, self._settings.agent_for, self._settings.agent)

    def _added(self, step: Step, plans: _Around) -> Iterator[Said]:
        plan = plans[0]
        yield from self._effect(None, step, plans)
        if _claims(step, self._tools):
            yield "repeatable_claimed", "is new and claims that it may be run again after a crash"
        if step.network is True:
            yield "network_allowed", "is new and may use the network"
        if unseen := _uncovered(step.writes, self._written):
            yield "path_written", f"is new and writes {listed(unseen)}, which nothing wrote before"
        strategy = _check(step)
        if isinstance(strategy, Contract) and self._checks_new[_key(strategy)] > 0:
            yield "contract_new", "is new and has a contract, which is a command too"
        policies = (policy_of(None, plan), policy_of(step.on_failure, plan))
        if not no_softer(*policies):
            yield from failure_changes(*policies)

    def _removed(self, step: Step, _: _Around) -> Iterator[Said]:
        if about(step.action).asks:
            yield "ask_removed", "asked a person, and is gone"
        elif not _only_reads(step.action, self._tools):
            yield "step_removed", f"{_did(step, self._tools)}, and is gone"
        if step.approval is not None:
            yield "approval_dropped", "asked for an approval of its own, and is gone"
        if step.preconditions:
            yield "condition_removed", f"is gone, and its {_number(len(step.preconditions), 'precondition')} with it"
        strategy = _check(step)
        if strategy is not None and self._checks_gone[_key(strategy)] > 0:
            yield "contract_removed", f"is gone, and its {_check_name(strategy)} with it"

    def _action(self, both: _Steps) -> Iterator[Said]:
        old, new = both.old, both.new
        if about(old.action).asks and type(old.action) is not type(new.action):
            yield "ask_removed", "asked a person, and does not any more"
        elif tool_name(old.action) != tool_name(new.action) and not _only_reads(old.action, self._tools):
            yield "action_replaced", f"{_did(old, self._tools)}, and does not any more"
        if _key(_without_who(old.action)) != _key(_without_who(new.action)):
            yield from self._effect(old, new, both.plans.news)
        if _claims(new, self._tools) and not _claims(old, self._tools) and old.idempotent is True:
            yield "repeatable_claimed", "claims of what it does now that it may be run again after a crash"

    def _effect(self, old: Step | None, new: Step, plans: _Around) -> Iterator[Said]:
        """What the action of a new step, or the new action of a step, does to the world."""
        choice = self._chosen(new, plans) if isinstance(new.action, Task) else None
        effect = next(effects_of(new, self._tools, choice.agent if choice is not None else ""))
        before = next(effects_of(old, self._tools)) if old is not None else None
        is_new = old is None or tool_name(old.action) != tool_name(new.action)
        doing = _doing(effect)
        if (said := about(new.action).changed) is not None:
            if not is_new:
                yield said
        elif isinstance(new.action, NestedPlan):
            return
        elif _only_reads(new.action, self._tools):
            if not is_new:
                yield "reads_changed", "reads something else; read it"
        elif effect.destructive:
            yield "destructive_effect", f"{doing}, which may destroy something"
        elif effect.kind == "command":
            yield ("command_new", "runs a command that was not there") if is_new else _ANOTHER_COMMAND
        elif effect.kind == "write" and _uncovered([effect.target], self._written):
            yield "path_written", f"{doing}, which nothing wrote before"
        elif effect.kind == "write" and (is_new or before is None or before.target != effect.target):
            yield "path_rewritten", f"{doing}, which was written before, but not by this step"
        elif effect.kind == "write":
            yield "content_changed", f"{doing} with other content; read it"
        elif is_new:
            yield "effect_new", f"{doing}, which was not there"
        else:
            yield "effect_changed", f"{doing} with other words or values"


_ANOTHER_COMMAND: Said = ("command_changed", "runs another command")


def _about(outer: str, step: Step, said: Iterable[Said]) -> Iterator[Concern]:
    for kind, words in said:
        yield Concern(kind=kind, detail=f"`{outer}{step.id}` {words}.", step=f"{outer}{step.id}")


def _nothing(_: _Steps) -> Iterator[Said]:
    return iter(())


def _differing(old: msgspec.Struct, new: msgspec.Struct, names: Iterable[str]) -> Iterator[str]:
    """The fields that are not the same in the canonical form."""
    for name in names:
        before, now = getattr(old, name), getattr(new, name)
        if before is not now and _key(before) != _key(now):
            yield name


# --- Checks ----------------------------------------------------------------------------------------------------------


def _check(step: Step) -> Strategy | None:
    """How a step is verified; None where it is not."""
    strategy = step.verification.strategy if step.verification is not None else None
    return None if isinstance(strategy, NoCheck) else strategy


def _checks(plan: Plan) -> Counter[bytes]:
    return Counter(_key(strategy) for step in all_steps(plan) if (strategy := _check(step)) is not None)


def _check_name(strategy: Strategy) -> str:
    return "contract" if isinstance(strategy, Contract) else f"verification by {strategy.__struct_config__.tag}"


def _checks_no_less(both: _Steps) -> bool:
    """Whether all that was verified still is, in no more time, and no command came with it."""
    before, now = _check(both.old), _check(both.new)
    if before is None:
        return not isinstance(now, Contract)
    if isinstance(before, Contract) and isinstance(now, Contract) and before.stdout is None:
        now = msgspec.structs.replace(now, stdout=None)
    return before == now and _at_most(*_check_timeouts(both), DEFAULTS.contract_timeout_ms)


def _check_timeouts(both: _Steps) -> tuple[int | None, int | None]:
    old, new = both.old.verification, both.new.verification
    return (old.timeout_ms if old is not None else None, new.timeout_ms if new is not None else None)


def _verification(both: _Steps) -> Iterator[Said]:
    before, now = _check(both.old), _check(both.new)
    if before is None:
        yield "contract_new", "has a contract that was not there, which is a command too"
        return
    if now is None:
        yield "contract_removed", f"has no {_check_name(before)} any more"
    elif isinstance(before, Contract) and isinstance(now, Contract):
        yield from _contract(before, now)
    elif isinstance(before, Contract):
        yield "contract_weakened", f"has no contract any more, only a {_check_name(now)}"
    elif before != now:
        yield "contract_changed", "is verified in another way; read it"
    timeouts = _check_timeouts(both)
    if now is not None and not _at_most(*timeouts, DEFAULTS.contract_timeout_ms):
        yield "timeout_raised", f"has a verification that may take longer: {_times(timeouts)}"


def _contract(old: Contract, new: Contract) -> Iterator[Said]:
    if old.exit_code == 0 and new.exit_code != 0:
        yield "contract_weakened", f"has a contract that now holds when its command fails with {new.exit_code}"
    if old.stdout is not None and new.stdout is None:
        yield "contract_weakened", "has a contract that no longer looks at its output"
    other_words = old.stdout is not None and new.stdout is not None and old.stdout != new.stdout
    other_status = old.exit_code != 0 and old.exit_code != new.exit_code
    if old.command != new.command or other_words or other_status:
        yield "contract_changed", "has another contract; read it"


# --- Steps -----------------------------------------------------------------------------------------------------------


def _only_reads(action: Action, tools: Mapping[str, ToolDefinition]) -> bool:
    tool = tools.get(action.tool) if isinstance(action, CallTool) else None
    return tool is not None and tool.effect is EffectClass.READS and not tool.destructive


def _without_who(action: Action) -> Action:
    """An action without who does it and with which tools, which are told apart."""
    return msgspec.structs.replace(action, agent=None, tools=None) if isinstance(action, Task) else action


def _claims(step: Step, tools: Mapping[str, ToolDefinition]) -> bool:
    return next(effects_of(step, tools)).claimed_repeatable


def _doing(effect: PlannedEffect) -> str:
    """What an effect is, in a few words."""
    match effect.kind:
        case "command":
            return "runs a command"
        case "write":
            return f"writes `{effect.target}`"
        case "move":
            return f"moves `{effect.target}`"
        case "delete":
            return f"deletes `{effect.target}`"
        case "request":
            return f"sends `{effect.target}`"
        case "call":
            return f"calls `{effect.target}`"
        case _:
            return f"does `{effect.tool}`" + (f" ({effect.target})" if effect.target else "")


_DID = {"write": "wrote", "move": "moved", "delete": "deleted", "request": "sent"}


def _did(step: Step, tools: Mapping[str, ToolDefinition]) -> str:
    """What a step did that does it no more."""
    if isinstance(step.action, CallTool):
        effect = next(effects_of(step, tools))
        if effect.kind == "command":
            return "ran a command"
        if effect.kind in _DID:
            return f"{_DID[effect.kind]} `{effect.target}`"
    return about(step.action).did.format(step.action)


def _when(both: _Steps) -> Iterator[Said]:
    if both.old.when is None:
        yield "condition_added", "runs only where its new `when` says so, and is skipped else"
    elif both.new.when is None:
        yield "condition_removed", "runs whatever its `when` would have said"
    else:
        yield "condition_changed", "has another `when`; read it"


def _preconditions(old: Step | Plan, new: Step | Plan) -> Iterator[Said]:
    before, now = _counted(old.preconditions), _counted(new.preconditions)
    if lost := (before - now).total():
        yield "condition_removed", f"has {_number(lost, 'precondition')} less to meet"
    if isinstance(new, Step) and (more := (now - before).total()):
        yield "condition_added", f"has {_number(more, 'precondition')} more to meet, and does not run else"


def _same_preconditions(both: _Steps) -> bool:
    return _counted(both.old.preconditions) == _counted(both.new.preconditions)


def _repetitions(both: _Steps) -> Iterator[Said]:
    old, new = both.old.for_each, both.new.for_each
    times = old.max if old is not None else 1
    if new is not None and new.max > times:
        yield "repetitions_raised", f"may be repeated {new.max} times, not {times}"
    if old is None or new is None:
        yield "repetitions_changed", "is done for each item of a list" if old is None else "is not repeated any more"
        return
    if old.source != new.source:
        yield "repetitions_changed", "is repeated for another list; read it"
    if old.batch != new.batch:
        yield "repetitions_changed", "takes another number of items at once"
    if not _at_most(old.concurrency, new.concurrency, 1):
        yield "concurrency_raised", _at_once("repetitions", old.concurrency, new.concurrency)
    if old.name != new.name:
        yield "field_changed", "calls its item by another name; read it"


def _repeats_no_more(both: _Steps) -> bool:
    """Whether it is repeated for the same list, less often or less at once."""
    old, new = both.old.for_each, both.new.for_each
    if old is None or new is None or new.max > old.max or not _at_most(old.concurrency, new.concurrency, 1):
        return False
    rest = (name for name in ForEach.__struct_fields__ if name not in ("max", "concurrency"))
    return not any(_differing(old, new, rest))


def _writes(both: _Steps) -> Iterator[Said]:
    if not both.new.writes:
        yield "writes_widened", "no longer says what it writes, and may write anything"
    else:
        yield "writes_widened", f"may also write {listed(_uncovered(both.new.writes, both.old.writes))}"


def _idempotent(both: _Steps) -> Iterator[Said]:
    if both.new.idempotent is True and _claims(both.new, both.tools):
        yield "repeatable_claimed", "claims that it may be run again after a crash"
    elif both.old.idempotent is False:
        yield "repeat_allowed", "is no longer forbidden to be run again after a crash"


def _network(both: _Steps) -> Iterator[Said]:
    said = "may use the network" if both.new.network is True else "is no longer forbidden to use the network"
    yield "network_allowed", said


def _harmless_action(both: _Steps) -> bool:
    """Whether only who does a task is another one, or what it may use; both are told apart."""
    old, new = both.old.action, both.new.action
    return isinstance(old, Task) and isinstance(new, Task) and _key(_without_who(old)) == _key(_without_who(new))


def _timeouts(both: _Steps) -> tuple[int | None, int | None]:
    return (both.old.timeout_ms or both.plans.old.timeout_ms, both.new.timeout_ms or both.plans.new.timeout_ms)


def _models(both: _Steps) -> tuple[str | None, str | None]:
    return model_of(both.old, both.plans.olds, None), model_of(both.new, both.plans.news, None)


def _policies(both: _Steps) -> tuple[StepPolicy, StepPolicy]:
    return (policy_of(both.old.on_failure, both.plans.old), policy_of(both.new.on_failure, both.plans.new))


def _lost_protection(both: _Steps) -> list[str]:
    return _uncovered(both.old.protect, (*both.new.protect, *both.plans.new.protect))


_LOOSER_NETWORK = _LOOSER_WORKTREE = {False: 0, None: 1, True: 2}

_STEP_FIELDS = tuple(name for name in Step.__struct_fields__ if name != "id")
"""Another id is a renaming."""

_STEP_HARMLESS: dict[str, Callable[[_Steps], bool]] = {
    "description": lambda _: True,
    "action": lambda both: _harmless_action(both) or _both_nested(both),
    "needs": lambda both: not both.fallback or set(both.old.needs) <= set(both.new.needs),  # else see `_loosened`
    "for_each": _repeats_no_more,
    "preconditions": _same_preconditions,
    "verification": _checks_no_less,
    "proof": lambda both: both.new.proof is not None,
    "protect": lambda both: not _lost_protection(both),
    "writes": lambda both: (
        not both.old.writes or (bool(both.new.writes) and not _uncovered(both.new.writes, both.old.writes))
    ),
    "inputs": lambda both: not _uncovered(both.old.inputs, both.new.inputs),
    "on_failure": lambda both: no_softer(*_policies(both)),
    "timeout_ms": lambda both: _at_most(*_timeouts(both), DEFAULTS.step_timeout_ms),
    "idempotent": lambda both: both.new.idempotent is False or both.old.idempotent is True,
    "approval": lambda both: both.new.approval is not None,
    "budget": lambda both: not any(_budget(both.old.budget, both.new.budget)),
    "model": lambda both: len(set(_models(both))) == 1,
    "network": lambda both: _LOOSER_NETWORK[both.new.network] < _LOOSER_NETWORK[both.old.network],
    "worktree": lambda both: _LOOSER_WORKTREE[both.new.worktree] > _LOOSER_WORKTREE[both.old.worktree],
}
"""Changes of a step's fields that only tighten or cannot matter. Nothing else is silent."""

_STEP_SAYS: dict[str, Callable[[_Steps], Iterable[Said]]] = {
    "needs": lambda both: [
        ("needs_removed", f"no longer waits for {listed(sorted(set(both.old.needs) - set(both.new.needs)))}")
    ],
    "when": _when,
    "for_each": _repetitions,
    "preconditions": lambda both: _preconditions(both.old, both.new),
    "verification": _verification,
    "proof": lambda _: [("proof_removed", "need no longer prove that its contract can fail")],
    "protect": lambda both: [("protect_narrowed", f"no longer protects {listed(_lost_protection(both))}")],
    "writes": _writes,
    "inputs": lambda both: [
        ("inputs_narrowed", f"is no longer bound to {listed(_uncovered(both.old.inputs, both.new.inputs))}")
    ],
    "on_failure": lambda both: failure_changes(*_policies(both)),
    "timeout_ms": lambda both: [("timeout_raised", f"may take longer: {_times(_timeouts(both))}")],
    "idempotent": _idempotent,
    "approval": lambda _: [("approval_dropped", "no longer asks for an approval of its own")],
    "budget": lambda both: _budget(both.old.budget, both.new.budget),
    "model": lambda both: [("model_changed", f"uses {_choice('model', _models(both)[1])}")],
    "network": _network,
    "worktree": lambda _: [("worktree_dropped", "does not work in a worktree of its own any more")],
    "pool": lambda both: [("pool_changed", f"runs on {_choice('pool', both.new.pool)}")],
}
"""What is said of the changes that are not harmless; of an action, `_Judge` says it."""


def _both_nested(both: _Steps) -> bool:
    """Plans in both are compared on their own."""
    return isinstance(both.old.action, NestedPlan) and isinstance(both.new.action, NestedPlan)


def _loosened(old: Plan, new: Plan, steps: Pairing) -> Iterator[tuple[Step, Said]]:
    """Steps that no longer wait for steps they waited for, though both are still there. What a removed step waited for
    counts as waited for by those that waited for it."""
    before, now = waits_for(old), waits_for(new)
    if before == now:
        return
    names = {one.old.id: one.new.id for one in steps.pairs}
    order = ordering(now)
    for one in steps.pairs:
        wanted = _surviving(before, one.old.id, names)
        kept = set(now[one.new.id])
        lost = [need for need in wanted if need not in kept and need != one.new.id]
        lost = [need for need in lost if not order.before(need, one.new.id)]
        if lost:
            yield one.new, ("needs_removed", f"no longer waits for {listed(lost)}")


def _surviving(needs: Needs, step: StepId, names: Mapping[StepId, StepId]) -> Iterator[StepId]:
    """What a step waited for, by the new names; the needs of removed steps in their place."""
    todo, seen = list(reversed(needs[step])), set[StepId]()
    while todo:
        need = todo.pop()
        if need in seen:
            continue
        seen.add(need)
        if need in names:
            yield names[need]
        else:
            todo.extend(reversed(needs[need]))


# --- Plans -----------------------------------------------------------------------------------------------------------


_Scope = tuple[str, ...] | None
"""Names of tools. A tool holds all its operations, `tool:operation` only one; none said is all."""


def _plan_changes(both: _Plans) -> Iterator[Said]:
    """What is said of a plan: something of each field that changed, unless it is harmless."""
    for name in _differing(both.old, both.new, _PLAN_FIELDS):
        if name in _PLAN_HARMLESS and _PLAN_HARMLESS[name](both.old, both.new):
            continue
        said = list(_PLAN_SAYS[name](both.old, both.new)) if name in _PLAN_SAYS else []
        yield from said or [("field_changed", f"has another `{name}`; read it")]


def _no_wider(old: _Scope, new: _Scope) -> bool:
    return old is None or (new is not None and not _more_tools(old, new))


def _more_tools(old: tuple[str, ...], new: tuple[str, ...]) -> list[str]:
    return [name for name in new if name not in old and name.partition(":")[0] not in old]


def _tools(old: _Scope, new: _Scope) -> Iterator[Said]:
    """What is said of a scope that has grown."""
    if new is None:
        yield "tools_widened", "may use any tool"
    elif old is not None:
        yield "tools_widened", f"may also use {listed(_more_tools(old, new))}"


def _tier(old: Plan, new: Plan) -> Iterator[Said]:
    demands = f"only tier {new.tier}, not {old.tier}" if new.tier is not None else f"no trust tier, not even {old.tier}"
    yield "tier_lowered", f"demands {demands}"


def _workspace(old: Plan, new: Plan) -> Iterator[Said]:
    now = f", but to `{new.workspace_id}`" if new.workspace_id is not None else ""
    yield "workspace_unbound", f"is no longer bound to the workspace `{old.workspace_id}`{now}"


def _parameters(old: Plan, new: Plan) -> Iterator[Said]:
    for name in dict.fromkeys((*old.params, *new.params)):
        before, now = old.params.get(name), new.params.get(name)
        if before is None or now is None:
            yield "parameter_changed", f"has {'a new' if before is None else 'no'} parameter `{name}`"
            continue
        for field in _differing(before, now, _PARAMETER_FIELDS):
            yield "parameter_changed", f"has another `{field}` of the parameter `{name}`; read it"


_PARAMETER_FIELDS = tuple(name for name in Parameter.__struct_fields__ if name != "description")
"""A description of a parameter is for readers only."""

_PLAN_FIELDS = tuple(name for name in Plan.__struct_fields__ if name not in ("steps", "fallbacks"))

_PLAN_HARMLESS: dict[str, Callable[[Plan, Plan], bool]] = {
    "title": lambda *_: True,
    "preconditions": lambda old, new: _counted(old.preconditions) <= _counted(new.preconditions),
    "on_failure": lambda old, new: no_softer(policy_of(None, old), policy_of(None, new)),
    "tools": lambda old, new: _no_wider(old.tools, new.tools),
    "protect": lambda old, new: not _uncovered(old.protect, new.protect),
    "budget": lambda old, new: not any(_budget(old.budget, new.budget)),
    "tier": lambda old, new: old.tier is None or (new.tier is not None and new.tier >= old.tier),
    "params": lambda old, new: not any(_parameters(old, new)),
    "timeout_ms": lambda old, new: _at_most(old.timeout_ms, new.timeout_ms, DEFAULTS.step_timeout_ms),
    "concurrency": lambda old, new: _at_most(old.concurrency, new.concurrency, DEFAULTS.concurrency),
    "workspace_id": lambda old, _: old.workspace_id is None,
}
"""Changes of a plan's own fields that only tighten or cannot matter. Nothing else is silent."""

_PLAN_SAYS: dict[str, Callable[[Plan, Plan], Iterable[Said]]] = {
    "task": lambda *_: [("instructions_changed", "gives agents another `task`; read it")],
    "context": lambda *_: [("instructions_changed", "gives agents another `context`; read it")],
    "preconditions": _preconditions,
    "on_failure": lambda old, new: failure_changes(policy_of(None, old), policy_of(None, new)),
    "tools": lambda old, new: _tools(old.tools, new.tools),
    "protect": lambda old, new: [
        ("protect_narrowed", f"no longer protects {listed(_uncovered(old.protect, new.protect))}")
    ],
    "budget": lambda old, new: _budget(old.budget, new.budget),
    "tier": _tier,
    "params": _parameters,
    "agent": lambda _, new: [("agent_changed", f"gives its tasks to {_choice('agent', new.agent)}")],
    "model": lambda _, new: [("model_changed", f"uses {_choice('model', new.model)}")],
    "timeout_ms": lambda old, new: [
        ("timeout_raised", f"lets a step take longer: {_times((old.timeout_ms, new.timeout_ms))}")
    ],
    "concurrency": lambda old, new: [("concurrency_raised", _at_once("steps", old.concurrency, new.concurrency))],
    "workspace_id": _workspace,
}
"""What is said of the changes that are not harmless."""


# --- Limits ----------------------------------------------------------------------------------------------------------


def _at_most(old: int | None, new: int | None, unsaid: int) -> bool:
    """Whether a limit is no higher than it was. An absent one was this high, and is now as high as can be."""
    return old == new or (new is not None and new <= (old if old is not None else unsaid))


def _times(timeouts: tuple[int | None, int | None]) -> str:
    old, new = (f"{time / 1000:g} s" if time is not None else "as the configuration says" for time in timeouts)
    return f"{new}, not {old}"


def _at_once(what: str, old: int | None, new: int | None) -> str:
    before = f", not {old}" if old is not None else ", where nothing was said"
    return f"may run {new if new is not None else 'any number of'} {what} at once{before}"


def _budget(old: Budget | None, new: Budget | None) -> Iterator[Said]:
    for name in Budget.__struct_fields__ if old is not None else ():
        limit, now = getattr(old, name), getattr(new, name, None)
        if limit is not None and (now is None or now > limit):
            change = f"raised from {limit} to {now}" if now is not None else f"taken away ({limit})"
            yield "budget_raised", f"has its limit of {name} {change}"


# --- Words -----------------------------------------------------------------------------------------------------------


def _key(value: Any) -> bytes:
    return canonical_bytes(value)


def _counted(values: Iterable[Any]) -> Counter[bytes]:
    return Counter(_key(value) for value in values)


def _uncovered(patterns: Iterable[str], by: Iterable[str]) -> list[str]:
    """The patterns that are neither among these nor in a whole directory among them; nobody knows where `..` leads."""
    known = set(by)
    whole = {pattern.removesuffix("**") for pattern in known if pattern.endswith("/**") or pattern == "**"}
    whole |= {pattern for pattern in known if pattern.endswith("/")}
    return [
        pattern
        for pattern in patterns
        if pattern not in known and (".." in pattern.split("/") or not pattern.startswith(tuple(whole)))
    ]


def _number(count: int, word: str) -> str:
    return f"{count} {word}{'s' * (count != 1)}"


def _choice(kind: str, name: str | None) -> str:
    return f"the {kind} `{name}`" if name is not None else f"no named {kind}"
