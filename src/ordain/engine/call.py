"""What an agent calls through the door of its step: compared with the step and policy, recorded, performed, answered.
That a call is made is durable before it is performed. Calls are no evidence: the contract judges what is there in the
end."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from ordain.core.approval.approval import Channel, Principal
from ordain.core.guard.host_tool import CLAUDE_CODE
from ordain.core.lineage.refusal import PER_HOUR
from ordain.core.plan.action import CallTool
from ordain.core.plan.canonical import short_id
from ordain.core.plan.command import command_of, program_of, typed
from ordain.core.plan.model import Step, contract_of
from ordain.core.plan.role import EffectClass
from ordain.core.plan.tool import COMMANDS, SHELL, ToolDefinition, unbearable
from ordain.core.plan.tool import DEFINITIONS as FILE_TOOLS
from ordain.core.policy.scope import beyond, call_problem, out_of_scope
from ordain.core.run.step_event import AgentCalled, AgentCallFailed
from ordain.core.task.offer import CANNOT_TOOL, CallAnswer, Offer, door_names, offer_of
from ordain.core.task.work_item import WorkItem
from ordain.core.text.limit import NAME_LENGTH_MAX
from ordain.core.text.problem import Problem
from ordain.engine.affected import touches
from ordain.engine.context import RunContext
from ordain.engine.perform.effects import how_it_ended
from ordain.ports.process import Command
from ordain.ports.tool import Lost, ToolResult

CALLS_MAX = 10_000
"""How many calls of one attempt are answered, refused ones included: what they leave in the ledger stays small."""
SHOWN_MAX = 500
"""How much of a call's arguments stands in the ledger."""
TEXT_MAX = 128 << 10
"""How many characters of a result an agent is given: more than that no model reads with care."""
VALUE_MAX = 16 << 10
"""How long a result may be that is given a second time, as a value."""

_HOSTS = frozenset((*COMMANDS, *FILE_TOOLS, CLAUDE_CODE))
"""What the tools of an agent's host are called by in our words (`core.host_tool`)."""


