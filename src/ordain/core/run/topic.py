"""Topics: notes under a name, left by people, programs and steps for agents to read. They permit and decide nothing."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from ordain.core.approval.approval import Principal
from ordain.core.plan.value import Instant
from ordain.core.run.event import Recorded, TopicPosted
from ordain.core.run.run_state import IllegalTransition
from ordain.core.text.limit import HOUR_MS

MESSAGE_BYTES_MAX = 64 << 10
"""How long one message may be."""
PER_HOUR = 120
"""How many are taken in one topic within an hour, whoever posts them."""
TOPICS_MAX = 1_000
"""How many topics one workspace may have: else whoever is kept from one would go on in the next."""

_PREFIX = "topic/"


class Message(msgspec.Struct, frozen=True, kw_only=True):
    """What somebody posted, and its place among all that was posted to that topic."""

    number: int
    at: Instant
    by: Principal
    text: str


class TopicLine(msgspec.Struct, frozen=True, kw_only=True):
    """A topic: how many messages were posted to it, and the newest of them."""

    topic: str
    count: int
    newest: Message


def stream_of_topic(name: str) -> str:
    return _PREFIX + name


def topic_named(stream: str) -> str:
    return stream.removeprefix(_PREFIX)


def apply_topic(name: str, event: TopicPosted) -> None:
    """Raise IllegalTransition for what cannot stand in the stream of a topic."""
    if event.topic != name:
        raise IllegalTransition(f"a message to {event.topic} in the stream of {name}")


def messages(recorded: Iterable[Recorded]) -> tuple[Message, ...]:
    return tuple(
        Message(number=one.seq, at=one.at, by=one.event.by, text=one.event.text)
        for one in recorded
        if isinstance(one.event, TopicPosted)
    )


def flooded(newest: Sequence[Recorded], now: Instant) -> bool:
    """Whether as much was posted to a topic within the last hour as is taken, by the newest messages of it."""
    return sum(one.at > now - HOUR_MS for one in newest) >= PER_HOUR
