"""The commands that answer a question. They are only spelt here; what an answer does is decided in `decision`."""

from __future__ import annotations

import shlex

from ordain.core.lineage.decision import Question
from ordain.core.run.attempt import CANNOT


def spelt_word(word: str) -> str:
    """A word as it stands in a command, where it could look like an option."""
    return f"-- {shlex.quote(word)}" if word.startswith("-") else shlex.quote(word)


def answer_ways(question: Question) -> tuple[tuple[str, str], ...]:
    """The commands that answer a question and what each means: one for each choice and, where a value is wanted, one
    with its place left open."""
    asking = question.asking
    ways = tuple((f"{asking} {asked_word(question, choice.word)}", choice.meaning) for choice in question.choices)
    match question.takes:
        case "text":
            return (f"{asking} TEXT", "your answer, a text"), *ways
        case "json":
            return (f"{asking} --value JSON", "your answer, a value that fits the schema"), *ways
        case _:
            return ways


def asked_word(question: Question, word: str) -> str:
    """The word of a choice, with the place left open of what has to be said with it."""
    return f"{CANNOT} -m WHY" if (question.kind, word) == ("task", CANNOT) else spelt_word(word)


def answer_commands(question: Question) -> tuple[str, ...]:
    """The commands alone."""
    return tuple(command for command, _ in answer_ways(question))
