"""The contract of ports.Toolbox, for the real file tools and their in-memory twin."""

import asyncio

import pytest

from ordain.adapters.file_tools import FileTools
from ordain.adapters.memory import ScriptedToolbox


@pytest.fixture(params=["files", "memory"])
def toolbox(request, tmp_path):
    return FileTools(tmp_path) if request.param == "files" else ScriptedToolbox()


def call(toolbox, tool, **args):
    return asyncio.run(toolbox.call(tool, args, "step:0"))


def test_definitions_name_themselves(toolbox):
    assert {name: tool.name for name, tool in toolbox.definitions().items()} == {
        name: name for name in ("read_file", "list_files", "write_file", "make_dir", "edit_file")
    }


def test_what_was_written_is_read_and_listed(toolbox):
    assert call(toolbox, "write_file", path="a.txt", content="x").error is None
    assert call(toolbox, "read_file", path="a.txt").value == "x"
    assert call(toolbox, "list_files").value == ["a.txt"]


def test_an_edit_needs_exactly_one_place(toolbox):
    call(toolbox, "write_file", path="a.txt", content="one two two")
    assert call(toolbox, "edit_file", path="a.txt", old="one", new="1").error is None
    assert call(toolbox, "edit_file", path="a.txt", old="two", new="2").error == "F_STEP_FAILED"
    assert call(toolbox, "read_file", path="a.txt").value == "1 two two"


def test_failures_are_results(toolbox):
    assert call(toolbox, "read_file", path="none").error == "F_STEP_FAILED"
    assert call(toolbox, "no_such_tool").error == "F_STEP_FAILED"
