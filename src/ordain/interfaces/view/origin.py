"""How a plan came to be that a planner wrote, in words."""

from __future__ import annotations

from ordain.core.run.origin import PlanOrigin
from ordain.interfaces.view.run import who
from ordain.interfaces.view.text import visible


def origin_words(origin: PlanOrigin) -> str:
    """How a plan came to be that a planner wrote."""
    unenforced = ", started without a sandbox" if origin.unenforced else ""
    rounds = rounds_words(origin.rounds, origin.first_wrong)
    words = f"for {who(origin.asked_by)}: {rounds}; {origin.tokens:,} tokens{unenforced}"
    return f"by {visible(origin.planner)} {words}"


def rounds_words(count: int, first_wrong: int) -> str:
    """How often a planner handed in a plan, and how good the first was."""
    if count <= 1:
        return "right at once" if not first_wrong else "in one round"
    return f"in {count} rounds, after {first_wrong} problem{'s' * (first_wrong != 1)} in the first"
