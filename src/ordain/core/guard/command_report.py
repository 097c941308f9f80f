"""Commands that were seen, by program; and the narrowest rule that would have covered those of one, without alarm."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Sequence

import msgspec

from ordain.core.guard.call import RUNS_WORKSPACE
from ordain.core.guard.suggestion import OFTEN_CALLS, Made, Suggestion, inline_list, toml_text
from ordain.core.plan.tool import SHELL
from ordain.core.policy.fact import SHELL_READS, CommandFact, CommandFacts, LineFacts, Risk
from ordain.core.policy.rule import RULE, ArgumentConditions, CallRule

ARGUMENTS_MAX = 30
"""How many arguments a suggested rule names."""
_NO_ARGUMENT = "--help"
"""What a rule names where no argument was seen: one that opens nothing, for a rule without any means all."""
_UNREAD = "(not understood)"


class ProgramSeen(msgspec.Struct, frozen=True, kw_only=True):
    """A program, with its subcommand, and how it was called without a plan."""

    program: str
    calls: int
    refused: int
    risk: str
    """The highest of its calls: `raised`, `ordinary` or `reads`."""
    label: str = ""
    """What to know before it is opened."""
    example: str = ""


class _SeenLine(msgspec.Struct, frozen=True):
    """A command line that was seen, the command in it that it counts as, and how often."""

    text: str
    facts: LineFacts
    command: CommandFacts
    made: Made


def commands_seen(
    made: Sequence[Made], understand: Callable[[str], LineFacts] | None, opened: Sequence[str]
) -> tuple[tuple[ProgramSeen, ...], tuple[Suggestion, ...]]:
    """The programs of these calls, the most called first, and a rule for each that could be opened by one."""
    if understand is None:
        return (), ()
    groups: defaultdict[str, list[_SeenLine]] = defaultdict(list)
    for one in made:
        text = one.args.get("command")
        facts = understand(text) if isinstance(text, str) and one.whole else LineFacts()
        command = _counted_as(facts)
        title = f"{command.program} {command.subcommand}".strip() if command is not None else ""
        groups[title or _UNREAD].append(_SeenLine(str(text or ""), facts, command or CommandFacts(program=""), one))
    ordered = sorted(groups.items(), key=lambda found: (-_calls(found[1]), found[0]))
    programs = tuple(_program(title, lines) for title, lines in ordered)
    reading = [line for _, lines in ordered for line in lines if line.facts.risk is Risk.READS]
    rules = (_rule(title, lines, opened) for title, lines in ordered if title != _UNREAD)
    suggestions = [one for one in rules if one is not None]
    if reading and SHELL_READS not in opened:
        suggestions.insert(0, _reads(reading, sum(one.count for one in made)))
    return programs, tuple(suggestions)


def _counted_as(line: LineFacts) -> CommandFacts | None:
    """The command of a line that matters most: the first that raises an alarm, else that does more than read."""
    commands = [one for one in (line.strict or line.commands) if one.program]
    alarming = (one for one in commands if one.alarms)
    more = (one for one in commands if not one.only_reads)
    return next(alarming, None) or next(more, None) or next(iter(commands), None)


def _calls(lines: Sequence[_SeenLine]) -> int:
    return sum(line.made.count for line in lines)


def _program(title: str, lines: Sequence[_SeenLine]) -> ProgramSeen:
    risks = {line.facts.risk for line in lines} if title != _UNREAD else {Risk.ORDINARY}
    runs = any(CommandFact.RUNS_WORKSPACE in line.command.facts for line in lines)
    return ProgramSeen(
        program=title,
        calls=_calls(lines),
        refused=sum(line.made.count for line in lines if line.made.refused),
        risk=next(risk for risk in Risk if risk in risks).value,
        label=RUNS_WORKSPACE if runs else "",
        example=max(lines, key=lambda line: line.made.count).text,
    )


def _reads(lines: Sequence[_SeenLine], of: int) -> Suggestion:
    why, through = "These only read, by a strict reading; so does whatever else this opens.", _calls(lines)
    return Suggestion(kind="open", tool=SHELL.name, entry=SHELL_READS, toml="", lets_through=through, of=of, why=why)


def _rule(title: str, lines: Sequence[_SeenLine], opened: Sequence[str]) -> Suggestion | None:
    """The rule that opens the calls of a program that could be opened, with nothing but the arguments they had."""
    can = [line for line in lines if line.facts.risk is Risk.ORDINARY and line.made.by_default and _openable(line)]
    arguments = sorted({word for line in can for word in line.command.arguments}) or [_NO_ARGUMENT]
    if _calls(can) < OFTEN_CALLS or len(arguments) > ARGUMENTS_MAX:
        return None
    program, _, subcommand = title.partition(" ")
    through = tuple(sorted({word for line in can for word in line.command.through}))
    said = {"program": program, "arguments": tuple(arguments), "subcommand": subcommand, "through": through}
    where = {key: value for key, value in said.items() if value}
    conditions = ArgumentConditions(CallRule(tools=(SHELL.name,), where=where))
    covered = [
        line
        for line in can
        if all(one.only_reads or conditions.vouched_command(one) for one in line.facts.strict or ())
    ]
    if not covered:
        return None
    name = f"seen-{re.sub(r'[^A-Za-z0-9]+', '-', title).strip('-').lower()}"
    alone = [line.text for line in covered if len(line.facts.strict or ()) == 1]
    wanted = ", ".join(
        f"{key} = {toml_text(said) if isinstance(said, str) else inline_list(said)}" for key, said in where.items()
    )
    toml = f'[rules.{name}]\ntools = ["shell"]\nwhere = {{ {wanted} }}'
    toml += f"\nmatches = {inline_list([f'$ {alone[0]}'])}" if alone else ""
    runs = any(CommandFact.RUNS_WORKSPACE in line.command.facts for line in covered)
    return Suggestion(
        kind="rule",
        tool=SHELL.name,
        program=title,
        entry=f"{RULE}{name}",
        toml=toml,
        lets_through=_calls(covered),
        of=_calls(lines),
        why="It opens the program with these arguments alone, in any order."
        + (f" It {RUNS_WORKSPACE}." if runs else "")
        + ("" if SHELL_READS in opened else " Commands beside it in a line need `shell:reads`."),
    )


def _openable(line: _SeenLine) -> bool:
    words = (*line.command.arguments, *line.command.through)
    known = all(CommandFact.UNKNOWN not in one.facts for one in line.facts.strict or ())
    return line.facts.strict is not None and known and not any("*" in word for word in words)
