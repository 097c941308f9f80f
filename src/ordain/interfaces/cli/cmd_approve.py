"""The commands of those who permit: approve, revoke, trust, approver."""

from __future__ import annotations

import shlex

import click
import msgspec

from ordain.interfaces.cli.configuration import ask_trust
from ordain.interfaces.cli.decision import ask_approval, credential, signer_named
from ordain.interfaces.cli.execution import approve_and_start
from ordain.interfaces.cli.main import Commands
from ordain.interfaces.cli.session import FINE, REFUSED, WAITING, Session, command, in_utf8
from ordain.interfaces.view.audit import ApproversResult, approver_line, enrolled
from ordain.interfaces.view.report import RevokedResult
from ordain.interfaces.view.run import instant
from ordain.ports.machine import Credential


@command(example="ordain approve 4f2a9c01b7de --start")
@click.argument("plan", metavar="[PLAN]", required=False)
@click.option("--start", is_flag=True, help="Begin the run at once.")
@click.option("--sign", is_flag=True, help="Sign the approval with an enrolled key.")
@click.option("--as", "name", metavar="NAME", help="Whose key; default: the one of yours that is enrolled here.")
@click.option("--allow-subset", is_flag=True, help="Let a new version that only does part of this go on unasked.")
def approve(session: Session, plan: str | None, start: bool, sign: bool, name: str | None, allow_subset: bool) -> int:
    """Approve one run of exactly this plan, in this workspace, as it is now. Only a person at a terminal can. Without
    PLAN, the one that waits for approval."""
    session.needs_person("approve a plan", f"ordain approve {shlex.quote(plan or '')}".removesuffix(" ''"))
    plan = session.plan_named(plan) if plan is not None else session.only_plan("approve")
    session.app.plans.refuse_edited(plan, "approve")
    review = msgspec.structs.replace(session.app.plans.review(plan), allow_subset=allow_subset)
    if session.json:
        session.run(session.app.approvals.approve(plan, session.by))  # refused: the robots' channel can only ask
        return WAITING
    approved = ask_approval(session, review, name, sign=sign, start=start)
    if approved is None:
        session.say(["Not approved; nothing was recorded."])
        return REFUSED
    if start:
        return approve_and_start(session, approved)
    made = session.run(session.app.approvals.approve(review.plan_id, session.by, *approved))
    signed = f", signed by {made.signed_by}" if made.signed_by is not None else ", unsigned"
    session.say([f"Approved as {made.approval_id}{signed}, to be started by {instant(made.expires_at)}. Next:"])
    session.say([f"  → {session.style.bold(made.commit_command)}"])
    return FINE


@command(example="ordain revoke 4f2a9c01b7de")
@click.argument("what", metavar="PLAN|APPROVAL")
@click.option("-m", "--message", "reason", callback=in_utf8, default="", help="Why.")
def revoke(session: Session, what: str, reason: str) -> int:
    """Revoke an approval that no run has used: the one named, or every one of a plan."""
    ended = session.run(session.app.approvals.revoke(session.plan_named(what), session.by, reason))
    return session.show(RevokedResult(revoked=ended), [f"Revoked {', '.join(ended)}."], next_=["ordain status"])


@command(example="ordain trust")
@click.option("--as", "name", metavar="NAME", help="Whose key signs, once an approver is enrolled.")
def trust(session: Session, name: str | None) -> int:
    """Trust ordain.toml as it is now. An agent can edit that file, so only a person at a terminal can trust it."""
    session.needs_person("trust a configuration", "ordain trust")
    return ask_trust(session, name)


@click.group(cls=Commands)
def approver() -> None:
    """Manage the keys that can sign approvals: enroll one, list them, revoke one.

    Example: ordain approver enroll kim
    """


@command(name="enroll")
@click.argument("name", required=False)
@click.option("--by", "vouching", metavar="NAME", help="The enrolled approver who signs for the new one.")
def enroll(session: Session, name: str | None, vouching: str | None) -> int:
    """Enroll an approver: make a key under a passphrase that is kept nowhere, and let it count in this workspace.

    Keep the fingerprint it prints: with it anybody can check later what this key signed.
    Example: ordain approver enroll kim
    """
    session.needs_person("enroll an approver", "ordain approver enroll")
    name = name or session.by.name
    if session.json:
        nothing = Credential(name=name, passphrase="")  # refused: the robots' channel can only ask
        session.run(session.app.approvals.enroll(nothing, session.by))
        return WAITING
    session.app.approvals.check_enrolling(name)
    others = session.app.workspace.workspace_state().active
    by = signer_named(session, vouching) if others else None
    typed = credential(session, name, new=not session.app.approvals.keeps_key(name))
    vouched = credential(session, by) if by is not None else None
    mark, key = session.run(session.app.approvals.enroll(typed, session.by, vouched))
    session.say(
        [
            f"Enrolled {name}.",
            f"  Fingerprint: {mark}",
            f"  Public key:  {key.key}",
            "Keep both somewhere that no agent can write: `ordain audit verify --key` compares with them.",
        ]
    )
    if not session.app.workspace.settings()[0].require_signature:
        session.say(["To demand signatures: `[approval] require_signature = true` in ordain.toml, then ordain trust."])
    return FINE


@command(name="list", example="ordain approver list")
def list_approvers(session: Session) -> int:
    """List the approvers whose keys are accepted here, and those revoked."""
    found = session.app.workspace.workspace_state().approvers.values()
    lines = map(approver_line, found) if found else ["Nobody is enrolled here: any person at a terminal may approve."]
    following = [] if found else ["ordain approver enroll"]
    return session.show(ApproversResult(approvers=enrolled(found)), lines, next_=following)


@command(name="revoke", example='ordain approver revoke kim -m "The laptop was lost."')
@click.argument("name")
@click.option("-m", "--message", "reason", callback=in_utf8, default="", help="Why.")
@click.option("--as", "signer", metavar="NAME", help="Whose key signs that.")
def revoke_approver(session: Session, name: str, reason: str, signer: str | None) -> int:
    """Revoke an approver's key, and every unused approval that it signed."""
    session.needs_person("revoke an approver", f"ordain approver revoke {shlex.quote(name)}")
    signing = None if session.json else credential(session, signer_named(session, signer))
    session.run(session.app.approvals.revoke_approver(name, session.by, reason, signing))
    session.say([f"Revoked the key of {name}."])
    return FINE


for _subcommand in (enroll, list_approvers, revoke_approver):
    approver.add_command(_subcommand)
