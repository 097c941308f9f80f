"""Which way a change of a field goes: what it loosens, and nothing where it only tightens or cannot matter.

Each field of a step and of a plan has one direction, in two tables below. A person must read a field without one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, assert_never

import msgspec

from ordain.core.plan.canonical import canonical_bytes
from ordain.core.plan.condition import Contract, NoCheck, Strategy
from ordain.core.plan.failure import (
    Abort,
    AskApproval,
    Continue,
    Escalate,
    FailurePolicy,
    Fallback,
    LastPolicy,
    Recover,
    Replan,
    Retry,
    Skip,
)
from ordain.core.plan.model import Parameter, Plan, Step
from ordain.core.plan.role import ConcernKind, Said, listed
from ordain.core.plan.tool import ToolDefinition
from ordain.core.policy.agent import model_of
from ordain.core.policy.effect import effects_of
from ordain.core.policy.settings import DEFAULTS

Around = tuple[Plan, ...]
"""A plan, and after it those that it is nested in, from the inside out."""


class Both(msgspec.Struct, frozen=True):
    """A step, or a plan, as it was and as it is; after each the plans that it lies in. A plan lies in itself."""

    old: Any
    new: Any
    olds: Around
    news: Around
    tools: Mapping[str, ToolDefinition] = {}
    fallback: bool = False


Direction = Callable[[Both], Iterable[Said]]


def changes(both: Both, directions: Mapping[str, Direction]) -> Iterator[Said]:
    """What is said of every field that changed, in the order of the fields."""
    names = (name for name in both.new.__struct_fields__ if directions.get(name) is not _silent)
    for name in differing(both.old, both.new, names):
        yield from directions[name](both) if name in directions else [unread(name)]


def unread(name: str) -> Said:
    """What is said where nobody can tell which way a change goes."""
    return "field_changed", f"has another `{name}`; read it"


def differing(old: msgspec.Struct, new: msgspec.Struct, names: Iterable[str]) -> Iterator[str]:
    """The fields that are not the same in the canonical form."""
    for name in names:
        before, now = getattr(old, name), getattr(new, name)
        if before is not now and canonical_bytes(before) != canonical_bytes(now):
            yield name


# --- Directions ------------------------------------------------------------------------------------------------------


def _silent(both: Both) -> Iterator[Said]:
    """It cannot matter, or is told elsewhere."""
    return iter(())


def _always(kind: ConcernKind, words: str) -> Direction:
    """Any change must be read."""
    return lambda both: [(kind, words)]


def _named(kind: ConcernKind, field: str, doing: str) -> Direction:
    return lambda both: [(kind, f"{doing} {choice(field, getattr(both.new, field))}")]


def _demanded(field: str, kind: ConcernKind, words: str) -> Direction:
    """To say it is tighter than not to say it."""
    return lambda both: [(kind, words)] if getattr(both.new, field) is None else []


def _limit(field: str, unsaid: int, kind: ConcernKind, say: Callable[[int | None, int | None], str]) -> Direction:
    """Lower is tighter. A plan's limit counts for its steps."""

    def loosened(both: Both) -> Iterator[Said]:
        old = getattr(both.old, field) or getattr(both.olds[0], field)
        new = getattr(both.new, field) or getattr(both.news[0], field)
        if not at_most(old, new, unsaid):
            yield kind, say(old, new)

    return loosened


def _timeout(words: str) -> Direction:
    default = DEFAULTS.step_timeout_ms
    return _limit("timeout_ms", default, "timeout_raised", lambda old, new: f"{words}: {_times(old, new)}")


def _kept(field: str, kind: ConcernKind, words: str, *, by_plan: bool = False) -> Direction:
    """Fewer patterns are looser; `by_plan` where those of the plan count too."""

    def loosened(both: Both) -> Iterator[Said]:
        now = (*getattr(both.new, field), *(getattr(both.news[0], field) if by_plan else ()))
        if lost := uncovered(getattr(both.old, field), now):
            yield kind, f"{words} {listed(lost)}"

    return loosened


def at_most(old: int | None, new: int | None, unsaid: int) -> bool:
    """Whether a limit is no higher than it was. An absent one was this high, and is now as high as can be."""
    return old == new or (new is not None and new <= (old if old is not None else unsaid))


def uncovered(patterns: Iterable[str], by: Iterable[str]) -> list[str]:
    """The patterns that are neither among these nor in a whole directory among them; nobody knows where `..` leads."""
    known = set(by)
    whole = {pattern.removesuffix("**") for pattern in known if pattern.endswith("/**") or pattern == "**"}
    whole |= {pattern for pattern in known if pattern.endswith("/")}
    return [
        pattern
        for pattern in patterns
        if pattern not in known and (".." in pattern.split("/") or not pattern.startswith(tuple(whole)))
    ]


