"""The hook of Claude Code: what it is answered from the rules in force, and what leaving its plan mode comes to."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from ordain.assemble import quick_guard as quick
from ordain.interfaces.hook import claude as claude_hook
from ordain.interfaces.hook import full
from tests.interfaces.terminal import ORDAIN
from tests.interfaces.test_robot import answered
from tests.interfaces.workspace import KIM, Workspace
from tests.patience import PATIENCE_S, eventually
from tests.rows import each
from tests.words import (
    REASON_MAX,
    STDIN_MAX,
    HookAnswer,
    Instant,
    Options,
    RequestRefused,
    Sighting,
    Stage,
    answer_hook,
    denied_reason,
    open_at_terminal,
)

ENFORCE = '[guard]\nmode = "enforce"\n'
OBSERVE = '[guard]\nmode = "observe"\n'


def asked(workspace: Workspace, tool: str = "Bash", /, **more: Any) -> bytes:
    """What the host says about a call; by default of a command."""
    said = {
        "hook_event_name": "PreToolUse",
        "session_id": "s1",
        "cwd": str(workspace.path),
        "transcript_path": str(workspace.path.parent / "home/.claude/projects/x/s1.jsonl"),
        "permission_mode": "default",
        "tool_name": tool,
        "tool_input": {"command": "ls"},
        "tool_use_id": "toolu_1",
        **more,
    }
    return json.dumps(said).encode()


def reason(data: bytes, **options: Any) -> str | None:
    """Why a call is refused; None where nothing is said. What is done afterwards is done."""
    answer = answer_hook(data, Options(**options))
    if answer.then is not None:
        answer.then()
    return denied_reason(answer)


def sightings(workspace: Workspace) -> list[Sighting]:
    return list(open_at_terminal(workspace.path).ports.sightings.since(Instant(0)))


def refusals(workspace: Workspace) -> list[RequestRefused]:
    app = open_at_terminal(workspace.path)
    found = [one.event for one in app.refusals.newest() if isinstance(one.event, RequestRefused)]
    asyncio.run(app.close())
    return found


# --- What is answered ------------------------------------------------------------------------------------------------


def test_what_is_open_gets_no_answer_at_all(workspace: Workspace) -> None:
    workspace.trust(ENFORCE)
    for tool, args in (
        ("Read", {"file_path": str(workspace.path / "small.plan.md")}),
        ("Grep", {"pattern": "x"}),
        ("TodoWrite", {"todos": []}),
        ("mcp__ordain__plan_propose", {"title": "x"}),
    ):
        assert answer_hook(asked(workspace, tool, tool_input=args), Options()) == HookAnswer()
    assert sightings(workspace) == []


def test_what_is_guarded_is_refused_with_the_way_to_a_plan_noted_and_recorded(workspace: Workspace) -> None:
    workspace.trust(ENFORCE)
    said = reason(asked(workspace))
    assert said is not None and said.startswith("E_TOOL_GUARDED: `shell` is guarded")
    body = json.loads(said[said.index('{"title"') : said.index("\nand give")])
    assert body["steps"][0]["run"] == "ls"
    (noted,) = sightings(workspace)
    assert (noted.tool, noted.refused, noted.session, noted.through) == ("shell", True, "s1", "claude-code")
    (refused,) = refusals(workspace)
    assert (refused.code, refused.by.channel, refused.by.agent, refused.subject) == (
        "E_TOOL_GUARDED",
        "hook",
        "claude-code",
        'shell {"command": "ls"}',
    )


def test_observed_rules_let_everything_through_and_note_it(workspace: Workspace) -> None:
    workspace.trust(OBSERVE)
    assert reason(asked(workspace)) is None
    assert [(one.tool, one.refused) for one in sightings(workspace)] == [("shell", False)]
    assert refusals(workspace) == []


def test_what_policy_denies_no_plan_can_do(workspace: Workspace) -> None:
    workspace.trust(ENFORCE + '[policy]\ndeny = ["shell"]\n')
    said = reason(asked(workspace))
    assert said is not None and "E_POLICY_DENIED" in said and "plan_propose" not in said


def test_what_no_plan_can_hold_is_not_said_to_be_proposed(workspace: Workspace) -> None:
    workspace.trust(ENFORCE)
    for tool, args in (
        ("WebFetch", {"url": "https://example.com"}),
        ("mcp__mail__send", {}),
        ("Write", {"file_path": str(workspace.path / "ordain.toml"), "content": ""}),
    ):
        said = reason(asked(workspace, tool, tool_input=args))
        assert said is not None and "plan_propose" not in said and "No plan holds" in said


def test_secrets_stand_in_no_note_and_long_arguments_in_no_answer(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MAIL_TOKEN", "hunter2-hunter2")
    workspace.trust(ENFORCE + '[tools.far]\nurl = "https://tools.example/mcp?key=hunter3-hunter3"\n')
    command = "curl -H hunter2-hunter2 -H hunter3-hunter3 " + "x" * 100_000
    said = reason(asked(workspace, tool_input={"command": command}))
    assert said is not None and len(said) <= REASON_MAX
    noted = sightings(workspace)[0].about + refusals(workspace)[0].subject
    assert "curl" in noted and "hunter2-hunter2" not in noted and "hunter3-hunter3" not in noted


def test_a_file_that_says_something_else_than_was_trusted_opens_nothing(workspace: Workspace) -> None:
    workspace.trust(ENFORCE + 'open = ["reads", "shell"]\n')
    assert reason(asked(workspace)) is None
    workspace.write("ordain.toml", '[guard]\nmode = "observe"\nopen = ["reads", "shell", "opaque"]\n')
    assert "E_TOOL_GUARDED" in (reason(asked(workspace)) or "")
    (workspace.path / "ordain.toml").unlink()
    assert "E_TOOL_GUARDED" in (reason(asked(workspace)) or "")


def test_the_directory_that_governs_is_asked_wherever_the_agent_stands(workspace: Workspace) -> None:
    workspace.trust(ENFORCE)
    beneath = workspace.path / "a/b"
    (beneath / ".git").mkdir(parents=True)
    assert "E_TOOL_GUARDED" in (reason(asked(workspace, cwd=str(beneath))) or "")
    assert "E_TOOL_GUARDED" in (reason(asked(workspace, cwd="/"), workspace=str(workspace.path)) or "")


def test_an_agent_that_leaves_the_directory_does_not_leave_the_rules(
    workspace: Workspace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    workspace.trust(ENFORCE)
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    monkeypatch.setenv("CLAUDE_PROJECT_DIR", str(workspace.path))
    assert "E_TOOL_GUARDED" in (reason(asked(workspace, cwd=str(elsewhere))) or "")
    monkeypatch.setenv("CLAUDE_PROJECT_DIR", str(elsewhere))
    assert "E_TOOL_GUARDED" in (reason(asked(workspace)) or ""), "nor by saying that it was started elsewhere"
    workspace.trust(OBSERVE)
    before = len(sightings(workspace))
    monkeypatch.setenv("CLAUDE_PROJECT_DIR", str(workspace.path))
    assert reason(asked(workspace)) is None
    assert len(sightings(workspace)) == before + 1, "and one call is one"


def test_a_path_that_leads_to_two_places_is_held_against_both(workspace: Workspace) -> None:
    workspace.trust(ENFORCE + 'open = ["reads", "path:docs/**"]\n[policy]\ndeny = ["path:secret/**"]\n')
    (workspace.path / "secret/sub").mkdir(parents=True)
    (workspace.path / "docs").mkdir()
    (workspace.path / "docs/sub").symlink_to(workspace.path / "secret/sub")
    path = f"{workspace.path}/docs/sub/../key"
    assert "E_POLICY_DENIED" in (reason(asked(workspace, "Read", tool_input={"file_path": path})) or "")
    (workspace.path / "docs/sub").unlink()
    (workspace.path / "docs/sub").symlink_to(workspace.path.parent)
    write = asked(workspace, "Write", tool_input={"file_path": path, "content": "x"})
    assert "leads to two places" in (reason(write) or "")


@pytest.mark.parametrize("door", ["/nowhere", ".", "\udcff", "a\nb"])
def test_a_door_that_is_none_opens_nothing(workspace: Workspace, door: str, monkeypatch: pytest.MonkeyPatch) -> None:
    workspace.trust(ENFORCE)
    monkeypatch.setenv("ORDAIN_DOOR", door)
    monkeypatch.setenv("ORDAIN_DOOR_TOKEN", "made up")
    assert "E_DOOR" in (reason(asked(workspace)) or "")
    assert "E_DOOR" in (reason(asked(workspace, "Read", tool_input={"file_path": "x"})) or "")


def test_a_link_leads_where_it_leads(workspace: Workspace) -> None:
    workspace.trust(ENFORCE + 'open = ["reads", "path:docs/**"]\n')
    (workspace.path / "docs").mkdir()
    (workspace.path / "docs/link").symlink_to(workspace.path / "small.plan.md")
    (workspace.path / "docs/out").symlink_to(workspace.path.parent)

    def write(path: str) -> str | None:
        args = {"file_path": str(workspace.path / path), "content": "x"}
        return reason(asked(workspace, "Write", tool_input=args))

    assert write("docs/new.md") is None
    for path in ("docs/link", "docs/out/x", "docs/../small.plan.md"):
        assert "E_TOOL_GUARDED" in (write(path) or "")


# --- The same at a glance and in full --------------------------------------------------------------------------------

CALLS: list[tuple[str, dict[str, Any]]] = [
    ("Bash", {"command": "ls"}),
    ("Read", {"file_path": "small.plan.md"}),
    ("Read", {"file_path": "/etc/hostname"}),
    ("Write", {"file_path": "docs/x", "content": "x"}),
    ("Write", {"file_path": "/elsewhere", "content": "x"}),
    ("Grep", {"pattern": "x"}),
    ("WebFetch", {"url": "https://example.com"}),
    ("mcp__mail__send", {"to": "x"}),
    ("mcp__mail__search", {"q": "x"}),
    ("Nonsense", {"deep": [[[]]]}),
]
MAIL = '[tools.mail]\nmcp = ["mail"]\neffects = { search = "reads" }\n'
RULES = [
    ENFORCE,
    OBSERVE,
    ENFORCE + 'open = []\n[policy]\ndeny = ["path:docs/**"]\n',
    ENFORCE + 'open = ["reads", "shell", "path:docs/**"]\n' + MAIL,
    ENFORCE + 'guarded = ["shell"]\n',
]


@pytest.mark.part(of=5)
@pytest.mark.parametrize("rules", RULES)
def test_a_glance_and_an_app_answer_alike(workspace: Workspace, rules: str, monkeypatch: pytest.MonkeyPatch) -> None:
    workspace.trust(rules)
    for tool, args in CALLS:
        data = asked(workspace, tool, tool_input=args)
        at_a_glance = reason(data)
        with monkeypatch.context() as patch:
            patch.setattr(claude_hook, "quick_guard", lambda *_, **__: None)
            assert reason(data) == at_a_glance
    noted = sightings(workspace)
    bare = [(one.tool, one.code, one.about, one.refused) for one in noted]
    assert bare[::2] == bare[1::2]


WRITES = """\
# Write a note

