"""`ordain audit`: what it says of a ledger that is whole and of one that is not, copies, and the way back from them."""

from __future__ import annotations

import asyncio
import json
import os
import re
import shutil
from pathlib import Path
from typing import Any

import apsw
import click
import pytest
from click.testing import CliRunner

from ordain.interfaces.cli.main import _GROUPS
from tests.interfaces.test_robot import answered, refused
from tests.interfaces.workspace import KIM, Workspace
from tests.rows import each
from tests.words import FAILED, FINE, REFUSED, WAITING, main, open_at_terminal

ROOT = Path(__file__).parent.parent.parent
FITS = "Ledger verified."
CHECKPOINT = re.compile(r"^  ([0-9]+:[0-9a-f]{64})$", re.MULTILINE)
SUBCOMMANDS = ("verify", "export", "backup", "restore", "rebuild")


def ledgers() -> list[Path]:
    return list((Path(os.environ["ORDAIN_HOME"]) / "workspaces").glob("*/ledger.db"))


def ledger_file() -> Path:
    (found,) = ledgers()
    return found


def lose_ledger() -> None:
    """As when the disk that held it is gone."""
    file = ledger_file()
    for name in ("-wal", "-shm", ""):
        file.with_name(file.name + name).unlink(missing_ok=True)


def tamper(statement: str) -> None:
    connection = apsw.Connection(str(ledger_file()))
    connection.execute(statement)
    connection.close()


def groups() -> list[tuple[str, str]]:
    """Every command of every command that has some."""
    context = click.Context(main)
    names = [name for group in _GROUPS.values() for name in group]
    found = [(name, main.get_command(context, name)) for name in names]  # type: ignore[attr-defined]
    return [
        (name, sub)
        for name, command in found
        if isinstance(command, click.Group)
        for sub in command.list_commands(context)
    ]


@each("group, name", groups())
def test_every_subcommand_has_help_with_an_example_and_json(group: str, name: str) -> None:
    done = CliRunner().invoke(main, [group, name, "--help"])
    assert (done.exit_code, f"Example: ordain {group} {name}" in done.output, "--json" in done.output) == (
        FINE,
        True,
        True,
    )


def test_the_commands_of_audit_are_those_tested_here() -> None:
    assert sorted(name for group, name in groups() if group == "audit") == sorted(SUBCOMMANDS)


# --- Verifying -------------------------------------------------------------------------------------------------------


def test_a_whole_ledger_fits_and_says_what_to_keep(workspace: Workspace) -> None:
    workspace.started("small.plan.md")
    done = workspace.ordain("audit", "verify")
    assert (done.status, done.err, FITS in done.out) == (FINE, "", True)
    assert ": unsigned, completed" in done.out and "cut off" in done.out
    assert re.search(r" \d+ events, \d+ streams, 1 plan, 1 run\.\n", done.out)
    (kept,) = CHECKPOINT.findall(done.out)
    workspace.prepared("fails.plan.md")  # it may grow
    done = workspace.ordain("audit", "verify", "--checkpoint", kept)
    assert (done.status, ", 2 plans, 1 run." in done.out) == (FINE, True)
    other = f"{kept[:-1]}{'0' if kept[-1] != '0' else '1'}"
    done = workspace.ordain("audit", "verify", "--checkpoint", other)
    assert (done.status, "not those of the checkpoint" in done.out) == (FAILED, True)


def test_a_workspace_without_a_ledger_gets_none_by_looking(workspace: Workspace) -> None:
    assert workspace.ordain("audit", "verify").status == FINE
    assert workspace.ordain("audit", "verify", "--checkpoint", f"1:{'0' * 64}").status == FAILED
    for name in ("export", "rebuild"):
        done = workspace.ordain("audit", name)
        assert (done.status, "E_LEDGER_MISSING" in done.err) == (REFUSED, True)
    assert ledgers() == []


@pytest.mark.parametrize(
    "arguments", [("--checkpoint", "12"), ("--checkpoint", f"-1:{'0' * 64}"), ("--key", "nothing"), ("--key", ".")]
)
def test_what_is_no_checkpoint_or_key_is_refused(workspace: Workspace, arguments: tuple[str, str]) -> None:
    done = workspace.ordain("audit", "verify", *arguments)
    assert (done.status, done.out) == (REFUSED, "")


