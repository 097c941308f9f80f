"""The guard: which calls of agents outside of a run are let through, and which need a plan.

The gateway, the hooks of agents' hosts and reports all ask here. Deny wins: what policy denies no plan can do either.
What policy asks about is guarded. Any entry of `[guard] guarded` wins over `open` but `*`, which is all that `open`
does not name. Doubt is on the strict side, and a tool that nobody knows is guarded unless `open` has its name.

A guarded call is never made for the caller, not even where an approved plan has that very call: the plan's run makes
it, once.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from enum import StrEnum
from itertools import islice
from typing import Any

import msgspec

from ordain.core.plan.action import CallTool
from ordain.core.plan.canonical import canonical_bytes, short_id
from ordain.core.plan.command import command_of
from ordain.core.plan.model import Plan, Step, all_steps
from ordain.core.plan.tool import COMMANDS, SHELL, ToolDefinition, tool_name, unbearable
from ordain.core.plan.value import PlanId, RunId, StepId
from ordain.core.policy.fact import CommandFact
from ordain.core.policy.path_use import call_action, subject_of_call
from ordain.core.policy.ruling import AllowList, Strict, quoted
from ordain.core.policy.settings import Settings, reader_of_lines
from ordain.core.text.limit import NAME_LENGTH_MAX
from ordain.core.text.problem import Problem

EVERYTHING = "*"


class Mode(StrEnum):
    """What becomes of guarded calls."""

    OBSERVE = "observe"
    """They are let through and noted."""
    ENFORCE = "enforce"
    """They are refused."""


class CallStanding(StrEnum):
    """How a call stands to the rules."""

    OPEN = "open"
    GUARDED = "guarded"
    DENIED = "denied"


class Call(msgspec.Struct, frozen=True, kw_only=True):
    """A call that somebody wants to make outside of any run."""

    tool: str
    """As the registry calls it: `tool`, or `tool:operation`."""
    args: Mapping[str, Any] = {}
    definition: ToolDefinition | None = None
    """None where nobody knows such a tool."""
    unknown: str = "nobody here knows such a tool"
    """Why there is no definition."""
    kept: str = ""
    """Why it is never open, whatever the lists say, as the end of a sentence that begins with the tool; empty where it
    may be."""


class Judged(msgspec.Struct, frozen=True, kw_only=True):
    """What the rules say of a call."""

    standing: CallStanding
    why: str
    """The end of a sentence that begins with the tool."""
    by_default: bool = False
    """Guarded only because nothing opens it: no entry of a list means it."""


class Met(msgspec.Struct, frozen=True, kw_only=True):
    """What becomes of a call."""

    judged: Judged
    problem: Problem | None = None
    """Why it is not made, or would not be were the rules enforced; None where it is open."""
    refused: bool = False
    cover: Cover | None = None
    """The step of an approved plan that calls the same tool, if there is one."""
    same: Same | None = None
    """A plan with this very call that is not approved, if there is one."""

    @property
    def proposed(self) -> bool:
        """Whether a plan with this very call is there already, so that no other needs to be proposed."""
        waits = self.same is not None and self.same.run_id is None
        return waits or (self.cover is not None and self.cover.exact)


class Cover(msgspec.Struct, frozen=True, kw_only=True):
    """A step of a plan that a person approved, which calls the same tool."""

    plan_id: PlanId
    step: StepId
    exact: bool
    """With the same arguments."""
    running: bool


class Same(msgspec.Struct, frozen=True, kw_only=True):
    """A step of a plan that is this very call, and that no approval stands for: it waits for one, or it was made."""

    plan_id: PlanId
    step: StepId
    run_id: RunId | None = None
    """The run that made the call; None where it waits."""
    when: str = ""
    """When that was, in words."""
    passed: bool = False
    """Whether it was seen to have done what it should."""


class Guard:
    """The rules of some settings, ready to judge calls."""

    def __init__(self, settings: Settings) -> None:
        rules = settings.rules
        self.mode = Mode(settings.guard_mode)
        self._deny, self._ask = Strict(settings.deny, rules), Strict(settings.ask, rules)
        self._everything = EVERYTHING in settings.guarded
        self._guarded = Strict([entry for entry in settings.guarded if entry != EVERYTHING], rules)
        self._open = AllowList(settings.open_calls, rules)
        self._understand = reader_of_lines(settings)

    def judge(self, call: Call) -> Judged:
        for one in (self._deny, self._ask, self._guarded, self._open):
            one.begin_anew()
        bearable = not unbearable(call.args)
        subject = subject_of_call(call.tool, call.args if bearable else {}, call.definition, self._understand)
        denied, may_be_denied, _ = self._deny.names(subject)
        if denied:
            return Judged(standing=CallStanding.DENIED, why=f"is denied: `[policy] deny` names {quoted(denied)}")
        if may_be_denied or self._deny.exhausted:
            return _guarded(f"may be what `[policy] deny` names{_listed(may_be_denied)}")
        if call.kept:
            return _guarded(call.kept)
        if not bearable:
            return _guarded("is guarded: it has more arguments, or more within one another, than anybody can look at")
        for strict, where in ((self._ask, "[policy] ask"), (self._guarded, "[guard] guarded")):
            named, may_be_named, _ = strict.names(subject)
            if named:
                return _guarded(f"is guarded: `{where}` names {quoted(named)}")
            if may_be_named or strict.exhausted:
                return _guarded(f"may be what `{where}` names{_listed(may_be_named)}")
        by_name, by_paths = self._open.vouching(subject)
        if by_name or by_paths:
            line = subject.line
            runs = line is not None and any(one.fact is CommandFact.RUNS_WORKSPACE for one in line.findings)
            why = f"is open by {quoted(by_name or by_paths)}{f' ({RUNS_WORKSPACE})' if runs else ''}"
            return Judged(standing=CallStanding.OPEN, why=why)
        if call.definition is None:
            return _guarded(f"is guarded: {call.unknown}")
        if self._everything:
            why = "; ".join(("is guarded: nothing in `[guard] open` names it", *islice(self._open.nearly(subject), 3)))
            return Judged(standing=CallStanding.GUARDED, why=why, by_default=True)
        return Judged(standing=CallStanding.OPEN, why="is open: nothing guards it")


RUNS_WORKSPACE = "runs code from the workspace, not contained at tier 0"


def _listed(entries: set[str]) -> str:
    """The entries that may be meant; of those that could not all be compared, none."""
    return f" ({quoted(entries)})" if entries else ""


def _guarded(why: str) -> Judged:
    return Judged(standing=CallStanding.GUARDED, why=why)


# --- Plans that have it ----------------------------------------------------------------------------------------------


def cover_of(call: Call, approved: Iterable[tuple[PlanId, bool, Plan]]) -> Cover | None:
    """The step of an approved plan that makes this call, else one that calls the same tool where that is no command."""
    found: Cover | None = None
    for plan_id, running, plan in approved:
        for step, exact in _callers(call, plan):
            cover = Cover(plan_id=plan_id, step=step.id, exact=exact, running=running)
            if exact:
                return cover
            if found is None and call.tool not in COMMANDS:
                found = cover
    return found


def same_step(call: Call, plan: Plan) -> StepId | None:
    return next((step.id for step, exact in _callers(call, plan) if exact), None)


def _callers(call: Call, plan: Plan) -> Iterator[tuple[Step, bool]]:
    asked = _canonical(call.args)
    for step in all_steps(plan):
        action = step.action
        if (command := command_of(action)) is not None:
            env = {"env": command.env} if command.env else {}
            action = call_action(SHELL.name, {"command": command.command, **env})
        if isinstance(action, CallTool) and tool_name(action) == call.tool:
            yield step, asked is not None and _canonical(action.args) == asked


def _canonical(args: Mapping[str, Any]) -> bytes | None:
    try:
        return canonical_bytes(args)
    except (ValueError, TypeError, RecursionError):  # what no plan can hold is in none
        return None


# --- What is said ----------------------------------------------------------------------------------------------------


def refusal_of(call: Call, judged: Judged, cover: Cover | None = None, same: Same | None = None) -> Problem:
    """Why a call is not made, and the way that leads to it. Nothing of the arguments stands in it."""
    name = f"`{_name(call)}`"
    guarded, code = f"{name} {judged.why}", "E_TOOL_GUARDED" if cover is None else "E_TOOL_ARGS_NOT_APPROVED"
    if judged.standing is CallStanding.DENIED:
        hint = "No plan can do it either; a person would have to change ordain.toml and trust it."
        return Problem(code="E_POLICY_DENIED", detail=f"{guarded}.", hints=(hint,))
    if same is not None and not (cover is not None and cover.exact):
        detail, hint, command = _words_of_same(same)
        return Problem(code=code, detail=f"{guarded}. {detail}", hints=(hint,), command=command)
    if cover is None:
        return Problem(
            code=code,
            detail=f"{guarded}. It is only done by a plan that a person has approved.",
            hints=("Propose a plan with this call, and have a person approve it. Do not do the same in another way.",),
            command="ordain explain E_TOOL_GUARDED",
        )
    plan = short_id(cover.plan_id)
    if not cover.exact:
        return Problem(
            code=code,
            detail=f"A person approved {name} with other arguments, in `{cover.step}` of {plan}.",
            hints=(
                "What was approved is carried out as it was approved, and nothing else is.",
                "For this call, propose a plan of its own, or a revision of that one.",
            ),
            command=f"ordain show {plan}",
        )
    doing = "is being carried out" if cover.running else "is approved"
    return Problem(
        code="E_TOOL_GUARDED",
        detail=f"{guarded}; `{cover.step}` of {plan}, which {doing}, is this very call, and Ordain makes it, once.",
        hints=("Do not make it yourself: start the plan with `plan_commit`, and ask `plan_status` how it went.",),
        command=f"ordain show {plan}",
    )


def _words_of_same(same: Same) -> tuple[str, str, str]:
    plan = short_id(same.plan_id)
    if same.run_id is None:
        detail = f"`{same.step}` of {plan} is this very call, and waits for a person to approve it."
        hint = "Do not propose it again: ask them to approve that plan, and `plan_status` whether they did."
        return detail, hint, f"ordain approve {plan}"
    ending = "and it passed" if same.passed else "and it did not pass"
    detail = f"{same.run_id} made this very call at {same.when}, `{same.step}` of {plan}, {ending}."
    hint = "It is not made again unless a person approves that: propose it only if it is to be done once more."
    return detail, hint, f"ordain show {same.run_id}"


def _name(call: Call) -> str:
    """A tool's name, as long as names are: a caller may say anything."""
    return call.tool[:NAME_LENGTH_MAX]


