"""Approving at a terminal: who signs, the whole plan shown to its end, and the word that is typed."""

from __future__ import annotations

import hashlib

import msgspec

from ordain.core.plan.canonical import short_id
from ordain.core.report.report import Review
from ordain.core.text.problem import refuse
from ordain.interfaces.cli.session import Session
from ordain.interfaces.view.preview import review_lines
from ordain.interfaces.view.risk import risk_names
from ordain.interfaces.view.style import Style
from ordain.ports.machine import Credential


def check_approvable(session: Session, review: Review, name: str | None, *, sign: bool) -> str | None:
    """Whose key will sign, if one must or should; raises Refused where a yes could not count, before anybody reads."""
    signer = signer_named(session, name) if sign or name is not None or review.signature_required else None
    session.run(session.app.approvals.check_approvable(review.plan_id, session.by, signer))
    return signer


def ask_approval(session: Session, review: Review) -> Review | None:
    """Show the whole plan, then ask: a plain yes for a small one, else the short digest typed by hand. The review with
    the digest of what was shown, or None where nobody said yes."""
    review = msgspec.structs.replace(review, run=None)  # how an earlier run went is not what this one will do
    review = session.run(session.app.plans.known(review, session.by))
    lines = [*review_lines(review, Style(False)), ""]
    if not session.page([*review_lines(review, session.style), ""]):
        return None
    if wanting := risk_names(review.risks):
        session.say([f"It wants more than a yes: {wanting}."])
    short = short_id(review.plan_id)
    if review.small:
        said_yes = session.ask_word(f"Approve {short} and let it run as shown?")
    else:
        said_yes = session.ask(f"To approve, type the plan's short id ({short})") == short
    if not said_yes:
        return None
    return msgspec.structs.replace(review, shown_sha256=hashlib.sha256("\n".join(lines).encode()).hexdigest())


def signer_named(session: Session, name: str | None) -> str:
    """Whose key signs: the one named, else the caller's own, else the only one that is enrolled and kept here."""
    kept = [
        one.name for one in session.app.workspace.workspace_state().active if session.app.approvals.keeps_key(one.name)
    ]
    if name is None:
        if not kept:
            detail = "An enrolled key must sign, and none that is enrolled here is kept on this machine."
            hint = "Restore the file keys/NAME.key of the state directory from a copy, or ask another approver."
            raise refuse("E_APPROVAL_SIGNATURE", detail, hint, command="ordain approver list")
        name = session.by.name if session.by.name in kept else kept[0] if len(kept) == 1 else None
    if name is None:
        raise refuse("E_APPROVAL_SIGNATURE", f"Whose key? {', '.join(kept)} are enrolled.", "Say so with --as NAME.")
    session.app.approvals.check_signer(name)
    return name


def credential(session: Session, name: str, *, new: bool = False) -> Credential:
    """The name of a key and the passphrase that its owner types."""
    typed = session.ask_secret(f"{'New passphrase' if new else 'Passphrase'} for {name}'s key")
    if typed is None:
        raise refuse("E_APPROVAL_SIGNATURE", "No passphrase was given; nothing was recorded.")
    if new and session.ask_secret("The same once more") != typed:
        raise refuse("E_APPROVER", "The two passphrases are not the same; nothing was made.")
    return Credential(name=name, passphrase=typed)
