"""What was seen of guarded calls, as people read it: few numbers and small bars, each of which is in the JSON too.

Nothing depends on colour, and everything fits into the width that is given, from 60 columns on, but for the lines that
are there to be copied.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from textwrap import wrap

from ordain.core.guard.call import Mode
from ordain.core.guard.command_report import ProgramSeen
from ordain.core.guard.report import AgentSeen, ToolSeen, WatchReport
from ordain.core.guard.suggestion import Suggestion, Unsuggested
from ordain.core.policy.fact import SHELL_READS
from ordain.interfaces.view.run import instant
from ordain.interfaces.view.style import Style
from ordain.interfaces.view.text import bar, fitted, packed, padded, visible

ROWS_MAX = 8
"""How many rows a list has; the rest is counted, and is in the JSON."""
WIDTH_MIN = 60


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
        yield "  ordain mcp --gateway               stands before the MCP servers of any agent"
        return
    yield style.bold(f"Guarded calls outside of plans since {instant(report.since)}: {report.calls}")
    counts = [
        f"{report.refused} refused",
        f"{report.would_be} let through that would be refused if rules were enforced",
    ]
    counts += [f"{report.open_now} open by the rules of today"] if report.open_now else []
    counts += [f"{report.sessions} session{'s' * (report.sessions != 1)}"]
    yield from (f"  {fitted(row, width - 2)}" for row in packed(counts, width - 2))
    rules = "are enforced" if enforced else "are only watched (`[guard] mode`)"
    notes = (
        f"Rules {rules}. These are notes and no evidence, and agents are called what they call themselves. What was "
        "refused is in the ledger too: ordain log --refused"
    )
    yield from map(style.dim, _wrapped(notes, width, 2))
    yield from _incomplete(report, style)
    yield from _tool_lines(report.tools, style, width)
    yield from _program_lines(report.programs, style, width)
    yield from _agent_lines(report.agents, style, width)
    yield from _suggestion_lines(report, style, width)
    yield from _unsuggested_lines(report.unsuggested, style, width)


def _incomplete(report: WatchReport, style: Style) -> Iterator[str]:
    if report.incomplete:
        yield style.warn("  Some calls are missing here: there were too many, or no room.")


def _head(title: str, style: Style) -> Iterator[str]:
    yield ""
    yield style.bold(title)


def _tool_lines(tools: Sequence[ToolSeen], style: Style, width: int) -> Iterator[str]:
    yield from _head("By tool", style)
    shown = tools[:ROWS_MAX]
    for row, one in zip(_rows([(one.tool, one.calls) for one in shown], width), shown, strict=True):
        yield row
        kind = f"{one.effect}{', destructive' if one.destructive else ''}" if one.effect else "nobody knows this tool"
        said = [kind, _counted(len(one.agents), "agent"), _counted(one.sessions, "session")]
        said += [f"{one.refused} refused"] if one.refused else []
        said += [f"{one.open_now} open by the rules of today"] if one.open_now else []
        said += [f"in {_counted(one.plans, 'plan')}" if one.plans else "in no plan"]
        said += [f"{count} {code}" for code, count in one.codes.items() if code != "E_TOOL_GUARDED"]
        said += [f"{instant(one.first)} to {instant(one.last)}" if one.first != one.last else instant(one.first)]
        yield from (style.dim(f"    {fitted(text, width - 4)}") for text in packed(said, width - 4))
        yield from (style.dim(f"    {fitted(visible(about), width - 4)}") for about in one.examples[:1])
    yield from _more(len(tools) - len(shown), style)


def _program_lines(programs: Sequence[ProgramSeen], style: Style, width: int) -> Iterator[str]:
    if not programs:
        return
    yield from _head("Commands that need a plan, by program", style)
    shown = programs[:ROWS_MAX]
    for row, one in zip(_rows([(one.program, one.calls) for one in shown], width), shown, strict=True):
        yield row
        said = [one.risk, *([f"{one.refused} refused"] if one.refused else []), *([one.label] if one.label else [])]
        yield from (style.dim(f"    {fitted(text, width - 4)}") for text in packed(said, width - 4))
        if one.example:
            yield style.dim(f"    {fitted(visible(one.example), width - 4)}")
    yield from _more(len(programs) - len(shown), style)


def _agent_lines(agents: Sequence[AgentSeen], style: Style, width: int) -> Iterator[str]:
    yield from _head("By agent", style)
    shown = agents[:ROWS_MAX]
    for row, one in zip(_rows([(one.agent, one.calls) for one in shown], width), shown, strict=True):
        yield row
        said = [f"{visible(tool)} ×{count}" for tool, count in list(one.tools.items())[:ROWS_MAX]]
        said += [_counted(one.sessions, "session"), *([f"{one.refused} refused"] if one.refused else [])]
        yield from (style.dim(f"    {fitted(text, width - 4)}") for text in packed(said, width - 4))
    yield from _more(len(agents) - len(shown), style)


def _suggestion_lines(report: WatchReport, style: Style, width: int) -> Iterator[str]:
    if not report.suggestions:
        return
    yield from _head("Suggested rules, for a person to judge", style)
    for one in report.suggestions[:ROWS_MAX]:
        yield f"  {fitted(f'{_what(one)}: lets through {one.lets_through} of {one.of} calls', width - 2)}"
        yield from map(style.dim, _wrapped(visible(one.why), width, 4))
    yield from _more(len(report.suggestions) - ROWS_MAX, style)
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


def _unsuggested_lines(tools: Sequence[Unsuggested], style: Style, width: int) -> Iterator[str]:
    if not tools:
        return
    yield from _head("Nothing is suggested of", style)
    for one in tools[:ROWS_MAX]:
        yield "  " + fitted(f"{visible(one.tool)}: {_counted(one.calls, 'call')}", width - 2)
        yield from map(style.dim, _wrapped(visible(one.why), width, 4))
    yield from _more(len(tools) - ROWS_MAX, style)


def _rows(rows: Sequence[tuple[str, int]], width: int) -> Iterator[str]:
    largest = max((count for _, count in rows), default=0)
    number = len(str(largest))
    label = min(max((len(visible(name)) for name, _ in rows), default=0), width * 2 // 5)
    for name, count in rows:
        made = bar(count, largest, width - label - number - 4)
        yield f"  {padded(visible(name), label)} {count:>{number}} {made}"


def _wrapped(text: str, width: int, indent: int) -> Iterator[str]:
    yield from (" " * indent + line for line in wrap(text, width - indent))


def _counted(count: int, word: str) -> str:
    return f"{count} {word}{'s' * (count != 1)}"


def _more(left: int, style: Style) -> Iterator[str]:
    if left > 0:
        yield style.dim(f"  … and {left} more: ordain guard report --json")
