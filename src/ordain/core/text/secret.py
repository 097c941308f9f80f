"""The forms in which a secret can turn up in an output, the shapes of well-known tokens, and `secret:NAME` in
arguments. A secret is taken in pieces of bounded length that overlap, so that every form is bounded. Nothing is
searched here."""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import msgspec

from ordain.core.text.limit import strings

SECRET_LENGTH_MIN = 8
"""A shorter value may stand anywhere by chance: hiding `main` or `8080` everywhere would tell what it is."""
_COMMON = frozenset(
    ["password", "passwort", "changeme", "production", "development", "localhost", "disabled", "undefined", "required",
     "optional", "postgres", "postgresql", "username", "anonymous", "administrator", "security", "placeholder"]
)  # fmt: skip
"""Values that are no secrets, or too well known to be kept by hiding a word of every text."""
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


def is_telling(secret: str) -> bool:
    """Whether a value is searched for: not one that is too short, or a common word."""
    return len(secret.strip()) >= SECRET_LENGTH_MIN and secret.strip().lower() not in _COMMON


def pieces(secret: str) -> Iterator[str]:
    """What of a secret is searched for: all of it, and each of its lines, for programs indent and number lines."""
    secret = secret.strip()
    if not is_telling(secret):
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
    yield from plain_forms(piece)
    for form in (*_in_json(piece), *_quoted(piece)):
        yield form.encode("utf-8", "surrogatepass")
    for data in plain_forms(piece):
        for form in _in_addresses(data):
            yield form.encode()


