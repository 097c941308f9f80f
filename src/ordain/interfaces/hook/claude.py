"""Claude Code asks before every call of a tool (its hook PreToolUse), and is answered here from the rules in force.
What is open gets no answer: a yes of ours would stand above its user's permissions. What is not is refused where the
rules are enforced, and so is everything that goes wrong here, unless the rules are known to be only observed."""

from __future__ import annotations

import json
import os
import pwd
from collections.abc import Callable
from types import ModuleType
from typing import Any, NamedTuple

import msgspec

from ordain.assemble.quick_guard import at_a_door, quick_guard, reached, state_places
from ordain.core.guard import host_tool
from ordain.core.guard.call import Call, CallStanding, Met, Mode, proposal_of
from ordain.core.policy.settings import Settings
from ordain.core.text.problem import Problem, Refused, refuse

STDIN_MAX = 16 << 20
REASON_MAX = 7_500
"""How long a reason may be, in characters of its JSON: hosts cut what is longer."""
_PROPOSAL_MAX = 4_000
_PROJECT = "CLAUDE_PROJECT_DIR"


class Options(NamedTuple):
    """What the settings of the host say beside the command."""

    workspace: str | None = None
    """The workspace; by default the one that the host works in."""
    own: tuple[str, ...] = ("ordain",)
    """The names of our own servers in the host's settings, which judge what is called of them."""
    state: str | None = None
    """Where the record is, whatever variables say; `~` is the home of whoever this runs as, by the system's word."""


class HookAnswer(NamedTuple):
    """What is written to the host, and what is done once it is."""

    text: str = ""
    then: Callable[[], None] | None = None


NOTHING = HookAnswer()


class _Event(msgspec.Struct):
    hook_event_name: str


class HookRequest(msgspec.Struct, kw_only=True):
    """What the host says, as far as it matters here."""

    tool_name: str
    tool_input: dict[str, Any] = {}
    cwd: str = ""
    session_id: str = ""
    transcript_path: str = ""
    mcp_server: Any = None

    @property
    def server(self) -> str | None:
        """The name of the MCP server whose tool it is, where the host tells it."""
        name = self.mcp_server.get("name") if isinstance(self.mcp_server, dict) else None
        return name if isinstance(name, str) else None


def answer_hook(data: bytes, options: Options) -> HookAnswer:
    """What a host is answered that says this."""
    try:
        if len(data) > STDIN_MAX:
            raise ValueError(f"more than {STDIN_MAX:,} bytes")
        event = msgspec.json.decode(data, type=_Event).hook_event_name
        json.loads(data, object_pairs_hook=_each_once, parse_int=str, parse_float=str)
        if event != "PreToolUse":
            return NOTHING
        asked = msgspec.json.decode(data, type=HookRequest)
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        return denial(_failure(f"what the host said cannot be read ({error})"))
    try:
        if options.state is not None:
            home = pwd.getpwuid(os.getuid()).pw_dir if options.state.startswith("~/") else ""
            os.environ["ORDAIN_HOME"] = f"{home}{options.state[1:]}" if home else options.state
        return _inside(asked, options) if at_a_door() else _outside(asked, options)
    except Refused as refused:
        return denial(refused_words(refused.problems[0]))
    except Exception as error:  # whatever it is, it is no reason to let a call through
        return denial(_failure(f"{type(error).__name__}: {error}"))


def _each_once(pairs: list[tuple[str, Any]]) -> None:
    """Raise ValueError where a key comes twice: which of its values counts is up to whoever reads it."""
    if len(dict(pairs)) < len(pairs):
        raise ValueError("a key stands twice in one object")


def denial(reason: str, then: Callable[[], None] | None = None) -> HookAnswer:
    """The answer that refuses a call."""
    said = reason if len(reason) <= REASON_MAX else f"{reason[: REASON_MAX - 1]}…"
    return _answer(then, permissionDecision="deny", permissionDecisionReason=said)


def remark(said: str) -> HookAnswer:
    """The answer that decides nothing, and tells the model something."""
    return _answer(None, additionalContext=said[:REASON_MAX])


def _answer(then: Callable[[], None] | None, **said: str) -> HookAnswer:
    return HookAnswer(json.dumps({"hookSpecificOutput": {"hookEventName": "PreToolUse", **said}}), then)


def denied_reason(answer: HookAnswer) -> str | None:
    """Why an answer refuses a call; None where it does not."""
    said = json.loads(answer.text)["hookSpecificOutput"] if answer.text else {}
    return str(said["permissionDecisionReason"]) if "permissionDecision" in said else None


def refused_words(problem: Problem) -> str:
    """A problem as a model reads it."""
    command = (f"A person can run: {problem.command}",) if problem.command is not None else ()
    return "\n".join([f"{problem.code}: {problem.detail}", *problem.hints, *command])


def _failure(what: str) -> str:
    return f"Ordain could not tell whether this may be called, so it is refused: {what[:500]}"


def _outside(asked: HookRequest, options: Options) -> HookAnswer:
    """Outside of any run: the first refusal from where a workspace is looked for."""
    _refuse_missing(options.state)
    answers = (_judged_from(start, asked, options) for start in _starts(asked, options))
    return next((answer for answer in answers if answer.text), NOTHING)


