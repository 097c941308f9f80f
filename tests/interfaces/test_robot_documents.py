"""The contract with robots: every verb has a twin in robot mode, a schema, and golden documents that fit it."""

from __future__ import annotations

import json
import os
import select
import shlex
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path

import click
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.interfaces.documents import GOLDEN, check_document, check_event, golden_name
from tests.interfaces.terminal import ORDAIN, Background, is_asleep, without_terminal
from tests.interfaces.test_locks import trusted
from tests.interfaces.test_robot import answered, envelope, refused
from tests.interfaces.workspace import SMALL, Workspace, run_id
from tests.patience import eventually
from tests.words import RESULTS, main, schema_name, verbs_in

FINE, FAILED, REFUSED, WAITING, INTERRUPTED = 0, 1, 2, 3, 130


def verbs() -> dict[str, click.Command]:
    """Every verb that can be typed."""
    root = click.Context(main, info_name="ordain")
    return {found.command_path.removeprefix("ordain "): found.command for found in verbs_in(root)}


@pytest.mark.part(of=6)
@pytest.mark.parametrize("verb", verbs())
def test_every_verb_has_a_twin_a_schema_and_a_golden_document(verb: str, workspace: Workspace):
    about = answered(workspace.ordain("robot", *verb.split(), "--help"))
    assert (about["name"], about["schema"]) == (verb, schema_name(verb))
    assert about["usage"].startswith(f"ordain {verb} ") and f"Example: ordain {verb}" in about["help"]
    schema = json.loads(workspace.ordain("schema", *schema_name(verb).split()).out)
    assert schema["properties"]["data"] == {"type": "null"} if about["person"] else schema["$defs"]
    assert any(case.startswith(f"{golden_name(verb)}.") for case in CASES)


def test_there_is_no_result_of_a_verb_that_is_not_there():
    assert set(RESULTS) == set(verbs())


def test_there_is_no_golden_document_of_nothing():
    cases = [*CASES, "commit.interrupted"]
    assert {file.name for file in GOLDEN.iterdir()} == {f"{case.rstrip('.')}.json" for case in cases}


def test_the_names_of_schemas(workspace: Workspace):
    names = answered(workspace.ordain("robot", "schema", "--list"))["schemas"]
    assert names == ["plan", "envelope", "event", *map(schema_name, RESULTS)]
    assert workspace.ordain("schema", "--list").out.splitlines() == names
    assert json.loads(workspace.ordain("schema").out) == json.loads(workspace.ordain("schema", "plan").out)
    document = refused(workspace.ordain("robot", "schema", "audit", "verfy"), "E_SCHEMA_UNKNOWN")
    assert "Did you mean `audit verify`?" in document["error"]["remediation"]
    assert document["next"] == ["ordain schema --list"]


def test_the_workspace_may_be_named_after_robot_too(workspace: Workspace, tmp_path: Path) -> None:
    short = workspace.prepared("small.plan.md")
    for words in (["-C", str(workspace.path)], [f"--workspace={workspace.path}"], ["--json", f"-C{workspace.path}"]):
        done = without_terminal("robot", *words, "show", short, cwd=tmp_path)
        assert answered(done)["plan"]["title"] == "Make two lines"
    refused(without_terminal("robot", "-C", "nowhere", "list", cwd=tmp_path), "E_USAGE")
    refused(without_terminal("robot", "-C", cwd=tmp_path), "E_USAGE")


# --- Golden documents ------------------------------------------------------------------------------------------------


def nothing(workspace: Workspace) -> str:
    return ""


def asking(workspace: Workspace) -> str:
    """A run that asks about its first step."""
    return workspace.started("asks.plan.md")[0]


def failed(workspace: Workspace) -> str:
    return workspace.started("fails.plan.md")[0]


def approved_again(workspace: Workspace) -> str:
    """A run that failed, and what would let it pass; its plan is approved once more."""
    workspace.write("again.plan.md", "# Again\n\n1. `test -f good`\n")
    run, _ = workspace.started("again.plan.md")
    workspace.write("good", "")
    workspace.approved("again.plan.md")
    return run


