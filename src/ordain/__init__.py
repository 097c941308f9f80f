"""Ordain: plan/apply for AI agents.

The public names. They are loaded when first used, so that `import ordain` costs nothing.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ordain.adapters.handlers import Handler
    from ordain.adapters.python_tools import tool
    from ordain.app import App
    from ordain.assemble import open_workspace
    from ordain.core.action import CallTool, RunCommand
    from ordain.core.approval import Channel, Principal
    from ordain.core.cannot import Cannot
    from ordain.core.condition import Contract, Verification
    from ordain.core.model import Plan, Step
    from ordain.core.problem import Problem, Refused

__version__ = "0.1.0"

__all__ = [
    "App",
    "CallTool",
    "Cannot",
    "Channel",
    "Contract",
    "Handler",
    "Plan",
    "Principal",
    "Problem",
    "Refused",
    "RunCommand",
    "Step",
    "Verification",
    "__version__",
    "open_workspace",
    "tool",
]

_HOMES = {
    "App": "ordain.app",
    "CallTool": "ordain.core.action",
    "Cannot": "ordain.core.cannot",
    "Channel": "ordain.core.approval",
    "Contract": "ordain.core.condition",
    "Handler": "ordain.adapters.handlers",
    "Plan": "ordain.core.model",
    "Principal": "ordain.core.approval",
    "Problem": "ordain.core.problem",
    "Refused": "ordain.core.problem",
    "RunCommand": "ordain.core.action",
    "Step": "ordain.core.model",
    "Verification": "ordain.core.condition",
    "open_workspace": "ordain.assemble",
    "tool": "ordain.adapters.python_tools",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'ordain' has no attribute {name!r}")
    return getattr(importlib.import_module(_HOMES[name]), name)
