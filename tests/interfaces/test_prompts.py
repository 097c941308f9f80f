"""`ordain show --prompt`: what an agent would be told, and exactly what one was told."""

from __future__ import annotations

import asyncio
import json
import os
import re
from pathlib import Path
from typing import Any

import pytest

from ordain.core.run.topic import PER_HOUR
from tests.interfaces.test_locks import trusted
from tests.interfaces.test_robot import answered, refused
from tests.interfaces.workspace import KIM, Workspace
from tests.words import (
    FILES_MAX,
    MESSAGE_BYTES_MAX,
    MESSAGES_MAX,
    PARTS,
    READ_BYTES_MAX,
    READS_BYTES_MAX,
    TOPICS_MAX,
    Refused,
    open_at_terminal,
    read_settings,
    sha256,
)

FINE, FAILED, REFUSED = 0, 1, 2
AGENT = '[agents.coder]\ncommand = ["sh", "-c", "cat > told.$(ls | grep -c told)"]\n'
PLAN = """\
# Mend it

**Budget:** max 200k tokens

## Steps

### 1. List

**run:** echo one two

### 2. Mend

**agent:** coder
**reads:**
- file:notes.txt
- step:list
**task:** Mend it.
**contract:** echo no is no; test -f told.1
**on_fail:** retry(1)

### 3. Deploy

**action:**
```yaml
type: nested_plan
plan:
  title: Inner
  steps:
    - id: tell
      action: {type: task, agent: coder, task: Tell everybody.}
```
"""


@pytest.fixture
def mending(workspace: Workspace) -> Workspace:
    trusted(workspace, AGENT)
    workspace.write("mend.plan.md", PLAN)
    workspace.write("notes.txt", "a note\n")
    return workspace


def test_of_a_repeated_task_each_item_is_told_and_before_that_it_is_not_known(mending: Workspace):
    each = '**for_each:** {in: "${list.output}", max: 3, as: word}\n**agent:** coder\n**task:** Say it.'
    mending.write(
        "each.plan.md", f"# Each\n\n## Steps\n\n### 1. List\n\n**run:** echo one two\n\n### 2. Say\n\n{each}\n"
    )
    before = mending.ordain("show", "each.plan.md", "--prompt", "say").out
    assert "## `item` (which item it is for is not known before it begins)\n" in before
    run, _ = mending.started("each.plan.md")
    told = mending.ordain("show", run, "--prompt", "say[0]")
    assert "## `word` (item 1 of 1)\n\n```\none two\n```\n" in told.out and "# Your step: Say\n" in told.out


@pytest.mark.slow
def test_what_was_told_is_what_the_agent_got(mending: Workspace):
    before = mending.ordain("show", "mend.plan.md", "--prompt", "mend")
    assert "(its result is not known before it has run)" in before.out and "attempt 2" not in before.out
    assert before.err == "What coder would be told now; what is read may be other by then:\n"
    run, done = mending.started("mend.plan.md")
    assert done.status == FINE, done
    first, second = ((mending.path / f"told.{number}").read_text() for number in (0, 1))
    assert mending.ordain("show", run, "--prompt", "mend", "--attempt", "1").out == first
    assert "a note" in first and "one two" in first and "What went wrong" not in first
    told = mending.ordain("show", run, "--prompt", "mend")
    assert (told.out, told.err) == (second, f"What coder was told in attempt 2 of {run}:\n")
    assert "This is attempt 2." in second and "```\nno is no\n```" in second
    # What was told stays what it was, whatever becomes of what was read.
    mending.write("notes.txt", "another\n")
    assert mending.ordain("show", run, "--prompt", "mend").out == second
    assert "another" in mending.ordain("show", "mend.plan.md", "--prompt", "mend").out
    inner = mending.ordain("show", run, "--prompt", "deploy/tell").out
    assert (
        inner
        == (mending.path / "told.2").read_text()
        == mending.ordain("show", PLAN_FILE, "--prompt", "deploy/tell").out
    )
    assert mending.ordain("audit", "verify").status == FINE


PLAN_FILE = "mend.plan.md"


