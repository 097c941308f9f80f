"""What is said where the library of an extra is not installed: which one, and the command that brings it."""

from __future__ import annotations

from ordain.core.text.problem import Refused, refuse


def extra_missing(extra: str, detail: str) -> Refused:
    """The refusal of what needs this extra of the package."""
    return refuse(
        "E_EXTRA_MISSING",
        detail,
        f"In a checkout of Ordain: pip install '.[{extra}]'",
        command=f"pip install 'ordain[{extra}]'",
    )
