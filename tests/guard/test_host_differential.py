"""Random calls of a host's own tools: its hook is answered what the reference model says, of each. `ORDAIN_SEED=N`
begins elsewhere; mutants of the product show that the comparison can fail."""

from __future__ import annotations

import json
import os
import random
import re
from collections import Counter
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from ordain.assemble import quick_guard as quick
from ordain.core.guard import host_tool
from ordain.interfaces.hook import claude as claude_hook
from tests.guard import host_reference as model
from tests.guard.reference import Lists
from tests.words import EffectClass, Options, QuickGuard, Settings, ToolSource, answer_hook, denied_reason, is_control

SEED = os.environ.get("ORDAIN_SEED", "20261116")
PARTS, WORLDS, CALLS = 10, 25, 20
"""Of 5,000 cases: parts, settings, and calls under each of those. `make test` takes one part."""
ENTRIES = (
    *("reads", "repeatable", "checkable", "opaque", "destructive", "shell", "read_file", "list_files", "write_file"),
    *("edit_file", "claude-code", "claude-code:Write", "claude-code:WebFetch", "mail", "mail:send", "mcp__other__go"),
    "path:**",
    *("path:docs/**", "path:docs/secret", "path:src/*", "path:**/key", "path:link", "path:out") * 2,
)
TOOLS = (
    *model.FILES,
    *("Write", "Edit", "Read", "Bash", "WebFetch", "TodoWrite", "Agent", "CronCreate", "bash", "Write2", "shell"),
    *("mcp__ordain__plan_propose", "mcp__mail__search", "mcp__mail__send", "mcp__other__go", "mcp__claude-code__Read"),
)
PATHS = (
    *("docs/a.md", "docs/secret/key", "DOCS/Secret", "src/app.py", "docs", ".", "./docs/../src/app.py", "new/file"),
    *("ordain.toml", "Ordain.TOML", "docs/../ordain.toml", "conf", ".ordain/plans/x", ".git/config", "sub/.git/config"),
    *(
        "link",
        "out/x",
        "out",
        "to-state/ledger.db",
        ".claude/settings.json",
        ".claude/settings.local.json",
        ".mcp.json",
    ),
    *(
        "~/state/ledger.db",
        "~/.claude/plans/a.md",
        "~/.claude/plans/a.sh",
        "~/.claude/settings.json",
        "~/x",
        "~/back/a.md",
    ),
    *("../x", "/etc/passwd", "", None, 7),
)


class Host:
    """A workspace with links in it and out of it, and a home with our state and the host's plans."""

    def __init__(self, base: Path, home: Path) -> None:
        self.root, self.home = base.resolve() / "w", home.resolve()
        for one in ("docs/secret", "src", ".git", "sub/.git", ".claude"):
            (self.root / one).mkdir(parents=True)
        for one in ("state", ".claude/plans", "elsewhere"):
            (self.home / one).mkdir(parents=True)
        for link, to in (("conf", "ordain.toml"), ("link", "docs/secret"), ("out", self.home / "elsewhere")):
            (self.root / link).symlink_to(to)
        (self.root / "to-state").symlink_to(self.home / "state")
        (self.home / "back").symlink_to(self.root / "docs")

    def said(self, tool: str, args: dict[str, Any]) -> bytes:
        transcript = str(self.home / ".claude/projects/x/s.jsonl")
        about = {"hook_event_name": "PreToolUse", "cwd": str(self.root), "transcript_path": transcript}
        return json.dumps({**about, "tool_name": tool, "tool_input": args}).encode()


@pytest.fixture
def host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Host:
    """No ledger, and nowhere to note what was seen: what is asked there is answered by twins."""
    monkeypatch.setattr(quick, "approved_plans", lambda *_: [])
    monkeypatch.setattr(quick, "SightingLog", lambda _: SimpleNamespace(note=lambda seen: None))
    return Host(tmp_path, Path(os.environ["HOME"]))


