"""The skill: what we tell models that work with Ordain. One text, shipped as a file in the package."""

from __future__ import annotations

import re
import stat
from functools import cache
from importlib.resources import files
from pathlib import Path

from ordain.documents.markdown.scan import Heading, scan

_FRONT_MATTER = re.compile(r"\A---\n.*?^---\n+", re.DOTALL | re.MULTILINE)

_NAMED = re.compile(r"^name: ordain$", re.MULTILINE)
_HEAD_BYTES = 8_192
"""How much of a file is looked at: more than any front matter of ours."""


@cache
def skill_text() -> str:
    """The file whole, as programs that load skills want it."""
    return files("ordain").joinpath("skill", "SKILL.md").read_text(encoding="utf-8")


def is_skill(path: Path) -> bool:
    """Whether this file is a skill of ours, of whatever version."""
    try:
        if not stat.S_ISREG(path.lstat().st_mode):
            return False
        with path.open("rb") as file:
            head = _FRONT_MATTER.match(file.read(_HEAD_BYTES).decode("utf-8", "replace"))
    except OSError:
        return False
    return head is not None and _NAMED.search(head[0]) is not None


def skill_body() -> str:
    """The text without its front matter, which is for programs."""
    return _FRONT_MATTER.sub("", skill_text())


def skill_sections(*headings: str) -> str:
    """The sections with these headings, in this order."""
    lines = skill_body().splitlines()
    starts = [block for block in scan(lines) if isinstance(block, Heading) and block.level == 2]
    ends = [block.line - 1 for block in starts[1:]] + [len(lines)]
    found = {start.text: "\n".join(lines[start.line - 1 : end]) for start, end in zip(starts, ends, strict=True)}
    return "\n\n".join(found[heading].rstrip() for heading in headings)
