"""Signals and topics, as people and robots are told of them."""

from __future__ import annotations

import msgspec

from ordain.core.plan.value import Instant, RunId, StepId
from ordain.core.run.topic import Message


class SignalAwaited(msgspec.Struct, frozen=True, kw_only=True):
    """A step that waits for a signal."""

    signal: str
    run_id: RunId
    step: StepId
    title: str
    until: Instant | None
    executing: bool
    """Whether somebody carries out its run, who goes on when the signal is given."""


class SignalReport(msgspec.Struct, frozen=True, kw_only=True):
    """A signal that was given, for the how many-th time, and what of it."""

    key: str
    count: int
    heard_by: tuple[RunId, ...]
    """The open runs in which it counts, now or when a step of theirs comes to it."""
    awaited_by: tuple[SignalAwaited, ...]
    """The steps that waited for it."""


class TopicLine(msgspec.Struct, frozen=True, kw_only=True):
    """A topic: how many messages were posted to it, and the newest of them."""

    topic: str
    count: int
    newest: Message
