"""`ordain new`: a document of a template and values; nothing is stored, nothing is overwritten, nothing breaks out."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from tests.interfaces.typed_session import sessions, typed
from tests.interfaces.workspace import Workspace
from tests.words import open_workspace, read

PAGE = (Path(__file__).parents[2] / "docs/templates.md").read_text()
SHOWN = PAGE.partition("$ cat plans/templates/greet.plan.md\n")[2].partition("$ ordain")[0].replace("~~~", "```")
GREET = SHOWN + "\n## Risks\n\n- They may not be in.\n"
BUILT_IN = {
    "fix-bug": {"bug": "It is 5 % too slow", "test": "tests/test_slow.py"},
    "migrate-sqlite": {"database": "app.db", "script": "m/1.sql", "check": "SELECT 1"},
    "release-python-package": {"package": "httpx", "from": "1.1.0", "version": "1.2.0"},
    "restart-service": {"service": "web.service", "symptom": "it's slow", "url": "http://127.0.0.1:1/"},
    "upgrade-dependency": {"package": "httpx", "from": "0.27.2", "version": "0.28.1"},
}


@pytest.fixture
def templates(workspace: Workspace) -> Workspace:
    folder = workspace.path / "plans" / "templates"
    folder.mkdir(parents=True)
    (folder / "greet.plan.md").write_text(GREET)
    return workspace


def test_a_document_is_written_run_and_verified(templates: Workspace) -> None:
    who = 'Kim "$(touch broken)" & Co; \''
    done = templates.ordain("new", "greet", "--param", f"who={who}", "-o", "out/greet.plan.md")
    assert done.status == 0 and "ordain run out/greet.plan.md" in done.out
    text = (templates.path / "out" / "greet.plan.md").read_text()
    assert text.startswith(f"# Greet {who}\n") and "Params" not in text and "They may not be in." in text
    ran = templates.at_terminal("run", "out/greet.plan.md", answers=[("Type", "yes")])
    assert ran.status == 0
    assert (templates.path / "greeting").read_text() == f"hello {who}\n" * 2
    assert not (templates.path / "broken").exists()


def test_what_is_printed_is_what_is_written_and_reads_in_every_notation(templates: Workspace) -> None:
    printed = templates.ordain("new", "greet", "--param", "who=Kim")
    assert templates.ordain("new", "greet", "--param", "who=Kim", "-o", "a.md").status == 0
    assert (templates.path / "a.md").read_text() == printed.out
    ids = {plan_id_of(templates, "who=Kim", "--to", notation) for notation in ("markdown", "yaml", "json")}
    assert len(ids) == 1


def plan_id_of(workspace: Workspace, *params: str) -> str:
    found = json.loads(workspace.ordain("robot", "new", "greet", "--param", *params).out)["data"]
    again = read(found["text"].encode())
    assert again.plan is not None and len(again.plan.steps) == found["steps"]
    return str(found["plan_id"])


def test_every_wrong_missing_and_unknown_parameter_is_told_at_once(templates: Workspace) -> None:
    done = templates.ordain("new", "greet", "--param", "times=often", "--param", "whom=Kim", "-o", "a.md")
    assert done.status == 2 and done.err.count("E_PARAM") == 3
    assert all(word in done.err for word in ("`times`", "`whom`", "`who`", "Whom to greet", "Did you mean `who`?"))
    assert not (templates.path / "a.md").exists()
    twice = templates.ordain("new", "greet", "--param", "who=a", "--param", "who=b", "--param", "times=x")
    assert twice.err.count("E_PARAM") == 2 and "2 times" in twice.err


@pytest.mark.parametrize("value", ["a\x1b[2Jb", "a\x00b", "a\u202eb", "two\nlines", "${hello.output}"])
def test_a_value_that_can_stand_in_no_plan_is_refused(templates: Workspace, value: str) -> None:
    app = open_workspace(templates.path, exact=True)
    with pytest.raises(Exception, match="E_PARAM"):
        app.templates.new("greet", [("who", value)])


def test_nothing_is_overwritten_unless_that_was_asked_for(templates: Workspace) -> None:
    (templates.path / "mine.md").write_text("mine")
    refused = templates.ordain("new", "greet", "--param", "who=Kim", "-o", "mine.md")
    assert refused.status == 2 and "E_OUTPUT" in refused.err
    assert (templates.path / "mine.md").read_text() == "mine"
    assert templates.ordain("new", "greet", "--param", "who=Kim", "-o", "mine.md", "--force").status == 0
    assert (templates.path / "mine.md").read_text().startswith("# Greet Kim")


def test_the_workspaces_template_comes_before_the_users_and_ours(templates: Workspace, tmp_path: Path) -> None:
    user = tmp_path / "config" / "ordain" / "templates"
    user.mkdir(parents=True)
    (user / "greet.md").write_text("# Greet as the user does\n\n1. `echo hi`\n")
    (user / "fix-bug.yaml").write_text("title: Mine\nsteps: [{action: {type: run, command: echo mine}}]\n")
    env = {"XDG_CONFIG_HOME": str(tmp_path / "config")}
    listed = json.loads(templates.ordain("robot", "new", env=env).out)["data"]["templates"]
    found = [(one["name"], one["source"], one["hidden"]) for one in listed]
    assert found[:4] == [
        ("greet", "workspace", False),
        ("fix-bug", "user", False),
        ("greet", "user", True),
        ("fix-bug", "built-in", True),
    ]
    made = json.loads(templates.ordain("robot", "new", "fix-bug", env=env).out)["data"]
    assert made["title"] == "Mine" and made["notation"] == "yaml"


def test_the_list_has_every_parameter_and_what_cannot_be_used(templates: Workspace) -> None:
    folder = templates.path / "plans" / "templates"
    (folder / "broken.md").write_text("# Broken\n")
    (folder / "link.md").symlink_to("/etc/passwd")
    (folder / "large.md").write_text("x" * (1 << 20) + "x")
    done = templates.ordain("new")
    assert done.status == 0 and "link" not in done.out
    assert "--param who= (wanted): Whom to greet" in done.out and "(integer, default 2)" in done.out
    assert "E_PLAN_NO_STEPS" in done.out and "E_TEMPLATE" in done.out
    assert templates.ordain("new", "large").status == 2
    broken = templates.ordain("new", "broken")
    assert broken.status == 2 and "plans/templates/broken.md:1" in broken.err


def test_a_template_that_is_not_there_is_named_with_those_that_are(templates: Workspace) -> None:
    done = templates.ordain("new", "gret")
    assert done.status == 2 and "E_TEMPLATE_UNKNOWN" in done.err and "`greet`" in done.err
    for name in ("../greet", "/etc/passwd", "plans/templates/greet", "a\x1b[2J"):
        assert "E_TEMPLATE_UNKNOWN" in templates.ordain("new", name).err


def test_a_parameter_in_a_text_is_for_templates_only(templates: Workspace) -> None:
    params = "**Agent:** x\n**Params:**\n```yaml\np: {type: string, default: a}\n```\n"
    templates.write("t.md", f"# T\n\n{params}\n## Steps\n\n### 1. A\n\n**task:** Do ${{params.p}}\n")
    refused = templates.ordain("lint", "t.md")
    assert (
        refused.status == 2 and "E_REF_PLACE" in refused.err + refused.out and "ordain new" in refused.err + refused.out
    )


@pytest.mark.parametrize("name", sorted(BUILT_IN))
def test_what_comes_with_ordain_lints_without_a_warning_about_itself(workspace: Workspace, name: str) -> None:
    (workspace.path / "m").mkdir()
    workspace.write("m/1.sql", "SELECT 1;")
    workspace.write("ordain.toml", '[run]\nagent = "coder"\n\n[agents.coder]\ncommand = ["true"]\n')
    assert workspace.at_terminal("trust", answers=[("Type", "yes")]).status == 0
    app = open_workspace(workspace.path, exact=True)
    made, problems = app.templates.new(name, [*BUILT_IN[name].items()])
    expected = {"W_PROTECT_NOTHING", "W_PROGRAM_MISSING"}
    assert [one for one in problems if one.code not in expected] == []
    assert "${params" not in made.text


def test_every_template_that_comes_with_ordain_is_tried_above(workspace: Workspace) -> None:
    app = open_workspace(workspace.path, exact=True)
    assert {one.name for one in app.templates.all().templates if one.source == "built-in"} == BUILT_IN.keys()


def test_the_session_of_the_page_goes_as_it_is_shown(templates: Workspace) -> None:
    (templates.path / "plans/templates/greet.plan.md").write_text(SHOWN)
    new, compose = sessions(PAGE)
    typed(new, templates.path)
    for name, text in re.findall(r"^\$ cat (\S+)\n(.*?)(?=^\$ )", compose, re.DOTALL | re.MULTILINE):
        templates.write(name, text)
    typed(compose, templates.path)


def test_composed_documents_run_one_after_the_other(templates: Workspace) -> None:
    templates.write("two.md", "# Two\n\n1. `grep -x one effects`\n2. `echo two >> effects`\n")
    templates.write("one.md", "# One\n\n1. `echo one >> effects`\n\n## Notes\n\nA note.\n")
    done = templates.ordain("compose", "one.md", "second=two.md", "-o", "all.md", "--title", "All")
    assert done.status == 0 and "3 steps" in done.out
    text = (templates.path / "all.md").read_text()
    assert text.startswith("# All\n") and "A note." in text and "second-echo-two-effects" in text
    assert templates.at_terminal("run", "all.md", answers=[("Type", "yes")]).status == 0
    assert templates.effects() == ["one", "two"]
    assert templates.ordain("compose", "one.md", "two.md", "-o", "all.md").status == 2
    assert templates.ordain("compose", "one.md").status == 2
    broken = templates.ordain("compose", "one.md", "-", "-o", "new.md", stdin=b"# Nothing\n")
    assert broken.status == 2 and "E_PLAN_NO_STEPS" in broken.err and not (templates.path / "new.md").exists()


def test_the_page_names_every_template_that_comes_with_ordain() -> None:
    table = PAGE.partition("| Template |")[2].partition("\n\n")[0]
    assert re.findall(r"^\| `([a-z-]+)` \|", table, re.MULTILINE) == sorted(BUILT_IN)