def test_a_key_that_the_ledger_does_not_know_is_told_of(workspace: Workspace) -> None:
    workspace.started("small.plan.md")
    done = workspace.ordain("audit", "verify", "--key", f"ed25519:{'0' * 64}")
    found = re.findall("^signature  .*", done.out, re.MULTILINE)  # never enrolled, and a run that nobody signed for
    assert (done.status, len(found)) == (FAILED, 2)


def test_a_changed_event_is_found(workspace: Workspace) -> None:
    workspace.started("small.plan.md")
    tamper("UPDATE events SET body = cast(replace(cast(body AS TEXT), 'two', 'ten') AS BLOB)")
    done = workspace.ordain("audit", "verify")
    assert (done.status, "chain" in done.out, FITS in done.out) == (FAILED, True, False)


@pytest.mark.slow
def test_a_stale_table_is_found_and_made_anew(workspace: Workspace) -> None:
    workspace.started("small.plan.md")
    for statement in (
        "UPDATE streams SET size = size + 1",
        "UPDATE streams SET head = zeroblob(32) WHERE stream LIKE 'run/%'",
        "DELETE FROM names",
        "UPDATE names SET stream = 'workspace'",
        "UPDATE plans SET body = cast(replace(cast(body AS TEXT), 'completed', 'proposed') AS BLOB)",
        "DELETE FROM plans",
    ):
        tamper(statement)
        done = workspace.ordain("audit", "verify")
        assert (done.status, "table" in done.out, "→ ordain audit rebuild" in done.out) == (FAILED, True, True), (
            statement
        )
        assert workspace.ordain("audit", "rebuild").status == FINE
        assert workspace.ordain("audit", "verify").status == FINE


def test_nothing_stored_reaches_the_terminal_as_it_is(workspace: Workspace) -> None:
    workspace.started("small.plan.md")
    tamper(
        "UPDATE events SET body = cast(replace(cast(body AS TEXT), 'lineage/', '\\u001b[31m') AS BLOB) WHERE seq = 1"
    )
    done = workspace.at_terminal("audit", "verify", env={"NO_COLOR": "1"})
    assert (done.status, "\x1b[31m" in done.out) == (FAILED, False)


# --- Copies ----------------------------------------------------------------------------------------------------------


@pytest.mark.part(of=2)
@pytest.mark.parametrize("how", ["backup", "export"])
def test_a_copy_is_restored_by_a_person_and_permits_nothing(workspace: Workspace, how: str) -> None:
    workspace.started("small.plan.md")
    approved = workspace.approved("fails.plan.md")
    copy = str(workspace.path / "copy")
    done = (
        workspace.ordain("audit", "backup", copy)
        if how == "backup"
        else workspace.ordain("audit", "export", "-o", copy)
    )
    (kept,) = CHECKPOINT.findall(done.out)
    assert done.status == FINE
    again = ("audit", "restore", copy)
    done = workspace.at_terminal(*again, env={"NO_COLOR": "1"})
    assert (done.status, "E_LEDGER_EXISTS" in done.out) == (REFUSED, True)
    lose_ledger()
    assert workspace.ordain(*again).status == WAITING  # nobody at a terminal
    done = workspace.at_terminal(*again, answers=[("Type yes", "no")])
    assert (done.status, ledgers()) == (REFUSED, [])
    done = workspace.at_terminal(*again, answers=[("Type yes", "yes")])
    assert (done.status, CHECKPOINT.findall(done.out)) == (FINE, [kept])
    assert "Ended, because" in done.out
    assert workspace.ordain("audit", "verify", "--checkpoint", kept).status == FINE
    done = workspace.ordain("commit", approved)
    assert (done.status, "E_APPROVAL_REVOKED" in done.err) == (REFUSED, True)


@pytest.mark.slow
def test_a_run_that_is_open_in_a_copy_has_ended_in_what_is_restored(workspace: Workspace) -> None:
    run, _ = workspace.started("asks.plan.md")
    copy = str(workspace.path / "copy")
    assert workspace.ordain("audit", "backup", copy).status == FINE
    lose_ledger()
    done = workspace.at_terminal("audit", "restore", copy, answers=[("Type yes", "yes")])
    assert (done.status, run in done.out) == (FINE, True)
    done = workspace.ordain("resume", run)
    assert (done.status, "E_RUN_ENDED" in done.err) == (REFUSED, True)
    assert workspace.ordain("audit", "verify").status == FINE


