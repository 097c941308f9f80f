"""`ordain guard report`: what people and robots are told of calls outside of plans."""

from __future__ import annotations

import asyncio
import os
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.core.test_watch import NOON, reported, seen
from tests.interfaces.golden import RENDER, check_golden
from tests.interfaces.test_robot import answered
from tests.interfaces.workspace import Workspace
from tests.words import (
    BUILT_IN,
    Call,
    Channel,
    EffectClass,
    Principal,
    Seen,
    Settings,
    Style,
    ToolDefinition,
    open_at_terminal,
    watch_lines,
)

PLAIN, COLOUR = Style(False), Style(True)
DAY = 86_400_000
SEND = ToolDefinition(name="mail:send", description="Send", effect=EffectClass.OPAQUE, schema={"type": "object"})


def calls(path: Path, *made: tuple[str, dict[str, Any]], agent: str = "assistant") -> None:
    """Let an agent make calls where they are seen."""

    async def life() -> None:
        app = open_at_terminal(path, exact=True)
        who = Seen(by=Principal(name=agent, channel=Channel.MCP), agent=agent, through="gateway", session="1")
        for tool, args in made:
            definition = SEND if tool == SEND.name else BUILT_IN.get(tool)
            await app.guard.meet(Call(tool=tool, args=args, definition=definition), who)
        await app.close()

    asyncio.run(life())


def everything() -> Any:
    """A report in which every part has something to say."""
    mail = [
        seen(
            "mail:send",
            f'{{"to": "kim@example.com", "n": {n}}}',
            at=NOON - n * DAY // 9,
            session=str(n % 4),
            destructive=True,
        )
        for n in range(40)
    ]
    look = [seen("crm:list_people", at=NOON - n * DAY, agent="claude\x1b[2J", refused=True) for n in range(6)]
    put = [seen("db:put", f'{{"table": "{"logs" if n else "people"}"}}', effect="repeatable") for n in range(9)]
    unknown = [seen("nobody", agent="codex", effect="", destructive=True)]
    return reported(*mail, *look, *put, *unknown, in_plans={"db:put": 2})


def test_every_part_is_told() -> None:
    check_golden("guard-report.txt", watch_lines(everything(), PLAIN, 80), under=RENDER.parent / "watch")


@given(st.integers(20, 200))
def test_it_fits_the_terminal_but_for_what_is_to_be_copied(width: int) -> None:
    lines = list(watch_lines(everything(), PLAIN, width))
    assert all(len(line) <= max(width, 73) for line in lines)
    assert not any("\x1b" in line for line in lines)


def test_colour_changes_no_word() -> None:
    plain = "\n".join(watch_lines(everything(), PLAIN, 80))
    assert re.sub(r"\x1b\[[0-9;]*m", "", "\n".join(watch_lines(everything(), COLOUR, 80))) == plain


def test_json_guard(workspace: Workspace) -> None:
    data = answered(workspace.ordain("guard", "report", "--json"))
    assert (data["calls"], data["tools"], data["suggestions"], data["mode"]) == (0, [], [], "observe")
    workspace.approved("small.plan.md")
    calls(workspace.path, *[("mail:send", {"to": "kim@example.com"})] * 5, ("read_file", {"path": "a"}))
    calls(workspace.path, ("shell", {"command": "ls"}), ("make_dir", {"path": "d"}), agent="other")
    data = answered(workspace.ordain("robot", "guard", "report"))
    assert (data["calls"], data["refused"], data["would_be"], data["incomplete"]) == (7, 0, 7, False)
    assert {one["tool"]: one["calls"] for one in data["tools"]} == {"mail:send": 5, "shell": 1, "make_dir": 1}
    assert data["tools"][0]["examples"] == ['{"to": "kim@example.com"}']
    assert {one["agent"]: one["calls"] for one in data["agents"]} == {"assistant": 5, "other": 2}
    assert [(one["kind"], one["entry"]) for one in data["suggestions"]] == [
        ("path", "path:d"),
        ("open", "shell:reads"),
    ]
    assert [(one["program"], one["risk"]) for one in data["programs"]] == [("ls", "reads")]
    assert {one["tool"] for one in data["unsuggested"]} == {"mail:send", "shell"}
    assert {one["tool"]: one["plans"] for one in data["tools"]} == {"mail:send": 0, "shell": 1, "make_dir": 0}
    one = answered(workspace.ordain("guard", "report", "--json", "--agent", "other", "--since", "1d"))
    assert (one["calls"], {tool["tool"] for tool in one["tools"]}) == (2, {"shell", "make_dir"})
    one = answered(workspace.ordain("guard", "report", "--json", "--tool", "mail"))
    assert [tool["tool"] for tool in one["tools"]] == ["mail:send"]


