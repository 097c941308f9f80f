"""A question of a run as whoever answers must see it: what is asked, what was seen, and what the answer comes to."""

from __future__ import annotations

from collections.abc import Iterator

from ordain.core.decision import Asked
from ordain.interfaces.preview import TIER_WORDS
from ordain.interfaces.render import Style, tail_lines
from ordain.interfaces.visible import visible

__all__ = ["question_lines"]


def question_lines(asked: Asked, word: str, by: str, *, signed: bool, style: Style) -> Iterator[str]:
    """What is asked, with every choice, and what follows from the one that was chosen."""
    question = asked.question
    attempt = f", attempt {question.attempt}" if question.attempt else ""
    about = f"{question.item}{attempt}, {question.kind}"
    yield f"{style.warn('A person is asked:')} {visible(question.text)}"
    yield f"  {style.dim(about)}"
    if question.detail:
        yield f"  {visible(question.detail)}"
    if question.output_tail.strip():
        yield from tail_lines(question.output_tail, f"ordain log {asked.run_id} --json")
    for choice in question.choices:
        chosen = choice.word == word
        line = f"{'→' if chosen else ' '} {choice.word:<9} {choice.meaning}"
        yield f"  {style.bold(line) if chosen else line}"
        if chosen:
            yield f"    {'':<9} {style.warn(choice.consequence)}"
    proof = "signed" if signed else "unsigned: nothing proves who said it"
    yield f"  Answered by {visible(by)}, {proof}."
    yield f"  {style.bold('Trust:')} {TIER_WORDS[asked.tier]}"
