"""One planning by an agent, a command or a Python function. It is started at tier 1 with the workspace read-only,
behind a door with the tools that read and the calls that end a planning; where a person said so, without a sandbox. Who
calls nothing hands in with its last words."""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec

from ordain.core.plan.value import PlanId, RunId, StepId
from ordain.core.policy.agent import Agent, reaches_tools
from ordain.core.policy.settings import sandbox_limits
from ordain.core.run.prompt import AGENT_CANNOT, why_cannot
from ordain.core.run.spending import read_usage, sound_usage
from ordain.core.run.step_event import Usage
from ordain.core.task.offer import CallAnswer, Offer
from ordain.core.task.work_item import WorkItem
from ordain.core.text.problem import Problem, refuse
from ordain.engine.dialogue import Perform, checked
from ordain.engine.perform.effects import how_it_ended
from ordain.planner.loop import CALLS_MAX, FINAL, NUDGES_MAX, AgentBegun, Drafted, DraftEnd, FinalCalls, PlannerSetup
from ordain.ports.agent import Said
from ordain.ports.model import ModelUsage, ToolSpec, ToolUse
from ordain.ports.process import Command, Finished, Shell
from ordain.records.surroundings import Surroundings

GRACE_S = 30
"""How long a process may go on after it has handed in what is wanted."""
WORDS_BYTES_MAX = 1 << 20
"""A longer document is none that anybody reads."""
_SERVED = "Your tools are those of the server `ordain`: {names}. You have no others, and they change nothing."
_UNSERVED = "You have no tools here: what you need to know is above."
_HANDING_IN = """# How to hand in

{tools}

Where you can call these, end with one of `submit_plan`, `ask` and `give_up`. Where you cannot, your last words (what
you write to standard output) are taken for it: the document in Markdown and nothing else, or one JSON object:
{{"questions": ["…"]}} to ask, {{"reason": "…"}} to give up."""
_NUDGE = "You were started before and handed in nothing. Hand in a document, questions or a reason now."
_FENCED = re.compile(r"(`{3,}|~{3,})\w*\n(.*)\n\1", re.DOTALL)
_DOCUMENT = re.compile(r"^(?:# |---$)", re.MULTILINE)
_KEYS = {"document": "submit_plan", "questions": "ask", "reason": "give_up"}


class PlannerDoor:
    """ports.Behind for one planning: the tools that read and the calls that end it, and nothing else."""

    def __init__(self, specs: Sequence[ToolSpec], read: Perform, final: Perform) -> None:
        self._specs, self._read, self._final = (*specs, *FINAL), read, final
        self.calls = 0
        self.ended = asyncio.Event()

    def listed(self) -> Sequence[Offer]:
        return tuple(
            Offer(name=one.name, title=one.name, description=one.description, schema=one.schema, reads=True)
            for one in self._specs
        )

    async def serve(self, tool: str, args: Mapping[str, Any]) -> CallAnswer:
        if self.ended.is_set() or self.calls >= CALLS_MAX:
            return CallAnswer(text="Nothing more is wanted in this planning. End now.")
        self.calls += 1
        named = any(tool == one.name for one in FINAL)
        use = ToolUse(id=str(self.calls), name=tool, arguments=args)
        performed = await (self._final if named else self._read)(use)
        if performed.ends:
            self.ended.set()
        return CallAnswer(text=performed.text)

    async def may(self, tool: str, args: Mapping[str, Any]) -> CallAnswer:
        detail = "A planner uses the tools of its own server, which only read."
        return CallAnswer(problem=Problem(code="E_CALL_SCOPE", detail=detail))

    async def stranger(self) -> CallAnswer:
        return CallAnswer(problem=Problem(code="E_DOOR_TOKEN", detail="This is not the token of this planning."))


class PlanningAgent(msgspec.Struct, frozen=True, kw_only=True):
    """Who plans, and how it is held."""

    name: str
    agent: Agent
    tier: int
    seconds: float
    """How long one start of it may take."""

    @property
    def words(self) -> str:
        return f"{self.name} ({self.agent.preset})" if self.agent.preset else self.name


