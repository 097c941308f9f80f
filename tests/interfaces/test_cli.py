"""The command line as people use it: what each command does, refuses and exits with, at a terminal and without one."""

from __future__ import annotations

import os
import re
import shutil
import threading
from pathlib import Path

import pytest
from click.testing import CliRunner

from ordain.interfaces.cli.main import _GROUPS
from tests.interfaces.terminal import CTRL_C, CTRL_D, Background, Terminal, without_terminal
from tests.interfaces.workspace import ASKS, READS, SMALL, WARNS, Workspace, approve_command, mark_workspace, run_id
from tests.patience import eventually
from tests.rows import each
from tests.words import PlanVerbs, main, mark_of, problem_pages, settings_template

FINE, FAILED, REFUSED, WAITING, BUG, INTERRUPTED = 0, 1, 2, 3, 70, 130

# --- run -------------------------------------------------------------------------------------------------------------


def test_a_plan_that_only_reads_runs_without_approval_and_without_a_terminal(workspace: Workspace):
    done = workspace.ordain("run", "look.plan.md")
    assert (done.status, "completed, 1 of 1 steps passed" in done.out) == (FINE, True)
    assert "▸ read-it" in done.err  # progress is not in the way of the result


def test_without_a_terminal_nobody_is_asked_and_the_next_command_is_named(workspace: Workspace):
    done = workspace.ordain("run", "small.plan.md")
    assert (done.status, done.out, workspace.effects()) == (WAITING, "", [])
    assert "E_PLAN_APPROVAL_MISSING" in done.err
    command = approve_command(done.err)
    assert command[-1] == "--start"
    done = workspace.at_terminal(*command, answers=[("Type yes", "yes")])
    assert (done.status, workspace.effects()) == (FINE, ["one", "two"])


def test_a_yes_runs_what_was_shown(workspace: Workspace):
    done = workspace.at_terminal("run", "small.plan.md", answers=[("Type yes", "yes")])
    assert (done.status, workspace.effects()) == (FINE, ["one", "two"])
    preview, _, rest = done.out.partition("Type yes")
    assert "echo one >> effects" in preview and "2 shell commands" in preview
    assert "completed, 2 of 2 steps passed" in rest


@pytest.mark.part(of=3)
@pytest.mark.parametrize("answer", ["", "no", "y", "yes please", "1", CTRL_C, CTRL_D])
def test_anything_but_yes_runs_nothing(workspace: Workspace, answer: str):
    left = [] if answer in (CTRL_C, CTRL_D) else [("(y/N)", "")]
    done = workspace.at_terminal("run", "small.plan.md", answers=[("Type yes", answer), *left])
    assert (done.status, workspace.effects()) == (REFUSED, [])
    assert "Not approved; nothing was run." in done.out and "The proposal stays" in done.out
    assert "proposed" in workspace.ordain("status").out


def test_after_a_no_the_proposal_can_be_withdrawn(workspace: Workspace):
    for answer, standing in (("", "proposed"), ("n", "proposed"), ("y", "cancelled")):
        done = workspace.at_terminal("run", "small.plan.md", answers=[("Type yes", "no"), ("(y/N)", answer)])
        assert (done.status, "Withdrawn" in done.out) == (REFUSED, standing == "cancelled"), answer
        short = re.findall(r"ordain approve ([0-9a-f]{12}) --start", done.out)[0]
        assert standing in workspace.ordain("list").out, answer
    refused = workspace.at_terminal("approve", short, "--start")
    assert (refused.status, workspace.effects()) == (REFUSED, [])


def test_more_than_ten_effects_want_the_short_digest(workspace: Workspace):
    done = workspace.at_terminal("run", "large.plan.md", answers=[("short id", "yes"), ("(y/N)", "")])
    assert (done.status, workspace.effects()) == (REFUSED, [])
    short = re.findall(r"short id \(([0-9a-f]{12})\)", done.out)[0]
    done = workspace.at_terminal("run", "large.plan.md", answers=[("short id", short[:11]), ("(y/N)", "")])
    assert (done.status, workspace.effects()) == (REFUSED, [])
    done = workspace.at_terminal("run", "large.plan.md", answers=[("short id", short)])
    assert (done.status, len(workspace.effects())) == (FINE, 11)


def test_a_failed_step_fails_the_run_and_shows_the_end_of_its_output(workspace: Workspace):
    done = workspace.at_terminal("run", "fails.plan.md", answers=[("Type yes", "yes")])
    assert (done.status, workspace.effects()) == (FAILED, ["one"])
    assert "│ broken pipe in the cellar" in done.out and "exit status 7" in done.out


def test_a_claim_does_not_stand_in_for_a_contract(workspace: Workspace):
    _, done = workspace.started("contract.plan.md")
    assert (done.status, "contract broken: exit status 1" in done.out) == (FAILED, True)


def test_a_document_comes_from_standard_input_too(workspace: Workspace):
    done = workspace.ordain("run", "-", stdin=READS.encode())
    assert (done.status, "completed" in done.out) == (FINE, True)


def test_a_document_that_is_wrong_runs_nothing_and_leaves_nothing(workspace: Workspace):
    workspace.write("bad.plan.md", "# Bad\n\n## Steps\n\n### 1. One\n\n**run:** echo one >> effects\n\n### 3. Three\n")
    done = workspace.ordain("run", "bad.plan.md")
    assert (done.status, done.out, workspace.effects()) == (REFUSED, "", [])
    assert "bad.plan.md:9:" in done.err and "E_MD_HEADING" in done.err
    assert not Path(os.environ["ORDAIN_HOME"]).exists()


@pytest.mark.parametrize("command", ["run", "lint", "prepare", "show"])
@pytest.mark.parametrize("path", ["missing.plan.md", ".", "small.plan.md/x.md"])
def test_a_document_that_cannot_be_read(workspace: Workspace, command: str, path: str):
    done = workspace.ordain(command, path)
    assert (done.status, "E_DOC_NOT_FOUND" in done.out + done.err) == (REFUSED, True)


