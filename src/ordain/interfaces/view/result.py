"""What the verbs answer whose text is a line or two, as values: commands fill them in, and schemas are made of them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import msgspec

from ordain.core.run.topic import Message, TopicLine
from ordain.ports.machine import Client


class InitResult(msgspec.Struct, frozen=True, kw_only=True):
    written: str


class CompletionResult(msgspec.Struct, frozen=True, kw_only=True):
    """What a shell reads so that it completes the words of our commands."""

    shell: str
    script: str


class SettingValue(msgspec.Struct, frozen=True, kw_only=True, rename={"source": "from"}):
    """A setting in force, and where it came from."""

    value: Any
    source: str


class ConfigResult(msgspec.Struct, frozen=True, kw_only=True):
    digest: str
    """What approvals are bound to."""
    settings: Mapping[str, SettingValue]


class TopicsResult(msgspec.Struct, frozen=True, kw_only=True):
    """Every topic of the workspace, oldest first."""

    topics: tuple[TopicLine, ...]


class TopicResult(msgspec.Struct, frozen=True, kw_only=True):
    """The newest messages of a topic, in order, and how many there are in all."""

    topic: str
    count: int
    messages: tuple[Message, ...]


class PostedResult(msgspec.Struct, frozen=True, kw_only=True):
    """A message that was left in a topic, as it was recorded, and how many there are now."""

    topic: str
    count: int
    posted: Message


class SchemaNames(msgspec.Struct, frozen=True, kw_only=True):
    """What there is a schema of."""

    schemas: tuple[str, ...]


class SkillResult(msgspec.Struct, frozen=True, kw_only=True):
    """What models that work with Ordain should know."""

    text: str
    version: str
    """Of the ordain that it is about."""
    written: str | None
    """The file that it was written to, where one was named."""


class Verb(msgspec.Struct, frozen=True, kw_only=True):
    """One verb."""

    name: str
    line: str
    """What it does."""
    usage: str
    person: bool
    """Whether only a person at a terminal can do it; a robot gets the command to hand to one."""
    schema: str
    """What `ordain schema` knows its answer as."""
    help: str | msgspec.UnsetType = msgspec.UNSET
    """Everything about it; only where one verb is asked about."""


class VerbsResult(msgspec.Struct, frozen=True, kw_only=True):
    """Every verb there is."""

    verbs: tuple[Verb, ...]


class RevokedResult(msgspec.Struct, frozen=True, kw_only=True):
    """The approvals that ended."""

    revoked: tuple[str, ...]


class ClientsResult(msgspec.Struct, frozen=True, kw_only=True):
    """The clients that have a token of the MCP server."""

    clients: tuple[Client, ...]


class HookResult(msgspec.Struct, frozen=True, kw_only=True):
    """What the hook of a host is answered."""

    decision: Literal["none", "deny"]
    """Nothing, and the host's own rules decide; or no."""
    reason: str


class SettingsFile(msgspec.Struct, frozen=True, kw_only=True):
    path: str
    text: str | None
    """What would stand in it; null where it would be deleted."""


class InstallResult(msgspec.Struct, frozen=True, kw_only=True):
    """What would be written into settings; nothing was."""

    files: tuple[SettingsFile, ...]
    notes: tuple[str, ...]
    command: str | None
    """What the host has to be told by its own command, if anything."""
