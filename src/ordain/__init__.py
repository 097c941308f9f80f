"""Ordain: plan/apply for AI agents.

The public names. They are loaded when first used, so that `import ordain` costs nothing.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ordain.adapters.agents.python_work import Cannot, Work
    from ordain.adapters.tools.python import Handler, tool
    from ordain.app.app import App
    from ordain.assemble.workspace import open_workspace
    from ordain.core.approval.approval import Channel, Principal
    from ordain.core.plan.action import CallTool, RunCommand
    from ordain.core.plan.condition import Contract, Verification
    from ordain.core.plan.model import Plan, Step
    from ordain.core.text.problem import Problem, Refused
    from ordain.planner.outcome import Planned, PlanRequest
    from ordain.planner.planner import Planner
    from ordain.planner.replan import Replanner, ReplanRequest

__version__ = "0.2.0"

__all__ = [
    "App",
    "CallTool",
    "Cannot",
    "Channel",
    "Contract",
    "Handler",
    "Plan",
    "PlanRequest",
    "Planned",
    "Planner",
    "Principal",
    "Problem",
    "Refused",
    "ReplanRequest",
    "Replanner",
    "RunCommand",
    "Step",
    "Verification",
    "Work",
    "__version__",
    "open_workspace",
    "tool",
]

_HOMES = {
    "App": "ordain.app.app",
    "CallTool": "ordain.core.plan.action",
    "Cannot": "ordain.adapters.agents.python_work",
    "Channel": "ordain.core.approval.approval",
    "Contract": "ordain.core.plan.condition",
    "Handler": "ordain.adapters.tools.python",
    "Plan": "ordain.core.plan.model",
    "PlanRequest": "ordain.planner.outcome",
    "Planned": "ordain.planner.outcome",
    "Planner": "ordain.planner.planner",
    "Principal": "ordain.core.approval.approval",
    "Problem": "ordain.core.text.problem",
    "Refused": "ordain.core.text.problem",
    "ReplanRequest": "ordain.planner.replan",
    "Replanner": "ordain.planner.replan",
    "RunCommand": "ordain.core.plan.action",
    "Step": "ordain.core.plan.model",
    "Verification": "ordain.core.plan.condition",
    "Work": "ordain.adapters.agents.python_work",
    "open_workspace": "ordain.assemble.workspace",
    "tool": "ordain.adapters.tools.python",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'ordain' has no attribute {name!r}")
    return getattr(importlib.import_module(_HOMES[name]), name)
