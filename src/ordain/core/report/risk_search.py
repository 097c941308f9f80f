"""Finds what a plan risks: in commands, contracts, calls, tasks, loops, fallbacks and nested plans, and in what is
known about it all. An alarm may rest on a guess; that nothing is found proves nothing.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

from ordain.core.plan.action import CallTool, RunCommand
from ordain.core.plan.command import command_of, command_text, decided_later
from ordain.core.plan.model import Plan, Step, check_of, contract_of, nested_plan_of
from ordain.core.plan.refs import literal
from ordain.core.plan.role import EffectClass, Payload, about, value_with
from ordain.core.plan.tool import DEFINITIONS, ToolDefinition, definition_of, handler_of, tool_name
from ordain.core.policy.assignment import Assignment
from ordain.core.policy.bound_file import NotBound
from ordain.core.policy.command_guess import guesses, guesses_in, guesses_of_sql, is_secret_path
from ordain.core.policy.effect import effects_of
from ordain.core.policy.fact import ALARMS, CommandFact, CommandFacts, FactNote, LineFacts
from ordain.core.policy.fact import Risk as LineRisk
from ordain.core.policy.path_use import Understand, spelt_path
from ordain.core.report.risk import CHANGES_MAX, KINDS, PLACES_MAX, QUIET_FACTS, RANK, PlanRisk, RiskPlace
from ordain.core.text.pattern import compile_later
from ordain.core.text.problem import Problem, Severity

LINE_MAX = 200
"""How much of a line is kept, around what it risks."""
_READ_MAX = 16_000
"""How much of a text is looked at in one piece."""
_REST_MAX = 60
"""How much more of a command is part of what it risks, where that is to its end."""
_CHANGING = frozenset(["command", "agent", "write", "move", "delete", "request", "call"])
"""Kinds of effects that change something by themselves."""
_APART = compile_later(r"\n|;|&&|\|\||[|&]")
_NAME_PARTS = compile_later(r"[^A-Za-z0-9]+|(?<=[a-z0-9])(?=[A-Z])")
_HOST = compile_later(r"[a-z][a-z+]*://(?:[^/@\s]*@)?([^/:?#\s\"']+)", re.IGNORECASE)
_LEADS_OUT = compile_later(r"(?:/|~|\.\./)(?!/)\S|(?:[^\s]*/)?\.\.(?:/|\Z)")
_BUILD_FILES = compile_later(
    r"(?:\A|/)(?:GNU)?[Mm]akefile\Z|\.mk\Z|(?:\A|/)(?:package\.json|conftest\.py|pyproject\.toml|setup\.(?:py|cfg)|tox\.ini|noxfile\.py"
    r"|justfile|Rakefile|Gemfile|build\.(?:rs|gradle|gradle\.kts|xml)|pom\.xml|CMakeLists\.txt|Dockerfile|gulpfile\.js"
    r"|(?:docker-)?compose\.ya?ml|\.pre-commit-config\.yaml|Taskfile\.ya?ml)\Z"
)
"""Files whose content decides what a build or a test runs, though no command names them."""


class RiskSources(NamedTuple):
    """What is known about a plan besides itself."""

    tools: Mapping[str, ToolDefinition]
    understand: Understand | None = None
    tasks: Sequence[Assignment] = ()
    notices: Sequence[Problem] = ()
    not_bound: Sequence[NotBound] = ()
    unusual: Sequence[str] = ()
    concerns: Sequence[str] = ()
    """What became wider since the last approval."""


class _Placed(NamedTuple):
    """A step, where it stands, and how often it may be done."""

    step: Step
    name: str
    number: str
    part: str
    times: int


def placed_steps(plan: Plan, outer: str = "", number: str = "", part: str = "", times: int = 1) -> Iterator[_Placed]:
    """Every step that may run: its name in a run, its number, and its bound where it or what holds it is repeated."""
    for at, step in enumerate((*plan.steps, *plan.fallbacks), start=1):
        fallback = at > len(plan.steps)
        own = part or ("fallback" if fallback else "")
        shown = "" if fallback or (part and not number) else f"{number}.{at}" if number else f"{at}"
        often = times * (step.for_each.max if step.for_each is not None else 1)
        yield _Placed(step, f"{outer}{step.id}", shown, own, often)
        if (inner := nested_plan_of(step)) is not None:
            yield from placed_steps(inner, f"{outer}{step.id}/", shown, own, often)


def find_risks(plan: Plan, sources: RiskSources) -> tuple[PlanRisk, ...]:
    """Every kind of risk that a plan has, worst first, each with its worst places first."""
    return _RiskSearch(plan, sources).found()


class _RiskSearch:
    """One search: what was found so far, by kind and place."""

    def __init__(self, plan: Plan, sources: RiskSources) -> None:
        self._plan, self._sources, self._tools = plan, sources, sources.tools
        self._steps = tuple(placed_steps(plan))
        self._places: dict[str, dict[tuple[str, str], tuple[RiskPlace, int]]] = {}
        self._lines: dict[str, LineFacts] = {}
        self._runs: dict[str, set[str]] = {}
        """The files of the workspace that steps run, and which steps."""
        self._writes: list[tuple[_Placed, str, str]] = []
        """The files that steps write, and as far as it is known with what."""
        self._builds = False
        self._changes = 0

    def found(self) -> tuple[PlanRisk, ...]:
        for one in self._steps:
            self._step(one)
        self._edited_code()
        self._agents()
        self._whole_plan()
        badness = Counter[tuple[str, str]]()
        for kind, places in self._places.items():
            for key in places:
                badness[key] += (len(RANK) - RANK[kind]) * (10 if KINDS[kind].asks else 1)
        risks = []
        for kind in sorted(self._places, key=RANK.__getitem__):
            places = self._places[kind]
            first = sorted(places, key=lambda key: -badness[key])[:PLACES_MAX]
            count = sum(count for _, count in places.values())
            risks.append(PlanRisk(kind=kind, count=count, places=tuple(places[key][0] for key in first)))
        return tuple(risks)

    def _add(
        self, kind: str, one: _Placed | None, line: str, span: tuple[int, int] = (0, 0), part: str = "", count: int = 1
    ) -> None:
        text, start, end = excerpt(line, *span)
        place = RiskPlace(line=text, start=start, end=end, part=part)
        if one is not None:
            parts = " of ".join(word for word in (part, one.part) if word)
            place = RiskPlace(step=one.name, number=one.number, part=parts, line=text, start=start, end=end)
        # A step and its contract are two places; a plan's own risks are as many as there are lines.
        key = (place.step, place.part if one is not None else line)
        if key not in self._places.setdefault(kind, {}):
            self._places[kind][key] = (place, count)

    # --- A step ------------------------------------------------------------------------------------------------------

    def _step(self, one: _Placed) -> None:
        step, action = one.step, one.step.action
        effect = next(effects_of(step, self._tools))
        text = command_text(action)
        tool = definition_of(action, self._tools)
        line = text if text is not None else _call_text(action, tool)
        only_reads = effect.effect is EffectClass.READS or about(action).ledger_only
        if text is not None:
            only_reads = self._command(one, text)
        elif isinstance(action, CallTool) and tool is not None and action.tool in DEFINITIONS:
            self._own_tool(one, action, line)
        elif isinstance(action, CallTool) or handler_of(action) is not None:
            if effect.destructive:
                self._add("destructive", one, line)
            if tool is not None and tool.command:
                self._command(one, " ".join(tool.command), part="handler")
            self._foreign_call(one, line, effect.tool, _arguments(action), reads=only_reads)
        if effect.secrets:
            self._add("secret", one, line, _word_span(line, next(iter(effect.secrets))))
        if effect.claimed_repeatable:
            self._add("claimed", one, line)
        if (contract := contract_of(step)) is not None:
            self._command(one, contract.command, part="contract")
        if step.happened is not None:
            self._command(one, step.happened, part="happened check")
        if step.network:
            self._add("network", one, line)
        for name, sources in decided_later(step).items():
            self._add("decided_later", one, f"{name}: {', '.join(sources)}")
        if step.for_each is not None:
            times = f"up to {step.for_each.max:,} times: "
            self._add("loop", one, times + line, (0, len(times) - 2), count=step.for_each.max)
        if not only_reads and effect.kind in _CHANGING:
            self._changes += one.times
            if check_of(step) is None:
                self._add("unverified", one, line)

    def _own_tool(self, one: _Placed, action: CallTool, line: str) -> None:
        args = action.args
        path = str(args.get("path", "")) if action.tool != "http_request" else ""
        match action.tool:
            case "delete":
                self._add("deletes", one, line, _word_span(line, path))
            case "move":
                self._writes.append((one, str(args.get("to", "")), ""))
                if args.get("overwrite") is True:
                    self._add("destructive", one, line, _word_span(line, "overwrite"))
            case "write_file" | "edit_file":
                self._writes.append((one, path, str(args.get("content", args.get("new", "")))))
            case "http_request":
                url, method = str(args.get("url", "")), str(args.get("method", "GET"))
                kind = "network" if method in ("GET", "HEAD") else "publishes"
                self._add(kind, one, line, _word_span(line, url))
        if path and is_secret_path(path):
            self._add("credentials", one, line, _word_span(line, path))

    def _foreign_call(self, one: _Placed, line: str, name: str, values: Mapping[str, Any], *, reads: bool) -> None:
        """A call of a tool that is not ours: what its name, its arguments and the texts in them suggest."""
        notes: list[FactNote] = []
        if not reads:
            notes += guesses_in(("", *_NAME_PARTS.split(name)))
            notes += guesses_in(("", *(key for key, value in values.items() if value is True)))
        for text in _texts(values):
            notes += [FactNote(CommandFact.NETWORK, host) for host in _HOST.findall(text)]
            if is_secret_path(text):
                notes.append(FactNote(CommandFact.CREDENTIALS, text))
            if not reads and "\n" not in text and _LEADS_OUT.match(text):
                notes.append(FactNote(CommandFact.OUTSIDE, text))
            for piece in _pieces(text):
                notes += [*guesses(piece), *guesses_of_sql(piece)]
                for command in self._understood(piece).commands:
                    if CommandFact.UNKNOWN not in command.facts:
                        notes += [FactNote(note.fact, note.about or command.program) for note in command.findings]
        for note in notes:
            if note.fact in ALARMS or note.fact is CommandFact.NETWORK:
                self._add(note.fact.value, one, line, _word_span(line, note.about))

    # --- Commands ----------------------------------------------------------------------------------------------------

    def _command(self, one: _Placed, text: str, part: str = "") -> bool:
        """What a command line risks; whether it only reads, by a strict reading."""
        only_reads = True
        for piece in _pieces(text):
            line = self._understood(piece)
            only_reads = only_reads and line.risk is LineRisk.READS
            for command in line.commands:
                for note in command.findings:
                    self._note(one, text, command, note, part)
        if len(text) > _READ_MAX:
            self._add("hidden", one, f"{len(text):,} characters: {text}", part=part)
        return only_reads

    def _note(self, one: _Placed, text: str, command: CommandFacts, note: FactNote, part: str) -> None:
        if note.fact is CommandFact.WRITES and note.about:
            self._writes.append((one, note.about, text))
        if note.fact is CommandFact.RUNS_WORKSPACE:
            self._runs.setdefault(spelt_path(note.about), set()).add(one.name)
            self._builds = True
        if note.fact not in QUIET_FACTS:
            self._add(note.fact.value, one, text, _span(text, command, note.about), part)

    def _understood(self, text: str) -> LineFacts:
        if text not in self._lines:
            understand = self._sources.understand
            self._lines[text] = understand(text) if understand is not None else LineFacts()
        return self._lines[text]

    # --- What steps do together --------------------------------------------------------------------------------------

    def _edited_code(self) -> None:
        """Files that one step writes and another runs: what is written is what is run."""
        for one, path, content in self._writes:
            spelt = spelt_path(path)
            if not (self._runs.get(spelt) or (self._builds and _BUILD_FILES.search(spelt))):
                continue
            shown = content if command_text(one.step.action) == content else f"{tool_name(one.step.action)} {path}"
            self._add("script", one, shown, _word_span(shown, path))
            if shown == content:
                notes = list(guesses(content))
            else:
                notes = [note for piece in _pieces(content) for note in guesses(piece)]
                for line in content.split("\n"):
                    notes += self._alarms_of(line)
            for note in notes:
                at = content.find(note.about)
                whole = content[content.rfind("\n", 0, at) + 1 :].split("\n")[0] if at >= 0 else content
                line = f"{shown}: {whole.strip()}" if shown != content else content
                if note.fact in ALARMS:
                    self._add(note.fact.value, one, line, _word_span(line, note.about), "script")

    def _alarms_of(self, line: str) -> Iterator[FactNote]:
        """What a line of a script may do, of programs that are known."""
        for command in self._understood(line[:_READ_MAX]).commands if line.strip() else ():
            if CommandFact.UNKNOWN not in command.facts:
                yield from (FactNote(note.fact, note.about or command.program) for note in command.findings)

    def _agents(self) -> None:
        placed = {one.name: one for one in self._steps}
        for task in self._sources.tasks:
            wide = [f"decides itself what it calls {', '.join(task.unforeseen)} with"] if task.unforeseen else []
            wide += ["keeps tools of its own"] if task.own_tools else []
            wide += ["has the network"] if task.network else []
            if wide and not task.human:
                self._add("agent", placed.get(task.step), f"{task.agent} {', '.join(wide)}")

    def _whole_plan(self) -> None:
        sources, placed = self._sources, {str(one.step.id): one for one in reversed(self._steps)}
        for problem in sources.notices:
            step = problem.where.step if problem.where is not None else None
            kind = "warning" if problem.severity is Severity.WARNING else "denied"
            kind = "lookalike" if problem.code == "W_CONFUSABLE" else kind
            self._add(kind, placed.get(step) if step else None, f"{problem.code} {problem.detail}", part=problem.code)
        for kind, words in (("wider", sources.concerns), ("environment", sources.unusual)):
            for line in words:
                self._add(kind, None, line)
        for one in sources.not_bound:
            self._add("not_bound", None, f"{', '.join(one.first) or one.count}: {one.reason}", count=one.count)
        if self._changes > CHANGES_MAX:
            self._add("many", None, f"changes something up to {self._changes:,} times", count=self._changes)


# --- Texts -----------------------------------------------------------------------------------------------------------


def excerpt(line: str, start: int, end: int, room: int = LINE_MAX) -> tuple[str, int, int]:
    """A line in so much room around the part from `start` to `end`, and where that part is then; cuts are marked."""
    if len(line) <= room:
        return line, start, end
    if end - start > room - 2:
        half = (room - 5) // 2
        kept = f"{line[start : start + half]} … {line[end - (room - 5 - half) : end]}"
        before, after = "…" if start else "", "…" if end < len(line) else ""
        return f"{before}{kept}{after}", len(before), len(before) + len(kept)
    spare = room - 2 - (end - start)
    begin = max(0, start - spare // 4) if start > spare // 4 + 1 else 0
    stop = min(len(line), begin + room - (begin > 0) - 1)
    if stop < end:
        begin, stop = max(0, end - (room - 2)), end
    before, after = "…" if begin else "", "…" if stop < len(line) else ""
    return f"{before}{line[begin:stop]}{after}", start - begin + len(before), end - begin + len(before)


def _pieces(text: str) -> Iterator[str]:
    if len(text) <= _READ_MAX:
        yield text
        return
    for piece in _APART.split(text):
        yield from (piece[at : at + _READ_MAX] for at in range(0, len(piece), _READ_MAX))


def _word_span(line: str, word: str) -> tuple[int, int]:
    at = line.find(word) if word else -1
    return (at, at + len(word)) if at >= 0 else (0, 0)


def _span(line: str, command: CommandFacts, about: str) -> tuple[int, int]:
    """Where in a line a command does what a finding says: from what starts it to what it is about."""
    program = (*command.through, command.program)[0].partition(" ")[0]
    if not program:
        return _word_span(line, about)
    spans = []
    for found in re.finditer(rf"(?<![\w.-]){re.escape(program)}(?![\w-])", line):
        end = found.end()
        for word in (command.program, command.subcommand.split(" ")[0], *command.arguments[:1], about):
            at = line.find(word, end) if word else -1
            end = at + len(word) if at >= 0 else end
        if not about or line.find(about, found.start()) >= 0:
            rest = _APART.search(line, end)
            stop = rest.start() if rest is not None else len(line)
            spans.append((found.start(), stop if stop - end <= _REST_MAX else end))
    return min(spans, key=lambda span: span[1] - span[0], default=_word_span(line, about))


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping | list | tuple):
        for inner in value.values() if isinstance(value, Mapping) else value:
            yield from _texts(inner)


def _arguments(action: Any) -> Mapping[str, Any]:
    values = action.args if isinstance(action, CallTool) else value_with(action, Payload)
    said = literal(values) if values is not None else {}
    return said if isinstance(said, Mapping) else {"": said}


def _call_text(action: Any, tool: ToolDefinition | None) -> str:
    """An action as one line: its name, then its arguments as they are."""
    if isinstance(action, RunCommand) or command_of(action) is not None:
        return command_text(action) or ""
    if isinstance(action, CallTool) or handler_of(action) is not None:
        values = _arguments(action)
        spelt = partial(json.dumps, ensure_ascii=False, default=str)
        said = (f"{key}={value if isinstance(value, str) else spelt(value)}" for key, value in values.items())
        return " ".join((tool_name(action), *said))
    return f"{tool_name(action)} {about(action).target(action)}".rstrip()
