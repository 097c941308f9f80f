"""`ordain diff` and `ordain show --graph`, as they are typed."""

from __future__ import annotations

import json
import os
import stat

import pytest

from tests.interfaces.test_robot import answered, refused
from tests.interfaces.workspace import ASKS, SMALL, Workspace, run_id

FINE, REFUSED = 0, 2
USAGE = 2

CHANGED = SMALL.replace("echo two", "echo three")
TEMPLATE = """\
# Greet

**Params:**
```yaml
who: {type: string, required: true}
```

## Steps

### 1. Say it

**run:** echo "$WHO"
**env:**
```yaml
WHO: ${params.who}
```
"""


# --- diff ------------------------------------------------------------------------------------------------------------


def test_two_documents(workspace: Workspace):
    workspace.write("other.plan.md", CHANGED)
    done = workspace.ordain("diff", "small.plan.md", "other.plan.md")
    assert (done.status, done.err) == (FINE, "")
    first = done.out.index("Read first:")
    assert first < done.out.index("runs a command that was not there") < done.out.index("Steps:")


def test_a_document_alone_is_compared_with_what_was_prepared_from_it_last(workspace: Workspace):
    done = workspace.ordain("diff", "small.plan.md")
    assert (done.status, done.err.splitlines()[-1].strip()) == (REFUSED, "→ ordain prepare small.plan.md")
    workspace.prepared("small.plan.md")
    workspace.write("small.plan.md", CHANGED)
    changed = workspace.prepared("small.plan.md")
    workspace.write("small.plan.md", SMALL)
    data = answered(workspace.ordain("diff", "--json", "small.plan.md"))
    assert data["old"]["plan_id"].startswith(f"plan:{changed}") and not data["same"]
    workspace.prepared("small.plan.md")  # prepared again, it is the last one: compared with the version before
    data = answered(workspace.ordain("diff", "--json", "./small.plan.md"))
    assert data["old"]["plan_id"].startswith(f"plan:{changed}") and not data["same"]


@pytest.mark.slow
def test_stored_plans_by_id_prefix_and_lineage_and_standard_input(workspace: Workspace):
    short = workspace.prepared("small.plan.md")
    lineage = answered(workspace.ordain("show", "--json", short))["lineage"]
    for name in (short, f"sha256:{short}", lineage, lineage[:9]):
        data = answered(workspace.ordain("diff", "--json", name, "-", stdin=CHANGED.encode()))
        assert (data["old"]["lineage"], data["new"]["document"]) == (lineage, "standard input")
        assert answered(workspace.ordain("diff", "--json", name, "small.plan.md"))["same"]
    # A file cannot stand in for a stored plan by bearing its name.
    workspace.write(short, CHANGED)
    assert answered(workspace.ordain("diff", "--json", short, "small.plan.md"))["same"]


@pytest.mark.parametrize(
    "arguments", [["-", "-"], ["-"], ["PLAN-AAAA"], [], ["--param", "a=b", "00000000", "11111111"]]
)
def test_what_cannot_be_compared_is_a_mistake_of_use(workspace: Workspace, arguments: list[str]):
    done = workspace.ordain("diff", *arguments)
    assert (done.status, done.out) == (USAGE, "") and "Error:" in done.err


def test_a_document_without_a_plan_is_refused(workspace: Workspace):
    workspace.write("bad.plan.md", "# Nothing\n")
    refused(workspace.ordain("diff", "--json", "small.plan.md", "bad.plan.md"), "E_PLAN_NO_STEPS")


def test_nothing_is_written_by_looking(workspace: Workspace):
    before = sorted(os.listdir(workspace.path))
    workspace.ordain("diff", "small.plan.md", "asks.plan.md")
    workspace.ordain("diff", "small.plan.md")
    workspace.ordain("show", "--graph", "small.plan.md")
    assert sorted(os.listdir(workspace.path)) == before
    assert answered(workspace.ordain("status", "--json"))["plans"] == []


def test_templates_are_compared_as_they_stand_and_filled_in_with_stored_plans(workspace: Workspace):
    workspace.write("greet.plan.md", TEMPLATE)
    workspace.write("other.plan.md", TEMPLATE.replace("echo", "printf"))
    data = answered(workspace.ordain("diff", "--json", "greet.plan.md", "other.plan.md"))
    assert [concern["kind"] for concern in data["concerns"]] == ["command_changed"]
    assert workspace.ordain("prepare", "greet.plan.md", "--param", "who=Kim").status == FINE
    assert answered(workspace.ordain("diff", "--json", "greet.plan.md", "--param", "who=Kim"))["same"]
    assert not answered(workspace.ordain("diff", "--json", "greet.plan.md", "--param", "who=Lee"))["same"]


# --- show --graph ----------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_the_graph_of_a_document_a_plan_and_a_run(workspace: Workspace):
    done = workspace.ordain("show", "--graph", "asks.plan.md")
    assert (done.status, done.out.splitlines()[2:]) == (
        FINE,
        [
            "  ○   1. fetch           echo tried >> effects; test -f wanted",
            "  ○   2. rest   after 1  echo rest >> effects",
        ],
    )
    run, _ = workspace.started("asks.plan.md")
    plan = answered(workspace.ordain("show", "--json", run))["plan_id"]
    for name in (run, plan):
        shown = workspace.ordain("show", "--graph", name).out
        assert run_id(shown) == run
        assert (
            "  !   1. fetch           escalated echo tried" in shown
            and "  ○   2. rest   after 1  pending   echo rest" in shown
        )
    assert workspace.ordain("show", "--graph", "small.plan.md").out.count("○") == 2


