"""The fields of plans and of steps: one table each, with how a field is read and how it is written. Fields that say
something only together are read and written where their meaning is known; here are their names."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, NamedTuple

import msgspec

from ordain.core.plan.condition import Precondition
from ordain.core.plan.failure import FailurePolicy
from ordain.core.plan.model import Budget, Parameter
from ordain.core.plan.words import read_budget, read_failure, write_budget, write_duration, write_failure
from ordain.core.text.limit import CONCURRENCY_MAX, TIER_MAX
from ordain.documents.document import ProblemList
from ordain.documents.markdown.field import (
    Field,
    FieldNames,
    Read,
    Vocabulary,
    agent_value,
    for_each_value,
    in_fence,
    list_value,
    number_value,
    one_of,
    text_line,
    timeout_value,
    tools_value,
    truth_value,
    words_or_fence,
)
from ordain.documents.markdown.scan import Fence, Heading, Text, code_span, hides_text, scan, underlines
from ordain.documents.markdown.step_action import command_value
from ordain.documents.yaml import yaml_text

_BACKTICKS = re.compile("`{3,}")


def fence(language: str, content: str) -> str:
    """A fence that holds exactly this content: its marks are longer than any inside."""
    longest = max((len(marks) for marks in _BACKTICKS.findall(content)), default=2)
    marks = "`" * (longest + 1)
    return f"{marks}{language}\n{content}\n{marks}"


def _yaml(value: Any) -> str:
    return yaml_text(msgspec.to_builtins(value))[:-1]


def _fits_line(head: str, value: str) -> bool:
    """Whether a text reads back as itself from the rest of a line that begins with `head`."""
    return bool(value) and "\n" not in value and value == value.strip() and not hides_text(head + value)


def _is_paragraph(text: str) -> bool:
    """Whether a text is nothing but lines with something on each, the first of which ends without white space."""
    first, *rest = text.split("\n")
    return first == first.rstrip() and all(isinstance(block, Text) and not block.blank for block in scan(rest))


class FieldLines:
    """Gathers the field lines of a plan or step; what is absent is left out."""

    def __init__(self, vocabulary: Vocabulary) -> None:
        self.vocabulary = vocabulary
        self.lines: list[str] = []

    def block(self) -> list[str]:
        return ["\n".join(self.lines).removesuffix("\n")] if self.lines else []

    def _named(self, name: str) -> str:
        return f"**{self.vocabulary.shown(name)}:**"

    def line(self, name: str, value: str) -> None:
        self.lines.append(f"{self._named(name)} {value}")

    def fence(self, name: str, language: str, content: str) -> None:
        self.lines += [self._named(name), fence(language, content)]

    def text(self, name: str, value: str | None) -> None:
        """One line of text, or anything else as a `text` fence."""
        if value is None:
            return
        if _fits_line(f"{self._named(name)} ", value):
            self.line(name, value)
        else:
            self.fence(name, "text", value)

    def prose(self, name: str, value: str | None, several: Literal["below", "beside", "fence"] = "below") -> None:
        """Free text; `several` says where several lines may stand, beside the name only as one paragraph."""
        if value is None:
            return
        head = self._named(name)
        if _fits_line(f"{head} ", value):
            self.line(name, value)
        elif several == "below" and self._is_prose(f"{head}\n{value}", value):
            self.lines += [head, *value.split("\n"), ""]
        elif several == "beside" and self._is_prose(f"{head} {value}", value) and _is_paragraph(value):
            self.lines += f"{head} {value}".split("\n")
        else:
            self.fence(name, "text", value)

    def _is_prose(self, written: str, value: str) -> bool:
        """Whether the text reads back as itself when it stands below its field's name as it is."""
        if not value or value != value.strip():
            return False
        problems, names = ProblemList(), FieldNames()
        blocks = scan(written.split("\n"))
        if len(blocks) == 2 and isinstance(blocks[1], Fence) and blocks[1].language == "text":
            return False
        before = blocks[0]
        for block in blocks[1:]:
            match block:
                case Fence():
                    if not block.closed:
                        return False
                case Heading():
                    if block.level <= 3 or hides_text(block.text):
                        return False
                case Text():
                    if hides_text(block.text) or names.line(block, self.vocabulary, problems) is not None:
                        return False
                    if isinstance(before, Text) and not before.blank and underlines(block.text):
                        return False
            before = block
        return not problems and not hides_text(written.partition("\n")[0])

    def list(self, name: str, values: Sequence[str]) -> None:
        """Texts as list items, or as a fence where one of them is no item."""
        if all(_fits_line("- ", value) and not value.startswith(("```", "~~~")) for value in values):
            if values:
                self.lines += [self._named(name), *(f"- {value}" for value in values), ""]
        else:
            self.fence(name, "yaml", _yaml(values))

    def command(self, name: str, command: str | None) -> None:
        """A command for bash, on the field's line or as a fence."""
        if command is None:
            return
        told = command.startswith(("exit_code", "stdout"))
        if _fits_line(f"{self._named(name)} ", command) and code_span(command) is None and not told:
            self.line(name, command)
        else:
            self.fence(name, "shell", command)

    def value(self, name: str, value: Any) -> None:
        """A structured value, as a fence."""
        if value is not None and value != () and value != {}:
            self.fence(name, "yaml", _yaml(value))

    def nothing(self, name: str, value: Any) -> None:
        """What is written elsewhere."""

    def failure(self, name: str, policy: FailurePolicy | None) -> None:
        words = write_failure(policy) if policy is not None else ""
        if policy is not None and read_failure(words) == policy and not hides_text(words):
            self.line(name, words)
        else:
            self.value(name, policy)

    def budget(self, name: str, budget: Budget | None) -> None:
        words = write_budget(budget) if budget is not None else None
        if words is not None:
            self.line(name, words)
        elif budget != Budget():
            self.value(name, budget)


