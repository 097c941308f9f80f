"""docs/robots.md tells the truth: its session is typed, and each document holds what the page shows of it."""

from __future__ import annotations

import fnmatch
import json
import re
from pathlib import Path
from typing import Any

import pytest

from tests.interfaces.terminal import at_terminal
from tests.interfaces.workspace import Workspace
from tests.words import BUG, FAILED, FINE, INTERRUPTED, NOBODY_READS, REFUSED, WAITING

PAGE = (Path(__file__).parents[2] / "docs/robots.md").read_text()


def holds(document: Any, shown: Any) -> bool:
    """Whether a document has all that is shown of it."""
    if isinstance(shown, dict):
        return all(name in document and holds(document[name], inner) for name, inner in shown.items())
    if isinstance(shown, list):
        return len(document) == len(shown) and all(map(holds, document, shown))
    if isinstance(shown, str):
        return fnmatch.fnmatchcase(document, shown.replace("…", "*"))
    return bool(document == shown)


@pytest.mark.slow
def test_the_session_goes_as_it_is_shown(workspace: Workspace):
    (text,) = re.findall(r"^````markdown\n(.*?)^````$", PAGE, re.DOTALL | re.MULTILINE)
    workspace.write("lines.plan.md", text)
    asking, going_on = re.findall(r"^```console\n(.*?)^```$", PAGE, re.DOTALL | re.MULTILINE)
    short = typed(workspace, asking, "")
    said = at_terminal("approve", short, cwd=workspace.path, answers=[("Type yes", "yes")])
    assert said.status == 0, said.out
    typed(workspace, going_on, short)
    assert (workspace.path / "lines").read_text() == "one\ntwo\n"


def typed(workspace: Workspace, session: str, short: str) -> str:
    """Type what follows a `$` and compare; PLAN is the id of the plan, which is known once it was checked."""
    for line, shown in re.findall(r"^\$ ordain (.*)\n(.*)$", session, re.MULTILINE):
        done = workspace.ordain(*line.replace("PLAN", short).split())
        document = json.loads(done.out)
        short = short or document["data"]["plan_id"].removeprefix("plan:")[:12]
        wanted = json.loads(re.sub(r"\bPLAN\b(?!-)", short, shown))
        assert holds(document, wanted), f"{line}: {done.out}"
    return short


def test_every_exit_status_is_in_the_table():
    statuses = {FINE, FAILED, REFUSED, WAITING, BUG, INTERRUPTED, NOBODY_READS}
    table = PAGE.partition("| Exit status |")[2].partition("\n\n")[0]
    assert {int(found) for found in re.findall(r"^\| (\d+) \|", table, re.MULTILINE)} == statuses