def test_what_has_no_prompt_is_refused(mending: Workspace):
    refused(mending.ordain("show", "--json", PLAN_FILE, "--prompt", "list"), "E_PROMPT")
    unknown = refused(mending.ordain("show", "--json", PLAN_FILE, "--prompt", "mnd"), "E_STEP_UNKNOWN")
    assert "Did you mean `mend`?" in json.dumps(unknown)
    refused(mending.ordain("show", "--json", PLAN_FILE, "--prompt", "mend/x"), "E_STEP_UNKNOWN")
    run, _ = mending.started(PLAN_FILE)
    refused(mending.ordain("show", "--json", run, "--prompt", "list"), "E_PROMPT")
    late = refused(mending.ordain("show", "--json", run, "--prompt", "mend", "--attempt", "7"), "E_PROMPT")
    assert "Told in: attempt 1, 2." in json.dumps(late)
    refused(mending.ordain("show", "--json", run, "--prompt", "nobody"), "E_STEP_UNKNOWN")
    for words in (["--attempt", "1"], ["--prompt", "mend", "--graph"], ["--prompt", "mend", "--brief", "mend"]):
        refused(mending.ordain("show", "--json", run, *words), "E_USAGE")
    refused(mending.ordain("show", "--json", PLAN_FILE, "--prompt", "mend", "--attempt", "1"), "E_USAGE")


@pytest.mark.slow
def test_what_is_missing_starts_no_agent_and_is_told_beforehand(mending: Workspace):
    plan = mending.approved(PLAN_FILE)
    (mending.path / "notes.txt").unlink()
    shown = answered(mending.ordain("show", "--json", plan, "--prompt", "mend"))
    assert shown["missing"] == ["`notes.txt` is not there"]
    mending.write("notes.txt", "a note\n")
    mending.write("mend.plan.md", PLAN.replace("echo one two", "rm notes.txt").replace("retry(1)", "abort"))
    run, done = mending.started(PLAN_FILE)
    assert done.status == FAILED and "what it reads cannot be handed over: `notes.txt` is not there" in done.out
    assert answered(mending.ordain("show", "--json", run))["steps"][1]["error"] == "F_READ_MISSING"
    assert not list(mending.path.glob("told.*"))
    refused(mending.ordain("show", "--json", run, "--prompt", "mend"), "E_PROMPT")


def test_lint_refuses_what_no_agent_can_be_handed(mending: Workspace):
    secret, held = '[secrets]\nfiles = ["', mending.write("creds.txt", "hunter2hunter2\n")
    trusted(mending, f'{secret}{held}"]\n{AGENT}')
    (mending.path / "link.txt").symlink_to("notes.txt")
    (mending.path / "a").mkdir()
    os.mkfifo(mending.path / "pipe")
    os.link(held, mending.path / "other.txt")
    secrets = dict.fromkeys(("creds.txt", "other.txt"), "hold secrets")
    for path, why in {**secrets, "link.txt": "is a link", **dict.fromkeys(("pipe", "a"), "no regular file")}.items():
        plan = PLAN.replace("file:notes.txt", f"file:{path}")
        # A command before could put something else in its place, but never makes a secret of the settings none.
        alone = plan.replace("**run:** echo one two", "**tool:** list_files")
        mending.write(PLAN_FILE, alone)
        found = refused(mending.ordain("lint", "--json", PLAN_FILE), "E_PATH")["problems"]
        (problem,) = [one for one in found if one["code"] == "E_PATH"]
        assert why in problem["detail"], problem
        mending.write(PLAN_FILE, plan)
        assert (mending.ordain("lint", PLAN_FILE).status == REFUSED) is (why == "hold secrets")


def test_nobody_is_asked_to_approve_what_could_not_be_started(mending: Workspace):
    trusted(mending, '[agents.coder]\ncommand = ["no-such-agent-anywhere"]\n')
    refused(mending.ordain("run", "--json", PLAN_FILE), "E_AGENT_START")


def test_a_template_of_ones_own(mending: Workspace):
    trusted(mending, '[run]\nprompt = "All: {{task}}"\n' + AGENT)
    assert mending.ordain("show", PLAN_FILE, "--prompt", "mend").out == "All: Mend it.\n"
    trusted(mending, '[run]\nprompt = "All: {{task}}"\n' + AGENT + 'prompt = "You, {{agent}}: {{task}}"\n')
    assert mending.ordain("show", PLAN_FILE, "--prompt", "mend").out == "You, coder: Mend it.\n"
    run, _ = mending.started(PLAN_FILE)
    assert (mending.path / "told.0").read_text() == "You, coder: Mend it.\n"
    assert mending.ordain("show", run, "--prompt", "mend").out == "You, coder: Mend it.\n"


