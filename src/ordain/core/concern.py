"""What an approver should read first in a changed plan: whatever lets it do more, check less or ask less.

Computed from the plans and the tool registry, never from prose. A change that only tightens is no concern. Where it
cannot be told which way a change goes, as with another command, it is a concern: a person has to read it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Literal, get_args

import msgspec

from ordain.core.action import Ask, CallTool, Task, ValidateApproval
from ordain.core.canonical import canonical_bytes
from ordain.core.condition import Contract, NoCheck, Strategy
from ordain.core.failure import Abort, Continue, LastPolicy, Retry, Skip
from ordain.core.model import Action, Budget, NestedPlan, Plan, Step, all_steps
from ordain.core.pairing import Pairing, pair
from ordain.core.policy import PlannedEffect, effects_of, planned_effects
from ordain.core.tool import EffectClass, ToolDefinition, tool_name
from ordain.core.value import StepId
from ordain.core.waves import Needs, ordering, waits_for

__all__ = ["Concern", "ConcernKind", "concerns"]

ConcernKind = Literal[
    "destructive_effect",
    "contract_removed",
    "contract_weakened",
    "proof_removed",
    "protect_narrowed",
    "tools_widened",
    "writes_widened",
    "network_allowed",
    "tier_lowered",
    "approval_dropped",
    "ask_removed",
    "condition_removed",
    "repeatable_claimed",
    "failure_softened",
    "worktree_dropped",
    "budget_raised",
    "repetitions_raised",
    "command_new",
    "path_written",
    "effect_new",
    "command_changed",
    "effect_changed",
    "condition_changed",
    "contract_new",
    "contract_changed",
    "needs_removed",
    "agent_changed",
    "model_changed",
    "pool_changed",
]
"""What can be wrong with a change, the most dangerous first; the order of the list is the order of showing."""

_RANK = {kind: rank for rank, kind in enumerate(get_args(ConcernKind))}


class Concern(msgspec.Struct, frozen=True, kw_only=True):
    """One thing to read first. A step of a nested plan is named `outer/inner`; without a step it is the plan's own."""

    kind: ConcernKind
    detail: str
    step: str | None = None


def concerns(old: Plan, new: Plan, tools: Mapping[str, ToolDefinition]) -> tuple[Concern, ...]:
    """Everything that lets the new plan do more, check less or ask less than the old one; the most dangerous first."""
    found = _Judge(old, new, tools).judged(old, new)
    return tuple(sorted(found, key=lambda concern: _RANK[concern.kind]))


_Said = tuple[ConcernKind, str]
"""A kind, and what is said of a step or a plan, to follow its name."""