@pytest.mark.parametrize("command", ["lint", "prepare", "run", "simulate"])
def test_a_pipe_in_place_of_a_document_holds_nobody_up(workspace: Workspace, command: str):
    os.mkfifo(workspace.path / "pipe.plan.md")
    done = workspace.ordain(command, "pipe.plan.md")
    told = done.out + done.err
    assert (done.status, "E_DOC_NOT_FOUND" in told, "not a regular file" in told) == (REFUSED, True, True)


@pytest.mark.parametrize(
    "words",
    ["commit nope", "commit 0123456789ab", "show nope", "simulate nope", "resume", "rerun RUN-X", "robot commit x"],
)
def test_looking_for_what_is_not_there_makes_no_ledger(tmp_path: Path, words: str):
    (tmp_path / "fresh").mkdir()
    fresh = Workspace(tmp_path / "fresh")
    done = fresh.ordain(*words.split())
    assert (done.status, "_NOT_FOUND" in done.out + done.err) == (REFUSED, True)
    assert list(Path(os.environ["ORDAIN_HOME"]).rglob("ledger*")) == []


def test_what_is_wrong_with_ones_own_configuration_is_told_with_its_place_once(workspace: Workspace, tmp_path: Path):
    file = tmp_path / "own" / "ordain" / "config.toml"
    file.parent.mkdir(parents=True)
    own = {"XDG_CONFIG_HOME": str(tmp_path / "own")}
    file.write_text('[programs]\nbash = "bash"\n')
    done = workspace.ordain("config", env=own)
    assert (done.status, "E_CONFIG_USER" in done.err, done.err.count(str(file))) == (REFUSED, True, 1)
    # What `prepare` refuses is not shown as if it were in force.
    file.write_text('[programs]\nbash = "/nonexistent/bash"\n')
    for words in (("prepare", "small.plan.md"), ("config",), ("robot", "config")):
        done = workspace.ordain(*words, env=own)
        assert (done.status, "E_CONFIG_USER" in done.out + done.err) == (REFUSED, True), words
        assert "programs.bash to /nonexistent/bash, which" in done.out + done.err


def test_a_document_whose_name_is_not_utf8_is_refused(workspace: Workspace):
    name = os.fsdecode(b"caf\xe9.plan.md")
    workspace.write(name, SMALL)
    done = workspace.ordain("prepare", name)
    assert (done.status, "E_DOC_NOT_FOUND caf‹U+DCE9›.plan.md" in done.err) == (REFUSED, True)


# --- prepare, approve, commit ----------------------------------------------------------------------------------------


def test_prepare_approve_commit_by_pasting_what_each_one_says(workspace: Workspace):
    prepared = workspace.ordain("prepare", "small.plan.md")
    assert (prepared.status, prepared.err, workspace.effects()) == (FINE, "", [])
    approved = workspace.at_terminal(*approve_command(prepared.out), answers=[("Type yes", "yes")])
    assert (approved.status, "Approved as APPROVAL-" in approved.out, workspace.effects()) == (FINE, True, [])
    command = re.findall(r"ordain (commit [0-9a-f]{12})", approved.out)[0].split()
    assert workspace.ordain(*command).status == FINE
    assert workspace.effects() == ["one", "two"]
    again = workspace.ordain(*command)
    assert (again.status, "W_RUN_EARLIER" in again.err, workspace.effects()) == (FINE, True, ["one", "two"])
    workspace.ordain("prepare", "small.plan.md")
    spent = workspace.ordain(*command)
    assert (spent.status, "E_APPROVAL_SPENT" in spent.err, workspace.effects()) == (REFUSED, True, ["one", "two"])


def test_preparing_a_plan_that_only_reads_names_commit_as_the_next_command(workspace: Workspace):
    prepared = workspace.ordain("prepare", "look.plan.md")
    command = re.findall(r"→ ordain (commit [0-9a-f]{12} --preparation PREP-[A-Z2-7]+)$", prepared.out, re.MULTILINE)[
        0
    ].split()
    assert workspace.ordain(*command).status == FINE


def test_commit_without_approval_runs_nothing(workspace: Workspace):
    done = workspace.ordain("commit", workspace.prepared("small.plan.md"))
    assert (done.status, "E_PLAN_APPROVAL_MISSING" in done.err, workspace.effects()) == (WAITING, True, [])
    assert approve_command(done.err)


def test_approve_start_begins_at_once(workspace: Workspace):
    short = workspace.prepared("small.plan.md")
    done = workspace.at_terminal("approve", "--start", short, answers=[("Type yes", "yes")])
    assert (done.status, workspace.effects()) == (FINE, ["one", "two"])


def test_an_approval_that_is_not_given_is_not_recorded(workspace: Workspace):
    short = workspace.prepared("small.plan.md")
    done = workspace.at_terminal("approve", short, answers=[("Type yes", "no")])
    assert (done.status, "nothing was recorded" in done.out) == (REFUSED, True)
    assert "approval_given" not in workspace.ordain("log", short).out


@pytest.mark.part(of=3)
@pytest.mark.parametrize(
    ("arguments", "command"),
    [
        (["approve", "{plan}"], "ordain approve {plan}"),
        (["answer", "{run}/fetch", "skip"], "ordain answer {run}/fetch skip"),
        (["trust"], "ordain trust"),
    ],
)
def test_a_persons_verbs_do_not_ask_where_nobody_can_answer(workspace: Workspace, arguments, command):
    run, _ = workspace.started("asks.plan.md")
    names = {"plan": workspace.prepared("small.plan.md"), "run": run}
    workspace.write("ordain.toml", "[run]\nconcurrency = 2\n")
    done = workspace.ordain(*(word.format(**names) for word in arguments))
    assert (done.status, done.out, "E_APPROVAL_CHANNEL" in done.err) == (WAITING, "", True)
    assert f"→ {command.format(**names)}\n" in done.err


