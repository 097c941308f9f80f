"""The verbs about permission: approving and revoking, trusting a configuration, the keys that count."""

from __future__ import annotations

from ordain.app.gate import Gate
from ordain.app.plans import PlanVerbs
from ordain.app.refusals import Refusals
from ordain.core.approval.approval import Principal
from ordain.core.approval.signature import PublicKey
from ordain.core.lineage.workspace import Approver
from ordain.core.plan.canonical import short_id
from ordain.core.report.report import (
    Approved,
    Review,
)
from ordain.ports.machine import Credential
from ordain.records.records import (
    Records,
)
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
        self._plans.write_copy(stream, self._records.lineage(stream))
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
        """Let a person's key count here; returns its fingerprint and the key."""
        from ordain.records.signature import enroll

        async with self._refusals.recording("enroll", credential.name, by):
            return await enroll(self._here, credential, by, vouching)

    async def revoke_approver(
        self, name: str, by: Principal, reason: str = "", credential: Credential | None = None
    ) -> Approver:
        """Let a key count no longer."""
        from ordain.records.signature import revoke_approver

        async with self._refusals.recording("revoke approver", name, by):
            return await revoke_approver(self._here, name, by, reason, credential)

    def check_signer(self, name: str) -> None:
        """Raise Refused where no key of this name could sign, before anybody is asked for a passphrase."""
        self._here.enrolled(name)

    def check_enrolling(self, name: str) -> None:
        """Raise Refused where this person cannot be enrolled, before anybody is asked for a passphrase."""
        from ordain.records.signature import check_enrolling

        check_enrolling(self._here, name)

    def keeps_key(self, name: str) -> bool:
        """Whether a key of this name is kept on this machine."""
        return self._here.ports.keyring.public_key(name) is not None
