"""The ready set of rules for coding agents, put into the text of `ordain.toml` between marks and taken out again. Every
edit is checked by reading both texts: nothing but the guard's `open` and the rules may differ."""

from __future__ import annotations

import json
import re
import tomllib
from typing import Any

from ordain.core.policy.fact import SHELL_READS
from ordain.core.policy.rule import RULE
from ordain.core.policy.settings import DEFAULTS

_MARK = "ordain guard init"
_RULES = re.compile(rf"\n# >>> {_MARK}: rules[^\n]*\n.*?# <<< {_MARK}: rules\n", re.DOTALL)
_LINE = re.compile(rf"# >>> {_MARK}: open\n.*?# <<< {_MARK}: open\n", re.DOTALL)
_LIST = re.compile(rf"\n  # >>> {_MARK}: entries\n.*?# <<< {_MARK}: entries\n", re.DOTALL)
_SECTION = re.compile(r"^\[guard\][ \t]*(?:#[^\n]*)?\n", re.MULTILINE)
_OPEN = re.compile(r"^open[ \t]*=[ \t]*\[", re.MULTILINE)
_NEXT = re.compile(r"^\[", re.MULTILINE)


class CannotEdit(Exception):
    """Why a text is not edited, as the end of a sentence that begins with the file."""


def entries_of(rules: str) -> list[str]:
    """What `[guard] open` names where these rules are used."""
    return [SHELL_READS, *(f"{RULE}{name}" for name in tomllib.loads(rules)["rules"])]


def with_rules(text: str, rules: str, taken_out: str = "ordain guard init --remove") -> str:
    """A configuration with the rules in it, those of another version of Ordain replaced; raises CannotEdit."""
    text = without_rules(text)
    before, mine = _read(text), tomllib.loads(rules)["rules"]
    if taken := sorted(mine.keys() & before.get("rules", {}).keys()):
        raise CannotEdit(f"has a rule `{taken[0]}` of its own")
    if not text.endswith("\n") and text:
        text += "\n"
    listed = before.get("guard", {}).get("open")
    if not isinstance(listed, list | None):
        raise CannotEdit("has an `open` in [guard] that is no list")
    missing = [entry for entry in entries_of(rules) if entry not in (listed or ())]
    opened = [*missing, *listed] if listed is not None else [*DEFAULTS.open_calls, *missing]
    head, line = "", f"open = {json.dumps(opened)}\n"
    section = _SECTION.search(text)
    if listed is not None:
        text = _in_list(text, missing)
    elif section is not None:
        put = f"# >>> {_MARK}: open\n{line}# <<< {_MARK}: open\n"
        text = text[: section.end()] + put + text[section.end() :]
    else:
        head = f"[guard]\n{line}\n"
    marked = f"# >>> {_MARK}: rules for coding agents; `{taken_out}` takes them out"
    text += f"\n{marked}\n{head}{rules.strip()}\n# <<< {_MARK}: rules\n"
    wanted = {
        **before,
        "guard": {**before.get("guard", {}), "open": opened},
        "rules": {**before.get("rules", {}), **mine},
    }
    if _read(text) != wanted:
        raise CannotEdit("is written in a way that is not edited safely")
    return text


def without_rules(text: str) -> str:
    """A configuration without what `with_rules` put in."""
    for marked in (_RULES, _LINE, _LIST):
        text = marked.sub("", text)
    return text


def _in_list(text: str, missing: list[str]) -> str:
    section = _SECTION.search(text)
    following = _NEXT.search(text, section.end()) if section is not None else None
    found = _OPEN.search(text, section.end(), following.start() if following else len(text)) if section else None
    if found is None:
        raise CannotEdit("has an `open` of the guard outside of a section [guard]")
    if not missing:
        return text
    put = f"\n  # >>> {_MARK}: entries\n  {json.dumps(missing)[1:-1]},\n  # <<< {_MARK}: entries\n"
    return text[: found.end()] + put + text[found.end() :]


def _read(text: str) -> dict[str, Any]:
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise CannotEdit(f"cannot be read: {error}") from error
