"""What `[retention]` removed of what is kept beside the events, as the ledger says."""

from __future__ import annotations

from datetime import UTC, datetime

from ordain.core.lineage.retention import RETENTION_STREAM
from ordain.core.plan.value import Instant
from ordain.core.run.event import OutputsRemoved
from ordain.ports.ledger import Ledger


def removed_seals(ledger: Ledger) -> dict[str, str]:
    """Each seal under which something was removed, and when that was last, in words."""
    removals = [(one.event, one.at) for one in ledger.read(RETENTION_STREAM) if isinstance(one.event, OutputsRemoved)]
    return {seal: f"removed by retention on {day_of(at)}" for event, at in removals for seal in event.seals}


def day_of(at: Instant) -> str:
    return datetime.fromtimestamp(at / 1000, UTC).date().isoformat()