def test_a_restore_that_died_half_way_left_no_ledger(workspace: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    approved = workspace.approved("small.plan.md")
    copy = workspace.path / "copy"
    assert workspace.ordain("audit", "backup", str(copy)).status == FINE
    lose_ledger()

    async def dies(*seen: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr("ordain.app.audits._end_what_is_open", dies)
        with pytest.raises(KeyboardInterrupt):
            asyncio.run(open_at_terminal(workspace.path).audits.restore(copy, KIM))
    assert ledgers() == []
    done = workspace.at_terminal("audit", "restore", str(copy), answers=[("Type yes", "yes")])
    assert done.status == FINE
    assert "E_APPROVAL_REVOKED" in workspace.ordain("commit", approved).err


def test_looking_at_other_workspaces_changes_none_of_their_ledgers(workspace: Workspace, tmp_path: Path) -> None:
    old = Path(os.environ["ORDAIN_HOME"]) / "workspaces" / ("a" * 32)
    old.mkdir(parents=True, mode=0o700)
    old.parent.parent.chmod(0o700)
    shutil.copy(ROOT / "tests/golden/ledgers/v1.db", old / "ledger.db")
    (old / "ledger.db").chmod(0o600)
    before = (old / "ledger.db").read_bytes()
    for arguments in (["show", "small.plan.md"], ["inbox", "--all"], ["status"]):
        assert workspace.ordain(*arguments).status == FINE
    assert (old / "ledger.db").read_bytes() == before


def test_an_export_goes_to_standard_output(workspace: Workspace) -> None:
    workspace.started("small.plan.md")
    done = workspace.ordain("audit", "export")
    first, *lines = done.out.splitlines()
    assert (done.status, json.loads(first)["size"]) == (FINE, len(lines))
    assert [json.loads(line)["position"] for line in lines] == list(range(1, len(lines) + 1))


def test_a_backup_takes_nobodys_place(workspace: Workspace) -> None:
    workspace.started("small.plan.md")
    workspace.write("copy", "mine")
    done = workspace.ordain("audit", "backup", "copy")
    assert (done.status, (workspace.path / "copy").read_text()) == (REFUSED, "mine")


# --- Robots ----------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_json_audit(workspace: Workspace) -> None:
    run, _ = workspace.started("small.plan.md")
    value: dict[str, Any] = answered(workspace.ordain("audit", "verify", "--json"))
    assert (value["good"], value["findings"], value["checkpoint"]) == (True, [], f"{value['events']}:{value['head']}")
    assert [(one["run_id"], one["approval"], one["status"]) for one in value["runs"]] == [
        (run, "unsigned", "completed")
    ]
    target = str(workspace.path / "exported")
    exported = answered(workspace.ordain("audit", "export", "-o", target, "--json"))
    copied = {"events": value["events"], "checkpoint": value["checkpoint"], "outputs_left_out": True}
    assert exported == {"written": target, **copied}
    target = str(workspace.path / "backup")
    backed_up = answered(workspace.ordain("audit", "backup", target, "--json"))
    assert backed_up == {"written": target, **copied}, "exact outputs are for a person at a terminal"
    rebuilt = answered(workspace.ordain("audit", "rebuild", "--json"))
    assert rebuilt == {"events": value["events"], "copies": 0}
    lose_ledger()
    refused(workspace.ordain("audit", "restore", target, "--json"), "E_APPROVAL_CHANNEL", WAITING)


def test_findings_in_json(workspace: Workspace) -> None:
    workspace.started("small.plan.md")
    tamper("DELETE FROM names")
    document = refused(workspace.ordain("audit", "verify", "--json"), "F_AUDIT_FINDINGS", FAILED)
    assert document["next"] == ["ordain audit rebuild"]
    assert {one["kind"] for one in document["data"]["findings"]} == {"table"} and not document["data"]["good"]
    tamper("DELETE FROM events WHERE position = 2")
    document = refused(workspace.ordain("audit", "verify", "--json"), "F_AUDIT_FINDINGS", FAILED)
    assert document["next"] == [] and "missing" in {one["kind"] for one in document["data"]["findings"]}