@pytest.mark.part(of=4)
@pytest.mark.parametrize("command", ["show", "commit", "log", "approve"])
def test_names_of_plans_that_name_none_or_several(workspace: Workspace, command: str):
    workspace.prepared("small.plan.md")
    workspace.prepared("large.plan.md")
    for name, code in [
        ("0000000000000000", "E_PLAN_NOT_FOUND"),
        ("0123abc", "E_PLAN_NOT_FOUND"),
        ("tidy", "E_PLAN_NOT_FOUND"),
        ("PLAN-", "E_PLAN_AMBIGUOUS"),
    ]:
        if command == "approve":
            done = workspace.at_terminal(command, name)
            said = done.out
        else:
            done = workspace.ordain(command, name)
            said = done.err
        assert (done.status, code in said) == (REFUSED, True), name


def test_what_runs_is_what_was_prepared_whatever_the_document_says_by_now(workspace: Workspace):
    short = workspace.approved("small.plan.md")
    workspace.write("small.plan.md", "# Other\n\n1. `echo evil >> effects`\n")
    done = workspace.ordain("commit", short)
    assert (done.status, workspace.effects()) == (FINE, ["one", "two"])
    assert "W_DOC_DRIFT" in done.err and "ordain prepare small.plan.md" in done.err


# --- status, resume, log, show ---------------------------------------------------------------------------------------


def test_status_says_what_waits_for_whom(workspace: Workspace):
    assert "No plans here yet" in workspace.ordain("status").out
    short = workspace.prepared("small.plan.md")
    assert f"→ ordain approve {short}" in workspace.ordain("status").out
    workspace.approved("small.plan.md")
    assert f"→ ordain commit {short}" in workspace.ordain("status").out
    run, _ = workspace.started("asks.plan.md")
    assert f"→ ordain answer {run}/fetch retry" in workspace.ordain("status").out


def test_resume_with_nothing_to_resume(workspace: Workspace):
    done = workspace.ordain("resume")
    assert (done.status, "E_RUN_NOT_FOUND" in done.err) == (REFUSED, True)
    run, _ = workspace.started("small.plan.md")
    done = workspace.ordain("resume", run)
    assert (done.status, "E_RUN_ENDED" in done.err) == (REFUSED, True)
    done = workspace.ordain("resume", "RUN-AAAAAAAAAAAAAAAA")
    assert (done.status, "E_RUN_NOT_FOUND" in done.err) == (REFUSED, True)


def event_types(log: str) -> list[str]:
    """The type of each event, from lines such as `2026-01-01 12:00:00 UTC  0123456789ab  1  plan_prepared …`."""
    return [re.findall(r"\b[a-z]+_[a-z]+\b", line)[0] for line in log.splitlines()]


def test_a_document_that_was_never_prepared_is_not_committed(workspace: Workspace):
    done = workspace.ordain("commit", "./small.plan.md")
    assert (done.status, "→ ordain prepare ./small.plan.md\n" in done.err) == (REFUSED, True)
    assert "No plan was prepared from small.plan.md yet." in done.err
    workspace.approved("small.plan.md")
    assert workspace.ordain("commit", "./small.plan.md").status == FINE


@pytest.mark.slow
def test_resume_wants_a_name_where_several_runs_wait(workspace: Workspace):
    run, _ = workspace.started("asks.plan.md")
    workspace.write("again.plan.md", ASKS.replace("Ask when", "Ask again when"))
    other, _ = workspace.started("again.plan.md")
    done = workspace.ordain("resume")
    assert (done.status, "E_RUN_AMBIGUOUS" in done.err) == (REFUSED, True)
    assert run in done.err and other in done.err
    assert workspace.ordain("resume", run.lower()).status == WAITING


def test_a_yes_whose_run_is_refused_leaves_no_approval_behind(workspace: Workspace):
    prepared = workspace.prepared("asks.plan.md")
    with Terminal("approve", prepared, "--start", cwd=workspace.path) as slow:
        slow.expect("Type yes")
        run, _ = workspace.started("asks.plan.md")  # somebody else is quicker
        slow.type("yes")
        done = slow.end()
    assert (done.status, "E_RUN_OPEN" in done.out) == (REFUSED, True)
    assert workspace.at_terminal("answer", f"{run}/fetch", "abort").status == FAILED
    assert workspace.ordain("commit", workspace.prepared("asks.plan.md")).status == REFUSED
    assert workspace.effects() == ["tried"]


def test_log_tells_a_plans_whole_life(workspace: Workspace):
    run, _ = workspace.started("small.plan.md")
    types = event_types(workspace.ordain("log", workspace.prepared("small.plan.md")).out)
    assert types[:2] == ["plan_prepared", "approval_given"] and {"run_started", "run_ended"} <= set(types)
    types = event_types(workspace.ordain("log", run).out)
    steps = ["attempt_started", "attempt_ended"] * 2
    assert types == ["run_opened", "executor_started", *steps, "run_finished"]
    done = workspace.ordain("log", "RUN-NONE")
    assert (done.status, "E_RUN_NOT_FOUND" in done.err) == (REFUSED, True)


@pytest.mark.slow
def test_show_knows_a_plan_by_all_its_names(workspace: Workspace):
    document = workspace.ordain("show", "small.plan.md").out
    identity = re.findall(r"plan:([0-9a-f]{64})", document)[0]
    workspace.prepared("small.plan.md")
    stored = workspace.ordain("show", identity[:8]).out
    lineage = re.findall(r"PLAN-[A-Z2-7]+", stored)[0]
    names = (identity[:12].upper(), f"plan:{identity}", f"sha256:{identity}", lineage, lineage.lower())
    assert {workspace.ordain("show", name).out for name in names} == {stored}
    added = re.compile(rf"  Lineage: {lineage} \(proposed\), by \S+ \(terminal\)\n|  Approval is void if .*\n")
    assert document in added.sub("", stored)


def test_show_has_three_degrees_of_detail(workspace: Workspace):
    quiet, normal, verbose = (
        workspace.ordain("show", *option, "small.plan.md").out for option in (["--quiet"], [], ["--verbose"])
    )
    assert quiet.splitlines() == [
        "Plan: Make two lines",
        "  1. echo one >> effects",
        "  2. echo two >> effects",
    ]
    assert set(normal.splitlines()) < set(verbose.splitlines())
    assert "Needs:      echo-one-effects" in verbose and "Needs:" not in normal


