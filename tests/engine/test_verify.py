"""Verdicts come from the operating system's exit status alone."""

import pytest

from ordain.core.event import Verdict
from ordain.ports import Finished
from ordain.verify import judge


@pytest.mark.parametrize(
    ("finished", "expected", "verdict", "words"),
    [
        (Finished(duration_ms=1, exit_code=0), 0, Verdict.HELD, ""),
        (Finished(duration_ms=1, exit_code=1), 1, Verdict.HELD, ""),
        (Finished(duration_ms=1, exit_code=1), 0, Verdict.BROKEN, "exit status 1"),
        (Finished(duration_ms=1, exit_code=0), 1, Verdict.BROKEN, "exit status 0, wanted 1"),
        (Finished(duration_ms=1, exit_code=127), 0, Verdict.BROKEN, "not found"),
        (Finished(duration_ms=1, exit_code=1, output=b"exit_code=0"), 0, Verdict.BROKEN, "exit status 1"),
        (Finished(duration_ms=60_000, timed_out=True), 0, Verdict.INCONCLUSIVE, "timed out after 60.0 s"),
        (Finished(duration_ms=1, signal=9), 0, Verdict.INCONCLUSIVE, "SIGKILL"),
        (Finished(duration_ms=1, signal=35), 0, Verdict.INCONCLUSIVE, "signal 35"),
        (Finished(duration_ms=1, fault="no bash"), 0, Verdict.INCONCLUSIVE, "no bash"),
        (Finished(duration_ms=1, exit_code=141), 0, Verdict.INCONCLUSIVE, "SIGPIPE"),
    ],
)
def test_judging(finished, expected, verdict, words):
    found, detail = judge(finished, expected)
    assert found is verdict
    assert words in detail
