"""Telling people through a real command: it gets the message, and nothing that becomes of it reaches us."""

import gc
import os
import sys
import threading
import warnings
from pathlib import Path

import pytest

from tests.patience import PATIENCE_S, hang_guard
from tests.words import CommandNotifier

MESSAGE = b'{"kind":"finished","title":"T\\u00e4glich"}'


@pytest.fixture
def told(tmp_path: Path) -> Path:
    """A pipe that a command writes what it saw into; reading it waits for that. It lies outside the workspace, which no
    code in a command is handed."""
    os.mkfifo(tmp_path / "told")
    (tmp_path / "workspace").mkdir()
    return tmp_path / "told"


def collected() -> bool:
    """Whether every command has ended and left nothing behind, soon."""
    for thread in threading.enumerate():
        if thread.name == "ordain-notice":
            thread.join(PATIENCE_S)
    return not any(thread.name == "ordain-notice" for thread in threading.enumerate())


def test_the_command_gets_the_message_on_its_standard_input_in_an_empty_directory_of_its_own(tmp_path, told):
    command = ["sh", "-c", '(cat; pwd; ls -A; stat -c %a .) > "$1"', "sh", str(told)]
    CommandNotifier(tmp_path / "workspace").tell(command, MESSAGE)
    message, place, *rest = told.read_bytes().splitlines()
    assert message == MESSAGE and not Path(os.fsdecode(place)).is_relative_to(tmp_path)
    assert rest == [b"700"]
    assert collected() and not Path(os.fsdecode(place)).exists()


def test_words_of_the_command_are_words_and_no_shell(tmp_path, told):
    program = "import sys; open(sys.argv[2], 'w').write(sys.argv[1])"
    command = [sys.executable, "-c", program, "$(x) ; > y", str(told)]
    CommandNotifier(tmp_path / "workspace").tell(command, MESSAGE)
    assert told.read_bytes() == b"$(x) ; > y"


@pytest.mark.parametrize(
    "command",
    [["/no/such/program"], ["no-such-program"], ["a\0b"], ["\udcff"], ["false"], ["/"], ["sh", "-c", "kill $$"]],
)
def test_a_command_that_is_missing_or_fails_changes_nothing(tmp_path, command):
    CommandNotifier(tmp_path).tell(command, MESSAGE)
    assert collected()


def test_a_workspace_that_is_gone_changes_nothing(tmp_path):
    CommandNotifier(tmp_path / "gone").tell(["true"], MESSAGE)


@hang_guard
def test_a_message_longer_than_any_pipe_to_a_command_that_never_reads_holds_nobody_up(tmp_path, told):
    CommandNotifier(tmp_path / "workspace").tell(
        ["sh", "-c", 'echo $$ > "$1"; exec sleep 60', "sh", str(told)], b"x" * 4_000_000
    )
    os.kill(int(told.read_bytes()), 9)
    assert collected()


def test_it_is_out_of_reach_of_the_terminal_and_collected_when_it_ends(tmp_path, told):
    """In a session of its own, so that an interrupt of ours is not its; and no dead child is left behind."""
    program = "import os, sys; open(sys.argv[1], 'w').write(f'{os.getpid()} {os.getsid(0)}')"
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        CommandNotifier(tmp_path / "workspace").tell([sys.executable, "-c", program, str(told)], MESSAGE)
        gc.collect()
    pid, session = told.read_bytes().split()
    assert pid == session
    assert collected()
    with pytest.raises(ProcessLookupError):
        os.kill(int(pid), 0)


def test_what_it_prints_reaches_nobody(tmp_path, told, capfd):
    CommandNotifier(tmp_path / "workspace").tell(
        ["sh", "-c", 'echo noise; echo noise >&2; echo done > "$1"', "sh", str(told)], MESSAGE
    )
    assert told.read_bytes() == b"done\n"
    assert capfd.readouterr() == ("", "")