def more_tools(old: tuple[str, ...], new: tuple[str, ...]) -> list[str]:
    """A tool holds all its operations, `tool:operation` only one."""
    return [name for name in new if name not in old and name.partition(":")[0] not in old]


def choice(kind: str, name: str | None) -> str:
    return f"the {kind} `{name}`" if name is not None else f"no named {kind}"


def number(count: int, word: str) -> str:
    return f"{count} {word}{'s' * (count != 1)}"


def _times(old_ms: int | None, new_ms: int | None) -> str:
    old, new = (f"{ms / 1000:g} s" if ms is not None else "as the configuration says" for ms in (old_ms, new_ms))
    return f"{new}, not {old}"


def _at_once(what: str, old: int | None, new: int | None) -> str:
    before = f", not {old}" if old is not None else ", where nothing was said"
    return f"may run {new if new is not None else 'any number of'} {what} at once{before}"


# --- Of both ---------------------------------------------------------------------------------------------------------


def _preconditions(both: Both) -> Iterator[Said]:
    before, now = (Counter(map(canonical_bytes, one.preconditions)) for one in (both.old, both.new))
    if lost := (before - now).total():
        yield "condition_removed", f"has {number(lost, 'precondition')} less to meet"
    if isinstance(both.new, Step) and (more := (now - before).total()):
        yield "condition_added", f"has {number(more, 'precondition')} more to meet, and does not run else"


def _budget(both: Both) -> Iterator[Said]:
    old, new = both.old.budget, both.new.budget
    for name in old.__struct_fields__ if old is not None else ():
        limit, now = getattr(old, name), getattr(new, name, None)
        if limit is not None and (now is None or now > limit):
            change = f"raised from {limit} to {now}" if now is not None else f"taken away ({limit})"
            yield "budget_raised", f"has its limit of {name} {change}"


class StepPolicy(msgspec.Struct, frozen=True):
    """What follows the failure of a step, with everything its plan says about it."""

    retry: Retry | None
    last: LastPolicy | None
    """None is what the configuration says; to abort, where it says nothing."""

    @property
    def attempts(self) -> int:
        return self.retry.max_attempts if self.retry is not None else 1

    @property
    def delays(self) -> Retry:
        return msgspec.structs.replace(self.retry or Retry(max_attempts=1), max_attempts=1, then=None)


def policy_of(own: FailurePolicy | None, plan: Plan) -> StepPolicy:
    policy = own if own is not None else plan.on_failure
    if not isinstance(policy, Retry):
        return StepPolicy(None, policy)
    of_plan = plan.on_failure
    general = (of_plan.then or Abort()) if isinstance(of_plan, Retry) else of_plan
    return StepPolicy(policy, policy.then or general)


_STRICT: dict[type, int] = {Skip: 0, Continue: 1, type(None): 2, AskApproval: 2, Escalate: 3, Abort: 3}
"""How much a policy stops. What else may follow does something, and nobody can tell what is stricter."""


def failure_changes(old: StepPolicy, new: StepPolicy) -> Iterator[Said]:
    """What is said of a policy where a failure stops less than before, or after more tries."""
    if new.attempts > old.attempts:
        yield "retry_raised", f"allows up to {new.attempts} attempts, not {old.attempts}"
    elif new.attempts > 1 and old.delays != new.delays:
        yield "failure_changed", "waits for another time between its tries"
    before, now = _STRICT.get(type(old.last)), _STRICT.get(type(new.last), -1)
    if old.last == new.last or now == max(_STRICT.values()) or (before is not None and now > before):
        return
    match new.last:
        case Skip() if isinstance(old.last, Skip):
            yield "failure_changed", "warns in another way when it is skipped after a failure"
        case Skip():
            yield "failure_softened", "goes on after a failure as if it had been skipped"
        case Continue():
            yield "failure_softened", "goes on after a failure with what does not depend on it"
        case Fallback(steps=steps, then=then):
            was = old.last if isinstance(old.last, Fallback) else None
            if more := [name for name in steps if was is None or name not in was.steps]:
                yield "fallback_named", f"runs the fallback {listed(more)} after a failure"
            elif was is None or was.steps != steps:
                yield "failure_changed", "runs other fallbacks, or in another order, after a failure"
            if then is not None or was is not None:
                last = was.then if was is not None else old.last
                yield from failure_changes(StepPolicy(None, last), StepPolicy(None, then))
        case Replan() | Recover():
            kind: ConcernKind = "failure_softened" if (before or 0) > 1 else "failure_changed"
            yield kind, "has a planner propose how to go on after a failure"
        case AskApproval():
            yield "failure_changed", "asks a person in other words whether to go on after a failure"
        case Abort() | Escalate() | None:  # the first two are as strict as can be, so they never come here
            yield "failure_changed", "does after a failure what the configuration says"
        case _:
            assert_never(new.last)