def _refuse_missing(state: str | None) -> None:
    """Refuse where the state directory that the host's settings name is gone; `~` may be one that a user never had."""
    if state is not None and not state.startswith("~/") and not os.path.isdir(state):  # noqa: PTH112
        raise refuse(
            "E_STATE_DIR",
            f"The state directory {state} is not there, so nobody knows what is guarded.",
            "It is in the settings of Claude Code. If it was moved, write them again:",
            command="ordain guard install claude-code",
        )


def _starts(asked: HookRequest, options: Options) -> tuple[str, ...]:
    """From where a workspace is looked for: where the agent stands, and where its host was started."""
    cwd, project = asked.cwd or ".", os.environ.get(_PROJECT, "")
    if options.workspace is not None:
        return (options.workspace,)
    beneath = f"{os.path.realpath(cwd)}/".startswith(f"{os.path.realpath(project)}/") if project else True
    return (cwd,) if beneath else (cwd, project)


def _judged_from(start: str, asked: HookRequest, options: Options) -> HookAnswer:
    quick = quick_guard(start, exact=options.workspace is not None) if asked.tool_name != host_tool.PLAN_EXIT else None
    if quick is None:
        return _in_full(asked, options, start)
    quick.refuse_stopped()
    try:
        calls = calls_of(asked, options, quick.settings, quick.workspace)
        if not calls:
            return NOTHING
        call, judged = host_tool.strictest(quick.guard, calls)
        if judged.standing is CallStanding.OPEN:
            return NOTHING
        met = quick.meet(
            call, judged, agent=host_tool.CLAUDE_CODE, through=host_tool.CLAUDE_CODE, session=asked.session_id
        )
    except Exception:
        if quick.guard.mode is Mode.OBSERVE:
            return NOTHING
        raise
    if met is None:
        return _in_full(asked, options, start)
    told, sighting = met
    if not told.refused:
        return NOTHING
    subject = f"{sighting.tool} {sighting.about}"
    return denial(denied_words(told, call), lambda: _full().record_refusal(quick.workspace, subject, told.problem))


def _full() -> ModuleType:
    """What takes its time: an App, and a refusal in the ledger, for which nobody should wait with an answer."""
    from ordain.interfaces.hook import full

    return full


def _in_full(asked: HookRequest, options: Options, start: str) -> HookAnswer:
    answer: HookAnswer = _full().answer_by_app(asked, options, start)
    return answer


def calls_of(asked: HookRequest, options: Options, settings: Settings, root: str) -> tuple[Call, ...]:
    # The host keeps its notes of plans beside the directory of its transcripts.
    parts = os.path.realpath(asked.transcript_path).split("/") if asked.transcript_path else []
    plans = "/".join([*parts[:-3], "plans"]) if len(parts) > 3 and parts[-3] == "projects" else None
    states = state_places()

    def locate(path: str) -> host_tool.FoundPath:
        said = os.path.join(asked.cwd or root, os.path.expanduser(path))  # noqa: PTH111, PTH118
        named = os.path.normpath(said)
        # The host may take `..` away before it follows links, or leave that to the system.
        real = map(os.path.realpath, (named, said))
        more = settings.control
        one, other = (host_tool.found_at(at, named, root, states=states, plans=plans, control=more) for at in real)
        found = one if one == other else host_tool.found_twice(one, other)
        writes = host_tool.our_name(asked.tool_name)[1] and not found.kept
        fault = reached(root, found.paths, more) if writes and found.paths else None
        return found._replace(kept=f"would change what other programs act on: {fault}") if fault else found

    return host_tool.host_calls(asked.tool_name, asked.tool_input, asked.server, settings, options.own, locate)


def denied_words(met: Met, call: Call) -> str:
    assert met.problem is not None
    if met.judged.standing is CallStanding.DENIED or met.proposed:
        return refused_words(met.problem)
    if not host_tool.proposable(call):
        return (
            f"{met.problem.code}: `{call.tool}` {met.judged.why}. No plan holds a call of this tool either: say what "
            "you need it for, and let your user decide. Do not do the same in another way."
        )
    proposal = json.dumps(proposal_of(call), ensure_ascii=False)
    if len(proposal) > _PROPOSAL_MAX:
        proposal = '{"title": …, "steps": [the call as it is, with its contract]}'
    return (
        f"{refused_words(met.problem)}\nThe way: call `plan_propose` of the server `ordain` with the arguments\n"
        f"{proposal}\nand give the step a `contract`, a command that exits 0 only if it is done. Where you have no "
        "such tool, show your user the plan; they can prepare and approve it."
    )


def _inside(asked: HookRequest, options: Options) -> HookAnswer:
    """In the agent of a step that is being carried out: whoever carries it out says what may be."""
    root = os.path.realpath(options.workspace or asked.cwd or ".")
    wanted = [call for call in calls_of(asked, options, Settings(), root) if not host_tool.idle(call)]
    problem = _full().ask_door(wanted) if wanted else None
    return denial(refused_words(problem)) if problem is not None else NOTHING