def planning_agent(here: Surroundings, name: str, seconds: float | None, *, unenforced: bool) -> PlanningAgent:
    """The agent that plans; raises Refused where there is none, or nothing could hold it and nobody allowed that."""
    settings = here.snapshot.settings
    agent = here.known_agents(settings).get(name)
    if agent is None:
        detail = f"`[planner] agent` names `{name}`, and there is no such agent."
        raise refuse("E_PLANNER_START", detail, "Name one of [agents] in ordain.toml.", command="ordain agents")
    if agent.human or agent.is_model:
        why = "is a person" if agent.human else "is a model: write it as `model` in [planner]"
        raise refuse("E_PLANNER_START", f"The planner `{name}` {why}.", command="ordain agents")
    fault = "it is a function of this program, which nothing can hold" if agent.registered else here.tier_fault(1)
    if fault is not None and not unenforced:
        raise refuse(
            "E_TIER",
            f"The planner `{name}` may only read, and nothing here can hold it to that: {fault}.",
            "Install bubblewrap (`apt-get install bubblewrap`), or name a `model` in [planner]: it cannot write.",
            "With --unenforced it is started all the same. It could write then, and that is recorded.",
        )
    tier = 1 if fault is None else 0
    missing = here.agent_fault(agent, tier, settings)
    if missing is not None:
        raise refuse("E_PLANNER_START", f"The planner `{name}` cannot be started: {missing}.", command="ordain agents")
    usual = settings.step_timeout_ms / 1000
    return PlanningAgent(name=name, agent=agent, tier=tier, seconds=min(usual, seconds or usual))


async def draft_by_agent(
    here: Surroundings, who: PlanningAgent, setup: PlannerSetup, told: str, count: Callable[[ModelUsage], bool]
) -> Drafted:
    """Have an agent plan. It is started anew for what its last words lacked; what it calls it mends without that.
    `count` says whether more may be used. Raises Refused where it ends badly before it handed in anything."""
    specs, read, rounds, matches, tell, asked = setup
    final = FinalCalls(rounds, 3 - asked, tell)
    handing_in = checked(FINAL, final.perform, matches)
    usage, starts, calls, nudges, more = ModelUsage(), 0, 0, 0, ""

    def drafted(end: DraftEnd, reason: str = "") -> Drafted:
        return Drafted(end=end, questions=final.questions, reason=reason, requests=starts, calls=calls, usage=usage)

    while True:
        door = PlannerDoor(specs, read, handing_in)
        tell(AgentBegun(name=who.words, number=starts + 1, held=who.tier > 0))
        finished, said = await _started(here, who, told, more, door)
        starts, calls = starts + 1, calls + door.calls
        told_used = sound_usage(said.used) or read_usage(finished.reported)[0] or Usage()
        used = ModelUsage(input=told_used.tokens or 0, cost_usd=told_used.cost_usd)
        usage, more_left = usage.plus(used), count(used)
        if final.end is not None:
            return drafted(final.end, final.reason)
        words = said.text[-WORDS_BYTES_MAX:].decode("utf-8", "replace").strip()
        if finished.timed_out:
            return drafted(DraftEnd.PLAN if rounds.document else DraftEnd.TIME)
        error, detail = how_it_ended(finished, round(who.seconds * 1000))
        if error is not None or said.error is not None:
            why = here.redactor().text(": ".join(one for one in (detail, said.error or "") if one))
            raise refuse("E_PLANNER_UNREACHED", f"{who.words} ended badly: {why}.", "Nothing was stored.")
        use = answer_in(words, said.text, finished.reported)
        if use is None:
            nudges += 1
            if nudges > NUDGES_MAX:
                return drafted(DraftEnd.PLAN if rounds.document else DraftEnd.NOTHING, words[-2_000:])
            more = _NUDGE
            continue
        performed = await handing_in(use)
        if performed.ends and final.end is not None:
            return drafted(final.end, final.reason)
        if not more_left:
            return drafted(DraftEnd.TOKENS)
        more = f"You were started before and handed this in:\n\n{words}\n\n{performed.text}"
        if use.name == "ask":
            nudges += 1