def rejected(workspace: Workspace) -> str:
    short = workspace.prepared("small.plan.md")
    assert workspace.ordain("reject", short, "-m", "Test first.").status == FINE
    return short


def ended(workspace: Workspace) -> str:
    short = workspace.prepared("small.plan.md")
    assert workspace.ordain("cancel", short).status == FINE
    return short


def edited(workspace: Workspace) -> str:
    """A plan whose document says something else by now."""
    short = workspace.prepared("small.plan.md")
    workspace.write("small.plan.md", SMALL.replace("echo two", "echo three"))
    return short


def waiting(workspace: Workspace) -> str:
    """A run that was ended while it waited for a signal."""
    action = "{type: wait_for, condition: {type: external, key: built}, timeout_ms: 60000}"
    workspace.write("built.plan.yaml", f"title: Wait\nsteps:\n  - id: built\n    action: {action}\n")
    with Background("commit", workspace.approved("built.plan.yaml"), cwd=workspace.path) as run:
        run.expect_said("waits for the signal `built`")
        os.kill(run.pid, signal.SIGKILL)
        run.end()
    return ""


def staffed(workspace: Workspace) -> str:
    workspace.write(
        "ordain.toml",
        '[run]\nagent = "coder"\nagent_for = { review = "critic" }\n'
        '[agents.coder]\ncommand = ["cat"]\nmodel = "small"\ndescription = "Edits code."\nnetwork = true\n'
        '[agents.critic]\nhuman = true\n[agents.gone]\ncommand = ["no-such-agent"]\n',
    )
    assert workspace.at_terminal("trust", answers=[("Type yes", "yes")]).status == FINE
    workspace.write("ordain.toml", '[agents.coder]\ncommand = ["cat", "-v"]\n')
    return ""


def tasked(workspace: Workspace) -> str:
    """A plan that gives a task to an agent."""
    staffed(workspace)
    workspace.write("task.plan.md", "# Think\n\n**Budget:** max 10k tokens\n\n1. Review the code\n")
    return workspace.prepared("task.plan.md")


def configured(workspace: Workspace) -> str:
    workspace.write("ordain.toml", "[run]\nconcurrency = 2\n")
    return ""


def prepared(workspace: Workspace) -> str:
    return workspace.prepared("small.plan.md")


def posted(workspace: Workspace) -> str:
    for text in ("The client waits 60 s.", "So does the proxy."):
        assert workspace.ordain("topic", "auth", "-m", text).status == FINE
    return ""


TASKS = """\
# Say hello

**Budget:** max 200k tokens

## Steps

### 1. Greet

**agent:** greeter
**reads:**
- file:small.plan.md
**task:** Greet everybody.
**contract:** grep -q hello said
"""


def greeted(workspace: Workspace) -> str:
    """A run with a task that an agent did."""
    workspace.write("task.plan.md", TASKS)
    trusted(workspace, '[agents.greeter]\ncommand = ["sh", "-c", "echo hello > said"]\n')
    return workspace.started("task.plan.md")[0]


