"""Topics, notes for agents, and signals, which say from outside that something has happened. Anybody may: they permit
nothing. A note is redacted before it is recorded, and what is taken out is kept nowhere."""

from __future__ import annotations

import json
from typing import Any

from ordain.app.refusals import Refusals
from ordain.app.renamed import warn_renamed
from ordain.core.approval.approval import Principal
from ordain.core.plan.name import name_fault
from ordain.core.run.event import SignalGiven, TopicPosted
from ordain.core.run.step_event import StepState
from ordain.core.run.topic import (
    MESSAGE_BYTES_MAX,
    PER_HOUR,
    TOPICS_MAX,
    Message,
    TopicLine,
    flooded,
    messages,
    stream_of_topic,
    topic_named,
)
from ordain.core.run.wait import SignalAwaited, SignalReport, signal_of, signals_of, stream_of_signal
from ordain.core.text.limit import OUTPUT_BYTES_MAX, short_title
from ordain.core.text.problem import closest, refuse
from ordain.ports.ledger import Append
from ordain.records.conflict import retried
from ordain.records.surroundings import Surroundings

# --- Topics ----------------------------------------------------------------------------------------------------------


class Topics:
    """The topics of one workspace."""

    def __init__(self, here: Surroundings, *, topics_max: int = TOPICS_MAX) -> None:
        self._here, self._topics_max = here, topics_max

    def __call__(self) -> tuple[TopicLine, ...]:
        warn_renamed("topics", "topics.all")
        return self.all()

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
        """Leave a message for the agents that read a topic. Anybody may: it permits nothing."""
        async with Refusals(self._here).recording("post", name, by):
            _refuse_name(name)
            _refuse_text(text)
            here, stream = self._here, stream_of_topic(name)
            await here.identity()
            event = TopicPosted(topic=name, by=by, text=here.sink().text(text))

            async def posted() -> TopicLine:
                size, now = here.ledger.size(stream), here.now()
                if not size and len(here.ledger.streams(stream_of_topic(""))) >= self._topics_max:
                    detail = f"There are {self._topics_max:,} topics already, and no more are taken."
                    raise refuse("E_TOPIC_FLOOD", detail, "Post to one of them.", command="ordain topic")
                if flooded(here.records.topic(name, PER_HOUR), now):
                    detail = f"{PER_HOUR} messages were posted to `{name}` within the last hour, and no more are taken."
                    raise refuse("E_TOPIC_FLOOD", detail, "Put what is much into a file of the workspace, and name it.")
                (recorded,) = await here.ledger.append(now, Append(stream=stream, expected=size, events=(event,)))
                return TopicLine(topic=name, count=size + 1, newest=messages((recorded,))[0])

            return await retried(posted)


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


# --- Signalling ------------------------------------------------------------------------------------------------------
# What a signal says is redacted for showing, and kept exactly beside the chain.


class Signals:
    """The signals of one workspace."""

    def __init__(self, here: Surroundings) -> None:
        self._here = here

    async def give(self, key: str, by: Principal, value: Any = None) -> SignalReport:
        """Say that something has happened that runs wait for. Anybody may: it permits nothing."""
        async with Refusals(self._here).recording("signal", key, by):
            fault = name_fault("signal", key)
            if fault is not None:
                raise refuse(*fault)
            is_text = isinstance(value, str)
            try:
                data = b"" if value is None else (value if is_text else json.dumps(value, ensure_ascii=False)).encode()
            except UnicodeEncodeError as error:
                raise refuse("E_SIGNAL_VALUE", "The value holds what is not UTF-8.") from error
            if len(data) > OUTPUT_BYTES_MAX:
                detail = f"The value has {len(data):,} bytes, and {OUTPUT_BYTES_MAX:,} are allowed."
                raise refuse("E_SIGNAL_VALUE", detail, "Put it into a file of the workspace, and give its name.")
            here = self._here
            await here.identity()
            seen = here.sink().output(data)
            event = SignalGiven(
                key=key, by=by, shown=seen.tail, value_bytes=seen.size, value_seal=seen.seal, value_json=not is_text
            )
            stream, keeps = stream_of_signal(key), (data,) if data else ()

            async def recorded() -> int:
                size = here.ledger.size(stream)
                await here.ledger.append(here.now(), Append(stream=stream, expected=size, events=(event,), keeps=keeps))
                return size + 1

            count = await retried(recorded)
            heard = tuple(
                plan.state.open_run
                for plan in here.ledger.plans(open_only=True)
                if plan.state.open_run is not None and key in signals_of(here.records.run(plan.state.open_run)[0].plan)
            )
            awaited = tuple(one for one in self.awaited() if one.signal == key)
            return SignalReport(key=key, count=count, heard_by=heard, awaited_by=awaited)

    def awaited(self) -> tuple[SignalAwaited, ...]:
        """The steps of open runs that wait for a signal."""
        if not self._here.has_ledger():
            return ()
        found = []
        for plan in self._here.ledger.plans(open_only=True):
            if plan.state.open_run is None:
                continue
            state = self._here.records.run(plan.state.open_run)[0]
            executing = self._here.ports.lock.holder(state.run_id) is not None
            for step_id in state.waiting:
                key = signal_of(state.step(step_id))
                record = state.steps[step_id]
                if key is not None and record.state is StepState.WAITING and not record.gathers:
                    found.append(
                        SignalAwaited(
                            signal=key,
                            run_id=state.run_id,
                            step=step_id,
                            title=short_title(state.plan.title),
                            until=record.waits_until,
                            executing=executing,
                        )
                    )
        return tuple(found)
