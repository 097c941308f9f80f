"""Approval: a recorded, single-use permission bound to one plan and the situation it was given in.

`check` is the one place that compares an approval with what is about to start. A missing binding never means
"any", and checking consumes nothing: the caller spends the approval in the transaction that starts the run.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from enum import StrEnum
from functools import partial

import msgspec

from ordain.core.approval.signature import statement
from ordain.core.plan.canonical import plan_id, short_id
from ordain.core.plan.model import Plan, all_steps, contract_of
from ordain.core.plan.role import PaneName, parts
from ordain.core.plan.tool import action_kind, tool_name
from ordain.core.plan.value import Instant, PlanId, RunId, StepId
from ordain.core.policy.path_use import changed
from ordain.core.policy.sealing import SealedEnvironment
from ordain.core.text.problem import Problem

CLOCK_SKEW_MS = 60_000
"""How far ahead of our clock an approval may be dated before it counts as dated in the future."""


class Channel(StrEnum):
    """The way a request came in. Only the terminal is a person's: code and robots can ask, never approve."""

    TERMINAL = "terminal"
    SCRIPT = "script"
    LIBRARY = "library"
    ROBOT = "robot"
    MCP = "mcp"
    HOOK = "hook"
    PLANNER = "planner"
    """A planner that a person, a script or a robot set to work: a model or an agent, which holds nothing."""


