"""Colour for what people are shown."""

from __future__ import annotations

from functools import partialmethod


class Style:
    """Colour on a terminal, plain words elsewhere."""

    def __init__(self, colour: bool) -> None:
        self.colour = colour

    def __call__(self, text: str, code: str) -> str:
        return f"\x1b[{code}m{text}\x1b[0m" if self.colour else text

    bold = partialmethod(__call__, code="1")
    dim = partialmethod(__call__, code="2")
    good = partialmethod(__call__, code="32")
    bad = partialmethod(__call__, code="31")
    warn = partialmethod(__call__, code="33")
