"""Templates at the command line: values for parameters, and steps made of the files that are there."""

from __future__ import annotations

import json

from tests.interfaces.workspace import Workspace

STAMP = """\
# Stamp files

**Params:**
```yaml
files: {type: list, files: "in/*.txt"}
word: {type: string, required: true, description: What to write}
```

## Steps

### 1. Stamp

**run:** while read -r file; do echo "$WORD" >> "$file"; done <<< "$FILES"
**env:**
- FILES=${item}
- WORD=${params.word}
**for_each:**
```yaml
in: "${params.files}"
max: 10
batch: 2
```
**contract:** while read -r file; do grep -x "$WORD" "$file"; done <<< "$FILES"
"""


def template(workspace: Workspace) -> Workspace:
    (workspace.path / "stamp.plan.md").write_text(STAMP)
    (workspace.path / "in").mkdir()
    for name in ("a", "b", "c d"):
        (workspace.path / "in" / f"{name}.txt").write_text("")
    (workspace.path / "in" / "link.txt").symlink_to("/etc/passwd")
    return workspace


def test_what_was_filled_in_is_shown_approved_and_run(workspace: Workspace) -> None:
    template(workspace)
    word = "hi ${item} $(id)"
    done = workspace.at_terminal("run", "stamp.plan.md", "--param", f"word={word}", answers=[("Type yes", "yes")])
    assert done.status == 0
    assert "Stamp (1 of 2)" in done.out and "in/c d.txt" in done.out
    texts = [(workspace.path / "in" / f"{name}.txt").read_text() for name in ("a", "b", "c d")]
    assert texts == [f"{word}\n"] * 3


def test_a_wanted_value_is_named_with_the_option_that_gives_it(workspace: Workspace) -> None:
    template(workspace)
    done = workspace.ordain("run", "stamp.plan.md")
    assert done.status == 2
    assert "E_PARAM" in done.err and "What to write" in done.err and "--param word=text" in done.err
    assert workspace.ordain("lint", "stamp.plan.md").status == 0  # a template is good as it is
    shown = workspace.ordain("show", "stamp.plan.md")
    assert (shown.status, "--param word=text" in shown.out) == (0, True)
    wrong = workspace.ordain("prepare", "stamp.plan.md", "--param", "wort=x", "--json")
    problems = json.loads(wrong.out)["problems"]
    assert [problem["code"] for problem in problems] == ["E_PARAM", "E_PARAM"]
    assert problems[0]["hints"] == ["Did you mean `word`?"]
    assert workspace.ordain("prepare", "stamp.plan.md", "--param", "word").status == 2


def test_the_same_values_are_the_same_plan_and_others_another(workspace: Workspace) -> None:
    template(workspace)

    def plan_id(*options: str) -> str:
        done = workspace.ordain("lint", "stamp.plan.md", "--json", *options)
        identity: str = json.loads(done.out)["data"]["plan_id"]
        return identity

    one, again, other = (plan_id("--param", f"word={word}") for word in ("x", "x", "y"))
    assert one == again != other
    (workspace.path / "in" / "e.txt").write_text("")
    assert plan_id("--param", "word=x") != one
