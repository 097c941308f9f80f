"""Several toolboxes as one: names are unique, and arguments fit whoever decided them."""

import asyncio

import pytest

from tests.twins.execution import ScriptedToolbox
from tests.words import BUILT_IN, SHELL, EffectClass, FileTools, JoinedToolbox, ToolDefinition, built_in_tools


def test_two_tools_of_one_name_are_refused(tmp_path):
    with pytest.raises(ValueError, match="two tools are called read_file"):
        JoinedToolbox(FileTools(tmp_path), FileTools(tmp_path))


def test_nobody_takes_the_name_of_a_command():
    other = ToolDefinition(name="shell", description="", effect=EffectClass.READS)
    with pytest.raises(ValueError, match="two tools are called shell"):
        JoinedToolbox(ScriptedToolbox({"shell": other}))
    assert JoinedToolbox().definitions()["shell"] is SHELL


def test_what_is_built_in_is_what_the_real_toolbox_has(tmp_path):
    assert built_in_tools(tmp_path).definitions() == BUILT_IN


@pytest.mark.parametrize(
    ("tool", "args", "detail"),
    [
        ("write_file", {"path": "a"}, "`write_file` needs the argument `content`."),
        ("write_file", {"path": "a", "content": 1}, "`write_file` wants `content` to be a string."),
        ("delete", {"path": "a", "recursive": "false"}, "`delete` wants `recursive` to be a boolean."),
        ("delete", {"path": "a", "force": True}, "`delete` takes no argument `force`."),
        ("exec", {"argv": ["a", 1]}, "`exec` wants `argv` to be a list of strings, the program first."),
        ("http_request", {"url": "http://h/", "status": True}, "`http_request` wants `status` to be an integer."),
    ],
)
def test_arguments_that_do_not_fit_are_told_and_nothing_is_done(tmp_path, tool, args, detail):
    (tmp_path / "a").write_text("x")
    result = asyncio.run(built_in_tools(tmp_path).call(tool, args, "step:0"))
    assert (result.error, result.detail) == ("F_STEP_FAILED", detail)
    assert (tmp_path / "a").read_text() == "x"
