"""What a planner may look at: the built-in tools that read, each call compared with policy and with what no agent is
handed, as the calls of a step are; bounded, and without secrets. And what went wrong with similar plans."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any

from ordain.app.app import App
from ordain.app.refusals import Refusals
from ordain.core.approval.approval import Principal
from ordain.core.lineage.lineage import PlanState
from ordain.core.plan.action import CallTool
from ordain.core.plan.model import Step
from ordain.core.plan.role import EffectClass
from ordain.core.plan.tool import ToolDefinition
from ordain.core.plan.value import StepId
from ordain.core.policy.scope import beyond, call_problem
from ordain.core.policy.settings import Settings
from ordain.core.run.step_event import StepState
from ordain.core.task.offer import offer_of
from ordain.core.text.limit import NAME_LENGTH_MAX
from ordain.core.text.problem import Problem, Refused
from ordain.engine.dialogue import Performed
from ordain.planner.brief import bare
from ordain.planner.loop import FINAL, LookedAt, TellPlanner
from ordain.planner.rounds import problem_line
from ordain.ports.model import ToolSpec, ToolUse
from ordain.ports.tool import ToolResult
from ordain.records.sink import Sink
from ordain.records.surroundings import Surroundings

TOOLS = ("read_file", "list_files", "search")
"""The built-in tools that a planner has, where they are there."""
CALLS_MAX, CHARACTERS_MAX = 20, 60_000
"""How many calls are performed in one planning, and how much they answer in all."""


class PlannerReads:
    """The tools of one planning."""

    def __init__(self, here: Surroundings, refusals: Refusals, sink: Sink, by: Principal, tell: TellPlanner) -> None:
        self._here, self._refusals, self._sink, self._by, self._tell = here, refusals, sink, by, tell
        self._settings: Settings = here.snapshot.settings
        known = here.ports.toolbox.definitions()
        self._tools = {name: known[name] for name in TOOLS if name in known and known[name].effect is EffectClass.READS}
        self._calls, self._left = 0, CHARACTERS_MAX

    @property
    def specs(self) -> Sequence[ToolSpec]:
        offers = (offer_of(tool, name) for name, tool in self._tools.items())
        return tuple(ToolSpec(name=one.name, description=one.description, schema=one.schema) for one in offers)

    async def perform(self, use: ToolUse) -> Performed:
        """Answer one call."""
        name, args = use.name[:NAME_LENGTH_MAX], use.arguments
        tool = self._tools.get(name)
        problem = await self._problem(name, tool, args)
        if tool is None or problem is not None:
            assert problem is not None
            self._tell(LookedAt(tool=name, subject=_subject(args), refused=True))
            await self._refusals.record("plan", f"{name} {_subject(args)}".strip(), self._by, [problem])
            return Performed(text=self._sink.text(problem_line(problem)), is_error=True)
        if self._calls >= CALLS_MAX or self._left <= 0:
            text = "No more can be looked at in this planning. Plan with what you saw, ask, or give up."
            return Performed(text=text, is_error=True)
        self._calls += 1
        self._tell(LookedAt(tool=name, subject=_subject(args)))
        result = await self._here.ports.toolbox.call(
            name, args, "", control=self._settings.control, secret_files=self._settings.secret_files
        )
        if result.error is not None:
            return Performed(text=self._sink.text(f"{result.error}: {result.detail}"), is_error=True)
        text = bare(self._sink.text(_text_of(result)))
        shown = text[: self._left]
        self._left -= len(shown)
        cut = "" if len(shown) == len(text) else f"\n[Only the first {len(shown):,} of {len(text):,} characters.]"
        return Performed(text=shown + cut)

    async def _problem(self, name: str, tool: ToolDefinition | None, args: Mapping[str, Any]) -> Problem | None:
        if tool is None:
            known = ", ".join((*self._tools, *(one.name for one in FINAL)))
            detail = f"A planner has no tool `{name}`: it looks, and hands in a plan."
            return Problem(code="E_CALL_SCOPE", detail=detail, hints=(f"There are {known}.",))
        step = Step(id=StepId("plan"), description="", action=CallTool(tool=name, args=args), needs=())
        problem = call_problem(tool, args, step, (), self._settings.control)
        return problem or await self._withheld(tool, args) or self._here.denied(step, self._settings)

    async def _withheld(self, tool: ToolDefinition, args: Mapping[str, Any]) -> Problem | None:
        for parameter in tool.parameters:
            path = args.get(parameter.name) if parameter.path else None
            if isinstance(path, str):
                withheld = self._here.ports.workspace.withheld
                # What only looks through a directory leaves out what nobody is handed.
                why = await asyncio.to_thread(withheld, path, self._settings.secret_files, deep=False)
                if why is not None:
                    return beyond(f"The path `{path}` {why}", "No planner is handed that.")
        return None


def _subject(args: Mapping[str, Any]) -> str:
    found = args.get("path") or args.get("pattern") or args.get("query") or ""
    return found[:200] if isinstance(found, str) else ""


def _text_of(result: ToolResult) -> str:
    if result.output is not None:
        return result.output.decode("utf-8", "replace")
    if isinstance(result.value, str):
        return result.value
    return json.dumps(result.value, ensure_ascii=False)


# --- What went wrong before ------------------------------------------------------------------------------------------

LOOKED_BACK = 200
"""Among how many of the newest plans is looked for similar ones."""
TOLD_MAX = 5
LINE_MAX = 400
_FAILED = (StepState.FAILED, StepState.ESCALATED, StepState.IN_DOUBT)
_WORD = re.compile(r"\w{4,}")


def failures(app: App, goal: str) -> list[str]:
    """Why plans for something similar were rejected or failed, the newest first."""
    if not app.here.has_ledger():
        return []
    wanted = _words(goal)
    found: list[str] = []
    for summary in reversed(app.here.ledger.plans(newest=LOOKED_BACK)):
        told = summary.state.origin.goal if summary.state.origin is not None else ""
        other = _words(f"{summary.state.title} {told}")
        shared = len(wanted & other)
        if shared < 2 and (not shared or min(len(wanted), len(other)) > 2):
            continue
        with suppress(Refused):  # what cannot be read teaches nothing
            found += _of(app, summary.state)
        if len(found) >= TOLD_MAX:
            break
    return [one if len(one) <= LINE_MAX else f"{one[: LINE_MAX - 1]}…" for one in found[:TOLD_MAX]]


def _of(app: App, state: PlanState) -> Iterator[str]:
    for run_id, ended in reversed(state.runs.items()):
        if ended != "failed":
            continue
        report = app.runs.run(run_id)
        for step in report.steps:
            if step.state in _FAILED:
                seen = " ".join((step.own_output_tail or step.output_tail or step.evidence).split())[-200:]
                yield f"“{state.title}”: step `{step.id}` failed ({step.error or step.state.value}): {seen}"
        return
    for rejection in state.rejections[-1:]:
        yield f"“{state.title}” was rejected: {rejection.words()}"


def _words(text: str) -> frozenset[str]:
    return frozenset(_WORD.findall(text.lower()))
