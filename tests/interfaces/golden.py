"""Texts that people and programs read, compared with files under tests/golden. `ORDAIN_WRITE_GOLDEN=1` writes those
anew."""

from __future__ import annotations

import difflib
import os
from collections.abc import Iterable
from itertools import islice
from pathlib import Path

__all__ = ["RENDER", "WRITE", "check_golden", "check_text"]

_ROOT = Path(__file__).parents[2]
_LINES_SHOWN = 20
RENDER = _ROOT / "tests" / "golden" / "render"
WRITE = bool(os.environ.get("ORDAIN_WRITE_GOLDEN"))  # asked before the tests clean their environment


def check_golden(name: str, lines: Iterable[str], *, under: Path = RENDER) -> None:
    """Compare lines with the golden text of this name."""
    # Escape bytes are kept readable in the golden files, for they are read by people too.
    check_text(under / name, "".join(f"{line}\n" for line in lines).replace("\x1b", "␛"))


def check_text(file: Path, text: str) -> None:
    """Compare a text with a golden file; where it differs, say what and how it is written."""
    if WRITE:
        file.parent.mkdir(exist_ok=True)
        file.write_text(text, encoding="utf-8")
    expected = file.read_text(encoding="utf-8") if file.exists() else ""
    if text != expected:
        raise AssertionError(_difference(file, expected, text))


def _difference(file: Path, expected: str, text: str) -> str:
    """The first lines that differ, and the command that writes the file again."""
    differing = difflib.unified_diff(expected.splitlines(), text.splitlines(), "golden", "now", lineterm="", n=1)
    test = os.environ["PYTEST_CURRENT_TEST"].partition("::")[0]
    return "\n".join(
        [
            f"{file.relative_to(_ROOT)} differs:",
            *islice(differing, _LINES_SHOWN),
            "Where this is meant, write it and read the difference:",
            f"    ORDAIN_WRITE_GOLDEN=1 .venv/bin/pytest {test}",
        ]
    )