## Steps

### 1. Write it

**tool:** write_file
**args:**
```yaml
path: note.txt
content: x
```
"""


@pytest.mark.parametrize("in_full", [False, True])
def test_a_plan_that_holds_the_call_is_pointed_at(
    workspace: Workspace, in_full: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    workspace.trust(ENFORCE)
    workspace.approved("small.plan.md")
    workspace.write("note.plan.md", WRITES)
    workspace.approved("note.plan.md")
    if in_full:
        monkeypatch.setattr(claude_hook, "quick_guard", lambda *_, **__: None)
    else:
        monkeypatch.setattr(claude_hook, "_in_full", lambda *_: pytest.fail("a glance is enough"))
    said = reason(asked(workspace, tool_input={"command": "echo one >> effects"}))
    assert said is not None and "this very call, and Ordain makes it, once" in said and "plan_commit" in said
    assert "plan_propose" not in said, "it is there already"
    other = {"file_path": str(workspace.path / "note.txt"), "content": "y"}
    assert "E_TOOL_ARGS_NOT_APPROVED" in (reason(asked(workspace, "Write", tool_input=other)) or "")
    # Of commands it says nothing: any other one is another one.
    assert "E_TOOL_GUARDED" in (reason(asked(workspace)) or "")


def test_an_approval_that_ran_out_is_none(workspace: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    workspace.trust(ENFORCE)
    workspace.approved("small.plan.md")
    later = quick.time.time_ns() + 10 * 24 * 3_600_000_000_000
    monkeypatch.setattr(quick.time, "time_ns", lambda: later)
    said = reason(asked(workspace, tool_input={"command": "echo one >> effects"}))
    assert said is not None and "this very call" not in said


def test_where_a_glance_does_not_tell_an_app_is_asked(workspace: Workspace) -> None:
    assert quick.quick_guard(str(workspace.path), exact=True) is None  # nothing is recorded here yet
    assert reason(asked(workspace)) is None  # by default it is only watched
    workspace.trust(ENFORCE)
    found = quick.quick_guard(str(workspace.path), exact=True)
    assert found is not None and found.settings.guard_mode == "enforce"
    ledger = next(Path(os.environ["ORDAIN_HOME"]).glob("workspaces/*/ledger.db"))
    ledger.chmod(0o644)
    assert quick.quick_guard(str(workspace.path), exact=True) is None
    assert "E_STATE_DIR" in (reason(asked(workspace)) or "")


def test_moving_a_directory_opens_nothing_in_it(workspace: Workspace) -> None:
    workspace.trust(ENFORCE)
    moved = workspace.path.rename(workspace.path.with_name("moved"))
    assert "E_WORKSPACE_MOVED" in (reason(asked(workspace, cwd=str(moved))) or "")
    assert "E_WORKSPACE" in (reason(asked(workspace, cwd=str(moved)), workspace=str(workspace.path)) or "")


def test_a_record_that_somebody_wrote_in_is_believed_by_nobody(workspace: Workspace) -> None:
    import apsw

    workspace.trust(ENFORCE)
    ledger = next(Path(os.environ["ORDAIN_HOME"]).glob("workspaces/*/ledger.db"))
    connection = apsw.Connection(str(ledger))
    for position, body in connection.execute("SELECT position, body FROM events").fetchall():
        loosened = bytes(body).replace(b"enforce", b"observe")
        connection.execute("UPDATE events SET body = ? WHERE position = ?", (loosened, position))
    connection.close()
    assert quick.quick_guard(str(workspace.path), exact=True) is None
    assert "E_LEDGER_BROKEN" in (reason(asked(workspace)) or "")


# --- What goes wrong -------------------------------------------------------------------------------------------------


@each(
    "data",
    [
        b"",
        b"{",
        b"[]",
        b"{}",
        b"\xff\xfe",
        b'{"hook_event_name": "PreToolUse"}',
        b'{"hook_event_name": "PreToolUse", "tool_name": 7}',
        b'{"hook_event_name": "PreToolUse", "tool_name": "Bash", "tool_input": []}',
        b'{"hook_event_name": "PreToolUse", "tool_name": "Bash", "tool_input": ' + b"[" * 100_000,
        b'{"hook_event_name": "PreToolUse", "tool_name": "' + b"x" * STDIN_MAX,
        b'{"hook_event_name": "PreToolUse", "tool_name": "Bash", "tool_name": "Read"}',
        b'{"hook_event_name": "PreToolUse", "hook_event_name": "Stop", "tool_name": "Bash"}',
        b'{"hook_event_name": "PreToolUse", "tool_name": "Bash", "tool_input": {"a": {"x": 1, "\\u0078": 2}}}',
    ],
    ids=range(13),
)
def test_what_cannot_be_read_is_refused(data: bytes) -> None:
    said = reason(data)
    assert said is not None and "could not tell" in said and len(said) <= REASON_MAX


@pytest.mark.parametrize("event", ["PostToolUse", "Stop", "UserPromptSubmit", ""])
def test_other_events_get_no_answer(event: str) -> None:
    assert reason(json.dumps({"hook_event_name": event}).encode()) is None


def test_our_own_failures_refuse_where_rules_are_enforced_and_only_there(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object) -> None:
        raise RuntimeError("out of order")

    monkeypatch.setattr(claude_hook.host_tool, "host_calls", broken)
    workspace.trust(ENFORCE)
    assert "out of order" in (reason(asked(workspace)) or "")
    workspace.trust(OBSERVE)
    assert reason(asked(workspace)) is None
    assert "E_WORKSPACE" in (reason(asked(workspace), workspace=str(workspace.path / "gone")) or "")


def test_a_note_that_cannot_be_written_changes_no_answer(workspace: Workspace) -> None:
    workspace.trust(ENFORCE)
    shelf = next(Path(os.environ["ORDAIN_HOME"]).glob("workspaces/*"))
    (shelf / "guard").write_text("in the way")
    assert "E_TOOL_GUARDED" in (reason(asked(workspace)) or "")


# --- The command -----------------------------------------------------------------------------------------------------


def hooked(workspace: Workspace, data: bytes, *words: str) -> subprocess.CompletedProcess[bytes]:
    command = [*ORDAIN, "guard", "hook", "claude-code", *words]
    return subprocess.run(command, input=data, capture_output=True, cwd=workspace.path, timeout=PATIENCE_S, check=False)


@pytest.mark.slow
def test_the_command_answers_as_the_host_wants_it_and_leaves_nothing_undone(workspace: Workspace) -> None:
    workspace.trust(ENFORCE)
    done = hooked(workspace, asked(workspace), "--workspace", str(workspace.path), "--gateway", "gw")
    decided = json.loads(done.stdout)["hookSpecificOutput"]
    assert (done.returncode, done.stderr, decided["permissionDecision"]) == (0, b"", "deny")
    eventually(lambda: refusals(workspace), "the note of the refusal")
    assert [one.code for one in refusals(workspace)] == ["E_TOOL_GUARDED"]
    done = hooked(workspace, asked(workspace, "mcp__gw__send"), "--gateway", "gw")
    assert (done.returncode, done.stdout) == (0, b"")
    done = hooked(workspace, asked(workspace, "Read", tool_input={"file_path": "x"}))
    assert (done.returncode, done.stdout) == (0, b"")


def test_an_answer_that_takes_too_long_is_no(workspace: Workspace) -> None:
    """Hosts give up after a while, and some take that for a yes."""
    code = (
        "from ordain.interfaces.hook import entry as hook_entry; hook_entry.ANSWER_S = 1; "
        "hook_entry.enter(['claude-code', '--workspace', '.'])"
    )
    command = [sys.executable, "-c", code]
    hanging = subprocess.Popen(command, stdin=subprocess.PIPE, stderr=subprocess.PIPE, cwd=workspace.path)
    with hanging:
        assert hanging.stderr is not None
        assert hanging.wait(PATIENCE_S) == 2
        assert b"could not tell within 1 s" in hanging.stderr.read()


@pytest.mark.slow
def test_words_that_are_not_understood_are_told_by_the_command_line(workspace: Workspace) -> None:
    for words in (["--nonsense", "x"], ["--workspace"]):
        done = hooked(workspace, asked(workspace), *words)
        assert done.returncode == 2 and words[0].encode() in done.stderr


def test_json_guard(workspace: Workspace) -> None:
    workspace.trust(ENFORCE)
    data = answered(workspace.ordain("guard", "hook", "claude-code", "--json", stdin=asked(workspace)))
    assert data["decision"] == "deny" and "E_TOOL_GUARDED" in data["reason"]
    read = asked(workspace, "Read", tool_input={"file_path": "small.plan.md"})
    data = answered(workspace.ordain("robot", "guard", "hook", "claude-code", stdin=read))
    assert data == {"decision": "none", "reason": ""}


def test_nothing_of_the_command_line_is_loaded_for_an_answer(workspace: Workspace) -> None:
    workspace.trust(ENFORCE)
    code = (
        "import os, sys\n"
        "from ordain.interfaces.hook import entry as hook_entry\n"
        "ours = ['ordain.' + one for one in ('assemble.workspace', 'core.run.event', 'ports.ledger', 'ports.ports')]\n"
        "heavy = ('click', 'asyncio', 'yaml', 'tempfile', *ours)\n"
        "hook_entry._end = lambda *_: print([one for one in heavy if one in sys.modules])\n"
        "os.fork = lambda: 1\n"
        "hook_entry.enter(['claude-code'])\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], input=asked(workspace), capture_output=True, cwd=workspace.path, check=True
    )
    assert done.stdout.decode().endswith("}[]\n"), done


# --- Leaving plan mode -----------------------------------------------------------------------------------------------

PROSE = "I will make it faster.\n\nFirst I look, then I change it.\n"
BARE = "# Make it faster\n\n## Steps\n\n1. Look where time goes\n2. `true`\n"


def plans(workspace: Workspace) -> list[tuple[str, str]]:
    app = open_at_terminal(workspace.path)
    found = [(line.title, line.status) for line in app.plans.all()]
    asyncio.run(app.close())
    return found


def leave(workspace: Workspace, plan: str | None) -> str | None:
    args = {"plan": plan, "planFilePath": "/home/x/.claude/plans/a.md"} if plan is not None else {}
    return reason(asked(workspace, "ExitPlanMode", tool_input=args))


def test_a_plan_with_its_contracts_is_proposed_once_and_its_approval_pointed_at(workspace: Workspace) -> None:
    workspace.trust(ENFORCE)
    for _ in range(2):
        said = leave(workspace, full.EXAMPLE)
        assert said is not None and "ordain approve " in said and "must not do its steps yourself" in said
        assert plans(workspace) == [("Greet and count", Stage.PROPOSED)]
    assert len(list((workspace.path / ".ordain/plans").glob("*.md"))) == 1
    app = open_at_terminal(workspace.path)
    (line,) = app.plans.all()
    proposals = [one for one in app.plans.log(line.lineage) if type(one.event).__name__ == "PlanPrepared"]
    assert (len(proposals), line.proposer.agent) == (1, "claude-code")
    asyncio.run(app.close())


@pytest.mark.parametrize("plan", [BARE, None, ""])
def test_what_is_no_plan_yet_is_told_what_it_lacks(workspace: Workspace, plan: str | None) -> None:
    workspace.trust(ENFORCE)
    said = leave(workspace, plan)
    assert said is not None and full.EXAMPLE in said and plans(workspace) == []
    assert len(said) < REASON_MAX
    if plan == BARE:
        assert "Without a contract: `look-where-time-goes`" in said


def test_a_plan_in_prose_is_kept_as_a_note_and_holds_up_nobody(workspace: Workspace) -> None:
    workspace.trust(ENFORCE)
    data = asked(workspace, "ExitPlanMode", tool_input={"plan": PROSE})
    for _ in range(2):
        said = json.loads(answer_hook(data, Options()).text)["hookSpecificOutput"]
        assert said.keys() == {"hookEventName", "additionalContext"}, "nothing is decided"
        assert "plan_propose" in said["additionalContext"] and full.EXAMPLE in said["additionalContext"]
    shown = workspace.ordain("inbox", "--verbose").out
    assert "I will make it faster." in shown and "First I look, then I change it." in shown and plans(workspace) == []
    (note,) = json.loads(workspace.ordain("inbox", "--json").out)["data"]["notes"]
    assert (note["agent"], note["text"]) == ("claude-code", PROSE)
    assert "note" not in workspace.ordain("inbox", "--dismiss", note["note_id"]).out
    assert "E_PLAN_NOT_FOUND" in repr(workspace.ordain("inbox", "--dismiss", "../x"))


def test_the_newest_notes_are_kept(workspace: Workspace) -> None:
    workspace.trust(ENFORCE)
    app = open_at_terminal(workspace.path)
    for number in range(25):
        asyncio.run(app.guard.keep_note(f"Plan {number}", KIM))
    kept = app.plans.notes()
    asyncio.run(app.close())
    assert len(kept) == 20


@pytest.mark.parametrize("out", ["/dev/full", None])
def test_an_answer_that_cannot_be_written_refuses(workspace: Workspace, out: str | None) -> None:
    workspace.trust(ENFORCE)
    code = "import os, sys; sys.argv or 0\nfrom ordain.interfaces.hook import entry\n"
    code += "os.close(1)\n" if out is None else f"os.dup2(os.open({out!r}, os.O_WRONLY), 1)\n"
    done = subprocess.run(
        [sys.executable, "-c", f"{code}entry.enter(['claude-code'])"],
        input=asked(workspace, tool_input={"command": "rm -rf x"}),
        capture_output=True,
        cwd=workspace.path,
        check=False,
    )
    assert (done.returncode, done.stdout) == (2, b"") and done.stderr


def test_observed_it_proposes_and_blocks_nobody(workspace: Workspace) -> None:
    workspace.trust(OBSERVE)
    assert leave(workspace, PROSE) is None and plans(workspace) == []
    assert leave(workspace, full.EXAMPLE) is None
    assert plans(workspace) == [("Greet and count", Stage.PROPOSED)]


def test_a_plan_that_was_rejected_is_told_why(workspace: Workspace) -> None:
    workspace.trust(ENFORCE)
    leave(workspace, full.EXAMPLE)
    app = open_at_terminal(workspace.path)
    asyncio.run(app.plans.reject(app.plans.all()[0].plan_id, KIM, "Greet in French."))
    asyncio.run(app.close())
    said = leave(workspace, full.EXAMPLE)
    assert said is not None and "E_PLAN_REJECTED" in said and "Greet in French." in said


def test_the_notes_that_the_host_keeps_of_plans_can_be_written(workspace: Workspace) -> None:
    workspace.trust(ENFORCE)
    note = workspace.path.parent / "home/.claude/plans/brave-fox.md"
    assert reason(asked(workspace, "Write", tool_input={"file_path": str(note), "content": "x"})) is None


# --- Where the record is not, or the file is not trusted --------------------------------------------------------------


def test_without_the_state_that_the_settings_name_calls_are_refused_and_none_is_made(
    workspace: Workspace, tmp_path: Path
) -> None:
    workspace.trust(ENFORCE)
    gone = tmp_path / "gone"
    said = reason(asked(workspace), state=str(gone))
    assert said is not None and said.startswith("E_STATE_DIR") and str(gone) in said and not gone.exists()
    done = subprocess.run(
        [*ORDAIN, "guard", "hook", "claude-code", "--state", str(gone)],
        input=asked(workspace),
        capture_output=True,
        timeout=PATIENCE_S,
    )
    assert b"E_STATE_DIR" in done.stdout and not gone.exists()


def test_everybodys_settings_mean_the_home_of_whoever_runs_the_hook_by_the_systems_word(
    workspace: Workspace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise a project could set HOME, or be asked about with the state of whoever administers the machine."""
    home = tmp_path / "people/kim"
    (home / "state").mkdir(parents=True, mode=0o700)
    monkeypatch.setenv("ORDAIN_HOME", str(home / "state"))
    workspace.trust(ENFORCE)
    monkeypatch.setattr(claude_hook.pwd, "getpwuid", lambda uid: type("P", (), {"pw_dir": str(home), "pw_name": "k"}))
    monkeypatch.setenv("ORDAIN_HOME", str(tmp_path / "elsewhere"))
    monkeypatch.setenv("HOME", str(tmp_path / "elsewhere"))
    assert "E_TOOL_GUARDED" in (reason(asked(workspace), state="~/state") or "")


