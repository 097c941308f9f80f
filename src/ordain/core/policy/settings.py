"""The settings in force, with their defaults. Where they were read from is not known here."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import msgspec

from ordain.core.plan.failure import Abort, FailurePolicy
from ordain.core.plan.tool import COMMANDS, ToolDefinition, ToolSource
from ordain.core.policy.agent import Agent, ModelAccess, model_access, model_agent, secrets_in_query
from ordain.core.policy.fact import SHELL_READS, LineFacts
from ordain.core.policy.rule import RULE, CallRule
from ordain.core.policy.tier import SandboxLimits
from ordain.core.text.limit import DAY_MS
from ordain.core.text.secret import is_telling, may_name


class Limits(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The settings in force when a run was opened; they stay with the run, whatever the configuration says later."""

    concurrency: int
    step_timeout_ms: int
    contract_timeout_ms: int
    on_failure: FailurePolicy
    env: tuple[str, ...]
    handlers: Mapping[str, ToolDefinition] = {}
    """The approved handlers of custom actions, and tools that are not built in, by their names among the tools."""
    tier: int = 0
    sandbox: SandboxLimits = SandboxLimits()
    agents: Mapping[str, Agent] = {}
    agent: str = ""
    """Who performs those that name nobody, and whose kind no rule names."""
    agent_for: Mapping[str, str] = {}
    prompt: str = ""
    arbiter: str = ""
    """Who chooses the agent of a task that names nobody and whose kind no rule names; empty where nobody does."""
    among: tuple[str, ...] = ()
    progress: bool = False
    """Whether agents are told where their step is in the plan, and what the steps that it needs gave."""


MINUTE_MS = 60_000
HOUR_MS = 60 * MINUTE_MS

SECRET_NAMES = (
    "*TOKEN", "*_KEY", "*APIKEY", "*SECRET*", "*PASSWORD*", "*PASSWD*", "*PASSPHRASE*", "*_PASS", "*_PWD", "*_PAT",
    "*CREDENTIAL*", "*_AUTH", "*COOKIE*", "SSHPASS", "*DBPASS", "PGPASS", "PAT", "*_PW", "*BINDPW", "*API_KEY_*",
    "*_TOKEN_*", "TOKEN_*", "*PRIVATEKEY", "*JWT",
)  # fmt: skip
"""What variables with secrets are called: the one list of it. A password inside an address is found under any name."""

USER_FILE = "config.toml"
"""The name of the user's own file, in `$XDG_CONFIG_HOME/ordain`."""
USER_SECTIONS = ("programs", "audit")
PROGRAMS = ("bash", "bwrap", "git")
"""The programs that Ordain itself runs, and whose paths the user can set."""