CASES: dict[str, tuple[int, str, Callable[[Workspace], str]]] = {
    "run.": (FINE, "run look.plan.md", nothing),
    "run.waits": (WAITING, "run small.plan.md", nothing),
    "lint.": (FINE, "lint small.plan.md", nothing),
    "lint.many": (REFUSED, "lint warns.plan.md missing.plan.md", nothing),
    "show.document": (FINE, "show small.plan.md", nothing),
    "show.plan": (FINE, "show IT", rejected),
    "show.run": (FINE, "show IT", failed),
    "show.question": (FINE, "show IT/fetch", asking),
    "show.brief": (FINE, "show IT --brief fetch", asking),
    "show.arbiter": (FINE, "show IT --arbiter", tasked),
    "show.task": (FINE, "show IT", tasked),
    "show.output": (FINE, "show IT --output echo-broken-pipe-in-the-cellar-exit-7", failed),
    "show.graph": (FINE, "show IT --graph", failed),
    "show.mermaid": (FINE, "show small.plan.md --graph -o -", nothing),
    "show.prompt": (FINE, "show task.plan.md --prompt greet", greeted),
    "show.told": (FINE, "show IT --prompt greet --attempt 1", greeted),
    "prepare.": (FINE, "prepare small.plan.md", nothing),
    "prepare.open": (FINE, "prepare look.plan.md", nothing),
    "approve.": (WAITING, "approve IT --start", prepared),
    "approve.unknown": (REFUSED, "approve 4f2a9c01b7de", nothing),
    "commit.": (FINE, "commit IT", lambda workspace: workspace.approved("small.plan.md")),
    "commit.failed": (FAILED, "commit IT", lambda workspace: workspace.approved("fails.plan.md")),
    "commit.waits": (WAITING, "commit IT", lambda workspace: workspace.approved("asks.plan.md")),
    "commit.detached": (FINE, "commit IT --detach", lambda workspace: workspace.approved("waits.plan.md")),
    "status.": (FINE, "status", asking),
    "inbox.": (FINE, "inbox", asking),
    "answer.": (WAITING, "answer IT/fetch pass", asking),
    "answer.open": (WAITING, "answer IT/fetch", asking),
    "resume.": (WAITING, "resume IT", asking),
    "list.": (FINE, "list", rejected),
    "revise.": (FINE, "revise IT", edited),
    "reject.": (FINE, "reject IT -m 'Test first.'", prepared),
    "cancel.plan": (FINE, "cancel IT", prepared),
    "cancel.run": (FINE, "cancel IT -m 'No longer needed.'", asking),
    "archive.": (FINE, "archive IT", ended),
    "diff.": (FINE, "diff IT small.plan.md", edited),
    "plan.": (REFUSED, "plan 'Raise the version.'", nothing),
    "replan.": (REFUSED, "replan IT", asking),
    "simulate.": (FINE, "simulate small.plan.md", nothing),
    "new.": (FINE, "new upgrade-dependency --param package=httpx --param from=0.27.2 --param version=0.28.1", nothing),
    "compose.": (FINE, "compose small.plan.md fails.plan.md", nothing),
    "new.list": (FINE, "new", nothing),
    "fmt.": (FINE, "fmt small.plan.md", nothing),
    "fmt.check": (FINE, "fmt --check small.plan.md", nothing),
    "schema.": (FINE, "schema envelope", nothing),
    "schema.names": (FINE, "schema --list", nothing),
    "watch.": (WAITING, "watch IT", asking),
    "stop.": (FINE, "stop -m 'Something is wrong.'", prepared),
    "stop.lift": (WAITING, "stop --lift", prepared),
    "pause.": (FINE, "pause IT", asking),
    "signal.": (FINE, "signal built", waiting),
    "rerun.": (FINE, "rerun IT", approved_again),
    "rerun.refused": (REFUSED, "rerun IT", failed),
    "stats.": (FINE, "stats IT", approved_again),
    "log.": (FINE, "log IT", failed),
    "log.contract": (FINE, "log IT", lambda workspace: workspace.started("contract.plan.md")[0]),
    "log.plan": (FINE, "log small.plan.md", lambda workspace: workspace.started("small.plan.md")[0]),
    "log.workspace": (FINE, "log", prepared),
    "init.": (FINE, "init", nothing),
    "config.": (FINE, "config", configured),
    "tools.": (FINE, "tools", configured),
    "agents.": (FINE, "agents", staffed),
    "topic.": (FINE, "topic", posted),
    "topic.messages": (FINE, "topic auth -n 1", posted),
    "topic.posted": (FINE, "topic auth -m 'It is 30 s by now.'", posted),
    "topic.unknown": (REFUSED, "topic aut", posted),
    "trust.": (WAITING, "trust", configured),
    "revoke.": (FINE, "revoke IT", lambda workspace: workspace.approved("small.plan.md")),
    "approver-enroll.": (WAITING, "approver enroll kim", nothing),
    "approver-list.": (FINE, "approver list", nothing),
    "approver-revoke.": (WAITING, "approver revoke kim", nothing),
    "audit-verify.": (FINE, "audit verify", failed),
    "audit-export.": (FINE, "audit export -o copy.jsonl", prepared),
    "audit-backup.": (FINE, "audit backup copy.db", prepared),
    "audit-restore.": (WAITING, "audit restore small.plan.md", nothing),
    "audit-rebuild.": (FINE, "audit rebuild", failed),
    "explain.": (FINE, "explain E_PATH", nothing),
    "explain.word": (FINE, "explain contract", nothing),
    "completion.": (FINE, "completion bash", nothing),
    "mcp-token.": (FINE, "mcp token list", nothing),
    "guard-check.": (FINE, "guard check git push --force", nothing),
    "guard-report.": (FINE, "guard report", nothing),
    "mcp-token.add": (REFUSED, "mcp token add laptop", nothing),
    "guard-hook.": (FINE, "guard hook claude-code", nothing),
    "guard-init.": (WAITING, "guard init", nothing),
    "guard-install.": (WAITING, "guard install claude-code", nothing),
    "skill.": (FINE, "skill -o SKILL.md", nothing),
    "robot.": (FINE, "", nothing),
    "robot.help": (FINE, "audit verify --help", nothing),
    "robot.unknown": (REFUSED, "prepar small.plan.md", nothing),
}
"""The exit status and what is typed after `ordain robot` in a workspace of its own, once that was made ready: IT is
what was made. By the verb and the case."""


