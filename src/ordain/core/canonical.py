"""From a value to its canonical bytes and digest: plan id, plan hash, step key.

Canonical bytes are RFC 8785 JSON. A digest is SHA-256 over DSSE's pre-authentication encoding, which frames type
and body by length, so that no text inside a plan can imitate a border between two fields or two kinds of value.
"""

from __future__ import annotations

import hashlib
from typing import Any

import msgspec
import rfc8785

from ordain.core.bound import INTEGER_MAX
from ordain.core.model import Action, Plan
from ordain.core.value import PlanId, RunId, StepId

__all__ = [
    "action_digest",
    "canonical_bytes",
    "digest",
    "framed",
    "plan_from_bytes",
    "plan_hash",
    "plan_id",
    "short_id",
    "step_key",
]

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
    body = canonical_bytes(known)
    return "step:" + digest(STEP_TYPE, body)
