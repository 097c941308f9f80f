"""What kind of work a task is, told by the word that its title begins with.

It is a rule that anybody can read and foretell, no judgement: it only decides who does a task that names nobody, and
who that is is shown before anybody approves.
"""

from __future__ import annotations

import re

from ordain.core.model import Step

__all__ = ["KINDS", "kind_of"]

KINDS = ("code", "docs", "research", "review", "test")

_VERBS = {
    "docs": ("document", "describe", "explain", "summarise", "summarize"),
    "research": ("analyse", "analyze", "find", "inspect", "inventory", "investigate", "map", "research", "trace"),
    "review": ("approve", "assess", "audit", "check", "review", "verify"),
    "test": ("reproduce", "test"),
}
_BY_VERB = {verb: kind for kind, verbs in _VERBS.items() for verb in verbs}
_WORD = re.compile(r"[A-Za-z]+")


def kind_of(step: Step) -> str:
    """The kind of a step's work; `code` where its first word says nothing else."""
    word = _WORD.search(step.description)
    return _BY_VERB.get(word.group().lower(), "code") if word is not None else "code"