class Calls:
    """ports.Behind for one attempt."""

    def __init__(self, run: RunContext, item: WorkItem, mark: str, refusing: asyncio.Lock) -> None:
        """`refusing` is held while a refusal is recorded: a second one at once would have to be tried again."""
        self._run, self._item, self._refusing = run, item, refusing
        self._step = run.state.step(item.step)
        self._mark = mark
        self._until = run.ports.clock.now() + item.timeout_ms
        self._names = {door: name for name, door in door_names(item.tools).items()}
        self._protect = (*run.state.plan.protect, *self._step.protect)
        self._who = Principal(name=f"{item.agent} in {item.run_id}/{item.step}", channel=Channel.MCP)
        self._told: Counter[str] = Counter()
        self.made = 0
        self.refused = 0
        self.touched: set[str] | None = set()
        """The paths that were changed; None where a call could have changed any."""
        self.cannot: str | None = None
        self.lost: str | None = None
        """Of which call nobody can tell whether it happened, though it matters, and why; None where there is none."""

    def listed(self) -> Sequence[Offer]:
        tools = self._run.tools
        return (*(offer_of(tools[name], door) for door, name in self._names.items()), CANNOT_TOOL)

    async def serve(self, tool: str, args: Mapping[str, Any]) -> CallAnswer:
        if tool == CANNOT_TOOL.name:
            return self._cannot(args)
        name = self._names.get(tool, tool)
        refused = await self._refused(name, tool, args)
        return refused if refused is not None else await self._call(name, args)

    async def may(self, tool: str, args: Mapping[str, Any]) -> CallAnswer:
        """Whether the agent may make a call with a tool of its host, or run the step's check. Nothing is performed."""
        agent = self._run.limits.agents.get(self._item.agent)
        if agent is not None and agent.own_tools and tool.partition(":")[0] in _HOSTS:
            # A person approved that it works with the tools of its host; what policy denies nobody can approve.
            return await self._unless_denied(tool, args)
        check = contract_of(self._step)
        if tool == SHELL.name and check is not None and args == {"command": check.command}:
            return await self._unless_denied(tool, args)
        if tool == SHELL.name and SHELL.name not in self._names.values() and check is not None:
            problem = Problem(
                code="E_TOOL_ARGS_NOT_APPROVED",
                detail=f"`{self._step.id}` has no tool `{SHELL.name}`; the only command that may be run is its check, "
                "letter by letter.",
                hints=(f"Its check is: {check.command}", "Use the tools of the step, or say `cannot`."),
                command=f"ordain show {short_id(self._item.plan_id)}",
            )
            return await self._refuse(tool, args, problem)
        return await self._refused(tool, tool, args) or CallAnswer()

    async def _unless_denied(self, tool: str, args: Mapping[str, Any]) -> CallAnswer:
        """Refuse what policy denies, and everything while work is stopped."""
        problem = self._run.authority.unpermitted(self._as_step(tool, args)) if not unbearable(args) else None
        denied = problem is not None and problem.code in ("E_POLICY_DENIED", "E_STOPPED", "E_STATE_DIR")
        return await self._refuse(tool, args, problem) if problem is not None and denied else CallAnswer()

    async def stranger(self) -> CallAnswer:
        detail = f"This is not the token of an attempt at `{self._step.id}` that is under way."
        return await self._refuse("", {}, Problem(code="E_DOOR_TOKEN", detail=detail))

    async def _refused(self, name: str, asked: str, args: Mapping[str, Any]) -> CallAnswer | None:
        asked = asked[:NAME_LENGTH_MAX]
        if self.made + self.refused >= CALLS_MAX:
            detail = f"`{self._step.id}` has made {CALLS_MAX:,} calls in this attempt, and no more are answered."
            return await self._refuse(asked, args, Problem(code="E_CALLS_TOO_MANY", detail=detail))
        if faults := unbearable(args):
            return await self._refuse(asked, {}, Problem(code="E_CALL_ARGUMENTS", detail=faults[0][0]))
        problem = await self._problem(name, asked, args)
        return await self._refuse(asked, args, problem) if problem is not None else None

    async def _problem(self, name: str, asked: str, args: Mapping[str, Any]) -> Problem | None:
        if name not in self._names.values():
            command = f"ordain revise {short_id(self._item.plan_id)} DOCUMENT"
            return out_of_scope(asked, self._step, tuple(self._names), command)
        control = self._run.limits.sandbox.control
        problem = call_problem(self._run.tools[name], args, self._step, self._protect, control)
        problem = problem or await self._withheld(self._run.tools[name], args)
        return problem or self._run.authority.unpermitted(self._as_step(name, args))

    async def _withheld(self, tool: ToolDefinition, args: Mapping[str, Any]) -> Problem | None:
        """What the files themselves say against a call, whatever they are called."""
        withheld, secret_files = self._run.ports.workspace.withheld, self._run.settings.secret_files
        for parameter in tool.parameters:
            path = args.get(parameter.name) if parameter.path else None
            if not isinstance(path, str):
                continue
            # In a thread: a slow disk must not hold up the loop.
            # What only looks through a directory leaves out what no agent is handed.
            deep = parameter.deep and tool.effect is not EffectClass.READS
            why = await asyncio.to_thread(withheld, path, secret_files, deep=deep)
            if why is not None:
                return beyond(f"The path `{path}` {why}", "No agent is handed that, and none moves or changes it.")
        return None

    def _as_step(self, name: str, args: Mapping[str, Any]) -> Step:
        tool, _, operation = name.partition(":")
        action = CallTool(tool=tool, operation=operation or None, args=args)
        return Step(id=self._step.id, description=self._step.description, action=action, needs=())

    async def _refuse(self, tool: str, args: Mapping[str, Any], problem: Problem) -> CallAnswer:
        self.refused += 1
        self._told[problem.code] += 1
        # As many as are recorded: beyond that nobody need look.
        if self._told[problem.code] <= PER_HOUR:
            subject = f"{tool} {json.dumps(args, ensure_ascii=False)}" if args else tool
            async with self._refusing:
                await self._run.authority.refused(subject, self._who, problem)
        clean = self._run.sink.text
        told = Problem(
            code=problem.code,
            detail=clean(problem.detail),
            hints=tuple(map(clean, problem.hints)),
            command=problem.command,
        )
        return CallAnswer(problem=told)

    def _cannot(self, args: Mapping[str, Any]) -> CallAnswer:
        reason = args.get("reason")
        text = reason.strip() if isinstance(reason, str) else ""
        self.cannot = self.cannot or text
        if text:
            return CallAnswer(text="Noted. A person decides what happens. Do nothing more, and end.")
        return CallAnswer(text="Noted, but a person has to know why: call this again with a `reason`, and then end.")

    async def _call(self, name: str, args: Mapping[str, Any]) -> CallAnswer:
        self.made += 1
        run, number = self._run, self.made
        paths = touches(run.tools[name], args)
        self.touched = None if paths is None or self.touched is None else self.touched | set(paths)
        body = json.dumps(args, ensure_ascii=False, sort_keys=True).encode("utf-8", "replace")
        shown = run.sink.text(body.decode())
        event = AgentCalled(
            step=self._item.step,
            attempt=self._item.attempt,
            call=number,
            tool=name,
            args=shown if len(shown) <= SHOWN_MAX else f"{shown[: SHOWN_MAX - 1]}…",
            seal=run.sink.seal(body),
        )
        await run.journal.record(event)
        try:
            result = await self._perform(name, args, number)
        except Lost as lost:
            result = self._lost(name, str(lost))
        except Exception as error:  # a bug in a tool is a failure of this call, and no more
            result = ToolResult(error="F_STEP_FAILED", detail=f"the tool broke: {error!r}")
        if result.error is None:
            return self._given(result)
        detail = run.sink.text(result.detail)
        failed = AgentCallFailed(
            step=self._item.step, attempt=self._item.attempt, call=number, error=result.error, detail=detail[:SHOWN_MAX]
        )
        await run.journal.record(failed)
        if result.error == "F_PATH_ESCAPE":
            return await self._refuse(name, args, Problem(code="E_CALL_BOUNDS", detail=f"{detail}."))
        return CallAnswer(text=self._given(result).text, problem=Problem(code=result.error, detail=f"{detail}."))

    def _lost(self, name: str, why: str) -> ToolResult:
        """Nobody is left to answer. Where it would do harm to call it twice, that is for a person to settle."""
        if self._run.tools[name].effect in (EffectClass.READS, EffectClass.REPEATABLE):
            return ToolResult(error="F_STEP_FAILED", detail=why)
        self.lost = self.lost or f"`{name}`: {why}"
        return ToolResult(error="F_STEP_IN_DOUBT", detail=f"{why}; it may have happened, so do not call it again")

    async def _perform(self, name: str, args: Mapping[str, Any], number: int) -> ToolResult:
        run, key = self._run, f"{self._item.key}/{self._item.attempt}/{number}"
        if name in COMMANDS:
            return await self._command(name, args, number, key)
        tool = run.tools[name]
        if tool.schema is None:
            control, secret_files = run.limits.sandbox.control, run.settings.secret_files
            return await run.ports.toolbox.call(name, args, key, control=control, secret_files=secret_files)
        return await run.ports.sources.call(tool, args, key, run.secret)

    async def _command(self, name: str, args: Mapping[str, Any], number: int, key: str) -> ToolResult:
        run, action = self._run, self._as_step(name, args).action
        command, program = command_of(action), program_of(action)
        argv = tuple(program.argv) if program is not None else ()
        text = command.command if command is not None else typed(argv)
        given = (command.env if command is not None else program.env if program is not None else {}) or {}
        names = {"ORDAIN_RUN": self._item.run_id, "ORDAIN_STEP": self._item.step, "ORDAIN_STEP_KEY": key}
        timeout_ms = max(1, self._until - run.ports.clock.now())
        finished = await run.ports.shell.run(
            Command(
                text=text,
                argv=argv,
                env={**run.ports.shell.environment(run.limits.env), **given, **names},
                timeout_ms=timeout_ms,
                mark=f"{self._mark}/{number}",
                writes=self._step.writes or None,
            )
        )
        error, detail = how_it_ended(finished, timeout_ms)
        return ToolResult(output=finished.output, output_bytes=finished.output_bytes, error=error, detail=detail)

    def _given(self, result: ToolResult) -> CallAnswer:
        """What a tool gave, as an agent may have it: it goes where nobody can call it back."""
        clean = self._run.sink.text
        if result.output is not None:
            size = max(result.output_bytes, len(result.output))
            text = self._run.sink.end(result.output, size, TEXT_MAX)
            cut = f"[This is only the end of {size:,} bytes.]\n" if len(text.encode()) < size else ""
            return CallAnswer(text=cut + text)
        if result.value is None:
            return CallAnswer(text="" if result.error is not None else "Done.")
        if isinstance(result.value, str):
            return CallAnswer(text=_cut(clean(result.value)))
        text = clean(json.dumps(result.value, ensure_ascii=False))
        value = json.loads(text) if isinstance(result.value, Mapping) and len(text) <= VALUE_MAX else None
        return CallAnswer(text=_cut(text), value=value)


def _cut(text: str) -> str:
    if len(text) <= TEXT_MAX:
        return text
    return f"{text[:TEXT_MAX]}\n[This is only the beginning: {len(text):,} characters are too many.]"
