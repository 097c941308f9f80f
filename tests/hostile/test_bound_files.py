"""Files that commands read, changed after the approval: what runs is what was there when a person said yes, or nothing.

Each attack goes through the real command: approved, changed, committed by a robot.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.interfaces.terminal import Background
from tests.interfaces.workspace import Workspace
from tests.patience import eventually
from tests.words import DirectoryWorkspace

DEPLOY = "echo good >> ran\n"
EVIL = "echo evil >> ran\n"


@pytest.fixture
def workspace(tmp_path: Path) -> Workspace:
    path = tmp_path / "ws"
    (path / "scripts").mkdir(parents=True)
    (path / "scripts/deploy.sh").write_text(DEPLOY)
    return Workspace(path)


def document(command: str, *fields: str) -> str:
    return "\n".join(["# Deploy", "", "## Steps", "", "### 1. Deploy", "", f"**run:** {command}", *fields, ""])


def commit(workspace: Workspace, plan: str) -> dict[str, Any]:
    return dict(json.loads(workspace.ordain("robot", "commit", plan).out))


def codes(answer: dict[str, Any]) -> list[str]:
    return [problem["code"] for problem in answer["problems"]]


def ran(workspace: Workspace) -> str:
    path = workspace.path / "ran"
    return path.read_text() if path.exists() else ""


def edited(path: Path) -> None:
    path.write_text(EVIL)


def linked(path: Path) -> None:
    (path.parent / "other.sh").write_text(DEPLOY)  # the same, for now
    path.unlink()
    path.symlink_to("other.sh")


def deleted(path: Path) -> None:
    path.unlink()


def a_directory(path: Path) -> None:
    path.unlink()
    path.mkdir()


READERS = {
    "a shell": "bash scripts/deploy.sh",
    "itself": "PATH=/bin:/usr/bin ./scripts/deploy.sh || sh scripts/deploy.sh",
    "source": ". scripts/deploy.sh",
    "redirection": "bash < scripts/deploy.sh",
    "pipe": "cat scripts/deploy.sh | bash",
    "a text": "bash -c 'sh scripts/deploy.sh'",
    "a text in a text": "bash -c \"eval 'sh scripts/deploy.sh'\"",
    "here-document": "`bash <<'E'\nsh scripts/deploy.sh\nE\n`",
    "substitution": 'eval "$(cat scripts/deploy.sh)"',
    "process substitution": "bash <(cat scripts/deploy.sh)",
    "wrapped": "timeout 60 env A=b nice sh scripts/deploy.sh",
    "variable": 'f=scripts/deploy.sh; bash "$f"',
    "loop": 'for f in scripts/deploy.sh; do bash "$f"; done',
    "function": "f() { sh scripts/deploy.sh; }; f",
    "subshell": "(cd ./scripts; sh deploy.sh; cp ran ..)",
    "quoted": "sh scripts/\"dep\"l'oy'.s\\h",
    "xargs": "echo scripts/deploy.sh | xargs sh",
    "option": "bash --noprofile -O extglob scripts/../scripts/deploy.sh",
}


@pytest.mark.part(of=9)
@pytest.mark.parametrize("command", READERS.values(), ids=READERS.keys())
def test_a_script_that_was_edited_after_the_approval_does_not_run(workspace: Workspace, command: str) -> None:
    if command.startswith("`"):
        command = f"\n```bash\n{command.strip('`')}```"
    workspace.write("deploy.plan.md", document(command))
    plan = workspace.approved("deploy.plan.md")
    edited(workspace.path / "scripts/deploy.sh")
    answer = commit(workspace, plan)
    assert codes(answer) == ["E_PLAN_STALE_BASE"] and "deploy.sh` has changed" in answer["problems"][0]["detail"]
    assert ran(workspace) == ""
    (workspace.path / "scripts/deploy.sh").write_text(DEPLOY)
    assert commit(workspace, plan)["data"]["status"] == "success"
    assert set(ran(workspace).split()) == {"good"}


UNKNOWN = {
    "a condition": "test -d app && cd app; bash x.sh",
    "a condition in brackets": "`[ -d app ] && cd app\nbash x.sh\n`",
    "a failure that is passed over": "set +e; cd app; bash x.sh",
    "a way back through a link": "cd linked && cd .. && bash x.sh",
    "a way through a link": "cd linked/.. && bash x.sh",
    "a sourced file": ". ./env.sh; bash x.sh",
    "a file without a dot": "test -d app && cd app; bash plain",
}


@pytest.mark.part(of=5)
@pytest.mark.parametrize("command", UNKNOWN.values(), ids=UNKNOWN.keys())
@pytest.mark.parametrize("field", ["run", "contract"])
def test_what_no_approval_is_bound_to_is_said(workspace: Workspace, command: str, field: str) -> None:
    workspace.write("x.sh", DEPLOY)
    workspace.write("plain", DEPLOY)
    workspace.write("env.sh", "cd scripts\n")
    (workspace.path / "linked").symlink_to("scripts/deep")
    (workspace.path / "scripts/deep").mkdir()
    if command.startswith("`"):
        command = f"\n```bash\n{command.strip('`')}```"
    text = document(command) if field == "run" else document("true", f"**contract:** {command}")
    workspace.write("deploy.plan.md", text)
    workspace.prepared("deploy.plan.md")
    found = json.loads(workspace.ordain("robot", "show", "deploy.plan.md").out)["data"]["not_bound"]
    assert "step deploy" in {name for one in found for name in one["first"]}


@pytest.mark.parametrize("change", [linked, deleted, a_directory])
def test_whatever_is_put_in_place_of_a_bound_file_is_refused(
    workspace: Workspace, change: Callable[[Path], None]
) -> None:
    workspace.write("deploy.plan.md", document("sh scripts/deploy.sh"))
    plan = workspace.approved("deploy.plan.md")
    change(workspace.path / "scripts/deploy.sh")
    assert codes(commit(workspace, plan)) == ["E_PLAN_STALE_BASE"] and ran(workspace) == ""


def test_a_file_that_appears_where_none_was_is_refused(workspace: Workspace) -> None:
    workspace.write("deploy.plan.md", document("test ! -e late.sh || sh late.sh"))
    plan = workspace.approved("deploy.plan.md")
    edited(workspace.path / "late.sh")
    assert codes(commit(workspace, plan)) == ["E_PLAN_STALE_BASE"] and ran(workspace) == ""


@pytest.mark.slow
def test_links_lead_to_what_is_bound_and_files_outside_are_bound_too(workspace: Workspace, tmp_path: Path) -> None:
    outside = tmp_path / "outside.sh"
    outside.write_text(DEPLOY)
    (workspace.path / "current").symlink_to("scripts")
    for command, target in (
        ("sh current/deploy.sh", workspace.path / "scripts/deploy.sh"),
        (f"sh {outside}", outside),
        ("sh ../outside.sh", outside),
        (f"sh {workspace.path}/scripts/deploy.sh", workspace.path / "scripts/deploy.sh"),
    ):
        workspace.write("deploy.plan.md", document(command))
        plan = workspace.approved("deploy.plan.md")
        edited(target)
        assert codes(commit(workspace, plan)) == ["E_PLAN_STALE_BASE"], command
        target.write_text(DEPLOY)
    assert ran(workspace) == ""


@pytest.mark.part(of=4)
@pytest.mark.parametrize(
    ("fields", "file"),
    [
        (["**contract:** sh scripts/check.sh"], "scripts/check.sh"),
        (["**contract:** grep -q good < scripts/check.sh"], "scripts/check.sh"),
        (["**inputs:** Makefile"], "Makefile"),
        (["**inputs:** migrations/*.sql"], "migrations/001.sql"),
        (["**inputs:** migrations/"], "migrations/deep/002.sql"),
        (['**inputs:** [Makefile, "migrations/*.sql"]'], "migrations/001.sql"),
        (["**inputs:** linked/*.sh"], "scripts/deep/../x.sh"),
        (["**inputs:** linked/"], "scripts/deep/y.sh"),
    ],
)
def test_contracts_and_inputs_are_bound_too(workspace: Workspace, fields: list[str], file: str) -> None:
    path = workspace.path / file
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("echo good\n")
    (workspace.path / "linked").symlink_to("scripts")
    workspace.write("deploy.plan.md", document("true", *fields))
    plan = workspace.approved("deploy.plan.md")
    path.write_text("echo evil\n")
    assert codes(commit(workspace, plan)) == ["E_PLAN_STALE_BASE"]
    path.write_text("echo good\n")
    if "*.sql" in fields[0]:
        late = path.with_name("999.sql")
        late.touch()
        assert codes(commit(workspace, plan)) == ["E_PLAN_STALE_BASE"]
        late.unlink()
    assert commit(workspace, plan)["data"]["status"] == "success"


@pytest.mark.slow
def test_arguments_of_a_program_and_nested_and_fallback_steps_are_bound_too(workspace: Workspace) -> None:
    def tool(*argv: str) -> dict[str, Any]:
        return {"type": "tool", "tool": "exec", "args": {"argv": list(argv)}}

    inner = {
        "plan_version": 1,
        "title": "I",
        "steps": [{"id": "i", "action": {"type": "run", "command": "sh scripts/deploy.sh"}}],
    }
    for action in (
        tool("sh", "scripts/deploy.sh"),
        tool("bash", "-c", "sh scripts/deploy.sh; true"),
        {"type": "tool", "tool": "shell", "args": {"command": "sh scripts/deploy.sh"}},
        {"type": "run", "command": 'sh "$F"', "env": {"F": "scripts/deploy.sh"}},
        {"type": "nested_plan", "plan": inner},
    ):
        for fallback in (False, True):
            step = {"id": "a", "description": "d", "action": action}
            first = {
                "id": "b",
                "action": {"type": "run", "command": "false"},
                "on_failure": {"strategy": "fallback", "steps": ["a"]},
            }
            tree = (
                {"title": "T", "steps": [first], "fallbacks": [step]} if fallback else {"title": "T", "steps": [step]}
            )
            workspace.write("plan.json", json.dumps(tree))
            plan = workspace.approved("plan.json")
            edited(workspace.path / "scripts/deploy.sh")
            assert codes(commit(workspace, plan)) == ["E_PLAN_STALE_BASE"], action
            (workspace.path / "scripts/deploy.sh").write_text(DEPLOY)
    assert ran(workspace) == ""


WAITS = """\
# Deploy when told to

