"""A person's answers and approvals at a terminal: everything that is known is shown before anything is recorded."""

from __future__ import annotations

import hashlib
import json

import msgspec

from ordain.core.lineage.ask import Given
from ordain.core.lineage.decision import Choice, Question
from ordain.core.plan.canonical import short_id
from ordain.core.report.report import Review, RunReport
from ordain.core.run.attempt import ABORT, CANNOT, CHECK, DONE
from ordain.core.text.problem import Refused, refuse
from ordain.interfaces.cli.session import Session
from ordain.interfaces.view.preview import review_lines
from ordain.interfaces.view.question import answer_lines, choice_lines, context_lines, wanted_words
from ordain.interfaces.view.review import risk_names
from ordain.interfaces.view.style import Style
from ordain.interfaces.view.text import visible
from ordain.ports.machine import Credential

_TYPED_IN_FULL = ("happened", "did-not", "pass", "allow", "unlimited", ABORT)
"""Answers that cannot be taken back or that nothing verifies: their number alone is not enough."""
_MISTYPED = ("E_ANSWER_VALUE", "E_ANSWER_CHOICE")
_ANSWERED_ELSEWHERE = ("E_ANSWER_ITEM", "E_ANSWER_STALE", "E_RUN_ENDED")


class EndOfInput(Exception):
    """Nobody types anything any more: the input has ended, or they have interrupted the question."""


def read_answer(word: str | None, json_text: str | None, said: str = "") -> Given | None:
    """The answer that was typed; None where there is none yet."""
    if json_text is None:
        return Given(word=word, said=said) if word is not None else None
    try:
        return Given(word=word or "", value=json.loads(json_text), said=said)
    except (ValueError, RecursionError) as error:
        raise refuse(
            "E_ANSWER_VALUE", f"What --value says is not JSON: {error}.", "A text is JSON in quotes."
        ) from error


def decide(
    session: Session,
    item: str,
    given: Given | None,
    *,
    sign: bool = False,
    name: str | None = None,
    unseen: bool = False,
) -> tuple[RunReport, str] | None:
    """Show a question, ask for an answer that is not given, and record it; the run then, and the word of the choice.
    None where nothing was answered. An answer to an `unseen` question, no step's first one, is typed once more."""
    asked = session.app.answers.asked(item)
    session.say(context_lines(asked.question, session.app.workspace.now(), session.style))
    prompted = given is None
    if given is None:
        typed = _typed(session, asked.question)
        if not typed:
            return None
        wanted_of = {DONE: "What it gave, a text; empty for nothing", CANNOT: "Why it cannot be done"}
        asks_more = asked.question.kind == "task" and typed in wanted_of
        given = Given(word=typed, said=(session.ask(wanted_of[typed]) or "") if asks_more else "")
    elif unseen and not session.ask_word("This is not the first question about it. Sure?", given.typed):
        return None
    wanted = sign or name is not None or session.app.workspace.settings()[0].require_signature
    signer = signer_named(session, name) if wanted else None
    session.app.answers.check_answering(asked, given, session.by, signer)
    word = given.word if asked.question.kind == "task" else given.typed
    chosen = next((one for one in asked.question.choices if word == one.word), None)
    by = signer or session.by.name
    shown = () if prompted else asked.question.choices
    said = answer_lines(asked, chosen, by, signed=wanted, given=given.typed, choices=shown, style=session.style)
    session.say([*said, ""])
    signing = credential(session, signer) if signer is not None else None
    report = session.run(session.app.answers.answer(item, given, session.by, asked, signing))
    return report, chosen.word if chosen is not None and chosen.meaning else ""


def _typed(session: Session, question: Question) -> str:
    """What a person types, a word or the number of a choice; empty where they leave it open."""
    numbers: dict[str, Choice] = {}
    if not question.takes and not any(choice.word.isdigit() for choice in question.choices):  # no number is an answer
        numbers = {str(number): choice for number, choice in enumerate(question.choices, start=1)}
    for number, choice in enumerate(question.choices, start=1):
        session.say(choice_lines(choice, number if numbers else None, session.width, session.style))
    words = ", ".join(visible(choice.word) for choice in question.choices)
    wanted = f"{wanted_words(question)}; or {words}" if question.takes else words
    typed = session.ask(f"Your answer ({wanted}{'; or its number' if numbers else ''}; Enter leaves it open)")
    if typed is None:
        raise EndOfInput
    if not numbers or typed not in numbers:
        return typed
    chosen = numbers[typed]
    if chosen.word not in _TYPED_IN_FULL or session.ask_word(f"{chosen.consequence} Sure?", chosen.word):
        return chosen.word
    session.say([f"`{chosen.word}` was not typed, so nothing is recorded."])
    return ""


def answer_here(session: Session, report: RunReport, left: set[str]) -> RunReport | None:
    """Ask the person at the terminal all that a run waits for, but what they have `left` open; the run then, None where
    nothing was answered."""
    if session.json or not session.terminal or report.status != "waiting":
        return None
    now: RunReport | None = None
    asked = [one for one in report.questions if one.item not in left]
    for number, question in enumerate(asked, start=1):
        session.say(["", *([f"Question {number} of {len(asked)}"] if len(asked) > 1 else [])])
        try:
            decided = _asked_again(session, question)
        except EndOfInput:
            left.update(one.item for one in asked[number - 1 :])
            break
        if decided is None:
            left.add(question.item)
            session.say([f"Left open. Answer it at any time with: {question.asking}"])
            continue
        now, word = decided
        if word in (ABORT, CHECK):
            break  # what comes of it may change the other questions
    return now


def _asked_again(session: Session, question: Question) -> tuple[RunReport, str] | None:
    """Ask until what is typed is an answer; or until somebody else has given it."""
    while True:
        try:
            return decide(session, question.item, None)
        except Refused as refused:
            code = refused.problems[0].code
            if code in _ANSWERED_ELSEWHERE:
                session.say([f"This question was answered elsewhere meanwhile ({code}). Your answer was not recorded."])
                return session.app.runs.run(question.item.partition("/")[0]), ""
            session.notices(refused.problems)
            if code not in _MISTYPED:
                return None


def ask_approval(
    session: Session, review: Review, name: str | None, *, sign: bool = False, start: bool = False
) -> tuple[Review, Credential | None] | None:
    """Show the whole plan, then ask: a plain yes for a small one, else the short digest typed by hand. What was shown
    and what signs, or None where nobody said yes. Raises Refused where a yes could not count, before anybody reads."""
    signer = signer_named(session, name) if sign or name is not None or review.signature_required else None
    session.run(session.app.approvals.check_approvable(review.plan_id, session.by, signer))
    if start:
        session.app.runs.startable(review.plan_id)
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
    shown = msgspec.structs.replace(review, shown_sha256=hashlib.sha256("\n".join(lines).encode()).hexdigest())
    return shown, credential(session, signer) if signer is not None else None


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
