"""What a host's own tools are to the rules, written once more from docs/hooks.md: a model to compare, on top of the
one of calls. It has at most 40 lines besides empty ones and words like these.
"""

import os
import re
from collections.abc import Iterator
from pathlib import Path

from tests.guard.reference import Args, Case, Lists, Tool, outside

FILES = {
    "Read": ("read_file", "file_path", "reads"),
    "Grep": ("read_file", "path", "reads"),
    **dict.fromkeys(("Glob", "LS"), ("list_files", "path", "reads")),
    "Write": ("write_file", "file_path", "repeatable"),
    "NotebookEdit": ("edit_file", "notebook_path", "checkable"),
    **dict.fromkeys(("Edit", "MultiEdit"), ("edit_file", "file_path", "checkable")),
}
OTHERS = {"WebFetch": Tool("opaque"), **dict.fromkeys(("Agent", "TodoWrite"), Tool("reads"))}
MAIL = {"search": Tool("reads"), "send": Tool("opaque", True)}  # the tools of a server that is configured
NEVER = re.compile(r"(?i)(.*/)?(\.git|\.mcp\.json|\.claude(?!/plans/)|ordain\.toml|\.ordain)(/.*)?")


def standing(lists: Lists, tool: str, args: dict[str, object], root: Path, home: Path) -> str:
    """How a call of a host's tool stands in a workspace, with a home in which our state and the host's plans are."""
    words = [outside(Case(lists, *one), ())[0] if one else "guarded" for one in cases(tool, args, root, home)]
    return max(words, key=("open", "guarded", "denied").index, default="open")


def cases(tool: str, args: dict[str, object], root: Path, home: Path) -> Iterator[tuple[str, Args, Tool | None] | None]:
    """What it is in the words of the rules; None for what is never open."""
    ours, key, effect = FILES.get(tool, ("", "", ""))
    path = args.get(key, "." if key == "path" else None)
    if tool == "Bash":
        yield "shell", args, Tool("opaque", needs={"command": str})
    elif tool.startswith("mcp__"):
        server, name = tool.split("__")[1:]
        if server != "ordain":
            yield (f"mail:{name}", args, MAIL[name]) if server == "mail" else (tool, args, None)
    elif not ours or not isinstance(path, str) or not path:
        yield f"claude-code:{tool}", args, OTHERS.get(tool)
    else:
        named = Path(os.path.normpath(root / path.replace("~", str(home))))
        real, reads = named.resolve(), effect == "reads"
        inside = [str(one.relative_to(root)) for one in (real, named) if one.is_relative_to(root)]
        yield from ((ours, {"path": one}, Tool(effect, paths={"path": tool == "Grep"})) for one in inside)
        noted = real.is_relative_to(home / ".claude/plans") and real.suffix == ".md"
        if not real.is_relative_to(root):
            yield ours if reads else f"claude-code:{tool}", {}, Tool("reads") if reads or noted else None
        if not reads and (real.is_relative_to(home / "state") or any(map(NEVER.fullmatch, (*inside, str(real))))):
            yield None
