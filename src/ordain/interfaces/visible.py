"""Text that cannot deceive: what a terminal would hide, move, colour or reorder is shown as an escape instead.

Writing that people use (emoji, Persian, Indic scripts) stays readable: a joiner between letters that join is spelling.
"""

from __future__ import annotations

import unicodedata

__all__ = ["cells", "visible"]

_HIDDEN = {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"}
"""Unicode categories that do not show, or that change how other characters show."""
_BLANKS = frozenset("\u034f\u115f\u1160\u17b4\u17b5\u2800\u3164\uffa0")
"""Letters, marks and symbols that show nothing: grapheme joiner, fillers, inherent vowels, the empty braille cell."""
_MARK = "‹"
_JOINERS = {"\u200c", "\u200d"}
_EMOJI_STYLES = {"\ufe0e", "\ufe0f"}
_SYMBOLS = ("So", "Sm", "Sk")
_JOINING_SCRIPTS = (
    "ARABIC ",
    "BENGALI ",
    "DEVANAGARI ",
    "GUJARATI ",
    "GURMUKHI ",
    "KANNADA ",
    "MALAYALAM ",
    "MONGOLIAN LETTER",
    "ORIYA ",
    "SINHALA ",
    "SYRIAC ",
    "TAMIL ",
    "TELUGU ",
)
"""Beginnings of the names of letters between which a joiner is spelling."""


def visible(text: str) -> str:
    """The text on one line, with every character that a terminal would not plainly show written as `‹U+200B›`.

    The opening mark itself is written so too: two different texts never look the same because of an escape.
    """
    if text.isascii() and text.isprintable():
        return text
    out: list[str] = []
    for index, character in enumerate(text):
        spelling = (character in _JOINERS or character in _EMOJI_STYLES) and _belongs(text, index)
        if not spelling and (character == _MARK or _hidden(character)):
            out.append(f"{_MARK}U+{ord(character):X}›")
        else:
            out.append(character)
    return "".join(out)


def cells(text: str) -> int:
    """How many columns of a terminal a visible text takes, at most."""
    if text.isascii():
        return len(text)
    return sum(2 if unicodedata.east_asian_width(character) in "WF" else 1 for character in text)


def _hidden(character: str) -> bool:
    if unicodedata.category(character) in _HIDDEN or (character.isspace() and character != " "):
        return True
    return character in _BLANKS or _varies(character)


def _varies(character: str) -> bool:
    """Variation selectors: they show nothing themselves, and a run of them can carry any message."""
    return "\ufe00" <= character <= "\ufe0f" or "\u180b" <= character <= "\u180f" or character >= "\U000e0100"


def _belongs(text: str, index: int) -> bool:
    """Whether a joiner or an emoji style is part of the writing: between letters of joining scripts, inside or after
    an emoji. Elsewhere it only hides."""
    character, before, after = text[index], text[index - 1 : index], text[index + 1 : index + 2]
    if character in _EMOJI_STYLES:
        return _symbol(before) or after == "\u20e3"
    if not before or not after:
        return False
    if before in _EMOJI_STYLES:
        return _symbol(text[index - 2 : index - 1]) and _symbol(after)
    return (_symbol(before) and _symbol(after)) or (_joining(before) and _joining(after))


def _symbol(character: str) -> bool:
    return character in ("‼", "⁉") or (not character.isascii() and unicodedata.category(character) in _SYMBOLS)


def _joining(character: str) -> bool:
    return unicodedata.name(character, "").startswith(_JOINING_SCRIPTS)
