"""The names that verbs had before they were grouped by subject. They work, with a DeprecationWarning that names the new
place, for programs that use Ordain as a library; nothing of ours uses them."""

from __future__ import annotations

from functools import reduce
from typing import Any

_SUBJECTS = ("plans", "approvals", "runs", "answers", "workspace", "refusals")
_RENAMED = {
    "auditing": "audits",
    "guarding": "guard",
    "stopping": "stops",
    "record_refusal": "refusals.record",
    "signal": "signals.give",
    "signals_awaited": "signals.awaited",
    "topic": "topics.read",
    "post": "topics.post",
    "statistics": "audits.statistics",
}
"""Verbs whose subject calls them otherwise."""


def find_renamed(app: Any, name: str) -> Any:
    """What an App had under a name; raises AttributeError where it had nothing."""
    subjects = (one for one in _SUBJECTS if not name.startswith("_") and hasattr(getattr(app, one), name))
    place = _RENAMED.get(name) or next((f"{one}.{name}" for one in subjects), None)
    if place is None:
        raise AttributeError(f"App has no `{name}`")
    warn_renamed(name, place, 4)
    return reduce(getattr, place.split("."), app)


def warn_renamed(old: str, new: str, stacklevel: int = 3) -> None:
    import warnings  # nobody needs it who uses the new names

    warnings.warn(f"App.{old} is App.{new} now", DeprecationWarning, stacklevel)
