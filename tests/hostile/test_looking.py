"""Verbs that only look: what an agent gets out of them that nobody permitted. Each is the real command, or the real
engine where an event in between matters."""

from __future__ import annotations

import asyncio
import json
import pwd
import re
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from ordain import Channel, Principal, Refused, open_workspace
from tests.interfaces.terminal import ORDAIN
from tests.interfaces.workspace import KIM, Workspace
from tests.patience import PATIENCE_S, eventually
from tests.programs import need
from tests.words import Records, StepId, open_at_terminal

PLAIN = {"NO_COLOR": "1"}
SECRET = "Ordain!9"
ORACLE = "# Read a private file\n\n## Steps\n" + "".join(
    f"""
### {n}. Byte {n}

**id:** b{n}
**run:** true
**contract:** exit $(printf %d "'$(cut -c{n} FILE)")
"""
    for n in range(1, len(SECRET) + 1)
)
"""Each exit status would be a letter of a file of the user's."""


@pytest.fixture
def workspace(tmp_path: Path) -> Workspace:
    (tmp_path / "workspace").mkdir()
    return Workspace(tmp_path / "workspace")


@pytest.fixture
def private(workspace: Workspace) -> Iterator[Path]:
    """A file that what only looks could read: it lies outside of /tmp, which every probe has for itself."""
    with tempfile.TemporaryDirectory(dir="/var/tmp", prefix="ordain-test-") as place:
        file = Path(place, "private.txt")
        file.write_text(SECRET)
        workspace.write("oracle.plan.md", ORACLE.replace("FILE", str(file)))
        yield file


def verdicts(workspace: Workspace, *words: str) -> list[dict[str, str]]:
    seen = workspace.ordain(*words)
    return [step["contract"] for step in json.loads(seen.out)["data"]["steps"]]


@pytest.mark.parametrize("stored", [False, True])
@pytest.mark.parametrize("words", [("robot", "simulate"), ("simulate", "--json")])
def test_a_robot_runs_nothing_of_a_plan_and_learns_nothing(
    workspace: Workspace, private: Path, words: tuple[str, ...], stored: bool
) -> None:
    need("bwrap")  # without it nothing ever looked
    what = workspace.prepared("oracle.plan.md") if stored else "oracle.plan.md"
    seen = verdicts(workspace, *words, what)
    statuses = [re.search(r"exit status ([0-9]+)", one["detail"]) for one in seen]
    assert "".join(chr(int(status[1])) for status in statuses if status) == "", "the file was read, byte by byte"
    assert len(seen) == len(SECRET)
    assert all("verdict" not in one and "exit status" not in one["detail"] for one in seen)
    assert len({json.dumps(one) for one in seen}) == 1, "every answer is the same, so none tells a byte"


def test_the_oracle_would_tell(private: Path) -> None:
    """Else the test above proves nothing: in a shell that sees the file, every exit status is a letter of it."""
    commands = re.findall(r"\*\*contract:\*\* (.*)", ORACLE.replace("FILE", str(private)))
    told = [subprocess.run(["bash", "-c", command], check=False).returncode for command in commands]
    assert bytes(told).decode() == SECRET


@pytest.mark.parametrize("channel", [None, *(one for one in Channel if one is not Channel.TERMINAL)])
def test_no_other_channel_runs_anything(workspace: Workspace, private: Path, channel: Channel | None) -> None:
    app = open_at_terminal(workspace.path)
    by = Principal(name="agent", channel=channel) if channel is not None else None
    seen = asyncio.run(app.plans.simulate_document(ORACLE.replace("FILE", str(private)).encode(), by=by))
    assert {step.contract.verdict for step in seen.steps if step.contract is not None} == {None}


def test_a_script_runs_nothing_either(workspace: Workspace, private: Path) -> None:
    seen = workspace.ordain("simulate", "oracle.plan.md")
    assert "not known yet" in seen.out and "exit status" not in seen.out