def cases(part: int, host: Host, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[str, str, str]]:
    """What the model and the product say of each case; and the case, to be told where they differ."""
    dice = random.Random(f"{SEED}/{part}")
    mail = ToolSource(mcp=("mail-server",), effects={"search": EffectClass.READS})

    def some(most: int, odds: float = 1) -> tuple[str, ...]:
        return tuple(dice.sample(ENTRIES, dice.randint(0, most))) if dice.random() < odds else ()

    for _ in range(WORLDS):
        settings = Settings(
            deny=some(2, 0.7),
            ask=some(2, 0.3),
            guarded=(*(("*",) if dice.random() < 0.6 else ()), *some(2, 0.3)),
            open_calls=some(8),
            guard_mode="enforce",
            sources={"mail": mail},
        )
        lists = Lists(settings.deny, settings.ask, (), settings.guarded, settings.open_calls, {}, enforce=True)
        guard = QuickGuard(host.root, host.home / "state", settings)
        monkeypatch.setattr(claude_hook, "quick_guard", lambda *_, guard=guard, **__: guard)
        for _ in range(CALLS):
            tool = dice.choice(TOOLS)
            key = model.FILES[tool][1] if tool in model.FILES else ""
            given = {key: dice.choice(PATHS)} if key and dice.random() < 0.95 else {}
            args = {"command": dice.choice(("ls", 7))} if tool == "Bash" else {**given, "content": "x"}
            reason = denied_reason(answer_hook(host.said(tool, args), Options()))
            found = "open" if reason is None else "denied" if reason.startswith("E_POLICY_DENIED: ") else "guarded"
            assert reason is None or re.match("E_POLICY_DENIED: |E_TOOL_GUARDED: ", reason), reason
            yield model.standing(lists, tool, args, host.root, host.home), found, f"{tool} {args} {lists}"


def test_the_model_can_be_read_at_once() -> None:
    text = re.sub(r'""".*?"""\n', "", Path(model.__file__).read_text(), flags=re.DOTALL)
    assert sum(bool(line.strip()) for line in text.splitlines()) <= 40


@pytest.mark.part(of=PARTS)
@pytest.mark.parametrize("part", range(PARTS))
def test_nobody_disagrees(part: int, host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: Counter[str] = Counter()
    for number, (wanted, found, told) in enumerate(cases(part, host, monkeypatch)):
        assert found == wanted, f"ORDAIN_SEED={SEED}, part {part}, case {number}: {told}"
        seen[wanted] += 1
    assert seen.total() == WORLDS * CALLS
    assert min(seen[one] for one in ("open", "guarded", "denied")) >= 10, seen


_FOUND_AT = host_tool.found_at


def _as_named(_: str, named: str, *more: Any, **known: Any) -> host_tool.FoundPath:
    return _FOUND_AT(named, named, *more, **known)


def _but_for(name: str) -> Any:
    return lambda path, more=(): name not in path.lower() and is_control(path, more)


MUTANTS: dict[str, tuple[Any, str, Any]] = {
    "what has another name is that": (host_tool, "found_at", _as_named),
    "the settings of the host are anybody's": (host_tool, "is_control", _but_for(".claude")),
    "its servers are anybody's": (host_tool, "is_control", _but_for(".mcp.json")),
    "git's own files are anybody's": (host_tool, "is_control", _but_for(".git")),
    "our own files are anybody's": (host_tool, "is_control", _but_for(".ordain")),
    "our settings are anybody's": (host_tool, "is_control", _but_for("ordain.toml")),
    "our state is anybody's": (claude_hook, "state_places", lambda: ()),
    "every tool is known": (host_tool, "_REACHING", {"CronCreate", "bash", "shell"}),
    "the web only reads": (host_tool, "_IDLE", host_tool._IDLE | {"WebFetch"}),
    "searching stays at the top": (host_tool._ON_FILES, "Grep", host_tool._ON_FILES["Grep"]._replace(deep=False)),
    "one name of several is enough": (host_tool, "_ORDER", tuple(reversed(host_tool._ORDER))),
    "a server that nobody configured is ours": (host_tool, "_SERVERS", "mcp__other"),
}


@pytest.mark.slow("each breach is looked for among thousands of cases")
@pytest.mark.parametrize("mutant", MUTANTS)
def test_a_product_that_breaks_a_rule_is_found(mutant: str, host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    where, name, instead = MUTANTS[mutant]
    (monkeypatch.setitem if isinstance(where, dict) else monkeypatch.setattr)(where, name, instead)
    compared = chain.from_iterable(cases(part, host, monkeypatch) for part in range(PARTS))
    assert any(found != wanted for wanted, found, _ in compared)