FIRST = {name.partition(".")[0]: name for name in reversed(CASES)}
"""The first case of every verb: those of a quarter of the verbs are quick."""


@pytest.mark.part(of=4)
@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[] if name in FIRST.values() else [pytest.mark.slow]) for name in CASES]
)
def test_documents(name: str, workspace: Workspace):
    status, typed, make = CASES[name]
    begins, _, case = name.partition(".")
    verb = next(verb for verb in RESULTS if golden_name(verb) == begins)
    done = workspace.ordain("robot", *shlex.split(typed.replace("IT", make(workspace))))
    assert (done.status, done.err) == (status, ""), done
    *events, last = done.out.splitlines(keepends=True)
    for event in events:
        check_event(event)
    assert not events or verb in ("run", "watch")
    envelope(last)
    if case == "detached":
        workspace.write("go", "")
        assert workspace.ordain("watch", run_id(last)).status == FINE
    check_document(verb, case, last, workspace.path)


@pytest.mark.slow
def test_what_a_step_writes_meanwhile_is_an_event_too(workspace: Workspace):
    workspace.write("says.plan.md", "# Say\n\n1. `echo half; until test -f go; do sleep 0.02; done`\n")
    run = answered(workspace.ordain("robot", "commit", "--detach", workspace.approved("says.plan.md")))["run_id"]
    with Background("robot", "watch", run, cwd=workspace.path) as watching:
        watching.expect_printed('"tail":"half')
        workspace.write("go", "")
        *events, last = watching.end().out.splitlines()
    for event in events:
        check_event(event)
    assert "attempt_output" in {json.loads(event)["type"] for event in events}
    assert json.loads(last)["data"]["status"] == "success"


ASKS_FOR_WORDS = """\
title: Ask
steps:
  - id: name
    action: {type: ask, question: What is it called?}
"""


def test_what_comes_next_holds_nothing_to_be_filled_in(workspace: Workspace):
    """Pasted as it is, `ordain answer RUN/STEP TEXT` would answer with the word TEXT."""
    workspace.write("ask.plan.yaml", ASKS_FOR_WORDS)
    run, _ = workspace.started("ask.plan.yaml")
    for words in (["inbox"], ["status"], ["show", run], ["show", f"{run}/name"], ["resume", run]):
        following = envelope(workspace.ordain("robot", *words).out)["next"]
        assert (following[0], "TEXT" in " ".join(following)) == (f"ordain answer {run}/name", False), words
    following = envelope(workspace.ordain("robot", "inbox", "--all").out)["next"]
    assert following[0] == f"ordain -C {workspace.path} answer {run}/name"


# --- One form, however it is asked for -------------------------------------------------------------------------------

LOOKING = ["lint small.plan.md", "show small.plan.md --verbose", "list", "approver list", "explain E_PATH", "trust"]


