"""Rules about references and expressions: what they name is there, comes before, and stands where it may."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import chain

import msgspec
from msgspec.structs import replace

from ordain.core.lint.survey import AskedExpression, Facts, Mention, Scope, Survey, last_policy
from ordain.core.plan import refs
from ordain.core.plan.action import CallTool, Task
from ordain.core.plan.command import command_text, payload
from ordain.core.plan.failure import Fallback, Skip
from ordain.core.plan.model import Action, Step, conditions_of, item_name
from ordain.core.plan.role import CommandText, EffectClass, Name, PathRead, PathWritten, Prose, StepName, about, parts
from ordain.core.plan.tool import COMMANDS, EXEC
from ordain.core.policy.program import may_be_options
from ordain.core.text.limit import strings
from ordain.core.text.problem import Place, Problem, blame_plan, blame_step

_PARTS = ("output", "exit_code", "answered_by")
_INSTEAD = {
    "command": 'Give it to the command in `env`, where no value can break out: `env: {X: "${…}"}` and `"$X"`.',
    "contract": "Let the step write what the contract asks for into a file.",
}
_OF_PROSE = "Write the text itself; an agent gets an earlier result with `reads: step:ID`."
_OF_PARAM = "Write the text itself, or keep the file as a template: `ordain new` puts parameters into texts."
_NEAR = re.compile(r"(?<!\$)\$\{[ \t]*([A-Za-z0-9_-]+)\.([A-Za-z_]+)\b")


def known(survey: Survey, facts: Facts) -> Iterator[Problem]:
    """A reference can be read, and what it names is there."""
    for mention in survey.mentions:
        fault = _fault(mention, survey)
        if fault is not None:
            what, hints = fault
            yield blame_step(mention.step.id, "E_REF", f"`{mention.step.id}`: `{mention.text}` {what}.", *hints)
    for step in survey.steps:
        if step.for_each is not None and not refs.is_reference(step.for_each.source):
            detail = f"`{step.id}` is repeated for each of `{step.for_each.source}`, which is not a reference."
            yield blame_step(step.id, "E_REF", detail, 'Name the list: `for_each: {in: "${step.output}", max: 50}`.')


def _fault(mention: Mention, survey: Survey) -> tuple[str, tuple[str, ...]] | None:
    scope, reference = mention.scope, mention.reference
    if isinstance(reference, refs.Unreadable):
        return f"is no reference: {reference.fault}", ("Write `$${` where a literal `${` is meant.",)
    match reference.source:
        case refs.StepOutput(step=name) | refs.StepExitCode(step=name) | refs.StepAnsweredBy(step=name) if (
            name not in scope.known
        ):
            return f"names `{name}`, which is not a step of this plan", survey.near(name, scope.known)
        case refs.StepExitCode(step=name) if command_text(scope.known[name].action) is None:
            return f"asks for the exit status of `{name}`, which is not a command", ()
        case refs.StepAnsweredBy(step=name) if not _is_answered(scope.known[name].action):
            hint = "It is there of steps that `ask`, and of tasks that a person does."
            return f"asks who answered `{name}`, which asks nobody", (hint,)
        case refs.StoredData(key=key) if key not in scope.stores:
            return f"names `{key}`, which no step of this plan stores", survey.near(key, scope.stores)
        case refs.ParamValue(name=name) if name not in scope.plan.params:
            return f"names `{name}`, which is not a parameter of this plan", survey.near(name, scope.plan.params)
        case refs.Item() | refs.Index() if mention.step.for_each is None or mention.in_source:
            return "has a meaning only inside a step with `for_each`", ()
        case refs.Item(name=name) if mention.step.for_each is not None and name != (
            mention.step.for_each.name or "item"
        ):
            return f"names the item, which is called `{mention.step.for_each.name}` here", ()
        case _:
            return None


def _is_answered(action: Action) -> bool:
    """Whether a person may answer what this asks, or do it."""
    return type(action) is Task or about(action).waits == "person"


def misspelt(survey: Survey, facts: Facts) -> Iterator[Problem]:
    """`${step.something}` of a known step can only have been meant as a reference."""
    for step, value in _payloads(survey):
        for text in strings(value):
            steps = survey.scope_of(step).known if "${" in text else {}
            for found in _NEAR.finditer(text) if steps else ():
                if found[1] in steps and found[2] not in _PARTS and found[1] not in ("data", "params", "item"):
                    there = "`output`, `exit_code` and `answered_by`"
                    detail = f"`{step.id}`: of `{found[1]}` there is {there}, and no `{found[2]}`."
                    yield blame_step(step.id, "E_REF", detail, *survey.near(found[2], _PARTS))


def _payloads(survey: Survey) -> Iterator[tuple[Step, object]]:
    yield from ((step, call.args) for step, call in survey.calls)
    yield from ((step, command.env) for step, command in survey.commands if command.env)
    yield from ((step, payload(action)) for step, action in survey.others)


def options(survey: Survey, facts: Facts) -> Iterator[Problem]:
    """An argument of a program that begins with a reference stands behind `--`: `-` is refused later."""
    for step, call in survey.calls:
        if found := ", ".join(f"`argv[{at}]`" for at in may_be_options(call, item_name(step)) if at > 0):
            detail = f"`{step.id}`: {found} begins with a reference; a value that begins with `-` will be refused."
            hint = 'Write `"--"` before it, where its program knows that, or a literal beginning: `./${…}`.'
            yield blame_step(step.id, "W_REF_OPTION", detail, hint)


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
                yield blame_step(link.step, link.code, f"`{link.step}` refers to `{link.text}`, {what}.")


def reads_known(survey: Survey, facts: Facts) -> Iterator[Problem]:
    """A step whose result an agent reads is there."""
    for scope, step, task in survey.tasks:
        for read in task.reads:
            name = read.removeprefix("step:")
            if read.startswith("step:") and name not in scope.known:
                detail = f"`{step.id}` reads the result of `{name}`, which is not a step of this plan."
                yield blame_step(step.id, "E_REF", detail, *survey.near(name, scope.known))


def completed_known(survey: Survey, facts: Facts) -> Iterator[Problem]:
    """A step that must have passed before another one is there; before a plan begins none has passed."""
    for condition, name in _steps_named(survey.plan.preconditions):
        detail = f"The plan: `{condition}` names `{name}`, and no step has run yet."
        yield blame_plan("preconditions", "E_REF", detail, "Make it a precondition of a step.")
    for step in survey.steps:
        for condition, name in _steps_named(conditions_of(step)):
            if name not in survey.scope_of(step).known:
                detail = f"`{step.id}`: `{condition}` names `{name}`, which is not a step of this plan."
                yield blame_step(step.id, "E_REF", detail, *survey.near(name, survey.scope_of(step).known))


def _steps_named(conditions: Sequence[msgspec.Struct]) -> Iterator[tuple[str, str]]:
    for condition in conditions:
        yield from ((str(condition.__struct_config__.tag), part.value) for part in parts(condition, StepName))


def may_be_missing(survey: Survey, facts: Facts) -> Iterator[Problem]:
    """A step that may be skipped leaves nothing to refer to."""
    for mention in survey.mentions:
        if isinstance(mention.reference, refs.Unreadable) or mention.reference.default is not None:
            continue
        match mention.reference.source:
            case refs.StepOutput(step=name) | refs.StepExitCode(step=name) | refs.StepAnsweredBy(step=name) if (
                name in mention.scope.known
            ):
                why = _why_missing(mention.scope, mention.step, name, facts)
                answered = isinstance(mention.reference.source, refs.StepAnsweredBy)
                if answered and type(mention.scope.known[name].action) is Task:
                    why = why or "is a task, which an agent may do"
                if why is not None:
                    with_default = replace(mention.reference, default=refs.Default(value="…"))
                    detail = f"`{mention.step.id}`: `{mention.text}` may refer to nothing: `{name}` {why}."
                    hint = f"Say what is used then: `{refs.spelt(with_default)}`."
                    yield blame_step(mention.step.id, "E_REF_MAY_BE_MISSING", detail, hint)


def _why_missing(scope: Scope, step: Step, name: str, facts: Facts) -> str | None:
    target = scope.known[name]
    if name in scope.fallbacks:
        return "is a fallback and runs only if something fails"
    if target.when is not None:
        return "runs only under a condition"
    policies = map(last_policy, (target.on_failure, scope.plan.on_failure, facts.settings.on_failure))
    if isinstance(next(filter(None, policies), None), Skip):
        return "is skipped when it fails"
    if step.id in scope.fallbacks:
        general = last_policy(scope.plan.on_failure)
        if name in scope.users.get(step.id, ()) or (isinstance(general, Fallback) and step.id in general.steps):
            return f"may be the step that failed when `{step.id}` runs"
    return None


def places(survey: Survey, facts: Facts) -> Iterator[Problem]:
    """No value of another step gets into a name, a path, a command or the prose for an agent."""
    if survey.encoded is not None and b"${" not in survey.encoded:
        return
    for step_id, what, text, steps in _fixed_texts(survey):
        found = refs.misplaced_reference(text, steps)
        if found is not None:
            whose = f"The {what} of `{step_id}`" if step_id is not None else f"The plan's {what}"
            hint = _INSTEAD.get(what) or (_OF_PARAM if "params" in found[:12] else _OF_PROSE)
            yield blame_step(step_id, "E_REF_PLACE", f"{whose} holds the reference `{found}`.", hint)
    for step_id, what, name in _fixed_names(survey):
        if "${" in name:
            whose = f"The {what} of `{step_id}`" if step_id is not None else f"The plan's {what}"
            detail = f"{whose} cannot be decided by a reference."
            yield blame_step(step_id, "E_REF_PLACE", detail, "Write the name itself.")


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
    yield from survey.shell_texts
    tasks = ((step, task) for _, step, task in survey.tasks)
    for step, action in chain(tasks, survey.others):
        yield from ((step, part.what, part.value) for part in parts(action, Prose, CommandText))


def _fixed_names(survey: Survey) -> Iterator[tuple[str | None, str, str]]:
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
                if isinstance(word, str) and (
                    at == 0 or next(refs.references(word, item_name(step)), None) is not None
                ):
                    yield step.id, "program", word
    tasks = ((step.id, task) for _, step, task in survey.tasks)
    others = ((step.id, action) for step, action in survey.others)
    for step_id, declared in chain(tasks, others, survey.declared()):
        found = parts(declared, Name, PathRead, PathWritten)
        yield from ((step_id, part.what or part.field.replace("_", " "), part.value) for part in found)


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
            detail = f"{who} is no good expression: {fault}."
            where = Place(step=asked.step.id) if asked.step is not None else Place(field="preconditions")
            yield Problem(code="E_EXPR", detail=detail, where=where, hints=hints)


def _name_faults(asked: AskedExpression, survey: Survey) -> Iterator[tuple[str, tuple[str, ...]]]:
    scope, used = asked.scope, asked.named
    yield from used.faults
    if asked.after and asked.step is not None and "exit_code" in used.others and not _ends_with_status(asked.step):
        hint = "Leave the verification out: that it took effect is observed by Ordain."
        yield "there is no `exit_code`: what the step does ends with no exit status", (hint,)
    for name in used.statuses:
        if name in scope.known and not _ends_with_status(scope.known[name]):
            hint = f'Ask for its `.status` or `.output`: `steps["{name}"].status == "passed"`.'
            yield f"`{name}` has no `exit_code`: what it does ends with no exit status", (hint,)
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


def _ends_with_status(step: Step) -> bool:
    """Whether a process does the work of a step, or may do it: an agent's, a handler's."""
    if command_text(step.action) is not None:
        return True
    declared = about(step.action)
    return declared.effect is EffectClass.OPAQUE and not declared.ledger_only and not isinstance(step.action, CallTool)


# --- Stored data -----------------------------------------------------------------------------------------------------

_PAIRS_MAX = 100_000
"""How many readers and storing steps are compared; a plan that has more gets no warning for the rest."""


def data_order(survey: Survey, facts: Facts) -> Iterator[Problem]:
    """Where several steps store one key, every reader comes before or after each of them, and one of them is last."""
    several = any(len(stores) > 1 for scope in survey.scopes for stores in scope.stores.values())
    compared = 0
    for scope, reader, key in _readers(survey) if several else ():
        stores = scope.stores.get(key, ())
        compared += len(stores)
        if len(stores) < 2 or compared > _PAIRS_MAX or scope.order.circles:
            continue
        apart = next((store for store in stores if not _in_order(scope, store, reader)), None)
        pair = _undecided(scope, stores, reader) if apart is None else None
        if apart is not None:
            what = f"is stored by `{apart}` too, which may come before or after it"
        elif pair is not None:
            what = f"is stored by `{pair[0]}` and `{pair[1]}`, which come in any order"
        else:
            continue
        hint = "Say with `needs` which comes first, or store it under another key."
        yield blame_step(reader, "W_DATA_ORDER", f"`{reader}` reads the data `{key}`, which {what}.", hint)


def _readers(survey: Survey) -> Iterator[tuple[Scope, str, str]]:
    found: dict[tuple[int, str, str], Scope] = {}
    for mention in survey.mentions:
        if not isinstance(mention.reference, refs.Unreadable) and isinstance(mention.reference.source, refs.StoredData):
            found.setdefault((id(mention.scope), mention.step.id, mention.reference.source.key), mention.scope)
    for asked in survey.asked:
        if asked.step is not None:
            for key in asked.named.data:
                found.setdefault((id(asked.scope), asked.step.id, key), asked.scope)
    yield from ((scope, reader, key) for (_, reader, key), scope in found.items())


def _in_order(scope: Scope, one: str, other: str) -> bool:
    """Whether one of two steps always comes before the other; a fallback runs when the steps do that name it."""
    return all(
        first == then or scope.order.before(first, then) or scope.order.before(then, first)
        for first in _when_run(scope, one)
        for then in _when_run(scope, other)
    )


def _when_run(scope: Scope, name: str) -> Sequence[str]:
    return (name,) if name in scope.steps else [user for user in scope.users.get(name, ()) if user in scope.steps]


def _undecided(scope: Scope, stores: Sequence[str], reader: str) -> tuple[str, str] | None:
    """Two steps that both store what a reader reads and surely run, of which nobody can say which is last."""
    certain = [store for store in stores if store in scope.steps and scope.steps[store].when is None]
    before = sorted((store for store in certain if scope.order.before(store, reader)), key=scope.order.sort_key)
    return next(((one, before[-1]) for one in before[:-1] if not scope.order.before(one, before[-1])), None)
