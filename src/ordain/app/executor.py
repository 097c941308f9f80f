"""Carrying out a run in this process: the engine, with what the app says while it goes on. Imported by a run only."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress

from msgspec.structs import replace

from ordain.app.answers import QuestionNotifier
from ordain.app.authority import RunAuthority, taken_over
from ordain.app.gate import Gate
from ordain.app.succession import bound_files, former_steps
from ordain.core.lineage.lineage import Permission
from ordain.core.plan.value import RunId
from ordain.core.policy.sealing import SealedEnvironment
from ordain.core.run.event import RunCancelled
from ordain.core.run.run_state import RunState
from ordain.core.text.problem import Problem, Refused
from ordain.engine.context import OpenedRun, RunContext, open_context
from ordain.engine.follow import RunFollower, StepLog
from ordain.engine.journal import Journal
from ordain.engine.loop import Engine
from ordain.engine.shield import Shield
from ordain.ports.ledger import Observer
from ordain.records.conflict import is_conflict
from ordain.records.surroundings import Surroundings

BEAT_S = 10.0
"""How often an executor gives a sign of life."""


class Executor:
    """Who carries out one run. It must have claimed it."""

    def __init__(self, here: Surroundings, run: RunContext, observers: Sequence[Observer]) -> None:
        self._here, self._run_id = here, run.state.run_id
        self._follower = RunFollower(run, observers)
        told = (self._follower.log.observe, *observers, QuestionNotifier(here, run.state).observe)
        self._engine = Engine(run, told)
        self.stop, self._fail = self._engine.stop, run.journal.fail

    async def carry_out(self) -> None:
        """Work until the run has ended, waits for a person, or was told to stop."""
        beating = asyncio.create_task(self._give_signs_of_life())
        looking = asyncio.create_task(self._follower.follow(self._heed_stop))
        try:
            await self._engine.carry_out(self._here.ports.pid, self._here.ports.boot_id)
        except Refused as refused:
            if is_conflict(refused):
                raise taken_over(self._run_id) from refused
            stopped = Problem(
                code="F_RUN_STOPPED",
                detail=f"{self._run_id} stopped because of that; what was under way is looked at when it is resumed.",
                command=f"ordain resume {self._run_id}",
            )
            raise Refused([*refused.problems, stopped]) from refused
        finally:
            beating.cancel()
            looking.cancel()
            self._follower.close()

    async def _give_signs_of_life(self) -> None:
        while True:
            await asyncio.sleep(BEAT_S)
            self._here.ports.lock.beat()

    def _heed_stop(self) -> None:
        try:
            self._here.refuse_stopped()
        except Refused as stopped:  # by somebody who cannot kill us
            self._fail(stopped)


def open_run(
    here: Surroundings,
    gate: Gate,
    state: RunState,
    head: str,
    heard: int,
    permission: Permission | None,
    *,
    sealed: SealedEnvironment | None,
    judged_at: int | None,
) -> RunContext:
    """What a run is carried out with, as it was started and as things stand now. `permission` is what it began on,
    `judged_at` how long the workspace's stream was when policy was asked about the whole plan; None where an earlier
    executor did that."""
    held, records = here.held(), here.records
    before = state.rerun_of or state.continues
    former = records.run(before)[0] if before is not None else None
    approval = permission.approval if permission is not None else None
    ports = replace(here.ports, shell=here.shell_for(state.limits_in_force))
    if sealed is not None:
        given = here.restored(sealed)
        shell, agents = ports.shell.sealed(given), ports.agents.sealed(given)
        ports = replace(ports, shell=shell, agents=agents, sources=ports.sources.sealed(given))
    authority = RunAuthority(
        here,
        held.snapshot.settings,
        state.limits_in_force.handlers,
        approved=permission is not None,
        judged_at=judged_at,
        counts=lambda decision: gate.counts(state, decision),
    )
    opened = OpenedRun(
        state=state,
        head=head,
        heard=heard,
        approval=approval,
        bound=bound_files(here, state, approval),
        former=former_steps(former) if former is not None else {},
    )
    sink = held.sink(state, former) if former is not None else held.sink(state)
    return open_context(ports, opened, snapshot=held.snapshot, sink=sink, authority=authority)


async def end_run(here: Surroundings, run_id: RunId, event: RunCancelled) -> RunState:
    """End a run that nobody carries out, and what its executor left running; put back protected files if possible."""
    state, _, head = here.records.run(run_id)
    here.ports.shell.sweep(f"{state.workspace_identity.id}/{run_id}/", again=True)
    journal = Journal(state, head, ledger=here.ledger, clock=here.ports.clock)
    with suppress(Refused):  # the run ends all the same; what was found changed is recorded
        await Shield(journal, here.ports.protection).take_over()
    journal.tick()
    await journal.write(event)
    with suppress(Exception):  # it is only for readers
        StepLog(run_id, here.ledger, here.ports.logs).write()
    return state
