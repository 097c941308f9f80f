"""Rules about commands and contracts: bash can read them, and a contract says something that may be false."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise

from ordain.core.lint.survey import Facts, Survey, last_policy
from ordain.core.plan.condition import Contract, CustomCondition
from ordain.core.plan.expr import OWN_END, named
from ordain.core.plan.failure import Fallback
from ordain.core.plan.model import Step, check_of
from ordain.core.plan.refs import without_references
from ordain.core.policy.program import Words, bare, unwrapped
from ordain.core.policy.script import (
    AndOr,
    Background,
    CommandGroup,
    Condition,
    Function,
    Negated,
    Opaque,
    Pipeline,
    Script,
    Simple,
    Statement,
    everywhere,
    existence_only,
    stops_reading,
    top_level,
)
from ordain.core.text.problem import Problem, blame_step


def _compound(survey: Survey, facts: Facts) -> Iterator[tuple[Step, Contract, Script]]:
    """The contracts that are more than plain words, taken apart; one that nobody could take apart is left out."""
    for step, contract in survey.contracts if facts.scripts else ():
        if (script := facts.scripts.get(contract.command)) is not None:
            yield step, contract, script


def _all(survey: Survey, facts: Facts) -> Iterator[tuple[Step, Contract, Script]]:
    yield from survey.plain_contracts
    yield from _compound(survey, facts)


def syntax(survey: Survey, facts: Facts) -> Iterator[Problem]:
    """A command, a contract or a check in doubt says something, in words that bash can parse."""
    for step, what, text in survey.shell_texts:
        code = "E_COMMAND_SYNTAX" if what == "command" else "E_CONTRACT_SYNTAX"
        if not text or text.isspace():
            yield blame_step(step.id, code, f"The {what} of `{step.id}` is empty.")
        elif text in facts.shell_faults:
            yield blame_step(step.id, code, f"bash cannot read the {what} of `{step.id}`: {facts.shell_faults[text]}.")


def syntax_unasked(survey: Survey, facts: Facts) -> Iterator[Problem]:
    """A check that covers a part of the plan says which part it left out."""
    left = [step for step, _, text in survey.shell_texts if text in facts.unasked] if facts.unasked else []
    if left:
        many = f"{len(left):,} commands and contracts, the first of them in `{left[0].id}`"
        detail = f"The syntax of {many}, was not checked: bash could not be asked about all of them."
        hint = "Split the plan, or put long commands into scripts of the workspace."
        yield blame_step(left[0].id, "W_SYNTAX_UNCHECKED", detail, hint)


def contract_status(survey: Survey, facts: Facts) -> Iterator[Problem]:
    """A process ends with a status from 0 to 255."""
    for step, contract in survey.contracts:
        if not 0 <= contract.exit_code <= 255:
            detail = f"The contract of `{step.id}` wants the exit status {contract.exit_code}."
            yield blame_step(step.id, "E_FIELD_VALUE", detail, "Exit statuses are whole numbers from 0 to 255.")


def contract_output(survey: Survey, facts: Facts) -> Iterator[Problem]:
    """The pattern of a contract's output is one."""
    for step, contract in survey.contracts if facts.pattern_faults else ():
        fault = facts.pattern_faults.get(contract.stdout or "")
        if fault is not None and contract.stdout is not None:
            detail = f"The contract of `{step.id}` has no good `stdout` pattern: {fault}."
            hint = "Patterns are those of RE2: no look-around, no back-references."
            yield blame_step(step.id, "E_FIELD_VALUE", detail, hint)


def contract_proof(survey: Survey, facts: Facts) -> Iterator[Problem]:
    """Only a command can be seen broken before a step."""
    with_contract = {id(step) for step, _ in survey.contracts}
    for step in survey.steps:
        if step.proof is not None and id(step) not in with_contract:
            detail = f"`{step.id}` wants the proof `{step.proof}` and has no contract that could be broken first."
            yield blame_step(step.id, "E_FIELD_VALUE", detail, "Add a `contract`, or leave `proof` out.")


def contract_vacuous(survey: Survey, facts: Facts) -> Iterator[Problem]:
    """A contract that holds whatever happens proves nothing."""
    for step, contract, script in _all(survey, facts):
        by_status = contract.stdout is None or contract.stdout in facts.idle_patterns
        if by_status and constant_status(script) == contract.exit_code:
            detail = f"The contract of `{step.id}` holds whatever happens: its exit status is always the same."
            hint = "Let it end with the check itself, such as `test -s report.txt` or `pytest -q`."
            yield blame_step(step.id, "E_CONTRACT_VACUOUS", detail, hint)


