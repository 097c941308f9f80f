"""The settings in force, with their defaults. Where they were read from is not known here."""

from __future__ import annotations

import re
from collections.abc import Mapping

import msgspec

from ordain.core.agent import Agent
from ordain.core.bound import DAY_MS
from ordain.core.call_rule import CallRule
from ordain.core.failure import Abort, FailurePolicy
from ordain.core.limits import Limits
from ordain.core.sandbox import SandboxLimits
from ordain.core.tool import ToolDefinition, ToolSource

__all__ = ["CONFIGURATION_FILE", "DEFAULTS", "Settings", "limits", "sandbox_limits", "secret_variables"]

CONFIGURATION_FILE = "ordain.toml"

MINUTE_MS = 60_000
HOUR_MS = 60 * MINUTE_MS

_CREDENTIAL = re.compile(r"KEY|TOKEN|SECRET|PASS|AUTH|CRED|COOKIE", re.IGNORECASE)


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """What `ordain.toml` can say so far."""

    propose_ttl_ms: int = 7 * DAY_MS
    """A prepared plan nobody started expires."""
    max_rejections: int = 3
    """After so many rejections a plan needs a person's own revision."""
    max_pending: int = 20
    """Open proposals that one agent may have."""
    documents: str = ".ordain/plans"
    """Where proposals that came without a file get one."""
    approval_ttl_ms: int = 4 * HOUR_MS
    """From approval to start."""
    separate: bool = False
    """Whoever prepared a plan may not approve it."""
    require_signature: bool = False
    approvers: tuple[str, ...] = ()
    """Who may approve; empty: any person."""
    bind_git_head: bool = False
    """An approval holds only for the commit that was checked out."""
    tier: int = 0
    """The trust tier that every plan runs at, at least."""
    concurrency: int = 4
    writers: int = 1
    """Runs that may change this workspace at once."""
    step_timeout_ms: int = 10 * MINUTE_MS
    contract_timeout_ms: int = MINUTE_MS
    stalled_after_ms: int = 30 * MINUTE_MS
    """A run that is not waiting for a person and gave no sign of life for so long is called stalled."""
    on_failure: FailurePolicy = Abort()
    env: tuple[str, ...] = ("PATH", "HOME", "LANG", "TMPDIR", "VIRTUAL_ENV")
    """Variables that commands and contracts may see."""
    sandbox_read: tuple[str, ...] = ()
    sandbox_processes: int = SandboxLimits().processes
    sandbox_open_files: int = SandboxLimits().open_files
    sandbox_file_mib: int = SandboxLimits().file_mib
    sandbox_memory_mib: int = SandboxLimits().memory_mib
    sandbox_tmp_mib: int = SandboxLimits().tmp_mib
    allow: tuple[str, ...] = ("reads",)
    ask: tuple[str, ...] = ()
    deny: tuple[str, ...] = ()
    rules: Mapping[str, CallRule] = {}
    """What lists may name as `rule:NAME`."""
    guard_mode: str = "observe"
    """Whether guarded calls outside of a plan are only noted (`observe`) or refused (`enforce`)."""
    guarded: tuple[str, ...] = ("*",)
    """What needs a plan; `*` is whatever `open_calls` does not name, and any other entry wins over it."""
    open_calls: tuple[str, ...] = ("reads",)
    """What needs none."""
    agent: str = ""
    """Who performs tasks that name nobody."""
    agent_for: Mapping[str, str] = {}
    """Who performs tasks of a kind (`core.kind`) that name nobody."""
    agents: Mapping[str, Agent] = {}
    prompt: str = ""
    """The template of prompts; ours where it is empty (`core.prompt`)."""
    actions: Mapping[str, ToolDefinition] = {}
    """The handlers of custom actions, by their names among the tools (`core.tool.handler_name`)."""
    notify: tuple[str, ...] = ()
    """The command that is told when something waits for a person or has ended."""
    secret_env: tuple[str, ...] = ("*_TOKEN", "*_KEY", "*_SECRET")
    """Names of environment variables whose values are secrets."""
    secret_files: tuple[str, ...] = ()
    """Files that hold secrets."""
    sources: Mapping[str, ToolSource] = {}
    """Where tools come from that are not built in, by the names that plans call them by."""


DEFAULTS = Settings()
"""What holds where nobody has trusted a configuration."""


def limits(
    settings: Settings,
    handlers: Mapping[str, ToolDefinition] | None = None,
    agents: Mapping[str, Agent] | None = None,
    *,
    tier: int = 0,
) -> Limits:
    """The part of the settings that stays with a run, which uses these handlers and tools that are not built in, and
    these agents, and has this trust tier."""
    return Limits(
        concurrency=settings.concurrency,
        step_timeout_ms=settings.step_timeout_ms,
        contract_timeout_ms=settings.contract_timeout_ms,
        on_failure=settings.on_failure,
        env=settings.env,
        handlers=handlers or {},
        agents=agents or {},
        agent=settings.agent if agents else "",
        agent_for=settings.agent_for if agents else {},
        prompt=settings.prompt if agents else "",
        tier=tier,
        sandbox=sandbox_limits(settings) if tier else SandboxLimits(),
    )


def secret_variables(settings: Settings) -> tuple[str, ...]:
    """The patterns of variables whose values are secrets: those that the settings name, and whatever an agent may see
    besides every command that is called like a credential."""
    seen = {name for agent in settings.agents.values() for name in agent.env}
    return (*settings.secret_env, *sorted(name for name in seen if _CREDENTIAL.search(name)))


def sandbox_limits(settings: Settings) -> SandboxLimits:
    """What commands are held to at tier 1."""
    return SandboxLimits(
        processes=settings.sandbox_processes,
        open_files=settings.sandbox_open_files,
        file_mib=settings.sandbox_file_mib,
        memory_mib=settings.sandbox_memory_mib,
        tmp_mib=settings.sandbox_tmp_mib,
        read=settings.sandbox_read,
    )
