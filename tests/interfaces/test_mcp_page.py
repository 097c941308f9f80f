"""docs/mcp.md tells the truth: its tables name what the server offers, and its session goes as it says."""

from __future__ import annotations

import asyncio
import json
import os
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from mcp import StdioServerParameters
from mcp.client.client import Client
from mcp.client.stdio import stdio_client

from tests.interfaces import terminal
from tests.words import PLAN_SURFACE, open_workspace, to_wire

PAGE = (Path(__file__).parents[2] / "docs/mcp.md").read_text()
SESSION = PAGE.partition("\n## A session\n")[2]
RUN = re.compile(r"RUN-[A-Z2-7]{16}")


def test_the_tables_name_everything_there_is() -> None:
    def first_cells(heading: str) -> list[str]:
        section = PAGE.partition(f"\n### {heading}\n")[2].partition("\n##")[0]
        return re.findall(r"^\| `([^`]+)` \|", section, re.MULTILINE)

    assert first_cells("Tools") == [tool.name for tool in PLAN_SURFACE.tools]
    assert first_cells("Resources") == [template.uri for template in PLAN_SURFACE.templates]
    assert first_cells("Prompts") == [prompt.name for prompt in PLAN_SURFACE.prompts]
    for prompt in PLAN_SURFACE.prompts:
        arguments = ", ".join(f"`{one.name}`" for one in prompt.arguments)
        assert re.search(rf"^\| `{prompt.name}` \| {arguments} ?\|", PAGE, re.MULTILINE), prompt.name


@pytest.mark.slow
def test_the_session_goes_as_it_is_told(tmp_path: Path) -> None:
    (tmp_path / "greeting.txt").write_text("hello\n")
    asyncio.run(_session(tmp_path))
    assert (tmp_path / "greeting.txt").read_text() == "bonjour\n"


def _blocks() -> Iterator[tuple[str, str, str]]:
    """What is told of the session, in order: its kind, which tool, and the text."""
    for info, text in re.findall(r"^```(\S[^\n]*)\n(.*?)^```$", SESSION, re.DOTALL | re.MULTILINE):
        kind, _, tool = info.removeprefix("json ").partition(" ")
        yield kind, tool, text


async def _session(workspace: Path) -> None:
    server = StdioServerParameters(
        command=sys.executable, args=["-m", "ordain", "-C", str(workspace), "mcp"], env=dict(os.environ)
    )
    answer: Any = None
    run = ""
    async with Client(stdio_client(server)) as client:
        for kind, tool, text in _blocks():
            match kind:
                case "call":
                    arguments = json.loads(RUN.sub(run, text))
                    result = await client.call_tool(tool, arguments)
                    answer = result.structured_content
                    assert result.is_error is not answer["ok"]
                    run = (answer["data"] or {}).get("run_id", run)
                case "answer":
                    told = RUN.sub(run, text).replace("/home/kim/hello", str(workspace))
                    assert _told(json.loads(told), answer), answer
                case "console":
                    await asyncio.to_thread(_person, workspace, text)
                case "event":
                    (refusal,) = open_workspace(workspace).refusals.newest()
                    assert _told(json.loads(text), to_wire(refusal)), refusal
                case _:
                    raise AssertionError(f"nobody knows what a block of {kind} is")


def _person(workspace: Path, text: str) -> None:
    """Type a command at a terminal, and compare all lines that are told of it, in order."""
    command, *lines = text.splitlines()
    _, name, *args = command.split()
    assert name == "ordain"
    done = terminal.at_terminal(*args, cwd=workspace, answers=[("Type yes: ", "yes\n")], env={"NO_COLOR": "1"})
    assert done.status == 0
    shown = iter(done.out.splitlines())
    for line in lines:
        assert line.strip() == "…" or line in shown, f"{line} is not in, or not there in, {done.out}"


def _told(page: Any, real: Any) -> bool:
    """Whether everything that the page tells is so. Keys may be left out, items of a list may not."""
    match page:
        case dict():
            return isinstance(real, dict) and all(key in real and _told(page[key], real[key]) for key in page)
        case list():
            return isinstance(real, list) and len(page) == len(real) and all(map(_told, page, real))
        case _:
            return bool(page == real)
