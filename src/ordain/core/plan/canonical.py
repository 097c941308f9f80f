"""From a value to its canonical bytes (RFC 8785 JSON) and digest: plan id, plan hash, step key. A digest is SHA-256
over DSSE's pre-authentication encoding, which frames type and body by length, so that no text can imitate a border."""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Iterator
from typing import Any, get_type_hints

import msgspec
import rfc8785

from ordain.core.plan.model import Action, NestedPlan, Plan
from ordain.core.plan.value import PlanId, RunId, StepId
from ordain.core.text.limit import INTEGER_MAX, line_fault
from ordain.core.text.problem import Place, Problem, Refused, refuse

PLAN_TYPE = "application/vnd.ordain.plan.v1+json"
ACTION_TYPE = "application/vnd.ordain.action.v1+json"
STEP_TYPE = "application/vnd.ordain.step-key.v1+json"


def canonical_bytes(value: Any) -> bytes:
    """RFC 8785 JSON of a value: one spelling for every number, one order for every key."""
    tree = msgspec.to_builtins(value)
    # For the common tree msgspec writes the same bytes, many times faster; a property test compares the two.
    return _SORTED.encode(tree) if _made_plain(tree) else rfc8785.dumps(tree)


_SORTED = msgspec.json.Encoder(order="sorted")


def _made_plain(tree: Any) -> bool:
    """Spell whole floats as integers, in place (the tree is ours), and say whether that leaves nothing that RFC 8785
    spells or orders in its own way: other floats, keys beyond ASCII, integers beyond 2^53 - 1."""
    if type(tree) is float:
        return False
    todo = [tree]
    while todo:
        value = todo.pop()
        kind = type(value)
        if kind is dict:
            if not all(map(str.isascii, value)):
                return False
            items: Any = value.items()
        elif kind is list or kind is tuple:
            items = enumerate(value)
        elif kind is int:
            if not -INTEGER_MAX <= value <= INTEGER_MAX:
                return False
            continue
        else:
            continue
        for key, inner in items:
            if type(inner) is float:
                if kind is tuple or not inner.is_integer() or abs(inner) > INTEGER_MAX:
                    return False
                value[key] = int(inner)
            elif type(inner) is not str:
                todo.append(inner)
    return True


def framed(kind: str, body: bytes) -> bytes:
    """A body with its type and both lengths before it, so that nothing else can have these bytes."""
    name = kind.encode()
    return b"DSSEv1 %d %s %d %s" % (len(name), name, len(body), body)


def digest(kind: str, body: bytes) -> str:
    """The 64 hex digits of SHA-256 over the length-framed, typed body."""
    return hashlib.sha256(framed(kind, body)).hexdigest()


def sha256(data: bytes) -> str:
    """The digest of any bytes, in the form people compare: `sha256:` and 64 hex digits."""
    return "sha256:" + hashlib.sha256(data).hexdigest()


def plan_id(plan: Plan) -> PlanId:
    """The plan's identity: `plan:` and the whole digest of its canonical bytes."""
    return PlanId("plan:" + digest(PLAN_TYPE, canonical_bytes(plan)))


def plan_hash(identity: PlanId) -> str:
    """The same digest in the form people compare: `sha256:` and 64 hex digits."""
    return "sha256:" + identity.removeprefix("plan:")


def short_id(identity: PlanId) -> str:
    """The form of a plan id that people type: the first 12 hex digits."""
    return identity.removeprefix("plan:")[:12]


def plan_from_bytes(body: bytes) -> Plan:
    """The plan that these canonical bytes describe; raises msgspec.ValidationError where they describe none."""
    return msgspec.json.decode(body, type=Plan)


_types = functools.cache(get_type_hints)
_FAULTS = (msgspec.MsgspecError, TypeError, ValueError, RecursionError)


def said_of(error: Exception, name: str) -> str:
    """What is wrong with the value of a field, which is named."""
    words = str(error).replace("`$", f"`{name}") or type(error).__name__
    return words if f"`{name}" in words else f"{words} - at `{name}`"


def reread(name: str, value: Any, into: Any) -> Any:
    """The value of a field as everybody will decode it. Raises one of `_FAULTS` where no document could give it."""
    if fault := line_fault(name, value):
        raise ValueError(fault)
    return msgspec.json.decode(canonical_bytes(value), type=into)


def reread_plan(plan: Plan) -> Plan:
    """The plan as everybody will decode it from its canonical bytes. Raises Refused where those can not be made, or
    describe no plan that a document could, which code can bring about: nothing checks the values of a struct."""
    try:
        read, words = plan_from_bytes(canonical_bytes(plan)), ""
        if not any(line_fault(name, value) for _, _, name, value in _values(read)):
            return read
    except _FAULTS as error:
        words = str(error) or type(error).__name__
    for step, owner, name, value in _values(plan):
        try:
            reread(name, value, _types(owner)[name])
        except _FAULTS as error:
            if step is not None:
                detail = f"`{step}`: {said_of(error, name)}."
                raise Refused([Problem(code="E_PLAN_TYPE", detail=detail, where=Place(step=step))]) from None
            words = said_of(error, name)
    raise refuse("E_PLAN_TYPE", f"This is not a plan: {words}.")


def _values(plan: Any, step: str | None = None) -> Iterator[tuple[str | None, type, str, Any]]:
    """The values of all fields, and the steps whose they are, of whatever code calls a plan; its own come last."""
    lists = (getattr(plan, key, ()) for key in ("steps", "fallbacks"))
    for owner in (*(one for steps in lists if isinstance(steps, tuple | list) for one in steps), plan):
        own = step if owner is plan else str(getattr(owner, "id", ""))
        for name in getattr(owner, "__struct_fields__", ()):
            value = getattr(owner, name)
            yield own, type(owner), name, value
            if isinstance(value, NestedPlan):
                yield from _values(value.plan, own)


def action_digest(action: Action) -> str:
    """What tells one action from another, whichever plan it is in."""
    return digest(ACTION_TYPE, canonical_bytes(action))


def step_key(workspace_id: str, first_run: RunId, step: StepId, action: Action, values_seal: str = "") -> str:
    """The idempotency key of a step: the same through retries, resumes and reruns, handed to what can use it.
    `values_seal` commits to the values that stand in place of its references. The key is recorded and everything else
    in it is known, so the values themselves must not be in it: a secret among them could be guessed."""
    known = {"workspace": workspace_id, "run": first_run, "step": step, "action": action}
    if values_seal:
        known["values"] = values_seal
    return "step:" + digest(STEP_TYPE, canonical_bytes(known))