@pytest.mark.parametrize("typed", LOOKING)
def test_robot_is_the_verb_with_json(typed: str, workspace: Workspace):
    words = typed.split()
    told = [workspace.ordain(*one) for one in (["robot", *words], [*words, "--json"], ["robot", "robot", *words])]
    documents = [json.loads(done.out) | {"elapsed_ms": 0} for done in told]
    assert documents[0] == documents[1] == documents[2]
    assert len({(done.status, done.err) for done in told}) == 1


def test_json_robot(workspace: Workspace):
    told = answered(workspace.ordain("robot"))["verbs"]
    assert [verb["name"] for verb in told] == list(verbs())
    people = [verb["name"] for verb in told if verb["person"]]
    approving = ["approve", "answer", "trust", "approver enroll", "approver revoke", "audit restore"]
    assert people == approving
    assert all(set(verb) == {"name", "line", "usage", "person", "schema"} for verb in told)
    inside = answered(workspace.ordain("robot", "audit"))["verbs"]
    assert {verb["name"] for verb in inside} == {verb["name"] for verb in told if verb["name"].startswith("audit ")}


WRONG = {
    "robot prepar x": "Did you mean `prepare`?",
    "robot lint": "Missing argument",
    "robot lint --stric x": "--strict",
    "robot audit verfy": "verify",
    "robot show small.plan.md --param x": "not written NAME=VALUE",
    "robot show --output x small.plan.md": "--output is for a step of a run",
    "robot reject 4f2a9c01b7de --comment x": "STEP=TEXT",
    "-C nowhere robot status": "does not exist",
    "-C nowhere status --json": "does not exist",
    "status --json --nonsense": "--nonsense",
    "lint --format json": "Missing argument",
    "lint --format=json": "Missing argument",
    "audit --json verify": "--json",
    "nonsense --json": "There is no command",
    "robot --version": "There is no command",
    "robot audit export": "say where to with -o",
}


@pytest.mark.parametrize("typed", WRONG)
def test_what_is_typed_wrong_is_told_in_the_envelope(typed: str, workspace: Workspace):
    document = refused(workspace.ordain(*typed.split()), "E_USAGE")
    assert WRONG[typed] in document["error"]["message"]
    assert document["error"]["remediation"].startswith("Usage: ordain ")
    (command,) = document["next"]
    assert workspace.ordain(*command.split()[1:]).status == FINE


def test_without_json_people_get_words(workspace: Workspace):
    done = workspace.ordain("lint", "--", "--json", "--format=json")
    assert (done.status, done.out) == (REFUSED, "") or "E_DOC_NOT_FOUND" in done.out
    done = workspace.ordain("lint")
    assert (done.status, done.out, "Usage: ordain lint" in done.err) == (REFUSED, "", True)


# --- Whatever is typed -----------------------------------------------------------------------------------------------

WORDS = st.one_of(
    st.sampled_from([word for verb in verbs() for word in verb.split()]),
    st.sampled_from(["small.plan.md", "-", "--", "-m", "-o", "--param", "a=b", "--help", "-h", "--json", "--format"]),
    st.sampled_from(["toon", "RUN-AAAA", "RUN-AAAA/x", "4f2a9c01b7de", "--graph", "--output", "--list", "--since"]),
    st.sampled_from(["a" * 300, os.fsdecode(b"\xff\xfe"), ".", "/"]),
    st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=300),
)


@given(words=st.lists(WORDS, max_size=6))
def test_whatever_is_typed_there_is_one_document(words: list[str], tmp_path_factory: pytest.TempPathFactory):
    workspace = Workspace(tmp_path_factory.mktemp("workspace"))
    done = workspace.ordain("robot", *words)
    assert done.status in (FINE, FAILED, REFUSED, WAITING, INTERRUPTED), done
    *events, last = done.out.splitlines(keepends=True)
    envelope(last)
    assert (done.err, [json.loads(event) for event in events if "version" in json.loads(event)]) == ("", [])


@pytest.mark.part(of=5)
@pytest.mark.parametrize("typed", ["robot lint small.plan.md", "robot nonsense", "robot", "watch --json", "--help"])
def test_where_nobody_reads_the_status_says_so(typed: str, workspace: Workspace):
    reading, writing = os.pipe()
    os.close(reading)
    done = subprocess.run(
        [*ORDAIN, *typed.split()], cwd=workspace.path, stdout=writing, stderr=subprocess.PIPE, check=False
    )
    os.close(writing)
    assert (done.returncode, done.stderr) == (141, b"")


