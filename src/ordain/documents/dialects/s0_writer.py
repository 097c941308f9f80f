"""A plan to the first seed's JSON: the JSON notation, with nothing in it that the seed's schema does not have.

The seed's programs want more said than a plan must say: the workspace, whether a step may be repeated, an id of every
step. The last are those the document carries, else ours. Fallback steps stand where they are used.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from typing import Any, get_args

import msgspec

from ordain.core.plan import condition as holds
from ordain.core.plan.canonical import plan_id
from ordain.core.plan.failure import Abort, AskApproval, FailurePolicy, Fallback, Retry, Skip
from ordain.core.plan.model import Action, NestedPlan, Plan, Step
from ordain.documents.dialects.outgoing import Outgoing
from ordain.documents.document import whole_numbers
from ordain.documents.tree_writer import slug

_ACTIONS: dict[str, tuple[str, ...]] = {
    "send_text": ("pane_id", "text", "paste_mode"),
    "wait_for": ("pane_id", "condition", "timeout_ms"),
    "acquire_lock": ("lock_name", "timeout_ms"),
    "release_lock": ("lock_name",),
    "store_data": ("key", "value"),
    "run_workflow": ("workflow_id", "params"),
    "mark_event_handled": ("event_id",),
    "nested_plan": ("plan",),
    "custom": ("action_type", "payload"),
}
"""The first seed's actions, by the names they still have, and their fields."""
_KNOWN = tuple(kind for kind in get_args(Action) if kind.__struct_config__.tag in _ACTIONS)
_PLAN_FIELDS = ("workspace_id", "preconditions", "on_failure", "fallbacks")
_STEP_FIELDS = ("preconditions", "verification", "on_failure", "timeout_ms", "idempotent")
_POLICIES = (Abort, Retry, Skip, Fallback, AskApproval)
_RETRY_FIELDS = ("max_attempts", "initial_delay_ms", "max_delay_ms", "backoff_multiplier")


def write_s0(out: Outgoing) -> str:
    """The JSON of a plan in the first seed's form."""
    tree = _S0Writer(out, out.plan, "").tree()
    out.leave_out_rest(notes=True)
    return json.dumps(whole_numbers(tree), ensure_ascii=False, indent=2) + "\n"


