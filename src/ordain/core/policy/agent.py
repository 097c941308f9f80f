"""Agents: who performs tasks under a name, how that is started, and who performs which task. An approval is bound to
the definitions that its plan uses, and a run keeps them: what performs a task later is what was approved."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

import msgspec

from ordain.core.plan.action import Task
from ordain.core.plan.canonical import canonical_bytes, digest
from ordain.core.plan.command import typed
from ordain.core.plan.model import Plan, Step, nested_plan_of
from ordain.core.policy.tier import read_address, unescaped
from ordain.core.text.problem import Problem, blame_step, closest

AGENT_PRESETS = ("claude", "codex", "gemini", "opencode", "pi")
"""Command-line agents whose command line we know."""
PROMPT_WORD = "{prompt}"
"""A word of a command that stands for the prompt, which comes on standard input where no word does."""
MODEL_WORD = "{model}"
"""What stands for the model, anywhere in a command."""


class Agent(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Who performs tasks under a name: exactly one of a preset, a command, a Python callable, a person, or, where it is
    none of these, a model that Ordain itself speaks to."""

    preset: str | None = None
    command: tuple[str, ...] = ()
    """Of a preset: where its program is, where that is not simply its name."""
    python: str | None = None
    human: bool = False
    description: str = ""
    """What it is good for, for people and models that choose."""
    model: str | None = None
    """What it uses where neither the step nor the plan names one; of a model, `PROVIDER:NAME`."""
    base_url: str = ""
    """Of a model, and never empty then: the address that it is spoken to at."""
    key_env: str = ""
    """Of a model: the variable that holds the key; empty where none is sent."""
    key_header: str = ""
    env: tuple[str, ...] = ()
    files: tuple[str, ...] = ()
    """Files of the home directory that it has in its own, at tier 1."""
    network: bool | None = None
    own_tools: bool = False
    """Whether a preset keeps the tools that are built into it, which nothing but the sandbox holds to the step."""
    output: str = "text"
    """What a command writes: `text`, or `json` with its last words and what it used."""
    prompt: str = ""
    registered: bool = False
    """Whether it is a callable of the program that uses us, and can be found in no other one."""

    @property
    def is_model(self) -> bool:
        """Whether it is a model that Ordain itself speaks to: nothing is started for it."""
        return bool(self.base_url)

    @property
    def variables(self) -> tuple[str, ...]:
        """What it needs of the environment: what it may see, and its key, which nothing sees but its server."""
        return (*self.env, self.key_env) if self.key_env else self.env


def access_of(agent: Agent, model: str | None = None) -> ModelAccess:
    """How a model that is an agent is reached. `model` is another name at the same address, with the same key."""
    assert agent.model is not None
    provider = agent.model.partition(":")[0]
    name = (model or agent.model).removeprefix(f"{provider}:")
    return model_access(
        f"{provider}:{name}", base_url=agent.base_url, key_env=agent.key_env, key_header=agent.key_header
    )


def model_agent(
    model: str, *, base_url: str = "", key_env: str = "", key_header: str = "", description: str = "", prompt: str = ""
) -> Agent:
    """A model that performs tasks itself, its address and key written out, so that an approval is bound to them."""
    access = model_access(model, base_url=base_url, key_env=key_env, key_header=key_header)
    return Agent(
        model=model,
        base_url=access.base_url,
        key_env=access.key_env,
        key_header=access.key_header if access.key_env else "",
        description=description,
        prompt=prompt,
    )


def runner_words(agent: Agent) -> str:
    """What performs the tasks: all of a command, and of a preset also where its program is."""
    if agent.human:
        return "a person"
    if agent.is_model:
        return f"a model at {shown_address(agent.base_url)}"
    if agent.preset is not None:
        return f"{agent.preset} ({typed(agent.command)})" if agent.command else agent.preset
    return f"Python, {agent.python}" if agent.python else typed(agent.command)


def reaches_tools(agent: Agent) -> bool:
    """Whether an agent can reach the tools of its step over MCP: everyone that is a process."""
    return not agent.human and not agent.registered and not agent.is_model


