"""One step of a Markdown document: a draft to a `Step`.

Knows what the fields of a step mean together; knows nothing of headings, lists or sections.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from ordain.core.action import RunCommand
from ordain.core.condition import Contract, Verification
from ordain.core.model import Action, Step
from ordain.core.problem import closest
from ordain.core.value import StepId
from ordain.documents.document import PROBLEMS_MAX, ProblemList
from ordain.documents.draft import Draft
from ordain.documents.field_line import Field
from ordain.documents.fields import belongs_to_no_field, failure_value, one_line, timeout_value
from ordain.documents.scan import Block, Fence, Text, blank, trimmed
from ordain.documents.slug import id_fault
from ordain.documents.step_action import fenced_command, line_command, read_action, sound_command

__all__ = ["read_steps"]

_CARRIED_OUT = frozenset(("id", "tool", "args", "run", "needs", "contract", "on_fail", "timeout", "idempotent"))
_EXIT_CODE = re.compile(r"exit_code[ \t]*==[ \t]*([0-9]{1,3})")
_EXIT_CODE_MAX = 255
_NUMBER = re.compile(r"[0-9]{1,18}")
_LIST_ITEM = re.compile(r" {0,3}[-*][ \t]+(.*)", re.DOTALL)


def read_steps(drafts: Sequence[Draft], problems: ProblemList) -> tuple[Step, ...]:
    """The steps of these drafts, in order; a step that can not be read is left out and its problems are noted."""
    ids = [draft.id for draft in drafts]
    known = frozenset(ids)
    steps = (_StepReader(draft, ids, known, problems.about(draft.id, draft.line)).read() for draft in drafts)
    return tuple(step for step in steps if step is not None)


class _StepReader:
    """Reads the fields of one draft; `ids` are those of all steps, in order."""

    def __init__(self, draft: Draft, ids: Sequence[StepId], known: frozenset[StepId], problems: ProblemList) -> None:
        self.draft = draft
        self.ids = ids
        self.known = known
        self.problems = problems

    def read(self) -> Step | None:
        fields, problems = self.draft.fields, self.problems
        for name in sorted(fields.keys() - _CARRIED_OUT):
            detail = f"The field `{name}` is part of the format, but this version does not carry it out."
            problems.add("E_NOT_YET", detail, line=fields[name].line)
        action = self._action()
        needs = self._needs(fields.get("needs"))
        contract = self._contract(fields["contract"]) if "contract" in fields else None
        on_failure = failure_value(fields["on_fail"], problems) if "on_fail" in fields else None
        timeout_ms = timeout_value(fields["timeout"], problems) if "timeout" in fields else None
        idempotent = self._idempotent(fields["idempotent"]) if "idempotent" in fields else None
        if action is None:
            return None
        return Step(
            id=self.draft.id,
            description=self.draft.title,
            action=action,
            needs=needs,
            verification=Verification(strategy=contract) if contract else None,
            on_failure=on_failure,
            timeout_ms=timeout_ms,
            idempotent=idempotent,
        )

    def _action(self) -> Action | None:
        command = self.draft.command
        if command is None:
            return read_action(self.draft.fields, self.known, self.problems)
        return RunCommand(command=command) if self._sound(command, self.draft.line) else None

    def _sound(self, command: str, line: int) -> bool:
        return sound_command(command, line, self.known, self.problems)

    # --- What it waits for ---

    def _needs(self, field: Field | None) -> tuple[StepId, ...]:
        if field is None:
            return () if self.draft.number == 1 else (self.ids[self.draft.number - 2],)
        words = self._words(field)
        if [word for word, _ in words] == ["none"]:
            return ()
        needs: set[StepId] = set()
        for word, line in words:
            need = self._need(word, line)
            if need is not None:
                needs.add(need)
            elif len(self.problems) >= PROBLEMS_MAX:
                break
        return tuple(sorted(needs))

    def _words(self, field: Field) -> list[tuple[str, int]]:
        """The words of `needs` with their lines: separated by commas, or one to a list item."""
        found = [(word.strip(), field.line) for word in field.inline.split(",")] if field.inline else []
        for block in trimmed(field.body):
            if blank(block):
                continue
            item = _LIST_ITEM.fullmatch(block.text) if isinstance(block, Text) else None
            if field.inline or not isinstance(block, Text) or (found and not item):
                belongs_to_no_field([block], self.problems)
                return found
            found += [(word.strip(), block.line) for word in (item[1] if item else block.text).split(",")]
        if not found:
            hint = "Write ids, or `none` for a step that waits for nothing."
            self.problems.add("E_FIELD_VALUE", "`needs` names nothing.", hint, line=field.line)
        return found

    def _need(self, word: str, line: int) -> StepId | None:
        if _NUMBER.fullmatch(word):
            if 1 <= int(word) <= len(self.ids):
                return self.ids[int(word) - 1]
            detail = f"`needs` names step {word}; the plan has {len(self.ids)}."
            self.problems.add("E_STEP_UNKNOWN_NEED", detail, line=line)
            return None
        if word in ("", "none"):
            detail = "`none` stands among other needs." if word else "`needs` has an empty place."
            hint = "Write ids with commas between them, or `none` alone."
            self.problems.add("E_FIELD_VALUE", detail, hint, line=line)
            return None
        fault = id_fault(word)
        if fault:
            self.problems.add(*fault, *closest(word[:64], self.ids[:200]), line=line)
            return None
        return StepId(word)

    # --- How it is seen to be done ---

    def _contract(self, field: Field) -> Contract | None:
        line, command, body = field.line, field.inline, trimmed(field.body)
        checked: str | None = None
        if not command and body and isinstance(body[0], Fence):
            line = body[0].line
            checked = fenced_command("contract", body[0], self.problems)
            body = body[1:]
        else:
            if not command and body and isinstance(body[0], Text):
                line, command, body = body[0].line, body[0].text.strip(), body[1:]
            if not command or command.startswith(("exit_code ", "exit_code=")):
                hint = "Write a command that checks the result."
                self.problems.add("E_CONTRACT_SYNTAX", "The contract has no command.", hint, line=field.line)
            else:
                checked = line_command("contract", command, line, self.problems)
        exit_code = self._exit_code(body)
        if checked is None or exit_code is None or not self._sound(checked, line):
            return None
        return Contract(command=checked, exit_code=exit_code)

    def _exit_code(self, body: Sequence[Block]) -> int | None:
        """The exit status that a contract expects, from the lines after its command; 0 where they say nothing."""
        given: int | None = None
        for block in body:
            if blank(block):
                continue
            text = block.text.strip() if isinstance(block, Text) else ""
            found = _EXIT_CODE.fullmatch(text)
            if found and int(found[1]) <= _EXIT_CODE_MAX:
                if given is not None:
                    self.problems.add("E_DOC_DUPLICATE", "`exit_code` is given twice.", line=block.line)
                given = int(found[1])
            elif text.startswith("exit_code"):
                hint = "Write `exit_code == 0`, with a number from 0 to 255."
                self.problems.add("E_FIELD_VALUE", f"`{text[:60]}` is not understood.", hint, line=block.line)
                return None
            elif text.startswith("stdout"):
                detail = "Checking `stdout` is part of the format, but this version does not carry it out."
                self.problems.add("E_NOT_YET", detail, "Pipe the command into `grep`.", line=block.line)
            else:
                belongs_to_no_field([block], self.problems)
                return None
        return given or 0

    def _idempotent(self, field: Field) -> bool | None:
        text = one_line(field, self.problems)
        if text in ("true", "false"):
            return text == "true"
        if text is not None:
            detail = f"`idempotent` is `{text[:60]}`."
            self.problems.add("E_FIELD_VALUE", detail, "Write `true` or `false`.", line=field.line)
        return None
