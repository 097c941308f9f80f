"""Letters that pass for others, in the spirit of UTS #39. Prose is flagged only where one word mixes Latin with letters
drawn alike; what a machine reads (a command, a path, an address, a name) also where a whole word, a digit or a sign
passes for ASCII. Japanese, Chinese and Korean mix with Latin; so do Greek letters that look like no other."""

from __future__ import annotations

import functools
import re
import unicodedata
from collections.abc import Iterator
from itertools import groupby

from ordain.core.text.limit import FORBIDDEN

_LOOKALIKES = frozenset("аАВсСԁԀеЕɡһНіІїјЈКӏӀМоОрРԛԚѕЅТуУѵѴԝԜхХҮүЗЬгαΑΒϲϹΕΖΗιΙϳΚκΜΝνΟοΡρΤΥυΧχγωϜօՕսՍոհցզյաԼցՏ")
"""Cyrillic, Greek and Armenian letters that are drawn as ASCII ones."""
_LATIN_LOOKALIKES = frozenset("ıȷƄƅƖƧƨƷƼƽƿȜ")
"""Latin letters that are drawn as ASCII ones; Turkish has the first."""
_TURKISH = frozenset("çğöşüÇĞİÖŞÜ")
_SIGNS = frozenset("⁄∕⧸╱∖⧵╲⧹‐‑‒–—―−⁃˗۔᠆․‥·⋅∙‧⸱⸳܁܂‚٫∶꞉ː։׃܃܄⁚؛⁏∣ǀ❘⎮ǃ٪∗⁎٭˜∼‗ʹʼ＇ʻˋ՚ߴߵ׳״჻ノ丿丨")
"""Signs, and letters, that are drawn as ASCII signs."""
_SHAPES = ("<font", "<isol", "<init", "<medi", "<fina")
"""How the decomposition of a letter begins that is another one in a certain shape."""
_EAST = ("CJK", "HIRAGANA", "KATAKANA", "HANGUL", "BOPOMOFO", "IDEOGRAPHIC", "KATAKANA-HIRAGANA", "HALFWIDTH")
_OTHERS = frozenset(("EAST", "ARABIC", "BENGALI", "DEVANAGARI", "ETHIOPIC", "GEORGIAN", "GUJARATI", "GURMUKHI",
    "HEBREW", "KANNADA", "KHMER", "LAO", "MALAYALAM", "MYANMAR", "ORIYA", "SINHALA", "TAMIL", "TELUGU", "THAANA",
    "THAI", "TIBETAN"))  # fmt: skip
"""Scripts in use beside which Latin letters are not mistaken for others."""
_DRAWN_ALIKE = frozenset(("CYRILLIC", "GREEK", "ARMENIAN"))
_PHONETIC = ("\u0250", "\u02af"), ("\u1d00", "\u1dbf"), ("\u2c60", "\u2c7f"), ("\ua720", "\ua7ff"), ("\uab30", "\uab6f")
_HOST = re.compile(r"://(?:[^\s/@]*@)?([^\s/:?#\"'<>\\]+)")


@functools.lru_cache(4096)
def _script(letter: str) -> str:
    """The script of a letter or mark, by the name Unicode gives it; empty for what goes with every script."""
    if letter.isascii():
        return "LATIN"
    words = unicodedata.name(letter, "?").split(" ", 1)
    if words[0] in ("COMBINING", "MODIFIER", "MICRO", "FEMININE", "MASCULINE", "VARIATION"):
        return ""
    if words[0] == "GREEK" and letter not in _LOOKALIKES:
        return ""
    if words[0] == "LATIN" and any(first <= letter <= last for first, last in _PHONETIC):
        return "PHONETIC"
    return "EAST" if words[0].startswith(_EAST) else words[0]