@pytest.mark.slow
def test_show_shows_a_run_and_a_plan_with_how_its_run_stands(workspace: Workspace):
    run, done = workspace.started("fails.plan.md")
    shown = workspace.ordain("show", run)
    assert (shown.status, shown.out) == (FINE, done.out.lstrip("\n"))
    assert "[FAILED]" in workspace.ordain("show", workspace.prepared("fails.plan.md")).out


@pytest.mark.slow
def test_one_executor_at_a_time(workspace: Workspace):
    other = workspace.approved("small.plan.md")
    with Background("commit", workspace.approved("waits.plan.md"), cwd=workspace.path) as run:
        run.expect_said("▸ slow")
        done = workspace.ordain("commit", "--no-wait", other)
        assert (done.status, "E_WORKSPACE_BUSY" in done.err) == (REFUSED, True)
        assert "executing" in workspace.ordain("status").out
        workspace.write("go", "")
        assert run.end().status == FINE
    assert workspace.ordain("commit", other).status == FINE
    assert workspace.effects() == ["slow", "after", "one", "two"]


# --- Escalation and answers ------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_an_escalation_waits_is_answered_and_goes_on(workspace: Workspace):
    done = workspace.at_terminal("run", "asks.plan.md", answers=[("Type yes", "yes"), ("Your answer", "")])
    assert (done.status, workspace.effects()) == (WAITING, ["tried"])
    item = f"{run_id(done.out)}/fetch"
    assert [f"ordain answer {item} {word}" in done.out for word in ("retry", "skip", "pass", "abort")] == [True] * 4
    assert workspace.ordain("resume").status == WAITING  # nothing was answered
    wrong = workspace.at_terminal("answer", item, "happened")
    assert (wrong.status, "E_ANSWER_CHOICE" in wrong.out) == (REFUSED, True)
    nobody = workspace.at_terminal("answer", item.replace("fetch", "rest"), "skip")
    assert (nobody.status, "E_ANSWER_ITEM" in nobody.out) == (REFUSED, True)
    answered = workspace.at_terminal("answer", item, "skip")
    assert (answered.status, f"→ ordain resume {run_id(item)}" in answered.out) == (FINE, True)
    assert (workspace.ordain("resume").status, workspace.effects()) == (FINE, ["tried", "rest"])
    late = workspace.at_terminal("answer", item, "skip")
    assert (late.status, "E_ANSWER_ITEM" in late.out) == (REFUSED, True)


@pytest.mark.part(of=3)
@pytest.mark.parametrize(
    ("choice", "status", "effects", "shown"),
    [
        ("retry", WAITING, ["tried", "tried"], "attempt 2"),
        ("pass", FINE, ["tried", "rest"], "by a person's word only: fetch"),
    ],
)
@pytest.mark.parametrize("at_once", [True, False])
def test_what_each_answer_does(workspace: Workspace, choice, status, effects, shown, at_once):
    run, _ = workspace.started("asks.plan.md")
    if at_once:
        left = [("Your answer", "")] if status == WAITING else []
        done = workspace.at_terminal("answer", f"{run}/fetch", choice, "--resume", answers=left)
    else:
        assert workspace.at_terminal("answer", f"{run}/fetch", choice).status == FINE
        done = workspace.ordain("resume")
    assert (done.status, workspace.effects(), shown in done.out) == (status, effects, True)


@pytest.mark.part(of=3)
@pytest.mark.parametrize(
    ("choice", "consequence"),
    [("retry", "The step runs again"), ("skip", "not looked at"), ("pass", "every report says: unverified")],
)
def test_an_answer_shows_the_question_and_what_it_leads_to_first(workspace: Workspace, choice: str, consequence: str):
    run, _ = workspace.started("asks.plan.md")
    done = workspace.at_terminal("answer", f"{run}/fetch", choice)
    shown, _, report = done.out.partition("Run:")
    assert done.status == FINE and report
    for text in ("did not succeed. What now?", "attempt 1, escalation", "exit status", consequence, "tier 0"):
        assert text in shown
    assert [f"  {word} " in shown.replace("→", " ") for word in ("retry", "skip", "pass", "abort")] == [True] * 4
    assert "unsigned: nothing proves who said it" in shown


def test_an_answer_to_a_question_that_was_not_seen_is_typed_once_more(workspace: Workspace):
    run, _ = workspace.started("asks.plan.md")
    again = workspace.at_terminal("answer", f"{run}/fetch", "retry", "--resume", answers=[("Your answer", "")])
    assert (again.status, f"ordain answer {run}/fetch@2 skip" in again.out) == (WAITING, True)
    stale = workspace.at_terminal("answer", f"{run}/fetch@1", "pass")
    assert (stale.status, "E_ANSWER_STALE" in stale.out, "What now?" in stale.out) == (REFUSED, True, False)
    unsure = workspace.at_terminal("answer", f"{run}/fetch", "pass", answers=[("Type pass", "")])
    assert (unsure.status, "attempt 2" in unsure.out, "nothing was recorded" in unsure.out) == (REFUSED, True, True)
    assert workspace.ordain("log", run).out.count("decision_given") == 1
    done = workspace.at_terminal("answer", f"{run}/fetch", "skip", "--resume", answers=[("Type skip", "skip")])
    assert done.status == FINE


def test_abort_ends_the_run_at_once(workspace: Workspace):
    run, _ = workspace.started("asks.plan.md")
    done = workspace.at_terminal("answer", f"{run}/fetch", "abort")
    assert (done.status, "aborted by" in done.out, workspace.effects()) == (FAILED, True, ["tried"])


def test_what_was_typed_before_the_question_is_no_answer(workspace: Workspace):
    """Type-ahead must not approve a plan that nobody has seen yet."""
    with Terminal("run", "small.plan.md", cwd=workspace.path) as terminal:
        terminal.type("yes")
        terminal.expect("Type yes")
        terminal.type("")
        terminal.expect("(y/N)")
        terminal.type("")
        assert terminal.end().status == REFUSED
    assert workspace.effects() == []


