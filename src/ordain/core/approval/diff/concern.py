"""What an approver should read first in a changed plan: whatever lets it do more, check less or ask less.

Of the settings only those count that say who performs tasks; built-in values stand for what else a plan leaves open.
Which way a field goes is in `direction`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import get_args

import msgspec

from ordain.core.approval.diff.direction import (
    PLAN,
    STEP,
    Around,
    Both,
    changes,
    check_name,
    check_of_step,
    choice,
    claims,
    failure_changes,
    more_tools,
    number,
    policy_of,
    uncovered,
    unread,
)
from ordain.core.approval.diff.pairing import Pairing, pair
from ordain.core.lint.survey import Needs, waits_for
from ordain.core.plan.action import CallTool, Task
from ordain.core.plan.canonical import canonical_bytes
from ordain.core.plan.condition import Contract
from ordain.core.plan.graph import Order
from ordain.core.plan.model import Action, Plan, Step, all_steps, nested_plan_of
from ordain.core.plan.role import ConcernKind, EffectClass, Said, about, listed
from ordain.core.plan.tool import ToolDefinition, tool_name
from ordain.core.plan.value import StepId
from ordain.core.policy.agent import AgentChoice, choose
from ordain.core.policy.effect import PlannedEffect, effects_of, planned_effects
from ordain.core.policy.scope import offered, scope_of
from ordain.core.policy.settings import DEFAULTS, Settings

_RANK = {kind: rank for rank, kind in enumerate(get_args(ConcernKind))}
_ANOTHER_COMMAND: Said = ("command_changed", "runs another command")


class Concern(msgspec.Struct, frozen=True, kw_only=True):
    """One thing to read first. A step of a nested plan is named `outer/inner`; without a step it is the plan's own."""

    kind: ConcernKind
    detail: str
    step: str | None = None


def concerns(
    old: Plan, new: Plan, tools: Mapping[str, ToolDefinition], settings: Settings = DEFAULTS
) -> tuple[Concern, ...]:
    """Everything that may let the new plan do more, check less or ask less; the most dangerous first."""
    found = _PlanComparison(old, new, tools, settings).judged((old,), (new,))
    return tuple(sorted(found, key=lambda concern: _RANK[concern.kind]))


