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


def test_lines_that_end_in_two_carriage_returns_are_kept() -> None:
    plain = runpy.run_path(str(DEMO))["plain"]
    assert (
        plain("\r\x1b[2K  ✓ check (0.0 s)\x1b[0m\r\r\n  ▸ announce\x1b[K\r\r\n") == "  ✓ check (0.0 s)\n  ▸ announce\n"
    )


@pytest.mark.slow("the whole demo: about fifteen seconds of real commands")
def test_the_demo_prints_no_codes_into_a_pipe() -> None:
    done = subprocess.run([sys.executable, DEMO], capture_output=True, text=True, timeout=200, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "The announcement went out 1 time." in done.stdout and CONTROL.search(done.stdout) is None
    shown = comparable(done.stdout)
    readme = (DEMO.parent.parent / "README.md").read_text()
    transcript = readme.partition("of `make demo`, shortened.)")[2].partition("\n## ")[0]
    told = [line for block in re.findall(r"```\n(.*?)```", transcript, re.DOTALL) for line in comparable(block)]
    assert [line for line in told if line not in shown] == []  # steps that run at the same time end in any order
    typed = [line for line in shown if line.startswith("$ ")]
    assert [line for line in told if line.startswith("$ ")] == typed[1:-1]  # without `lint` and `log`


def comparable(text: str) -> list[str]:
    """The lines without what differs from run to run, what is left out, and the risks: a test's home is one."""
    text = re.sub(r"(?s)  Look at these:\n.*?\n(?=\n|  …)", "", text)
    lines = re.sub(r"RUN-[A-Z2-7]+", "RUN", re.sub(r"\d+(?:\.\d)? s\b", "0 s", text)).splitlines()
    return [line.rstrip() for line in lines if line.strip() not in ("", "…")]
