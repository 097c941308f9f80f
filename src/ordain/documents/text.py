"""From bytes to text: size, encoding and the characters that no document may hold.

Knows nothing of notations. What leaves here is Unicode text with `\\n` line ends, at most 16 MiB, that a terminal
shows as it is: no control characters but tab and newline, nothing that reorders what a person reads.
"""

from __future__ import annotations

from ordain.core.bound import DOCUMENT_BYTES_MAX
from ordain.core.problem import Problem
from ordain.core.scalar import FORBIDDEN, character_fault
from ordain.documents.document import ProblemList

__all__ = ["decode"]

_SHOWN_MAX = 20


def decode(data: bytes) -> str | tuple[Problem, ...]:
    """The text of a document, or what keeps these bytes from being one."""
    problems = ProblemList()
    if len(data) > DOCUMENT_BYTES_MAX:
        problems.add(
            "E_DOC_TOO_LARGE",
            f"The document has {len(data):,} bytes; at most {DOCUMENT_BYTES_MAX:,} are read.",
            "Move large content to files that steps read.",
        )
        return problems.in_order()
    if _wide(data):
        problems.add("E_DOC_ENCODING", "The document is UTF-16 or UTF-32.", "Save it as UTF-8.", line=1, column=1)
        return problems.in_order()
    try:
        # Surrogates pass here so that the scan below can name them and their place.
        text = data.decode("utf-8", "surrogatepass")
    except UnicodeDecodeError as error:
        line, column = _position(data[: error.start].decode("utf-8", "surrogatepass"))
        detail = f"The byte 0x{data[error.start]:02X} is not UTF-8."
        problems.add("E_DOC_ENCODING", detail, "Save the document as UTF-8.", line=line, column=column)
        return problems.in_order()
    text = text.removeprefix("\ufeff").replace("\r\n", "\n")
    _refuse_characters(text, problems)
    if not problems and not text.strip():
        problems.add("E_DOC_EMPTY", "The document is empty.", "Start with a title: `# What is to be done`.")
    return problems.in_order() if problems else text


def _refuse_characters(text: str, problems: ProblemList) -> None:
    line, start = 1, 0
    for found in FORBIDDEN.finditer(text):
        newlines = text.count("\n", start, found.start())
        line, start = line + newlines, found.start()
        column = found.start() - text.rfind("\n", 0, found.start())
        code, detail = character_fault(found.group())
        problems.add(code, detail, "Delete it, or write it as an escape in the program.", line=line, column=column)
        if len(problems) >= _SHOWN_MAX:
            return


def _wide(data: bytes) -> bool:
    """Whether the bytes are UTF-16 or UTF-32: by their mark, or because every second byte is zero."""
    if data.startswith((b"\xff\xfe", b"\xfe\xff", b"\x00\x00\xfe\xff")):
        return True
    even, odd = data[0:64:2], data[1:64:2]
    return len(data) >= 4 and any(even) != any(odd)


def _position(before: str) -> tuple[int, int]:
    return before.count("\n") + 1, len(before) - before.rfind("\n")