class UserSettings(msgspec.Struct, frozen=True, kw_only=True):
    """What the user's own file can say, and never a workspace."""

    programs: Mapping[str, str] = {}
    robot_backup_outputs: bool = False
    """Whether `audit backup` keeps exact outputs when a robot asks for it."""
    guard_mode: str = "observe"
    guarded: tuple[str, ...] = ()
    open_calls: tuple[str, ...] = ()
    rules: Mapping[str, CallRule] = {}
    file: str = ""
    """Where they were read from; empty where there is no file."""


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """What `ordain.toml` can say so far."""

    propose_ttl_ms: int = 7 * DAY_MS
    """A prepared plan nobody started expires."""
    archive_after_ms: int = 30 * DAY_MS
    """A plan that ended so long ago is archived."""
    outputs_days: int = 0
    """What a run kept beside its events goes so long after its end; 0: never."""
    outputs_mb: int = 0
    """How much may be kept beside the events in all before the oldest goes; 0: any."""
    max_rejections: int = 3
    """After so many rejections a plan needs a person's own revision."""
    max_replans: int = 3
    """How often a run may go on by what no person said, through its whole chain."""
    max_pending: int = 20
    documents: str = ".ordain/plans"
    templates: str = "plans/templates"
    approval_ttl_ms: int = 4 * HOUR_MS
    separate: bool = False
    """Whoever prepared a plan may not approve it."""
    require_signature: bool = False
    approvers: tuple[str, ...] = ()
    bind_git_head: bool = False
    """An approval holds only for the commit that was checked out."""
    tier: int = 0
    """The trust tier that every plan runs at, at least."""
    concurrency: int = 4
    writers: int = 1
    step_timeout_ms: int = 10 * MINUTE_MS
    contract_timeout_ms: int = MINUTE_MS
    stalled_after_ms: int = 30 * MINUTE_MS
    """A run that is not waiting for a person and gave no sign of life for so long is called stalled."""
    on_failure: FailurePolicy = Abort()
    env: tuple[str, ...] = ("PATH", "HOME", "LANG", "TMPDIR", "VIRTUAL_ENV")
    sandbox_read: tuple[str, ...] = ()
    sandbox_processes: int = SandboxLimits().processes
    sandbox_open_files: int = SandboxLimits().open_files
    sandbox_file_mib: int = SandboxLimits().file_mib
    sandbox_memory_mib: int = SandboxLimits().memory_mib
    sandbox_tmp_mib: int = SandboxLimits().tmp_mib
    control: tuple[str, ...] = ()
    """Patterns of files that no agent writes, besides those of `core/text/control.py`."""
    allow: tuple[str, ...] = ("reads",)
    ask: tuple[str, ...] = ()
    deny: tuple[str, ...] = ()
    rules: Mapping[str, CallRule] = {}
    commands: Mapping[str, tuple[str, ...]] = {}
    """By program, facts that count whatever the table of programs says (`core.policy.program_table`)."""
    understand: Callable[[str], LineFacts] | None = None
    """What reads command lines, where there is something that does; no file says it."""
    guard_mode: str = "observe"
    """Whether guarded calls outside of a plan are only noted (`observe`) or refused (`enforce`)."""
    guarded: tuple[str, ...] = ("*",)
    """What needs a plan; `*` is whatever `open_calls` does not name, and any other entry wins over it."""
    open_calls: tuple[str, ...] = ("reads",)
    agent: str = ""
    agent_for: Mapping[str, str] = {}
    """Who performs tasks of a kind (`kind_of`) that name nobody."""
    agents: Mapping[str, Agent] = {}
    arbiter: str = ""
    """Who chooses the agent of a task that names nobody and whose kind no rule names: an agent, or `PROVIDER:NAME`."""
    prompt: str = ""
    """The template of prompts; ours where it is empty (`core/run/prompt.py`)."""
    progress: bool = True
    """Whether agents are told where their step is in the plan, and what the steps that it needs gave."""
    actions: Mapping[str, ToolDefinition] = {}
    """The handlers of custom actions, by their names among the tools (`handler_name`)."""
    notify: tuple[str, ...] = ()
    """The command that is told when something waits for a person or has ended."""
    secret_env: tuple[str, ...] = SECRET_NAMES
    secret_files: tuple[str, ...] = ()
    sources: Mapping[str, ToolSource] = {}
    """Where tools come from that are not built in, by the names that plans call them by."""
    planner_agent: str = ""
    """Who writes plans for `ordain plan`: an agent; or, in its place, a model that is spoken to directly."""
    planner_model: str = ""
    """`PROVIDER:NAME` (`core/policy/agent.py`)."""
    planner_base_url: str = ""
    planner_key_env: str = ""
    """The variable that holds the key; empty: the provider's usual one."""
    planner_key_header: str = ""
    planner_max_rounds: int = 3
    """How often a plan with problems is sent back to the planner."""
    planner_constraints: tuple[str, ...] = ()

    @property
    def removes_outputs(self) -> bool:
        """Whether anything that is kept ever goes."""
        return bool(self.outputs_days or self.outputs_mb)


def planner_access(settings: Settings) -> ModelAccess | None:
    """How the model that plans is reached; None where none is named."""
    if not settings.planner_model:
        return None
    return model_access(
        settings.planner_model,
        base_url=settings.planner_base_url,
        key_env=settings.planner_key_env,
        key_header=settings.planner_key_header,
    )


def arbiter_of(settings: Settings) -> Agent | None:
    """Who chooses agents, where anybody does: one of the agents, or a model that the setting itself names."""
    if ":" in settings.arbiter:
        return model_agent(settings.arbiter)
    return settings.agents.get(settings.arbiter)


def candidates(agents: Mapping[str, Agent], settings: Settings, tier: int) -> tuple[str, ...]:
    """Among whom the arbiter may choose at a trust tier: everybody but persons, itself, and whom policy denies."""
    left_out = {name.removeprefix("agent:") for name in settings.deny} | {settings.arbiter} - {settings.agent}
    return tuple(
        name
        for name, agent in agents.items()
        if not agent.human and name not in left_out and not (agent.registered and tier)
    )


