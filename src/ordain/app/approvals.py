"""The verbs about permission: approving and revoking, trusting a configuration, the keys that count."""

from __future__ import annotations

import shlex

from ordain.app.gate import Gate
from ordain.app.plans import PlanVerbs
from ordain.app.refusals import Refusals
from ordain.core.approval.approval import Principal
from ordain.core.approval.signature import PublicKey, fingerprint
from ordain.core.lineage.decision import persons_only
from ordain.core.lineage.workspace import Approver, enrolment, proof_of, revocation
from ordain.core.plan.canonical import short_id
from ordain.core.report.report import Approved, Review
from ordain.core.run.event import ApproverEnrolled, ApproverRevoked
from ordain.core.text.problem import refuse
from ordain.ports.machine import Credential
from ordain.records.records import Records
from ordain.records.surroundings import Surroundings


class Approvals:
    """What people permit in one workspace."""

    def __init__(self, here: Surroundings, gate: Gate, plans: PlanVerbs, refusals: Refusals) -> None:
        self._here, self._gate, self._plans, self._refusals = here, gate, plans, refusals

    @property
    def _records(self) -> Records:
        return self._here.records

    async def approve(
        self, ref: str, by: Principal, shown: Review | None = None, credential: Credential | None = None
    ) -> Approved:
        """Record a person's permission for one run of exactly this plan, here and as things stand.

        `shown` is what the person saw: when that is no longer how things stand, nothing is recorded. With a credential
        the approval is signed.
        """
        stream, _ = self._records.current(ref)
        async with self._refusals.recording("approve", ref, by):
            self._plans.refuse_edited(ref, "approve")
            permission = await self._gate.approve(stream, by, shown, credential)
        approval = permission.approval
        self._plans.copies.write(stream, self._records.lineage(stream))
        return Approved(
            approval_id=approval.approval_id,
            plan_id=approval.plan_id,
            expires_at=approval.expires_at,
            tier=approval.tier,
            signed_by=approval.approver.name if permission.signature is not None else None,
            commit_command=f"ordain commit {short_id(approval.plan_id)}",
        )

    async def check_approvable(self, ref: str, by: Principal, signer: str | None = None) -> None:
        """Raise Refused where this person's yes could not count, so that nobody reads a plan in vain."""
        self._here.refuse_pretended(by)
        stream, state = self._records.current(ref)
        await self._gate.check_approvable(stream, state, by, signer)

    async def revoke(self, ref: str, by: Principal, reason: str = "") -> tuple[str, ...]:
        """End an approval, or every approval of a plan, that no run has used; which ones."""
        async with self._refusals.recording("revoke", ref, by):
            ended = await self._gate.revoke(ref, by, reason)
        self._plans.write_copies(open_only=True)
        return ended

    def configuration(self) -> tuple[bytes, str]:
        """The content of `ordain.toml` and its digest, for a person to read before trusting it; raises Refused when
        something is wrong with it."""
        return self._gate.configuration()

    def configuration_notes(self) -> list[str]:
        """What a person should know of its commands before trusting it."""
        return list(self._gate.configuration_notes())

    async def trust(self, shown: str, by: Principal, credential: Credential | None = None) -> None:
        """Make the configuration count whose digest was shown to the person, if it is still what is there."""
        async with self._refusals.recording("trust", shown, by):
            await self._gate.trust(shown, by, credential)

    async def enroll(
        self, credential: Credential, by: Principal, vouching: Credential | None = None
    ) -> tuple[str, PublicKey]:
        """Let a person's key count here, making it where it is not kept yet; returns its fingerprint and the key.

        Once somebody is enrolled, an approver vouches for every further one.
        """
        async with self._refusals.recording("enroll", credential.name, by):
            return await self._enroll(credential, by, vouching)

    async def _enroll(
        self, credential: Credential, by: Principal, vouching: Credential | None
    ) -> tuple[str, PublicKey]:
        here = self._here
        persons_only("enroll an approver", by, "ordain approver enroll")
        identity, state = await here.identity(), here.snapshot.workspace
        self.check_enrolling(credential.name)
        if state.approvers and vouching is None:
            detail = "Somebody is enrolled here already, so an enrolled approver must sign for the next."
            raise refuse("E_APPROVAL_SIGNATURE", detail, command=f"ordain approver enroll {credential.name} --by NAME")
        if vouching is not None:
            here.enrolled(vouching.name, state)
        key = here.ports.keyring.public_key(credential.name) or here.ports.keyring.create(credential)
        proof = await here.sign(credential, proof_of(identity.id, credential.name, key), by)
        signature = None
        if vouching is not None:
            state = here.snapshot.workspace
            said = enrolment(identity.id, state.size + 1, credential.name, key)
            signature = await here.sign(vouching, said, by)
        event = ApproverEnrolled(name=credential.name, key=key, by=by, proof=proof, signature=signature)
        await here.record(state, event)
        return fingerprint(key), key

    async def revoke_approver(
        self, name: str, by: Principal, reason: str = "", credential: Credential | None = None
    ) -> Approver:
        """Let a key count no longer; an enrolled approver, who may be its owner, signs that."""
        async with self._refusals.recording("revoke approver", name, by):
            return await self._revoke_approver(name, by, reason, credential)

    async def _revoke_approver(self, name: str, by: Principal, reason: str, credential: Credential | None) -> Approver:
        here = self._here
        persons_only("revoke an approver", by, f"ordain approver revoke {shlex.quote(name)}")
        identity, state = await here.identity(), here.snapshot.workspace
        found = next((approver for approver in state.active if approver.name == name), None)
        if found is None:
            raise refuse("E_APPROVER", f"{name} is not enrolled here.", command="ordain approver list")
        if credential is None:
            detail = "Only an enrolled approver can revoke a key."
            raise refuse("E_APPROVAL_SIGNATURE", detail, command=f"ordain approver revoke {shlex.quote(name)}")
        here.enrolled(credential.name, state)
        if len(state.active) == 1:
            detail = (
                f"{name} is the last approver: without one nothing could be trusted, enrolled or signed here again."
            )
            command = f"ordain approver enroll NAME --by {name}"
            raise refuse("E_APPROVER", detail, "Enroll another one first.", command=command)
        key = fingerprint(found.key)
        signature = await here.sign(credential, revocation(identity.id, state.size + 1, key), by)
        text = here.redactor().text(reason)
        await here.record(state, ApproverRevoked(key=key, by=by, reason=text, signature=signature))
        return found

    def check_signer(self, name: str) -> None:
        """Raise Refused where no key of this name could sign, before anybody is asked for a passphrase."""
        self._here.enrolled(name)

    def check_enrolling(self, name: str) -> None:
        """Raise Refused where a key of this name cannot be enrolled, before anybody is asked for a passphrase."""
        state, key = self._here.snapshot.workspace, self._here.ports.keyring.public_key(name)
        if any(approver.name == name for approver in state.active):
            raise refuse("E_APPROVER", f"{name} is enrolled already.", command="ordain approver list")
        if key is not None and fingerprint(key) in state.approvers:
            detail = f"The key of {name} that is kept here was revoked, and a revoked key never counts again."
            raise refuse("E_APPROVER", detail, "Enroll a key under another name.", command="ordain approver list")

    def keeps_key(self, name: str) -> bool:
        """Whether a key of this name is kept on this machine."""
        return self._here.ports.keyring.public_key(name) is not None
