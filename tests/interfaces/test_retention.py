"""`[retention]` at the doors: what runs kept goes when a person said so, is announced, and is told from what is gone
for another reason."""

from __future__ import annotations

import asyncio
import hashlib
import json
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from ordain.core.ledger import chain
from tests.interfaces.json_rpc import RpcClient
from tests.interfaces.workspace import KIM, Workspace
from tests.patience import eventually
from tests.twins.execution import ManualClock
from tests.words import App, Instant, Refused, RunReport, open_at_terminal

ROOT = Path(__file__).parent.parent.parent
DAY = 86_400_000
DAYS_30 = "[retention]\noutputs_days = 30\n"
SAYS = """\
# Say {word}

## Steps

### 1. Say it

**id:** say
**run:** echo the {word} was here; seq 2000
"""
"""Longer than the end that an event holds: the word is in what is kept, and in no event but the plan's."""
TODAY = "# Look\n\n1. `true`\n"


def at(workspace: Workspace, days: int) -> App:
    """The library as it is used so many days ago."""
    app = open_at_terminal(workspace.path)
    clock = ManualClock(Instant(time.time_ns() // 1_000_000 - days * DAY))
    return App(msgspec.structs.replace(app.ports, clock=clock))


def ran(workspace: Workspace, text: str, days: int) -> RunReport:
    """Carry out a plan so many days ago, as far as it goes."""
    app = at(workspace, days)

    async def carried_out() -> RunReport:
        made = await app.plans.prepare(text.encode(), None, KIM)
        report = await app.runs.approve_and_commit(made.review, KIM)
        await app.close()
        return report

    return asyncio.run(carried_out())


def said(workspace: Workspace, word: str, days: int) -> str:
    return ran(workspace, SAYS.format(word=word), days).run_id


def prepared(workspace: Workspace, text: str = TODAY) -> list[str]:
    """Prepare the first plan of the day; what is said of outputs that were removed."""
    app = open_at_terminal(workspace.path)
    made = asyncio.run(app.plans.prepare(text.encode(), None, KIM))
    asyncio.run(app.close())
    return [one.detail for one in made.review.notices if one.code == "W_OUTPUTS_REMOVED"]


def is_kept(workspace: Workspace, run: str) -> bool:
    app = open_at_terminal(workspace.path)
    try:
        found, parts = app.runs.output(run, "say")
        assert len(b"".join(parts)) == found.kept_bytes == found.output_bytes
    except Refused as refused:
        assert refused.problems[0].code == "E_OUTPUT_NOT_KEPT"
        assert "was removed by retention on " in refused.problems[0].detail
        return False
    finally:
        asyncio.run(app.close())
    return True


def ledger_file(workspace: Workspace) -> Path:
    app = open_at_terminal(workspace.path)
    return next(Path(app.here.ledger.path).parent.glob("ledger.db"))  # type: ignore[attr-defined]


def changed(workspace: Workspace, statement: str) -> None:
    """Somebody who can write the file does this to it."""
    connection = sqlite3.connect(ledger_file(workspace))
    connection.execute(statement)
    connection.commit()
    connection.close()


def verified(workspace: Workspace) -> dict[str, Any]:
    """What both verifiers count of what is kept; they must agree."""
    ours = json.loads(workspace.ordain("robot", "audit", "verify").out)["data"]["outputs"]
    script = [sys.executable, "-I", "-S", str(ROOT / "tools/verify_ledger.py"), "--json", str(ledger_file(workspace))]
    theirs = json.loads(subprocess.run(script, capture_output=True, check=False).stdout)["outputs"]
    assert ours == theirs
    return dict(ours)


# --- What goes -------------------------------------------------------------------------------------------------------


def test_what_is_too_old_goes_and_whoever_prepares_is_told(workspace: Workspace) -> None:
    workspace.trust(DAYS_30)
    old, newer = said(workspace, "walrus", 31), said(workspace, "heron", 29)
    assert b"the walrus was here" in ledger_file(workspace).read_bytes()
    done = workspace.ordain("prepare", "small.plan.md")
    assert f"W_OUTPUTS_REMOVED Removed, because of `[retention]`: what {old} had kept beside their events" in done.out
    assert "Nothing is deleted" not in done.out
    assert (is_kept(workspace, old), is_kept(workspace, newer)) == (False, True)
    assert b"the walrus was here\n1\n" not in ledger_file(workspace).read_bytes(), "nor does it stand in free pages"
    again = workspace.ordain("prepare", "large.plan.md")
    assert "W_OUTPUTS_REMOVED" not in again.out, "it is looked once a day"


def test_a_plan_that_is_known_is_prepared_without_a_second_look(workspace: Workspace) -> None:
    workspace.trust(DAYS_30)
    ran(workspace, TODAY, 2)
    prepared(workspace)
    said(workspace, "walrus", 31)
    assert prepared(workspace) == []


def test_a_robot_is_told(workspace: Workspace) -> None:
    workspace.trust(DAYS_30)
    old = said(workspace, "walrus", 31)
    answer = json.loads(workspace.ordain("robot", "prepare", "small.plan.md").out)
    (told,) = [one for one in answer["problems"] if one["code"] == "W_OUTPUTS_REMOVED"]
    assert old in told["detail"] and told["severity"] == "warning" and told["command"] == "ordain log"
    (event,) = [one for one in json.loads(workspace.ordain("robot", "log").out)["data"]["events"] if "seals" in one]
    assert (event["type"], event["run_id"], event["by"]["channel"]) == ("outputs_removed", old, "robot")


def test_a_client_of_the_mcp_server_is_told(workspace: Workspace) -> None:
    workspace.trust(DAYS_30)
    old = said(workspace, "walrus", 31)
    with RpcClient(workspace.path) as client:
        answer = client.call("plan_propose", document=TODAY)
    assert "W_OUTPUTS_REMOVED" in json.dumps(answer) and old in json.dumps(answer)


def test_an_agent_that_leaves_plan_mode_is_told(workspace: Workspace) -> None:
    workspace.trust(f'{DAYS_30}[guard]\nmode = "enforce"\n')
    old = said(workspace, "walrus", 31)
    plan = "# Do\n\n## Steps\n\n### 1. Say\n\n**run:** true\n**contract:** test -f look.plan.md\n"
    call = {"hook_event_name": "PreToolUse", "tool_name": "ExitPlanMode", "tool_input": {"plan": plan}}
    asked = json.dumps({**call, "cwd": str(workspace.path), "session_id": "x"}).encode()
    done = workspace.ordain("guard", "hook", "claude-code", "--workspace", str(workspace.path), stdin=asked)
    assert "W_OUTPUTS_REMOVED" in done.out + done.err and old in done.out + done.err


def test_a_run_that_needs_no_approval_tells_too(workspace: Workspace) -> None:
    workspace.trust(DAYS_30)
    old = said(workspace, "walrus", 31)
    done = workspace.ordain("run", "look.plan.md")
    assert (done.status, "W_OUTPUTS_REMOVED" in done.out + done.err, old in done.out + done.err) == (0, True, True)


def test_whoever_is_notified_is_told(workspace: Workspace) -> None:
    teller = workspace.path.parent / "teller"
    teller.write_text(f"#!/bin/sh\ncat >> {workspace.path}/told\n")
    teller.chmod(0o700)
    workspace.trust(f'{DAYS_30}[notify]\ncommand = ["{teller}"]\n')
    said(workspace, "walrus", 31)
    prepared(workspace)
    told = workspace.path / "told"
    eventually(lambda: told.exists() and '"kind":"outputs_removed"' in told.read_text(), "the notice")


def test_of_too_much_the_oldest_goes_until_it_is_not_too_much(workspace: Workspace) -> None:
    workspace.trust("[retention]\noutputs_mb = 1\n")
    loud = [SAYS.format(word=word).replace("seq 2000", "seq 150000") for word in ("walrus", "heron", "stork")]
    runs = [ran(workspace, text, days).run_id for text, days in zip(loud, (5, 4, 3), strict=True)]
    (told,) = prepared(workspace)
    assert [is_kept(workspace, run) for run in runs] == [False, False, True]
    assert runs[1] in told and runs[2] not in told


def test_a_clock_that_jumps_ahead_makes_nothing_old_at_once(workspace: Workspace) -> None:
    workspace.trust(DAYS_30)
    run = said(workspace, "walrus", 0)
    app = at(workspace, -3650)
    made = asyncio.run(app.plans.prepare(TODAY.encode(), None, KIM))
    asyncio.run(app.close())
    assert [one.code for one in made.review.notices if one.code == "W_OUTPUTS_REMOVED"] == []
    assert is_kept(workspace, run)


def test_plans_that_ended_long_ago_are_archived_and_nothing_is_deleted(workspace: Workspace) -> None:
    old = said(workspace, "walrus", 31)
    done = workspace.ordain("prepare", "small.plan.md")
    assert "W_PLANS_ARCHIVED Archived, because they ended long ago" in done.out and "`Say walrus`" in done.out
    listed = json.loads(workspace.ordain("robot", "list", "--status", "archived").out)["data"]["plans"]
    assert [one["last_run"] for one in listed] == [old] and is_kept(workspace, old)


def test_an_announcement_is_no_risk_of_the_plan_that_is_prepared(workspace: Workspace) -> None:
    workspace.trust(DAYS_30)
    said(workspace, "walrus", 31)
    app = open_at_terminal(workspace.path)
    review = asyncio.run(app.plans.prepare(TODAY.encode(), None, KIM)).review
    asyncio.run(app.close())
    announced = {"W_OUTPUTS_REMOVED", "W_PLANS_ARCHIVED"}
    assert announced <= {one.code for one in review.notices}
    assert announced.isdisjoint(place.part for one in review.risks for place in one.places)


def test_whoever_trusts_is_told_what_will_go(workspace: Workspace) -> None:
    workspace.write("ordain.toml", "[retention]\noutputs_days = 30\noutputs_mb = 2000\n")
    done = workspace.at_terminal("trust", answers=[("Type yes", "no")])
    told = "[retention] removes outputs of ended runs older than 30 days or beyond 2,000 MB for good, at the first"
    assert told in " ".join(done.out.split())


def test_a_robot_is_told_of_what_was_archived(workspace: Workspace) -> None:
    said(workspace, "walrus", 31)
    answer = json.loads(workspace.ordain("robot", "prepare", "small.plan.md").out)
    assert "W_PLANS_ARCHIVED" in [one["code"] for one in answer["problems"]]


def test_a_long_context_stands_beside_the_copy(workspace: Workspace) -> None:
    prepared(workspace, TODAY.replace("\n1.", "\n**Context:** " + "why we do it " * 5000 + "\n\n1."))
    (copy,) = (workspace.path / ".ordain/plans").glob("*.md")
    (beside,) = (workspace.path / ".ordain/artifacts").glob("PLAN-*/context.md")
    assert copy.stat().st_size < 2_000 and beside.stat().st_size > 50_000
    assert f"`{beside.relative_to(workspace.path)}`" in copy.read_text()


# --- What stays ------------------------------------------------------------------------------------------------------


def test_it_is_off_by_default(workspace: Workspace) -> None:
    old = said(workspace, "walrus", 4000)
    assert prepared(workspace) == [] and is_kept(workspace, old)


@pytest.mark.parametrize("edit", ["never trusted", "edited since", "deleted since"])
def test_a_file_that_nobody_trusts_as_it_is_removes_nothing(workspace: Workspace, edit: str) -> None:
    file = workspace.write("ordain.toml", DAYS_30)
    if edit != "never trusted":
        workspace.trust(DAYS_30)
    old = said(workspace, "walrus", 31)
    if edit == "edited since":
        file.write_text("[retention]\noutputs_days = 1\n")
    elif edit == "deleted since":
        file.unlink()
    assert prepared(workspace) == [] and is_kept(workspace, old)


def test_while_work_is_stopped_nothing_is_removed(workspace: Workspace) -> None:
    workspace.trust(DAYS_30)
    old = said(workspace, "walrus", 31)
    assert workspace.at_terminal("stop").status == 0
    assert prepared(workspace) == [] and is_kept(workspace, old)


ASKS = SAYS + "\n### 2. Ask\n\n**run:** test -f wanted\n**on_fail:** escalate\n"


def waits(workspace: Workspace) -> str:
    """A run that waits for a person."""
    return ran(workspace, ASKS.format(word="walrus"), 31).run_id


def proposed_again(workspace: Workspace, *, approve: bool = False) -> str:
    """A run that ended, whose plan waits for a decision again, or for its start."""
    run = said(workspace, "walrus", 31)
    app = at(workspace, 1)
    made = asyncio.run(app.plans.prepare(SAYS.format(word="walrus").encode(), None, KIM))
    if approve:
        asyncio.run(app.approvals.approve(made.review.plan_id, KIM))
    asyncio.run(app.close())
    return run


def approved_again(workspace: Workspace) -> str:
    return proposed_again(workspace, approve=True)


def succeeded(workspace: Workspace) -> str:
    """A run that ended, with another plan proposed to go on with it."""
    run = ran(workspace, SAYS.format(word="walrus") + "\n### 2. Fail\n\n**run:** false\n", 31).run_id
    workspace.write("next.plan.md", SAYS.format(word="walrus") + "\n### 2. Do not fail\n\n**run:** true\n")
    done = workspace.ordain("robot", "rerun", run, "--with", "next.plan.md")
    assert "W_OUTPUTS_REMOVED" not in done.out, done
    return run


def said_again(workspace: Workspace) -> str:
    """A run of which a newer one kept the very same."""
    run = said(workspace, "walrus", 31)
    ran(workspace, SAYS.format(word="walrus").replace("# Say", "# Repeat"), 1)
    return run


def said_by_one_that_waits(workspace: Workspace) -> str:
    """A run of which one that has not ended kept the very same."""
    run = said(workspace, "walrus", 32)
    waits(workspace)
    return run


@pytest.mark.parametrize(
    "somebody", [waits, proposed_again, approved_again, succeeded, said_again, said_by_one_that_waits]
)
def test_what_somebody_needs_stays(workspace: Workspace, somebody: Callable[[Workspace], str]) -> None:
    workspace.trust(f'{DAYS_30}[approval]\nttl = "7d"\n')
    run = somebody(workspace)
    prepared(workspace)
    assert is_kept(workspace, run)


def test_what_nobody_needs_any_more_goes(workspace: Workspace) -> None:
    workspace.trust(DAYS_30)
    run = waits(workspace)
    app = at(workspace, 31)
    asyncio.run(app.runs.cancel_run(run, KIM))
    asyncio.run(app.close())
    assert len(prepared(workspace)) == 1 and not is_kept(workspace, run)


# --- What is said later ----------------------------------------------------------------------------------------------


def test_what_is_shown_in_place_of_it(workspace: Workspace) -> None:
    workspace.trust(DAYS_30)
    run = said(workspace, "walrus", 31)
    prepared(workspace)
    day = time.strftime("%Y-%m-%d", time.gmtime())
    for words in (["show", run, "--output", "say"], ["robot", "show", run, "--output", "say"]):
        done = workspace.ordain(*words)
        assert done.status == 2 and "E_OUTPUT_NOT_KEPT" in done.out + done.err
        told = f"What `say` wrote in {run} (8,913 bytes) was removed by retention on {day} (digest hmac-sha256:"
        assert told in done.out + done.err
    exactly = workspace.at_terminal("show", run, "--output", "say", "-o", "exact")
    assert "was removed by retention on" in exactly.out and not (workspace.path / "exact").exists()
    shown = workspace.ordain("show", run)
    assert f"was removed by retention on {day}; its events hold the digests" in shown.err
    verbose = workspace.ordain("show", "--verbose", run).out
    assert "2000" in verbose, "the end is in the event"
    assert f"… earlier lines: removed by retention on {day}\n" in verbose and "--output" not in verbose


def test_what_an_agent_was_told_goes_too_and_that_is_said(workspace: Workspace) -> None:
    workspace.trust(DAYS_30 + '[agents.coder]\ncommand = ["sh", "-c", "cat > told"]\n')
    run = ran(
        workspace, "# Tell\n\n## Steps\n\n### 1. Tell\n\n**id:** tell\n**agent:** coder\n**task:** Go.\n", 31
    ).run_id
    assert "Go." in workspace.ordain("show", run, "--prompt", "tell").out
    prepared(workspace)
    done = workspace.ordain("show", run, "--prompt", "tell")
    assert done.status == 2 and f"What was told for `tell` of {run} was removed by retention on " in done.err


def test_removed_is_told_from_missing_and_from_changed(workspace: Workspace) -> None:
    workspace.trust(DAYS_30)
    said(workspace, "walrus", 31)
    said(workspace, "heron", 2)
    said(workspace, "stork", 1)
    prepared(workspace)
    assert verified(workspace) == {"intact": 2, "changed": 0, "removed": 1, "left_out": 0}
    assert "2 intact, 0 changed, 1 removed by retention, 0 not kept here" in workspace.ordain("audit", "verify").out
    changed(workspace, "DELETE FROM kept WHERE seal = (SELECT max(seal) FROM kept)")
    assert verified(workspace) == {"intact": 1, "changed": 0, "removed": 1, "left_out": 1}
    changed(workspace, "UPDATE kept SET body = x'00'")
    assert verified(workspace) == {"intact": 0, "changed": 1, "removed": 1, "left_out": 1}
    assert workspace.ordain("audit", "verify").status == 1


def test_what_a_contract_wrote_is_never_kept_and_both_verifiers_say_so(workspace: Workspace) -> None:
    ran(workspace, SAYS.format(word="walrus") + "**contract:** ls look.plan.md\n", 0)
    assert verified(workspace) == {"intact": 1, "changed": 0, "removed": 0, "left_out": 1}
    told = "Kept outputs: 1 intact, 0 changed, 1 not kept here (what contracts write never is).\n"
    assert told in workspace.ordain("audit", "verify").out
    script = [sys.executable, "-I", "-S", str(ROOT / "tools/verify_ledger.py"), str(ledger_file(workspace))]
    assert told in subprocess.run(script, capture_output=True, check=False, text=True).stdout


def forged(workspace: Workspace, of: str, claimed: str) -> None:
    """Somebody who can write the file deletes what a run kept, and writes that retention removed what one kept."""
    database = sqlite3.connect(ledger_file(workspace))
    ((opened,),) = database.execute("SELECT opened FROM streams WHERE stream = ?", (f"run/{of}",))
    bodies = [body for (body,) in database.execute("SELECT body FROM events WHERE stream = ?", (opened,))]
    kept = {name.partition("/")[0] for (name,) in database.execute("SELECT seal FROM kept")}
    seals = sorted(seal for seal in kept if any(seal.encode() in body for body in bodies))
    assert seals
    database.executemany("DELETE FROM kept WHERE seal = ?", [(seal,) for seal in seals])
    ((position,),) = database.execute("SELECT max(position) + 1 FROM events")
    by = {"name": "kim", "channel": "terminal"}
    event = {"type": "outputs_removed", "run_id": claimed, "seals": seals, "size": 5, "by": by}
    at = time.time_ns() // 1_000_000
    body = json.dumps({"v": 1, "stream": "retention", "seq": 1, "at": at, "event": event}, separators=(",", ":"))
    head = chain.extend(bytes(32), body.encode())
    database.execute(
        "INSERT INTO events (position, stream, seq, previous, head, body) VALUES (?, ?, 1, 0, ?, ?)",
        (position, position, head, body.encode()),
    )
    database.execute("INSERT INTO streams VALUES (?, 'retention', 1, ?, ?, 0)", (position, position, head))
    database.commit()
    database.close()


@pytest.mark.parametrize(
    ("trusted", "claimed", "named", "removed"),
    [
        (DAYS_30, "own", "ended", True),
        ("", "own", "ended", False),
        (DAYS_30, "another", "ended", False),
        (DAYS_30, "RUN-AAAAAAAAAAAAAAAA", "ended", False),
        (DAYS_30, "own", "open", False),
        (DAYS_30, "another", "open", False),
    ],
)
def test_a_removal_that_retention_did_not_make_is_found(
    workspace: Workspace, trusted: str, claimed: str, named: str, removed: bool
) -> None:
    workspace.trust(trusted)
    another = said(workspace, "heron", 2)
    of = waits(workspace) if named == "open" else said(workspace, "walrus", 2)
    forged(workspace, of, {"own": of, "another": another}.get(claimed, claimed))
    assert verified(workspace) == {"intact": 1, "changed": 0, "removed": int(removed), "left_out": int(not removed)}
    ours = json.loads(workspace.ordain("robot", "audit", "verify").out)["data"]["findings"]
    script = [sys.executable, "-I", "-S", str(ROOT / "tools/verify_ledger.py"), "--json", str(ledger_file(workspace))]
    theirs = subprocess.run(script, capture_output=True, check=False)
    for found in (ours, json.loads(theirs.stdout)["findings"]):
        assert [(one["kind"], one["stream"]) for one in found] == [("history", "retention")][removed:]
    assert theirs.returncode == workspace.ordain("audit", "verify").status == int(not removed)


@pytest.fixture
def removed_meanwhile(workspace: Workspace, monkeypatch: pytest.MonkeyPatch) -> str:
    """A run whose output is removed as soon as its parts are about to be added up."""
    workspace.trust(DAYS_30)
    run = ran(workspace, SAYS.format(word="walrus").replace("seq 2000", "seq 300000"), 31).run_id
    sha256, told = hashlib.sha256, list[list[str]]()

    def interrupted(*data: bytes, **how: Any) -> Any:
        if not (data or told):
            told.append([])
            told[0] += prepared(workspace)
            assert told[0]
        return sha256(*data, **how)

    monkeypatch.setattr(hashlib, "sha256", interrupted)
    return run


def test_what_is_removed_while_it_is_verified_is_not_called_changed(
    workspace: Workspace, removed_meanwhile: str
) -> None:
    app = open_at_terminal(workspace.path)
    found = app.audits.verify()
    asyncio.run(app.close())
    assert found.findings == ()
    assert (found.outputs.changed, found.outputs.removed, found.outputs.left_out) == (0, 1, 0)


def test_what_is_removed_while_it_is_compared_is_called_removed(workspace: Workspace, removed_meanwhile: str) -> None:
    assert not is_kept(workspace, removed_meanwhile)


INTERRUPTED = """
import sys, verify_ledger as tool
counted, asked = tool.kept_outputs, []
def removed_meanwhile(*given):
    if not asked:
        asked.append(print("now", flush=True) or input())
    return counted(*given)
tool.kept_outputs = removed_meanwhile
sys.exit(tool.main(["--json", sys.argv[1]]))
"""


def test_the_independent_verifier_sees_one_moment(workspace: Workspace) -> None:
    workspace.trust(DAYS_30)
    said(workspace, "walrus", 31)
    command = [sys.executable, "-c", INTERRUPTED, str(ledger_file(workspace))]
    with subprocess.Popen(
        command, cwd=ROOT / "tools", stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as child:
        assert child.stdin is not None and child.stdout is not None and child.stdout.readline() == "now\n"
        assert "W_OUTPUTS_REMOVED" in workspace.ordain("prepare", "small.plan.md").out
        child.stdin.write("\n")
        child.stdin.close()
        found = json.loads(child.stdout.read())
    assert found["findings"] == []
    assert {name: count for name, count in found["outputs"].items() if count} == {"intact": 1}


def test_what_is_removed_while_it_is_read_is_not_cut_off(workspace: Workspace) -> None:
    workspace.trust(DAYS_30)
    run = ran(workspace, SAYS.format(word="walrus").replace("seq 2000", "seq 300000"), 31).run_id
    app = open_at_terminal(workspace.path)
    _, parts = app.runs.output(run, "say")
    next(parts)
    assert len(prepared(workspace)) == 1
    with pytest.raises(Refused, match="was removed while it was read"):
        list(parts)
    asyncio.run(app.close())


def test_what_was_removed_kept_again_and_then_lost_is_missing(workspace: Workspace) -> None:
    workspace.trust(DAYS_30)
    said(workspace, "walrus", 31)
    prepared(workspace)
    assert verified(workspace) == {"intact": 0, "changed": 0, "removed": 1, "left_out": 0}
    ran(workspace, SAYS.format(word="walrus").replace("# Say", "# Repeat"), 0)
    assert verified(workspace) == {"intact": 1, "changed": 0, "removed": 0, "left_out": 0}
    changed(workspace, "DELETE FROM kept")
    assert verified(workspace) == {"intact": 0, "changed": 0, "removed": 0, "left_out": 1}


KEPT = f"{SAYS.format(word='walrus')}**contract:** test -f look.plan.md\n"
USES = "\n### 2. Use it\n\n**tool:** write_file\n**args:**\n```yaml\npath: out\ncontent: ${say.output}\n```\n"
USES += "**contract:** test -f allowed\n"


def ran_and_removed(workspace: Workspace, text: str) -> RunReport:
    """A run whose outputs are gone, with its plan proposed again."""
    before = ran(workspace, text, 31)
    assert len(prepared(workspace)) == 1
    prepared(workspace, text)
    return before


def test_a_rerun_that_needs_what_is_gone_is_refused_before_it_asks_for_approval(workspace: Workspace) -> None:
    workspace.trust(DAYS_30)
    before = ran_and_removed(workspace, KEPT + USES)
    assert not is_kept(workspace, before.run_id)
    day, again = time.strftime("%Y-%m-%d", time.gmtime()), f"ordain rerun {before.run_id} --from say"
    why = f"`use-it` needs what `say` wrote in {before.run_id}, which was removed by retention on {day}."
    refused = workspace.at_terminal("rerun", before.run_id)
    assert (refused.status, "Type" in refused.out) == (2, False)
    assert why in " ".join(refused.out.split()) and again in refused.out
    answer = json.loads(workspace.ordain("robot", "rerun", before.run_id).out)
    assert [(one["code"], one["detail"], one["command"]) for one in answer["problems"]] == [
        ("E_OUTPUT_NOT_KEPT", why, again)
    ]
    workspace.write("allowed", "")
    done = workspace.at_terminal("rerun", before.run_id, "--from", "say", answers=[("Type yes", "yes")])
    assert done.status == 0, done.out


def test_where_no_one_step_produces_all_that_is_gone_the_whole_plan_is_named(workspace: Workspace) -> None:
    workspace.trust(DAYS_30)
    hums = "\n### 2. Hum\n\n**id:** hum\n**needs:** none\n**run:** seq 2000\n**contract:** test -f look.plan.md\n"
    uses = USES.replace("### 2.", "### 3.").replace("${say.output}", "${say.output}${hum.output}")
    before = ran_and_removed(workspace, KEPT + hums + uses)
    workspace.write("allowed", "")
    refused = workspace.at_terminal("rerun", before.run_id)
    short = before.plan_id.removeprefix("plan:")[:12]
    assert f"run all of it: ordain commit {short}" in " ".join(refused.out.split())
    assert workspace.at_terminal("approve", short, answers=[("Type yes", "yes")]).status == 0
    done = workspace.ordain("commit", short)
    assert (done.status, "3 passed" in done.out) == (0, True), done


def test_a_step_that_fails_for_what_is_gone_says_how_to_produce_it_again(workspace: Workspace) -> None:
    workspace.trust(DAYS_30)
    workspace.write("allowed", "")
    before = ran_and_removed(workspace, KEPT + USES)
    (workspace.path / "allowed").unlink()
    app = open_at_terminal(workspace.path)
    asyncio.run(app.approvals.approve(before.plan_id, KIM))
    again = asyncio.run(app.runs.rerun(before.run_id, KIM))
    asyncio.run(app.close())
    assert again.status == "failed"
    assert again.steps[0].attempts == 0, "it was kept"
    told = f"; to produce it again: ordain rerun {again.run_id} --from say"
    assert "`${say.output}` gave a result that was removed by retention on " in str(again.steps[1].evidence)
    assert told in str(again.steps[1].evidence)


@pytest.mark.parametrize("asks", ['steps["say"].exit_code == 0', 'steps["say"].status == "passed"'])
def test_a_rerun_that_needs_only_how_a_step_ended_is_not_refused(workspace: Workspace, asks: str) -> None:
    workspace.trust(DAYS_30)
    text = f"{KEPT}\n### 2. Look\n\n**run:** test -f allowed\n**when:** {asks}\n"
    before = ran_and_removed(workspace, text)
    workspace.write("allowed", "")
    done = workspace.at_terminal("rerun", before.run_id, answers=[("Type yes", "yes")])
    assert done.status == 0, done.out
