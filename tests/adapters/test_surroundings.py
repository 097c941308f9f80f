"""The directory, the state directory, and what the probe finds out."""

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
from hypothesis import given
from msgspec.structs import replace

from ordain.adapters.directory import DirectoryWorkspace, find_workspace
from ordain.adapters.file_tools import DEFINITIONS
from ordain.adapters.memory import MemoryWorkspace
from ordain.adapters.state_directory import state_directory, workspace_directory
from ordain.core.action import Task
from ordain.core.lint.rules import lint
from ordain.core.model import ForEach
from ordain.core.problem import Refused
from ordain.core.settings import Settings
from tests.build import plan, step
from tests.plans import plans


def facts(tmp_path, *steps, **fields):
    return DirectoryWorkspace(tmp_path, 0).facts(plan(*steps, **fields), DEFINITIONS, Settings(), None)


def codes(tmp_path, *steps, **fields):
    return [problem.code for problem in lint(plan(*steps, **fields), facts(tmp_path, *steps, **fields))]


@pytest.mark.parametrize("text", ["echo 'a", "if true; then", "fi", "a && ", "for x in a b", "$(", "case x in", "}"])
def test_what_bash_cannot_parse_is_found_without_running_it(tmp_path, text):
    assert text in facts(tmp_path, step("a", run=text)).shell_faults
    assert codes(tmp_path, step("a", run=text)) == ["E_COMMAND_SYNTAX"]
    assert codes(tmp_path, step("a", run="make", contract=text)) == ["E_CONTRACT_SYNTAX"]


@pytest.mark.parametrize(
    "text", ["true", "touch made", "a | b && c", "[[ -f x ]]", "cat <<'E'\nx\nE", "echo $((1+1))", "f() { :; }; f"]
)
def test_what_bash_can_parse_is_no_fault_and_is_not_run(tmp_path, text):
    assert facts(tmp_path, step("a", run=text, contract=text)).shell_faults == {}
    assert os.listdir(tmp_path) == []


def test_missing_programs_are_named(tmp_path):
    (tmp_path / "run.sh").write_text("")
    (tmp_path / "run.sh").chmod(0o755)
    found = facts(
        tmp_path,
        step("a", contract="no-such-program-x -q"),
        step("b", contract="FOO=1 no-such-program-y | timeout 5 no-such-program-z"),
        step("c", contract="test -f x"),
        step("d", contract="sh -c true"),
        step("e", contract="./made-later.sh && ./run.sh"),
        step("f", contract="$PROGRAM x"),
        step("g", run="no-such-program-in-a-command"),
    )
    assert found.missing_programs == {
        "no-such-program-x",
        "no-such-program-y",
        "no-such-program-z",
        "./made-later.sh",
    }


def test_missing_files_are_named(tmp_path):
    (tmp_path / "here.txt").write_text("")
    reads = ("file:here.txt", "file:gone.txt", "file:src/**", "file:../out", "topic:x")
    found = facts(
        tmp_path,
        step("a", tool="read_file", args={"path": "here.txt"}),
        step("b", tool="read_file", args={"path": "not-here.txt"}),
        step("c", tool="read_file", args={"path": "${a.output}"}),
        step("d", tool="write_file", args={"path": "new.txt", "content": ""}),
        replace(step("e"), action=Task(task="x", reads=reads)),
    )
    assert found.missing_files == {"not-here.txt", "gone.txt"}


def test_expressions_are_checked_with_the_names_they_have(tmp_path):
    each = ForEach(source="${a.output}", max=5)
    found = facts(
        tmp_path,
        replace(step("a"), when="item == 1"),
        replace(step("b"), when="item == 1", for_each=each),
        replace(step("c"), when="1 + 1"),
    )
    assert {expression for expression, names in found.expression_faults} == {"item == 1", "1 + 1"}
    assert all("item" not in names for _, names in found.expression_faults)


@pytest.mark.parametrize("name", ["a\0b", "\ud800", "x" * 5000, "x/" * 3000])
def test_names_that_no_file_can_have_are_looked_for_without_an_exception(tmp_path, name):
    reading = replace(step("b"), action=Task(task="x", reads=(f"file:{name}",)))
    found = facts(tmp_path, step("a", run=f"'{name}' | x", contract=f"'{name}' | x"), reading)
    assert found.missing_files <= {name}


@given(made=plans())
def test_any_plan_gives_problems_and_never_an_exception(tmp_path, made):
    found = lint(made, DirectoryWorkspace(tmp_path, 0).facts(made, DEFINITIONS, Settings(), None))
    assert all(problem.detail.endswith(".") for problem in found)