def expression_vacuous(survey: Survey, facts: Facts) -> Iterator[Problem]:
    """A verification by an expression that asks about nothing says the same whatever the step did."""
    for asked in survey.asked:
        used = asked.named
        if not asked.after or asked.step is None or (asked.expression, asked.names) in facts.expression_faults:
            continue
        if not (used.faults or used.steps or used.data or used.params or used.others):
            detail = f"The verification of `{asked.step.id}` says the same whatever happens: it asks about nothing."
            hint = "Let it ask how the step ended (`exit_code`, `output`), or give the step a contract."
            yield blame_step(asked.step.id, "E_CONTRACT_VACUOUS", detail, hint)


def contract_negated(survey: Survey, facts: Facts) -> Iterator[Problem]:
    """`! command` holds also when the command could not do its work."""
    for step, _, script in _compound(survey, facts):
        if constant_status(script) is None and any(isinstance(one, Negated) for one in top_level(script)):
            detail = f"The contract of `{step.id}` holds when a command fails, for whatever reason."
            hint = "Write it without `!` and add `exit_code == 1`: grep says 1 for absent, 2 for an error."
            yield blame_step(step.id, "W_CONTRACT_NEGATED", detail, hint)


def contract_pipe(survey: Survey, facts: Facts) -> Iterator[Problem]:
    """Contracts stop at the first failure, also inside a pipe, unless they switch that off."""
    for step, contract, script in _compound(survey, facts):
        words = ignores_failures(script)
        if words is not None and not (words.startswith("trap") and constant_status(script) == contract.exit_code):
            detail = f"The contract of `{step.id}` says `{words}`, so that failures inside it do not count."
            hint = f"Leave `{words}` out; where one command may fail, write `command || test $? -eq 1`."
            yield blame_step(step.id, "W_CONTRACT_PIPE", detail, hint)


def contract_unread(survey: Survey, facts: Facts) -> Iterator[Problem]:
    """Of a contract that is too long or too tangled to be taken apart, nobody can say that it is no sham."""
    for step, contract in survey.contracts if facts.unread else ():
        # One with a reference in it is refused for that.
        if contract.command in facts.unread and without_references(contract.command) == contract.command:
            detail = f"The contract of `{step.id}` cannot be looked into: failures inside it may not count."
            hint = "Put what is long into a script of the workspace, and let the contract run that."
            yield blame_step(step.id, "W_CONTRACT_PIPE", detail, hint)


def contract_existence(survey: Survey, facts: Facts) -> Iterator[Problem]:
    """That a file is there says nothing of what is in it."""
    for step, contract, script in _all(survey, facts):
        shown = existence_only(script) if contract.stdout is None else None
        if shown is not None:
            detail = f"The contract of `{step.id}` asks only whether something is there: `{shown}`."
            hint = "Ask what is in it: `test -s FILE` for not empty, `grep PATTERN FILE >/dev/null`, `cmp A B`."
            yield blame_step(step.id, "W_CONTRACT_EXISTENCE", detail, hint)


def fallback_unproved(survey: Survey, facts: Facts) -> Iterator[Problem]:
    """Nothing can say that a step without a contract is done after all."""
    for step in survey.steps:
        last = last_policy(step.on_failure)
        if not isinstance(last, Fallback) or not last.steps:
            continue
        if _looks_back(step):
            detail = (
                f"The verification of `{step.id}` asks how its own attempt ended, and fallbacks do not change that."
            )
            hint = "Give the step a contract: it is run again after the fallback, and sees what that did."
            yield blame_step(step.id, "W_FALLBACK_UNPROVED", detail, hint)
        elif check_of(step) is None:
            names = ", ".join(last.steps)
            detail = f"`{step.id}` falls back on {names}, and has no contract that could pass it afterwards."
            hint = "It stays failed, and the plan's failure policy follows. A contract would tell."
            yield blame_step(step.id, "W_FALLBACK_UNPROVED", detail, hint)
    for scope in survey.scopes:
        last = last_policy(scope.plan.on_failure)
        if isinstance(last, Fallback) and last.steps:
            followed = (one for one in scope.steps.values() if not last_policy(one.on_failure))
            if plain := [one.id for one in followed if not check_of(one) or _looks_back(one)]:
                more = f" and {len(plain) - 1:,} more" if len(plain) > 1 else ""
                detail = (
                    f"The plan falls back on {', '.join(last.steps)}, and for `{plain[0]}`{more} there is no "
                    "contract that could pass it afterwards."
                )
                hint = "Such a step stays failed. A contract would tell."
                yield blame_step(plain[0], "W_FALLBACK_UNPROVED", detail, hint)


def _looks_back(step: Step) -> bool:
    """Whether a step is verified by how its own attempt ended, and by nothing that a fallback could change."""
    check = check_of(step)
    if not isinstance(check, CustomCondition):
        return False
    used = named(check.expression)
    return not OWN_END.isdisjoint(used.others) and not (used.steps or used.data)


