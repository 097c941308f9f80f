"""Rules about references and expressions: what they name is there, comes before, and stands where it may."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from msgspec.structs import replace

from ordain.core.action import AcquireLock, Ask, Custom, ReleaseLock, RunWorkflow, SendText, StoreData
from ordain.core.command import command_text
from ordain.core.condition import StepCompleted
from ordain.core.dependency import item_name
from ordain.core.failure import Fallback, Skip
from ordain.core.lint.facts import Facts
from ordain.core.lint.survey import Asked, Mention, Scope, Survey, last_policy
from ordain.core.model import Step
from ordain.core.payload import payload
from ordain.core.problem import Place, Problem
from ordain.core.refs import (
    Default,
    Index,
    Item,
    ParamValue,
    StepExitCode,
    StepOutput,
    StoredData,
    Unreadable,
    is_reference,
    misplaced_reference,
    references,
    spelt,
)
from ordain.core.scalar import strings
from ordain.core.tool import COMMANDS, EXEC

__all__ = [
    "comes_before",
    "completed_known",
    "expressions",
    "known",
    "may_be_missing",
    "misspelt",
    "places",
    "reads_known",
]

_PARTS = ("output", "exit_code")
_INSTEAD = {
    "command": 'Give it to the command in `env`, where no value can break out: `env: {X: "${…}"}` and `"$X"`.',
    "contract": "Let the step write what the contract asks for into a file.",
}
_NEAR = re.compile(r"(?<!\$)\$\{[ \t]*([A-Za-z0-9_-]+)\.([A-Za-z_]+)\b")


def known(survey: Survey, facts: Facts) -> Iterator[Problem]:
    """A reference can be read, and what it names is there."""
    for mention in survey.mentions:
        fault = _fault(mention, survey)
        if fault is not None:
            what, hints = fault
            yield Problem(
                code="E_REF",
                detail=f"`{mention.step.id}`: `{mention.text}` {what}.",
                where=Place(step=mention.step.id),
                hints=hints,
            )
    for step in survey.steps:
        if step.for_each is not None and not is_reference(step.for_each.source):
            yield Problem(
                code="E_REF",
                detail=f"`{step.id}` is repeated for each of `{step.for_each.source}`, which is not a reference.",
                where=Place(step=step.id),
                hints=('Name the list: `for_each: {in: "${step.output}", max: 50}`.',),
            )


def _fault(mention: Mention, survey: Survey) -> tuple[str, tuple[str, ...]] | None:
    scope, reference = mention.scope, mention.reference
    if isinstance(reference, Unreadable):
        return f"is no reference: {reference.fault}", ("Write `$${` where a literal `${` is meant.",)
    match reference.source:
        case StepOutput(step=name) | StepExitCode(step=name) if name not in scope.known:
            return f"names `{name}`, which is not a step of this plan", survey.near(name, scope.known)
        case StepExitCode(step=name) if command_text(scope.known[name].action) is None:
            return f"asks for the exit status of `{name}`, which is not a command", ()
        case StoredData(key=key) if key not in scope.stores:
            return f"names `{key}`, which no step of this plan stores", survey.near(key, scope.stores)
        case ParamValue(name=name) if name not in scope.plan.params:
            return f"names `{name}`, which is not a parameter of this plan", survey.near(name, scope.plan.params)
        case Item() | Index() if mention.step.for_each is None or mention.in_source:
            return "has a meaning only inside a step with `for_each`", ()
        case Item(name=name) if mention.step.for_each is not None and name != (mention.step.for_each.name or "item"):
            return f"names the item, which is called `{mention.step.for_each.name}` here", ()
        case _:
            return None


def misspelt(survey: Survey, facts: Facts) -> Iterator[Problem]:
    """`${step.something}` of a known step can only have been meant as a reference."""
    for step, value in _payloads(survey):
        for text in strings(value):
            steps = survey.scope_of(step).known if "${" in text else {}
            for found in _NEAR.finditer(text) if steps else ():
                if found[1] in steps and found[2] not in _PARTS and found[1] not in ("data", "params", "item"):
                    yield Problem(
                        code="E_REF",
                        detail=f"`{step.id}`: of `{found[1]}` there is `output` and `exit_code`, and no `{found[2]}`.",
                        where=Place(step=step.id),
                        hints=survey.near(found[2], _PARTS),
                    )


def _payloads(survey: Survey) -> Iterator[tuple[Step, object]]:
    yield from ((step, call.args) for step, call in survey.calls)
    yield from ((step, command.env) for step, command in survey.commands if command.env)
    yield from ((step, payload(action)) for step, action in survey.others)


def comes_before(survey: Survey, facts: Facts) -> Iterator[Problem]:
    """What is referred to comes before; a reference makes it so, unless that would be a circle."""
    for scope in survey.scopes:
        if not scope.links:
            continue
        already = {name for group in scope.declared.circles for name in group}
        circles = [group for group in scope.order.circles if already.isdisjoint(group)]
        circle_of = {name: number for number, group in enumerate(circles) for name in group}
        for link in scope.links:
            waiting = scope.users[link.step] if link.step in scope.fallbacks else (link.step,)
            circle = circle_of.get(link.target)
            if circle is not None and any(circle_of.get(step) == circle for step in waiting):
                itself = link.step == link.target
                what = "that is itself" if itself else f"but `{link.target}` comes after `{link.step}`"
                yield Problem(
                    code=link.code,
                    detail=f"`{link.step}` refers to `{link.text}`, {what}.",
                    where=Place(step=link.step),
                )


def reads_known(survey: Survey, facts: Facts) -> Iterator[Problem]:
    """A step whose result an agent reads is there."""
    for scope, step, task in survey.tasks:
        for read in task.reads:
            name = read.removeprefix("step:")
            if read.startswith("step:") and name not in scope.known:
                yield Problem(
                    code="E_REF",
                    detail=f"`{step.id}` reads the result of `{name}`, which is not a step of this plan.",
                    where=Place(step=step.id),
                    hints=survey.near(name, scope.known),
                )


def completed_known(survey: Survey, facts: Facts) -> Iterator[Problem]:
    """A step that must have passed before another one is there: otherwise that one could never begin. Before a plan
    begins none has."""
    for condition in survey.plan.preconditions:
        if isinstance(condition, StepCompleted):
            detail = f"The plan: `step_completed` names `{condition.step_id}`, and no step has run yet."
            yield Problem(code="E_REF", detail=detail, hints=("Make it a precondition of a step.",))
    for step in survey.steps:
        for condition in step.preconditions:
            if isinstance(condition, StepCompleted) and condition.step_id not in survey.scope_of(step).known:
                yield Problem(
                    code="E_REF",
                    detail=f"`{step.id}`: `step_completed` names `{condition.step_id}`, "
                    "which is not a step of this plan.",
                    where=Place(step=step.id),
                    hints=survey.near(condition.step_id, survey.scope_of(step).known),
                )


def may_be_missing(survey: Survey, facts: Facts) -> Iterator[Problem]:
    """A step that may be skipped leaves nothing to refer to."""
    for mention in survey.mentions:
        if isinstance(mention.reference, Unreadable) or mention.reference.default is not None:
            continue
        match mention.reference.source:
            case StepOutput(step=name) | StepExitCode(step=name) if name in mention.scope.known:
                why = _why_missing(mention.scope, mention.step, name, facts)
                if why is not None:
                    with_default = replace(mention.reference, default=Default(value="…"))
                    yield Problem(
                        code="E_REF_MAY_BE_MISSING",
                        detail=f"`{mention.step.id}`: `{mention.text}` may refer to nothing: `{name}` {why}.",
                        where=Place(step=mention.step.id),
                        hints=(f"Say what stands in then: `{spelt(with_default)}`.",),
                    )


def _why_missing(scope: Scope, step: Step, name: str, facts: Facts) -> str | None:
    target = scope.known[name]
    if name in scope.fallbacks:
        return "is a fallback and runs only if something fails"
    if target.when is not None:
        return "runs only under a condition"
    for policy in (target.on_failure, scope.plan.on_failure, facts.settings.on_failure):
        last = last_policy(policy)
        if last is not None:
            if isinstance(last, Skip):
                return "is skipped when it fails"
            break
    if step.id in scope.fallbacks:
        general = last_policy(scope.plan.on_failure)
        if name in scope.users.get(step.id, ()) or (isinstance(general, Fallback) and step.id in general.steps):
            return f"may be the step that failed when `{step.id}` runs"
    return None


def places(survey: Survey, facts: Facts) -> Iterator[Problem]:
    """No value of another step gets into a name, a command or the prose for an agent."""
    for step_id, what, text, steps in _fixed_texts(survey):
        found = misplaced_reference(text, steps)
        if found is not None:
            whose = f"The {what} of `{step_id}`" if step_id is not None else f"The plan's {what}"
            yield Problem(
                code="E_REF_PLACE",
                detail=f"{whose} holds the reference `{found}`.",
                where=Place(step=step_id) if step_id is not None else None,
                hints=(_INSTEAD.get(what, "An agent gets an earlier result with `reads: step:ID`."),),
            )
    for step_id, what, name in _fixed_names(survey):
        if "${" in name:
            yield Problem(
                code="E_REF_PLACE",
                detail=f"The {what} of `{step_id}` cannot be decided by a reference.",
                where=Place(step=step_id),
                hints=("Write the name itself.",),
            )


def _fixed_texts(survey: Survey) -> Iterator[tuple[str | None, str, str, dict[str, Step]]]:
    """Every command and prose with `${` in it, and the steps whose ids count there."""
    for scope in survey.scopes:
        for what, prose in (("task", scope.plan.task), ("context", scope.plan.context)):
            if prose is not None and "${" in prose:
                yield None, what, prose, scope.known
    for step, what, text in _texts(survey):
        if "${" in text:
            yield step.id, what, text, survey.scope_of(step).known


def _texts(survey: Survey) -> Iterator[tuple[Step, str, str]]:
    for step, command in survey.commands:
        yield step, "command", command.command
    for step, contract in survey.contracts:
        yield step, "contract", contract.command
    for _, step, task in survey.tasks:
        for text in (task.task, task.instructions or "", *task.criteria):
            yield step, "task", text
    for step, action in survey.others:
        if isinstance(action, SendText):
            yield step, "text", action.text
        elif isinstance(action, Ask):
            yield step, "question", action.question


def _fixed_names(survey: Survey) -> Iterator[tuple[str, str, str]]:
    for step, call in survey.calls:
        yield step.id, "tool name", call.tool
        if call.operation is not None:
            yield step.id, "operation", call.operation
        if call.tool in COMMANDS and isinstance(env := call.args.get("env"), str):
            yield step.id, "names of variables", env
        if call.tool == EXEC.name:
            argv = call.args.get("argv")
            words = _deciding(argv) if isinstance(argv, list | tuple) else [argv]
            for at, word in enumerate(words):
                # The text of a program may well have a `$${` in it, which is none of ours.
                if isinstance(word, str) and (at == 0 or next(references(word, item_name(step)), None) is not None):
                    yield step.id, "program", word
    for _, step, task in survey.tasks:
        if task.agent is not None:
            yield step.id, "agent name", task.agent
    for step, action in survey.others:
        match action:
            case AcquireLock(lock_name=name) | ReleaseLock(lock_name=name):
                yield step.id, "lock name", name
            case RunWorkflow(workflow_id=name):
                yield step.id, "workflow", name
            case Custom(action_type=name):
                yield step.id, "action type", name
            case StoreData(key=name):
                yield step.id, "key", name


_RUNS_CODE = re.compile(r"(?:ba|da|z|k|fi|a)?sh|python[\d.]*|perl|ruby|node|php|lua|[gmn]?awk|sed|eval|ssh")
"""Programs whose first argument that is no option is a program itself: the text of one, or the file that it is in."""
_RUNS_PROGRAM = re.compile(r"env|sudo|doas|su|nice|ionice|nohup|setsid|timeout|stdbuf|time|xargs|chroot|busybox|exec")
"""Programs that run the one which is named after them."""
_BEFORE_PROGRAM = re.compile(r"-.*|[A-Za-z_][A-Za-z0-9_]*=.*|[\d.]+[smhd]?", re.DOTALL)
"""Options, variables and numbers, which stand between such a program and that one."""


def _deciding(argv: Sequence[object]) -> list[object]:
    """The words that decide what is run: the program and, where that runs others, all up to what it runs."""
    words = [*argv]
    for at, word in enumerate(words):
        name = word.rpartition("/")[2] if isinstance(word, str) else ""
        if at and isinstance(word, str) and _BEFORE_PROGRAM.fullmatch(word):
            continue
        if _RUNS_PROGRAM.fullmatch(name):
            continue
        if not _RUNS_CODE.fullmatch(name):
            return words[: at + 1]
        rest = (index for index in range(at + 1, len(words)) if not str(words[index]).startswith("-"))
        return words[: next(rest, at) + 1]
    return words


def expressions(survey: Survey, facts: Facts) -> Iterator[Problem]:
    """Every expression can be read, is boolean, and names only what is there."""
    for asked in survey.asked:
        faults = [*_name_faults(asked, survey)]
        compiled = facts.expression_faults.get((asked.expression, asked.names))
        if compiled is not None:
            unknown = (name for name in asked.named.others if name not in asked.names)
            faults.append(
                (compiled, next((hints for name in unknown if (hints := survey.near(name, asked.names))), ()))
            )
        for fault, hints in faults:
            who = f"`{asked.step.id}`: {asked.what}" if asked.step is not None else f"The plan: {asked.what}"
            yield Problem(
                code="E_EXPR",
                detail=f"{who} is no good expression: {fault}.",
                where=Place(step=asked.step.id) if asked.step is not None else None,
                hints=hints,
            )


def _name_faults(asked: Asked, survey: Survey) -> Iterator[tuple[str, tuple[str, ...]]]:
    scope, used = asked.scope, asked.named
    yield from used.faults
    for name in used.steps:
        if asked.step is None:
            yield f"it asks about `{name}`, and no step has run yet", ()
        elif name not in scope.known:
            yield f"`{name}` is not a step of this plan", survey.near(name, scope.known)
    for name in used.params:
        if name not in scope.plan.params:
            yield f"`{name}` is not a parameter of this plan", survey.near(name, scope.plan.params)
    for name in used.data:
        if asked.step is None:
            yield f"it asks about `data.{name}`, and nothing is stored yet", ()
        elif name not in scope.stores:
            yield f"no step of this plan stores `{name}`", survey.near(name, scope.stores)