def test_a_person_learns_held_or_broken_of_the_workspace_only(workspace: Workspace, private: Path) -> None:
    need("bwrap")
    workspace.write("mine.txt", "x")
    workspace.write(
        "look.plan.md",
        f"""# Look

## Steps

### 1. Outside

**run:** true
**contract:** test -e {private}

### 2. Inside

**run:** true
**contract:** test -e mine.txt

### 3. Status

**run:** true
**contract:** exit 77
""",
    )
    seen = workspace.at_terminal("simulate", "look.plan.md", env=PLAIN)
    assert seen.out.count("does not hold yet") == 2 and seen.out.count("holds already") == 1
    said = [line.strip() for line in seen.out.splitlines() if line.strip().startswith("Contract:")]
    broken, held = "Contract:   does not hold yet", "Contract:   holds already"
    assert said == [broken, held, broken], "an exit status is an oracle"


def test_a_person_at_a_terminal_runs_no_contract_that_policy_denies(workspace: Workspace, private: Path) -> None:
    need("bwrap")
    workspace.write("ordain.toml", '[policy]\ndeny = ["shell"]\n')
    workspace.at_terminal("trust", answers=[("Type yes", "yes")])
    workspace.write(
        "read.plan.md",
        """# Read

## Steps

### 1. Read it

**tool:** read_file
**args:**
```yaml
path: oracle.plan.md
```
**contract:** test -e oracle.plan.md
""",
    )
    seen = workspace.at_terminal("simulate", "read.plan.md", env=PLAIN)
    assert "not looked at (policy denies this step)" in seen.out and "holds already" not in seen.out


# --- A newer deny counts during a run --------------------------------------------------------------------------------

DENY = '[policy]\ndeny = ["shell"]\n'
WAITS = """# Wait, then write

**Concurrency:** 1

## Steps

### 1. Wait

**id:** wait
**run:** echo begun > begun; until test -e go; do sleep 0.02; done

### 2. Write

**id:** write
**run:** echo done > written
"""


def trust_meanwhile(workspace: Workspace, text: str) -> None:
    """While a run waits in its first step: a person trusts this, and then the step goes on."""
    eventually((workspace.path / "begun").exists)
    workspace.write("ordain.toml", text)
    assert workspace.at_terminal("trust", answers=[("Type yes", "yes")]).status == 0
    (workspace.path / "go").touch()


def committed(workspace: Workspace, document: str) -> subprocess.Popen[bytes]:
    workspace.write("waits.plan.md", document)
    plan = workspace.approved("waits.plan.md")
    words = [*ORDAIN, "commit", plan, "--json"]
    return subprocess.Popen(words, cwd=workspace.path, stdout=subprocess.PIPE, stderr=subprocess.PIPE)


def steps_of(run: subprocess.Popen[bytes]) -> dict[str, dict[str, Any]]:
    out, err = run.communicate(timeout=PATIENCE_S)
    answer = json.loads(out)
    assert answer["data"] is not None, (out, err)
    return {step["id"]: step for step in answer["data"]["steps"]}


def test_a_deny_that_a_person_trusts_during_a_run_counts_for_the_next_step(workspace: Workspace) -> None:
    run = committed(workspace, WAITS)
    trust_meanwhile(workspace, DENY)
    steps = steps_of(run)
    assert (steps["wait"]["state"], steps["write"]["error"]) == ("passed", "F_POLICY_DENIED")
    assert not (workspace.path / "written").exists()


@pytest.mark.slow
def test_it_counts_for_a_contract_too(workspace: Workspace) -> None:
    contract = "until test -e go; do sleep 0.02; done\n**contract:** touch proved"
    run = committed(workspace, WAITS.replace("until test -e go; do sleep 0.02; done", contract))
    trust_meanwhile(workspace, DENY)
    steps = steps_of(run)
    assert steps["wait"]["error"] == "F_CONTRACT_INCONCLUSIVE"
    assert not (workspace.path / "proved").exists() and not (workspace.path / "written").exists()


@pytest.mark.slow
def test_other_settings_that_a_person_trusts_meanwhile_stop_nothing(workspace: Workspace) -> None:
    run = committed(workspace, WAITS)
    trust_meanwhile(workspace, '[policy]\ndeny = ["http_request"]\n')
    assert {step["state"] for step in steps_of(run).values()} == {"passed"}


