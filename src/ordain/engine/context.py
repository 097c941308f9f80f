"""What every collaborator of the engine gets: one value with the ports, the run as it was opened, and its journal."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from msgspec import Struct

from ordain.core.approval.approval import Approval, Principal
from ordain.core.plan.model import Step
from ordain.core.plan.tool import ToolDefinition
from ordain.core.plan.value import StepId
from ordain.core.policy.settings import Limits, Settings
from ordain.core.run.inheritance import FormerStep
from ordain.core.run.run_state import RunState
from ordain.core.run.step_event import DecisionGiven
from ordain.core.text.problem import Problem
from ordain.core.text.secret import Secret
from ordain.engine.journal import Journal
from ordain.engine.perform.deadline import Deadlines
from ordain.engine.result import Results
from ordain.engine.shield import BoundFiles
from ordain.ports.ports import Ports
from ordain.records.records import Records
from ordain.records.sink import Sink
from ordain.records.snapshot import Snapshot


class Authority(Protocol):
    """What only the app may say while a run goes on."""

    def counts(self, decision: DecisionGiven) -> bool:
        """Whether an answer that somebody sent is the word of a person who may give it."""

    def denied(self, step: Step, resolved: bool = False) -> Problem | None:
        """What policy denies of a step that begins, `resolved` by the run or not. Raises Refused while stopped."""

    def unpermitted(self, step: Step) -> Problem | None:
        """What policy has against a call of an agent, as the step that it would be."""

    async def refused(self, subject: str, who: Principal, problem: Problem) -> None:
        """Record that a call was refused to an agent."""


class OpenedRun(Struct, frozen=True, kw_only=True):
    """A run as its executor found it."""

    state: RunState
    head: str
    heard: int
    """How many events of the lineage are known: what is asked of us comes after them."""
    approval: Approval | None = None
    bound: BoundFiles | None = None
    former: Mapping[StepId, FormerStep] = {}
    """What was seen of the steps of the run that this one does again, or goes on with."""


class RunContext(Struct, frozen=True, kw_only=True):
    """One run and all that it is carried out with."""

    ports: Ports
    """With the shell, agents and sources of this run: its environment may be sealed."""
    snapshot: Snapshot
    """What the record and the settings said when it was opened."""
    opened: OpenedRun
    journal: Journal
    results: Results
    sink: Sink
    tools: Mapping[str, ToolDefinition]
    authority: Authority
    secret: Secret
    deadlines: Deadlines
    spoken: dict[StepId, bytearray]
    """What models have said so far in attempts that are under way: for whoever watches."""

    @property
    def state(self) -> RunState:
        return self.opened.state

    @property
    def settings(self) -> Settings:
        return self.snapshot.settings

    @property
    def limits(self) -> Limits:
        return self.opened.state.limits_in_force

    @property
    def records(self) -> Records:
        return self.journal.records

    def mark(self, step_id: StepId) -> str:
        """What marks the processes of a step's present attempt, and of its contract."""
        state = self.opened.state
        return f"{state.workspace_identity.id}/{state.run_id}/{step_id}/{state.steps[step_id].attempts}"


def open_context(
    ports: Ports, opened: OpenedRun, *, snapshot: Snapshot, sink: Sink, authority: Authority
) -> RunContext:
    """The context of a run that is about to be carried out."""
    journal = Journal(opened.state, opened.head, ledger=ports.ledger.open(), clock=ports.clock)
    tools = {**ports.toolbox.definitions(), **opened.state.limits_in_force.handlers}
    return RunContext(
        ports=ports,
        snapshot=snapshot,
        opened=opened,
        journal=journal,
        results=Results(journal, sink, tools),
        sink=sink,
        tools=tools,
        authority=authority,
        secret=ports.secrets.known(snapshot.settings.secret_env, ())[0].get,
        deadlines=Deadlines(),
        spoken={},
    )
