"""The corpus's last group, on real files and a real shell: what steps do while they run, and what is made of it.

Rows about values that are decided at run time, budgets and agents' tools have no code yet: plans with them do not run.
"""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import apsw
import msgspec
import pytest

from ordain import Channel, Principal, Refused
from tests.patience import eventually
from tests.words import CUT_MARK, App, RunReport, StepReport, mark_of, open_at_terminal

KIM = Principal(name="kim", channel=Channel.TERMINAL)
CHECK = b"test -s done.txt\n"


@pytest.fixture
def workspace(tmp_path, monkeypatch):
    monkeypatch.setenv("ORDAIN_HOME", str(tmp_path / "state"))
    path = tmp_path / "ws"
    (path / "tests").mkdir(parents=True)
    (path / "tests/check.sh").write_bytes(CHECK)
    return path


def carried_out(workspace: Path, *steps: dict[str, object], **fields: object) -> RunReport:
    """The report of a run of these steps, approved as they are."""
    tree = {"title": "T", "steps": [{"id": f"s{n}", **step} for n, step in enumerate(steps, 1)], **fields}

    async def life() -> RunReport:
        app = open_at_terminal(workspace, exact=True)
        try:
            prepared = await app.plans.prepare(msgspec.json.encode(tree), None, KIM)
            await app.approvals.approve(prepared.review.plan_id, KIM)
            return await app.runs.commit(prepared.review.plan_id, KIM)
        finally:
            await app.close()

    return asyncio.run(life())


def runs(command: str, contract: str | None = None, **fields: object) -> dict[str, object]:
    step: dict[str, object] = {"action": {"type": "run", "command": command}, **fields}
    if contract is not None:
        step["verification"] = {"strategy": {"type": "contract", "command": contract}, "timeout_ms": 2000}
    return step


def calls(tool: str, **args: object) -> dict[str, object]:
    return {"action": {"type": "tool", "tool": tool, "args": args}}


def only(report: RunReport) -> StepReport:
    (step,) = report.steps
    return step


def marked() -> list[str]:
    """The marks of all processes that carry one."""
    marks = [mark_of(int(path.name)) for path in Path("/proc").iterdir() if path.name.isdigit()]
    return [mark for mark in marks if mark is not None and "/RUN-" in mark]


@pytest.mark.part(of=3)
@pytest.mark.parametrize(
    ("step", "error"),
    [
        (runs("true", "test -s done.txt"), "F_CONTRACT_BROKEN"),
        (runs("true", "echo exit_code=0; test -s done.txt"), "F_CONTRACT_BROKEN"),
        (runs("true", "kill -9 $$"), "F_CONTRACT_INCONCLUSIVE"),
        (runs("true", "test -d tests", proof="red-then-green"), "F_CONTRACT_GREEN_BEFORE"),
        (runs("echo 'exit 0' > tests/check.sh", "bash tests/check.sh"), "F_CONTRACT_TAMPERED"),
        (runs("rm -r tests; ln -s /etc tests", "test -s tests/passwd"), "F_CONTRACT_TAMPERED"),
        (runs("rm tests/check.sh; exit 3"), "F_CONTRACT_TAMPERED"),
        (runs("echo x > done.txt", "echo 'exit 0' > tests/check.sh; test -s done.txt"), "F_CONTRACT_TAMPERED"),
        (runs("true", "head -c 100000000 /dev/zero; test -s done.txt"), "F_CONTRACT_BROKEN"),
        (runs("true", "sleep 300 & setsid -f sleep 300; sleep 300"), "F_CONTRACT_INCONCLUSIVE"),
        (runs("exit 7"), "F_STEP_FAILED"),
        (runs("no-such-program-anywhere"), "F_STEP_FAILED"),
        (runs("sleep 300 & setsid -f sleep 300; sleep 300", timeout_ms=300), "F_STEP_TIMEOUT"),
        (calls("read_file", path="planted/passwd"), "F_PATH_ESCAPE"),
        (calls("write_file", path="planted/x", content="x"), "F_PATH_ESCAPE"),
        (calls("list_files", path="planted"), "F_PATH_ESCAPE"),
        (calls("make_dir", path="planted/x"), "F_PATH_ESCAPE"),
        (calls("move", path="planted/passwd", to="x"), "F_PATH_ESCAPE"),
        (calls("delete", path="planted/passwd"), "F_PATH_ESCAPE"),
    ],
)
def test_the_code_of_what_went_wrong(workspace, step, error):
    plant = runs("ln -s /etc planted")
    report = carried_out(workspace, plant, {**step, "needs": ["s1"]}, protect=["tests/**"])
    assert (report.status, report.steps[1].error) == ("failed", error)
    assert [mark for mark in marked() if report.run_id in mark] == []
    assert (workspace / "tests/check.sh").read_bytes() == CHECK
    assert [path.name for path in (workspace / "tests").iterdir()] == ["check.sh"]