def answer_in(words: str, text: bytes, reported: bytes = b"") -> ToolUse | None:
    """The call that last words stand for; None where they are neither a document, questions nor a reason."""
    with contextlib.suppress(ValueError, RecursionError):
        found = json.loads(words)
        keys = [key for key in _KEYS if isinstance(found, dict) and key in found]
        if keys:
            return ToolUse(id="last", name=_KEYS[keys[0]], arguments={keys[0]: found[keys[0]]})
    why = why_cannot(text, reported)
    if why is not None:
        return ToolUse(id="last", name="give_up", arguments={"reason": why or "It gave no reason."})
    whole = _FENCED.fullmatch(words)
    document = whole[2] if whole is not None else words
    if _DOCUMENT.search(document) is None:
        return None
    return ToolUse(id="last", name="submit_plan", arguments={"document": document + "\n"})


async def _started(
    here: Surroundings, who: PlanningAgent, told: str, more: str, door: PlannerDoor
) -> tuple[Finished, Said]:
    """One process, from its start to its end; or, of a registered function, one call."""
    ports, agent, settings = here.ports, who.agent, here.snapshot.settings
    doors = ports.doors if reaches_tools(agent) and ports.doors is not None and ports.doors.fault() is None else None
    names = ", ".join(one.name for one in door.listed())
    tools = _SERVED.format(names=names) if doors is not None else _UNSERVED
    prompt = "\n\n".join(part for part in (told, _HANDING_IN.format(tools=tools), more) if part)
    item = _item(who, prompt, tuple(one.name for one in door.listed()) if doors is not None else ())
    if agent.registered:
        return await _called(here, who, item)
    async with contextlib.AsyncExitStack() as held:
        try:
            room = held.enter_context(ports.agents.room())
            server = await held.enter_async_context(doors.open(room, door)) if doors is not None else None
            invocation = ports.agents.invocation(agent, item, room, server, sandboxed=who.tier > 0)
        except (ValueError, OSError) as error:
            raise refuse("E_PLANNER_START", f"{who.words} could not be started: {error}.") from error
        command = invocation.command(
            room,
            server,
            env={**ports.shell.environment((*settings.env, *agent.env)), **invocation.env},
            timeout_ms=item.timeout_ms,
            mark=ports.ids.mint("PLANNING-"),
            whole=True,
            writes=(),
            network=agent.network is True,
            covered=await asyncio.to_thread(ports.workspace.secret_places, settings.secret_files) if who.tier else (),
        )
        box = ports.sandbox if who.tier else None
        shell = box.shell(sandbox_limits(settings)) if box is not None else ports.shell
        finished = await _until_handed_in(shell, command, door)
        return finished, invocation.read(finished)


async def _until_handed_in(shell: Shell, command: Command, door: PlannerDoor) -> Finished:
    """Let a process come to its end; one that goes on long after it handed in is ended."""
    work, ended = asyncio.ensure_future(shell.run(command)), asyncio.ensure_future(door.ended.wait())
    try:
        await asyncio.wait((work, ended), return_when=asyncio.FIRST_COMPLETED)
        if not work.done():
            await asyncio.wait((work,), timeout=GRACE_S)
        if work.done():
            return work.result()
        return Finished(duration_ms=0, exit_code=0)
    finally:
        for one in (work, ended):
            one.cancel()
        await asyncio.gather(work, ended, return_exceptions=True)


async def _called(here: Surroundings, who: PlanningAgent, item: WorkItem) -> tuple[Finished, Said]:
    """What a function of this program gives. A thread cannot be ended, so its time is not limited."""
    result = await here.ports.agents.call(who.agent, item)
    value = {"reason": result.detail} if result.error == AGENT_CANNOT else result.value
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    error = result.detail if result.error not in (None, AGENT_CANNOT) else None
    return Finished(duration_ms=0, exit_code=0), Said(
        text=text.encode("utf-8", "replace"), used=result.used, error=error
    )


def _item(who: PlanningAgent, prompt: str, tools: tuple[str, ...]) -> WorkItem:
    """The planning as work that an agent is started for. It is of no plan and no run."""
    return WorkItem(
        agent=who.name,
        kind="plan",
        plan_id=PlanId(""),
        run_id=RunId(""),
        step=StepId("plan"),
        attempt=1,
        key="planning",
        timeout_ms=round(who.seconds * 1000),
        tools=tools,
        model=who.agent.model,
        task=prompt,
        prompt=prompt,
    )
