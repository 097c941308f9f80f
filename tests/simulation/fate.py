"""What can be drawn in a simulated life: its plan, what becomes of commands and tools, what befalls an executor, what
people do. Everything that can happen is listed here, with how often it does; a new rule of the product gets a row.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from random import Random
from typing import Any

from msgspec.structs import replace

from tests.build import plan, step
from tests.words import (
    Abort,
    AcquireLock,
    Agent,
    Ask,
    AskApproval,
    CallTool,
    Continue,
    CustomCondition,
    Escalate,
    FailurePolicy,
    Fallback,
    ForEach,
    LastPolicy,
    LockAvailable,
    NestedPlan,
    Plan,
    Precondition,
    Recover,
    ReleaseLock,
    Replan,
    Retry,
    RunCommand,
    RunId,
    Skip,
    Step,
    StepCompleted,
    StepId,
    StoreData,
    Task,
    command_text,
)

SECOND, MINUTE, HOUR, DAY = 1000, 60_000, 3_600_000, 86_400_000


@dataclass(frozen=True)
class Fate:
    """What becomes of one command, contract or call."""

    name: str
    kinds: tuple[str, ...]
    weight: int
    has_effect: bool = True
    exit_code: int = 0
    signal: int = 0
    fault: bool = False
    spoils: bool = False
    endless: bool = False

    def duration_ms(self, random: Random) -> float:
        if self.endless:
            return DAY * 2
        return random.choice([0, 1, 50, random.random() * SECOND, random.random() * 10 * SECOND])

    @staticmethod
    def draw(kind: str, random: Random) -> Fate:
        return random.choice(_BY_KIND[kind])


FATES = (
    Fate("well", ("do", "check", "call", "ask"), 60),
    Fate("and fails before it has done anything", ("do", "call"), 6, has_effect=False, exit_code=1),
    Fate("and fails when it has done it", ("do",), 6, exit_code=1),
    Fate("and is broken although it should hold", ("check",), 6, exit_code=1),
    Fate("and is killed by somebody", ("do", "check", "ask"), 2, signal=15),
    Fate("and cannot be started", ("do", "check", "ask"), 2, has_effect=False, fault=True),
    Fate("and never ends", ("do", "check", "ask"), 2, endless=True),
    Fate("and spoils what it must not touch", ("do",), 6, spoils=True),
    Fate("and spoils what it must not touch", ("check",), 2, spoils=True),
)
_BY_KIND = {
    kind: [fate for fate in FATES if kind in fate.kinds for _ in range(fate.weight)]
    for kind in ("do", "check", "call", "ask")
}


class Trouble(StrEnum):
    """What befalls an executor."""

    NONE = "none"
    KILLED_AT_BOUNDARY = "killed at a boundary"
    KILLED_IN_TIME = "killed at some time"
    DISK = "the disk refuses"
    STOPPED = "told to stop"
    FROZEN = "frozen, and thawed when another has taken over"
    CLOCK = "the clock is set"
    PAUSED = "paused by somebody else"
    CANCELLED = "cancelled by somebody else"


TROUBLES = {
    Trouble.NONE: 3,
    Trouble.KILLED_AT_BOUNDARY: 6,
    Trouble.KILLED_IN_TIME: 4,
    Trouble.DISK: 1,
    Trouble.STOPPED: 1,
    Trouble.FROZEN: 2,
    Trouble.CLOCK: 2,
    Trouble.PAUSED: 1,
    Trouble.CANCELLED: 1,
}


class Person(StrEnum):
    """What a person does about a run that is not being carried out."""

    ANSWERS = "answers"
    WAITS = "waits"
    CANCELS = "cancels"
    GIVES_UP = "gives up"
    PAUSES = "pauses"


PEOPLE = {Person.ANSWERS: 40, Person.WAITS: 8, Person.CANCELS: 6, Person.GIVES_UP: 2, Person.PAUSES: 3}
HEIRS = {None: 9, "as it is": 2, "with a check less": 1, "with a step more": 1}
"""Whether a run that waits or has ended is gone on with by another plan, and by which."""
RERUNS = {None: 8, "": 1, "s0": 1, "s1": 1}
"""Whether the run is done again when it has ended, and from which step on."""
ANSWERS = {"abort": 1, "happened": 10, "did-not": 10, "retry": 6, "skip": 4, "pass": 2}
ANSWERS |= {"allow": 10, "deny": 2, "yes": 8, "no": 4, "done": 12, "cannot": 3}
"""How often each word is chosen among those that are true."""

JUMPS_MS = (-DAY, -HOUR, -MINUTE, MINUTE, HOUR, 3 * DAY)
PAUSES_MS = (0, 0, SECOND, MINUTE, HOUR, 3 * DAY)

POLICIES: tuple[FailurePolicy | None, ...] = (
    None,
    None,
    Abort(),
    Abort(message="It is no use."),
    Skip(),
    Continue(),
    Escalate(),
    Replan(),
    Recover(),
    AskApproval(summary="What now?"),
    Retry(max_attempts=2),
    Retry(max_attempts=4, initial_delay_ms=SECOND, backoff_multiplier=2),
    Retry(max_attempts=3, initial_delay_ms=MINUTE, then=Escalate()),
    Retry(max_attempts=3, initial_delay_ms=5 * SECOND, increment_ms=SECOND, then=Skip()),
    Retry(max_attempts=2, initial_delay_ms=HOUR, max_delay_ms=10 * MINUTE, then=Continue()),
)


def _policy(random: Random, fallbacks: list[str]) -> FailurePolicy | None:
    """Any policy; where there are fallback steps, often that they are run."""
    if not fallbacks or random.random() < 0.5:
        return random.choice(POLICIES)
    names = random.choice([fallbacks, fallbacks[:1], fallbacks[-1:]])
    last: LastPolicy = Fallback(steps=tuple(StepId(name) for name in names))
    return random.choice([last, last, Retry(max_attempts=2, initial_delay_ms=SECOND, then=last)])


AGENTS = {"coder": Agent(command=("do it",)), "reviewer": Agent(human=True)}
"""Who performs tasks."""


def _tasks() -> list[dict[str, Any]]:
    """What agents and people are given to do."""
    own, persons = Task(task="Do it.", agent="coder"), Task(task="Do it.", agent="reviewer")
    return [
        *[{"action": own}] * 16,
        *[{"action": own, "idempotent": True}] * 4,
        *[{"action": persons}] * 6,
        *[{"action": persons, "timeout_ms": MINUTE}] * 2,
    ]


def _actions(name: str, earlier: list[str]) -> list[dict[str, Any]]:
    """Every effect class, each step with things of its own; commands most often."""
    url = f"http://example.org/{name}"
    refers = f'${{{earlier[0]}.output ?? "nothing"}}' if earlier else "plain"
    outermost = name.removeprefix("s").isdigit()
    return [
        *[{}] * 10,
        *[{"action": RunCommand(command=f"do {name}", env={"X": refers})}] * 2,
        {"tool": "write_file", "args": {"path": f"{name}.txt", "content": f"<{refers}>"}},
        *[{"action": StoreData(key="k", value={"of": name, "was": refers})}] * 2,
        *[{"action": RunCommand(command=f"do {name}", env={"X": '${data.k.of ?? "nobody"}'})}] * outermost,
        {"action": Ask(question="Which?", choices=("yes", "no"))},
        {"action": Ask(question="Which?", choices=("yes", "no")), "timeout_ms": MINUTE},
        {"idempotent": True},
        {"tool": "exec", "args": {"argv": ["do", name]}},
        {"tool": "shell", "args": {"command": f"do {name}"}},
        {"tool": "list_files"},
        {"tool": "write_file", "args": {"path": f"{name}.txt", "content": name}},
        {"tool": "write_file", "args": {"path": f"{name}.txt", "content": name}, "idempotent": False},
        *[{"tool": "edit_file", "args": {"path": f"{name}.edit", "old": "one", "new": "two"}}] * 3,
        {"tool": "move", "args": {"path": f"{name}.from", "to": f"{name}.to"}},
        {"tool": "delete", "args": {"path": f"{name}.gone"}},
        {"tool": "http_request", "args": {"url": url, "method": "POST"}},
        *[{"action": AcquireLock(lock_name=LOCK, timeout_ms=timeout)} for timeout in (None, 10 * SECOND)],
        {"action": AcquireLock(lock_name=LOCK), "idempotent": False},
        {"action": ReleaseLock(lock_name=LOCK)},
    ]


LOCK, STRANGER = "db", RunId("RUN-STRANGER")
"""The one lock there is, and another run that wants it at times."""


def files_for(name: str) -> dict[str, str]:
    """What the tools of a step find."""
    return {f"{name}.edit": "one", f"{name}.from": "here", f"{name}.gone": "still"}


def draw_plan(random: Random, *, tasks: bool = False) -> Plan:
    """Any plan that can be carried out: needs forwards and backwards, every kind of step, every policy, plans within
    plans, repeats over what other steps give, fallback steps, conditions; and tasks, where they are wanted: a life
    without them stays what it was."""
    made = _draw_plan(random, "s", random.choice([1, 2, 3, 3, 4, 5, 6, 8]), random.choice([0, 1, 1, 2]), tasks=tasks)
    # Data is always stored by somebody who waits for nobody, so that no order is a circle.
    store = step(f"s{len(made.steps)}", action=StoreData(key="k", value={"of": "first"}), needs=())
    made = replace(made, steps=(*made.steps, store))
    return replace(made, protect=random.choice([(), (), ("tests/**",)]))


def _draw_plan(random: Random, prefix: str, count: int, deep: int, *, tasks: bool) -> Plan:
    order = random.sample(range(count), count)
    fallbacks = [f"{prefix}f{index}" for index in range(random.choice([0, 0, 0, 1, 2]))]
    names = [f"{prefix}{index}" for index in range(count)]
    places = dict(zip(names, order, strict=True))
    before = {name: [other for other in names if places[other] < at] for name, at in places.items()}
    steps = [_draw_step(random, name, before[name], fallbacks, deep, tasks=tasks) for name in names]
    return plan(
        *_asking_for_statuses_there(steps),
        fallbacks=tuple(_draw_step(random, name, [], [], deep - 1, tasks=tasks) for name in fallbacks),
        on_failure=_policy(random, fallbacks),
        concurrency=random.choice([None, 1, 2, 3]),
    )


def _draw_step(random: Random, name: str, earlier: list[str], fallbacks: list[str], deep: int, *, tasks: bool) -> Step:
    needs = random.sample(earlier, min(len(earlier), random.choice([0, 0, 1, 1, 2])))
    contract = f"check {name}" if random.random() < 0.5 else None
    does = random.choice([*_actions(name, earlier), *(_tasks() if tasks else ())])
    if deep > 0 and random.random() < 0.15:
        does = {
            "action": NestedPlan(plan=_draw_plan(random, f"{name}n", random.choice([1, 2, 3]), deep - 1, tasks=tasks))
        }
    plain = not isinstance(does.get("action"), NestedPlan | AcquireLock | ReleaseLock | Ask | StoreData)
    holds_plan = isinstance(does.get("action"), NestedPlan)  # what it protects is only looked after in that plan
    made = step(
        name,
        needs=tuple(sorted(needs)),
        contract=contract,
        proof="red-then-green" if contract and plain and random.random() < 0.15 else None,
        protect=(f"own/{name}",) if random.random() < 0.15 and not (contract and holds_plan) else (),
        on_failure=_policy(random, fallbacks),
        **{"timeout_ms": random.choice([None, None, 20 * SECOND]) if not holds_plan else None, **does},
    )
    if earlier and random.random() < 0.12:
        each = ForEach(source=f"${{{earlier[-1]}.output ?? []}}", max=5, concurrency=random.choice([None, 1, 2]))
        made = replace(made, for_each=each, when=random.choice([None, None, "index != 1"]))
    elif earlier and random.random() < 0.1:
        made = replace(made, when=random.choice(_conditions(earlier[0])))
    if random.random() < 0.1:
        made = replace(made, preconditions=(random.choice(_preconditions(earlier)),))
    return replace(made, approval="ask") if random.random() < 0.05 else made


CHECKS = ("truthful", "unknown", "wrong")
"""What the check of a step is; one that is wrong says that nothing has happened."""


def with_checks(random: Random, plan: Plan, *, tier: int | None) -> Plan:
    """The plan with a check for most of its steps, which are asked in doubt whether they happened. More of them than
    usual send a request, whose tool has a check that is truthful and final."""

    def checked(one: Step) -> Step:
        if isinstance(one.action, NestedPlan):
            return replace(one, action=NestedPlan(plan=with_checks(random, one.action.plan, tier=None)))
        if isinstance(one.action, RunCommand | CallTool) and one.for_each is None and random.random() < 0.8:
            args = {"url": f"http://example.org/{one.id}", "method": "POST"}
            request, command = CallTool(tool="http_request", args=args), RunCommand(command=f"do {one.id}")
            one = replace(one, action=random.choice([request, command]), idempotent=None)
        kind = random.choice((*CHECKS, ""))
        return replace(one, happened=f"happened {kind}") if kind else one

    steps, fallbacks = (_asking_for_statuses_there(map(checked, some)) for some in (plan.steps, plan.fallbacks))
    return replace(plan, steps=steps, fallbacks=fallbacks, tier=tier)


def _asking_for_statuses_there(steps: Iterable[Step]) -> tuple[Step, ...]:
    """The steps, asking for an exit status only where another step ends with one: it is refused elsewhere."""
    made = tuple(steps)
    silent = [one.id for one in made if not isinstance(one.action, Task) and command_text(one.action) is None]
    wrong = {_conditions(name)[1]: _conditions(name)[0] for name in silent}
    return tuple(replace(one, when=wrong.get(one.when or "", one.when)) for one in made)


def _conditions(other: str) -> list[str]:
    return [f'steps["{other}"].status == "passed"', f'steps["{other}"].exit_code == 0', "1 > 2"]


def _preconditions(earlier: list[str]) -> list[Precondition]:
    found: list[Precondition] = [LockAvailable(lock_name=LOCK), CustomCondition(name="never", expression="1 > 2")]
    found += [StepCompleted(step_id=name) for name in earlier[:1]]
    return found + [CustomCondition(name="so", expression=_conditions(name)[0]) for name in earlier[:1]]