# --- Tables ----------------------------------------------------------------------------------------------------------

_Write = Callable[[FieldLines, str, Any], None]


class FieldEntry(NamedTuple):
    """One field: the attribute of the plan or step that it says, who reads it, and who writes it."""

    attribute: str
    read: Read
    write: _Write


def _line_of(spell: Callable[[Any], str]) -> _Write:
    return lambda lines, name, value: lines.line(name, spell(value)) if value is not None else None


def _texts(field: Field, problems: ProblemList) -> tuple[str, ...]:
    return list_value(field, problems) or ()


def _word(word: str) -> tuple[Read, _Write]:
    return lambda field, problems: one_of(field, (word,), problems), FieldLines.text


def _number(low: int, high: int, code: str) -> tuple[Read, _Write]:
    return lambda field, problems: number_value(field, low, high, code, problems), _line_of(str)


_TEXT: tuple[Read, _Write] = text_line, FieldLines.text
_TEXTS: tuple[Read, _Write] = _texts, FieldLines.list
_TRUTH: tuple[Read, _Write] = truth_value, _line_of(lambda truth: "true" if truth else "false")
_TIMEOUT: tuple[Read, _Write] = timeout_value, _line_of(write_duration)
_FAILURE: tuple[Read, _Write] = words_or_fence(FailurePolicy, read_failure), FieldLines.failure
_BUDGET: tuple[Read, _Write] = words_or_fence(Budget, read_budget), FieldLines.budget
_CONDITIONS = "Use a ```yaml fence with a list: `- {type: lock_available, lock_name: deploy}`."
_PRECONDITIONS: tuple[Read, _Write] = in_fence(tuple[Precondition, ...], _CONDITIONS, ()), FieldLines.value
_PARAMS = in_fence(dict[str, Parameter], "Use a ```yaml fence: `name: {type: string}`.", {})

