"""In which dialect a document is written: told by a few of its keys, never by the name of its file.

Knows nothing of what the keys mean. Three seeds have a form of their own here; those of the first and the fifth are
the JSON and the Markdown notation themselves. A tree with a key that only the format's own trees have is never taken
for a dialect, so that what is wrong in it is said in the format's own words.
"""

from __future__ import annotations

import re
from typing import Any, Literal, get_args

__all__ = ["DIALECTS", "TOP_KEYS", "Dialect", "front_matter_dialect", "tree_dialect"]

Dialect = Literal["s0", "s1", "s2", "s3", "s4"]
DIALECTS: tuple[Dialect, ...] = get_args(Dialect)

_S1_PLAN = frozenset(("currentStepIndex", "previousPlanId", "createdBy", "updatedAt"))
_S1_STEP = frozenset(("index", "suggestedAgent", "acceptanceCriteria", "executedBy", "affectedFiles"))
_S2_PLAN = frozenset(("taskId", "estimatedDuration"))
_S2_STEP = frozenset(("args", "dependsOn", "order", "critical"))
TOP_KEYS = frozenset(("id", "version", "createdAt")) | _S1_PLAN | _S2_PLAN
"""Keys with which the YAML of a dialect may start, and no plan in the format's own notation does."""

_S3_KEY = re.compile(r"^(?:planner_model|executor_model|tools_required|execution_[a-z_]+|result_summary)[ \t]*:", re.M)
_S3_HEAD = (re.compile(r"^id[ \t]*:", re.M), re.compile(r"^title[ \t]*:", re.M))
_TYPE = re.compile(r"^type[ \t]*:", re.M)
_START = re.compile(r"---[ \t]*\n")
_END = re.compile(r"^---[ \t]*$", re.M)


def tree_dialect(tree: Any) -> Literal["s1", "s2"] | None:
    """The dialect of a JSON or YAML tree, or None where it is one of the format's own."""
    if type(tree) is not dict or "plan_version" in tree:
        return None
    steps = tree.get("steps")
    first = steps[0] if type(steps) is list and steps else None
    keys = first.keys() if type(first) is dict else ()
    if "action" in keys:
        return None
    in_plan, in_steps = not _S1_PLAN.isdisjoint(tree), not _S1_STEP.isdisjoint(keys)
    if "tool" not in keys and (in_plan or in_steps):
        return "s1"
    if not _S2_PLAN.isdisjoint(tree):
        return "s2"
    # A title makes it the format's own, which says what to write instead of `tool`; unless `dependsOn` says otherwise.
    titled = "title" in tree and "dependsOn" not in keys
    return "s2" if "tool" in keys and not titled and not _S2_STEP.isdisjoint(keys) else None


def front_matter_dialect(text: str) -> Literal["s3"] | None:
    """The dialect of a Markdown document, told by its front matter."""
    end = _END.search(text, 3) if _START.match(text) else None
    if end is None:
        return None
    head = text[: end.start()]
    if _TYPE.search(head):
        return None
    return "s3" if _S3_KEY.search(head) or all(key.search(head) for key in _S3_HEAD) else None
