"""The part of the settings that stays with a run."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from ordain.core.agent import Agent
from ordain.core.failure import FailurePolicy
from ordain.core.sandbox import SandboxLimits
from ordain.core.tool import ToolDefinition

__all__ = ["Limits"]


class Limits(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The settings in force when a run was opened; they stay with the run, whatever the configuration says later."""

    concurrency: int
    step_timeout_ms: int
    contract_timeout_ms: int
    on_failure: FailurePolicy
    env: tuple[str, ...]
    """Names of environment variables that commands and contracts may see."""
    handlers: Mapping[str, ToolDefinition] = {}
    """The handlers of the custom actions that the run may do, and the tools it may call that are not built in, by their
    names among the tools: what was approved."""
    tier: int = 0
    """The trust tier that commands and contracts run at."""
    sandbox: SandboxLimits = SandboxLimits()
    """What they are held to at tier 1."""
    agents: Mapping[str, Agent] = {}
    """Who performs the run's tasks: what was approved."""
    agent: str = ""
    """Who performs those that name nobody, and whose kind no rule names."""
    agent_for: Mapping[str, str] = {}
    """The rules, by kind."""
    prompt: str = ""
    """The template of prompts; ours where it is empty."""
