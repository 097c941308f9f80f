"""What models are told over MCP, from `data/mcp.toml` and `data/prompts/`. Loads nothing of the SDK."""

from __future__ import annotations

import re
import shlex
import tomllib
from functools import cache
from typing import Any

from ordain.interfaces.view.next_command import from_anywhere
from ordain.interfaces.view.problem import data_text
from ordain.records.records import names_run


@cache
def mcp_texts() -> dict[str, Any]:
    """Instructions, and the words about every tool, resource and prompt by its name."""
    return tomllib.loads(data_text("mcp.toml"))


def prompt_text(name: str, **values: object) -> str:
    """A prompt with these values in the places that name them."""
    return data_text(f"prompts/{name}.md").removesuffix("\n").format_map(values)


_COMMANDS = frozenset(("command", "commit_command", "remediation"))
"""The fields of answers that hold a command."""
_IN_WORDS = re.compile(r"(?<=: )ordain (?=[a-z])")


def next_call(command: str) -> str:
    """What a client does next, where a person would type this."""
    _, verb, *rest = shlex.split(command)
    named = next((word for word in rest if not word.startswith("-")), "")
    match verb:
        case "status" | "list" | "inbox":
            return "Call plan_list."
        case "show" | "watch" | "log" if names_run(named):
            return f"Call plan_status with what={named}."
        case "show":
            return f"Call plan_get with plan={named}."
        case "commit":
            also = [f" and preparation={word}" for word in rest if word.startswith("PREP-")]
            return f"Call plan_commit with plan={named}{''.join(also)}."
        case "revise":
            return f"Call plan_revise with plan={named} and the changed plan."
        case "prepare":
            return "Call plan_propose."
        case "cancel":
            return f"Call plan_cancel with what={named}."
        case _:
            return f"A person types at a terminal: {command}"


def from_anywhere_in(answer: Any, workspace: str) -> Any:
    """An answer in which every command works wherever it is typed."""
    if isinstance(answer, list):
        return [from_anywhere_in(one, workspace) for one in answer]
    if not isinstance(answer, dict):
        return answer
    there = {key: from_anywhere_in(value, workspace) for key, value in answer.items()}
    for key in _COMMANDS & there.keys():
        if isinstance(there[key], str) and there[key].startswith("ordain "):
            there[key] = from_anywhere(there[key], workspace)
    if isinstance(there.get("next"), list):
        there["next"] = [_IN_WORDS.sub(lambda _: from_anywhere("ordain ", workspace), one) for one in there["next"]]
    return there
