"""What every verb looks at before it decides. Nothing here decides: each question is answered as things stand now."""

from __future__ import annotations

import shlex
from collections.abc import Collection, Mapping
from contextlib import AbstractContextManager
from copy import copy

import msgspec

from ordain.core.approval.approval import AGENT, Base, Channel, Principal, Situation, WorkspaceIdentity
from ordain.core.approval.signature import Signature
from ordain.core.lineage.lineage import PlanState
from ordain.core.lineage.workspace import WRONG_PASSPHRASES_MAX, Approver, WorkspaceState
from ordain.core.lint.agent import agent_problem
from ordain.core.lint.tool import unhandled
from ordain.core.plan.canonical import short_id
from ordain.core.plan.model import PLAN_VERSION, Plan, Step, all_steps, look_commands
from ordain.core.plan.tool import (
    SHELL,
    ToolDefinition,
    definition_digest,
    definition_of,
    handler_name,
    handlers_of,
)
from ordain.core.policy.agent import Agent, agent_digest, agents_of
from ordain.core.policy.bound_file import NamedFiles, command_texts, named_files
from ordain.core.policy.path_use import operand_paths, operand_patterns
from ordain.core.policy.ruling import Ruling, rule
from ordain.core.policy.scope import offered_in
from ordain.core.policy.script import Script
from ordain.core.policy.sealing import RunEnvironment, SealedEnvironment, misfits, restore, seal_environment, unusual
from ordain.core.policy.settings import (
    Limits,
    Settings,
    arbiter_of,
    is_secret_variable,
)
from ordain.core.policy.stop import StopOrder, stopped_problem
from ordain.core.policy.tier import tier_of, tier_problem
from ordain.core.run.event import SignatureRefused, WorkspaceEvent, WorkspaceOpened
from ordain.core.run.run_state import RunState
from ordain.core.run.topic import stream_of_topic, topic_named
from ordain.core.text.problem import Problem, Refused, refuse
from ordain.core.text.redaction import CUT, Redactor
from ordain.core.text.secret import is_telling, named_secrets, secrets_within
from ordain.documents.include import document_digest
from ordain.documents.reading import read
from ordain.ports.ledger import Append, Ledger
from ordain.ports.machine import Credential
from ordain.ports.ports import Ports
from ordain.ports.process import Shell
from ordain.records.conflict import is_conflict, retried
from ordain.records.equipment import Equipment, called
from ordain.records.records import WORKSPACE_STREAM, Records
from ordain.records.sink import Sink
from ordain.records.snapshot import Snapshot, Snapshots

REMEMBERED_MAX = 16_384
"""How long a secret may be that is searched for again because it was hidden before."""


