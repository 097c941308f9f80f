"""A document in form, or in another notation, with the proof that it still says the same.

Pure: whoever calls reads and writes the file.
"""

from __future__ import annotations

from ordain.core.canonical import plan_id
from ordain.core.problem import Problem
from ordain.documents.document import Document, Notation
from ordain.documents.edit import in_form
from ordain.documents.markdown_writer import write_markdown
from ordain.documents.reading import read
from ordain.documents.tree_writer import write_json, write_yaml

__all__ = ["changed_lines", "formatted"]

_WRITERS = {"markdown": write_markdown, "yaml": write_yaml, "json": write_json}


def formatted(data: bytes, document: Document, to: Notation | None = None) -> str | tuple[Problem, ...]:
    """The text of a document in form, in its own notation or another; `document` is what was read from `data`.

    In its own notation only lines that are not in form change. Problems are given where the plan can not be written
    in the notation wanted. What reads back as another plan than it was is a bug of ours, and is never given out.
    """
    if document.plan is None:
        raise ValueError("a document that could not be read is never written")
    # What is in a dialect is in none of the notations; being told one, it is turned into it.
    same = to is None or (to == document.notation and document.dialect is None)
    text = in_form(data.decode(), document.notation) if same else _WRITERS[to or document.notation](document)
    again = read(text.encode())
    if again.plan is None:
        return again.problems
    if plan_id(again.plan) != plan_id(document.plan):
        raise RuntimeError("the formatted document says something else than the document")
    if again.record != document.record or (same and again.notes != document.notes):
        raise RuntimeError("the formatted document lost something that stands beside the plan")
    return text


def changed_lines(before: str, after: str) -> tuple[int, ...]:
    """The numbers of the lines that formatting in the same notation changed; a line end added at the end is one."""
    old, new = before.split("\n"), after.split("\n")
    pairs = enumerate(zip(old, new, strict=False), 1)
    changed = [number for number, (was, now) in pairs if was != now]
    return tuple(changed if len(old) == len(new) else sorted({*changed, len(old)}))