# --- Told to end -----------------------------------------------------------------------------------------------------


@pytest.mark.part(of=3)
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_run_that_is_told_to_stop_says_how_it_goes_on(number: signal.Signals, workspace: Workspace):
    with Background("robot", "commit", workspace.approved("waits.plan.md"), cwd=workspace.path) as run:
        eventually((workspace.path / "pid").exists, "the step")
        os.kill(run.pid, number)
        run.expect_said("stopping when")
        workspace.write("go", "")
        done = run.end()
    assert done.status == INTERRUPTED
    document = envelope(done.out)
    name = document["data"]["run_id"]
    assert (document["error"]["code"], document["next"]) == ("E_INTERRUPTED", [f"ordain resume {name}"])
    assert document["data"]["status"] == "stopped"
    check_document("commit", "interrupted", done.out, workspace.path)
    assert workspace.ordain("resume").status == FINE


def test_told_twice_it_ends_at_once_and_says_what_looks_at_it(workspace: Workspace):
    with Background("robot", "commit", workspace.approved("waits.plan.md"), cwd=workspace.path) as run:
        eventually((workspace.path / "pid").exists, "the step")
        os.kill(run.pid, signal.SIGTERM)
        run.expect_said("stopping when")
        os.kill(run.pid, signal.SIGTERM)
        done = run.end()
    document = envelope(done.out)
    assert (done.status, document["error"]["code"], document["data"]) == (INTERRUPTED, "E_INTERRUPTED", None)
    assert document["next"] == [f"ordain resume {run_id(workspace.ordain('status').out)}"]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
@pytest.mark.parametrize("words", [["robot"], []])
def test_a_verb_that_only_reads_can_be_told_too(number: signal.Signals, words: list[str], workspace: Workspace):
    """Standard input that never ends keeps it waiting, outside of any run."""
    reading, writing = os.pipe()
    with Background(*words, "lint", "-", cwd=workspace.path, stdin=reading) as command:
        os.write(writing, b"x")
        eventually(lambda: not select.select([reading], [], [], 0)[0] and is_asleep(command.pid), "it to wait for more")
        os.kill(command.pid, number)
        done = command.end()
    os.close(reading)
    os.close(writing)
    assert done.status == INTERRUPTED
    if words:
        assert (envelope(done.out)["error"]["code"], done.err) == ("E_INTERRUPTED", "")
    else:
        assert (done.out, done.err) == ("", "interrupted\n")


@pytest.mark.part(of=3)
@pytest.mark.parametrize("closed", ["0", "1", "2"])
def test_a_stream_that_was_closed_before_keeps_no_command_from_its_work(workspace: Workspace, closed: str):
    plan = workspace.approved("small.plan.md")
    line = f"exec {closed}>&-; {shlex.join(ORDAIN)} robot commit {plan}"
    done = subprocess.run(["bash", "-c", line], cwd=workspace.path, capture_output=True, check=False)
    assert (done.returncode, done.stderr) == (FINE, b"")
    assert bool(done.stdout) is (closed != "1")
    assert workspace.effects() == ["one", "two"]


@pytest.mark.parametrize("option", ["-m", "--comment"])
def test_a_text_to_be_recorded_that_is_not_utf_8_is_refused(workspace: Workspace, option: str):
    plan = workspace.prepared("small.plan.md")
    refused(workspace.ordain("robot", "reject", plan, option, "one=no \udcff"), "E_USAGE")


def test_events_hold_no_secret_that_is_known_by_now(workspace: Workspace):
    workspace.write("say.plan.md", "# Say it\n\n1. `echo it was sesame-street-42`\n")
    run, _ = workspace.started("say.plan.md")
    assert "sesame-street-42" in workspace.ordain("robot", "watch", run).out
    done = workspace.ordain("robot", "watch", run, env={"DOOR_TOKEN": "sesame-street-42"})
    assert done.status == FINE and len(done.out.splitlines()) > 2 and "it was" in done.out
    assert "sesame-street-42" not in done.out
