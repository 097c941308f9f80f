"""What the verbs around plans answer: init, config, topic, explain, schema, skill, robot."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from ordain.core.report.report import TopicLine
from ordain.core.run.topic import Message
from ordain.interfaces.view.problem import Page


class InitResult(msgspec.Struct, frozen=True, kw_only=True):
    written: str


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


class PageResult(msgspec.Struct, frozen=True, kw_only=True):
    """The page about a problem's code."""

    code: str
    summary: str
    meaning: str
    remedy: str


def page_result(code: str, page: Page) -> PageResult:
    return PageResult(code=code, summary=page.summary, meaning=page.meaning, remedy=page.remedy)


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
