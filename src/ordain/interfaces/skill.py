"""The skill: what we tell models that work with Ordain. One text, shipped as a file in the package."""

from __future__ import annotations

import re
from functools import cache
from importlib.resources import files

__all__ = ["skill_body", "skill_sections", "skill_text"]

_FRONT_MATTER = re.compile(r"\A---\n.*?^---\n+", re.DOTALL | re.MULTILINE)
_SECTION = re.compile(r"^## ", re.MULTILINE)


@cache
def skill_text() -> str:
    """The file whole, as programs that load skills want it."""
    return files("ordain").joinpath("skill", "SKILL.md").read_text(encoding="utf-8")


def skill_body() -> str:
    """The text without its front matter, which is for programs."""
    return _FRONT_MATTER.sub("", skill_text())


def skill_sections(*headings: str) -> str:
    """The sections with these headings, in this order."""
    _, *sections = _SECTION.split(skill_body())
    by_heading = {section.partition("\n")[0]: section for section in sections}
    return "\n\n".join(f"## {by_heading[heading].rstrip()}" for heading in headings)
