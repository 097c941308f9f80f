"""Control files, by an oracle of its own that really writes: with the file tools, in one real sandbox, through the hook
and beside protected files. What is on the disk afterwards decides. 10,000 paths and ways in `make sweep`, else a tenth.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import shlex
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

import pytest

from ordain.assemble import quick_guard as quick
from ordain.interfaces.hook import claude as claude_hook
from tests.interfaces.workspace import Workspace
from tests.programs import need
from tests.words import (
    BubblewrapSandbox,
    Command,
    FileTools,
    Options,
    ProtectedFiles,
    QuickGuard,
    SandboxLimits,
    Settings,
    answer_hook,
    denied_reason,
    folded,
)

SEED = os.environ.get("ORDAIN_SEED", "20261118")
ALL, SOME, FEW = 10_000, 1_000, 250
MORE = (".github/**", "deploy/")
"""What the settings add in these tests."""

# The oracle: names of control files as they stand in the documentation of git and of each host, and nothing of ours.
_CONTROL = """
.git/config .git/hooks/pre-commit .git .ordain/plans/x.md ordain.toml .claude/settings.json .claude/settings.local.json
.claude/agents/a.md .claude/hooks/h.sh .mcp.json .codex/config.toml .codex/hooks.json .gemini/settings.json
.qwen/settings.json .cursor/hooks.json .cursor/mcp.json .opencode/plugins/p.js opencode.json .copilot/hooks/h.json
.github/hooks/h.json .github/copilot/settings.json .pi/extensions/e.ts .goose/config.yaml .agents/plugins/p/plugin.json
crush.json .amp/settings.json .windsurf/hooks.json .vscode/tasks.json .vscode/settings.json .idea/workspace.xml
.idea/runConfigurations/r.xml .devcontainer/devcontainer.json .zed/tasks.json project.code-workspace .envrc .exrc
.github/workflows/ci.yml deploy/prod.sh
"""
_PLAIN = """
README.md AGENTS.md CLAUDE.md src/main.py docs/git.md .gitignore .gitattributes .editorconfig .env.example gitlab/x
claude/settings.json mcp.json vscode/tasks.json .dockerignore ordain.md tools/ordain.toml.md .claudeignore .prettierrc
"""
CONTROL, PLAIN = _CONTROL.split(), _PLAIN.split()
AT_THE_TOP = (".github/workflows/ci.yml", "deploy/prod.sh")
"""What the settings name is meant from the top of the workspace on."""
PLACES = ("", "", "sub/", "a/b/c/", "packages/web/", "näh/", "with blank/")
IGNORED = "\u200b\u200c\u200d\u200e\u202a\u206a\ufeff"
WAYS = ("write", "make", "edit", "delete", "move from", "move to", "move above", "delete above")


class Case(NamedTuple):
    number: int
    path: str
    """Beneath a directory of the case's own, or at the top of a workspace of its own."""
    way: str
    control: bool
    """What the oracle says."""


def spelt(path: str, draw: random.Random) -> str:
    """The same to some file system."""
    head, *rest = path.split("/")
    match draw.randrange(6):
        case 0:
            head = head.upper()
        case 1:
            place = draw.randrange(1, len(head))
            head = head[:place] + draw.choice(IGNORED) + head[place:]
        case 2:
            head += draw.choice((".", " ", " ."))
        case 3 if head == ".git":
            head = "GIT~1"
        case _:
            pass
    return "/".join([head, *rest])


def cases(count: int) -> Iterator[Case]:
    draw = random.Random(SEED)
    for number in range(count):
        control = draw.random() < 0.6
        path = draw.choice(CONTROL if control else PLAIN)
        at_the_top = path in AT_THE_TOP
        place = "" if at_the_top else draw.choice(PLACES)
        path = place + (spelt(path, draw) if control and not at_the_top else path)
        yield Case(number, path, draw.choice(WAYS), control)


def seeded(root: Path, case: Case) -> Path:
    """A workspace in which there is something to do this to."""
    ws = root / str(case.number)
    ws.mkdir()
    target = ws / case.path
    if case.way not in ("write", "make", "move to"):
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text("before")
    elif case.way != "make":
        target.parent.mkdir(parents=True, exist_ok=True)
    (ws / "else").mkdir()
    (ws / "else/file").write_text("else")
    return ws


def tree(ws: Path) -> dict[str, str]:
    """Every file but what was set aside, with its content."""
    kept = {".ordain/replaced", ".ordain/runs"}
    found = {}
    for directory, _, files in os.walk(ws):
        inner = os.path.relpath(directory, ws)
        if not any(f"{inner}/".startswith(f"{one}/") for one in kept):
            found.update({f"{inner}/{name}": Path(directory, name).read_text() for name in files})
            found[f"{inner}/"] = ""
    return found