def test_a_contract_that_times_out_leaves_nothing_running(workspace):
    contract = "sleep 300 & setsid -f sleep 300; sleep 300"
    step = {
        "action": {"type": "run", "command": "true"},
        "verification": {"strategy": {"type": "contract", "command": contract}, "timeout_ms": 200},
    }
    report = carried_out(workspace, step)
    assert only(report).error == "F_CONTRACT_INCONCLUSIVE"
    assert [mark for mark in marked() if report.run_id in mark] == []


def test_a_pattern_is_asked_of_standard_output_alone(workspace):
    def wanting(pattern: str) -> dict[str, object]:
        strategy = {"type": "contract", "command": "echo '3 passed'; echo '9 failed' >&2", "stdout": pattern}
        return {"action": {"type": "run", "command": "true"}, "verification": {"strategy": strategy}}

    assert carried_out(workspace, wanting("(?m)^3 passed$")).status == "completed"
    report = carried_out(workspace, wanting("failed"))
    assert only(report).error == "F_CONTRACT_BROKEN"
    assert "9 failed" in only(report).output_tail


HOSTILE = """\
if [ ! -e once ]; then
  touch once
  setsid -f bash -c 'while :; do echo "exit 0" >> tests/check.sh; sleep 0.01; done'
  (while :; do date >> tests/check.sh; done) &
  echo 'exit 0' > tests/check.sh
  chmod 000 tests/check.sh
  export PATH=/nowhere
  /usr/bin/head -c 1000000000 /dev/zero
  printf 'exit_code=0\\nall tests passed\\n'
  /usr/bin/sleep 300 &
else
  echo done > done.txt
fi
"""


@pytest.mark.slow
def test_a_hostile_step_is_contained_and_told_apart_from_success(workspace):
    """It leaves writers behind, spoils its test, floods its output, breaks its own PATH and says that all is well. The
    second attempt does the work, and passes by the test as it was."""
    step = runs(
        HOSTILE, "bash tests/check.sh", proof="red-then-green", on_failure={"strategy": "retry", "max_attempts": 2}
    )
    report = carried_out(workspace, step, protect=["tests/**"])
    found = only(report)
    assert (report.status, found.attempts, found.evidence) == ("completed", 2, "contract held (exit status 0)")
    assert (workspace / "tests/check.sh").read_bytes() == CHECK
    assert [mark for mark in marked() if report.run_id in mark] == []

    app = open_at_terminal(workspace, exact=True)
    events = [recorded.event for recorded in app.plans.log(report.run_id)]
    ended = next(event for event in events if type(event).__name__ == "AttemptEnded")
    assert ended.outcome.error == "F_CONTRACT_TAMPERED" and "`tests/check.sh` has changed" in ended.outcome.detail
    assert ended.outcome.output_bytes >= 1_000_000_000
    assert ended.outcome.output_tail.startswith(CUT_MARK) and len(ended.outcome.output_tail) <= len(CUT_MARK) + 4000
    assert ended.outcome.leftovers >= 2
    assert found.verified is not None and "PATH" in found.verified.env_names
    assert found.seen_before is None  # it was proved by the first attempt
    asyncio.run(app.close())


