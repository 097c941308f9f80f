"""Sandboxed steps that plant what git runs for the user afterwards: a repository in the workspace, under any name, with
a configuration of their own. The user's git is really run, and the payload is not."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.programs import need
from tests.task_runs import Carried, carried_out

CONFIG = "core.fsmonitor 'touch @OUT/payload'"
EVIL = f"git init -q evil && git -C evil config {CONFIG} && git -C evil commit -q --allow-empty -m x"
PLANTED = {
    "a repository": EVIL,
    "a link in the index": f"{EVIL} && git add evil",
    "a clone": f"git init -q --bare /tmp/b && git clone -q /tmp/b evil && git -C evil config {CONFIG}",
    "a file that names a repository": f"{EVIL} && mv evil/.git evil/plain && printf 'gitdir: plain\\n' > evil/.git",
    "in capital letters": f"{EVIL} && mv evil/.git evil/.GIT && mkdir -p evil/.GIT",
    "deep down": f"mkdir -p a/b/c && cd a/b/c && {EVIL}",
    "behind a shut directory": f"mkdir hidden && cd hidden && {EVIL} && cd .. && chmod 0 hidden",
    "a bare one": f"git init -q --bare bare && git -C bare config {CONFIG}",
    "one without that name": f"{EVIL} && mv evil/.git evil/sub",
    "a work tree's pointer": "mkdir evil && cd evil && echo 'ref: refs/heads/x' > HEAD && echo ../x > commondir",
    "a rebase to go on with": "mkdir .git/rebase-merge && echo exec x > .git/rebase-merge/git-rebase-todo",
    "a pick to go on with": "mkdir -p .git/sequencer git-merge-x && "
    "printf '#!/bin/sh\\ntouch @OUT/payload' > git-merge-x/y && chmod +x git-merge-x/y && "
    "h=$(git commit-tree -p HEAD -m x HEAD^{tree}) && "
    "git rev-parse HEAD > .git/sequencer/head && "
    'printf "pick $h x\\npick $h x\\n" > .git/sequencer/todo && '
    "printf '[options]\\n\\tstrategy = x/y\\n\\tallow-ff = false\\n' > .git/sequencer/opts",
}
HOOK = "$(printf '#!/bin/sh\\ntouch %s' @OUT/payload | git hash-object -w --stdin)"


def entry(path: str) -> str:
    """A command that writes an entry to the index which git itself would not."""
    held, name = "0" * len(path.encode()), path.encode().hex()
    text = (
        f'import hashlib; d=open(".git/index","rb").read()[:-20].replace(b"{held}",bytes.fromhex("{name}"));'
        'open(".git/index","wb").write(d+hashlib.sha1(d).digest())'
    )
    return f"git update-index --add --cacheinfo 100755,{HOOK},{held} && python3 -c '{text}'"


ENTRIES = {
    "of a repository": "git init -q vendor && git -C vendor commit -q --allow-empty -m x && git add vendor",
    "without one": "git update-index --add --cacheinfo 160000,$(git rev-parse HEAD),vendor",
    "in version 4": "git update-index --index-version 4 && echo x > v && git add v && "
    "git update-index --add --cacheinfo 160000,$(git rev-parse HEAD),vendor",
    "in a shared index": "git update-index --add --cacheinfo 160000,$(git rev-parse HEAD),vendor && "
    "git update-index --split-index",
    "with other bits": "git update-index --add --cacheinfo 160000,$(git rev-parse HEAD),vendor && "
    'python3 -c \'d=open(".git/index","rb").read();'
    'open(".git/index","wb").write(d.replace(b"\\0\\0\\xe0\\0",b"\\1\\0\\xe1\\xa4"))\'',
    "a hook": entry(".git/hooks/post-checkout"),
    "a hook in capital letters": entry(".GIT/hooks/post-checkout"),
    "a hook through a spelling": entry(".g\u200cit/hooks/post-checkout"),
    "outside": entry("../payload"),
    "an editor's task": f"git update-index --add --cacheinfo 100644,{HOOK},.vscode/tasks.json",
    "an editor's task in a shared index": "git update-index --split-index && "
    f"git update-index --add --cacheinfo 100644,{HOOK},.idea/known.xml",
    "in what is no index": "rm .git/index && ln -s ../evil .git/index && echo x > evil",
}
BY_WORKTREE = (
    "mkdir -p common && cp -r .git/objects .git/refs common && cp .git/HEAD common && "
    f"git config -f common/config {CONFIG} && echo ../../../common > .git/worktrees/side/commondir"
)


@pytest.fixture
def workspace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    need("bwrap")
    need("git")
    (tmp_path / "home").mkdir()
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("ORDAIN_HOME", str(tmp_path / "state"))
    for name in ("AUTHOR", "COMMITTER"):
        monkeypatch.setenv(f"GIT_{name}_NAME", "kim")
        monkeypatch.setenv(f"GIT_{name}_EMAIL", "kim@example.com")
    path = tmp_path / "ws"
    path.mkdir()
    git(path, "init", "-q")
    git(path, "commit", "-q", "--allow-empty", "-m", "first")
    git(path, "worktree", "add", "-q", str(tmp_path / "side"))
    return path


def git(where: Path, *words: str) -> None:
    subprocess.run(["git", "-C", where, *words], check=False, capture_output=True)


def run(workspace: Path, command: str, tier: int = 1, **more: object) -> Carried:
    names = "GIT_AUTHOR_NAME=k GIT_AUTHOR_EMAIL=k GIT_COMMITTER_NAME=k GIT_COMMITTER_EMAIL=k"
    text = f"export {names}\n{command}".replace("@OUT", str(workspace.parent))
    return carried_out(workspace, "", {"action": {"type": "run", "command": text}, **more}, tier=tier)


def payload_ran(workspace: Path) -> bool:
    """After the user has looked at everything there is."""
    for where in (workspace, *(path for path in workspace.rglob("*") if path.is_dir() and path.name != "objects")):
        for words in (("status",), ("-c", "core.bare=false", "--work-tree=.", "status"), ("rebase", "--continue")):
            git(where, *words)
    git(workspace, "cherry-pick", "--continue")
    git(workspace, "checkout", ".")
    git(workspace, "checkout", "-qb", "another")
    git(workspace.parent / "side", "status")
    return (workspace.parent / "payload").exists()


@pytest.mark.part(of=12)
@pytest.mark.parametrize("how", PLANTED)
def test_what_a_step_plants_for_git_is_set_aside(workspace: Path, how: str) -> None:
    carried = run(workspace, PLANTED[how])
    (outcome,) = carried.outcomes
    assert (carried.report.status, outcome.error) == ("failed", "F_CONTROL_FILE"), outcome
    assert ".ordain/replaced/" in outcome.detail
    assert not payload_ran(workspace)
    assert not [path for path in workspace.rglob(".[gG][iI][tT]") if path.parent != workspace]


@pytest.mark.part(of=12)
@pytest.mark.parametrize("how", ENTRIES)
def test_a_control_file_in_the_index_fails_the_step_and_the_index_is_put_back(workspace: Path, how: str) -> None:
    for name in ("mine", ".idea/known.xml"):
        (workspace / name).parent.mkdir(exist_ok=True)
        (workspace / name).write_text("x")
    git(workspace, "add", "mine", ".idea/known.xml")
    before = (workspace / ".git/index").read_bytes()
    (outcome,) = run(workspace, ENTRIES[how]).outcomes
    assert outcome.error == "F_CONTROL_FILE" and "in git's index is new or has changed" in outcome.detail, outcome
    assert (workspace / ".git/index").read_bytes() == before
    status = subprocess.run(["git", "-C", workspace, "status", "--porcelain"], capture_output=True, text=True)
    assert "A  mine" in status.stdout and "vendor\n" not in status.stdout and not status.stderr


def test_another_work_tree_cannot_be_led_elsewhere(workspace: Path) -> None:
    assert run(workspace, BY_WORKTREE).report.status == "failed"
    assert not payload_ran(workspace)


@pytest.mark.part(of=4)
@pytest.mark.parametrize(
    "command",
    [f"{EVIL} && git add evil", BY_WORKTREE, entry(".git/hooks/post-checkout"), PLANTED["a pick to go on with"]],
)
def test_at_tier_0_the_same_payload_runs(workspace: Path, command: str) -> None:
    """So that the tests above can fail."""
    assert run(workspace, command, tier=0).report.status == "completed"
    assert payload_ran(workspace)


@pytest.mark.slow
def test_repositories_that_were_there_stay_and_cannot_be_written(workspace: Path) -> None:
    git(workspace, "init", "-q", "vendor")
    before = (workspace / "vendor/.git/config").read_bytes()
    carried = run(workspace, f"git -C vendor config {CONFIG} || true; echo x > vendor/x; git add vendor/x || true")
    assert carried.report.status == "completed" and (workspace / "vendor/x").exists()
    assert (workspace / "vendor/.git/config").read_bytes() == before
    moved = run(workspace, f"mv vendor other && mkdir vendor && cd vendor && {EVIL.replace('evil', '.')}")
    assert moved.outcomes[0].error == "F_CONTROL_FILE" and not payload_ran(workspace)


@pytest.mark.part(of=3)
@pytest.mark.parametrize("place", ["mirror.git", ".bare", "deep/down/plain"])
def test_repositories_under_another_name_cannot_be_written(workspace: Path, place: str) -> None:
    git(workspace, "init", "-q", "--bare", place)
    hooks = "printf '#!/bin/sh\\ntouch @OUT/payload' | tee {0}/hooks/post-receive {0}/hooks/x && chmod +x {0}/hooks/*"
    plant = f"git config -f {place}/config {CONFIG} || {hooks.format(place)} || rm {place}/HEAD || mv {place} x || true"
    before = sorted((str(path), path.stat().st_ctime_ns) for path in (workspace / place).rglob("*"))
    assert run(workspace, plant).report.status == "completed"
    (outcome,) = run(workspace, plant, writes=[f"{place}/hooks/**", f"{place}/new/**"]).outcomes
    assert "git takes" in outcome.detail and outcome.exit_code is None, outcome
    assert sorted((str(path), path.stat().st_ctime_ns) for path in (workspace / place).rglob("*")) == before
    assert "git takes" in run(workspace, "true", writes=[f"{place}/**"]).outcomes[0].detail
    git(workspace, "push", str(workspace / place), "HEAD:refs/heads/x")
    assert not payload_ran(workspace) and (workspace / place / "refs/heads/x").exists()


def test_the_work_tree_of_a_repository_under_another_name_cannot_be_led_astray(workspace: Path) -> None:
    shutil.rmtree(workspace / ".git")
    git(workspace, "init", "-q", "--separate-git-dir", str(workspace / ".bare"))
    assert run(workspace, f"git config -f .bare/config {CONFIG} || echo x > x").report.status == "completed"
    assert (workspace / "x").exists() and not payload_ran(workspace)


def test_no_repository_is_made_in_parts(workspace: Path) -> None:
    shutil.rmtree(workspace / ".git")
    (workspace / "HEAD").write_text("ref: refs/heads/main\n")
    (workspace / "config").write_text(
        f"[core]\n\trepositoryformatversion = 0\n\tworktree = .\n\tfsmonitor = touch {workspace.parent}/payload\n"
    )
    (outcome,) = run(workspace, "mkdir -p objects/info refs/heads", writes=["objects/**", "refs/**"]).outcomes
    assert "git takes `.` for a repository" in outcome.detail, outcome
    assert not payload_ran(workspace)


def test_what_a_hook_leads_to_cannot_be_written(workspace: Path) -> None:
    (workspace / "scripts").mkdir()
    (workspace / "scripts/hook").write_text("#!/bin/sh\n")
    (workspace / "scripts/hook").chmod(0o755)
    (workspace / ".git/hooks/post-checkout").symlink_to("../../scripts/hook")
    run(
        workspace,
        "echo touch @OUT/payload >> scripts/hook || cp /bin/true scripts/x && mv scripts/x scripts/hook",
    )
    moved = run(
        workspace, "mv scripts s && mkdir scripts && cp s/hook scripts && echo touch @OUT/payload >> scripts/hook"
    )
    assert moved.outcomes[0].error == "F_CONTROL_FILE" and not payload_ran(workspace)


@pytest.mark.slow
def test_ordinary_work_with_git_goes_on(workspace: Path) -> None:
    command = "echo x > x && git add x && git commit -qm x && git checkout -qb b && git rebase -q HEAD~1 && git status"
    carried = run(workspace, command)
    assert carried.report.status == "completed", carried.outcomes
    assert run(workspace, "mkdir -p src && echo x > src/x", writes=["src/**"]).report.status == "completed"
    assert os.listdir(workspace / ".git/hooks")
    (workspace / ".vscode").mkdir()
    (workspace / ".vscode/settings.json").write_text("{}")
    assert run(workspace, "git add -A && git commit -qm settings").report.status == "completed"
    git(workspace, "update-index", "--add", "--cacheinfo", f"160000,{'1' * 40},gone")
    assert run(workspace, "echo y > y && git add y && git rm -q --cached gone").report.status == "completed"
