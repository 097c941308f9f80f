"""What can be wrong with a change of a plan: the kinds of concerns, and the form in which one is said."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

ConcernKind = Literal[
    "destructive_effect", "contract_removed", "contract_weakened", "proof_removed", "protect_narrowed",
    "inputs_narrowed", "tools_widened", "writes_widened", "network_allowed", "workspace_unbound", "tier_lowered",
    "approval_dropped", "approval_scope_changed", "ask_removed", "step_removed", "action_replaced",
    "condition_removed", "condition_added", "repeatable_claimed", "repeat_allowed", "failure_softened",
    "fallback_named", "worktree_dropped", "budget_raised", "repetitions_raised", "retry_raised", "command_new",
    "path_written", "path_rewritten", "effect_new", "command_changed", "content_changed", "effect_changed",
    "instructions_changed", "parameter_changed", "question_changed", "condition_changed", "wait_changed",
    "lock_changed", "repetitions_changed", "contract_new", "contract_changed", "needs_removed", "agent_changed",
    "model_changed", "pool_changed", "failure_changed", "concurrency_raised", "timeout_raised", "reads_changed",
    "field_changed",
]  # fmt: skip
"""What can be wrong with a change, the most dangerous first; the order of the list is the order of showing."""

Said = tuple[ConcernKind, str]
"""A kind, and what is said of a step or a plan, to follow its name."""


def listed(names: Iterable[str]) -> str:
    """Names in a sentence."""
    return ", ".join(f"`{name}`" for name in names)
