"""The settings of Claude Code with our hook in them, and without it again. Pure: from a text to a text. Only what is
ours is written or taken away; what is not understood is refused and never rewritten."""

from __future__ import annotations

import json
import re
from typing import Any, NamedTuple

from ordain.core.text.problem import Refused, refuse

_OURS = ["guard", "hook", "claude-code"]
TIMEOUT_S = 30
"""How long the host waits for an answer, which then is no."""


def hook_entry(command: list[str]) -> dict[str, Any]:
    """What has Claude Code ask before every call, without a shell in between, and refuse where that fails."""
    program, *words = command
    told = {"type": "command", "command": program, "args": words, "timeout": TIMEOUT_S, "onFailure": "block"}
    return {"matcher": "", "hooks": [told]}


def with_hook(text: str | None, command: list[str], where: str) -> str:
    """Settings with our hook, in place of one of ours that is there."""
    tree, form = _read(text, where)
    _take_away(tree, where)
    hooks = _part(tree, "hooks", dict, where)
    _part(hooks, "PreToolUse", list, where).append(hook_entry(command))
    return _written(tree, form)


def without_hook(text: str | None, where: str) -> str | None:
    """Settings without our hook; None where there is none in them."""
    tree, form = _read(text, where)
    return _written(tree, form) if _take_away(tree, where) else None


def with_server(text: str | None, name: str, command: list[str], env: dict[str, str], where: str) -> str:
    """A list of MCP servers with ours; one of that name that is not ours is left alone."""
    tree, form = _read(text, where)
    servers = _part(tree, "mcpServers", dict, where)
    if name in servers and not _is_gateway(servers[name]):
        raise _refused(where, f"has a server `{name}` that is not ours", "Rename it, or leave `--gateway` out.")
    program, *words = command
    servers[name] = {"type": "stdio", "command": program, "args": words, "env": env}
    return _written(tree, form)


def without_server(text: str | None, name: str, where: str) -> str | None:
    """The same without it; None where it is not among them."""
    tree, form = _read(text, where)
    servers = tree.get("mcpServers")
    if not isinstance(servers, dict) or name not in servers or not _is_gateway(servers[name]):
        return None
    del servers[name]
    if not servers:
        del tree["mcpServers"]
    return _written(tree, form)


def _is_gateway(server: Any) -> bool:
    words = server.get("args") if isinstance(server, dict) else None
    return isinstance(words, list) and words[-2:] == ["mcp", "--gateway"]


def _take_away(tree: dict[str, Any], where: str) -> bool:
    """Take our hooks out, and what only held them; whether there were any."""
    hooks = _part(tree, "hooks", dict, where) if "hooks" in tree else {}
    groups = _part(hooks, "PreToolUse", list, where) if "PreToolUse" in hooks else []
    found = False
    for group in list(groups):
        inside = group.get("hooks") if isinstance(group, dict) else None
        if isinstance(inside, list) and any(map(_is_ours, inside)):
            found = True
            inside[:] = [hook for hook in inside if not _is_ours(hook)]
            if not inside:
                groups.remove(group)
    if found and not groups:
        del hooks["PreToolUse"]
        if not hooks:
            del tree["hooks"]
    return found


def _is_ours(hook: Any) -> bool:
    words = hook.get("args") if isinstance(hook, dict) else None
    return isinstance(words, list) and any(words[at : at + 3] == _OURS for at in range(len(words)))


def _part(tree: dict[str, Any], key: str, kind: type[Any], where: str) -> Any:
    """What stands under a key, made where nothing does; refused where it is something else than it should be."""
    if not isinstance(tree.setdefault(key, kind()), kind):
        raise _refused(where, f"has something else under `{key}` than the host understands")
    return tree[key]


class _Form(NamedTuple):
    """How a text of JSON is written."""

    indent: str | None = "  "
    separators: tuple[str, str] | None = None
    end: str = "\n"


def _form(text: str, tree: dict[str, Any]) -> _Form:
    end = "\n" if text.endswith("\n") else ""
    for separators in ((",", ":"), (", ", ": ")):
        if text.strip() == json.dumps(tree, separators=separators, ensure_ascii=False):
            return _Form(None, separators, end)
    found = re.search(r"\n([ \t]+)\S", text)
    return _Form(found[1] if found is not None else "  ", None, end)


def _read(text: str | None, where: str) -> tuple[dict[str, Any], _Form]:
    if text is None or not text.strip():
        return {}, _Form()
    try:
        tree = json.loads(text, object_pairs_hook=_without_doubles)
    except (ValueError, RecursionError) as error:
        raise _refused(where, f"is no JSON that can be written back as it is ({error})") from error
    if not isinstance(tree, dict):
        raise _refused(where, "is no JSON object")
    return tree, _form(text, tree) if tree else _Form()


def _without_doubles(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    tree = dict(pairs)
    if len(tree) < len(pairs):
        raise ValueError("a key is in it twice")
    return tree


def _written(tree: dict[str, Any], form: _Form) -> str:
    return json.dumps(tree, indent=form.indent, separators=form.separators, ensure_ascii=False) + form.end


def _refused(where: str, what: str, *hints: str) -> Refused:
    return refuse("E_HOST_SETTINGS", f"{where} {what}; it was left as it is.", *hints)
