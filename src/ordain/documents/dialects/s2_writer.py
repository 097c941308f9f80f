"""A plan of tool calls to the third seed's JSON: the inverse of `s2`.

The seed's programs put in a result only for a whole argument, so that is the only reference written; and they take
every argument that begins with a dollar for a reference, so that no other text may.
"""

from __future__ import annotations

import json
from collections.abc import Container
from typing import Any

from ordain.core.plan.actions.tool import CallTool
from ordain.core.plan.canonical import plan_id
from ordain.core.plan.failure import Continue
from ordain.core.plan.model import Step
from ordain.core.plan.refs import Reference, StepOutput, is_reference, literal, parse, references
from ordain.documents.dialects.outgoing import Outgoing
from ordain.documents.dialects.s2 import LINEAGE, PLAN_BESIDE, STEP_BESIDE, UNTITLED
from ordain.documents.document import whole_numbers


def write_s2(out: Outgoing) -> str:
    """The JSON of a plan in the third seed's form."""
    plan = out.plan
    out.refuse_fields(plan, (), None)
    beside = out.beside("")
    own = beside.metadata(*PLAN_BESIDE)
    ids = {step.id for step in plan.steps}
    steps = [_step(out, step, ids) for step in plan.steps]
    if not _rising([step["order"] for step in steps]):
        steps = [{**step, "order": number} for number, step in enumerate(steps, 1)]
    tree: dict[str, Any] = {
        "id": own.pop("id", None) or plan_id(plan),
        **({"title": plan.title} if plan.title != UNTITLED else {}),
        "version": 1,
        **beside.lineage(*LINEAGE),
        **own,
        "steps": steps,
    }
    beside.leave_out_rest()
    out.leave_out_rest(notes=True)
    return json.dumps(whole_numbers(tree), ensure_ascii=False, indent=2) + "\n"


def _rising(orders: list[Any]) -> bool:
    """Whether these are the numbers of steps in their order."""
    return all(type(order) in (int, float) for order in orders) and orders == sorted(set(orders))


def _step(out: Outgoing, step: Step, ids: Container[str]) -> dict[str, Any]:
    out.refuse_fields(step, ("on_failure",), step.id)
    if step.on_failure is not None and not isinstance(step.on_failure, Continue):
        out.refuse(step.id, "on_failure", "There a failed step ends the run, or the rest goes on: `continue`.")
    call = out.action_of(step, CallTool)
    args: Any = {}
    if call is not None:
        out.refuse_fields(call, ("tool", "args"), step.id)
        args = {key: _argument(out, step, key, value, ids) for key, value in call.args.items()}
    beside = out.beside(step.id)
    status = beside.status("step") or "pending"
    kept = beside.metadata(*STEP_BESIDE)
    beside.leave_out_rest()
    return {
        "id": step.id,
        "order": kept.pop("order", None),
        "description": step.description,
        "tool": call.tool if call is not None else "",
        "args": args,
        "dependsOn": list(step.needs),
        "critical": step.on_failure is None,
        "status": status,
        **kept,
    }


def _argument(out: Outgoing, step: Step, key: str, value: Any, ids: Container[str]) -> Any:
    """One argument as the seed has it."""
    if is_reference(value):
        reference = parse(value)
        match reference:
            case Reference(source=StepOutput(step=name, path=()), default=None) if name in ids:
                return f"${name}"
    field = f"args.{key}"
    if next(references(value), None) is not None:
        out.refuse(step.id, field, why="holds a reference that is not the whole result of a step, as a whole argument")
    elif isinstance(value, str) and value.startswith("$"):
        out.refuse(step.id, field, why="begins with `$` and would be taken for a reference")
    return literal(value)
