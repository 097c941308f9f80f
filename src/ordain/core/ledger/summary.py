"""One line about a plan, kept beside the chain so that lists are quick: a projection, which decides nothing."""

from __future__ import annotations

from functools import cache
from typing import get_args

import msgspec

from ordain.core.lineage.lineage import PlanState, apply_lineage
from ordain.core.run.event import LineageEvent, Recorded
from ordain.core.run.run_state import IllegalTransition


class PlanSummary(msgspec.Struct, frozen=True, kw_only=True):
    """A lineage as it stood after its newest event."""

    stream: str
    state: PlanState

    @property
    def open(self) -> bool:
        return self.state.open

    @property
    def document(self) -> str | None:
        return self.state.document


_LINEAGE = frozenset(get_args(LineageEvent))
"""Asked of every event that is recorded, so it must be quick."""
_state_encoder = msgspec.json.Encoder()
_state_decoder = cache(lambda: msgspec.json.Decoder(PlanState))


def summarise(before: PlanSummary | None, recorded: Recorded) -> PlanSummary | None:
    """The summary after one more event of a lineage; what cannot have happened is passed over."""
    if type(recorded.event) not in _LINEAGE:
        return before
    assert isinstance(recorded.event, LineageEvent)
    state = _state_decoder().decode(_state_encoder.encode(before.state)) if before is not None else PlanState()
    try:
        return PlanSummary(stream=recorded.stream, state=apply_lineage(state, recorded.event, recorded.at))
    except (IllegalTransition, msgspec.DecodeError):
        return before
