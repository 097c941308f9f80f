"""What was seen of guarded calls, as people read it, from 60 columns on; all of it is in the JSON too."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from textwrap import wrap

from ordain.core.guard.call import Mode
from ordain.core.guard.command_report import ProgramSeen
from ordain.core.guard.report import AgentSeen, ToolSeen, WatchReport
from ordain.core.guard.suggestion import Suggestion, Unsuggested
from ordain.core.policy.fact import SHELL_READS
from ordain.interfaces.view.run import instant
from ordain.interfaces.view.statistics import ROWS_MAX, WIDTH_MIN, listed, packed_lines
from ordain.interfaces.view.style import Style
from ordain.interfaces.view.text import bar, counted, fitted, padded, visible


def others_lines(report: WatchReport, width: int) -> Iterator[str]:
    """What was seen, where nothing was of what was asked about."""
    width = max(width, WIDTH_MIN)
    yield f"No such guarded call was seen since {instant(report.since)}; these were:"
    for title, names in (
        ("agents", [one.agent for one in report.agents]),
        ("tools", [one.tool for one in report.tools]),
    ):
        yield f"  {title}: {fitted(', '.join(map(visible, names)), width - len(title) - 4)}"


def watch_lines(report: WatchReport, style: Style, width: int) -> Iterator[str]:
    """All that was seen and is not nothing."""
    width = max(width, WIDTH_MIN)
    enforced = report.mode == Mode.ENFORCE
    if not report.calls:
        yield f"No guarded call was seen since {instant(report.since)}."
        yield from _incomplete(report, style)
        yield "Only calls are seen that come through Ordain:"
        yield "  ordain guard install claude-code   watches the calls of Claude Code"
        yield "  ordain mcp --gateway               is between any agent and its MCP servers"
        return
    yield style.bold(f"Guarded calls outside of plans since {instant(report.since)}: {report.calls}")
    counts = [
        f"{report.refused} refused",
        f"{report.would_be} let through that would be refused if rules were enforced",
    ]
    counts += [f"{report.open_now} open by the rules of today"] if report.open_now else []
    counts += [f"{report.sessions} session{'s' * (report.sessions != 1)}"]
    yield from packed_lines(counts, width, 2)
    rules = "are enforced" if enforced else "are only watched (`[guard] mode`)"
    notes = (
        f"Rules {rules}. These are notes and no evidence, and agents are called what they call themselves. What was "
        "refused is in the ledger too: ordain log --refused"
    )
    yield from map(style.dim, _wrapped(notes, width, 2))
    yield from _incomplete(report, style)
    yield from _seen_lines("By tool", map(_tool, report.tools), style, width)
    yield from _seen_lines("Commands that need a plan, by program", map(_program, report.programs), style, width)
    yield from _seen_lines("By agent", map(_agent, report.agents), style, width)
    yield from _suggestion_lines(report, style, width)

    def unsuggested(one: Unsuggested) -> Iterator[str]:
        yield "  " + fitted(f"{visible(one.tool)}: {counted(one.calls, 'call')}", width - 2)
        yield from map(style.dim, _wrapped(visible(one.why), width, 4))

    yield from listed("Nothing is suggested of", report.unsuggested, unsuggested, "guard report", style)


def _incomplete(report: WatchReport, style: Style) -> Iterator[str]:
    if report.incomplete:
        yield style.warn("  Some calls are missing here: there were too many, or no room.")


def _tool(one: ToolSeen) -> tuple[str, int, list[str], str]:
    said = [f"{one.effect}{', destructive' if one.destructive else ''}" if one.effect else "nobody knows this tool"]
    said += [counted(len(one.agents), "agent"), counted(one.sessions, "session"), *_refused(one)]
    said += [f"{one.open_now} open by the rules of today"] if one.open_now else []
    said += [f"in {counted(one.plans, 'plan')}" if one.plans else "in no plan"]
    said += [f"{count} {code}" for code, count in one.codes.items() if code != "E_TOOL_GUARDED"]
    said += [f"{instant(one.first)} to {instant(one.last)}" if one.first != one.last else instant(one.first)]
    return one.tool, one.calls, said, next(iter(one.examples), "")


def _program(one: ProgramSeen) -> tuple[str, int, list[str], str]:
    return one.program, one.calls, [one.risk, *_refused(one), *filter(None, [one.label])], one.example


def _agent(one: AgentSeen) -> tuple[str, int, list[str], str]:
    said = [f"{visible(tool)} ×{count}" for tool, count in list(one.tools.items())[:ROWS_MAX]]
    return one.agent, one.calls, [*said, counted(one.sessions, "session"), *_refused(one)], ""


def _refused(one: ToolSeen | ProgramSeen | AgentSeen) -> list[str]:
    return [f"{one.refused} refused"] if one.refused else []


def _seen_lines(
    title: str, found: Iterable[tuple[str, int, list[str], str]], style: Style, width: int
) -> Iterator[str]:
    """What was called, how often and a bar of that; below it what is known of it, and an example."""
    rows = [(visible(name), calls, said, example) for name, calls, said, example in found]
    shown = rows[:ROWS_MAX]
    largest = max((calls for _, calls, _, _ in shown), default=0)
    number = len(str(largest))
    label = min(max((len(name) for name, _, _, _ in shown), default=0), width * 2 // 5)

    def lines(row: tuple[str, int, list[str], str]) -> Iterator[str]:
        name, calls, said, example = row
        yield f"  {padded(name, label)} {calls:>{number}} {bar(calls, largest, width - label - number - 4)}"
        yield from map(style.dim, packed_lines(said, width, 4))
        if example:
            yield style.dim(f"    {fitted(visible(example), width - 4)}")

    yield from listed(title, rows, lines, "guard report", style)


def _suggestion_lines(report: WatchReport, style: Style, width: int) -> Iterator[str]:
    def lines(one: Suggestion) -> Iterator[str]:
        yield f"  {fitted(f'{_what(one)}: lets through {one.lets_through} of {one.of} calls', width - 2)}"
        yield from map(style.dim, _wrapped(visible(one.why), width, 4))

    yield from listed("Suggested rules, for a person to judge", report.suggestions, lines, "guard report", style)
    if report.suggestions:
        copied = "For ordain.toml, then `ordain trust` (where a table is there already, put the lines into it):"
        yield from _wrapped(copied, width, 2)
        yield from (f"    {visible(line)}" if line else "" for line in report.toml.splitlines())


def _what(one: Suggestion) -> str:
    name = visible(one.program or one.tool)
    if one.entry == SHELL_READS:
        return "Open commands that only read (shell:reads)"
    if one.kind == "path":
        return f"Open {visible(one.entry)} ({name})"
    return {"open": f"Open {name}", "rule": f"Open some calls of {name}", "effects": f"Say that {name} reads"}[one.kind]


def _wrapped(text: str, width: int, indent: int) -> Iterator[str]:
    yield from (" " * indent + line for line in wrap(text, width - indent))
