"""Facts about commands, which `core.policy.command_facts` finds, and for which lists and rules ask."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Any, NamedTuple

import msgspec

SHELL_READS = "shell:reads"
"""The entry of a list that means commands which only read, by a strict reading."""


class CommandFact(StrEnum):
    """What a command does, as far as it can be told."""

    READS = "reads"
    WRITES = "writes"
    DELETES = "deletes"
    NETWORK = "network"
    PUBLISHES = "publishes"
    """Sends something out, or makes it visible to others."""
    REMOTE = "remote"
    """Changes something on another machine, in a cluster, a cloud or a database server."""
    PERMISSIONS = "permissions"
    PRIVILEGED = "privileged"
    RUNS_DOWNLOADED = "runs_downloaded"
    RUNS_WORKSPACE = "runs_workspace"
    CREDENTIALS = "credentials"
    OUTSIDE = "outside"
    DISRUPTS = "disrupts"
    """Ends processes, stops services, changes the machine."""
    HIDDEN = "hidden"
    """Runs something that the line does not say: `$CMD`, `base64 -d x | sh`."""
    FORCE = "force"
    IRREVERSIBLE = "irreversible"
    UNKNOWN = "unknown"


ALARMS = frozenset(CommandFact) - set(map(CommandFact, ("reads", "writes", "network", "runs_workspace", "unknown")))
"""The facts that raise the risk of a command."""


class FactNote(NamedTuple):
    """A fact, and what it is about: a path, a host, an option."""

    fact: CommandFact
    about: str = ""


class Risk(StrEnum):
    RAISED = "raised"
    ORDINARY = "ordinary"
    READS = "reads"


class CommandFacts(msgspec.Struct, frozen=True, kw_only=True):
    """What one command does."""

    program: str
    """Empty where it is only known when it runs."""
    subcommand: str = ""
    arguments: tuple[str, ...] = ()
    """What follows the subcommand, options included, as far as it is written out."""
    said: tuple[str, ...] = ()
    """Every word of it but the program's name, and the words of what starts it."""
    findings: tuple[FactNote, ...] = ()
    strict: bool = False
    """Whether every word is known and means what the table says."""
    through: tuple[str, ...] = ()
    """What starts it: `sudo`, `timeout`."""
    runner: bool = False
    """Whether one of these finds the program in the project (`uv run`): a rule must name `through` to open it."""
    listed: bool = True
    """Whether the table lists every option, so that none is only taken for harmless."""
    inner: tuple[CommandFacts, ...] = ()
    """The commands of what it hands to a shell, or starts by an option; their facts are its own as well."""

    @property
    def facts(self) -> frozenset[CommandFact]:
        return frozenset(one.fact for one in self.findings)

    @property
    def alarms(self) -> frozenset[CommandFact]:
        return self.facts & ALARMS

    @property
    def only_reads(self) -> bool:
        return self.strict and self.listed and not self.runner and self.facts == {CommandFact.READS}

    def keys(self) -> Mapping[str, Any]:
        """What rules can ask for: the program, the subcommand, its arguments, and each fact with what it is about."""
        found: dict[str, Any] = {"program": self.program, "subcommand": self.subcommand}
        if self.arguments:
            found["arguments"] = list(self.arguments)
        if self.through:
            found["through"] = list(self.through)
        for one in self.findings:
            about = found.setdefault(one.fact.value, [])
            if one.about:
                about.append(one.about)
        return {name: True if said == [] else said for name, said in found.items()}


class LineFacts(msgspec.Struct, frozen=True, kw_only=True):
    """What a command line does."""

    commands: tuple[CommandFacts, ...] = ()
    strict: tuple[CommandFacts, ...] | None = None
    """The commands by a strict reading; None where it is not to be had."""

    @property
    def findings(self) -> tuple[FactNote, ...]:
        return tuple(dict.fromkeys(one for command in self.commands for one in command.findings))

    @property
    def risk(self) -> Risk:
        if any(command.alarms for command in self.commands):
            return Risk.RAISED
        if self.strict and all(command.only_reads for command in self.strict):
            return Risk.READS
        return Risk.ORDINARY


class CheckedCommand(msgspec.Struct, frozen=True, kw_only=True):
    """What is understood of a command, and what the guard says of it."""

    command: str
    risk: Risk
    facts: Mapping[str, tuple[str, ...]]
    rule: str
    """Why the verdict is what it is, as the end of a sentence that begins with the call."""
    verdict: str


class CheckedCommands(msgspec.Struct, frozen=True, kw_only=True):
    commands: tuple[CheckedCommand, ...]


def facts_of(line: LineFacts) -> dict[str, tuple[str, ...]]:
    found: dict[str, dict[str, None]] = {}
    for one in line.findings:
        found.setdefault(one.fact.value, {}).update({one.about: None} if one.about else {})
    return {fact: tuple(about) for fact, about in found.items()}


def facts_in_words(line: LineFacts | None) -> str:
    """What a line does, in a few words."""
    found = facts_of(line) if line is not None else {}
    return "; ".join(f"{fact} {', '.join(about)}".rstrip() for fact, about in found.items()) or "nothing"