@pytest.mark.parametrize("template", ["Just do it.", "{{task}} {{weather}}", "{{ task }}"])
def test_a_template_that_cannot_be_filled_in_is_not_trusted(template: str, workspace: Workspace):
    for text in (f'[run]\nprompt = "{template}"\n', f'{AGENT}prompt = "{template}"\n'):
        with pytest.raises(Refused) as raised:
            _trust(workspace, text)
        assert raised.value.problems[0].code == "E_CONFIG"


def _trust(workspace: Workspace, text: str) -> Any:
    file = workspace.write("ordain.toml", text)
    app = open_at_terminal(workspace.path, exact=True)
    try:
        return asyncio.run(app.approvals.trust(sha256(file.read_bytes()), KIM))
    finally:
        asyncio.run(app.close())


EACH = """\
# Each

**Budget:** max 200k tokens

## Steps

### 1. Names

**run:** printf 'one\\ntwo\\n'

### 2. Greet

**for_each:**
```yaml
in: "${names.output}"
max: 5
```
**run:** echo "hello $NAME"
**env:**
```yaml
NAME: "${item}"
```

### 3. Left out

**when:** 1 == 2
**run:** echo never

### 4. Tell

**needs:** greet, left-out
**agent:** coder
**reads:**
- step:greet
- step:left-out
**task:** Tell.
"""


def test_results_of_repeated_and_skipped_steps_are_read(mending: Workspace):
    mending.write("each.plan.md", EACH)
    run, done = mending.started("each.plan.md")
    assert done.status == FINE, done
    told = mending.ordain("show", run, "--prompt", "tell").out
    assert '```\n["hello one", "hello two"]\n```' in told
    assert "## `step:left-out` (was not run, so it gave nothing)" in told


def test_a_step_of_a_nested_plan_reads_its_own_neighbours(mending: Workspace):
    inner = PLAN.replace(
        "- id: tell", "- id: list\n      action: {type: run, command: echo inner}\n    - id: tell"
    ).replace("task: Tell everybody.", "task: Tell everybody., reads: ['step:list']")
    mending.write("mend.plan.md", inner)
    run, done = mending.started("mend.plan.md")
    assert done.status == FINE, done
    assert "```\ninner\n```" in mending.ordain("show", run, "--prompt", "deploy/tell").out


# --- The page --------------------------------------------------------------------------------------------------------

PAGE = (Path(__file__).parents[2] / "docs" / "agents.md").read_text()


def test_the_page_has_every_part_of_a_template():
    told = PAGE.partition("### A template of your own")[2].partition("\n### ")[0]
    assert set(re.findall(r"^\| `\{\{([a-z_]+)\}\}`", told, re.MULTILINE)) == PARTS.keys()
    settings, problems = read_settings(re.findall(r"```toml\n(.*?)```", told, re.DOTALL)[0].encode())
    assert problems == () and "{{task}}" in settings.prompt


def test_the_page_has_the_bounds():
    assert f"{READ_BYTES_MAX >> 10} KiB of each, {READS_BYTES_MAX >> 20} MiB of all" in PAGE
    assert PAGE.count(f"at most {FILES_MAX}") == 2 and FILES_MAX == MESSAGES_MAX
    assert f"a topic takes {PER_HOUR} in an hour and a workspace has {TOPICS_MAX:,} topics" in PAGE
    assert f"message has {MESSAGE_BYTES_MAX >> 10} KiB at most" in PAGE


def test_nothing_that_a_terminal_would_act_on_is_shown(mending: Workspace):
    mending.write("notes.txt", "red \x1b[31m and \u202e back\n")
    shown = mending.ordain("show", PLAN_FILE, "--prompt", "mend").out
    assert "\x1b" not in shown and "\u202e" not in shown and "red ‹U+1B›[31m" in shown


def test_a_prompt_can_be_looked_at_where_there_is_no_ledger_yet(workspace: Workspace):
    workspace.write("talk.plan.md", "# Talk\n\n1. `true`\n2. Say hello.\n")
    shown = workspace.ordain("show", "talk.plan.md", "--prompt", "say-hello")
    assert shown.status == REFUSED and "E_STEP_AGENT" in shown.err