class _S0Writer:
    """Writes one plan, the outermost or a nested one."""

    def __init__(self, out: Outgoing, plan: Plan, prefix: str) -> None:
        self.out = out
        self.plan = plan
        self.prefix = prefix
        self.fallbacks = {step.id: step for step in plan.fallbacks}
        self.asides = {step.id: out.beside(prefix + step.id) for step in (*plan.steps, *plan.fallbacks)}
        said = {step: aside.record("step_id").get("step_id") for step, aside in self.asides.items()}
        times = Counter(name for name in said.values() if isinstance(name, str))
        self.names: dict[str, str] = {
            step: name if isinstance(name, str) and times[name] == 1 and name not in said else step
            for step, name in said.items()
        }
        """What each step is called in the document: by a foreign id only where it is the only one."""

    def tree(self) -> dict[str, Any]:
        out, plan = self.out, self.plan
        owner = self.prefix.rstrip("/") or None
        out.refuse_fields(plan, _PLAN_FIELDS, owner)
        if plan.workspace_id is None:
            out.demand(owner, "workspace_id", "Write it into the document.")
        steps = [self._step(number, step) for number, step in enumerate(plan.steps, 1)]
        beside = out.beside(self.prefix)
        carried = beside.record("plan_id", "created_at")
        metadata = beside.whole_metadata()
        policy = self._policy(plan.on_failure, owner)
        for step in self.fallbacks:
            out.refuse(self.prefix + step, "fallbacks", why="is a step that no policy names")
        beside.leave_out_rest()
        return {
            "plan_version": plan.plan_version,
            "plan_id": carried.pop("plan_id", plan_id(plan)),
            "title": plan.title,
            "workspace_id": plan.workspace_id,
            **carried,
            "steps": steps,
            **({"preconditions": self._preconditions(plan.preconditions, owner)} if plan.preconditions else {}),
            **({"on_failure": policy} if policy is not None else {}),
            **({"metadata": metadata} if metadata is not None else {}),
        }

    def _step(self, number: int, step: Step, *, fallback: bool = False) -> dict[str, Any]:
        out, name = self.out, self.prefix + step.id
        out.refuse_fields(step, _STEP_FIELDS, name)
        usual = () if fallback or number == 1 else (self.plan.steps[number - 2].id,)
        if step.needs != usual:
            out.refuse(name, "needs", why="is not just the step before")
        made = slug(step.description, number)
        if step.id != made:
            out.refuse(name, "id", f"There the step would be called `{made}`; give it that id.")
        if step.idempotent is None:
            out.demand(name, "idempotent", "Write `idempotent: true` or `false`.")
        tree: dict[str, Any] = {
            "step_number": number,
            "step_id": self.names[step.id],
            "action": self._action(step, name),
            "description": step.description,
        }
        if step.preconditions:
            tree["preconditions"] = self._preconditions(step.preconditions, name)
        if step.verification is not None:
            if isinstance(step.verification.strategy, holds.Contract):
                out.refuse(name, "verification", why="is a contract")
            tree["verification"] = msgspec.to_builtins(step.verification)
        policy = self._policy(step.on_failure, name)
        if policy is not None:
            tree["on_failure"] = policy
        if step.timeout_ms is not None:
            tree["timeout_ms"] = step.timeout_ms
        self.asides[step.id].leave_out_rest()
        return {**tree, "idempotent": step.idempotent}

    def _action(self, step: Step, name: str) -> Any:
        action = self.out.action_of(step, *_KNOWN, name=name)
        if action is None:
            return None
        tree: dict[str, Any] = msgspec.to_builtins(action)
        self.out.refuse_fields(action, _ACTIONS[tree["type"]], name)
        if tree["type"] == "send_text" and "pane_id" not in tree:
            self.out.demand(name, "pane_id")
        if tree["type"] == "custom":
            tree.setdefault("payload", None)
        if isinstance(action, NestedPlan):
            tree["plan"] = _S0Writer(self.out, action.plan, f"{name}/").tree()
        return tree

    def _preconditions(self, conditions: tuple[holds.Precondition, ...], owner: str | None) -> list[Any]:
        trees: list[Any] = []
        for condition in conditions:
            tree: dict[str, Any] = msgspec.to_builtins(condition)
            if isinstance(condition, holds.StepCompleted):
                tree["step_id"] = self.names.get(condition.step_id, condition.step_id)
            elif isinstance(condition, holds.ApprovalValid) and condition.scope.workspace_id is None:
                self.out.refuse(owner, "preconditions", why="do not say the workspace of an approval")
            trees.append(tree)
        return trees

    def _policy(self, policy: FailurePolicy | None, owner: str | None) -> Mapping[str, Any] | None:
        if policy is None:
            return None
        tree: dict[str, Any] = msgspec.to_builtins(policy)
        if not isinstance(policy, _POLICIES):
            self.out.refuse(owner, "on_failure", why=f"is `{tree['strategy']}`")
        if isinstance(policy, Retry):
            self.out.refuse_fields(policy, _RETRY_FIELDS, owner)
            tree.setdefault("initial_delay_ms", 0)
        if isinstance(policy, Fallback):
            steps = [self.fallbacks.pop(step, None) for step in policy.steps]
            if None in steps:
                self.out.refuse(owner, "on_failure", why="names a fallback step twice, or one that there is not")
            known = [step for step in steps if step is not None]
            tree["steps"] = [self._step(number, step, fallback=True) for number, step in enumerate(known, 1)]
        return tree