class Surroundings(Equipment):
    """The ports, and the questions that several verbs ask of them."""

    def __init__(self, ports: Ports) -> None:
        super().__init__(ports)
        self.snapshots = Snapshots(ports)
        self._held: Snapshot | None = None

    def held(self) -> Surroundings:
        """The same questions, all answered by one snapshot; whether it still counts is asked when recording."""
        held = copy(self)
        held._held = self.snapshot
        return held

    @property
    def ledger(self) -> Ledger:
        return self.ports.ledger.open()

    @property
    def records(self) -> Records:
        return Records(self.ports.ledger.look(), self.snapshots.lineages)

    # --- Whether anything may be done ------------------------------------------------------------------------------

    def stops(self) -> tuple[StopOrder, ...]:
        return self.ports.stop_switch.read() if self.ports.stop_switch is not None else ()

    def refuse_stopped(self) -> None:
        """Raise Refused while work is stopped here."""
        if stops := self.stops():
            raise Refused([stopped_problem(stops[0])])

    # --- Who and where ---------------------------------------------------------------------------------------------

    def is_pretended(self, by: Principal) -> bool:
        """Whether somebody says they sit at a terminal, and no terminal is behind this; or a subclass could say it."""
        return type(by) is not Principal or (by.channel == Channel.TERMINAL and not self.ports.terminal)

    def refuse_pretended(self, by: Principal) -> None:
        """Raise Refused where a principal is not what it says it is."""
        if self.is_pretended(by):
            raise refuse(
                "E_APPROVAL_CHANNEL",
                "Code cannot be a person at a terminal: only the command line can say so, when it has one.",
                "Say Channel.LIBRARY from Python, and ask a person to type what only a person may do.",
                command="ordain inbox",
            )

    async def identity(self) -> WorkspaceIdentity:
        """Which directory this is now, under the id minted for it when it was first used."""
        path, device, inode = self.ports.workspace.identity()
        if (known := self.records.workspace_id()) is None:
            minted = WorkspaceIdentity(id=self.ports.ids.mint("WS-"), path=path, device=device, inode=inode)
            try:
                await self.ledger.append(
                    self.now(),
                    Append(stream=WORKSPACE_STREAM, expected=0, events=(WorkspaceOpened(workspace=minted),)),
                )
            except Refused as refused:
                if not is_conflict(refused):
                    raise
            known = self.records.workspace_id()
            assert known is not None
        return WorkspaceIdentity(id=known, path=path, device=device, inode=inode)

    # --- Settings --------------------------------------------------------------------------------------------------

    @property
    def snapshot(self) -> Snapshot:
        """The workspace as it stands now; folded again only where something changed."""
        return self._held or self.snapshots.current()

    def unchanged(self, snapshot: Snapshot) -> Append:
        """What an append holds that is decided by a snapshot; raises Refused where things are otherwise by now."""
        if self.snapshots.current() is not snapshot:
            raise refuse("E_LEDGER_CONFLICT", "The settings or the approvers changed meanwhile.")
        return Append(stream=WORKSPACE_STREAM, expected=snapshot.workspace.size, events=())

    def settings_there(self) -> Settings:
        return self.snapshot.settings if self.has_ledger() else Settings()

    def redactor(self, *, defaults: bool = False) -> Redactor:
        if self.ports.ledger.opened is not None and not defaults:
            return self.snapshot.redactor
        return super().redactor(defaults=defaults)

    def sink(self, *earlier: RunState) -> Sink:
        """What makes of what was seen what may be recorded. It also hides what was hidden in outputs of `earlier` runs:
        whoever goes on with one may not know its secrets."""
        keys = {one.key_env for run in earlier for one in run.limits_in_force.agents.values() if one.key_env}
        hidden = {value: name for name, value in self.ports.host.variables(sorted(keys)).items() if is_telling(value)}
        for outcome in (record.outcome for run in earlier for record in run.steps.values()):
            known = [one for one in outcome.hidden or () if one[2] != CUT] if outcome is not None else []
            if outcome is not None and known:
                seal = outcome.output_seal
                kept = self.ledger.kept(seal) or b"".join(self.ledger.artifact(seal) or ())
                near = (one for one in known if one[1] - one[0] <= REMEMBERED_MAX)
                hidden |= {kept[start:end].decode("utf-8", "ignore"): name for start, end, name in near}
        return Sink(self.redactor().knowing(hidden), self.ledger.seal)

    def topics_there(self) -> frozenset[str]:
        """The topics to which something was posted."""
        streams = self.ledger.streams(stream_of_topic("")) if self.has_ledger() else ()
        return frozenset(map(topic_named, streams))

    # --- What an approval is bound to ------------------------------------------------------------------------------

    def asked_tools(self, plan: Plan, sealed: SealedEnvironment | None) -> AbstractContextManager[None]:
        """Ask the sources of a plan's tools once, as its run will start them; what they say counts until the end."""
        settings = self.snapshot.settings
        names = called(plan) if settings.sources else ()
        wanted = {name: settings.sources[name] for name in names if name in settings.sources}
        given = self.restored(sealed) if sealed is not None else None
        return self.ports.sources.asked(wanted, self.secret(settings), given)

    def kept_tools(self, plan: Plan, settings: Settings) -> Mapping[str, ToolDefinition]:
        """What a run keeps the definitions of: the handlers of its custom actions and the tools that are not built in;
        raises Refused where one has no handler."""
        tools, names = self.tools(settings, plan), {one: handler_name(one) for one in handlers_of(plan)}
        missing = [one for one, name in names.items() if name not in tools]
        if missing:
            raise Refused(unhandled(one) for one in missing)
        used = (definition_of(step.action, tools) for step in all_steps(plan))
        called = {tool.name: tool for tool in used if tool is not None and tool.schema is not None}
        lent = (tools[name] for _, names in offered_in(plan, tools) for name in names)
        called |= {tool.name: tool for tool in lent if tool.schema is not None}
        return {**{name: tools[name] for name in names.values()}, **called}

    def covered_agents(self, plan: Plan, settings: Settings) -> Mapping[str, Agent]:
        """Everybody whom an approval of a plan covers: who performs its tasks, whom an arbiter may choose, and that."""
        known, judge = self.known_agents(settings), arbiter_of(settings)
        among = self.among(plan, settings)
        chosen = {name: known[name] for name in among}
        asked = {settings.arbiter: judge} if among and judge is not None else {}
        return {**self.kept_agents(plan, settings), **chosen, **asked}

    def refuse_agents(self, plan: Plan, settings: Settings) -> None:
        """Raise Refused where somebody who performs tasks of a plan is not there or cannot be started here."""
        known = self.known_agents(settings)
        missing = [name for name in agents_of(plan, settings.agent_for, settings.agent) if name not in known]
        problems = [
            *(agent_problem("E_AGENT_START", name, "there is no such agent") for name in dict.fromkeys(missing)),
            *(agent_problem("E_AGENT_START", name, why) for name, why in self.agent_faults(plan, settings).items()),
        ]
        if problems:
            raise Refused(problems)

    def rule(self, plan: Plan, settings: Settings) -> Ruling:
        return rule(plan, self.tools(settings, plan), settings)

    def judged_by(self, plan: Plan, settings: Settings) -> Mapping[str, ToolDefinition]:
        """The definitions that policy needs to judge a plan as it does now."""
        tools, names = self.tools(settings, plan), set(called(plan))
        needed = {name: tool for name, tool in tools.items() if name.partition(":")[0] in names}
        return needed if rule(plan, needed, settings) == rule(plan, tools, settings) else tools

    def rule_step(self, step: Step, settings: Settings, kept: Mapping[str, ToolDefinition] = {}) -> Ruling:
        """What policy says of one step with its contract, as it stands; of tools that are gone, by what is kept."""
        plan = Plan(plan_version=PLAN_VERSION, title="", steps=(step,))
        return rule(plan, {**kept, **self.tools(settings, plan)}, settings)

    def denied(self, step: Step, settings: Settings, kept: Mapping[str, ToolDefinition] = {}) -> Problem | None:
        """What policy denies of one step."""
        return next(iter(self.rule_step(step, settings, kept).denied), None)

    def base(self, plan: Plan) -> Base:
        """What an approval of this plan depends on now; raises Refused where a source of its tools cannot be asked."""
        settings, config = self.snapshot.settings, self.snapshot.digest
        tools, problems = self.found_tools(settings, set(called(plan)))
        if problems:
            raise Refused(problems.values())
        steps = list(all_steps(plan))
        used = {tool.name: tool for step in steps if (tool := definition_of(step.action, tools)) is not None}
        used |= {name: tools[name] for _, names in offered_in(plan, tools) for name in names}
        if any(map(look_commands, steps)):
            used[SHELL.name] = SHELL
        agents = self.covered_agents(plan, settings)
        digests = self.ports.workspace.digests(operand_paths(plan, tools, agents.values()), operand_patterns(plan))
        operands = {self.shown_path(path): self._sealed(what) for path, what in digests.items()}
        operands |= self.command_files(plan)
        return Base(
            tools=definition_digest(tuple(used.values())),
            definitions={
                **{name: definition_digest((tool,)) for name, tool in sorted(used.items())},
                **{f"{AGENT}{name}": agent_digest(agent) for name, agent in sorted(agents.items())},
            },
            config=config,
            operands=dict(sorted(operands.items())),
            commands=True,
            git_head=(self.ports.workspace.git_head() or "none") if settings.bind_git_head else None,
            environment=self.environment(plan, settings),
        )

    def scripts(self, plan: Plan) -> Mapping[str, Script]:
        """The commands and contracts of a plan taken apart."""
        return self.ports.workspace.scripts(command_texts(all_steps(plan)))

    def named_files(self, plan: Plan) -> tuple[NamedFiles, ...]:
        """What the commands of each step of a plan name, in their order."""
        scripts = self.scripts(plan)
        return tuple(named_files(step, scripts) for step in all_steps(plan))

    def command_files(self, plan: Plan) -> dict[str, str]:
        """What is in every file that a plan's commands name."""
        named = self.named_files(plan)
        patterns = {pattern for one in named for pattern in one.patterns}
        return self.contents({path for one in named for path in one.paths}, patterns)

    def contents(self, paths: Collection[str], patterns: Collection[str]) -> dict[str, str]:
        """What is in the files that commands name, by path, as it may stand in the ledger."""
        found = self.ports.workspace.contents(paths, patterns)
        return {self.shown_path(path): self._sealed(what) for path, what in found.items()}

    # --- The environment -------------------------------------------------------------------------------------------

    def environment(self, plan: Plan, settings: Settings) -> SealedEnvironment:
        """What a run of this plan would get of the environment here and now, as an approval seals it."""
        found, redactor = self.ports.host.variables(self._variable_names(plan, settings)), self.redactor()

        def is_secret(name: str, value: str) -> bool:
            return is_secret_variable(name, settings) or redactor.text(value) != value

        return seal_environment(found, is_secret, self._seal, self._programs(plan, settings))

    def _variable_names(self, plan: Plan, settings: Settings) -> tuple[str, ...]:
        """The variables that reach something that a run of this plan starts, and the secrets that it hands over."""
        names = {"PATH", "HOME", "LANG", *settings.env, *named_secrets(msgspec.to_builtins(plan))}
        for agent in self.covered_agents(plan, settings).values():
            names.update(agent.variables)
        for source in (settings.sources[name] for name in called(plan) if name in settings.sources):
            names.update(source.env, *map(secrets_within, source.headers.values()))
        return tuple(sorted(names))

    def _programs(self, plan: Plan, settings: Settings, *, own: bool = False) -> Mapping[str, str]:
        return self.ports.host.programs(("bash", "bwrap") if tier_of(plan, settings.tier) else ("bash",), own=own)

    def _seal(self, data: bytes) -> str:
        """Without a ledger nothing is kept or compared, and there is no key."""
        return self.ledger.seal(data) if self.has_ledger() else "not sealed"

    def misfits(self, sealed: SealedEnvironment, plan: Plan | None = None, *, own: bool = False) -> tuple[str, ...]:
        """What here does not fit what was sealed, in words; with a plan, its programs too, which with `own` no variable
        chooses: nobody has approved what was sealed."""
        programs = self._programs(plan, self.snapshot.settings, own=own) if plan is not None else None
        return tuple(misfits(sealed, self.ports.host.variables(sealed.secrets), self._seal, programs))

    def restored(self, sealed: SealedEnvironment) -> RunEnvironment:
        """What a run is given of the environment."""
        return restore(sealed, self.ports.host.variables(sealed.secrets))

    def unusual(self, plan: Plan, settings: Settings) -> tuple[str, ...]:
        """What an approver should know of the environment that a run of this plan would get."""
        found, clean = self.ports.host.variables(self._variable_names(plan, settings)), self.redactor().text
        shown = {name: clean(value) for name, value in found.items() if not is_secret_variable(name, settings)}
        workspace = self.ports.workspace.identity()[0]
        return tuple(map(clean, unusual(found, shown, workspace, self.ports.host.home(), self.ports.host.look_at)))

    def shown_path(self, path: str) -> str:
        """A file's name as it may stand in the ledger; one with a secret in it is told from others by its seal."""
        shown = self.redactor().text(path)
        return shown if shown == path or not self.has_ledger() else f"{shown} {self.ledger.seal(path.encode())}"

    def _sealed(self, what: str) -> str:
        """A file's digest as it may stand in the ledger: a short secret in a file could be guessed from a plain one."""
        return self.ledger.seal(what.encode()) if what.startswith("sha256:") and self.has_ledger() else what

    async def situation(self, plan: Plan) -> Situation:
        workspace, here = await self.identity(), self.held()
        return Situation(
            workspace=workspace,
            base=here.base(plan),
            tier=tier_of(plan, here.snapshot.settings.tier),
            now=self.ports.clock.moment(),
            misfits=lambda sealed: here.misfits(sealed, plan),
        )

    # --- Trust tiers -----------------------------------------------------------------------------------------------

    def refuse_tier(self, tier: int) -> None:
        """Raise Refused where a trust tier cannot be had here now: nothing runs at a weaker one instead."""
        if (fault := self.tier_fault(tier)) is not None:
            raise Refused([tier_problem(tier, fault)])

    def shell_for(self, limits: Limits) -> Shell:
        """What runs the commands of a run: our shell at tier 0, and above it only the sandbox."""
        self.refuse_tier(limits.tier)
        sandbox = self.ports.sandbox if limits.tier else None
        return sandbox.shell(limits.sandbox) if sandbox is not None else self.ports.shell

    # --- Signing ---------------------------------------------------------------------------------------------------

    async def sign(self, credential: Credential, statement: bytes, by: Principal) -> Signature:
        """A person's signature over these bytes. A wrong passphrase is recorded; after too many, none is tried."""
        if self.snapshot.workspace.locked(self.now()):
            detail = f"{WRONG_PASSPHRASES_MAX} wrong passphrases were given within a minute."
            raise refuse("E_APPROVAL_RATE", detail, "Wait a minute, and look who tried.", command="ordain log")
        if (signature := self.ports.keyring.sign(credential, statement)) is not None:
            return signature
        event = SignatureRefused(name=credential.name, by=by)
        # Whatever else was recorded meanwhile, this happened.
        await retried(lambda: self.record(self.snapshot.workspace, event))
        raise refuse("E_APPROVAL_SIGNATURE", f"That is not the passphrase of {credential.name}'s key.")

    async def record(self, state: WorkspaceState, event: WorkspaceEvent) -> None:
        """Append to the workspace's stream what was decided by this state of it."""
        await self.ledger.append(self.now(), Append(stream=WORKSPACE_STREAM, expected=state.size, events=(event,)))

    def enrolled(self, name: str, state: WorkspaceState | None = None) -> Approver:
        """The approver of this name whose key is kept here; raises Refused where there is none."""
        active = (state if state is not None else self.snapshot.workspace).active
        approver = next((one for one in active if one.name == name), None)
        if approver is None:
            raise refuse("E_APPROVAL_SIGNATURE", f"No key of {name} counts here.", command="ordain approver list")
        if self.ports.keyring.public_key(name) != approver.key:
            raise refuse("E_APPROVAL_SIGNATURE", f"The key of {name} that counts here is not kept on this machine.")
        return approver

    # --- Telling and showing ---------------------------------------------------------------------------------------

    def notify(self, kind: str, **values: object) -> None:
        """Tell whoever the settings name that something waits or has ended; what becomes of that changes nothing."""
        command = self.snapshot.settings.notify
        if command:
            message = {"kind": kind, "workspace": self.ports.workspace.identity()[0], **values}
            self.ports.notifier.tell(command, msgspec.json.encode(self.redactor().value(msgspec.to_builtins(message))))

    def document_digest(self, data: bytes) -> str:
        """The digest of a document and of all that it includes."""
        included = read(data, fetch=self.fetch).included if b"include" in data else ()
        return document_digest(data, included)

    def drift(self, state: PlanState) -> tuple[Problem, ...]:
        """A notice when the document a plan was prepared from says something else by now."""
        if state.document is None:
            return ()
        data = self.ports.workspace.document(state.document)
        if data is not None and self.document_digest(data) == state.document_sha256:
            return ()
        change = "is gone" if data is None else "has changed"
        return (
            Problem(
                code="W_DOC_DRIFT",
                detail=f"{state.document} {change} since it was prepared; what runs is what was prepared.",
                command=f"ordain prepare {shlex.quote(state.document)}",
            ),
        )

    def named(self, state: PlanState) -> str:
        """How to name a plan in a command: its document where it has one."""
        return shlex.quote(state.document) if state.document is not None else short_id(state.plan_id)