def test_a_plan_without_expressions_loads_no_expression_language():
    code = (
        "import sys; from pathlib import Path; from tests.build import plan, step;"
        "from ordain.adapters.directory import DirectoryWorkspace; from ordain.core.settings import Settings;"
        "made = plan(step('a', run='make', contract='test -s x'));"
        "DirectoryWorkspace(Path('.'), 0).facts(made, {}, Settings(), None);"
        "print([name for name in ('cel_expr_python', 'tree_sitter') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_the_workspace_is_the_nearest_marked_directory(tmp_path):
    inner = tmp_path / "a/b"
    inner.mkdir(parents=True)
    (tmp_path / "a" / ".git").mkdir()
    assert find_workspace(inner) == (tmp_path / "a").resolve()


def test_replacing_the_directory_changes_its_identity(tmp_path):
    place = tmp_path / "ws"
    place.mkdir()
    before = DirectoryWorkspace(place, 0).identity()
    place.rename(tmp_path / "moved")
    place.mkdir()
    after = DirectoryWorkspace(place, 0).identity()
    assert before[0] == after[0] and before != after


def test_the_state_directory_is_made_private(tmp_path):
    made = state_directory({"ORDAIN_HOME": str(tmp_path / "deep/state")}, tmp_path / "ws")
    assert made.stat().st_mode & 0o777 == 0o700
    shelf = workspace_directory(made, tmp_path / "ws")
    assert shelf.stat().st_mode & 0o777 == 0o700


@pytest.mark.parametrize(
    ("env", "where"),
    [
        ({"XDG_STATE_HOME": "{tmp}/xdg"}, "xdg/ordain"),
        ({"HOME": "{tmp}/home"}, "home/.local/state/ordain"),
        ({"ORDAIN_HOME": "{tmp}/own", "HOME": "{tmp}/home"}, "own"),
    ],
)
def test_where_state_is_kept(tmp_path, env, where):
    filled = {name: value.format(tmp=tmp_path) for name, value in env.items()}
    assert state_directory(filled, tmp_path / "ws") == tmp_path / where


def test_unsafe_state_directories_are_refused(tmp_path):
    (tmp_path / "ws").mkdir()
    (tmp_path / "real").mkdir(mode=0o700)
    (tmp_path / "link").symlink_to(tmp_path / "real")
    (tmp_path / "open").mkdir()
    (tmp_path / "open").chmod(0o755)
    (tmp_path / "file").write_text("")
    for value in ("ws", "ws/state", "link", "open", "file", "file/state"):
        with pytest.raises(Refused) as refused:
            state_directory({"ORDAIN_HOME": str(tmp_path / value)}, tmp_path / "ws")
        assert refused.value.problems[0].code == "E_STATE_DIR", value
    for env in ({}, {"ORDAIN_HOME": "relative"}):
        with pytest.raises(Refused):
            state_directory(env, tmp_path / "ws")


def test_files_by_pattern_without_links_or_anything_outside(tmp_path: Path) -> None:
    workspace = tmp_path / "ws"
    (workspace / "src" / "deep").mkdir(parents=True)
    (workspace / ".ordain").mkdir()
    for name in ("src/b.py", "src/a.py", "src/deep/c.py", "src/d.txt", ".ordain/x.py", "src/new\nline.py"):
        (workspace / name).write_text("")
    (tmp_path / "outside.py").write_text("")
    (workspace / "src" / "link.py").symlink_to(tmp_path / "outside.py")
    (workspace / "linked").symlink_to(workspace / "src")
    (workspace / "src" / os.fsdecode(b"\xff.py")).write_text("")
    files = DirectoryWorkspace(workspace, 0).files
    assert files("src/*.py") == ("src/a.py", "src/b.py")
    assert files("**/*.py") == ("src/a.py", "src/b.py", "src/deep/c.py")
    assert files("linked/*.py") == ()
    assert files("linked/**") == ()
    assert files("src/**") == ("src/a.py", "src/b.py", "src/d.txt", "src/deep/c.py")
    assert files("src/deep/") == files("./src//deep/*") == files("src/d?ep/c.py") == ("src/deep/c.py",)
    assert files("src/d.txt") == ("src/d.txt",)
    assert files("**.txt") == ("src/d.txt",)
    bad = ("", ".", "./", "../*.py", "/etc/*", "**x", "~/*", "src/\0", "src/\0/*", "gone/*", "src/d.txt/*", ".ordain/*")
    assert [files(one) for one in bad] == [()] * len(bad)


def test_files_of_git_and_ours_are_not_looked_at(tmp_path):
    for name in ("a.py", ".git/b.py", "sub/.git/c.py", ".ordain/d.py", ".github/e.py"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("")
    assert DirectoryWorkspace(tmp_path, 0).files("**/*.py") == (".github/e.py", "a.py")


def test_more_files_than_anybody_should_wait_for_are_refused(tmp_path, monkeypatch):
    for number in range(12):
        (tmp_path / f"{number}.txt").write_text("")
    workspace = DirectoryWorkspace(tmp_path, 0)
    monkeypatch.setattr("ordain.adapters.directory.ENTRIES_MAX", 12)
    assert len(workspace.files("*.txt")) == 12
    (tmp_path / "more").write_text("")
    with pytest.raises(Refused) as refused:
        workspace.files("*.txt")
    assert refused.value.problems[0].code == "E_PARAM"


@pytest.mark.parametrize("pattern", ["**/" * 6 + "*", "**/" * 6 + "x", "**/*a" * 6, "*/" * 41 + "*"])
def test_files_of_a_deep_tree_are_found_in_bounded_time(tmp_path, pattern):
    deep = tmp_path
    for _ in range(40):
        deep = deep / "a"
        deep.mkdir()
        (deep / "f").write_text("")
    started = time.process_time()
    DirectoryWorkspace(tmp_path, 0).files(pattern)
    assert time.process_time() - started < 2


PATTERNS = ["*", "*.py", "**", "**/*.py", "src/*.py", "src/**", "src/", "./a.py", "s?c/b.py", ".", "", "../*", "[a].py"]


@pytest.mark.parametrize("pattern", PATTERNS)
def test_the_workspace_in_memory_finds_the_same_files(tmp_path, pattern):
    memory = MemoryWorkspace()
    for name in ("a.py", "src/b.py", "src/deep/c.py", "src/d.txt", "[a].py"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("")
        memory.documents[name] = b""
    assert memory.files(pattern) == DirectoryWorkspace(tmp_path, 0).files(pattern)
