"""A plan of tasks with contracts to the fifth seed's Markdown: the Markdown notation in the seed's own words.

Every contract is a fence with its exit status below, and every task stands under its name, because that is where the
seed's programs look. Text that the notation would fence to keep it from being structure is not sayable here.
"""

from __future__ import annotations

from ordain.core.plan.actions.task import Task
from ordain.core.plan.failure import Abort, Escalate, Retry
from ordain.core.plan.model import Step, contract_of
from ordain.core.plan.words import write_budget, write_failure
from ordain.documents.dialects.outgoing import Outgoing
from ordain.documents.markdown.outline import escaped_title
from ordain.documents.markdown.writer import fence, written_note
from ordain.documents.tree_writer import slug
from ordain.documents.yaml import yaml_text

_STEP_FIELDS = ("verification", "on_failure")
_DONE = "done"


def write_s4(out: Outgoing) -> str:
    """The Markdown of a plan in the fifth seed's form."""
    plan = out.plan
    out.refuse_fields(plan, ("context", "budget"), None)
    out.refuse_ids([slug(step.description, number) for number, step in enumerate(plan.steps, 1)])
    out.refuse_needs()
    beside = out.beside("")
    head = {"type": "plan", "status": beside.status("plan") or "draft", **beside.record("owner")}
    fields: list[str] = []
    if plan.context is not None:
        fields.append(f"**Context:** {plan.context}")
    if plan.budget is not None:
        words = write_budget(plan.budget) if plan.budget.attempts is None else None
        if words is None:
            out.refuse(None, "budget", why="can not be said in its words")
        fields.append(f"**Budget:** {words}")
    priority = beside.record("priority").get("priority")
    if isinstance(priority, str) and priority == priority.strip() and priority and "\n" not in priority:
        fields.append(f"**Priority:** {priority}")
    elif priority is not None:
        out.leave_out("", ["priority"])
    parts = [f"---\n{yaml_text(head)}---", f"# {escaped_title(plan.title)}"]
    parts += ["\n".join(fields)] if fields else []
    parts += ["## Steps", *(_step(out, number, step) for number, step in enumerate(plan.steps, 1))]
    for heading, text in out.notes:
        named, kept = written_note(heading or "Notes", text)
        parts += [f"## {named}", *([kept] if kept else [])]
    beside.leave_out_rest()
    out.leave_out_rest(notes=False)
    return "\n\n".join(parts) + "\n"


def _step(out: Outgoing, number: int, step: Step) -> str:
    out.refuse_fields(step, _STEP_FIELDS, step.id)
    beside = out.beside(step.id)
    status = beside.status("step")
    mark = "✅ " if status == _DONE else ""
    parts = [f"### {number}. {mark}{escaped_title(step.description)}"]
    fields = [] if status in (None, _DONE) else [f"**status: {status}**"]
    task = out.action_of(step, Task)
    if task is not None:
        out.refuse_fields(task, ("task", "agent", "reads"), step.id)
        fields += [f"**target:** {task.agent}"] if task.agent is not None else []
        if task.reads:
            fields += ["**subscriptions:**", *(f"- {read}" for read in task.reads), ""]
        fields += ["**task:**", task.task]
        parts.append("\n".join(fields))
    checks = [*_contract(out, step), *_on_fail(out, step)]
    parts += ["\n".join(checks)] if checks else []
    beside.leave_out_rest()
    return "\n\n".join(parts)


def _contract(out: Outgoing, step: Step) -> list[str]:
    contract = contract_of(step)
    if contract is None:
        if step.verification is not None:
            out.refuse(step.id, "verification", why="is not a contract")
        return []
    if step.verification is not None and (step.verification.description or step.verification.timeout_ms):
        out.refuse(step.id, "verification", why="says more than a contract")
    out.refuse_fields(contract, ("command", "exit_code"), step.id)
    return ["**contract:**", fence("shell", contract.command), f"exit_code == {contract.exit_code}"]


def _on_fail(out: Outgoing, step: Step) -> list[str]:
    """The seed knows tries without delay, then a person or the end."""
    policy = step.on_failure
    if policy is None:
        return []
    words = write_failure(policy)
    last = policy.then if isinstance(policy, Retry) else policy
    plain = policy == Retry(max_attempts=policy.max_attempts, then=last) if isinstance(policy, Retry) else True
    if not plain or last not in (None, Escalate(), Abort()):
        hint = "There it is `abort`, `escalate`, or `retry(N)` before one of them."
        out.refuse(step.id, "on_fail", hint, why=f"is `{words[:60]}`")
    return [f"**on_fail:** {words}"]
