"""What a workspace's own stream adds up to: its id, the configuration a person trusted, the enrolled approvers.

Once an approver is enrolled, trusting a configuration, enrolling and revoking count only with an enrolled key's
signature; an event whose signature is missing or bad is named and changes nothing.
"""

from __future__ import annotations

from typing import assert_never

import msgspec

from ordain.core.approval.signature import PublicKey, Signature, Verifier, fingerprint, statement
from ordain.core.plan.canonical import sha256
from ordain.core.plan.value import Instant
from ordain.core.run import event as events

WRONG_PASSPHRASES_MAX = 5
WRONG_PASSPHRASES_MS = 60_000


class Approver(msgspec.Struct, frozen=True, kw_only=True):
    """A person whose key counts here, or did until it was revoked."""

    name: str
    key: PublicKey
    enrolled_at: Instant
    revoked_at: Instant | None = None


class WorkspaceState(msgspec.Struct):
    """The workspace, folded from its stream."""

    workspace_id: str | None = None
    trusted: events.ConfigTrusted | None = None
    approvers: dict[str, Approver] = {}
    """By the fingerprint of their keys."""
    refused_at: tuple[Instant, ...] = ()
    """When wrong passphrases were given, as far as it still matters."""
    unsigned: tuple[str, ...] = ()
    """Events that lack a good signature where one is needed, in words."""
    size: int = 0

    @property
    def active(self) -> tuple[Approver, ...]:
        """The approvers whose keys count now."""
        return tuple(approver for approver in self.approvers.values() if approver.revoked_at is None)

    def locked(self, now: Instant) -> bool:
        """Whether too many wrong passphrases were given within a minute of now."""
        recent = [at for at in self.refused_at if abs(now - at) < WRONG_PASSPHRASES_MS]
        return len(recent) >= WRONG_PASSPHRASES_MAX

    def signed(self, signature: Signature | None, said: bytes, verify: Verifier) -> Approver | None:
        """The approver whose key, counting now, made this signature over these bytes."""
        approver = self.approvers.get(signature.key) if signature is not None else None
        if approver is None or approver.revoked_at is not None or signature is None:
            return None
        return approver if verify(approver.key, signature, said) else None


# What an approver signs. The number of the event is part of it, so that no signature fits a second time.


def trusting(workspace_id: str, seq: int, digest: str) -> bytes:
    return statement("trust", {"workspace": workspace_id, "seq": seq, "digest": digest})


def proof_of(workspace_id: str, name: str, key: PublicKey) -> bytes:
    """With the new key."""
    return statement("approver-proof", {"workspace": workspace_id, "name": name, "key": fingerprint(key)})


def enrolment(workspace_id: str, seq: int, name: str, key: PublicKey) -> bytes:
    return statement("approver", {"workspace": workspace_id, "seq": seq, "name": name, "key": fingerprint(key)})


def revocation(workspace_id: str, seq: int, key: str) -> bytes:
    return statement("revocation", {"workspace": workspace_id, "seq": seq, "key": key})


def apply_workspace(
    state: WorkspaceState, event: events.WorkspaceEvent, at: Instant, verify: Verifier
) -> WorkspaceState:
    """Fold one event of the workspace's stream into its state and return it."""
    state.size += 1
    workspace = state.workspace_id or ""
    match event:
        case events.WorkspaceOpened():
            # The first id stays: a second event of this kind is nothing that we write.
            state.workspace_id = state.workspace_id or event.workspace.id
        case events.ConfigTrusted():
            said = trusting(workspace, state.size, event.digest)
            if event.digest != sha256(event.text.encode()):
                # What is signed is the digest, and what counts is the text.
                state.unsigned += (f"event {state.size}: a trusted configuration that is not the one of its digest",)
            elif _vouched(state, event.signature, said, verify, "the trust in a configuration"):
                state.trusted = event
        case events.ApproverEnrolled():
            key = fingerprint(event.key)
            said = enrolment(workspace, state.size, event.name, event.key)
            proof = proof_of(workspace, event.name, event.key)
            if event.proof.key != key or not verify(event.key, event.proof, proof):
                state.unsigned += (f"event {state.size}: the enrolment of {event.name}, whose proof is not good",)
            elif key in state.approvers:
                pass
            elif _vouched(state, event.signature, said, verify, f"the enrolment of {event.name}"):
                state.approvers[key] = Approver(name=event.name, key=event.key, enrolled_at=at)
        case events.ApproverRevoked():
            said = revocation(workspace, state.size, event.key)
            known = state.approvers.get(event.key)
            if known is not None and _vouched(state, event.signature, said, verify, f"the revocation of {known.name}"):
                state.approvers[event.key] = msgspec.structs.replace(known, revoked_at=at)
        case events.SignatureRefused():
            state.refused_at = (*state.refused_at[-WRONG_PASSPHRASES_MAX:], at)
        case events.WorkStopped() | events.StopLifted():
            pass  # what stops is the switch, which needs no ledger
        case _:
            assert_never(event)
    return state


def _vouched(state: WorkspaceState, signature: Signature | None, said: bytes, verify: Verifier, what: str) -> bool:
    """Whether this may count: nobody is enrolled yet, or somebody who is signed it."""
    if not state.approvers or state.signed(signature, said, verify) is not None:
        return True
    state.unsigned += (f"event {state.size}: {what}, which no enrolled approver signed",)
    return False
