"""The forms in which a secret can turn up in an output: as it is, and as programs encode, escape and quote it.

A form is a plain text to be searched for; nothing is searched here. A secret is taken in pieces of bounded length that
overlap, so that every form is bounded and all of a long secret is covered all the same.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator

import msgspec

__all__ = ["SECRET_LENGTH_MIN", "literal_forms", "pieces", "spaced_forms"]

SECRET_LENGTH_MIN = 8
"""A shorter value may stand anywhere by chance: hiding `main` or `8080` everywhere would tell what it is."""
PIECE_LENGTH = 128
OVERLAP = 8
"""By how many characters pieces overlap: enough that no character of base64 depends on a byte outside of both."""
_TELLING = 4
"""A line of fewer different characters is a rule across the page, not a part of a secret."""

_UNRESERVED = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.-~"
_LEFT_IN_ADDRESSES = tuple(frozenset(_UNRESERVED + more) for more in (b"", b"/", b"!*'()", b"!*'();/?:@&=+$,#"))
"""What encoders leave as it is: of a value, of a path, `encodeURIComponent`, `encodeURI`."""
_FOR_HTML = str.maketrans({character: f"\\u{ord(character):04x}" for character in "<>&'\u2028\u2029"})
_IN_DOUBLE_QUOTES, _BACKSLASHED, _ALL_BACKSLASHED = (
    str.maketrans({character: f"\\{character}" for character in special})
    for special in ('\\"$`', " \t!\"$&'()*,;<>?[\\]^`{|}", " \t!\"$&'()*,;<>?[\\]^`{|}#~=")
)
"""What a shell has escaped: between double quotes, by `printf %q` of bash, and by others."""
_URL_SAFE = bytes.maketrans(b"+/", b"-_")


def pieces(secret: str) -> Iterator[str]:
    """What of a secret is searched for: all of it, and each of its lines, for programs indent and number lines."""
    secret = secret.strip()
    if len(secret) < SECRET_LENGTH_MIN:
        return
    yield from _cut(secret)
    lines = [line.strip() for line in secret.splitlines()]
    for line in lines if len(lines) > 1 else ():
        # What begins and ends a key is the same for all keys.
        if len(line) >= SECRET_LENGTH_MIN and len(set(line)) >= _TELLING and not line.startswith("-----"):
            yield from _cut(line)


def _cut(text: str) -> Iterator[str]:
    yield text[:PIECE_LENGTH]
    for begin in range(PIECE_LENGTH - OVERLAP, len(text) - OVERLAP, PIECE_LENGTH - OVERLAP):
        # The last one reaches back, to be as long as the others.
        yield text[min(begin, len(text) - PIECE_LENGTH) :][:PIECE_LENGTH]


def literal_forms(piece: str) -> Iterator[bytes]:
    """A piece as it is, in addresses, in JSON, and as shells and Python quote it. Some may be the same."""
    yield from _encodings(piece)
    for form in (*_in_json(piece), *_quoted(piece)):
        yield form.encode("utf-8", "surrogatepass")
    for data in _encodings(piece):
        for form in _in_addresses(data):
            yield form.encode()


def spaced_forms(piece: str) -> Iterator[bytes]:
    """A piece in hexadecimal and in base64, which are written with breaks anywhere; these are without any."""
    for data in _encodings(piece):
        yield data.hex().encode()
        yield data.hex().upper().encode()
        for before in range(3):
            # Of a longer text in base64, the characters that this piece alone decides: 6 bits each.
            whole = msgspec.to_builtins(bytes(before) + data).encode()
            first, last = -(-before * 8 // 6), (before + len(data)) * 8 // 6
            yield whole[first:last]
            yield whole[first:last].translate(_URL_SAFE)


def _encodings(text: str) -> tuple[bytes, ...]:
    """The bytes of a text: those it was read from, and those by which it is searched where they are no UTF-8."""
    passed = text.encode("utf-8", "surrogatepass")
    try:
        read = text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        return (passed,)
    return (read,) if read == passed else (read, passed)


def _in_addresses(data: bytes) -> Iterator[str]:
    for escape in ("%{:02X}", "%{:02x}"):
        escaped = [escape.format(byte) for byte in data]
        yield "".join(escaped)
        for kept in _LEFT_IN_ADDRESSES:
            form = "".join([chr(byte) if byte in kept else code for byte, code in zip(data, escaped, strict=True)])
            yield form
            yield form.replace("%20", "+")
            yield form.replace("~", escape.format(ord("~")))


def _in_json(text: str) -> Iterator[str]:
    for ascii_only in (True, False):
        once = json.dumps(text, ensure_ascii=ascii_only)[1:-1]
        for form in (once, once.replace("/", "\\/"), once.translate(_FOR_HTML)):
            yield from _either_case((form, json.dumps(form, ensure_ascii=ascii_only)[1:-1]))
    units = text.encode("utf-16-be", "surrogatepass").hex()
    yield from _either_case(("".join(f"\\u{units[at : at + 4]}" for at in range(0, len(units), 4)),))


def _quoted(text: str) -> Iterator[str]:
    yield text.replace("'", "'\\''")
    yield text.replace("'", "'\"'\"'")
    for escapes in (_IN_DOUBLE_QUOTES, _BACKSLASHED, _ALL_BACKSLASHED):
        yield text.translate(escapes)
    yield repr(text)[1:-1]
    # With a quote of each kind in it, Python escapes the single ones, as it may for the text around this one.
    yield repr(text + "'\"")[1:-4]
    for data in _encodings(text):
        yield repr(data + b"'\"")[2:-4]


def _either_case(forms: Iterable[str]) -> Iterator[str]:
    """Forms as they are, and with the digits of their escapes in upper case."""
    for form in forms:
        yield form
        if "\\u" in form:
            yield re.sub(r"\\u[0-9a-f]{4}", lambda found: "\\u" + found[0][2:].upper(), form)
