"""docs/planning.md tells the truth: its session is typed and compared, and its settings can be trusted."""

from __future__ import annotations

import json
import re
import shlex
from fnmatch import fnmatchcase
from pathlib import Path

import pytest

from tests.interfaces.workspace import Workspace, approve_command
from tests.model_wire import EVENTS, Answer, answering
from tests.planner.test_over_the_wire import does
from tests.words import read_settings

PAGE = (Path(__file__).parents[2] / "docs/planning.md").read_text()
(SESSION,) = re.findall(r"^```console\n(.*?)^```$", PAGE, re.DOTALL | re.MULTILINE)

PLANNED = """\
# Raise the version to 1.1.0

## Steps

### 1. Raise the version

**id:** raise
**tool:** edit_file
**args:**
```yaml
path: VERSION
old: "1.0.0"
new: "1.1.0"
```
**contract:** grep -Fx 1.1.0 VERSION

### 2. Build the archive

**id:** build
**run:** tar -czf all.tar.gz VERSION
**contract:** tar -tzf all.tar.gz | grep -Fx VERSION
"""


def test_its_settings_are_settings() -> None:
    for text in re.findall(r"^```toml\n(.*?)^```$", PAGE, re.DOTALL | re.MULTILINE):
        assert read_settings(text.replace("NAME", "m").encode())[1] == (), text


def is_shown(shown: list[str], said: list[str]) -> str | None:
    """The first line of what is shown that was not said in this order; `…` stands for any lines, or any text in one."""
    skips = False
    for line in shown:
        if line == "…":
            skips = True
            continue
        while said and not fnmatchcase(said[0].rstrip(), line.replace("[", "[[]").replace("…", "*")):
            if not skips:
                return f"{line!r}, and there was {said[0]!r}"
            said.pop(0)
        if not said:
            return line
        said.pop(0)
        skips = False
    return None


@pytest.mark.slow
def test_the_session_goes_as_it_is_shown(tmp_path: Path) -> None:
    (tmp_path / "VERSION").write_text("1.0.0\n")
    workspace = Workspace(tmp_path)
    looks = [("read_file", json.dumps({"path": "VERSION"}))]
    moves = (
        Answer(events=EVENTS["anthropic"](text="I look at what is there first.\n", calls=looks)),
        does("anthropic", "submit_plan", document=PLANNED.replace("edit_file", "edit_fil")),
        does("anthropic", "submit_plan", document=PLANNED),
        does("anthropic", "submit_plan", document=PLANNED.replace("all.tar.gz", "release.tar.gz")),
    )
    plan = ""
    with answering(*moves) as server:
        workspace.trust(f'[planner]\nmodel = "anthropic:m"\nbase_url = "{server.url}"\n')
        for typed, shown in re.findall(r"^\$ ordain (.*)\n((?:(?!\$ ).*\n)*)", SESSION, re.MULTILINE):
            answers = [("Type yes", "yes")] if typed.startswith("approve") else []
            done = workspace.at_terminal(*shlex.split(re.sub(r"\bPLAN\b(?!-)", plan, typed)), answers=answers)
            assert done.status == 0, done.out
            said = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", done.out)
            plan = approve_command(said)[1] if "→ ordain approve" in shown else plan
            wanted = re.sub(r"\bPLAN\b(?!-)", plan, shown).splitlines()
            missing = is_shown(wanted, said.splitlines())
            assert missing is None, f"{typed}: {missing}\n{said}"
    assert (tmp_path / "VERSION").read_text() == "1.1.0\n" and (tmp_path / "release.tar.gz").exists()
