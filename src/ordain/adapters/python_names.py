"""Python that others wrote, found by its name. Fresh processes load it too, so it imports nothing else of us."""

from __future__ import annotations

import importlib
from typing import Any

__all__ = ["imported"]


def imported(name: str) -> Any:
    """What `module:name` names. A module can raise anything while it is imported."""
    module, _, path = name.partition(":")
    found: Any = importlib.import_module(module)
    for part in path.split("."):
        found = getattr(found, part)
    return found
