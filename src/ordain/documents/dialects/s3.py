"""The fourth seed's plans: Markdown with front matter of its own, a numbered list of steps, a context, risks.

Text in, document out. The steps are read as those of every Markdown document; here is what only this dialect has: the
keys of its front matter, the title among them, and the section that tells the executor what is known.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import msgspec

from ordain.core.plan.name import scope_fault
from ordain.core.text.limit import DEPTH_MAX, string_fault
from ordain.documents.dialects.reader import Keys, Renamed, kept
from ordain.documents.document import Document, Path, ProblemList, ReadValue
from ordain.documents.markdown.front_matter import FrontMatter
from ordain.documents.markdown.outline import Outline, escaped_title, outline_of, refuse_hiding
from ordain.documents.markdown.reader import read_parts
from ordain.documents.markdown.scan import Block, Heading, scan, trimmed
from ordain.documents.shape import shape
from ordain.documents.yaml import read_yaml

BESIDE = (
    *("id", "created_at", "updated_at", "planner_model", "execution_session", "execution_started_at"),
    *("execution_ended_at", "result_summary"),
)
LINEAGE = ("version",)
"""What is kept beside the plan, in this order."""

_SOURCES: dict[Path, Path] = {
    ("tools",): ("tools_required",),
    ("model",): ("executor_model",),
    **kept(BESIDE, LINEAGE),
}
_INSTEAD = {"tools": "tools_required", "model": "executor_model", "plan_version": "version"}
_BARE = re.compile(
    r"(?P<key>(?:created_at|updated_at|execution_[a-z_]+|result_summary|planner_model|executor_model)[ \t]*+:)[ \t]*+"
    r"(?P<time>[0-9]{4}-[0-9]{2}-[0-9]{2}(?:[Tt ][0-9:.]{1,20})?(?:[Zz]|[+-][0-9:]{1,6})?)?[ \t]*+(?:#.*)?"
)
"""A line of the front matter with nothing, or with a time, where text is wanted and can not be taken for another."""


def read_s3(text: str) -> Document:
    """The document of the fourth seed's form that this text is; its front matter has an end."""
    problems = ProblemList()
    lines = text.split("\n")
    end = next(at for at in range(1, len(lines)) if lines[at].rstrip() == "---")
    # Free values are bounded by `shape`; those in the record stand two deep.
    read = read_yaml("".join(_plain(lines, at) for at in range(1, end)), first_line=2, depth_max=DEPTH_MAX + 2)
    problems.extend(read.problems)
    if not read.problems and not isinstance(read.value, dict):
        problems.add("E_DOC_SYNTAX", "The front matter is not a mapping.", "Write `key: value` lines.", line=2)
    title, front = _front_matter(read, end + 1, problems)
    blocks: list[Block] = scan(lines, front.end)
    if title is not None:
        line = read.locate(("title",))[0] or 2
        blocks.insert(0, Heading(line, line, 1, escaped_title(title)))
    outline, context = _context(outline_of(blocks, problems), lines, problems)
    if context is not None:
        front = msgspec.structs.replace(front, values={**front.values, "context": context})
    return msgspec.structs.replace(read_parts(lines, front, outline, problems), dialect="s3")


def _plain(lines: Sequence[str], at: int) -> str:
    """A line of the front matter as strict YAML wants it, and as the seed's own programs mean it."""
    line = lines[at]
    found = _BARE.fullmatch(line)
    if found is None or lines[at + 1].startswith((" ", "\t", "- ")):
        return line + "\n"
    return f'{found["key"]} "{found["time"]}"\n' if found["time"] else f"{found['key']} null\n"


def _front_matter(read: ReadValue, end: int, problems: ProblemList) -> tuple[str | None, FrontMatter]:
    """The title that the front matter gives, and all else that it says."""
    if not isinstance(read.value, dict):
        return "…", FrontMatter(end=end)
    keys = Keys(read.value, (), read.locate, problems)
    title = keys.take("title", str)
    if title is not None and ("\n" in title or not title.strip()):
        keys.wrong("E_PLAN_TYPE", "`title` is not one line of text.", at=("title",))
        title = "…"
    status, model = keys.take("status", str), keys.take("executor_model", str)
    tools = _tools(keys)
    metadata = keys.metadata(BESIDE, LINEAGE)
    keys.refuse_rest("The front matter of dialect s3", _INSTEAD)
    locate = Renamed(read.locate, _SOURCES, {})
    sound = shape(metadata, Any, locate=locate, problems=problems, path=("metadata",)) is not None
    record = {"status": status, "metadata": metadata if sound else None}
    values = {"tools": tools, "model": model}
    return title, FrontMatter(
        end=end,
        values={name: value for name, value in values.items() if value is not None},
        record={"": said} if (said := {name: value for name, value in record.items() if value}) else {},
        locate=locate,
    )


def _tools(keys: Keys) -> tuple[str, ...] | None:
    tools: tuple[str, ...] | None = keys.take("tools_required", tuple[str, ...])
    for at, tool in enumerate(tools or ()):
        fault = scope_fault(tool)
        if fault:
            keys.wrong(*fault, at=("tools_required", at))
    if tools and len(set(tools)) < len(tools):
        keys.wrong("E_DOC_DUPLICATE", "A tool stands twice in `tools_required`.", at=("tools_required",))
    return tools


def _context(outline: Outline, lines: Sequence[str], problems: ProblemList) -> tuple[Outline, str | None]:
    """The text of the section `## Context`, which is part of the plan, and the outline without it."""
    found, text = outline.named("Context"), None
    for section in found[1:]:
        problems.add("E_DOC_DUPLICATE", "A second `## Context` stands here.", line=section.heading.line)
    for section in found[:1]:
        refuse_hiding(section.blocks, problems)
        kept = trimmed(section.blocks)
        text = "\n".join(lines[kept[0].line - 1 : kept[-1].end]) if kept else None
        fault = string_fault(text) if text else None
        if fault:
            problems.add(*fault, line=section.heading.line)
    sections = tuple(section for section in outline.sections if section not in found)
    return msgspec.structs.replace(outline, sections=sections), text
