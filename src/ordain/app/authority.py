"""What a run under way may no longer do: work is stopped, or a person trusted a `deny` after it was started.

It never gives: what the run was started with still denies what it denied then.
"""

from __future__ import annotations

from collections.abc import Mapping

from ordain.core.plan.actions.command import RunCommand
from ordain.core.plan.model import Step, contract_of
from ordain.core.plan.tool import ToolDefinition
from ordain.core.policy.settings import Settings
from ordain.core.policy.stop import stopped_problem
from ordain.core.text.problem import Problem
from ordain.records.records import WORKSPACE_STREAM
from ordain.records.surroundings import Surroundings


class Authority:
    """Asked before each step, each contract and each call of an agent. While nothing new is recorded in the workspace's
    stream, where trust in settings is, that costs one look at its size."""

    def __init__(
        self,
        here: Surroundings,
        settings: Settings,
        kept: Mapping[str, ToolDefinition],
        *,
        approved: bool,
        judged_at: int | None,
    ) -> None:
        """`kept` are the definitions that the run keeps; `judged_at` is how long the stream was when policy was asked
        about the whole plan, None where that was for an earlier executor."""
        self._here, self._settings, self._kept, self._approved = here, settings, kept, approved
        self._size = judged_at
        self._newest: Settings | None = None

    def denied(self, step: Step, resolved: bool = False) -> Problem | None:
        """What policy denies of a step that is about to begin; `resolved` where its values were not known before.
        Raises Refused while work is stopped."""
        self._here.refuse_stopped()
        newest = self._newest_settings()
        problem = self._here.denied(step, newest, self._kept) if newest is not None else None
        return problem or (self._here.denied(step, self._settings, self._kept) if resolved else None)

    def contract_denied(self, step: Step) -> Problem | None:
        """The same of a step's contract by itself."""
        contract = contract_of(step)
        assert contract is not None
        alone = Step(id=step.id, description="", action=RunCommand(command=contract.command), needs=())
        return self.denied(alone)

    def unpermitted(self, step: Step) -> Problem | None:
        """What policy has against a call that an agent makes: it is denied, or would be asked about and nobody was."""
        if stops := self._here.stops():
            return stopped_problem(stops[0])
        newly = self.denied(step)
        ruling = self._here.rule_step(step, self._settings, self._kept)
        if newly or ruling.denied or self._approved or not ruling.requires_approval:
            return newly or next(iter(ruling.denied), None)
        return Problem(
            code="E_PLAN_APPROVAL_MISSING",
            detail=f"Nobody was asked about this plan, and this call wants that: {ruling.reasons[0]}.",
            hints=("Have the plan proposed with this call as a step of its own.",),
        )

    def _newest_settings(self) -> Settings | None:
        """The settings in force, where they may be others than those that the plan was judged by."""
        size = self._here.ledger.size(WORKSPACE_STREAM)
        if size != self._size:
            self._size, self._newest = size, self._here.settings()[0]
        return self._newest
