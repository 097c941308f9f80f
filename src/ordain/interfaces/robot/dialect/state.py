"""How a plan stands, as every dialect's output is made from: the plan, what the ledger says of it, and its run.

A seed knows the steps of its plan and no others; what belongs to a step (its items, the steps of its plan, its
fallbacks) has no place in any of them. Nothing is read here, and nothing is told that `--json` does not tell.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any, Literal, NamedTuple

import msgspec

from ordain.core.plan.actions.command import RunCommand
from ordain.core.plan.actions.task import Task
from ordain.core.plan.actions.tool import CallTool
from ordain.core.plan.model import Action, Plan, Step
from ordain.core.plan.value import Instant, PlanId, StepId
from ordain.core.policy.agent_choice import AgentChoice
from ordain.core.report.report import PlanLine, RunReport, StepReport
from ordain.core.run.event import StepState
from ordain.core.run.run_state import RunState, StepRecord
from ordain.documents.dialects.status import PLAN_WORDS, STEP_WORDS

OutputDialect = Literal["s1", "s2", "s3", "s4"]
OUTPUT_DIALECTS: tuple[OutputDialect, ...] = ("s1", "s2", "s3", "s4")
"""The seeds in whose form a result can be told; the first seed's is the one that `--json` has anyway."""


class Stood(NamedTuple):
    """One step of the plan, and how it stands where there is a run."""

    number: int
    step: Step
    record: StepRecord | None
    report: StepReport | None

    @property
    def unverified(self) -> bool | None:
        """True where a person's word alone has it pass. No seed has a place for that, and it is told all the same."""
        return True if self.report is not None and self.report.unverified else None


class DialectState(msgspec.Struct, frozen=True, kw_only=True):
    """A plan, perhaps with its run. `line` is absent for a document that was never stored."""

    plan_id: PlanId
    plan: Plan
    status: str
    """Of the run where there is one, in our words."""
    line: PlanLine | None = None
    state: RunState | None = None
    report: RunReport | None = None

    def steps(self) -> Iterator[Stood]:
        """The steps of the plan itself, in its order."""
        reports = {one.id: one for one in self.report.steps} if self.report is not None else {}
        for number, step in enumerate(self.plan.steps, 1):
            record = self.state.steps[step.id] if self.state is not None else None
            yield Stood(number, step, record, reports.get(step.id))

    def agent_of(self, one: Stood) -> str | None:
        """Who performs the task of a step; without a run, who the step or the plan names. None for other steps."""
        if not isinstance(one.step.action, Task):
            return None
        if one.report is not None and isinstance(one.report.agent, AgentChoice):
            return one.report.agent.agent
        return one.step.action.agent or self.plan.agent

    def status_in(self, dialect: OutputDialect) -> str | None:
        """What the dialect calls how the plan stands; None where it has no word for that."""
        return PLAN_WORDS[dialect][self.status]

    def step_status_in(self, dialect: OutputDialect, step: StepId) -> str | None:
        """The same of a step."""
        if self.state is None:
            return STEP_WORDS[dialect][StepState.PENDING]
        return step_status(self.state, step, dialect)


def step_status(state: RunState, step: StepId, dialect: OutputDialect) -> str | None:
    """What a dialect calls how a step of a run stands."""
    word: str = state.steps[step].state
    if word == StepState.PENDING:
        word = "blocked" if state.is_blocked(step) else "ready"
    return STEP_WORDS[dialect][word]


def instant_text(at: Instant | None) -> str | None:
    """A moment as the seeds write it: UTC, to the millisecond where there is more than a second."""
    if at is None:
        return None
    spec = "milliseconds" if at % 1000 else "seconds"
    return datetime.fromtimestamp(at / 1000, UTC).isoformat(timespec=spec).replace("+00:00", "Z")


def said(**fields: Any) -> dict[str, Any]:
    """The fields that say something: what a seed marks as optional is left out where there is nothing to say."""
    return {name: value for name, value in fields.items() if value not in (None, "", [], {})}


def tool_of(action: Action) -> tuple[str, str | None]:
    """The tool that does an action and its operation, for seeds in which every step has one. Commands are `bash`, as
    the fourth seed calls that; other actions go by their type."""
    match action:
        case CallTool():
            return action.tool, action.operation
        case Task(tools=(only,)) if ":" in only:
            tool, _, operation = only.partition(":")
            return tool, operation
        case RunCommand():
            return "bash", None
        case _:
            return str(type(action).__struct_config__.tag), None


def what_went_wrong(report: StepReport | None) -> str | None:
    """The code and the words of what went wrong with a step."""
    return f"{report.error}: {report.evidence}" if report is not None and report.error is not None else None
