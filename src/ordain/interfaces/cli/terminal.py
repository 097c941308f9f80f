"""What a person sees and types: lines without secrets, pages, questions. Commands reach it through their session."""

from __future__ import annotations

import codecs
import os
import shutil
import sys
import termios
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

import click

from ordain.core.text.redaction import Redactor
from ordain.interfaces.cli.pager import paged
from ordain.interfaces.view.style import Style
from ordain.interfaces.view.text import cells, visible

if TYPE_CHECKING:
    from ordain.interfaces.cli.live import LiveView

WIDTH = 80
"""Where there is no terminal that has one."""
WIDTH_MAX = 110
LINE_MAX = 1 << 16
"""How much of a line without an end is waited for before it is shown."""
_GOES_ON = "↪ "


class Terminal:
    """Standard input, output and error of one command."""

    def __init__(self) -> None:
        self.terminal = sys.stdin.isatty() and sys.stdout.isatty()
        self.view: LiveView | None = None
        """What shows the run that is under way, on a terminal."""
        self.input_ended = False
        """Whether somebody interrupted a question, or ended the input: no other one is asked without need."""
        colour = sys.stdout.isatty() and "NO_COLOR" not in os.environ and os.environ.get("TERM") != "dumb"
        self.style = Style(colour)

    @property
    def redactor(self) -> Redactor:
        """Hides the secrets that are known here."""
        raise NotImplementedError

    @property
    def error_style(self) -> Style:
        """The style of stderr, which may go elsewhere than stdout."""
        return self.style if sys.stderr.isatty() else Style(False)

    @property
    def width(self) -> int:
        """How many columns a table may have."""
        return min(shutil.get_terminal_size().columns if sys.stdout.isatty() else WIDTH, WIDTH_MAX)

    def clean(self, text: str) -> str:
        """A text without secrets: everything a command shows goes through this."""
        return self.redactor.text(text)

    def tell(self, line: str) -> None:
        """Say something beside the result, also while a run is shown."""
        if self.view is not None:
            self.view.note(line)
        else:
            click.echo(line, err=True)

    def say(self, lines: Iterable[str], *, exactly: bool = False) -> None:
        """Show lines, without secrets; `exactly` for a plan, of which nothing may be hidden from whoever judges it."""
        columns = shutil.get_terminal_size().columns if sys.stdout.isatty() else None
        for line in lines:
            shown = line if exactly else self.clean(line)
            for row in screen_rows(shown, columns) if columns is not None else (shown,):
                click.echo(row)

    def output_texts(self, parts: Iterable[bytes], *, whole: bool) -> Iterator[str]:
        """What a command wrote, without secrets, also where one lies across two parts. Where it is not whole, what may
        be the rest of a secret that begins before it is left out."""
        if not whole:
            data = b"".join(parts)
            yield self.redactor.tail(data, len(data), whole=False)
            return
        redacting = self.redactor.stream()
        decoder = codecs.getincrementaldecoder("utf-8")("replace")
        for part in parts:
            yield decoder.decode(redacting.feed(part))
        yield decoder.decode(redacting.close(), final=True)

    def say_output(self, texts: Iterable[str]) -> None:
        """Show such texts with nothing in them that a terminal would act on; a line without an end comes in parts."""
        line, begun = "", False
        for text in texts:
            *lines, line = (line + text).split("\n")
            for ended in lines:
                click.echo(visible(ended))
                begun = False
            if len(line) > LINE_MAX:
                click.echo(visible(line), nl=False)
                line, begun = "", True
        if line or begun:
            click.echo(visible(line))

    def page(self, lines: Sequence[str]) -> bool:
        """Show everything, exactly, before anything is asked, a screen at a time; False where the reader left. Who goes
        on early is told how much was never on the screen."""
        if not self.terminal:
            self.say(lines, exactly=True)
            return True

        def layout() -> tuple[list[tuple[int, str]], int, int]:
            screen = shutil.get_terminal_size()
            rows = [(at, row) for at, line in enumerate(lines) for row in screen_rows(line, screen.columns)]
            return rows, max(screen.lines - 1, 5), screen.columns

        rows, room, _ = layout()
        if len(rows) > room:
            unseen = paged(layout, lines)
            if unseen:
                passed = f"You have not looked at {unseen:,} of {len(lines):,} lines."
                self.say([self.style.warn(passed)])
            return unseen is not None
        for _, row in rows:
            click.echo(row)
        return True

    def ask(self, question: str) -> str | None:
        """What a person types; None when they end the input or interrupt instead."""
        typed = self._ask(question)
        return typed.strip() if typed is not None else None

    def ask_word(self, question: str, word: str = "yes") -> bool:
        """Whether a person types this word."""
        return (self.ask(f"{question} Type {word}") or "").lower() == word

    def ask_secret(self, question: str) -> str | None:
        """What a person types without seeing it; None when they end the input or interrupt instead."""
        return self._ask(question, hidden=True) or None

    def _ask(self, question: str, *, hidden: bool = False) -> str | None:
        # What was typed before the question was seen is no answer to it.
        termios.tcflush(sys.stdin, termios.TCIFLUSH)
        try:
            typed: str = click.prompt(question, default="", show_default=False, hide_input=hidden)
        except click.Abort:
            self.say([""])
            self.input_ended = True
            return None
        return typed


def screen_rows(line: str, columns: int) -> Iterator[str]:
    """A line as the rows it takes on the screen; one that is too long loses its colour, never a character.

    A row that goes on says so at its beginning, where no text of a plan can stand: otherwise a text could be made to
    look like a line of ours.
    """
    if cells(click.unstyle(line)) <= columns:
        yield line
        return
    row, width = "", 0
    for character in click.unstyle(line):
        width += cells(character)
        if width > columns:
            yield row
            row, width = _GOES_ON, cells(_GOES_ON) + cells(character)
        row += character
    yield row
