"""Signals: saying from outside that something has happened which runs wait for.

Anybody may, robots too: a signal permits nothing that was not approved. What it says is redacted for showing, and kept
exactly beside the chain.
"""

from __future__ import annotations

import json
from typing import Any

from ordain.core.approval import Principal
from ordain.core.bound import OUTPUT_BYTES_MAX
from ordain.core.event import SignalGiven, StepState
from ordain.core.name import name_fault
from ordain.core.problem import Refused, refuse
from ordain.core.report import SignalAwaited, SignalReport
from ordain.core.signal import signal_of, signals_of, stream_of_signal
from ordain.ports import Append
from ordain.surroundings import Surroundings

__all__ = ["Signalling"]


class Signalling:
    """The signals of one workspace."""

    def __init__(self, here: Surroundings) -> None:
        self._here = here

    async def give(self, key: str, by: Principal, value: Any = None) -> SignalReport:
        """Record that a signal was given, with a value where there is one: a text, or anything that JSON can say."""
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
            key=key,
            by=by,
            shown=seen.tail,
            value_bytes=seen.size,
            value_seal=seen.seal,
            value_json=not is_text,
        )
        stream, keeps = stream_of_signal(key), (data,) if data else ()
        while True:
            size = here.ledger.size(stream)
            try:
                await here.ledger.append(here.now(), Append(stream=stream, expected=size, events=(event,), keeps=keeps))
                break
            except Refused as refused:
                if refused.problems[0].code != "E_LEDGER_CONFLICT":  # another one was given just now
                    raise
        heard = tuple(
            plan.state.open_run
            for plan in here.ledger.plans(open_only=True)
            if plan.state.open_run is not None and key in signals_of(here.records.run(plan.state.open_run)[0].plan)
        )
        awaited = tuple(one for one in self.awaited() if one.signal == key)
        return SignalReport(key=key, count=size + 1, heard_by=heard, awaited_by=awaited)

    def awaited(self) -> tuple[SignalAwaited, ...]:
        """The steps of open runs that wait for a signal."""
        if not self._here.has_ledger():
            return ()
        found = []
        for plan in self._here.ledger.plans(open_only=True):
            if plan.state.open_run is None:
                continue
            state = self._here.records.run(plan.state.open_run)[0]
            executing = self._here.lock.holder(state.run_id) is not None
            for step_id in state.waiting:
                key = signal_of(state.step(step_id))
                record = state.steps[step_id]
                if key is not None and record.state is StepState.WAITING and not record.gathers:
                    found.append(
                        SignalAwaited(
                            signal=key,
                            run_id=state.run_id,
                            step=step_id,
                            title=state.plan.title,
                            until=record.waits_until,
                            executing=executing,
                        )
                    )
        return tuple(found)