def agent_digest(agent: Agent) -> str:
    """What an approval is bound to: another definition of the same name is another agent."""
    return "sha256:" + digest("application/vnd.ordain.agent.v1+json", canonical_bytes(msgspec.to_builtins(agent)))


def unheld_problems(tier: int, agents: Mapping[str, Agent]) -> tuple[Problem, ...]:
    """The refusals where agents are to perform tasks at a tier that nothing can hold them to."""
    why = "is a function of the program that runs this: nothing holds it to anything"
    detail = f"Trust tier {tier} is demanded, and the agent `{{}}` {why}."
    hint = "Name it in ordain.toml, and it runs in a sandbox: `[agents.{}]` with `python = MODULE:NAME`."
    free = [name for name, agent in agents.items() if tier and agent.registered]
    return tuple(blame_step(None, "E_TIER", detail.format(name), hint.format(name)) for name in free)


# --- What kind of work a task is, told by the word that its title begins with ----------------------------------------

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
"""By kind, the words that a title of it begins with. Any other is `code`, so no weaker agent gets it by accident."""
_BY_VERB = {verb: kind for kind, verbs in VERBS.items() for verb in verbs}
_WORD = re.compile(r"[^\W\d_]+")


def kind_of(step: Step) -> str:
    """The kind of a step's work; `code` where its first word says nothing else."""
    word = _WORD.search(step.description)
    return _BY_VERB.get(word.group().lower(), "code") if word is not None else "code"


# --- Who performs a task ---------------------------------------------------------------------------------------------
# The step's agent, else its plan's, else by a rule for that kind of work, else that of the settings. Lint, policy, the
# preview and the run all ask here, so what is shown is what happens.


class AgentChoice(msgspec.Struct, frozen=True, kw_only=True):
    agent: str
    why: str


def choose(step: Step, plans: Iterable[Plan], by_kind: Mapping[str, str], default: str) -> AgentChoice | None:
    """Who performs the task of a step that lies in these plans, the innermost first; None where nobody is named."""
    assert isinstance(step.action, Task)
    if step.action.agent:
        return AgentChoice(agent=step.action.agent, why="the step names it")
    for depth, plan in enumerate(plans):
        if plan.agent:
            why = "a plan around its plan names it" if depth else "the plan names it"
            return AgentChoice(agent=plan.agent, why=why)
    kind = kind_of(step)
    if kind in by_kind:
        return AgentChoice(agent=by_kind[kind], why=f"the rule for the kind {kind} names it")
    return AgentChoice(agent=default, why="the settings name it for all others") if default else None


def is_open(step: Step, plans: Iterable[Plan], by_kind: Mapping[str, str]) -> bool:
    """Whether it is for the settings, or the arbiter that they name, to say who performs the task of a step."""
    return choose(step, plans, by_kind, "") is None


def model_of(step: Step, plans: Iterable[Plan], agent: Agent | None) -> str | None:
    """The model for the task of a step that lies in these plans, the innermost first; None where the agent decides."""
    named = step.model or next((plan.model for plan in plans if plan.model), None)
    return named or (agent.model if agent is not None else None)


def has_network(step: Step, agent: Agent) -> bool:
    """Whether an agent has the network for a step at trust tier 1: as the step says, else as its definition does."""
    return step.network if step.network is not None else agent.network is True


def tasks_of(
    plan: Plan, outer: str = "", around: tuple[Plan, ...] = ()
) -> Iterator[tuple[str, Step, tuple[Plan, ...]]]:
    """Every step that has a task: what a run calls it, the step, and the plans that it lies in, the innermost first."""
    plans = (plan, *around)
    for step in (*plan.steps, *plan.fallbacks):
        if isinstance(step.action, Task):
            yield f"{outer}{step.id}", step, plans
        elif (inner := nested_plan_of(step)) is not None:
            yield from tasks_of(inner, f"{outer}{step.id}/", plans)


def agents_of(plan: Plan, by_kind: Mapping[str, str], default: str) -> Iterator[str]:
    """Everybody who performs a task of a plan or of one nested in it; some more than once."""
    for _, step, plans in tasks_of(plan):
        choice = choose(step, plans, by_kind, default)
        if choice is not None:
            yield choice.agent