## Steps

### 1. Wait

**run:** {first}

### 2. Deploy

**run:** {second}
**on_fail:** {policy}
"""


def changed_between(workspace: Workspace, plan: str, change: Callable[[], None]) -> dict[str, Any]:
    """Commit a plan whose first step waits for a line in a pipe, and change something before it comes."""

    def opened() -> list[int]:
        with contextlib.suppress(OSError):  # nobody reads it yet
            return [os.open(workspace.path / "go", os.O_WRONLY | os.O_NONBLOCK)]
        return []

    with Background("robot", "commit", plan, cwd=workspace.path) as process:
        pipes: list[int] = []
        eventually(lambda: pipes.extend(opened()) or pipes, "the first step")
        change()
        os.write(pipes[0], b"go\n")
        os.close(pipes[0])
        return dict(json.loads(process.end().out))


@pytest.mark.part(of=4)
@pytest.mark.parametrize("policy", ["abort", "retry(3, 10ms)", "skip", "escalate"])
def test_a_script_that_is_edited_between_steps_does_not_run(workspace: Workspace, policy: str) -> None:
    os.mkfifo(workspace.path / "go")
    text = WAITS.format(first="read line < go", second="sh scripts/deploy.sh", policy=policy)
    workspace.write("deploy.plan.md", text)
    plan = workspace.approved("deploy.plan.md")
    answer = changed_between(workspace, plan, lambda: edited(workspace.path / "scripts/deploy.sh"))
    step = answer["data"]["steps"][1]
    assert step["error"] == "F_INPUT_CHANGED" and "`scripts/deploy.sh` has changed" in step["evidence"]
    assert ran(workspace) == ""


def test_what_a_step_before_may_write_is_not_compared(workspace: Workspace) -> None:
    os.mkfifo(workspace.path / "go")
    for first in ("read line < go; echo x > scripts/deploy.sh", "python3 -c 'input()' < go"):
        workspace.write(
            "deploy.plan.md", WAITS.format(first=first, second="sh scripts/deploy.sh || true", policy="abort")
        )
        plan = workspace.approved("deploy.plan.md")
        answer = changed_between(workspace, plan, lambda: edited(workspace.path / "scripts/deploy.sh"))
        assert answer["data"]["status"] == "success"
        (workspace.path / "scripts/deploy.sh").write_text(DEPLOY)


def test_a_run_that_needs_no_approval_is_bound_to_the_files_at_its_start(workspace: Workspace) -> None:
    os.mkfifo(workspace.path / "go")
    workspace.trust('[policy]\nallow = ["shell"]\n')
    workspace.write(
        "deploy.plan.md", WAITS.format(first="read line < go", second="sh scripts/deploy.sh", policy="abort")
    )
    plan = workspace.prepared("deploy.plan.md")
    edited(workspace.path / "scripts/deploy.sh")
    answer = changed_between(workspace, plan, lambda: deleted(workspace.path / "scripts/deploy.sh"))
    assert answer["data"]["steps"][1]["error"] == "F_INPUT_CHANGED"


ORDINARY = """\
# Release

