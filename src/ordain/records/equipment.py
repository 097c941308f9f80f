"""What plans can use here: tools, agents, trust tiers, files to include. It is looked at without the record, so that
a document can be linted where nothing was recorded, and soon."""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping
from functools import cached_property
from typing import TYPE_CHECKING

import msgspec

from ordain.core.plan.action import CallTool
from ordain.core.plan.model import Plan, all_steps
from ordain.core.plan.tool import ToolDefinition, declared
from ordain.core.plan.value import Instant
from ordain.core.policy.agent import Agent, access_of, agents_of, is_open, tasks_of
from ordain.core.policy.scope import listed_in
from ordain.core.policy.settings import Settings, arbiter_of, candidates, sandbox_limits, secret_variables
from ordain.core.policy.tier import STRONGEST, tier_of
from ordain.core.text.limit import DOCUMENT_BYTES_MAX
from ordain.core.text.path import handed_fault
from ordain.core.text.problem import Problem, Refused
from ordain.core.text.redaction import Redactor
from ordain.core.text.secret import Secret
from ordain.documents.include import not_included

if TYPE_CHECKING:
    from ordain.ports.ports import Ports


class Equipment:
    """The ports, and the questions to them that need no record."""

    def __init__(self, ports: Ports) -> None:
        self.ports = ports

    def has_ledger(self) -> bool:
        """Whether anything was ever recorded here; asking must not make a ledger."""
        return self.ports.ledger.exists()

    def now(self) -> Instant:
        return self.ports.clock.now()

    def settings_there(self) -> Settings:
        """The settings in force; the defaults where nothing is recorded."""
        return Settings()

    def redactor(self, *, defaults: bool = False) -> Redactor:
        """What keeps secrets out of everything written or shown. A command that opened no ledger goes by the defaults,
        for looking must stay quick."""
        return self._default_redactor

    @cached_property
    def _default_redactor(self) -> Redactor:
        return Redactor(self.ports.secrets.known(secret_variables(Settings()), ())[0])

    def topics_there(self) -> frozenset[str]:
        """The topics to which something was posted."""
        return frozenset()

    def tools(self, settings: Settings, *plans: Plan) -> Mapping[str, ToolDefinition]:
        """Everything that these plans can call: tools, and handlers of custom actions. What is built in goes before
        what is registered, and that before the configuration. What cannot be had counts as unknown."""
        return self.found_tools(settings, {name for plan in plans for name in called(plan)})[0]

    def found_tools(
        self, settings: Settings, wanted: Container[str] | None = None
    ) -> tuple[Mapping[str, ToolDefinition], Mapping[str, Problem]]:
        """The same, of the sources that are wanted only (all, where nothing is said); and by the names of those that
        cannot be had, why."""
        found: dict[str, ToolDefinition] = {}
        problems: dict[str, Problem] = {}
        secret = self.secret(settings)
        for name, source in settings.sources.items():
            if wanted is None or name in wanted:
                try:
                    said = self.ports.sources.definitions(name, source, secret)
                    found |= {one: declared(self._clean(tool), source) for one, tool in said.items()}
                except Refused as refused:
                    problems[name] = refused.problems[0]
        own = {**self.ports.sources.registered(), **settings.actions, **self.ports.handlers.registered()}
        built_in = self.ports.toolbox.definitions()
        return {**built_in, **found, **own, **built_in}, problems

    def _clean(self, tool: ToolDefinition) -> ToolDefinition:
        """A definition as it may be shown and kept: a server can say anything, also what it was told in confidence."""
        if tool.source is None:
            return tool
        redactor = self.redactor()
        schema = redactor.value(msgspec.to_builtins(tool.schema))
        return msgspec.structs.replace(tool, description=redactor.text(tool.description), schema=schema)

    def secret(self, settings: Settings) -> Secret:
        """The secrets that a call may be handed, by the names of their variables."""
        return self.ports.secrets.known(settings.secret_env, ())[0].get

    def kept_agents(self, plan: Plan, settings: Settings) -> Mapping[str, Agent]:
        """Who performs the tasks of a plan: those that a run of it keeps the definitions of."""
        known = self.known_agents(settings)
        return {name: known[name] for name in agents_of(plan, settings.agent_for, settings.agent) if name in known}

    def among(self, plan: Plan, settings: Settings) -> tuple[str, ...]:
        """Among whom the arbiter of the settings chooses for tasks of a plan; nobody where there are none for it."""
        if not settings.arbiter or arbiter_of(settings) is None:
            return ()
        if not any(is_open(step, plans, settings.agent_for) for _, step, plans in tasks_of(plan)):
            return ()
        return candidates(self.known_agents(settings), settings, tier_of(plan, settings.tier))

    def known_agents(self, settings: Settings) -> Mapping[str, Agent]:
        """Everybody who can be given tasks; who is registered goes before the configuration."""
        return {**settings.agents, **self.ports.agents.registered()}

    def agent_faults(self, plan: Plan, settings: Settings) -> Mapping[str, str]:
        """Those of them who cannot be started here now, and why, as far as can be told."""
        kept, tier = self.kept_agents(plan, settings), tier_of(plan, settings.tier)
        return {name: fault for name, agent in kept.items() if (fault := self.agent_fault(agent, tier, settings))}

    def arbiter_fault(self, plan: Plan, settings: Settings) -> Mapping[str, str]:
        """Why the arbiter of a plan's tasks cannot be asked here. No run waits for it: the settings choose then."""
        judge = arbiter_of(settings) if self.among(plan, settings) else None
        fault = self.agent_fault(judge, tier_of(plan, settings.tier), settings) if judge is not None else None
        return {settings.arbiter: fault} if fault is not None else {}

    def agent_fault(self, agent: Agent, tier: int, settings: Settings) -> str | None:
        """Why an agent cannot be started here at a trust tier; None where it can, as far as can be told."""
        if agent.is_model:
            return self._model_fault(agent)
        fault = self.ports.agents.fault(agent)
        program = agent.command or ((agent.preset,) if agent.preset is not None else ())
        if fault is not None or not tier or not program or self.ports.sandbox is None:
            return fault
        return self.ports.sandbox.unseen(sandbox_limits(settings), program, (*settings.env, *agent.env))

    def _model_fault(self, agent: Agent) -> str | None:
        """Why a model cannot be spoken to here; nobody is asked over the network."""
        models = self.ports.models
        fault = models.fault(access_of(agent)) if models is not None else "nothing here speaks to models"
        if fault is None and agent.key_env and not self.ports.host.variables((agent.key_env,)).get(agent.key_env):
            return f"its key is to come from the variable {agent.key_env}, which is not set"
        return fault

    def tier_fault(self, tier: int) -> str | None:
        """Why a trust tier cannot be had here now; None where it can."""
        if tier == 0:
            return None
        if tier > STRONGEST:
            return f"this version knows none above {STRONGEST}"
        return self.ports.sandbox.fault() if self.ports.sandbox is not None else "there is no sandbox"

    def fetch(self, path: str) -> bytes | Problem:
        """What is in a file that a document includes: a regular file of the workspace, behind no link, that an agent
        may see as well; or why nobody is given it."""
        if (fault := handed_fault(path, touched=True)) is not None:
            return not_included(path, f"it {fault}")
        try:
            data, size = self.ports.workspace.beginning(path, DOCUMENT_BYTES_MAX, self.settings_there().secret_files)
        except Refused as refused:
            return not_included(path, refused.problems[0].detail)
        return data if size <= DOCUMENT_BYTES_MAX else not_included(path, f"it has {size:,} bytes")


def called(plan: Plan) -> Iterator[str]:
    """The tools that a plan calls, or that it lets its agents call."""
    yield from (step.action.tool for step in all_steps(plan) if isinstance(step.action, CallTool))
    yield from listed_in(plan)