def files(found: dict[str, str]) -> dict[str, str]:
    """Without the directories."""
    return {path: text for path, text in found.items() if path[-1] != "/"}


# --- Ways to write ---------------------------------------------------------------------------------------------------


def by_tool(ws: Path, case: Case, runner: asyncio.Runner) -> None:
    path = case.path
    top = path.partition("/")[0]
    calls: dict[str, tuple[str, dict[str, Any]]] = {
        "write": ("write_file", {"path": path, "content": "x"}),
        "make": ("make_dir", {"path": path}),
        "edit": ("edit_file", {"path": path, "old": "before", "new": "x"}),
        "delete": ("delete", {"path": path}),
        "move from": ("move", {"path": path, "to": "else/moved"}),
        "move to": ("move", {"path": "else/file", "to": path}),
        "move above": ("move", {"path": top, "to": "else/above"}),
        "delete above": ("delete", {"path": top, "recursive": True}),
    }
    tool, args = calls[case.way]
    runner.run(FileTools(ws).call(tool, args, "s:0", control=MORE))


def in_shell(case: Case) -> str:
    """The same as a command, in the directory of the case."""
    path, top = shlex.quote(f"./{case.path}"), shlex.quote(f"./{case.path.partition('/')[0]}")
    return (
        {
            "write": f"mkdir -p $(dirname {path}); echo x > {path}",
            "make": f"mkdir -p {path}; echo x > {path}/x",
            "edit": f"echo x > {path}",
            "delete": f"rm -f {path}",
            "move from": f"mv {path} else/moved",
            "move to": f"mkdir -p $(dirname {path}); mv else/file {path}",
            "move above": f"mv {top} else/above",
            "delete above": f"rm -rf {top}",
        }[case.way]
        .replace("$(dirname", '"$(dirname')
        .replace("); ", ')"; ')
    )