@pytest.mark.part(of=3)
@pytest.mark.parametrize("killed", [False, True])
@pytest.mark.parametrize(("deny", "error"), [(DENY, "F_POLICY_DENIED"), ('[policy]\ndeny = ["http_request"]\n', None)])
def test_it_counts_for_a_run_that_is_resumed(workspace: Workspace, deny: str, error: str | None, killed: bool) -> None:
    """Whether it waited for an answer or was killed: once its question is settled, the next step is reached."""
    command = "echo begun > begun; until test -e go; do sleep 0.02; done"
    run = committed(workspace, WAITS if killed else WAITS.replace(command, "false\n**on_fail:** escalate"))
    if killed:
        eventually((workspace.path / "begun").exists)
        run.kill()
    run.communicate(timeout=PATIENCE_S)
    workspace.write("ordain.toml", deny)
    assert workspace.at_terminal("trust", answers=[("Type yes", "yes")]).status == 0
    if killed:
        assert json.loads(workspace.ordain("resume", "--json").out)["data"]["status"] == "waiting", "it is in doubt"
    (item,) = json.loads(workspace.ordain("inbox", "--json").out)["data"]["items"]
    answer = "happened" if killed else "pass"
    assert workspace.at_terminal("answer", item["question"]["item"], answer).status == 0
    resumed = json.loads(workspace.ordain("resume", "--json").out)["data"]
    steps = {step["id"]: step for step in resumed["steps"]}
    assert (steps["wait"]["state"], steps["write"]["error"]) == ("passed", error)
    assert (workspace.path / "written").exists() is (error is None)


# --- Exact bytes ------------------------------------------------------------------------------------------------------

KNOWN = "correct-horse-battery"
TELLS = """# Tell

## Steps

### 1. Tell

**id:** tell
**run:** printf 'a %s b' "$(cat secret.txt)"
"""


@pytest.fixture
def told(workspace: Workspace, monkeypatch: pytest.MonkeyPatch) -> str:
    """A run that wrote a secret, recorded by somebody who knew it. From here on nobody does."""
    monkeypatch.setenv("DEPLOY_TOKEN", KNOWN)
    workspace.write("secret.txt", KNOWN)
    workspace.write("tell.plan.md", TELLS)
    run_id, done = workspace.started("tell.plan.md")
    assert done.status == 0, done
    monkeypatch.delenv("DEPLOY_TOKEN")
    return run_id


def test_a_reader_who_does_not_know_the_secret_does_not_learn_it(workspace: Workspace, told: str) -> None:
    for words in (("--json",), ()):
        assert "a [redacted DEPLOY_TOKEN] b" in workspace.ordain("show", told, "--output", "tell", *words).out
    app = open_at_terminal(workspace.path)
    assert b"".join(app.runs.output(told, "tell")[1]) == b"a [redacted DEPLOY_TOKEN] b"
    for words in (("show", told), ("log", told), ("show", told, "--verbose")):
        assert KNOWN not in workspace.ordain(*words).out, words
    assert KNOWN not in "".join(file.read_text() for file in (workspace.path / ".ordain/runs").iterdir())


def test_exact_bytes_are_for_a_person_at_a_terminal(workspace: Workspace, told: str) -> None:
    for words in (("robot", "show"), ("show",)):
        seen = workspace.ordain(*words, told, "--output", "tell", "-o", "stolen")
        assert (seen.status, "E_EXACT_CHANNEL" in seen.out + seen.err) == (2, True)
    assert not (workspace.path / "stolen").exists()
    with pytest.raises(Refused):
        open_workspace(workspace.path).runs.exact_output(told, "tell", Principal(name="x", channel=Channel.TERMINAL))
    workspace.at_terminal("show", told, "--output", "tell", "-o", "mine")
    assert (workspace.path / "mine").read_text() == f"a {KNOWN} b"


class Kim(Principal, frozen=True, kw_only=True):
    @property
    def person(self) -> bool:
        return True


def test_a_principal_cannot_answer_for_itself_that_it_is_a_person(
    workspace: Workspace, told: str, tmp_path: Path
) -> None:
    assert workspace.ordain("stop").status == 0
    app, kim = open_workspace(workspace.path), Kim(name="kim", channel=Channel.LIBRARY)
    for attempt in (
        lambda: app.runs.exact_output(told, "tell", kim),
        lambda: app.audits.backup(tmp_path / "copy.db", kim),
        lambda: asyncio.run(app.stops.lift(kim)),
    ):
        with pytest.raises(Refused, match="E_APPROVAL_CHANNEL"):
            attempt()
    assert app.stops.in_force() and not (tmp_path / "copy.db").exists()