class _Judge:
    """Compares two whole plans, down into the plans nested in both."""

    def __init__(self, old: Plan, new: Plan, tools: Mapping[str, ToolDefinition]) -> None:
        self._tools = tools
        self._written = {effect.target for effect in planned_effects(old, tools) if effect.kind == "write"}
        self._written |= {pattern for step in all_steps(old) for pattern in step.writes}
        # A check that left with one step and came back with another is neither gone nor new.
        checks, checks_before = _checks(new), _checks(old)
        self._checks_new, self._checks_gone = checks - checks_before, checks_before - checks

    def judged(self, old: Plan, new: Plan, outer: str = "") -> Iterator[Concern]:
        """Concerns about a plan and everything in it; `outer` leads to the step it is nested in."""
        around = outer.removesuffix("/")
        for kind, said in _plan_changes(old, new):
            yield Concern(
                kind=kind, detail=f"The plan{f' in `{around}`' if around else ''} {said}.", step=around or None
            )
        steps, fallbacks = pair(old.steps, new.steps), pair(old.fallbacks, new.fallbacks)
        for one in (*steps.pairs, *fallbacks.pairs):
            if one.old is not one.new:
                yield from _about(outer, one.new, self._changed(old, new, one.old, one.new))
            if isinstance(one.old.action, NestedPlan) and isinstance(one.new.action, NestedPlan):
                yield from self.judged(one.old.action.plan, one.new.action.plan, f"{outer}{one.new.id}/")
        for _, step in (*steps.added, *fallbacks.added):
            yield from self._nested(self._added, outer, step)
        for _, step in (*steps.removed, *fallbacks.removed):
            yield from self._nested(self._removed, outer, step)
        yield from (concern for step, said in _loosened(old, new, steps) for concern in _about(outer, step, [said]))

    def _nested(self, judge: Callable[[Step], Iterable[_Said]], outer: str, step: Step) -> Iterator[Concern]:
        """What is said of a step that only one of the plans has, and of the steps of a plan in it."""
        yield from _about(outer, step, judge(step))
        if isinstance(step.action, NestedPlan):
            for inner in (*step.action.plan.steps, *step.action.plan.fallbacks):
                yield from self._nested(judge, f"{outer}{step.id}/", inner)

    def _changed(self, old_plan: Plan, new_plan: Plan, old: Step, new: Step) -> Iterator[_Said]:
        if _asks(old.action) and type(old.action) is not type(new.action):
            yield "ask_removed", "asked a person, and does not any more"
        if _key(_without_who(old.action)) != _key(_without_who(new.action)):
            yield from self._effect(new, is_new=tool_name(old.action) != tool_name(new.action))
        if _claims(new, self._tools) and not _claims(old, self._tools):
            yield "repeatable_claimed", "claims that it may be run again after a crash"
        yield from _verification(old, new)
        yield from _step_changes(old_plan, new_plan, old, new)

    def _added(self, step: Step) -> Iterator[_Said]:
        yield from self._effect(step, is_new=True)
        if _claims(step, self._tools):
            yield "repeatable_claimed", "is new and claims that it may be run again after a crash"
        if step.network is True:
            yield "network_allowed", "is new and may use the network"
        if unseen := _uncovered(step.writes, self._written):
            yield "path_written", f"is new and writes {_list(unseen)}, which nothing wrote before"
        strategy = _check(step)
        if isinstance(strategy, Contract) and self._checks_new[_key(strategy)] > 0:
            yield "contract_new", "is new and has a contract, which is a command too"

    def _removed(self, step: Step) -> Iterator[_Said]:
        if _asks(step.action):
            yield "ask_removed", "asked a person, and is gone"
        strategy = _check(step)
        if strategy is not None and self._checks_gone[_key(strategy)] > 0:
            yield "contract_removed", f"is gone, and its {_check_name(strategy)} with it"

    def _effect(self, step: Step, *, is_new: bool) -> Iterator[_Said]:
        """What the action of a new step, or the new action of a step, does to the world."""
        effect = next(effects_of(step, self._tools))
        if effect.effect is EffectClass.READS or isinstance(step.action, NestedPlan):
            return
        doing = _doing(effect)
        if effect.destructive:
            yield "destructive_effect", f"{doing}, which may destroy something"
        elif effect.kind == "command" and is_new:
            yield "command_new", "runs a command that was not there"
        elif effect.kind == "command":
            yield "command_changed", "runs another command"
        elif effect.kind == "write" and _uncovered([effect.target], self._written):
            yield "path_written", f"{doing}, which nothing wrote before"
        elif effect.effect is EffectClass.OPAQUE and is_new:
            yield "effect_new", f"{doing}, which was not there"
        elif effect.effect is EffectClass.OPAQUE:
            yield "effect_changed", f"{doing} with other words or values"


def _about(outer: str, step: Step, said: Iterable[_Said]) -> Iterator[Concern]:
    for kind, words in said:
        yield Concern(kind=kind, detail=f"`{outer}{step.id}` {words}.", step=f"{outer}{step.id}")


# --- Checks ----------------------------------------------------------------------------------------------------------


def _check(step: Step) -> Strategy | None:
    """How a step is verified; None where it is not."""
    strategy = step.verification.strategy if step.verification is not None else None
    return None if isinstance(strategy, NoCheck) else strategy


def _checks(plan: Plan) -> Counter[bytes]:
    return Counter(_key(strategy) for step in all_steps(plan) if (strategy := _check(step)) is not None)