def test_before_anything_was_seen_it_says_how_to_begin(workspace: Workspace) -> None:
    done = workspace.ordain("guard", "report")
    assert done.status == 0
    assert "No guarded call was seen" in done.out
    assert "ordain guard install claude-code" in done.out
    assert "ordain mcp --gateway" in done.out


def test_it_says_that_notes_are_missing(workspace: Workspace) -> None:
    calls(workspace.path, ("mail:send", {}))
    (log,) = Path(os.environ["ORDAIN_HOME"]).rglob("guard/*.jsonl")
    log.with_suffix(".full").touch()
    assert "Some calls are missing here" in workspace.ordain("guard", "report").out


def test_what_was_refused_is_in_the_log_and_the_inbox_too(workspace: Workspace) -> None:
    workspace.write("ordain.toml", '[guard]\nmode = "enforce"\n')
    app = open_at_terminal(workspace.path, exact=True)

    async def trust() -> None:
        await app.approvals.trust(app.approvals.configuration()[1], Principal(name="kim", channel=Channel.TERMINAL))
        await app.close()

    asyncio.run(trust())
    calls(workspace.path, ("mail:send", {"to": "kim@example.com"}))
    assert "1 refused" in workspace.ordain("guard", "report").out
    log = workspace.ordain("log", "--refused").out
    assert "E_TOOL_GUARDED" in log
    assert "mail:send" in log
    assert "ordain log --refused" in workspace.ordain("inbox").out


def test_what_was_not_seen_is_told_from_nothing_seen(workspace: Workspace) -> None:
    calls(workspace.path, ("mail:send", {}), agent="helper")
    for option in ("--agent", "--tool"):
        done = workspace.ordain("guard", "report", option, "nobody")
        assert done.status == 0
        assert "No such guarded call was seen" in done.out
        assert "agents: helper\n  tools: mail:send\n" in done.out


def test_no_more_is_asked_for_than_is_kept(workspace: Workspace) -> None:
    done = workspace.ordain("guard", "report", "--since", "91d")
    assert (done.status, "Only 90 days are kept" in done.err) == (2, True)
    assert workspace.ordain("guard", "report", "--since", "90d").status == 0


def test_calls_are_judged_by_the_rules_of_today(workspace: Workspace) -> None:
    calls(workspace.path, *[("mail:send", {"to": "kim@example.com"})] * 3, ("mail:send", {"to": "eve@example.org"}))
    rules = "[rules.ours]\ntools = ['mail:send']\nwhere = { to = '*@example.com' }\n"
    workspace.write("ordain.toml", f"[guard]\nopen = ['rule:ours']\n{rules}[tools.mail]\nmcp = ['mail']\n")
    assert workspace.at_terminal("trust", answers=[("Type yes", "yes")]).status == 0
    data = answered(workspace.ordain("guard", "report", "--json"))
    assert (data["calls"], data["would_be"], data["open_now"]) == (4, 1, 3)
    assert "3 open by the rules of today" in workspace.ordain("guard", "report").out


def test_a_duration_that_is_none_is_refused(workspace: Workspace) -> None:
    done = workspace.ordain("guard", "report", "--since", "yesterday")
    assert done.status == 2
    assert "is not a duration" in done.err


@pytest.mark.parametrize("mode", ["observe", "enforce"])
def test_it_says_whether_rules_are_enforced(mode: str) -> None:
    told = "\n".join(watch_lines(reported(seen("a"), settings=Settings(guard_mode=mode)), PLAIN, 80))
    assert ("are enforced" in told) is (mode == "enforce")