1. `echo 1.1 > VERSION`
2. `cat VERSION`
3. `sort -o list.txt list.txt`
4. `cat list.txt VERSION > both.txt && test -s both.txt`
5. `rm list.txt`
"""


def test_an_ordinary_plan_still_runs_and_the_preview_says_what_is_not_bound(workspace: Workspace) -> None:
    workspace.write("list.txt", "b\na\n")
    workspace.write("release.plan.md", ORDINARY)
    assert commit(workspace, workspace.approved("release.plan.md"))["data"]["status"] == "success"
    shutil.copy(workspace.path / "both.txt", workspace.path / "list.txt")
    assert commit(workspace, workspace.approved("release.plan.md"))["data"]["status"] == "success"
    (workspace.path / "dump.sql").touch()
    os.mkfifo(workspace.path / "go")
    os.truncate(workspace.path / "dump.sql", (64 << 20) + 1)
    workspace.write(
        "many.plan.md",
        '# Look\n\n1. `ls scripts; cat dump.sql go "$x"`\n2. `cd "$d"; cat list.txt`\n3. `make -n`\n'
        "4. `cat release.plan.md`\n",
    )
    text = workspace.ordain("show", workspace.prepared("many.plan.md")).out
    found = json.loads(workspace.ordain("robot", "show", "many.plan.md").out)["data"]["not_bound"]
    assert [(one["count"], list(one["first"])) for one in found] == [
        (1, ["scripts"]),
        (1, ["go"]),
        (1, ["dump.sql"]),
        (1, ["release.plan.md"]),
        (2, ["step cd-d-cat-list-txt", "step ls-scripts-cat-dump-sql-go-x"]),
        (1, ["step cd-d-cat-list-txt"]),
    ]
    assert "NOT bound: directories" in text and "1 file (release.plan.md)" in text


@pytest.mark.parametrize("write", ["cd sub; echo 2 > ../VERSION", "echo 2 > sub/../VERSION", "echo 2 > linked"])
def test_a_step_may_write_what_a_later_one_reads_by_another_path(workspace: Workspace, write: str) -> None:
    workspace.write("VERSION", "1\n")
    (workspace.path / "sub").mkdir()
    (workspace.path / "linked").symlink_to("VERSION")
    workspace.write("deploy.plan.md", WAITS.format(first=write, second="grep 2 VERSION", policy="abort"))
    assert commit(workspace, workspace.approved("deploy.plan.md"))["data"]["status"] == "success"


def test_who_proposes_a_plan_is_not_told_what_is_outside_the_workspace(workspace: Workspace, tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir()
    (workspace.path / "k").symlink_to(home)
    (workspace.path / "l").symlink_to(home / "key")
    step = {"id": "a", "inputs": ["k/*", "l*"], "action": {"type": "run", "command": f"cat {home}/key k/key 2>&1"}}
    told = []
    for _ in range(2):
        workspace.write("plan.json", json.dumps({"title": "T", "steps": [step]}))
        data = json.loads(workspace.ordain("robot", "prepare", "plan.json").out)["data"]
        text = [line for line in workspace.ordain("show", data["plan_id"]).out.splitlines() if "ound" in line]
        told.append((data["base"]["operands"], data["not_bound"], text))
        (home / "key").touch()  # whether it is there or not, the same is said
    assert told[0] == told[1]
    assert DirectoryWorkspace(workspace.path).contents((), ("k/*", "k/")) == {}
    assert [(one["count"], one["first"]) for one in told[0][1]] == [(2, [])]
    assert "only a person is told more: 2" in told[0][2][1]


def test_warnings_of_inputs_are_true_and_come_in_the_order_of_the_plan(workspace: Workspace, tmp_path: Path) -> None:
    (workspace.path / ".git").mkdir()
    workspace.write(".git/config", "")
    (tmp_path / "home").mkdir()
    (tmp_path / "home/key").touch()
    (workspace.path / "k").symlink_to(tmp_path / "home")
    names = [f"gone{n}" for n in range(9)]
    fields = f'**inputs:** [{", ".join(names)}, .git/, "k/*", k/, k/key, k/nothing]'
    workspace.write("deploy.plan.md", document("true", fields))
    found = json.loads(workspace.ordain("robot", "lint", "deploy.plan.md").out)["problems"]
    nowhere = [f"`{name}`, which means no file that is there." for name in names]
    assert [one["detail"].removeprefix("`deploy`: `inputs` names ") for one in found] == [
        *nowhere,
        "`.git/`, which is git's or Ordain's, where no pattern looks.",
        "`k/*`, which leads out of the workspace, where no pattern looks.",
        "`k/`, which leads out of the workspace, where no pattern looks.",
    ]
    workspace.write("deploy.plan.md", document("true", "**inputs:** .git/config"))
    (refused,) = json.loads(workspace.ordain("robot", "lint", "deploy.plan.md").out)["problems"]
    assert refused["code"] == "E_PATH" and "write" not in str(refused)


@pytest.mark.parametrize("inputs", ["m/{a,b}.py", "m/[ab].py", '"m/a.py"', "gone/", "m/*.sql"])
def test_inputs_that_mean_no_file_are_warned_of(workspace: Workspace, inputs: str) -> None:
    (workspace.path / "m").mkdir()
    workspace.write("m/a.py", "1\n")
    workspace.write("deploy.plan.md", document("true", f"**inputs:** {inputs}"))
    assert "W_INPUTS_NOTHING" in workspace.ordain("lint", "deploy.plan.md").out