class Principal(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Who asked for something, and through which channel. What has its default is not written, so not signed."""

    name: str
    channel: Channel
    agent: str = ""
    """What the client calls itself, where it says so: its own word, which permits nothing and is compared with
    nothing."""

    @property
    def person(self) -> bool:
        return self.channel is Channel.TERMINAL

    @property
    def words(self) -> str:
        """The same in words. What a client calls itself is quoted, so that it cannot say more than that."""
        agent = f", calls itself {json.dumps(self.agent, ensure_ascii=False)}" if self.agent else ""
        return f"{self.name} ({self.channel.value}{agent})"


class WorkspaceIdentity(msgspec.Struct, frozen=True, kw_only=True):
    """Which directory this is: the id minted for it, and what the file system says it is."""

    id: str
    path: str
    device: int
    inode: int


class Base(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The state of the world an approval was given in."""

    tools: str
    """Digest of the definitions of the tools the plan uses."""
    config: str
    """Digest of the configuration in force, or `defaults`; who the agents are is part of it."""
    definitions: Mapping[str, str] = {}
    """The same for each tool by itself, and for each agent, so that a refusal can name the one that changed."""
    operands: Mapping[str, str] = {}
    """What each file was that the plan names, in arguments, commands or `inputs`."""
    commands: bool = False
    """Whether files that commands name are among them; they were not before version 0.2."""
    git_head: str | None = None
    """The commit that was checked out, where the settings bind it."""
    environment: SealedEnvironment | None = None
    """The variables and programs that the run gets; absent in approvals that older versions recorded."""


class Moment(msgspec.Struct, frozen=True, kw_only=True):
    """A time as the machine's two clocks tell it: one that people set, and one that only counts since the boot."""

    at: Instant
    boot_id: str = ""
    elapsed_ms: int = 0
    """Since that boot, asleep or awake."""


class Continuation(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Which run a successor goes on with, as it stands, and what it may keep of it."""

    run_id: RunId
    head: str
    """Of that run's chain: with it everything that was recorded of it."""
    kept: tuple[StepId, ...] = ()


class Approval(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One permission for one run. What has its default is not written: later fields change no bytes signed before."""

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
    uses: int = 1
    panes: Mapping[str, str] = {}
    """Name of each pane the plan uses → its identity."""
    boot_id: str = ""
    elapsed_ms: int = 0
    """With the boot, how long ago that was by a clock that nobody can set."""
    shown_sha256: str = ""
    """Digest of what the approver was shown."""
    ledger_size: int = 0
    ledger_head: str = ""
    """How many events the ledger had, and the digest over all of them; the approver saw both."""
    key: str | None = None
    """The fingerprint of the key that signs this approval."""
    continues: Continuation | None = None
    """What the run goes on with; nothing for one that begins anew."""
    allow_subset: bool = False
    """Whether a successor of the run may go on unasked that does nothing but what this permits
    (`core.lineage.subset`)."""


class Situation(msgspec.Struct, frozen=True, kw_only=True):
    """Workspace, base and time as found at commit."""

    workspace: WorkspaceIdentity
    base: Base
    tier: int
    now: Moment
    panes: Mapping[str, str] = {}
    """The identities of the panes that are there."""
    continues: Continuation | None = None
    """What the run would go on with, as that stands now."""
    misfits: Callable[[SealedEnvironment], Iterable[str]] = lambda sealed: ()
    """What of the environment here does not fit what was sealed, each in words."""


def signed_bytes(approval: Approval) -> bytes:
    return statement("approval", msgspec.to_builtins(approval))


def action_kinds(plan: Plan) -> tuple[str, ...]:
    """The kinds of action in a plan, computed from the plan itself: `run`, `tool:write_file`, `contract`, `check` …"""
    kinds = set()
    for step in all_steps(plan):
        kind = action_kind(step.action)
        kinds.add(f"tool:{tool_name(step.action)}" if kind == "tool" else kind)
        if contract_of(step) is not None:
            kinds.add("contract")
        if step.happened is not None:
            kinds.add("check")
    return tuple(sorted(kinds))


def pane_names(plan: Plan) -> tuple[str, ...]:
    """The panes a plan uses, by the names or numbers it gives them."""
    panes = ([str(part.value) for part in parts(one.action, PaneName, inside=False)] for one in all_steps(plan))
    return tuple(sorted({named[-1] for named in panes if named}))


def check(approval: Approval, plan: Plan, here: Situation) -> Problem | None:
    """The first reason why this approval does not permit this plan here and now, or None when it does."""
    refused = partial(Problem, command=f"ordain approve {short_id(plan_id(plan))}")
    if approval.plan_id != plan_id(plan) or approval.action_kinds != action_kinds(plan):
        detail = f"The approval is for {short_id(approval.plan_id)}, not for {short_id(plan_id(plan))}."
        return refused(code="E_PLAN_HASH_MISMATCH", detail=detail)
    if approval.workspace != here.workspace:
        return refused(
            code="E_PLAN_WORKSPACE",
            detail="The approval was given for another workspace, or this directory was replaced since.",
            hints=(f"Approved for {approval.workspace.path}; this is {here.workspace.path}.",),
        )
    if late := _out_of_time(approval, here.now):
        return refused(code="E_APPROVAL_EXPIRED", detail=late)
    for pane in pane_names(plan):
        if approval.panes.get(pane) is None or approval.panes[pane] != here.panes.get(pane):
            what = "is not there any more" if pane not in here.panes else "is not the one it was when this was approved"
            return refused(code="E_PLAN_PANE_MISMATCH", detail=f"The pane `{pane}` {what}.")
    if approval.base.environment is None:
        return refused(
            code="E_APPROVAL_UNSEALED",
            detail="The approval was given by an older version of Ordain, which did not seal the environment.",
            hints=("What runs would depend on the starter's variables. Look at the plan and approve again.",),
        )
    differences = (*drift(approval.base, here.base), *here.misfits(approval.base.environment))
    if approval.continues != here.continues:
        differences += (_continuation_words(approval.continues, here.continues),)
    if approval.tier != here.tier:
        differences += (f"the trust tier was {approval.tier} and is {here.tier}",)
    if differences:
        return refused(
            code="E_PLAN_STALE_BASE",
            detail=f"What the approval was given for has changed since: {differences[0]}.",
            hints=tuple(f"Also: {difference}." for difference in differences[1:]),
        )
    return None


def _continuation_words(before: Continuation | None, now: Continuation | None) -> str:
    if before is None or now is None or before.run_id != now.run_id:
        named = [one.run_id if one is not None else "no run" for one in (before, now)]
        return f"the run that it goes on with (it was {named[0]}, it is {named[1]})"
    if before.kept != now.kept:
        return f"what it keeps of {now.run_id}"
    return f"{now.run_id}, which it goes on with: something was recorded of that since"


def _out_of_time(approval: Approval, now: Moment) -> str | None:
    """Why an approval is not good at this moment. A clock that was set back revives nothing within one boot."""
    if approval.issued_at > now.at + CLOCK_SKEW_MS:
        return "The approval is dated in the future; the clock went back."
    if now.at >= approval.expires_at:
        return "The approval has expired."
    same_boot = bool(approval.boot_id) and approval.boot_id == now.boot_id
    if same_boot and now.elapsed_ms - approval.elapsed_ms >= approval.expires_at - approval.issued_at:
        return "The approval has expired; the clock was set back since it was given."
    return None


NARROWED = ", narrowed"
"""What the digest of a configuration ends with while its file says something else than a person trusted."""
AGENT = "agent:"
"""What the name of an agent begins with among the definitions of a base."""


def _config_words(before: str, now: str) -> str:
    """How the configuration changed; the same digest, narrowed, is a file that says something else than was trusted."""
    if now == before + NARROWED:
        return "ordain.toml was edited or deleted since, and is not trusted as it is now"
    if before == now + NARROWED:
        return "ordain.toml was not trusted as it stood then"
    return f"it was {before[:19]}, it is {now[:19]}"


def drift(before: Base, now: Base) -> Iterator[str]:
    """What of the world changed from one base to another, each in words."""
    if before.tools != now.tools or before.definitions != now.definitions:
        names = {name for name, _ in before.definitions.items() ^ now.definitions.items()}
        told = (f"`{name}`".replace(f"`{AGENT}", "the agent `") for name in sorted(names))
        yield f"the definition of {', '.join(told) or 'a tool'}"
    if before.config != now.config:
        yield f"the configuration in force ({_config_words(before.config, now.config)})"
    yield from changed(before.operands, now.operands)
    if before.git_head != now.git_head:
        was, is_now = before.git_head or "not bound", now.git_head or "not bound"
        yield f"the commit that is checked out (it was {was[:12]}, it is {is_now[:12]})"
