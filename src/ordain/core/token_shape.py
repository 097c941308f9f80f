"""The shapes of well-known secrets: how a token of each kind begins, and of what it goes on.

One list for lint, which refuses a plan that holds one, and for the redactor, which hides one wherever it is written or
shown. Nothing here searches. Each shape begins with plain letters, for which a large text can be searched quickly, and
no head is longer than `HEAD_MAX`.
"""

from __future__ import annotations

import functools
import re

import msgspec

__all__ = ["CREDENTIALS", "HEAD_MAX", "SHAPES", "TokenShape", "compiled"]

HEAD_MAX = 5100
"""How many bytes the head of a shape takes at most, with what must follow it: a JSON web token's takes the most."""


class TokenShape(msgspec.Struct, frozen=True, kw_only=True):
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


SHAPES = (
    TokenShape(what="a key of AWS", begins=(b"AKIA", b"ASIA"), head=rb"A[KS]IA[A-Z0-9]{16}(?![A-Za-z0-9])"),
    TokenShape(
        what="a token of GitHub",
        begins=(b"ghp_", b"gho_", b"ghu_", b"ghs_", b"ghr_"),
        head=rb"gh[pousr]_[A-Za-z0-9]{36}",
        more=rb"[A-Za-z0-9_]",
    ),
    TokenShape(
        what="a token of GitHub",
        begins=(b"github_pat_",),
        head=rb"github_pat_[A-Za-z0-9_]{22}",
        more=rb"[A-Za-z0-9_]",
    ),
    TokenShape(
        what="a token of GitLab", begins=(b"glpat-",), head=rb"glpat-[A-Za-z0-9_-]{20}", more=rb"[A-Za-z0-9_.-]"
    ),
    TokenShape(
        what="a key of a model's provider", begins=(b"sk-",), head=rb"sk-[A-Za-z0-9_-]{20}", more=rb"[A-Za-z0-9_-]"
    ),
    TokenShape(
        what="a token of this program's own server",
        begins=(b"ordain_mcp_",),
        head=rb"ordain_mcp_[A-Za-z0-9_-]{20}",
        more=rb"[A-Za-z0-9_-]",
    ),
    TokenShape(what="a token of Slack", begins=(b"xox",), head=rb"xox[baprs]-[A-Za-z0-9-]{10}", more=rb"[A-Za-z0-9-]"),
    TokenShape(
        what="a private key", begins=(b"-----BEGIN ",), head=rb"-----BEGIN [A-Z ]{0,40}PRIVATE KEY-----", block=True
    ),
    TokenShape(what="a key of Google", begins=(b"AIza",), head=rb"AIza[A-Za-z0-9_-]{35}", more=rb"[A-Za-z0-9_-]"),
    TokenShape(
        what="a JSON web token",
        begins=(b"eyJ",),
        head=rb"eyJ[A-Za-z0-9_-]{8,1000}+\.eyJ[A-Za-z0-9_-]{8,4000}+\.[A-Za-z0-9_-]{8}",
        more=rb"[A-Za-z0-9_.-]",
    ),
)
"""What gives itself away wherever it stands."""

_REFERENCE = rb"\$(?:[A-Za-z_][A-Za-z0-9_]{0,99}|\{[^{}\s]{1,100}\}|\([^()]{1,100}\))"

CREDENTIALS = (
    TokenShape(
        what="a private key",
        begins=(b"-----BEGIN ",),
        head=rb"-----BEGIN [A-Z ]{0,40}PRIVATE KEY BLOCK-----",
        block=True,
    ),
    TokenShape(
        what="the credentials of a request",
        within=True,
        begins=(b"uthorization", b"UTHORIZATION"),
        head=rb"(?i:uthorization)[\"'\\]{0,3}[ \t]{0,3}:[ \t]{0,3}[\"'\\]{0,3}"
        rb"(?:(?i:basic|bearer|negotiate|token)[ \t]{1,3}([A-Za-z0-9._~+/=-]{8})|([A-Za-z0-9._~+/=-]{16}))",
        more=rb"[A-Za-z0-9._~+/=-]",
    ),
    TokenShape(
        what="the password in an address",
        within=True,
        begins=(b"://",),
        # One that is only named (`$PASSWORD`) is no secret, and whoever approves a command must see it.
        head=rb"://[^\s/?#:@\"'<>\\]{0,200}:(?!" + _REFERENCE + rb"@)([^\s/?#\"'<>\\]{1,200})@",
    ),
)
"""What is secret for where it stands."""
