"""What `ordain stats` says: counts, times and causes of many plans and runs. Every total is the sum of its parts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import StrEnum

import msgspec

from ordain.core.plan.value import Instant, StepId


class Part(StrEnum):
    """What time was spent on."""

    EXECUTING = "executing"
    """A step was at work."""
    VERIFYING = "verifying"
    """A contract was run, or a doubt looked into."""
    PERSON = "person"
    """A person was asked and had not answered."""
    WAITING = "waiting"
    """For a lock of another run, or for the next attempt of a step that failed."""
    STOPPED = "stopped"
    """Nobody carried the run out, as far as is recorded; of one who died it is known only when they recorded last."""
    BETWEEN = "between"
    """The rest: starting, ending, writing down."""


class Time(msgspec.Struct, frozen=True, kw_only=True):
    """How long something took, and what of that for what. Parts of nothing are left out."""

    total_ms: int = 0
    parts: Mapping[Part, int] = {}

    def of(self, part: Part) -> int:
        return self.parts.get(part, 0)


class Plans(msgspec.Struct, frozen=True, kw_only=True):
    """How plans end. One that was put away counts as what it was before."""

    count: int = 0
    by_status: Mapping[str, int] = {}
    archived: int = 0
    revised: int = 0
    """Plans that had more than one revision."""
    rejections: int = 0
    expiries: int = 0
    """How often nobody decided in time."""
    tried: int = 0
    """Plans whose first run has ended."""
    completed_at_first: int = 0
    """Those of them whose first run completed."""
    to_approval_ms: int | None = None
    """On average, from a proposal to the approval that followed it; none for one that was declined."""
    approvals: Mapping[str, int] = {}
    """What became of approvals: `used`, `unused`, `revoked`, `expired` or `superseded`."""
    runs_approved: int = 0
    """Runs that were started on an approval."""
    runs_unasked: int = 0
    """Runs that needed none."""


class Runs(msgspec.Struct, frozen=True, kw_only=True):
    """How runs end, and how long they take."""

    count: int = 0
    by_status: Mapping[str, int] = {}
    """`completed`, `failed`, `cancelled`, `replaced` by a successor, and `open` for those that have not ended."""
    duration_ms: int | None = None
    """On average, from start to end, of those that have ended."""
    reruns: int = 0
    kept: int = 0
    """Steps of reruns that were not run again, for their contract held."""
    not_kept: int = 0
    unverified: int = 0
    """Steps that passed by somebody's word alone."""
    takeovers: int = 0
    """How often another executor went on with a run."""


class StepTime(msgspec.Struct, frozen=True, kw_only=True):
    """One step of one document, through all its runs."""

    plan: str
    """The document it is in, or the title of a plan that came without one."""
    id: StepId
    description: str
    kind: str
    runs: int
    """In how many runs it began."""
    attempts: int
    failures: int
    time: Time


class KindTime(msgspec.Struct, frozen=True, kw_only=True):
    """All steps that run the same program or call the same tool."""

    kind: str
    attempts: int
    failures: int
    time: Time


class StepCount(msgspec.Struct, frozen=True, kw_only=True):
    """How often something happened to one step."""

    plan: str
    step: StepId
    count: int


class Failure(msgspec.Struct, frozen=True, kw_only=True):
    """One cause of failures: how often, what followed at once, and what became of the steps in the end."""

    code: str
    count: int
    then: Mapping[str, int]
    """`retried`, `skipped`, `escalated`, `failed` (others went on), or `aborted`, which ended the run."""
    ended: Mapping[str, int]
    """`passed`, `passed by decision`, `skipped`, `failed`, `cancelled` or `open`."""
    steps: Sequence[StepCount]
    """Where, the most frequent first."""


class Retries(msgspec.Struct, frozen=True, kw_only=True):
    """How many attempts steps needed."""

    attempts: int = 0
    passed: int = 0
    """Passes of steps that were carried out; those that were kept are not among them."""
    passed_again: int = 0
    """Those that needed more than one attempt."""
    passes_by_attempts: Mapping[int, int] = {}


class MissingProgram(msgspec.Struct, frozen=True, kw_only=True):
    """A program that was not found or could not be run (exit status 126 or 127)."""

    program: str | None
    """Absent where neither the action nor what was written names it."""
    commands: int
    contracts: int


class Doubts(msgspec.Struct, frozen=True, kw_only=True):
    """Steps that were begun and whose end nobody saw."""

    found: int = 0
    settled: Mapping[str, int] = {}
    """By whom, and what came of it: `rule: run again`, `contract: passed`, `person: did-not` …"""
    unsettled: int = 0
    """Those nobody has settled, or that ended with their run."""


class Decisions(msgspec.Struct, frozen=True, kw_only=True):
    """What people were asked while plans ran."""

    asked: int = 0
    answers: Mapping[str, int] = {}
    waited_ms: int | None = None
    """On average, from the question to the answer."""


class Contracts(msgspec.Struct, frozen=True, kw_only=True):
    """A contract that did not hold and then did, in the same run: it may not be able to make up its mind."""

    plan: str
    step: StepId
    held: int
    broken: int
    inconclusive: int
    held_after_retry: int
    """How often it held for a later attempt than the one it was not held for."""
    held_same_attempt: int
    """How often it held for the very attempt it was not held for."""


class Statistics(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that is counted, of plans that were proposed and runs that were started in a span of time."""

    since: Instant | None
    until: Instant
    plans: Plans | None
    """Absent where only one run is looked at."""
    runs: Runs
    time: Time
    """All time of all runs, each moment of a run counted once: for what was done first in the order of `Part`."""
    steps: Sequence[StepTime]
    """The longest first. Steps that are at work together each have their own time."""
    kinds: Sequence[KindTime]
    failures: Sequence[Failure]
    retries: Retries
    missing: Sequence[MissingProgram]
    doubts: Doubts
    decisions: Decisions
    contracts: Sequence[Contracts]

    @property
    def empty(self) -> bool:
        return not self.runs.count and (self.plans is None or not self.plans.count)


def time_of(parts: Mapping[str, int]) -> Time:
    kept = {part: parts[part] for part in Part if parts.get(part)}
    return Time(total_ms=sum(kept.values()), parts=kept)
