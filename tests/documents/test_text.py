"""Bytes to text: size, encoding, forbidden characters and where they are."""

from __future__ import annotations

import pytest

from ordain.core.text.limit import DOCUMENT_BYTES_MAX, string_fault
from ordain.documents.document import decode
from tests.rows import each


def codes(data: bytes) -> list[str]:
    found = decode(data)
    return [] if isinstance(found, str) else [problem.code for problem in found]


@each(
    "data, code",
    [
        (b"", "E_DOC_EMPTY"),
        (b" \n\t\r\n", "E_DOC_EMPTY"),
        (b"\xef\xbb\xbf", "E_DOC_EMPTY"),
        ("\u3000\u00a0".encode(), "E_DOC_EMPTY"),
        (b"a" * (DOCUMENT_BYTES_MAX + 1), "E_DOC_TOO_LARGE"),
        ("# Title\n".encode("utf-16"), "E_DOC_ENCODING"),
        ("# Title\n".encode("utf-16-le"), "E_DOC_ENCODING"),
        ("# Title\n".encode("utf-16-be"), "E_DOC_ENCODING"),
        ("# Title\n".encode("utf-32"), "E_DOC_ENCODING"),
        (b"# T\xff\n", "E_DOC_ENCODING"),
        (b"# T\xc3", "E_DOC_ENCODING"),
        (b"# T\xc0\xaf\n", "E_DOC_ENCODING"),
        (b"\x00", "E_DOC_CONTROL_CHARACTER"),
        (b"# T\x00\n", "E_DOC_CONTROL_CHARACTER"),
        (b"# T \x1b[2J\n", "E_DOC_CONTROL_CHARACTER"),
        (b"# T \x1b]52;c;aGk=\x07\n", "E_DOC_CONTROL_CHARACTER"),
        (b"# safe\r# evil\n", "E_DOC_CONTROL_CHARACTER"),
        (b"# ab\x08\x08\n", "E_DOC_CONTROL_CHARACTER"),
        ("# T\x9b2J\n".encode(), "E_DOC_CONTROL_CHARACTER"),
        (b"# T\x7f\n", "E_DOC_CONTROL_CHARACTER"),
        ("# T\x85\n".encode(), "E_DOC_CONTROL_CHARACTER"),
        (b"# T\xed\xa0\x80\n", "E_DOC_CONTROL_CHARACTER"),
        ("# T\u202e\n".encode(), "E_DOC_BIDI"),
        ("# T\u2066\n".encode(), "E_DOC_BIDI"),
    ],
)
def test_refused(data: bytes, code: str) -> None:
    assert codes(data)[0] == code


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (b"# T\n", "# T\n"),
        (b"\xef\xbb\xbf# T\n", "# T\n"),
        (b"# T\r\na\tb\r\n", "# T\na\tb\n"),
        ("⚠️ می‌خواهم \u200e\u200f\u200d".encode(), "⚠️ می‌خواهم \u200e\u200f\u200d"),
    ],
)
def test_accepted(data: bytes, text: str) -> None:
    assert decode(data) == text


def test_16_mib_are_read() -> None:
    assert isinstance(decode(b"a" * DOCUMENT_BYTES_MAX), str)


def test_every_character_is_named_with_its_place() -> None:
    found = decode("ok\r\nä\x1b\n\n\u202ex\n".encode())
    assert not isinstance(found, str)
    places = [(p.code, p.where.line, p.where.column) for p in found if p.where]
    assert places == [("E_DOC_CONTROL_CHARACTER", 2, 2), ("E_DOC_BIDI", 4, 1)]


def test_the_place_of_a_bad_byte_counts_characters() -> None:
    found = decode("a\näö".encode() + b"\xff")
    assert not isinstance(found, str)
    assert [(p.where.line, p.where.column) for p in found if p.where] == [(2, 3)]


def test_twenty_are_enough() -> None:
    assert len(codes(b"\x1b" * 1000)) == 20


def test_string_length_counts_bytes() -> None:
    assert string_fault("ä" * (1 << 19)) is None
    fault = string_fault("ä" * ((1 << 19) + 1))
    assert fault is not None
    assert fault[0] == "E_DOC_TOO_LARGE"