def _on_failure(both: Both) -> Iterator[Said]:
    return failure_changes(policy_of(both.old.on_failure, both.olds[0]), policy_of(both.new.on_failure, both.news[0]))


# --- Of a step -------------------------------------------------------------------------------------------------------


def check_of_step(step: Step) -> Strategy | None:
    strategy = step.verification.strategy if step.verification is not None else None
    return None if isinstance(strategy, NoCheck) else strategy


def check_name(strategy: Strategy) -> str:
    return "contract" if isinstance(strategy, Contract) else f"verification by {strategy.__struct_config__.tag}"


def claims(step: Step, tools: Mapping[str, ToolDefinition]) -> bool:
    """Whether a step says of what it does that it may be run again after a crash."""
    return next(effects_of(step, tools)).claimed_repeatable


def _verification(both: Both) -> Iterator[Said]:
    before, now = check_of_step(both.old), check_of_step(both.new)
    if before is None:
        if isinstance(now, Contract):
            yield "contract_new", "has a contract that was not there, which is a command too"
        return
    if now is None:
        yield "contract_removed", f"has no {check_name(before)} any more"
        return
    if isinstance(before, Contract) and isinstance(now, Contract):
        yield from _contract(before, now)
    elif isinstance(before, Contract):
        yield "contract_weakened", f"has no contract any more, only a {check_name(now)}"
    elif before != now:
        yield "contract_changed", "is verified in another way; read it"
    timeouts = (both.old.verification.timeout_ms, both.new.verification.timeout_ms)
    if not at_most(*timeouts, DEFAULTS.contract_timeout_ms):
        yield "timeout_raised", f"has a verification that may take longer: {_times(*timeouts)}"


def _contract(old: Contract, new: Contract) -> Iterator[Said]:
    if old.exit_code == 0 and new.exit_code != 0:
        yield "contract_weakened", f"has a contract that now holds when its command fails with {new.exit_code}"
    if old.stdout is not None and new.stdout is None:
        yield "contract_weakened", "has a contract that no longer looks at its output"
    other_words = old.stdout is not None and new.stdout is not None and old.stdout != new.stdout
    other_status = old.exit_code != 0 and old.exit_code != new.exit_code
    if old.command != new.command or other_words or other_status:
        yield "contract_changed", "has another contract; read it"


def _happened(both: Both) -> Iterator[Said]:
    """Without it a person is asked, as about any other step."""
    if both.new.happened is not None and both.old.happened is not None:
        yield "contract_changed", "has another check that says in doubt whether it happened; read it"
    elif both.new.happened is not None:
        yield "contract_new", "has a check in doubt that was not there, which is a command too"


def _needs(both: Both) -> Iterator[Said]:
    """Of fallbacks alone: of other steps it is told what they no longer wait for by any way."""
    lost = sorted(set(both.old.needs) - set(both.new.needs))
    if both.fallback and lost:
        yield "needs_removed", f"no longer waits for {listed(lost)}"


def _when(both: Both) -> Iterator[Said]:
    if both.old.when is None:
        yield "condition_added", "runs only where its new `when` says so, and is skipped else"
    elif both.new.when is None:
        yield "condition_removed", "runs whatever its `when` would have said"
    else:
        yield "condition_changed", "has another `when`; read it"


def _repetitions(both: Both) -> Iterator[Said]:
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
    if not at_most(old.concurrency, new.concurrency, 1):
        yield "concurrency_raised", _at_once("repetitions", old.concurrency, new.concurrency)
    if old.name != new.name:
        yield "field_changed", "calls its item by another name; read it"


def _writes(both: Both) -> Iterator[Said]:
    old, new = both.old.writes, both.new.writes
    if old and not new:
        yield "writes_widened", "no longer says what it writes, and may write anything"
    elif old and (more := uncovered(new, old)):
        yield "writes_widened", f"may also write {listed(more)}"