class _PlanComparison:
    """Compares two whole plans, down into the plans nested in both."""

    def __init__(self, old: Plan, new: Plan, tools: Mapping[str, ToolDefinition], settings: Settings) -> None:
        self._tools, self._settings = tools, settings
        self._written = {effect.target for effect in planned_effects(old, tools) if effect.kind == "write"}
        self._written |= {pattern for step in all_steps(old) for pattern in step.writes}
        # A check that left with one step and came back with another is neither gone nor new.
        checks, checks_before = _checks(new), _checks(old)
        self._checks_new, self._checks_gone = checks - checks_before, checks_before - checks

    def judged(self, olds: Around, news: Around, outer: str = "") -> Iterator[Concern]:
        """Concerns about a plan and everything in it; `outer` leads to the step it is nested in."""
        around, old, new = outer.removesuffix("/"), olds[0], news[0]
        for kind, said in changes(Both(old, new, olds, news), PLAN):
            yield Concern(
                kind=kind, detail=f"The plan{f' in `{around}`' if around else ''} {said}.", step=around or None
            )
        steps, fallbacks = pair(old.steps, new.steps), pair(old.fallbacks, new.fallbacks)
        for one, fallback in (*((one, False) for one in steps.pairs), *((one, True) for one in fallbacks.pairs)):
            both = Both(one.old, one.new, olds, news, self._tools, fallback)
            if one.old is not one.new:
                yield from _about(outer, one.new, self._changed(both))
            yield from _about(outer, one.new, self._reach(both))
            inner, before, now = f"{outer}{one.new.id}/", nested_plan_of(one.old), nested_plan_of(one.new)
            if before is not None and now is not None:
                yield from self.judged((before, *olds), (now, *news), inner)
            elif before is not None:
                yield from self._all_of(self._removed, inner, (before, *olds))
            elif now is not None:
                yield from self._all_of(self._added, inner, (now, *news))
        for _, step in (*steps.added, *fallbacks.added):
            yield from self._nested(self._added, outer, step, news)
        for _, step in (*steps.removed, *fallbacks.removed):
            yield from self._nested(self._removed, outer, step, olds)
        yield from (concern for step, said in _loosened(old, new, steps) for concern in _about(outer, step, [said]))

    def _nested(
        self, judge: Callable[[Step, Around], Iterable[Said]], outer: str, step: Step, plans: Around
    ) -> Iterator[Concern]:
        """What is said of a step that only one of the plans has, and of the steps of a plan in it."""
        yield from _about(outer, step, judge(step, plans))
        if (inner := nested_plan_of(step)) is not None:
            yield from self._all_of(judge, f"{outer}{step.id}/", (inner, *plans))

    def _all_of(self, judge: Callable[[Step, Around], Iterable[Said]], outer: str, plans: Around) -> Iterator[Concern]:
        for inner in (*plans[0].steps, *plans[0].fallbacks):
            yield from self._nested(judge, outer, inner, plans)

    def _changed(self, both: Both) -> Iterator[Said]:
        """What is said of a step in both plans. Plans in both are compared on their own, and so is who does a task."""
        old, new = _without_who(both.old.action), _without_who(both.new.action)
        both_nested = nested_plan_of(both.old) is not None and nested_plan_of(both.new) is not None
        if not both_nested and canonical_bytes(old) != canonical_bytes(new):
            yield from list(self._action(both)) or [unread("action")]
        yield from changes(both, STEP)
        yield from self._agent(both)

    def _agent(self, both: Both) -> Iterator[Said]:
        """That another one performs a task, unless only a plan names another one: that is said of the plan."""
        old, new = both.old, both.new
        if not isinstance(old.action, Task) or not isinstance(new.action, Task):
            return
        before, now = self._chosen(old, both.olds), self._chosen(new, both.news)
        by_plan = [one.agent for one in both.olds] != [one.agent for one in both.news]
        own = old.action.agent or new.action.agent
        if (before and before.agent) != (now and now.agent) and (own or not by_plan):
            why = f", because {now.why}" if now is not None and not new.action.agent else ""
            yield "agent_changed", f"is given to {choice('agent', now.agent if now is not None else None)}{why}"

    def _reach(self, both: Both) -> Iterator[Said]:
        """That the agent of a task may use more, unless only a plan lists others: that is said of the plan."""
        old, new = both.old.action, both.new.action
        if not isinstance(old, Task) or not isinstance(new, Task):
            return
        by_plan = old.tools is None and new.tools is None and scope_of(old, both.olds) is not None
        more = more_tools(self._usable(old, both.olds), self._usable(new, both.news))
        if more and not by_plan:
            yield "tools_widened", f"may also use {listed(more)}"

    def _usable(self, task: Task, plans: Around) -> tuple[str, ...]:
        named = scope_of(task, plans)
        return named if named is not None else offered(task, plans, self._tools)

    def _chosen(self, step: Step, plans: Around) -> AgentChoice | None:
        return choose(step, plans, self._settings.agent_for, self._settings.agent)

    def _added(self, step: Step, plans: Around) -> Iterator[Said]:
        yield from self._effect(None, step, plans)
        if claims(step, self._tools):
            yield "repeatable_claimed", "is new and claims that it may be run again after a crash"
        if step.network is True:
            yield "network_allowed", "is new and may use the network"
        if unseen := uncovered(step.writes, self._written):
            yield "path_written", f"is new and writes {listed(unseen)}, which nothing wrote before"
        strategy = check_of_step(step)
        if isinstance(strategy, Contract) and self._checks_new[canonical_bytes(strategy)] > 0:
            yield "contract_new", "is new and has a contract, which is a command too"
        yield from failure_changes(policy_of(None, plans[0]), policy_of(step.on_failure, plans[0]))

    def _removed(self, step: Step, _: Around) -> Iterator[Said]:
        if about(step.action).asks:
            yield "ask_removed", "asked a person, and is gone"
        elif not _only_reads(step.action, self._tools):
            yield "step_removed", f"{_did(step, self._tools)}, and is gone"
        if step.approval is not None:
            yield "approval_dropped", "asked for an approval of its own, and is gone"
        if step.preconditions:
            yield "condition_removed", f"is gone, and its {number(len(step.preconditions), 'precondition')} with it"
        strategy = check_of_step(step)
        if strategy is not None and self._checks_gone[canonical_bytes(strategy)] > 0:
            yield "contract_removed", f"is gone, and its {check_name(strategy)} with it"

    def _action(self, both: Both) -> Iterator[Said]:
        old, new = both.old, both.new
        if about(old.action).asks and type(old.action) is not type(new.action):
            yield "ask_removed", "asked a person, and does not any more"
        elif tool_name(old.action) != tool_name(new.action) and not _only_reads(old.action, self._tools):
            yield "action_replaced", f"{_did(old, self._tools)}, and does not any more"
        yield from self._effect(old, new, both.news)
        if claims(new, self._tools) and not claims(old, self._tools) and old.idempotent is True:
            yield "repeatable_claimed", "claims of what it does now that it may be run again after a crash"

    def _effect(self, old: Step | None, new: Step, plans: Around) -> Iterator[Said]:
        """What the action of a new step, or the new action of a step, does to the world."""
        choice = self._chosen(new, plans) if isinstance(new.action, Task) else None
        effect = next(effects_of(new, self._tools, choice.agent if choice is not None else ""))
        before = next(effects_of(old, self._tools)) if old is not None else None
        is_new = old is None or tool_name(old.action) != tool_name(new.action)
        doing = _doing(effect)
        if (said := about(new.action).changed) is not None:
            if not is_new:
                yield said
        elif nested_plan_of(new) is not None:
            return
        elif _only_reads(new.action, self._tools):
            if not is_new:
                yield "reads_changed", "reads something else; read it"
        elif effect.destructive:
            yield "destructive_effect", f"{doing}, which may destroy something"
        elif effect.kind == "command":
            yield ("command_new", "runs a command that was not there") if is_new else _ANOTHER_COMMAND
        elif effect.kind == "write" and uncovered([effect.target], self._written):
            yield "path_written", f"{doing}, which nothing wrote before"
        elif effect.kind == "write" and (is_new or before is None or before.target != effect.target):
            yield "path_rewritten", f"{doing}, which was written before, but not by this step"
        elif effect.kind == "write":
            yield "content_changed", f"{doing} with other content; read it"
        elif is_new:
            yield "effect_new", f"{doing}, which was not there"
        else:
            yield "effect_changed", f"{doing} with other words or values"


