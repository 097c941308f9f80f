"""Proposals on the command line: list, inbox, revise, reject, cancel, archive, revoke, approver."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import Any

import apsw
import pytest

from tests.interfaces.terminal import Ended
from tests.interfaces.test_robot import answered, refused
from tests.interfaces.workspace import SMALL, Workspace

FINE, FAILED, REFUSED, WAITING = 0, 1, 2, 3
STEP = "echo-one-effects"
EDITED = SMALL.replace("# Make two lines", "# Make two other lines")


def statuses(workspace: Workspace, *options: str) -> list[tuple[str, str]]:
    return [(plan["title"], plan["status"]) for plan in answered(workspace.ordain("list", "--json", *options))["plans"]]


def enrolled(workspace: Workspace, name: str = "kim", *options: str, vouching: str | None = None) -> Ended:
    answers = [("New passphrase", f"the secret of {name}"), ("once more", f"the secret of {name}")]
    answers += [("Passphrase for", f"the secret of {vouching}")] if vouching else []
    return workspace.at_terminal("approver", "enroll", name, *options, answers=answers)


def test_json_list(workspace: Workspace):
    assert answered(workspace.ordain("list", "--json")) == {"plans": [], "count": 0}
    workspace.prepared("small.plan.md")
    data = answered(done := workspace.ordain("list", "--json"))
    (line,) = data["plans"]
    assert (line["title"], line["status"], line["document"]) == ("Make two lines", "proposed", "small.plan.md")
    assert line["proposer"] == {"name": "kim", "channel": "terminal"}
    assert json.loads(done.out)["next"] == [f"ordain approve {line['plan_id'][5:17]}"]
    assert statuses(workspace, "--status", "rejected") == []


def test_json_inbox(workspace: Workspace):
    assert answered(workspace.ordain("inbox", "--json")) == {"items": [], "signals": [], "notes": []}
    workspace.prepared("small.plan.md")
    workspace.prepared("look.plan.md")  # needs nobody
    run, _ = workspace.started("asks.plan.md")
    items = answered(workspace.ordain("inbox", "--json"))["items"]
    assert sorted(item["kind"] for item in items) == ["approval", "escalation"]
    choices = [f"ordain answer {run}/fetch {word}" for word in ("retry", "skip", "pass", "abort")]
    assert choices in [item["commands"] for item in items]
    shown = workspace.ordain("inbox").out
    assert all(f"    → {choice}\n" in shown for choice in choices), "each can be pasted as it stands"
    assert "What now? (since 2" in shown
    everywhere = answered(workspace.ordain("inbox", "--json", "--all"))["items"]
    pasted = [[command.replace(f" -C {workspace.path}", "") for command in item["commands"]] for item in everywhere]
    assert pasted == [item["commands"] for item in items]


def test_json_revise(workspace: Workspace):
    first = workspace.prepared("small.plan.md")
    workspace.write("small.plan.md", EDITED)
    data: Any = answered(workspace.ordain("revise", "--json", first))
    assert data["plan"]["title"] == "Make two other lines" and data["lineage"].startswith("PLAN-")
    refused(workspace.ordain("approve", "--json", first), "E_PLAN_SUPERSEDED")
    refused(workspace.ordain("commit", "--json", first), "E_PLAN_SUPERSEDED")
    workspace.prepared("look.plan.md")
    refused(workspace.ordain("revise", "--json", data["plan_id"], "look.plan.md"), "E_PLAN_EXISTS")


def test_json_reject(workspace: Workspace):
    short = workspace.prepared("small.plan.md")
    refused(workspace.ordain("reject", "--json", short), "E_FEEDBACK")
    refused(workspace.ordain("reject", "--json", short, "--comment", "nope=x"), "E_STEP_UNKNOWN")
    assert answered(workspace.ordain("reject", "--json", short, "-m", "Not today."))["status"] == "rejected"
    document = refused(workspace.ordain("commit", "--json", short), "E_PLAN_REJECTED")
    assert "Not today." in document["error"]["remediation"]
    refused(workspace.ordain("reject", "--json", short, "-m", "Not today."), "E_PLAN_STAGE")
    refused(workspace.ordain("prepare", "--json", "small.plan.md"), "E_PLAN_REJECTED")
    assert workspace.effects() == []


def test_json_cancel(workspace: Workspace):
    short = workspace.prepared("small.plan.md")
    assert answered(workspace.ordain("cancel", "--json", short))["status"] == "cancelled"
    refused(workspace.ordain("commit", "--json", short), "E_PLAN_STAGE")


def test_json_archive(workspace: Workspace):
    short = workspace.prepared("small.plan.md")
    refused(workspace.ordain("archive", "--json", short), "E_PLAN_STAGE")
    answered(workspace.ordain("cancel", "--json", "small.plan.md"))
    assert answered(workspace.ordain("archive", "--json", short))["status"] == "archived"


def test_json_revoke(workspace: Workspace):
    short = workspace.approved("small.plan.md")
    (ended,) = answered(workspace.ordain("revoke", "--json", short))["revoked"]
    assert ended.startswith("APPROVAL-")
    refused(workspace.ordain("commit", "--json", short), "E_APPROVAL_REVOKED")
    refused(workspace.ordain("revoke", "--json", short), "E_APPROVAL_NOT_FOUND")
    assert workspace.effects() == []


@pytest.mark.slow
def test_json_approver(workspace: Workspace):
    assert answered(workspace.ordain("approver", "list", "--json")) == {"approvers": []}
    refused(workspace.ordain("approver", "enroll", "--json"), "E_APPROVAL_CHANNEL", WAITING)
    refused(workspace.ordain("approver", "revoke", "--json", "kim"), "E_APPROVAL_CHANNEL", WAITING)
    assert enrolled(workspace).status == FINE
    (kim,) = answered(workspace.ordain("approver", "list", "--json"))["approvers"]
    assert (kim["name"], kim["revoked_at"]) == ("kim", None) and kim["fingerprint"].startswith("ed25519:")


def test_a_changed_document_is_a_revision_and_the_old_approval_does_not_cover_it(workspace: Workspace):
    first = workspace.approved("small.plan.md")
    workspace.write("small.plan.md", EDITED)
    second = workspace.prepared("small.plan.md")
    assert statuses(workspace) == [("Make two other lines", "proposed")]
    shown = workspace.ordain("show", second)
    assert "Since this document was approved last" in shown.out
    assert workspace.ordain("commit", second).status == WAITING
    assert workspace.ordain("commit", first).status == REFUSED
    assert "(superseded)" in workspace.ordain("show", first).out
    assert workspace.effects() == []


@pytest.mark.slow
def test_three_rejections_then_only_a_person_may_propose(workspace: Workspace):
    for number in range(3):
        workspace.write("small.plan.md", SMALL.replace("two lines", f"{number} lines"))
        assert workspace.ordain("prepare", "small.plan.md").status == FINE
        assert workspace.ordain("reject", "small.plan.md", "-m", f"No number {number}.").status == FINE
    assert statuses(workspace) == [("Make 2 lines", "needs_review")]
    workspace.write("small.plan.md", SMALL.replace("two lines", "four lines"))
    done = workspace.ordain("prepare", "small.plan.md")
    assert (done.status, "E_PLAN_NEEDS_REVIEW" in done.err, "No number 2." in done.err) == (REFUSED, True, True)
    assert "review" in workspace.ordain("inbox").out
    shown = workspace.ordain("show", "PLAN-" + workspace.ordain("list").out.partition("PLAN-")[2][:16]).out
    assert "No number 0." in shown and "No number 2." in shown
    assert workspace.at_terminal("prepare", "small.plan.md").status == FINE
    assert statuses(workspace) == [("Make four lines", "proposed")]


@pytest.mark.slow
def test_a_signed_approval_from_enrolling_to_the_run(workspace: Workspace):
    workspace.write("ordain.toml", "[approval]\nrequire_signature = true\n")
    done = workspace.at_terminal("trust")
    assert (done.status, "nobody is enrolled" in done.out) == (REFUSED, True)
    assert "Fingerprint: ed25519:" in enrolled(workspace).out
    trusted = workspace.at_terminal("trust", answers=[("Type yes", "yes"), ("Passphrase", "the secret of kim")])
    assert trusted.status == FINE
    short = workspace.prepared("small.plan.md")
    answers = [("Type yes", "yes"), ("Passphrase", "wrong wrong")]
    done = workspace.at_terminal("approve", short, answers=answers)
    assert (done.status, "E_APPROVAL_SIGNATURE" in done.out) == (REFUSED, True)
    assert "wrong wrong" not in done.out
    answers = [("Type yes", "yes"), ("Passphrase", "the secret of kim")]
    done = workspace.at_terminal("approve", short, answers=answers)
    assert (done.status, "signed by kim" in done.out, "the secret" in done.out) == (FINE, True, False)
    assert workspace.ordain("commit", short).status == FINE
    assert "signature_refused" in workspace.ordain("log").out


@pytest.mark.slow
def test_where_signatures_are_demanded_an_answer_asks_for_the_passphrase(workspace: Workspace):
    workspace.write("ordain.toml", "[approval]\nrequire_signature = true\n")
    assert enrolled(workspace).status == FINE
    secret = ("Passphrase for kim's key", "the secret of kim")
    assert workspace.at_terminal("trust", answers=[("Type yes", "yes"), secret]).status == FINE
    left = ("leaves it open", "")
    done = workspace.at_terminal("run", "asks.plan.md", answers=[("Type yes", "yes"), secret, left])
    run = done.out.partition("ordain answer ")[2].partition("/")[0]
    wrong = workspace.at_terminal("answer", f"{run}/fetch", "skip", answers=[("Passphrase", "wrong wrong")])
    assert (wrong.status, "E_APPROVAL_SIGNATURE" in wrong.out, "wrong wrong" in wrong.out) == (REFUSED, True, False)
    nobody = workspace.at_terminal("answer", f"{run}/fetch", "skip", "--as", "eve")
    assert (nobody.status, "No key of eve counts here" in nobody.out) == (REFUSED, True)
    assert "decision_given" not in workspace.ordain("log", run).out
    done = workspace.at_terminal("answer", f"{run}/fetch", "skip", "--resume", answers=[secret])
    shown = done.out.partition("Passphrase")[0]
    assert (done.status, "go on without it" in shown, "Answered by kim, signed." in shown) == (FINE, True, True)
    verified = workspace.ordain("audit", "verify")
    assert (verified.status, "1 of 1 answers signed" in verified.out) == (FINE, True)


@pytest.mark.slow
def test_an_answer_can_be_signed_where_nobody_demands_it(workspace: Workspace):
    assert enrolled(workspace).status == FINE
    run, _ = workspace.started("asks.plan.md")
    secret = ("Passphrase for kim's key", "the secret of kim")
    assert workspace.at_terminal("answer", f"{run}/fetch", "retry", "--sign", answers=[secret]).status == FINE
    assert workspace.ordain("resume").status == WAITING
    assert workspace.at_terminal("answer", f"{run}/fetch@2", "skip").status == FINE
    assert "1 of 2 answers signed" in workspace.ordain("audit", "verify").out


@pytest.mark.slow
def test_a_second_approver_is_vouched_for_and_a_revoked_one_counts_no_more(workspace: Workspace):
    assert enrolled(workspace).status == FINE
    assert enrolled(workspace, "ann", "--by", "kim", vouching="kim").status == FINE
    short = workspace.prepared("small.plan.md")
    answers = [("Type yes", "yes"), ("Passphrase for ann", "the secret of ann")]
    assert workspace.at_terminal("approve", short, "--as", "ann", answers=answers).status == FINE
    answers = [("Passphrase for kim", "the secret of kim")]
    assert workspace.at_terminal("approver", "revoke", "ann", "--as", "kim", answers=answers).status == FINE
    done = workspace.ordain("commit", short)
    assert (done.status, "E_APPROVAL_REVOKED" in done.err) == (REFUSED, True)


def test_a_file_the_plan_names_that_changed_is_named(workspace: Workspace):
    call = {"tool": "write_file", "args": {"path": "a.txt", "content": "new"}}
    plan = {
        "plan_version": 1,
        "title": "W",
        "steps": [{"id": "w", "description": "Write it", "action": {"type": "tool", **call}}],
    }
    workspace.write("write.plan.json", json.dumps(plan))
    workspace.write("a.txt", "old")
    short = workspace.approved("write.plan.json")
    workspace.write("a.txt", "changed")
    done = workspace.ordain("commit", short)
    assert (done.status, "E_PLAN_STALE_BASE" in done.err, "`a.txt` has changed" in done.err) == (REFUSED, True, True)
    workspace.write("a.txt", "old")
    assert workspace.ordain("commit", short).status == FINE
    assert (workspace.path / "a.txt").read_text() == "new"


def test_an_old_id_means_the_plan_that_was_seen(workspace: Workspace):
    first = workspace.prepared("small.plan.md")
    workspace.write("small.plan.md", EDITED)
    second = workspace.prepared("small.plan.md")
    for verb in (["cancel"], ["reject", "-m", "no"], ["archive"]):
        done = workspace.ordain(verb[0], first, *verb[1:])
        assert (done.status, "E_PLAN_SUPERSEDED" in done.err) == (REFUSED, True), done
    assert statuses(workspace) == [("Make two other lines", "proposed")]
    assert workspace.ordain("cancel", second).status == FINE


def test_approvals_that_are_left_are_told_of(workspace: Workspace):
    short = workspace.approved("small.plan.md")
    workspace.approved("small.plan.md")
    assert "Approved already: 2 approvals that no run has used" in workspace.ordain("show", short).out
    assert workspace.ordain("commit", short).status == FINE
    status = workspace.ordain("status").out
    assert "completed" in status and f"1 approval that a run could use → ordain revoke {short}" in status
    assert workspace.ordain("revoke", short).status == FINE
    assert "a run could use" not in workspace.ordain("status").out


def test_all_that_was_said_about_a_step_is_kept_and_shown_to_whoever_approves_the_next(workspace: Workspace):
    short = workspace.prepared("small.plan.md")
    said = ("--comment", "one=First.", "--comment", "one=Second.", "-m", "Two\nlines.")
    done = workspace.ordain("reject", short, *(word.replace("one=", f"{STEP}=") for word in said))
    assert done.status == FINE, done
    done = workspace.ordain("commit", short)
    assert all(word in done.err for word in ("Two lines.", "First. Second."))
    workspace.write("small.plan.md", EDITED)
    shown = workspace.at_terminal("revise", short, env={"NO_COLOR": "1"}).out
    assert "    Two\n    lines.\n" in shown and f"about {STEP}: First. Second." in shown
    done = workspace.ordain("reject", "small.plan.md", "-m", "x" * 5000)
    assert (done.status, "E_FEEDBACK" in done.err) == (REFUSED, True)


def test_one_broken_ledger_hides_no_other(workspace: Workspace, tmp_path: Path):
    other = tmp_path / "other"
    other.mkdir()
    beside = Workspace(other)
    beside.prepared("small.plan.md")
    (broken,) = (Path(os.environ["ORDAIN_HOME"]) / "workspaces").glob("*/ledger.db")
    workspace.prepared("small.plan.md")
    connection = apsw.Connection(str(broken))
    connection.execute("UPDATE events SET body = CAST(replace(CAST(body AS TEXT), 'Make', 'Fake') AS BLOB)")
    connection.close()
    done = workspace.ordain("inbox", "--all")
    assert (done.status, f"in {workspace.path}" in done.out) == (FINE, True)
    assert "E_LEDGER_BROKEN" in done.err and str(other) in done.err


def test_a_moved_directory_leaves_no_policy_behind(workspace: Workspace, tmp_path: Path):
    workspace.write("ordain.toml", '[policy]\ndeny = ["shell"]\n')
    assert workspace.at_terminal("trust", answers=[("Type yes", "yes")]).status == FINE
    moved = tmp_path / "moved"
    workspace.path.rename(moved)
    there = Workspace(moved)
    done = there.ordain("prepare", "small.plan.md")
    assert (done.status, "E_WORKSPACE_MOVED" in done.err) == (REFUSED, True)
    command = re.search(r"→ ordain (audit restore \S+)", done.err)
    assert command is not None
    restored = there.at_terminal(*command.group(1).split(), answers=[("Type yes", "yes")])
    assert restored.status == FINE, restored
    assert "E_POLICY_DENIED" in there.ordain("prepare", "small.plan.md").err


def test_trusting_again_shows_what_changed(workspace: Workspace):
    workspace.write("ordain.toml", "[run]\nconcurrency = 2\n")
    assert workspace.at_terminal("trust", answers=[("Type yes", "yes")]).status == FINE
    workspace.write("ordain.toml", "[run]\nconcurrency = 9\n")
    shown = workspace.at_terminal("trust", answers=[("Type yes", "no")], env={"NO_COLOR": "1"}).out
    assert "Changed since one was trusted last:\n  -concurrency = 2\n  +concurrency = 9\n" in shown


def test_trusting_points_out_that_nothing_is_enforced_any_more(workspace: Workspace):
    workspace.write("ordain.toml", '[guard]\nmode = "enforce"\n')
    first = workspace.at_terminal("trust", answers=[("Type yes", "yes")], env={"NO_COLOR": "1"})
    assert (first.status, "Note:" in first.out) == (FINE, False)
    workspace.write("ordain.toml", "")
    shown = workspace.at_terminal("trust", answers=[("Type yes", "no")], env={"NO_COLOR": "1"}).out
    assert "Note:\n  - Nothing is refused any more outside of plans" in shown


def test_the_review_shows_the_lines_that_changed_since_the_approved_and_the_rejected_version(workspace: Workspace):
    workspace.approved("small.plan.md")
    workspace.write("small.plan.md", SMALL.replace("echo two", "echo 2"))
    second = workspace.prepared("small.plan.md")
    assert workspace.ordain("reject", second, "-m", "Write three.").status == FINE
    workspace.write("small.plan.md", SMALL.replace("echo two", "echo 3"))
    shown = workspace.ordain("revise", second).out
    approved, rejected = shown.index("was approved last"), shown.index("was rejected last")
    assert approved < rejected
    assert "echo two" in shown[approved:rejected] and "echo 3" in shown[approved:rejected]
    assert "echo two" not in shown[rejected : shown.index("ordain diff", rejected)]
    data = answered(workspace.ordain("robot", "show"))
    assert (data["since"]["rejected_at"], data["since_rejected"]["approved_at"]) == (None, None)
    (added,) = data["since_rejected"]["changes"]["steps"]["added"]
    assert added["step"]["action"]["command"] == "echo 3 >> effects"


def test_so_does_the_review_of_what_a_person_prepares_anew_after_a_rejection(workspace: Workspace):
    first = workspace.prepared("small.plan.md")
    assert workspace.ordain("reject", first, "-m", "Write three.").status == FINE
    workspace.write("small.plan.md", SMALL.replace("echo two", "echo 3"))
    shown = workspace.ordain("prepare", "small.plan.md").out
    changed = shown[shown.index("was rejected last") :]
    assert "Write three." in shown and "echo two" in changed and "echo 3" in changed


def test_a_document_that_was_just_prepared_is_compared_with_the_version_before(workspace: Workspace):
    workspace.prepared("small.plan.md")
    assert "Nothing changed" in workspace.ordain("diff", "small.plan.md").out
    workspace.write("small.plan.md", SMALL.replace("echo two", "echo 2"))
    before = workspace.ordain("diff", "small.plan.md")
    workspace.prepared("small.plan.md")
    after = workspace.ordain("diff", "small.plan.md")
    assert "echo two" in after.out and "echo 2" in after.out
    assert before.out.partition("Plan:")[2:] == after.out.partition("Plan:")[2:]
    assert answered(workspace.ordain("diff", "small.plan.md", "--json"))["same"] is False