def test_a_misspelt_policy_cannot_be_trusted(workspace: Workspace):
    workspace.write("ordain.toml", '[policy]\ndeny = ["shel"]\n')
    done = workspace.at_terminal("trust")
    assert (done.status, "Did you mean `shell`?" in done.out) == (REFUSED, True)


# --- lint, explain ---------------------------------------------------------------------------------------------------


def test_lint_of_several_documents(workspace: Workspace):
    done = workspace.ordain("lint", "small.plan.md", "warns.plan.md", "look.plan.md")
    assert (done.status, done.out.count(": good")) == (FINE, 3)
    assert re.search(r"^warns\.plan\.md:5:.*W_CONTRACT_SIGPIPE", done.out, re.MULTILINE)
    assert not Path(os.environ["ORDAIN_HOME"]).exists()


def test_lint_strict_counts_warnings(workspace: Workspace):
    assert workspace.ordain("lint", "--strict", "small.plan.md").status == FINE
    assert workspace.ordain("lint", "--strict", "small.plan.md", "warns.plan.md").status == REFUSED


def test_lint_reports_all_problems_of_all_documents(workspace: Workspace):
    workspace.write("empty.plan.md", "\n")
    workspace.write("limits.plan.md", WARNS + "**timeout:** 2d\n**needs:** 9\n")
    done = workspace.ordain("lint", "empty.plan.md", "small.plan.md", "limits.plan.md")
    assert done.status == REFUSED
    codes = re.findall(r"[EW]_[A-Z_]+", done.out)
    assert codes[0] == "E_DOC_EMPTY"
    assert sorted(codes[1:]) == ["E_STEP_LIMIT", "E_STEP_UNKNOWN_NEED", "W_CONTRACT_SIGPIPE"]
    assert "small.plan.md: good" in done.out


def test_explain(workspace: Workspace):
    done = workspace.ordain("explain", "e_contract_vacuous")
    assert (done.status, problem_pages()["E_CONTRACT_VACUOUS"].remedy in done.out) == (FINE, True)
    done = workspace.ordain("explain", "E_CONTRACT_VACUOS")
    assert (done.status, "E_CODE_UNKNOWN" in done.err) == (REFUSED, True)
    assert "Did you mean `E_CONTRACT_VACUOUS`?" in done.err


# --- init, trust -----------------------------------------------------------------------------------------------------

ALLOWS_COMMANDS = '[policy]\nallow = ["reads", "shell"]\n'


def test_init_writes_the_defaults_once(workspace: Workspace):
    assert workspace.ordain("init").status == FINE
    settings = workspace.path / "ordain.toml"
    assert settings.read_bytes() == settings_template().encode()
    for name, page in re.findall(r"(?m)^\[(\w+)\] .*\((docs/[a-z-]+\.md)\)", settings.read_text()):
        assert f"[{name}]" in (Path(__file__).parents[2] / page).read_text(), f"{page} does not tell of [{name}]"
    assert workspace.ordain("run", "look.plan.md").err.count("W_CONFIG_UNTRUSTED") == 0  # the defaults need no trust
    settings.write_text(ALLOWS_COMMANDS)
    done = workspace.ordain("init")
    assert (done.status, "E_CONFIG" in done.err) == (REFUSED, True)
    assert settings.read_text() == ALLOWS_COMMANDS


def test_a_configuration_that_cannot_be_read_is_no_bug(workspace: Workspace):
    (workspace.path / "ordain.toml").mkdir()
    done = workspace.ordain("run", "look.plan.md")
    assert (done.status, "E_CONFIG" in done.err) == (REFUSED, True)


def test_init_follows_no_link_and_writes_where_it_is_told(workspace: Workspace, tmp_path: Path):
    (workspace.path / "ordain.toml").symlink_to(tmp_path / "elsewhere")
    assert workspace.ordain("init").status == REFUSED
    assert not (tmp_path / "elsewhere").exists()
    other = tmp_path / "other"
    other.mkdir()
    assert workspace.ordain("-C", str(other), "init").status == FINE
    assert (other / "ordain.toml").exists()
    assert workspace.ordain("-C", str(tmp_path / "nowhere"), "init").status == REFUSED


def test_a_configuration_counts_as_trusted_and_no_longer_once_it_changes(workspace: Workspace):
    settings = workspace.write("ordain.toml", ALLOWS_COMMANDS)
    untrusted = workspace.ordain("run", "small.plan.md")
    assert (untrusted.status, workspace.effects()) == (WAITING, [])
    trusted = workspace.at_terminal("trust", answers=[("Type yes", "yes")])
    assert (trusted.status, 'allow = ["reads", "shell"]' in trusted.out) == (FINE, True)
    assert (workspace.ordain("run", "small.plan.md").status, workspace.effects()) == (FINE, ["one", "two"])
    settings.write_text(ALLOWS_COMMANDS + "# a comment\n")
    changed = workspace.at_terminal("run", "small.plan.md", answers=[("Type yes", "no"), ("(y/N)", "")])
    assert (changed.status, "W_CONFIG_UNTRUSTED" in changed.out) == (REFUSED, True)
    assert "→ ordain trust" in changed.out.replace("\x1b[1m", "")
    assert workspace.effects() == ["one", "two"]


def test_a_policy_that_denies_is_stronger_than_any_approval(workspace: Workspace):
    short = workspace.approved("small.plan.md")
    workspace.write("ordain.toml", '[policy]\ndeny = ["shell"]\n')
    assert workspace.at_terminal("trust", answers=[("Type yes", "yes")]).status == FINE
    for arguments in (["run", "small.plan.md"], ["prepare", "small.plan.md"], ["commit", short]):
        done = workspace.ordain(*arguments)
        assert (done.status, "E_POLICY_DENIED" in done.err, workspace.effects()) == (REFUSED, True, [])


def test_an_approval_is_for_the_configuration_it_was_given_under(workspace: Workspace):
    short = workspace.approved("small.plan.md")
    workspace.write("ordain.toml", "[run]\nconcurrency = 2\n")
    assert workspace.at_terminal("trust", answers=[("Type yes", "yes")]).status == FINE
    done = workspace.ordain("commit", short)
    assert (done.status, "E_PLAN_STALE_BASE" in done.err, workspace.effects()) == (REFUSED, True, [])


