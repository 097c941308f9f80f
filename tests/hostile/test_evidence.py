"""Attempts to change the evidence: what was kept beside the events, and what an old run is judged by."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import sqlite3
import subprocess
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.interfaces.workspace import KIM, Workspace
from tests.model_wire import EVENTS, Answer, answering
from tests.task_runs import carried_out, task
from tests.twins.execution import ScriptedToolbox
from tests.words import App, EffectClass, Rules, Style, audit_lines, shelf_path, state_path

GOLDEN = Path(__file__).parents[1] / "golden" / "ledgers" / "v2.db"
"""Made by 0.1, which knew nothing of preparations and environments."""
VERIFIER = Path(__file__).parents[2] / "tools" / "verify_ledger.py"
WRITES = "# Say much\n\n1. `seq 1 200000`\n2. `echo short`\n"


@pytest.fixture
def workspace(tmp_path: Path) -> Workspace:
    return Workspace(tmp_path)


def verified(workspace: Workspace, ledger: Path) -> list[dict[str, Any]]:
    ours = json.loads(workspace.ordain("robot", "audit", "verify").out)["data"]
    theirs = subprocess.run([sys.executable, "-I", VERIFIER, "--json", ledger], capture_output=True, check=False)
    return [ours, json.loads(theirs.stdout)]


def test_a_kept_output_that_was_changed_is_found(workspace: Workspace) -> None:

    workspace.write("much.plan.md", WRITES)
    assert workspace.ordain("commit", workspace.approved("much.plan.md")).status == 0
    ledger = shelf_path(state_path(os.environ), workspace.path) / "ledger.db"
    before = verified(workspace, ledger)
    assert workspace.ordain("audit", "verify").status == 0
    with sqlite3.connect(ledger) as connection:
        assert connection.execute("UPDATE kept SET body = CAST(body || 'x' AS BLOB)").rowcount >= 2
    connection.close()
    assert workspace.ordain("audit", "verify").status == 1, "every kept output was changed, and it was not noticed"
    assert before[0]["outputs"]["intact"] == before[1]["outputs"]["intact"] >= 2
    assert all(one["findings"] == [] and one["outputs"]["changed"] == 0 for one in before)
    after = verified(workspace, ledger)
    for one in after:
        assert {found["kind"] for found in one["findings"]} == {"output"}
        assert one["outputs"]["changed"] == before[0]["outputs"]["intact"]
    assert after[0]["chain_intact"] and not after[0]["good"]
    told = workspace.ordain("audit", "verify")
    assert told.status == 1 and "Chain: intact." in told.out
    with sqlite3.connect(ledger) as connection:
        connection.execute("DELETE FROM kept")
    connection.close()
    for one in verified(workspace, ledger):  # as in a copy that leaves them out
        assert one["findings"] == [] and one["outputs"]["left_out"] == before[0]["outputs"]["intact"]


def test_everything_that_is_kept_is_looked_at_by_both(workspace: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    """Outputs, results, protected files, prompts and transcripts: whatever is kept, under whichever key it is named."""
    monkeypatch.setenv("MY_MODEL", "a-key")
    loud = {"action": {"type": "run", "command": "seq 1 200000"}}
    with answering(Answer(EVENTS["openai-chat"]("It is done."))) as server:
        agent = f'[agents.coder]\nmodel = "openai-chat:a-model"\nbase_url = "{server.url}"\nkey_env = "MY_MODEL"\n'
        went = carried_out(workspace.path, agent, loud, task(protect=["small.plan.md"]))
    ledger = shelf_path(state_path(os.environ), workspace.path) / "ledger.db"
    connection = sqlite3.connect(ledger)
    kept = {seal.partition("/")[0] for (seal,) in connection.execute("SELECT seal FROM kept")}
    events = b"".join(body for (body,) in connection.execute("SELECT body FROM events")).decode()
    assert all(f'"{key}":"hmac' in events for key in ("output_seal", "seal", "prompt_seal", "transcript_seal"))
    assert went.outcomes[1].transcript_seal in kept and len(kept) >= 4
    for one in verified(workspace, ledger):
        assert (one["outputs"]["intact"], one["outputs"]["changed"]) == (len(kept), 0)
    connection.execute("UPDATE kept SET body = CAST(body || 'x' AS BLOB)")
    connection.commit()
    for one in verified(workspace, ledger):
        assert (one["outputs"]["intact"], one["outputs"]["changed"]) == (0, len(kept))
        assert len(one["findings"]) == len(kept)
    connection.execute("DELETE FROM kept")
    connection.commit()
    for one in verified(workspace, ledger):
        assert one["outputs"]["left_out"] >= len(kept)
    connection.close()


@pytest.mark.part(of=2)
@pytest.mark.parametrize(
    ("change", "changed"),
    [
        ("DELETE FROM secret", 2),
        ("DROP TABLE secret", 2),
        ("DROP TABLE kept", 2),
        ("DELETE FROM kept WHERE seal LIKE '%/0'", 1),
    ],
)
def test_what_was_taken_away_from_beside_the_events_is_found_by_both(
    workspace: Workspace, change: str, changed: int
) -> None:
    workspace.write("much.plan.md", WRITES)
    assert workspace.ordain("commit", workspace.approved("much.plan.md")).status == 0
    ledger = shelf_path(state_path(os.environ), workspace.path) / "ledger.db"
    with sqlite3.connect(ledger) as connection:
        connection.execute(change)
    connection.close()
    for one in verified(workspace, ledger):
        assert [found["kind"] for found in one["findings"]] == ["output"] * changed
        assert one["outputs"]["changed"] == changed
    told = workspace.ordain("audit", "verify")
    assert told.status == 1 and "Chain: intact." in told.out


@pytest.mark.slow
def test_a_ledger_of_the_first_version_verifies_and_its_old_summaries_are_not_believed(workspace: Workspace) -> None:
    ledger = shelf_path(state_path(os.environ), workspace.path) / "ledger.db"
    ledger.parent.mkdir(parents=True, mode=0o700)
    ledger.parent.parent.parent.chmod(0o700)
    shutil.copyfile(GOLDEN, ledger)
    ledger.chmod(0o600)
    assert all(one["findings"] == [] and one.get("good", True) for one in verified(workspace, ledger))
    before = json.loads(workspace.ordain("list", "--all", "--json").out)["data"]
    with sqlite3.connect(ledger) as connection:  # whatever an old summary says, only the events count
        connection.execute("UPDATE plans SET body = CAST(replace(body, '\"Only prepared\"', '\"Forged\"') AS BLOB)")
        assert connection.execute("SELECT count(*) FROM plans WHERE instr(body, 'Forged')").fetchone() == (1,)
    connection.close()
    assert json.loads(workspace.ordain("list", "--all", "--json").out)["data"] == before
    assert workspace.ordain("audit", "verify").status == 0
    with sqlite3.connect(ledger) as connection:  # and one that claims to be of today is compared with them
        connection.execute("UPDATE plans SET body = CAST('{\"fold\":3,' || substr(body, 2) AS BLOB)")
    connection.close()
    assert workspace.ordain("audit", "verify").status == 1
    assert workspace.ordain("audit", "rebuild").status == 0
    assert workspace.ordain("audit", "verify").status == 0


def with_opaque_reads(app: App) -> App:
    """The same workspace where reading a file counts as opaque."""
    tools = app.ports.toolbox.definitions()
    other = msgspec.structs.replace(tools["read_file"], effect=EffectClass.OPAQUE)
    toolbox = ScriptedToolbox({**tools, "read_file": other})
    return App(msgspec.structs.replace(app.ports, toolbox=toolbox))


def test_of_a_run_that_an_older_version_started_unasked_verify_says_that_nobody_can_tell(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither good nor bad: 0.1 did not record the definitions that it asked."""
    from tests.words import RunStarted, open_at_terminal

    app = open_at_terminal(workspace.path, exact=True)
    with monkeypatch.context() as older:
        older.setattr("ordain.app.runs.RunStarted", lambda **given: RunStarted(**{**given, "tools": None}))
        plan = asyncio.run(app.plans.prepare((workspace.path / "look.plan.md").read_bytes(), "look.plan.md", KIM))
        assert asyncio.run(app.runs.commit(plan.review.plan_id, KIM)).status == "completed"
    assert workspace.ordain("run", "look.plan.md").status == 0
    app = with_opaque_reads(app)  # which have to be asked for
    found = app.audits.verify()
    app.let_go()
    assert found.good and [run.policy for run in found.runs] == ["cannot be re-checked", "allowed"]
    lines = [line for line in audit_lines(found, frozenset(), Style(False)) if line.startswith("  RUN-")]
    assert ["policy cannot be re-checked" in line for line in lines] == [True, False]


def test_a_run_is_judged_by_the_definitions_that_were_recorded_with_it(workspace: Workspace) -> None:
    from tests.words import RunStarted, open_at_terminal

    assert workspace.ordain("run", "look.plan.md").status == 0
    app = open_at_terminal(workspace.path, exact=True)
    app = with_opaque_reads(app)  # as a later version may have it
    found = app.audits.verify()
    assert found.good, "a run that was good when it was started is judged by today's tools"
    assert found.runs[0].policy == "allowed"
    (started,) = [one.event for one in app.plans.log(app.plans.all()[0].lineage) if isinstance(one.event, RunStarted)]
    assert started.tools is not None and set(started.tools) == {"read_file"}
    rules: Rules = app.audits.rules()
    plan = app.plans.review(app.plans.all()[0].plan_id).plan
    assert rules.unasked(plan, None, None) is None, "what an older version recorded cannot be judged"
    assert rules.unasked(plan, None, {"read_file": app.ports.toolbox.definitions()["read_file"]}) is False
    app.let_go()