def contract_sigpipe(survey: Survey, facts: Facts) -> Iterator[Problem]:
    """Under pipefail, a reader that ends early may kill its writer and look broken."""
    for step, _, script in _compound(survey, facts):
        shown = stops_reading(script)
        if shown is not None:
            detail = f"In the contract of `{step.id}`, `{shown}` may end before the command that feeds it."
            hint = "Write `| grep PATTERN >/dev/null`, or `| sed -n 1p`, which read to the end."
            yield blame_step(step.id, "W_CONTRACT_SIGPIPE", detail, hint)


# --- What an exit status says ----------------------------------------------------------------------------------------
# Plain rules for scripts under `bash -eo pipefail`. Where none fits, the status counts as open: calling a good contract
# vacuous is worse than missing a bad one.

_SUCCEEDS = frozenset(
    ["true", ":", "echo", "set", "trap", "umask", "export", "readonly", "declare", "typeset", "unset"]
)
_ASKS_WITH_OPTION = frozenset(["export", "readonly", "declare", "typeset", "unset"])
"""With an option they may ask: `declare -p NAME`."""
_EXPANDED = re.compile(r"[*?\[\]{}~$`\\]")
"""What bash may replace in a word, unless it is quoted."""
_CATCHES = frozenset(["EXIT", "0", "DEBUG", "ERR"])
"""What a trap can be set on so that it may change the exit status of the whole script."""
_FAIL_OPTIONS = frozenset(["pipefail", "errexit"])
Functions = Mapping[str | None, int | None]
"""The status of each function that a script defines, judged by its own commands alone."""


def constant_status(script: Script) -> int | None:
    """The exit status that a script has whatever happens; None where it may have another. One that ends in `true`
    counts as constant: such an end proves nothing, and hides what fails where `-e` does not look."""
    if len(script.statements) == 1 and isinstance(only := script.statements[0], Simple) and only.inner is None:
        return _words_status(unwrapped(only.words))  # most contracts are one command
    exits = {_left_with(one.words) for one in script.commands if one.words and _leaves(one.words)}
    statements = script.statements
    while len(statements) == 1 and isinstance(statements[0], CommandGroup):
        statements = statements[0].statements
    traps = [one for one in everywhere(statements) if isinstance(one, Simple) and _caught(one.words)]
    if traps:  # what any of them does may become the status
        status = _trap_status(traps[0], statements) if len(traps) == 1 else None
    else:
        status = _sequence_status(statements, _function_statuses(script), whole=True)
    return status if exits <= {status} else None


def _function_statuses(script: Script) -> Functions:
    calls_open: Functions = dict.fromkeys(script.functions)
    known: dict[str | None, int | None] = {}
    for one in everywhere(script.statements):
        if isinstance(one, Function):
            known[one.name] = None if one.name in known else _sequence_status(one.statements, calls_open)
    return {**calls_open, **known}


def _leaves(words: Words) -> bool:
    return words[0] in ("exit", "return") or (words[0] == "exec" and unwrapped(words)[0] != "exec")


def _left_with(words: Words) -> int | None:
    if words[0] == "exec":
        return _words_status(unwrapped(words))
    given = words[1] if len(words) > 1 else None
    return int(given) % 256 if given is not None and re.fullmatch(r"[0-9]{1,8}", given) else None


def _trap_status(trap: Simple, statements: Sequence[Statement]) -> int | None:
    """The status that a trap, set before anything can fail, gives every end: `trap 'exit 0' EXIT`."""
    if not trap.inner or not isinstance(last := trap.inner[-1], Simple) or last.words[0] != "exit":
        return None
    first = next((one for one in statements if _status(one, {}) != 0 or one is trap), None)
    status = _left_with(last.words)
    return status if first is trap and (status == 0 or "ERR" not in _caught(trap.words)) else None


def _caught(words: Words) -> frozenset[str]:
    if words[:1] != ("trap",) or len(words) < 3 or words[1] in ("-", ""):
        return frozenset()
    return _CATCHES.intersection((word or "EXIT").upper().removeprefix("SIG") for word in words[2:])


def _sequence_status(statements: Sequence[Statement], functions: Functions, *, whole: bool = False) -> int | None:
    """The status that a sequence ends with. `whole`: it is a script, in which an end such as `true` decides."""
    statuses: list[int | None] = []
    for statement in statements:
        statuses.append(_status(statement, functions))
        if isinstance(statement, Simple) and _leaves(statement.words):
            break
    if not statuses:
        return 0
    known = {0, None} if whole and _closes(statements[: len(statuses)]) else {0}
    return statuses[-1] if known.issuperset(statuses[:-1]) else None