@pytest.mark.part(of=4)
@pytest.mark.parametrize("answer", ["", "no", CTRL_C, CTRL_D])
def test_a_configuration_that_is_not_trusted_does_not_count(workspace: Workspace, answer: str):
    workspace.write("ordain.toml", ALLOWS_COMMANDS)
    done = workspace.at_terminal("trust", answers=[("Type yes", answer)])
    assert (done.status, "Not trusted" in done.out) == (REFUSED, True)
    assert workspace.ordain("run", "small.plan.md").status == WAITING


def test_a_configuration_that_cannot_be_trusted(workspace: Workspace):
    done = workspace.at_terminal("trust")
    assert (done.status, "There is no ordain.toml" in done.out) == (REFUSED, True)
    workspace.write("ordain.toml", "[policy]\nalow = []\n")
    done = workspace.at_terminal("trust")
    assert (done.status, "E_CONFIG" in done.out) == (REFUSED, True)


def test_what_is_trusted_is_what_was_shown(workspace: Workspace):
    settings = workspace.write("ordain.toml", "[run]\nconcurrency = 2\n")
    with Terminal("trust", cwd=workspace.path) as terminal:
        terminal.expect("Type yes")
        settings.write_text(ALLOWS_COMMANDS)  # an agent is quicker than the person's yes
        terminal.type("yes")
        terminal.end()
    assert workspace.ordain("run", "small.plan.md").status == WAITING
    assert workspace.effects() == []


# --- Identity of plans -----------------------------------------------------------------------------------------------


def identity(workspace: Workspace, text: str) -> str:
    done = without_terminal("lint", str(workspace.write("identity.plan.md", text)), cwd=workspace.path)
    return re.findall(r"plan:[0-9a-f]{64}", done.out)[0]


def test_one_document_is_one_plan_in_every_clone_and_each_clone_wants_its_own_approval(
    workspace: Workspace, tmp_path: Path
):
    short = workspace.approved("small.plan.md")
    shutil.copytree(workspace.path, tmp_path / "clone")
    clone = Workspace(tmp_path / "clone")
    assert clone.prepared("small.plan.md") == short
    done = clone.ordain("commit", short)
    assert (done.status, "E_PLAN_APPROVAL_MISSING" in done.err, clone.effects()) == (WAITING, True, [])


def test_one_byte_of_a_contract_is_another_plan(workspace: Workspace):
    text = "# One\n\n## Steps\n\n### 1. Write\n\n**run:** echo one >> effects\n**contract:** test -s effects\n"
    assert identity(workspace, text) != identity(workspace, text.replace("test -s", "test -e"))


def test_marks_of_progress_change_nothing(workspace: Workspace):
    plain = "---\ntype: plan\n---\n\n# One\n\n## Steps\n\n### 1. Write\n\n**run:** echo one >> effects\n"
    marked = plain.replace("type: plan", "type: plan\nstatus: approved").replace("1. Write", "1. ✅ Write")
    assert marked.count("approved") == marked.count("✅") == 1
    assert identity(workspace, plain) == identity(workspace, marked)
    done = workspace.ordain("run", "identity.plan.md")
    assert (done.status, workspace.effects()) == (WAITING, [])


# --- State directory -------------------------------------------------------------------------------------------------


def test_state_directories_that_are_not_safe(workspace: Workspace, tmp_path: Path):
    mine, open_to_all = tmp_path / "mine", tmp_path / "open"
    mine.mkdir(mode=0o700)
    open_to_all.mkdir()
    open_to_all.chmod(0o755)
    (tmp_path / "link").symlink_to(mine)
    (tmp_path / "file").write_text("")
    (tmp_path / "door").symlink_to(workspace.path)
    for place, why in [
        (workspace.path, "inside the workspace"),
        (workspace.path / "state", "inside the workspace"),
        (tmp_path / "door" / "state", "inside the workspace"),
        (open_to_all, "read or written by others"),
        (tmp_path / "link", "is a link"),
        (tmp_path / "file", "is not a directory"),
        (Path("state"), "not an absolute path"),
    ]:
        done = workspace.ordain("run", "look.plan.md", env={"ORDAIN_HOME": str(place)})
        assert (done.status, "E_STATE_DIR" in done.err, why in done.err) == (REFUSED, True, True), place
    assert not (workspace.path / "state").exists()


@pytest.mark.part(of=2)
@pytest.mark.parametrize("marker", ["", ".git"])
def test_in_the_home_directory_one_is_sent_to_the_project(tmp_path: Path, marker: str):
    home = tmp_path / "home"
    (home / marker).mkdir(parents=True)
    env = {"ORDAIN_HOME": None, "XDG_STATE_HOME": None, "HOME": str(home)}
    done = without_terminal("show", "0123456789ab", cwd=home, env=env)
    assert (done.status, "E_STATE_DIR" in done.err) == (REFUSED, True)
    assert "ordain -C DIR" in done.err and "`ordain init`" in done.err and "ORDAIN_HOME" not in done.err
    (home / "project").mkdir()
    assert without_terminal("init", cwd=home / "project", env=env).status == FINE
    (home / "project" / "look.plan.md").write_text("# Look\n\n1. `true`\n")
    assert without_terminal("prepare", "look.plan.md", cwd=home / "project", env=env).status == FINE
    done = without_terminal("-C", "project", "inbox", cwd=home, env=env)
    assert (done.status, "Look" in done.out) == (FINE, True)


@pytest.mark.slow
def test_a_plan_of_another_workspace_is_found_with_the_command_that_is_told(workspace: Workspace, tmp_path: Path):
    short = workspace.prepared("small.plan.md")
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    mark_workspace(elsewhere)
    done = without_terminal("show", short, cwd=elsewhere)
    assert (done.status, "E_PLAN_NOT_FOUND" in done.err) == (REFUSED, True)
    assert "→ ordain inbox --all" in done.err
    assert short in without_terminal("inbox", "--all", cwd=elsewhere).out


