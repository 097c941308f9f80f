"""An agent that is a Python function and does nothing; in a module of its own, for its process loads all of that."""

from __future__ import annotations

from ordain import Work

__all__ = ["nothing"]


def nothing(work: Work) -> str:
    return str(len(work.prompt))
