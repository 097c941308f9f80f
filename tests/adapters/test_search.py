"""The built-in tool `search`: bounded, and nothing that is not for agents is looked into."""

import asyncio
import os
from pathlib import Path
from typing import Any

import pytest

from tests.words import FileTools, ToolResult


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    (tmp_path / "ws").mkdir()
    (tmp_path / "outside.txt").write_text("needle")
    return tmp_path / "ws"


def call(workspace: Path, *secret_files: str, **args: Any) -> ToolResult:
    return asyncio.run(FileTools(workspace).call("search", args, "step:0", secret_files=secret_files))


def found(workspace: Path, *secret_files: str, **args: Any) -> list[str]:
    result = call(workspace, *secret_files, **args)
    assert result.error is None
    matches: list[str] = result.value["matches"]
    return matches


def write(workspace: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        (workspace / name).parent.mkdir(parents=True, exist_ok=True)
        (workspace / name).write_text(text)


def test_lines_are_found_by_text_stars_names_and_either_case(workspace):
    write(workspace, {"src/a.py": "def find(*args):\n    return Needle\n", "src/b.md": "needle and find\r\n"})
    assert found(workspace, pattern="find(*args)") == ["src/a.py:1: def find(*args):"]
    assert found(workspace, pattern="def*args") == ["src/a.py:1: def find(*args):"]
    assert found(workspace, pattern="args*def") == []
    assert found(workspace, pattern="NEEDLE", ignore_case=True) == [
        "src/a.py:2: return Needle",
        "src/b.md:1: needle and find",
    ]
    assert found(workspace, pattern="find", files="*.md") == ["src/b.md:1: needle and find"]
    assert found(workspace, pattern="find", files="src/*.py") == ["src/a.py:1: def find(*args):"]
    assert found(workspace, pattern="find", path="src/a.py") == ["src/a.py:1: def find(*args):"]
    assert len(found(workspace, pattern="find", path="./src/")) == 2


@pytest.mark.parametrize(
    ("args", "error"),
    [
        ({"pattern": ""}, "F_STEP_FAILED"),
        ({"pattern": "**"}, "F_STEP_FAILED"),
        ({"pattern": "a\nb"}, "F_STEP_FAILED"),
        ({"pattern": "x" * 5000}, "F_STEP_FAILED"),
        ({"pattern": "x", "path": "nowhere"}, "F_STEP_FAILED"),
        ({"pattern": "x", "path": "../ws"}, "F_PATH_ESCAPE"),
        ({"pattern": "x", "path": "way"}, "F_PATH_ESCAPE"),
        ({"pattern": "x", "path": "/etc"}, "F_PATH_ESCAPE"),
        ({"pattern": "x", "path": ".ordain"}, "F_PATH_ESCAPE"),
    ],
)
def test_what_cannot_be_searched_is_refused(workspace, args, error):
    (workspace / "way").symlink_to(workspace.parent)
    assert call(workspace, **args).error == error


def test_nothing_but_plain_text_that_is_for_agents_is_looked_into(workspace):
    names = ("a", ".env", ".git/config", "id_rsa", "node_modules/x/index", "keys/mine")
    write(workspace, dict.fromkeys(names, "needle"))
    (workspace / "link").symlink_to(workspace.parent / "outside.txt")
    (workspace / "folder").symlink_to(workspace.parent)
    (workspace / "binary").write_bytes(b"needle\0")
    (workspace / "latin").write_bytes(b"needle \xff")
    with (workspace / "huge").open("wb") as file:
        file.write(b"needle\n")
        file.truncate(1 << 40)
    os.mkfifo(workspace / "pipe")
    assert found(workspace, str(workspace / "keys/mine"), pattern="needle") == ["a:1: needle"]
    assert found(workspace, pattern="needle", path=".env") == []
    assert found(workspace, pattern="needle", path="node_modules/x") == ["node_modules/x/index:1: needle"]


def test_there_is_an_end_to_what_is_found_and_shown(workspace):
    write(workspace, {"many": "needle\n" * 300, "long": "x" * 5000 + "needle" + "y" * 5000})
    result = call(workspace, pattern="needle", path="many").value
    assert (len(result["matches"]), result["complete"]) == (200, False)
    assert "more than 200" in result["note"]
    (line,) = found(workspace, pattern="needle", path="long")
    assert "needle" in line
    assert len(line) < 300


def test_no_pattern_takes_longer_than_the_text_is_long(workspace):
    """As a regular expression this would not come to its end."""
    write(workspace, {"a": ("a" * 200_000 + "\nb\n") * 5})
    assert found(workspace, pattern="a*" * 1500 + "b") == []


def test_names_of_any_bytes_and_trees_of_any_depth_are_borne(workspace):
    (workspace / os.fsdecode(b"\xff")).write_text("needle")
    deep = workspace / "/".join("d" * 100)
    deep.mkdir(parents=True)
    (deep / "f").write_text("needle")
    result = call(workspace, pattern="needle").value
    assert (result["matches"], result["complete"]) == (["\\xff:1: needle"], False)
