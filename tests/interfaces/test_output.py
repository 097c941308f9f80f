"""What a step wrote, shown to people: redacted, with nothing that a terminal would act on, exact only in a file."""

from __future__ import annotations

import stat

import pytest

from tests.interfaces.workspace import Workspace, run_id
from tests.patience import eventually

PLAN = """\
# Write much

## Steps

### 1. Loud

**run:** {command}

### 2. Checked

**run:** echo from the step
**contract:** echo from the contract; test -d .
"""


def ran(workspace: Workspace, command: str) -> str:
    workspace.write("loud.plan.md", PLAN.format(command=command))
    run, done = workspace.started("loud.plan.md")
    assert done.status == 0, done
    return run


def test_an_output_is_shown_redacted_and_harmless_and_written_exactly(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DEPLOY_TOKEN", "correct-horse-battery")
    run = ran(workspace, r"printf 'one\033[2J\ncorrect-horse-'; printf 'battery\n\303\244'")
    shown = workspace.ordain("show", run, "--output", "loud").out
    assert shown == "one‹U+1B›[2J\n[redacted DEPLOY_TOKEN]\nä\n"
    done = workspace.at_terminal("show", run, "--output", "loud", "-o", "exact")
    assert "Wrote exact: 32 bytes, exactly as they came, secrets too." in done.out
    file = workspace.path / "exact"
    assert file.read_bytes() == b"one\x1b[2J\ncorrect-horse-battery\n\xc3\xa4"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    (workspace.path / "link").symlink_to("elsewhere")
    for taken in ("exact", "link", "nowhere/x"):
        done = workspace.at_terminal("show", run, "--output", "loud", "-o", taken)
        assert (done.status, "E_OUTPUT" in done.out) == (2, True)
    assert not (workspace.path / "elsewhere").exists()


@pytest.mark.slow
def test_a_secret_across_two_parts_of_a_long_output_is_hidden(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DEPLOY_TOKEN", "correct-horse-battery")
    before = (1 << 20) - 8
    run = ran(workspace, f"head -c {before} /dev/zero | tr '\\0' x; printf correct-horse-; echo battery; seq 300000")
    done = workspace.ordain("show", run, "--output", "loud")
    assert done.out == "x" * before + "[redacted DEPLOY_TOKEN]\n" + "".join(f"{n}\n" for n in range(1, 300_001))
    assert done.err == ""


@pytest.mark.slow
def test_of_what_is_too_long_the_end_is_shown_and_that_is_said(workspace: Workspace) -> None:
    run = ran(workspace, "head -c 70000000 /dev/zero | tr '\\0' '\\n'; echo END")
    done = workspace.ordain("show", run, "--output", "loud")
    assert done.err == "Kept are the last 1,048,576 of 70,000,004 bytes:\n"
    assert done.out.endswith("\nEND\n") and len(done.out) <= 1 << 20
    assert "only the last 1 MiB of its 70,000,004 bytes are kept" in workspace.ordain("show", run).out
    workspace.at_terminal("show", run, "--output", "loud", "-o", "exact")
    assert (workspace.path / "exact").stat().st_size == 1 << 20


def test_of_one_long_line_the_end_is_shown_too(workspace: Workspace) -> None:
    run = ran(workspace, "head -c 70000000 /dev/zero | tr '\\0' x; printf END")
    done = workspace.ordain("show", run, "--output", "loud")
    assert done.out.endswith("xxxEND\n")
    assert len(done.out) > 900_000, "only as much is left out as the rest of a secret could take"


@pytest.mark.slow
def test_what_a_step_wrote_that_failed_is_kept_too(workspace: Workspace) -> None:
    workspace.write("loud.plan.md", PLAN.format(command="seq 1000; exit 3"))
    run, done = workspace.started("loud.plan.md")
    assert (done.status, f"… earlier lines: ordain show {run} --output loud\n" in done.out) == (1, True)
    everything = "".join(f"{n}\n" for n in range(1, 1001))
    assert workspace.ordain("show", run, "--output", "loud").out == everything
    workspace.write("long.plan.md", PLAN.format(command="seq 300000; exit 3"))
    run, _ = workspace.started("long.plan.md")
    assert workspace.ordain("show", run, "--output", "loud").out.count("\n") == 300_000
    done = workspace.ordain("show", run, "--output", "checked")
    assert f"`checked` has not begun in {run}." in done.err


@pytest.mark.slow
def test_a_step_that_wrote_nothing_or_has_not_ended_is_told_so(workspace: Workspace) -> None:
    run = ran(workspace, "true")
    done = workspace.ordain("show", run, "--output", "loud")
    assert (done.status, f"E_OUTPUT_NOT_KEPT `loud` wrote nothing in {run}." in done.err) == (2, True)
    run = run_id(workspace.ordain("commit", "--detach", workspace.approved("waits.plan.md")).out)
    eventually((workspace.path / "pid").exists, "the first step")
    assert f"`slow` has not ended in {run}." in workspace.ordain("show", run, "--output", "slow").err
    workspace.write("go", "")
    workspace.ordain("watch", run)


def test_verbose_shows_what_a_step_wrote_beside_what_its_contract_wrote(workspace: Workspace) -> None:
    run = ran(workspace, "true")
    shown = workspace.ordain("show", "--verbose", run).out
    assert shown.index("It wrote:") < shown.index("│ from the step") < shown.index("Its contract wrote:")
    assert shown.index("Its contract wrote:") < shown.index("│ from the contract")
    assert "from the step" not in workspace.ordain("show", run).out


@pytest.mark.parametrize(
    "args", [["small.plan.md", "--output", "x"], ["small.plan.md", "-o", "x"], ["RUN-X", "--graph", "--output", "x"]]
)
def test_what_does_not_go_together_is_refused(workspace: Workspace, args: list[str]) -> None:
    assert workspace.ordain("show", *args).status == 2
    assert not (workspace.path / "x").exists()
