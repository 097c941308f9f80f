"""What kind of work a task is, told by the word that its title begins with.

It is a rule that anybody can read and foretell, no judgement: it only decides who does a task that names nobody, and
who that is is shown before anybody approves. Every step has exactly one kind.
"""

from __future__ import annotations

import re

from ordain.core.model import Step

__all__ = ["KINDS", "VERBS", "kind_of"]

KINDS = ("code", "docs", "research", "review", "test")

VERBS = {
    "docs": ("describe", "document", "explain", "summarise", "summarize", "translate"),
    "research": (
        "analyse", "analyze", "compare", "explore", "find", "inspect", "investigate", "research", "study", "survey",
        "trace",
    ),
    "review": ("assess", "audit", "check", "critique", "judge", "proofread", "review", "verify"),
    "test": ("benchmark", "reproduce", "test"),
}  # fmt: skip
"""By kind, the words that a title of it begins with. What begins with any other word is `code`: whoever performs that
can change things, so nothing is given to a weaker agent by accident."""
_BY_VERB = {verb: kind for kind, verbs in VERBS.items() for verb in verbs}
_WORD = re.compile(r"[^\W\d_]+")


def kind_of(step: Step) -> str:
    """The kind of a step's work; `code` where its first word says nothing else."""
    word = _WORD.search(step.description)
    return _BY_VERB.get(word.group().lower(), "code") if word is not None else "code"