@pytest.mark.slow
def test_the_locale_changes_nothing(workspace: Workspace):
    ascii_only = {"LC_ALL": "C", "LANG": None, "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    for arguments in (["show", "small.plan.md"], ["lint", "warns.plan.md"], ["prepare", "look.plan.md"]):
        plain, odd = (workspace.ordain(*arguments, env=env) for env in ({}, ascii_only))
        without_ids = [re.sub(r"P(LAN|REP)-\w+|\d+:\d\d:\d\d|Ledger: .*", "", done.out) for done in (plain, odd)]
        assert (odd.status, without_ids[1]) == (FINE, without_ids[0])
    assert workspace.ordain("init", env=ascii_only).status == FINE
    assert (workspace.path / "ordain.toml").read_bytes() == settings_template().encode()


def test_without_a_home_only_looking_works(workspace: Workspace):
    homeless = {"HOME": None, "ORDAIN_HOME": None, "XDG_STATE_HOME": None}
    for arguments in (["lint", "small.plan.md"], ["show", "small.plan.md"], ["explain", "E_PATH"], ["--help"]):
        assert workspace.ordain(*arguments, env=homeless).status == FINE
    done = workspace.ordain("run", "look.plan.md", env=homeless)
    assert (done.status, "E_STATE_DIR" in done.err) == (REFUSED, True)


def test_state_lives_under_home_by_default_and_is_nobody_elses(workspace: Workspace, tmp_path: Path):
    home = tmp_path / "home"
    home.mkdir()
    assert workspace.ordain("run", "look.plan.md", env={"ORDAIN_HOME": None, "HOME": str(home)}).status == FINE
    ledger = next(home.rglob("ledger.db"))
    state = ledger.parents[2]
    assert state.name == "ordain"
    assert [oct(path.stat().st_mode & 0o777) for path in (state, ledger.parent, ledger)] == ["0o700", "0o700", "0o600"]


# --- Colour, pages, help ---------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_no_escape_byte_outside_a_terminal_and_none_with_no_color(workspace: Workspace):
    _, done = workspace.started("fails.plan.md")
    texts = [done.out, done.err]
    for arguments in (["show", "small.plan.md"], ["status"], ["run", "small.plan.md"], ["lint", "warns.plan.md"]):
        done = workspace.ordain(*arguments)
        texts += [done.out, done.err]
    for plain in ({"NO_COLOR": "1"}, {"NO_COLOR": ""}, {"TERM": "dumb"}):
        texts.append(workspace.at_terminal("show", "small.plan.md", env=plain).out)
    plain = {"TERM": "dumb"}
    texts.append(workspace.at_terminal("run", "fails.plan.md", answers=[("Type yes", "yes")], env=plain).out)
    assert ["\x1b" in text for text in texts] == [False] * len(texts)
    workspace.write("slow.plan.md", "# Slow\n\n1. `sleep 0.5; exit 1`\n")
    shown = workspace.at_terminal("run", "slow.plan.md", answers=[("Type yes", "yes")], env={"NO_COLOR": "1"}).out
    assert "\x1b[?2026h" in shown, "how it stands is drawn"
    assert re.findall(r"\x1b\[[0-9;]*m", shown) == []
    assert "\x1b[1mPlan:\x1b[0m" in workspace.at_terminal("show", "small.plan.md").out


def test_what_commands_print_cannot_drive_the_terminal(workspace: Workspace):
    workspace.write("evil.plan.md", "# Evil\n\n1. `printf '\\033[2J\\033]0;pwned\\007\\r\\b\\302\\233H'; exit 1`\n")
    done = workspace.at_terminal("run", "evil.plan.md", answers=[("Type yes", "yes")], env={"TERM": "dumb"})
    assert (done.status, "‹U+1B›[2J‹U+1B›]0;pwned‹U+7›‹U+D›‹U+8›‹U+9B›H" in done.out) == (FAILED, True)
    assert set(done.out) & {chr(code) for code in (*range(32), *range(127, 160))} == {"\n"}


@pytest.mark.slow
def test_a_preview_longer_than_the_screen_is_shown_to_its_end_first(workspace: Workspace):
    wide = "x" * 1500 + " THE END"
    workspace.write("wide.plan.md", f"# Wide\n\n1. `echo {wide} >> effects`\n")
    screen = {"rows": 21, "columns": 80, "env": {"NO_COLOR": "1"}}
    for page in range(1, 3):  # leaving before the end is a no
        answers = [("Enter for more", "")] * (page - 1) + [("Enter for more", "q"), ("(y/N)", "")]
        done = workspace.at_terminal("run", "wide.plan.md", answers=answers, **screen)
        assert (done.status, "Type yes" in done.out, workspace.effects()) == (REFUSED, False, [])
    answers = [("Enter for more", "")] * 2 + [("Enter to answer", ""), ("Type yes", "yes")]
    done = workspace.at_terminal("run", "wide.plan.md", answers=answers, **screen)
    assert done.status == FINE
    preview = done.out.partition("Type yes")[0].replace("\n↪ ", "")
    assert preview.count("x") >= 1500 and preview.count("THE END") == 1 and "Trust:" in preview


@each("name", [name for group in _GROUPS.values() for name in group])
def test_every_command_has_help_with_an_example(name: str):
    done = CliRunner().invoke(main, [name, "--help"])
    assert (done.exit_code, f"Example: ordain {name}" in done.output) == (FINE, True)


def test_help_lists_every_command_and_misspelt_ones_get_a_hint(workspace: Workspace):
    shown = CliRunner().invoke(main, ["--help"]).output
    assert all(f"  {name} " in shown for group in _GROUPS.values() for name in group)
    for arguments in (["lnit", "x"], ["lint"], ["lint", "--stric", "x"], ["-C", "nowhere", "status"]):
        done = workspace.ordain(*arguments)
        assert (done.status, done.out) == (REFUSED, "")
    assert "Did you mean `simulate`?" in workspace.ordain("simulte").err


def test_a_bug_is_called_one(workspace: Workspace, monkeypatch: pytest.MonkeyPatch):
    def impossible(self: PlanVerbs, **wanted: object) -> None:
        raise ZeroDivisionError("cannot happen")

    monkeypatch.setattr(PlanVerbs, "all", impossible)
    monkeypatch.chdir(workspace.path)
    done = CliRunner().invoke(main, ["status"])
    assert (done.exit_code, "B_BUG ZeroDivisionError: cannot happen" in done.output) == (BUG, True)


# --- Interrupting ----------------------------------------------------------------------------------------------------


def marked_processes(run: str) -> list[int]:
    pids = [int(path.name) for path in Path("/proc").iterdir() if path.name.isdigit()]
    return [pid for pid in pids if (mark_of(pid) or "").startswith(run)]


def test_the_first_interrupt_lets_the_step_end_and_resume_completes(workspace: Workspace):
    with Background("commit", workspace.approved("waits.plan.md"), cwd=workspace.path) as run:
        run.expect_said("▸ slow")
        run.interrupt()
        run.expect_said("stopping when what is under way has ended")
        workspace.write("go", "")
        done = run.end()
    assert (done.status, workspace.effects()) == (INTERRUPTED, ["slow"])
    assert f"→ ordain resume {run_id(done.out)}" in done.out
    assert (workspace.ordain("resume").status, workspace.effects()) == (FINE, ["slow", "after"])


def test_ctrl_c_at_the_terminal_does_not_reach_the_step(workspace: Workspace):
    with Terminal("run", "waits.plan.md", cwd=workspace.path) as terminal:
        terminal.expect("Type yes")
        terminal.type("yes")
        terminal.expect("▸")
        terminal.type(CTRL_C)
        terminal.expect("stopping when")
        workspace.write("go", "")
        assert terminal.end().status == INTERRUPTED
    assert workspace.effects() == ["slow"]


@pytest.mark.slow
def test_a_terminal_that_goes_away_interrupts_too(workspace: Workspace):
    with Terminal("commit", workspace.approved("waits.plan.md"), cwd=workspace.path) as terminal:
        terminal.expect("▸")
        eventually((workspace.path / "pid").exists, "the step")
        threading.Timer(0.3, workspace.write, ("go", "")).start()
        assert terminal.hang_up() == INTERRUPTED
    assert workspace.effects() == ["slow"]
    assert (workspace.ordain("resume").status, workspace.effects()) == (FINE, ["slow", "after"])


def test_a_terminal_that_goes_away_while_a_person_is_asked(workspace: Workspace):
    with Terminal("run", "small.plan.md", cwd=workspace.path) as terminal:
        terminal.expect("Type yes")
        assert terminal.hang_up() == INTERRUPTED
    assert workspace.effects() == []


@pytest.mark.slow
def test_the_second_interrupt_kills_at_once_and_leaves_the_step_in_doubt(workspace: Workspace):
    with Background("commit", workspace.approved("waits.plan.md"), cwd=workspace.path) as run:
        pid = workspace.path / "pid"
        eventually(lambda: pid.exists() and pid.read_text().endswith("\n"), "the step")
        run.interrupt()
        run.expect_said("stopping when")
        run.interrupt()
        done = run.end()
    assert (done.status, workspace.effects()) == (INTERRUPTED, [])
    identity = run_id(workspace.ordain("status").out)
    assert f"looked at by: ordain resume {identity}\n" in done.err
    assert not Path(f"/proc/{pid.read_text().strip()}").exists()
    assert marked_processes(identity) == []
    workspace.write("go", "")
    doubtful = workspace.ordain("resume")
    assert (doubtful.status, "in_doubt" in doubtful.out, workspace.effects()) == (WAITING, True, [])
    assert workspace.at_terminal("answer", f"{identity}/slow", "did-not").status == FINE
    assert (workspace.ordain("resume").status, workspace.effects()) == (FINE, ["slow", "after"])


@pytest.mark.slow
def test_in_another_locale_a_command_is_still_the_bytes_that_were_approved(workspace: Workspace):
    """A Latin-1 locale where one can be had; anywhere, an encoding that is not UTF-8."""
    workspace.write("u.plan.md", "# Umläute — überall\n\n1. `printf äöü > ü.txt`\n")
    env = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    done = workspace.at_terminal("run", "u.plan.md", answers=[("Type yes", "yes")], env=env)
    assert done.status == FINE
    assert (workspace.path / "ü.txt").read_bytes() == "äöü".encode()
    assert without_terminal("status", cwd=workspace.path, env=env).status == FINE


def test_a_device_or_a_stream_without_end_is_refused_in_time(workspace: Workspace):
    done = workspace.ordain("lint", "/dev/zero")
    assert (done.status, "E_DOC_TOO_LARGE" in done.out + done.err) == (REFUSED, True)


def test_lint_and_status_make_no_state(workspace: Workspace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("ORDAIN_HOME", str(tmp_path / "state"))
    workspace.write("named.plan.md", "---\nworkspace_id: WS-OTHER\n---\n\n# Named\n\n1. `true`\n")
    assert workspace.ordain("lint", "named.plan.md").status == REFUSED
    assert workspace.ordain("status").status == FINE
    assert not (tmp_path / "state").exists()


def test_nobody_is_asked_about_a_run_that_could_not_start(workspace: Workspace):
    first = workspace.at_terminal("run", "asks.plan.md", answers=[("Type yes", "yes"), ("Your answer", "")])
    assert first.status == WAITING
    again = workspace.at_terminal("run", "asks.plan.md")
    assert (again.status, "E_RUN_OPEN" in again.out, "ordain answer RUN-" in again.out) == (REFUSED, True, True)
    assert "Type yes" not in again.out


def test_a_long_line_cannot_look_like_a_line_of_ours(workspace: Workspace):
    command = "git push --force #"
    padding = " " * (80 - len("       $ ") - len(command))
    fake = "       Contract:   pytest -q"
    workspace.write(
        "fake.plan.md", f"# Fake\n\n## Steps\n\n### 1. Push\n\n**run:**\n```\n{command}{padding}{fake}\n```\n"
    )
    shown = workspace.at_terminal("show", "fake.plan.md", columns=80)
    assert not any(line.startswith("       Contract:") for line in shown.out.split("\n"))
    assert f"↪ {fake}" in shown.out
