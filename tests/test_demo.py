"""What `make demo` prints where nobody looks at a terminal: text that can be kept in a file."""

from __future__ import annotations

import re
import runpy
import subprocess
import sys
from pathlib import Path

import pytest

DEMO = Path(__file__).parent.parent / "tools/demo.py"
CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f]")


def test_codes_for_terminals_are_left_out() -> None:
    plain = runpy.run_path(str(DEMO))["plain"]
    drawn = "\x1b[?25l\x1b[2K\r▸ work 1/3\x1b[0m\r\n\x1b]0;title\x07\x1b[1;34mdone\x1b[m\r\n50%\r100%\n"
    assert plain(drawn) == "▸ work 1/3\ndone\n100%\n"


@pytest.mark.slow("the whole demo: about fifteen seconds of real commands")
def test_the_demo_prints_no_codes_into_a_pipe() -> None:
    done = subprocess.run([sys.executable, DEMO], capture_output=True, text=True, timeout=200, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "The announcement went out 1 time." in done.stdout and CONTROL.search(done.stdout) is None