def test_a_file_that_says_enforce_and_is_not_trusted_is_told_of(workspace: Workspace) -> None:
    workspace.write("ordain.toml", ENFORCE)
    assert reason(asked(workspace)) is None
    for verb in ("status", "inbox"):
        done = workspace.ordain(verb)
        assert "W_CONFIG_UNTRUSTED" in done.err and "only watched" in done.err and "ordain trust" in done.err
        document = json.loads(workspace.ordain(verb, "--json").out)
        assert [one["code"] for one in document["problems"]] == ["W_CONFIG_UNTRUSTED"]
    done = workspace.ordain("mcp", "--gateway")
    assert "W_CONFIG_UNTRUSTED" in done.err and "only watched" in done.err and "ordain trust" in done.err
    workspace.trust(ENFORCE)
    assert "W_CONFIG_UNTRUSTED" not in workspace.ordain("status").err


@pytest.mark.slow
def test_what_keeps_the_gateway_from_serving_is_told_to_its_client(workspace: Workspace) -> None:
    workspace.trust(ENFORCE)
    state = Path(os.environ["ORDAIN_HOME"])
    state.chmod(0o755)
    asking = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {}}
    done = subprocess.run(
        [*ORDAIN, "mcp", "--gateway"],
        input=json.dumps(asking).encode() + b"\n",
        capture_output=True,
        cwd=workspace.path,
        timeout=PATIENCE_S,
    )
    state.chmod(0o700)
    answer = json.loads(done.stdout)
    assert answer["id"] == 1 and f"chmod 700 {state}" in answer["error"]["message"]
    assert (done.returncode, b"E_STATE_DIR" in done.stderr) == (2, True)


def test_trusting_asks_nothing_where_the_answer_could_not_be_kept(workspace: Workspace) -> None:
    workspace.write("ordain.toml", ENFORCE)
    state = Path(os.environ["ORDAIN_HOME"])
    state.mkdir(exist_ok=True)
    state.chmod(0o755)
    done = workspace.at_terminal("trust")
    state.chmod(0o700)
    assert (done.status, "E_STATE_DIR" in done.out, "Type yes" in done.out) == (2, True, False)