def _closes(statements: Sequence[Statement]) -> bool:
    last = statements[-1] if statements else None
    if not isinstance(last, Simple):
        return False
    words = unwrapped(last.words)
    if words == ("wait",):
        return len(statements) > 1 and isinstance(statements[-2], Background)
    if last.inner is not None and words[0] != "trap":
        return _closes(last.inner)
    return bare(words[0]) in ("true", ":", "exit")


def _status(statement: Statement, functions: Functions) -> int | None:
    match statement:
        case Simple(words=words, inner=inner):
            words = unwrapped(words)
            if words[0] in functions:
                return functions[words[0]]
            if inner is None or words[0] == "trap":
                return _words_status(words)
            return _sequence_status(inner, functions if words[0] == "eval" else {}, whole=True)
        case Negated(statement=one):
            status = _status(one, functions)
            return None if status is None else int(status == 0)
        case AndOr(first=first, rest=rest):
            status = _status(first, functions)
            for operator, further in rest:
                status = _joined(status, operator, _status(further, functions))
            return status
        case Pipeline(stages=stages):
            return 0 if {_status(stage, functions) for stage in stages} == {0} else None
        case CommandGroup(statements=statements):
            return _sequence_status(statements, functions)
        case Background() | Function():
            return 0
        case Condition(branches=branches):
            return 0 if {_sequence_status(branch, functions) for branch in branches} == {0} else None
        case Opaque():
            return None


def _joined(status: int | None, operator: str, further: int | None) -> int | None:
    if status is None:
        return 0 if operator == "||" and further == 0 else None
    return further if (status == 0) == (operator == "&&") else status


def _words_status(words: Words) -> int | None:
    """The status of a command that has the same one always: nobody writes it to find something out."""
    match bare(words[0]):
        case "false":
            return 1
        case "exit":
            return _left_with(words)
        case "wait" if len(words) == 1:
            return 0  # it waits for all and asks none how it ended
        case "printf" if len(words) > 1 and words[1] is not None and not re.search(r"%[^sbq%]", words[1]):
            return 0  # with a number to write, it fails when it is given none
        case "((" if re.fullmatch(r"\s*[0-9]{1,18}\s*", words[1] or ""):
            return int(int(words[1] or "") == 0)
        case "test":
            return _test_status(words[1:])
        case "[" | "[[" if words[-1] in ("]", "]]"):
            return _test_status(words[1:-1])
        case name if name in _SUCCEEDS:
            return None if name in _ASKS_WITH_OPTION and any((word or "-")[0] in "-+" for word in words[1:]) else 0
        case _:
            return None


def _test_status(words: Words) -> int | None:
    """The status of `test` with words that are known beforehand and name no file."""
    literal = [word for word in words if word is not None and not _EXPANDED.search(word)]
    match literal if len(literal) == len(words) else None:
        case ["-n" | "-z" as operator, word]:
            return int(bool(word) == (operator == "-z"))
        case [word]:
            return int(not word)
        case [left, "=" | "==", right]:
            return int(left != right)
        case [left, "!=", right]:
            return int(left == right)
        case [left, "-eq" | "-ge" | "-le", right] if left == right and left.isdigit():
            return 0
        case _:
            return None


def ignores_failures(script: Script) -> str | None:
    """The words that keep a failure from counting, such as `set +o pipefail` and `trap 'exit 0' EXIT`."""
    for words in script.own_words:
        given = [word or "" for word in words[1:]]
        options = "".join(word for word in given if word.startswith("-"))
        unset = {"u", "o"} <= set(options) and not _FAIL_OPTIONS.isdisjoint(given)
        if (words[0] == "set" and _unsets(given)) or (words[0] == "shopt" and unset):
            return " ".join([words[0], *given])
    every = list(everywhere(script.statements))
    for trap in every:
        if isinstance(trap, Simple) and _caught(trap.words):
            handler = [one for one in everywhere(trap.inner or ()) if isinstance(one, Simple)]
            called = {one.words[0] for one in handler}
            bodies = [one.statements for one in every if isinstance(one, Function) and one.name in called]
            handler += [one for body in bodies for one in everywhere(body) if isinstance(one, Simple)]
            if trap.inner is None or any(one.words[0] is None or one.words == ("exit", "0") for one in handler):
                return " ".join(word if word is not None else "…" for word in trap.words)
    return None


def _unsets(given: list[str]) -> bool:
    """Whether `set` switches one of the two off; in `set +e`, `+eo pipefail`, `+o errexit` …"""
    return any(
        word.startswith("+") and ("e" in word or ("o" in word and named in _FAIL_OPTIONS))
        for word, named in pairwise([*given, ""])
    )