def _check_name(strategy: Strategy) -> str:
    return "contract" if isinstance(strategy, Contract) else f"verification by {strategy.__struct_config__.tag}"


def _verification(old: Step, new: Step) -> Iterator[_Said]:
    before, now = _check(old), _check(new)
    if old.proof is not None and new.proof is None:
        yield "proof_removed", "need no longer prove that its contract can fail"
    if before is None:
        if isinstance(now, Contract):
            yield "contract_new", "has a contract that was not there, which is a command too"
    elif now is None:
        yield "contract_removed", f"has no {_check_name(before)} any more"
    elif isinstance(before, Contract) and isinstance(now, Contract):
        yield from _contract(before, now)
    elif isinstance(before, Contract):
        yield "contract_weakened", f"has no contract any more, only a {_check_name(now)}"
    elif before != now:
        yield "contract_changed", "is verified in another way; read it"


def _contract(old: Contract, new: Contract) -> Iterator[_Said]:
    if old.exit_code == 0 and new.exit_code != 0:
        yield "contract_weakened", f"has a contract that now holds when its command fails with {new.exit_code}"
    if old.stdout is not None and new.stdout is None:
        yield "contract_weakened", "has a contract that no longer looks at its output"
    other_words = old.stdout is not None and new.stdout is not None and old.stdout != new.stdout
    other_status = old.exit_code != 0 and old.exit_code != new.exit_code
    if old.command != new.command or other_words or other_status:
        yield "contract_changed", "has another contract; read it"


# --- Steps -----------------------------------------------------------------------------------------------------------


def _asks(action: Action) -> bool:
    """Whether an action makes the run wait for a person."""
    return isinstance(action, Ask | ValidateApproval)


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
        case "call":
            return f"calls `{effect.target}`"
        case _:
            return f"does `{effect.tool}`" + (f" ({effect.target})" if effect.target else "")


def _step_changes(old_plan: Plan, new_plan: Plan, old: Step, new: Step) -> Iterator[_Said]:
    if lost := _uncovered(old.protect, (*new.protect, *new_plan.protect)):
        yield "protect_narrowed", f"no longer protects {_list(lost)}"
    if old.writes and not new.writes and not isinstance(new.action, CallTool):
        yield "writes_widened", "no longer says what it writes, and may write anything"
    elif old.writes and (more := _uncovered(new.writes, old.writes)):
        yield "writes_widened", f"may also write {_list(more)}"
    if new.network is True and old.network is not True:
        yield "network_allowed", "may use the network"
    elif old.network is False and new.network is None:
        yield "network_allowed", "is no longer forbidden to use the network"
    if old.approval is not None and new.approval is None:
        yield "approval_dropped", "no longer asks for an approval of its own"
    if lost_conditions := sum((_counted(old.preconditions) - _counted(new.preconditions)).values()):
        yield "condition_removed", f"has {_number(lost_conditions, 'precondition')} less to meet"
    if old.when is not None and new.when is None:
        yield "condition_removed", "runs whatever its `when` would have said"
    elif old.when is not None and old.when != new.when:
        yield "condition_changed", "has another `when`; read it"
    if old.on_failure != new.on_failure:
        yield from _failure(_last(old, old_plan), _last(new, new_plan))
    if (old.worktree is True and new.worktree is not True) or (new.worktree is False and old.worktree is None):
        yield "worktree_dropped", "does not work in a worktree of its own any more"
    yield from _budget(old.budget, new.budget)
    repetitions = old.for_each.max if old.for_each is not None else 1
    if new.for_each is not None and new.for_each.max > repetitions:
        yield "repetitions_raised", f"may be repeated {new.for_each.max} times, not {repetitions}"
    if isinstance(old.action, Task) and isinstance(new.action, Task):
        yield from _task_changes(old_plan, new_plan, old.action, new.action)
    models = (old.model or old_plan.model, new.model or new_plan.model)
    if old.model != new.model and models[0] != models[1]:
        yield "model_changed", f"uses {_choice('model', models[1])}"
    if old.pool != new.pool:
        yield "pool_changed", f"runs on {_choice('pool', new.pool)}"