def confusable_places(text: str, *, exact: bool | None = None) -> frozenset[int]:
    """Where letters stand that pass for others. `exact`: a machine reads the text; by default, if it is one word."""
    if text.isascii():
        return frozenset()
    exact = not any(map(str.isspace, text)) if exact is None else exact
    found: set[int] = set()
    for start, word in _words(text):
        if not word.isascii():
            found.update(start + at for at in _in_word(word, start, text, exact=exact))
    if exact:
        found.update(at for at, one in enumerate(text) if not one.isascii() and _passes_for_ascii(text, at))
        found.update(_odd_digits(text))
    return frozenset(found)


def _words(text: str) -> Iterator[tuple[int, str]]:
    """Letters and marks that stand together, and where."""
    for lettered, run in groupby(enumerate(text), lambda place: unicodedata.category(place[1])[0] in "LM"):
        if lettered:
            places = list(run)
            yield places[0][0], "".join(one for _, one in places)


def _in_word(word: str, start: int, text: str, *, exact: bool) -> Iterator[int]:
    scripts = {script for one in word if (script := _script(one))}
    if len(scripts) > 1 and (exact or "LATIN" in scripts or len(scripts & _DRAWN_ALIKE) > 1):
        fine = {"", "LATIN", "EAST"} if exact else {"", "LATIN", "PHONETIC", *_OTHERS}
        odd = [at for at, one in enumerate(word) if _script(one) not in fine]
        # A letter that looks like no other shows a reader of prose what the word is.
        telling = {one for one in word if _script(one) in _DRAWN_ALIKE} - _LOOKALIKES
        yield from odd if exact or not telling else ()
    elif (exact and not scripts <= {"LATIN", *_OTHERS, *_DRAWN_ALIKE}) or (
        exact and _LOOKALIKES.issuperset(word) and not _is_preposition(word, start, text)
    ):
        yield from range(len(word))
    if exact:
        odd_letters = _LATIN_LOOKALIKES if _TURKISH.isdisjoint(word) else _LATIN_LOOKALIKES - {"ı"}
        yield from (at for at, one in enumerate(word) if one in odd_letters)
        yield from _odd_marks(word, text[start - 1] if start else "")


def _odd_marks(word: str, before: str) -> Iterator[int]:
    """Marks on nothing, on an ASCII sign, or on a Latin letter that makes no known letter with them."""
    heads = [at for at, one in enumerate(word) if not at or unicodedata.category(one)[0] == "L"]
    for head, end in zip(heads, [*heads[1:], len(word)], strict=True):
        if unicodedata.category(word[head])[0] == "M":
            if before.isascii() and "VARIATION" not in unicodedata.name(word[head], ""):
                yield from range(head, end)
        elif _script(word[head]) == "LATIN" and len(unicodedata.normalize("NFC", word[head:end])) > 1:
            yield from range(head + 1, end)


def _odd_digits(text: str) -> Iterator[int]:
    """Digits that are not ASCII and do not follow a letter of such a script."""
    for run in re.finditer(r"\d+", text):
        before, after = text[max(run.start() - 1, 0) : run.start()], text[run.end() : run.end() + 1]
        native = before and unicodedata.category(before)[0] in "LM" and _script(before) not in ("", "LATIN")
        if not native or (after.isascii() and after.isalpha()):
            yield from (at for at in range(*run.span()) if not text[at].isascii())


def _is_preposition(word: str, start: int, text: str) -> bool:
    """Whether one letter stands by itself in a text that has words of the same script, as in Russian many do."""
    around = text[max(start - 1, 0) : start] + text[start + 1 : start + 2]
    alone = len(word) == 1 and set(around) <= set(" \"'")
    return alone and any(_script(one) == _script(word) and one not in _LOOKALIKES for one in text)


def _passes_for_ascii(text: str, at: int) -> bool:
    """Whether a character is ASCII, or a letter, in another guise; signs only right before ASCII, as in a path."""
    one, after = text[at], text[at + 1 : at + 2]
    kind, shape = unicodedata.category(one), unicodedata.decomposition(one)
    plain = unicodedata.normalize("NFKC", one) if kind != "No" else ""
    if plain.isascii() and (len(plain) == 1 or (plain and (kind[0] == "L" or (after.isascii() and after.isalnum())))):
        return True
    if kind[0] == "L" and (shape.startswith(_SHAPES) or (shape.startswith("<") and _script(one) == "LATIN")):
        return True
    if one == "·" and text[max(at - 1, 0) : at + 2].lower() == "l·l":  # as Catalan is written
        return False
    return one in _SIGNS and after.isascii() and bool(after.strip())


