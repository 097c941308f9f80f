"""The commands of those who permit: approve, revoke, trust, approver."""

from __future__ import annotations

import difflib
import hashlib
import shlex
from textwrap import wrap

import click
import msgspec

from ordain.assemble.workspace import make_state
from ordain.core.approval.signature import fingerprint
from ordain.core.lint.settings import remarks
from ordain.core.plan.canonical import short_id
from ordain.core.policy.settings import Settings
from ordain.core.report.report import Review
from ordain.core.text.control import CONFIGURATION_FILE
from ordain.core.text.problem import refuse
from ordain.documents.settings import read_settings
from ordain.interfaces.cli.foreground import approve_and_start
from ordain.interfaces.cli.session import FINE, REFUSED, WAITING, Session, command, in_utf8
from ordain.interfaces.robot.results.people import ApproversResult, RevokedResult, enrolled
from ordain.interfaces.view import run as render
from ordain.interfaces.view.preview import review_lines
from ordain.ports.ports import Credential


@command()
@click.argument("plan")
@click.option("--start", is_flag=True, help="Begin the run at once.")
@click.option("--sign", is_flag=True, help="Sign the approval with an enrolled key.")
@click.option("--as", "name", metavar="NAME", help="Whose key; default: the one of yours that is enrolled here.")
def approve(session: Session, plan: str, start: bool, sign: bool, name: str | None) -> int:
    """Permit one run of exactly this plan, in this workspace, as things stand. Only a person at a terminal can.

    Example: ordain approve 4f2a9c01b7de --start
    """
    session.needs_person("approve a plan", f"ordain approve {shlex.quote(plan)}")
    plan = session.plan_named(plan)
    session.app.refuse_edited(plan, "approve")
    review = session.app.review(plan)
    if session.json:
        session.run(session.app.approve(plan, session.by))  # refused: the robots' channel can only ask
        return WAITING
    signer = check_approvable(session, review, name, sign=sign)
    if start:
        session.app.startable(review.plan_id)
    shown = ask_approval(session, review)
    if shown is None:
        session.say(["Not approved; nothing was recorded."])
        return REFUSED
    signing = credential(session, signer) if signer is not None else None
    if start:
        return approve_and_start(session, shown, signing)
    approved = session.run(session.app.approve(review.plan_id, session.by, shown, signing))
    signed = f", signed by {approved.signed_by}" if approved.signed_by is not None else ", unsigned"
    until = render.instant(approved.expires_at)
    session.say([f"Approved as {approved.approval_id}{signed}, to be started by {until}. Next:"])
    session.say([f"  → {session.style.bold(approved.commit_command)}"])
    return FINE


def check_approvable(session: Session, review: Review, name: str | None, *, sign: bool) -> str | None:
    """Whose key will sign, if one must or should; raises Refused where a yes could not count, before anybody reads."""
    signer = signer_named(session, name) if sign or name is not None or review.signature_required else None
    session.run(session.app.check_approvable(review.plan_id, session.by, signer))
    return signer


def ask_approval(session: Session, review: Review) -> Review | None:
    """Show the whole plan, then ask: a plain yes for a small one, else the short digest typed by hand. The review with
    the digest of what was shown, or None where nobody said yes."""
    review = msgspec.structs.replace(review, run=None)  # how an earlier run went is not what this one will do
    lines = [*review_lines(review, render.Style(False)), ""]
    if not session.page([*review_lines(review, session.style), ""]):
        return None
    short = short_id(review.plan_id)
    if review.small:
        said_yes = (session.ask(f"Approve {short} and let it run as shown? Type yes") or "").lower() == "yes"
    else:
        said_yes = session.ask(f"To approve, type the plan's short id ({short})") == short
    if not said_yes:
        return None
    return msgspec.structs.replace(review, shown_sha256=hashlib.sha256("\n".join(lines).encode()).hexdigest())


def signer_named(session: Session, name: str | None) -> str:
    """Whose key signs: the one named, else the caller's own, else the only one that is enrolled and kept here."""
    kept = [one.name for one in session.app.workspace_state().active if session.app.keeps_key(one.name)]
    if name is None:
        if not kept:
            detail = "An enrolled key must sign, and none that is enrolled here is kept on this machine."
            hint = "Restore the file keys/NAME.key of the state directory from a copy, or ask another approver."
            raise refuse("E_APPROVAL_SIGNATURE", detail, hint, command="ordain approver list")
        name = session.by.name if session.by.name in kept else kept[0] if len(kept) == 1 else None
    if name is None:
        raise refuse("E_APPROVAL_SIGNATURE", f"Whose key? {', '.join(kept)} are enrolled.", "Say so with --as NAME.")
    session.app.check_signer(name)
    return name


def credential(session: Session, name: str, *, new: bool = False) -> Credential:
    """The name of a key and the passphrase that its owner types."""
    typed = session.ask_secret(f"{'New passphrase' if new else 'Passphrase'} for {name}'s key")
    if typed is None:
        raise refuse("E_APPROVAL_SIGNATURE", "No passphrase was given; nothing was recorded.")
    if new and session.ask_secret("The same once more") != typed:
        raise refuse("E_APPROVER", "The two passphrases are not the same; nothing was made.")
    return Credential(name=name, passphrase=typed)


