"""Topics: leaving notes for the agents that read them, and reading them.

Anybody may, robots and steps too: a note permits nothing. It is redacted before it is recorded, and what is taken out
is kept nowhere: whoever reads a topic is an agent, or somebody whom an agent could ask.
"""

from __future__ import annotations

from ordain.core.approval import Principal
from ordain.core.event import TopicPosted
from ordain.core.name import name_fault
from ordain.core.problem import Refused, closest, refuse
from ordain.core.report import TopicLine
from ordain.core.topic import (
    MESSAGE_BYTES_MAX,
    PER_HOUR,
    TOPICS_MAX,
    Message,
    flooded,
    messages,
    stream_of_topic,
    topic_named,
)
from ordain.ports import Append
from ordain.surroundings import Surroundings

__all__ = ["Topics"]


class Topics:
    """The topics of one workspace."""

    def __init__(self, here: Surroundings) -> None:
        self._here = here

    def all(self) -> tuple[TopicLine, ...]:
        """Every topic, oldest first, with its newest message."""
        if not self._here.has_ledger():
            return ()
        records, ledger = self._here.records, self._here.ledger
        names = [topic_named(stream) for stream in ledger.streams(stream_of_topic(""))]
        return tuple(
            TopicLine(topic=name, count=ledger.size(stream_of_topic(name)), newest=messages(records.topic(name, 1))[0])
            for name in names
        )

    def read(self, name: str, newest: int) -> tuple[TopicLine, tuple[Message, ...]]:
        """A topic and its last messages, so many at most; raises Refused where nothing was posted to it."""
        _refuse_name(name)
        found = messages(self._here.records.topic(name, newest)) if self._here.has_ledger() else ()
        if not found:
            known = [one.topic for one in self.all()]
            hints = closest(name, known) or ("Somebody has to leave the first message.",)
            raise refuse("E_TOPIC", f"Nothing was posted to `{name}` yet.", *hints, command="ordain topic")
        count = self._here.ledger.size(stream_of_topic(name))
        return TopicLine(topic=name, count=count, newest=found[-1]), found

    async def post(self, name: str, text: str, by: Principal) -> TopicLine:
        """Record a message."""
        _refuse_name(name)
        _refuse_text(text)
        here, stream = self._here, stream_of_topic(name)
        await here.identity()
        event = TopicPosted(topic=name, by=by, text=here.sink().text(text))
        while True:
            size, now = here.ledger.size(stream), here.now()
            if not size and len(here.ledger.streams(stream_of_topic(""))) >= TOPICS_MAX:
                detail = f"There are {TOPICS_MAX:,} topics already, and no more are taken."
                raise refuse("E_TOPIC_FLOOD", detail, "Post to one of them.", command="ordain topic")
            if flooded(here.records.topic(name, PER_HOUR), now):
                detail = f"{PER_HOUR} messages were posted to `{name}` within the last hour, and no more are taken."
                raise refuse("E_TOPIC_FLOOD", detail, "Put what is much into a file of the workspace, and name it.")
            try:
                (recorded,) = await here.ledger.append(now, Append(stream=stream, expected=size, events=(event,)))
            except Refused as refused:
                if refused.problems[0].code != "E_LEDGER_CONFLICT":  # another one was posted just now
                    raise
            else:
                return TopicLine(topic=name, count=size + 1, newest=messages((recorded,))[0])


def _refuse_name(name: str) -> None:
    fault = name_fault("topic", name)
    if fault is not None:
        raise refuse(*fault)


def _refuse_text(text: str) -> None:
    try:
        size = len(text.encode())
    except UnicodeEncodeError as error:
        raise refuse("E_TOPIC", "The message holds what is not UTF-8.") from error
    if not text.strip():
        raise refuse("E_TOPIC", "The message is empty.")
    if size > MESSAGE_BYTES_MAX:
        detail = f"The message has more than {MESSAGE_BYTES_MAX:,} bytes."
        raise refuse("E_TOPIC", detail, "Put it into a file of the workspace, and post its name.")
