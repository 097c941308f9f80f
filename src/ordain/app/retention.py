"""Removing what runs kept beside their events, as `[retention]` says, and saying later that it was removed.

The event that tells of it and the removal are one transaction. It is refused where a plan of the runs, or what any
event names, changed since it was looked who needs what.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence, Set
from contextlib import suppress
from typing import NamedTuple

from ordain.core.approval.approval import Principal
from ordain.core.ledger import chain
from ordain.core.lineage.retention import (
    NEED_NOTHING,
    RETENTION_STREAM,
    KeptRun,
    Removal,
    needed_runs,
    outputs_to_remove,
)
from ordain.core.plan.canonical import plan_id, short_id
from ordain.core.plan.model import Plan
from ordain.core.plan.value import Instant, RunId, StepId
from ordain.core.run.attempt import seals_in
from ordain.core.run.event import OutputsRemoved, RunEnded
from ordain.core.run.result import outputs_used
from ordain.core.run.run_state import RunState
from ordain.core.text.limit import DAY_MS
from ordain.core.text.problem import Problem, Refused, refuse
from ordain.ports.ledger import Append, Ledger
from ordain.records.records import WORKSPACE_STREAM
from ordain.records.removal import day_of, removed_seals
from ordain.records.surroundings import Surroundings

ANNOUNCED = ("W_OUTPUTS_REMOVED", "W_PLANS_ARCHIVED")
"""Notices about other plans: every door passes them on, and they are no risk of the plan that is prepared."""
REMOVED_AT_ONCE = 1_000
"""How many runs lose their outputs at a time; the next day takes the rest."""


class _Named(NamedTuple):
    """What the ledger names, after so many events."""

    ended: tuple[KeptRun, ...]
    elsewhere: frozenset[str]
    size: int


class Retention:
    """What is kept in the ledger of one workspace, and for how long."""

    def __init__(self, here: Surroundings) -> None:
        self._here = here

    def due(self) -> Instant | None:
        """When something was last recorded about plans or the workspace, if nothing was prepared today and settings
        remove outputs. Ages are counted to then, so that a clock that jumps ahead makes nothing old at once."""
        here, now = self._here, self._here.now()
        if not here.snapshot.settings.removes_outputs:
            return None
        plans = [one.state for one in here.ledger.plans()]
        if any(one.prepared_at // DAY_MS == now // DAY_MS for one in plans):
            return None
        changes = [one.changed_at for one in plans] + [one.at for one in here.ledger.read(WORKSPACE_STREAM)[-1:]]
        return min(now, max(changes, default=now))

    async def remove(self, by: Principal, as_of: Instant) -> tuple[Problem, ...]:
        """Remove what is too old or too much, and say what it was. What cannot be removed now stays for another day."""
        removed: list[Removal] = []
        with suppress(Refused):
            await self._remove(by, as_of, removed)
        if not removed:
            return ()
        runs = ", ".join(str(one.run.run_id) for one in removed[:3])
        more = f" and {len(removed) - 3:,} more" if len(removed) > 3 else ""
        size = sum(one.size for one in removed)
        self._here.notify("outputs_removed", title=f"{runs}{more}", command="ordain log")
        detail = f"Removed, because of `[retention]`: what {runs}{more} had kept beside their events ({size:,} bytes)."
        hint = "Their events, with sizes and digests of all of it, stay in the ledger."
        return (Problem(code="W_OUTPUTS_REMOVED", detail=detail, hints=(hint,), command="ordain log"),)

    async def _remove(self, by: Principal, as_of: Instant, removed: list[Removal]) -> None:
        here, ledger, snapshot = self._here, self._here.ledger, self._here.snapshot
        settings, now = snapshot.settings, here.now()
        here.refuse_stopped()  # whoever stopped everything wants to look at all of it
        sizes, plans = ledger.kept_sizes(), ledger.plans()
        seen = _looked_through(ledger, sizes.keys())
        needed = frozenset(run_id for plan in plans for run_id in needed_runs(plan.state))
        stands = {plan.stream: plan.state.size for plan in plans}
        holders: dict[str, set[str]] = {}
        for run in seen.ended:
            for seal in run.seals:
                holders.setdefault(seal, set()).add(run.lineage)
        for one in outputs_to_remove(seen.ended, needed, seen.elsewhere, sizes, settings, as_of)[:REMOVED_AT_ONCE]:
            lineages = sorted(set().union(*(holders[seal] for seal in one.seals)))
            event = OutputsRemoved(run_id=one.run.run_id, seals=one.seals, size=one.size, by=by)
            removal = Append(
                stream=RETENTION_STREAM,
                expected=ledger.size(RETENTION_STREAM),
                events=(event,),
                drops=one.seals,
                seen=seen.size,
            )
            unchanged = (Append(stream=name, expected=stands[name], events=()) for name in lineages)
            with suppress(Refused):
                await ledger.append(now, here.unchanged(snapshot), *unchanged, removal)
                removed.append(one)


def _looked_through(ledger: Ledger, kept: Set[str]) -> _Named:
    """What each run that ended names of what is kept, and what is named elsewhere."""
    named: dict[str, set[str]] = {}
    ends: dict[str, tuple[RunEnded, str, Instant]] = {}
    size = 0
    for position, stream, _, body, head in ledger.everything():
        size = position
        if stream in NEED_NOTHING:
            continue
        named.setdefault(stream, set()).update(seals_in(body) & kept)
        if stream.startswith("lineage/") and b'"run_ended"' in body:
            recorded = chain.decode(body, head)
            if isinstance(recorded.event, RunEnded):
                ends[f"run/{recorded.event.run_id}"] = recorded.event, stream, recorded.at
    ended = [
        KeptRun(event.run_id, lineage, at, frozenset(named.pop(stream, ())))
        for stream, (event, lineage, at) in ends.items()
    ]
    return _Named(tuple(ended), frozenset[str]().union(*named.values()), size)


def why_gone(ledger: Ledger, seal: str) -> str | None:
    """When and why what was kept under a seal was removed, in words; None where it was not."""
    words = removed_seals(ledger).get(seal) if seal else None
    return f"was {words} (digest {seal})" if words is not None else None


def removed_outputs(ledger: Ledger, run: RunState) -> dict[StepId, str]:
    """The steps of a run whose outputs were removed, and when, in words."""
    removed = removed_seals(ledger)
    kept = ledger.kept_sizes() if removed else {}
    outputs = {name: one.outcome.output_seal for name, one in run.steps.items() if one.outcome is not None}
    return {name: removed[seal] for name, seal in outputs.items() if seal in removed and seal not in kept}


def refuse_removed(
    ledger: Ledger,
    former: RunState,
    plan: Plan,
    again_from: StepId | None,
    kept: Callable[[StepId | None], Sequence[StepId]],
    going_on: str,
) -> None:
    """Raise Refused where a step that is run again needs what a step that is not run again wrote, and that was removed.
    `kept` gives the steps that are not run again from some step on, `going_on` is the command without `--from`."""
    removed = removed_outputs(ledger, former)
    if not removed:
        return
    uses = [(step.id, StepId(name)) for step in plan.steps for name in outputs_used(step, plan) if name in removed]

    def lacks(first: StepId | None) -> list[tuple[StepId, StepId]]:
        keeps = set(kept(first))
        return [(user, name) for user, name in uses if name in keeps and user not in keeps]

    found = lacks(again_from)
    if not found:
        return
    names = dict.fromkeys([*(name for _, name in found), *(step.id for step in reversed(plan.steps))])
    first = next((one for one in names if not lacks(one) and again_from not in kept(one)), None)
    user, name = found[0]
    detail = f"`{user}` needs what `{name}` wrote in {former.run_id}, which was {removed[name]}."
    if first is None:
        short = short_id(plan_id(plan))
        hint = f"No one step produces all of it again. Approve the plan, and run all of it: ordain commit {short}"
        raise refuse("E_OUTPUT_NOT_KEPT", detail, hint, command=f"ordain approve {short}")
    hint = f"Run `{first}` and all that depends on it again:"
    raise refuse("E_OUTPUT_NOT_KEPT", detail, hint, command=f"{going_on} --from {first}")


def removal_notices(ledger: Ledger, run_id: RunId) -> tuple[Problem, ...]:
    """That what a run kept was removed, for whoever looks at the run."""
    events = [(one.event, one.at) for one in ledger.read(RETENTION_STREAM)]
    found = [(event, at) for event, at in events if isinstance(event, OutputsRemoved) and event.run_id == run_id]
    if not found:
        return ()
    count, size = sum(len(event.seals) for event, _ in found), sum(event.size for event, _ in found)
    detail = (
        f"What {run_id} had kept beside its events ({count:,} in all, {size:,} bytes) was removed by retention on "
        f"{day_of(found[-1][1])}; its events hold the digests and the last characters of each."
    )
    return (Problem(code="W_OUTPUTS_REMOVED", detail=detail),)