def proposal_of(call: Call) -> dict[str, Any]:
    """The arguments of `plan_propose` for a plan of this one call; its contract is for whoever proposes it to write."""
    tool, _, operation = call.tool.partition(":")
    command = command_of(call_action(call.tool, call.args)) if not unbearable(call.args) else None
    if command is not None:
        shown = _plain(command.command)
        title = f"Run {shown}" if shown.strip(CUT) else "Run a command"
        step: dict[str, Any] = {"run": command.command, **({"env": command.env} if command.env else {})}
    else:
        title = f"{_name(call)} {_telling(call.args)}".rstrip()
        step = {"tool": tool, **({"operation": operation} if operation else {}), "args": dict(call.args)}
    return {"title": title, "steps": [{"description": title, **step}]}


CUT = "…"
SHOWN_MAX = 50
"""How much of one argument, or of a command, stands in a title."""
_NUMBER_MAX = 10**15
_TELLING = ("to", "recipient", "path", "url", "uri", "channel", "repo", "id", "name", "title", "subject", "query")
"""The arguments by which people tell one call from another, the best first."""
_PLAIN = re.compile(r"[\w@.+/:,= -]*")
"""What means nothing but itself wherever a title stands."""


def _telling(args: Mapping[str, Any]) -> str:
    """The two arguments that tell most, in a few words; nothing where they cannot be told."""
    if unbearable(args):
        return ""
    known = [key for key in _TELLING if key in args]
    keys = known or [key for key in args if key.isidentifier() and len(key) <= SHOWN_MAX]
    said = ((key, _plain(_words(args[key]))) for key in keys)
    return ", ".join([f"{key} {words}" for key, words in said if words.strip(CUT)][:2])


def _words(value: Any) -> str:
    if isinstance(value, list | tuple):
        return ", ".join(filter(None, map(_words, value[:3])))
    small = type(value) is int and abs(value) < _NUMBER_MAX
    return str(value) if small or isinstance(value, str) else ""


def _plain(text: str) -> str:
    """The beginning of a text, as far as it means nothing but itself."""
    begins = " ".join(text[: SHOWN_MAX + 1].split())
    found = _PLAIN.match(begins)
    safe = found.group()[:SHOWN_MAX].rstrip() if found is not None else ""
    return safe if safe == text else f"{safe}{CUT}"
