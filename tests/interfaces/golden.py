"""Texts that people and programs read, compared with files under tests/golden. `ORDAIN_WRITE_GOLDEN=1` writes those
anew."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

__all__ = ["RENDER", "check_golden"]

RENDER = Path(__file__).parent.parent / "golden" / "render"
_WRITE = bool(os.environ.get("ORDAIN_WRITE_GOLDEN"))  # asked before the tests clean their environment


def check_golden(name: str, lines: Iterable[str], *, under: Path = RENDER) -> None:
    """Compare lines with the golden text of this name."""
    file = under / name
    # Escape bytes are kept readable in the golden files, for they are read by people too.
    text = "".join(f"{line}\n" for line in lines).replace("\x1b", "␛")
    if _WRITE:
        file.parent.mkdir(exist_ok=True)
        file.write_text(text, encoding="utf-8")
    assert text == file.read_text(encoding="utf-8")
