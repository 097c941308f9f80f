"""A plan to the text of a Markdown document, which reads back to the same plan id and is written again byte for byte.
Each part is written the way a person would, and where that would not be read back exactly as a fence; the reader's own
functions decide which."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

from ordain.core.plan.action import CallTool, RunCommand, Task
from ordain.core.plan.condition import Contract, Verification
from ordain.core.plan.model import Action, Plan, Step
from ordain.core.plan.name import name_fault, scope_fault
from ordain.core.plan.refs import misplaced_reference
from ordain.core.text.limit import EXIT_CODE_MAX
from ordain.documents.document import Document, ProblemList
from ordain.documents.markdown.draft import names_work, title_of_heading
from ordain.documents.markdown.field import FieldNames
from ordain.documents.markdown.front_matter import FOR_READERS
from ordain.documents.markdown.outline import escaped_title
from ordain.documents.markdown.scan import (
    Block,
    Fence,
    Heading,
    Text,
    code_span,
    hides_text,
    opens_comment,
    scan,
    trimmed,
)
from ordain.documents.markdown.table import (
    AFTER_ACTION,
    BEFORE_ACTION,
    PLAN_FIELDS,
    PLAN_PROSE,
    PLAN_TABLE,
    STEP_FIELDS,
    FieldLines,
    fence,
)
from ordain.documents.reading import notation_of
from ordain.documents.tree_writer import distinct_slugs, slug
from ordain.documents.yaml import yaml_text

_SPANS = re.compile("`+")
_UNUSUAL = re.compile(r"[^\w .,:;()/-]+")
_TITLE_SHOWN = 60


def write_markdown(source: Document | Plan, *, lists: bool = True) -> str:
    """The Markdown document of a plan, with what is beside it; as a list if that says all and `lists` is true."""
    document = Document(plan=source) if isinstance(source, Plan) else source
    if document.plan is None:
        raise ValueError("a document that could not be read is never written")
    return _Writer(document.plan, document).text(lists=lists)


class _Writer:
    def __init__(self, plan: Plan, document: Document) -> None:
        self.plan, self.document = plan, document
        self.ids = frozenset(step.id for step in (*plan.steps, *plan.fallbacks))

    def text(self, *, lists: bool) -> str:
        notes = [written_note(heading, text) for heading, text in self.document.notes]
        free = [text for heading, text in notes if not heading and text]
        items = None if free or self.plan.fallbacks or not lists else self._items()
        parts = [*self._front_matter(), self._head(short=items is not None), *free]
        if items is not None:
            parts.append("\n".join(items))
        else:
            parts.append("## Steps")
            parts += [self._step(number, step) for number, step in enumerate(self.plan.steps, 1)]
        if self.plan.fallbacks:
            parts.append("## Fallbacks")
            parts += [self._step(0, step) for step in self.plan.fallbacks]
        for heading, text in notes:
            if heading:
                parts += [f"## {heading}", text] if text else [f"## {heading}"]
        text = "\n\n".join(parts) + "\n"
        # What looks like YAML under a comment is told from it by front matter.
        return text if notation_of(text) == "markdown" else f"---\ntype: plan\n---\n\n{text}"

    # --- The plan ---

    def _front_matter(self) -> Iterator[str]:
        plan = self.plan
        said = {"workspace_id": plan.workspace_id, "tools": plan.tools, "protect": plan.protect or None}
        values: dict[str, Any] = {name: value for name, value in said.items() if value is not None}
        beside = self.document.record.get("", {})
        values |= {key: beside[key] for key in FOR_READERS if key in beside}
        others = {owner: other for owner in sorted(self.document.record) if (other := self._other_record(owner))}
        if others:
            values["record"] = others
        if values:
            yield f"---\n{yaml_text({'type': 'plan', **values})}---"

    def _other_record(self, owner: str) -> dict[str, Any]:
        """What is said beside the plan or a step, sorted, less what Markdown has a place of its own for."""
        said = self.document.record[owner]
        own_place = () if owner else (*FOR_READERS, *(("priority",) if isinstance(said.get("priority"), str) else ()))
        return {key: said[key] for key in sorted(said) if key not in own_place}

    def _head(self, *, short: bool) -> str:
        plan = self.plan
        line, title = _heading("# ", plan.title)
        fields = FieldLines(PLAN_FIELDS)
        fields.text("title", title)
        # Without a heading `## Steps` the first line that looks like an item would start the list.
        for name in PLAN_PROSE:
            fields.prose(name, getattr(plan, name), "fence" if short else "beside")
        priority = self.document.record.get("", {}).get("priority")
        for name, entry in PLAN_TABLE.items():
            if name != "priority":
                entry.write(fields, name, getattr(plan, entry.attribute))
            elif isinstance(priority, str):  # another is kept in the front matter
                entry.write(fields, name, priority)
        return "\n\n".join([line, *fields.block()])

    # --- Steps ---

    def _items(self) -> list[str] | None:
        """The plan's steps as a list, or None where a list can not say all about them."""
        items = []
        commands = [step.action.command for step in self.plan.steps if isinstance(step.action, RunCommand)]
        if len(commands) < len(self.plan.steps):
            return None
        ids = distinct_slugs(commands)
        for number, (step, command, name) in enumerate(zip(self.plan.steps, commands, ids, strict=True), 1):
            span = _code_span(command)
            if span is None or misplaced_reference(command, self.ids):
                return None
            item = f"{number}. {span}"
            plain = Step(id=name, description=command, action=RunCommand(command=command), needs=step.needs)
            if step != plain or step.needs != self._usual_needs(number) or hides_text(item):
                return None
            items.append(item)
        return items

    def _usual_needs(self, number: int) -> tuple[str, ...]:
        """What a step needs that does not say so: the one before it, and for a fallback step nothing."""
        return (self.plan.steps[number - 2].id,) if number > 1 else ()

    def _step(self, number: int, step: Step) -> str:
        line, title = _heading(f"### {number or step.id}. ", step.description)
        fields = FieldLines(STEP_FIELDS)
        fields.text("title", title)
        if number and slug(step.description, number) != step.id:
            fields.line("id", step.id)
        if step.needs != self._usual_needs(number):
            fields.line("needs", ", ".join(step.needs) or "none")
        for name, entry in BEFORE_ACTION.items():
            entry.write(fields, name, getattr(step, entry.attribute))
        self._action(fields, step.action)
        self._verification(fields, step.verification)
        for name, entry in AFTER_ACTION.items():
            entry.write(fields, name, getattr(step, entry.attribute))
        return "\n\n".join([line, *fields.block()])

    def _action(self, fields: FieldLines, action: Action) -> None:
        match action:
            case RunCommand(command=command) if self._sound(command):
                fields.command("run", command)
                fields.value("env", action.env)
            case CallTool(tool=tool) if not name_fault("tool", tool):
                fields.line("tool", tool)
                fields.text("operation", action.operation)
                fields.value("args", action.args)
            case Task() if self._plain_task(action):
                fields.text("agent", action.agent)
                fields.list("reads", action.reads)
                if action.tools is not None:
                    fields.line("tools", ", ".join(action.tools) or "none")
                fields.prose("task", action.task)
                fields.prose("instructions", action.instructions)
                fields.list("criteria", action.criteria)
            case _:
                fields.value("action", action)

    def _plain_task(self, task: Task) -> bool:
        tools = task.tools or ()
        return not (
            (task.agent is not None and name_fault("agent", task.agent))
            or any(scope_fault(tool) for tool in tools)
            or len(set(tools)) < len(tools)
            or tools == ("none",)
            or misplaced_reference(task.task, self.ids)
            or misplaced_reference(task.instructions or "", self.ids)
        )

    def _verification(self, fields: FieldLines, verification: Verification | None) -> None:
        match verification:
            case Verification(
                strategy=Contract(command=command, exit_code=exit_code, stdout=stdout),
                description=None,
                timeout_ms=None,
            ) if self._sound(command) and 0 <= exit_code <= EXIT_CODE_MAX:
                expected = [f"exit_code == {exit_code}"] if exit_code else []
                if stdout is not None:
                    expected.append(f"stdout =~ {json.dumps(stdout, ensure_ascii=False)}")
                if any(hides_text(line) for line in expected):
                    fields.value("verify", verification)
                else:
                    fields.command("contract", command)
                    fields.lines += expected
            case Verification(description=None, timeout_ms=None):
                fields.value("verify", verification.strategy)
            case _:
                fields.value("verify", verification)

    def _sound(self, command: str) -> bool:
        return bool(command.strip()) and not misplaced_reference(command, self.ids)


