"""Approvers: enrolling and revoking keys, and signing with one. A wrong passphrase is recorded and counted."""

from __future__ import annotations

import shlex

from ordain.core.approval.approval import Principal
from ordain.core.approval.signature import PublicKey, Signature, fingerprint
from ordain.core.lineage.decision import persons_only
from ordain.core.lineage.workspace import (
    WRONG_PASSPHRASES_MAX,
    Approver,
    WorkspaceState,
    enrolment,
    proof_of,
    revocation,
)
from ordain.core.run.event import ApproverEnrolled, ApproverRevoked, SignatureRefused, WorkspaceEvent
from ordain.core.text.problem import Refused, refuse
from ordain.ports.ledger import Append
from ordain.ports.machine import Credential
from ordain.records.records import WORKSPACE_STREAM
from ordain.records.surroundings import Surroundings


async def enroll(
    here: Surroundings, credential: Credential, by: Principal, vouching: Credential | None
) -> tuple[str, PublicKey]:
    """Let a person's key count here, making it where it is not kept yet; returns its fingerprint and the key.

    Once somebody is enrolled, an approver vouches for every further one.
    """
    persons_only("enroll an approver", by, "ordain approver enroll")
    identity, state = await here.identity(), here.snapshot.workspace
    check_enrolling(here, credential.name)
    if state.approvers and vouching is None:
        detail = "Somebody is enrolled here already, so an enrolled approver must sign for the next."
        raise refuse("E_APPROVAL_SIGNATURE", detail, command=f"ordain approver enroll {credential.name} --by NAME")
    if vouching is not None:
        enrolled_approver(state, here, vouching.name)
    key = here.ports.keyring.public_key(credential.name) or here.ports.keyring.create(credential)
    proof = await sign(here, credential, proof_of(identity.id, credential.name, key), by)
    signature = None
    if vouching is not None:
        state = here.snapshot.workspace
        said = enrolment(identity.id, state.size + 1, credential.name, key)
        signature = await sign(here, vouching, said, by)
    event = ApproverEnrolled(name=credential.name, key=key, by=by, proof=proof, signature=signature)
    await _append(here, state, event)
    return fingerprint(key), key


async def revoke_approver(
    here: Surroundings, name: str, by: Principal, reason: str, credential: Credential | None
) -> Approver:
    """Let a key count no longer; an enrolled approver, who may be its owner, signs that."""
    persons_only("revoke an approver", by, f"ordain approver revoke {shlex.quote(name)}")
    identity, state = await here.identity(), here.snapshot.workspace
    found = next((approver for approver in state.active if approver.name == name), None)
    if found is None:
        raise refuse("E_APPROVER", f"{name} is not enrolled here.", command="ordain approver list")
    if credential is None:
        detail = "Only an enrolled approver can revoke a key."
        raise refuse("E_APPROVAL_SIGNATURE", detail, command=f"ordain approver revoke {shlex.quote(name)}")
    enrolled_approver(state, here, credential.name)
    if len(state.active) == 1:
        detail = f"{name} is the last approver: without one nothing could be trusted, enrolled or signed here again."
        command = f"ordain approver enroll NAME --by {name}"
        raise refuse("E_APPROVER", detail, "Enroll another one first.", command=command)
    key = fingerprint(found.key)
    signature = await sign(here, credential, revocation(identity.id, state.size + 1, key), by)
    text = here.redactor().text(reason)
    await _append(here, state, ApproverRevoked(key=key, by=by, reason=text, signature=signature))
    return found


def check_enrolling(here: Surroundings, name: str) -> None:
    """Raise Refused where a key of this name cannot be enrolled, whoever asks."""
    state, key = here.snapshot.workspace, here.ports.keyring.public_key(name)
    if any(approver.name == name for approver in state.active):
        raise refuse("E_APPROVER", f"{name} is enrolled already.", command="ordain approver list")
    if key is not None and fingerprint(key) in state.approvers:
        detail = f"The key of {name} that is kept here was revoked, and a revoked key never counts again."
        raise refuse("E_APPROVER", detail, "Enroll a key under another name.", command="ordain approver list")


def enrolled_approver(state: WorkspaceState, here: Surroundings, name: str) -> Approver:
    """The approver of this name whose key is kept here; raises Refused where there is none."""
    approver = next((one for one in state.active if one.name == name), None)
    if approver is None:
        raise refuse("E_APPROVAL_SIGNATURE", f"No key of {name} counts here.", command="ordain approver list")
    if here.ports.keyring.public_key(name) != approver.key:
        raise refuse("E_APPROVAL_SIGNATURE", f"The key of {name} that counts here is not kept on this machine.")
    return approver


async def sign(here: Surroundings, credential: Credential, statement: bytes, by: Principal) -> Signature:
    """A person's signature over these bytes; after too many wrong passphrases nobody is heard for a minute."""
    if here.snapshot.workspace.locked(here.now()):
        detail = f"{WRONG_PASSPHRASES_MAX} wrong passphrases were given within a minute."
        raise refuse("E_APPROVAL_RATE", detail, "Wait a minute, and look who tried.", command="ordain log")
    signature = here.ports.keyring.sign(credential, statement)
    if signature is not None:
        return signature
    event = SignatureRefused(name=credential.name, by=by)
    while True:  # whatever else was recorded meanwhile, this happened
        try:
            await _append(here, here.snapshot.workspace, event)
            break
        except Refused as refused:
            if refused.problems[0].code != "E_LEDGER_CONFLICT":
                raise
    raise refuse("E_APPROVAL_SIGNATURE", f"That is not the passphrase of {credential.name}'s key.")


async def _append(here: Surroundings, state: WorkspaceState, event: WorkspaceEvent) -> None:
    await here.ledger.append(here.now(), Append(stream=WORKSPACE_STREAM, expected=state.size, events=(event,)))
