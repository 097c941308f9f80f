"""Which words are names of steps, tools, agents and the like. All are ASCII, because letters of other scripts can look
the same and be others; no id is a step number or `none`, so that one word in `needs` has one meaning."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from ordain.core.text.limit import ID_LENGTH_MAX, NAME_LENGTH_MAX

_SOUND_ID = re.compile(r"(?!-?[0-9]+\Z|none\Z)[A-Za-z0-9_-]{1,64}")
_ID = re.compile(r"[A-Za-z0-9_-]+")
_NUMBER = re.compile(r"-?[0-9]+")
_NAME = re.compile(r"(?![.-])[A-Za-z0-9_.:/-]{1,256}")
_MODEL = re.compile(r"(?!-)[!-~]{1,256}")
_SCOPE = re.compile(r"(?![.-])[A-Za-z0-9_.:/-]{1,256}(?::[A-Za-z0-9_.-]+(?: [A-Za-z0-9_.-]+)*)?")


def id_fault(text: str) -> tuple[str, str] | None:
    """Code and detail of what keeps a word from being a step id, or None."""
    if _SOUND_ID.fullmatch(text):
        return None
    shown = ascii(text[:ID_LENGTH_MAX])
    if not text.isascii():
        return "E_NAME", f"The step id {shown} holds characters that are not ASCII."
    if not _ID.fullmatch(text):
        return "E_STEP_ID", f"The step id {shown} holds more than letters, digits, `_` and `-`."
    if len(text) > ID_LENGTH_MAX:
        return "E_STEP_ID", f"The step id {shown}... has {len(text)} characters; {ID_LENGTH_MAX} are allowed."
    if _NUMBER.fullmatch(text):
        return "E_STEP_ID", f"The step id {shown} is a number, which would be taken for a step's place in the list."
    return "E_STEP_ID", "`none` means no dependency and can not be a step id."


def name_fault(kind: str, text: str) -> tuple[str, str] | None:
    """Code and detail of what keeps a word from being the name of a tool, an agent, a lock and so on, or None."""
    if _NAME.fullmatch(text):
        return None
    if len(text) > NAME_LENGTH_MAX:
        return "E_NAME", f"The {kind} name {text[:ID_LENGTH_MAX]!a}... has more than {NAME_LENGTH_MAX} characters."
    if text[:1] in ("-", "."):
        why = "which a command would take for an option" if text[0] == "-" else "as paths do"
        return "E_NAME", f"The {kind} name {text[:ID_LENGTH_MAX]!a} begins with `{text[0]}`, {why}."
    return "E_NAME", f"The {kind} name {text[:ID_LENGTH_MAX]!a} holds more than ASCII letters, digits and `_ . : / -`."


def scope_fault(text: str) -> tuple[str, str] | None:
    """The same for a word in `tools`: a tool, or `tool:operation`, where an operation may be several words."""
    return None if _SCOPE.fullmatch(text) else name_fault("tool", text)


def scope_faults(names: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Everything wrong with the words of `tools`."""
    yield from (fault for name in names if (fault := scope_fault(name)) is not None)
    if len(set(names)) < len(names):
        yield "E_DOC_DUPLICATE", "A tool is listed twice in `tools`."


def model_fault(text: str) -> tuple[str, str] | None:
    """The same for the name of a model: whatever its server calls it, but never like an option."""
    if _MODEL.fullmatch(text):
        return None
    return "E_NAME", f"The model name {text[:ID_LENGTH_MAX]!a} is not one word of ASCII, or begins with `-`."
