"""The harness: looks whether a step is done and returns what it saw. The only code that can say a step passed: by the
exit status and output of its contract, or an expression about what was seen. What an agent says of its work counts
nowhere."""

from __future__ import annotations

import signal
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

from ordain.core.plan.canonical import canonical_bytes, sha256
from ordain.core.plan.command import shared_variables
from ordain.core.plan.condition import Contract, CustomCondition
from ordain.core.plan.expr import ExpressionError, Expressions
from ordain.core.plan.model import Step, contract_of
from ordain.core.plan.refs import as_variable, literal
from ordain.core.plan.tool import HappenedCheck
from ordain.core.policy.settings import Limits
from ordain.core.run.step_event import Evidence, Verdict
from ordain.core.text.problem import Refused
from ordain.engine.context import RunContext
from ordain.ports.process import Command, Finished, Shell
from ordain.records.sink import Sink


async def verify(run: RunContext, step: Step) -> Evidence:
    """Run a step's contract once and judge it; only for steps that have one."""
    contract, shell = contract_of(step), run.ports.shell
    assert contract is not None
    command = contract_command(step, shell, run.limits, run.mark(step.id))
    return await _looked(run, command, lambda finished: judge(finished, contract, run.ports.expressions))


async def ask_happened(run: RunContext, step: Step, check: HappenedCheck) -> Evidence:
    """Ask in doubt, by the step key, whether the effect of a step happened. A tool's check has the network."""
    names = {"ORDAIN_RUN": run.state.run_id, "ORDAIN_STEP": step.id, "ORDAIN_STEP_KEY": run.state.steps[step.id].key}
    command = Command(
        text=check.command,
        env=_env(step, check.command, run.ports.shell, run.limits) | names,
        timeout_ms=run.limits.contract_timeout_ms,
        mark=run.mark(step.id),
        writes=(),
        network=bool(check.tool) or step.network is True,
    )
    return await _looked(run, command, judge_answer)


def judge_answer(finished: Finished) -> tuple[Verdict, str]:
    """What a check answered: 0, it happened; 1, it did not; everything else is no answer."""
    verdict, detail = judge(finished, _ANSWERED, _no_patterns)
    if verdict is Verdict.BROKEN and finished.exit_code != 1:
        return Verdict.INCONCLUSIVE, detail
    return verdict, detail


def _no_patterns() -> Expressions:
    raise AssertionError("a check has no pattern")


async def _looked(run: RunContext, command: Command, judged: Callable[[Finished], tuple[Verdict, str]]) -> Evidence:
    sink, git_head = run.sink, ""
    with suppress(Refused):  # nothing where it cannot be told
        git_head = run.ports.workspace.git_head() or ""
    finished = await run.ports.shell.run(command)
    verdict, detail = judged(finished)
    output = sink.output(finished.output + finished.errors, finished.output_bytes + finished.errors_bytes)
    return Evidence(
        verdict=verdict,
        duration_ms=finished.duration_ms,
        exit_code=finished.exit_code,
        detail=sink.text(detail),
        output_tail=output.tail,
        output_bytes=output.size,
        output_seal=output.seal,
        command_sha256=sha256(command.text.encode()),
        env_names=tuple(sorted(command.env)),
        env_seal=sink.seal(canonical_bytes(dict(command.env))),
        git_head=git_head,
    )


def contract_command(step: Step, shell: Shell, limits: Limits, mark: str) -> Command:
    """The command of a step's contract. It sees the variables of the allow-list, and of its step's those that it names
    itself: no other can change what it proves. It looks, so there is nothing that it may write."""
    contract = contract_of(step)
    assert contract is not None and step.verification is not None
    timeout_ms = step.verification.timeout_ms or limits.contract_timeout_ms
    return Command(
        text=contract.command,
        env=_env(step, contract.command, shell, limits),
        timeout_ms=timeout_ms,
        mark=mark,
        errors_apart=contract.stdout is not None,
        writes=(),
    )


def _env(step: Step, text: str, shell: Shell, limits: Limits) -> dict[str, str]:
    own = literal(shared_variables(step, text))
    return shell.environment(limits.env) | {name: as_variable(value) for name, value in own.items()}


def judge(finished: Finished, contract: Contract, expressions: Callable[[], Expressions]) -> tuple[Verdict, str]:
    """The verdict on a finished contract by its exit status and, where the plan has a pattern, its standard output."""
    expected = contract.exit_code
    if finished.fault is not None:
        return Verdict.INCONCLUSIVE, f"could not be started: {finished.fault}"
    if finished.timed_out:
        return Verdict.INCONCLUSIVE, f"timed out after {finished.duration_ms / 1000:.1f} s"
    if finished.signal is not None:
        return Verdict.INCONCLUSIVE, f"killed by {signal_name(finished.signal)}"
    if finished.exit_code == expected:
        return _judge_output(finished, contract.stdout, expressions) if contract.stdout is not None else _HELD
    if finished.exit_code == 128 + signal.SIGPIPE:
        # Under pipefail the writer of `… | grep -q x` dies of SIGPIPE when grep has seen enough: not a failed check.
        return Verdict.INCONCLUSIVE, "a command in a pipe died of SIGPIPE; write `grep x >/dev/null` for `grep -q x`"
    if finished.exit_code in (126, 127):
        return Verdict.BROKEN, f"exit status {finished.exit_code}: a program was not found or could not be run"
    wanted = f", wanted {expected}" if expected else ""
    return Verdict.BROKEN, f"exit status {finished.exit_code}{wanted}"


_HELD = (Verdict.HELD, "")
_ANSWERED = Contract(command="")


def _judge_output(finished: Finished, pattern: str, expressions: Callable[[], Expressions]) -> tuple[Verdict, str]:
    if finished.output_bytes > len(finished.output):
        # Where a pattern is anchored, the end of a text can match that as a whole does not.
        return Verdict.INCONCLUSIVE, f"it wrote {finished.output_bytes:,} bytes, too many to be compared with a pattern"
    try:
        found = expressions().matches(pattern, finished.output.decode("utf-8", "replace"))
    except ExpressionError as error:
        return Verdict.INCONCLUSIVE, f"its output could not be compared with the pattern: {error}"
    status = f"exit status {finished.exit_code}"
    return _HELD if found else (Verdict.BROKEN, f"{status}, but its standard output does not match `{pattern}`")


def ask(
    condition: CustomCondition, variables: Mapping[str, Any], sink: Sink, expressions: Callable[[], Expressions]
) -> Evidence:
    """The verdict of an expression on what was seen of a step. Only true holds; what gives no answer is no answer."""
    try:
        held = expressions().evaluate(condition.expression, variables)
        verdict = Verdict.HELD if held else Verdict.BROKEN
        detail = "" if held else f"`{condition.name}` is false: {condition.expression}"
    except ExpressionError as error:
        verdict, detail = Verdict.INCONCLUSIVE, f"`{condition.name}` gave no answer: {error}"
    asked = sha256(condition.expression.encode())
    return Evidence(verdict=verdict, duration_ms=0, detail=sink.text(detail), command_sha256=asked)


def signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:  # a real-time signal
        return f"signal {number}"