@command()
@click.argument("what", metavar="PLAN|APPROVAL")
@click.option("-m", "--message", "reason", callback=in_utf8, default="", help="Why.")
def revoke(session: Session, what: str, reason: str) -> int:
    """End an approval that no run has used: the one named, or every one of a plan.

    Example: ordain revoke 4f2a9c01b7de
    """
    ended = session.run(session.app.revoke(session.plan_named(what), session.by, reason))
    if session.json:
        session.answer(RevokedResult(revoked=ended), next_=["ordain status"])
    else:
        session.say([f"Revoked {', '.join(ended)}."])
    return FINE


@command()
@click.option("--as", "name", metavar="NAME", help="Whose key signs, once an approver is enrolled.")
def trust(session: Session, name: str | None) -> int:
    """Let ordain.toml count as it stands. An agent can edit that file, so only a person at a terminal can trust it.

    Example: ordain trust
    """
    session.needs_person("trust a configuration", "ordain trust")
    data, digest = session.app.configuration()
    signing = None
    if not session.json:
        make_state(session.app.workspace_path)
        state = session.app.workspace_state()
        signer = signer_named(session, name) if state.approvers else None
        text = data.decode("utf-8", "replace")
        shown = [f"{CONFIGURATION_FILE}:", *(f"  │ {render.visible(line)}" for line in text.split("\n")), ""]
        if state.trusted is not None:
            shown += [*_changes(state.trusted.text, text), ""]
        before = _settings(state.trusted.text) if state.trusted is not None else None
        if notes := [*session.app.configuration_notes(), *remarks(before, _settings(text))]:
            shown += ["Note:", *(f"  {line}" for note in notes for line in _wrapped(render.visible(note))), ""]
        seen = session.page(shown)
        if not seen or (session.ask("Let this configuration count? Type yes") or "").lower() != "yes":
            session.say(["Not trusted; what counted before still does."])
            return REFUSED
        if signer is not None:
            signing = credential(session, signer)
    session.run(session.app.trust(digest, session.by, signing))  # refused in JSON: robots can only ask
    session.say([f"Trusted as {digest}. Any change to the file needs trusting again."])
    return FINE


def _settings(text: str) -> Settings:
    return read_settings(text.encode())[0]


def _wrapped(note: str) -> list[str]:
    return wrap(f"- {note}", 98, subsequent_indent="  ", break_long_words=False, break_on_hyphens=False)


def _changes(before: str, now: str) -> list[str]:
    """What is different from the configuration that counts, line by line."""
    lines = list(difflib.unified_diff(before.split("\n"), now.split("\n"), n=0, lineterm=""))[2:]  # two are a head
    changed = [line for line in lines if not line.startswith("@@")]
    if not changed:
        return ["It is the configuration that counts already."]
    return ["Changed since one was trusted last:", *(f"  {render.visible(line)}" for line in changed)]


@click.group()
def approver() -> None:
    """Keys that can sign approvals: enroll one, list them, revoke one.

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
        session.run(session.app.enroll(nothing, session.by))
        return WAITING
    session.app.check_enrolling(name)
    others = session.app.workspace_state().active
    by = signer_named(session, vouching) if others else None
    typed = credential(session, name, new=not session.app.keeps_key(name))
    vouched = credential(session, by) if by is not None else None
    mark, key = session.run(session.app.enroll(typed, session.by, vouched))
    session.say(
        [
            f"Enrolled {name}.",
            f"  Fingerprint: {mark}",
            f"  Public key:  {key.key}",
            "Keep both somewhere that no agent can write: `ordain audit verify --key` compares with them.",
        ]
    )
    if not session.app.settings()[0].require_signature:
        session.say(["To demand signatures: `[approval] require_signature = true` in ordain.toml, then ordain trust."])
    return FINE


@command(name="list")
def list_approvers(session: Session) -> int:
    """List whose keys count here, and whose did.

    Example: ordain approver list
    """
    found = session.app.workspace_state().approvers.values()
    if session.json:
        session.answer(ApproversResult(approvers=enrolled(found)), next_=[] if found else ["ordain approver enroll"])
        return FINE
    if not found:
        session.say(["Nobody is enrolled here: any person at a terminal may approve."])
    for one in found:
        since = f"since {render.instant(one.enrolled_at)}"
        ended = f", revoked {render.instant(one.revoked_at)}" if one.revoked_at is not None else ""
        session.say([f"{render.visible(one.name):<20} {fingerprint(one.key)}  {since}{ended}"])
    return FINE


@command(name="revoke")
@click.argument("name")
@click.option("-m", "--message", "reason", callback=in_utf8, default="", help="Why.")
@click.option("--as", "signer", metavar="NAME", help="Whose key signs that.")
def revoke_approver(session: Session, name: str, reason: str, signer: str | None) -> int:
    """Let an approver's key count no longer, nor any approval it signed that was not used.

    Example: ordain approver revoke kim -m "The laptop was lost."
    """
    session.needs_person("revoke an approver", f"ordain approver revoke {shlex.quote(name)}")
    signing = None if session.json else credential(session, signer_named(session, signer))
    session.run(session.app.revoke_approver(name, session.by, reason, signing))
    session.say([f"Revoked the key of {name}."])
    return FINE


for _subcommand in (enroll, list_approvers, revoke_approver):
    approver.add_command(_subcommand)