# --- Small parts ---------------------------------------------------------------------------------------------------


def _heading(head: str, title: str) -> tuple[str, str | None]:
    """The heading of a title, and the title itself where the heading can not show it as it is."""
    line = head + escaped_title(title)
    if title_of_heading(line) == title:
        return line, None
    shown = _UNUSUAL.sub("", " ".join(title.split()))[:_TITLE_SHOWN].strip()
    line = head + escaped_title(shown)
    return (line if shown and title_of_heading(line) == shown else f"{head}Untitled"), title


def _code_span(command: str) -> str | None:
    """A command as a code span that is a whole list item, or None where it can not be one."""
    if "\n" in command or not command.strip():
        return None
    runs = {len(marks) for marks in _SPANS.findall(command)}
    marks = "`" * next(length for length in range(1, len(runs) + 2) if length not in runs)
    for span in (f"{marks}{command}{marks}", f"{marks} {command} {marks}"):
        if code_span(span) == command:
            return span
    return None


def written_note(heading: str, text: str) -> tuple[str, str]:
    """A note as it can be written: under a heading that starts no steps, with nothing in it that starts a section."""
    blocks = trimmed(scan(text.split("\n")))
    kept = "\n".join(text.split("\n")[blocks[0].line - 1 : blocks[-1].end]) if blocks else ""
    if any(_is_structure(block, top=not heading) for block in blocks):
        kept = fence("text", kept)
    if heading:
        found = scan([f"## {heading}"])[0]
        is_heading = "\n" not in heading and isinstance(found, Heading) and found.text == heading
        if not is_heading or heading.casefold() in ("steps", "fallbacks"):
            return "Notes", fence("text", f"{heading}\n\n{text}".rstrip())
    return heading, kept


def _is_structure(block: Block, *, top: bool) -> bool:
    """Whether a block of a note would be taken for more than text, at the top of a document or in a section."""
    match block:
        case Heading():
            return block.level <= (3 if top else 2)
        case Fence():
            return not block.closed
        case Text():
            return top and (
                opens_comment(block.text)
                or names_work(block)
                or FieldNames().line(block, PLAN_FIELDS, ProblemList()) is not None
            )