def _idempotent(both: Both) -> Iterator[Said]:
    if both.new.idempotent is False or both.old.idempotent is True:
        return
    if both.new.idempotent is True and claims(both.new, both.tools):
        yield "repeatable_claimed", "claims that it may be run again after a crash"
    elif both.old.idempotent is False:
        yield "repeat_allowed", "is no longer forbidden to be run again after a crash"
    else:
        yield unread("idempotent")


_RANK = {False: 0, None: 1, True: 2}


def _network(both: Both) -> Iterator[Said]:
    if _RANK[both.new.network] > _RANK[both.old.network]:
        yield "network_allowed", f"{'may' if both.new.network is True else 'is no longer forbidden to'} use the network"


def _worktree(both: Both) -> Iterator[Said]:
    if _RANK[both.new.worktree] < _RANK[both.old.worktree]:
        yield "worktree_dropped", "does not work in a worktree of its own any more"


def _step_model(both: Both) -> Iterator[Said]:
    old, new = model_of(both.old, both.olds, None), model_of(both.new, both.news, None)
    if old != new:
        yield "model_changed", f"uses {choice('model', new)}"


STEP: Mapping[str, Direction] = {
    "id": _silent,  # another id is a renaming
    "description": _silent,
    "action": _silent,  # what an action does is compared as a whole
    "needs": _needs,
    "when": _when,
    "for_each": _repetitions,
    "preconditions": _preconditions,
    "verification": _verification,
    "happened": _happened,
    "proof": _demanded("proof", "proof_removed", "need no longer prove that its contract can fail"),
    "protect": _kept("protect", "protect_narrowed", "no longer protects", by_plan=True),
    "writes": _writes,
    "inputs": _kept("inputs", "inputs_narrowed", "is no longer bound to"),
    "on_failure": _on_failure,
    "timeout_ms": _timeout("may take longer"),
    "idempotent": _idempotent,
    "approval": _demanded("approval", "approval_dropped", "no longer asks for an approval of its own"),
    "budget": _budget,
    "model": _step_model,
    "network": _network,
    "worktree": _worktree,
    "pool": _named("pool_changed", "pool", "runs on"),
}


# --- Of a plan -------------------------------------------------------------------------------------------------------


def _tools(both: Both) -> Iterator[Said]:
    """None said is all."""
    old, new = both.old.tools, both.new.tools
    if old is not None and new is None:
        yield "tools_widened", "may use any tool"
    elif old is not None and (more := more_tools(old, new)):
        yield "tools_widened", f"may also use {listed(more)}"


def _tier(both: Both) -> Iterator[Said]:
    old, new = both.old.tier, both.new.tier
    if old is not None and (new is None or new < old):
        demands = f"only tier {new}, not {old}" if new is not None else f"no trust tier, not even {old}"
        yield "tier_lowered", f"demands {demands}"


def _parameters(both: Both) -> Iterator[Said]:
    old, new = both.old.params, both.new.params
    for name in dict.fromkeys((*old, *new)):
        before, now = old.get(name), new.get(name)
        if before is None or now is None:
            yield "parameter_changed", f"has {'a new' if before is None else 'no'} parameter `{name}`"
            continue
        for field in differing(before, now, Parameter.__struct_fields__):
            if field != "description":  # which is for readers only
                yield "parameter_changed", f"has another `{field}` of the parameter `{name}`; read it"


def _workspace(both: Both) -> Iterator[Said]:
    old, new = both.old.workspace_id, both.new.workspace_id
    if old is not None:
        now = f", but to `{new}`" if new is not None else ""
        yield "workspace_unbound", f"is no longer bound to the workspace `{old}`{now}"


PLAN: Mapping[str, Direction] = {
    "plan_version": lambda both: [unread("plan_version")],
    "title": _silent,
    "steps": _silent,  # compared one by one
    "task": _always("instructions_changed", "gives agents another `task`; read it"),
    "context": _always("instructions_changed", "gives agents another `context`; read it"),
    "fallbacks": _silent,
    "preconditions": _preconditions,
    "on_failure": _on_failure,
    "tools": _tools,
    "protect": _kept("protect", "protect_narrowed", "no longer protects"),
    "budget": _budget,
    "tier": _tier,
    "params": _parameters,
    "agent": _named("agent_changed", "agent", "gives its tasks to"),
    "model": _named("model_changed", "model", "uses"),
    "timeout_ms": _timeout("lets a step take longer"),
    "concurrency": _limit(
        "concurrency", DEFAULTS.concurrency, "concurrency_raised", lambda *most: _at_once("steps", *most)
    ),
    "workspace_id": _workspace,
}
