"""What an approver should look at first in a plan; text, JSON and docs are derived from the kinds declared here."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from ordain.core.policy.fact import CommandFact

PLACES_MAX = 3
"""How many places of one kind are named; the others are counted."""
CHANGES_MAX = 10
"""A plan that changes things more often than this is one to read slowly; loops count with their bound."""


class RiskKind(msgspec.Struct, frozen=True, kw_only=True):
    """One kind of risk."""

    name: str
    phrase: str
    """What a step does, as a person reads it."""
    asks: bool = False
    """Whether the plan's short id must be typed to approve."""
    shown: bool = True
    """Whether its places are worth a line of their own; else they are only counted and named."""
    fact: CommandFact | None = None
    """The fact about commands that it stands for."""


def _fact(fact: CommandFact, phrase: str, *, asks: bool = True) -> RiskKind:
    return RiskKind(name=fact.value, phrase=phrase, asks=asks, shown=asks, fact=fact)


def _kind(name: str, phrase: str, *, asks: bool = False, shown: bool = True) -> RiskKind:
    return RiskKind(name=name, phrase=phrase, asks=asks, shown=shown)


PLAN_RISKS = (
    _kind("denied", "denied by policy", asks=True),
    _fact(CommandFact.IRREVERSIBLE, "cannot be undone"),
    _fact(CommandFact.RUNS_DOWNLOADED, "runs what it downloads"),
    _fact(CommandFact.HIDDEN, "hides what it runs"),
    _kind("lookalike", "letters that imitate others", asks=True),
    _fact(CommandFact.DELETES, "deletes"),
    _kind("destructive", "destructive tool", asks=True),
    _fact(CommandFact.PRIVILEGED, "runs as root"),
    _fact(CommandFact.REMOTE, "changes other systems"),
    _fact(CommandFact.CREDENTIALS, "uses credentials"),
    _kind("secret", "hands out secrets", asks=True),
    _fact(CommandFact.PUBLISHES, "publishes or sends"),
    _fact(CommandFact.FORCE, "forces"),
    _fact(CommandFact.OUTSIDE, "writes outside the workspace"),
    _fact(CommandFact.PERMISSIONS, "changes permissions"),
    _fact(CommandFact.DISRUPTS, "disrupts this machine"),
    _kind("many", f"more than {CHANGES_MAX} changes", asks=True, shown=False),
    _kind("wider", "wider than approved before"),
    _kind("script", "edits code that a step runs"),
    _kind("agent", "agent with wide reach"),
    _kind("loop", "repeats"),
    _kind("claimed", "claims that repeating is safe", shown=False),
    _kind("environment", "unusual environment"),
    _kind("warning", "lint warnings"),
    _kind("not_bound", "not bound to the approval", shown=False),
    _fact(CommandFact.UNKNOWN, "runs unknown programs", asks=False),
    _kind("decided_later", "values decided at run time", shown=False),
    _fact(CommandFact.NETWORK, "uses the network", asks=False),
    _fact(CommandFact.RUNS_WORKSPACE, "runs workspace code", asks=False),
    _kind("unverified", "not verified", shown=False),
)
"""Every kind of risk, worst first: the order of the list is the order of showing."""
QUIET_FACTS = frozenset([CommandFact.READS, CommandFact.WRITES])
"""Facts about commands that are no risk."""
KINDS = {one.name: one for one in PLAN_RISKS}
RANK = {one.name: rank for rank, one in enumerate(PLAN_RISKS)}


class RiskPlace(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Where a plan bears a risk."""

    step: str = ""
    """As a run calls it, `outer/inner` in a nested plan; empty where it is the plan as a whole."""
    number: str = ""
    """Of the step, `4.2` in a nested plan; empty for a fallback."""
    part: str = ""
    """Which part of the step, where it is not its action: `contract`, `fallback` …"""
    line: str = ""
    """The command or the call as the plan has it, or what there is to say."""
    start: int = 0
    end: int = 0
    """Where in the line the risk is; nowhere in particular where both are 0."""


class PlanRisk(msgspec.Struct, frozen=True, kw_only=True):
    """One kind of risk in a plan: how often, and where first."""

    kind: str
    count: int
    """Places; of a loop, how often it repeats at most."""
    places: tuple[RiskPlace, ...]


def wants_id(risks: Iterable[PlanRisk]) -> bool:
    """Whether the short id must be typed, or a plain yes will do."""
    return any(KINDS[one.kind].asks for one in risks)
