"""What a probe found out about the surroundings, so that linting itself stays pure."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from ordain.core.agent import Agent
from ordain.core.lint.script import Script
from ordain.core.problem import Problem
from ordain.core.settings import Settings
from ordain.core.tool import ToolDefinition

__all__ = ["Facts"]


class Facts(msgspec.Struct, frozen=True, kw_only=True):
    """The surroundings of a plan. What is not mentioned was not looked at."""

    tools: Mapping[str, ToolDefinition] = {}
    settings: Settings = Settings()
    """The settings in force: by which rules tasks get their agents, and where tools come from."""
    agents: Mapping[str, Agent] = {}
    """Everybody who can be given tasks."""
    agent_faults: Mapping[str, str] = {}
    """Who performs tasks of the plan and cannot be started here → why."""
    unreached: Mapping[str, Problem] = {}
    """Sources of tools that do not say what they have → why."""
    workflows: frozenset[str] = frozenset()
    """The names of the workflows there are."""
    shell_faults: Mapping[str, str] = {}
    """Command text → what bash says is wrong with its syntax."""
    scripts: Mapping[str, Script] = {}
    """Command text → the same taken apart; plain words need no entry."""
    unread: frozenset[str] = frozenset()
    """Contracts that nobody could take apart, although nothing is wrong with them."""
    expression_faults: Mapping[tuple[str, frozenset[str]], str] = {}
    """Expression and the variables it can name → what is wrong with it."""
    pattern_faults: Mapping[str, str] = {}
    """Pattern of an output or an answer → what is wrong with it."""
    idle_patterns: frozenset[str] = frozenset()
    """Patterns of outputs that match whatever is written."""
    protecting_nothing: frozenset[str] = frozenset()
    """Patterns of `protect` that mean no file that is here."""
    missing_programs: frozenset[str] = frozenset()
    """Programs that contracts start and that are not here."""
    missing_files: frozenset[str] = frozenset()
    """Paths that steps read and that are not here."""
    unhanded: Mapping[str, str] = {}
    """Paths that tasks read and that are there, but cannot be put before an agent as they are → why."""
    secret_reads: frozenset[str] = frozenset()
    """Paths that tasks read and that the settings name among the files that hold secrets."""
    empty_topics: frozenset[str] = frozenset()
    """Topics that steps read and to which nothing was posted yet."""
    secrets: Mapping[str, str] = {}
    """The variables of the environment that hold secrets → their values, which stand in no plan."""
    panes: bool = False
    """Whether panes can be looked at."""
    tier: int = 0
    """The strongest trust tier that can be had here, as far as that was looked at."""
    tier_fault: str = "nobody has looked whether it can"
    """Why no stronger one can be had."""
    workspace_id: str | None = None