def reader_of_lines(settings: Settings) -> Callable[[str], LineFacts] | None:
    """What reads command lines, where a list or a rule asks what they do: loading it costs more than most verbs."""
    lists = (settings.allow, settings.ask, settings.deny, settings.guarded, settings.open_calls)
    asked = any(SHELL_READS in entries for entries in lists)
    asked = asked or any(rule.where and not COMMANDS.keys().isdisjoint(rule.tools) for rule in settings.rules.values())
    return settings.understand if asked else None


YOURS = "yours/"
"""What names of the user's own rules begin with: no workspace can have such a rule."""


def with_user_rules(settings: Settings, user: UserSettings) -> Settings:
    """The settings of a workspace with the user's own rules for calls, which it can only make stricter."""

    def named(entries: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(f"{RULE}{YOURS}{one.removeprefix(RULE)}" if one.startswith(RULE) else one for one in entries)

    if not (user.guarded or user.open_calls or user.guard_mode == "enforce"):
        return settings
    return msgspec.structs.replace(
        settings,
        guard_mode="enforce" if "enforce" in (user.guard_mode, settings.guard_mode) else settings.guard_mode,
        guarded=tuple(dict.fromkeys((*settings.guarded, *named(user.guarded)))),
        open_calls=tuple(dict.fromkeys((*settings.open_calls, *named(user.open_calls)))),
        rules={**settings.rules, **{f"{YOURS}{name}": rule for name, rule in user.rules.items()}},
    )


DEFAULTS = Settings()


def limits(
    settings: Settings,
    handlers: Mapping[str, ToolDefinition] | None = None,
    agents: Mapping[str, Agent] | None = None,
    *,
    tier: int = 0,
    among: tuple[str, ...] = (),
) -> Limits:
    """The part of the settings that stays with a run, which uses these handlers and agents, and has this trust tier;
    `among` are those that an arbiter chooses from."""
    kept = ("concurrency", "step_timeout_ms", "contract_timeout_ms", "on_failure", "env")
    of_agents = ("agent", "agent_for", "prompt") if agents else ()
    return Limits(
        **{name: getattr(settings, name) for name in (*kept, *of_agents)},
        handlers=handlers or {},
        agents=agents or {},
        arbiter=settings.arbiter if among else "",
        among=among,
        progress=settings.progress and bool(agents),
        tier=tier,
        sandbox=sandbox_limits(settings) if tier else SandboxLimits(control=settings.control),
    )


def secret_variables(settings: Settings) -> tuple[str, ...]:
    """The patterns of variables whose values are secrets: of the settings, of agents, and of keys of models."""
    seen = {name for agent in settings.agents.values() for name in agent.env if may_name(name, SECRET_NAMES)}
    return (*settings.secret_env, *sorted(seen | _keys_of_models(settings)))


def _keys_of_models(settings: Settings) -> set[str]:
    """The variables that hold the keys of models: secrets, whatever they are called."""
    planner, judge = planner_access(settings), arbiter_of(settings)
    agents = [*settings.agents.values(), *([judge] if judge is not None else [])]
    keys = {agent.key_env for agent in agents if agent.key_env}
    return keys | ({planner.key_env} if planner is not None and planner.key_env else set())


def secrets_in_addresses(settings: Settings) -> dict[str, str]:
    """What may be a key in the addresses of models and tools, by the names that are shown in its place."""
    addresses = {f"agents.{name}.base_url": agent.base_url for name, agent in settings.agents.items()}
    addresses |= {f"tools.{name}.url": source.url or "" for name, source in settings.sources.items()}
    addresses["planner.base_url"] = settings.planner_base_url
    return {
        f"{name}:{number}": value
        for name, address in addresses.items()
        for number, value in enumerate(secrets_in_query(address), 1)
        if is_telling(value)
    }


def is_secret_variable(name: str, settings: Settings) -> bool:
    """Whether the value of a variable of this name is a secret, by the settings or by what it is called."""
    return may_name(name, (*settings.secret_env, *SECRET_NAMES)) or name in _keys_of_models(settings)


def sandbox_limits(settings: Settings) -> SandboxLimits:
    """What commands are held to at tier 1."""
    own = (name for name in SandboxLimits.__struct_fields__ if name != "control")
    return SandboxLimits(**{name: getattr(settings, f"sandbox_{name}") for name in own}, control=settings.control)
