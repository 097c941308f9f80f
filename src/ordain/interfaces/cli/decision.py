"""A person's answer at a terminal: everything that is known is shown first, and only then is anything recorded."""

from __future__ import annotations

import json

from ordain.core.lineage.ask import Given
from ordain.core.lineage.decision import Question
from ordain.core.report.report import RunReport
from ordain.core.run.attempt import ABORT, CANNOT, DONE
from ordain.core.text.problem import Refused, refuse
from ordain.interfaces.cli.approval import credential, signer_named
from ordain.interfaces.cli.session import Session
from ordain.interfaces.view.question import answer_lines, context_lines, wanted_words
from ordain.interfaces.view.text import visible

_PLANNED = ("ask", "task", "step_approval")
"""Kinds of questions that the plan itself asks: whoever starts the run expects them."""
_MISTYPED = ("E_ANSWER_VALUE", "E_ANSWER_CHOICE")
_ANSWERED_ELSEWHERE = ("E_ANSWER_ITEM", "E_ANSWER_STALE", "E_RUN_ENDED")


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
    session: Session, item: str, given: Given | None, *, sign: bool = False, name: str | None = None
) -> tuple[RunReport, bool] | None:
    """Show a question, ask for the answer where none is given, and record it; the run as it stands then, and whether it
    was given up. None where nothing was answered."""
    asked = session.app.answers.asked(item)
    session.say(context_lines(asked.question, session.app.workspace.now(), session.style))
    prompted = given is None
    if given is None:
        typed = _typed(session, asked.question)
        if not typed:
            return None
        given = Given(word=typed, said=_said(session, asked.question, typed))
    wanted = sign or name is not None or session.app.workspace.settings()[0].require_signature
    signer = signer_named(session, name) if wanted else None
    session.app.answers.check_answering(asked, given, session.by, signer)
    word = given.word if asked.question.kind == "task" else given.typed
    chosen = next((one for one in asked.question.choices if word == one.word), None)
    by = signer or session.by.name
    shown = tuple(one for one in asked.question.choices if one is chosen or not prompted)
    said = answer_lines(asked, chosen, by, signed=wanted, given=given.typed, choices=shown, style=session.style)
    session.say([*said, ""])
    signing = credential(session, signer) if signer is not None else None
    report = session.run(session.app.answers.answer(item, given, session.by, asked, signing))
    return report, chosen is not None and chosen.word == ABORT and bool(chosen.meaning)


def _typed(session: Session, question: Question) -> str | None:
    for choice in question.choices:
        session.say([f"    {visible(choice.word):<9} {choice.meaning}".rstrip()])
        session.say([f"    {'':<9} {session.style.dim(choice.consequence)}"])
    words = ", ".join(visible(choice.word) for choice in question.choices)
    if question.takes:
        return session.ask(f"Your answer ({wanted_words(question)}; or {words})")
    return session.ask(f"Your answer ({words})")


def _said(session: Session, question: Question, word: str) -> str:
    """What a person says with their word about a task: what it gave, or why it cannot be done."""
    wanted = {DONE: "What it gave, a text; empty for nothing", CANNOT: "Why it cannot be done"}
    return session.ask(wanted[word]) or "" if question.kind == "task" and word in wanted else ""


def answer_here(session: Session, report: RunReport) -> RunReport | None:
    """Ask whoever carries out a run in the foreground what its plan asks, one question after the other; the run as it
    stands then. None where that is no affair of theirs, or they leave all of it open."""
    if session.json or not session.terminal or report.status != "waiting":
        return None
    now: RunReport | None = None
    for question in (one for one in report.questions if one.kind in _PLANNED):
        session.say([""])
        decided = _asked_again(session, question)
        if decided is None:
            session.say(["Left open; it can be answered at any time."])
            continue
        now, given_up = decided
        if given_up:
            break
    return now


def _asked_again(session: Session, question: Question) -> tuple[RunReport, bool] | None:
    """Ask until what is typed is an answer; or until somebody else has given it."""
    while True:
        try:
            return decide(session, question.item, None)
        except Refused as refused:
            code = refused.problems[0].code
            if code in _ANSWERED_ELSEWHERE:
                session.say(
                    [f"Somebody else has answered this meanwhile ({code}); what was typed here counts nothing."]
                )
                return session.app.runs.run(question.item.partition("/")[0]), False
            if code not in _MISTYPED:
                raise
            session.notices(refused.problems)