def _task_changes(old_plan: Plan, new_plan: Plan, old: Task, new: Task) -> Iterator[_Said]:
    if old.tools != new.tools:
        scopes = [
            task.tools if task.tools is not None else plan.tools for task, plan in ((old, old_plan), (new, new_plan))
        ]
        yield from _tools(scopes[0], scopes[1])
    agents = (old.agent or old_plan.agent, new.agent or new_plan.agent)
    if old.agent != new.agent and agents[0] != agents[1]:
        yield "agent_changed", f"is given to {_choice('agent', agents[1])}"


def _loosened(old: Plan, new: Plan, steps: Pairing) -> Iterator[tuple[Step, _Said]]:
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
            yield one.new, ("needs_removed", f"no longer waits for {_list(lost)}")


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


def _plan_changes(old: Plan, new: Plan) -> Iterator[_Said]:
    if lost := _uncovered(old.protect, new.protect):
        yield "protect_narrowed", f"no longer protects {_list(lost)}"
    yield from _tools(old.tools, new.tools)
    if old.tier is not None and (new.tier is None or new.tier < old.tier):
        demands = (
            f"only tier {new.tier}, not {old.tier}" if new.tier is not None else f"no trust tier, not even {old.tier}"
        )
        yield "tier_lowered", f"demands {demands}"
    if lost_conditions := sum((_counted(old.preconditions) - _counted(new.preconditions)).values()):
        yield "condition_removed", f"has {_number(lost_conditions, 'precondition')} less to meet"
    yield from _failure(_plan_last(old), _plan_last(new))
    yield from _budget(old.budget, new.budget)
    if old.agent != new.agent:
        yield "agent_changed", f"gives its tasks to {_choice('agent', new.agent)}"
    if old.model != new.model:
        yield "model_changed", f"uses {_choice('model', new.model)}"


def _tools(old: tuple[str, ...] | None, new: tuple[str, ...] | None) -> Iterator[_Said]:
    """Whether a scope has grown. A tool holds all its operations, `tool:operation` only one; none said is all."""
    if old is None:
        return
    if new is None:
        yield "tools_widened", "may use any tool"
    elif more := [name for name in new if name not in old and name.partition(":")[0] not in old]:
        yield "tools_widened", f"may also use {_list(more)}"


def _plan_last(plan: Plan) -> LastPolicy:
    """What follows in the end when a step that says nothing fails: to abort, where the plan says nothing either."""
    policy = plan.on_failure.then if isinstance(plan.on_failure, Retry) else plan.on_failure
    return policy if policy is not None else Abort()


def _last(step: Step, plan: Plan) -> LastPolicy:
    policy = step.on_failure.then if isinstance(step.on_failure, Retry) else step.on_failure
    return policy if policy is not None else _plan_last(plan)


def _failure(old: LastPolicy, new: LastPolicy) -> Iterator[_Said]:
    """Whether a failure that stopped the run, or its dependents, now lets them go on."""
    if isinstance(new, Skip) and not isinstance(old, Skip):
        yield "failure_softened", "goes on after a failure as if it had been skipped"
    elif isinstance(new, Continue) and not isinstance(old, Skip | Continue):
        yield "failure_softened", "goes on after a failure with what does not depend on it"


def _budget(old: Budget | None, new: Budget | None) -> Iterator[_Said]:
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
    """The patterns that are neither among these nor in a whole directory among them."""
    known = set(by)
    whole = {pattern.removesuffix("**") for pattern in known if pattern.endswith("/**") or pattern == "**"}
    whole |= {pattern for pattern in known if pattern.endswith("/")}
    return [pattern for pattern in patterns if pattern not in known and not pattern.startswith(tuple(whole))]


def _list(names: Iterable[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)


def _number(count: int, word: str) -> str:
    return f"{count} {word}{'s' * (count != 1)}"


def _choice(kind: str, name: str | None) -> str:
    return f"the {kind} `{name}`" if name is not None else f"no named {kind}"
