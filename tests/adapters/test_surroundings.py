"""The directory, the state directory, and what the probe finds out."""

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from tests.build import plan, step
from tests.patience import hang_guard
from tests.plans import plans
from tests.twins.workspace import MemoryWorkspace
from tests.words import (
    DEFINITIONS,
    SETTLED_NS,
    Ask,
    DirectoryWorkspace,
    ForEach,
    Refused,
    Settings,
    Task,
    find_workspace,
    lint,
    state_directory,
    workspace_directory,
)


def facts(tmp_path, *steps, **fields):
    return DirectoryWorkspace(tmp_path).facts(plan(*steps, **fields), DEFINITIONS, Settings(), None)


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
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "check.sh").write_text("")
    (tmp_path / "sub" / "check.sh").chmod(0o755)
    found = facts(
        tmp_path,
        step("a", contract="no-such-program-x -q"),
        step("b", contract="FOO=1 no-such-program-y | timeout 5 no-such-program-z"),
        step("c", contract="test -f x"),
        step("d", contract="sh -c true"),
        step("e", contract="./made-later.sh && ./run.sh"),
        step("f", contract="$PROGRAM x"),
        step("g", run="no-such-program-in-a-command"),
        step("h", run="command -v no-such-program-asked-for && no-such-program-asked-for"),
        step("i", tool="exec", args={"argv": ["no-such-program-of-exec", "$X"]}),
        step("j", contract="cd sub && ./check.sh && ./gone.sh"),
        step("k", run="/home/somebody/gone; ../gone; /usr/bin/no-such-program-there"),
    )
    assert found.missing_programs == {
        *("no-such-program-in-a-command", "no-such-program-of-exec", "sub/gone.sh", "/usr/bin/no-such-program-there"),
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
    found = lint(made, DirectoryWorkspace(tmp_path).facts(made, DEFINITIONS, Settings(), None))
    assert all(problem.detail.endswith(".") for problem in found)


def test_a_plan_without_expressions_loads_no_expression_language():
    code = (
        "import sys; from pathlib import Path; from tests.build import plan, step;"
        "from ordain.adapters.workspace.directory import DirectoryWorkspace;"
        "from ordain.core.policy.settings import Settings;"
        "made = plan(step('a', run='make', contract='test -s x'));"
        "DirectoryWorkspace(Path('.')).facts(made, {}, Settings(), None);"
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
    before = DirectoryWorkspace(place).identity()
    place.rename(tmp_path / "moved")
    place.mkdir()
    after = DirectoryWorkspace(place).identity()
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
    files = DirectoryWorkspace(workspace).files
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
    assert DirectoryWorkspace(tmp_path).files("**/*.py") == (".github/e.py", "a.py")


def test_more_files_than_anybody_should_wait_for_are_refused(tmp_path, monkeypatch):
    for number in range(12):
        (tmp_path / f"{number}.txt").write_text("")
    workspace = DirectoryWorkspace(tmp_path)
    monkeypatch.setattr("ordain.adapters.workspace.directory.ENTRIES_MAX", 12)
    assert len(workspace.files("*.txt")) == 12
    (tmp_path / "more").write_text("")
    with pytest.raises(Refused) as refused:
        workspace.files("*.txt")
    assert refused.value.problems[0].code == "E_PARAM"


@hang_guard
@pytest.mark.parametrize("pattern", ["**/" * 6 + "*", "**/" * 6 + "x", "**/*a" * 6, "*/" * 41 + "*"])
def test_files_of_a_deep_tree_are_found_in_bounded_time(tmp_path, pattern):
    deep = tmp_path
    for _ in range(40):
        deep = deep / "a"
        deep.mkdir()
        (deep / "f").write_text("")
    DirectoryWorkspace(tmp_path).files(pattern)


PATTERNS = ["*", "*.py", "**", "**/*.py", "src/*.py", "src/**", "src/", "./a.py", "s?c/b.py", ".", "", "../*", "[a].py"]


@pytest.mark.parametrize("pattern", PATTERNS)
def test_the_workspace_in_memory_finds_the_same_files(tmp_path, pattern):
    memory = MemoryWorkspace()
    for name in ("a.py", "src/b.py", "src/deep/c.py", "src/d.txt", "[a].py"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("")
        memory.documents[name] = b""
    assert memory.files(pattern) == DirectoryWorkspace(tmp_path).files(pattern)


# --- What is in the files that a plan names ------------------------------------------------------------------------


def sha256(content: bytes) -> str:
    return f"sha256:{hashlib.sha256(content).hexdigest()}"


def link_to(target: str) -> str:
    return f"link:{hashlib.sha256(target.encode()).hexdigest()}"


def refusal(workspace, paths=(), patterns=()):
    with pytest.raises(Refused) as refused:
        workspace.digests(paths, patterns)
    return refused.value.problems[0]


class Surroundings:
    """A workspace in a directory or in memory, and files put into it."""

    def __init__(self, path: Path | None) -> None:
        self.path = path
        self.workspace = DirectoryWorkspace(path) if path is not None else MemoryWorkspace()

    def put(self, name: str, content: bytes = b"") -> None:
        if isinstance(self.workspace, MemoryWorkspace):
            self.workspace.documents[name] = content
        else:
            (self.path / name).parent.mkdir(parents=True, exist_ok=True)
            (self.path / name).write_bytes(content)

    def remove(self, name: str) -> None:
        if isinstance(self.workspace, MemoryWorkspace):
            del self.workspace.documents[name]
        else:
            (self.path / name).unlink()


@pytest.fixture(params=["directory", "memory"])
def around(request, tmp_path):
    return Surroundings(tmp_path if request.param == "directory" else None)


def test_files_are_known_by_their_content(around):
    around.put("a.txt", b"one")
    around.put("src/b.txt", b"\xff" * 3_000_000)
    around.put("empty")
    digests = around.workspace.digests
    seen = {
        "a.txt": sha256(b"one"),
        "a.txt/beneath": "absent",
        "empty": sha256(b""),
        "gone.txt": "absent",
        "src": "directory",
        "src/b.txt": sha256(b"\xff" * 3_000_000),
    }
    assert digests(["./src//b.txt", "src/", "gone.txt", "empty", "a.txt/beneath", "a.txt", "a.txt"], []) == seen
    assert list(digests([*reversed(seen)], [])) == sorted(seen)
    around.put("a.txt", b"two")
    around.remove("empty")
    around.put("empty/no-longer", b"")
    assert digests(["a.txt", "empty"], []) == {"a.txt": sha256(b"two"), "empty": "directory"}


def test_patterns_mean_what_they_protect(around):
    for name in ("tests/a.py", "tests/deep/b.py", "Tests2/c.py", "src/conftest.py", "odd\nname.py", "[x].txt"):
        around.put(name, name.encode())

    def seen(*patterns):
        return list(around.workspace.digests([], patterns))

    assert seen("tests/**") == seen("tests/") == seen("TESTS/**", "tests/*.py") == ["tests/a.py", "tests/deep/b.py"]
    assert seen("tests/*") == ["tests/a.py"]
    assert seen("**/conftest.py", "[X].txt", "odd*") == ["[x].txt", "odd\nname.py", "src/conftest.py"]
    assert seen("gone/**", "tests", "src/*/x", ".") == []
    assert around.workspace.digests(["tests/a.py", "x"], ["tests/*"]) == {
        "tests/a.py": sha256(b"tests/a.py"),
        "x": "absent",
    }


def test_what_git_keeps_or_is_ours_is_left_out(around):
    for name in (".git/HEAD", "sub/.git/index", ".ordain/x", ".github/y"):
        around.put(name)
    assert list(around.workspace.digests([".git/HEAD", ".git", ".ordain/x", "sub/.git/index"], ["**"])) == [".github/y"]
    assert around.workspace.digests([], [".git/hooks/**", ".ordain/"]) == {}


@pytest.mark.parametrize("path", ["", "/etc/passwd", "../x", "a/../../x", "~/x", "a\0b", ".", "./"])
def test_a_path_that_is_not_beneath_the_workspace_is_refused(around, path):
    assert refusal(around.workspace, [path]).code == "E_PATH"


@pytest.mark.parametrize("pattern", ["", "/etc/*", "../**", "*" * 5000])
def test_a_pattern_that_is_none_is_refused(around, pattern):
    assert refusal(around.workspace, patterns=[pattern]).code == "E_PATH"


@pytest.mark.parametrize("name", ["\ud800", "x" * 5000, "x/" * 3000 + "x"])
def test_where_no_file_can_be_there_is_none(around, name):
    assert around.workspace.digests([name], []) == {name: "absent"}


def test_hundreds_of_files(around):
    for number in range(200):
        around.put(f"tests/{number % 7}/{number}.py", str(number).encode())
    found = around.workspace.digests(["setup.py"], ["tests/**"])
    assert len(found) == 201
    assert all(found[f"tests/{number % 7}/{number}.py"] == sha256(str(number).encode()) for number in range(200))


NAMES = st.lists(st.sampled_from(["a", "b.py", "tests", "src", "x y", "ö"]), min_size=1, max_size=4).map("/".join)
WILD = st.sampled_from(["*", "**", "?", "*.py", "te*", "**x", "A", "b.py", "tests", "TESTS", "src"])
OPERAND_PATTERNS = st.builds(
    lambda parts, end: "/".join(parts) + end, st.lists(WILD, min_size=1, max_size=4), st.sampled_from(["", "/"])
)


@given(
    files=st.dictionaries(NAMES, st.binary(max_size=3), max_size=8),
    paths=st.lists(NAMES, max_size=4),
    patterns=st.lists(OPERAND_PATTERNS, max_size=3),
)
def test_the_workspace_in_memory_sees_the_same(files, paths, patterns):
    with tempfile.TemporaryDirectory() as place:
        directory, memory = Surroundings(Path(place)), Surroundings(None)
        for name, content in files.items():
            if not any(other.startswith(f"{name}/") for other in files):
                directory.put(name, content)
                memory.put(name, content)
        assert directory.workspace.digests(paths, patterns) == memory.workspace.digests(paths, patterns)


@given(path=st.text() | st.text("./~a\0 "))
def test_any_path_is_seen_alike_or_refused(path):
    with tempfile.TemporaryDirectory() as place:
        answers = []
        for workspace in (DirectoryWorkspace(Path(place)), MemoryWorkspace()):
            try:
                answers.append(workspace.digests([path], []))
            except Refused as refused:
                answers.append(refused.problems[0].code)
    assert answers[0] == answers[1]
    assert answers[0] in ({}, "E_PATH") or set(answers[0].values()) == {"absent"}


def test_a_link_is_its_target_and_is_not_followed(tmp_path):
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside/a.txt").write_text("one")
    place = tmp_path / "ws"
    (place / "tests").mkdir(parents=True)
    (place / "tests/a.txt").write_text("one")
    look = DirectoryWorkspace(place).digests
    before = look(["tests/a.txt"], ["tests/**"])
    assert before == {"tests/a.txt": sha256(b"one")}

    (place / "tests/a.txt").unlink()
    (place / "tests/a.txt").symlink_to("../../outside/a.txt")
    (place / "tests/new").symlink_to("/etc")
    assert look(["tests/a.txt", "tests/new/passwd"], ["tests/**"]) == {
        "tests/a.txt": link_to("../../outside/a.txt"),
        "tests/new": link_to("/etc"),
        "tests/new/passwd": link_to("/etc"),
    }

    (place / "tests").rename(tmp_path / "moved")
    (place / "tests").symlink_to("../outside")
    assert look(["tests/a.txt", "tests/x/y"], ["tests/**", "tests/x/*.py"]) == {
        "tests": link_to("../outside"),
        "tests/a.txt": link_to("../outside"),
        "tests/x/y": link_to("../outside"),
    }


def test_a_link_put_there_between_looking_and_opening_is_not_followed(tmp_path, monkeypatch):
    (tmp_path / "outside").write_text("secret")
    place = tmp_path / "ws"
    place.mkdir()
    (place / "a.txt").write_text("one")
    real = os.stat

    def swapping(name, **how):
        found = real(name, **how)
        if name == "a.txt":
            (place / "a.txt").unlink()
            (place / "a.txt").symlink_to(tmp_path / "outside")
        return found

    monkeypatch.setattr(os, "stat", swapping)
    assert refusal(DirectoryWorkspace(place), ["a.txt"]).code == "E_BASE_UNREADABLE"


def test_a_link_on_the_way_that_is_gone_the_next_moment_is_refused(tmp_path, monkeypatch):
    (tmp_path / "tests").symlink_to("/etc")
    real = os.stat

    def removing(name, **how):
        found = real(name, **how)
        if name == "tests":
            (tmp_path / "tests").unlink()
        return found

    monkeypatch.setattr(os, "stat", removing)
    assert refusal(DirectoryWorkspace(tmp_path), ["tests/passwd"]).detail == "`tests/passwd` changes while it is read."


def test_pipes_and_devices_are_not_opened(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    os.mkfifo(tmp_path / "pipe.py")
    assert DirectoryWorkspace(tmp_path).digests(["pipe"], ["*.py"]) == {"pipe": "other", "pipe.py": "other"}


@contextmanager
def without_rights() -> Iterator[None]:
    """As somebody whom the file system refuses something; root is refused nothing."""
    own = os.geteuid()
    if own == 0:
        os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(own)


def test_what_cannot_be_read_is_refused_by_name(tmp_path, monkeypatch):
    tmp_path.chmod(0o755)
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests").chmod(0)
    (tmp_path / "a.txt").write_text("one")
    (tmp_path / "a.txt").chmod(0)
    monkeypatch.chdir(tmp_path)  # the way there may be barred as well
    workspace = DirectoryWorkspace(Path())
    with without_rights():
        problems = [
            refusal(workspace, ["a.txt"]),
            refusal(workspace, ["tests/x"]),
            refusal(workspace, (), ["tests/**"]),
        ]
        assert workspace.digests(["b.txt"], ["src/**"]) == {"b.txt": "absent"}
    (tmp_path / "tests").chmod(0o700)
    assert {problem.code for problem in problems} == {"E_BASE_UNREADABLE"}
    assert [problem.detail for problem in problems] == [
        "`a.txt` cannot be read: permission denied.",
        "`tests/x` cannot be read: permission denied.",
        "`tests/` cannot be read: permission denied.",
    ]


def test_a_name_that_is_not_text_is_refused_where_a_pattern_means_it(tmp_path):
    (tmp_path / os.fsdecode(b"\xff.py")).write_text("")
    workspace = DirectoryWorkspace(tmp_path)
    assert workspace.digests([], ["*.txt"]) == {}
    problem = refusal(workspace, (), ["*.py"])
    assert problem.code == "E_BASE_UNREADABLE"
    assert "\\xff.py" in problem.detail


def test_a_file_that_grows_while_it_is_read_is_refused(tmp_path, monkeypatch):
    log = tmp_path / "a.log"
    log.write_bytes(b"x" * 10)

    class Growing:
        """Whoever reads to the end never gets there."""

        def update(self, chunk: bytes) -> None:
            with log.open("ab") as file:
                file.write(b"x" * 20)

        def hexdigest(self) -> str:
            return ""

    monkeypatch.setattr(hashlib, "sha256", Growing)
    problem = refusal(DirectoryWorkspace(tmp_path), ["a.log"])
    assert (problem.code, problem.detail) == ("E_BASE_UNREADABLE", "`a.log` changes while it is read.")
    assert log.stat().st_size == 30


@pytest.mark.parametrize(("bound", "most"), [("EFFORT_MAX", 40), ("OPERANDS_MAX", 3), ("OPERAND_BYTES_MAX", 39)])
def test_more_than_anybody_should_wait_for_is_refused(tmp_path, monkeypatch, bound, most):
    for number in range(4):
        (tmp_path / f"{number}.txt").write_text("0123456789")
    workspace = DirectoryWorkspace(tmp_path)
    assert len(workspace.digests([], ["*.txt"])) == 4
    monkeypatch.setattr(f"ordain.adapters.workspace.operand.{bound}", most)
    assert refusal(workspace, (), ["*.txt"]).code == "E_BASE_UNREADABLE"


@pytest.mark.slow
def test_patterns_that_are_slow_to_compare_are_refused_soon(tmp_path, monkeypatch):
    monkeypatch.setattr("ordain.adapters.workspace.operand.EFFORT_MAX", 2_000_000)
    deep = tmp_path / "a" / ("b" * 200)
    deep.mkdir(parents=True)
    for number in range(100):
        (deep / f"{number}{'c' * 150}").write_text("")
    for patterns in (
        [f"**{'*b*?' * 1000}{number}*" for number in range(1000)],
        [f"**{'*b*?' * 1000}{number}*" for number in range(30)],
        [f"**/{number}.x" for number in range(10_000)],
    ):
        assert refusal(DirectoryWorkspace(tmp_path), (), patterns).code == "E_BASE_UNREADABLE"


def test_a_workspace_that_is_gone_is_refused(tmp_path):
    assert refusal(DirectoryWorkspace(tmp_path / "gone"), ["a.txt"]).code == "E_WORKSPACE"


# --- Which commit is checked out -----------------------------------------------------------------------------------

COMMIT, OTHER = "1234567890" * 4, "ab" * 32


def repository(place: Path, head: str, **files: str) -> Path:
    """Git's own files as git writes them; `__` in a name stands for a slash, and `_` for a dash."""
    (place / "refs/heads").mkdir(parents=True)
    (place / "HEAD").write_text(head)
    for name, text in files.items():
        file = place / name.replace("__", "/").replace("_", "-")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    return place


def head(place: Path) -> str | None:
    return DirectoryWorkspace(place).git_head()


def untold(place: Path) -> str:
    with pytest.raises(Refused) as refused:
        head(place)
    assert refused.value.problems[0].code == "E_BASE_UNREADABLE"
    return refused.value.problems[0].detail


def test_the_workspace_in_memory_is_at_the_commit_it_is_told():
    workspace = MemoryWorkspace()
    assert workspace.git_head() is None
    workspace.head = COMMIT
    assert workspace.git_head() == COMMIT


def test_where_git_is_not_there_is_no_commit(tmp_path):
    assert head(tmp_path) is None
    (tmp_path / ".git").mkdir()
    assert head(tmp_path) is None
    repository(tmp_path / "new/.git", "ref: refs/heads/main\n")
    assert head(tmp_path / "new") is None


PACKED = (
    f"# pack-refs with: peeled fully-peeled sorted \n{OTHER} refs/heads/mainly\n^{OTHER}\n{COMMIT} refs/heads/main\n"
)


@pytest.mark.parametrize(
    ("text", "files"),
    [
        (f"{COMMIT}\n", {}),
        ("ref: refs/heads/main\n", {"refs__heads__main": f"{COMMIT}\n"}),
        ("ref: refs/heads/main\n", {"packed_refs": PACKED}),
        ("ref: refs/heads/main\n", {"packed_refs": PACKED.replace(COMMIT, OTHER), "refs__heads__main": COMMIT}),
        ("ref: refs/heads/main\n", {"packed_refs": PACKED, "refs__heads__main__left": f"{OTHER}\n"}),
        ("ref: refs/heads/a/b", {"refs__heads__a__b": "ref: refs/heads/main", "refs__heads__main": COMMIT}),
    ],
)
def test_the_commit_is_found_where_git_keeps_it(tmp_path, text, files):
    repository(tmp_path / ".git", text, **files)
    assert head(tmp_path) == COMMIT
    (tmp_path / "beneath").mkdir()
    assert head(tmp_path / "beneath") == COMMIT


def test_a_repository_that_cannot_be_read_is_not_passed_over_for_one_above(tmp_path):
    repository(tmp_path / ".git", COMMIT)
    (tmp_path / "ws/.git").mkdir(parents=True)
    assert head(tmp_path / "ws") == COMMIT
    (tmp_path / "ws/.git/HEAD").symlink_to("refs/heads/main")
    assert "no such file" in untold(tmp_path / "ws")
    repository(tmp_path / "ws/real", "", refs__heads__main=OTHER)
    (tmp_path / "ws/real/HEAD").unlink()
    (tmp_path / "ws/real/HEAD").symlink_to("refs/heads/main")
    (tmp_path / "ws/.git/HEAD").unlink()
    (tmp_path / "ws/.git").rmdir()
    (tmp_path / "ws/.git").symlink_to("real")
    assert head(tmp_path / "ws") == OTHER


def test_longer_commits_are_told_too(tmp_path):
    repository(tmp_path / ".git", OTHER)
    assert head(tmp_path) == OTHER


@pytest.mark.parametrize("absolute", [True, False])
def test_a_work_tree_has_its_own_head_and_the_common_references(tmp_path, absolute):
    main = repository(tmp_path / "main/.git", "ref: refs/heads/main", refs__heads__main=OTHER, refs__heads__side=COMMIT)
    own = repository(main / "worktrees/side", "ref: refs/heads/side\n", commondir="../..\n")
    (tmp_path / "side").mkdir()
    (tmp_path / "side/.git").write_text(f"gitdir: {own if absolute else '../main/.git/worktrees/side'}\n")
    assert head(tmp_path / "main") == OTHER
    assert head(tmp_path / "side") == COMMIT
    (own / "HEAD").write_text("ref: refs/worktree/mine")
    (own / "refs/worktree").mkdir(parents=True)
    (own / "refs/worktree/mine").write_text(OTHER)
    assert head(tmp_path / "side") == OTHER
    shutil.rmtree(own)
    assert "no such file" in untold(tmp_path / "side")


@pytest.mark.parametrize(
    "text",
    [
        *(
            "",
            "nonsense",
            COMMIT[:-1],
            COMMIT + "0",
            "ref: ",
            "ref: HEAD",
            "ref: refs/../../secret",
            "ref: /etc/passwd",
        ),
        *("ref: refs/heads/.invalid\n", "ref: refs/heads/circle", "ref: refs/heads/empty", f"{COMMIT} {COMMIT}"),
    ],
)
def test_a_head_that_cannot_be_read_is_refused(tmp_path, text):
    files = {"refs__heads__circle": "ref: refs/heads/circle", "refs__heads__empty": "", "packed_refs": PACKED}
    repository(tmp_path / ".git", text, **files)
    (tmp_path / "secret").write_text(COMMIT)
    assert "is of a form that is not read here" in untold(tmp_path)


@pytest.mark.parametrize("text", ["", "nonsense", "gitdir", "gitdir: gone", "gitdir: a\0b", f"gitdir: {'x' * 5000}"])
def test_a_git_file_that_leads_nowhere_is_refused(tmp_path, text):
    (tmp_path / ".git").write_text(text)
    untold(tmp_path)


def test_pipes_in_the_place_of_git_are_not_waited_for(tmp_path):
    os.mkfifo(tmp_path / ".git")
    untold(tmp_path)
    repository(tmp_path / "b/.git", "ref: refs/heads/main")
    os.mkfifo(tmp_path / "b/.git/refs/heads/main")
    untold(tmp_path / "b")


def test_references_beyond_reading_are_refused(tmp_path):
    repository(tmp_path / ".git", "ref: refs/heads/main", packed_refs="")
    os.truncate(tmp_path / ".git/packed-refs", 1 << 40)
    assert "file too large" in untold(tmp_path)


@pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")
def test_git_says_the_same(tmp_path):
    place = tmp_path / "main"

    def git(*words: str, at: Path = place) -> str:
        who = ("-c", "user.name=A", "-c", "user.email=a@example.org", "-c", "init.defaultBranch=main")
        return subprocess.run(["git", *who, *words], cwd=at, check=True, capture_output=True, text=True).stdout.strip()

    place.mkdir()
    git("init", "--quiet")
    assert head(place) is None
    git("commit", "--quiet", "--allow-empty", "--message", "one")
    first = head(place)
    assert first is not None and first == git("rev-parse", "HEAD")
    git("pack-refs", "--all")
    assert head(place) == first
    git("worktree", "add", "--quiet", "-b", "side/way", "../side")
    git("commit", "--quiet", "--allow-empty", "--message", "two", at=tmp_path / "side")
    assert head(place) == first != head(tmp_path / "side") == git("rev-parse", "HEAD", at=tmp_path / "side")
    git("checkout", "--quiet", "--detach", "side/way")
    assert head(place) == head(tmp_path / "side")
    git("checkout", "--quiet", "--orphan", "empty")
    assert head(place) is None


@pytest.mark.parametrize(
    ("pattern", "found"),
    [
        ("^[0-9]+(\\.[0-9]+)*$", []),
        ("[[a]", []),  # `re` warns of it on standard error
        ("(", ["E_ASK"]),
        ("(?=a)b", ["E_ASK"]),
        (r"(a)\1", ["E_ASK"]),
        ("a{5000}", ["E_ASK"]),
    ],
)
@pytest.mark.filterwarnings("error")
def test_a_pattern_of_an_answer_is_one_that_is_matched_in_bounded_time(
    tmp_path: Path, pattern: str, found: list[str]
) -> None:
    schema = {"properties": {"x": {"items": {"type": "string", "pattern": pattern}}}}
    assert codes(tmp_path, step("a", action=Ask(question="Which?", schema=schema))) == found


# --- The configuration, looked at before each step -------------------------------------------------------------------


def test_a_configuration_written_again_at_once_is_read_again(tmp_path: Path) -> None:
    """As long as before and as old as before, within the tick of the clock by which the system tells changes apart."""
    file, workspace = tmp_path / "ordain.toml", DirectoryWorkspace(tmp_path)
    assert workspace.configuration() is None
    for text in (b"a = 1\n", b"a = 2\n", b"a = 3\n"):
        file.write_bytes(text)
        os.utime(file, ns=(1, 1))
        read = workspace.configuration()
        assert read == text
        assert workspace.configuration() is not read, "not the same bytes, but read again"


def test_a_configuration_that_was_left_alone_is_not_read_again(tmp_path: Path) -> None:
    file = tmp_path / "ordain.toml"
    file.write_bytes(b"a = 1\n")
    later = DirectoryWorkspace(tmp_path, now_ns=lambda: file.stat().st_ctime_ns + 10 * SETTLED_NS)
    read = later.configuration()
    assert later.configuration() is read, "the same bytes, not equal ones"
    file.chmod(0o600)
    assert later.configuration() is not read
    file.write_bytes(b"a = 10\n")
    assert later.configuration() == b"a = 10\n"
    file.rename(tmp_path / "old.toml")
    assert later.configuration() is None
