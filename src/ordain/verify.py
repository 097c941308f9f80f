"""The harness: runs contracts and returns what it saw. The only code that can say a step passed its contract.

A contract comes from the approved bytes, runs in its own session with an environment from an allow-list and the
step's own variables, and is judged by the operating system's exit status alone: nothing that it prints, and nothing an
agent wrote, counts.
"""

from __future__ import annotations

import signal

from ordain.core.event import Evidence, Limits, Verdict
from ordain.core.model import Step, contract_of
from ordain.core.payload import shared_variables
from ordain.core.refs import literal
from ordain.ports import Command, Finished, Shell
from ordain.sink import Sink

__all__ = ["contract_command", "judge", "signal_name", "verify"]


async def verify(step: Step, *, shell: Shell, limits: Limits, mark: str, sink: Sink) -> Evidence:
    """Run a step's contract once and judge it; only for steps that have one."""
    command, wanted = contract_command(step, shell, limits, mark)
    finished = await shell.run(command)
    verdict, detail = judge(finished, wanted)
    output = sink.output(finished.output, finished.output_bytes)
    return Evidence(
        verdict=verdict,
        duration_ms=finished.duration_ms,
        exit_code=finished.exit_code,
        detail=sink.text(detail),
        output_tail=output.tail,
        output_bytes=output.size,
        output_seal=output.seal,
    )


def contract_command(step: Step, shell: Shell, limits: Limits, mark: str) -> tuple[Command, int]:
    """The command of a step's contract, and the exit status it wants. It sees the variables of the allow-list, and of
    its step's those that it names itself: no other can change what it proves."""
    contract, env = contract_of(step), shell.environment(limits.env)
    assert contract is not None and step.verification is not None
    env |= literal(shared_variables(step))
    timeout_ms = step.verification.timeout_ms or limits.contract_timeout_ms
    return Command(text=contract.command, env=env, timeout_ms=timeout_ms, mark=mark), contract.exit_code


def judge(finished: Finished, expected: int) -> tuple[Verdict, str]:
    """The verdict on a finished contract: held or broken by its exit status, inconclusive when it has none to go by."""
    if finished.fault is not None:
        return Verdict.INCONCLUSIVE, f"could not be started: {finished.fault}"
    if finished.timed_out:
        return Verdict.INCONCLUSIVE, f"timed out after {finished.duration_ms / 1000:.1f} s"
    if finished.signal is not None:
        return Verdict.INCONCLUSIVE, f"killed by {signal_name(finished.signal)}"
    if finished.exit_code == expected:
        return Verdict.HELD, ""
    if finished.exit_code == 128 + signal.SIGPIPE:
        # Under pipefail the writer of `… | grep -q x` dies of SIGPIPE when grep has seen enough: not a failed check.
        return Verdict.INCONCLUSIVE, "a command in a pipe died of SIGPIPE; write `grep x >/dev/null` for `grep -q x`"
    if finished.exit_code in (126, 127):
        return Verdict.BROKEN, f"exit status {finished.exit_code}: a program was not found or could not be run"
    wanted = f", wanted {expected}" if expected else ""
    return Verdict.BROKEN, f"exit status {finished.exit_code}{wanted}"


def signal_name(number: int) -> str:
    """The name people know a signal by; real-time signals have only numbers."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