PLAN_PROSE = ("task", "context")
"""Plan fields that may hold several paragraphs."""
PLAN_TABLE: Mapping[str, FieldEntry] = {
    "budget": FieldEntry("budget", *_BUDGET),
    "priority": FieldEntry("priority", *_TEXT),
    "on_failure": FieldEntry("on_failure", *_FAILURE),
    "preconditions": FieldEntry("preconditions", *_PRECONDITIONS),
    "agent": FieldEntry("agent", agent_value, FieldLines.text),
    "model": FieldEntry("model", *_TEXT),
    "timeout": FieldEntry("timeout_ms", *_TIMEOUT),
    "concurrency": FieldEntry("concurrency", *_number(1, CONCURRENCY_MAX, "E_STEP_LIMIT")),
    "tier": FieldEntry("tier", *_number(0, TIER_MAX, "E_FIELD_VALUE")),
    "params": FieldEntry("params", _PARAMS, FieldLines.value),
    "tools": FieldEntry("tools", tools_value, FieldLines.nothing),
    "protect": FieldEntry("protect", _texts, FieldLines.nothing),
}
"""The other fields of a plan, in the order in which they are written; the last two stand in the front matter."""
BEFORE_ACTION: Mapping[str, FieldEntry] = {
    "when": FieldEntry("when", *_TEXT),
    "for_each": FieldEntry("for_each", for_each_value, FieldLines.value),
    "preconditions": FieldEntry("preconditions", *_PRECONDITIONS),
}
AFTER_ACTION: Mapping[str, FieldEntry] = {
    "happened": FieldEntry("happened", command_value, FieldLines.command),
    "proof": FieldEntry("proof", *_word("red-then-green")),
    "protect": FieldEntry("protect", *_TEXTS),
    "writes": FieldEntry("writes", *_TEXTS),
    "inputs": FieldEntry("inputs", *_TEXTS),
    "on_fail": FieldEntry("on_failure", *_FAILURE),
    "timeout": FieldEntry("timeout_ms", *_TIMEOUT),
    "idempotent": FieldEntry("idempotent", *_TRUTH),
    "approval": FieldEntry("approval", *_word("ask")),
    "budget": FieldEntry("budget", *_BUDGET),
    "model": FieldEntry("model", *_TEXT),
    "network": FieldEntry("network", *_TRUTH),
    "worktree": FieldEntry("worktree", *_TRUTH),
    "pool": FieldEntry("pool", *_TEXT),
}
STEP_TABLE = {**BEFORE_ACTION, **AFTER_ACTION}
"""The fields of a step that stand for themselves, in the order in which they are written around what it does."""

_TOGETHER = (
    "title id needs run env tool operation args task agent instructions criteria reads tools action contract verify"
    " include"
)
"""Fields of a step that say something only with others."""
_STEP_ALIASES = {"target": "agent", "subscriptions": "reads", "depends_on": "needs", "on_failure": "on_fail"}
_SANDBOX = {"sandbox": "The sandbox is demanded of the whole plan, below its title: `**Tier:** 1`."}
_TO_STEP = "It is a field of steps: write it below the heading of each step that it is for."
_TO_PLAN = "It is a field of the plan: write it below the title, before the steps."
_TO_FRONT_MATTER = "Write it in the front matter, between two `---` lines at the very top."

STEP_FIELDS = Vocabulary(
    (*STEP_TABLE, *_TOGETHER.split()),
    _STEP_ALIASES,
    elsewhere={
        # `context` and `priority` limit nothing, and in a task such a line is read by whoever does it.
        **dict.fromkeys(("concurrency", "tier", "params"), _TO_PLAN),
        **dict.fromkeys(("plan_version", "workspace_id"), _TO_FRONT_MATTER),
        **_SANDBOX,
        "verification": "Write `**contract:** COMMAND`; or `**verify:**`, with a fence below it or `none` beside it.",
    },
)
PLAN_FIELDS = Vocabulary(
    ("title", *PLAN_PROSE, *PLAN_TABLE),
    elsewhere={
        **dict.fromkeys((*STEP_FIELDS.names, *_STEP_ALIASES), _TO_STEP),
        **dict.fromkeys(("plan_version", "workspace_id"), _TO_FRONT_MATTER),
        **_SANDBOX,
    },
    capital=True,
)
