"""One step of a Markdown document: a draft to a `Step`. Knows what the fields of a step mean together."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Any, cast

from ordain.core.plan.action import Task
from ordain.core.plan.condition import Contract, NoCheck, Strategy, Verification
from ordain.core.plan.model import Action, Step
from ordain.core.plan.name import id_fault
from ordain.core.plan.value import StepId
from ordain.core.text.limit import EXIT_CODE_MAX, string_fault
from ordain.core.text.problem import closest
from ordain.documents.document import PROBLEMS_MAX, ProblemList
from ordain.documents.include import Beside
from ordain.documents.markdown.draft import Draft
from ordain.documents.markdown.field import LIST_ITEM, Field, belongs_to_no_field, only_value
from ordain.documents.markdown.scan import Block, Fence, Text, blank, trimmed
from ordain.documents.markdown.step_action import (
    ACTION_FIELDS,
    fenced_command,
    line_command,
    read_action,
    sound_command,
    sound_prose,
)
from ordain.documents.markdown.table import STEP_TABLE
from ordain.documents.shape import shape

_EXIT_CODE = re.compile(r"exit_code[ \t]*==[ \t]*([0-9]{1,3})")
_STDOUT = re.compile(r'stdout[ \t]*=~[ \t]*(".*")', re.DOTALL)
_NUMBER = re.compile(r"[0-9]{1,18}")
_MEANS_ACTION = re.compile(rf"`(?:\*\*)?(?:{'|'.join(ACTION_FIELDS)})(?::\*\*)?`", re.IGNORECASE)
"""In the hint about a misspelt field: the field that is meant says what the step does."""


class StepReader:
    """Reads the fields of drafts, all of whose ids are known; what is said of nested plans is added to `beside`."""

    def __init__(
        self, drafts: Sequence[Draft], fallbacks: Sequence[Draft], lines: Sequence[str], beside: Beside
    ) -> None:
        self.ids = [draft.id for draft in drafts]
        self.known = frozenset((*self.ids, *(draft.id for draft in fallbacks)))
        self.lines, self.beside = lines, beside
        self.unknown = ProblemList()
        """The needs that are no steps, which lint finds in a whole plan."""

    def read(self, drafts: Sequence[Draft], problems: ProblemList) -> tuple[Step, ...]:
        """The steps of these drafts, in order, without those that can not be read; their problems are noted."""
        steps = (self._step(draft, problems.about(draft.id, draft.line)) for draft in drafts)
        return tuple(step for step in steps if step is not None)

    def _step(self, draft: Draft, problems: ProblemList) -> Step | None:
        fields = draft.fields
        action: Action | None = draft.action
        if draft.action is None:
            action = read_action(draft.id, fields, self.known, self.lines, self.beside, problems)
        elif isinstance(draft.action, Task):
            sound_prose("task", draft.action.task, draft.line, self.known, problems)
        elif not sound_command(draft.action.command, draft.line, self.known, problems):
            action = None
        values: dict[str, Any] = {}
        for name, field in fields.items():
            if name in STEP_TABLE:
                values[STEP_TABLE[name].attribute] = STEP_TABLE[name].read(field, problems)
        if "contract" in fields:
            values["verification"] = self._contract(fields["contract"], problems)
        if "verify" in fields:
            if "contract" in fields:
                detail = "`contract` and `verify` both say how the step is seen to be done."
                problems.add("E_DOC_DUPLICATE", detail, "Keep one of them.", line=fields["verify"].line)
            values["verification"] = _verify(fields["verify"], problems)
        needs = self._needs(draft, problems)
        if action is None:
            if any(map(_MEANS_ACTION.search, problems.hints("E_DOC_SYNTAX"))) and not fields.keys() & ACTION_FIELDS:
                problems.withdraw("E_STEP_ACTION", draft.line)
            return None
        return Step(id=draft.id, description=draft.title, action=action, needs=needs, **values)

    # --- What it waits for ---

    def _needs(self, draft: Draft, problems: ProblemList) -> tuple[StepId, ...]:
        field = draft.fields.get("needs")
        if field is None:
            return (self.ids[draft.number - 2],) if draft.number > 1 else ()
        named = set(map(str.strip, field.inline.split(",")))
        if named <= self.known and not trimmed(field.body):
            return cast(tuple[StepId, ...], tuple(sorted(named)))
        words = _words(field, problems)
        if [word for word, _ in words] == ["none"]:
            return ()
        needs: set[StepId] = set()
        for word, line in words:
            if word in self.known:
                needs.add(StepId(word))
                continue
            need = self._need(draft.id, word, line, problems)
            if need is not None:
                needs.add(need)
            elif len(problems) >= PROBLEMS_MAX:
                break
        return tuple(sorted(needs))

    def _need(self, step: StepId, word: str, line: int, problems: ProblemList) -> StepId | None:
        if _NUMBER.fullmatch(word):
            if 1 <= int(word) <= len(self.ids):
                return self.ids[int(word) - 1]
            detail = f"`needs` names step {word}; the plan has {len(self.ids)}."
            problems.add("E_STEP_UNKNOWN_NEED", detail, line=line)
            return None
        if word in ("", "none"):
            detail = "`none` is among other needs." if word else "`needs` has an empty place."
            hint = "Write ids with commas between them, or `none` alone."
            problems.add("E_FIELD_VALUE", detail, hint, line=line)
            return None
        fault = id_fault(word)
        if fault:
            problems.add(*fault, *closest(word[:64], self.ids[:200]), line=line)
            return None
        if len(self.unknown) < PROBLEMS_MAX:
            detail = f"`{step}` needs `{word}`, which is not a step of this plan."
            unknown = self.unknown.about(step, line)
            unknown.add("E_STEP_UNKNOWN_NEED", detail, *closest(word, self.ids[:200]))
        return StepId(word)

    # --- How it is seen to be done ---

    def _contract(self, field: Field, problems: ProblemList) -> Verification | None:
        line, command, body = field.line, field.inline, trimmed(field.body) if field.body else ()
        checked: str | None = None
        if not command and body and isinstance(body[0], Fence):
            line = body[0].line
            checked = fenced_command("contract", body[0], problems)
            body = body[1:]
        else:
            if not command and body and isinstance(body[0], Text):
                line, command, body = body[0].line, body[0].text.strip(), body[1:]
            if not command or command.startswith(("exit_code ", "exit_code=", "stdout ", "stdout=")):
                hint = "Write a command that checks the result."
                problems.add("E_CONTRACT_SYNTAX", "The contract has no command.", hint, line=field.line)
            else:
                checked = line_command("contract", command, line, problems)
        expected = _expected(body, problems) if body else {}
        if checked is None or expected is None or not sound_command(checked, line, self.known, problems):
            return None
        return Verification(strategy=Contract(command=checked, **expected))


def _words(field: Field, problems: ProblemList) -> list[tuple[str, int]]:
    """The words of `needs` with their lines: separated by commas, or one to a list item."""
    found = [(word.strip(), field.line) for word in field.inline.split(",")] if field.inline else []
    for block in trimmed(field.body):
        if blank(block):
            continue
        item = LIST_ITEM.fullmatch(block.text) if isinstance(block, Text) else None
        if field.inline or not isinstance(block, Text) or (found and not item):
            belongs_to_no_field([block], problems)
            return found
        found += [(word.strip(), block.line) for word in (item[1] if item else block.text).split(",")]
    if not found:
        hint = "Write ids, or `none` for a step that waits for nothing."
        problems.add("E_FIELD_VALUE", "`needs` names nothing.", hint, line=field.line)
    return found


def _expected(body: Sequence[Block], problems: ProblemList) -> dict[str, Any] | None:
    """What a contract expects, from the lines after its command: `exit_code` and `stdout`."""
    expected: dict[str, Any] = {}
    for block in body:
        if blank(block):
            continue
        text = block.text.strip() if isinstance(block, Text) else ""
        value: int | str | None
        if text.startswith("exit_code"):
            found = _EXIT_CODE.fullmatch(text)
            value = int(found[1]) if found and int(found[1]) <= EXIT_CODE_MAX else None
            name, hint = "exit_code", "Write `exit_code == 0`, with a number from 0 to 255."
        elif text.startswith("stdout"):
            name, value, hint = "stdout", _pattern(text), 'Write `stdout =~ "pattern"`, as JSON spells a text.'
        else:
            belongs_to_no_field([block], problems)
            return None
        if value is None:
            problems.add("E_FIELD_VALUE", f"`{text[:60]}` is not understood.", hint, line=block.line)
            return None
        if name in expected:
            problems.add("E_DOC_DUPLICATE", f"`{name}` is given twice.", line=block.line)
        fault = string_fault(value) if isinstance(value, str) else None
        if fault:
            problems.add(*fault, line=block.line)
        expected[name] = value
    return expected


def _pattern(text: str) -> str | None:
    found = _STDOUT.fullmatch(text)
    try:
        pattern = json.loads(found[1]) if found else None
    except ValueError:
        return None
    return pattern if isinstance(pattern, str) else None


def _verify(field: Field, problems: ProblemList) -> Verification | None:
    """A fence with a verification, or with nothing but its strategy; or the word `none`."""
    if field.inline == "none" and not trimmed(field.body):
        return Verification(strategy=NoCheck())
    hint = "Use a ```yaml fence: `type: pattern_match`, or `**verify:** none`; a command goes into `contract`."
    read = only_value(field, hint, problems)
    if read is None:
        return None
    if isinstance(read.value, dict) and "type" in read.value:
        strategy = shape(read.value, Strategy, locate=read.locate, problems=problems)
        return None if strategy is None else Verification(strategy=strategy)
    verification: Verification | None = shape(read.value, Verification, locate=read.locate, problems=problems)
    return verification