def _about(outer: str, step: Step, said: Iterable[Said]) -> Iterator[Concern]:
    for kind, words in said:
        yield Concern(kind=kind, detail=f"`{outer}{step.id}` {words}.", step=f"{outer}{step.id}")


def _checks(plan: Plan) -> Counter[bytes]:
    return Counter(canonical_bytes(one) for step in all_steps(plan) if (one := check_of_step(step)) is not None)


def _only_reads(action: Action, tools: Mapping[str, ToolDefinition]) -> bool:
    tool = tools.get(action.tool) if isinstance(action, CallTool) else None
    return tool is not None and tool.effect is EffectClass.READS and not tool.destructive


def _without_who(action: Action) -> Action:
    """An action without who does it and with which tools, which are told apart."""
    return msgspec.structs.replace(action, agent=None, tools=None) if isinstance(action, Task) else action


_VERBS = {
    "command": ("runs a command", "ran a command"),
    "write": ("writes `{}`", "wrote `{}`"),
    "move": ("moves `{}`", "moved `{}`"),
    "delete": ("deletes `{}`", "deleted `{}`"),
    "request": ("sends `{}`", "sent `{}`"),
    "call": ("calls `{}`", ""),
}
"""By the kind of an effect: what a step does, and what it did where its action does not say that better."""


def _doing(effect: PlannedEffect) -> str:
    if effect.kind in _VERBS:
        return _VERBS[effect.kind][0].format(effect.target)
    return f"does `{effect.tool}`" + (f" ({effect.target})" if effect.target else "")


def _did(step: Step, tools: Mapping[str, ToolDefinition]) -> str:
    if isinstance(step.action, CallTool):
        effect = next(effects_of(step, tools))
        if did := _VERBS.get(effect.kind, ("", ""))[1]:
            return did.format(effect.target)
    return about(step.action).did.format(step.action)


def _loosened(old: Plan, new: Plan, steps: Pairing) -> Iterator[tuple[Step, Said]]:
    """Steps that no longer wait for steps they waited for, though both are still there."""
    before, now = waits_for(old), waits_for(new)
    if before == now:
        return
    names = {one.old.id: one.new.id for one in steps.pairs}
    order = Order(now)
    for one in steps.pairs:
        name = one.new.id
        wanted = (need for need in _surviving(before, one.old.id, names) if need not in (name, *now[name]))
        if lost := [need for need in wanted if not order.before(need, name)]:
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