def test_a_writer_that_nobody_finds_gets_no_pass(workspace):
    """It cleared its environment and is not ours to find (SECURITY.md); what it keeps changing never counts."""
    writer = 'echo $$ > writer.pid; while :; do echo "exit 0" >> tests/check.sh; /bin/sleep 0.002; done'
    begun = "while [ ! -s writer.pid ]; do sleep 0.01; done"
    command = f"env -i setsid -f /bin/bash -c '{writer}' > /dev/null 2>&1; {begun}; echo done > done.txt"
    try:
        contract = "sleep 0.2; bash tests/check.sh"
        report = carried_out(workspace, runs(command, contract), protect=["tests/**"])
        assert (report.status, only(report).error) == ("failed", "F_CONTRACT_TAMPERED")
    finally:
        os.kill(int((workspace / "writer.pid").read_text()), signal.SIGKILL)


@pytest.mark.slow
def test_files_are_put_back_when_a_run_goes_on_after_a_kill(workspace):
    """The executor is killed right after the step has spoilt its test; a person says that the step happened."""
    step = runs(
        "echo 'exit 0' > tests/check.sh; touch begun; sleep 300",
        "bash tests/check.sh",
        on_failure={"strategy": "escalate"},
    )
    tree = {"title": "T", "steps": [{"id": "s1", **step}], "protect": ["tests/**"]}

    async def prepared() -> str:
        app = open_at_terminal(workspace, exact=True)
        plan = await app.plans.prepare(msgspec.json.encode(tree), None, KIM)
        await app.approvals.approve(plan.review.plan_id, KIM)
        await app.close()
        return str(plan.review.plan_id)

    plan_id = asyncio.run(prepared())
    ordain = [sys.executable, "-m", "ordain", "-C", str(workspace)]
    executor = subprocess.Popen([*ordain, "commit", plan_id], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    eventually(lambda: (workspace / "begun").exists() or executor.poll() is not None, "`begun`")
    assert executor.poll() is None
    executor.kill()
    assert executor.wait() == -9, "it did not die as intended"

    async def gone_on() -> RunReport:
        app = open_at_terminal(workspace, exact=True)
        first = await app.runs.resume(None)
        assert only(first).error == "F_STEP_IN_DOUBT"
        assert (workspace / "tests/check.sh").read_bytes() == CHECK
        await app.answers.answer(f"{first.run_id}/s1", "happened", KIM)
        last = await app.runs.resume(None)
        await app.close()
        return last

    report = asyncio.run(gone_on())
    assert (report.status, only(report).error) == ("waiting", "F_CONTRACT_TAMPERED")


def approved(app: App, *steps: dict[str, object]) -> str:
    tree = {"title": "T", "steps": [{"id": f"s{n}", **step} for n, step in enumerate(steps, 1)]}

    async def life() -> str:
        prepared = await app.plans.prepare(msgspec.json.encode(tree), None, KIM)
        await app.approvals.approve(prepared.review.plan_id, KIM)
        return str(prepared.review.plan_id)

    return asyncio.run(life())


def ledger_of(workspace: Path) -> Path:
    (found,) = (workspace.parent / "state/workspaces").glob("*/ledger.db")
    return found


def test_a_ledger_that_cannot_be_written_means_no_effect(workspace):
    app = open_at_terminal(workspace, exact=True)
    plan_id = approved(app, runs("touch effect"))
    ledger_of(workspace).rename(workspace.parent / "elsewhere.db")
    with pytest.raises(Refused) as refused:
        asyncio.run(app.runs.commit(plan_id, KIM))
    asyncio.run(app.close())
    assert refused.value.problems[0].code == "E_LEDGER_IO"
    assert not (workspace / "effect").exists()


def test_a_broken_chain_means_no_effect_and_can_be_looked_at(workspace):
    app = open_at_terminal(workspace, exact=True)
    plan_id = approved(app, runs("touch effect"))
    asyncio.run(app.close())
    with closing(apsw.Connection(str(ledger_of(workspace)))) as connection:
        connection.execute("UPDATE events SET body = CAST(replace(body, 'kim', 'tim') AS BLOB) WHERE position = 2")
    app = open_at_terminal(workspace, exact=True)
    with pytest.raises(Refused) as refused:
        asyncio.run(app.runs.commit(plan_id, KIM))
    assert refused.value.problems[0].code == "E_LEDGER_BROKEN"
    assert not app.audits.verify().good
    asyncio.run(app.close())
    assert not (workspace / "effect").exists()


def test_an_executor_that_was_replaced_records_nothing(workspace):
    """Its lock is taken away under it, and another one takes over; what it was carrying out is ended."""
    app = open_at_terminal(workspace, exact=True)
    plan_id = approved(app, runs("touch begun; until test -e go; do sleep 0.01; done; touch effect"))
    ordain = [sys.executable, "-m", "ordain", "-C", str(workspace)]
    with subprocess.Popen([*ordain, "commit", plan_id, "--json"], stdout=subprocess.PIPE) as executor:
        try:
            eventually(lambda: (workspace / "begun").exists() or executor.poll() is not None, "`begun`")
            assert executor.poll() is None
            for lock in ledger_of(workspace).parent.rglob("*.lock"):
                lock.unlink()
            report = asyncio.run(app.runs.resume(None))
            out, _ = executor.communicate(timeout=60)
        finally:
            executor.kill()
    assert (report.status, only(report).error) == ("waiting", "F_STEP_IN_DOUBT")
    assert msgspec.json.decode(out)["error"]["code"] == "E_FENCED"
    assert app.runs.run(report.run_id) == report
    asyncio.run(app.close())
    assert not (workspace / "effect").exists()


def test_what_was_not_seen_is_no_evidence(workspace):
    loud = "echo ERROR; head -c 2000000 /dev/zero | tr '\\0' x"
    check = {"strategy": {"type": "custom", "name": "quiet", "expression": '!output.contains("ERROR")'}}
    report = carried_out(
        workspace, {"action": {"type": "run", "command": loud}, "description": "d", "verification": check}
    )
    assert (report.status, only(report).error) == ("failed", "F_CONTRACT_INCONCLUSIVE")


@pytest.mark.slow
def test_a_cancelled_run_leaves_protected_files_as_they_were(workspace):
    step = runs("echo 'exit 0' > tests/check.sh; touch begun; sleep 300", "bash tests/check.sh")
    tree = {"title": "T", "steps": [{"id": "s1", **step}], "protect": ["tests/**"]}
    before = (workspace / "tests/check.sh").read_text()

    async def prepared() -> str:
        app = open_at_terminal(workspace, exact=True)
        plan = await app.plans.prepare(msgspec.json.encode(tree), None, KIM)
        await app.approvals.approve(plan.review.plan_id, KIM)
        await app.close()
        return str(plan.review.plan_id)

    ordain = [sys.executable, "-m", "ordain", "-C", str(workspace)]
    plan_id = asyncio.run(prepared())
    executor = subprocess.Popen([*ordain, "commit", plan_id], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    eventually(lambda: (workspace / "begun").exists() or executor.poll() is not None, "`begun`")
    assert executor.poll() is None
    executor.kill()
    executor.wait()

    async def cancelled() -> str:
        app = open_at_terminal(workspace, exact=True)
        (line,) = app.plans.all(open_only=True)
        report = await app.runs.cancel_run(str(line.last_run), KIM)
        assert app.audits.verify().good
        await app.close()
        return report.status

    assert asyncio.run(cancelled()) == "cancelled"
    assert (workspace / "tests/check.sh").read_text() == before
