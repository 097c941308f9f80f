"""The directory, the state directory, and what the probe finds out."""

import os

import pytest

from ordain.adapters.directory import DirectoryWorkspace, find_workspace
from ordain.adapters.file_tools import DEFINITIONS
from ordain.adapters.state_directory import state_directory, workspace_directory
from ordain.core.problem import Refused
from tests.build import plan, step


def facts(tmp_path, *steps):
    return DirectoryWorkspace(tmp_path, 0).facts(plan(*steps), DEFINITIONS, None)


@pytest.mark.parametrize("text", ["echo 'a", "if true; then", "fi", "a && ", "for x in a b", "$(", "case x in", "}"])
def test_what_bash_cannot_parse_is_found_without_running_it(tmp_path, text):
    assert text in facts(tmp_path, step("a", run=text)).shell_faults


@pytest.mark.parametrize(
    "text", ["true", "touch made", "a | b && c", "[[ -f x ]]", "cat <<'E'\nx\nE", "echo $((1+1))", "f() { :; }; f"]
)
def test_what_bash_can_parse_is_no_fault_and_is_not_run(tmp_path, text):
    assert facts(tmp_path, step("a", run=text, contract=text)).shell_faults == {}
    assert os.listdir(tmp_path) == []


def test_a_missing_program_is_named(tmp_path):
    found = facts(
        tmp_path,
        step("a", contract="no-such-program-x -q"),
        step("b", contract="FOO=1 no-such-program-y"),
        step("c", contract="test -f x"),
        step("d", contract="sh -c true"),
        step("e", contract="./made-later.sh"),
        step("f", contract="$PROGRAM x"),
    )
    assert found.missing_programs == {
        "no-such-program-x -q": "no-such-program-x",
        "FOO=1 no-such-program-y": "no-such-program-y",
    }


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
