"""Verdicts come from the operating system's exit status, a pattern over standard output where the plan gives one, and
expressions over what the harness saw."""

import pytest
from msgspec.structs import replace

from tests.build import step
from tests.rows import each
from tests.twins.execution import ScriptedShell
from tests.words import (
    Cel,
    Contract,
    CustomCondition,
    Finished,
    Redactor,
    RunCommand,
    Settings,
    Sink,
    Verdict,
    Verification,
    ask,
    contract_command,
    judge,
    limits,
)

SINK = Sink(Redactor({}), lambda body: "sealed")


@each(
    "finished, expected, verdict, words",
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
    found, detail = judge(finished, Contract(command="c", exit_code=expected), Cel)
    assert found is verdict
    assert words in detail


def wrote(output: bytes, exit_code: int = 0, errors: bytes = b"", size: int | None = None) -> Finished:
    whole = len(output) if size is None else size
    return Finished(duration_ms=1, exit_code=exit_code, output=output, output_bytes=whole, errors=errors)


@each(
    "finished, pattern, verdict, words",
    [
        (wrote(b"3 passed\n"), r"\d+ passed", Verdict.HELD, ""),
        (wrote(b"3 passed\n"), r"^3", Verdict.HELD, ""),
        (wrote(b"x\n3 passed\n"), r"^3", Verdict.BROKEN, "does not match"),
        (wrote(b"x\n3 passed\n"), r"(?m)^3 passed$", Verdict.HELD, ""),
        (wrote(b"3 passed\n", exit_code=1), r"passed", Verdict.BROKEN, "exit status 1"),
        (wrote(b"", errors=b"3 passed\n"), r"passed", Verdict.BROKEN, "does not match"),
        (wrote("café \udcff".encode("utf-8", "surrogateescape")), "é", Verdict.HELD, ""),
        (wrote(b"passed", size=10 << 20), r"^passed", Verdict.INCONCLUSIVE, "10,485,760 bytes"),
        (wrote(b"x"), r"(x", Verdict.INCONCLUSIVE, "could not be compared"),
        (wrote(b"x"), "\ud800", Verdict.INCONCLUSIVE, "half a character"),
        (wrote(b"a" * 1_000_000 + b"b"), r"(a+)+$", Verdict.BROKEN, "does not match"),
    ],
)
def test_a_pattern_is_asked_of_standard_output_once_the_exit_status_is_good(finished, pattern, verdict, words):
    found, detail = judge(finished, Contract(command="c", stdout=pattern), Cel)
    assert found is verdict
    assert words in detail


def no_language():
    raise AssertionError("no plan without expressions or patterns should pay for the language")


def test_the_language_is_not_made_where_nothing_is_asked_in_it():
    assert judge(Finished(duration_ms=1, exit_code=0), Contract(command="c"), no_language)[0] is Verdict.HELD


@each(
    "expression, verdict, words",
    [
        ('exit_code == 0 && output.contains("ok")', Verdict.HELD, ""),
        ('steps["a"].output == "ok"', Verdict.HELD, ""),
        ("exit_code == 1", Verdict.BROKEN, "`fine` is false: exit_code == 1"),
        ("output == 0", Verdict.BROKEN, "is false"),
        ("int(output) == 0", Verdict.INCONCLUSIVE, "gave no answer"),
        ('steps["nobody"].exit_code == 0', Verdict.INCONCLUSIVE, "gave no answer"),
        ("output", Verdict.INCONCLUSIVE, "boolean"),
        ("'true'", Verdict.INCONCLUSIVE, "boolean"),
    ],
)
def test_only_a_true_expression_holds(expression, verdict, words):
    own = {"exit_code": 0, "output": "ok"}
    variables = {"steps": {"a": own}, "data": {}, "params": {}, **own}
    evidence = ask(CustomCondition(name="fine", expression=expression), variables, SINK, Cel)
    assert evidence.verdict is verdict
    assert words in evidence.detail
    assert evidence.command_sha256.startswith("sha256:")


@pytest.mark.parametrize(("pattern", "apart"), [(None, False), ("^ok$", True)])
def test_a_contract_writes_nothing_and_sees_only_the_variables_that_it_names(pattern, apart):
    verification = Verification(strategy=Contract(command='test "$X" = 1', stdout=pattern))
    acting = RunCommand(command="true", env={"X": "1", "PYTHONPATH": "planted"})
    made = replace(step("a"), action=acting, verification=verification)
    command = contract_command(made, ScriptedShell(), limits(Settings()), "m")
    assert (command.writes, command.errors_apart, dict(command.env)) == ((), apart, {"X": "1"})
