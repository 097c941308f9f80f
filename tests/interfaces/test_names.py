"""Names that people guess, words that are explained, ids that may be left out, and what a shell completes."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import click
import pytest

from tests.interfaces.test_robot import answered, refused
from tests.interfaces.workspace import Workspace
from tests.patience import PATIENCE_S
from tests.words import FINE, REFUSED, SHELLS, SYNONYMS, TAKES, data_text, glossary, glossary_entry, main, plain_text


def completed(*words: str, cwd: Path, env: dict[str, str] | None = None) -> list[str]:
    """What a shell is offered for the last of these words."""
    line = [sys.executable, "-m", "ordain", "__complete", *words]
    done = subprocess.run(
        line, cwd=cwd, env={**os.environ, **(env or {})}, capture_output=True, text=True, timeout=PATIENCE_S, check=True
    )
    assert done.stderr == ""
    return done.stdout.split("\n")[:-1]


def test_other_names_of_commands_do_what_the_commands_do(workspace: Workspace) -> None:
    assert SYNONYMS == {"apply": "run", "validate": "lint"}
    assert workspace.ordain("validate", "small.plan.md") == workspace.ordain("lint", "small.plan.md")
    for words in (["validate", "--json", "small.plan.md"], ["robot", "validate", "small.plan.md"]):
        assert answered(workspace.ordain(*words))["steps"] == 2
    done = workspace.at_terminal("apply", "small.plan.md", answers=[("Type yes", "yes")])
    assert (done.status, workspace.effects()) == (FINE, ["one", "two"])


def test_help_is_a_command_too(workspace: Workspace) -> None:
    for words, same in (
        (["help"], ["--help"]),
        (["help", "lint"], ["lint", "--help"]),
        (["help", "apply"], ["run", "--help"]),
        (["help", "guard", "report"], ["guard", "report", "--help"]),
        (["robot", "help"], ["robot"]),
        (["robot", "help", "lint"], ["robot", "lint", "--help"]),
    ):
        done, wanted = workspace.ordain(*words), workspace.ordain(*same)
        assert (done.status, timeless(done.out)) == (FINE, timeless(wanted.out)), words
    assert "`apply` is `run`" in " ".join(workspace.ordain("help").out.split())


def timeless(text: str) -> str:
    return re.sub(r'"elapsed_ms":\d+', "", text)


def test_a_word_that_is_no_command_gets_the_one_that_was_meant(workspace: Workspace) -> None:
    for words, meant in (
        (["propose", "x"], "prepare"),
        (["ls"], "list"),
        (["aply", "x"], "apply"),
        (["hlep"], "help"),
        (["audit", "verfy"], "verify"),
        (["guard", "instal"], "install"),
        (["approver", "lst"], "list"),
    ):
        done = workspace.ordain(*words)
        assert (done.status, f"Did you mean `{meant}`?" in done.err) == (REFUSED, True), words
    assert "`prepare`" in refused(workspace.ordain("robot", "propose"), "E_USAGE")["error"]["message"]


def test_explain_knows_words_as_well_as_codes(workspace: Workspace) -> None:
    done = workspace.ordain("explain", "contract")
    assert (done.status, done.out.startswith("contract: the command that the harness runs")) == (FINE, True)
    for words in (["in", "doubt"], ["Effect-Class"], ["runs"], ["effect class"], ["doubts"]):
        assert workspace.ordain("explain", *words).status == FINE, words
    data = answered(workspace.ordain("robot", "explain", "doubt"))
    assert (set(data), data["words"]) == ({"words", "means"}, ["doubt", "in doubt"])
    done = workspace.ordain("explain", "contrakt")
    assert (done.status, "Did you mean `contract`?" in done.err) == (REFUSED, True)


def test_every_word_is_explained_in_plain_text() -> None:
    for entry in glossary():
        assert all(glossary_entry(word.upper()) == entry for word in entry.words)
        assert not set("*[]") & set(plain_text(entry.means)), entry.words
    assert plain_text("see ([the guard](guard.md#x))") == "see (the guard: docs/guard.md)"


# --- Ids that may be left out ----------------------------------------------------------------------------------------


def test_where_only_one_thing_can_be_meant_no_id_is_needed(workspace: Workspace) -> None:
    for verb in ("approve", "commit"):
        at_terminal = workspace.at_terminal(verb)
        assert (at_terminal.status, "E_PLAN_NOT_FOUND" in at_terminal.out) == (REFUSED, True)
    assert refused(workspace.ordain("robot", "show"), "E_PLAN_NOT_FOUND")
    short = workspace.prepared("small.plan.md")
    assert f"plan:{short}" in workspace.ordain("show").out
    assert refused(workspace.ordain("robot", "commit"), "E_PLAN_NOT_FOUND"), "it is not approved yet"
    assert workspace.at_terminal("approve", answers=[("Type yes", "yes")]).status == FINE
    done = workspace.ordain("commit")
    assert (done.status, workspace.effects()) == (FINE, ["one", "two"])
    assert answered(workspace.ordain("robot", "show"))["run_id"] in done.out


def test_where_several_things_can_be_meant_their_commands_are_listed(workspace: Workspace) -> None:
    plans = [workspace.prepared(name) for name in ("small.plan.md", "fails.plan.md")]
    for verb in ("approve", "show"):
        done = workspace.at_terminal(verb)
        assert (done.status, "E_PLAN_AMBIGUOUS" in done.out) == (REFUSED, True)
        assert all(f"ordain {verb} {plan}" in done.out for plan in plans)
    workspace.approve(plans[1])
    assert "exit 7" in workspace.ordain("robot", "commit").out, "only one of them is approved"


# --- Completion ------------------------------------------------------------------------------------------------------


def test_json_completion(workspace: Workspace) -> None:
    for shell in SHELLS:
        script = data_text(f"completion/{shell}")
        assert answered(workspace.ordain("completion", shell, "--json")) == {"shell": shell, "script": script}
        assert workspace.ordain("completion", shell).out == script
    assert workspace.ordain("completion", "tcsh").status == REFUSED


@pytest.mark.slow
def test_a_shell_is_offered_commands_options_and_words(workspace: Workspace) -> None:
    at = workspace.path
    assert completed("ap", cwd=at) == ["approve", "approver", "apply"]
    assert completed("help", "li", cwd=at) == completed("robot", "li", cwd=at) == ["lint", "list"]
    assert completed("audit", "ve", cwd=at) == ["verify"]
    assert completed("lint", "--st", cwd=at) == ["--strict"]
    assert completed("guard", "report", "--js", cwd=at) == ["--json"]
    assert completed("explain", "E_CONTRACT_VAC", cwd=at) == ["E_CONTRACT_VACUOUS"]
    assert completed("completion", "", cwd=at) == list(SHELLS)


def test_a_shell_is_offered_documents_plans_runs_and_steps(workspace: Workspace) -> None:
    run, _ = workspace.started("fails.plan.md")
    short, at = workspace.prepared("small.plan.md"), workspace.path
    (at / "deep").mkdir()
    workspace.write("deep/inner.plan.md", "# T\n")
    workspace.write("touch $(pasted).md", "# T\n")
    assert {"deep/", "small.plan.md"} <= set(completed("validate", "", cwd=at))
    assert completed("lint", "deep/", cwd=at) == ["deep/inner.plan.md"]
    assert completed("approve", short[:4], cwd=at) == [short]
    assert completed("-C", str(at), "approve", short[:4], cwd=Path("/")) == [short]
    assert run in completed("resume", "", cwd=at)
    items = completed("answer", f"{run}/", cwd=at)
    assert len(items) == 3 and all(item.startswith(f"{run}/") for item in items)
    assert not [one for one in completed("lint", "touch", cwd=at) if "$" in one], "a name is never more than a word"


def test_completion_makes_nothing_and_is_silent_whatever_is_there(workspace: Workspace, tmp_path: Path) -> None:
    home = tmp_path / "state"
    assert completed("approve", "", cwd=workspace.path, env={"ORDAIN_HOME": str(home)}) == []
    assert not home.exists()
    workspace.prepared("small.plan.md")
    ledgers = list(Path(os.environ["ORDAIN_HOME"]).rglob("ledger.db*"))
    before = {path: path.read_bytes() for path in ledgers}
    assert len(completed("approve", "", cwd=workspace.path)) == 1
    assert {path: path.read_bytes() for path in Path(os.environ["ORDAIN_HOME"]).rglob("ledger.db*")} == before
    for path in ledgers:
        path.write_bytes(b"not a ledger")
    assert completed("approve", "", cwd=workspace.path) == []


def test_what_a_command_takes_is_what_its_help_says() -> None:
    context = click.Context(main)
    words = {"document": ("DOCUMENT",), "plan": ("PLAN",), "run": ("RUN",), "item": ("RUN/STEP",)}
    assert isinstance(main, click.Group)
    for name in main.list_commands(context):
        command = main.get_command(context, name)
        assert command is not None
        usage = " ".join(one.make_metavar(context) for one in command.params if isinstance(one, click.Argument))
        usage = usage.replace("OLD", "DOCUMENT|PLAN")
        said = {kind for kind, (word,) in words.items() if re.search(rf"(?<![\w/]){word}(?![\w/])", usage)}
        if not isinstance(command, click.Group):
            assert said == set(TAKES.get(name, ())), name


@pytest.mark.parametrize("modules", ["asyncio ordain.app ordain.engine ordain.adapters.process"])
def test_completing_loads_neither_the_engine_nor_the_verbs(modules: str) -> None:
    program = (
        "import sys; from ordain.interfaces.cli.completion import complete; complete(['approve', 'x'])\n"
        f"print([name for name in sys.modules if name.startswith(tuple({modules.split()!r}))])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=PATIENCE_S)
    assert done.stdout == "[]\n", done


def test_bash_completes_a_plan(workspace: Workspace) -> None:
    short = workspace.prepared("small.plan.md")
    program = (
        f'ordain() {{ "{sys.executable}" -m ordain "$@"; }}\n{data_text("completion/bash")}\n'
        f"COMP_WORDS=(ordain approve {short[:3]}) COMP_CWORD=2\n_ordain\n"
        'printf "%s\\n" "${COMPREPLY[@]}"'
    )
    done = subprocess.run(
        ["bash", "-c", program], cwd=workspace.path, capture_output=True, text=True, timeout=PATIENCE_S
    )
    assert (done.stdout, done.stderr) == (f"{short}\n", "")


def test_the_glossary_is_the_generated_one() -> None:
    page = (Path(__file__).parents[2] / "docs" / "glossary.md").read_text()
    rows = [f"| **{', '.join(entry.words)}** | {entry.means} |" for entry in glossary()]
    assert [line for line in page.split("\n") if line.startswith("| **")] == rows, "run `make docs`"
