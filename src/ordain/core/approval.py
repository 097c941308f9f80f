"""Approval: a recorded, single-use permission bound to one plan and the situation it was given in.

`check` is the one place that compares an approval with what is about to start. A missing binding never means
"any", and checking consumes nothing: the caller spends the approval in the transaction that starts the run.
"""

from __future__ import annotations

from enum import StrEnum

import msgspec

from ordain.core.canonical import plan_id, short_id
from ordain.core.model import Plan, all_steps, contract_of
from ordain.core.problem import Problem
from ordain.core.tool import action_kind, tool_name
from ordain.core.value import Instant, PlanId

__all__ = ["Approval", "Base", "Channel", "Principal", "Situation", "WorkspaceIdentity", "action_kinds", "check"]

CLOCK_SKEW_MS = 60_000
"""How far ahead of our clock an approval may be dated before it counts as dated in the future."""


class Channel(StrEnum):
    """The way a request came in. Only the terminal is a person's: code and robots can ask, never approve."""

    TERMINAL = "terminal"
    SCRIPT = "script"
    LIBRARY = "library"
    ROBOT = "robot"


class Principal(msgspec.Struct, frozen=True, kw_only=True):
    """Who asked for something, and through which channel."""

    name: str
    channel: Channel


class WorkspaceIdentity(msgspec.Struct, frozen=True, kw_only=True):
    """Which directory this is: the id minted for it, and what the file system says it is."""

    id: str
    path: str
    device: int
    inode: int


class Base(msgspec.Struct, frozen=True, kw_only=True):
    """The state of the world an approval was given in."""

    tools: str
    """Digest of the definitions of the tools the plan uses."""
    config: str
    """Digest of the configuration in force, or `defaults`."""


class Approval(msgspec.Struct, frozen=True, kw_only=True):
    """One permission for one run of one plan."""

    approval_id: str
    plan_id: PlanId
    workspace: WorkspaceIdentity
    action_kinds: tuple[str, ...]
    base: Base
    proposer: Principal
    approver: Principal
    tier: int
    issued_at: Instant
    expires_at: Instant
    nonce: str


class Situation(msgspec.Struct, frozen=True, kw_only=True):
    """Workspace, base and time as found at commit."""

    workspace: WorkspaceIdentity
    base: Base
    tier: int
    now: Instant


def action_kinds(plan: Plan) -> tuple[str, ...]:
    """The kinds of action in a plan, computed from the plan itself: `run`, `tool:write_file`, `contract` …"""
    kinds = set()
    for step in all_steps(plan):
        kind = action_kind(step.action)
        kinds.add(f"tool:{tool_name(step.action)}" if kind == "tool" else kind)
        if contract_of(step) is not None:
            kinds.add("contract")
    return tuple(sorted(kinds))


def check(approval: Approval, plan: Plan, here: Situation) -> Problem | None:
    """The first reason why this approval does not permit this plan here and now, or None when it does."""
    again = f"ordain approve {short_id(plan_id(plan))}"
    if approval.plan_id != plan_id(plan) or approval.action_kinds != action_kinds(plan):
        return Problem(
            code="E_PLAN_HASH_MISMATCH",
            detail=f"The approval is for {short_id(approval.plan_id)}, not for {short_id(plan_id(plan))}.",
            command=again,
        )
    if approval.workspace != here.workspace:
        return Problem(
            code="E_PLAN_WORKSPACE",
            detail="The approval was given for another workspace, or this directory was replaced since.",
            hints=(f"Approved for {approval.workspace.path}; this is {here.workspace.path}.",),
            command=again,
        )
    if approval.issued_at > here.now + CLOCK_SKEW_MS:
        return Problem(
            code="E_APPROVAL_EXPIRED", detail="The approval is dated in the future; the clock went back.", command=again
        )
    if here.now >= approval.expires_at:
        return Problem(code="E_APPROVAL_EXPIRED", detail="The approval has expired.", command=again)
    if approval.base.tools != here.base.tools:
        return Problem(
            code="E_PLAN_STALE_BASE", detail="The definition of a tool changed since the approval.", command=again
        )
    if approval.base.config != here.base.config:
        return Problem(
            code="E_PLAN_STALE_BASE", detail="The configuration in force changed since the approval.", command=again
        )
    if approval.tier != here.tier:
        return Problem(code="E_PLAN_STALE_BASE", detail="The trust tier changed since the approval.", command=again)
    return None