def spaced_forms(piece: str) -> Iterator[bytes]:
    """A piece in hexadecimal and in base64, which are written with breaks anywhere; these are without any."""
    for data in plain_forms(piece):
        yield data.hex().encode()
        yield data.hex().upper().encode()
        for before in range(3):
            # Of a longer text in base64, the characters that this piece alone decides: 6 bits each.
            whole = msgspec.to_builtins(bytes(before) + data).encode()
            first, last = -(-before * 8 // 6), (before + len(data)) * 8 // 6
            yield whole[first:last]
            yield whole[first:last].translate(_URL_SAFE)


def plain_forms(text: str) -> tuple[bytes, ...]:
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
    for data in plain_forms(text):
        yield repr(data + b"'\"")[2:-4]


def _either_case(forms: Iterable[str]) -> Iterator[str]:
    """Forms as they are, and with the digits of their escapes in upper case."""
    for form in forms:
        yield form
        if "\\u" in form:
            yield re.sub(r"\\u[0-9a-f]{4}", lambda found: "\\u" + found[0][2:].upper(), form)


# --- Token shapes ----------------------------------------------------------------------------------------------------
# One list for lint, which refuses a plan that holds one, and for the redactor. Each shape begins with plain letters,
# for which a large text can be searched quickly, and no head is longer than `HEAD_MAX`.

HEAD_MAX = 5100
"""How many bytes the head of a shape takes at most, with what must follow it: a JSON web token's takes the most."""


class TokenShape(msgspec.Struct, frozen=True):
    """One kind of token."""

    what: str
    """What it is and whose, for a sentence."""
    begins: tuple[bytes, ...]
    """One of these stands where the head begins."""
    head: bytes
    """The part by which it is known, as a regular expression."""
    more: bytes = b""
    """What the rest of the token is made of, as a regular expression for one byte; the head is made of the same."""
    within: bool = False
    """Whether only a group of the head, and the rest, is secret."""
    block: bool = False
    """Whether the secret is what follows the head, up to a line that ends it."""


@functools.cache
def compiled(pattern: bytes) -> re.Pattern[bytes]:
    """A pattern ready for use; made when first needed, since most texts hold no token at all."""
    return re.compile(pattern)


_WORD, _DASHED, _DOTTED = rb"[A-Za-z0-9_]", rb"[A-Za-z0-9_-]", rb"[A-Za-z0-9_.-]"

SHAPES = (
    TokenShape("a key of AWS", (b"AKIA", b"ASIA"), rb"A[KS]IA[A-Z0-9]{16}(?![A-Za-z0-9])"),
    TokenShape(
        "a token of GitHub", (b"ghp_", b"gho_", b"ghu_", b"ghs_", b"ghr_"), rb"gh[pousr]_[A-Za-z0-9]{36}", _WORD
    ),
    TokenShape("a token of GitHub", (b"github_pat_",), rb"github_pat_[A-Za-z0-9_]{22}", _WORD),
    TokenShape("a token of GitLab", (b"glpat-",), rb"glpat-[A-Za-z0-9_-]{20}", _DOTTED),
    TokenShape(
        "a key of a model's provider",
        (b"sk-",),
        # Words with dashes between them are a step's id or a path: a provider's mark or a long word, digits and
        # capitals tell a key.
        rb"sk-(?:(?:(?=(?:proj|ant|svcacct|admin|or|lf|None)-[A-Za-z0-9_-]{0,40}[0-9])"
        rb"|(?=(?:[A-Za-z0-9_]{0,40}-){0,4}(?=[A-Za-z_]{0,15}[0-9])[A-Za-z0-9_]{16}))"
        rb"(?=[A-Za-z0-9_-]{0,40}[A-Z])[A-Za-z0-9_-]{20}"
        rb"|(?:[a-z0-9]{1,8}-){0,3}[A-Za-z0-9_]{24})",
        _DASHED,
    ),
    TokenShape("a token of this program's own server", (b"ordain_mcp_",), rb"ordain_mcp_[A-Za-z0-9_-]{20}", _DASHED),
    TokenShape("a token of Slack", (b"xox",), rb"xox[baprs]-[A-Za-z0-9-]{10}", rb"[A-Za-z0-9-]"),
    TokenShape("a private key", (b"-----BEGIN ",), rb"-----BEGIN [A-Z ]{0,40}PRIVATE KEY-----", block=True),
    TokenShape("a key of Google", (b"AIza",), rb"AIza[A-Za-z0-9_-]{35}", _DASHED),
    TokenShape(
        "a JSON web token",
        (b"eyJ",),
        rb"eyJ[A-Za-z0-9_-]{8,1000}+\.eyJ[A-Za-z0-9_-]{8,4000}+\.[A-Za-z0-9_-]{8}",
        _DOTTED,
    ),
)
"""What gives itself away wherever it stands."""

_REFERENCE = rb"\$(?:[A-Za-z_][A-Za-z0-9_]{0,99}|\{[^{}\s]{1,100}\}|\([^()]{1,100}\))"
_PLACEHOLDER = rb"(?:\{{1,2} ?[A-Za-z_][A-Za-z0-9_.]{0,99} ?\}{1,2}|%\([A-Za-z_]\w{0,99}\)s)"

CREDENTIALS = (
    TokenShape("a private key", (b"-----BEGIN ",), rb"-----BEGIN [A-Z ]{0,40}PRIVATE KEY BLOCK-----", block=True),
    TokenShape(
        "the credentials of a request",
        (b"uthorization", b"UTHORIZATION"),
        rb"(?i:uthorization)[\"'\\]{0,3}[ \t]{0,3}:[ \t]{0,3}[\"'\\]{0,3}"
        rb"(?:(?i:basic|bearer|negotiate|token)[ \t]{1,3}([A-Za-z0-9._~+/=-]{8})|([A-Za-z0-9._~+/=-]{16}))",
        rb"[A-Za-z0-9._~+/=-]",
        within=True,
    ),
    TokenShape(
        "the password in an address",
        (b"://",),
        # One that is only named (`$PASSWORD`, `{password}`) is no secret, and whoever approves a command must see it.
        rb"://[^\s/?#:@\"'<>\\]{0,200}:(?!(?:%b|%b)@)([^\s/?#\"'<>\\]{1,200})@" % (_REFERENCE, _PLACEHOLDER),
        within=True,
    ),
)
"""What is secret for where it stands."""


# --- References to secrets -------------------------------------------------------------------------------------------
# An argument `secret:NAME` stands for a secret that only the call itself gets, where the plan has it written as a whole
# text: what another step gave is never one, or whoever writes a result could ask for any secret.

Secret = Callable[[str], str | None]
"""The value of a secret by its name; None where there is none that may be handed over."""

_WRITTEN_REFERENCE = re.compile(r"secret:([A-Za-z_][A-Za-z0-9_]*)")


class SecretMissing(Exception):
    """A secret that is named and cannot be had, in words."""


def named_secrets(value: Any) -> Iterator[str]:
    """The names of the secrets that a value refers to, however deep."""
    for text in strings(value):
        if found := _WRITTEN_REFERENCE.fullmatch(text):
            yield found[1]


def secrets_within(text: str) -> list[str]:
    """The names of the secrets that a text of the configuration refers to."""
    return _WRITTEN_REFERENCE.findall(text)


def may_name(name: str, patterns: Sequence[str]) -> bool:
    """Whether the settings let a plan refer to the variable of this name."""
    return bool(patterns) and _any_of(tuple(patterns)).fullmatch(name) is not None


@functools.lru_cache(maxsize=64)
def _any_of(patterns: tuple[str, ...]) -> re.Pattern[str]:
    """One expression for them all: every variable of the environment is compared with each."""
    written = (re.escape(pattern).replace(r"\*", ".*").replace(r"\?", ".") for pattern in patterns)
    return re.compile("|".join(written), re.IGNORECASE)


def filled_secrets(text: str, secret: Secret) -> str:
    """A text of the configuration with every `secret:NAME` in it replaced; raises SecretMissing."""
    return _WRITTEN_REFERENCE.sub(lambda found: _had(found[1], secret), text)


def _had(name: str, secret: Secret) -> str:
    known = secret(name)
    if known is None:
        raise SecretMissing(f"the secret {name} is not set here, or too short to be hidden")
    return known


def with_secrets(written: Any, value: Any, secret: Secret) -> Any:
    """A value as it is handed over: a secret where what the plan has `written` is one; raises SecretMissing."""
    match written:
        case str() if found := _WRITTEN_REFERENCE.fullmatch(written):
            return _had(found[1], secret)
        case Mapping() if isinstance(value, Mapping):
            return {key: with_secrets(written.get(key), one, secret) for key, one in value.items()}
        case list() | tuple() if isinstance(value, list | tuple) and len(value) == len(written):
            return [with_secrets(*pair, secret) for pair in zip(written, value, strict=True)]
        case _:
            return value