@pytest.mark.slow
def test_the_graph_as_json(workspace: Workspace):
    run, _ = workspace.started("asks.plan.md")
    data = answered(workspace.ordain("show", "--graph", "--json", run))
    assert (data["run_id"], data["written"], data["waves"]) == (run, None, [["fetch"], ["rest"]])
    assert [(one["id"], one["state"]) for one in data["steps"]] == [("fetch", "escalated"), ("rest", "pending")]


def test_the_picture_is_written_whole_to_a_file(workspace: Workspace):
    target = workspace.path / "plan.mmd"
    assert workspace.ordain("show", "--graph", "-o", "plan.mmd", "small.plan.md").status == FINE
    first = target.read_text()
    assert first.splitlines()[3:6] == [
        "flowchart TD",
        '  s1["1 #183; echo#45;one#45;effects<br>echo one #62;#62; effects"]',
        '  s2["2 #183; echo#45;two#45;effects<br>echo two #62;#62; effects"]',
    ]
    target.chmod(0o600)
    data = answered(workspace.ordain("show", "--graph", "--json", "-o", "plan.mmd", "asks.plan.md"))
    assert (data["written"], target.read_text() != first) == ("plan.mmd", True)
    assert stat.S_IMODE(target.stat().st_mode) == 0o600
    assert [name for name in os.listdir(workspace.path) if name.startswith(".")] == [".ordain"]


def test_only_regular_files_are_replaced(workspace: Workspace):
    elsewhere = workspace.write("elsewhere", "mine")
    (workspace.path / "link.mmd").symlink_to(elsewhere)
    (workspace.path / "dangling.mmd").symlink_to("nowhere")
    (workspace.path / "folder.mmd").mkdir()
    os.mkfifo(workspace.path / "pipe.mmd")
    for name in ("link.mmd", "dangling.mmd", "folder.mmd", "pipe.mmd", "/dev/null", "none/such.mmd", "elsewhere/x"):
        refused(workspace.ordain("show", "--graph", "--json", "-o", name, "small.plan.md"), "E_OUTPUT")
    assert elsewhere.read_text() == "mine"
    assert (workspace.path / "link.mmd").is_symlink() and not (workspace.path / "nowhere").exists()


def test_a_file_is_written_only_with_graph(workspace: Workspace):
    done = workspace.ordain("show", "-o", "plan.mmd", "small.plan.md")
    assert (done.status, (workspace.path / "plan.mmd").exists()) == (USAGE, False)


def test_a_document_with_errors_has_no_picture(workspace: Workspace):
    workspace.write("bad.plan.md", ASKS.replace("### 2. Rest\n", "### 2. Rest\n\n**needs:** nobody\n"))
    refused(workspace.ordain("show", "--graph", "--json", "-o", "x.mmd", "bad.plan.md"), "E_STEP_UNKNOWN_NEED")
    assert not (workspace.path / "x.mmd").exists()


def test_an_approver_first_reads_what_changed_since_the_last_approval(workspace: Workspace) -> None:
    """T20: the difference to what was approved before comes before the plan itself."""
    check = "**contract:** grep -x x made\n"
    first = f"# Make\n\n## Steps\n\n### 1. Make it\n\n**id:** make\n**run:** echo x > made\n{check}"
    (workspace.path / "make.plan.md").write_text(first)
    assert workspace.at_terminal("run", "make.plan.md", answers=[("Type yes", "yes")]).status == 0
    assert "approved last" not in workspace.ordain("prepare", "make.plan.md").out  # the very same plan
    (workspace.path / "make.plan.md").write_text(first.replace(check, ""))
    shown = workspace.ordain("prepare", "make.plan.md")
    assert shown.status == 0
    since = shown.out.index("approved last")
    assert since < shown.out.index("`make` has no contract any more.", since)
    assert "→ ordain diff" in shown.out
    value = json.loads(workspace.ordain("prepare", "make.plan.md", "--json").out)["data"]["since"]
    assert value["concerns"][0] == "`make` has no contract any more."


def test_a_long_title_is_shown_whole_to_who_judges_the_plan_and_nowhere_else(workspace: Workspace) -> None:
    title = f"{'T' * 150_000}END"
    workspace.write("long.plan.md", f"# {title}\n\n1. `true`\n")
    plan = workspace.prepared("long.plan.md")
    boards = ("list", "status", "inbox", "robot list", "robot status", "robot inbox")
    shown = [workspace.ordain(*words.split()).out for words in boards]
    assert title in workspace.ordain("show", plan).out
    workspace.approve(plan)
    run, done = workspace.started("long.plan.md")
    shown += [done.out, workspace.ordain("show", run).out, workspace.ordain("watch", run).out]
    for text in shown:
        assert "T" * 199 in text and "T" * 200 not in text and len(text) < 5_000