@pytest.fixture
def hook(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> QuickGuard:
    """The hook of a workspace whose settings open every tool on files; without a ledger."""
    settings = Settings(guard_mode="enforce", guarded=("*",), open_calls=("write_file", "path:**"), control=MORE)
    guard = QuickGuard(tmp_path, tmp_path / "state", settings)
    monkeypatch.setattr(claude_hook, "quick_guard", lambda *_, **__: guard)
    monkeypatch.setattr(quick, "approved_plans", lambda *_: [])
    monkeypatch.setattr(quick, "SightingLog", lambda _: SimpleNamespace(note=lambda seen: None))
    return guard


def writes_by_hook(ws: Path, case: Case, hook: QuickGuard) -> bool:
    """Whether a host may write there, by what the hook answers it."""
    hook.workspace = str(ws)
    args = {"file_path": str(ws / case.path), "content": "x"}
    asked = {"hook_event_name": "PreToolUse", "cwd": str(ws), "tool_name": "Write", "tool_input": args}
    return denied_reason(answer_hook(json.dumps(asked).encode(), Options())) is None


def is_protected(ws: Path, case: Case, runner: asyncio.Runner) -> bool:
    """Whether a new file is tampering where everything is protected; somebody at tier 0 makes it."""
    protection = ProtectedFiles(ws)
    kept = runner.run(protection.save(["**"], ()))
    (ws / case.path).parent.mkdir(parents=True, exist_ok=True)
    (ws / case.path).write_text("x")
    return case.path in runner.run(protection.beside(["**"], kept))


# --- What came of it -------------------------------------------------------------------------------------------------


@pytest.fixture
def root() -> Iterator[Path]:
    """In memory, where there is such a place: file tools wait for the disk."""
    memory = "/dev/shm"
    with tempfile.TemporaryDirectory(dir=memory if os.access(memory, os.W_OK) else None) as path:
        yield Path(path)


def test_file_tools_and_hook_agree_with_the_oracle(root: Path, hook: QuickGuard) -> None:
    agreement(root, FEW, hook)


def test_what_the_settings_add_is_refused_at_the_moment_of_the_write(tmp_path: Path) -> None:
    """Lint cannot know a path that an earlier step decides."""
    workspace = Workspace(tmp_path)
    workspace.trust('[policy]\nallow = ["write_file", "shell"]\n\n[control]\nfiles = ["ci/**"]\n')
    (tmp_path / "ci").mkdir()
    choose = "### 1. Choose\n\n**run:** printf ci/deploy.yml\n"
    write = "### 2. Write\n\n**tool:** write_file\n**args:**\n```yaml\npath: ${choose.output}\ncontent: run it\n```\n"
    workspace.write("plan.md", f"# Write\n\n## Steps\n\n{choose}\n{write}")
    done = workspace.ordain("run", "plan.md", "--json")
    assert (done.status, "F_PATH_ESCAPE" in done.out) == (1, True), done.out + done.err
    assert [*(tmp_path / "ci").iterdir()] == []


@pytest.mark.sweep
def test_file_tools_and_hook_agree_with_the_oracle_on_every_case(root: Path, hook: QuickGuard) -> None:
    agreement(root, ALL, hook)


def agreement(root: Path, count: int, hook: QuickGuard) -> None:
    refused = 0
    with asyncio.Runner() as runner:
        for case in cases(count):
            ws = seeded(root, case)
            before = tree(ws)
            assert writes_by_hook(ws, case, hook) is not case.control, f"hook, ORDAIN_SEED={SEED}: {case}"
            by_tool(ws, case, runner)
            did_nothing = tree(ws) == before
            assert did_nothing is case.control, f"file tool, ORDAIN_SEED={SEED}: {case}"
            refused += case.control
            if case.way == "write":  # what is git's or Ordain's own no pattern means
                own = not {".git", ".ordain"}.isdisjoint(folded(case.path).split("/"))
                assert is_protected(ws, case, runner) is not own, f"protect, ORDAIN_SEED={SEED}: {case}"
            shutil.rmtree(ws)
    assert count // 3 < refused < count


@pytest.mark.slow
def test_a_sandbox_agrees_with_the_oracle(root: Path) -> None:
    sandboxed(root, SOME // 4)


@pytest.mark.sweep
@pytest.mark.timeout(900)
def test_a_sandbox_agrees_with_the_oracle_on_every_case(root: Path) -> None:
    for part in range(4):  # each holds at most so many mounts
        (root / str(part)).mkdir()
        sandboxed(root / str(part), ALL // 4, first=part * ALL // 4)


def sandboxed(root: Path, count: int, first: int = 0) -> None:
    """All of them in one workspace and one sandbox, each in a directory of its own. Where a command could write a
    control file, nothing of that is left where it counts, and it is told."""
    need("bwrap")
    ws = root / "ws"
    ws.mkdir()
    every = [case for case in cases(first + count) if case.number >= first and "/".join(case.path.split("/")[:1])]
    # What the settings name counts from the top on, where there is room for one case only.
    chosen = [case for case in every if not case.path.startswith((".github/workflows", "deploy/"))]
    before = {case: tree(seeded(ws, case)) for case in chosen}
    script = "\n".join(f"(cd {case.number} && {{ {in_shell(case)}; }}) 2>/dev/null" for case in chosen)
    (root / "room").mkdir()
    shell = BubblewrapSandbox(ws, room=lambda: root / "room").shell(SandboxLimits(control=MORE))
    (ws / "script.sh").write_text(script)
    command = Command(text="bash script.sh; true", env={"PATH": "/usr/bin:/bin"}, timeout_ms=600_000, mark="t/RUN-1")
    finished = asyncio.run(shell.run(command))
    assert finished.exit_code == 0, finished
    told = " ".join(finished.control)
    for case in chosen:
        place = ws / str(case.number)
        if not case.control:
            changed = files(tree(place)) != files(before[case])
            assert changed, f"the sandbox kept an ordinary file, ORDAIN_SEED={SEED}: {case}"
            continue
        name = case.path if "/" in case.path else f"./{case.path}"
        was, now = before[case].get(name), tree(place).get(name)
        assert now in (None, was), f"sandbox, ORDAIN_SEED={SEED}: {case}"
        assert now == was or f"`{case.number}/" in told, f"nobody was told, ORDAIN_SEED={SEED}: {case}"
    assert "is new or has changed" in told


LOADERS = """
conftest.py tests/conftest.py sitecustomize.py usercustomize.py x.pth pytest.ini tox.ini setup.cfg pyproject.toml
json.py tests/__init__.py
tests/helper/__init__.py helper.py tests/new.py jest.config.js vitest.config.ts .mocharc.yml go.work
package.json tsconfig.json babel.config.js .cargo/config.toml GNUmakefile
"""
OTHERS = "src/app.py docs/x.md main.py lib/conftest.txt data.json tests/__pycache__/x.pyc README.md web/index.js"


def test_protect_agrees_with_the_oracle(root: Path) -> None:
    """What tells how protected files are loaded is found new, and nothing else is."""
    loaders, others = LOADERS.split(), OTHERS.split()
    (root / "ws/tests").mkdir(parents=True)
    for name in ("helper.py", "test_it.py"):
        (root / "ws/tests" / name).write_text("x")
    protection = ProtectedFiles(root / "ws")
    kept = asyncio.run(protection.save(["tests/**"], ()))
    assert set(kept) == {"tests/helper.py", "tests/test_it.py"}
    for path in (*loaders, *others):
        file = root / "ws" / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("x")
        found = set(asyncio.run(protection.beside(["tests/**"], kept))) - set(kept)
        assert found == ({path} if path in loaders else set()), path
        asyncio.run(protection.set_aside(found))
        assert file.exists() is (path in others)
        file.unlink(missing_ok=True)
