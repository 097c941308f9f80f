"""Makes a golden ledger: `python -m tests.golden.ledgers.make v2.db` writes one in the format of the present code.

A file of every format is kept for ever beside this one, with what it folds to in a JSON file of the same name. One that
is checked in is never made again: it stands for the files that people have.
"""

from __future__ import annotations

import asyncio
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

import apsw
import msgspec

from tests.build import step
from tests.scenario import KIM, Scenario, World
from tests.words import (
    Append,
    Command,
    Credential,
    Escalate,
    Finished,
    Instant,
    Ledger,
    Recorded,
    Records,
    Retry,
    SqliteLedger,
    Step,
    StepId,
)

STREAM_PREFIXES = ("workspace", "lineage/", "run/")


class CrashingFile:
    """A ledger file with a boundary before each append and one after it is durable."""

    def __init__(self, ledger: SqliteLedger, world: World) -> None:
        self._ledger, self._world = ledger, world

    async def append(self, at: Instant, *appends: Append) -> tuple[Recorded, ...]:
        self._world.boundary()
        recorded = await self._ledger.append(at, *appends)
        self._world.boundary()
        return recorded

    def __getattr__(self, name: str) -> Any:
        return getattr(self._ledger, name)


def live(ledger: SqliteLedger) -> None:
    """Six plans: one with everything that can go wrong, one that went well, one that waits, one only prepared,
    one that was signed, one that nobody wanted."""
    troubled = _scenario(
        ledger,
        step("flaky", on_failure=Retry(max_attempts=2, then=Escalate())),
        step("draft", tool="write_file", args={"path": "a.txt", "content": "für alle\n"}),
        step(
            "edit",
            tool="edit_file",
            args={"path": "a.txt", "old": "alle", "new": "dich"},
            contract="grep -q dich a.txt",
        ),
        step("send", run="do send"),
        step("check", contract="check check"),
        title="Trouble",
    )

    async def edited(command: Command) -> Finished:
        return Finished(duration_ms=2, exit_code=0 if "dich" in troubled.toolbox.files.get("a.txt", "") else 1)

    troubled.script(flaky=1).shell.script["grep -q dich a.txt"] = edited
    troubled.approve().run().answer("flaky", "skip")
    for boundary in range(4, 12):  # each executor comes a little further than the one before
        troubled.crash_at(boundary).resume()
    assert troubled.expect(send="passed", check="in_doubt").status() == "waiting"
    troubled.answer("check", "did-not").resume()
    retried = step("two", needs=(), contract="look", on_failure=Retry(max_attempts=3))
    well = _scenario(ledger, step("one"), retried, title="Well", after=troubled)
    looks = [Finished(duration_ms=1, exit_code=1, output=b"not yet\n", output_bytes=8)]
    looks += [Finished(duration_ms=9, timed_out=True), Finished(duration_ms=1, exit_code=0)]

    async def look(command: Command) -> Finished:
        return looks.pop(0)

    well.shell.script["look"] = look
    well.approve().run()
    troubled.workspace.configuration_text = "[policy]\n# ünicode\n".encode()
    asyncio.run(troubled.app.approvals.trust(troubled.app.approvals.configuration()[1], KIM))
    waits = _scenario(ledger, step("ask", on_failure=Escalate()), step("then"), title="Waits", after=troubled)
    waits.script(ask=3).approve().run()
    _scenario(ledger, step("later"), title="Only prepared", after=troubled).prepare()
    _signed(ledger, troubled)


def _signed(ledger: SqliteLedger, after: Scenario) -> None:
    """An approver who signs, one who is vouched for and revoked, and a plan that nobody wanted."""
    ann, kim = (Credential(name=name, passphrase=f"the secret of {name}") for name in ("ann", "kim"))
    signed = _scenario(ledger, step("signed"), title="Signed", after=after).prepare()
    app, plan = signed.app, str(signed.plan_id)
    asyncio.run(app.approvals.enroll(kim, KIM))
    asyncio.run(app.approvals.enroll(ann, KIM, kim))
    asyncio.run(app.approvals.trust(app.approvals.configuration()[1], KIM, kim))
    asyncio.run(app.approvals.approve(plan, KIM, credential=ann))
    asyncio.run(app.approvals.revoke(plan, KIM, "by mistake"))
    asyncio.run(app.approvals.revoke_approver("ann", KIM, "left us", kim))
    asyncio.run(app.approvals.approve(plan, KIM, credential=kim))
    asyncio.run(app.runs.commit(plan, KIM))
    unwanted = _scenario(ledger, step("unwanted"), title="Unwanted", after=after).prepare()
    asyncio.run(
        unwanted.app.plans.reject(str(unwanted.plan_id), KIM, "Not this one.", {StepId("unwanted"): "Nor this."})
    )
    asyncio.run(unwanted.app.plans.cancel(str(unwanted.plan_id), KIM, "really"))
    asyncio.run(unwanted.app.plans.archive(str(unwanted.plan_id), KIM))


def folded(ledger: Ledger) -> dict[str, Any]:
    """What a history says, by the questions people ask of it."""
    records = Records(ledger)
    now = Instant(1_800_000_200_000)
    streams = [name for prefix in STREAM_PREFIXES for name in ledger.streams(prefix)]
    plans, runs = {}, {}
    for stream in ledger.streams("lineage/"):
        state = records.lineage(stream)
        plans[stream] = {"plan_id": state.plan_id, "status": state.status(now), "runs": state.runs}
        for run_id in state.runs:
            run, _, _ = records.run(run_id)
            steps = {name: record.state.value for name, record in run.steps.items()}
            runs[run_id] = {"status": run.status, "epoch": run.epoch, "steps": steps}
    return {
        "streams": {stream: [len(events := ledger.read(stream)), events[-1].head] for stream in streams},
        "names": dict(ledger.lookup("plan:")) | dict(ledger.lookup("RUN-")),
        "plans": plans,
        "runs": runs,
        "events": sorted({type(one.event).__name__ for stream in streams for one in ledger.read(stream)}),
    }


def _scenario(ledger: SqliteLedger, *steps: Step, title: str, after: Scenario | None = None) -> Scenario:
    """A scenario over the file; a later one goes on with the ids of the first."""
    scenario = Scenario(*steps, title=title)
    scenario.ledger = CrashingFile(ledger, scenario.world)  # type: ignore[assignment]
    if after is not None:
        scenario.ids, scenario.workspace, scenario.keyring = after.ids, after.workspace, after.keyring
    scenario.app = scenario.new_app()
    return scenario


def main(target: Path) -> None:
    ledger = SqliteLedger.open(target)
    live(ledger)
    expected = folded(ledger)
    asyncio.run(ledger.close())
    with closing(apsw.Connection(str(target))) as connection:
        connection.execute("PRAGMA journal_mode = DELETE; VACUUM; PRAGMA journal_mode = WAL")
    text = msgspec.json.format(msgspec.json.encode(expected), indent=2)
    target.with_suffix(".json").write_bytes(text + b"\n")


if __name__ == "__main__":
    main(Path(__file__).parent / sys.argv[1])