def confusable_words(text: str, *, exact: bool | None = None) -> Iterator[str]:
    """The words of a text that have such letters, or hidden ones that a machine reads, with these as escapes."""
    places = confusable_places(text, exact=exact)
    if not text.isascii() and (exact or (exact is None and not any(map(str.isspace, text)))):
        hidden = {at for at, one in enumerate(text) if is_hidden(one) and not (one.isascii() or FORBIDDEN.match(one))}
        places |= hidden - spelling_places(text)
    for word in re.finditer(r"[^ \t\r\n]+", text) if places else ():
        inside = [at for at in range(*word.span()) if at in places]
        if inside:
            shown = "".join(f"\\u{ord(one):04x}" if not one.isascii() else one for one in word[0][:80])
            first = text[inside[0]]
            yield f"`{shown}` (U+{ord(first):04X} is {unicodedata.name(first, 'unnamed')})"


def ascii_hosts(text: str) -> tuple[str, ...]:
    """How the hosts of addresses that are not ASCII are asked for."""
    found = []
    for host in dict.fromkeys(_HOST.findall(text)) if not text.isascii() else ():
        try:
            if not host.isascii():
                found.append(host.encode("idna").decode())
        except UnicodeError:
            found.append(f"{ascii(host)[1:-1]}, which is no host")
    return tuple(found)


# --- Hidden ----------------------------------------------------------------------------------------------------------
# What a terminal would not plainly show. Writing that people use (emoji, Persian, Indic scripts) stays readable.

_HIDDEN = {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"}
"""Unicode categories that do not show, or that change how other characters show."""
_BLANKS = frozenset(
    "\u034f\u115f\u1160\u17b4\u17b5\u2800\u2d7f\u3164\uffa0\ufffc"
    "\U0001107f\U00011a47\U00011a99\U00013441\U00013442\U00016fe4\U0001bc9d\U0001d159"
)
"""Letters, marks and symbols that show nothing: joiners, fillers, blanks, inherent vowels, the empty braille cell …"""
_JOINERS = {"\u200c", "\u200d"}
_EMOJI_STYLES = {"\ufe0e", "\ufe0f"}
_SYMBOLS = ("So", "Sm", "Sk")
_JOINING_SCRIPTS = (
    *("ARABIC ", "BENGALI ", "DEVANAGARI ", "GUJARATI ", "GURMUKHI ", "KANNADA ", "MALAYALAM ", "MONGOLIAN LETTER"),
    *("ORIYA ", "SINHALA ", "SYRIAC ", "TAMIL ", "TELUGU "),
)
"""Beginnings of the names of letters between which a joiner is spelling."""


def is_hidden(character: str) -> bool:
    """Whether a character shows nothing, or changes how others show."""
    if unicodedata.category(character) in _HIDDEN or (character.isspace() and character != " "):
        return True
    return character in _BLANKS or _varies(character)


def _varies(character: str) -> bool:
    """Variation selectors: they show nothing themselves, and a run of them can carry any message."""
    return "\ufe00" <= character <= "\ufe0f" or "\u180b" <= character <= "\u180f" or character >= "\U000e0100"


def spelling_places(text: str) -> frozenset[int]:
    """Where joiners and emoji styles are part of the writing, which only hide elsewhere."""
    kinds = _JOINERS | _EMOJI_STYLES
    return frozenset(at for at, one in enumerate(text) if one in kinds and _belongs(text, at))


def _belongs(text: str, index: int) -> bool:
    """Whether a joiner or an emoji style is between letters of joining scripts, or inside or after an emoji."""
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
