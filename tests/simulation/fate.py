"""What can be drawn in a simulated life: its plan, what becomes of commands and tools, what befalls an executor, what
people do. Everything that can happen is listed here, with how often it does; a new rule of the product gets a row.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from random import Random
from typing import Any

from ordain.core.action import AcquireLock, ReleaseLock
from ordain.core.failure import Abort, Continue, Escalate, FailurePolicy, Retry, Skip
from ordain.core.model import Plan, Step
from ordain.core.value import RunId
from tests.build import plan, step

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
    Fate("well", ("do", "check", "call"), 60),
    Fate("and fails before it has done anything", ("do", "call"), 6, has_effect=False, exit_code=1),
    Fate("and fails when it has done it", ("do",), 6, exit_code=1),
    Fate("and is broken although it should hold", ("check",), 6, exit_code=1),
    Fate("and is killed by somebody", ("do", "check"), 2, signal=15),
    Fate("and cannot be started", ("do", "check"), 2, has_effect=False, fault=True),
    Fate("and never ends", ("do", "check"), 2, endless=True),
    Fate("and spoils what it must not touch", ("do",), 6, spoils=True),
    Fate("and spoils what it must not touch", ("check",), 2, spoils=True),
)
_BY_KIND = {
    kind: [fate for fate in FATES if kind in fate.kinds for _ in range(fate.weight)] for kind in ("do", "check", "call")
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
RERUNS = {None: 8, "": 1, "s0": 1, "s1": 1}
"""Whether the run is done again when it has ended, and from which step on."""
ANSWERS = {"abort": 1, "happened": 10, "did-not": 10, "retry": 6, "skip": 4, "pass": 2}
"""How often each word is chosen among those that are true."""

JUMPS_MS = (-DAY, -HOUR, -MINUTE, MINUTE, HOUR, 3 * DAY)
PAUSES_MS = (0, 0, SECOND, MINUTE, HOUR, 3 * DAY)

POLICIES: tuple[FailurePolicy | None, ...] = (
    None,
    None,
    Abort(),
    Skip(),
    Continue(),
    Escalate(),
    Retry(max_attempts=2),
    Retry(max_attempts=4, initial_delay_ms=SECOND, backoff_multiplier=2),
    Retry(max_attempts=3, initial_delay_ms=MINUTE, then=Escalate()),
    Retry(max_attempts=3, initial_delay_ms=5 * SECOND, increment_ms=SECOND, then=Skip()),
    Retry(max_attempts=2, initial_delay_ms=HOUR, max_delay_ms=10 * MINUTE, then=Continue()),
)


def _actions(name: str) -> list[dict[str, Any]]:
    """Every effect class, each step with things of its own; commands most often."""
    url = f"http://example.org/{name}"
    return [
        *[{}] * 6,
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


def draw_plan(random: Random) -> Plan:
    """Any plan that can be carried out: needs forwards and backwards, every kind of step, every policy."""
    count = random.choice([1, 2, 3, 3, 4, 5, 6, 8])
    order = random.sample(range(count), count)
    steps = [_draw_step(random, index, [o for o in range(count) if order[o] < order[index]]) for index in range(count)]
    return plan(
        *steps,
        on_failure=random.choice(POLICIES),
        concurrency=random.choice([None, 1, 2, 3]),
        protect=random.choice([(), (), ("tests/**",)]),
    )


def _draw_step(random: Random, index: int, earlier: list[int]) -> Step:
    name = f"s{index}"
    needs = random.sample(earlier, min(len(earlier), random.choice([0, 0, 1, 1, 2])))
    contract = f"check {name}" if random.random() < 0.5 else None
    return step(
        name,
        needs=tuple(sorted(f"s{other}" for other in needs)),
        contract=contract,
        proof="red-then-green" if contract and random.random() < 0.15 else None,
        protect=(f"own/{name}",) if random.random() < 0.15 else (),
        on_failure=random.choice(POLICIES),
        timeout_ms=random.choice([None, None, 20 * SECOND]),
        **random.choice(_actions(name)),
    )