# --- Models: `PROVIDER:NAME`, by which protocol, address and key variable it is spoken to ----------------------------


class ModelProvider(NamedTuple):
    """What is the same for all models of a provider."""

    protocol: str
    base_url: str
    key_env: str
    """The variable that usually holds the key; empty where no key is needed."""
    key_header: str = "authorization"


PROVIDERS: Mapping[str, ModelProvider] = {
    "anthropic": ModelProvider("messages", "https://api.anthropic.com", "ANTHROPIC_API_KEY", "x-api-key"),
    "openai": ModelProvider("responses", "https://api.openai.com/v1", "OPENAI_API_KEY"),
    "openai-chat": ModelProvider("chat", "https://api.openai.com/v1", "OPENAI_API_KEY"),
    "ollama": ModelProvider("chat", "http://127.0.0.1:11434/v1", ""),
}
KEY_HEADERS = ("authorization", "x-api-key")
"""How a key can be sent: as `Authorization: Bearer KEY`, or as `x-api-key: KEY`."""
MODEL_WORDS = ", ".join(f'"{provider}:NAME"' for provider in PROVIDERS)


class ModelAccess(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A model, and how it is reached."""

    provider: str
    name: str
    base_url: str
    key_env: str = ""
    """The variable that holds the key; empty where none is sent."""
    key_header: str = "authorization"

    @property
    def protocol(self) -> str:
        return PROVIDERS[self.provider].protocol

    def __str__(self) -> str:
        return f"{self.provider}:{self.name}"


def model_fault(model: str) -> str | None:
    """What is wrong with the name of a model that is to be spoken to directly, in words; None where nothing is."""
    provider, colon, name = model.partition(":")
    if not colon or provider not in PROVIDERS:
        near = "; ".join(closest(provider, PROVIDERS))
        return f"must be one of {MODEL_WORDS}" + (f" ({near})" if near else "")
    return None if name.strip() == name and name else "names no model after the colon"


def model_access(model: str, *, base_url: str = "", key_env: str = "", key_header: str = "") -> ModelAccess:
    """How a model is reached whose name has no fault; what is empty is as its provider has it."""
    provider, _, name = model.partition(":")
    usual = PROVIDERS[provider]
    # A key goes to the address that it is meant for: who names another address names the key for it too.
    key = key_env or (usual.key_env if not base_url else "")
    return ModelAccess(
        provider=provider,
        name=name,
        base_url=(base_url or usual.base_url).rstrip("/"),
        key_env=key,
        key_header=key_header or usual.key_header,
    )


def base_url_fault(base_url: str) -> str | None:
    """What is wrong with an address, in words."""
    if read_address(base_url) is None:
        return 'must be an address such as "https://models.example/v1", with no password and no `#`'
    return None


def shown_address(base_url: str) -> str:
    """An address as it is shown and recorded: what stands in its query may be a key."""
    address, query, _ = base_url.partition("?")
    return f"{address}?…" if query else address


def secrets_in_query(address: str) -> Iterator[str]:
    """What may be a key in an address, as it is written and as it is read: the values in its query but of a version."""
    for pair in re.split("[&;]", address.partition("?")[2]):
        name, mark, value = pair.partition("=")
        if not name.lower().endswith("version"):
            value = value if mark else name
            yield from dict.fromkeys((value, unescaped(value), unescaped(value.replace("+", " "))))


def address_of(base_url: str, path: str) -> str:
    """Where a request goes: the path stands before the query, if there is one."""
    address, mark, query = base_url.partition("?")
    return f"{address.rstrip('/')}{path}{mark}{query}"


def access_fault(access: ModelAccess) -> str | None:
    """Why a model cannot be reached like this, in words: no key goes over a network where others can read it."""
    address = read_address(access.base_url)
    if address is None:
        return f"{shown_address(access.base_url)} is no address"
    if address.scheme == "http" and access.key_env and address.host not in _HERE:
        shown = shown_address(access.base_url)
        return f"{shown} would be sent the key in clear text; write https, or leave the key out"
    return None


_HERE = ("127.0.0.1", "::1", "localhost")