def test_of_an_output_that_an_older_version_recorded_only_the_redacted_end_is_shown(
    workspace: Workspace, told: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    app = open_at_terminal(workspace.path)
    state, *rest = Records(app.ports.ledger.look()).run(told)
    record = state.steps[StepId("tell")]
    assert record.outcome is not None and record.outcome.hidden
    record.outcome = msgspec.structs.replace(record.outcome, hidden=None)  # as 0.1 recorded it
    monkeypatch.setattr("ordain.records.records.Records.run", lambda self, run_id: (state, *rest))
    found, parts = app.runs.output(told, "tell")
    shown = b"".join(parts)
    assert shown == b"a [redacted DEPLOY_TOKEN] b" and found.kept_bytes == len(shown)
    assert b"".join(app.runs.exact_output(told, "tell", KIM)[1]) == f"a {KNOWN} b".encode()
    app.let_go()


@pytest.mark.part(of=2)
@pytest.mark.parametrize("words", [("robot", "audit", "backup"), ("audit", "backup")])
def test_a_backup_for_a_robot_or_a_script_has_no_exact_bytes(
    workspace: Workspace, told: str, tmp_path: Path, words: tuple[str, ...]
) -> None:
    seen = workspace.ordain(*words, str(tmp_path / "copy.db"))
    assert seen.status == 0 and "W_OUTPUTS_LEFT_OUT" in seen.out + seen.err
    assert KNOWN.encode() not in (tmp_path / "copy.db").read_bytes()
    # It restores and verifies all the same, and what is missing is neither good nor bad.
    (tmp_path / "other").mkdir()
    other = Workspace(tmp_path / "other")
    copy = str(tmp_path / "copy.db")
    assert other.at_terminal("audit", "restore", copy, answers=[("Type yes", "yes")]).status == 0
    assert json.loads(other.ordain("audit", "verify", "--json").out)["data"]["good"] is True
    assert "E_OUTPUT_NOT_KEPT" in other.ordain("show", told, "--output", "tell").err


@pytest.mark.slow
def test_a_backup_has_them_for_a_person_and_where_the_user_says_so(
    workspace: Workspace, told: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert workspace.at_terminal("audit", "backup", str(tmp_path / "mine.db")).status == 0
    own = tmp_path / ".config" / "ordain" / "config.toml"
    own.parent.mkdir(parents=True)
    own.write_text("[audit]\nrobot_backup_outputs = true\n")
    own.chmod(0o600)
    for n, chosen in enumerate(({"XDG_CONFIG_HOME": str(tmp_path / ".config")}, {"HOME": str(tmp_path)})):
        for name, value in chosen.items():  # a robot chooses these, and gets nothing by it
            monkeypatch.setenv(name, value)
        answer = json.loads(workspace.ordain("robot", "audit", "backup", str(tmp_path / f"chosen{n}.db")).out)
        assert answer["data"]["outputs_left_out"] is True
        assert KNOWN.encode() not in (tmp_path / f"chosen{n}.db").read_bytes()
        monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    monkeypatch.setattr(pwd, "getpwuid", lambda uid: SimpleNamespace(pw_dir=str(tmp_path)))
    robot = Principal(name="cron", channel=Channel.ROBOT)
    assert open_workspace(workspace.path).audits.backup(tmp_path / "scheduled.db", robot)[1]
    for name in ("mine.db", "scheduled.db"):
        assert KNOWN.encode() in (tmp_path / name).read_bytes()


def test_whoever_goes_on_with_a_run_hides_what_was_hidden_before(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second executor does not know the secret. It reads the exact result, and tells nobody."""
    monkeypatch.setenv("DEPLOY_TOKEN", KNOWN)
    workspace.write("secret.txt", KNOWN)
    again = """
### 2. Again

**id:** again
**run:** test -n "$(find . -name 'g[o]')" && printf 'seen %s' "$GOT"
**env:**
- GOT=${tell.output}
**on_fail:** escalate
"""
    workspace.write("tell.plan.md", TELLS + again)
    run_id, done = workspace.started("tell.plan.md")
    assert done.status == 3, done
    monkeypatch.delenv("DEPLOY_TOKEN")
    (workspace.path / "go").touch()
    workspace.at_terminal("answer", f"{run_id}/again", "retry", "--resume")
    shown = workspace.ordain("show", run_id, "--json").out + workspace.ordain("show", run_id, "--output", "again").out
    assert "seen a [redacted DEPLOY_TOKEN] b" in shown and KNOWN not in shown
