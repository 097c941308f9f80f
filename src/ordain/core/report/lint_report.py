"""What lint found in a document."""

from __future__ import annotations

import msgspec

from ordain.core.plan.value import PlanId
from ordain.core.text.problem import Problem


class LintReport(msgspec.Struct, frozen=True, kw_only=True):
    """What lint found. `plan_id` is absent when there is no plan to speak of."""

    file: str | None
    problems: tuple[Problem, ...]
    dialect: str | None = None
    plan_id: PlanId | None = None
    plan_hash: str | None = None
    title: str | None = None
    steps: int = 0
    wanted: tuple[Problem, ...] = ()
    """What is missing for the plan of a template, of which nothing is wrong as it stands."""

    @property
    def good(self) -> bool:
        return self.plan_id is not None and all(problem.code.startswith("W_") for problem in self.problems)
